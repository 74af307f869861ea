"""Tasks: how data, model, loss, metric and prediction fit together."""

from typing import TYPE_CHECKING

from workings.lazy import import_attribute

if TYPE_CHECKING:
    from workings.tasks.base import Task
    from workings.tasks.captioning import Captioning
    from workings.tasks.classification import Classification
    from workings.tasks.custom import CustomTask
    from workings.tasks.language_modeling import LanguageModeling
    from workings.tasks.translation import Translation

_LAZY_MODULES = {
    "Captioning": "captioning",
    "Classification": "classification",
    "CustomTask": "custom",
    "LanguageModeling": "language_modeling",
    "Task": "base",
    "Translation": "translation",
}

__all__ = [
    "Captioning",
    "Classification",
    "CustomTask",
    "LanguageModeling",
    "Task",
    "Translation",
]


def __getattr__(name: str) -> object:
    return import_attribute(__name__, _LAZY_MODULES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
