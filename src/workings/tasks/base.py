"""The base class of tasks: data, model, loss and metric, as the trainer sees them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

import torch
from torch import Tensor, nn

from workings.data.download import ProgressCallback
from workings.distributed import ProcessGroup
from workings.errors import UserError
from workings.modules import device_of, load_unique_state_dict, meta_device, unique_state_dict
from workings.recipes import Recipe
from workings.storage import CorruptFileError, read_tensors

SPLIT_NAMES = ("train", "validation", "test")
_OOM_PHRASES = (
    "can't allocate",
    "not enough memory",
    "out of memory",
    "bad allocation",
    "bad_alloc",
)


@dataclass
class BatchLoss:
    """The mean loss of a batch, and sums over it of other metrics, to be averaged per epoch."""

    mean: Tensor
    sums: dict[str, float] = field(default_factory=dict)


class Task(ABC):
    """Data, model, loss and metric of one kind of learning problem.

    A task is constructed from a recipe, its fitted preprocessing (such as a tokenizer) and a model.
    """

    model: nn.Module
    recipe: Recipe
    data_info: dict[str, Any]  # name, sizes and checksum of the training data
    files: tuple[str, ...]  # what `save` writes beside the weights
    metric: str  # the validation metric by which the best epoch is chosen
    higher_is_better: bool
    batch_unit: str  # what `weight` counts: examples or tokens
    data_unit: str  # what `data_info` counts: texts, tokens, pairs or pictures
    metrics: Mapping[str, "Callable[[Any], float]"] = {}  # further validation metrics, by name
    callbacks: Sequence["Callable[[dict[str, Any]], None]"] = ()  # called after each epoch
    history: Sequence[Mapping[str, Any]] = ()  # the log's record of each epoch

    # -- training ----------------------------------------------------------------------------------

    @abstractmethod
    def batches(self, epoch: int) -> Sequence[Sequence[Any]]:
        """Return the training batches of an epoch as indices, the same at every call.

        Each process takes its share of every batch.
        """

    @abstractmethod
    def weight(self, batch: Sequence[Any]) -> int:
        """Return the number of examples or tokens that the loss of a batch is averaged over."""

    @abstractmethod
    def loss(self, batch: Sequence[Any], device: torch.device) -> BatchLoss:
        """Compute the loss of a batch, or of a process's share of one."""

    @abstractmethod
    def describe(self, batch: Sequence[Any]) -> str:
        """Describe a batch in a few words, for error messages."""

    @abstractmethod
    def evaluate(self, process_group: ProcessGroup) -> dict[str, float]:
        """Compute the metrics on the validation data."""

    def validate(self, process_group: ProcessGroup) -> dict[str, float]:
        """Compute the metrics on the validation data, those that the user added included."""
        added = {f"validation_{name}": float(f(self)) for name, f in self.metrics.items()}
        return {**self.evaluate(process_group), **added}

    def sample_outputs(self) -> dict[str, Any]:
        """Return sample outputs of the model, to be logged after an epoch."""
        return {}

    def state_dict(self) -> dict[str, Tensor]:
        """Return the state that this process carries from step to step, for a checkpoint.

        Tensors are on the CPU, with a row for each item of this process's share of a batch.
        """
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore the state of a checkpoint; raise ValueError if it does not fit."""
        if state:
            raise ValueError("this task has no state to restore")

    # -- the run -----------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def from_recipe(cls, recipe: Any, progress: ProgressCallback | None = None) -> Self:
        """Read the data of a recipe, fit the preprocessing and build a new model.

        `progress` is called while data are downloaded or decoded.
        """

    @classmethod
    def load(cls, folder: Path, recipe: Any, run_id: str | None = None) -> Self:
        """Load a run's preprocessing and best weights; check the weights' run id, if given."""
        preprocessing = cls.load_preprocessing(folder, recipe)
        model = build_from_file(
            lambda: cls.build_model(recipe, *preprocessing), folder / "model.safetensors", run_id
        )
        return cls(recipe, *preprocessing, model)  # type: ignore[call-arg] # see the class docstring

    @classmethod
    @abstractmethod
    def build_model(cls, recipe: Any, *preprocessing: Any) -> nn.Module:
        """Build the model of a recipe with new weights."""

    @property
    @abstractmethod
    def preprocessing(self) -> tuple[Any, ...]:
        """The constructor's arguments between recipe and model: what `save` writes."""

    @classmethod
    @abstractmethod
    def load_preprocessing(cls, folder: Path, recipe: Any) -> tuple[Any, ...]:
        """Read what `save` wrote."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the preprocessing."""

    def matches_folder(self, folder: Path) -> bool:
        """Return True if a run has the same preprocessing."""
        return self.load_preprocessing(folder, self.recipe) == self.preprocessing

    def with_weights(self, weights: dict[str, Tensor]) -> Self:
        """Return a copy of this task, on the same data, whose own model has these weights.

        The model of this one may be compiled, or sharded over several processes.
        """
        model = self.build_model(self.recipe, *self.preprocessing)
        load_unique_state_dict(model, weights)
        other = copy(self)
        other.model = model.eval()
        return other

    @abstractmethod
    def fingerprint(self) -> dict[str, Any]:
        """Return what must be equal in all processes: the data, and how they are encoded."""

    @abstractmethod
    def test(self, process_group: ProcessGroup) -> dict[str, Any]:
        """Compute the metrics on the test data, once, after training."""

    @abstractmethod
    def evaluate_on(self, data: str | None = None) -> dict[str, Any]:
        """Compute the metrics on a named dataset or a file; None: on the recipe's test data."""

    # -- helpers -----------------------------------------------------------------------------------

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return device_of(self.model)

    @property
    def local_group(self) -> ProcessGroup:
        """A process group of this process alone."""
        return ProcessGroup(self.device)

    def check_trained_on(self, sha256: str) -> None:
        """Refuse data that have changed since the training: other examples would be held out."""
        if self.data_info.get("sha256", sha256) != sha256:
            raise UserError(
                f"{self.recipe.data.set} is not what this run was trained on: what was held out "
                "cannot be reproduced; --data FILE evaluates on all of a file"
            )


Model = TypeVar("Model", bound=nn.Module)


def build_from_file(build: Callable[[], Model], path: Path, run_id: str | None) -> Model:
    """Build a model and load its weights from a file; check the file's run id, if given."""
    weights = read_tensors(path, run_id=run_id)
    with meta_device():  # counts the parameters without allocating them
        size = _count_elements(unique_state_dict(build()))
    if size > _count_elements(weights):
        raise CorruptFileError(f"{path}: not the weights of this run's model, which has {size:,}")
    model = build()
    try:
        load_unique_state_dict(model, weights)
    except (RuntimeError, LookupError, TypeError):
        raise CorruptFileError(f"{path}: not the weights of this run's model") from None
    return model.eval()


def _count_elements(tensors: Mapping[str, Tensor]) -> int:
    return sum(t.numel() for t in tensors.values())


@contextmanager
def oom_hint(
    activity: str, hint: str = "shorter texts or a smaller model need less"
) -> Iterator[None]:
    """Turn an out-of-memory error into a UserError that names the activity and a remedy."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise UserError(f"out of memory {activity}: {hint}") from None


def is_out_of_memory(error: Exception) -> bool:
    """Return True if an error means too little memory; torch reports that in several ways."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and any(phrase in str(error) for phrase in _OOM_PHRASES)
    )
