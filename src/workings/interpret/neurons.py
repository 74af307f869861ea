"""Search for the neurons of a language model that track a property of the text.

Neurons are selected on one half of the text and scored on the other. The score is the area under
the ROC curve for a property that holds or not, Pearson's correlation for a number. Both are a dot
product with normalized activations, so all neurons, and all shifted copies of a property that give
the chance level, take one matrix product.
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

MIN_TOKENS = 400  # of a text; a search in fewer tokens is not significant
MAX_ACTIVATIONS = 40_000_000  # held in memory; positions of longer texts are sampled
NUM_PARTS = 10  # of a text, for selection and scoring by turns, since a text may change
NUM_SHIFTS = 199
MIN_SHIFT_DIVISOR = 20  # a property is shifted by at least a 20th of the text, in both directions
SIGNIFICANCE_LEVEL = 0.05
EXCERPT_CHARACTERS = 500  # of the excerpt in a terminal
PAGE_EXCERPT_FACTOR = 3  # the excerpt on a page is this many times longer
RANK_BLOCK_SIZE = 64  # neurons whose ranks are computed together

PositionValues: TypeAlias = Bool[np.ndarray, " positions"] | Float[np.ndarray, " positions"]


class ActivationSource(Protocol):
    """The activations of neurons at the positions of a text."""

    @property
    def num_neurons(self) -> int:
        """The number of neurons."""

    @property
    def warmup_tokens(self) -> int:
        """The number of tokens at the beginning that have no activations."""

    def neuron_name(self, neuron: int) -> str:
        """Return the display name of a neuron."""

    def read_activations(
        self, positions: Int[np.ndarray, " positions"], neurons: Sequence[int] | None = None
    ) -> Float[np.ndarray, "positions neurons"]:
        """Return the activations of neurons (None: all) at positions of the text."""


@dataclass(frozen=True)
class _SplitText:
    """A text with the positions for selection and for scoring."""

    reader: ActivationSource
    text: str
    spans: list[Span]
    selection_positions: Int[np.ndarray, " positions"]
    scoring_positions: Int[np.ndarray, " positions"]
    top: int


@dataclass(frozen=True)
class _Selection:
    """The best neurons for a property, and the best association for each shift of it."""

    neurons: Int[np.ndarray, " top"]
    associations: Float[np.ndarray, " top"]
    null_scores: Float[np.ndarray, " shifts"]


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
    """Find the `top` neurons for each property, scored on text that was not used to select them.

    The model does not read `preceding_text`, but a property may depend on it. A token has the value
    of its last character. `window` is the context length of a Transformer.
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
    """Do what `find_neurons` does, for any source of activations."""
    _check_search(spans, properties, top)
    parts = np.array_split(np.arange(reader.warmup_tokens, len(spans)), NUM_PARTS)
    halves = np.concatenate(parts[::2]), np.concatenate(parts[1::2])
    split_text = _SplitText(reader, text, spans, *halves, min(top, reader.num_neurons))
    ends = np.asarray([end - 1 for _, end in spans]) + len(preceding_text)
    values = {prop: prop.compute_values(preceding_text + text)[ends] for prop in properties}
    varying = {
        prop: v for prop, v in values.items() if all((v[h] != v[h[0]]).any() for h in halves)
    }
    return NeuronSearch(
        num_neurons=reader.num_neurons,
        num_selection_tokens=len(split_text.selection_positions),
        num_scoring_tokens=len(split_text.scoring_positions),
        num_shifts=NUM_SHIFTS,
        unit="tokens" if any(end - start > 1 for start, end in spans) else "characters",
        properties=_score_properties(split_text, varying, np.random.default_rng(seed)),
        constant_properties=[prop.name for prop in values if prop not in varying],
    )


def _check_search(spans: list[Span], properties: Sequence[Property], top: int) -> None:
    if len(spans) < MIN_TOKENS:
        raise UserError(
            f"the text has {len(spans):,} tokens: at least {MIN_TOKENS} are needed, to select "
            "cells on one half and to score them on the other"
        )
    names = [prop.name for prop in properties]
    if duplicates := {name for name in names if names.count(name) > 1}:
        raise UserError(f"two properties are called {min(duplicates)!r}: rename one of them")
    if top < 1:
        raise UserError(f"top = {top}: expected at least 1")


def _score_properties(
    split_text: _SplitText, values: dict[Property, CharacterValues], generator: np.random.Generator
) -> list[PropertyNeurons]:
    if not values:
        return []
    selections = _select_neurons(split_text, values, generator)
    neurons = sorted({int(n) for selection in selections.values() for n in selection.neurons})
    activations = split_text.reader.read_activations(split_text.scoring_positions, neurons)
    activations = activations.astype(np.float64)
    return [
        _score_property(split_text, prop, values[prop], selections[prop], neurons, activations)
        for prop in values
    ]


def _select_neurons(
    split_text: _SplitText, values: dict[Property, CharacterValues], generator: np.random.Generator
) -> dict[Property, _Selection]:
    """Select the neurons with the strongest association on the selection half."""
    half = split_text.selection_positions
    positions = half
    max_positions = max(MAX_ACTIVATIONS // split_text.reader.num_neurons, MIN_TOKENS)
    if len(positions) > max_positions:
        positions = np.sort(generator.choice(positions, max_positions, replace=False))
    activations = split_text.reader.read_activations(positions)
    indices = np.searchsorted(half, positions)
    min_shift = len(half) // MIN_SHIFT_DIVISOR
    shifts = generator.integers(min_shift, len(half) - min_shift, NUM_SHIFTS)
    selections = {}
    for use_ranks in (True, False):
        group = [prop for prop, v in values.items() if (v.dtype == bool) is use_ranks]
        if not group:
            continue
        normalized = normalize_activations(activations, use_ranks=use_ranks)
        for prop in group:
            contrast = build_contrast(values[prop][positions]).astype(normalized.dtype)
            association = normalized.T @ contrast
            best = np.argsort(-np.abs(association), kind="stable")[: split_text.top]
            null_scores = compute_null_distribution(normalized, values[prop][half], indices, shifts)
            selections[prop] = _Selection(best, association[best], null_scores)
    return selections


def _score_property(
    split_text: _SplitText,
    text_property: Property,
    values: CharacterValues,
    selection: _Selection,
    neurons: list[int],
    activation_matrix: Float[np.ndarray, "scoring selected"],
) -> PropertyNeurons:
    """Score the selected neurons on the scoring half, and choose an excerpt of it."""
    scored_values = values[split_text.scoring_positions]
    is_binary = scored_values.dtype == bool
    excerpt = _select_excerpt(split_text, scored_values)
    columns = [neurons.index(int(neuron)) for neuron in selection.neurons]
    # A neuron that is inverted on the scoring half only gets a negative score.
    scores = compute_association(activation_matrix[:, columns], scored_values)
    scores = scores * np.sign(selection.associations)
    results = []
    for k, column in enumerate(columns):
        activations = activation_matrix[:, column]
        midpoint = activations.mean()
        if is_binary:
            means = activations[scored_values].mean(), activations[~scored_values].mean()
            midpoint = sum(means) / 2
        num_better = (selection.null_scores >= scores[k]).sum()
        results.append(
            NeuronScore(
                neuron=split_text.reader.neuron_name(int(selection.neurons[k])),
                is_inverted=bool(selection.associations[k] < 0),
                selection_score=_to_metric(abs(selection.associations[k]), is_binary),
                score=_to_metric(scores[k], is_binary),
                p_value=float(1 + num_better) / (1 + len(selection.null_scores)),
                activations=activations[excerpt].tolist(),
                midpoint=float(midpoint),
                spread=float(np.quantile(np.abs(activations - midpoint), 0.98)),
            )
        )
    chance_level = float(np.quantile(selection.null_scores, 1 - SIGNIFICANCE_LEVEL))
    return PropertyNeurons(
        name=text_property.name,
        description=text_property.description,
        metric="AUC" if is_binary else "r",
        prevalence=float(scored_values.mean()) if is_binary else None,
        chance_level=_to_metric(chance_level, is_binary),
        neurons=results,
        excerpt=_build_excerpt(split_text, excerpt, scored_values),
    )


def _to_metric(association: float, is_binary: bool) -> float:
    return float((1 + association) / 2 if is_binary else association)


def _select_excerpt(
    split_text: _SplitText, scored_values: CharacterValues
) -> Int[np.ndarray, " excerpt"]:
    """Return indices of scoring positions where the property varies most, from a line start on."""
    positions, spans = split_text.scoring_positions, split_text.spans
    num_characters = max(spans[-1][1] - spans[0][0], 1)
    length = max(len(spans) * EXCERPT_CHARACTERS // num_characters, 1)
    length = min(length, len(positions) // NUM_PARTS)
    starts = np.arange(len(positions) - length + 1)
    is_contiguous = positions[starts + length - 1] - positions[starts] == length - 1
    starts = starts[is_contiguous]
    line_starts = [
        k for k in starts.tolist() if _is_line_start(split_text.text, spans[positions[k]][0])
    ]
    starts = np.asarray(line_starts or starts)
    sums, squares = (
        np.concatenate(([0.0], np.cumsum(scored_values.astype(float) ** n))) for n in (1, 2)
    )
    means = (sums[starts + length] - sums[starts]) / length
    variances = (squares[starts + length] - squares[starts]) / length - means**2
    start = starts[int(variances.argmax())]
    indices = np.arange(start, min(start + PAGE_EXCERPT_FACTOR * length, len(positions)))
    indices = indices[positions[indices] - positions[start] == indices - start]
    # If several tokens are the bytes of one character, only the last has seen all of it.
    ends = [spans[position][1] for position in positions[indices].tolist()]
    next_starts = [spans[position][0] for position in positions[indices[1:]].tolist()]
    is_last_token = np.asarray([*next_starts, ends[-1]]) >= np.asarray(ends)
    excerpt: Int[np.ndarray, " excerpt"] = indices[is_last_token]
    return excerpt


def _is_line_start(text: str, position: int) -> bool:
    return text[position - 1] == "\n" and not text[position].isspace()


def _build_excerpt(
    split_text: _SplitText, indices: Int[np.ndarray, " excerpt"], scored_values: CharacterValues
) -> Excerpt:
    positions = split_text.scoring_positions[indices].tolist()
    spans = [split_text.spans[position] for position in positions]
    start, end = spans[0][0], spans[-1][1]
    marked = np.flatnonzero(scored_values[indices]).tolist() if scored_values.dtype == bool else []
    return Excerpt(split_text.text[start:end], [(a - start, b - start) for a, b in spans], marked)


def compute_association(
    activations: Float[np.ndarray, "positions neurons"], values: PositionValues
) -> Float[np.ndarray, " neurons"]:
    """Return how well each neuron tracks a property, from −1 (inverted) to 1; 0: not at all.

    For booleans it is 2 · AUC − 1, where ties count half; for numbers, Pearson's correlation.

    >>> activations = np.array([[0.1, 5.0], [0.7, 1.0], [0.9, 1.0]])
    >>> compute_association(activations, np.array([False, True, True]))
    array([ 1., -1.])
    """
    normalized = normalize_activations(activations, use_ranks=values.dtype == bool)
    association: Float[np.ndarray, " neurons"] = normalized.T @ build_contrast(values)
    return association


def normalize_activations(
    activations: Float[np.ndarray, "positions neurons"], *, use_ranks: bool
) -> Float[np.ndarray, "positions neurons"]:
    """Return centered ranks, or centered activations of norm 1, of each neuron."""
    if use_ranks:
        return compute_centered_ranks(activations)
    centered = activations - activations.mean(0)
    norms = np.sqrt(np.square(centered).sum(0))
    normalized: Float[np.ndarray, "positions neurons"] = centered / np.where(norms > 0, norms, 1)
    return normalized


def build_contrast(values: PositionValues) -> Float[np.ndarray, " positions"]:
    """Return the vector whose dot product with normalized activations is their association.

    It is zero if all values are equal.
    """
    if values.dtype == bool:
        share = values.mean()
        return values * (2 / (len(values) * share * (1 - share)) if 0 < share < 1 else 0.0)
    centered = values - values.mean()
    norm = np.sqrt(np.square(centered).sum())
    contrast: Float[np.ndarray, " positions"] = centered / (norm or 1)
    return contrast


def compute_centered_ranks(
    activations: Float[np.ndarray, "positions neurons"],
) -> Float[np.ndarray, "positions neurons"]:
    """Return the ranks of each neuron's activations, from −½ to ½; ties share their mean rank.

    >>> compute_centered_ranks(np.array([[3.0], [1.0], [3.0], [8.0]])).T
    array([[ 0.   , -0.375,  0.   ,  0.375]])
    """
    num_positions, num_neurons = activations.shape
    ranks = np.empty_like(activations)
    for first in range(0, num_neurons, RANK_BLOCK_SIZE):
        # One neuron per row, so that sorting reads contiguous memory.
        block = np.ascontiguousarray(activations[:, first : first + RANK_BLOCK_SIZE].T)
        order = np.argsort(block, axis=1)
        mean_ranks = _average_ties(np.take_along_axis(block, order, 1))
        centered = (mean_ranks - (num_positions - 1) / 2) / num_positions
        np.put_along_axis(block, order, centered, 1)
        ranks[:, first : first + RANK_BLOCK_SIZE] = block.T
    return ranks


def _average_ties(
    sorted_values: Float[np.ndarray, "neurons positions"],
) -> Float[np.ndarray, "neurons positions"]:
    """Return the mean index of the run of equal values that each value belongs to."""
    count = sorted_values.shape[1]
    indices = np.arange(count)
    is_first = np.ones(sorted_values.shape, bool)
    is_first[:, 1:] = sorted_values[:, 1:] != sorted_values[:, :-1]
    is_last = np.ones(sorted_values.shape, bool)
    is_last[:, :-1] = is_first[:, 1:]
    starts = np.maximum.accumulate(np.where(is_first, indices, 0), axis=1)
    ends = np.minimum.accumulate(np.where(is_last, indices, count)[:, ::-1], axis=1)[:, ::-1]
    means: Float[np.ndarray, "neurons positions"] = (starts + ends) / 2
    return means


def compute_null_distribution(
    normalized: Float[np.ndarray, "sample neurons"],
    values: PositionValues,
    positions: np.ndarray,
    shifts: np.ndarray,
) -> Float[np.ndarray, " shifts"]:
    """Return the strongest association of any neuron with each circular shift of a property.

    A shifted property keeps its autocorrelation and loses only its relation to the text.
    `normalized` are normalized activations at `positions` of the text.
    """
    contrasts = np.empty((len(positions), len(shifts)), normalized.dtype)
    for k, shift in enumerate(shifts):
        contrasts[:, k] = build_contrast(np.roll(values, shift)[positions])
    best: Float[np.ndarray, " shifts"] = np.abs(normalized.T @ contrasts).max(0)
    return best
