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

from workings.layers.blocks import Residual
from workings.layers.feed_forward import FeedForward
from workings.layers.multi_head import MultiHeadAttention
from workings.layers.recurrent import Direction
from workings.trace import Trace
from workings.views.chart import Series, line_chart
from workings.views.panels import side_by_side
from workings.why import QUESTIONS
from workings.why.finding import Finding
from workings.why.learning import seeded

WIDTH, BATCH, HEADS = 64, 128, 4
BACK, DEPTH = 60, 20  # steps through time, and layers
RADII = (0.7, 0.9, 1.0, 1.1, 1.2)
QUIET, LOUD = 1e-5, 1.0  # the size of inputs: near zero a tanh is a straight line
OPEN = 10 * BACK  # steps that an LSTM with open gates keeps its slowest cells for


@dataclass(frozen=True)
class Flow:
    """How large gradients are, by how far back they went, as shares of one step back."""

    name: str
    norms: Sequence[float]  # 1, 2, … steps back

    @property
    def last(self) -> float:
        """What is left at the end."""
        return self.norms[-1]

    @property
    def factor(self) -> float:
        """What a step multiplies it by, on average over the farther half."""
        half = len(self.norms) // 2
        return float((self.last / self.norms[half - 1]) ** (1 / (len(self.norms) - half)))


@dataclass(frozen=True)
class Measured:
    """Plain RNNs by spectral radius, layers that carry through time, and through depth."""

    quiet: Sequence[Flow]  # for each of RADII
    loud: Flow  # the last of them, with large inputs
    time: Sequence[Flow]  # RNN, LSTM, LSTM with open gates, attention
    depth: Sequence[Flow]  # plain, plain with matched weights, residual


def flow(name: str, output: Tensor, states: Sequence[Tensor]) -> Flow:
    """Follow a random direction of the output back to each state; the nearest comes last."""
    found = torch.autograd.grad(output, states, torch.randn_like(output))
    norms = [gradient.norm(dim=-1).mean().item() for gradient in reversed(found)][1:]
    return Flow(name, [norm / norms[0] for norm in norms])


def through_time(name: str, layer: Direction, state: str, size: float = LOUD) -> Flow:
    """Follow the last output of a recurrent layer back through its states."""
    with Trace(only=state) as trace:
        _, last, _ = layer(size * torch.randn(BATCH, BACK + 1, WIDTH))
    return flow(name, last, trace.steps(state))


def with_radius(radius: float) -> Direction:
    """Make a plain RNN without biases whose recurrent matrix has a spectral radius."""
    layer = Direction("rnn", WIDTH, WIDTH)
    _, matrix, *biases = layer.layer.all_weights[0]
    with torch.no_grad():
        for bias in biases:
            bias.zero_()
        matrix.normal_()
        matrix.mul_(radius / torch.linalg.eigvals(matrix).abs().max())
    return layer


def through_attention(name: str) -> Flow:
    """Follow what attention gives the last word back to each word."""
    words = [torch.randn(BATCH, WIDTH, requires_grad=True) for _ in range(BACK + 1)]
    read = MultiHeadAttention(WIDTH, HEADS)(torch.stack(words, 1))
    return flow(name, read[:, -1], words)


def through_depth(name: str, *, residual: bool = False, matched: bool = False) -> Flow:
    """Follow the output of feed-forward layers back, with or without a path around each.

    Fresh weights of torch shrink what passes; matched ones (He) hand it on as large as it came.
    """
    states = [torch.randn(BATCH, 1, WIDTH, requires_grad=True)]
    for _ in range(DEPTH + 1):
        layer = FeedForward(WIDTH, 4 * WIDTH)
        if matched:
            nn.init.kaiming_normal_(layer.inner.weight)
            nn.init.kaiming_normal_(layer.outer.weight, nonlinearity="linear")
        around = Residual(WIDTH, "pre", dropout=0.0)
        states.append(around(states[-1], layer) if residual else layer(states[-1]))
    return flow(name, states[-1], states[1:])


def measure(seed: int = 1) -> Measured:
    """Follow gradients back through fresh layers."""
    with seeded(seed):
        return Measured(
            [through_time(f"{x:.1f}", with_radius(x), "hidden", QUIET) for x in RADII],
            through_time(f"{RADII[-1]}, large inputs", with_radius(RADII[-1]), "hidden"),
            [
                through_time("RNN", Direction("rnn", WIDTH, WIDTH), "hidden"),
                through_time("LSTM", Direction("lstm", WIDTH, WIDTH), "cell"),
                through_time("LSTM, open", Direction("lstm", WIDTH, WIDTH, memory=OPEN), "cell"),
                through_attention("attention"),
            ],
            [
                through_depth("plain"),
                through_depth("plain, matched", matched=True),
                through_depth("residual", residual=True),
            ],
        )


def answer(seed: int = 1) -> Finding:
    """Say and draw what was measured."""
    found = measure(seed)
    low, high = found.quiet[0], found.quiet[-1]
    rnn, lstm, gates_open, attention = found.time
    plain, matched, residual = found.depth
    lines = (
        f"In an RNN whose W_hh has spectral radius {low.name}, the gradient {BACK} steps back is "
        f"{low.last:.0e} of what it is one step back; with {high.name} it has grown "
        f"{high.last:,.0f} times. A step multiplies it by {low.factor:.2f} and "
        f"{high.factor:.2f}. Large inputs bend the tanh, and {high.name} becomes "
        f"{found.loud.factor:.2f} a step.",
        f"An LSTM's cell is updated by addition: {gates_open.last:.0%} of the gradient is left if "
        f"its forget gates begin open, {lstm.last:.0e} if they begin as usual, {rnn.last:.0e} in "
        "an RNN. A residual network is updated by addition, too: "
        f"{DEPTH} layers back {residual.last:.2f} is left, without "
        f"the path {plain.last:.0e}, unless the weights' size is matched to their width "
        f"({matched.last:.2f}).",
        f"Attention goes to any word in one step: {BACK} words back the gradient is "
        f"{attention.last:.2f} times what it is one word back.",
    )
    flows = {
        "RNN, by the spectral radius of W_hh": ("steps", [*found.quiet, found.loud]),
        "Through time: LSTM and attention": ("steps", found.time),
        "Through depth: a residual path": ("layers", found.depth),
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
        (title.split(",")[0].split(":")[0], one.name, f"{one.last:.1e}", f"{one.factor:.3f}")
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
