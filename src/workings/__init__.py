"""Sequence models, from RNN to Transformer, that show their workings."""

from importlib import import_module
from typing import TYPE_CHECKING

from workings.errors import UserError, extra_of

__version__ = "0.1.0"

if TYPE_CHECKING:
    from workings.attention import attend
    from workings.problems import Problem, Report, Solution
    from workings.trace import Trace, tap

# Loaded when first asked for, so that `import workings` needs neither torch nor numpy.
_HOME = {
    "Problem": "workings.problems",
    "Report": "workings.problems",
    "Solution": "workings.problems",
    "attend": "workings.attention",
    "Trace": "workings.trace",
    "tap": "workings.trace",
}

__all__ = [
    "Problem",
    "Report",
    "Solution",
    "Trace",
    "UserError",
    "__version__",
    "attend",
    "tap",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'workings' has no attribute {name!r}")
    try:
        module = import_module(_HOME[name])
    except ModuleNotFoundError as missing:
        if extra_of(missing) is None:
            raise
        raise ModuleNotFoundError(
            f"workings.{name} needs {missing.name}: {extra_of(missing)}", name=missing.name
        ) from None
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
