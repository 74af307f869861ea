"""One tap: `tap` names an intermediate value, and an open `Trace` keeps or changes it.

Layers call `w = tap("weights", w)`. While no trace is open that is a look at one integer. While one
is open, the value is filed under the path of the module that is running and the tap's own name:
`blocks.2.attention.weights`. Everything that shows a model's inside reads a trace and nothing else.
"""

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from contextvars import ContextVar, Token
from fnmatch import fnmatchcase
from types import TracebackType
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.modules import module as hooks

Patterns: TypeAlias = str | tuple[str, ...] | list[str]
Change: TypeAlias = Tensor | Callable[[Tensor], Tensor]

_open = 0  # traces open in any thread: what a closed tap looks at
_lock = threading.Lock()
_undo = ExitStack()
_traces: ContextVar[tuple["Trace", ...]] = ContextVar("traces", default=())  # this thread's, outermost first


def tap(name: str, value: Tensor) -> Tensor:
    """Offer `value` to the open traces under `name`; return it, or what a trace puts in its place."""
    if not _open:
        return value
    traces = _traces.get()
    for trace in reversed(traces):  # the innermost changes it first
        value = trace._change(name, value)
    for trace in traces:  # all of them keep what the model goes on with
        trace._keep(name, value)
    return value


def wanted(*names: str) -> bool:
    """Say whether a trace wants one of these taps of the running module.

    A layer with a faster way that never has these values takes it when the answer is no.
    """
    return _open > 0 and any(t._wants(name) for t in _traces.get() for name in names)


class Trace:
    """Keep the tapped values of every forward pass inside a `with` block.

    `only` is a path pattern, or several (`*` matches anything, dots included). `replace` puts a
    tensor, or a function of the value, in a tap's place; `scale` multiplies it. Paths start at
    `model`, or at whichever module is called first where no model is given.

    A path that was tapped several times (time steps, or several calls) reads as one tensor with a
    new first dimension; `steps` gives the list.

    >>> layer = nn.Sequential(nn.Linear(2, 2))
    >>> with Trace() as trace:
    ...     _ = tap("doubled", 2 * torch.ones(2))
    >>> trace["doubled"]
    tensor([2., 2.])
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
        self._token: Token[tuple[Trace, ...]] | None = None

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
            from workings.errors import near

            known = near(path, self._kept) if self._kept else "nothing was"
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
        path, shape = self._at(name), value.shape
        for pattern, change in self._replace.items():
            if fnmatchcase(path, pattern):
                value = change.to(value) if isinstance(change, Tensor) else change(value)
        for pattern, factor in self._scale.items():
            if fnmatchcase(path, pattern):
                value = value * factor
        if value.shape != shape:
            raise ValueError(f"{path!r} has shape {tuple(shape)}; it was replaced by one of {tuple(value.shape)}")
        return value

    def _keep(self, name: str, value: Tensor) -> None:
        path = self._at(name)
        if self._keeps(path):
            self._kept.setdefault(path, []).append(value)

    # -- which module is running -----------------------------------------------------------------

    def _enter_module(self, module: nn.Module) -> None:
        if not self._path:
            root = self._model or module
            # A compiled module wraps its original under this name; paths are the original's.
            self._names = {id(m): p.removeprefix("_orig_mod.") for p, m in root.named_modules()}
            self._names[id(getattr(root, "_orig_mod", root))] = ""
        outside = ".".join(filter(None, (self._path[-1] if self._path else "", type(module).__name__)))
        self._path.append(self._names.get(id(module), outside))

    def _leave_module(self) -> None:
        if self._path:  # a module that was running before the trace opened leaves without having entered
            self._path.pop()

    # -- opening and closing ---------------------------------------------------------------------

    def __enter__(self) -> "Trace":
        if self._token is not None:
            raise RuntimeError("this trace is open already: make another Trace")
        _watch_modules(+1)
        self._token = _traces.set((*_traces.get(), self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        assert self._token is not None
        _traces.reset(self._token)
        self._token = None
        self._path.clear()
        _watch_modules(-1)


def _watch_modules(opened: int) -> None:
    """Count a trace in (+1) or out (-1); the first hooks every module's calls, the last unhooks."""
    global _open
    with _lock:
        _open += opened
        if _open == 1 and opened > 0:
            _undo.callback(hooks.register_module_forward_pre_hook(_before_module).remove)
            _undo.callback(
                hooks.register_module_forward_hook(_after_module, always_call=True).remove
            )
            if "torch._dynamo" in sys.modules:  # there may be compiled code, which has no taps in it:
                _undo.enter_context(torch.compiler.set_stance("force_eager"))  # run its original
        elif _open == 0:
            _undo.close()


def _before_module(module: nn.Module, _inputs: object) -> None:
    for trace in _traces.get():
        trace._enter_module(module)


def _after_module(_module: nn.Module, _inputs: object, _output: object) -> None:
    for trace in _traces.get():
        trace._leave_module()
