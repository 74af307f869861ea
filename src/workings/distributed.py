"""Distributed training: one process by default, several under torchrun.

Every rank holds the model (DDP) or a shard of it (FSDP2) and takes its part of each batch; torch
averages the gradients. Rank 0, the main process, reads and writes the run folder and prints; it
broadcasts to the other ranks what they need, as JSON and tensors only.
"""

import json
import os
import socket
import time
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeAlias, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from workings.errors import ErrorOnOtherRank, UserError

T = TypeVar("T")
NamedTensors = Mapping[str, Tensor]

STEP_TIMEOUT = timedelta(minutes=10)  # for the other ranks within a training step
SETUP_TIMEOUT = timedelta(hours=12)  # for a rank that downloads data or writes a file


class ProcessGroup:
    """The rank of this process, and collective operations over all ranks.

    With a world size of one, every operation returns at once.
    """

    def __init__(self, device: torch.device, rank: int = 0, world_size: int = 1) -> None:
        self.device, self.rank, self.world_size = device, rank, world_size
        # A separate group on the CPU for small objects, with a timeout for slow setup steps.
        self._control_group = (
            dist.new_group(backend="gloo", timeout=SETUP_TIMEOUT) if world_size > 1 else None
        )

    @property
    def is_main_process(self) -> bool:
        """Return True on rank 0, which writes files and prints."""
        return self.rank == 0

    def select_device(self, device: str) -> None:
        """Set the device to train on; under torchrun, each local rank gets its own GPU."""
        if self.world_size > 1 and device == "auto" and not torch.cuda.is_available():
            device = "cpu"  # mps has no collective operations
        chosen = pick_device(device)
        if self.world_size > 1 and chosen.type == "cuda":
            chosen = torch.device("cuda", _local_rank())
            if chosen.index >= torch.cuda.device_count():
                raise UserError(
                    f"local rank {chosen.index} has no GPU: this machine has "
                    f"{torch.cuda.device_count()}: start as many processes, or train with "
                    "--train.device cpu"
                )
            torch.cuda.set_device(chosen)
        self.device = chosen

    # -- collective operations --------------------------------------------------------------------

    def shard_batch(self, batch: Sequence[T]) -> Sequence[T]:
        """Return this rank's part of a batch, which may be empty if the batch is small."""
        return batch[self.rank :: self.world_size]

    def all_reduce_sum(self, numbers: Mapping[str, float]) -> dict[str, float]:
        """Return the sum of each number over all ranks."""
        if self.world_size == 1:
            return dict(numbers)
        sums = torch.tensor(list(numbers.values()), dtype=torch.float64, device=self.device)
        dist.all_reduce(sums)
        return dict(zip(numbers, sums.tolist(), strict=True))

    def all_reduce_rows(self, rows: Tensor) -> Tensor:
        """Return the sum of a tensor over all ranks, of which each filled in its own rows."""
        if self.world_size > 1:
            on_device = rows.to(self.device)
            dist.all_reduce(on_device)
            rows = on_device.to(rows.device)
        return rows

    def all_gather_json(self, value: T) -> list[T]:
        """Return the values of all ranks, by rank: tables, lists, texts and numbers."""
        if self.world_size == 1:
            return [value]
        return [json.loads(raw) for raw in self._all_gather_bytes(json.dumps(value).encode())]

    def broadcast_json(self, value: T) -> T:
        """Return the main process's value on every rank: a table, list, text or number."""
        if self.world_size == 1:
            return value
        raw = json.dumps(value).encode() if self.is_main_process else b""
        size = torch.tensor([len(raw)])
        dist.broadcast(size, src=0, group=self._control_group)
        buffer = _to_byte_tensor(raw, int(size))
        dist.broadcast(buffer, src=0, group=self._control_group)
        received: T = json.loads(bytes(buffer.numpy()))
        return received

    def all_gather_tensors(self, tensors: NamedTensors) -> list[dict[str, Tensor]]:
        """Return the named tensors of all ranks, on the CPU, by rank."""
        local = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
        if self.world_size == 1:
            return [local]
        specs = self.all_gather_json(_describe_tensors(local))
        raw = b"".join(bytes(t.reshape(-1).view(torch.uint8).numpy()) for t in local.values())
        return [
            _split_tensors(raw, spec)
            for raw, spec in zip(self._all_gather_bytes(raw), specs, strict=True)
        ]

    def broadcast_tensors(self, tensors: NamedTensors | None) -> dict[str, Tensor]:
        """Return the main process's tensors, on the CPU, on every rank."""
        if self.world_size == 1:
            return dict(tensors or {})
        local = {name: t.cpu().contiguous() for name, t in (tensors or {}).items()}
        specs = self.broadcast_json(_describe_tensors(local))
        if not self.is_main_process:
            local = {name: torch.empty(shape, dtype=_dtype(kind)) for name, shape, kind in specs}
        for tensor in local.values():
            dist.broadcast(tensor, src=0, group=self._control_group)
        return local

    def _all_gather_bytes(self, raw: bytes) -> list[bytes]:
        sizes = [torch.empty(1, dtype=torch.int64) for _ in range(self.world_size)]
        dist.all_gather(sizes, torch.tensor([len(raw)]), group=self._control_group)
        longest = int(max(sizes))
        buffers = [torch.empty(longest, dtype=torch.uint8) for _ in sizes]
        dist.all_gather(buffers, _to_byte_tensor(raw, longest), group=self._control_group)
        return [
            bytes(buffer[: int(size)].numpy()) for buffer, size in zip(buffers, sizes, strict=True)
        ]

    def barrier(self) -> None:
        """Wait until all ranks have reached this call."""
        if self.world_size > 1:
            dist.barrier(group=self._control_group)

    @contextmanager
    def raise_on_any_rank(self) -> Iterator[None]:
        """Raise on every rank if the block fails on any.

        The lowest failed rank raises its own error, the others `ErrorOnOtherRank`. The block must
        not contain collective operations: a failed rank would not take part in them.
        """
        failure: Exception | None = None
        try:
            yield
        except Exception as error:
            if self.world_size == 1:
                raise
            failure = error
        has_failed = self.all_gather_json(failure is not None)
        if any(has_failed) and has_failed.index(True) != self.rank:
            raise ErrorOnOtherRank(f"rank {has_failed.index(True)} failed") from failure
        if failure is not None:
            raise failure

    # -- the model --------------------------------------------------------------------------------

    def wrap_data_parallel(
        self, model: nn.Module, parallelism: str, *, find_unused_parameters: bool = False
    ) -> None:
        """Make the model average its gradients over all ranks, in place: weights keep their names.

        `ddp`: every rank has all weights (DDP); `fsdp`: each has a shard of them (FSDP2).
        `find_unused_parameters`: some weights get no gradient.
        """
        if self.world_size == 1:
            return
        if parallelism == "fsdp":
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.fsdp import fully_shard

            mesh = init_device_mesh(self.device.type, (self.world_size,))
            # The warning is about changing a returned view in place, which does not happen here.
            warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view tensor")
            # One layer at a time is gathered; between steps everything is sharded.
            for part in [*_stacked_layers(model), model]:
                fully_shard(part, mesh=mesh, reshard_after_forward=True)
        else:
            from torch.distributed._composable.replicate import replicate

            replicate(model, find_unused_parameters=find_unused_parameters)

    def set_gradient_sync(self, model: nn.Module, enabled: bool) -> None:
        """Set whether the next backward pass averages gradients (DDP; off while accumulating).

        FSDP always averages: unsharded gradients would need the memory that sharding saves.
        """
        if self.world_size == 1:
            return
        from torch.distributed.fsdp import FSDPModule

        if not isinstance(model, FSDPModule):
            model.set_requires_gradient_sync(enabled)  # type: ignore[operator]

    def broadcast_buffers(self, model: nn.Module) -> None:
        """Copy the main process's buffers, such as running means, to all ranks.

        Buffers outside of the state dict, such as position tables, may differ in size and are not
        copied.
        """
        names = model.state_dict().keys() if self.world_size > 1 else ()
        for name, buffer in model.named_buffers():
            if name in names:
                dist.broadcast(buffer, src=0)

    def gather_full_tensors(self, tensors: NamedTensors) -> dict[str, Tensor]:
        """Return all tensors in full on the main process, and nothing on the other ranks.

        Sharded tensors are moved to the CPU one by one: together they may exceed one GPU's memory.
        """
        full_tensors: dict[str, Tensor] = {}
        for name, tensor in tensors.items():
            full = full_tensor(tensor.detach())  # a collective operation: all ranks take part
            if self.is_main_process:
                full_tensors[name] = full.cpu() if hasattr(tensor, "full_tensor") else full
        return full_tensors


TensorSpec: TypeAlias = tuple[str, list[int], str]
"""name, shape and dtype"""


def _describe_tensors(tensors: NamedTensors) -> list[TensorSpec]:
    return [
        (name, list(t.shape), str(t.dtype).removeprefix("torch.")) for name, t in tensors.items()
    ]


def _dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name)
    assert isinstance(dtype, torch.dtype)
    return dtype


def _to_byte_tensor(raw: bytes, size: int) -> Tensor:
    """Return bytes as a tensor, padded with zeros."""
    buffer = torch.zeros(size, dtype=torch.uint8)
    buffer[: len(raw)] = torch.frombuffer(bytearray(raw), dtype=torch.uint8) if raw else 0
    return buffer


def _split_tensors(raw: bytes, specs: Sequence[TensorSpec]) -> dict[str, Tensor]:
    """Return the tensors that follow each other in a buffer."""
    buffer, offset, tensors = bytearray(raw), 0, dict[str, Tensor]()
    for name, shape, kind in specs:
        tensor = torch.empty(shape, dtype=_dtype(kind))
        if tensor.numel():
            part = buffer[offset : offset + tensor.nbytes]
            tensor = torch.frombuffer(part, dtype=tensor.dtype).reshape(shape)
        tensors[name] = tensor
        offset += tensor.nbytes
    return tensors


@contextmanager
def init_process_group() -> Iterator[ProcessGroup]:
    """Initialize torch.distributed if torchrun started several processes, and close it afterwards.

    Without torchrun, yield a group of one process.
    """
    is_owner = not dist.is_initialized()
    if is_owner and int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ProcessGroup(torch.device("cpu"))
        return
    try:
        if is_owner:
            _rendezvous()
        yield ProcessGroup(torch.device("cpu"), dist.get_rank(), dist.get_world_size())
    except RuntimeError as error:
        if not _is_connection_lost(error):
            raise
        message = "lost the connection to another rank: its output or torchrun's summary says why"
        raise (ErrorOnOtherRank if _local_rank() else UserError)(message) from None
    finally:
        if is_owner and dist.is_initialized():
            dist.destroy_process_group()


def _rendezvous() -> None:
    """Connect to the other ranks at the address that torchrun set."""
    has_nccl = torch.cuda.is_available() and dist.is_nccl_available()
    backend, environment = "cpu:gloo,cuda:nccl" if has_nccl else "gloo", os.environ
    if environment.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        dist.init_process_group(backend, timeout=STEP_TIMEOUT)
        return
    rank, size = int(environment["RANK"]), int(environment["WORLD_SIZE"])
    store = dist.TCPStore(  # type: ignore[attr-defined]
        environment["MASTER_ADDR"],
        int(environment["MASTER_PORT"]),
        is_master=False,
        wait_for_workers=False,
        timeout=STEP_TIMEOUT,
    )
    attempt = dist.PrefixStore(_agree_on_attempt(store, rank, size), store)  # type: ignore[attr-defined]
    dist.init_process_group(
        backend, store=attempt, rank=rank, world_size=size, timeout=STEP_TIMEOUT
    )


def _agree_on_attempt(store: Any, rank: int, world_size: int) -> str:
    """Agree with all ranks on a unique name for this attempt.

    torchrun's store survives a restart, so the keys of an earlier attempt are still in it. (The
    restart count is not unique: each machine counts for itself.) Rank 0 sends its name to every
    rank that announces itself, until all have confirmed it.
    """
    own_name = uuid.uuid4().hex
    if rank:
        store.set(f"here {rank}", own_name)
        name: str = store.get(f"to {own_name}").decode()  # blocks until rank 0 answers
        store.set(f"{name} {rank}", "")
        return name
    missing, deadline = set(range(1, world_size)), time.monotonic() + STEP_TIMEOUT.total_seconds()
    while missing:
        for other in [o for o in missing if store.check([f"here {o}"])]:
            store.set(f"to {store.get(f'here {other}').decode()}", own_name)
        missing = {o for o in missing if not store.check([f"{own_name} {o}"])}
        if time.monotonic() > deadline:
            raise UserError(f"timed out waiting for {len(missing)} of {world_size} ranks")
        time.sleep(0.02)
    return own_name


def _is_connection_lost(error: RuntimeError) -> bool:
    """Return True if the error means that another rank, or the connection to it, is gone."""
    return isinstance(error, dist.DistError) or "gloo" in str(error)


def launch_id() -> str | None:
    """Return an id of the torchrun launch, the same after a restart; None without torchrun."""
    run_id = os.environ.get("TORCHELASTIC_RUN_ID")
    return f"{socket.gethostname()} {os.getppid()}" if run_id == "none" else run_id


def is_restarted() -> bool:
    """Return True if torchrun has restarted this process because a rank died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def is_main_process() -> bool:
    """Return True on rank 0, by the environment: also before the group is initialized."""
    return int(os.environ.get("RANK", "0")) == 0


def _local_rank() -> int:
    return int(os.environ.get("LOCAL_RANK", "0"))


def pick_device(name: str) -> torch.device:
    """Return the device of a name; `auto` is CUDA, else MPS, else the CPU."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):
        raise UserError(
            f"train.device = {name!r}: not on this machine: auto chooses an available device"
        ) from None
    return device


def _stacked_layers(model: nn.Module) -> list[nn.Module]:
    """Return the stacked layers of a model, but not the directions within a recurrent layer."""
    lists = [m for m in model.modules() if isinstance(m, nn.ModuleList)]
    nested = {m for modules in lists for m in modules if isinstance(m, nn.ModuleList)}
    return [m for modules in lists if modules not in nested for m in modules if m not in nested]


def full_tensor(tensor: Tensor) -> Tensor:
    """Return a tensor in full, gathered from all ranks if it is sharded."""
    full = getattr(tensor, "full_tensor", None)
    return full() if full is not None else tensor


def shard_like(tensor: Tensor, like: Tensor) -> Tensor:
    """Return a full tensor on the device of `like`, sharded over the ranks as `like` is."""
    if not hasattr(like, "full_tensor"):
        return tensor.to(like.device)
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(like, DTensor)
    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements)
