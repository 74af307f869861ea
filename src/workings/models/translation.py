"""Translators: a source in, scores of the next token of its translation out."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from workings.errors import UserError, truncate
from workings.layers.recurrent import HiddenState, RecurrentStack
from workings.layers.transformer import EncoderBlock
from workings.models.seq2seq import (
    PAD,
    START,
    ConditionalDecoder,
    RecurrentDecoder,
    RNNDecoderState,
    TransformerDecoder,
    block_arguments,
    build_embedding,
    build_final_norm,
)
from workings.recipes import (
    RecurrentTranslatorConfig,
    TransformerTranslatorConfig,
    TranslatorConfig,
    parse_translator_config,
)

__all__ = ["PAD", "START", "SentenceBatch", "Translator", "build_translator"]


class SentenceBatch(NamedTuple):
    """A batch of sentences, padded at their ends."""

    ids: Int[Tensor, "batch time"]
    lengths: Int[Tensor, " batch"]

    def padding_mask(self) -> Bool[Tensor, "batch time"] | None:
        """Where there are tokens, not padding; None: everywhere."""
        time = self.ids.shape[1]
        if int(self.lengths.min()) == time:
            return None
        return torch.arange(time, device=self.ids.device) < self.lengths.unsqueeze(1)

    def start_tokens(self) -> Int[Tensor, " batch"]:
        """A start token for each translation."""
        return torch.full_like(self.lengths, START)


class Translator(ConditionalDecoder[SentenceBatch]):
    """What writes about sentences: it has a vocabulary to read, as well."""

    source_embedding: nn.Embedding

    def add_source_embedding(self, config: TranslatorConfig, vocab_size: int) -> None:
        """Make the vectors of the source's tokens: those of the target's, or others."""
        self.source_embedding = self.target_embedding
        if not config.share_embeddings:
            self.source_embedding = build_embedding(vocab_size, config.d_model)


def build_translator(
    table: dict[str, Any], source_vocab_size: int, target_vocab_size: int
) -> Translator:
    """Make the model that a recipe's `[model]` section describes, with fresh weights."""
    # Each kind is a module of its own, which knows this one.
    # MOVED-IMPORT
    # MOVED-IMPORT

    kinds: dict[str, Callable[[Any, int, int], Translator]] = {
        "recurrent": RecurrentTranslator,
        "transformer": TransformerTranslator,
    }
    kind, config = parse_translator_config(table)
    if config.share_embeddings and source_vocab_size != target_vocab_size:
        raise UserError("model.share_embeddings = true: one embedding needs one vocabulary")
    try:
        return kinds[kind](config, source_vocab_size, target_vocab_size)
    except (RuntimeError, MemoryError) as error:
        told = truncate(str(error) or "out of memory", 150)
        raise UserError(f"model: it cannot be made like this: {told}") from None


class RecurrentTranslator(RecurrentDecoder[SentenceBatch], Translator):
    """RNN, GRU or LSTM, with as much of the source as the recipe lets it see."""

    def __init__(
        self, config: RecurrentTranslatorConfig, source_vocab_size: int, target_vocab_size: int
    ) -> None:
        super().__init__(config, target_vocab_size)
        self.add_source_embedding(config, source_vocab_size)
        self.encoder = RecurrentStack(
            config.cell,
            config.d_model,
            config.hidden_size,
            layers=config.layers,
            bidirectional=config.bidirectional,
            dropout=config.dropout,
        )
        both = self.encoder.output_size
        self.merge = (
            nn.Linear(both, config.hidden_size) if both != config.hidden_size else nn.Identity()
        )
        # s_0 = h_T, where they are alike; else it is predicted.
        self.state_projection = None
        if config.attention != "none" or config.bidirectional:
            self.state_projection = nn.Linear(both, config.hidden_size * config.layers)

    def init_state(self, source: SentenceBatch) -> RNNDecoderState:
        embedded = self.dropout(self.embed(self.source_embedding, source.ids))
        if self.state_projection is None:
            memories = self._final_hidden_states(embedded, source)
            last = memories[-1][0][0]
            return RNNDecoderState(memories, last.unsqueeze(1), last.unsqueeze(1), None, last)
        states, ends, _ = self.encoder(embedded, source.lengths)
        states, last = self.merge(self.dropout(states)), ends.flatten(1)  # both ways
        return self.build_state(
            self.state_projection(last), states, source.padding_mask(), self.merge(last)
        )

    def _final_hidden_states(
        self, embedded: Tensor, source: SentenceBatch
    ) -> list[list[HiddenState]]:
        """What the encoder itself remembers after the last real token of each sentence."""
        groups = []
        for length in sorted(set(source.lengths.tolist())):  # padding must not be read
            rows = (source.lengths == length).nonzero().flatten()
            _, _, memories = self.encoder(embedded[rows, :length])
            groups.append((rows, memories))
        order = torch.cat([rows for rows, _ in groups]).argsort()
        return [
            [
                tuple(
                    torch.cat([memories[k][0][i] for _, memories in groups])[order]
                    for i in range(len(ways[0]))
                )
            ]
            for k, ways in enumerate(groups[0][1])
        ]


class TransformerTranslator(TransformerDecoder[SentenceBatch], Translator):
    """Every token of the translation looks at all of it before, and at all of the source."""

    def __init__(
        self, config: TransformerTranslatorConfig, source_vocab_size: int, target_vocab_size: int
    ) -> None:
        super().__init__(config, target_vocab_size)
        self.add_source_embedding(config, source_vocab_size)
        self.encoder = nn.ModuleList(
            EncoderBlock(**block_arguments(config)) for _ in range(config.layers)
        )
        self.encoder_norm = build_final_norm(config)

    def encode(self, source: SentenceBatch) -> tuple[Tensor, Tensor | None]:
        real = source.padding_mask()
        x = self.embed_with_positions(self.source_embedding, source.ids, 0)
        mask = None
        if real is not None:
            mask = x.new_zeros(real.shape).masked_fill_(~real, -torch.inf)[:, None, None]
        for block in self.encoder:
            x = block(x, mask=mask)
        return self.encoder_norm(x), mask
