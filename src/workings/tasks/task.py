"""What the training engine needs to know of a task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from workings.crew import Crew
from workings.data.download import Progress


@dataclass
class Losses:
    """The mean loss of some examples, and sums of what else is to be averaged over them."""

    mean: Tensor
    sums: dict[str, float] = field(default_factory=dict)


class Task(Protocol):
    """Data, model, loss and metric, as the engine sees them."""

    model: nn.Module  # what is trained
    recipe: Any
    data_told: dict[str, Any]  # what it learns from: how much, and its checksum
    files: tuple[str, ...]  # which it writes beside the weights
    metric: str  # the validation metric that decides which weights are best
    higher_is_better: bool
    unit: str  # what the weight of a batch counts: examples, tokens
    made_of: str  # what `data_told` counts: texts, tokens, pairs, pictures

    # -- the loop ----------------------------------------------------------------------------------

    def batches(self, epoch: int) -> Sequence[Sequence[Any]]:
        """The training batches of an epoch, in order: cheap descriptions, the same every time.

        A batch is a sequence, of which each process takes its share.
        """

    def weight(self, batch: Sequence[Any]) -> int:
        """Over how many (examples, tokens) the loss of a batch is a mean."""

    def loss(self, batch: Sequence[Any], device: torch.device) -> Losses:
        """The loss of a batch, or of a share of one."""

    def describe(self, batch: Sequence[Any]) -> str:
        """Say in a few words what a batch is, for errors."""

    def evaluate(self, crew: Crew) -> dict[str, float]:
        """Measure the model on the validation data."""

    def remark(self) -> dict[str, Any]:
        """Something to be logged after an epoch, to see what has been learned."""
        return {}

    def carried(self) -> dict[str, Tensor]:
        """What this process's batches hand on from step to step, for a checkpoint.

        Tensors on the CPU, with a row for each of its share of a batch.
        """
        return {}

    def take_up(self, carried: Mapping[str, Tensor]) -> None:
        """Go on with what a checkpoint kept; refuse, by a ValueError, what does not fit."""
        if carried:
            raise ValueError("nothing is carried over here")

    # -- the run -----------------------------------------------------------------------------------

    @classmethod
    def from_recipe(cls, recipe: Any, progress: Progress | None = None) -> "Task":
        """Read the data that a recipe names, and make a fresh model.

        `progress` hears how far it is with what takes time only once: fetching, decoding.
        """

    @classmethod
    def load(cls, folder: Path, recipe: Any, belongs: str | None = None) -> "Task":
        """Read a run's files and best weights, which may have to bear its mark."""

    def fingerprint(self) -> dict[str, Any]:
        """What two processes must agree about: the data, and how it became numbers."""

    def twin(self, weights: dict[str, Tensor]) -> "Task":
        """Another of this kind, on the same data, with a model of its own that has the weights."""

    def test(self, crew: Crew) -> dict[str, float]:
        """Measure once, at the end."""

    def evaluate_on(self, data: str | None = None) -> dict[str, float]:
        """Measure on data by name; without one, on the part that the recipe keeps for it."""

    def save(self, folder: Path) -> None:
        """Write what is needed beside the weights."""

    def agrees(self, folder: Path) -> bool:
        """Tell whether the files of a run are those that would be written today."""
