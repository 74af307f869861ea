"""What a checkpoint holds beside the model, as flat named tensors, and back."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from workings.crew import Crew, parted


def flat(state: Mapping[int, Mapping[str, Any]]) -> dict[str, Tensor]:
    """Name the tensors of numbered tables: `3.step` is number 3's `step`.

    >>> flat({3: {"step": 7}})
    {'3.step': tensor(7)}
    """
    return {
        f"{index}.{name}": torch.as_tensor(value)
        for index, values in state.items()
        for name, value in values.items()
        if value is not None
    }


def nested(tensors: Mapping[str, Tensor], weights: list[Tensor]) -> dict[int, dict[str, Tensor]]:
    """Turn an optimiser's flat state back: each tensor where the weights are that it is about."""
    found: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        index, name = key.split(".", 1)
        like = weights[int(index)]
        fits = parted(value, like) if value.shape == like.shape else value
        found.setdefault(int(index), {})[name] = fits
    return found


def of_rank(tensors: Mapping[str, Tensor], crew: Crew, rows: int) -> dict[str, Tensor]:
    """This process's rows of what a crew, of whatever size, had put into a checkpoint.

    There are as many as a batch has; each process had its share of them, as of a batch.
    """
    size = len({key.split(".", 1)[0] for key in tensors})
    found = {}
    for name in dict.fromkeys(key.split(".", 1)[1] for key in tensors):
        parts = [tensors[f"{rank}.{name}"] for rank in range(size)]
        wanted = [len(range(rank, rows, size)) for rank in range(size)]
        for part, count in zip(parts, wanted, strict=True):
            if len(part) < count:  # one would be taken for all, and none may be of any width
                raise ValueError(f"{len(part)} rows of {count} are carried over")
        whole = parts[0].new_zeros(rows, *parts[0].shape[1:])
        for rank, part in enumerate(parts):
            whole[rank::size] = part[: wanted[rank]]
        share = whole[crew.rank :: crew.size]
        found[name] = share if len(share) else whole[:1]  # as in a step without a share
    return found


def random_state(device: torch.device) -> dict[str, Tensor]:
    """Where this process is in its random numbers."""
    states = {"torch": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    elif device.type == "mps":
        states["mps"] = torch.mps.get_rng_state()
    return states


def set_random_state(states: Mapping[str, Tensor], crew: Crew, seed: int) -> None:
    """Go on with this process's random numbers; one that was not there before gets its own."""
    own = f"{crew.rank}.torch"
    if own not in states:
        torch.manual_seed(seed * 1009 + crew.rank)
        return
    torch.set_rng_state(states[own])
    if f"{crew.rank}.cuda" in states and crew.device.type == "cuda":
        torch.cuda.set_rng_state(states[f"{crew.rank}.cuda"], crew.device)
    elif f"{crew.rank}.mps" in states and crew.device.type == "mps":
        torch.mps.set_rng_state(states[f"{crew.rank}.mps"])
