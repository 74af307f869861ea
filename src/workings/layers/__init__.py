"""Layers: modules that call `attend` and tap their intermediate values. Imported on first use."""

from typing import TYPE_CHECKING

from workings.lazy import import_attribute

if TYPE_CHECKING:
    from workings.layers.attention import (
        AdditiveSimilarity,
        GeneralSimilarity,
        KeyValueCache,
        MultiHeadAttention,
    )
    from workings.layers.convolution import Conv1d, Convolution, max_pool, mean_pool, padding_mask
    from workings.layers.loss import chunked_cross_entropy
    from workings.layers.positions import (
        LearnedPositions,
        RotaryPositions,
        SinusoidalPositions,
        sinusoids,
    )
    from workings.layers.recurrent import LSTM, RNN, RecurrentLayer, RecurrentStack
    from workings.layers.transformer import (
        DecoderBlock,
        Dropout,
        EncoderBlock,
        FeedForward,
        LayerNorm,
        Residual,
        RMSNorm,
        SequenceBatchNorm,
        TransformerBlock,
    )

_LAZY_MODULES = {
    "LSTM": "recurrent",
    "RNN": "recurrent",
    "AdditiveSimilarity": "attention",
    "Conv1d": "convolution",
    "Convolution": "convolution",
    "DecoderBlock": "transformer",
    "Dropout": "transformer",
    "EncoderBlock": "transformer",
    "FeedForward": "transformer",
    "GeneralSimilarity": "attention",
    "KeyValueCache": "attention",
    "LayerNorm": "transformer",
    "LearnedPositions": "positions",
    "MultiHeadAttention": "attention",
    "RMSNorm": "transformer",
    "RecurrentLayer": "recurrent",
    "RecurrentStack": "recurrent",
    "Residual": "transformer",
    "RotaryPositions": "positions",
    "SequenceBatchNorm": "transformer",
    "SinusoidalPositions": "positions",
    "TransformerBlock": "transformer",
    "chunked_cross_entropy": "loss",
    "max_pool": "convolution",
    "mean_pool": "convolution",
    "padding_mask": "convolution",
    "sinusoids": "positions",
}

__all__ = [
    "LSTM",
    "RNN",
    "AdditiveSimilarity",
    "Conv1d",
    "Convolution",
    "DecoderBlock",
    "Dropout",
    "EncoderBlock",
    "FeedForward",
    "GeneralSimilarity",
    "KeyValueCache",
    "LayerNorm",
    "LearnedPositions",
    "MultiHeadAttention",
    "RMSNorm",
    "RecurrentLayer",
    "RecurrentStack",
    "Residual",
    "RotaryPositions",
    "SequenceBatchNorm",
    "SinusoidalPositions",
    "TransformerBlock",
    "chunked_cross_entropy",
    "max_pool",
    "mean_pool",
    "padding_mask",
    "sinusoids",
]


def __getattr__(name: str) -> object:
    return import_attribute(__name__, _LAZY_MODULES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
