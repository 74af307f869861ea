"""Sheets on networks in both directions, and on an encoder with a decoder."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np

from workings.languages import gettext, gettext_noop
from workings.problems.intervals import Floats
from workings.problems.problem import Problem
from workings.problems.sheets.network_sheets import (
    GRU_SENTENCE,
    GRU_SETTINGS,
    draw_gru_weights,
    is_instructive,
)
from workings.problems.sheets.recurrent_sheets import (
    describe_gates,
    draw_lstm_weights,
    draw_rnn_weights,
)
from workings.problems.sheets.sampling import (
    BIAS_VALUES,
    GATE_WEIGHT_VALUES,
    SMALL_INPUT_VALUES,
    SamplingError,
    draw_inputs,
    draw_vector,
    draw_weight,
    is_unsaturated,
    softmax_penalty,
)
from workings.problems.sheets.sheet_kind import Fields, Givens, SheetKind, SheetPlan, SizeOption

_MAX_TRIES = 300  # of each part
_NUM_CLASSES = 3
_MAX_LOWEST, _MIN_HIGHEST = -0.1, 0.5  # of the scores of a softmax
_NUM_DECODER_STEPS = 2


def _draw_rnn_weights(rng: Random, x: Floats, hidden: int) -> Givens:
    """Draw weights whose sums differ in sign: their ReLU is neither the sums nor zero."""
    for _ in range(_MAX_TRIES):
        weights = draw_rnn_weights(rng, x, hidden, GATE_WEIGHT_VALUES)
        states = _run_encoder(x, weights)
        if ((states > 0).any(1) & (states < 0).any(1)).all():
            return weights
    raise SamplingError


def _draw_both_directions(
    draw_weights: Callable[[Random, Floats, int], Givens],
) -> Callable[[Random, SheetPlan], Givens]:
    """Return a function that draws X and the weights of both networks."""

    def draw(rng: Random, plan: SheetPlan) -> Givens:
        x = draw_inputs(rng, plan.tokens, plan.width, SMALL_INPUT_VALUES)
        givens: Givens = {"X": x}
        for direction, inputs in (("forward", x), ("backward", x[::-1])):
            weights = draw_weights(rng, inputs, plan.hidden_size)
            givens |= {f"{direction}.{name}": matrix for name, matrix in weights.items()}
        return givens

    return draw


def draw_encoder_decoder(rng: Random, plan: SheetPlan) -> Givens:
    """Draw an encoder and a decoder, with attention if the kind has it; nothing saturates.

    One part after another is drawn until it suits those before it: all at once rarely suit.
    """
    d, hidden = plan.width, plan.hidden_size
    x = draw_inputs(rng, plan.tokens, d, SMALL_INPUT_VALUES)
    encoder = _draw_rnn_weights(rng, x, hidden)
    states = _run_encoder(x, encoder)
    attention: Givens = {}
    if _has_attention(plan):
        attention = _draw_givens(
            lambda: _draw_attention(rng, hidden),
            lambda givens: _attend(states[-1:], states, givens) is not None,
        )
    decoder = _draw_givens(
        lambda: _draw_decoder(rng, plan) | attention,
        lambda givens: _run_decoder(states, givens) is not None,
    )
    decoder_states = _run_decoder(states, decoder)
    assert decoder_states is not None
    output = _draw_givens(
        lambda: _draw_output(rng, hidden),
        lambda givens: all(
            _is_clear_softmax(s @ givens["W_hy"] + givens["b_y"]) for s in decoder_states
        ),
    )
    return {"X": x, **{f"encoder.{name}": w for name, w in encoder.items()}, **decoder, **output}


def _draw_givens(draw: Callable[[], Givens], accept: Callable[[Givens], bool]) -> Givens:
    for _ in range(_MAX_TRIES):
        givens = draw()
        if accept(givens):
            return givens
    raise SamplingError


def _draw_attention(rng: Random, hidden: int) -> Givens:
    return {
        "attention.W_s": draw_weight(rng, hidden, hidden, GATE_WEIGHT_VALUES, 0.8),
        "attention.W_h": draw_weight(rng, hidden, hidden, GATE_WEIGHT_VALUES, 0.8),
        "attention.v": draw_vector(rng, hidden, (-2, -1, 1, 2, 3)),
    }


def _draw_decoder(rng: Random, plan: SheetPlan) -> Givens:
    d, hidden, values = plan.width, plan.hidden_size, GATE_WEIGHT_VALUES
    return {
        "decoder.Y": draw_inputs(rng, _NUM_DECODER_STEPS, d, SMALL_INPUT_VALUES),
        "decoder.W_ys": draw_weight(rng, d, hidden, values),
        "decoder.W_ss": draw_weight(rng, hidden, hidden, values, 0.8),
        "decoder.W_cs": draw_weight(rng, hidden, hidden, values, 0.8),
        "decoder.b": draw_vector(rng, hidden, BIAS_VALUES),
    }


def _draw_output(rng: Random, hidden: int) -> Givens:
    return {
        "W_hy": draw_weight(rng, hidden, _NUM_CLASSES, GATE_WEIGHT_VALUES, 0.9),
        "b_y": draw_vector(rng, _NUM_CLASSES, BIAS_VALUES),
    }


def _has_attention(plan: SheetPlan) -> bool:
    return plan.kind.name.endswith("attention")


def _run_encoder(x: Floats, weights: Givens) -> Floats:
    """Return the states of the encoder as rows."""
    h, states = np.zeros((1, len(weights["W_hh"]))), []
    for row in x:
        h = np.tanh(row @ weights["W_xh"] + h @ weights["W_hh"] + weights["b"])
        states.append(h)
    return np.concatenate(states)


def _run_decoder(states: Floats, givens: Givens) -> list[Floats] | None:
    """Return the states of the decoder; None if a tanh or its attention is near its limits."""
    s, context, decoder_states = states[-1:], states[-1:], []
    for y in givens["decoder.Y"]:
        if "attention.v" in givens:
            attended = _attend(s, states, givens)
            if attended is None:
                return None
            context = attended
        total = y @ givens["decoder.W_ys"] + s @ givens["decoder.W_ss"]
        total = total + context @ givens["decoder.W_cs"] + givens["decoder.b"]
        if not is_instructive(total) or not total.min() < 0 < total.max():
            return None
        s = np.tanh(total)
        decoder_states.append(s)
    return decoder_states


def _attend(s: Floats, states: Floats, givens: Givens) -> Floats | None:
    """Return the context of a state of the decoder; None if the attention is near its limits."""
    hidden = s @ givens["attention.W_s"] + states @ givens["attention.W_h"]
    scores = givens["attention.v"] @ np.tanh(hidden).T
    is_one_sided = not hidden.min() < 0 < hidden.max()
    if is_one_sided or not is_unsaturated(hidden) or not _is_clear_softmax(scores):
        return None
    context: Floats = _softmax(scores) @ states
    return context


def _is_clear_softmax(scores: Floats) -> bool:
    """Return True if the softmax is instructive and differs from powers and sigmoids near 1."""
    if not (scores.min() < _MAX_LOWEST and scores.max() > _MIN_HIGHEST):
        return False
    return softmax_penalty(scores, np.full(scores.shape, True)) == 0


def _softmax(scores: Floats) -> Floats:
    powers = np.exp(scores)
    shares: Floats = powers / powers.sum()
    return shares


def _describe_directions(plan: SheetPlan, problem: Problem) -> list[str]:
    sentences = [
        gettext("Each token is a {vector}.", vector=plan.vector),
        gettext(
            "The forward network reads the {vectors} of X from the first to the last, the backward"
            " network from the last to the first; both start from zero. h_t is the forward state of"
            " time t, followed by the backward state of the same token.",
            vectors=plan.vectors,
        ),
    ]
    if problem.kind.name.endswith("lstm"):
        sentences.append(describe_gates(plan))
    elif problem.kind.name.endswith("gru"):
        sentences.append(gettext(GRU_SENTENCE))
    return sentences


def _describe_encoder_decoder(plan: SheetPlan, problem: Problem) -> list[str]:  # noqa: ARG001
    return [
        gettext("Each token is a {vector}.", vector=plan.vector),
        gettext(
            "The encoder reads X and starts from zero. The decoder starts from its last state,"
            " s₀ = h_T, and reads one {vector} of decoder.Y at a time.",
            vector=plan.vector,
        ),
        gettext(
            "At each time the context c is the sum of the encoder's states, weighted by additive"
            " attention that compares them with the decoder's previous state."
        )
        if _has_attention(plan)
        else gettext("The context is the encoder's last state at every time."),
    ]


_BIDIRECTIONAL_RNN = SheetKind(
    name="bidirectional_rnn",
    title=gettext_noop("A bidirectional network"),
    problem_kind="bidirectional_rnn",
    picture=gettext_noop("x₁ → x₂ → x₃ and x₃ → x₂ → x₁; h_t = [forward state, backward state]"),
    draw=_draw_both_directions(_draw_rnn_weights),
    describe=_describe_directions,
    make_settings=lambda _: {"activation": "tanh"},
    sizes=((2, 2), (3, 2), (3, 3)),
    max_size=(4, 4),
    options={"hidden_size": SizeOption(lambda _, width: min(width, 2), maximum=4)},
    sentence="labels",
)
_ENCODER_DECODER = SheetKind(
    name="encoder_decoder",
    title=gettext_noop("An encoder and a decoder"),
    problem_kind="encoder_decoder",
    picture=gettext_noop("X → encoder → h_T = s₀ = c → decoder: s_t of y, s_(t−1), c → softmax"),
    draw=draw_encoder_decoder,
    describe=_describe_encoder_decoder,
    make_settings=lambda _: {"activation": "tanh", "output": "softmax", "outputs": "all"},
    sizes=((2, 3), (3, 3), (3, 4)),
    max_size=(4, 4),
    options={"hidden_size": SizeOption(lambda _, width: min(width, 2), maximum=4)},
    sentence="none",
)
_LSTM_SETTINGS: Fields = {"gates": "ifgo"}
SEQUENCE_SHEETS = (
    _BIDIRECTIONAL_RNN,
    replace(
        _BIDIRECTIONAL_RNN,
        name="bidirectional_lstm",
        title=gettext_noop("A bidirectional LSTM"),
        problem_kind="bidirectional_lstm",
        picture=gettext_noop("gates i, f, g, o → c_t → h_t, from the left and from the right"),
        draw=_draw_both_directions(draw_lstm_weights),
        make_settings=lambda _: _LSTM_SETTINGS,
        sizes=((2, 3), (2, 4), (3, 3)),
    ),
    replace(
        _BIDIRECTIONAL_RNN,
        name="bidirectional_gru",
        title=gettext_noop("A bidirectional GRU"),
        problem_kind="bidirectional_gru",
        picture=gettext_noop("gates z, r → candidate n → h_t, from the left and from the right"),
        draw=_draw_both_directions(draw_gru_weights),
        make_settings=lambda _: GRU_SETTINGS,
        sizes=((2, 3), (2, 4), (3, 3)),
    ),
    _ENCODER_DECODER,
    replace(
        _ENCODER_DECODER,
        name="encoder_decoder_attention",
        title=gettext_noop("A decoder with attention"),
        picture=gettext_noop("s_(t−1), H → tanh(s W_s + H W_h) → · v → softmax → c_t → s_t"),
        make_settings=lambda _: {
            "activation": "tanh",
            "output": "softmax",
            "outputs": "all",
        },
    ),
)
