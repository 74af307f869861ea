"""Sequence models, from RNN to Transformer, that show their workings."""

from typing import TYPE_CHECKING

from workings.errors import UserError
from workings.lazy import import_attribute

__version__ = "0.1.0"

if TYPE_CHECKING:
    from workings import layers, models
    from workings.attention import attend
    from workings.problems import Problem, Report, Solution
    from workings.trace import Trace, tap
    from workings.training.runs import load
    from workings.web.standalone_page import page
    from workings.web.widget import widget

# Imported on first use, so that `import workings` needs neither torch nor numpy.
_LAZY_MODULES = {
    "Problem": "problems",
    "Report": "problems",
    "Solution": "problems",
    "attend": "attention",
    "layers": "layers",
    "load": "training.runs",
    "models": "models",
    "page": "web.standalone_page",
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
    "layers",
    "load",
    "models",
    "page",
    "tap",
    "widget",
]


def __getattr__(name: str) -> object:
    return import_attribute(__name__, _LAZY_MODULES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
