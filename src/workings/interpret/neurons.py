"""How well activations track a property: the area under the ROC curve, or a correlation.

Both are one inner product: of ranks with yes and no, of values with numbers. So all cells, and all
the shifted copies of a property that chance is measured by, are one product of matrices.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from workings.data.tokenizers.base import Span, Tokenizer
from workings.errors import UserError
from workings.interpret.activations import DEFAULT_WINDOW, ActivationReader
from workings.interpret.results import Excerpt, NeuronScore, NeuronSearch, PropertyNeurons
from workings.interpret.text_properties import CharacterValues, Property
from workings.models.language import LanguageModel

BLOCK_SIZE = 64  # cells whose ranks are found together

PositionValues: TypeAlias = Bool[np.ndarray, " places"] | Float[np.ndarray, " places"]


def compute_association(
    activations: Float[np.ndarray, "places cells"], values: PositionValues
) -> Float[np.ndarray, " cells"]:
    """Say how well each cell tracks a property: from −1 (against it) over 0 to 1.

    For yes and no it is 2 · AUC − 1, ties counting half; for numbers, Pearson's correlation.

    >>> cells = np.array([[0.1, 5.0], [0.7, 1.0], [0.9, 1.0]])
    >>> compute_association(cells, np.array([False, True, True]))
    array([ 1., -1.])
    """
    compared = normalize_activations(activations, use_ranks=values.dtype == bool)
    found: Float[np.ndarray, " cells"] = compared.T @ build_contrast(values)
    return found


def normalize_activations(
    activations: Float[np.ndarray, "places cells"], *, use_ranks: bool
) -> Float[np.ndarray, "places cells"]:
    """Bring cells to one scale: their ranks, or their values, about 0 and of length 1."""
    if use_ranks:
        return compute_centered_ranks(activations)
    centred = activations - activations.mean(0)
    lengths = np.sqrt(np.square(centred).sum(0))
    unit: Float[np.ndarray, "places cells"] = centred / np.where(lengths > 0, lengths, 1)
    return unit


def build_contrast(values: PositionValues) -> Float[np.ndarray, " places"]:
    """What the comparable activations are to be multiplied by; zeros, where all values are one."""
    if values.dtype == bool:
        share = values.mean()
        return values * (2 / (len(values) * share * (1 - share)) if 0 < share < 1 else 0.0)
    centred = values - values.mean()
    length = np.sqrt(np.square(centred).sum())
    unit: Float[np.ndarray, " places"] = centred / (length or 1)
    return unit


def compute_centered_ranks(
    activations: Float[np.ndarray, "places cells"],
) -> Float[np.ndarray, "places cells"]:
    """Rank each cell's activations, from −½ to ½; those that are equal share their mean rank.

    >>> compute_centered_ranks(np.array([[3.0], [1.0], [3.0], [8.0]])).T
    array([[ 0.   , -0.375,  0.   ,  0.375]])
    """
    places, cells = activations.shape
    ranks = np.empty_like(activations)
    for first in range(0, cells, BLOCK_SIZE):
        # A cell a row: numbers that are compared lie side by side.
        block = np.ascontiguousarray(activations[:, first : first + BLOCK_SIZE].T)
        order = np.argsort(block, axis=1)
        shared = _average_ties(np.take_along_axis(block, order, 1))
        np.put_along_axis(block, order, (shared - (places - 1) / 2) / places, 1)
        ranks[:, first : first + BLOCK_SIZE] = block.T
    return ranks


def _average_ties(
    sorted_values: Float[np.ndarray, "cells places"],
) -> Float[np.ndarray, "cells places"]:
    """The mean place of each run of equal numbers, at all of its places."""
    count = sorted_values.shape[1]
    places = np.arange(count)
    new = np.ones(sorted_values.shape, bool)
    new[:, 1:] = sorted_values[:, 1:] != sorted_values[:, :-1]
    last = np.ones(sorted_values.shape, bool)
    last[:, :-1] = new[:, 1:]
    begins = np.maximum.accumulate(np.where(new, places, 0), axis=1)
    ends = np.minimum.accumulate(np.where(last, places, count)[:, ::-1], axis=1)[:, ::-1]
    means: Float[np.ndarray, "cells places"] = (begins + ends) / 2
    return means


def compute_null_distribution(
    normalized: Float[np.ndarray, "sample cells"],
    values: PositionValues,
    positions: np.ndarray,
    shifts: np.ndarray,
) -> Float[np.ndarray, " shifts"]:
    """The best strength among all cells for each of the shifts of a property round its text.

    A property that is shifted keeps everything but its tie to the text, above all how long it stays
    the same. `compared` are comparable activations at some `places` of the text.
    """
    moved = np.empty((len(positions), len(shifts)), normalized.dtype)
    for k, shift in enumerate(shifts):
        moved[:, k] = build_contrast(np.roll(values, shift)[positions])
    best: Float[np.ndarray, " shifts"] = np.abs(normalized.T @ moved).max(0)
    return best


MIN_TOKENS = 400  # tokens of a text; what is found in fewer says nothing
MAX_ACTIVATIONS = 40_000_000  # activations held at a time; of a longer text, some places are drawn
NUM_PARTS = 10  # of a text, by turns for choosing and scoring: it may not be the same all through
NUM_SHIFTS = 199
MIN_SHIFT_DIVISOR = 20  # a shift moves by a 20th of the text or more, either way
SIGNIFICANCE_LEVEL = 0.05
EXCERPT_CHARACTERS, EXCERPTS_PER_PAGE = (
    500,
    3,
)  # characters of an excerpt that a terminal shows, and how many times a page


class ActivationSource(Protocol):
    """Reads a text, and tells what its cells do at places of it."""

    @property
    def num_neurons(self) -> int:
        """How many there are."""

    @property
    def warmup_tokens(self) -> int:
        """How many tokens at the beginning cannot be looked at."""

    def neuron_name(self, neuron: int) -> str:
        """Name a cell."""

    def read_activations(
        self, positions: Int[np.ndarray, " places"], neurons: Sequence[int] | None = None
    ) -> Float[np.ndarray, "places cells"]:
        """What cells (None: all) do at places of the text."""


@dataclass(frozen=True)
class _SplitText:
    """A text as it is read, and the places for choosing and scoring."""

    reader: ActivationSource
    text: str
    spans: list[Span]
    selection_positions: Int[np.ndarray, " places"]
    scoring_positions: Int[np.ndarray, " places"]
    top: int


def find_neurons(
    model: LanguageModel,
    tokenizer: Tokenizer,
    text: str,
    properties: Sequence[Property],
    *,
    preceding_text: str = "",
    top: int = 3,
    window: int = DEFAULT_WINDOW,
    seed: int = 0,
) -> NeuronSearch:
    """Find the `top` cells for each property, and say how well they do where they were not chosen.

    `before` is what stands before the text: the model does not read it, but a property may need
    it to know where the text begins. A token has the value of its last character. `window` is how
    far back a Transformer looks.
    """
    reader = ActivationReader(model, np.asarray(tokenizer.encode(text), dtype=np.int64), window)
    spans = tokenizer.find_spans(text)
    return search_neurons(
        reader, text, spans, properties, preceding_text=preceding_text, top=top, seed=seed
    )


def search_neurons(
    reader: ActivationSource,
    text: str,
    spans: list[Span],
    properties: Sequence[Property],
    *,
    preceding_text: str = "",
    top: int = 3,
    seed: int = 0,
) -> NeuronSearch:
    """The same for anything that reads a text, token by token, and has cells."""
    if len(spans) < MIN_TOKENS:
        raise UserError(
            f"a text of {len(spans):,} tokens: {MIN_TOKENS} at least, to choose cells on one half of it "
            "and to score them on the other"
        )
    names = [asked.name for asked in properties]
    if twice := {name for name in names if names.count(name) > 1}:
        raise UserError(f"two properties are called {min(twice)!r}: name one of them otherwise")
    if top < 1:
        raise UserError(f"top = {top}: at least 1")
    parts = np.array_split(np.arange(reader.warmup_tokens, len(spans)), NUM_PARTS)
    halves = np.concatenate(parts[::2]), np.concatenate(parts[1::2])
    case = _SplitText(reader, text, spans, *halves, min(top, reader.num_neurons))
    ends = np.asarray([end - 1 for _, end in spans]) + len(preceding_text)
    values = {asked: asked.compute_values(preceding_text + text)[ends] for asked in properties}
    varied = {
        asked: v for asked, v in values.items() if all((v[h] != v[h[0]]).any() for h in halves)
    }
    return NeuronSearch(
        num_neurons=reader.num_neurons,
        num_selection_tokens=len(case.selection_positions),
        num_scoring_tokens=len(case.scoring_positions),
        num_shifts=NUM_SHIFTS,
        unit="tokens" if any(end - start > 1 for start, end in spans) else "characters",
        properties=_score_properties(case, varied, np.random.default_rng(seed)),
        constant_properties=[asked.name for asked in values if asked not in varied],
    )


@dataclass
class _Selection:
    """The cells that were best, and what chance would have found."""

    neurons: Int[np.ndarray, " top"]
    associations: Float[np.ndarray, " top"]
    null_scores: Float[np.ndarray, " shifts"]


def _score_properties(
    split_text: _SplitText, values: dict[Property, CharacterValues], generator: np.random.Generator
) -> list[PropertyNeurons]:
    if not values:  # nothing that could be tracked
        return []
    choices = _select_neurons(split_text, values, generator)
    cells = sorted({int(cell) for choice in choices.values() for cell in choice.neurons})
    seen = split_text.reader.read_activations(split_text.scoring_positions, cells).astype(
        np.float64
    )
    return [
        _score_property(split_text, asked, values[asked], choices[asked], cells, seen)
        for asked in values
    ]


def _select_neurons(
    split_text: _SplitText, values: dict[Property, CharacterValues], generator: np.random.Generator
) -> dict[Property, _Selection]:
    """Compare all cells with every property, where they are chosen."""
    places = split_text.selection_positions
    room = max(MAX_ACTIVATIONS // split_text.reader.num_neurons, MIN_TOKENS)
    if len(places) > room:
        places = np.sort(generator.choice(places, room, replace=False))
    seen = split_text.reader.read_activations(places)
    size, among = (
        len(split_text.selection_positions),
        np.searchsorted(split_text.selection_positions, places),
    )
    shifts = generator.integers(
        size // MIN_SHIFT_DIVISOR, size - size // MIN_SHIFT_DIVISOR, NUM_SHIFTS
    )
    found = {}
    for ranks in (True, False):
        asked = [p for p, v in values.items() if (v.dtype == bool) is ranks]
        compared = normalize_activations(seen, use_ranks=ranks) if asked else seen
        for one in asked:
            strength = compared.T @ build_contrast(values[one][places]).astype(compared.dtype)
            best = np.argsort(-np.abs(strength), kind="stable")[: split_text.top]
            chances = compute_null_distribution(
                compared, values[one][split_text.selection_positions], among, shifts
            )
            found[one] = _Selection(best, strength[best], chances)
    return found


def _score_property(
    split_text: _SplitText,
    text_property: Property,
    values: CharacterValues,
    selection: _Selection,
    neurons: list[int],
    activation_matrix: Float[np.ndarray, "scoring chosen"],
) -> PropertyNeurons:
    """Score the chosen cells where they were not chosen, and cut out a piece to show."""
    here = values[split_text.scoring_positions]
    yes_or_no = here.dtype == bool
    shown = _select_excerpt(split_text, here)
    columns = [neurons.index(int(cell)) for cell in selection.neurons]
    scores = compute_association(activation_matrix[:, columns], here) * np.sign(
        selection.associations
    )
    found = []
    for k, column in enumerate(columns):
        activations = activation_matrix[:, column]
        middle = activations.mean()
        if yes_or_no:
            middle = (activations[here].mean() + activations[~here].mean()) / 2
        found.append(
            NeuronScore(
                neuron=split_text.reader.neuron_name(int(selection.neurons[k])),
                is_inverted=bool(selection.associations[k] < 0),
                selection_score=_to_metric(abs(selection.associations[k]), yes_or_no),
                score=_to_metric(scores[k], yes_or_no),
                p_value=float(1 + (selection.null_scores >= scores[k]).sum())
                / (1 + len(selection.null_scores)),
                activations=activations[shown].tolist(),
                midpoint=float(middle),
                spread=float(np.quantile(np.abs(activations - middle), 0.98)),
            )
        )
    return PropertyNeurons(
        name=text_property.name,
        description=text_property.description,
        metric="AUC" if yes_or_no else "r",
        prevalence=float(here.mean()) if yes_or_no else None,
        chance_level=_to_metric(
            float(np.quantile(selection.null_scores, 1 - SIGNIFICANCE_LEVEL)), yes_or_no
        ),
        neurons=found,
        excerpt=_build_excerpt(split_text, shown, here),
    )


def _select_excerpt(
    split_text: _SplitText, scored_values: CharacterValues
) -> Int[np.ndarray, " shown"]:
    """Choose a piece to show, from a line's beginning: where the property varies most."""
    places = split_text.scoring_positions
    read = split_text.spans[-1][1] - split_text.spans[0][0]
    length = min(
        max(len(split_text.spans) * EXCERPT_CHARACTERS // max(read, 1), 1), len(places) // NUM_PARTS
    )
    starts = np.arange(len(places) - length + 1)
    starts = starts[places[starts + length - 1] - places[starts] == length - 1]  # in one part
    at_lines = [
        k
        for k in starts.tolist()
        if _is_line_start(split_text.text, split_text.spans[places[k]][0])
    ]
    starts = np.asarray(at_lines or starts)
    sums, squares = (
        np.concatenate(([0.0], np.cumsum(scored_values.astype(float) ** n))) for n in (1, 2)
    )
    means = (sums[starts + length] - sums[starts]) / length
    spread = (squares[starts + length] - squares[starts]) / length - means**2
    begin = starts[int(spread.argmax())]
    shown = np.arange(begin, min(begin + EXCERPTS_PER_PAGE * length, len(places)))
    shown = shown[places[shown] - places[begin] == shown - begin]
    # Of tokens that are bytes of one character, the last has read all of it.
    ends = [split_text.spans[place][1] for place in places[shown].tolist()]
    nexts = [*(split_text.spans[place][0] for place in places[shown[1:]].tolist()), ends[-1]]
    whole: Int[np.ndarray, " shown"] = shown[np.asarray(nexts) >= np.asarray(ends)]
    return whole


def _is_line_start(text: str, position: int) -> bool:
    return text[position - 1] == "\n" and not text[position].isspace()


def _build_excerpt(
    split_text: _SplitText, indices: Int[np.ndarray, " shown"], scored_values: CharacterValues
) -> Excerpt:
    spans = [split_text.spans[place] for place in split_text.scoring_positions[indices].tolist()]
    begin, end = spans[0][0], spans[-1][1]
    marked = np.flatnonzero(scored_values[indices]).tolist() if scored_values.dtype == bool else []
    return Excerpt(split_text.text[begin:end], [(a - begin, b - begin) for a, b in spans], marked)


def _to_metric(association: float, is_binary: bool) -> float:
    return float((1 + association) / 2 if is_binary else association)
