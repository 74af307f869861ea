"""Sheets on losses, back-propagation and optimizers."""

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from workings.languages import gettext, gettext_noop
from workings.problems.intervals import Floats
from workings.problems.problem import Problem
from workings.problems.sheets.attention_sheets import (
    check_distinct_tokens,
    choose_d_k,
    describe_attention,
    draw_attention,
)
from workings.problems.sheets.layer_sheets import check_norm_width, describe_norm, draw_layer_norm
from workings.problems.sheets.sampling import (
    BIAS_VALUES,
    GATE_WEIGHT_VALUES,
    SMALL_INPUT_VALUES,
    SamplingError,
    draw_inputs,
    draw_until,
    draw_vector,
    draw_weight,
    is_small,
    is_unsaturated,
    sigmoid,
    softmax_penalty,
)
from workings.problems.sheets.sheet_kind import (
    Fields,
    Givens,
    SheetKind,
    SheetPlan,
    SizeOption,
    format_shares,
    make_fixed_option,
)

LOGIT_VALUES = (-1, -0.5, 0, 0.5, 1, 1.5, 2)
GRADIENT_VALUES = (-2, -1, -0.5, 0.5, 1, 2, 3)  # of the loss with respect to an output
NUM_MLP_CLASSES = 3
RNN_INPUT_VALUES = (-1, -0.5, 0.5, 1, 2)
STATE_VALUES = (-0.5, -0.4, -0.2, 0.2, 0.3, 0.5, 0.6)
MIN_SUM, MAX_SUM = 0.2, 1.8  # of the argument of tanh: its slope is from 0.1 to 0.96
_GATE_NAMES = (
    gettext_noop("input (i)"),
    gettext_noop("forget (f)"),
    gettext_noop("cell (g)"),
    gettext_noop("output (o)"),
)


def draw_upstream(rng: Random, rows: int, columns: int) -> Floats:
    """Draw the gradient of the loss with respect to an output: no zeros, no two rows alike."""
    if rows == 1:
        return draw_vector(rng, columns, GRADIENT_VALUES)
    return draw_inputs(rng, rows, columns, GRADIENT_VALUES)


def _draw_logits(rng: Random, rows: int, columns: int) -> Floats:
    """Draw rows without ties."""
    return np.array([rng.sample(LOGIT_VALUES, columns) for _ in range(rows)], dtype=np.float64)


def draw_cross_entropy(rng: Random, plan: SheetPlan) -> Fields:
    """Draw logits without ties, and classes of which the logits predict some but not all."""
    n, c = plan.tokens, plan.width
    logits = draw_until(lambda: _draw_logits(rng, n, c), lambda x: is_small(x, 2.0))
    for _ in range(200):
        classes = np.array([rng.randrange(c) for _ in range(n)])
        num_hits = int((logits.argmax(1) == classes).sum())
        if 0 < num_hits < n and len(set(classes.tolist())) > 1:
            return {"logits": logits, "targets": classes[None] + 1.0}
    raise SamplingError


def draw_softmax_jacobian(rng: Random, plan: SheetPlan) -> Givens:
    """Draw distinct logits and a gradient of their softmax."""
    logits = _draw_logits(rng, 1, plan.width)
    return {"logits": logits, "dprobabilities": draw_upstream(rng, 1, plan.width)}


def draw_linear_gradient(rng: Random, plan: SheetPlan) -> Givens:
    """Draw a layer whose ReLU cuts some but not all cells of every row and column."""
    n, d, outputs = plan.tokens, plan.width, plan.hidden_size
    x = draw_inputs(rng, n, d)
    for _ in range(400):
        w, b = draw_weight(rng, d, outputs), draw_vector(rng, outputs, (-2, -1, 1, 2))
        z = x @ w + b
        is_mixed = (z < 0).any() and (z > 0).any(0).all() and (z > 0).any(1).all() and z.all()
        if is_mixed and is_small(z, 9.0):
            return {"X": x, "W": w, "b": b, "dY": draw_upstream(rng, n, outputs)}
    raise SamplingError


def draw_mlp_gradient(rng: Random, plan: SheetPlan) -> Fields:
    """Draw a network whose ReLU cuts some cells, and whose softmax is not saturated."""
    n, d, hidden = plan.tokens, plan.width, plan.hidden_size
    x = draw_inputs(rng, n, d, SMALL_INPUT_VALUES)
    for _ in range(400):
        w_1, b_1 = draw_weight(rng, d, hidden), draw_vector(rng, hidden, (-1, 1, 2))
        z = x @ w_1 + b_1
        if not (is_small(z, 5.0) and z.all() and (z < 0).any() and (z > 0).any(0).all()):
            continue
        w_2 = draw_weight(rng, hidden, NUM_MLP_CLASSES, (-1, -0.5, 0.5, 1))
        b_2 = draw_vector(rng, NUM_MLP_CLASSES, BIAS_VALUES)
        logits = np.maximum(z, 0) @ w_2 + b_2
        if softmax_penalty(logits, np.ones(logits.shape, dtype=np.bool_)) == 0:
            classes = draw_vector(rng, n, range(1, NUM_MLP_CLASSES + 1))
            weights = {"W_1": w_1, "b_1": b_1, "W_2": w_2, "b_2": b_2}
            return {"X": x, **weights, "targets": classes}
    raise SamplingError


def draw_layer_norm_gradient(rng: Random, plan: SheetPlan) -> Givens:
    """Draw a layer norm with short moments, and a gradient of its output."""
    given = draw_layer_norm(rng, plan)
    return {**given, "dY": draw_upstream(rng, plan.tokens, plan.width)}


def draw_attention_gradient(rng: Random, plan: SheetPlan) -> Givens:
    """Draw attention with reasonable scores, and a gradient of its output."""
    return {**draw_attention(rng, plan), "doutput": draw_upstream(rng, plan.tokens, plan.d_k)}


def draw_rnn_jacobian(rng: Random, plan: SheetPlan) -> Givens:
    """Draw a network whose tanh neither saturates nor stays near zero, where its slope is one."""
    d, hidden = plan.width, plan.hidden_size
    given = {
        "W_xh": draw_weight(rng, d, hidden, GATE_WEIGHT_VALUES, 0.9),
        "W_hh": draw_weight(rng, hidden, hidden, GATE_WEIGHT_VALUES, 0.9),
        "b": draw_vector(rng, hidden, BIAS_VALUES),
        "h0": draw_vector(rng, hidden, STATE_VALUES),
    }
    rows: list[Floats] = []
    state = given["h0"]
    while len(rows) < plan.tokens:
        recurrent = state @ given["W_hh"] + given["b"]

        def is_suitable(row: Floats, recurrent: Floats = recurrent) -> bool:
            total = np.abs(row @ given["W_xh"] + recurrent)
            is_new = not any((row == other).all() for other in rows)
            return is_new and bool(((total > MIN_SUM) & (total < MAX_SUM)).all())

        rows.append(draw_until(lambda: draw_vector(rng, d, RNN_INPUT_VALUES), is_suitable, 500))
        state = np.tanh(rows[-1] @ given["W_xh"] + recurrent)
    return {"X": np.concatenate(rows), **given}


def draw_rnn_gradient(rng: Random, plan: SheetPlan) -> Givens:
    """Draw a network that never saturates, and a loss at every time step."""
    given = draw_rnn_jacobian(rng, plan)
    return {**given, "dH": draw_upstream(rng, plan.tokens, plan.hidden_size)}


def draw_lstm_gradient(rng: Random, plan: SheetPlan) -> Givens:
    """Draw one time step of an LSTM whose gates do not saturate."""
    d, hidden = plan.width, plan.hidden_size
    for _ in range(400):
        given = {
            "x": draw_vector(rng, d, (-1, 0.5, 1, 2)),
            "W_x": draw_weight(rng, d, 4 * hidden, GATE_WEIGHT_VALUES, 0.8),
            "W_h": draw_weight(rng, hidden, 4 * hidden, GATE_WEIGHT_VALUES, 0.8),
            "b": draw_vector(rng, 4 * hidden, BIAS_VALUES),
            "h0": draw_vector(rng, hidden, STATE_VALUES),
            "c0": draw_vector(rng, hidden, STATE_VALUES),
        }
        z = given["x"] @ given["W_x"] + given["h0"] @ given["W_h"] + given["b"]
        i, f, g, _ = np.split(z, 4, axis=1)
        cell = sigmoid(f) * given["c0"] + sigmoid(i) * np.tanh(g)
        if is_unsaturated(z) and (np.abs(z) > 0.1).all() and (np.abs(cell) > 0.1).all():
            upstream = (draw_upstream(rng, 1, hidden) for _ in range(2))
            return given | dict(zip(("dh", "dc_next"), upstream, strict=True))
    raise SamplingError


def draw_momentum(rng: Random, plan: SheetPlan) -> Givens:
    """Draw weights, their gradient and the velocity before the step."""
    shape = plan.tokens, plan.width
    return {
        "W": draw_inputs(rng, *shape, (-1.5, -1, -0.5, 0.5, 1, 1.5, 2)),
        "dW": draw_upstream(rng, *shape),
        "velocity0": draw_inputs(rng, *shape, (-2, -1, -0.5, 0.5, 1, 1.5)),
    }


def draw_adam(rng: Random, plan: SheetPlan) -> Givens:
    """Draw weights, their gradient and the moments before the step."""
    shape = plan.tokens, plan.width
    return {
        "W": draw_inputs(rng, *shape, (-1.5, -1, -0.5, 0.5, 1, 1.5, 2)),
        "dW": draw_upstream(rng, *shape),
        "m0": draw_inputs(rng, *shape, (-1, -0.5, 0.5, 1)),
        "v0": draw_inputs(rng, *shape, (0.5, 1, 1.5, 2)),
    }


def _describe_classes(plan: SheetPlan) -> list[str]:
    return [
        gettext(
            "Each example is a {vector} of logits. The targets are classes, counted from 1.",
            vector=plan.vector,
        ),
        gettext("The logarithm is natural, and the loss is the mean of the losses."),
    ]


def _describe_cross_entropy(plan: SheetPlan, problem: Problem) -> list[str]:
    smoothing = problem.setting.options["label_smoothing"]
    if not smoothing:
        return _describe_classes(plan)
    sentence = gettext(
        "With label smoothing, {smoothing:g} of each target is shared among all classes.",
        smoothing=smoothing,
    )
    return [*_describe_classes(plan), sentence]


def _describe_upstream(output: str) -> str:
    return gettext(
        "d{output} is the gradient of the loss with respect to {output}, and so on.", output=output
    )


def _describe_jacobian(plan: SheetPlan, problem: Problem) -> list[str]:  # noqa: ARG001
    return [_describe_upstream("probabilities")]


def _describe_linear(plan: SheetPlan, problem: Problem) -> list[str]:  # noqa: ARG001
    return [
        gettext("Each example is a {vector}. The activation is the ReLU.", vector=plan.vector),
        _describe_upstream("Y"),
    ]


def _describe_mlp(plan: SheetPlan, problem: Problem) -> list[str]:  # noqa: ARG001
    return [
        gettext("Each example is a {vector}. The activation is the ReLU.", vector=plan.vector),
        gettext("The targets are classes, counted from 1. The loss is the mean of the losses."),
        _describe_upstream("logits"),
    ]


def _describe_norm_gradient(plan: SheetPlan, problem: Problem) -> list[str]:  # noqa: ARG001
    return [
        gettext("Each token is a {vector}.", vector=plan.vector),
        describe_norm(plan),
        _describe_upstream("Y"),
    ]


def _describe_attention_gradient(plan: SheetPlan, problem: Problem) -> list[str]:
    sentence = gettext(
        "Without W_O, the output is mixed. weighted_sum has one number for each query."
    )
    return [*describe_attention(plan, problem), sentence, _describe_upstream("output")]


def _describe_rnn(plan: SheetPlan) -> str:
    return gettext("x₁, x₂, … are the {vectors} of X.", vectors=plan.vectors)


def _describe_rnn_gradient(plan: SheetPlan, problem: Problem) -> list[str]:  # noqa: ARG001
    sentence = gettext(
        "{vector} t of dH is the gradient of the loss at time t.", vector=plan.vector.capitalize()
    )
    return [_describe_rnn(plan), sentence, _describe_upstream("h")]


def _describe_rnn_jacobian(plan: SheetPlan, problem: Problem) -> list[str]:  # noqa: ARG001
    order = "[to][from]" if plan.column_vectors else "[from][to]"
    return [
        _describe_rnn(plan),
        gettext(
            "The Jacobian of time t leads from h at time t − 1 to h at time t: {order}.",
            order=order,
        ),
        gettext("The product leads from h0; its norm is the root of the sum of its squares."),
    ]


def _describe_lstm_gradient(plan: SheetPlan, problem: Problem) -> list[str]:  # noqa: ARG001
    shares = format_shares(plan.feature_axis, plan.hidden_size, _GATE_NAMES)
    return [
        gettext("The sum x W_x + h0 W_h + b has the gates side by side: {shares}.", shares=shares)
        if not plan.column_vectors
        else gettext(
            "The sum W_x x + W_h h0 + b has the gates one below the other: {shares}.", shares=shares
        ),
        gettext("dc_next is the gradient that reaches c from the next time step."),
        _describe_upstream("h"),
    ]


def _describe_optimizer(plan: SheetPlan, problem: Problem) -> list[str]:  # noqa: ARG001
    options = problem.setting.options
    rate = gettext("the learning rate is {learning_rate:g}", learning_rate=options["learning_rate"])
    if options["optimizer"] == "momentum":
        return [
            gettext(
                "One step with momentum: {rate}, the momentum {momentum:g}. velocity0 is the "
                "velocity before the step.",
                rate=rate,
                momentum=options["momentum"],
            )
        ]
    return [
        gettext(
            "Step t = {t} of Adam: {rate}, β₁ = {beta_1:g}, β₂ = {beta_2:g}, ε = {eps:g}. "
            "m0 and v0 are the moments before the step.",
            t=options["t"],
            rate=rate,
            beta_1=options["beta_1"],
            beta_2=options["beta_2"],
            eps=options["eps"],
        )
    ]


def _check_equal_sides(rows: int, columns: int) -> str:
    if rows != columns:
        return ""
    return f"with {rows} examples and {columns} classes, dividing by either would be the same"


def _make_loss_sheet(name: str, title: str, picture: str, label_smoothing: float) -> SheetKind:
    return SheetKind(
        name=name,
        title=title,
        problem_kind="cross_entropy",
        picture=picture,
        draw=draw_cross_entropy,
        describe=_describe_cross_entropy,
        make_settings=lambda _: {"reduction": "mean", "label_smoothing": label_smoothing},
        sizes=((2, 3), (2, 4), (3, 4)),
        min_size=(2, 3),
        max_size=(6, 5),
        size_names=("examples", "classes"),
        size_text=gettext_noop("{tokens} examples of {width} classes"),
        check_size=_check_equal_sides,
        sentence="none",
        takes_any_numbers=False,
    )


def _make_optimizer_sheet(
    name: str, title: str, picture: str, draw: Callable[[Random, SheetPlan], Fields], **options: Any
) -> SheetKind:
    return SheetKind(
        name=name,
        title=title,
        problem_kind="optimizer_step",
        picture=picture,
        draw=draw,
        describe=_describe_optimizer,
        make_settings=lambda _: options,
        sizes=((1, 2), (2, 2), (2, 3)),
        min_size=(1, 2),
        max_size=(4, 4),
        size_names=("rows", "columns"),
        size_text=gettext_noop("weights of {tokens} × {width}"),
        sentence="none",
        takes_any_numbers=False,
    )


GRADIENT_SHEETS = (
    _make_loss_sheet(
        "cross_entropy",
        gettext_noop("Cross-entropy and its gradient"),
        gettext_noop("logits → softmax → −ln p → mean → perplexity; back: (p − y) / n"),
        0.0,
    ),
    _make_loss_sheet(
        "label_smoothing",
        gettext_noop("Cross-entropy with label smoothing"),
        gettext_noop("Y → (1 − ε) Y + ε / classes → −Σ y ln p; back: (p − y) / n"),
        0.1,
    ),
    SheetKind(
        name="softmax_jacobian",
        title=gettext_noop("The Jacobian of a softmax"),
        problem_kind="softmax_jacobian",
        picture=gettext_noop("logits → p → diag(p) − pᵀ p; back: dp → dlogits"),
        draw=draw_softmax_jacobian,
        describe=_describe_jacobian,
        sizes=((1, 2), (1, 3), (1, 4)),
        min_size=(1, 2),
        max_size=(1, 5),
        size_names=("rows", "classes"),
        size_text=gettext_noop("{tokens} row of {width} classes"),
        sentence="none",
    ),
    SheetKind(
        name="linear_gradient",
        title=gettext_noop("Back-propagation through a linear layer"),
        problem_kind="linear_gradient",
        picture=gettext_noop("X → X W + b → ReLU; back: dY → dZ → dX, dW, db"),
        draw=draw_linear_gradient,
        describe=_describe_linear,
        make_settings=lambda _: {"activation": "relu"},
        sizes=((2, 3), (3, 3), (3, 4)),
        options={"hidden_size": SizeOption(lambda examples, _: examples)},
        size_names=("examples", "inputs"),
        size_text=gettext_noop("{tokens} examples of {width} numbers"),
        sentence="none",
    ),
    SheetKind(
        name="mlp_gradient",
        title=gettext_noop("Back-propagation through a network"),
        problem_kind="mlp_gradient",
        picture=gettext_noop("X → ReLU → logits → loss; back: dlogits → dW_2 → dhidden → dW_1"),
        draw=draw_mlp_gradient,
        describe=_describe_mlp,
        make_settings=lambda _: {"activation": "relu", "reduction": "mean"},
        sizes=((2, 2), (2, 3), (4, 3)),
        max_size=(5, 5),
        options={"hidden_size": SizeOption(lambda _, width: width, maximum=5)},
        size_names=("examples", "inputs"),
        size_text=gettext_noop("{tokens} examples of {width} numbers"),
        sentence="none",
        takes_any_numbers=False,
    ),
    SheetKind(
        name="layer_norm_gradient",
        title=gettext_noop("Back-propagation through a layer norm"),
        problem_kind="layer_norm_gradient",
        picture=gettext_noop("X → normalized; back: dY → dγ, dβ, dnormalised → dX"),
        draw=draw_layer_norm_gradient,
        describe=_describe_norm_gradient,
        check_size=check_norm_width,
        sentence="labels",
    ),
    SheetKind(
        name="attention_gradient",
        title=gettext_noop("Back-propagation through attention"),
        problem_kind="attention_gradient",
        picture=gettext_noop(
            "X → Q, K, V → weights → mixed; back: dV, dweights → dscores → dQ, dK → dW, dX"
        ),
        draw=draw_attention_gradient,
        describe=_describe_attention_gradient,
        make_settings=lambda plan: {
            "scale": "sqrt(d_k)" if plan.is_scaled else "none",
            "mask": "none",
        },
        sizes=((2, 2), (2, 3), (3, 3)),
        max_size=(4, 5),
        check_size=check_distinct_tokens,
        options={"d_k": make_fixed_option(4)},
        complete_plan=choose_d_k,
        sentence="labels",
    ),
    SheetKind(
        name="rnn_gradient",
        title=gettext_noop("Back-propagation through time"),
        problem_kind="rnn_gradient",
        picture=gettext_noop("h₀ → h₁ → h₂ → …; back: … → dh₂ → dsum₂ → dh₁ → dsum₁ → Σ dW"),
        draw=draw_rnn_gradient,
        describe=_describe_rnn_gradient,
        make_settings=lambda _: {"activation": "tanh"},
        sizes=((2, 2), (3, 2), (4, 3)),
        max_size=(5, 5),
        options={"hidden_size": SizeOption(lambda _, width: min(width, 3), maximum=4)},
        sentence="labels",
    ),
    SheetKind(
        name="rnn_jacobian",
        title=gettext_noop("Vanishing and exploding gradients"),
        problem_kind="rnn_jacobian",
        picture=gettext_noop("h₀ → h₁ → h₂ → …; ∂h_t/∂h_(t−1) → product over time → norm"),
        draw=draw_rnn_jacobian,
        describe=_describe_rnn_jacobian,
        make_settings=lambda _: {"activation": "tanh"},
        sizes=((2, 2), (3, 2), (4, 3)),
        max_size=(5, 5),
        options={"hidden_size": SizeOption(lambda _, width: min(width, 3), maximum=4)},
        sentence="labels",
    ),
    SheetKind(
        name="lstm_gradient",
        title=gettext_noop("Back-propagation through one step of an LSTM"),
        problem_kind="lstm_gradient",
        picture=gettext_noop(
            "x, h₀, c₀ → gates → c → h; back: dh → dc → dgates → dsum → dW, dx, dh₀"
        ),
        draw=draw_lstm_gradient,
        describe=_describe_lstm_gradient,
        sizes=((1, 1), (1, 2), (1, 3)),
        min_size=(1, 1),
        max_size=(1, 4),
        options={"hidden_size": SizeOption(lambda _, width: min(width + 1, 2), maximum=4)},
        size_names=("steps", "inputs"),
        size_text=gettext_noop("{tokens} step with {width} inputs"),
        sentence="none",
    ),
    _make_optimizer_sheet(
        "momentum_step",
        gettext_noop("One step of SGD with momentum"),
        gettext_noop("dW → velocity → W − η velocity"),
        draw_momentum,
        optimizer="momentum",
        learning_rate=0.1,
        momentum=0.9,
    ),
    _make_optimizer_sheet(
        "adam_step",
        gettext_noop("One step of Adam"),
        "dW → m, v → m̂, v̂ → W − η m̂ / (√v̂ + ε)",
        draw_adam,
        optimizer="adam",
        learning_rate=0.1,
        t=2,
        beta_1=0.8,
        beta_2=0.9,
        eps=0.01,
    ),
)
