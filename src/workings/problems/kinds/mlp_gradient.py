"""Problems on a multilayer perceptron with one hidden layer: its loss, and all its gradients."""

from workings.languages import gettext
from workings.problems.elementwise import make_product
from workings.problems.kinds.base import Kind, Setting, Sizes, Step
from workings.problems.kinds.layer_gradients import (
    ACTIVATION_NAMES,
    build_bias_gradient_step,
    list_input_gradient_mistakes,
    list_slope_mistakes,
    list_weight_gradient_mistakes,
)
from workings.problems.kinds.loss import (
    CLASSIFICATION_MATRICES,
    LOSS_OPTIONS,
    build_logit_gradient_step,
    build_loss_steps,
    build_target_steps,
)
from workings.problems.ops import Activation, Linear, Normalization
from workings.problems.options import make_choice


def _build_mlp_steps(sizes: Sizes, setting: Setting) -> list[Step]:
    function = setting.options["activation"]
    biases = [name if name in sizes else None for name in ("b_1", "b_2")]
    forward = [
        Step("hidden", Linear((("X", "W_1"),), bias=biases[0])),
        Step("activated", Activation("hidden", function)),
        Step("logits", Linear((("activated", "W_2"),), bias=biases[1])),
        Step("probabilities", Normalization("logits")),
        *build_target_steps(sizes, setting, "mlp_gradient"),
        *build_loss_steps(sizes, setting),
        build_logit_gradient_step(sizes, setting),
    ]
    slope = Step(
        "dhidden",
        make_product("dactivated", ("activated", f"slope of {function}")),
        mistakes=list_slope_mistakes("dactivated", "activated", function, "hidden"),
    )
    return [
        *forward,
        *_build_layer_gradients(sizes, "2", "activated", "dlogits"),
        slope,
        *_build_layer_gradients(sizes, "1", "X", "dhidden", unsloped="dactivated"),
    ]


def _build_layer_gradients(
    sizes: Sizes, layer: str, x: str, upstream: str, unsloped: str | None = None
) -> list[Step]:
    """Return the gradients of a layer's weight, bias and input.

    `unsloped` is a gradient that may be taken by mistake for the one behind the activation.
    """
    weight = f"W_{layer}"
    weight_mistakes = list_weight_gradient_mistakes(x, upstream)
    input_mistakes = list_input_gradient_mistakes(upstream, weight)
    if unsloped is not None:
        words = gettext("used {unsloped}, not {upstream}", unsloped=unsloped, upstream=upstream)
        weight_mistakes += (("slope-forgotten", Linear(((f"{x}ᵀ", unsloped),)), words),)
        input_mistakes += (("slope-forgotten", Linear(((unsloped, f"{weight}ᵀ"),)), words),)
    else:
        inner = Linear((("hiddenᵀ", upstream),))
        weight_mistakes += (("activation-forgotten", inner, gettext("used hidden, not activated")),)
    steps = [
        Step(f"d{weight}", Linear(((f"{x}ᵀ", upstream),)), row_axis="", mistakes=weight_mistakes)
    ]
    if f"b_{layer}" in sizes:
        steps.append(build_bias_gradient_step(f"db_{layer}", upstream, wrong=unsloped))
    op = Linear(((upstream, f"{weight}ᵀ"),))
    return [*steps, Step(f"d{x}", op, mistakes=input_mistakes)]


MLP_GRADIENT = Kind(
    name="mlp_gradient",
    matrices={
        "X": ("n", "d"),
        "W_1": ("d", "h"),
        "b_1": ("1", "h"),
        "W_2": ("h", "c"),
        "b_2": ("1", "c"),
        **CLASSIFICATION_MATRICES,
    },
    required=("X", "W_1", "W_2"),
    settings=(),
    options={"activation": make_choice(*ACTIVATION_NAMES), **LOSS_OPTIONS},
    build=_build_mlp_steps,
)
