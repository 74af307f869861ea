"""Draw the figures of the course, docs/figures/*.svg: python docs/figures.py [FOLDER].

The output is deterministic: a test draws every figure again and compares. Colors have one meaning
in all figures: blue is input, green is a hidden state, orange is output or loss, purple is
attention.
"""

import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from figure import Figure, Point


def rnn() -> Figure:
    """A recurrent network, folded and unrolled over "hell"."""
    figure = Figure(760, 256, "A recurrent network, folded and unrolled in time")
    figure.text(84, 24, "folded", "soft")
    figure.text(470, 24, "unrolled: the same weights at every step", "soft")
    cell = figure.box(84, 130, 66, 42, "h_t", "state", math=True, size=16)
    figure.text(84, 62, "y_t", math=True, size=16)
    figure.arrow([cell.top, (84, 72)], "output")
    figure.text(84, 214, "x_t", math=True, size=16)
    figure.arrow([(84, 198), cell.bottom], "input")
    figure.line([(117, 138), (148, 138), (148, 106)], "state")
    figure.arrow([(148, 106), (130, 106), (118, 118)], "state")
    figure.text(154, 127, "W_{hh}", "state", math=True, anchor="start")
    figure.text(76, 180, "W_{xh}", "input", math=True, anchor="end")
    figure.text(76, 96, "W_{hy}", "output", math=True, anchor="end")
    figure.line([(204, 40), (204, 240)], "line")
    before = (262.0, 130.0)
    figure.text(242, 135, "h_0", math=True, size=16)
    for k, (token, following) in enumerate(zip("hell", "ello", strict=True)):
        x = 326 + 114 * k
        cell = figure.box(x, 130, 58, 40, f"h_{k + 1}", "state", math=True, size=15)
        figure.arrow([before, cell.left], "state")
        output = figure.box(x, 60, 58, 30, f"“{following}”", "output")
        source = figure.box(x, 204, 58, 30, f"“{token}”", "input")
        figure.arrow([cell.top, output.bottom], "output")
        figure.arrow([source.top, cell.bottom], "input")
        figure.text(x, 241, f"x_{k + 1}", "soft", math=True)
        figure.text(x + 8, 173, "W_{xh}", "input", math=True, size=12, anchor="start")
        figure.text(x + 8, 99, "W_{hy}", "output", math=True, size=12, anchor="start")
        if k:
            figure.text(x - 57, 122, "W_{hh}", "state", math=True, size=12)
        before = cell.right
    figure.arrow([before, (750, 130)], "state")
    return figure


def bptt() -> Figure:
    """Back-propagation through time: the gradient shrinks with every step back."""
    figure = Figure(760, 300, "Back-propagation through time")
    figure.text(20, 26, "forward", "state", anchor="start")
    figure.text(20, 130, "backward", "gradient", anchor="start")
    ratio, steps = 0.7, 6
    before: Point | None = None
    for k in range(steps):
        x, lag = 130 + 108 * k, steps - 1 - k
        figure.text(x, 26, "t" if lag == 0 else f"t−{lag}", "soft", math=True)
        cell = figure.box(
            x, 66, 54, 38, "h_t" if lag == 0 else f"h_{{t−{lag}}}", "state", math=True
        )
        if before:
            figure.arrow([before, cell.left], "state")
        before = cell.right
        share = ratio**lag
        if lag:
            figure.arrow([(x + 108 - 6, 126), (x + 6, 126)], "gradient", 0.8 + 4.5 * share)
            if lag == 1:
                figure.text(
                    x + 54, 112, "× W_{hh}^T tanh′".replace("^T", "ᵀ"), "gradient", math=True
                )
        height = 100 * share
        figure.cell(x - 17, 276 - height, 34, height, "gradient", 0.75)
        figure.text(x, 270 - height, f"{share:.2f}", size=12)
    figure.line([(96, 276), (706, 276)], "soft", 1)
    figure.text(
        418, 294, "size of ∂L/∂h, where each step back multiplies it by 0.7", "soft", size=12
    )
    loss = figure.box(728, 126, 44, 34, "L", "output", math=True, size=15)
    figure.line([before or (0, 0), (728, 66)], "state")
    figure.arrow([(728, 66), loss.top], "state")
    figure.arrow([loss.left, (676, 126)], "gradient", 5)
    return figure


def lstm() -> Figure:
    """The LSTM cell: a cell state that is updated by addition, and three gates."""
    figure = Figure(720, 360, "The LSTM cell")
    figure.box(370, 180, 520, 296, opacity=0.05)
    cell_y, gate_y, below = 76, 216, 288
    figure.text(40, cell_y + 5, "c_{t−1}", math=True, size=16)
    figure.text(686, cell_y + 5, "c_t", math=True, size=16)
    figure.text(40, below + 5, "h_{t−1}", math=True, size=16)
    figure.text(686, below + 5, "h_t", math=True, size=16)
    forget, add = figure.operator(190, cell_y, "×"), figure.operator(350, cell_y, "+")
    figure.line([(70, cell_y), forget.left], "state", 3)
    figure.line([forget.right, add.left], "state", 3)
    figure.arrow([add.right, (664, cell_y)], "state", 3)
    figure.text(270, cell_y - 10, "the additive path", "state", size=12)
    write = figure.operator(350, 140, "×")
    figure.arrow([write.top, add.bottom])
    gates = {
        190: ("f", "σ", "forget"),
        290: ("i", "σ", "input"),
        390: ("g", "tanh", "candidate"),
        490: ("o", "σ", "output"),
    }
    for x, (name, function, role) in gates.items():
        gate = figure.box(x, gate_y, 58, 36, function, "input" if name == "g" else "attention")
        figure.arrow([(x, below), gate.bottom])
        figure.text(x + 8, gate_y - 24, f"{name}_t", math=True, size=14, anchor="start")
        figure.text(x + 6, gate_y + 34, role, "soft", size=11, anchor="start")
    figure.arrow([(190, gate_y - 18), forget.bottom])
    figure.arrow([(290, gate_y - 18), (290, 140), write.left])
    figure.arrow([(390, gate_y - 18), (390, 140), write.right])
    output_gate = figure.operator(590, gate_y, "×")
    squash = figure.box(590, 132, 58, 30, "tanh", "state")
    figure.arrow([(590, cell_y), squash.top], "state")
    figure.arrow([squash.bottom, output_gate.top], "state")
    figure.arrow([(519, gate_y), output_gate.left])
    figure.arrow([output_gate.bottom, (590, below), (664, below)], "state")
    figure.line([(72, below), (490, below)], "soft")
    figure.text(140, 352, "x_t", math=True, size=16)
    figure.line([(140, 336), (140, below)], "input")
    figure.elements.append(f'<circle cx="140" cy="{below}" r="3.2" class="f-soft"/>')
    return figure


def gru() -> Figure:
    """The GRU cell: an update gate that mixes old and new, and a reset gate."""
    figure = Figure(750, 326, "The GRU cell")
    figure.box(386, 160, 552, 270, opacity=0.05)
    top, mix_y, gate_y, state_rail, input_rail = 56, 112, 184, 240, 270
    figure.text(40, top + 5, "h_{t−1}", math=True, size=16)
    figure.text(718, top + 5, "h_t", math=True, size=16)
    figure.text(150, 320, "x_t", math=True, size=16)
    keep, add = figure.operator(450, top, "×"), figure.operator(560, top, "+")
    write, reset = figure.operator(560, mix_y, "×"), figure.operator(450, state_rail, "×")
    figure.line([(72, top), keep.left], "state", 3)
    figure.line([keep.right, add.left], "state", 3)
    figure.arrow([add.right, (696, top)], "state", 3)
    update = figure.box(240, gate_y, 62, 36, "σ", "attention")
    reset_gate = figure.box(350, gate_y, 62, 36, "σ", "attention")
    candidate = figure.box(560, gate_y, 62, 36, "tanh", "input")
    for x, role in ((240, "update"), (350, "reset"), (560, "candidate")):
        figure.text(x + 38, gate_y + 4, role, "soft", size=11, anchor="start")
    figure.line([update.top, (240, mix_y), (450, mix_y)])
    figure.arrow([(450, mix_y), keep.bottom])
    figure.arrow([(450, mix_y), write.left])
    figure.text(250, gate_y - 28, "z_t", math=True, size=14, anchor="start")
    figure.text(460, 92, "z_t", math=True, size=14, anchor="start")
    figure.text(502, mix_y - 7, "1 − z_t", math=True, size=13)
    figure.arrow([reset_gate.top, (350, 140), (450, 140), reset.top])
    figure.text(360, gate_y - 28, "r_t", math=True, size=14, anchor="start")
    figure.arrow([candidate.top, write.bottom])
    figure.text(570, 146, "n_t", math=True, size=14, anchor="start")
    figure.arrow([write.top, add.bottom])
    figure.line([(180, top), (180, state_rail), (350, state_rail)], "state")
    figure.arrow([(350, state_rail), reset.left], "state")
    figure.line([(150, 304), (150, input_rail), (362, input_rail)], "input")
    for gate in (update, reset_gate):
        bottom = gate_y + 18
        figure.arrow([(gate.x - 12, state_rail), (gate.x - 12, bottom)], "state")
        figure.arrow([(gate.x + 12, input_rail), (gate.x + 12, bottom)], "input")
    figure.arrow([reset.right, (548, state_rail), (548, gate_y + 18)], "state")
    figure.arrow([(362, input_rail), (572, input_rail), (572, gate_y + 18)], "input")
    return figure


def language_model() -> Figure:
    """Teacher forcing while training; autoregressive generation afterwards."""
    figure = Figure(760, 268, "Teacher forcing and autoregressive generation")
    figure.text(190, 24, "training: teacher forcing", bold=True)
    figure.text(570, 24, "generation: autoregressive", bold=True)
    figure.line([(380, 14), (380, 258)], "line")
    for side, (left, fed) in enumerate(((64, "hell"), (444, "h"))):
        before: Point | None = None
        for k, (token, target) in enumerate(zip("hell", "ello", strict=True)):
            x = left + 84 * k
            cell = figure.box(x, 146, 50, 36, f"h_{k + 1}", "state", math=True)
            given = k < len(fed)
            source = figure.box(x, 216, 50, 30, f"“{token}”", "input", dashed=not given)
            output = figure.box(x, 80, 50, 30, f"“{target}”", "output")
            figure.arrow([source.top, cell.bottom], "input")
            figure.arrow([cell.top, output.bottom], "output")
            if before:
                figure.arrow([before, cell.left], "state")
            before = cell.right
            if not side:
                figure.text(x, 54, f"−log p_{k + 1}", "output", math=True, size=12)
            elif k < 3:
                path = [(x + 25, 80), (x + 42, 80), (x + 42, 216), (x + 59, 216)]
                figure.arrow(path, "output", dash="4 3")
    figure.text(190, 252, "the true text goes in; the loss is the mean of −log p", "soft", size=12)
    figure.text(570, 252, "the prompt goes in, then the model’s own output", "soft", size=12)
    return figure


SOURCE, TARGET = ("we", "are", "eating", "bread"), ("estamos", "comiendo", "pan", "[STOP]")


def encoder_decoder() -> Figure:
    """Encoder and decoder joined by one context vector."""
    figure = Figure(760, 256, "Encoder–decoder with a fixed context vector")
    figure.text(152, 24, "encoder", bold=True)
    figure.text(580, 24, "decoder", bold=True)
    context = figure.box(362, 130, 46, 46, "c", "attention", math=True, size=17, opacity=0.25)
    figure.arrow([_encoder(figure, 42, 130), context.left], "state")
    figure.text(362, 172, "c = h_4", "soft", math=True)
    figure.text(362, 92, "one vector", "soft", size=12)
    before, rail = context.right, 236
    for k, (given, word) in enumerate(zip(("[START]", *TARGET[:-1]), TARGET, strict=True)):
        x = 460 + 84 * k
        state = figure.box(x, 130, 50, 38, f"s_{k + 1}", "state", math=True, size=15)
        figure.arrow([before, state.left], "state")
        output = figure.box(x, 66, 76, 28, word, "output", size=12)
        source = figure.box(x, 202, 76, 28, given, "input", size=12)
        figure.arrow([state.top, output.bottom], "output")
        figure.arrow([source.top, state.bottom], "input")
        figure.arrow([(x - 42, rail), (x - 42, 162), (x - 24, 146)], "attention", dash="4 3")
        before = state.right
    figure.line([(362, 180), (362, rail), (460 + 84 * 3 - 42, rail)], "attention", dash="4 3")
    return figure


def _encoder(figure: Figure, left: float, y: float, step: float = 76) -> Point:
    """Draw the encoder's four states with their words; return where the last one ends."""
    before: Point | None = None
    for k, word in enumerate(SOURCE):
        x = left + step * k
        state = figure.box(x, y, 46, 38, f"h_{k + 1}", "state", math=True, size=15)
        source = figure.box(x, y + 74, 60, 28, word, "input", size=12)
        figure.arrow([source.top, state.bottom], "input")
        if before:
            figure.arrow([before, state.left], "state")
        before = state.right
    return before or (0, 0)


def attention() -> Figure:
    """Attention from a decoder step over the encoder's states."""
    figure = Figure(760, 366, "A decoder that attends to the encoder’s states")
    weights = (0.06, 0.12, 0.76, 0.06)
    left, step, y, bars, sums = 140, 84, 254, 148, 62
    middle, end = left + 1.5 * step, left + 3 * step
    figure.text(28, 298, "encoder", bold=True, anchor="start")
    figure.text(28, bars, "weights", anchor="start", bold=True)
    figure.text(28, 192, "scores", anchor="start", bold=True)
    figure.box(middle, 188, 3 * step + 66, 32, color="attention")
    figure.line([(left - 30, bars), (end + 30, bars)], "soft", 1)
    before: Point | None = None
    for k, (word, weight) in enumerate(zip(SOURCE, weights, strict=True)):
        x = left + step * k
        state = figure.box(x, y, 46, 36, f"h_{k + 1}", "state", math=True, size=15)
        source = figure.box(x, y + 66, 62, 28, word, "input", size=12)
        figure.arrow([source.top, state.bottom], "input")
        if before:
            figure.arrow([before, state.left], "state")
        before = state.right
        figure.text(x, 193, f"e_{{2,{k + 1}}}", math=True, size=15)
        figure.arrow([state.top, (x, 204)], "state")
        figure.arrow([(x, 172), (x, bars + 4)], "attention")
        height = 62 * weight
        figure.cell(x - 16, bars - height, 32, height, "attention", 0.6)
        figure.text(x, bars - 6 - height, f"{weight:.2f}", size=12)
        figure.line([(x, bars - 20 - height), (x, sums)], "attention", 0.8 + 3 * weight)
    context = figure.operator(490, sums, "+", 13)
    figure.line([(left, sums), (end, sums)], "attention", 1.4)
    figure.arrow([(end, sums), context.left], "attention", 2)
    vector = figure.box(610, sums, 50, 34, "c_2", "attention", math=True, size=15, opacity=0.3)
    figure.arrow([context.right, vector.left], "attention", 2)
    figure.text(490, 32, "c_2 = Σ a_{2,i} h_i", math=True, size=14)
    query = figure.box(510, y, 50, 36, "s_1", "state", math=True, size=15)
    state = figure.box(610, y, 50, 36, "s_2", "state", math=True, size=15)
    figure.arrow([query.right, state.left], "state")
    figure.arrow([query.top, (510, 188), (end + 33, 188)], "state", dash="4 3")
    figure.text(518, 184, "query", "soft", size=12, anchor="start")
    figure.arrow([vector.bottom, state.top], "attention", 2)
    word = figure.box(706, y, 80, 28, TARGET[1], "output", size=12)
    figure.arrow([state.right, word.left], "output")
    source = figure.box(610, y + 66, 76, 28, TARGET[0], "input", size=12)
    figure.arrow([source.top, state.bottom], "input")
    figure.text(510, 298, "decoder", bold=True)
    figure.text(middle, 354, "drawn for the second output word", "soft", size=12)
    return figure


def self_attention() -> Figure:
    """Scaled dot-product self-attention as a data flow with shapes."""
    figure = Figure(760, 300, "Scaled dot-product self-attention")
    source = figure.box(60, 150, 66, 52, "X", "input", math=True, size=17)
    figure.text(60, 196, "n × d", "soft", math=True, size=12)
    named = {}
    for name, role, y in (("Q", "query", 60), ("K", "key", 150), ("V", "value", 240)):
        named[name] = figure.box(210, y, 60, 44, name, role, math=True, size=17)
        figure.arrow([source.right, (124, 150), (124, y), named[name].left], role)
        figure.text(150, y - 8, f"W_{name}", role, math=True)
        figure.text(
            210, y + 37, "n × d_v" if name == "V" else "n × d_k", "soft", math=True, size=12
        )
    scores = figure.box(346, 104, 84, 50, "Q Kᵀ", "attention", math=True, size=16)
    figure.arrow([named["Q"].right, (276, 60), (276, 94), (304, 94)], "query")
    figure.arrow([named["K"].right, (276, 150), (276, 114), (304, 114)], "key")
    scaled = figure.box(450, 104, 72, 50, "÷ √d_k", "attention", math=True, size=15)
    weights = figure.box(560, 104, 84, 50, "softmax", "attention")
    figure.text(346, 148, "scores, n × n", "soft", size=12)
    figure.text(560, 148, "weights: rows sum to 1", "soft", size=12)
    figure.arrow([scores.right, scaled.left], "attention")
    figure.arrow([scaled.right, weights.left], "attention")
    mix = figure.operator(680, 172, "×", 13)
    figure.arrow([weights.right, (680, 104), mix.top], "attention")
    figure.arrow([named["V"].right, (680, 240), mix.bottom], "value")
    figure.arrow([mix.right, (736, 172)], "output")
    figure.text(728, 160, "Y", math=True, size=17)
    figure.text(728, 196, "n × d_v", "soft", math=True, size=12)
    return figure


def multi_head() -> Figure:
    """Multi-head attention: split, attend, concatenate, project."""
    figure = Figure(760, 290, "Multi-head attention")
    source = figure.box(56, 150, 60, 52, "X", "input", math=True, size=17)
    figure.text(56, 196, "n × d", "soft", math=True, size=12)
    joined = figure.box(560, 150, 66, 236, "concat", "soft")
    for k, y in enumerate((62, 150, 238)):
        head = figure.box(386, y, 190, 58, "", "attention")
        name = f"head_{k + 1}" if k < 2 else "head_h"
        figure.text(386, y - 3, name, math=True, size=15)
        figure.text(386, y + 17, "softmax(QKᵀ/√d_k) V", "soft", math=True, size=12)
        for j, role in enumerate(("query", "key", "value")):
            at = y + (j - 1) * 17
            figure.line([source.right, (112, 150), (112, at), (158, at)], "soft", 1)
            figure.cell(158, at - 6, 88, 12, role, 0.35)
            figure.arrow([(246, at), (291, at)], role)
        figure.arrow([head.right, (527, y)], "attention")
    figure.text(202, 22, "Q, K, V of each head: n × d/h", "soft", size=12)
    figure.text(386, 198, "⋮", "soft", size=16)
    output = figure.box(664, 150, 54, 44, "W_O", "output", math=True, size=16)
    figure.arrow([joined.right, output.left])
    figure.arrow([output.right, (746, 150)], "output")
    figure.text(722, 138, "Y", math=True, size=17)
    figure.text(724, 172, "n × d", "soft", math=True, size=12)
    return figure


def encoding(position: int, width: int) -> list[float]:
    """Return the sinusoidal encoding of a position."""
    return [
        (math.sin if k % 2 == 0 else math.cos)(position / 10000 ** (k // 2 * 2 / width))
        for k in range(width)
    ]


def positions() -> Figure:
    """The sinusoidal encoding as a map, and added to the embeddings of a sentence."""
    figure = Figure(760, 300, "Sinusoidal positional encoding")
    count, width, side = 24, 16, 14
    left, top = 66, 46
    figure.text(
        left + count * side / 2, 22, "the encoding of 24 positions, d = 16", "soft", size=12
    )
    for p in range(count):
        for k, value in enumerate(encoding(p, width)):
            color = "output" if value > 0 else "input"
            figure.cell(left + p * side, top + k * side, side, side, color, abs(value) * 0.85)
    for p in (0, 5, 10, 15, 20):
        figure.text(left + (p + 0.5) * side, top - 6, str(p), "soft", size=10)
    for k in (0, 5, 10, 15):
        figure.text(left - 8, top + (k + 0.75) * side, str(k), "soft", size=10, anchor="end")
    figure.text(left + count * side / 2, 288, "position p", "soft", math=True, size=13)
    figure.text(26, 162, "k", "soft", math=True, size=13)
    figure.text(578, 22, "added to the embeddings", "soft", size=12)
    for j, word in enumerate(("I", "love", "you")):
        x = 486 + 92 * j
        figure.box(x, 262, 66, 28, word, "input")
        embedding = figure.box(x, 206, 66, 30, "embedding", "input", size=11)
        plus = figure.operator(x, 142, "+")
        figure.arrow([(x, 248), embedding.bottom], "input")
        figure.arrow([embedding.top, plus.bottom], "input")
        figure.arrow([plus.top, (x, 62)], "soft")
        figure.text(x, 54, f"x_{j}", math=True, size=15)
        for k, value in enumerate(encoding(j, 4)):
            color = "output" if value > 0 else "input"
            figure.cell(x + 26 + 12 * k, 93, 12, 12, color, abs(value) * 0.85)
        figure.arrow([(x + 50, 107), (x + 50, 142), plus.right])
        figure.text(x + 52, 84, f"PE({j})", "soft", math=True, size=12)
    return figure


def mask() -> Figure:
    """Causal masking: scores, scores with minus infinity, weights."""
    figure = Figure(760, 226, "Causal attention: the mask comes before the softmax")
    words = ("we", "eat", "bread")
    scores = ((1.0, 2.0, 0.0), (0.0, 1.0, 2.0), (2.0, 1.0, 0.0))
    side, top = 52, 52
    lefts = (74, 314, 554)
    for left, title in zip(lefts, ("scaled scores", "masked", "weights"), strict=True):
        figure.text(left + 1.5 * side, 26, title, bold=True)
        for k, word in enumerate(words):
            figure.text(left + (k + 0.5) * side, 45, word, "soft", size=11)
            figure.text(left - 8, top + (k + 0.58) * side, word, "soft", size=11, anchor="end")
    for i, row in enumerate(scores):
        weights = softmax(row[: i + 1])
        for j, score in enumerate(row):
            y, hidden = top + i * side, j > i
            weight = 0.0 if hidden else weights[j]
            labels = (f"{score:g}", "−∞" if hidden else f"{score:g}", f"{weight:.2f}")
            for k, (left, cell) in enumerate(zip(lefts, labels, strict=True)):
                opacity = weight * 0.6 if k == 2 else 0.16 if k == 1 and hidden else 0.08
                color = "gradient" if k == 1 and hidden else "attention"
                figure.cell(left + j * side, y, side, side, color, opacity)
                tone = "soft" if hidden and k == 2 else "ink"
                figure.text(left + (j + 0.5) * side, y + 0.5 * side + 5, cell, tone, size=14)
    for x, label in ((272, "+ M"), (512, "softmax")):
        figure.text(x - 8, 116, label, "soft", size=12, math=label == "+ M")
        figure.arrow([(x - 34, 130), (x + 8, 130)])
    return figure


def softmax(scores: Sequence[float]) -> list[float]:
    """Return the softmax of a row of scores."""
    powers = [math.exp(score - max(scores)) for score in scores]
    return [power / sum(powers) for power in powers]


def block() -> Figure:
    """The Transformer block with the norm after the addition, and before the sublayer."""
    figure = Figure(620, 450, "The Transformer block: post-norm and pre-norm")
    for x, title, formula in (
        (150, "post-norm", "norm(x + f(x))"),
        (460, "pre-norm", "x + f(norm(x))"),
    ):
        figure.text(x, 22, title, bold=True)
        figure.text(x, 42, formula, "soft", math=True)
    _post_norm(figure, 150)
    _pre_norm(figure, 460)
    figure.line([(305, 14), (305, 440)], "line")
    return figure


def _post_norm(figure: Figure, x: float) -> None:
    y, below = 412.0, (x, 440.0)
    figure.text(x + 14, 440, "x", math=True, size=15)
    for label, color in (("attention", "attention"), ("feed-forward", "feed_forward")):
        sublayer = figure.box(x, y - 54, 130, 36, label, color)
        plus = figure.operator(x, y - 104, "+")
        norm = figure.box(x, y - 146, 130, 30, "layer norm")
        figure.arrow([below, sublayer.bottom])
        figure.arrow([sublayer.top, plus.bottom])
        _residual(figure, x, y - 14, y - 104)
        figure.arrow([plus.top, norm.bottom])
        below, y = norm.top, y - 172
    figure.arrow([below, (x, 56)])


def _pre_norm(figure: Figure, x: float) -> None:
    y, below = 418.0, (x, 440.0)
    figure.text(x + 14, 440, "x", math=True, size=15)
    for label, color in (("attention", "attention"), ("feed-forward", "feed_forward")):
        norm = figure.box(x, y - 42, 130, 30, "layer norm")
        sublayer = figure.box(x, y - 92, 130, 36, label, color)
        plus = figure.operator(x, y - 142, "+")
        figure.arrow([below, norm.bottom])
        figure.arrow([norm.top, sublayer.bottom])
        figure.arrow([sublayer.top, plus.bottom])
        _residual(figure, x, y - 10, y - 142)
        below, y = plus.top, y - 172
    figure.arrow([below, (x, 56)])


def _residual(figure: Figure, x: float, start: float, end: float) -> None:
    """Draw the path around a sublayer."""
    figure.arrow([(x, start), (x + 92, start), (x + 92, end), (x + 11, end)], "state", 2)
    figure.text(x + 98, (start + end) / 2 + 4, "residual", "state", size=11, anchor="start")


# A toy model: the probability of each next token, by what was generated before it.
BEAM = {
    "": {"a": 0.6, "b": 0.4},
    "a": {"a": 0.4, "b": 0.35, "[STOP]": 0.25},
    "b": {"a": 0.05, "b": 0.05, "[STOP]": 0.9},
}


def beam() -> Figure:
    """Beam search on a tree of two steps, where greedy search takes the wrong branch."""
    figure = Figure(720, 320, "Beam search with two beams")
    figure.text(62, 24, "step 0", "soft", size=12)
    figure.text(280, 24, "step 1", "soft", size=12)
    figure.text(570, 24, "step 2", "soft", size=12)
    root = figure.box(62, 176, 84, 32, "[START]", "input", size=12)
    for token, y in (("a", 98), ("b", 254)):
        first = BEAM[""][token]
        node = figure.box(280, y, 104, 34, f"{token}:  {first:.2f}", "state")
        figure.arrow([root.right, (180, 176), (180, y), node.left], "state", 1 + 2 * first)
        ordered = sorted(BEAM[token].items(), key=lambda item: item[1])
        for k, (following, probability) in enumerate(ordered):
            at = y + (1 - k) * 46
            total = first * probability
            kept = total > 0.23
            label = f"{token} {following}:  {first:.2f} × {probability:.2f} = {total:.3f}"
            color, opacity = ("output", 0.2) if kept else ("soft", 0.05)
            leaf = figure.box(570, at, 236, 34, label, color, size=12, opacity=opacity)
            figure.arrow([node.right, (394, y), (394, at), leaf.left], color, 2.2 if kept else 1)
    return figure


def transformer() -> Figure:
    """The Transformer: encoder, decoder, cross-attention, output."""
    figure = Figure(700, 596, "The Transformer: encoder and decoder")
    left, right = 180, 510
    figure.box(left, 358, 236, 222, opacity=0.05)
    figure.box(right, 306, 236, 326, opacity=0.05)
    figure.text(left - 118, 238, "encoder", bold=True, anchor="start")
    figure.text(right - 118, 134, "decoder", bold=True, anchor="start")
    figure.text(left - 128, 362, "N ×", anchor="end")
    figure.text(right + 128, 310, "× N", anchor="start")
    for x, side, words in ((left, -1, SOURCE), (right, 1, ("[START]", *TARGET[:-1]))):
        figure.text(x, 586, " ".join(words), size=12)
        embedding = figure.box(x, 542, 166, 32, "embedding", "input")
        plus = figure.operator(x, 496, "+")
        figure.arrow([(x, 572), embedding.bottom], "input")
        figure.arrow([embedding.top, plus.bottom], "input")
        anchor = "end" if side < 0 else "start"
        figure.text(x + side * 64, 500, "positions", size=12, anchor=anchor)
        figure.arrow([(x + side * 58, 496), (x + side * 11, 496)])
    feed_forward = ("feed-forward", "feed_forward")
    memory = _sublayers(figure, left, 485, (("self-attention", "attention"), feed_forward))
    cross = ("cross-attention", "attention")
    top = _sublayers(
        figure, right, 485, (("masked self-attention", "attention"), cross, feed_forward)
    )
    figure.line([memory, (left, 218), (345, 218), (345, 331)], "state", 2)
    figure.arrow([(345, 331), (right - 83, 331)], "state", 2)
    figure.text(268, 210, "keys and values", "state", size=12)
    head = figure.box(right, 104, 166, 30, "linear", "output")
    final = figure.box(right, 58, 166, 30, "softmax", "output")
    figure.arrow([top, head.bottom])
    figure.arrow([head.top, final.bottom], "output")
    figure.arrow([final.top, (right, 28)], "output")
    figure.text(right, 20, "probabilities of the next token", size=12)
    return figure


def _sublayers(figure: Figure, x: float, y: float, sublayers: Sequence[tuple[str, str]]) -> Point:
    """Draw sublayers from below, each with "add & norm"; return where the stack ends."""
    below = (x, y)
    y -= 36
    for label, color in sublayers:
        sublayer = figure.box(x, y - 14, 166, 36, label, color)
        norm = figure.box(x, y - 62, 166, 28, "add & norm", size=12)
        figure.arrow([below, sublayer.bottom])
        figure.arrow([sublayer.top, norm.bottom])
        turn = y + 14
        figure.arrow([(x, turn), (x + 98, turn), (x + 98, y - 62), (x + 83, y - 62)], "state")
        below, y = norm.top, y - 104
    return below


FIGURES: dict[str, Callable[[], Figure]] = {
    "rnn": rnn,
    "bptt": bptt,
    "lstm": lstm,
    "gru": gru,
    "language-model": language_model,
    "encoder-decoder": encoder_decoder,
    "attention": attention,
    "self-attention": self_attention,
    "multi-head": multi_head,
    "positions": positions,
    "mask": mask,
    "block": block,
    "beam": beam,
    "transformer": transformer,
}


def main(folder: Path) -> None:
    """Draw all figures into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in FIGURES.items():
        (folder / f"{name}.svg").write_text(draw().svg(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("figures"))
