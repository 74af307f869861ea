"""The cells that track properties, as plain data."""

from dataclasses import dataclass
from typing import Any, Literal

from workings.data.tokenizer import Span


@dataclass(frozen=True)
class Found:
    """A cell that was chosen on some parts of a text and scored on others."""

    cell: str
    against: bool
    """it falls where the property holds or grows"""
    chosen: float
    """its score where it was chosen"""
    score: float
    """its score elsewhere; what it does there against its own direction counts below"""
    p: float
    """how often the best of all cells does as well on a text that the property is shifted round"""
    values: list[float]
    """what it does at each token of the excerpt"""
    middle: float
    """between what it does where the property holds and where not; of numbers, the mean"""
    reach: float
    """how far it goes from there, but for a few places"""


@dataclass(frozen=True)
class Excerpt:
    """A piece of the text that cells were scored on."""

    text: str
    spans: list[Span]
    marked: list[int]
    """the tokens where the property holds"""


@dataclass(frozen=True)
class Tracked:
    """A property, and the cells that track it best."""

    name: str
    what: str
    measure: Literal["AUC", "r"]
    share: float | None
    """of the tokens where it holds"""
    chance: float
    """what the best of all cells stays below on 95 of 100 shifted texts"""
    cells: list[Found]
    excerpt: Excerpt


@dataclass(frozen=True)
class Cells:
    """What was asked about the cells of a model, and what was found."""

    tried: int
    chosen_on: int
    scored_on: int
    shifts: int
    unit: Literal["characters", "tokens"]
    tracked: list[Tracked]
    left_out: list[str]
    """properties that are the same wherever cells are chosen, or wherever they are scored"""

    def __getitem__(self, name: str) -> Tracked:
        return {tracked.name: tracked for tracked in self.tracked}[name]

    def to_table(self) -> dict[str, Any]:
        """Take the figures apart into what JSON can hold; the text stays out of it."""
        return {
            "cells": self.tried,
            "unit": self.unit,
            "chosen_on": self.chosen_on,
            "scored_on": self.scored_on,
            "shifts": self.shifts,
            "properties": [
                {
                    "name": tracked.name,
                    "what": tracked.what,
                    "measure": tracked.measure,
                    "share": tracked.share,
                    "chance": round(tracked.chance, 4),
                    "best": [
                        {
                            "cell": found.cell,
                            "against": found.against,
                            "chosen": round(found.chosen, 4),
                            "score": round(found.score, 4),
                            "p": round(found.p, 4),
                        }
                        for found in tracked.cells
                    ],
                }
                for tracked in self.tracked
            ],
            "left_out": self.left_out,
        }

    def to_text(self, *, width: int | None = None, color: bool = False) -> str:
        """Write it for a terminal."""
        from workings.views import tracked

        return tracked.text(self, width=width, color=color)

    def to_html(self) -> str:
        """Write it as one HTML file that needs nothing else."""
        from workings.views import tracked_html

        return tracked_html.page(self)

    def _repr_html_(self) -> str:
        from workings.views import tracked_html

        return tracked_html.fragment(self)
