"""Sequence models, from RNN to Transformer, that show their workings."""

from typing import TYPE_CHECKING

from workings.errors import UserError
from workings.lazy import fetch

__version__ = "0.1.0"

if TYPE_CHECKING:
    from workings.attention import attend
    from workings.problems import Problem, Report, Solution
    from workings.trace import Trace, tap
    from workings.train.runs import load
    from workings.web.one_file import page
    from workings.web.widget import widget

# Loaded when first asked for, so that `import workings` needs neither torch nor numpy.
_HOME = {
    "Problem": "problems",
    "Report": "problems",
    "Solution": "problems",
    "attend": "attention",
    "load": "train.runs",
    "page": "web.one_file",
    "Trace": "trace",
    "tap": "trace",
    "widget": "web.widget",
}

__all__ = [
    "Problem",
    "Report",
    "Solution",
    "Trace",
    "UserError",
    "__version__",
    "attend",
    "load",
    "page",
    "tap",
    "widget",
]


def __getattr__(name: str) -> object:
    return fetch(__name__, _HOME, name)


def __dir__() -> list[str]:
    return sorted(__all__)
