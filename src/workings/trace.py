"""Record or change the intermediate values of a model: `tap` names them, `Trace` collects them.

Layers call `w = tap("weights", w)`. If no trace is open, `tap` returns the value after checking one
integer. If one is open, it records the value under the path of the running module and the name of
the tap: `blocks.2.attention.weights`. All of the package's tools that look inside a model read
their values from a trace.
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

_num_open = 0  # traces open in any thread: all that a tap checks if there are none
_lock = threading.Lock()
_hook_stack = ExitStack()  # removes the hooks when it is closed
# The open traces of this context, the innermost last. A trace that was closed in another context
# may still be listed here, so `_is_open` is checked as well.
_active_traces: ContextVar[tuple["Trace", ...]] = ContextVar("traces", default=())


def tap(name: str, value: Tensor) -> Tensor:
    """Record `value` as `name` in every open trace; return it, or its replacement.

    Nested traces intervene from the innermost outwards, and all record the final value.
    """
    if not _num_open:
        return value
    traces = [trace for trace in _active_traces.get() if trace._is_open]
    for trace in reversed(traces):
        value = trace._intervene(name, value)
    for trace in traces:
        trace._record(name, value)
    return value


def is_tapped(*names: str) -> bool:
    """Return True if an open trace records or changes one of these taps of the running module.

    A layer asks before it takes a fast path that does not compute these values.
    """
    return _num_open > 0 and any(
        t._is_tapped(name) for t in _active_traces.get() if t._is_open for name in names
    )


def is_tracing() -> bool:
    """Return True if a trace is open in this context; fast paths have no taps."""
    return _num_open > 0 and any(trace._is_open for trace in _active_traces.get())


class Trace:
    """A record of the tapped values of every forward pass inside a `with` block.

    - `model`: the module at which paths start; by default the first module that is called.
    - `only`: a pattern of the paths to record, or several (`*` matches anything, dots included).
    - `replace`: by path pattern, a tensor or a function of the value that replaces the value.
    - `scale`: by path pattern, a number or tensor that multiplies the value.

    A `replace` or `scale` that matched no path raises a UserError when the block ends: an ablation
    with a misspelled path would look like one that changes nothing.

    `trace[path]` is the value; if the path was tapped several times (time steps, or several calls),
    the values are stacked along a new first dimension, and `trace.steps(path)` lists them. Values
    are not copied: gradients flow through them.

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
        self._matched: set[str] = set()  # the patterns of `replace` and `scale` that had an effect
        self._known_paths: dict[str, None] = {}  # in order; kept if there are such patterns
        self._module_paths: dict[int, str] = {}  # by the id of the module
        self._path_stack: list[str] = []  # paths of the running modules, the innermost last
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
        """Return the list of values tapped at `path`, in order."""
        if path not in self._values:
            hint = did_you_mean(path, self._values) if self._values else "the trace is empty"
            raise KeyError(f"nothing was traced at {path!r}: {hint}")
        return list(self._values[path])

    def __contains__(self, path: object) -> bool:
        return path in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def matching(self, pattern: str) -> dict[str, Tensor]:
        """Return the values of all paths that match `pattern`, by path."""
        return {path: self[path] for path in self._values if fnmatchcase(path, pattern)}

    # -- called by tap ---------------------------------------------------------------------------

    def _tap_path(self, name: str) -> str:
        return (
            f"{self._path_stack[-1]}.{name}" if self._path_stack and self._path_stack[-1] else name
        )

    def _is_recorded(self, path: str) -> bool:
        return any(fnmatchcase(path, pattern) for pattern in self._only)

    def _is_tapped(self, name: str) -> bool:
        path = self._tap_path(name)
        if self._replace or self._scale:
            self._known_paths[path] = None
        patterns = (*self._only, *self._replace, *self._scale)
        return any(fnmatchcase(path, pattern) for pattern in patterns)

    def _intervene(self, name: str, value: Tensor) -> Tensor:
        if not (self._replace or self._scale):
            return value
        path, original = self._tap_path(name), value
        self._known_paths[path] = None
        for pattern, new in self._replace.items():
            if fnmatchcase(path, pattern):
                self._matched.add(pattern)
                value = new.to(value) if isinstance(new, Tensor) else new(value)
        for pattern, factor in self._scale.items():
            if fnmatchcase(path, pattern):
                self._matched.add(pattern)
                value = value * (factor.to(value) if isinstance(factor, Tensor) else factor)
        if not isinstance(value, Tensor) or value.shape != original.shape:
            got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise UserError(f"{path!r} has shape {tuple(original.shape)}, its replacement {got}")
        return value

    def _record(self, name: str, value: Tensor) -> None:
        path = self._tap_path(name)
        if self._is_recorded(path):
            self._values.setdefault(path, []).append(value)

    # -- called by the module hooks --------------------------------------------------------------

    def _push_module(self, module: nn.Module) -> None:
        if not self._path_stack:
            root = module if self._model is None else self._model
            self._module_paths = {
                id(m): _strip_compiled_prefix(path) for path, m in root.named_modules()
            }
        # A module that is not part of the root is named by its class, under its caller's path.
        fallback = ".".join(filter(None, (*self._path_stack[-1:], type(module).__name__)))
        self._path_stack.append(self._module_paths.get(id(module), fallback))

    def _pop_module(self) -> None:
        if self._path_stack:  # a trace opened inside a running module never saw it start
            self._path_stack.pop()

    # -- opening and closing ---------------------------------------------------------------------

    def __enter__(self) -> "Trace":
        if self._is_open:
            raise RuntimeError("this trace is already open: create another Trace")
        _install_hooks()
        self._is_open = True
        self._matched.clear()
        self._known_paths.clear()
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
        if exc_type is None:
            self._check_all_matched()

    def _check_all_matched(self) -> None:
        """Raise UserError if a pattern of `replace` or `scale` matched no path."""
        for pattern in (*self._replace, *self._scale):
            if pattern not in self._matched:
                others = [path for path in self._known_paths if path != pattern]
                hint = did_you_mean(pattern, others) if others else "no model has run in the trace"
                raise UserError(f"nothing was traced at {pattern!r}, so nothing is changed: {hint}")


def _strip_compiled_prefix(path: str) -> str:
    """Drop `_orig_mod`, under which torch.compile keeps the original module."""
    return ".".join(part for part in path.split(".") if part != "_orig_mod")


def _install_hooks() -> None:
    """Count an opened trace; the first one installs hooks on every module's calls."""
    global _num_open, _hook_stack
    with _lock:
        if _num_open == 0:
            with ExitStack() as undo:
                undo.callback(hooks.register_module_forward_pre_hook(_forward_pre_hook).remove)
                undo.callback(
                    hooks.register_module_forward_hook(_forward_hook, always_call=True).remove
                )
                if "torch._dynamo" in sys.modules:
                    # Compiled code has no taps: run the original modules. torch warns that the
                    # hooks see the compiled wrapper as well; `_strip_compiled_prefix` handles it.
                    undo.enter_context(torch.compiler.set_stance("force_eager"))
                    warnings.filterwarnings("ignore", "Using `torch.compile.* global hooks")
                _hook_stack = undo.pop_all()
        _num_open += 1


def _remove_hooks() -> None:
    """Count a closed trace; the last one removes the hooks."""
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
