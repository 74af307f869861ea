"""The kinds of problem: the matrices each is given and the steps that solve it."""

from workings.problems.kinds.attention import ATTENTION
from workings.problems.kinds.base import Kind, Setting, Step
from workings.problems.kinds.layers import ADDITIVE, BLOCK, FEED_FORWARD, LAYER_NORM, POSITIONS
from workings.problems.kinds.loss import CROSS_ENTROPY, SOFTMAX_JACOBIAN
from workings.problems.kinds.recurrent import LSTM, RNN

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        *(ATTENTION, POSITIONS, LAYER_NORM, RNN, LSTM, ADDITIVE, FEED_FORWARD, BLOCK),
        *(CROSS_ENTROPY, SOFTMAX_JACOBIAN),
    )
}

__all__ = ["KINDS", "Kind", "Setting", "Step"]
