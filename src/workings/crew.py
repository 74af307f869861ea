"""The processes that train one model together: one of them by default, several under torchrun.

Every process holds the model and takes its share of each batch; gradients are averaged over the
crew by torch's own engine. Process 0, the chief, writes what is written and says what is said.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from workings.errors import UserError

T = TypeVar("T")


class Crew:
    """Who this process is among those that train together. Alone, nothing here costs anything."""

    def __init__(self, device: torch.device, rank: int = 0, size: int = 1) -> None:
        self.device, self.rank, self.size = device, rank, size

    @classmethod
    def assemble(cls, device: str = "auto") -> "Crew":
        """Join the processes that torchrun started; without it, a crew of one."""
        if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
            return cls(pick_device(device))
        if not dist.is_initialized():
            local = int(os.environ.get("LOCAL_RANK", "0"))
            chosen = pick_device(device)
            if chosen.type == "cuda":
                torch.cuda.set_device(local)
            dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
        device = f"cuda:{os.environ['LOCAL_RANK']}" if dist.get_backend() == "nccl" else device
        return cls(pick_device(device), dist.get_rank(), dist.get_world_size())

    @property
    def is_chief(self) -> bool:
        """Whether this process writes and speaks for all."""
        return self.rank == 0

    def share(self, batch: Sequence[T]) -> Sequence[T]:
        """This process's part of a batch; perhaps nothing of a small one."""
        return batch[self.rank :: self.size]

    def total(self, numbers: Mapping[str, float]) -> dict[str, float]:
        """Add up numbers over the crew."""
        if self.size == 1:
            return dict(numbers)
        sums = torch.tensor(list(numbers.values()), dtype=torch.float64, device=self.device)
        dist.all_reduce(sums)
        return dict(zip(numbers, sums.tolist(), strict=True))

    def joined(self, rows: Tensor) -> Tensor:
        """Add up tensors over the crew: each process filled in its own rows, zeros elsewhere."""
        if self.size > 1:
            there = rows.to(self.device)
            dist.all_reduce(there)
            rows = there.to(rows.device)
        return rows

    def everyones(self, value: Any) -> list[Any]:
        """Gather a small value of every process, by rank."""
        if self.size == 1:
            return [value]
        gathered: list[Any] = [None] * self.size
        dist.all_gather_object(gathered, value)
        return gathered

    def wait(self) -> None:
        """Wait until everybody is here."""
        if self.size > 1:
            dist.barrier()

    def unite(self, model: nn.Module, how: str) -> None:
        """Have gradients averaged over the crew, in place: weights keep their names.

        `replicated`: every process has all weights (DDP); `sharded`: a part of them (FSDP2).
        """
        if self.size == 1:
            return
        if how == "sharded":
            from torch.distributed.fsdp import fully_shard

            fully_shard(model)
        else:
            from torch.distributed._composable.replicate import replicate

            replicate(model, broadcast_buffers=False)

    def dismiss(self) -> None:
        """Leave the crew."""
        if self.size > 1 and dist.is_initialized():
            dist.destroy_process_group()


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


def whole(tensor: Tensor) -> Tensor:
    """A tensor in full, where the crew holds a part of it each."""
    full = getattr(tensor, "full_tensor", None)
    return full() if full is not None else tensor


def parted(tensor: Tensor, like: Tensor) -> Tensor:
    """A full tensor taken apart over the crew as `like` is."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    if isinstance(like, DTensor):
        return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements)
    return tensor
