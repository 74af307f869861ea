"""What writes a text about something: a sentence in another language, a picture.

`forward` reads whole texts, in training. `start` and `step` are what decoding asks: what it is
about in one pass, then a token at a time.
"""

from abc import ABC, abstractmethod
from typing import Any, Generic, Protocol, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workings.layers.dropout import Dropout
from workings.layers.vocabulary_loss import vocabulary_loss
from workings.recipes import WriterConfig
from workings.trace import tap

PAD, START = 0, 1  # of every tokenizer


class Condition(Protocol):
    """What is written about: a batch of it."""

    def starts(self) -> Int[Tensor, " batch"]:
        """A start token for each text to be written."""


About = TypeVar("About", bound=Condition)


class Writer(nn.Module, ABC, Generic[About]):
    """A vocabulary and what scores it; how it gets from one thing to the other is each kind's."""

    def __init__(self, config: WriterConfig, vocabulary: int) -> None:
        super().__init__()
        self.target_embedding = embedding_of(vocabulary, config.embedding)
        self.dropout = Dropout(config.dropout)
        self.head = nn.Linear(config.embedding, vocabulary, bias=config.bias or not config.tied)
        if config.tied:
            self.head.weight = self.target_embedding.weight

    @abstractmethod
    def features(
        self, about: About, target: Int[Tensor, "batch time"]
    ) -> Float[Tensor, "batch time width"]:
        """What stands at each place of a text, given all before it, that the head scores."""

    @abstractmethod
    def begin(self, about: About) -> Any:
        """Read what is to be written about: a state in which nothing is written yet."""

    @abstractmethod
    def write(self, tokens: Int[Tensor, " batch"], state: Any) -> tuple[Tensor, Any]:
        """Write a token of each text: features, and the state after it."""

    def forward(
        self,
        about: About,
        target: Int[Tensor, "batch time"],
        following: Int[Tensor, "batch time"] | None = None,
        smoothing: float = 0.0,
        student: float = 0.0,
    ) -> Tensor:
        """Score the next token at every place; or, given the following ones, their summed loss.

        The loss leaves out where the following is padding. `student`: the share of the tokens
        that are not the text's, but what the model itself writes there.
        """
        features = self._forced(about, target, student) if student else self.features(about, target)
        if following is None:
            scores: Tensor = self.head(features)
            return scores
        real = following != PAD
        return vocabulary_loss(
            features[real], self.head.weight, self.head.bias, following[real], smoothing
        )

    def _forced(
        self, about: About, target: Int[Tensor, "batch time"], student: float
    ) -> Float[Tensor, "batch time width"]:
        """The features, where a share of the tokens after the first is the model's own."""
        features, state = self.write(target[:, 0], self.begin(about))
        found = [features]
        for tokens in target[:, 1:].unbind(1):
            with torch.no_grad():
                chances = torch.softmax(self.head(features).float(), -1)
                own = torch.multinomial(chances, 1).squeeze(1)
                is_own = torch.rand(len(tokens), device=tokens.device) < student
            features, state = self.write(torch.where(is_own, own, tokens), state)
            found.append(features)
        return torch.stack(found, 1)

    def start(self, condition: About) -> tuple[Float[Tensor, "batch vocabulary"], Any]:
        """Read what it is about; score the first token."""
        return self.step(condition.starts(), self.begin(condition))

    def step(
        self, tokens: Int[Tensor, " batch"], state: Any
    ) -> tuple[Float[Tensor, "batch vocabulary"], Any]:
        """Read a token of the text; score the next."""
        features, state = self.write(tokens, state)
        return self.head(features), state

    def embedded(self, embedding: nn.Embedding, ids: Tensor) -> Tensor:
        """Vectors of tokens, which all have the same size."""
        return tap("embedded", embedding(ids) * embedding.embedding_dim**0.5)


def embedding_of(count: int, width: int) -> nn.Embedding:
    """Vectors of length one or so: as rows of the head, they score moderately to begin with."""
    embedding = nn.Embedding(count, width)
    nn.init.normal_(embedding.weight, std=width**-0.5)
    return embedding
