"""What can go wrong inside a step, told so that somebody can act on it."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from workings.errors import UserError

EXPLODED = 1000.0  # times the loss of the first steps
_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "bad allocation")


class Diverged(UserError):  # noqa: N818
    """The loss or a gradient is no number any more, or far too large."""


@contextmanager
def memory_told(step: int, batch: str) -> Iterator[None]:
    """Say which batch did not fit, and what would."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryError | torch.OutOfMemoryError) or any(
            words in str(error) for words in _MEMORY
        ):
            raise UserError(
                f"out of memory at step {step} with {batch}: a smaller train.batch (with "
                "train.accumulate, for the same steps), shorter texts or a smaller model need less"
            ) from None
        raise


def check_loss(loss: float, usual: float | None, step: int, origin: Callable[[], str]) -> None:
    """Stop when the loss is no number, or a thousand times what it was in the beginning."""
    if math.isfinite(loss) and (usual is None or loss <= EXPLODED * max(usual, 1.0)):
        return
    said = f"the loss is {loss:.4g} at step {step}"
    if math.isfinite(loss):
        said += f", after {usual:.4g} in the beginning"
    raise Diverged(f"{said}: {origin()}; try a lower train.rate or train.clip")


def origin_of(model: nn.Module, again: Callable[[], object]) -> str:
    """Find where numbers stop being numbers: a weight, else the first layer whose output has one.

    `again` sends the same batch through the model once more.
    """
    for name, weight in model.named_parameters():
        if not _finite(weight):
            return f"the weights {name} were no numbers before this step"
    first: list[str] = []

    def noting(name: str) -> Callable[[nn.Module, object, object], None]:
        def note(_module: nn.Module, _inputs: object, output: object) -> None:
            if not first and any(not _finite(t) for t in _tensors(output)):
                first.append(name)

        return note

    handles = [
        module.register_forward_hook(noting(name or "the model itself"))
        for name, module in model.named_modules()
    ]
    try:
        with torch.no_grad():
            again()
    finally:
        for handle in handles:
            handle.remove()
    if first:
        return f"it began in layer {first[0]}"
    return "every layer's output is a number, but the loss is too large"


def bad_gradients(model: nn.Module) -> str:
    """Name the first weights whose gradient is no number."""
    for name, weight in model.named_parameters():
        if weight.grad is not None and not _finite(weight.grad):
            return f"it began in the gradient of {name}"
    return "all gradients are numbers, but too long together"


def _finite(t: Tensor) -> bool:
    return bool(torch.isfinite(t).all())


def _tensors(output: object) -> Iterator[Tensor]:
    if isinstance(output, Tensor) and output.is_floating_point():
        yield output
    elif isinstance(output, tuple | list):
        for part in output:
            yield from _tensors(part)
