"""What the training engine needs to know of a task."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from workings.data.download import ProgressCallback
from workings.distributed import ProcessGroup
from workings.errors import UserError
from workings.storage import CorruptFileError, read_tensors


@dataclass
class BatchLoss:
    """The mean loss of some examples, and sums of what else is to be averaged over them."""

    mean: Tensor
    sums: dict[str, float] = field(default_factory=dict)


class Task(Protocol):
    """Data, model, loss and metric, as the engine sees them."""

    model: nn.Module  # what is trained
    recipe: Any
    data_info: dict[str, Any]  # what it learns from: how much, and its checksum
    files: tuple[str, ...]  # which it writes beside the weights
    metric: str  # the validation metric that decides which weights are best
    higher_is_better: bool
    batch_unit: str  # what the weight of a batch counts: examples, tokens
    data_unit: str  # what `data_told` counts: texts, tokens, pairs, pictures

    # -- the loop ----------------------------------------------------------------------------------

    def batches(self, epoch: int) -> Sequence[Sequence[Any]]:
        """The training batches of an epoch, in order: cheap descriptions, the same every time.

        A batch is a sequence, of which each process takes its share.
        """

    def weight(self, batch: Sequence[Any]) -> int:
        """Over how many (examples, tokens) the loss of a batch is a mean."""

    def loss(self, batch: Sequence[Any], device: torch.device) -> BatchLoss:
        """The loss of a batch, or of a share of one."""

    def describe(self, batch: Sequence[Any]) -> str:
        """Say in a few words what a batch is, for errors."""

    def evaluate(self, process_group: ProcessGroup) -> dict[str, float]:
        """Measure the model on the validation data."""

    def sample_outputs(self) -> dict[str, Any]:
        """Something to be logged after an epoch, to see what has been learned."""
        return {}

    def state_dict(self) -> dict[str, Tensor]:
        """What this process's batches hand on from step to step, for a checkpoint.

        Tensors on the CPU, with a row for each of its share of a batch.
        """
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on with what a checkpoint kept; refuse, by a ValueError, what does not fit."""
        if state:
            raise ValueError("nothing is carried over here")

    # -- the run -----------------------------------------------------------------------------------

    @classmethod
    def from_recipe(cls, recipe: Any, progress: ProgressCallback | None = None) -> "Task":
        """Read the data that a recipe names, and make a fresh model.

        `progress` hears how far it is with what takes time only once: fetching, decoding.
        """

    @classmethod
    def load(cls, folder: Path, recipe: Any, run_id: str | None = None) -> "Task":
        """Read a run's files and best weights, which may have to bear its mark."""

    def fingerprint(self) -> dict[str, Any]:
        """What two processes must agree about: the data, and how it became numbers."""

    def with_weights(self, weights: dict[str, Tensor]) -> "Task":
        """Another of this kind, on the same data, with a model of its own that has the weights."""

    def test(self, process_group: ProcessGroup) -> dict[str, float]:
        """Measure once, at the end."""

    def evaluate_on(self, data: str | None = None) -> dict[str, float]:
        """Measure on data by name; without one, on the part that the recipe keeps for it."""

    def save(self, folder: Path) -> None:
        """Write what is needed beside the weights."""

    def matches_folder(self, folder: Path) -> bool:
        """Tell whether the files of a run are those that would be written today."""


Model = TypeVar("Model", bound=nn.Module)


def build_from_file(build: Callable[[], Model], path: Path, run_id: str | None) -> Model:
    """Make a model and give it the weights of a file, which may have to bear a run's mark."""
    weights = read_tensors(path, run_id=run_id)
    with torch.device("meta"):  # which takes no memory, whatever the recipe says
        size = _count_elements(build().state_dict())
    if size > _count_elements(weights):
        raise CorruptFileError(f"{path}: not the weights of this run's model, which has {size:,}")
    model = build()
    try:
        model.load_state_dict(weights)
    except (RuntimeError, LookupError, TypeError):
        raise CorruptFileError(f"{path}: not the weights of this run's model") from None
    return model.eval()


def _count_elements(tensors: Mapping[str, Tensor]) -> int:
    return sum(t.numel() for t in tensors.values())


_OOM_PHRASES = (
    "can't allocate",
    "not enough memory",
    "out of memory",
    "bad allocation",
    "bad_alloc",
)


@contextmanager
def oom_hint(
    activity: str, hint: str = "shorter texts or a smaller model need less"
) -> Iterator[None]:
    """Say at what the memory was used up, and what would help."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise UserError(f"out of memory {activity}: {hint}") from None


def is_out_of_memory(error: Exception) -> bool:
    """Tell whether there was not enough memory, which torch says in several ways."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and any(words in str(error) for words in _OOM_PHRASES)
    )
