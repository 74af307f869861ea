"""What can go wrong before and while training, told so that somebody can act on it."""

import errno
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from workings.distributed import full_tensor
from workings.errors import UserError
from workings.recipes import TrainConfig
from workings.tasks.base import Task, oom_hint

DIVERGENCE_FACTOR = 1000.0  # times the loss of the first steps
_DIVERGENCE_HINT = "try a lower train.learning_rate or train.clip_norm"
_DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_PERMISSION_ERRORS = (errno.EROFS, errno.EACCES, errno.EPERM)


class DivergenceError(UserError):
    """The loss or a gradient is no number any more, or far too large."""


def check_trainable(
    task: Task, config: TrainConfig, device: torch.device, *, distributed: bool = False
) -> None:
    """Refuse what cannot be trained, before anything is written.

    `crowded`: it is to be trained by several processes.
    """
    check_precision(config.precision, device)
    metric = getattr(config, "metric", "loss")
    if config.parallelism == "fsdp" and distributed and metric in ("bleu", "exact"):
        raise UserError(
            f"train.metric = {metric!r}: for that a process writes texts by itself, and needs the "
            "whole model: train.parallelism = 'ddp', or train.metric = 'loss'"
        )
    if not task.batches(0):
        raise UserError("there is nothing to train on")


def check_precision(precision: str, device: torch.device) -> None:
    """Refuse an arithmetic that the device would only emulate, a hundred times slower."""
    if precision == "float32" or device.type not in ("cpu", "cuda"):
        return
    asks = torch.cpu._is_avx512_bf16_supported if device.type == "cpu" else _cuda_has_bfloat16
    if not asks():
        raise UserError(f"train.precision = {precision!r}: this {device.type} has none: float32")


def _cuda_has_bfloat16() -> bool:
    return bool(torch.cuda.is_bf16_supported(including_emulation=False))


def step_oom_hint(step: int, batch: str) -> AbstractContextManager[None]:
    """Say which batch of a training did not fit, and what would."""
    return oom_hint(
        f"at step {step} with {batch}",
        "a smaller train.batch_size (with train.accumulate, for the same steps), shorter texts or a "
        "smaller model need less",
    )


@contextmanager
def os_error_hint(run: Path) -> Iterator[None]:
    """Say what would help where a file of a run cannot be written or read."""
    try:
        yield
    except OSError as error:
        if not error.filename or not Path(str(error.filename)).is_relative_to(run):
            raise  # not of the run: standard output, the data
        raise UserError(describe_os_error(error, run)) from None


def describe_os_error(error: OSError, run: Path) -> str:
    """Say what the system refused, and what would help."""
    if error.errno == errno.ENOENT and not run.is_dir():
        return f"{run}: the run's folder is gone: moved, or removed?"
    said = f"{error.filename or run}: {error.strerror or error}"
    if error.errno in _DISK_FULL_ERRORS:
        return f"{said}: make room, then workings resume {run}"
    if error.errno in _PERMISSION_ERRORS:
        return f"{said}: a run needs a folder that can be written to: another --out, or chmod u+w"
    return f"{said}: when that is mended, workings resume {run}"


def check_loss(
    loss: float, initial_loss: float | None, step: int, origin: Callable[[], str]
) -> None:
    """Stop when the loss is no number, or a thousand times what it was in the beginning."""
    if math.isfinite(loss) and (
        initial_loss is None or loss <= DIVERGENCE_FACTOR * max(initial_loss, 1.0)
    ):
        return
    said = f"the loss is {loss:.4g} at step {step}"
    if math.isfinite(loss):
        said += f", after {initial_loss:.4g} in the beginning"
    raise DivergenceError(f"{said}: {origin()}; {_DIVERGENCE_HINT}")


def check_metric(name: str, value: float, step: int) -> None:
    """Stop when what decides between epochs cannot be compared."""
    if not math.isfinite(value):
        raise DivergenceError(
            f"the {name.replace('_', ' ')} is {value} after step {step}: {_DIVERGENCE_HINT}"
        )


def check_weights(weights: Iterable[tuple[str, Tensor]], step: int) -> None:
    """Stop when the last step of all has made weights that are no numbers."""
    for name, weight in weights:
        if not _is_finite(weight):
            raise DivergenceError(
                f"the weights {name} are no numbers after step {step}: {_DIVERGENCE_HINT}"
            )


def find_non_finite_origin(model: nn.Module, rerun: Callable[[], object]) -> str:
    """Find where numbers stop being numbers: a weight, else the first layer whose output has one.

    `again` sends the same batch through the model once more.
    """
    for name, weight in model.named_parameters():
        if not _is_finite(weight):
            return f"the weights {name} were no numbers before this step"
    first: list[str] = []

    def noting(name: str) -> Callable[[nn.Module, object, object], None]:
        def note(_module: nn.Module, _inputs: object, output: object) -> None:
            if not first and any(not _is_finite(t) for t in _iter_tensors(output)):
                first.append(name)

        return note

    handles = [
        module.register_forward_hook(noting(name or "the model itself"))
        for name, module in model.named_modules()
    ]
    try:
        with torch.no_grad():
            rerun()
    finally:
        for handle in handles:
            handle.remove()
    if first:
        return f"it began in layer {first[0]}"
    return "every layer's output is a number, but the loss is too large"


def find_non_finite_gradient(model: nn.Module) -> str:
    """Name the first weights whose gradient is no number."""
    for name, weight in model.named_parameters():
        if weight.grad is not None and not _is_finite(full_tensor(weight.grad)):
            return f"it began in the gradient of {name}"
    return "all gradients are numbers, but too long together"


def _is_finite(t: Tensor) -> bool:
    return bool(torch.isfinite(t).all())


def _iter_tensors(output: object) -> Iterator[Tensor]:
    if isinstance(output, Tensor) and output.is_floating_point():
        yield output
    elif isinstance(output, tuple | list):
        for part in output:
            yield from _iter_tensors(part)
