"""Layers: small modules that call `attend` and tap what they compute."""

from workings.layers.attention import AdditiveSimilarity, GeneralSimilarity, MultiHeadAttention
from workings.layers.cache import KeyValueCache
from workings.layers.positions import LearnedPositions, SinusoidalPositions, sinusoids
from workings.layers.transformer import (
    DecoderBlock,
    EncoderBlock,
    FeedForward,
    LayerNorm,
    SequenceBatchNorm,
)

__all__ = [
    "AdditiveSimilarity",
    "DecoderBlock",
    "EncoderBlock",
    "FeedForward",
    "GeneralSimilarity",
    "KeyValueCache",
    "LayerNorm",
    "LearnedPositions",
    "MultiHeadAttention",
    "SequenceBatchNorm",
    "SinusoidalPositions",
    "sinusoids",
]
