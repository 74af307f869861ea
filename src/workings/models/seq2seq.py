"""Decoders that generate a text from a source: the target side of translators and captioners.

`forward` scores all positions of the target at once, for training; `start` and `step` encode the
source and then score one token after the other, for generation.
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
from workings.layers.attention import AdditiveSimilarity, GeneralSimilarity, KeyValueCache
from workings.layers.fast_step import FastDecoder, KeyValues
from workings.layers.linear import Linear
from workings.layers.loss import chunked_cross_entropy
from workings.layers.positions import SinusoidalPositions, fairseq_positions
from workings.layers.recurrent import HiddenState, RecurrentStack
from workings.layers.transformer import DecoderBlock, Dropout, LayerNorm, NormPlacement
from workings.modules import Rebuildable, has_hooks
from workings.recipes import Activation, AttentionKind, CellKind, TranslatorPositions
from workings.trace import is_tracing, tap

PAD, START = 0, 1  # token ids that are the same in every tokenizer


class SourceBatch(Protocol):
    """A batch of sources: sentences or images."""

    def start_tokens(self) -> Int[Tensor, " batch"]:
        """Return a start token for each target text."""


Source = TypeVar("Source", bound=SourceBatch)


class ConditionalDecoder(Rebuildable, ABC, Generic[Source]):
    """Base class: a target embedding, and a head over the vocabulary that may share its weights.

    `output_bias` gives a tied head a bias, as Marian has; an untied head always has one.
    """

    forced_first_id: int | None = None
    """the token that every generated text begins with, such as that of M2M100's target language"""

    def __init__(
        self,
        vocab_size: int,
        *,
        d_model: int,
        dropout: float,
        tie_embeddings: bool,
        output_bias: bool,
    ) -> None:
        super().__init__()
        self.target_embedding = build_embedding(vocab_size, d_model)
        self.dropout = Dropout(dropout)
        self.head = Linear(d_model, vocab_size, bias=output_bias or not tie_embeddings)
        if tie_embeddings:
            self.head.weight = self.target_embedding.weight

    @abstractmethod
    def forward_features(
        self, source: Source, target: Int[Tensor, "batch time"]
    ) -> Float[Tensor, "batch time width"]:
        """Return the features that the head scores, at all positions of the target."""

    @abstractmethod
    def init_state(self, source: Source) -> Any:
        """Encode the source; return the decoder state before the first token."""

    @abstractmethod
    def decode_step(self, tokens: Int[Tensor, " batch"], state: Any) -> tuple[Tensor, Any]:
        """Read one token of each target; return the features of the next, and the new state."""

    def forward(
        self,
        source: Source,
        target: Int[Tensor, "batch time"],
        labels: Int[Tensor, "batch time"] | None = None,
        label_smoothing: float = 0.0,
        scheduled_sampling_rate: float = 0.0,
    ) -> Tensor:
        """Return the logits of the next token at every position; given `labels`, the summed loss.

        Labels that are padding do not count. With `scheduled_sampling_rate`, that share of the
        target tokens is replaced by samples of the model's own predictions.
        """
        features = (
            self._scheduled_sampling_features(source, target, scheduled_sampling_rate)
            if scheduled_sampling_rate
            else self.forward_features(source, target)
        )
        if labels is None:
            logits: Tensor = self.head(features)
            return logits
        is_token = labels != PAD
        return chunked_cross_entropy(
            features[is_token], self.head.weight, self.head.bias, labels[is_token], label_smoothing
        )

    def _scheduled_sampling_features(
        self, source: Source, target: Int[Tensor, "batch time"], scheduled_sampling_rate: float
    ) -> Float[Tensor, "batch time width"]:
        """Return the features with sampled predictions as some of the inputs after the first."""
        features, state = self.decode_step(target[:, 0], self.init_state(source))
        all_features = [features]
        for tokens in target[:, 1:].unbind(1):
            with torch.no_grad():
                probabilities = torch.softmax(self.head(features).float(), -1)
                sampled = torch.multinomial(probabilities, 1).squeeze(1)
                is_sampled = torch.rand(len(tokens), device=tokens.device) < scheduled_sampling_rate
            features, state = self.decode_step(torch.where(is_sampled, sampled, tokens), state)
            all_features.append(features)
        return torch.stack(all_features, 1)

    def start(self, source: Source) -> tuple[Float[Tensor, "batch vocabulary"], Any]:
        """Encode the source; return the logits of the first token."""
        logits, state = self.step(source.start_tokens(), self.init_state(source))
        if self.forced_first_id is not None:
            forced = torch.full_like(logits, -torch.inf)
            forced[:, self.forced_first_id] = 0.0
            return forced, state
        return logits, state

    def step(
        self, tokens: Int[Tensor, " batch"], state: Any
    ) -> tuple[Float[Tensor, "batch vocabulary"], Any]:
        """Read one token of each target; return the logits of the next."""
        features, state = self.decode_step(tokens, state)
        return self.head(features), state

    def embed(self, embedding: nn.Embedding, ids: Tensor) -> Tensor:
        """Return the embeddings of tokens, scaled to components of size one."""
        return tap("embedded", embedding(ids) * embedding.embedding_dim**0.5)


def build_embedding(vocab_size: int, d_model: int) -> nn.Embedding:
    """Return an embedding with vectors of length one: a tied head then starts with small logits."""
    embedding = nn.Embedding(vocab_size, d_model)
    nn.init.normal_(embedding.weight, std=d_model**-0.5)
    return embedding


# -- recurrent decoders ----------------------------------------------------------------------------


@dataclass(frozen=True)
class RNNDecoderState:
    """The hidden states of a recurrent decoder, and the encoded source."""

    hidden_states: list[list[HiddenState]]
    encoder_states: Float[Tensor, "batch source hidden"]
    keys: Float[Tensor, "batch source d"]  # the encoder states as the attention compares them
    padding_mask: Bool[Tensor, "batch source"] | None
    context: Float[Tensor, "batch hidden"]  # the whole source as one vector

    def select(self, rows: Int[Tensor, " chosen"]) -> "RNNDecoderState":
        """Return the state of these rows of the batch."""
        mask = None if self.padding_mask is None else self.padding_mask[rows]
        hidden_states = [
            [tuple(t[rows] for t in state) for state in directions]
            for directions in self.hidden_states
        ]
        return RNNDecoderState(
            hidden_states, self.encoder_states[rows], self.keys[rows], mask, self.context[rows]
        )


class DecoderAttention(nn.Module):
    """Attention from the decoder's hidden state to the encoder states. Taps: those of `attend`."""

    def __init__(self, kind: str, hidden_size: int) -> None:
        super().__init__()
        if kind not in ("additive", "dot", "general"):
            raise UserError(f"attention {kind!r}: expected additive, dot or general")
        self.additive = (
            AdditiveSimilarity(hidden_size, hidden_size, hidden_size)
            if kind == "additive"
            else None
        )
        self.general = GeneralSimilarity(hidden_size, hidden_size) if kind == "general" else None

    def project(self, states: Float[Tensor, "batch source hidden"]) -> Tensor:
        """Return the keys of the encoder states, which are computed once per source."""
        return states if self.additive is None else self.additive.project(states)

    def forward(
        self, query: Float[Tensor, "batch hidden"], state: RNNDecoderState
    ) -> Float[Tensor, "batch hidden"]:
        """Return the encoder states, averaged with the attention weights of the query."""
        similarity: Callable[[Tensor, Tensor], Tensor] = self.general or scaled_dot
        if self.additive is not None:
            similarity = self.additive.compare
        mask = None if state.padding_mask is None else state.padding_mask.unsqueeze(1)
        mixed = attend(
            query.unsqueeze(1), state.keys, state.encoder_states, mask=mask, similarity=similarity
        )
        return mixed.squeeze(1)


class RecurrentDecoder(ConditionalDecoder[Source], Generic[Source]):
    """Base class of recurrent decoders: RNN, GRU or LSTM. Subclasses implement `init_state`.

    `attention` is what the decoder sees of the source at every step: "none" (only the initial state
    depends on the source), "fixed" (one vector), or attention with the named similarity.
    """

    def __init__(
        self,
        vocab_size: int,
        *,
        d_model: int,
        cell: CellKind,
        hidden_size: int,
        layers: int,
        attention: AttentionKind,
        dropout: float,
        tie_embeddings: bool,
        output_bias: bool,
    ) -> None:
        super().__init__(
            vocab_size,
            d_model=d_model,
            dropout=dropout,
            tie_embeddings=tie_embeddings,
            output_bias=output_bias,
        )
        self.attention_kind, self.num_layers = attention, layers
        self.is_lstm = cell == "lstm"
        has_context = attention != "none"
        self.attention = (
            DecoderAttention(attention, hidden_size) if attention not in ("none", "fixed") else None
        )
        self.decoder = RecurrentStack(
            cell,
            d_model + (hidden_size if has_context else 0),
            hidden_size,
            layers=layers,
            dropout=dropout,
        )
        self.readout = Linear(hidden_size + (hidden_size + d_model if has_context else 0), d_model)

    def build_state(
        self,
        initial_hidden: Float[Tensor, "batch all"],
        encoder_states: Float[Tensor, "batch source hidden"],
        padding_mask: Bool[Tensor, "batch source"] | None,
        context: Float[Tensor, "batch hidden"],
    ) -> RNNDecoderState:
        """Return the initial state; `initial_hidden` has the layers' hidden states concatenated."""
        hidden = torch.tanh(initial_hidden).chunk(self.num_layers, -1)
        hidden_states: list[list[HiddenState]] = [
            [(h, torch.zeros_like(h)) if self.is_lstm else (h,)] for h in hidden
        ]
        keys = encoder_states if self.attention is None else self.attention.project(encoder_states)
        return RNNDecoderState(hidden_states, encoder_states, keys, padding_mask, context)

    def decode_step(
        self, tokens: Int[Tensor, " batch"], state: RNNDecoderState
    ) -> tuple[Tensor, RNNDecoderState]:
        embedded = self.dropout(self.embed(self.target_embedding, tokens))
        hidden, context, state = self._advance(embedded, state)
        return self._read_out(hidden, context, embedded), state

    def _advance(
        self, embedded: Float[Tensor, "batch width"], state: RNNDecoderState
    ) -> tuple[Tensor, Tensor | None, RNNDecoderState]:
        """Read one token; return the top layer's hidden state, the context and the new state."""
        context = self._compute_context(state)
        inputs = embedded if context is None else torch.cat((embedded, context), -1)
        _, last, final = self.decoder(inputs.unsqueeze(1), hidden_states=state.hidden_states)
        return last[:, 0], context, replace(state, hidden_states=final)

    def _compute_context(self, state: RNNDecoderState) -> Tensor | None:
        """Return what the decoder sees of the source at this step, if anything."""
        if self.attention is not None:
            context: Tensor = self.attention(state.hidden_states[-1][0][0], state)
            return context
        return state.context if self.attention_kind == "fixed" else None

    def _read_out(self, hidden: Tensor, context: Tensor | None, embedded: Tensor) -> Tensor:
        """Combine hidden state, context and input into the features that the head scores."""
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
        for token in embedded.unbind(1):  # only the recurrence itself has to be in the loop
            last, context, state = self._advance(token, state)
            assert context is not None
            hidden.append(last)
            contexts.append(context)
        return self._read_out(torch.stack(hidden, 1), torch.stack(contexts, 1), embedded)

    def _forward_all_steps(
        self, embedded: Float[Tensor, "batch time width"], state: RNNDecoderState
    ) -> Tensor:
        """Compute all steps in one call: without attention, the context is the same at each."""
        context = None
        if self.attention_kind == "fixed":
            context = state.context.unsqueeze(1).expand(-1, embedded.shape[1], -1)
        inputs = embedded if context is None else torch.cat((embedded, context), -1)
        states, _, _ = self.decoder(inputs, hidden_states=state.hidden_states)
        return self._read_out(states, context, embedded)


# -- Transformer decoders --------------------------------------------------------------------------


class TransformerDecoderState:
    """The key-value caches of the hypotheses, and the encoded sources that they attend to.

    Rows are hypotheses. Those of one source are adjacent and equally many per source
    (`rows_per_source`), so that the source is stored once.
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
        """Return the state of these rows of the batch."""
        source_index = rows // self.rows_per_source
        rows_per_source = _count_rows_per_source(source_index)
        sources = source_index[::rows_per_source]
        output, mask, key_values = self.encoder_output, self.mask, self.key_values
        unchanged = torch.arange(len(output)).to(sources)
        if len(sources) != len(output) or not torch.equal(sources, unchanged):
            output, mask = output[sources], None if mask is None else mask[sources]
            key_values = key_values and [(k[sources], v[sources]) for k, v in key_values]
        caches = [cache.select(rows) for cache in self.caches]
        return TransformerDecoderState(
            caches, output, mask, self.fast_decoder, key_values, rows_per_source
        )


def _count_rows_per_source(source_index: Int[Tensor, " rows"]) -> int:
    """Return how many adjacent rows each source has, if all have equally many; else 1.

    >>> [_count_rows_per_source(torch.tensor(rows)) for rows in ([4, 4, 7, 7], [4, 4, 7], [4])]
    [2, 1, 1]
    """
    counts = torch.unique_consecutive(source_index, return_counts=True)[1].tolist()
    return int(counts[0]) if len(set(counts)) == 1 else 1


class TransformerDecoder(ConditionalDecoder[Source], Generic[Source]):
    """Base class of Transformer decoders with cross-attention. Subclasses implement `encode`."""

    def __init__(
        self,
        vocab_size: int,
        *,
        d_model: int,
        layers: int,
        heads: int,
        d_ff: int | None,
        norm: NormPlacement,
        activation: Activation,
        dropout: float,
        attention_dropout: float,
        activation_dropout: float | None,
        tie_embeddings: bool,
        output_bias: bool,
        positions: TranslatorPositions = "sinusoidal",
    ) -> None:
        super().__init__(
            vocab_size,
            d_model=d_model,
            dropout=dropout,
            tie_embeddings=tie_embeddings,
            output_bias=output_bias,
        )
        self.positions = build_positions(positions, d_model)
        self.decoder = nn.ModuleList(
            DecoderBlock(
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
        self.decoder_norm = build_final_norm(d_model, norm)

    @abstractmethod
    def encode(
        self, source: Source
    ) -> tuple[Float[Tensor, "batch source width"], Float[Tensor, "batch 1 1 source"] | None]:
        """Return the encoder output that the decoder attends to, and an additive padding mask."""

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
        """Return the embeddings of tokens plus their positions, of which the first is `start`."""
        embedded: Tensor = self.dropout(self.positions(self.embed(embedding, ids), start))
        return embedded

    def init_state(self, source: Source) -> TransformerDecoderState:
        memory, mask = self.encode(source)
        fast = None
        if not has_hooks(self) and not self.training and not torch.is_grad_enabled():
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


def build_positions(kind: TranslatorPositions, d_model: int) -> SinusoidalPositions:
    """Return the paper's sinusoids, or fairseq's."""
    return fairseq_positions(d_model) if kind == "fairseq" else SinusoidalPositions(d_model)


def build_final_norm(d_model: int, norm: NormPlacement) -> nn.Module:
    """Return the norm after the last block; post-norm blocks have normalized their output."""
    return LayerNorm(d_model) if norm == "pre" else nn.Identity()
