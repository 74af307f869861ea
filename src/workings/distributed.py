"""The processes that train one model together: one of them by default, several under torchrun.

Every process holds the model, or a part of it, and takes its share of each batch; gradients are
averaged over the crew by torch's own engines. Process 0, the chief, reads and writes the run's
folder and says what is said; the others get from it what they need to know.
"""

import os
import socket
import time
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from workings.errors import ErrorOnOtherRank, UserError

T = TypeVar("T")
NamedTensors = Mapping[str, Tensor]

STEP_TIMEOUT = timedelta(minutes=10)  # so long one waits for the others within a step
SETUP_TIMEOUT = timedelta(hours=12)  # and for somebody who still downloads, or writes a file


class ProcessGroup:
    """Who this process is among those that train together. Alone, nothing here costs anything."""

    def __init__(self, device: torch.device, rank: int = 0, world_size: int = 1) -> None:
        self.device, self.rank, self.world_size = device, rank, world_size
        # For what is small, or may take long: on the CPU, and patient.
        self._control_group = (
            dist.new_group(backend="gloo", timeout=SETUP_TIMEOUT) if world_size > 1 else None
        )

    @property
    def is_main_process(self) -> bool:
        """Whether this process writes and speaks for all."""
        return self.rank == 0

    def select_device(self, device: str) -> None:
        """Find the device to train on; under torchrun, each process of a machine has its own."""
        if self.world_size > 1 and device == "auto" and not torch.cuda.is_available():
            device = "cpu"  # mps does not do for a crew
        chosen = pick_device(device)
        if self.world_size > 1 and chosen.type == "cuda":
            chosen = torch.device("cuda", _local_rank())
            if chosen.index >= torch.cuda.device_count():
                raise UserError(
                    f"process {chosen.index} of this machine finds no GPU: there are "
                    f"{torch.cuda.device_count()}; start as many processes, or --train.device cpu"
                )
            torch.cuda.set_device(chosen)
        self.device = chosen

    # -- talking ----------------------------------------------------------------------------------

    def shard_batch(self, batch: Sequence[T]) -> Sequence[T]:
        """This process's part of a batch; perhaps nothing of a small one."""
        return batch[self.rank :: self.world_size]

    def all_reduce_sum(self, numbers: Mapping[str, float]) -> dict[str, float]:
        """Add up numbers over the crew."""
        if self.world_size == 1:
            return dict(numbers)
        sums = torch.tensor(list(numbers.values()), dtype=torch.float64, device=self.device)
        dist.all_reduce(sums)
        return dict(zip(numbers, sums.tolist(), strict=True))

    def all_reduce_rows(self, rows: Tensor) -> Tensor:
        """Add up tensors over the crew: each process filled in its own rows, zeros elsewhere."""
        if self.world_size > 1:
            there = rows.to(self.device)
            dist.all_reduce(there)
            rows = there.to(rows.device)
        return rows

    def all_gather_object(self, value: T) -> list[T]:
        """Gather a small value of every process, by rank."""
        if self.world_size == 1:
            return [value]
        gathered: list[Any] = [None] * self.world_size
        dist.all_gather_object(gathered, value, group=self._control_group)
        return gathered

    def broadcast_object(self, value: T) -> T:
        """Give everybody the chief's value."""
        if self.world_size == 1:
            return value
        held: list[Any] = [value if self.is_main_process else None]
        dist.broadcast_object_list(held, src=0, group=self._control_group)
        given: T = held[0]
        return given

    def broadcast_tensors(self, tensors: NamedTensors | None) -> dict[str, Tensor]:
        """Give everybody the chief's tensors, on the CPU; what the others bring does not matter."""
        if self.world_size == 1:
            return dict(tensors or {})
        mine = {name: t.cpu().contiguous() for name, t in (tensors or {}).items()}
        kinds = self.broadcast_object({name: (t.shape, t.dtype) for name, t in mine.items()})
        if not self.is_main_process:
            mine = {name: torch.empty(shape, dtype=dtype) for name, (shape, dtype) in kinds.items()}
        for tensor in mine.values():
            dist.broadcast(tensor, src=0, group=self._control_group)
        return mine

    def barrier(self) -> None:
        """Wait until everybody is here."""
        if self.world_size > 1:
            dist.barrier(group=self._control_group)

    @contextmanager
    def raise_on_any_rank(self) -> Iterator[None]:
        """Do what must succeed for all: where it fails for one, all stop and one of them tells why.

        Nobody may wait for another inside.
        """
        failure: Exception | None = None
        try:
            yield
        except Exception as error:
            if self.world_size == 1:
                raise
            failure = error
        failed = [rank for rank, it in enumerate(self.all_gather_object(failure is not None)) if it]
        if failed and failed[0] != self.rank:
            raise ErrorOnOtherRank(f"process {failed[0]} says what went wrong") from failure
        if failure is not None:
            raise failure

    # -- the model --------------------------------------------------------------------------------

    def wrap_data_parallel(
        self, model: nn.Module, parallelism: str, *, find_unused_parameters: bool = False
    ) -> None:
        """Have gradients averaged over the crew, in place: weights keep their names.

        `ddp`: every process has all weights (DDP); `fsdp`: a part of them (FSDP2).
        `idle` says that some weights never get a gradient.
        """
        if self.world_size == 1:
            return
        if parallelism == "fsdp":
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.fsdp import fully_shard

            mesh = init_device_mesh(self.device.type, (self.world_size,))
            # It warns that a layer gave a view, which nobody may change in place: nobody does.
            warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view tensor")
            # A layer at a time is whole; between steps, nothing is.
            for part in [*_stacked_layers(model), model]:
                fully_shard(part, mesh=mesh, reshard_after_forward=True)
        else:
            from torch.distributed._composable.replicate import replicate

            replicate(model, find_unused_parameters=find_unused_parameters)

    def set_gradient_sync(self, model: nn.Module, enabled: bool) -> None:
        """Say whether the next backward is the one whose gradients are averaged.

        Sharded ones always are: to keep them for later would take the room that sharding saves.
        """
        if self.world_size == 1:
            return
        from torch.distributed.fsdp import FSDPModule

        if not isinstance(model, FSDPModule):
            model.set_requires_gradient_sync(enabled)  # type: ignore[operator]

    def broadcast_buffers(self, model: nn.Module) -> None:
        """Give everybody the chief's buffers: what a batch norm has seen is another's in each.

        Tables that are not kept with the weights are everybody's own, and may differ in size.
        """
        kept = model.state_dict().keys() if self.world_size > 1 else ()
        for name, buffer in model.named_buffers():
            if name in kept:
                dist.broadcast(buffer, src=0)

    def gather_full_tensors(self, tensors: NamedTensors) -> dict[str, Tensor]:
        """Give the chief all tensors in full, one after the other; the others nothing.

        What was spread over several GPUs may be too much for one: it goes to main memory.
        """
        found: dict[str, Tensor] = {}
        for name, tensor in tensors.items():
            full = full_tensor(tensor.detach())  # everybody takes part
            if self.is_main_process:
                found[name] = full.cpu() if hasattr(tensor, "full_tensor") else full
        return found


@contextmanager
def init_process_group() -> Iterator[ProcessGroup]:
    """Join the processes that torchrun started, and leave them in the end; alone, a crew of one."""
    ours = not dist.is_initialized()
    if ours and int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ProcessGroup(torch.device("cpu"))
        return
    try:
        if ours:
            _rendezvous()
        yield ProcessGroup(torch.device("cpu"), dist.get_rank(), dist.get_world_size())
    except RuntimeError as error:
        if not _is_connection_lost(error):
            raise
        said = "lost the other processes: what they said, or torchrun's summary, tells why"
        raise (ErrorOnOtherRank if _local_rank() else UserError)(said) from None
    finally:
        if ours and dist.is_initialized():
            dist.destroy_process_group()


def _rendezvous() -> None:
    """Meet the other processes where torchrun says."""
    both = torch.cuda.is_available() and dist.is_nccl_available()
    backend, given = "cpu:gloo,cuda:nccl" if both else "gloo", os.environ
    if given.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        dist.init_process_group(backend, timeout=STEP_TIMEOUT)
        return
    rank, size = int(given["RANK"]), int(given["WORLD_SIZE"])
    store = dist.TCPStore(  # type: ignore[attr-defined]
        given["MASTER_ADDR"],
        int(given["MASTER_PORT"]),
        is_master=False,
        wait_for_workers=False,
        timeout=STEP_TIMEOUT,
    )
    attempt = dist.PrefixStore(_agree_on_attempt(store, rank, size), store)  # type: ignore[attr-defined]
    dist.init_process_group(
        backend, store=attempt, rank=rank, world_size=size, timeout=STEP_TIMEOUT
    )


def _agree_on_attempt(store: Any, rank: int, world_size: int) -> str:
    """Agree on a name for this attempt.

    torchrun's store outlives a restart: without a name of its own, an attempt would look for the
    processes of the one before. (How often torchrun has restarted does not do for a name: each
    machine counts for itself.) Rank 0 answers whoever is there now, until everybody has heard.
    """
    own = uuid.uuid4().hex
    if rank:
        store.set(f"here {rank}", own)
        name: str = store.get(f"to {own}").decode()  # waits for it
        store.set(f"{name} {rank}", "")
        return name
    missing, until = set(range(1, world_size)), time.monotonic() + STEP_TIMEOUT.total_seconds()
    while missing:
        for other in [o for o in missing if store.check([f"here {o}"])]:
            store.set(f"to {store.get(f'here {other}').decode()}", own)
        missing = {o for o in missing if not store.check([f"{own} {o}"])}
        if time.monotonic() > until:
            raise UserError(f"{len(missing)} of {world_size} processes did not come")
        time.sleep(0.02)
    return own


def _is_connection_lost(error: RuntimeError) -> bool:
    """Tell whether another process, or the way to it, is gone."""
    return isinstance(error, dist.DistError) or "gloo" in str(error)


def launch_id() -> str | None:
    """Name the torchrun that started this process: the same one when it starts it again."""
    run = os.environ.get("TORCHELASTIC_RUN_ID")
    return f"{socket.gethostname()} {os.getppid()}" if run == "none" else run


def is_restarted() -> bool:
    """Tell whether torchrun has started this process again, after one of the crew died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def is_main_process() -> bool:
    """Tell whether this process is the chief, before a crew is assembled or after it."""
    return int(os.environ.get("RANK", "0")) == 0


def _local_rank() -> int:
    return int(os.environ.get("LOCAL_RANK", "0"))


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


def _stacked_layers(model: nn.Module) -> list[nn.Module]:
    """The layers that a model has on top of each other (not the directions of a recurrent one)."""
    lists = [m for m in model.modules() if isinstance(m, nn.ModuleList)]
    inner = {part for some in lists for part in some if isinstance(part, nn.ModuleList)}
    return [part for some in lists if some not in inner for part in some if part not in inner]


def full_tensor(tensor: Tensor) -> Tensor:
    """A tensor in full, where the crew holds a part of it each."""
    full = getattr(tensor, "full_tensor", None)
    return full() if full is not None else tensor


def shard_like(tensor: Tensor, like: Tensor) -> Tensor:
    """A full tensor where `like` is, and taken apart over the crew as it is."""
    if not hasattr(like, "full_tensor"):
        return tensor.to(like.device)
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(like, DTensor)
    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements)
