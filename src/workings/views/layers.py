"""The layer table as text."""

from collections.abc import Sequence
from typing import Protocol

from workings.views.table import text_table


class LayerRow(Protocol):
    """A layer of a model."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def parameters(self) -> int: ...
    @property
    def mult_adds(self) -> int: ...


class LayerSums(Protocol):
    """The layers of a model and their sums; memory in mebibytes."""

    @property
    def rows(self) -> Sequence[LayerRow]: ...
    @property
    def parameters(self) -> int: ...
    @property
    def trainable(self) -> int: ...
    @property
    def mult_adds(self) -> int: ...
    @property
    def input_mb(self) -> float: ...
    @property
    def activations_mb(self) -> float: ...
    @property
    def parameters_mb(self) -> float: ...
    @property
    def total_mb(self) -> float: ...


HEAD = ("layer", "output shape", "parameters", "mult-adds")


def layer_rows(summary: LayerSums) -> list[tuple[str, ...]]:
    """Write a line a layer. Shapes begin with −1 for the batch."""
    return [
        (
            f"{row.name} ({row.kind})",
            str(list(row.shape)),
            f"{row.parameters:,}",
            f"{row.mult_adds:,}",
        )
        for row in summary.rows
    ]


def layer_sums(summary: LayerSums) -> list[str]:
    """Write the sums, a line each."""
    return [
        f"parameters: {summary.parameters:,} (trainable: {summary.trainable:,})",
        f"mult-adds: {summary.mult_adds / 1e6:.2f} M for one text",
        f"memory: input of 64 texts {summary.input_mb:.2f} MB, forward and backward of one "
        f"{summary.activations_mb:.2f} MB, parameters {summary.parameters_mb:.2f} MB, "
        f"together {summary.total_mb:.2f} MB",
    ]


def layer_table(summary: LayerSums) -> str:
    """Lay a summary out: a line a layer, then the sums."""
    table = text_table(HEAD, layer_rows(summary), left=2)
    rule = table.splitlines()[1]
    return "\n".join([table, rule, *layer_sums(summary)])
