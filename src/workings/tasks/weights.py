"""A run's weights, put into the model that its recipe describes."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn

from workings.storage import Damaged, read_tensors

Model = TypeVar("Model", bound=nn.Module)


def with_weights(make: Callable[[], Model], path: Path, belongs: str | None) -> Model:
    """Make a model and give it the weights of a file, which may have to bear a run's mark."""
    weights = read_tensors(path, belongs=belongs)
    with torch.device("meta"):  # which takes no memory, whatever the recipe says
        size = _numbers(make().state_dict())
    if size > _numbers(weights):
        raise Damaged(f"{path}: not the weights of this run's model, which has {size:,}")
    model = make()
    try:
        model.load_state_dict(weights)
    except (RuntimeError, LookupError, TypeError):
        raise Damaged(f"{path}: not the weights of this run's model") from None
    return model.eval()


def _numbers(tensors: Mapping[str, Tensor]) -> int:
    return sum(t.numel() for t in tensors.values())
