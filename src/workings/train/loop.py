"""The training loop: one for every task, in one process or in several."""

import math
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
from workings.crew import Crew, parted, whole
from workings.errors import ToldElsewhere, UserError
from workings.recipes import TrainConfig
from workings.storage import Damaged, read_checkpoint, read_tensors, write_tensors
from workings.tasks.memory import memory_told
from workings.tasks.task import Task
from workings.train.checkpoints import Checkpoints, Tensors, check_fits
from workings.train.faults import (
    Diverged,
    bad_gradients,
    check_loss,
    check_metric,
    check_weights,
    origin_of,
    step_memory_told,
)
from workings.train.log import Log
from workings.train.memory import keep_freed_memory
from workings.train.optimise import (
    Average,
    averaged_in,
    clip,
    optimiser,
    parameters_and_buffers,
    put,
    rate_at,
)
from workings.train.state import flat, nested, of_rank, random_state, set_random_state

FIRST_STEPS = 20  # whose lowest loss is what is usual
SIGNALS = (signal.SIGINT, signal.SIGTERM)  # they ask to stop


@dataclass
class Progress:
    """Where a training is."""

    epoch: int = 0  # epochs completed
    batch: int = 0  # batches done in the one under way
    step: int = 0
    best: float | None = None
    best_loss: float | None = None  # of the validation data, at the same epoch
    best_epoch: int = 0
    best_step: int = 0
    usual_loss: float | None = None  # the lowest of the first steps
    examples: int = 0  # of the epoch under way
    sums: dict[str, float] = field(default_factory=dict)  # over these
    seconds: float = 0.0
    epoch_began: float = 0.0  # at so many seconds

    def __post_init__(self) -> None:
        counts = (self.epoch, self.batch, self.step, self.examples, self.best_epoch, self.best_step)
        finite = all(map(math.isfinite, self.sums.values()))
        if not finite or not all(0 <= n < 2**53 for n in counts):
            raise ValueError("no training gets to such numbers")


class Interrupted(Exception):  # noqa: N818
    """Somebody pressed Ctrl-C, or a scheduler sent SIGTERM; a checkpoint has been written."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.exit_status = 128 + signal_number  # as shells and schedulers expect


class Trainer:
    """Trains one task in one run folder."""

    def __init__(
        self, task: Task, config: TrainConfig, folder: Path, log: Log, seed: int, crew: Crew
    ) -> None:
        self.task, self.config, self.folder = task, config, folder
        self.log, self.seed, self.crew = log, seed, crew
        self.device = crew.device
        if self.device.type == "cpu":
            keep_freed_memory()
        task.model.to(self.device)
        self._unite()
        self.optimiser = optimiser(task.model, config)
        self.average = Average(task.model, config)
        self.checkpoints = Checkpoints(folder, config.keep)
        self.progress = Progress()
        self.steps = config.epochs * math.ceil(len(task.batches(0)) / config.accumulate)
        self.belongs = ""  # marks the weights as this run's
        self._asked = 0  # the number of the signal that asked this process to stop
        self._stop = 0  # the same, agreed by the crew

    def _unite(self) -> None:
        """Make one model of those that the processes have."""
        model, alone = self.task.model, self.crew.size == 1
        if not alone:
            self._rehearse()
            idle = any(p.grad is None for p in model.parameters() if p.requires_grad)
            self.crew.unite(model, self.config.crew, idle=idle)
        if self.config.compile:
            model.compile()  # in place: names of weights and the run folder stay as they are
        if not alone:
            # Gradients are put together in the order in which they come the first time: were that
            # a step that counts, a run that is taken up again would round differently.
            self._rehearse()
            model.zero_grad(set_to_none=True)
            if self.crew.rank:  # else all would drop the same features
                torch.manual_seed(self.seed * 1009 + self.crew.rank)

    def _rehearse(self) -> None:
        """Take an example through the model and back, for nothing."""
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices), self._precision():
            self.task.model.train()
            example = self.task.batches(0)[0][:1]
            torch.autograd.backward(self.task.loss(example, self.device).mean * 0.0)

    def train(self) -> None:
        """Train to the end, or until somebody stops it."""
        try:
            with self._interruptible():
                while not self.is_over():
                    self._epoch()
        except Diverged as error:
            if not self.crew.is_chief:  # all found the same
                raise ToldElsewhere(str(error)) from None
            raise UserError(f"{error}; {self._last_good()}") from None
        finally:
            self.checkpoints.close()

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
            if progress.batch < len(batches):
                if self._stop:
                    self._save_and_leave()
                every = self.config.save_every
                if every is not None and progress.step % every == 0:
                    self.save()
        self._finish_epoch()
        self._heed(self.crew.total(self._signals()))  # of those that came while it was measured
        if self._stop:
            self._save_and_leave()

    def _signals(self) -> dict[str, float]:
        return {s.name: float(self._asked == s) for s in SIGNALS}

    def _heed(self, told: dict[str, float]) -> None:
        """Stop, if anybody was asked to: all after the same step."""
        for s in SIGNALS:
            self._stop = s if told.pop(s.name) else self._stop

    def _step(self, group: Sequence[Sequence[Any]]) -> None:
        progress, config, model = self.progress, self.config, self.task.model
        for parameters in self.optimiser.param_groups:
            parameters["lr"] = rate_at(progress.step, self.steps, config)
        self.optimiser.zero_grad(set_to_none=True)
        sums: dict[str, float] = {}
        for k, batch in enumerate(group, start=1):
            self.crew.average_gradients(model, now=k == len(group))
            with step_memory_told(progress.step + 1, self.task.describe(batch)):
                for name, value in self._backward(batch, len(group)).items():
                    sums[name] = sums.get(name, 0.0) + value
        told = self.crew.total({**sums, **self._signals()})
        self._heed(told)
        count = told.pop("count")
        loss = told["loss"] / count
        check_loss(loss, progress.usual_loss, progress.step + 1, lambda: self._origin(group))
        if config.clip is not None and not math.isfinite(clip(model, config.clip)):
            raise Diverged(
                f"the gradient is no number at step {progress.step + 1}: "
                f"{bad_gradients(model)}; try a lower train.rate"
            )
        with step_memory_told(progress.step + 1, "the optimiser's own state"):
            self.optimiser.step()
        self.average.after_step(model)
        if progress.step < FIRST_STEPS:
            usual = progress.usual_loss
            progress.usual_loss = loss if usual is None else min(loss, usual)
        progress.step += 1
        progress.examples += int(count)
        for name, value in told.items():
            progress.sums[name] = progress.sums.get(name, 0.0) + value

    def _backward(self, batch: Sequence[Any], batches: int) -> dict[str, float]:
        """Add the gradients of this process's share of a batch to the others'."""
        share = self.crew.share(batch)
        with self._precision():
            # Everybody takes part in every step, if only with an example that does not count.
            losses = self.task.loss(share or batch[:1], self.device)
        if not share:
            torch.autograd.backward(losses.mean * 0.0)
            return {"count": 0.0, "loss": 0.0, **dict.fromkeys(losses.sums, 0.0)}
        # The crew's gradients are averaged: a share counts by its part of the whole batch.
        count = self.task.weight(share)
        part = count * self.crew.size / self.task.weight(batch)
        torch.autograd.backward(losses.mean * (part / batches))
        return {"count": count, "loss": losses.mean.item() * count, **losses.sums}

    def _origin(self, group: Sequence[Sequence[Any]]) -> str:
        if self.crew.size > 1:
            return "one process alone would tell in which layer it began"
        return origin_of(self.task.model, lambda: [self.task.loss(b, self.device) for b in group])

    def _last_good(self) -> str:
        good = self.checkpoints.last_good()
        if good is None:
            return "there is no good checkpoint from before"
        return f"the last good checkpoint is {good}"

    def _finish_epoch(self) -> None:
        progress, task = self.progress, self.task
        self.crew.share_buffers(task.model)
        state = task.model.state_dict()  # whole one after the other, not at once
        check_weights(((name, whole(t.detach())) for name, t in state.items()), progress.step)
        self.average.after_epoch(task.model)
        with self.averaged():
            self.crew.share_buffers(task.model)
            since = time.perf_counter()
            task.model.eval()
            with memory_told(f"after step {progress.step}, with the held-out examples"):
                measured = self.crew.chiefs(task.evaluate(self.crew))  # one opinion on what is best
            took = time.perf_counter() - since
            # A model that is spread over a crew cannot be asked by one of them.
            alone = self.crew.size == 1 or self.config.crew == "replicated"
            remark = task.remark() if alone and self.crew.is_chief else {}
            value, loss = measured.get(task.metric), measured.get("validation_loss", 0.0)
            if value is not None:
                check_metric(task.metric, value, progress.step)
            # Without held-out examples the newest weights are taken for the best.
            if value is None or self._is_better(value, loss):
                progress.best, progress.best_loss = value, loss
                progress.best_epoch = progress.epoch + 1
                progress.best_step = progress.step
                weights = self.crew.gathered(task.model.state_dict())
                if self.crew.is_chief:
                    write_tensors(self.folder / "model.safetensors", weights, self.belongs)
        progress.epoch, progress.batch = progress.epoch + 1, 0
        trained = {f"train_{name}": s / progress.examples for name, s in progress.sums.items()}
        self.log.epoch(progress, trained | measured, evaluation_seconds=took)
        if remark:
            self.log.remark(progress.epoch, remark)
        progress.sums, progress.examples = {}, 0
        progress.epoch_began = progress.seconds
        self.save()

    def _is_better(self, value: float, loss: float) -> bool:
        """Compare an epoch's metric with the best; where they are equal, the loss decides."""
        best, lowest = self.progress.best, self.progress.best_loss
        if best is None or value == best:
            return best is None or (lowest is not None and loss < lowest)
        return (value > best) == self.task.higher_is_better

    def is_over(self) -> bool:
        """Tell whether nothing is left to train: all epochs are done, or patience is at its end."""
        done, patience = self.progress.epoch, self.config.patience
        impatient = patience is not None and done - self.progress.best_epoch >= patience
        return done >= self.config.epochs or impatient

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Put the averaged weights in the model's place for a while."""
        weights = self.average.weights()
        if weights is None:
            yield
            return
        named = parameters_and_buffers(self.task.model)
        own = {name: named[name].detach().clone() for name in weights}
        put(self.task.model, weights)
        try:
            yield
        finally:
            put(self.task.model, own)

    def _precision(self) -> Any:
        if self.config.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, getattr(torch, self.config.precision))

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Let Ctrl-C and a scheduler's SIGTERM end the training after the step under way."""

        def stop(number: int, _frame: FrameType | None) -> None:
            self._asked = number

        before = {s: signal.signal(s, stop) for s in SIGNALS}
        try:
            yield
        finally:
            # torchrun ends the others when the first has left: they are leaving already.
            leaving = self._stop and self.crew.size > 1
            for number, handler in before.items():
                signal.signal(number, signal.SIG_IGN if leaving else handler)

    def _save_and_leave(self) -> None:
        self.save()
        self.checkpoints.wait()
        self.crew.wait()  # nobody ends before there is something to go on from
        raise Interrupted(self._stop)

    def save(self) -> None:
        """Have a checkpoint written."""
        crew, optimiser = self.crew, self.optimiser.state_dict()
        states = crew.everyones(random_state(self.device))
        tensors = {
            "model": crew.gathered(self.task.model.state_dict()),
            "optimiser": crew.gathered(flat(optimiser["state"])),
            "average": crew.gathered(self.average.state()),
            "random": flat(dict(enumerate(states))),
        }
        if carried := flat(dict(enumerate(crew.everyones(self.task.carried())))):
            tensors["carried"] = carried
        if not crew.is_chief:
            return
        state = {
            "progress": asdict(self.progress),
            "seed": self.seed,
            "log": self.log.position(),
            "belongs": self.belongs,
        }
        self.checkpoints.save(self.progress.step, tensors, state, self.progress.best_step)

    def restore(self, *, lengthened: bool = False) -> bool:
        """Go on from the newest checkpoint that can be trusted, if there is any at all.

        A run that was `lengthened` has its best weights in a checkpoint alone.
        """
        crew = self.crew
        tensors: Tensors = {}
        state: dict[str, Any] | None = None
        if crew.is_chief and self.checkpoints.all():
            # Alone, what does not fit is found by taking it up; a crew is told what to take up.
            fits = self._take_up if crew.size == 1 else self._fits
            tensors, state = self.checkpoints.newest(fits, self.log.say)
            self._mend_best(build(Progress, state["progress"]), told=not lengthened)
        if crew.size == 1:
            return state is not None
        state = crew.chiefs(state)
        if state is None:
            return False
        kinds = crew.chiefs(list(tensors))
        self._take_up({kind: crew.chiefs_tensors(tensors.get(kind)) for kind in kinds}, state)
        return True

    def _mend_best(self, progress: Progress, *, told: bool) -> None:
        """Write the best weights, if they are not there or damaged: a checkpoint has them, too."""
        path = self.folder / "model.safetensors"
        if not progress.best_epoch:
            return
        try:
            read_tensors(path, belongs=self.belongs)
        except Damaged as error:
            same = self.checkpoints.folder / f"step-{progress.best_step}"
            tensors, _ = read_checkpoint(same)
            with torch.random.fork_rng([]):  # the run goes on with its own dice
                best = self.task.twin(tensors["model"]).model
            if mean := averaged_in(tensors.get("average", {})):
                put(best, mean)
            write_tensors(path, best.state_dict(), self.belongs)
            if told:
                self.log.say(f"{error}: written again, from {same.name}")

    def _fits(self, tensors: Tensors, state: dict[str, Any]) -> None:
        """Refuse a checkpoint that is not this run's, or not this model's."""
        build(Progress, state["progress"])
        if state.get("belongs", self.belongs) != self.belongs:
            raise UserError("it is of another run")
        if type(state["log"]) is not int or state["log"] < 0:
            raise ValueError("its log ends nowhere")
        weights = [p for group in self.optimiser.param_groups for p in group["params"]]
        check_fits(tensors, self.task.model.state_dict(), weights)

    def _take_up(self, tensors: Tensors, state: dict[str, Any]) -> None:
        self._fits(tensors, state)
        groups = self.optimiser.state_dict()["param_groups"]  # all of it is in the recipe
        model, own = self.task.model, self.task.model.state_dict()
        weights = [p for group in self.optimiser.param_groups for p in group["params"]]
        model.load_state_dict({n: parted(t, own[n]) for n, t in tensors["model"].items()})
        self.optimiser.load_state_dict(
            {"state": nested(tensors.get("optimiser", {}), weights), "param_groups": groups}
        )
        self.average.restore(tensors.get("average", {}), model)
        self.progress = build(Progress, state["progress"])
        carried = of_rank(tensors.get("carried", {}), self.crew, self.config.batch)
        self.task.take_up(carried)
        set_random_state(tensors["random"], self.crew, self.seed + self.progress.step)
        self.log.rewind(state["log"])
