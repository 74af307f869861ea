"""What a training frees stays with its process, for the next step."""

import ctypes
import math
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from workings.config import build
from workings.distributed import ProcessGroup, full_tensor, shard_like
from workings.errors import ErrorOnOtherRank, UserError
from workings.recipes import TrainConfig
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
)

# The numbers of glibc's malloc.h.
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
ALLOCATOR_SETTINGS = ("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD")


def keep_freed_memory() -> bool:
    """Have glibc keep freed memory instead of giving it back to the system; say whether it does.

    A step asks for hundreds of mebibytes and frees them again. By default large blocks go back at
    once and come anew in pages of zeros: a third of the time of an LSTM's step. Somebody who chose
    settings, or an allocator, for this process is left alone; other C libraries are, too.
    """
    if any(name.startswith(ALLOCATOR_SETTINGS) for name in os.environ):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # macOS, musl, Windows
        return False
    return bool(mallopt(MMAP_THRESHOLD, 2**28) and mallopt(TRIM_THRESHOLD, 2**31 - 1))


INITIAL_STEPS = 20  # whose lowest loss is what is usual
SIGNALS = (signal.SIGINT, signal.SIGTERM)  # they ask to stop


@dataclass
class TrainingProgress:
    """Where a training is."""

    epoch: int = 0  # epochs completed
    batch: int = 0  # batches done in the one under way
    step: int = 0
    best_metric: float | None = None
    best_loss: float | None = None  # of the validation data, at the same epoch
    best_epoch: int = 0
    best_step: int = 0
    initial_loss: float | None = None  # the lowest of the first steps
    num_items: int = 0  # of the epoch under way
    sums: dict[str, float] = field(default_factory=dict)  # over these
    seconds: float = 0.0
    epoch_start_seconds: float = 0.0  # at so many seconds

    def __post_init__(self) -> None:
        counts = (
            self.epoch,
            self.batch,
            self.step,
            self.num_items,
            self.best_epoch,
            self.best_step,
        )
        finite = all(map(math.isfinite, self.sums.values()))
        if not finite or not all(0 <= n < 2**53 for n in counts):
            raise ValueError("no training gets to such numbers")


class TrainingInterrupt(Exception):  # noqa: N818
    """Somebody pressed Ctrl-C, or a scheduler sent SIGTERM; a checkpoint has been written."""

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
        self._wrap_model()
        self.optimizer = build_optimizer(task.model, config)
        self.average = WeightAverage(task.model, config)
        self.checkpoints = Checkpoints(folder, config.keep_checkpoints)
        self.progress = TrainingProgress()
        self.total_steps = config.epochs * math.ceil(len(task.batches(0)) / config.accumulate)
        self.run_id = ""  # marks the weights as this run's
        self._received_signal = 0  # the number of the signal that asked this process to stop
        self._stop_signal = 0  # the same, agreed by the crew

    def _wrap_model(self) -> None:
        """Make one model of those that the processes have."""
        model, alone = self.task.model, self.process_group.world_size == 1
        if not alone:
            self._warmup_pass()
            idle = any(p.grad is None for p in model.parameters() if p.requires_grad)
            self.process_group.wrap_data_parallel(
                model, self.config.parallelism, find_unused_parameters=idle
            )
        if self.config.compile:
            model.compile()  # in place: names of weights and the run folder stay as they are
        if not alone:
            # Gradients are put together in the order in which they come the first time: were that
            # a step that counts, a run that is taken up again would round differently.
            self._warmup_pass()
            model.zero_grad(set_to_none=True)
            if self.process_group.rank:  # else all would drop the same features
                torch.manual_seed(self.seed * 1009 + self.process_group.rank)

    def _warmup_pass(self) -> None:
        """Take an example through the model and back, for nothing."""
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices), self._autocast():
            self.task.model.train()
            example = self.task.batches(0)[0][:1]
            torch.autograd.backward(self.task.loss(example, self.device).mean * 0.0)

    def train(self) -> None:
        """Train to the end, or until somebody stops it."""
        try:
            with self._handle_signals():
                while not self.is_finished():
                    self._train_epoch()
        except DivergenceError as error:
            if not self.process_group.is_main_process:  # all found the same
                raise ErrorOnOtherRank(str(error)) from None
            raise UserError(f"{error}; {self._describe_last_finite_checkpoint()}") from None
        finally:
            self.checkpoints.close()

    def _train_epoch(self) -> None:
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
            self.log.log_step(progress, self.total_steps)
            if progress.batch < len(batches):
                if self._stop_signal:
                    self._save_and_interrupt()
                every = self.config.save_every
                if every is not None and progress.step % every == 0:
                    self.save()
        self._finish_epoch()
        self._check_signals(
            self.process_group.all_reduce_sum(self._count_signals())
        )  # of those that came while it was measured
        if self._stop_signal:
            self._save_and_interrupt()

    def _count_signals(self) -> dict[str, float]:
        return {s.name: float(self._received_signal == s) for s in SIGNALS}

    def _check_signals(self, totals: dict[str, float]) -> None:
        """Stop, if anybody was asked to: all after the same step."""
        for s in SIGNALS:
            self._stop_signal = s if totals.pop(s.name) else self._stop_signal

    def _step(self, micro_batches: Sequence[Sequence[Any]]) -> None:
        progress, config, model = self.progress, self.config, self.task.model
        for parameters in self.optimizer.param_groups:
            parameters["lr"] = learning_rate_at(progress.step, self.total_steps, config)
        self.optimizer.zero_grad(set_to_none=True)
        sums: dict[str, float] = {}
        for k, batch in enumerate(micro_batches, start=1):
            self.process_group.set_gradient_sync(model, enabled=k == len(micro_batches))
            with step_oom_hint(progress.step + 1, self.task.describe(batch)):
                for name, value in self._backward(batch, len(micro_batches)).items():
                    sums[name] = sums.get(name, 0.0) + value
        told = self.process_group.all_reduce_sum({**sums, **self._count_signals()})
        self._check_signals(told)
        count = told.pop("count")
        loss = told["loss"] / count
        check_loss(
            loss, progress.initial_loss, progress.step + 1, lambda: self._find_origin(micro_batches)
        )
        if config.clip_norm is not None and not math.isfinite(
            clip_gradients(model, config.clip_norm)
        ):
            raise DivergenceError(
                f"the gradient is no number at step {progress.step + 1}: "
                f"{find_non_finite_gradient(model)}; try a lower train.learning_rate"
            )
        with step_oom_hint(progress.step + 1, "the optimiser's own state"):
            self.optimizer.step()
        self.average.after_step(model)
        if progress.step < INITIAL_STEPS:
            usual = progress.initial_loss
            progress.initial_loss = loss if usual is None else min(loss, usual)
        progress.step += 1
        progress.num_items += int(count)
        for name, value in told.items():
            progress.sums[name] = progress.sums.get(name, 0.0) + value

    def _backward(self, batch: Sequence[Any], num_micro_batches: int) -> dict[str, float]:
        """Add the gradients of this process's share of a batch to the others'."""
        share = self.process_group.shard_batch(batch)
        with self._autocast():
            # Everybody takes part in every step, if only with an example that does not count.
            losses = self.task.loss(share or batch[:1], self.device)
        if not share:
            torch.autograd.backward(losses.mean * 0.0)
            return {"count": 0.0, "loss": 0.0, **dict.fromkeys(losses.sums, 0.0)}
        # The crew's gradients are averaged: a share counts by its part of the whole batch.
        count = self.task.weight(share)
        part = count * self.process_group.world_size / self.task.weight(batch)
        torch.autograd.backward(losses.mean * (part / num_micro_batches))
        return {"count": count, "loss": losses.mean.item() * count, **losses.sums}

    def _find_origin(self, micro_batches: Sequence[Sequence[Any]]) -> str:
        if self.process_group.world_size > 1:
            return "one process alone would tell in which layer it began"
        return find_non_finite_origin(
            self.task.model, lambda: [self.task.loss(b, self.device) for b in micro_batches]
        )

    def _describe_last_finite_checkpoint(self) -> str:
        good = self.checkpoints.find_last_finite()
        if good is None:
            return "there is no good checkpoint from before"
        return f"the last good checkpoint is {good}"

    def _finish_epoch(self) -> None:
        progress, task = self.progress, self.task
        self.process_group.broadcast_buffers(task.model)
        state = task.model.state_dict()  # whole one after the other, not at once
        check_weights(((name, full_tensor(t.detach())) for name, t in state.items()), progress.step)
        self.average.after_epoch(task.model)
        with self.use_averaged_weights():
            self.process_group.broadcast_buffers(task.model)
            since = time.perf_counter()
            task.model.eval()
            with oom_hint(f"after step {progress.step}, with the held-out examples"):
                measured = self.process_group.broadcast_object(
                    task.validate(self.process_group)
                )  # one opinion on what is best
            took = time.perf_counter() - since
            # A model that is spread over a crew cannot be asked by one of them.
            alone = self.process_group.world_size == 1 or self.config.parallelism == "ddp"
            remark = task.sample_outputs() if alone and self.process_group.is_main_process else {}
            value, loss = measured.get(task.metric), measured.get("validation_loss", 0.0)
            if value is not None:
                check_metric(task.metric, value, progress.step)
            # Without held-out examples the newest weights are taken for the best.
            if value is None or self._is_better(value, loss):
                progress.best_metric, progress.best_loss = value, loss
                progress.best_epoch = progress.epoch + 1
                progress.best_step = progress.step
                weights = self.process_group.gather_full_tensors(task.model.state_dict())
                if self.process_group.is_main_process:
                    write_tensors(self.folder / "model.safetensors", weights, self.run_id)
        progress.epoch, progress.batch = progress.epoch + 1, 0
        trained = {f"train_{name}": s / progress.num_items for name, s in progress.sums.items()}
        metrics = trained | measured
        self.log.log_epoch(progress, metrics, evaluation_seconds=took)
        for callback in task.callbacks:
            callback({"epoch": progress.epoch, "step": progress.step, **metrics})
        if remark:
            self.log.log_samples(progress.epoch, remark)
        progress.sums, progress.num_items = {}, 0
        progress.epoch_start_seconds = progress.seconds
        self.save()

    def _is_better(self, value: float, loss: float) -> bool:
        """Compare an epoch's metric with the best; where they are equal, the loss decides."""
        best, lowest = self.progress.best_metric, self.progress.best_loss
        if best is None or value == best:
            return best is None or (lowest is not None and loss < lowest)
        return (value > best) == self.task.higher_is_better

    def is_finished(self) -> bool:
        """Tell whether nothing is left to train: all epochs are done, or patience is at its end."""
        done, patience = self.progress.epoch, self.config.patience
        impatient = patience is not None and done - self.progress.best_epoch >= patience
        return done >= self.config.epochs or impatient

    @contextmanager
    def use_averaged_weights(self) -> Iterator[None]:
        """Put the averaged weights in the model's place for a while."""
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

    def _autocast(self) -> Any:
        if self.config.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, getattr(torch, self.config.precision))

    @contextmanager
    def _handle_signals(self) -> Iterator[None]:
        """Let Ctrl-C and a scheduler's SIGTERM end the training after the step under way."""

        def stop(number: int, _frame: FrameType | None) -> None:
            self._received_signal = number

        before = {s: signal.signal(s, stop) for s in SIGNALS}
        try:
            yield
        finally:
            # torchrun ends the others when the first has left: they are leaving already.
            leaving = self._stop_signal and self.process_group.world_size > 1
            for number, handler in before.items():
                signal.signal(number, signal.SIG_IGN if leaving else handler)

    def _save_and_interrupt(self) -> None:
        self.save()
        self.checkpoints.wait()
        self.process_group.barrier()  # nobody ends before there is something to go on from
        raise TrainingInterrupt(self._stop_signal)

    def save(self) -> None:
        """Have a checkpoint written."""
        crew, optimiser = self.process_group, self.optimizer.state_dict()
        states = crew.all_gather_object(get_rng_state(self.device))
        tensors = {
            "model": crew.gather_full_tensors(self.task.model.state_dict()),
            "optimizer": crew.gather_full_tensors(flatten_state(optimiser["state"])),
            "average": crew.gather_full_tensors(self.average.state_dict()),
            "rng": flatten_state(dict(enumerate(states))),
        }
        if carried := flatten_state(
            dict(enumerate(crew.all_gather_object(self.task.state_dict())))
        ):
            tensors["task_state"] = carried
        if not crew.is_main_process:
            return
        state = {
            "progress": asdict(self.progress),
            "seed": self.seed,
            "log_offset": self.log.synced_offset(),
            "run_id": self.run_id,
        }
        self.checkpoints.save(self.progress.step, tensors, state, self.progress.best_step)

    def restore(self, *, extended: bool = False) -> bool:
        """Go on from the newest checkpoint that can be trusted, if there is any at all.

        A run that was `lengthened` has its best weights in a checkpoint alone.
        """
        crew = self.process_group
        tensors: CheckpointTensors = {}
        state: dict[str, Any] | None = None
        if crew.is_main_process and self.checkpoints.list_folders():
            # Alone, what does not fit is found by taking it up; a crew is told what to take up.
            fits = self._load_checkpoint if crew.world_size == 1 else self._check_checkpoint
            tensors, state = self.checkpoints.read_newest_valid(fits, self.log.info)
            self._repair_best_weights(
                build(TrainingProgress, state["progress"]), verbose=not extended
            )
        if crew.world_size == 1:
            return state is not None
        state = crew.broadcast_object(state)
        if state is None:
            return False
        kinds = crew.broadcast_object(list(tensors))
        self._load_checkpoint(
            {kind: crew.broadcast_tensors(tensors.get(kind)) for kind in kinds}, state
        )
        return True

    def _repair_best_weights(self, progress: TrainingProgress, *, verbose: bool) -> None:
        """Write the best weights, if they are not there or damaged: a checkpoint has them, too."""
        path = self.folder / "model.safetensors"
        if not progress.best_epoch:
            return
        try:
            read_tensors(path, run_id=self.run_id)
        except CorruptFileError as error:
            same = self.checkpoints.folder / f"step-{progress.best_step}"
            tensors, _ = read_checkpoint(same)
            with torch.random.fork_rng([]):  # the run goes on with its own dice
                best = self.task.with_weights(tensors["model"]).model
            if mean := average_from_state(tensors.get("average", {})):
                copy_weights_into(best, mean)
            write_tensors(path, best.state_dict(), self.run_id)
            if verbose:
                self.log.info(f"{error}: written again, from {same.name}")

    def _check_checkpoint(self, tensors: CheckpointTensors, state: dict[str, Any]) -> None:
        """Refuse a checkpoint that is not this run's, or not this model's."""
        build(TrainingProgress, state["progress"])
        if state.get("run_id", self.run_id) != self.run_id:
            raise UserError("it is of another run")
        if type(state["log_offset"]) is not int or state["log_offset"] < 0:
            raise ValueError("its log ends nowhere")
        weights = [p for group in self.optimizer.param_groups for p in group["params"]]
        check_compatible(tensors, self.task.model.state_dict(), weights)

    def _load_checkpoint(self, tensors: CheckpointTensors, state: dict[str, Any]) -> None:
        self._check_checkpoint(tensors, state)
        groups = self.optimizer.state_dict()["param_groups"]  # all of it is in the recipe
        model, own = self.task.model, self.task.model.state_dict()
        weights = [p for group in self.optimizer.param_groups for p in group["params"]]
        model.load_state_dict({n: shard_like(t, own[n]) for n, t in tensors["model"].items()})
        self.optimizer.load_state_dict(
            {
                "state": unflatten_optimizer_state(tensors.get("optimizer", {}), weights),
                "param_groups": groups,
            }
        )
        self.average.load_state_dict(tensors.get("average", {}), model)
        self.progress = build(TrainingProgress, state["progress"])
        carried = select_rank_rows(
            tensors.get("task_state", {}), self.process_group, self.config.batch_size
        )
        self.task.load_state_dict(carried)
        set_rng_state(tensors["rng"], self.process_group, self.seed + self.progress.step)
        self.log.rewind(state["log_offset"])
