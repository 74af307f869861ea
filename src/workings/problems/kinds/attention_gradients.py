"""Problems on back-propagation through attention with one head, from its output to its inputs."""

from dataclasses import dataclass, replace

from workings.languages import gettext
from workings.problems.elementwise import AxisSum, make_difference, make_factors, make_product
from workings.problems.intervals import IntervalMatrix
from workings.problems.kinds.attention import (
    ATTENTION_MATRICES,
    ATTENTION_TIED_SIZES,
    build_attention_steps,
    find_missing_projection,
    resolve_scale,
)
from workings.problems.kinds.base import Kind, Setting, Sizes, Step
from workings.problems.kinds.layer_gradients import (
    list_input_gradient_mistakes,
    list_weight_gradient_mistakes,
)
from workings.problems.notation import Notation
from workings.problems.ops import Copy, Env, Linear, MistakeOption, Op, Scaling, format_symbol


@dataclass(frozen=True)
class SoftmaxGradient(Op):
    """`weights ∘ (gradient − total)`: a gradient multiplied by the Jacobian of a softmax.

    `total` is the weighted sum of each row of the gradient.
    """

    weights: str
    gradient: str
    total: str

    def compute(self, env: Env) -> IntervalMatrix:
        return env[self.weights] * (env[self.gradient] - env[self.total])

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        weights, gradient, total = (format_symbol(n, key) for key in self.sources())
        return n.elementwise(weights, n.row("(", gradient, "−", total, ")"))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        weight, gradient = (float(env[key].mid[i, j]) for key in (self.weights, self.gradient))
        total = n.factor(float(env[self.total].mid[i, 0]))
        return n.product(n.factor(weight), n.row("(", n.number(gradient), "−", total, ")"))

    def sources(self) -> tuple[str, ...]:
        return (self.weights, self.gradient, self.total)


def _build_softmax_gradient_steps() -> list[Step]:
    """Return the steps from the gradient of the weights to that of the scaled scores."""
    total = AxisSum(make_factors("weights", "dweights"), over_vectors=False)
    return [
        Step(
            "weighted_sum",
            total,
            mistakes=(
                (
                    "summed-over-wrong-axis",
                    replace(total, is_transposed=True),
                    gettext("summed over the queries, not over the keys"),
                ),
                (
                    "weights-forgotten",
                    replace(total, factors=make_factors("dweights")),
                    gettext("summed the gradients without the weights"),
                ),
            ),
        ),
        Step(
            "dscaled",
            SoftmaxGradient("weights", "dweights", "weighted_sum"),
            column_axis="context",
            mistakes=(
                ("jacobian-forgotten", Copy("dweights"), gettext("left out the softmax")),
                (
                    "row-sum-not-subtracted",
                    make_product("weights", "dweights"),
                    gettext("did not subtract the weighted sum"),
                ),
                (
                    "off-diagonal-forgotten",
                    make_product("dweights", ("weights", "slope of sigmoid")),
                    gettext("used the diagonal of the Jacobian only: a (1 − a)"),
                ),
                (
                    "weights-forgotten",
                    make_difference("dweights", "weighted_sum"),
                    gettext("subtracted the sum, but did not multiply by the weights"),
                ),
            ),
        ),
    ]


def _build_score_gradient_step(sizes: Sizes, setting: Setting) -> Step:
    divisor, radicand = resolve_scale(sizes, setting)
    if divisor is None:
        return Step("dscores", Copy("dscaled"), column_axis="context", is_shown=False)
    right = Scaling("dscaled", divisor, radicand)
    mistakes: list[MistakeOption] = [
        (
            "not-scaled",
            Copy("dscaled"),
            gettext("did not divide by {divisor:.4g}", divisor=divisor),
        ),
        (
            "multiplied-by-scale",
            replace(right, multiplies=True),
            gettext("multiplied by {divisor:.4g}, not divided", divisor=divisor),
        ),
    ]
    if radicand is not None:
        by_width = Scaling("dscaled", radicand)
        mistakes.append(
            (
                "scaled-by-d_k",
                by_width,
                gettext("divided by {radicand:g}, not by its root", radicand=radicand),
            )
        )
    return Step("dscores", right, column_axis="context", mistakes=tuple(mistakes))


def _build_product_gradient_steps() -> list[Step]:
    """Return the gradients of queries and keys in the product of scores."""
    return [
        Step(
            "dQ",
            Linear((("dscores", "K"),)),
            mistakes=(
                (
                    "jacobian-transposed",
                    Linear((("dscoresᵀ", "K"),)),
                    gettext("used the transpose of dscores"),
                ),
                (
                    "queries-and-keys-swapped",
                    Linear((("dscores", "Q"),)),
                    gettext("multiplied by Q, not by K"),
                ),
                ("not-scaled", Linear((("dscaled", "K"),)), gettext("used dscaled, not dscores")),
            ),
        ),
        Step(
            "dK",
            Linear((("dscoresᵀ", "Q"),)),
            row_axis="context",
            mistakes=(
                (
                    "jacobian-transposed",
                    Linear((("dscores", "Q"),)),
                    gettext("used dscores, not dscoresᵀ"),
                ),
                (
                    "queries-and-keys-swapped",
                    Linear((("dscoresᵀ", "K"),)),
                    gettext("multiplied by K, not by Q"),
                ),
                ("not-scaled", Linear((("dscaledᵀ", "Q"),)), gettext("used dscaled, not dscores")),
            ),
        ),
    ]


def _build_output_gradient_steps(sizes: Sizes) -> list[Step]:
    """Return the gradients from the output back to the weights and the values."""
    has_projection = "W_O" in sizes
    steps = [
        Step(
            "dmixed",
            Linear((("doutput", "W_Oᵀ"),)) if has_projection else Copy("doutput"),
            is_shown=has_projection,
            mistakes=list_input_gradient_mistakes("doutput", "W_O") if has_projection else (),
        )
    ]
    if has_projection:
        steps.append(
            Step(
                "dW_O",
                Linear((("mixedᵀ", "doutput"),)),
                row_axis="",
                mistakes=list_weight_gradient_mistakes("mixed", "doutput"),
            )
        )
    return [
        *steps,
        Step(
            "dV",
            Linear((("weightsᵀ", "dmixed"),)),
            row_axis="context",
            mistakes=(
                (
                    "jacobian-transposed",
                    Linear((("weights", "dmixed"),)),
                    gettext("multiplied by the weights, not by their transpose"),
                ),
                (
                    "scores-for-weights",
                    Linear((("maskedᵀ", "dmixed"),)),
                    gettext("multiplied by the scores, not by the weights"),
                ),
                (
                    "scores-for-weights",
                    Linear((("scaledᵀ", "dmixed"),)),
                    gettext("multiplied by the scores, not by the weights"),
                ),
            ),
        ),
        Step(
            "dweights",
            Linear((("dmixed", "Vᵀ"),)),
            column_axis="context",
            mistakes=(
                (
                    "jacobian-transposed",
                    Linear((("dmixed", "V"),)),
                    gettext("multiplied by V, not by Vᵀ"),
                ),
                (
                    "gradient-transposed",
                    Linear((("V", "dmixedᵀ"),)),
                    gettext("computed the transpose: V dmixedᵀ"),
                ),
                (
                    "keys-used-as-values",
                    Linear((("dmixed", "Kᵀ"),)),
                    gettext("multiplied by Kᵀ, not by Vᵀ"),
                ),
            ),
        ),
    ]


def _build_projection_gradient_steps(sizes: Sizes) -> list[Step]:
    """Return the gradients of the projections' weights and inputs."""
    context = "context" if "context" in sizes else "X"
    inputs = zip("QKV", ("X", context, context), strict=True)
    sources = {name: source for name, source in inputs if name not in sizes}
    steps = []
    for name, source in sources.items():
        if f"W_{name}" in sizes:
            mistakes = list_weight_gradient_mistakes(source, f"d{name}")
            if context != "X":
                other = "X" if source == "context" else "context"
                wrong = Linear(((f"{other}ᵀ", f"d{name}"),))
                mistakes += (
                    (
                        "context-mixed-up",
                        wrong,
                        gettext("took {other}, not {source}", other=other, source=source),
                    ),
                )
            op = Linear(((f"{source}ᵀ", f"d{name}"),))
            steps.append(Step(f"dW_{name}", op, row_axis="", mistakes=mistakes))
    for source in dict.fromkeys(sources.values()):
        names = [name for name, own in sources.items() if own == source]
        rows = "tokens" if source == "X" else "context"
        steps.append(_build_input_gradient_step(sizes, source, names, rows))
    return steps


def _build_input_gradient_step(sizes: Sizes, source: str, names: list[str], row_axis: str) -> Step:
    """Return the gradient of an input that several projections share: the sum of their paths."""
    pairs = tuple(
        (f"d{name}", f"W_{name}ᵀ" if f"W_{name}" in sizes else f"I.{sizes['d']}") for name in names
    )
    transposed = tuple((key, weight.removesuffix("ᵀ")) for key, weight in pairs)
    mistakes: list[MistakeOption] = [
        (
            "jacobian-transposed",
            Linear(transposed),
            gettext("multiplied by the weights, not transposed"),
        )
    ]
    for k, name in enumerate(names):
        if len(names) > 1:
            rest = Linear((*pairs[:k], *pairs[k + 1 :]))
            mistakes.append(
                ("path-forgotten", rest, gettext("left out the path through {name}", name=name))
            )
            alone = Linear((pairs[k],))
            mistakes.append(
                ("path-forgotten", alone, gettext("took only the path through {name}", name=name))
            )
        one = Linear((*pairs[:k], transposed[k], *pairs[k + 1 :]))
        mistakes.append(
            (
                "jacobian-transposed",
                one,
                gettext("multiplied by W_{name}, not by W_{name}ᵀ", name=name),
            )
        )
    return Step(f"d{source}", Linear(pairs), row_axis=row_axis, mistakes=tuple(mistakes))


def _build_attention_gradient_steps(sizes: Sizes, setting: Setting) -> list[Step]:
    return [
        *build_attention_steps(sizes, setting),
        *_build_output_gradient_steps(sizes),
        *_build_softmax_gradient_steps(),
        _build_score_gradient_step(sizes, setting),
        *_build_product_gradient_steps(),
        *_build_projection_gradient_steps(sizes),
    ]


ATTENTION_GRADIENT = Kind(
    name="attention_gradient",
    matrices={
        **{name: s for name, s in ATTENTION_MATRICES.items() if not name.startswith("b_")},
        "doutput": ("n", "o"),
    },
    required=("doutput",),
    find_missing=find_missing_projection,
    tied_sizes=(*ATTENTION_TIED_SIZES, (("W_O",), "o", "v")),
    settings=("scale", "mask"),
    build=_build_attention_gradient_steps,
)
