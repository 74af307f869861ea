"""The training loop: one for every task."""

import math
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from workings.errors import UserError
from workings.recipes import TrainConfig
from workings.storage import read_checkpoint, write_checkpoint, write_tensors
from workings.train.log import Log
from workings.train.optimise import Average, optimiser, rate_at


class Task(Protocol):
    """What the loop needs to know of a task."""

    metric: str  # the validation metric that decides which weights are best
    higher_is_better: bool

    @property
    def model(self) -> nn.Module:
        """What is trained."""

    def batches(self, epoch: int) -> Sequence[Any]:
        """The training batches of an epoch, in order: cheap descriptions, the same every time."""

    def loss(self, batch: Any, device: torch.device) -> tuple[Tensor, int, dict[str, float]]:
        """The mean loss of a batch, of how many examples, and what else to average over them."""

    def evaluate(self, device: torch.device) -> dict[str, float]:
        """Measure the model on the validation data."""


@dataclass
class Progress:
    """Where a training is."""

    epoch: int = 0  # epochs completed
    batch: int = 0  # batches done in the one under way
    step: int = 0
    best: float | None = None
    best_epoch: int = 0
    examples: int = 0  # of the epoch under way
    sums: dict[str, float] = field(default_factory=dict)  # over these
    seconds: float = 0.0
    epoch_began: float = 0.0  # at so many seconds


class Interrupted(Exception):  # noqa: N818
    """Somebody pressed Ctrl-C; a checkpoint has been written."""


class Trainer:
    """Trains one task in one run folder."""

    def __init__(self, task: Task, config: TrainConfig, folder: Path, log: Log, seed: int) -> None:
        self.task, self.config, self.folder, self.log, self.seed = (
            task,
            config,
            folder,
            log,
            seed,
        )
        self.device = pick_device(config.device)
        check_precision(config.precision, self.device)
        task.model.to(self.device)
        if config.compile:
            task.model.compile()  # in place: names of weights and the run folder stay as they are
        self.optimiser = optimiser(task.model, config)
        self.average = Average(task.model, config)
        self.progress = Progress()
        batches = len(task.batches(0))
        if batches == 0:
            raise UserError("there is nothing to train on")
        self.steps = config.epochs * math.ceil(batches / config.accumulate)
        self._stop = False

    def train(self) -> None:
        """Train to the end, or until the user stops it."""
        with self._interruptible():
            while self.progress.epoch < self.config.epochs:
                self._epoch()
                if self._patience_is_over():
                    break

    def _epoch(self) -> None:
        progress, task = self.progress, self.task
        batches = task.batches(progress.epoch)
        task.model.train()
        since = time.perf_counter()
        while progress.batch < len(batches):
            group = batches[progress.batch : progress.batch + self.config.accumulate]
            self._step(group)
            progress.batch += len(group)
            now = time.perf_counter()
            progress.seconds, since = progress.seconds + now - since, now
            self.log.step(progress, self.steps)
            if self._stop:
                self.save()
                raise Interrupted
        self._finish_epoch()

    def _step(self, group: Sequence[Any]) -> None:
        progress, config = self.progress, self.config
        for parameters in self.optimiser.param_groups:
            parameters["lr"] = rate_at(progress.step, self.steps, config)
        self.optimiser.zero_grad(set_to_none=True)
        for batch in group:
            with self._precision():
                loss, count, more = self.task.loss(batch, self.device)
            if not torch.isfinite(loss):
                raise UserError(
                    f"the loss is {loss.item()} at step {progress.step + 1}: "
                    f"try a lower train.rate (now {config.rate}) or train.clip (now {config.clip})"
                )
            torch.autograd.backward(loss / len(group))
            progress.examples += count
            for name, value in {"loss": loss.item() * count, **more}.items():
                progress.sums[name] = progress.sums.get(name, 0.0) + value
        if config.clip is not None:
            nn.utils.clip_grad_norm_(self.task.model.parameters(), config.clip)
        self.optimiser.step()
        self.average.after_step(self.task.model)
        progress.step += 1

    def _finish_epoch(self) -> None:
        progress, task = self.progress, self.task
        self.average.after_epoch(task.model)
        with self.averaged():
            since = time.perf_counter()
            task.model.eval()
            measured = task.evaluate(self.device)
            took = time.perf_counter() - since
            # Without held-out examples the last epoch is as good as any.
            value = measured.get(task.metric, float(progress.epoch))
            better = progress.best is None or (value > progress.best) == task.higher_is_better
            if better and value != progress.best:
                progress.best, progress.best_epoch = value, progress.epoch + 1
                write_tensors(self.folder / "model.safetensors", _state(task.model))
        progress.epoch, progress.batch = progress.epoch + 1, 0
        trained = {f"train_{name}": s / progress.examples for name, s in progress.sums.items()}
        self.log.epoch(progress, trained | measured, evaluation_seconds=took)
        progress.sums, progress.examples = {}, 0
        progress.epoch_began = progress.seconds
        self.save()

    def _patience_is_over(self) -> bool:
        patience = self.config.patience
        return patience is not None and self.progress.epoch - self.progress.best_epoch >= patience

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Put the averaged weights in the model's place for a while."""
        weights = self.average.weights()
        if weights is None:
            yield
            return
        own = {name: p.detach().clone() for name, p in self.task.model.named_parameters()}
        _put(self.task.model, weights)
        try:
            yield
        finally:
            _put(self.task.model, own)

    def _precision(self) -> Any:
        if self.config.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, getattr(torch, self.config.precision))

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Let Ctrl-C and a scheduler's SIGTERM end the training after the step under way."""

        def stop(_number: int, _frame: FrameType | None) -> None:
            self._stop = True

        before = {s: signal.signal(s, stop) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def save(self) -> None:
        """Write a checkpoint, and drop the oldest beyond those to keep."""
        state = {
            "progress": asdict(self.progress),
            "seed": self.seed,
            "optimiser": [
                {k: v for k, v in group.items() if k != "params"}
                for group in self.optimiser.state_dict()["param_groups"]
            ],
        }
        tensors = {
            "model": _state(self.task.model),
            "optimiser": _flat(self.optimiser.state_dict()["state"]),
            "average": self.average.state(),
            "random": {"torch": torch.get_rng_state()},
        }
        checkpoints = self.folder / "checkpoints"
        write_checkpoint(checkpoints / f"step-{self.progress.step}", tensors, state)
        for old in _by_step(checkpoints)[: -self.config.keep]:
            _remove(old)

    def restore(self) -> None:
        """Go on from the newest checkpoint that can be trusted."""
        for folder in reversed(_by_step(self.folder / "checkpoints")):
            try:
                tensors, state = read_checkpoint(folder)
            except (UserError, OSError, KeyError) as error:
                self.log.say(f"{error}: going on from the one before")
                continue
            self.task.model.load_state_dict(tensors["model"])
            current = self.optimiser.state_dict()
            groups = [
                {**now, **saved}
                for now, saved in zip(current["param_groups"], state["optimiser"], strict=True)
            ]
            self.optimiser.load_state_dict(
                {"state": _nested(tensors.get("optimiser", {})), "param_groups": groups}
            )
            self.average.restore(tensors.get("average", {}))
            torch.set_rng_state(tensors["random"]["torch"])
            self.progress = Progress(**state["progress"])
            return
        raise UserError(f"{self.folder}: no checkpoint to go on from")


def pick_device(name: str) -> torch.device:
    """Find the device; `auto` is the best there is."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):
        raise UserError(f"train.device = {name!r}: not on this machine; auto finds one") from None
    return device


def check_precision(precision: str, device: torch.device) -> None:
    """Refuse an arithmetic that the device would only emulate, a hundred times slower."""
    if precision == "float32" or device.type not in ("cpu", "cuda"):
        return
    asks = torch.cpu._is_avx512_bf16_supported if device.type == "cpu" else _cuda_has_bfloat16
    if not asks():
        raise UserError(f"train.precision = {precision!r}: this {device.type} has none: float32")


def _cuda_has_bfloat16() -> bool:
    return bool(torch.cuda.is_bf16_supported(including_emulation=False))


def _state(model: nn.Module) -> dict[str, Tensor]:
    return {name: t.detach() for name, t in model.state_dict().items()}


@torch.no_grad()
def _put(model: nn.Module, weights: dict[str, Tensor]) -> None:
    for name, parameter in model.named_parameters():
        parameter.copy_(weights[name])


def _flat(state: dict[int, dict[str, Any]]) -> dict[str, Tensor]:
    return {
        f"{index}.{name}": torch.as_tensor(value)
        for index, values in state.items()
        for name, value in values.items()
        if value is not None
    }


def _nested(flat: dict[str, Tensor]) -> dict[int, dict[str, Tensor]]:
    nested: dict[int, dict[str, Tensor]] = {}
    for key, value in flat.items():
        index, name = key.split(".", 1)
        nested.setdefault(int(index), {})[name] = value
    return nested


def _by_step(checkpoints: Path) -> list[Path]:
    found = [p for p in checkpoints.glob("step-*") if p.name.removeprefix("step-").isdigit()]
    return sorted(found, key=lambda p: int(p.name.removeprefix("step-")))


def _remove(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
