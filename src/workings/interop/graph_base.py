"""Graphs: modules that have only tensors as inputs and outputs, each with a name.

torch.export records a graph for every batch size and length at once. A model that generates has a
state: a `present` output of one step is the `past` input of the next.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

from workings.modules import eval_mode

BATCH, LENGTH, PAST, SOURCE = "batch", "length", "past_length", "source_length"
_EXAMPLE_SIZES = {BATCH: 2, LENGTH: 3, PAST: 5, SOURCE: 7}  # different, so that none are confused


@dataclass(frozen=True)
class TensorSpec:
    """Name, shape and type of an input or output; a size that is a name may be any number."""

    name: str
    shape: tuple[int | str, ...]
    dtype: torch.dtype = torch.float32


@dataclass(frozen=True)
class StateSpec:
    """A part of the state: the input of a step, and the output that is the next step's input.

    Before the first step it is zeros, of `past_length` 0, unless an encoder outputs it.
    """

    input: TensorSpec
    output: str

    @property
    def output_spec(self) -> TensorSpec:
        """Name, shape and type of the output; keys and values have more positions than before."""
        shape = tuple("total_length" if size == PAST else size for size in self.input.shape)
        return TensorSpec(self.output, shape, self.input.dtype)


IDS = TensorSpec("input_ids", (BATCH, LENGTH), torch.int64)
MASK = TensorSpec("attention_mask", (BATCH, LENGTH), torch.int64)
ENCODER_MASK = TensorSpec("encoder_attention_mask", (BATCH, SOURCE), torch.int64)


class Graph(nn.Module, ABC):
    """A module with tensors as inputs and outputs; `state` are those that generation feeds back."""

    def __init__(
        self,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
        state: Sequence[StateSpec] = (),
    ) -> None:
        super().__init__()
        self.state = tuple(state)
        self.inputs = (*inputs, *(part.input for part in state))
        self.outputs = (*outputs, *(part.output_spec for part in state))

    @abstractmethod
    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return the outputs."""


def export_graph(graph: Graph) -> ExportedProgram:
    """Record a graph by torch.export, for all sizes of the named dimensions."""
    names = {size for spec in graph.inputs for size in spec.shape if isinstance(size, str)}
    dims = {name: Dim(name, min=0 if name == PAST else 1) for name in names}
    examples = tuple(
        torch.zeros(
            [size if isinstance(size, int) else _EXAMPLE_SIZES[size] for size in spec.shape],
            dtype=spec.dtype,
        )
        for spec in graph.inputs
    )
    shapes = tuple(
        {k: dims[size] for k, size in enumerate(spec.shape) if isinstance(size, str)}
        for spec in graph.inputs
    )
    with eval_mode(graph), torch.no_grad():
        return export(graph, examples, dynamic_shapes=(shapes,))
