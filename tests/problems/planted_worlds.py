"""Random examples by name, and the mistakes to plant in them: what the checker is measured on."""

from collections.abc import Callable

from attention_examples import EXPONENTIALS_MISTAKES, make_exponentials
from numpy_problems import Example, Planter, Rng
from recurrent_examples import (
    GRU_MISTAKES,
    JOINT_LSTM_MISTAKES,
    RNN_OUTPUT_MISTAKES,
    make_gru,
    make_joint_lstm,
    make_rnn_output,
)

WORLDS: dict[str, tuple[Callable[[Rng], Example], dict[str, Planter]]] = {
    "exponentials": (make_exponentials, EXPONENTIALS_MISTAKES),
    "gru": (make_gru, GRU_MISTAKES),
    "joint LSTM": (make_joint_lstm, JOINT_LSTM_MISTAKES),
    "RNN with output": (make_rnn_output, RNN_OUTPUT_MISTAKES),
}
