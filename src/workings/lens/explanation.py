"""An explanation as plain data: a text, and for each way of asking one number a token."""

from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from workings.data.tokenizer import Span


@dataclass(frozen=True)
class Shares:
    """How much each token had to do with the answer, by one way of asking."""

    method: str
    """occlusion, gradient or attention"""
    values: list[float]
    """one for each token; above zero: it speaks for the label (attention: never below)"""
    what: str
    """what the numbers are, in a line"""
    signed: bool = True
    """whether a token can speak against the label"""
    window: int = 1
    """how many neighbouring tokens were asked about together"""
    layers: list[list[float]] = field(default_factory=list)
    """the same layer by layer, where `values` is the mean of several"""


@dataclass(frozen=True)
class Explanation:
    """What a model made of a text, and which tokens it was."""

    text: str
    spans: list[Span]
    """where each token that the model read stands: `text[start:end]`"""
    unknown: list[int]
    """which of the tokens the vocabulary does not have"""
    cut: int
    """how many characters at the end of the text were not read"""
    label: str
    against: str
    """the runner-up: a signed number speaks for the label and against this one"""
    lead: float
    """how far the label's score is above the runner-up's: the logarithm of their odds"""
    probabilities: dict[str, float]
    shares: list[Shares]
    unit: str = "token"
    """what a person calls a token: word, character, …"""

    def __getitem__(self, method: str) -> Shares:
        return {shares.method: shares for shares in self.shares}[method]

    def to_table(self) -> dict[str, Any]:
        """Take it apart into what JSON can hold."""
        unknown = set(self.unknown)
        return {
            "text": self.text,
            "label": self.label,
            "against": self.against,
            "lead": _number(self.lead),
            "probabilities": {name: _number(p) for name, p in self.probabilities.items()},
            "tokens": [
                {"text": self.text[a:b], "start": a, "end": b, "unknown": k in unknown}
                for k, (a, b) in enumerate(self.spans)
            ],
            "cut": self.cut,
            "shares": [
                {
                    "method": shares.method,
                    "what": shares.what,
                    "window": shares.window,
                    "values": [_number(value) for value in shares.values],
                    "layers": [[_number(value) for value in layer] for layer in shares.layers],
                }
                for shares in self.shares
            ],
        }

    def to_text(self, *, width: int | None = None, color: bool = False) -> str:
        """Write it for a terminal."""
        from workings.views import explained

        return explained.text(self, width=width, color=color)

    def to_html(self) -> str:
        """Write it as one HTML file that needs nothing else."""
        from workings.views import explained_html

        return explained_html.page(self)

    def _repr_html_(self) -> str:
        from workings.views import explained_html

        return explained_html.fragment(self)


def _number(value: float) -> float | None:
    return round(value, 6) if isfinite(value) else None
