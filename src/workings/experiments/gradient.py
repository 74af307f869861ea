"""Why do gradients vanish or explode through time?

The gradient of a loss with respect to a state k steps before has passed through the same matrix k
times: it grows or shrinks like the k-th power of the matrix's largest eigenvalue. An LSTM's cell is
updated by addition instead, as is the residual stream of a residual network. With attention, every
word is one step away.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from workings.experiments import QUESTIONS
from workings.experiments.base import Finding, isolated_rng
from workings.layers.attention import MultiHeadAttention
from workings.layers.recurrent import RecurrentLayer
from workings.layers.transformer import FeedForward, Residual
from workings.render.chart import Series, line_chart
from workings.render.pictures import side_by_side
from workings.trace import Trace

WIDTH, BATCH_SIZE, HEADS = 64, 128, 4
TIME_STEPS, DEPTH = 60, 20
RADII = (0.7, 0.9, 1.0, 1.1, 1.2)
SMALL_INPUT, LARGE_INPUT = 1e-5, 1.0  # scales of the inputs: near zero a tanh is linear
OPEN_GATE_STEPS = 10 * TIME_STEPS  # time scale of the LSTM whose forget gates start open


@dataclass(frozen=True)
class GradientDecay:
    """Gradient norms by distance, relative to the norm one step back."""

    name: str
    norms: Sequence[float]  # 1, 2, … steps back

    @property
    def last(self) -> float:
        """The norm at the largest distance."""
        return self.norms[-1]

    @property
    def step_factor(self) -> float:
        """The mean factor per step, over the farther half of the distances."""
        half = len(self.norms) // 2
        return float((self.last / self.norms[half - 1]) ** (1 / (len(self.norms) - half)))


@dataclass(frozen=True)
class GradientMeasurements:
    """Plain RNNs by spectral radius, and other layers through time and through depth."""

    small_inputs: Sequence[GradientDecay]  # for each of RADII
    large_inputs: GradientDecay  # for the last of RADII
    through_time: Sequence[GradientDecay]  # RNN, LSTM, LSTM with open gates, attention
    through_depth: Sequence[GradientDecay]  # default weights, He weights, residual


def measure_decay(name: str, output: Tensor, states: Sequence[Tensor]) -> GradientDecay:
    """Backpropagate a random direction of the output to each state; the nearest state is last."""
    gradients = torch.autograd.grad(output, states, torch.randn_like(output))
    norms = [gradient.norm(dim=-1).mean().item() for gradient in reversed(gradients)][1:]
    return GradientDecay(name, [norm / norms[0] for norm in norms])


def measure_through_time(
    name: str, layer: RecurrentLayer, state: str, input_scale: float = LARGE_INPUT
) -> GradientDecay:
    """Backpropagate the last output of a recurrent layer through its states."""
    with Trace(only=state) as trace:
        _, last, _ = layer(input_scale * torch.randn(BATCH_SIZE, TIME_STEPS + 1, WIDTH))
    return measure_decay(name, last, trace.steps(state))


def build_rnn(radius: float) -> RecurrentLayer:
    """Build a plain RNN without biases whose W_hh has the given spectral radius."""
    layer = RecurrentLayer("rnn", WIDTH, WIDTH)
    _, matrix, *biases = layer.layer.all_weights[0]
    with torch.no_grad():
        for bias in biases:
            bias.zero_()
        matrix.normal_()
        matrix.mul_(radius / torch.linalg.eigvals(matrix).abs().max())
    return layer


def measure_through_attention(name: str) -> GradientDecay:
    """Backpropagate the attention output of the last word to each word."""
    words = [torch.randn(BATCH_SIZE, WIDTH, requires_grad=True) for _ in range(TIME_STEPS + 1)]
    output = MultiHeadAttention(WIDTH, HEADS)(torch.stack(words, 1))
    return measure_decay(name, output[:, -1], words)


def measure_through_depth(
    name: str, *, residual: bool = False, he_init: bool = False
) -> GradientDecay:
    """Backpropagate through feed-forward layers, with or without residual connections.

    Torch's default initialization shrinks activations; He initialization keeps their scale.
    """
    states = [torch.randn(BATCH_SIZE, 1, WIDTH, requires_grad=True)]
    for _ in range(DEPTH + 1):
        layer = FeedForward(WIDTH, 4 * WIDTH)
        if he_init:
            nn.init.kaiming_normal_(layer.inner.weight)
            nn.init.kaiming_normal_(layer.outer.weight, nonlinearity="linear")
        connection = Residual(WIDTH, "pre", dropout=0.0)
        states.append(connection(states[-1], layer) if residual else layer(states[-1]))
    return measure_decay(name, states[-1], states[1:])


def measure(seed: int = 1) -> GradientMeasurements:
    """Measure gradient decay in untrained layers."""
    with isolated_rng(seed):
        return GradientMeasurements(
            [measure_through_time(f"{x:.1f}", build_rnn(x), "hidden", SMALL_INPUT) for x in RADII],
            measure_through_time(f"{RADII[-1]}, large inputs", build_rnn(RADII[-1]), "hidden"),
            [
                measure_through_time("RNN", RecurrentLayer("rnn", WIDTH, WIDTH), "hidden"),
                measure_through_time("LSTM", RecurrentLayer("lstm", WIDTH, WIDTH), "cell"),
                measure_through_time(
                    "LSTM, open",
                    RecurrentLayer("lstm", WIDTH, WIDTH, chrono_init=OPEN_GATE_STEPS),
                    "cell",
                ),
                measure_through_attention("attention"),
            ],
            [
                measure_through_depth("plain"),
                measure_through_depth("plain, He init", he_init=True),
                measure_through_depth("residual", residual=True),
            ],
        )


def answer(seed: int = 1) -> Finding:
    """Describe and draw the measurements."""
    result = measure(seed)
    low, high = result.small_inputs[0], result.small_inputs[-1]
    rnn, lstm, lstm_open, attention = result.through_time
    plain, he_init, residual = result.through_depth
    lines = (
        f"In an RNN whose W_hh has spectral radius {low.name}, the gradient {TIME_STEPS} steps "
        f"back is {low.last:.0e} of what it is one step back; with {high.name} it has grown "
        f"{high.last:,.0f} times. Each step multiplies it by {low.step_factor:.2f} and "
        f"{high.step_factor:.2f}. Large inputs saturate the tanh, and {high.name} becomes "
        f"{result.large_inputs.step_factor:.2f} per step.",
        f"An LSTM's cell is updated by addition: {lstm_open.last:.0%} of the gradient is left if "
        f"its forget gates start open, {lstm.last:.0e} with the usual initialization, "
        f"{rnn.last:.0e} in an RNN. A residual network is updated by addition, too: {DEPTH} layers "
        f"back {residual.last:.2f} is left, without residual connections {plain.last:.0e}, unless "
        f"the weights are initialized for their width ({he_init.last:.2f}).",
        f"Attention reaches any word in one step: {TIME_STEPS} words back the gradient is "
        f"{attention.last:.2f} times what it is one word back.",
    )
    groups = {
        "RNN, by the spectral radius of W_hh": (
            "steps",
            [*result.small_inputs, result.large_inputs],
        ),
        "Through time: LSTM and attention": ("steps", result.through_time),
        "Through depth: residual connections": ("layers", result.through_depth),
    }
    pictures = [
        line_chart(
            [Series(decay.name, list(enumerate(decay.norms, start=1))) for decay in decays],
            title=title,
            x_label=f"{unit} back",
            y_label="gradient norm, relative to one back",
            log_y=True,
            width=420,
        )
        for title, (unit, decays) in groups.items()
    ]
    rows = [
        (
            title.split(",")[0].split(":")[0],
            decay.name,
            f"{decay.last:.1e}",
            f"{decay.step_factor:.3f}",
        )
        for title, (_, decays) in groups.items()
        for decay in decays
    ]
    return Finding(
        QUESTIONS["gradient"],
        lines,
        "training, which changes the spectral radius and opens or closes gates; clipping, which "
        "limits exploding gradients and does not restore vanished ones; attention that has learned "
        "to attend to a few words, and passes hardly any gradient to the others.",
        side_by_side(pictures, "How far back a gradient reaches"),
        ("where", "layer", "left at the end", "factor per step"),
        rows,
    )
