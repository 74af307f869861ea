"""What the training loop needs to know of a task."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from workings.crew import Crew


@dataclass
class Losses:
    """The mean loss of some examples, and sums of what else is to be averaged over them."""

    mean: Tensor
    sums: dict[str, float] = field(default_factory=dict)


class Task(Protocol):
    """Data, model, loss and metric, as the loop sees them."""

    metric: str  # the validation metric that decides which weights are best
    higher_is_better: bool

    @property
    def model(self) -> nn.Module:
        """What is trained."""

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
