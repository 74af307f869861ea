"""Problems on the loss of a classifier: cross-entropy, perplexity, accuracy and the softmax."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from workings.errors import UserError
from workings.languages import gettext, gettext_noop
from workings.problems.elementwise import (
    AxisSum,
    Exponential,
    make_difference,
    make_factors,
    make_product,
)
from workings.problems.intervals import Bools, Floats, IntervalMatrix, select_cells
from workings.problems.kinds.base import Kind, Setting, Sizes, Step
from workings.problems.notation import Notation
from workings.problems.ops import (
    Copy,
    Env,
    Linear,
    MistakeOption,
    Normalization,
    Op,
    Terms,
    UnaryOp,
    format_symbol,
)
from workings.problems.options import make_choice, make_number

LOGARITHMS = {math.e: "ln", 2.0: "log2", 10.0: "log10"}


@dataclass(frozen=True)
class OneHot(UnaryOp):
    """A row for each class index, counted from 1: a one in the column of the class.

    `shift` is for the mistake of counting the classes from another number.
    """

    reads_classes: ClassVar[bool] = True
    num_classes: int
    shift: int = 0

    def compute(self, env: Env) -> IntervalMatrix:
        indexes = env[self.x].mid[0]
        for index in indexes:
            if index != int(index) or not 1 <= index <= self.num_classes:
                raise UserError(
                    f"given.{self.x}: {index:g} is no class: expected a whole number"
                    f" from 1 to {self.num_classes}"
                )
        # A class that the mistake shifts out of the table has no column.
        columns = indexes[:, None] - 1 + self.shift
        return IntervalMatrix.exact(np.where(columns == np.arange(self.num_classes), 1.0, 0.0))

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply("onehot", format_symbol(n, self.x))


@dataclass(frozen=True)
class LabelSmoothing(UnaryOp):
    """`kept · y + amount / num_shares`: a part of each row is shared among all classes."""

    kept: float
    amount: float
    num_shares: int

    def compute(self, env: Env) -> IntervalMatrix:
        share = IntervalMatrix.exact(self.amount / self.num_shares)
        return env[self.x] * IntervalMatrix.exact(self.kept) + share

    def _format(self, n: Notation, x: str) -> str:
        share = n.fraction(n.number(self.amount), n.number(self.num_shares))
        return n.total([n.product(n.number(self.kept), x), share])

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return self._format(n, format_symbol(n, self.x))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        return self._format(n, n.factor(float(env[self.x].mid[i, j])))

    def terms(self, env: Env, i: int, j: int) -> Terms:
        share = self.amount / self.num_shares
        return Terms([(self.kept, float(env[self.x].mid[i, j])), (share,)])


@dataclass(frozen=True)
class CrossEntropy(Op):
    """`−Σ y ln p` of each row; classes with y = 0 do not count."""

    probabilities: str
    targets: str
    # The remaining fields describe mistakes.
    base: float = math.e
    is_negative: bool = True
    all_classes: bool = False  # every class counts, whatever its target

    failure: ClassVar[str] = "takes the logarithm of a number that is not positive"

    def _compute(self, env: Env, unit: float) -> IntervalMatrix:
        y, scale = env[self.targets], math.log(self.base)
        y = IntervalMatrix.exact(np.ones(y.shape)) if self.all_classes else y
        logs = env[self.probabilities].apply_monotonic(lambda v: np.log(v) / scale).round_to(unit)
        terms = logs.where(y.mid != 0, 0.0) * y
        total = terms @ IntervalMatrix.exact(np.ones((y.shape[1], 1)))
        return -total if self.is_negative else total

    def compute(self, env: Env) -> IntervalMatrix:
        return self._compute(env, 0.0)

    def compute_rounded(self, env: Env, unit: float) -> IntervalMatrix:
        return self._compute(env, unit)

    def formula(self, n: Notation, column_vectors: bool) -> str:
        log = n.apply(LOGARITHMS[self.base], format_symbol(n, self.probabilities))
        function = "colsum" if column_vectors else "rowsum"
        total = n.apply(function, n.elementwise(format_symbol(n, self.targets), log))
        return n.minus(total) if self.is_negative else total

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:  # noqa: ARG002
        terms = []
        for y, p in zip(env[self.targets].mid[i], env[self.probabilities].mid[i], strict=True):
            if y:
                log = n.apply(LOGARITHMS[self.base], n.number(float(p)))
                terms.append(log if y == 1 else n.product(n.factor(float(y)), log))
        total = n.total(terms) if terms else n.number(0)
        if not self.is_negative:
            return total
        return n.minus(total if len(terms) == 1 else n.row("(", total, ")"))

    def sources(self) -> tuple[str, ...]:
        return (self.probabilities, self.targets)


@dataclass(frozen=True)
class SquaredError(Op):
    """`Σ (p − y)²` of each row, for the mistake of taking another loss."""

    probabilities: str
    targets: str

    def compute(self, env: Env) -> IntervalMatrix:
        distance = env[self.probabilities] - env[self.targets]
        squares = distance.apply_piecewise_monotonic(np.square, 0.0)
        return squares @ IntervalMatrix.exact(np.ones((squares.shape[1], 1)))

    def formula(self, n: Notation, column_vectors: bool) -> str:
        symbols = (format_symbol(n, self.probabilities), "−", format_symbol(n, self.targets))
        square = n.power(n.row("(", *symbols, ")"), n.number(2))
        return n.apply("colsum" if column_vectors else "rowsum", square)

    def sources(self) -> tuple[str, ...]:
        return (self.probabilities, self.targets)


@dataclass(frozen=True)
class Prediction(UnaryOp):
    """The index, from 1, of the largest number of each row."""

    # The fields describe mistakes.
    takes_smallest: bool = False
    first: int = 1

    def _find_candidates(self, env: Env) -> tuple[IntervalMatrix, Bools]:
        """Return the numbers and which of them may be the largest of their row."""
        x = -env[self.x] if self.takes_smallest else env[self.x]
        return x, x.hi >= x.lo.max(1, keepdims=True)

    def compute(self, env: Env) -> IntervalMatrix:
        x, may_win = self._find_candidates(env)
        mid = x.mid.argmax(1)[:, None].astype(np.float64)
        first, last = may_win.argmax(1), x.shape[1] - 1 - may_win[:, ::-1].argmax(1)
        lo, hi = (np.asarray(end, dtype=np.float64)[:, None] for end in (first, last))
        tainted: Bools = np.any(x.tainted, axis=1, keepdims=True)
        mid, lo, hi = (end + self.first for end in (mid, np.minimum(lo, mid), np.maximum(hi, mid)))
        return IntervalMatrix(mid, lo, hi, tainted)

    def close_gaps(self, matrix: IntervalMatrix, env: Env, claimed: Floats) -> IntervalMatrix:
        _, may_win = self._find_candidates(env)
        columns = np.arange(may_win.shape[1]) + self.first
        is_possible = ((claimed == columns) & may_win).any(1, keepdims=True)
        value = np.where(is_possible, claimed, matrix.mid)
        return IntervalMatrix(matrix.mid, value, value, matrix.tainted)

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply("argmax", format_symbol(n, self.x))


@dataclass(frozen=True)
class Accuracy(Op):
    """The share of predictions that are the class with the largest target."""

    predictions: str
    targets: str
    # The remaining fields describe mistakes.
    is_count: bool = False
    is_error_rate: bool = False

    def compute(self, env: Env) -> IntervalMatrix:
        classes = env[self.targets].mid.argmax(1)[:, None] + 1
        predictions = env[self.predictions]
        may_hit = (predictions.lo <= classes) & (classes <= predictions.hi)
        must_hit = may_hit & (predictions.lo == predictions.hi)
        ends = [hit.sum() for hit in (predictions.mid == classes, must_hit, may_hit)]
        if self.is_error_rate:
            ends = [len(classes) - ends[k] for k in (0, 2, 1)]
        mid, lo, hi = (np.array([[end]]) / (1 if self.is_count else len(classes)) for end in ends)
        return IntervalMatrix(mid, lo, hi, np.array([[bool(predictions.tainted.any())]]))

    def close_gaps(self, matrix: IntervalMatrix, env: Env, claimed: Floats) -> IntervalMatrix:
        count = 1 if self.is_count else env[self.predictions].shape[0]
        nearest = np.round(np.where(np.isfinite(claimed), claimed, 0) * count) / count
        nearest = np.clip(nearest, matrix.lo, matrix.hi)
        return IntervalMatrix(matrix.mid, nearest, nearest, matrix.tainted)

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        classes = n.apply("argmax", format_symbol(n, self.targets))
        return n.apply("mean", n.row(format_symbol(n, self.predictions), "=", classes))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        share, count = float(self.compute(env).mid[i, j]), env[self.predictions].shape[0]
        return n.fraction(n.number(round(share * count)), n.number(count))

    def sources(self) -> tuple[str, ...]:
        return (self.predictions, self.targets)


def require_one(sizes: Sizes, kind: str, *names: str) -> str:
    """Return the one of several givens that is present."""
    present = [name for name in names if name in sizes]
    if not present:
        raise UserError(f"given.{names[0]} is missing: kind {kind} needs {' or '.join(names)}")
    if len(present) > 1:
        raise UserError(f"given has both {' and '.join(present)}: give one of them")
    return present[0]


def _build_cross_entropy_steps(sizes: Sizes, setting: Setting) -> list[Step]:
    source = require_one(sizes, "cross_entropy", "logits", "probabilities")
    steps = [
        Step(
            "probabilities",
            Normalization("logits") if source == "logits" else Copy("given.probabilities"),
            is_shown=source == "logits",
        ),
        *build_target_steps(sizes, setting, "cross_entropy"),
        *build_loss_steps(sizes, setting),
        _build_perplexity_step(sizes, setting),
        Step("predictions", Prediction("probabilities"), mistakes=_PREDICTION_MISTAKES),
        Step(
            "accuracy",
            Accuracy("predictions", "Y"),
            row_axis="",
            mistakes=_list_accuracy_mistakes(),
        ),
    ]
    if source == "logits":
        steps.append(build_logit_gradient_step(sizes, setting))
    return steps


_PREDICTION_MISTAKES: tuple[MistakeOption, ...] = (
    (
        "smallest-for-largest",
        Prediction("probabilities", takes_smallest=True),
        gettext_noop("took the class with the smallest probability"),
    ),
    (
        "class-index-off-by-one",
        Prediction("probabilities", first=0),
        gettext_noop("counted the classes from 0, not from 1"),
    ),
)


def _list_accuracy_mistakes() -> tuple[MistakeOption, ...]:
    right = Accuracy("predictions", "Y")
    return (
        (
            "one-over-n-forgotten",
            replace(right, is_count=True),
            gettext("counted, without dividing by n"),
        ),
        (
            "error-rate-for-accuracy",
            replace(right, is_error_rate=True),
            gettext("took the share of errors"),
        ),
        (
            "error-rate-for-accuracy",
            replace(right, is_error_rate=True, is_count=True),
            gettext("counted the errors"),
        ),
    )


def _build_perplexity_step(sizes: Sizes, setting: Setting) -> Step:
    """Return the step of e to the power of the mean loss."""
    is_mean, count = setting.options["reduction"] == "mean", float(sizes["n"])
    right = Exponential("loss", 1.0 if is_mean else count)
    mistakes: list[MistakeOption] = [
        (
            "wrong-logarithm",
            replace(right, base=base),
            gettext("took {base:g}^loss, not e^loss", base=base),
        )
        for base in (2.0, 10.0)
    ]
    reciprocal = replace(right, base=1 / math.e)
    mistakes.append(("loss-not-negated", reciprocal, gettext("took e^(−loss): a probability")))
    if not is_mean:
        of_sum = replace(right, divisor=1.0)
        mistakes.append(
            (
                "one-over-n-forgotten",
                of_sum,
                gettext("did not divide the loss by {count:g}", count=count),
            )
        )
    return Step("perplexity", right, row_axis="", mistakes=tuple(mistakes))


def build_target_steps(sizes: Sizes, setting: Setting, kind: str) -> list[Step]:
    """Return the steps of the target distribution: one-hot rows Y, and Y with label smoothing."""
    num_classes, smoothing = sizes["c"], setting.options["label_smoothing"]
    smoothed = LabelSmoothing("Y", 1 - smoothing, smoothing, num_classes)
    rows: Op = Copy("given.Y")
    mistakes: tuple[MistakeOption, ...] = ()
    if require_one(sizes, kind, "targets", "Y") == "targets":
        rows = OneHot("targets", num_classes)
        mistakes = tuple(
            (
                "class-index-off-by-one",
                replace(rows, shift=shift),
                gettext("counted the classes {words}", words=words),
            )
            for shift, words in ((1, gettext("from 0, not from 1")), (-1, gettext("one too far")))
        )
    return [
        Step("Y", rows, is_shown=False, mistakes=mistakes),
        Step(
            "smoothed",
            smoothed if smoothing else Copy("Y"),
            is_shown=bool(smoothing),
            mistakes=_list_smoothing_mistakes(smoothed) if smoothing else (),
        ),
    ]


def _list_smoothing_mistakes(right: "LabelSmoothing") -> tuple[MistakeOption, ...]:
    amount, num_classes = right.amount, right.num_shares
    others = num_classes - 1
    mistakes: list[MistakeOption] = [
        ("smoothing-forgotten", Copy("Y"), gettext("left out the label smoothing")),
        (
            "smoothing-not-subtracted",
            replace(right, kept=1.0),
            gettext("did not multiply Y by {kept:g}", kept=right.kept),
        ),
        (
            "smoothing-not-shared",
            replace(right, num_shares=1),
            gettext(
                "added {amount:g} to every class, without dividing by {num_classes}",
                amount=amount,
                num_classes=num_classes,
            ),
        ),
    ]
    if others:
        mistakes.append(
            (
                "smoothing-over-other-classes",
                replace(right, kept=right.kept - amount / others, num_shares=others),
                gettext(
                    "shared {amount:g} among the other {others} classes, not among all",
                    amount=amount,
                    others=others,
                ),
            )
        )
    return tuple(mistakes)


def build_loss_steps(sizes: Sizes, setting: Setting) -> list[Step]:
    """Return the steps of the cross-entropy: of each row, and their mean or sum."""
    count, is_mean = sizes["n"], setting.options["reduction"] == "mean"
    total = AxisSum(make_factors("losses"), divisor=float(count) if is_mean else 1.0)
    mistakes: list[MistakeOption] = []
    if is_mean:
        wrong = replace(total, divisor=1.0)
        mistakes.append(
            (
                "one-over-n-forgotten",
                wrong,
                gettext("added, without dividing by {count}", count=count),
            )
        )
        by_classes = replace(total, divisor=float(sizes["c"]))
        mistakes.append(
            (
                "divided-by-classes",
                by_classes,
                gettext("divided by the {c} classes, not by n", c=sizes["c"]),
            )
        )
    else:
        mistakes.append(
            ("mean-for-sum", replace(total, divisor=float(count)), gettext("took the mean"))
        )
    return [
        Step(
            "losses",
            CrossEntropy("probabilities", "smoothed"),
            mistakes=_list_loss_mistakes(bool(setting.options["label_smoothing"])),
        ),
        Step(
            "loss",
            total if count > 1 else Copy("losses"),
            row_axis="",
            is_shown=count > 1,
            mistakes=tuple(mistakes) if count > 1 else (),
        ),
    ]


def _list_loss_mistakes(is_smoothed: bool) -> tuple[MistakeOption, ...]:
    right = CrossEntropy("probabilities", "smoothed")
    mistakes: list[MistakeOption] = [
        ("loss-not-negated", replace(right, is_negative=False), gettext("left out the minus sign")),
        (
            "wrong-logarithm",
            replace(right, base=2.0),
            gettext("used the logarithm to base 2, not ln"),
        ),
        (
            "wrong-logarithm",
            replace(right, base=10.0),
            gettext("used the logarithm to base 10, not ln"),
        ),
        (
            "logarithm-forgotten",
            AxisSum(make_factors("smoothed", "probabilities"), over_vectors=False),
            gettext("took the probability itself, without ln"),
        ),
        (
            "logarithm-forgotten",
            AxisSum((("smoothed", "none"), ("probabilities", "complement")), over_vectors=False),
            gettext("took 1 − p, not −ln p"),
        ),
        (
            "summed-over-all-classes",
            replace(right, all_classes=True),
            gettext("added −ln p of every class, not only of the target"),
        ),
        (
            "squared-error-for-cross-entropy",
            SquaredError("probabilities", "smoothed"),
            gettext("took the squared error of p and y"),
        ),
    ]
    if is_smoothed:
        plain = replace(right, targets="Y")
        mistakes.append(("smoothing-forgotten", plain, gettext("used Y without label smoothing")))
    return tuple(mistakes)


def build_logit_gradient_step(sizes: Sizes, setting: Setting) -> Step:
    """Return the step of the gradient of the loss with respect to the logits: (p − y)/n."""
    count = float(sizes["n"]) if setting.options["reduction"] == "mean" else 1.0
    right = replace(make_difference("probabilities", "smoothed"), divisor=count)
    p, y = right.products
    mistakes: list[MistakeOption] = [
        (
            "p-minus-y-reversed",
            replace(right, products=((1.0, y[1]), (-1.0, p[1]))),
            gettext("took y − p"),
        ),
        (
            "target-not-subtracted",
            replace(right, products=(p,)),
            gettext("took p, without subtracting y"),
        ),
        (
            "logits-for-probabilities",
            replace(right, products=((1.0, make_factors("logits")), y)),
            gettext("subtracted y from the logits, not from their softmax"),
        ),
        (
            "slope-applied-twice",
            replace(
                right,
                products=tuple(
                    (sign, (*factors, ("probabilities", "slope of sigmoid")))
                    for sign, factors in right.products
                ),
            ),
            gettext("multiplied p − y by p (1 − p), which it includes already"),
        ),
    ]
    if count != 1:
        mistakes += [
            (
                "one-over-n-forgotten",
                replace(right, divisor=1.0),
                gettext("did not divide by {count:g}", count=count),
            ),
            (
                "divided-by-classes",
                replace(right, divisor=float(sizes["c"])),
                gettext(
                    "divided by the {c} classes, not by the {count:g} rows",
                    c=sizes["c"],
                    count=count,
                ),
            ),
        ]
    if setting.options["label_smoothing"]:
        plain = replace(make_difference("probabilities", "Y"), divisor=count)
        mistakes.append(("smoothing-forgotten", plain, gettext("used Y without label smoothing")))
    return Step("dlogits", right, mistakes=tuple(mistakes))


@dataclass(frozen=True)
class SoftmaxJacobian(UnaryOp):
    """`diag(p) − pᵀ p` of a row p: how each probability changes with each logit.

    The signs describe mistakes: of p in the diagonal, and of the products in and off the diagonal.
    """

    diagonal: float = 1.0
    inside: float = -1.0
    outside: float = -1.0

    def compute(self, env: Env) -> IntervalMatrix:
        p = env[self.x]
        eye = np.eye(p.shape[1])
        signs = IntervalMatrix.exact(self.inside * eye + self.outside * (1 - eye))
        # In the diagonal, p − p² and not p − p·p, whose range would be wider.
        inside = p.apply_piecewise_monotonic(self._compute_diagonal, 0.5)
        products = p.T * p * signs
        return select_cells(eye > 0, _broadcast(inside, p.shape[1]), products)

    def _compute_diagonal(self, p: Floats) -> Floats:
        return self.diagonal * p + self.inside * p * p

    def formula(self, n: Notation, column_vectors: bool) -> str:
        p = format_symbol(n, self.x)
        factors = (p, n.transpose(p)) if column_vectors else (n.transpose(p), p)
        return n.row(n.apply("diag", p), "−", n.matrix_product(*factors))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        row = env[self.x].mid[0]
        own, other = n.factor(float(row[i])), n.factor(float(row[j]))
        if i == j:
            return n.row(own, "−", n.power(own, n.number(2)))
        return n.minus(n.product(own, other))


def _broadcast(row: IntervalMatrix, count: int) -> IntervalMatrix:
    return row.rearrange(lambda a: np.repeat(a, count, axis=0))


def _build_jacobian_steps(sizes: Sizes, setting: Setting) -> list[Step]:  # noqa: ARG001
    jacobian = SoftmaxJacobian("probabilities")
    has_logits = require_one(sizes, "softmax_jacobian", "logits", "probabilities") == "logits"
    softmax = Normalization("logits") if has_logits else Copy("given.probabilities")
    steps = [
        Step("probabilities", softmax, row_axis="", is_shown=has_logits),
        Step(
            "jacobian",
            jacobian,
            row_axis="",
            mistakes=(
                (
                    "off-diagonal-forgotten",
                    replace(jacobian, outside=0.0),
                    gettext("took p (1 − p) in the diagonal and zero elsewhere"),
                ),
                (
                    "off-diagonal-sign",
                    replace(jacobian, outside=1.0),
                    gettext("took p_i p_j off the diagonal, not −p_i p_j"),
                ),
                (
                    "diagonal-forgotten",
                    replace(jacobian, diagonal=0.0),
                    gettext("took −p_i p_j in the diagonal, too, without adding p_i"),
                ),
                (
                    "square-forgotten",
                    replace(jacobian, inside=0.0),
                    gettext("took p_i in the diagonal, without subtracting p_i²"),
                ),
                (
                    "jacobian-reversed",
                    SoftmaxJacobian("probabilities", -1.0, 1.0, 1.0),
                    gettext("subtracted in the other order: every sign is reversed"),
                ),
                *(
                    (
                        (
                            "logits-for-probabilities",
                            replace(jacobian, x="logits"),
                            gettext("used the logits, not their softmax"),
                        ),
                    )
                    if has_logits
                    else ()
                ),
            ),
        ),
    ]
    if "dprobabilities" in sizes:
        upstream = "dprobabilities"
        steps.append(
            Step(
                "dlogits",
                Linear(((upstream, "jacobian"),)),
                row_axis="",
                mistakes=(
                    (
                        "jacobian-forgotten",
                        Copy(upstream),
                        gettext("did not multiply by the Jacobian"),
                    ),
                    (
                        "off-diagonal-forgotten",
                        make_product(upstream, ("probabilities", "slope of sigmoid")),
                        gettext("multiplied by the diagonal only: p (1 − p)"),
                    ),
                    (
                        "row-sum-not-subtracted",
                        make_product(upstream, "probabilities"),
                        gettext("multiplied by p, without subtracting the weighted sum"),
                    ),
                    (
                        "probabilities-for-upstream",
                        Linear((("probabilities", "jacobian"),)),
                        gettext("multiplied the Jacobian by p, not by the upstream gradient"),
                    ),
                ),
            )
        )
    return steps


CLASSIFICATION_MATRICES = {"targets": ("1", "n"), "Y": ("n", "c")}
LOSS_OPTIONS = {
    "label_smoothing": make_number(0.0, 0.0, 1.0),
    "reduction": make_choice("mean", "sum"),
}

CROSS_ENTROPY = Kind(
    name="cross_entropy",
    matrices={"logits": ("n", "c"), "probabilities": ("n", "c"), **CLASSIFICATION_MATRICES},
    required=(),
    settings=(),
    options=LOSS_OPTIONS,
    build=_build_cross_entropy_steps,
)
SOFTMAX_JACOBIAN = Kind(
    name="softmax_jacobian",
    matrices=dict.fromkeys(("logits", "probabilities", "dprobabilities"), ("1", "c")),
    required=(),
    settings=(),
    build=_build_jacobian_steps,
)
