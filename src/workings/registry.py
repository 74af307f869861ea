"""Plug-ins: models, tasks, tokenizers and metrics that other packages add by name.

A plug-in is a module that calls the `register_…` functions when it is imported. That happens if an
installed package has an entry point for it (group `workings.plugins`), or if the environment
variable `WORKINGS_PLUGINS` or the option `--plugin` names it. A recipe only states which plug-ins
it needs: to open a run of someone else imports nothing.
"""

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

from workings.config import variants
from workings.errors import UserError, did_you_mean, install_hint, truncate

ENTRY_POINT_GROUP = "workings.plugins"
ENVIRONMENT_VARIABLE = "WORKINGS_PLUGINS"

# The modules that define the built-in ones fill these dictionaries; plug-ins add to them.
RECIPES: dict[str, tuple[type[Any], Any]] = {}
"""By task: its recipe, and the settings of each kind of model that it may have."""
MODELS: dict[str, dict[str, Callable[..., Any]]] = {}
"""By task and kind: the constructor of a model."""
TASKS: dict[str, type[Any]] = {}
"""By name: the class of a task."""
TOKENIZERS: dict[str, type[Any]] = {}
"""By kind: the tokenizers of plug-ins."""
METRICS: dict[str, "Metric"] = {}
"""By name: the validation metrics of plug-ins."""

_providers: dict[tuple[str, str], str] = {}  # the module that registered a name of a section
_importing: list[str] = []  # the plug-in that is being imported


@dataclass(frozen=True)
class Metric:
    """A function of a task that computes a number on its validation data."""

    function: Callable[[Any], float]
    higher_is_better: bool = True

    def __call__(self, task: Any) -> float:
        return float(self.function(task))


# -- what a plug-in calls --------------------------------------------------------------------------


def register_model(task: str, config: type[Any], constructor: Callable[..., Any]) -> None:
    """Add a kind of model to a task: `config.kind` is its name in recipes.

    The constructor is called with the fields of the configuration, and with what the task knows,
    such as `vocab_size` and `num_classes`.
    """
    if task not in RECIPES:
        raise UserError(f"register_model: no task {task!r}: {did_you_mean(task, RECIPES)}")
    _add(RECIPES[task][1], f"{task} model", config.kind, config, config)
    MODELS.setdefault(task, {})[config.kind] = constructor


def register_task(recipe: type[Any], task: type[Any]) -> None:
    """Add a task: the recipe's class, whose default of `task` is the name, and the task's class.

    The kinds of models are those of the type of the recipe's `model`.
    """
    _add(RECIPES, "task", recipe.task, (recipe, variants(get_type_hints(recipe)["model"])), task)
    TASKS[recipe.task] = task


def register_tokenizer(tokenizer: type[Any]) -> None:
    """Add a kind of tokenizer: `tokenizer.kind` is its name in recipes and files."""
    _add(TOKENIZERS, "tokenizer", tokenizer.kind, tokenizer, tokenizer)


def register_metric(
    name: str, function: Callable[[Any], float], *, higher_is_better: bool = True
) -> None:
    """Add a validation metric: the key `train.metric` may name it to select the best epoch."""
    _add(METRICS, "metric", name, Metric(function, higher_is_better), function)


def _add(names: dict[str, Any], section: str, name: str, entry: Any, definition: Any) -> None:
    if name in names:
        raise UserError(f"{section} {name!r} exists already: choose another name")
    names[name] = entry
    # A plug-in that Python code has imported is named by the module of what it registers.
    _providers[section, name] = _importing[-1] if _importing else definition.__module__


# -- importing plug-ins ----------------------------------------------------------------------------


def import_plugins(names: Iterable[str]) -> None:
    """Import modules that the user has named; they may be in the current folder."""
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise UserError(f"--plugin {truncate(name)}: expected the name of a module")
        if (folder := str(Path.cwd())) not in sys.path:
            sys.path.append(folder)  # last, so that its files hide no installed module
        try:
            with _attribute_names_to(name):
                import_module(name)
        except Exception as error:
            if isinstance(error, ModuleNotFoundError) and install_hint(error):
                raise
            raise UserError(f"--plugin {name}: {_describe(error)}") from error


@cache
def import_installed_plugins() -> None:
    """Import the plug-ins of installed packages, and those that WORKINGS_PLUGINS names, once.

    One that fails is a warning: runs that do not need it can still be opened.
    """
    from importlib.metadata import entry_points  # costs some ms, and only recipes need it

    installed = [entry.module for entry in entry_points(group=ENTRY_POINT_GROUP)]
    listed = os.environ.get(ENVIRONMENT_VARIABLE, "").split(",")
    for name in filter(None, map(str.strip, (*installed, *listed))):
        try:
            with _attribute_names_to(name):
                import_module(name)
        except Exception as error:
            warnings.warn(f"the plug-in {name} was not loaded: {_describe(error)}", stacklevel=2)


@contextmanager
def _attribute_names_to(plugin: str) -> Iterator[None]:
    _importing.append(plugin)
    try:
        yield
    finally:
        _importing.pop()


def _describe(error: Exception) -> str:
    return truncate(f"{type(error).__name__}: {error}", 200)


# -- what a recipe needs ---------------------------------------------------------------------------


def check_plugins(names: object) -> None:
    """Raise a UserError that names the first plug-in of a recipe that is not imported."""
    for name in names if isinstance(names, list | tuple) else ():
        if name not in sys.modules:
            plugin = truncate(str(name))
            raise UserError(
                f"the plug-in {plugin} is needed: install its package, or run its code with "
                f"--plugin {plugin}"
            )


def find_plugins(names: Iterable[tuple[str, str]]) -> list[str]:
    """Return the plug-ins that registered some of these names, given as (section, name)."""
    modules = [_providers[name] for name in names if name in _providers]
    return [module for module in dict.fromkeys(modules) if module != "__main__"]
