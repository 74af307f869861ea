"""Problems on back-propagation through a linear layer and a layer norm.

`dX` is the gradient of the loss with respect to X. Each kind is given the gradient with respect to
its output and computes those with respect to its inputs and weights.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from workings.languages import gettext, gettext_noop
from workings.problems.elementwise import AxisSum, make_factors, make_product
from workings.problems.intervals import IntervalMatrix
from workings.problems.kinds.affine import take_root
from workings.problems.kinds.base import Kind, Setting, Sizes, Step
from workings.problems.kinds.layers import Mean, Standardization, Variance
from workings.problems.notation import Notation
from workings.problems.ops import (
    Activation,
    Copy,
    Env,
    Linear,
    MistakeOption,
    Op,
    RowSlice,
    format_symbol,
)
from workings.problems.options import make_choice

ACTIVATION_NAMES = {
    "relu": gettext_noop("the ReLU"),
    "tanh": "tanh",
    "sigmoid": gettext_noop("the sigmoid"),
}
_NAMES_WITH_NONE = {**ACTIVATION_NAMES, "none": gettext_noop("the identity")}


def list_input_gradient_mistakes(upstream: str, weight: str) -> tuple[MistakeOption, ...]:
    """Return the mistakes in `upstream · weightᵀ`."""
    return (
        (
            "jacobian-transposed",
            Linear(((upstream, weight),)),
            gettext("multiplied by {weight}, not by {weight}ᵀ", weight=weight),
        ),
        (
            "weight-forgotten",
            Copy(upstream),
            gettext("did not multiply by {weight}ᵀ", weight=weight),
        ),
    )


def list_weight_gradient_mistakes(x: str, upstream: str) -> tuple[MistakeOption, ...]:
    """Return the mistakes in `xᵀ · upstream`."""
    return (
        (
            "gradient-transposed",
            Linear(((f"{upstream}ᵀ", x),)),
            gettext(
                "computed the transpose: {upstream}ᵀ {x}, not {x}ᵀ {upstream}",
                upstream=upstream,
                x=x,
            ),
        ),
        (
            "input-not-transposed",
            Linear(((x, upstream),)),
            gettext("multiplied by {x}, not by {x}ᵀ: summed over the wrong axis", x=x),
        ),
    )


def build_bias_gradient_step(name: str, *factors: str, wrong: str | None = None) -> Step:
    """Return the step that sums a product over the vectors.

    `wrong` is a matrix that may be taken by mistake for the first factor, before its slope.
    """
    right = AxisSum(make_factors(*factors))
    mistakes: list[MistakeOption] = [
        (
            "summed-over-wrong-axis",
            replace(right, is_transposed=True),
            gettext("summed within each vector, not over the vectors"),
        ),
        ("not-summed-over-batch", RowSlice(factors[0], 0), gettext("took the first vector only")),
        ("mean-for-sum", MeanOverVectors(right.factors), gettext("took the mean over the vectors")),
    ]
    if wrong is not None:
        unsloped = AxisSum(make_factors(wrong, *factors[1:]))
        mistakes.append(
            (
                "slope-forgotten",
                unsloped,
                gettext("summed {wrong}, not {factors}", wrong=wrong, factors=factors[0]),
            )
        )
    return Step(name, right, row_axis="", mistakes=tuple(mistakes))


@dataclass(frozen=True)
class MeanOverVectors(AxisSum):
    """The mean over the vectors, for the mistake of dividing a sum by their number."""

    def compute(self, env: Env) -> IntervalMatrix:
        count = env[self.factors[0][0]].shape[0]
        return super().compute(env) / IntervalMatrix.exact(float(count))


def list_slope_mistakes(
    upstream: str, output: str, function: str, argument: str
) -> tuple[MistakeOption, ...]:
    """Return the mistakes in `upstream ∘ f'`, with f' computed from the output of f."""
    own = f"slope of {function}"
    mistakes: list[MistakeOption] = [
        (
            "slope-forgotten",
            Copy(upstream),
            gettext(
                "left out the slope of {function}", function=gettext(_NAMES_WITH_NONE[function])
            ),
        ),
        (
            "slope-at-wrong-value",
            make_product(upstream, (argument, own)),
            gettext(
                "computed the slope from {argument}, before the activation",
                argument=argument.partition(".")[0],
            ),
        ),
        (
            "activation-for-slope",
            make_product(upstream, output),
            gettext("multiplied by the activation, not by its slope"),
        ),
    ]
    mistakes += [
        (
            "wrong-slope",
            make_product(upstream, (output, f"slope of {other}")),
            gettext(
                "used the slope of {name}, not of {function}",
                name=gettext(name),
                function=gettext(_NAMES_WITH_NONE[function]),
            ),
        )
        for other, name in ACTIVATION_NAMES.items()
        if other != function
    ]
    if function == "tanh":
        mistakes.append(
            (
                "square-forgotten",
                make_product(upstream, (output, "complement")),
                gettext("took 1 − h, not 1 − h²"),
            )
        )
    return tuple(mistakes)


def _build_linear_steps(sizes: Sizes, setting: Setting) -> list[Step]:
    function = setting.options["activation"]
    steps, upstream, unsloped = [], "dY", None
    if function != "none":
        upstream, unsloped = "dZ", "dY"
        forward = Linear((("X", "W"),), bias="b" if "b" in sizes else None)
        transposed = replace(forward, pairs=(("X", "Wᵀ"),))
        steps = [
            Step(
                "Z",
                forward,
                mistakes=(("weight-transposed", transposed, gettext("used Wᵀ, not W")),),
            ),
            Step("Y", Activation("Z", function)),
            Step(
                "dZ",
                make_product("dY", ("Y", f"slope of {function}")),
                mistakes=list_slope_mistakes("dY", "Y", function, "Z"),
            ),
        ]
    input_mistakes = list_input_gradient_mistakes(upstream, "W")
    weight_mistakes = list_weight_gradient_mistakes("X", upstream)
    if unsloped is not None:
        left_out = gettext("used {unsloped}, not {upstream}", unsloped=unsloped, upstream=upstream)
        input_mistakes += (("slope-forgotten", Linear(((unsloped, "Wᵀ"),)), left_out),)
        weight_mistakes += (("slope-forgotten", Linear((("Xᵀ", unsloped),)), left_out),)
    steps += [
        Step("dX", Linear(((upstream, "Wᵀ"),)), mistakes=input_mistakes),
        Step("dW", Linear((("Xᵀ", upstream),)), row_axis="", mistakes=weight_mistakes),
    ]
    if "b" in sizes:
        steps.append(build_bias_gradient_step("db", upstream, wrong=unsloped))
    return steps


@dataclass(frozen=True)
class NormGradient(Op):
    """`(g − mean(g) − x̂ mean(g ∘ x̂)) / σ`: the gradient of a layer norm's input.

    g is the gradient of the normalized vectors x̂. A part that is None is left out by mistake.
    """

    gradient: str
    mean: str | None
    normalised: str
    mean_product: str | None
    variance: str | None
    eps: float
    divides_by_variance: bool = False

    failure: ClassVar[str] = Standardization.failure

    def _compute_difference(self, env: Env) -> IntervalMatrix:
        total = env[self.gradient]
        if self.mean is not None:
            total = total - env[self.mean]
        if self.mean_product is not None:
            total = total - env[self.normalised] * env[self.mean_product]
        return total

    def compute(self, env: Env) -> IntervalMatrix:
        if self.variance is None:
            return self._compute_difference(env)
        return self._compute_difference(env) / self._compute_deviation(env, self.variance)

    def compute_rounded(self, env: Env, unit: float) -> IntervalMatrix:
        if self.variance is None:
            return self._compute_difference(env)
        deviation = self._compute_deviation(env, self.variance)
        rounded = deviation.round_to(unit)
        # A deviation that would be rounded to zero is not rounded: it is divided by.
        lo = np.where(rounded.lo > 0, rounded.lo, deviation.lo)
        return self._compute_difference(env) / replace(rounded, lo=lo)

    def _compute_deviation(self, env: Env, variance: str) -> IntervalMatrix:
        total = env[variance] + IntervalMatrix.exact(self.eps)
        return total if self.divides_by_variance else take_root(total)

    def _format(self, n: Notation, parts: list[str], variance: str) -> str:
        gradient, mean, product = parts
        radicand = n.total([variance, n.number(self.eps)]) if self.eps else variance
        return n.fraction(n.row(gradient, "−", mean, "−", product), n.root(radicand))

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        keys = (self.gradient, self.mean, self.normalised, self.mean_product, self.variance)
        gradient, mean, own, product, variance = (format_symbol(n, str(key)) for key in keys)
        return self._format(n, [gradient, mean, n.elementwise(own, product)], variance)

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        def number(key: str | None, column: int) -> str:
            return n.factor(float(env[str(key)].mid[i, column]))

        product = n.product(number(self.normalised, j), number(self.mean_product, 0))
        parts = [number(self.gradient, j), number(self.mean, 0), product]
        return self._format(n, parts, n.number(float(env[str(self.variance)].mid[i, 0])))

    def sources(self) -> tuple[str, ...]:
        keys = (self.gradient, self.mean, self.normalised, self.mean_product, self.variance)
        return tuple(key for key in keys if key is not None)


def _list_norm_gradient_mistakes(right: NormGradient) -> tuple[MistakeOption, ...]:
    mistakes: list[MistakeOption] = [
        (
            "mean-held-constant",
            replace(right, mean=None),
            gettext("left out the mean of the gradient: held the mean of X constant"),
        ),
        (
            "variance-held-constant",
            replace(right, mean_product=None),
            gettext(
                "left out the mean of gradient and normalized input: held the variance constant"
            ),
        ),
        (
            "statistics-held-constant",
            replace(right, mean=None, mean_product=None),
            gettext("only divided by the deviation: held mean and variance constant"),
        ),
        (
            "deviation-forgotten",
            replace(right, variance=None),
            gettext("did not divide by the deviation"),
        ),
        (
            "variance-for-deviation",
            replace(right, divides_by_variance=True),
            gettext("divided by the variance, not by its root"),
        ),
        (
            "gamma-forgotten",
            replace(right, gradient="dY"),
            gettext("used dY, not its product with γ"),
        ),
        (
            "input-not-normalized",
            replace(right, normalised="X"),
            gettext("multiplied the mean by X, not by the normalized X"),
        ),
    ]
    if right.eps:
        mistakes.append(
            (
                "eps-forgotten",
                replace(right, eps=0.0),
                gettext("left out ε = {eps:.4g}", eps=right.eps),
            )
        )
    return tuple(mistakes)


def _build_norm_gradient_steps(sizes: Sizes, setting: Setting) -> list[Step]:
    has_gamma = "gamma" in sizes
    product = AxisSum(make_factors("dnormalised", "normalised"), False, float(sizes["d"]))
    gradient = NormGradient(
        "dnormalised", "mean_gradient", "normalised", "mean_product", "variance", setting.eps
    )
    steps = [
        Step("mean", Mean("X")),
        Step("variance", Variance("X", "mean")),
        Step("normalised", Standardization("X", "mean", "variance", setting.eps)),
    ]
    if has_gamma:
        steps.append(_build_gamma_gradient_step())
    if "beta" in sizes:
        steps.append(build_bias_gradient_step("dbeta", "dY"))
    steps += [
        Step(
            "dnormalised",
            make_product("dY", "gamma") if has_gamma else Copy("dY"),
            is_shown=has_gamma,
            mistakes=(("gamma-forgotten", Copy("dY"), gettext("did not multiply by γ")),),
        ),
        Step("mean_gradient", Mean("dnormalised")),
        Step(
            "mean_product",
            product,
            mistakes=(
                (
                    "one-over-n-forgotten",
                    replace(product, divisor=1.0),
                    gettext("added, without dividing"),
                ),
                (
                    "input-not-normalized",
                    replace(product, factors=make_factors("dnormalised", "X")),
                    gettext("multiplied by X, not by the normalized X"),
                ),
            ),
        ),
        Step("dX", gradient, mistakes=_list_norm_gradient_mistakes(gradient)),
    ]
    return steps


def _build_gamma_gradient_step() -> Step:
    step = build_bias_gradient_step("dgamma", "dY", "normalised")
    mistakes: tuple[MistakeOption, ...] = (
        (
            "input-not-normalized",
            AxisSum(make_factors("dY", "X")),
            gettext("multiplied by X, not by the normalized X"),
        ),
        (
            "normalized-input-forgotten",
            AxisSum(make_factors("dY")),
            gettext("summed dY alone, without the normalized X"),
        ),
    )
    return replace(step, mistakes=(*step.mistakes, *mistakes))


LINEAR_GRADIENT = Kind(
    name="linear_gradient",
    matrices={"X": ("n", "d"), "W": ("d", "o"), "b": ("1", "o"), "dY": ("n", "o")},
    required=("X", "W", "dY"),
    settings=(),
    options={"activation": make_choice("none", *ACTIVATION_NAMES)},
    build=_build_linear_steps,
)
LAYER_NORM_GRADIENT = Kind(
    name="layer_norm_gradient",
    matrices={"X": ("n", "d"), "gamma": ("1", "d"), "beta": ("1", "d"), "dY": ("n", "d")},
    required=("X", "dY"),
    settings=("eps",),
    build=_build_norm_gradient_steps,
)
