"""Translators: a source in, scores of the next token of its translation out."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from workings.errors import UserError, brief
from workings.models.writers import PAD, START, Writer, embedding_of
from workings.recipes import TranslatorConfig, translator_config

__all__ = ["PAD", "START", "Sentences", "Translator", "build_translator"]


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

    def starts(self) -> Int[Tensor, " batch"]:
        """A start token for each translation."""
        return torch.full_like(self.lengths, START)


class Translator(Writer[Sentences]):
    """What writes about sentences: it has a vocabulary to read, as well."""

    source_embedding: nn.Embedding

    def read_from(self, config: TranslatorConfig, vocabulary: int) -> None:
        """Make the vectors of the source's tokens: those of the target's, or others."""
        self.source_embedding = self.target_embedding
        if not config.shared:
            self.source_embedding = embedding_of(vocabulary, config.embedding)


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
