"""Results of looking into a model, as plain data: torch is not needed to read or render them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from workings.display import Renderable
from workings.errors import UserError
from workings.plain_text import to_one_line

if TYPE_CHECKING:
    from workings.data.tokenizers.base import Span
    from workings.metrics.bleu import CorpusScores
    from workings.metrics.bootstrap import Comparison
    from workings.metrics.by_length import LengthBucket


@dataclass(frozen=True)
class HeadMap:
    """One head: how much each token of a row looks at each token of a column."""

    name: str
    weights: Sequence[Sequence[float]]


@dataclass(frozen=True)
class AttentionMaps(Renderable):
    """Heads that looked at the same: rows are what looks, columns what is looked at."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    maps: Sequence[HeadMap]
    truncated_characters: int = 0
    """how many characters at the end of the text were not read"""
    is_alignment: bool = False
    """whether the rows are of another text than the columns, written about it"""

    def to_dict(self) -> dict[str, Any]:
        """Take it apart into what JSON can hold."""
        return {
            "rows": list(self.rows),
            "columns": list(self.columns),
            "maps": [
                {"name": one.name, "weights": [[round(w, 6) for w in row] for row in one.weights]}
                for one in self.maps
            ],
        }


@dataclass(frozen=True, eq=False)
class CaptionAttention(Renderable):
    """A picture and the words that a model wrote about it."""

    image: NDArray[np.uint8]  # [height, width, 3]
    words: Sequence[str]
    weights: NDArray[np.floating] | None  # [words, rows, columns], a word's sum to one
    log_probability: float  # of the whole caption, natural
    name: str

    def __post_init__(self) -> None:
        shape = np.shape(self.image)
        if len(shape) != 3 or shape[2] != 3 or 0 in shape or self.image.dtype != np.uint8:
            raise UserError(f"expected a picture of bytes [height, width, 3], got {list(shape)}")
        if self.weights is None:
            return
        shape = np.shape(self.weights)
        if len(shape) != 3 or len(self.words) != shape[0] or 0 in shape[1:]:
            count = len(self.words)
            raise UserError(f"expected weights [{count} words, rows, columns], got {list(shape)}")
        if not np.isfinite(self.weights).all() or (self.weights < 0).any():
            raise UserError("expected weights of zero or more")

    @property
    def caption(self) -> str:
        """The words as a line of text."""
        return to_one_line(" ".join(self.words)) or "(no words)"

    def word_attention(self) -> "list[WordAttention]":
        """Where the model looked, a look a word; none where that is not known."""
        if self.weights is None:
            return []
        return [
            WordAttention(to_one_line(w), g) for w, g in zip(self.words, self.weights, strict=True)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Take it apart into what JSON can hold, without the picture."""
        return {
            "name": self.name,
            "words": list(self.words),
            "log_probability": self.log_probability,
            "weights": None if self.weights is None else self.weights.tolist(),
        }


@dataclass(frozen=True, eq=False)
class WordAttention:
    """A word, and how much the model looked at each part of the picture for it."""

    word: str  # printable
    weights: NDArray[np.floating]

    @property
    def max_weight(self) -> float:
        return float(self.weights.max())

    @property
    def peak_cell(self) -> tuple[int, int]:
        """Row and column of the largest weight, from 0."""
        row, column = np.unravel_index(int(self.weights.argmax()), self.weights.shape)
        return int(row), int(column)

    @property
    def location(self) -> str:
        """Say where the largest weight lies.

        >>> WordAttention("sky", np.array([[0.9, 0.0], [0.1, 0.0]])).location
        'top left'
        >>> WordAttention("the", np.array([[0.3, 0.2], [0.3, 0.2]])).location
        'all over'
        """
        if not self.is_localized:
            return "all over"
        names = (("top", "", "bottom"), ("left", "", "right"))
        sides = (
            some[int(3 * (place + 0.5) / count)]
            for some, place, count in zip(names, self.peak_cell, self.weights.shape, strict=True)
        )
        return " ".join(filter(None, sides)) or "middle"

    @property
    def peak_box(self) -> tuple[float, float, float, float] | None:
        """Where the largest weight's cell lies, if it is a place: x, y, width and height of 1."""
        tall, wide = self.weights.shape
        row, column = self.peak_cell
        return (column / wide, row / tall, 1 / wide, 1 / tall) if self.is_localized else None

    @property
    def is_localized(self) -> bool:
        """Whether the largest weight stands out."""
        return self.max_weight >= 1.5 * float(self.weights.mean())

    @property
    def cells_with_half_weight(self) -> int:
        """How many cells it takes, the largest first, to have half of the weight."""
        falling = np.sort(self.weights, axis=None)[::-1]
        return int((falling.cumsum() < falling.sum() / 2).sum()) + 1

    @property
    def summary(self) -> str:
        """Say how much it was looked at, and where."""
        return f"{self.max_weight:.2f} {self.location}"


@dataclass(frozen=True)
class TokenAttributions:
    """How much each token had to do with the answer, by one way of asking."""

    method: str
    """occlusion, gradient or attention"""
    values: list[float]
    """one for each token; above zero: it speaks for the label (attention: never below)"""
    description: str
    """what the numbers are, in a line"""
    is_signed: bool = True
    """whether a token can speak against the label"""
    window: int = 1
    """how many neighbouring tokens were asked about together"""
    layers: list[list[float]] = field(default_factory=list)
    """the same layer by layer, where `values` is the mean of several"""


@dataclass(frozen=True)
class Attribution(Renderable):
    """What a model made of a text, and which tokens it was."""

    input_text: str
    spans: "list[Span]"
    """where each token that the model read stands: `input_text[start:end]`"""
    unknown_tokens: list[int]
    """which of the tokens the vocabulary does not have"""
    truncated_characters: int
    """how many characters at the end of the text were not read"""
    label: str
    runner_up: str
    """the runner-up: a signed number speaks for the label and against this one"""
    margin: float
    """how far the label's score is above the runner-up's: the logarithm of their odds"""
    probabilities: dict[str, float]
    token_attributions: list[TokenAttributions]
    unit: str = "token"
    """what a person calls a token: word, character, …"""

    def __getitem__(self, method: str) -> TokenAttributions:
        return {shares.method: shares for shares in self.token_attributions}[method]

    def to_dict(self) -> dict[str, Any]:
        """Take it apart into what JSON can hold."""
        unknown = set(self.unknown_tokens)
        return {
            "text": self.input_text,
            "label": self.label,
            "runner_up": self.runner_up,
            "margin": _round_finite(self.margin),
            "probabilities": {name: _round_finite(p) for name, p in self.probabilities.items()},
            "tokens": [
                {"text": self.input_text[a:b], "start": a, "end": b, "is_unknown": k in unknown}
                for k, (a, b) in enumerate(self.spans)
            ],
            "truncated_characters": self.truncated_characters,
            "token_attributions": [
                {
                    "method": shares.method,
                    "description": shares.description,
                    "window": shares.window,
                    "values": [_round_finite(value) for value in shares.values],
                    "layers": [
                        [_round_finite(value) for value in layer] for layer in shares.layers
                    ],
                }
                for shares in self.token_attributions
            ],
        }


def _round_finite(value: float) -> float | None:
    return round(value, 6) if isfinite(value) else None


@dataclass(frozen=True)
class NeuronScore:
    """A cell that was chosen on some parts of a text and scored on others."""

    neuron: str
    is_inverted: bool
    """it falls where the property holds or grows"""
    selection_score: float
    """its score where it was chosen"""
    score: float
    """its score elsewhere; what it does there against its own direction counts below"""
    p_value: float
    """how often the best of all cells does as well on a text that the property is shifted round"""
    activations: list[float]
    """what it does at each token of the excerpt"""
    midpoint: float
    """between what it does where the property holds and where not; of numbers, the mean"""
    spread: float
    """how far it goes from there, but for a few places"""


@dataclass(frozen=True)
class Excerpt:
    """A piece of the text that cells were scored on."""

    text: str
    spans: "list[Span]"
    marked_tokens: list[int]
    """the tokens where the property holds"""


@dataclass(frozen=True)
class PropertyNeurons:
    """A property, and the cells that track it best."""

    name: str
    description: str
    metric: Literal["AUC", "r"]
    prevalence: float | None
    """of the tokens where it holds"""
    chance_level: float
    """what the best of all cells stays below on 95 of 100 shifted texts"""
    neurons: list[NeuronScore]
    excerpt: Excerpt


@dataclass(frozen=True)
class NeuronSearch(Renderable):
    """What was asked about the cells of a model, and what was found."""

    num_neurons: int
    num_selection_tokens: int
    num_scoring_tokens: int
    num_shifts: int
    unit: Literal["characters", "tokens"]
    properties: list[PropertyNeurons]
    constant_properties: list[str]
    """properties that are the same wherever cells are chosen, or wherever they are scored"""

    def __getitem__(self, name: str) -> PropertyNeurons:
        return {found.name: found for found in self.properties}[name]

    def to_dict(self) -> dict[str, Any]:
        """Take the figures apart into what JSON can hold; the text stays out of it."""
        return {
            "num_neurons": self.num_neurons,
            "unit": self.unit,
            "num_selection_tokens": self.num_selection_tokens,
            "num_scoring_tokens": self.num_scoring_tokens,
            "num_shifts": self.num_shifts,
            "properties": [
                {
                    "name": tracked.name,
                    "description": tracked.description,
                    "metric": tracked.metric,
                    "prevalence": tracked.prevalence,
                    "chance_level": round(tracked.chance_level, 4),
                    "neurons": [
                        {
                            "neuron": found.neuron,
                            "is_inverted": found.is_inverted,
                            "selection_score": round(found.selection_score, 4),
                            "score": round(found.score, 4),
                            "p_value": round(found.p_value, 4),
                        }
                        for found in tracked.neurons
                    ],
                }
                for tracked in self.properties
            ],
            "constant_properties": self.constant_properties,
        }


@dataclass(frozen=True)
class GradientNorms:
    """How large the gradients of a model are, by how far back they went."""

    model: str
    with_respect_to: str
    """what they are gradients with respect to"""
    norms: list[float]
    """0, 1, 2, … tokens back"""


@dataclass(frozen=True)
class SpectralRadius:
    """The largest eigenvalue of a recurrent matrix, by size."""

    model: str
    layer: int
    matrix: str
    value: float


@dataclass(frozen=True)
class GradientReport(Renderable):
    """The gradients of several models, side by side."""

    gradients: list[GradientNorms]
    spectral_radii: list[SpectralRadius]

    def to_dict(self) -> dict[str, Any]:
        """Take it apart into what JSON can hold."""
        return {
            "gradients": [vars(flow) for flow in self.gradients],
            "spectral_radii": [vars(radius) for radius in self.spectral_radii],
        }


@dataclass(frozen=True)
class TranslatorScores:
    """One translator: its scores, these by length of the source, and it against the first one."""

    name: str
    scores: "CorpusScores"
    buckets: "Sequence[LengthBucket]"
    against_first: "Comparison | None"
    training_overlap: int | None = 0
    """how many of these sentences' pairs it was trained on; None: its data are not there"""


@dataclass(frozen=True)
class TranslatorComparison(Renderable):
    """All of them, in the order in which they were given."""

    data: str
    num_sentences: int
    translators: Sequence[TranslatorScores]

    def to_dict(self) -> dict[str, Any]:
        """Take it apart into what JSON can hold."""
        return asdict(self)


@dataclass(frozen=True)
class VectorizedText:
    """What becomes of one text."""

    text: str
    standardized: str
    tokens: list[str]
    """as the model reads them: what is not in the vocabulary is the unknown token"""
    ids: list[int]
    vectors: list[list[float]]
    """the first few numbers of each token's"""
    width: int
    """how many there are"""
