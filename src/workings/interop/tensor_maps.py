"""Tables of tensors: which tensor of ours is which tensors of another program's file.

One table serves both directions: our tensor is split into theirs, and theirs are joined into ours.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from workings.interop.huggingface import check_tensor_names, get_tensor


class TensorMapping(NamedTuple):
    """A tensor of ours, the names of theirs, and how one becomes the other."""

    name: str
    hf_names: tuple[str, ...]
    split: Callable[[Tensor], Sequence[Tensor]]
    join: Callable[[Sequence[Tensor]], Tensor]


def map_tensor(name: str, hf_name: str) -> TensorMapping:
    """Return the mapping of a tensor that is the same there."""
    return TensorMapping(name, (hf_name,), lambda t: (t,), lambda ts: ts[0])


def map_transposed(name: str, hf_name: str) -> TensorMapping:
    """Return the mapping of a matrix that is transposed there."""
    return TensorMapping(name, (hf_name,), lambda t: (t.T,), lambda ts: ts[0].T)


def map_stacked(name: str, hf_names: Sequence[str], sizes: Sequence[int]) -> TensorMapping:
    """Return the mapping of a tensor whose rows are several tensors there, of these sizes."""
    return TensorMapping(
        name,
        tuple(hf_names),
        lambda t: torch.split(t, list(sizes)),
        lambda ts: torch.cat(list(ts)),
    )


def map_interleaved_qkv(name: str, hf_name: str, heads: int) -> TensorMapping:
    """Return the mapping of queries, keys and values that are interleaved by head there.

    Our rows are all queries, all keys, all values; theirs the query, key and value of each head.
    """

    def split(t: Tensor) -> tuple[Tensor]:
        return (t.view(3, heads, -1).transpose(0, 1).reshape(t.shape),)

    def join(ts: Sequence[Tensor]) -> Tensor:
        return ts[0].view(heads, 3, -1).transpose(0, 1).reshape(ts[0].shape)

    return TensorMapping(name, (hf_name,), split, join)


def map_linear(name: str, hf_name: str, *, bias: bool = True) -> Iterator[TensorMapping]:
    """Yield the mappings of a linear layer."""
    for part in ("weight", "bias") if bias else ("weight",):
        yield map_tensor(f"{name}.{part}", f"{hf_name}.{part}")


def map_qkv(
    name: str, hf_names: Sequence[str], sizes: Sequence[int], *, bias: bool = True
) -> Iterator[TensorMapping]:
    """Yield the mappings of our stacked projection to queries, keys and values."""
    for part in ("weight", "bias") if bias else ("weight",):
        yield map_stacked(f"{name}.{part}", [f"{hf_name}.{part}" for hf_name in hf_names], sizes)


def map_norm(name: str, hf_name: str, *, bias: bool = True) -> Iterator[TensorMapping]:
    """Yield the mappings of a layer norm, or of an RMS norm: without bias."""
    yield map_tensor(f"{name}.gamma", f"{hf_name}.weight")
    if bias:
        yield map_tensor(f"{name}.beta", f"{hf_name}.bias")


def join_tensors(
    model: nn.Module,
    mappings: Iterable[TensorMapping],
    tensors: dict[str, Tensor],
    model_name: str,
    path: Path,
) -> dict[str, nn.Parameter]:
    """Return the parameters of a model on the meta device, made of the tensors of a file.

    Raise UserError if a tensor is missing, unexpected, of another shape or not of floats. Tensors
    that are copied are removed from the table, so that a large model is not twice in memory.
    """
    mappings = list(mappings)
    check_tensor_names(tensors, (n for m in mappings for n in m.hf_names), model_name, path)
    expected = model.state_dict()
    parameters = {}
    for mapping in mappings:
        shapes = [t.shape for t in mapping.split(expected[mapping.name])]
        parts = [
            get_tensor(tensors, name, shape, path)
            for name, shape in zip(mapping.hf_names, shapes, strict=True)
        ]
        parameters[mapping.name] = nn.Parameter(mapping.join(parts).float().contiguous())
        for name in mapping.hf_names:
            del tensors[name]
    return parameters


def split_tensors(
    parameters: Mapping[str, Tensor], mappings: Iterable[TensorMapping]
) -> dict[str, Tensor]:
    """Return the tensors of another program's file, made of a model's parameters."""
    return {
        hf_name: tensor
        for mapping in mappings
        for hf_name, tensor in zip(
            mapping.hf_names, mapping.split(parameters[mapping.name]), strict=True
        )
    }
