"""An explanation as plain data: a text, and for each way of asking one number a token."""

from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Literal

from workings.data.tokenizers.base import Span


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
class Attribution:
    """What a model made of a text, and which tokens it was."""

    text: str
    spans: list[Span]
    """where each token that the model read stands: `text[start:end]`"""
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
            "text": self.text,
            "label": self.label,
            "runner_up": self.runner_up,
            "margin": _round_finite(self.margin),
            "probabilities": {name: _round_finite(p) for name, p in self.probabilities.items()},
            "tokens": [
                {"text": self.text[a:b], "start": a, "end": b, "is_unknown": k in unknown}
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

    def to_text(self, *, width: int | None = None, color: bool = False) -> str:
        """Write it for a terminal."""
        from workings.render import attribution

        return attribution.render_text(self, width=width, color=color)

    def to_html(self) -> str:
        """Write it as one HTML file that needs nothing else."""
        from workings.render import attribution

        return attribution.render_page(self)

    def _repr_html_(self) -> str:
        from workings.render import attribution

        return attribution.render_fragment(self)


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
    spans: list[Span]
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
class NeuronSearch:
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

    def to_text(self, *, width: int | None = None, color: bool = False) -> str:
        """Write it for a terminal."""
        from workings.render import neurons

        return neurons.render_text(self, width=width, color=color)

    def to_html(self) -> str:
        """Write it as one HTML file that needs nothing else."""
        from workings.render import neurons

        return neurons.render_page(self)

    def _repr_html_(self) -> str:
        from workings.render import neurons

        return neurons.render_fragment(self)
