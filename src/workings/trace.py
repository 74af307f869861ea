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

from workings.errors import UserError, near

Patterns: TypeAlias = str | tuple[str, ...] | list[str]
Change: TypeAlias = Tensor | Callable[[Tensor], Tensor]

_open = 0  # traces open in any thread: what a closed tap looks at
_lock = threading.Lock()
_undo = ExitStack()  # takes the hooks off
_traces: ContextVar[tuple["Trace", ...]] = ContextVar("traces", default=())  # this thread's


def tap(name: str, value: Tensor) -> Tensor:
    """Offer `value` to the open traces as `name`; return it, or what a trace puts in its place."""
    if not _open:
        return value
    # The innermost last. One that was closed in another context may still be listed in this one.
    traces = [trace for trace in _traces.get() if trace._is_open]
    for trace in reversed(traces):  # it changes the value first
        value = trace._change(name, value)
    for trace in traces:  # all of them keep what the model goes on with
        trace._keep(name, value)
    return value


def wanted(*names: str) -> bool:
    """Say whether a trace wants one of these taps of the running module.

    A layer with a faster way that never has these values takes it when the answer is no.
    """
    return _open > 0 and any(t._wants(name) for t in _traces.get() if t._is_open for name in names)


def traced() -> bool:
    """Say whether somebody looks: what cannot be looked into is for when nobody does."""
    return _open > 0 and any(trace._is_open for trace in _traces.get())


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
        replace: Mapping[str, Change] | None = None,
        scale: Mapping[str, float | Tensor] | None = None,
    ) -> None:
        self._model = model
        self._only = (only,) if isinstance(only, str) else tuple(only)
        self._replace = dict(replace or {})
        self._scale = dict(scale or {})
        self._kept: dict[str, list[Tensor]] = {}
        self._names: dict[int, str] = {}  # id of a module: its path
        self._path: list[str] = []  # of the modules that are running, the innermost last
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
        if path not in self._kept:
            known = near(path, self._kept) if self._kept else "the trace is empty"
            raise KeyError(f"nothing was traced at {path!r}: {known}")
        return list(self._kept[path])

    def __contains__(self, path: object) -> bool:
        return path in self._kept

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def matching(self, pattern: str) -> dict[str, Tensor]:
        """Read every path that matches `pattern`."""
        return {path: self[path] for path in self._kept if fnmatchcase(path, pattern)}

    # -- what tap asks ---------------------------------------------------------------------------

    def _at(self, name: str) -> str:
        return f"{self._path[-1]}.{name}" if self._path and self._path[-1] else name

    def _keeps(self, path: str) -> bool:
        return any(fnmatchcase(path, pattern) for pattern in self._only)

    def _wants(self, name: str) -> bool:
        path = self._at(name)
        changes = (*self._replace, *self._scale)
        return self._keeps(path) or any(fnmatchcase(path, pattern) for pattern in changes)

    def _change(self, name: str, value: Tensor) -> Tensor:
        if not (self._replace or self._scale):
            return value
        path, before = self._at(name), value
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

    def _keep(self, name: str, value: Tensor) -> None:
        path = self._at(name)
        if self._keeps(path):
            self._kept.setdefault(path, []).append(value)

    # -- which module is running -----------------------------------------------------------------

    def _enter_module(self, module: nn.Module) -> None:
        if not self._path:
            root = module if self._model is None else self._model
            self._names = {id(m): _eager(path) for path, m in root.named_modules()}
        outside = ".".join(filter(None, (*self._path[-1:], type(module).__name__)))
        self._path.append(self._names.get(id(module), outside))

    def _leave_module(self) -> None:
        if self._path:  # where the trace was opened inside a module, that one never entered
            self._path.pop()

    # -- opening and closing ---------------------------------------------------------------------

    def __enter__(self) -> "Trace":
        if self._is_open:
            raise RuntimeError("this trace is open already: make another Trace")
        _watch_modules()
        self._is_open = True
        _traces.set((*_traces.get(), self))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        _traces.set(tuple(trace for trace in _traces.get() if trace is not self))
        self._is_open = False
        self._path.clear()
        _unwatch_modules()


def _eager(path: str) -> str:
    """Leave out the name under which a compiled module holds its original."""
    return ".".join(part for part in path.split(".") if part != "_orig_mod")


def _watch_modules() -> None:
    """Count a trace in; the first one hooks every module's calls."""
    global _open, _undo
    with _lock:
        if _open == 0:
            with ExitStack() as undo:
                undo.callback(hooks.register_module_forward_pre_hook(_before_module).remove)
                undo.callback(
                    hooks.register_module_forward_hook(_after_module, always_call=True).remove
                )
                if "torch._dynamo" in sys.modules:
                    # There may be compiled code, which has no taps in it: run its original. That
                    # hooks see the compiled module, too, as torch warns, is minded in _eager.
                    undo.enter_context(torch.compiler.set_stance("force_eager"))
                    warnings.filterwarnings("ignore", "Using `torch.compile.* global hooks")
                _undo = undo.pop_all()
        _open += 1


def _unwatch_modules() -> None:
    """Count a trace out; the last one unhooks."""
    global _open
    with _lock:
        _open -= 1
        if _open == 0:
            _undo.close()


def _before_module(module: nn.Module, _inputs: object) -> None:
    for trace in _traces.get():
        trace._enter_module(module)


def _after_module(_module: nn.Module, _inputs: object, _output: object) -> None:
    for trace in _traces.get():
        trace._leave_module()
