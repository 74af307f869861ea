"""Problems on sampling from a distribution and on the probability of a given sentence."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from workings.errors import UserError
from workings.languages import gettext
from workings.problems.intervals import Floats, IntervalMatrix
from workings.problems.kinds.base import Kind, Setting, Sizes, Step
from workings.problems.labels import read_label
from workings.problems.notation import Notation
from workings.problems.ops import (
    Copy,
    Env,
    MistakeOption,
    Normalization,
    Op,
    Scaling,
    Terms,
    UnaryOp,
    format_symbol,
)
from workings.problems.options import Option, make_choice, make_count, make_number, make_words
from workings.problems.selection import (
    Argmax,
    CumulativeSum,
    Renormalization,
    RowSum,
    Sorted,
    TopK,
    TopP,
)
from workings.problems.spellings import find_choice

if TYPE_CHECKING:
    from workings.problems.problem import Problem

_SUM_TOLERANCE = 1e-6
_BASES = {"e": math.e, "2": 2.0, "10": 10.0}
_BASE_NAMES = {"e": "ln", "2": "log2", "10": "log10"}


def check_distributions(given: Mapping[str, IntervalMatrix], *names: str) -> None:
    """Raise a UserError if a row of these givens is no probability distribution."""
    for name in names:
        if name not in given:
            continue
        rows = given[name].mid
        if (rows < 0).any():
            raise UserError(f"given.{name}: a probability must not be negative")
        sums = rows.sum(1)
        for k in np.flatnonzero(np.abs(sums - 1) > _SUM_TOLERANCE).tolist():
            raise UserError(
                f"given.{name}: the probabilities of vector {k + 1} add up to {sums[k]:.6g}:"
                " it must be 1"
            )


def get_labels(setting: Setting, count: int) -> tuple[str, ...]:
    """Return the names of the tokens, or their numbers if they have none."""
    labels = setting.tokens or tuple(str(k + 1) for k in range(count))
    if len(set(labels)) < len(labels):
        raise UserError("tokens: two tokens have the same name")
    return labels


def _build_sampling_steps(sizes: Sizes, setting: Setting) -> list[Step]:
    options = setting.options
    temperature, top_k, top_p = (options[name] for name in ("temperature", "top_k", "top_p"))
    if ("p" in sizes) == ("logits" in sizes):
        raise UserError("given needs either p, the probabilities, or logits")
    steps = []
    if "logits" in sizes:
        scaling: Op = Copy("logits") if temperature == 1 else _Temperature("logits", temperature)
        steps.append(_row_step("scaled", scaling, is_shown=temperature != 1))
        steps.append(_row_step("probabilities", Normalization("scaled")))
    elif temperature != 1:
        raise UserError("temperature divides logits: give logits in place of p")
    else:
        steps.append(_row_step("probabilities", Copy("p"), is_shown=False))
    last = "probabilities"
    if top_k is not None:
        if top_k > sizes["n"]:
            raise UserError(f"top_k = {top_k}, but there are {sizes['n']} tokens")
        steps.append(_row_step("top_k.kept", TopK(last, top_k)))
        steps += _build_renormalization("top_k", last)
        last = "top_k.renormalized"
    if top_p is not None:
        steps += [
            _row_step("top_p.sorted", Sorted(last), axis=""),
            _row_step("top_p.cumulative", CumulativeSum("top_p.sorted"), axis=""),
            _row_step("top_p.kept", TopP(last, "top_p.cumulative", top_p)),
        ]
        steps += _build_renormalization("top_p", last)
        last = "top_p.renormalized"
    labels = get_labels(setting, sizes["n"])
    return [*steps, Step("chosen", Argmax(last), row_axis="", labels=labels)]


def _row_step(name: str, op: Op, *, axis: str = "tokens", is_shown: bool = True) -> Step:
    return Step(name, op, row_axis="", column_axis=axis, is_shown=is_shown)


def _build_renormalization(prefix: str, original: str) -> list[Step]:
    kept, total = f"{prefix}.kept", f"{prefix}.total"
    return [
        Step(total, RowSum(kept), row_axis=""),
        _row_step(f"{prefix}.renormalized", Renormalization(kept, total, original)),
    ]


@dataclass(frozen=True)
class _Temperature(Scaling):
    """Logits divided by the temperature."""

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        yield "temperature-forgotten", Copy(self.x), gettext("did not divide by the temperature")
        multiplied = replace(self, multiplies=True)
        yield "multiplied-by-temperature", multiplied, gettext("multiplied by the temperature")


# -- the probability of a sentence -----------------------------------------------------------------


@dataclass(frozen=True)
class PickedCells(Op):
    """Single cells of matrices side by side: the probability of each word of a sentence."""

    cells: tuple[tuple[str, int, int], ...]  # matrix, row, column
    words: tuple[str, ...]

    def compute(self, env: Env) -> IntervalMatrix:
        def pick(end: str) -> Floats:
            return np.array([[getattr(env[key], end)[i, j] for key, i, j in self.cells]])

        tainted = np.array([[bool(env[key].tainted[i, j]) for key, i, j in self.cells]])
        return IntervalMatrix(pick("mid"), pick("lo"), pick("hi"), tainted)

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply("P", n.word(gettext("word | words before")))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:  # noqa: ARG002
        before = self.words[j - 1] if j else ""
        condition = f"{self.words[j]} | {before}" if before else self.words[j]
        return n.apply("P", n.word(condition))

    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(key for key, _, _ in self.cells))

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        square = [key == "P" for key, _, _ in self.cells]
        if any(square):
            reversed_cells = tuple(
                (key, j, i) if is_square else (key, i, j)
                for (key, i, j), is_square in zip(self.cells, square, strict=True)
            )
            wrong = replace(self, cells=reversed_cells)
            yield (
                "conditional-reversed",
                wrong,
                gettext("took P(before | word), not P(word | before)"),
            )
            yield (
                "own-prediction-fed",
                replace(self, cells=self._feed_predictions(problem)),
                gettext("went on from the likeliest word, not from the word of the sentence"),
            )
        if all(key == "table" for key, _, _ in self.cells):
            first = tuple((key, 0, j) for key, _, j in self.cells)
            yield (
                "first-row-used",
                replace(self, cells=first),
                gettext("read every word in the first row"),
            )

    def _feed_predictions(self, problem: "Problem") -> tuple[tuple[str, int, int], ...]:
        """Return the cells that are read if the model's own best words are fed back."""
        cells, before = [], None
        for key, i, j in self.cells:
            row = i if before is None or key != "P" else before
            cells.append((key, row, j))
            before = int(problem.given[key].mid[row].argmax())
        return tuple(cells)


@dataclass(frozen=True)
class Logarithm(UnaryOp):
    """The logarithm of each cell; −∞ of a zero."""

    failure: ClassVar[str] = "takes the logarithm of zero"
    base: str

    def compute(self, env: Env) -> IntervalMatrix:
        factor = math.log(_BASES[self.base])

        def take(values: Floats) -> Floats:
            logarithms: Floats = np.log(np.maximum(values, 0)) / factor
            return logarithms

        return env[self.x].apply_monotonic(take)

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply(_BASE_NAMES[self.base], format_symbol(n, self.x))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        return n.apply(_BASE_NAMES[self.base], n.number(float(env[self.x].mid[i, j])))

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        for base, name in _BASE_NAMES.items():
            if base != self.base:
                yield "wrong-logarithm", replace(self, base=base), gettext("took {name}", name=name)
        yield "logarithm-sign-lost", _Negative(self), gettext("left out the minus sign")


@dataclass(frozen=True)
class _Negative(Op):
    """The result of another operation with the other sign."""

    op: Op

    def compute(self, env: Env) -> IntervalMatrix:
        return -self.op.compute(env)

    def formula(self, n: Notation, column_vectors: bool) -> str:
        return n.row("−", self.op.formula(n, column_vectors))

    def sources(self) -> tuple[str, ...]:
        return self.op.sources()


@dataclass(frozen=True)
class RowTotal(UnaryOp):
    """The sum or product of a row; `skip` leaves out its first or last cells by mistake."""

    function: str = "sum"  # sum, product; by mistake mean
    first: int = 0
    last: int = 0

    def compute(self, env: Env) -> IntervalMatrix:
        row = env[self.x]
        width = row.shape[1] - self.last
        if width <= self.first:
            raise ValueError("nothing is left of the row")
        row = row.slice_columns(self.first, width)
        if self.function != "product":
            total = row @ IntervalMatrix.exact(np.ones((row.shape[1], 1)))
            count = float(row.shape[1] if self.function == "mean" else 1)
            return total / IntervalMatrix.exact(count)
        product = row.slice_columns(0, 1)
        for k in range(1, row.shape[1]):
            product = product * row.slice_columns(k, k + 1)
        return product

    def compute_rounded(self, env: Env, unit: float) -> IntervalMatrix:
        exact = self.compute(env)
        if self.function != "product":
            return exact
        slack = unit * env[self.x].shape[1]  # every partial product may be rounded
        return replace(exact, lo=exact.lo - slack, hi=exact.hi + slack)

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply(self.function, format_symbol(n, self.x))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:  # noqa: ARG002
        numbers = [n.factor(float(v)) for v in env[self.x].mid[i]]
        return n.product(*numbers) if self.function == "product" else n.total(numbers)

    def terms(self, env: Env, i: int, j: int) -> Terms | None:  # noqa: ARG002
        values = [float(v) for v in env[self.x].mid[i]]
        return Terms([(v,) for v in values]) if self.function == "sum" else None

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        if self.function == "product":
            total = replace(self, function="sum")
            yield "sum-for-product", total, gettext("added the probabilities")
        else:
            yield (
                "mean-for-sum",
                replace(self, function="mean"),
                gettext("divided by the number of words"),
            )
            product = replace(self, function="product")
            yield "logarithms-multiplied", product, gettext("multiplied the logarithms")
        yield "first-word-left-out", replace(self, first=1), gettext("left out the first word")
        yield "last-word-left-out", replace(self, last=1), gettext("left out the last word")


@dataclass(frozen=True)
class Perplexity(UnaryOp):
    """`base^(−x / count)` of a log probability."""

    count: int
    base: str
    sign: int = -1  # 1 by mistake

    def compute(self, env: Env) -> IntervalMatrix:
        base, scale = _BASES[self.base], self.sign / self.count
        matrix = env[self.x] * IntervalMatrix.exact(scale)
        return matrix.apply_monotonic(lambda v: np.power(base, v))

    def compute_rounded(self, env: Env, unit: float) -> IntervalMatrix:
        exact, slack = self.compute(env), _BASES[self.base] ** unit
        return replace(exact, lo=exact.lo / slack, hi=exact.hi * slack)

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return self._format(n, format_symbol(n, self.x))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        return self._format(n, n.factor(float(env[self.x].mid[i, j])))

    def _format(self, n: Notation, x: str) -> str:
        base = n.symbol("e") if self.base == "e" else n.number(int(self.base))
        exponent = n.row("−", n.fraction(x, n.number(self.count)))
        return n.power(base, n.row("(", exponent, ")"))

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        if self.count > 1:
            yield (
                "not-averaged",
                replace(self, count=1),
                gettext("did not divide by the number of words"),
            )
            fewer = replace(self, count=self.count - 1)
            yield "off-by-one", fewer, gettext("divided by {count} words", count=self.count - 1)
        yield (
            "off-by-one",
            replace(self, count=self.count + 1),
            gettext("divided by {count} words", count=self.count + 1),
        )
        yield "exponent-sign-lost", replace(self, sign=1), gettext("left out the minus sign")
        for base in _BASES:
            if base != self.base:
                yield (
                    "wrong-logarithm",
                    replace(self, base=base),
                    gettext("took powers of {base}", base=base),
                )


def find_tokens(where: str, words: tuple[str, ...], labels: tuple[str, ...]) -> list[int]:
    """Return the places of words in the vocabulary, from 0."""
    numbers = [read_label(word, where, labels) for word in words]
    if any(number is None for number in numbers):
        raise UserError(f"{where}: '?' is not a token")
    return [int(number.value) - 1 for number in numbers if number is not None]


Context: TypeAlias = tuple[int, ...]  # the tokens before, from 0


def rewrite_model(given: dict[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model as matrices: a table by context as rows, a start token as its row of P."""
    given = dict(given)
    if isinstance(given.get("table"), Mapping):
        contexts = given["table"]
        given |= {"contexts": list(contexts), "table": list(contexts.values())}
    start, transitions = given.get("start"), given.get("P")
    is_token = isinstance(start, int) or (isinstance(start, str) and "[" not in start)
    if not is_token or isinstance(start, bool) or not isinstance(transitions, list):
        return given
    labels = tuple(map(str, table.get("tokens") or range(1, len(transitions) + 1)))
    (row,) = find_tokens("given.start", (str(start),), labels)
    if row >= len(transitions):
        raise UserError(f"given.start: P has no row {row + 1}")
    is_column = find_choice(table.get("vectors"), ("rows", "columns")) == "columns"
    given["start"] = [cells[row] for cells in transitions] if is_column else transitions[row]
    return given


def read_contexts(sizes: Sizes, setting: Setting, labels: tuple[str, ...]) -> tuple[Context, ...]:
    """Return what stands before each row of the table; empty: each row is of a position."""
    texts = setting.options["contexts"]
    if texts is None:
        return ()
    if "table" not in sizes:
        raise UserError("contexts names the rows of a table of probabilities: give table, not P")
    if len(texts) != sizes["t"]:
        raise UserError(f"contexts has {len(texts)} texts, but {sizes.reasons['t']}: one per row")
    contexts = tuple(tuple(find_tokens("contexts", tuple(text.split()), labels)) for text in texts)
    if len(set(contexts)) < len(contexts):
        raise UserError("contexts: two rows of the table have the same context")
    if () not in contexts:
        raise UserError('contexts needs "": the row of the first token')
    return contexts


def find_context(contexts: Sequence[Context], tokens: Context) -> int:
    """Return the row for these tokens, or for the longest ending of them that has a row."""
    endings = (tokens[start:] for start in range(len(tokens) + 1))
    return next(contexts.index(ending) for ending in endings if ending in contexts)


def _parse_contexts(where: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
        raise UserError(f'{where} must be a list of texts: ["", "the", "the cat"]')
    return tuple(value)


def check_model(sizes: Sizes) -> None:
    """Raise a UserError unless the givens are a table, or a Markov model with its start."""
    if "table" in sizes:
        if "P" in sizes or "start" in sizes:
            raise UserError("given has both table and a Markov model (P, start): give one of them")
    elif "P" not in sizes:
        raise UserError("given needs a table of probabilities, or P and start of a Markov model")
    elif "start" not in sizes:
        raise UserError("given.start is missing: the probabilities of the first token")


def _build_sentence_steps(sizes: Sizes, setting: Setting) -> list[Step]:
    check_model(sizes)
    labels, base = get_labels(setting, sizes["n"]), setting.options["base"]
    tokens = find_tokens("sentence", setting.options["sentence"], labels)
    words = tuple(labels[token] for token in tokens)
    contexts = read_contexts(sizes, setting, labels)
    cells: tuple[tuple[str, int, int], ...]
    if contexts:
        cells = tuple(
            ("table", find_context(contexts, tuple(tokens[:k])), token)
            for k, token in enumerate(tokens)
        )
    elif "table" in sizes:
        if len(tokens) > sizes["t"]:
            raise UserError(
                f"sentence has {len(tokens)} words, but {sizes.reasons['t']}: one per word"
            )
        cells = tuple(("table", k, token) for k, token in enumerate(tokens))
    else:
        pairs = pairwise(tokens)
        cells = (("start", 0, tokens[0]), *(("P", before, token) for before, token in pairs))
    return [
        Step("probabilities", PickedCells(cells, words), row_axis="", column_axis=words),
        Step("logs", Logarithm("probabilities", base), row_axis="", column_axis=words),
        Step("log_probability", RowTotal("logs"), row_axis=""),
        Step("probability", RowTotal("probabilities", "product"), row_axis=""),
        Step("perplexity", Perplexity("log_probability", len(tokens), base), row_axis=""),
    ]


def label_contexts(size: str, sizes: Sizes, setting: Setting) -> tuple[str, ...]:
    """Return what stands before each row of a table: the names of its rows."""
    contexts = setting.options["contexts"] or ()
    is_table = size == "t" and sizes.sizes.get("t") == len(contexts)
    return tuple(text or gettext("start") for text in contexts) if is_table else ()


CONTEXTS = Option(None, _parse_contexts)
MODEL_MATRICES = {"P": ("n", "n"), "start": ("1", "n"), "table": ("t", "n")}
SAMPLING = Kind(
    name="sampling",
    matrices={"p": ("1", "n"), "logits": ("1", "n")},
    required=(),
    settings=(),
    build=_build_sampling_steps,
    prefixes=("top_k", "top_p"),
    options={
        "temperature": make_number(1.0, 1e-3, 1e3),
        "top_k": make_count(None),
        "top_p": make_number(None, 1e-6, 1.0),
    },
    check_givens=lambda given: check_distributions(given, "p"),
)
SENTENCE = Kind(
    name="sentence",
    matrices=MODEL_MATRICES,
    required=(),
    settings=(),
    build=_build_sentence_steps,
    options={"sentence": make_words(), "base": make_choice("e", "2", "10"), "contexts": CONTEXTS},
    label_size=label_contexts,
    rewrite_givens=rewrite_model,
    check_givens=lambda given: check_distributions(given, "P", "start", "table"),
)
