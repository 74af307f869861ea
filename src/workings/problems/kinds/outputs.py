"""The output of a recurrent network: y = h W_hy + b_y, its softmax and the cross-entropy."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from workings.errors import UserError
from workings.languages import gettext
from workings.problems.intervals import IntervalMatrix
from workings.problems.kinds.base import Setting, Sizes, Step
from workings.problems.kinds.loss import CrossEntropy, OneHot
from workings.problems.kinds.softmax import EXPONENTIALS_OPTION, build_weight_steps
from workings.problems.notation import Notation
from workings.problems.ops import (
    Copy,
    Env,
    Linear,
    MistakeOption,
    Normalization,
    Op,
    RowSlice,
    Terms,
    format_symbol,
)
from workings.problems.options import make_choice

if TYPE_CHECKING:
    from workings.problems.problem import Problem

OUTPUT_MATRICES = {
    "W_hy": ("h", "o"),
    "b_y": ("1", "o"),
    "targets": ("1", "y"),
    "Y": ("y", "o"),
}
OUTPUT_OPTIONS = {
    "outputs": make_choice("all", "last"),
    "output": make_choice("logits", "softmax"),
    "reduction": make_choice("mean", "sum"),
    "exponentials": EXPONENTIALS_OPTION,
}


@dataclass(frozen=True)
class Total(Op):
    """The sum of several numbers, or their mean: the loss over all times."""

    parts: tuple[str, ...]
    divisor: int = 1

    def compute(self, env: Env) -> IntervalMatrix:
        first, *rest = (env[key] for key in self.parts)
        for part in rest:
            first = first + part
        return first if self.divisor == 1 else first / IntervalMatrix.exact(self.divisor)

    def _format(self, n: Notation, terms: list[str]) -> str:
        total = n.total(terms)
        return total if self.divisor == 1 else n.fraction(total, n.number(self.divisor))

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return self._format(n, [format_symbol(n, key) for key in self.parts])

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        return self._format(n, [n.factor(float(env[key].mid[i, j])) for key in self.parts])

    def terms(self, env: Env, i: int, j: int) -> Terms:
        values: list[tuple[float, ...]] = [(float(env[key].mid[i, j]),) for key in self.parts]
        return Terms(values, lambda total: total / self.divisor)

    def sources(self) -> tuple[str, ...]:
        return self.parts

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        count = len(self.parts)
        if self.divisor == 1:
            mean = replace(self, divisor=count)
            yield "mean-for-sum", mean, gettext("divided by {count}: took the mean", count=count)
        else:
            total = replace(self, divisor=1)
            yield (
                "one-over-n-forgotten",
                total,
                gettext("added, without dividing by {count}", count=count),
            )
        yield (
            "only-last-loss",
            Copy(self.parts[-1]),
            gettext("took the loss of the last time alone"),
        )


def build_output_steps(
    sizes: Sizes, setting: Setting, times: Sequence[int], state: str = "h", prefix: str = ""
) -> dict[int, list[Step]]:
    """Return the steps of the output for each time that has one, and the total under time 0."""
    if "W_hy" not in sizes:
        for name in ("b_y", "targets", "Y"):
            if name in sizes:
                raise UserError(f"{name} is given, but not W_hy: the output is h W_hy + b_y")
        return {}
    times = times[-1:] if setting.options.get("outputs") == "last" else times
    targets = _build_target_steps(sizes, times, prefix)
    has_loss = bool(targets)
    is_claimed = f"{prefix}probabilities" in sizes.claimed
    has_softmax = has_loss or is_claimed or setting.options["output"] == "softmax"
    steps: dict[int, list[Step]] = {}
    for t in times:
        y, p = f"{prefix}y.{t}", f"{prefix}probabilities.{t}"
        output = Linear(((f"{state}.{t}", "W_hy"),), bias="b_y" if "b_y" in sizes else None)
        own = [Step(f"{prefix}y", output, t, row_axis="")]
        if has_softmax:
            normalized = Step(f"{prefix}probabilities", Normalization(y), t, row_axis="")
            own += build_weight_steps(sizes, setting, normalized, y).values()
        if has_loss:
            own += [targets[t], _build_loss_step(t, p, f"target.{t}", prefix)]
        steps[t] = own
    if has_loss and len(times) > 1:
        parts = tuple(f"{prefix}loss.{t}" for t in times)
        divisor = len(times) if setting.options["reduction"] == "mean" else 1
        steps[0] = [Step(f"{prefix}loss", Total(parts, divisor), row_axis="")]
    return steps


def _build_target_steps(sizes: Sizes, times: Sequence[int], prefix: str) -> dict[int, Step]:
    """Return one step per time with the target distribution; none if no targets are given."""
    given = [name for name in ("targets", "Y") if name in sizes]
    if len(given) > 1:
        raise UserError("given has both targets and Y: give one of them")
    if not given:
        return {}
    if sizes["y"] != len(times):
        raise UserError(f"{sizes.reasons['y']}, but there are {len(times)} outputs")
    return {
        t: Step(
            f"{prefix}target",
            TargetRow(given[0], k, sizes["o"]),
            t,
            is_shown=False,
            is_claimable=False,
        )
        for k, t in enumerate(times)
    }


@dataclass(frozen=True)
class TargetRow(RowSlice):
    """The target distribution of one output: a row of Y, or the one-hot row of its class."""

    reads_classes: ClassVar[bool] = True
    num_classes: int = 0

    def compute(self, env: Env) -> IntervalMatrix:
        if self.x == "Y":
            return super().compute(env)
        return OneHot(self.x, self.num_classes).compute(env).slice_row(self.index)


def _build_loss_step(t: int, probabilities: str, target: str, prefix: str) -> Step:
    right = CrossEntropy(probabilities, f"{prefix}{target}")
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
            "summed-over-all-classes",
            replace(right, all_classes=True),
            gettext("added −ln p of every class, not only of the target"),
        ),
        (
            "logarithm-forgotten",
            Linear(((probabilities, f"{prefix}{target}ᵀ"),)),
            gettext("took the probability itself, without ln"),
        ),
    ]
    return Step(f"{prefix}loss", right, t, row_axis="", mistakes=tuple(mistakes))
