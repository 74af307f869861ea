"""One tap: `tap` names an intermediate value, and an open `Trace` keeps or changes it.

Layers call `w = tap("weights", w)`. While no trace is open that is a look at one integer. While one
is open, the value is filed under the path of the module that is running and the tap's own name:
`blocks.2.attention.weights`. Everything that shows a model's inside reads a trace and nothing else.
"""

import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from contextvars import ContextVar
from fnmatch import fnmatchcase
from types import TracebackType
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.modules import module as hooks

from workings.errors import UserError, did_you_mean

Patterns: TypeAlias = str | tuple[str, ...] | list[str]
Intervention: TypeAlias = Tensor | Callable[[Tensor], Tensor]

_num_open = 0  # traces open in any thread: what a closed tap looks at
_lock = threading.Lock()
_hook_stack = ExitStack()  # takes the hooks off
_active_traces: ContextVar[tuple["Trace", ...]] = ContextVar("traces", default=())  # this thread's


def tap(name: str, value: Tensor) -> Tensor:
    """Offer `value` to the open traces as `name`; return it, or what a trace puts in its place."""
    if not _num_open:
        return value
    # The innermost last. One that was closed in another context may still be listed in this one.
    traces = [trace for trace in _active_traces.get() if trace._is_open]
    for trace in reversed(traces):  # it changes the value first
        value = trace._intervene(name, value)
    for trace in traces:  # all of them keep what the model goes on with
        trace._record(name, value)
    return value


def is_tapped(*names: str) -> bool:
    """Say whether a trace wants one of these taps of the running module.

    A layer with a faster way that never has these values takes it when the answer is no.
    """
    return _num_open > 0 and any(
        t._is_tapped(name) for t in _active_traces.get() if t._is_open for name in names
    )


def is_tracing() -> bool:
    """Say whether somebody looks: what cannot be looked into is for when nobody does."""
    return _num_open > 0 and any(trace._is_open for trace in _active_traces.get())


class Trace:
    """Keep the tapped values of every forward pass inside a `with` block.

    `only` is a path pattern, or several (`*` matches anything, dots included). `replace` puts a
    tensor, or a function of the value, in a tap's place; `scale` multiplies it. Paths start at
    `model`, or at whichever module is called first where no model is given.

    A path that was tapped several times (time steps, or several calls) reads as one tensor with a
    new first dimension; `steps` gives the list. The values are the model's own, not copies: in
    training, gradients go through them.

    >>> class Doubled(nn.Module):
    ...     def forward(self, x: Tensor) -> Tensor:
    ...         return tap("doubled", 2 * x)
    >>> with Trace(replace={"1.*": torch.zeros(2)}) as trace:
    ...     _ = nn.Sequential(Doubled(), Doubled(), Doubled())(torch.ones(2))
    >>> trace.matching("*.doubled")
    {'0.doubled': tensor([2., 2.]), '1.doubled': tensor([0., 0.]), '2.doubled': tensor([0., 0.])}
    """

    def __init__(
        self,
        model: nn.Module | None = None,
        *,
        only: Patterns = "*",
        replace: Mapping[str, Intervention] | None = None,
        scale: Mapping[str, float | Tensor] | None = None,
    ) -> None:
        self._model = model
        self._only = (only,) if isinstance(only, str) else tuple(only)
        self._replace = dict(replace or {})
        self._scale = dict(scale or {})
        self._values: dict[str, list[Tensor]] = {}
        self._module_paths: dict[int, str] = {}  # id of a module: its path
        self._path_stack: list[str] = []  # of the modules that are running, the innermost last
        self._is_open = False

    # -- reading ---------------------------------------------------------------------------------

    def __getitem__(self, path: str) -> Tensor:
        steps = self.steps(path)
        if len(steps) == 1:
            return steps[0]
        shapes = {tuple(step.shape) for step in steps}
        if len(shapes) > 1:
            raise ValueError(
                f"{path!r} was tapped {len(steps)} times in different shapes "
                f"{sorted(shapes)}: read trace.steps({path!r})"
            )
        return torch.stack(steps)

    def steps(self, path: str) -> list[Tensor]:
        """List what was tapped at `path`, in order."""
        if path not in self._values:
            known = did_you_mean(path, self._values) if self._values else "the trace is empty"
            raise KeyError(f"nothing was traced at {path!r}: {known}")
        return list(self._values[path])

    def __contains__(self, path: object) -> bool:
        return path in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def matching(self, pattern: str) -> dict[str, Tensor]:
        """Read every path that matches `pattern`."""
        return {path: self[path] for path in self._values if fnmatchcase(path, pattern)}

    # -- what tap asks ---------------------------------------------------------------------------

    def _tap_path(self, name: str) -> str:
        return (
            f"{self._path_stack[-1]}.{name}" if self._path_stack and self._path_stack[-1] else name
        )

    def _is_recorded(self, path: str) -> bool:
        return any(fnmatchcase(path, pattern) for pattern in self._only)

    def _is_tapped(self, name: str) -> bool:
        path = self._tap_path(name)
        changes = (*self._replace, *self._scale)
        return self._is_recorded(path) or any(fnmatchcase(path, pattern) for pattern in changes)

    def _intervene(self, name: str, value: Tensor) -> Tensor:
        if not (self._replace or self._scale):
            return value
        path, before = self._tap_path(name), value
        for pattern, change in self._replace.items():
            if fnmatchcase(path, pattern):
                value = change.to(value) if isinstance(change, Tensor) else change(value)
        for pattern, factor in self._scale.items():
            if fnmatchcase(path, pattern):
                value = value * (factor.to(value) if isinstance(factor, Tensor) else factor)
        if not isinstance(value, Tensor) or value.shape != before.shape:
            got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise UserError(f"{path!r} has shape {tuple(before.shape)}, its replacement {got}")
        return value

    def _record(self, name: str, value: Tensor) -> None:
        path = self._tap_path(name)
        if self._is_recorded(path):
            self._values.setdefault(path, []).append(value)

    # -- which module is running -----------------------------------------------------------------

    def _push_module(self, module: nn.Module) -> None:
        if not self._path_stack:
            root = module if self._model is None else self._model
            self._module_paths = {
                id(m): _strip_compiled_prefix(path) for path, m in root.named_modules()
            }
        outside = ".".join(filter(None, (*self._path_stack[-1:], type(module).__name__)))
        self._path_stack.append(self._module_paths.get(id(module), outside))

    def _pop_module(self) -> None:
        if self._path_stack:  # where the trace was opened inside a module, that one never entered
            self._path_stack.pop()

    # -- opening and closing ---------------------------------------------------------------------

    def __enter__(self) -> "Trace":
        if self._is_open:
            raise RuntimeError("this trace is open already: make another Trace")
        _install_hooks()
        self._is_open = True
        _active_traces.set((*_active_traces.get(), self))
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _active_traces.set(tuple(trace for trace in _active_traces.get() if trace is not self))
        self._is_open = False
        self._path_stack.clear()
        _remove_hooks()


def _strip_compiled_prefix(path: str) -> str:
    """Leave out the name under which a compiled module holds its original."""
    return ".".join(part for part in path.split(".") if part != "_orig_mod")


def _install_hooks() -> None:
    """Count a trace in; the first one hooks every module's calls."""
    global _num_open, _hook_stack
    with _lock:
        if _num_open == 0:
            with ExitStack() as undo:
                undo.callback(hooks.register_module_forward_pre_hook(_forward_pre_hook).remove)
                undo.callback(
                    hooks.register_module_forward_hook(_forward_hook, always_call=True).remove
                )
                if "torch._dynamo" in sys.modules:
                    # There may be compiled code, which has no taps in it: run its original. That
                    # hooks see the compiled module, too, as torch warns, is minded in _eager.
                    undo.enter_context(torch.compiler.set_stance("force_eager"))
                    warnings.filterwarnings("ignore", "Using `torch.compile.* global hooks")
                _hook_stack = undo.pop_all()
        _num_open += 1


def _remove_hooks() -> None:
    """Count a trace out; the last one unhooks."""
    global _num_open
    with _lock:
        _num_open -= 1
        if _num_open == 0:
            _hook_stack.close()


def _forward_pre_hook(module: nn.Module, _inputs: object) -> None:
    for trace in _active_traces.get():
        trace._push_module(module)


def _forward_hook(_module: nn.Module, _inputs: object, _output: object) -> None:
    for trace in _active_traces.get():
        trace._pop_module()
