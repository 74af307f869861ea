"""The kinds of problem: the matrices each is given and the steps that solve it."""

from workings.problems.kinds.attention import ATTENTION
from workings.problems.kinds.attention_gradients import ATTENTION_GRADIENT
from workings.problems.kinds.base import Kind, Setting, Step
from workings.problems.kinds.batch_norm import BATCH_NORM
from workings.problems.kinds.beam_search import BEAM_SEARCH
from workings.problems.kinds.bidirectional import (
    BIDIRECTIONAL_GRU,
    BIDIRECTIONAL_LSTM,
    BIDIRECTIONAL_RNN,
)
from workings.problems.kinds.convolution import CONV1D
from workings.problems.kinds.costs import CACHE, COST
from workings.problems.kinds.decoder_block import DECODER_BLOCK
from workings.problems.kinds.decoding import SAMPLING, SENTENCE
from workings.problems.kinds.encoder_decoder import ENCODER_DECODER
from workings.problems.kinds.gated import GRU, LSTM
from workings.problems.kinds.language import EMBEDDING, LM_HEAD, SOFTMAX
from workings.problems.kinds.layer_gradients import LAYER_NORM_GRADIENT, LINEAR_GRADIENT
from workings.problems.kinds.layer_table import LAYERS
from workings.problems.kinds.layers import ADDITIVE, BLOCK, FEED_FORWARD, LAYER_NORM, POSITIONS
from workings.problems.kinds.loss import CROSS_ENTROPY, SOFTMAX_JACOBIAN
from workings.problems.kinds.lstm_gradient import LSTM_GRADIENT
from workings.problems.kinds.mlp_gradient import MLP_GRADIENT
from workings.problems.kinds.optimizers import OPTIMIZER_STEP
from workings.problems.kinds.recurrent import RNN
from workings.problems.kinds.recurrent_gradients import RNN_GRADIENT, RNN_JACOBIAN
from workings.problems.kinds.rms_norm import RMS_NORM
from workings.problems.kinds.text_metrics import BLEU, EDIT_DISTANCE, ROUGE_L

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        *(ATTENTION, POSITIONS, LAYER_NORM, RNN, LSTM, GRU, ADDITIVE, FEED_FORWARD, BLOCK),
        *(CROSS_ENTROPY, SOFTMAX_JACOBIAN, LINEAR_GRADIENT, LAYER_NORM_GRADIENT),
        MLP_GRADIENT,
        *(ATTENTION_GRADIENT, RNN_GRADIENT, RNN_JACOBIAN, LSTM_GRADIENT, OPTIMIZER_STEP),
        *(EMBEDDING, SOFTMAX, LM_HEAD, RMS_NORM, DECODER_BLOCK),
        *(BIDIRECTIONAL_RNN, BIDIRECTIONAL_LSTM, BIDIRECTIONAL_GRU, ENCODER_DECODER),
        *(CONV1D, BATCH_NORM),
        *(LAYERS, COST, CACHE),
        *(BLEU, ROUGE_L, EDIT_DISTANCE),
        *(SAMPLING, SENTENCE),
        BEAM_SEARCH,
    )
}

__all__ = ["KINDS", "Kind", "Setting", "Step"]
