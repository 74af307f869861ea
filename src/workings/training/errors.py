"""Errors before and during training, with what caused them and what would help."""

import errno
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import torch
from torch import Tensor, nn

from workings.distributed import full_tensor
from workings.errors import UserError
from workings.recipes import TrainConfig
from workings.tasks.base import Task, oom_hint
from workings.training.parameter_groups import find_frozen

DIVERGENCE_FACTOR = 1000.0  # a loss this many times that of the first steps has diverged
_DIVERGENCE_HINT = "try a lower train.learning_rate or train.clip_norm"
_DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_PERMISSION_ERRORS = (errno.EROFS, errno.EACCES, errno.EPERM)


class DivergenceError(UserError):
    """The loss, a gradient or a weight is NaN or infinite, or the loss is far too large."""


def check_trainable(
    task: Task, config: TrainConfig, device: torch.device, *, distributed: bool = False
) -> None:
    """Refuse settings and data that cannot be trained, before anything is written.

    `distributed`: several processes train together.
    """
    check_precision(config.precision, device)
    find_frozen(task.model, config.freeze)
    if config.parallelism == "fsdp" and distributed and config.metric in ("bleu", "exact"):
        raise UserError(
            f"train.metric = {config.metric!r}: each process generates texts, for which it needs "
            "the whole model: train.parallelism = 'ddp', or train.metric = 'loss'"
        )
    if not task.batches(0):
        raise UserError("there is nothing to train on")


def check_precision(precision: str, device: torch.device) -> None:
    """Refuse a number format that the device only emulates, a hundred times slower."""
    if precision == "float32" or device.type not in ("cpu", "cuda"):
        return
    is_supported = (
        torch.cpu._is_avx512_bf16_supported if device.type == "cpu" else _cuda_has_bfloat16
    )
    if not is_supported():
        raise UserError(
            f"train.precision = {precision!r}: not supported by this {device.type}: use float32"
        )


def _cuda_has_bfloat16() -> bool:
    return bool(torch.cuda.is_bf16_supported(including_emulation=False))


def step_oom_hint(step: int, batch: str) -> AbstractContextManager[None]:
    """Turn an out-of-memory error of a training step into one that names the batch."""
    return oom_hint(
        f"at step {step} with {batch}",
        "a smaller train.batch_size (with train.accumulate, for the same steps), shorter texts or "
        "a smaller model need less",
    )


def describe_os_error(error: OSError, run: Path) -> str:
    """Return what failed and what would help."""
    if error.errno == errno.ENOENT and not run.is_dir():
        return f"{run}: the run's folder was moved or removed"
    failure = f"{error.filename or run}: {error.strerror or error}"
    if error.errno in _DISK_FULL_ERRORS:
        return f"{failure}: free some space, then workings resume {run}"
    if error.errno in _PERMISSION_ERRORS:
        return f"{failure}: a run needs a writable folder: use another --out, or chmod u+w"
    return f"{failure}: when that is fixed, workings resume {run}"


def check_loss(
    loss: float, initial_loss: float | None, step: int, find_origin: Callable[[], str]
) -> None:
    """Raise DivergenceError if the loss is not finite, or far above that of the first steps."""
    is_finite_loss = math.isfinite(loss)
    limit = math.inf if initial_loss is None else DIVERGENCE_FACTOR * max(initial_loss, 1.0)
    if is_finite_loss and loss <= limit:
        return
    message = f"the loss is {loss:.4g} at step {step}"
    if is_finite_loss:
        message += f", after {initial_loss:.4g} in the first steps"
    raise DivergenceError(f"{message}: {find_origin()}; {_DIVERGENCE_HINT}")


def check_metric(name: str, value: float, step: int) -> None:
    """Raise DivergenceError if the metric that chooses the best epoch is not finite."""
    if not math.isfinite(value):
        raise DivergenceError(
            f"the {name.replace('_', ' ')} is {value} after step {step}: {_DIVERGENCE_HINT}"
        )


def check_weights(weights: Iterable[tuple[str, Tensor]], step: int) -> None:
    """Raise DivergenceError if a weight is not finite, as the last step may leave it."""
    for name, weight in weights:
        if not is_finite(weight):
            raise DivergenceError(
                f"the weight {name} is NaN or infinite after step {step}: {_DIVERGENCE_HINT}"
            )


def find_non_finite_origin(model: nn.Module, rerun: Callable[[], object]) -> str:
    """Describe where NaN or infinity first appears: in a weight, or in the output of a layer.

    `rerun` computes the losses of the same batches again.
    """
    for name, weight in model.named_parameters():
        if not is_finite(weight):
            return f"the weight {name} was NaN or infinite before this step"
    first: list[str] = []

    def make_hook(name: str) -> Callable[[nn.Module, object, object], None]:
        def hook(_module: nn.Module, _inputs: object, output: object) -> None:
            if not first and any(not is_finite(t) for t in _iter_tensors(output)):
                first.append(name)

        return hook

    handles = [
        module.register_forward_hook(make_hook(name or "the model itself"))
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
    return "the outputs of all layers are finite, but the loss is too large"


def find_non_finite_gradient(model: nn.Module) -> str:
    """Name the first weight whose gradient is NaN or infinite."""
    for name, weight in model.named_parameters():
        if weight.grad is not None and not is_finite(full_tensor(weight.grad)):
            return f"it began in the gradient of {name}"
    return "each gradient is finite, but their norm is not"


def find_non_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """Return the name of a tensor that has NaN or infinity."""
    return next((n for n, t in tensors.items() if t.is_floating_point() and not is_finite(t)), None)


def is_finite(tensor: Tensor) -> bool:
    """Return True if a tensor has neither NaN nor infinity."""
    return bool(torch.isfinite(tensor).all())


def _iter_tensors(output: object) -> Iterator[Tensor]:
    if isinstance(output, Tensor) and output.is_floating_point():
        yield output
    elif isinstance(output, tuple | list):
        for part in output:
            yield from _iter_tensors(part)
