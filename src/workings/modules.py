"""Helpers for any `nn.Module`.

Building it, with or without memory for its weights; checks of widths; device, evaluation mode,
hooks and tied weights.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from workings.errors import UserError, truncate

M = TypeVar("M", bound=nn.Module)


def build_model(constructor: Callable[..., M], **arguments: Any) -> M:
    """Call a model's constructor; raise UserError if torch cannot build the model.

    >>> build_model(nn.Linear, in_features=2**40, out_features=2**40)
    Traceback (most recent call last):
    workings.errors.UserError: model: cannot be built with these settings: ...
    """
    try:
        return constructor(**arguments)
    except (RuntimeError, MemoryError) as error:
        reason = truncate(str(error) or "out of memory", 150)
        raise UserError(f"model: cannot be built with these settings: {reason}") from None


class Rebuildable(nn.Module):
    """A module that remembers the arguments it was built with, so that a run can build it again."""

    init_arguments: dict[str, Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        model = super().__new__(cls)
        bound = inspect.signature(cls.__init__).bind_partial(model, *args, **kwargs)
        arguments = dict(list(bound.arguments.items())[1:])
        object.__setattr__(model, "init_arguments", arguments)
        return model


class _SkipRandomInit(TorchFunctionMode):
    """A mode in which functions that fill a tensor with random numbers leave parameters alone."""

    _FUNCTIONS = frozenset(
        {
            torch.nn.init.kaiming_uniform_,
            torch.nn.init.normal_,
            torch.nn.init.uniform_,
            Tensor.normal_,
            Tensor.uniform_,
        }
    )

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func in self._FUNCTIONS:
            tensor = args[0] if args else (kwargs or {})["tensor"]
            if isinstance(tensor, nn.Parameter):
                return tensor
        return func(*args, **(kwargs or {}))


def skip_random_init() -> AbstractContextManager[object]:
    """Build modules without drawing their weights, which are loaded afterwards.

    For GPT-2 small, drawing them takes longer than loading them. Buffers are computed as usual.
    """
    return _SkipRandomInit()


@contextmanager
def meta_device() -> Iterator[None]:
    """Create tensors and modules on the meta device: with shapes, but without values."""
    # On the meta device `normal_` has no effect, but torch would import sympy first: more than a
    # second.
    with torch.device("meta"), skip_random_init():
        yield


def is_meta_default() -> bool:
    """Return True if new tensors have no values: for `arange`, torch would import 1 s of modules.

    >>> with meta_device():
    ...     is_meta_default()
    True
    """
    return torch.get_default_device().type == "meta"


def expect_width(actual: int, expected: int, name: str = "vectors") -> None:
    """Raise a UserError if vectors do not have the width that a layer was built for.

    >>> expect_width(3, 4, "queries")
    Traceback (most recent call last):
    workings.errors.UserError: expected queries of width 4, got 3
    """
    if actual != expected:
        raise UserError(f"expected {name} of width {expected}, got {actual}")


def device_of(model: nn.Module) -> torch.device:
    """Return the device of a model's parameters.

    >>> device_of(nn.Linear(2, 2))
    device(type='cpu')
    """
    return next(model.parameters()).device


@contextmanager
def eval_mode(model: M) -> Iterator[M]:
    """Switch a model to evaluation mode; restore the mode of each of its modules afterwards.

    >>> model = nn.Dropout(0.5)
    >>> with eval_mode(model):
    ...     model.training
    False
    >>> model.training
    True
    """
    was_training = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield model
    finally:
        for module, training in was_training.items():
            module.training = training


def has_hooks(model: nn.Module) -> bool:
    """Return True if a module has forward hooks: fast paths that skip modules would miss them."""
    return any(m._forward_pre_hooks or m._forward_hooks for m in model.modules())


def tied_names(model: nn.Module) -> dict[str, str]:
    """Return the parameter names that are tied to an earlier name, with that earlier name.

    >>> model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    >>> model[1].weight = model[0].weight
    >>> tied_names(model)
    {'1.weight': '0.weight'}
    """
    first_names: dict[Tensor, str] = {}
    tied = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        first = first_names.setdefault(parameter, name)
        if first != name:
            tied[name] = first
    return tied


def unique_state_dict(
    model: nn.Module, state: Mapping[str, Tensor] | None = None
) -> dict[str, Tensor]:
    """Return a state dict, by default the model's, with tied weights once: by their first name."""
    tied = tied_names(model)
    state = model.state_dict() if state is None else state
    return {name: t for name, t in state.items() if name not in tied}


def load_unique_state_dict(
    model: nn.Module, state: Mapping[str, Tensor], *, assign: bool = False
) -> None:
    """Load a state dict in which tied weights may be under their first name only.

    With `assign`, the model takes the tensors themselves: a large model is not twice in memory.
    """
    ties = tied_names(model)
    if assign:  # one parameter for all names of a tied weight
        dtypes = {name: p.dtype for name, p in model.named_parameters()}
        state = {k: nn.Parameter(t.to(dtypes[k])) if k in dtypes else t for k, t in state.items()}
    tied = {name: state[first] for name, first in ties.items() if first in state}
    model.load_state_dict({**tied, **state}, assign=assign)
