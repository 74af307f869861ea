"""Sequence models, from RNN to Transformer, that show their workings.

>>> from workings import Problem
>>> Problem(X=[[1, 0], [0, 2]], scale="none").solve()["scores"]
array([[1., 0.],
       [0., 4.]])

Train a model on data in memory, and trace it:

>>> import torch
>>> from workings import Trace, models, train
>>> model = models.TransformerLM(vocab_size=50, d_model=16, layers=1, heads=2)
>>> task = train(model, "hello world, " * 100, epochs=1)
>>> with Trace() as trace:
...     logits = model(torch.tensor([[5, 6, 7]]))
>>> trace["blocks.0.attention.weights"].shape  # [batch, heads, queries, keys]
torch.Size([1, 2, 3, 3])
"""

from typing import TYPE_CHECKING

from workings.errors import UserError
from workings.lazy import import_attribute

__version__ = "0.1.0"

if TYPE_CHECKING:
    from workings import interpret, layers, models, render, tasks
    from workings.attention import attend
    from workings.problems import Problem, Report, Solution
    from workings.trace import Trace, tap
    from workings.training.api import train
    from workings.training.runs import load
    from workings.web.standalone_page import page
    from workings.web.widget import widget

# Imported on first access, so that `import workings` needs neither torch nor numpy.
_LAZY_MODULES = {
    "Problem": "problems",
    "Report": "problems",
    "Solution": "problems",
    "Trace": "trace",
    "attend": "attention",
    "interpret": "interpret",
    "layers": "layers",
    "load": "training.runs",
    "models": "models",
    "page": "web.standalone_page",
    "render": "render",
    "tap": "trace",
    "tasks": "tasks",
    "train": "training.api",
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
    "interpret",
    "layers",
    "load",
    "models",
    "page",
    "render",
    "tap",
    "tasks",
    "train",
    "widget",
]


def __getattr__(name: str) -> object:
    return import_attribute(__name__, _LAZY_MODULES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
