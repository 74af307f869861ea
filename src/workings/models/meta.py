"""Modules without memory for their weights, to check shapes and count parameters."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class _SkipNormalInit(TorchFunctionMode):
    """A mode in which `normal_` does nothing.

    For a meta tensor it has no effect, but torch would import sympy first: more than a second.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is torch.nn.init.normal_:
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


@contextmanager
def meta_device() -> Iterator[None]:
    """Create tensors and modules on the meta device: with shapes, but without values."""
    with torch.device("meta"), _SkipNormalInit():
        yield
