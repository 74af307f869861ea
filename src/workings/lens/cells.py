"""Which cells of a language model track a property of the text?

Cells are chosen on every other tenth of a text and scored on the tenths between, so that the score
of a chosen one is not flattered by the choice. How good the best of so many would be by chance is
measured by shifting the property round its half of the text. docs/cells.md says what to make of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from jaxtyping import Float, Int

from workings.data.tokenizer import Span, Tokenizer
from workings.errors import UserError
from workings.lens.properties import Property, Values
from workings.lens.reading import WINDOW, Reader
from workings.lens.scores import chances_best, comparable, strengths, weighted
from workings.lens.tracked import Cells, Excerpt, Found, Tracked
from workings.models.language import LanguageModel

LEAST = 400  # tokens of a text; what is found in fewer says nothing
BUDGET = 40_000_000  # activations held at a time; of a longer text, some places are drawn
PARTS = 10  # of a text, by turns for choosing and scoring: it may not be the same all through
SHIFTS = 199
NEAR = 20  # a shift moves by a 20th of the text or more, either way
UNLIKELY = 0.05
PIECE, PAGE = 500, 3  # characters of an excerpt that a terminal shows, and how many times a page


class Watching(Protocol):
    """Reads a text, and tells what its cells do at places of it."""

    @property
    def cells(self) -> int:
        """How many there are."""

    @property
    def warm(self) -> int:
        """How many tokens at the beginning cannot be looked at."""

    def name(self, cell: int) -> str:
        """Name a cell."""

    def activations(
        self, places: Int[np.ndarray, " places"], cells: Sequence[int] | None = None
    ) -> Float[np.ndarray, "places cells"]:
        """What cells (None: all) do at places of the text."""


@dataclass(frozen=True)
class _Case:
    """A text as it is read, and the places for choosing and scoring."""

    reader: Watching
    text: str
    spans: list[Span]
    choosing: Int[np.ndarray, " places"]
    scoring: Int[np.ndarray, " places"]
    top: int


def find_cells(
    model: LanguageModel,
    tokenizer: Tokenizer,
    text: str,
    wanted: Sequence[Property],
    *,
    before: str = "",
    top: int = 3,
    window: int = WINDOW,
    seed: int = 0,
) -> Cells:
    """Find the `top` cells for each property, and say how well they do where they were not chosen.

    `before` is what stands before the text: the model does not read it, but a property may need
    it to know where the text begins. A token has the value of its last character. `window` is how
    far back a Transformer looks.
    """
    reader = Reader(model, np.asarray(tokenizer.encode(text), dtype=np.int64), window)
    spans = tokenizer.spans(text)
    return find_among(reader, text, spans, wanted, before=before, top=top, seed=seed)


def find_among(
    reader: Watching,
    text: str,
    spans: list[Span],
    wanted: Sequence[Property],
    *,
    before: str = "",
    top: int = 3,
    seed: int = 0,
) -> Cells:
    """The same for anything that reads a text, token by token, and has cells."""
    if len(spans) < LEAST:
        raise UserError(
            f"a text of {len(spans):,} tokens: {LEAST} at least, to choose cells on one half of it "
            "and to score them on the other"
        )
    names = [asked.name for asked in wanted]
    if twice := {name for name in names if names.count(name) > 1}:
        raise UserError(f"two properties are called {min(twice)!r}: name one of them otherwise")
    if top < 1:
        raise UserError(f"top = {top}: at least 1")
    parts = np.array_split(np.arange(reader.warm, len(spans)), PARTS)
    halves = np.concatenate(parts[::2]), np.concatenate(parts[1::2])
    case = _Case(reader, text, spans, *halves, min(top, reader.cells))
    ends = np.asarray([end - 1 for _, end in spans]) + len(before)
    values = {asked: asked.values(before + text)[ends] for asked in wanted}
    varied = {
        asked: v for asked, v in values.items() if all((v[h] != v[h[0]]).any() for h in halves)
    }
    return Cells(
        tried=reader.cells,
        chosen_on=len(case.choosing),
        scored_on=len(case.scoring),
        shifts=SHIFTS,
        unit="tokens" if any(end - start > 1 for start, end in spans) else "characters",
        tracked=_tracked(case, varied, np.random.default_rng(seed)),
        left_out=[asked.name for asked in values if asked not in varied],
    )


@dataclass
class _Choice:
    """The cells that were best, and what chance would have found."""

    cells: Int[np.ndarray, " top"]
    strengths: Float[np.ndarray, " top"]
    chances: Float[np.ndarray, " shifts"]


def _tracked(
    case: _Case, values: dict[Property, Values], random: np.random.Generator
) -> list[Tracked]:
    if not values:  # nothing that could be tracked
        return []
    choices = _choices(case, values, random)
    cells = sorted({int(cell) for choice in choices.values() for cell in choice.cells})
    seen = case.reader.activations(case.scoring, cells).astype(np.float64)
    return [_told(case, asked, values[asked], choices[asked], cells, seen) for asked in values]


def _choices(
    case: _Case, values: dict[Property, Values], random: np.random.Generator
) -> dict[Property, _Choice]:
    """Compare all cells with every property, where they are chosen."""
    places = case.choosing
    room = max(BUDGET // case.reader.cells, LEAST)
    if len(places) > room:
        places = np.sort(random.choice(places, room, replace=False))
    seen = case.reader.activations(places)
    size, among = len(case.choosing), np.searchsorted(case.choosing, places)
    shifts = random.integers(size // NEAR, size - size // NEAR, SHIFTS)
    found = {}
    for ranks in (True, False):
        asked = [p for p, v in values.items() if (v.dtype == bool) is ranks]
        compared = comparable(seen, ranks=ranks) if asked else seen
        for one in asked:
            strength = compared.T @ weighted(values[one][places]).astype(compared.dtype)
            best = np.argsort(-np.abs(strength), kind="stable")[: case.top]
            chances = chances_best(compared, values[one][case.choosing], among, shifts)
            found[one] = _Choice(best, strength[best], chances)
    return found


def _told(
    case: _Case,
    asked: Property,
    values: Values,
    choice: _Choice,
    cells: list[int],
    seen: Float[np.ndarray, "scoring chosen"],
) -> Tracked:
    """Score the chosen cells where they were not chosen, and cut out a piece to show."""
    here = values[case.scoring]
    yes_or_no = here.dtype == bool
    shown = _piece(case, here)
    columns = [cells.index(int(cell)) for cell in choice.cells]
    scores = strengths(seen[:, columns], here) * np.sign(choice.strengths)
    found = []
    for k, column in enumerate(columns):
        activations = seen[:, column]
        middle = activations.mean()
        if yes_or_no:
            middle = (activations[here].mean() + activations[~here].mean()) / 2
        found.append(
            Found(
                cell=case.reader.name(int(choice.cells[k])),
                against=bool(choice.strengths[k] < 0),
                chosen=_measured(abs(choice.strengths[k]), yes_or_no),
                score=_measured(scores[k], yes_or_no),
                p=float(1 + (choice.chances >= scores[k]).sum()) / (1 + len(choice.chances)),
                values=activations[shown].tolist(),
                middle=float(middle),
                reach=float(np.quantile(np.abs(activations - middle), 0.98)),
            )
        )
    return Tracked(
        name=asked.name,
        what=asked.what,
        measure="AUC" if yes_or_no else "r",
        share=float(here.mean()) if yes_or_no else None,
        chance=_measured(float(np.quantile(choice.chances, 1 - UNLIKELY)), yes_or_no),
        cells=found,
        excerpt=_excerpt(case, shown, here),
    )


def _piece(case: _Case, here: Values) -> Int[np.ndarray, " shown"]:
    """Choose a piece to show, from a line's beginning: where the property varies most."""
    places = case.scoring
    read = case.spans[-1][1] - case.spans[0][0]
    length = min(max(len(case.spans) * PIECE // max(read, 1), 1), len(places) // PARTS)
    starts = np.arange(len(places) - length + 1)
    starts = starts[places[starts + length - 1] - places[starts] == length - 1]  # in one part
    at_lines = [k for k in starts.tolist() if _begins_line(case.text, case.spans[places[k]][0])]
    starts = np.asarray(at_lines or starts)
    sums, squares = (np.concatenate(([0.0], np.cumsum(here.astype(float) ** n))) for n in (1, 2))
    means = (sums[starts + length] - sums[starts]) / length
    spread = (squares[starts + length] - squares[starts]) / length - means**2
    begin = starts[int(spread.argmax())]
    shown = np.arange(begin, min(begin + PAGE * length, len(places)))
    shown = shown[places[shown] - places[begin] == shown - begin]
    # Of tokens that are bytes of one character, the last has read all of it.
    ends = [case.spans[place][1] for place in places[shown].tolist()]
    nexts = [*(case.spans[place][0] for place in places[shown[1:]].tolist()), ends[-1]]
    whole: Int[np.ndarray, " shown"] = shown[np.asarray(nexts) >= np.asarray(ends)]
    return whole


def _begins_line(text: str, place: int) -> bool:
    return text[place - 1] == "\n" and not text[place].isspace()


def _excerpt(case: _Case, shown: Int[np.ndarray, " shown"], here: Values) -> Excerpt:
    spans = [case.spans[place] for place in case.scoring[shown].tolist()]
    begin, end = spans[0][0], spans[-1][1]
    marked = np.flatnonzero(here[shown]).tolist() if here.dtype == bool else []
    return Excerpt(case.text[begin:end], [(a - begin, b - begin) for a, b in spans], marked)


def _measured(strength: float, yes_or_no: bool) -> float:
    return float((1 + strength) / 2 if yes_or_no else strength)
