"""Layers: small modules that call `attend` and tap what they compute."""

from workings.layers.blocks import DecoderBlock, EncoderBlock
from workings.layers.cache import KeyValueCache
from workings.layers.feed_forward import FeedForward
from workings.layers.multi_head import MultiHeadAttention
from workings.layers.norms import LayerNorm, SequenceBatchNorm
from workings.layers.positions import LearnedPositions, SinusoidalPositions, sinusoids
from workings.layers.similarity import Additive, General

__all__ = [
    "Additive",
    "DecoderBlock",
    "EncoderBlock",
    "FeedForward",
    "General",
    "KeyValueCache",
    "LayerNorm",
    "LearnedPositions",
    "MultiHeadAttention",
    "SequenceBatchNorm",
    "SinusoidalPositions",
    "sinusoids",
]
