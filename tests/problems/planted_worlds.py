"""Random examples by name, and the mistakes to plant in them: what the checker is measured on."""

from collections.abc import Callable

from attention_examples import (
    DECODER_BLOCK_MISTAKES,
    EMBEDDING_MISTAKES,
    EXPONENTIALS_MISTAKES,
    GATED_MISTAKES,
    GROUPED_MISTAKES,
    HEAD_MISTAKES,
    RMS_NORM_MISTAKES,
    ROPE_MISTAKES,
    make_decoder_block,
    make_embedding,
    make_exponentials,
    make_gated,
    make_grouped,
    make_head,
    make_rms_norm,
    make_rope,
)
from numpy_problems import Example, Planter, Rng
from recurrent_examples import (
    BIDIRECTIONAL_MISTAKES,
    ENCODER_DECODER_MISTAKES,
    GRU_MISTAKES,
    JOINT_LSTM_MISTAKES,
    RNN_OUTPUT_MISTAKES,
    make_bidirectional,
    make_encoder_decoder,
    make_gru,
    make_joint_lstm,
    make_rnn_output,
)

WORLDS: dict[str, tuple[Callable[[Rng], Example], dict[str, Planter]]] = {
    "exponentials": (make_exponentials, EXPONENTIALS_MISTAKES),
    "rope": (make_rope, ROPE_MISTAKES),
    "grouped heads": (make_grouped, GROUPED_MISTAKES),
    "gated feed_forward": (make_gated, GATED_MISTAKES),
    "rms_norm": (make_rms_norm, RMS_NORM_MISTAKES),
    "embedding": (make_embedding, EMBEDDING_MISTAKES),
    "lm_head": (make_head, HEAD_MISTAKES),
    "decoder_block": (make_decoder_block, DECODER_BLOCK_MISTAKES),
    "gru": (make_gru, GRU_MISTAKES),
    "joint LSTM": (make_joint_lstm, JOINT_LSTM_MISTAKES),
    "bidirectional": (make_bidirectional, BIDIRECTIONAL_MISTAKES),
    "encoder_decoder": (make_encoder_decoder, ENCODER_DECODER_MISTAKES),
    "RNN with output": (make_rnn_output, RNN_OUTPUT_MISTAKES),
}
