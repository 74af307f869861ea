"""Why do gradients vanish or explode through time?

What a loss has to say of a state k steps before has gone through the same matrix k times: it grows
or shrinks like the k-th power of the matrix's largest eigenvalue. An LSTM's cell is added to rather
than multiplied through, as is what runs through a residual network. Attention has no way to go: any
word is one step away.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from workings.experiments import QUESTIONS
from workings.experiments.finding import Finding
from workings.experiments.toy_training import isolated_rng
from workings.layers.attention import MultiHeadAttention
from workings.layers.recurrent import RecurrentLayer
from workings.layers.transformer import FeedForward, Residual
from workings.render.chart import Series, line_chart
from workings.render.pictures import side_by_side
from workings.trace import Trace

WIDTH, BATCH_SIZE, HEADS = 64, 128, 4
TIME_STEPS, DEPTH = 60, 20  # steps through time, and layers
RADII = (0.7, 0.9, 1.0, 1.1, 1.2)
SMALL_INPUT, LARGE_INPUT = 1e-5, 1.0  # the size of inputs: near zero a tanh is a straight line
OPEN_GATE_STEPS = 10 * TIME_STEPS  # steps that an LSTM with open gates keeps its slowest cells for


@dataclass(frozen=True)
class GradientDecay:
    """How large gradients are, by how far back they went, as shares of one step back."""

    name: str
    norms: Sequence[float]  # 1, 2, … steps back

    @property
    def last(self) -> float:
        """What is left at the end."""
        return self.norms[-1]

    @property
    def step_factor(self) -> float:
        """What a step multiplies it by, on average over the farther half."""
        half = len(self.norms) // 2
        return float((self.last / self.norms[half - 1]) ** (1 / (len(self.norms) - half)))


@dataclass(frozen=True)
class GradientMeasurements:
    """Plain RNNs by spectral radius, layers that carry through time, and through depth."""

    small_inputs: Sequence[GradientDecay]  # for each of RADII
    large_inputs: GradientDecay  # the last of them, with large inputs
    through_time: Sequence[GradientDecay]  # RNN, LSTM, LSTM with open gates, attention
    through_depth: Sequence[GradientDecay]  # plain, plain with matched weights, residual


def measure_decay(name: str, output: Tensor, states: Sequence[Tensor]) -> GradientDecay:
    """Follow a random direction of the output back to each state; the nearest comes last."""
    found = torch.autograd.grad(output, states, torch.randn_like(output))
    norms = [gradient.norm(dim=-1).mean().item() for gradient in reversed(found)][1:]
    return GradientDecay(name, [norm / norms[0] for norm in norms])


def measure_through_time(
    name: str, layer: RecurrentLayer, state: str, input_scale: float = LARGE_INPUT
) -> GradientDecay:
    """Follow the last output of a recurrent layer back through its states."""
    with Trace(only=state) as trace:
        _, last, _ = layer(input_scale * torch.randn(BATCH_SIZE, TIME_STEPS + 1, WIDTH))
    return measure_decay(name, last, trace.steps(state))


def build_rnn(radius: float) -> RecurrentLayer:
    """Make a plain RNN without biases whose recurrent matrix has a spectral radius."""
    layer = RecurrentLayer("rnn", WIDTH, WIDTH)
    _, matrix, *biases = layer.layer.all_weights[0]
    with torch.no_grad():
        for bias in biases:
            bias.zero_()
        matrix.normal_()
        matrix.mul_(radius / torch.linalg.eigvals(matrix).abs().max())
    return layer


def measure_through_attention(name: str) -> GradientDecay:
    """Follow what attention gives the last word back to each word."""
    words = [torch.randn(BATCH_SIZE, WIDTH, requires_grad=True) for _ in range(TIME_STEPS + 1)]
    read = MultiHeadAttention(WIDTH, HEADS)(torch.stack(words, 1))
    return measure_decay(name, read[:, -1], words)


def measure_through_depth(
    name: str, *, residual: bool = False, he_init: bool = False
) -> GradientDecay:
    """Follow the output of feed-forward layers back, with or without a path around each.

    Fresh weights of torch shrink what passes; matched ones (He) hand it on as large as it came.
    """
    states = [torch.randn(BATCH_SIZE, 1, WIDTH, requires_grad=True)]
    for _ in range(DEPTH + 1):
        layer = FeedForward(WIDTH, 4 * WIDTH)
        if he_init:
            nn.init.kaiming_normal_(layer.inner.weight)
            nn.init.kaiming_normal_(layer.outer.weight, nonlinearity="linear")
        around = Residual(WIDTH, "pre", dropout=0.0)
        states.append(around(states[-1], layer) if residual else layer(states[-1]))
    return measure_decay(name, states[-1], states[1:])


def measure(seed: int = 1) -> GradientMeasurements:
    """Follow gradients back through fresh layers."""
    with isolated_rng(seed):
        return GradientMeasurements(
            [measure_through_time(f"{x:.1f}", build_rnn(x), "hidden", SMALL_INPUT) for x in RADII],
            measure_through_time(f"{RADII[-1]}, large inputs", build_rnn(RADII[-1]), "hidden"),
            [
                measure_through_time("RNN", RecurrentLayer("rnn", WIDTH, WIDTH), "hidden"),
                measure_through_time("LSTM", RecurrentLayer("lstm", WIDTH, WIDTH), "cell"),
                measure_through_time(
                    "LSTM, open",
                    RecurrentLayer("lstm", WIDTH, WIDTH, chrono_steps=OPEN_GATE_STEPS),
                    "cell",
                ),
                measure_through_attention("attention"),
            ],
            [
                measure_through_depth("plain"),
                measure_through_depth("plain, matched", he_init=True),
                measure_through_depth("residual", residual=True),
            ],
        )


def answer(seed: int = 1) -> Finding:
    """Say and draw what was measured."""
    found = measure(seed)
    low, high = found.small_inputs[0], found.small_inputs[-1]
    rnn, lstm, gates_open, attention = found.through_time
    plain, matched, residual = found.through_depth
    lines = (
        f"In an RNN whose W_hh has spectral radius {low.name}, the gradient {TIME_STEPS} steps back is "
        f"{low.last:.0e} of what it is one step back; with {high.name} it has grown "
        f"{high.last:,.0f} times. A step multiplies it by {low.step_factor:.2f} and "
        f"{high.step_factor:.2f}. Large inputs bend the tanh, and {high.name} becomes "
        f"{found.large_inputs.step_factor:.2f} a step.",
        f"An LSTM's cell is updated by addition: {gates_open.last:.0%} of the gradient is left if "
        f"its forget gates begin open, {lstm.last:.0e} if they begin as usual, {rnn.last:.0e} in "
        "an RNN. A residual network is updated by addition, too: "
        f"{DEPTH} layers back {residual.last:.2f} is left, without "
        f"the path {plain.last:.0e}, unless the weights' size is matched to their width "
        f"({matched.last:.2f}).",
        f"Attention goes to any word in one step: {TIME_STEPS} words back the gradient is "
        f"{attention.last:.2f} times what it is one word back.",
    )
    flows = {
        "RNN, by the spectral radius of W_hh": ("steps", [*found.small_inputs, found.large_inputs]),
        "Through time: LSTM and attention": ("steps", found.through_time),
        "Through depth: a residual path": ("layers", found.through_depth),
    }
    pictures = [
        line_chart(
            [Series(one.name, list(enumerate(one.norms, start=1))) for one in some],
            title=title,
            x_label=f"{what} back",
            y_label="gradient, as a share of what it is one back",
            log_y=True,
            width=420,
        )
        for title, (what, some) in flows.items()
    ]
    rows = [
        (title.split(",")[0].split(":")[0], one.name, f"{one.last:.1e}", f"{one.step_factor:.3f}")
        for title, (_, some) in flows.items()
        for one in some
    ]
    return Finding(
        QUESTIONS["gradient"],
        lines,
        "training, which moves the spectral radius and opens or closes gates; clipping, which cuts "
        "what explodes and brings back nothing that vanished; attention that has learned to look "
        "at a few words, and hears nothing of the others.",
        side_by_side(pictures, "How far back a gradient reaches"),
        ("where", "what", "left at the end", "a step"),
        rows,
    )
