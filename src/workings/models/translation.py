"""Translators: a sentence in, logits of the next token of its translation out."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from workings.errors import UserError
from workings.layers.convolution import padding_mask
from workings.layers.recurrent import HiddenState, RecurrentStack
from workings.layers.transformer import EncoderBlock, NormPlacement
from workings.models.seq2seq import (
    PAD,
    START,
    ConditionalDecoder,
    RecurrentDecoder,
    RNNDecoderState,
    TransformerDecoder,
    build_embedding,
    build_final_norm,
)
from workings.modules import build_model
from workings.recipes import (
    Activation,
    AttentionKind,
    CellKind,
    TranslatorPositions,
    TranslatorVariant,
    parse_translator_config,
)
from workings.registry import MODELS

__all__ = [
    "PAD",
    "START",
    "RecurrentTranslator",
    "SentenceBatch",
    "TransformerTranslator",
    "Translator",
    "build_translator",
]


class SentenceBatch(NamedTuple):
    """A batch of source sentences, padded at their ends."""

    ids: Int[Tensor, "batch time"]
    lengths: Int[Tensor, " batch"]

    def padding_mask(self) -> Bool[Tensor, "batch time"] | None:
        """Return True at the tokens and False at padding; None if there is no padding."""
        time = self.ids.shape[1]
        if not torch.compiler.is_exporting() and int(self.lengths.min()) == time:
            return None
        return padding_mask(self.lengths, time)

    def start_tokens(self) -> Int[Tensor, " batch"]:
        """Return a start token for each translation."""
        return torch.full_like(self.lengths, START)


class Translator(ConditionalDecoder[SentenceBatch]):
    """Base class of translators: a decoder with a source embedding."""

    source_embedding: nn.Embedding

    def add_source_embedding(
        self, source_vocab_size: int, target_vocab_size: int, d_model: int, *, shared: bool
    ) -> None:
        """Create the source embedding, or share that of the target."""
        if not shared:
            self.source_embedding = build_embedding(source_vocab_size, d_model)
            return
        if source_vocab_size != target_vocab_size:
            raise UserError("model.share_embeddings = true: one embedding needs one vocabulary")
        self.source_embedding = self.target_embedding


class RecurrentTranslator(RecurrentDecoder[SentenceBatch], Translator):
    """A recurrent encoder-decoder: RNN, GRU or LSTM, with or without attention.

    >>> model = RecurrentTranslator(100, 120, d_model=16, hidden_size=32, attention="dot")
    >>> source = SentenceBatch(torch.zeros(2, 7, dtype=torch.long), torch.tensor([7, 4]))
    >>> model(source, torch.zeros(2, 5, dtype=torch.long)).shape
    torch.Size([2, 5, 120])
    """

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        *,
        d_model: int = 128,
        cell: CellKind = "gru",
        hidden_size: int = 256,
        layers: int = 1,
        bidirectional: bool = True,
        attention: AttentionKind = "additive",
        dropout: float = 0.1,
        tie_embeddings: bool = True,
        share_embeddings: bool = False,
        output_bias: bool = False,
    ) -> None:
        super().__init__(
            target_vocab_size,
            d_model=d_model,
            cell=cell,
            hidden_size=hidden_size,
            layers=layers,
            attention=attention,
            dropout=dropout,
            tie_embeddings=tie_embeddings,
            output_bias=output_bias,
        )
        self.add_source_embedding(
            source_vocab_size, target_vocab_size, d_model, shared=share_embeddings
        )
        self.encoder = RecurrentStack(
            cell,
            d_model,
            hidden_size,
            layers=layers,
            bidirectional=bidirectional,
            dropout=dropout,
        )
        encoder_size = self.encoder.output_size
        self.merge = (
            nn.Linear(encoder_size, hidden_size) if encoder_size != hidden_size else nn.Identity()
        )
        # Without attention and with one direction, the encoder's final state is the decoder's
        # initial state; otherwise that is computed from it.
        self.state_projection = None
        if attention != "none" or bidirectional:
            self.state_projection = nn.Linear(encoder_size, hidden_size * layers)

    def init_state(self, source: SentenceBatch) -> RNNDecoderState:
        embedded = self.dropout(self.embed(self.source_embedding, source.ids))
        if self.state_projection is None:
            hidden_states = self._final_hidden_states(embedded, source)
            last = hidden_states[-1][0][0]
            return RNNDecoderState(hidden_states, last.unsqueeze(1), last.unsqueeze(1), None, last)
        states, last, _ = self.encoder(embedded, source.lengths)
        states, last = self.merge(self.dropout(states)), last.flatten(1)  # both directions
        return self.build_state(
            self.state_projection(last), states, source.padding_mask(), self.merge(last)
        )

    def _final_hidden_states(
        self, embedded: Tensor, source: SentenceBatch
    ) -> list[list[HiddenState]]:
        """Return the encoder's hidden states after the last token of each sentence."""
        if torch.compiler.is_exporting():
            return self.encoder(embedded, source.lengths)[2]  # type: ignore[no-any-return]
        groups = []
        for length in sorted(set(source.lengths.tolist())):  # so that no padding is read
            rows = (source.lengths == length).nonzero().flatten()
            _, _, final = self.encoder(embedded[rows, :length])
            groups.append((rows, final))
        order = torch.cat([rows for rows, _ in groups]).argsort()
        return [
            [
                tuple(
                    torch.cat([final[k][0][i] for _, final in groups])[order]
                    for i in range(len(directions[0]))
                )
            ]
            for k, directions in enumerate(groups[0][1])
        ]


class TransformerTranslator(TransformerDecoder[SentenceBatch], Translator):
    """A Transformer encoder-decoder.

    >>> model = TransformerTranslator(100, 100, d_model=16, layers=2, heads=4)
    >>> source = SentenceBatch(torch.zeros(2, 7, dtype=torch.long), torch.tensor([7, 4]))
    >>> model(source, torch.zeros(2, 5, dtype=torch.long)).shape
    torch.Size([2, 5, 100])
    """

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        *,
        d_model: int = 128,
        layers: int = 4,
        heads: int = 4,
        d_ff: int | None = None,
        norm: NormPlacement = "pre",
        activation: Activation = "relu",
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        activation_dropout: float | None = None,
        tie_embeddings: bool = True,
        share_embeddings: bool = True,
        output_bias: bool = False,
        positions: TranslatorPositions = "sinusoidal",
    ) -> None:
        super().__init__(
            target_vocab_size,
            d_model=d_model,
            layers=layers,
            heads=heads,
            d_ff=d_ff,
            norm=norm,
            activation=activation,
            dropout=dropout,
            attention_dropout=attention_dropout,
            activation_dropout=activation_dropout,
            tie_embeddings=tie_embeddings,
            output_bias=output_bias,
            positions=positions,
        )
        self.add_source_embedding(
            source_vocab_size, target_vocab_size, d_model, shared=share_embeddings
        )
        self.encoder = nn.ModuleList(
            EncoderBlock(
                d_model,
                heads,
                d_ff or 4 * d_model,
                norm=norm,
                activation=activation,
                dropout=dropout,
                attention_dropout=attention_dropout,
                activation_dropout=activation_dropout,
            )
            for _ in range(layers)
        )
        self.encoder_norm = build_final_norm(d_model, norm)

    def encode(self, source: SentenceBatch) -> tuple[Tensor, Tensor | None]:
        is_token = source.padding_mask()
        x = self.embed_with_positions(self.source_embedding, source.ids, 0)
        mask = None
        if is_token is not None:
            mask = x.new_zeros(is_token.shape).masked_fill_(~is_token, -torch.inf)[:, None, None]
        for block in self.encoder:
            x = block(x, mask=mask)
        return self.encoder_norm(x), mask


TRANSLATORS: dict[str, Callable[..., Translator]] = MODELS.setdefault("translate", {})
TRANSLATORS.update(recurrent=RecurrentTranslator, transformer=TransformerTranslator)


def build_translator(
    model: TranslatorVariant | Mapping[str, Any], source_vocab_size: int, target_vocab_size: int
) -> Translator:
    """Build the model that a recipe's `[model]` section describes, with new weights."""
    config = parse_translator_config(model)
    return build_model(
        TRANSLATORS[config.kind],
        source_vocab_size=source_vocab_size,
        target_vocab_size=target_vocab_size,
        **config.settings(),
    )
