"""The training loop: steps, epochs, evaluation, checkpoints, signals and several processes."""

import ctypes
import math
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from workings.config import build
from workings.distributed import ProcessGroup, full_tensor, shard_like
from workings.errors import ErrorOnOtherRank, UserError
from workings.modules import load_unique_state_dict, unique_state_dict
from workings.recipes import TrainConfig
from workings.signals import is_main_thread
from workings.storage import CorruptFileError, read_checkpoint, read_tensors, write_tensors
from workings.tasks.base import Task, oom_hint
from workings.training.checkpoints import (
    Checkpoints,
    CheckpointTensors,
    check_compatible,
    flatten_state,
    get_rng_state,
    select_rank_rows,
    set_rng_state,
    unflatten_optimizer_state,
)
from workings.training.errors import (
    DivergenceError,
    check_loss,
    check_metric,
    check_weights,
    find_non_finite_gradient,
    find_non_finite_origin,
    step_oom_hint,
)
from workings.training.logging import Log
from workings.training.optimizers import (
    WeightAverage,
    average_from_state,
    build_optimizer,
    clip_gradients,
    copy_weights_into,
    learning_rate_at,
    parameters_and_buffers,
    state_names,
)
from workings.training.parameter_groups import freeze, set_train_mode

INITIAL_STEPS = 20  # steps whose lowest loss is the reference for divergence
# After the current step: save and stop (SIGHUP: the terminal is gone), or save and go on. Windows
# lacks some of them.
STOP_SIGNALS = tuple(s for s in signal.Signals if s.name in ("SIGINT", "SIGTERM", "SIGHUP"))
SAVE_SIGNALS = tuple(s for s in signal.Signals if s.name == "SIGUSR1")
SAVE_SECONDS = 300.0  # between checkpoints without train.save_every
# Constants of glibc's malloc.h.
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
# With train.minutes, a training that is late by more than this fraction shortens its schedule. One
# that keeps up has the schedule of its epochs, which does not depend on the clock.
TOLERATED_DELAY = 0.05
ALLOCATOR_SETTINGS = ("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD")


@dataclass
class TrainingProgress:
    """How far a training is; saved in checkpoints."""

    epoch: int = 0  # completed epochs
    batch: int = 0  # completed batches of the current epoch
    step: int = 0
    best_metric: float | None = None
    best_loss: float | None = None  # validation loss of the same epoch
    best_epoch: int = 0
    best_step: int = 0
    initial_loss: float | None = None  # lowest loss of the first steps
    num_items: int = 0  # examples or tokens of the current epoch
    sums: dict[str, float] = field(default_factory=dict)  # of loss and metrics over these
    seconds: float = 0.0
    cpu_seconds: float = 0.0  # of all threads of the main process
    epoch_start_seconds: float = 0.0
    evaluation_seconds: float = 0.0
    averaged_epochs: int = 0  # whose weights the average has

    def __post_init__(self) -> None:
        counts = (
            self.epoch,
            self.batch,
            self.step,
            self.num_items,
            self.best_epoch,
            self.best_step,
            self.averaged_epochs,
        )
        are_finite = all(map(math.isfinite, self.sums.values()))
        if not are_finite or not all(0 <= n < 2**53 for n in counts):
            raise ValueError("the progress counters are out of range")


class EvaluationInterrupt(Exception):  # noqa: N818
    """Raised by a signal during an evaluation; the resumed run begins it again."""


class TrainingInterrupt(Exception):  # noqa: N818
    """Raised by Ctrl-C, SIGTERM or SIGHUP, after a checkpoint was written."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.exit_status = 128 + signal_number  # as shells and schedulers expect


class Trainer:
    """Trains one task in one run folder."""

    def __init__(
        self,
        task: Task,
        config: TrainConfig,
        folder: Path,
        log: Log,
        seed: int,
        process_group: ProcessGroup,
    ) -> None:
        self.task, self.config, self.folder = task, config, folder
        self.log, self.seed, self.process_group = log, seed, process_group
        self.device = process_group.device
        if self.device.type == "cpu":
            keep_freed_memory()
        task.model.to(self.device)
        freeze(task.model, config.freeze)
        self._wrap_model()
        self.optimizer = build_optimizer(task.model, config)
        self.average = WeightAverage(task.model, config)
        self.checkpoints = Checkpoints(folder, config.keep_checkpoints)
        self.progress = TrainingProgress()
        self.run_id = ""  # written into the weights, so that those of other runs are refused
        self._epoch_steps = self._count_steps(len(task.batches(0)))
        self._elapsed = 0.0  # seconds of training and validation, averaged over the processes
        self._received_signal = 0  # the signal that this process received
        self._stop_signal = 0  # the signal that all processes stop for
        self._save_requested = False  # this process was asked for a checkpoint
        self._save_now = False  # all processes write a checkpoint after this step
        self._last_save = time.monotonic()

    def _wrap_model(self) -> None:
        """Wrap the model for several processes (DDP or FSDP), and compile it if configured."""
        model, is_alone = self.task.model, self.process_group.world_size == 1
        if not is_alone:
            self._warmup_pass()
            has_unused = any(p.grad is None for p in model.parameters() if p.requires_grad)
            self.process_group.wrap_data_parallel(
                model, self.config.parallelism, find_unused_parameters=has_unused
            )
        if self.config.compile:
            model.compile()  # in place: the names of the weights stay the same
        if not is_alone:
            # DDP reduces gradients in the order of the first backward pass. If that were a real
            # step, a resumed run would reduce in another order and round differently.
            self._warmup_pass()
            model.zero_grad(set_to_none=True)
            if self.process_group.rank:  # else all processes would drop the same features
                torch.manual_seed(self.seed * 1009 + self.process_group.rank)

    def _warmup_pass(self) -> None:
        """Run one example forward and backward, with zero gradients."""
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices), self._autocast():
            set_train_mode(self.task.model)
            example = self.task.batches(0)[0][:1]
            torch.autograd.backward(self.task.loss(example, self.device).mean * 0.0)

    def train(self) -> None:
        """Train until all epochs are done, patience runs out, or a signal stops it."""
        try:
            with self._handle_signals():
                while not self.is_finished():
                    self._train_epoch()
        except DivergenceError as error:
            if not self.process_group.is_main_process:  # all processes raise the same error
                raise ErrorOnOtherRank(str(error)) from None
            raise UserError(f"{error}; {self._describe_last_finite_checkpoint()}") from None
        finally:
            self.checkpoints.close()

    def is_finished(self) -> bool:
        """Return True if all epochs are done, or patience has run out."""
        epoch, patience = self.progress.epoch, self.config.patience
        is_impatient = patience is not None and epoch - self.progress.best_epoch >= patience
        return epoch >= self.config.epochs or is_impatient or self.is_out_of_time()

    def is_out_of_time(self) -> bool:
        """Return True if `train.minutes` are over."""
        return self.config.minutes is not None and self._elapsed >= 60 * self.config.minutes

    # -- steps -------------------------------------------------------------------------------------

    def _train_epoch(self) -> None:
        progress, task = self.progress, self.task
        batches = task.batches(progress.epoch)
        self._epoch_steps = self._count_steps(len(batches))
        set_train_mode(task.model)
        last, last_cpu = time.perf_counter(), time.process_time()
        while progress.batch < len(batches) and not self.is_out_of_time():
            micro_batches = batches[progress.batch : progress.batch + self.config.accumulate]
            self._step(micro_batches)
            progress.batch += len(micro_batches)
            now, cpu = time.perf_counter(), time.process_time()
            progress.seconds, last = progress.seconds + now - last, now
            progress.cpu_seconds, last_cpu = progress.cpu_seconds + cpu - last_cpu, cpu
            self.log.log_step(progress, self._estimate_total_steps())
            if progress.batch < len(batches) and not self.is_out_of_time():
                if self._stop_signal:
                    self._save_and_interrupt()
                if self._is_save_due():
                    self.save()
        try:
            self._finish_epoch()
        except EvaluationInterrupt:
            self._save_and_interrupt()
        # Signals that arrived during the evaluation.
        self._check_signals(self.process_group.all_reduce_sum(self._count_signals()))
        if self._stop_signal:
            self._save_and_interrupt()

    def _is_save_due(self) -> bool:
        every = self.config.save_every
        return self._save_now or (every is not None and self.progress.step % every == 0)

    def _count_steps(self, num_batches: int) -> int:
        return math.ceil(num_batches / self.config.accumulate)

    def _estimate_total_steps(self) -> int:
        """Return the steps of all epochs, if those to come are as long as the current one."""
        before = self.progress.step - self._count_steps(self.progress.batch)
        return before + self._epoch_steps * (self.config.epochs - self.progress.epoch)

    def _learning_rate(self) -> float:
        """Return the learning rate by the fraction of the training that is done.

        Epochs may differ in their number of steps; each is the same fraction of the schedule. A
        training that is late for `train.minutes` goes by the clock.
        """
        steps, total = self._epoch_steps, self.config.epochs * self._epoch_steps
        position = self.progress.epoch * steps + self._count_steps(self.progress.batch)
        if self.config.minutes is not None:
            spent = self._elapsed / (60 * self.config.minutes)
            late = (spent - TOLERATED_DELAY) / (1 - TOLERATED_DELAY)
            position = max(position, min(int(late * total), total))
        return learning_rate_at(position, total, self.config)

    def _step(self, micro_batches: Sequence[Sequence[Any]]) -> None:
        progress, config, model = self.progress, self.config, self.task.model
        learning_rate = self._learning_rate()
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate * group.get("lr_factor", 1.0)
        self.optimizer.zero_grad(set_to_none=True)
        sums: dict[str, float] = {}
        for k, batch in enumerate(micro_batches, start=1):
            self.process_group.set_gradient_sync(model, enabled=k == len(micro_batches))
            with step_oom_hint(progress.step + 1, self.task.describe(batch)):
                for name, value in self._backward(batch, len(micro_batches)).items():
                    sums[name] = sums.get(name, 0.0) + value
        elapsed = progress.seconds + progress.evaluation_seconds
        shared = {**sums, **self._count_signals(), "elapsed": elapsed}
        totals = self.process_group.all_reduce_sum(shared)
        self._elapsed = totals.pop("elapsed") / self.process_group.world_size
        self._check_signals(totals)
        count = totals.pop("count")
        loss = totals["loss"] / count
        check_loss(
            loss, progress.initial_loss, progress.step + 1, lambda: self._find_origin(micro_batches)
        )
        if config.clip_norm is not None and not math.isfinite(
            clip_gradients(model, config.clip_norm)
        ):
            raise DivergenceError(
                f"the gradient norm is NaN or infinite at step {progress.step + 1}: "
                f"{find_non_finite_gradient(model)}; try a lower train.learning_rate"
            )
        with step_oom_hint(progress.step + 1, "the state of the optimizer"):
            self.optimizer.step()
        self.average.after_step(model)
        if progress.step < INITIAL_STEPS:
            lowest = progress.initial_loss
            progress.initial_loss = loss if lowest is None else min(loss, lowest)
        progress.step += 1
        progress.num_items += int(count)
        for name, value in totals.items():
            progress.sums[name] = progress.sums.get(name, 0.0) + value

    def _backward(self, batch: Sequence[Any], num_micro_batches: int) -> dict[str, float]:
        """Accumulate the gradients of this process's share of a batch; return sums over it."""
        share = self.process_group.shard_batch(batch)
        with self._autocast():
            # All processes take part in every step; one without a share computes an example whose
            # gradients are zero.
            losses = self.task.loss(share or batch[:1], self.device)
        if not share:
            torch.autograd.backward(losses.mean * 0.0)
            return {"count": 0.0, "loss": 0.0, **dict.fromkeys(losses.sums, 0.0)}
        # Gradients are averaged over the processes, so each share is weighted by its size.
        count = self.task.weight(share)
        fraction = count * self.process_group.world_size / self.task.weight(batch)
        torch.autograd.backward(losses.mean * (fraction / num_micro_batches))
        return {"count": count, "loss": losses.mean.item() * count, **losses.sums}

    def _find_origin(self, micro_batches: Sequence[Sequence[Any]]) -> str:
        if self.process_group.world_size > 1:
            return "to find the layer in which it began, train with one process"
        return find_non_finite_origin(
            self.task.model, lambda: [self.task.loss(b, self.device) for b in micro_batches]
        )

    def _describe_last_finite_checkpoint(self) -> str:
        folder = self.checkpoints.find_last_finite()
        if folder is None:
            return "there is no earlier checkpoint with finite weights"
        return f"the last checkpoint with finite weights is {folder}"

    def _autocast(self) -> AbstractContextManager[Any]:
        if self.config.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, getattr(torch, self.config.precision))

    # -- epochs ------------------------------------------------------------------------------------

    def _finish_epoch(self) -> None:
        """Evaluate the (averaged) weights, save them if they are the best, and log the epoch."""
        progress, task, group = self.progress, self.task, self.process_group
        group.broadcast_buffers(task.model)
        state = unique_state_dict(task.model)  # gathered one by one, to save memory
        check_weights(((name, full_tensor(t.detach())) for name, t in state.items()), progress.step)
        if progress.averaged_epochs <= progress.epoch:  # else a signal stopped its evaluation
            self.average.after_epoch(task.model)
            progress.averaged_epochs = progress.epoch + 1
        with self.use_averaged_weights():
            group.broadcast_buffers(task.model)
            start = time.perf_counter()
            task.model.eval()
            with oom_hint(f"while evaluating the validation data after step {progress.step}"):
                # The main process decides which epoch is best, for all.
                metrics = group.broadcast_json(self._evaluate())
            evaluation_seconds = time.perf_counter() - start
            progress.evaluation_seconds += evaluation_seconds
            # One process alone cannot run a sharded model.
            can_sample = group.world_size == 1 or self.config.parallelism == "ddp"
            samples = task.sample_outputs() if can_sample and group.is_main_process else {}
            self._save_best(metrics)
        progress.epoch, progress.batch = progress.epoch + 1, 0
        means = {f"train_{name}": s / progress.num_items for name, s in progress.sums.items()}
        record = means | metrics
        self.log.log_epoch(progress, record, evaluation_seconds=evaluation_seconds)
        for callback in task.callbacks:
            callback({"epoch": progress.epoch, "step": progress.step, **record})
        if samples:
            self.log.log_samples(progress.epoch, samples)
        progress.sums, progress.num_items = {}, 0
        progress.epoch_start_seconds = progress.seconds
        self.save()

    def _evaluate(self) -> dict[str, float]:
        """Measure the validation data; raise EvaluationInterrupt after the batch of a signal."""
        task = self.task

        def check_signals(done: int, total: int) -> None:
            show_progress(done, total)
            self._check_signals(self.process_group.all_reduce_sum(self._count_signals()))
            if self._stop_signal:
                raise EvaluationInterrupt

        task.eval_tokens = self.config.eval_tokens
        with self.log.show_evaluation("measuring the validation data") as show_progress:
            task.on_progress = check_signals
            try:
                return task.validate(self.process_group)
            finally:
                del task.on_progress, task.eval_tokens

    def _save_best(self, metrics: dict[str, float]) -> None:
        """Write the current weights if they are the best; without validation data, always."""
        progress, task = self.progress, self.task
        value, loss = metrics.get(task.metric), metrics.get("validation_loss", 0.0)
        if value is not None:
            check_metric(task.metric, value, progress.step)
            if not self._is_better(value, loss):
                return
        progress.best_metric, progress.best_loss = value, loss
        progress.best_epoch = progress.epoch + 1
        progress.best_step = progress.step
        weights = self.process_group.gather_full_tensors(unique_state_dict(task.model))
        if self.process_group.is_main_process:
            write_tensors(self.folder / "model.safetensors", weights, self.run_id)

    def _is_better(self, value: float, loss: float) -> bool:
        """Compare the metric with the best one; if they are equal, compare the losses."""
        best, lowest = self.progress.best_metric, self.progress.best_loss
        if best is None or value == best:
            return best is None or (lowest is not None and loss < lowest)
        return (value > best) == self.task.higher_is_better

    @contextmanager
    def use_averaged_weights(self) -> Iterator[None]:
        """Replace the model's weights by their average for a while."""
        weights = self.average.weights()
        if weights is None:
            yield
            return
        named = parameters_and_buffers(self.task.model)
        own = {name: named[name].detach().clone() for name in weights}
        copy_weights_into(self.task.model, weights)
        try:
            yield
        finally:
            copy_weights_into(self.task.model, own)

    # -- signals -----------------------------------------------------------------------------------

    @contextmanager
    def _handle_signals(self) -> Iterator[None]:
        """Let signals stop the training, or save a checkpoint, after the current step."""
        if not is_main_thread():
            yield
            return

        def stop(number: int, _frame: FrameType | None) -> None:
            self._received_signal = number

        def request_save(_number: int, _frame: FrameType | None) -> None:
            self._save_requested = True

        handlers = dict.fromkeys(STOP_SIGNALS, stop) | dict.fromkeys(SAVE_SIGNALS, request_save)
        before = {
            number: signal.signal(number, handler)
            for number, handler in handlers.items()
            # nohup ignores SIGHUP; the command line ignores SIGUSR1 until now.
            if signal.getsignal(number) != signal.SIG_IGN or number in SAVE_SIGNALS
        }
        try:
            yield
        finally:
            # When the first process exits, torchrun sends signals to the others, which are about
            # to exit, too.
            is_stopping = self._stop_signal and self.process_group.world_size > 1
            for number, handler in before.items():
                signal.signal(number, signal.SIG_IGN if is_stopping else handler)

    def _count_signals(self) -> dict[str, float]:
        """Count what this process received; the main process's clock asks for checkpoints, too."""
        is_late = (
            self.config.save_every is None
            and self.process_group.is_main_process
            and time.monotonic() - self._last_save >= SAVE_SECONDS
        )
        stops = {s.name: float(self._received_signal == s) for s in STOP_SIGNALS}
        return stops | {"save": float(self._save_requested or is_late)}

    def _check_signals(self, totals: dict[str, float]) -> None:
        """Stop or save if any process received a signal: all of them after the same step."""
        for s in STOP_SIGNALS:
            self._stop_signal = s if totals.pop(s.name) else self._stop_signal
        self._save_now = bool(totals.pop("save"))

    def _save_and_interrupt(self) -> None:
        self.save()
        self.checkpoints.wait()
        self.process_group.barrier()  # no process exits before the checkpoint is complete
        raise TrainingInterrupt(self._stop_signal)

    # -- checkpoints -------------------------------------------------------------------------------

    def save(self) -> None:
        """Write a checkpoint in the background."""
        self._save_requested, self._last_save = False, time.monotonic()
        group, optimizer_state = self.process_group, self.optimizer.state_dict()["state"]
        rng_states = group.all_gather_tensors(get_rng_state(self.device))
        task_states = group.all_gather_tensors(self.task.state_dict())
        tensors = {
            "model": group.gather_full_tensors(unique_state_dict(self.task.model)),
            "optimizer": group.gather_full_tensors(flatten_state(optimizer_state)),
            "average": group.gather_full_tensors(self.average.state_dict()),
            "rng": flatten_state(dict(enumerate(rng_states))),
        }
        if task_state := flatten_state(dict(enumerate(task_states))):
            tensors["task_state"] = task_state
        if not group.is_main_process:
            return
        state = {
            "progress": asdict(self.progress),
            "seed": self.seed,
            "log_offset": self.log.synced_offset(),
            "log_sha256": self.log.sha256,
            "run_id": self.run_id,
        }
        self.checkpoints.save(self.progress.step, tensors, state, self.progress.best_step)

    def restore(self, *, extended: bool = False) -> bool:
        """Load the newest valid checkpoint; return False if there is none.

        `extended`: the run was just extended, and may have its best weights in a checkpoint only.
        """
        group = self.process_group
        tensors: CheckpointTensors = {}
        state: dict[str, Any] | None = None
        if group.is_main_process and self.checkpoints.list_folders():
            # A single process finds what does not fit by loading it; of several, the main process
            # checks what all of them will load.
            check = self._load_checkpoint if group.world_size == 1 else self._check_checkpoint
            tensors, state = self.checkpoints.read_newest_valid(check, self.log.info)
            self._repair_best_weights(
                build(TrainingProgress, state["progress"]), verbose=not extended
            )
        if group.world_size == 1:
            return state is not None
        state = group.broadcast_json(state)
        if state is None:
            return False
        kinds = group.broadcast_json(list(tensors))
        self._load_checkpoint(
            {kind: group.broadcast_tensors(tensors.get(kind)) for kind in kinds}, state
        )
        return True

    def _repair_best_weights(self, progress: TrainingProgress, *, verbose: bool) -> None:
        """Write missing or corrupt best weights again, from the checkpoint of the best step."""
        path = self.folder / "model.safetensors"
        if not progress.best_epoch:
            return
        try:
            read_tensors(path, run_id=self.run_id)
        except CorruptFileError as error:
            folder = self.checkpoints.folder / f"step-{progress.best_step}"
            tensors, _ = read_checkpoint(folder)
            with torch.random.fork_rng([]):  # building a model draws random numbers
                best = self.task.with_weights(tensors["model"]).model
            if average := average_from_state(tensors.get("average", {})):
                copy_weights_into(best, average)
            write_tensors(path, unique_state_dict(best), self.run_id)
            if verbose:
                self.log.info(f"{error}: written again, from {folder.name}")

    def _check_checkpoint(self, tensors: CheckpointTensors, state: dict[str, Any]) -> None:
        """Raise an error if a checkpoint is of another run or another model."""
        build(TrainingProgress, state["progress"])
        if state.get("run_id", self.run_id) != self.run_id:
            raise UserError("it belongs to another run")
        if type(state["log_offset"]) is not int or state["log_offset"] < 0:
            raise ValueError("it has no valid log offset")
        model = self.task.model
        tensors = {**tensors, "model": unique_state_dict(model, tensors["model"])}
        own = unique_state_dict(model)
        check_compatible(tensors, own, self._weights(), state_names(self.optimizer))

    def _weights(self) -> list[torch.Tensor]:
        """Return the optimizer's weights in the order of its state dict."""
        return [p for group in self.optimizer.param_groups for p in group["params"]]

    def _load_checkpoint(self, tensors: CheckpointTensors, state: dict[str, Any]) -> None:
        self._check_checkpoint(tensors, state)
        model, own = self.task.model, self.task.model.state_dict()
        weights = {n: shard_like(t, own[n]) for n, t in tensors["model"].items()}
        load_unique_state_dict(model, weights)
        self.optimizer.load_state_dict(
            {
                "state": unflatten_optimizer_state(tensors.get("optimizer", {}), self._weights()),
                "param_groups": self.optimizer.state_dict()["param_groups"],  # from the recipe
            }
        )
        self.average.load_state_dict(tensors.get("average", {}), model)
        self.progress = build(TrainingProgress, state["progress"])
        self._elapsed = self.progress.seconds + self.progress.evaluation_seconds
        rows = self.config.batch_size
        self.task.load_state_dict(
            select_rank_rows(tensors.get("task_state", {}), self.process_group, rows)
        )
        set_rng_state(tensors["rng"], self.process_group, self.seed + self.progress.step)
        self.log.rewind(state["log_offset"], str(state.get("log_sha256", "")))


def keep_freed_memory() -> bool:
    """Let glibc keep freed memory for the next step; return True if that worked.

    A step allocates and frees hundreds of MiB. By default large blocks go back to the system and
    come back as zeroed pages, which takes a third of the time of an LSTM's step. Allocator settings
    in the environment, and other C libraries, are left alone.
    """
    if any(name.startswith(ALLOCATOR_SETTINGS) for name in os.environ):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # macOS, musl, Windows
        return False
    return bool(mallopt(MMAP_THRESHOLD, 2**28) and mallopt(TRIM_THRESHOLD, 2**31 - 1))
