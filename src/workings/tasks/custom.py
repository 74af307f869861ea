"""A task for any `nn.Module`: examples, a function that makes batches of them, and a loss."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from workings.data.download import ProgressCallback
from workings.distributed import ProcessGroup
from workings.errors import UserError
from workings.modules import load_unique_state_dict
from workings.recipes import TrainConfig
from workings.tasks.base import BatchLoss, Task

LossFunction = Callable[[nn.Module, Any], Tensor]
"""Computes the mean loss of a batch: `loss(model, batch)`."""
CollateFunction = Callable[[list[Any]], Any]
"""Makes a batch of examples: tensors, or tuples, lists and dicts of tensors."""


class CustomTask(Task):
    """A module of the user's own, trained on a sequence of examples."""

    def __init__(
        self,
        model: nn.Module,
        examples: Sequence[Any],
        loss: LossFunction,
        collate: CollateFunction,
        *,
        config: TrainConfig,
        validation: float,
        seed: int,
    ) -> None:
        self.model, self._loss, self._collate = model, loss, collate
        self.config, self.seed = config, seed
        order = np.random.default_rng(seed).permutation(len(examples))
        num_validation = round(validation * len(examples))
        if num_validation >= len(examples):
            raise UserError(f"{len(examples)} examples: none is left to train on")
        held_out, kept = np.split(order, [num_validation])
        self._examples = {
            "train": [examples[i] for i in kept],
            "validation": [examples[i] for i in held_out],
        }
        self.data_info = {name: len(split) for name, split in self._examples.items()}

    def batches(self, epoch: int) -> list[list[int]]:
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self._examples["train"]))
        size = self.config.batch_size
        return [order[i : i + size].tolist() for i in range(0, len(order), size)]

    def loss(self, batch: Sequence[int], device: torch.device) -> BatchLoss:
        examples = [self._examples["train"][i] for i in batch]
        return BatchLoss(self._loss(self.model, _to_device(self._collate(examples), device)))

    @torch.no_grad()
    def evaluate(self, process_group: ProcessGroup) -> dict[str, float]:
        """Return the mean loss of the validation examples."""
        examples, size, total = self._examples["validation"], self.config.batch_size, 0.0
        if not examples:
            return {}
        for i in range(0, len(examples), size):
            batch = examples[i : i + size]
            loss = self._loss(self.model, _to_device(self._collate(batch), process_group.device))
            total += float(loss) * len(batch)
        return {"validation_loss": total / len(examples)}

    def with_weights(self, weights: dict[str, Tensor]) -> Self:
        other = deepcopy(self)
        load_unique_state_dict(other.model, weights)
        return other

    # A run of a module that only its author can build is neither described nor loaded by a recipe.

    @classmethod
    def from_recipe(
        cls, recipe: Any, progress: ProgressCallback | None = None, *, tokenizer: Any = None
    ) -> Self:
        del recipe, progress, tokenizer
        raise UserError("a custom model has no recipe: build it, and call workings.train")

    @classmethod
    def build_model(cls, recipe: Any, *preprocessing: Any) -> nn.Module:
        del recipe, preprocessing
        raise UserError("a custom model has no recipe: build it in your own code")


def _to_device(batch: Any, device: torch.device) -> Any:
    """Move the tensors of a nested batch to a device."""
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, Mapping):
        return {key: _to_device(value, device) for key, value in batch.items()}
    if isinstance(batch, tuple | list):
        return type(batch)(_to_device(value, device) for value in batch)
    return batch
