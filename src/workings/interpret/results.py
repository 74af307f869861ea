"""Results of interpreting a model, as plain data: numpy is enough to read and render them."""

from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
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

Weights = NDArray[np.float32]
ROUNDING_TOLERANCE = 1e-5  # relative to the largest activation: sums in another order differ

# -- attention ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class HeadIndex:
    """One attention head of a model; layer and head are counted from 1.

    >>> str(HeadIndex("encoder", layer=2, head=3))
    'layer 2, head 3'
    """

    part: str
    """encoder, decoder or cross"""
    layer: int
    head: int

    def __str__(self) -> str:
        return f"layer {self.layer}, head {self.head}"


@dataclass(frozen=True)
class HeadMap:
    """The attention weights of one head, or the mean of several: [rows, columns]."""

    name: str
    weights: Sequence[Sequence[float]]
    index: HeadIndex | None = None
    """which head it is; None for a mean"""


@dataclass(frozen=True)
class AttentionMaps(Renderable):
    """Heads with the same queries (rows) and keys (columns)."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    maps: Sequence[HeadMap]
    truncated_characters: int = 0
    """characters at the end of the text that were not read"""
    is_alignment: bool = False
    """rows are tokens of the target, columns of the source"""

    def to_dict(self) -> dict[str, Any]:
        """Return the maps as a dictionary for JSON."""
        return {
            "rows": list(self.rows),
            "columns": list(self.columns),
            "maps": [
                {
                    "name": head_map.name,
                    "weights": [[round(w, 6) for w in row] for row in head_map.weights],
                }
                for head_map in self.maps
            ],
        }


@dataclass(frozen=True, eq=False)
class AttentionStack:
    """The attention weights of one part of a model: all layers and heads."""

    part: str
    """encoder, decoder, cross, or another name for weights that were computed from these"""
    label: str
    """the part as a message calls it"""
    query_tokens: Sequence[str]
    """the token that the model reads at each row"""
    key_tokens: Sequence[str]
    weights: Sequence[Weights]
    """by layer: [heads, queries, keys]"""
    is_causal: bool = False
    token_slice: slice = field(default_factory=lambda: slice(None))
    """the rows and columns that are not padding"""
    output_tokens: Sequence[str] = ()
    """the token that a sequence-to-sequence model generates at each row"""
    is_multi_head: bool = True
    """False for the attention of a recurrent decoder and for a mean: they have no heads"""

    @property
    def num_layers(self) -> int:
        return len(self.weights)

    @property
    def num_heads(self) -> int:
        return len(self.weights[0])

    def head_weights(self, layer: int, head: int) -> Weights:
        """Return the weights of one head, [queries, keys]."""
        if not (1 <= layer <= self.num_layers and 1 <= head <= self.num_heads):
            index = HeadIndex(self.part, layer, head)
            sizes = f"{self.num_layers} layers of {self.num_heads} heads"
            raise UserError(f"{index}: there are {sizes}, counted from 1")
        weights: Weights = self.weights[layer - 1][head - 1]
        return weights

    def head_name(self, layer: int, head: int) -> str:
        """Return the display name of a head: layer and head, or the label if there are no heads."""
        return str(HeadIndex(self.part, layer, head)) if self.is_multi_head else self.label

    def select(
        self, layers: Collection[int] = (), heads: Collection[int] = ()
    ) -> dict[HeadIndex, Weights]:
        """Return the weights of some heads by index; no layers or no heads mean all of them."""
        check_index("layer", layers, self.num_layers)
        check_index("head", heads, self.num_heads)
        return {
            HeadIndex(self.part, layer, head): weights
            for layer, layer_weights in enumerate(self.weights, start=1)
            for head, weights in enumerate(layer_weights, start=1)
            if (not layers or layer in layers) and (not heads or head in heads)
        }

    def mean(self, layers: Collection[int] = (), heads: Collection[int] = ()) -> Weights:
        """Return the mean weights of some heads, [queries, keys]; none means all of them."""
        mean: Weights = np.mean(np.stack(list(self.select(layers, heads).values())), axis=0)
        return mean

    def without_padding(self) -> "AttentionStack":
        """Return the stack without the rows and columns of padding."""
        tokens = self.token_slice
        return replace(
            self,
            query_tokens=self.query_tokens[tokens],
            key_tokens=self.key_tokens[tokens],
            weights=[layer[:, tokens, tokens] for layer in self.weights],
            token_slice=slice(None),
        )

    def to_head_maps(
        self, layers: Collection[int] = (), heads: Collection[int] = ()
    ) -> list[HeadMap]:
        """Return one map per head."""
        return [
            HeadMap(
                self.head_name(index.layer, index.head),
                to_float_rows(weights),
                index if self.is_multi_head else None,
            )
            for index, weights in self.select(layers, heads).items()
        ]


@dataclass(frozen=True, eq=False)
class AttentionStacks:
    """The attention weights of one forward pass over one input."""

    stacks: Sequence[AttentionStack]
    source_text: str = ""
    """empty if the source is an image"""
    target_text: str | None = None
    """the translation or caption that the decoder was given"""
    source_pieces: Sequence[str] = ()
    """the text that each source token adds, with the spaces between words"""
    target_pieces: Sequence[str] = ()
    truncated_characters: int = 0
    logits: NDArray[np.float32] | None = None
    """of the classes, or of the token after the text; None for sequence-to-sequence models"""
    target_probabilities: Sequence[float] = ()
    """of each token of the target, given those before it"""
    taps: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    """further values of the pass, by path"""

    def __getitem__(self, part: str) -> AttentionStack:
        for stack in self.stacks:
            if stack.part == part:
                return stack
        parts = ", ".join(stack.part for stack in self.stacks) or "none"
        raise UserError(f"part {part!r}: this model has no such attention; it has {parts}")

    def __iter__(self) -> Iterator[AttentionStack]:
        return iter(self.stacks)

    def __len__(self) -> int:
        return len(self.stacks)


def check_index(name: str, indices: Collection[int], count: int) -> None:
    """Raise UserError if the model has no layer or head with one of these numbers."""
    for number in indices:
        if not 1 <= number <= count:
            raise UserError(f"{name} {number}: this model has {count}, counted from 1")


def to_float_rows(weights: Weights) -> "list[array[float]]":
    """Return a matrix as C arrays, which take an eighth of the memory of lists of floats."""
    return [array("f", row) for row in weights.tolist()]


@dataclass(frozen=True, eq=False)
class CaptionAttention(Renderable):
    """An image, its caption, and the attention of each word to the image."""

    image: NDArray[np.uint8]  # [height, width, 3]
    words: Sequence[str]
    weights: NDArray[np.floating] | None  # [words, rows, columns]; those of a word sum to 1
    log_probability: float  # natural logarithm, of the whole caption
    name: str

    def __post_init__(self) -> None:
        shape = np.shape(self.image)
        if len(shape) != 3 or shape[2] != 3 or 0 in shape or self.image.dtype != np.uint8:
            raise UserError(f"expected an image of bytes [height, width, 3], got {list(shape)}")
        if self.weights is None:
            return
        shape = np.shape(self.weights)
        if len(shape) != 3 or len(self.words) != shape[0] or 0 in shape[1:]:
            count = len(self.words)
            raise UserError(f"expected weights [{count} words, rows, columns], got {list(shape)}")
        if not np.isfinite(self.weights).all() or (self.weights < 0).any():
            raise UserError("expected finite weights that are not negative")

    @property
    def caption(self) -> str:
        """The words as one line of text."""
        return to_one_line(" ".join(self.words)) or "(no words)"

    def to_dict(self) -> dict[str, Any]:
        """Return the caption and its weights, without the image, as a dictionary for JSON."""
        return {
            "name": self.name,
            "words": list(self.words),
            "log_probability": self.log_probability,
            "weights": None if self.weights is None else self.weights.tolist(),
        }


# -- positions ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PositionVectors:
    """The positional encoding of a model's first positions."""

    description: str
    vectors: NDArray[np.float32]  # [positions, width]
    dot_products: NDArray[np.float32]  # [positions, positions]


@dataclass(frozen=True, eq=False)
class LayerDifference:
    """The distance of f(P X) from P f(X) after a layer, for each token."""

    name: str
    differences: NDArray[np.float32]  # largest of each token
    max_activation: float

    @property
    def max_difference(self) -> float:
        """The largest |f(P X) − P f(X)|."""
        return float(self.differences.max())

    @property
    def is_rounding(self) -> bool:
        """True if the differences can be explained by rounding."""
        return self.max_difference <= ROUNDING_TOLERANCE * self.max_activation


@dataclass(frozen=True, eq=False)
class PermutationResult:
    """A model on a text and on its permuted tokens: position i has token `order[i]`."""

    tokens: Sequence[str]
    order: Sequence[int]
    layers: Sequence[LayerDifference]
    expected_weights: Sequence[Weights]
    """attention weights on the text, permuted: P A(X) Pᵀ; by layer, [heads, queries, keys]"""
    permuted_weights: Sequence[Weights]
    """attention weights on the permuted text: A(P X)"""
    class_probabilities: tuple[Mapping[str, float], Mapping[str, float]] | None
    """of a classifier, by label: on the text and on the permuted text"""
    is_causal: bool
    position_encoding: str
    """sinusoidal, learned, rotary or none"""


# -- attribution -------------------------------------------------------------------------------


@dataclass(frozen=True)
class TokenAttributions:
    """One number per token: its contribution to the prediction, by one method."""

    method: str
    """occlusion, gradient or attention"""
    values: list[float]
    """positive values speak for the label; those of attention are never negative"""
    description: str
    """what the numbers are, in one line"""
    is_signed: bool = True
    """False if no value can be negative"""
    window: int = 1
    """number of adjacent tokens that were measured together"""
    layers: list[list[float]] = field(default_factory=list)
    """the values of each layer, if `values` is the mean of several"""


@dataclass(frozen=True)
class Attribution(Renderable):
    """The prediction of a classifier for a text, attributed to its tokens."""

    input_text: str
    spans: "list[Span]"
    """of each token that the model read: `input_text[start:end]`"""
    unknown_tokens: list[int]
    """indices of the tokens that are not in the vocabulary"""
    truncated_characters: int
    """characters at the end of the text that were not read"""
    label: str
    runner_up: str
    """the second most probable class, or not having the label, if a text may have several: signed
    values speak for the label and against this"""
    margin: float
    """logit of the label minus that of the runner-up: the logarithm of their odds"""
    probabilities: dict[str, float]
    token_attributions: list[TokenAttributions]
    unit: str = "token"
    """word, character or token"""

    def __getitem__(self, method: str) -> TokenAttributions:
        return {a.method: a for a in self.token_attributions}[method]

    def to_dict(self) -> dict[str, Any]:
        """Return the attribution as a dictionary for JSON."""
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
                    "method": attributions.method,
                    "description": attributions.description,
                    "window": attributions.window,
                    "values": [_round_finite(value) for value in attributions.values],
                    "layers": [
                        [_round_finite(value) for value in layer] for layer in attributions.layers
                    ],
                }
                for attributions in self.token_attributions
            ],
        }


def _round_finite(value: float) -> float | None:
    return round(value, 6) if isfinite(value) else None


# -- neurons -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class NeuronScore:
    """A neuron that was selected on one half of a text and scored on the other."""

    neuron: str
    is_inverted: bool
    """its activation is lower where the property holds or is larger"""
    selection_score: float
    """on the half where it was selected"""
    score: float
    """on the other half, with the sign of the selection: below chance if the sign differs"""
    p_value: float
    """share of shifted properties that some neuron tracks at least as well"""
    activations: list[float]
    """at each token of the excerpt"""
    midpoint: float
    """between the mean activations with and without the property; the mean if it is a number"""
    spread: float
    """98 % of the activations are at most this far from the midpoint"""


@dataclass(frozen=True)
class Excerpt:
    """A passage of the half of the text on which neurons were scored."""

    text: str
    spans: "list[Span]"
    marked_tokens: list[int]
    """indices of the tokens where the property holds"""


@dataclass(frozen=True)
class PropertyNeurons:
    """A property, and the neurons that track it best."""

    name: str
    description: str
    metric: Literal["AUC", "r"]
    prevalence: float | None
    """share of the tokens where the property holds; None for a number"""
    chance_level: float
    """score that the best neuron stays below for 95 % of the shifted properties"""
    neurons: list[NeuronScore]
    excerpt: Excerpt


@dataclass(frozen=True)
class NeuronSearch(Renderable):
    """The neurons that track each property of a text."""

    num_neurons: int
    num_selection_tokens: int
    num_scoring_tokens: int
    num_shifts: int
    unit: Literal["characters", "tokens"]
    properties: list[PropertyNeurons]
    constant_properties: list[str]
    """properties that do not vary on one of the halves"""

    def __getitem__(self, name: str) -> PropertyNeurons:
        return {prop.name: prop for prop in self.properties}[name]

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers, without the text, as a dictionary for JSON."""
        return {
            "num_neurons": self.num_neurons,
            "unit": self.unit,
            "num_selection_tokens": self.num_selection_tokens,
            "num_scoring_tokens": self.num_scoring_tokens,
            "num_shifts": self.num_shifts,
            "properties": [
                {
                    "name": prop.name,
                    "description": prop.description,
                    "metric": prop.metric,
                    "prevalence": prop.prevalence,
                    "chance_level": round(prop.chance_level, 4),
                    "neurons": [
                        {
                            "neuron": neuron.neuron,
                            "is_inverted": neuron.is_inverted,
                            "selection_score": round(neuron.selection_score, 4),
                            "score": round(neuron.score, 4),
                            "p_value": round(neuron.p_value, 4),
                        }
                        for neuron in prop.neurons
                    ],
                }
                for prop in self.properties
            ],
            "constant_properties": self.constant_properties,
        }


# -- gates -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GateSignal:
    """A gate or state of some units of a recurrent layer, over time."""

    name: str
    is_signed: bool
    """False for gates, which lie between 0 and 1"""
    values: list[list[float]]
    """one row per unit, one column per token"""


@dataclass(frozen=True)
class GateActivations(Renderable):
    """The gates and states of a recurrent layer at each token of a text."""

    layer: str
    num_units: int
    """of the layer"""
    tokens: list[str]
    units: list[int]
    """indices of those that are listed, from 0"""
    signals: list[GateSignal]

    def to_dict(self) -> dict[str, Any]:
        """Return the activations as a dictionary for JSON; units count from 1."""
        return {
            "layer": self.layer,
            "num_units": self.num_units,
            "tokens": self.tokens,
            "units": [unit + 1 for unit in self.units],
            "signals": {
                signal.name: [[round(v, 6) for v in row] for row in signal.values]
                for signal in self.signals
            },
        }


# -- gradients ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class GradientNorms:
    """The mean gradient norm of a model's loss by lag."""

    model: str
    with_respect_to: str
    norms: list[float]
    """at lag 0, 1, 2, … in tokens"""


@dataclass(frozen=True)
class SpectralRadius:
    """The largest absolute eigenvalue of a recurrent matrix."""

    model: str
    layer: int
    matrix: str
    value: float


@dataclass(frozen=True)
class GradientReport(Renderable):
    """The gradient norms and spectral radii of several models."""

    gradients: list[GradientNorms]
    spectral_radii: list[SpectralRadius]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a dictionary for JSON."""
        return asdict(self)


# -- translators, texts ------------------------------------------------------------------------


@dataclass(frozen=True)
class TranslatorScores:
    """The scores of one translator, overall and by source length, and against the first one."""

    name: str
    scores: "CorpusScores"
    buckets: "Sequence[LengthBucket]"
    against_first: "Comparison | None"
    training_overlap: int | None = 0
    """number of test pairs that it was trained on; None if its data are not available"""


@dataclass(frozen=True)
class TranslatorComparison(Renderable):
    """Several translators on the same sentences."""

    data: str
    num_sentences: int
    translators: Sequence[TranslatorScores]

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as a dictionary for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class VectorizedText:
    """A text at each step from characters to embeddings."""

    text: str
    standardized: str
    tokens: list[str]
    """with the unknown token for those that are not in the vocabulary"""
    ids: list[int]
    vectors: list[list[float]]
    """the first dimensions of each token's embedding"""
    width: int
    """number of dimensions of an embedding"""
