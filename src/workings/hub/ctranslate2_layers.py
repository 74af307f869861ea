"""Layers in CTranslate2's own terms: what language models and translators have in common."""

from typing import Any

import torch
from torch import Tensor, nn

from workings.layers.blocks import DecoderBlock, EncoderBlock, Residual
from workings.layers.norms import LayerNorm
from workings.layers.positions import SinusoidalPositions, sinusoids

SINUSOIDS = 4096
"""Positions that a converted model has where ours goes on without end."""
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu-tanh": "GELUTanh", "silu": "SWISH"}
_SMALL = 2**22
"""Weights below which threads would wait for each other longer than they compute."""


def is_small(model: nn.Module) -> bool:
    """Whether a model is computed fastest by one thread."""
    return sum(weight.numel() for weight in model.parameters()) < _SMALL


def threads_for(model: nn.Module) -> int:
    """How many threads the engine may take: as many as torch has, and one for a small model."""
    return 1 if is_small(model) else torch.get_num_threads()


def set_encoder_block(layer: Any, ours: EncoderBlock) -> None:
    """Give a layer the weights of a block that looks at its own sequence."""
    _set_around(layer.self_attention, ours.around_attention)
    set_linear(layer.self_attention.linear[0], ours.attention.project)
    set_linear(layer.self_attention.linear[1], ours.attention.output)
    _set_feed_forward(layer, ours)


def set_decoder_block(layer: Any, ours: DecoderBlock) -> None:
    """Give a layer the weights of a block that looks at a source, too."""
    _set_around(layer.self_attention, ours.around_attention)
    set_linear(layer.self_attention.linear[0], ours.attention.project)
    set_linear(layer.self_attention.linear[1], ours.attention.output)
    _set_around(layer.attention, ours.around_cross)
    queries, memory, output = layer.attention.linear
    width, project = ours.cross.width, ours.cross.project  # queries above keys and values
    queries.weight, queries.bias = plain(project.weight[:width]), plain(project.bias[:width])
    memory.weight, memory.bias = plain(project.weight[width:]), plain(project.bias[width:])
    set_linear(output, ours.cross.output)
    _set_feed_forward(layer, ours)


def set_norm(layer: Any, ours: LayerNorm) -> None:
    """Give a layer norm its weights."""
    layer.gamma, layer.beta = plain(ours.gamma), plain(ours.beta)


def set_linear(layer: Any, ours: nn.Linear) -> None:
    """Give a linear layer its weights."""
    layer.weight = plain(ours.weight)
    if ours.bias is not None:
        layer.bias = plain(ours.bias)


def set_sinusoids(encodings: Any, ours: SinusoidalPositions) -> None:
    """Write our sinusoids out: theirs have all sines first, then all cosines."""
    encodings.encodings = sinusoids(SINUSOIDS, ours.width, base=ours.base)


def plain(weight: Tensor) -> Tensor:
    """A tensor as it is saved."""
    return weight.detach().cpu().float()


def _set_feed_forward(layer: Any, ours: EncoderBlock | DecoderBlock) -> None:
    _set_around(layer.ffn, ours.around_feed_forward)
    set_linear(layer.ffn.linear_0, ours.feed_forward.inner)
    set_linear(layer.ffn.linear_1, ours.feed_forward.outer)


def _set_around(layer: Any, ours: Residual) -> None:
    set_norm(layer.layer_norm, ours.norm)
