"""What writes a text about something: a sentence in another language, a picture.

`forward` reads whole texts, in training. `start` and `step` are what decoding asks: what it is
about in one pass, then a token at a time.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from workings.attention import attend, scaled_dot
from workings.errors import UserError
from workings.layers.attention import AdditiveSimilarity, GeneralSimilarity
from workings.layers.cache import KeyValueCache
from workings.layers.dropout import Dropout
from workings.layers.fast_step import FastDecoder, KeyValues
from workings.layers.loss import chunked_cross_entropy
from workings.layers.positions import SinusoidalPositions
from workings.layers.recurrent import HiddenState, RecurrentStack
from workings.layers.transformer import DecoderBlock, LayerNorm
from workings.recipes import DecoderConfig, RecurrentDecoderConfig, TransformerDecoderConfig
from workings.trace import is_tracing, tap

PAD, START = 0, 1  # of every tokenizer


class SourceBatch(Protocol):
    """What is written about: a batch of it."""

    def start_tokens(self) -> Int[Tensor, " batch"]:
        """A start token for each text to be written."""


Source = TypeVar("Source", bound=SourceBatch)


class ConditionalDecoder(nn.Module, ABC, Generic[Source]):
    """A vocabulary and what scores it; how it gets from one thing to the other is each kind's."""

    def __init__(self, config: DecoderConfig, vocab_size: int) -> None:
        super().__init__()
        self.target_embedding = build_embedding(vocab_size, config.d_model)
        self.dropout = Dropout(config.dropout)
        self.head = nn.Linear(
            config.d_model, vocab_size, bias=config.output_bias or not config.tie_embeddings
        )
        if config.tie_embeddings:
            self.head.weight = self.target_embedding.weight

    @abstractmethod
    def forward_features(
        self, source: Source, target: Int[Tensor, "batch time"]
    ) -> Float[Tensor, "batch time width"]:
        """What stands at each place of a text, given all before it, that the head scores."""

    @abstractmethod
    def init_state(self, source: Source) -> Any:
        """Read what is to be written about: a state in which nothing is written yet."""

    @abstractmethod
    def decode_step(self, tokens: Int[Tensor, " batch"], state: Any) -> tuple[Tensor, Any]:
        """Write a token of each text: features, and the state after it."""

    def forward(
        self,
        source: Source,
        target: Int[Tensor, "batch time"],
        labels: Int[Tensor, "batch time"] | None = None,
        label_smoothing: float = 0.0,
        scheduled_sampling_rate: float = 0.0,
    ) -> Tensor:
        """Score the next token at every place; or, given the following ones, their summed loss.

        The loss leaves out where the following is padding. `student`: the share of the tokens
        that are not the text's, but what the model itself writes there.
        """
        features = (
            self._scheduled_sampling_features(source, target, scheduled_sampling_rate)
            if scheduled_sampling_rate
            else self.forward_features(source, target)
        )
        if labels is None:
            scores: Tensor = self.head(features)
            return scores
        real = labels != PAD
        return chunked_cross_entropy(
            features[real], self.head.weight, self.head.bias, labels[real], label_smoothing
        )

    def _scheduled_sampling_features(
        self, source: Source, target: Int[Tensor, "batch time"], scheduled_sampling_rate: float
    ) -> Float[Tensor, "batch time width"]:
        """The features, where a share of the tokens after the first is the model's own."""
        features, state = self.decode_step(target[:, 0], self.init_state(source))
        found = [features]
        for tokens in target[:, 1:].unbind(1):
            with torch.no_grad():
                chances = torch.softmax(self.head(features).float(), -1)
                own = torch.multinomial(chances, 1).squeeze(1)
                is_own = torch.rand(len(tokens), device=tokens.device) < scheduled_sampling_rate
            features, state = self.decode_step(torch.where(is_own, own, tokens), state)
            found.append(features)
        return torch.stack(found, 1)

    def start(self, source: Source) -> tuple[Float[Tensor, "batch vocabulary"], Any]:
        """Read what it is about; score the first token."""
        return self.step(source.start_tokens(), self.init_state(source))

    def step(
        self, tokens: Int[Tensor, " batch"], state: Any
    ) -> tuple[Float[Tensor, "batch vocabulary"], Any]:
        """Read a token of the text; score the next."""
        features, state = self.decode_step(tokens, state)
        return self.head(features), state

    def embed(self, embedding: nn.Embedding, ids: Tensor) -> Tensor:
        """Vectors of tokens, which all have the same size."""
        return tap("embedded", embedding(ids) * embedding.embedding_dim**0.5)


def build_embedding(vocab_size: int, d_model: int) -> nn.Embedding:
    """Vectors of length one or so: as rows of the head, they score moderately to begin with."""
    embedding = nn.Embedding(vocab_size, d_model)
    nn.init.normal_(embedding.weight, std=d_model**-0.5)
    return embedding


@dataclass(frozen=True)
class RNNDecoderState:
    """What a recurrent decoder remembers: its own states, and what it writes about."""

    hidden_states: list[list[HiddenState]]
    encoder_states: Float[Tensor, "batch places hidden"]
    keys: Float[Tensor, "batch places d"]
    padding_mask: Bool[Tensor, "batch places"] | None
    context: Float[Tensor, "batch hidden"]  # all of it in one vector

    def select(self, rows: Int[Tensor, " chosen"]) -> "RNNDecoderState":
        """Make a state of these rows."""
        real = None if self.padding_mask is None else self.padding_mask[rows]
        memories = [[tuple(t[rows] for t in m) for m in ways] for ways in self.hidden_states]
        return RNNDecoderState(
            memories, self.encoder_states[rows], self.keys[rows], real, self.context[rows]
        )


class DecoderAttention(nn.Module):
    """One query, the decoder's state, looks at many. Taps: those of `attend`."""

    def __init__(self, kind: str, hidden_size: int) -> None:
        super().__init__()
        if kind not in ("additive", "dot", "general"):
            raise UserError(f"context {kind!r}: expected additive, dot or general")
        self.additive = (
            AdditiveSimilarity(hidden_size, hidden_size, hidden_size)
            if kind == "additive"
            else None
        )
        self.general = GeneralSimilarity(hidden_size, hidden_size) if kind == "general" else None

    def project(self, states: Float[Tensor, "batch places hidden"]) -> Tensor:
        """What of the states the query is compared with: once a text."""
        return states if self.additive is None else self.additive.project(states)

    def forward(
        self, query: Float[Tensor, "batch hidden"], state: RNNDecoderState
    ) -> Float[Tensor, "batch hidden"]:
        """Mix the states by how well they fit the query."""
        compare: Callable[[Tensor, Tensor], Tensor] = self.general or scaled_dot
        if self.additive is not None:
            compare = self.additive.compare
        mask = None if state.padding_mask is None else state.padding_mask.unsqueeze(1)
        mixed = attend(
            query.unsqueeze(1), state.keys, state.encoder_states, mask=mask, similarity=compare
        )
        return mixed.squeeze(1)


class RecurrentDecoder(ConditionalDecoder[Source], Generic[Source]):
    """RNN, GRU or LSTM; `begin` is up to what it writes about."""

    def __init__(self, config: RecurrentDecoderConfig, vocab_size: int) -> None:
        super().__init__(config, vocab_size)
        width, hidden = config.d_model, config.hidden_size
        self.attention_kind, self.num_layers = config.attention, config.layers
        self.is_lstm = config.cell == "lstm"
        sees = self.attention_kind != "none"
        self.attention = (
            DecoderAttention(self.attention_kind, hidden)
            if self.attention_kind not in ("none", "fixed")
            else None
        )
        self.decoder = RecurrentStack(
            config.cell,
            width + (hidden if sees else 0),
            hidden,
            layers=config.layers,
            dropout=config.dropout,
        )
        self.readout = nn.Linear(hidden + (hidden + width if sees else 0), width)

    def build_state(
        self,
        initial_hidden: Float[Tensor, "batch all"],
        encoder_states: Float[Tensor, "batch places hidden"],
        padding_mask: Bool[Tensor, "batch places"] | None,
        context: Float[Tensor, "batch hidden"],
    ) -> RNNDecoderState:
        """A state to begin with, out of the hidden ones of all layers side by side."""
        hidden = torch.tanh(initial_hidden).chunk(self.num_layers, -1)
        memories: list[list[HiddenState]] = [
            [(h, torch.zeros_like(h)) if self.is_lstm else (h,)] for h in hidden
        ]
        keys = encoder_states if self.attention is None else self.attention.project(encoder_states)
        return RNNDecoderState(memories, encoder_states, keys, padding_mask, context)

    def decode_step(
        self, tokens: Int[Tensor, " batch"], state: RNNDecoderState
    ) -> tuple[Tensor, RNNDecoderState]:
        embedded = self.dropout(self.embed(self.target_embedding, tokens))
        hidden, context, state = self._advance(embedded, state)
        return self._read_out(hidden, context, embedded), state

    def _advance(
        self, embedded: Float[Tensor, "batch width"], state: RNNDecoderState
    ) -> tuple[Tensor, Tensor | None, RNNDecoderState]:
        """Go on by a token: the state of the top layer, and what it has seen."""
        context = self._compute_context(state)
        seen = embedded if context is None else torch.cat((embedded, context), -1)
        _, last, memories = self.decoder(seen.unsqueeze(1), hidden_states=state.hidden_states)
        return last[:, 0], context, replace(state, hidden_states=memories)

    def _compute_context(self, state: RNNDecoderState) -> Tensor | None:
        """What the decoder sees before it writes."""
        if self.attention is not None:
            context: Tensor = self.attention(state.hidden_states[-1][0][0], state)
            return context
        return state.context if self.attention_kind == "fixed" else None

    def _read_out(self, hidden: Tensor, context: Tensor | None, embedded: Tensor) -> Tensor:
        parts = [hidden] if context is None else [hidden, context, embedded]
        features = torch.tanh(self.readout(torch.cat(parts, -1)))
        dropped: Tensor = self.dropout(tap("features", features))
        return dropped

    def forward_features(
        self, source: Source, target: Int[Tensor, "batch time"]
    ) -> Float[Tensor, "batch time width"]:
        state = self.init_state(source)
        embedded = self.dropout(self.embed(self.target_embedding, target))
        if self.attention is None:
            return self._forward_all_steps(embedded, state)
        hidden, contexts = [], []
        for token in embedded.unbind(1):  # what can be done for all tokens is done outside
            last, context, state = self._advance(token, state)
            assert context is not None
            hidden.append(last)
            contexts.append(context)
        return self._read_out(torch.stack(hidden, 1), torch.stack(contexts, 1), embedded)

    def _forward_all_steps(
        self, embedded: Float[Tensor, "batch time width"], state: RNNDecoderState
    ) -> Tensor:
        """All steps in one call: what is seen does not depend on what is written."""
        context = None
        if self.attention_kind == "fixed":
            context = state.context.unsqueeze(1).expand(-1, embedded.shape[1], -1)
        seen = embedded if context is None else torch.cat((embedded, context), -1)
        states, _, _ = self.decoder(seen, hidden_states=state.hidden_states)
        return self._read_out(states, context, embedded)


class TransformerDecoderState:
    """What a decoder remembers: keys and values of each translation, and what it looks at.

    That is of each source, and the translations of one source share it. Rows are translations;
    those of one source stand together, equally many of each.
    """

    def __init__(
        self,
        caches: list[KeyValueCache],
        encoder_output: Float[Tensor, "sources time width"],
        mask: Float[Tensor, "sources 1 1 time"] | None,
        fast_decoder: FastDecoder | None,
        key_values: list[KeyValues] | None = None,
        rows_per_source: int = 1,
    ) -> None:
        self.caches, self.encoder_output, self.mask = caches, encoder_output, mask
        self.fast_decoder, self.rows_per_source = fast_decoder, rows_per_source
        self.key_values = (
            key_values
            if key_values is not None or fast_decoder is None
            else fast_decoder.project_key_values(encoder_output)
        )

    def select(self, rows: Int[Tensor, " chosen"]) -> "TransformerDecoderState":
        """Make a state of these rows."""
        of = rows // self.rows_per_source
        each = _count_rows_per_source(of)
        kept = of[::each]
        source, mask, memory = self.encoder_output, self.mask, self.key_values
        if len(kept) != len(source) or not torch.equal(kept, torch.arange(len(source)).to(kept)):
            source, mask = source[kept], None if mask is None else mask[kept]
            memory = memory and [(key[kept], value[kept]) for key, value in memory]
        caches = [cache.select(rows) for cache in self.caches]
        return TransformerDecoderState(caches, source, mask, self.fast_decoder, memory, each)


def _count_rows_per_source(source_index: Int[Tensor, " rows"]) -> int:
    """How many rows of one source stand together, if it is as many of each; else one.

    >>> [_count_rows_per_source(torch.tensor(rows)) for rows in ([4, 4, 7, 7], [4, 4, 7], [4])]
    [2, 1, 1]
    """
    counts = torch.unique_consecutive(source_index, return_counts=True)[1].tolist()
    return int(counts[0]) if len(set(counts)) == 1 else 1


class TransformerDecoder(ConditionalDecoder[Source], Generic[Source]):
    """Blocks of self-attention and cross-attention; `read` is up to what it writes about."""

    def __init__(self, config: TransformerDecoderConfig, vocab_size: int) -> None:
        super().__init__(config, vocab_size)
        self.positions = SinusoidalPositions(config.d_model)
        self.decoder = nn.ModuleList(
            DecoderBlock(**block_arguments(config)) for _ in range(config.layers)
        )
        self.decoder_norm = build_final_norm(config)

    @abstractmethod
    def encode(
        self, source: Source
    ) -> tuple[Float[Tensor, "batch places width"], Float[Tensor, "batch 1 1 places"] | None]:
        """What the decoder looks at, and a mask that keeps padding out."""

    def forward_features(
        self, source: Source, target: Int[Tensor, "batch time"]
    ) -> Float[Tensor, "batch time width"]:
        memory, mask = self.encode(source)
        x = self.embed_with_positions(self.target_embedding, target, 0)
        for block in self.decoder:
            x = block(x, memory, memory_mask=mask)
        normed: Tensor = self.decoder_norm(x)
        return normed

    def embed_with_positions(self, embedding: nn.Embedding, ids: Tensor, start: int) -> Tensor:
        """Vectors of tokens, with where they stand."""
        placed: Tensor = self.dropout(self.positions(self.embed(embedding, ids), start))
        return placed

    def init_state(self, source: Source) -> TransformerDecoderState:
        memory, mask = self.encode(source)
        # Modules that somebody has hooked have to be called as such.
        hooked = any(m._forward_pre_hooks or m._forward_hooks for m in self.modules())
        fast = None
        if not hooked and not self.training and not torch.is_grad_enabled():
            fast = FastDecoder([b for b in self.decoder if isinstance(b, DecoderBlock)])
        return TransformerDecoderState([KeyValueCache() for _ in self.decoder], memory, mask, fast)

    def decode_step(
        self, tokens: Int[Tensor, " batch"], state: TransformerDecoderState
    ) -> tuple[Tensor, TransformerDecoderState]:
        x = self.embed_with_positions(
            self.target_embedding, tokens.unsqueeze(1), state.caches[0].length
        )
        if state.fast_decoder is not None and state.key_values is not None and not is_tracing():
            x = state.fast_decoder(x.squeeze(1), state.caches, state.key_values, state.mask)
            return self.decoder_norm(x), state
        memory = state.encoder_output.repeat_interleave(state.rows_per_source, 0)
        mask = (
            None if state.mask is None else state.mask.repeat_interleave(state.rows_per_source, 0)
        )
        for block, cache in zip(self.decoder, state.caches, strict=True):
            x = block(x, memory, memory_mask=mask, cache=cache)
        return self.decoder_norm(x).squeeze(1), state


def block_arguments(config: TransformerDecoderConfig) -> dict[str, Any]:
    """What the blocks of encoder and decoder have in common."""
    return {
        "d_model": config.d_model,
        "heads": config.heads,
        "d_ff": config.d_ff or 4 * config.d_model,
        "norm": config.norm,
        "activation": config.activation,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "hidden_dropout": config.activation_dropout,
    }


def build_final_norm(config: TransformerDecoderConfig) -> nn.Module:
    """With the norms in front, what comes out of the last block has none yet."""
    return LayerNorm(config.d_model) if config.norm == "pre" else nn.Identity()
