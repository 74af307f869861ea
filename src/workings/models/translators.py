"""Translators: a source in, scores of the next token of its translation out; and start and step.

`forward` reads whole sentences, in training. `start` and `step` are what decoding asks: the source
in one pass, then a token of the translation at a time.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from workings.errors import UserError, brief
from workings.layers.dropout import Dropout
from workings.layers.vocabulary_loss import vocabulary_loss
from workings.recipes import TranslatorConfig, translator_config
from workings.trace import tap

PAD, START = 0, 1  # of every tokenizer


class Sentences(NamedTuple):
    """A batch of sentences, padded at their ends."""

    ids: Int[Tensor, "batch time"]
    lengths: Int[Tensor, " batch"]

    def real(self) -> Bool[Tensor, "batch time"] | None:
        """Where there are tokens, not padding; None: everywhere."""
        time = self.ids.shape[1]
        if int(self.lengths.min()) == time:
            return None
        return torch.arange(time, device=self.ids.device) < self.lengths.unsqueeze(1)


class Translator(nn.Module, ABC):
    """Two vocabularies, and what scores the second; in between each kind has its own way."""

    def __init__(self, config: TranslatorConfig, source: int, target: int) -> None:
        super().__init__()
        self.target_embedding = _embedding(target, config.embedding)
        self.source_embedding = self.target_embedding
        if not config.shared:
            self.source_embedding = _embedding(source, config.embedding)
        self.dropout = Dropout(config.dropout)
        self.head = nn.Linear(config.embedding, target, bias=config.bias or not config.tied)
        if config.tied:
            self.head.weight = self.target_embedding.weight

    @abstractmethod
    def features(
        self, source: Sentences, target: Int[Tensor, "batch time"]
    ) -> Float[Tensor, "batch time width"]:
        """What stands at each place of a translation, given all before it, that the head scores."""

    @abstractmethod
    def begin(self, source: Sentences) -> Any:
        """Read the source: a state in which nothing is written yet."""

    @abstractmethod
    def write(self, tokens: Int[Tensor, " batch"], state: Any) -> tuple[Tensor, Any]:
        """Write a token of each translation: features, and the state after it."""

    def forward(
        self,
        source: Sentences,
        target: Int[Tensor, "batch time"],
        following: Int[Tensor, "batch time"] | None = None,
        smoothing: float = 0.0,
    ) -> Tensor:
        """Score the next token at every place; or, given the following ones, their summed loss.

        The loss leaves out where the following is padding.
        """
        features = self.features(source, target)
        if following is None:
            scores: Tensor = self.head(features)
            return scores
        real = following != PAD
        return vocabulary_loss(
            features[real], self.head.weight, self.head.bias, following[real], smoothing
        )

    def start(self, condition: Sentences) -> tuple[Float[Tensor, "batch vocabulary"], Any]:
        """Read the source; score the first token of its translation."""
        return self.step(torch.full_like(condition.lengths, START), self.begin(condition))

    def step(
        self, tokens: Int[Tensor, " batch"], state: Any
    ) -> tuple[Float[Tensor, "batch vocabulary"], Any]:
        """Read a token of the translation; score the next."""
        features, state = self.write(tokens, state)
        return self.head(features), state

    def embedded(self, embedding: nn.Embedding, ids: Tensor) -> Tensor:
        """Vectors of tokens, of which the source's and the target's have the same size."""
        return tap("embedded", embedding(ids) * embedding.embedding_dim**0.5)


def _embedding(count: int, width: int) -> nn.Embedding:
    """Vectors of length one or so: as rows of the head, they score moderately to begin with."""
    embedding = nn.Embedding(count, width)
    nn.init.normal_(embedding.weight, std=width**-0.5)
    return embedding


def build_translator(table: dict[str, Any], source: int, target: int) -> Translator:
    """Make the model that a recipe's `[model]` section describes, with fresh weights."""
    # Each kind is a module of its own, which knows this one.
    from workings.models.recurrent_translator import RecurrentTranslator
    from workings.models.transformer_translator import TransformerTranslator

    kinds: dict[str, Callable[[Any, int, int], Translator]] = {
        "recurrent": RecurrentTranslator,
        "transformer": TransformerTranslator,
    }
    kind, config = translator_config(table)
    if config.shared and source != target:
        raise UserError("model.shared = true: one embedding needs one vocabulary")
    try:
        return kinds[kind](config, source, target)
    except (RuntimeError, MemoryError) as error:
        told = brief(str(error) or "out of memory", 150)
        raise UserError(f"model: it cannot be made like this: {told}") from None
