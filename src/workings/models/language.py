"""Language models: token ids in, logits of the next token out.

`forward` scores all positions at once, for training; `start` and `step` score one token after the
other, for generation.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from workings.errors import UserError
from workings.layers.attention import KeyValueCache
from workings.layers.fast_step import fast_block_step, fast_linear, fast_norm
from workings.layers.linear import Linear
from workings.layers.positions import LearnedPositions, SinusoidalPositions
from workings.layers.recurrent import HiddenState, RecurrentStack
from workings.layers.transformer import (
    Dropout,
    EncoderBlock,
    LayerNorm,
    NormKind,
    NormPlacement,
    RMSNorm,
    build_norm,
)
from workings.modules import Rebuildable, build_model, has_hooks
from workings.recipes import Activation, CellKind, LanguageModelVariant, parse_language_model_config
from workings.registry import MODELS
from workings.trace import is_tracing, tap

FastStep: TypeAlias = Callable[[Tensor, list[KeyValueCache]], Tensor]


class LanguageModel(Rebuildable, ABC):
    """Base class: an embedding, layers that do not look ahead, and a head over the vocabulary."""

    max_positions: int | None = None  # the longest context, if it is limited
    is_recurrent: bool = False  # the state has a fixed size

    def __init__(
        self,
        vocab_size: int,
        *,
        d_model: int,
        num_features: int,
        dropout: float,
        tie_embeddings: bool,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.dropout = Dropout(dropout)
        if tie_embeddings and num_features != d_model:
            raise UserError(
                f"tie_embeddings = true: the head shares the embedding's weights, so d_model must "
                f"be {num_features}, not {d_model}"
            )
        self.head = Linear(num_features, vocab_size, bias=not tie_embeddings)
        nn.init.normal_(self.embedding.weight, std=0.02 if tie_embeddings else 1.0)
        if tie_embeddings:
            self.head.weight = self.embedding.weight

    @abstractmethod
    def forward_features(self, ids: Int[Tensor, "batch time"], state: Any) -> tuple[Tensor, Any]:
        """Return the features that the head scores, at all positions, and the new state.

        A `state` of None starts the sequences, and need not be returned.
        """

    @abstractmethod
    def init_state(self) -> Any:
        """Return the state before the first token."""

    def forward(
        self, ids: Int[Tensor, "batch time"], state: Any = None
    ) -> tuple[Float[Tensor, "batch time vocabulary"], Any]:
        """Return the logits of the next token at every position; continue from a `state`."""
        features, state = self.forward_features(ids, state)
        return self.head(tap("features", features)), state

    def start(self, prompt: Int[Tensor, "batch time"]) -> tuple[Tensor, Any]:
        """Read a prompt of at least one token; return the logits of the token after it."""
        features, state = self.forward_features(prompt, self.init_state())
        return self.head(features[:, -1]), state

    def step(self, tokens: Int[Tensor, " batch"], state: Any) -> tuple[Tensor, Any]:
        """Read one token of each sequence; return the logits of the next."""
        features, state = self.forward_features(tokens.unsqueeze(1), state)
        return self.head(features[:, -1]), state


class RNNState:
    """The hidden states of all layers of a recurrent language model."""

    def __init__(self, layers: list[list[HiddenState]]) -> None:
        self.layers = layers

    def select(self, rows: Int[Tensor, " chosen"]) -> "RNNState":
        """Return the state of these rows of the batch."""
        return self._map(lambda t: t[rows])

    def detach(self) -> "RNNState":
        """Return the state without its gradient history: truncated backpropagation."""
        return self._map(Tensor.detach)

    def _map(self, function: Callable[[Tensor], Tensor]) -> "RNNState":
        return RNNState(
            [
                [tuple(function(t) for t in state) for state in directions]
                for directions in self.layers
            ]
        )


class RecurrentLM(LanguageModel):
    """A recurrent language model: RNN, GRU or LSTM.

    >>> model = RecurrentLM(vocab_size=100, d_model=16, hidden_size=32, cell="gru")
    >>> model(torch.zeros(2, 5, dtype=torch.long))[0].shape
    torch.Size([2, 5, 100])
    """

    is_recurrent = True

    def __init__(
        self,
        vocab_size: int,
        *,
        d_model: int = 128,
        cell: CellKind = "lstm",
        hidden_size: int = 256,
        layers: int = 1,
        dropout: float = 0.0,
        tie_embeddings: bool = False,
        chrono_init: int | None = None,
    ) -> None:
        super().__init__(
            vocab_size,
            d_model=d_model,
            num_features=hidden_size,
            dropout=dropout,
            tie_embeddings=tie_embeddings,
        )
        self.recurrent = RecurrentStack(
            cell, d_model, hidden_size, layers=layers, dropout=dropout, chrono_init=chrono_init
        )

    def init_state(self) -> RNNState | None:
        return None  # torch's layers start from zeros

    def forward_features(self, ids: Tensor, state: RNNState | None) -> tuple[Tensor, RNNState]:
        embedded = self.dropout(tap("embedded", self.embedding(ids)))
        initial = None if state is None else state.layers
        outputs, _, final = self.recurrent(embedded, hidden_states=initial)
        return self.dropout(outputs), RNNState(final)


class KVState:
    """The key-value caches of all blocks, and the fast step if there is one.

    A model with learned positions also keeps the last tokens, to read them again when it runs out
    of positions.
    """

    def __init__(
        self, caches: list[KeyValueCache], fast_step: FastStep | None, tokens: list[Tensor]
    ) -> None:
        self.caches, self.fast_step = caches, fast_step
        self.tokens = tokens  # [batch, some] each: they are joined when they are read again

    def select(self, rows: Int[Tensor, " chosen"]) -> "KVState":
        """Return the state of these rows of the batch."""
        tokens = [torch.cat(self.tokens, 1)[rows]] if self.tokens else []
        return KVState([cache.select(rows) for cache in self.caches], self.fast_step, tokens)

    def with_empty_caches(self) -> "KVState":
        """Return a state with the same tokens and empty caches."""
        return KVState([KeyValueCache() for _ in self.caches], self.fast_step, self.tokens)


class TransformerLM(LanguageModel):
    """A decoder-only Transformer.

    >>> model = TransformerLM(vocab_size=100, d_model=16, layers=2, heads=4)
    >>> model(torch.zeros(2, 5, dtype=torch.long))[0].shape
    torch.Size([2, 5, 100])
    """

    def __init__(
        self,
        vocab_size: int,
        *,
        d_model: int = 128,
        layers: int = 4,
        heads: int = 4,
        kv_heads: int | None = None,
        d_ff: int | None = None,
        positions: Literal["learned", "sinusoidal", "rotary"] = "rotary",
        max_positions: int = 256,
        rotary_base: float = 10_000.0,
        rotary_fraction: float = 1.0,
        norm: NormPlacement = "pre",
        norm_kind: NormKind = "layer",
        norm_eps: float = 1e-5,
        parallel_residual: bool = False,
        activation: Activation = "gelu",
        gated: bool = False,
        bias: bool = True,
        dropout: float = 0.0,
        tie_embeddings: bool = True,
    ) -> None:
        super().__init__(
            vocab_size,
            d_model=d_model,
            num_features=d_model,
            dropout=dropout,
            tie_embeddings=tie_embeddings,
        )
        self.positions: SinusoidalPositions | LearnedPositions | None = None
        if positions == "sinusoidal":
            self.positions = SinusoidalPositions(d_model)
        elif positions == "learned":
            self.positions = LearnedPositions(max_positions, d_model)
            self.max_positions = max_positions
        self.blocks = nn.ModuleList(
            EncoderBlock(
                d_model,
                heads,
                d_ff or 4 * d_model,
                norm=norm,
                norm_kind=norm_kind,
                norm_eps=norm_eps,
                parallel_residual=parallel_residual,
                activation=activation,
                gated=gated,
                bias=bias,
                dropout=dropout,
                kv_heads=kv_heads,
                rotary=positions == "rotary",
                rotary_base=rotary_base,
                rotary_fraction=rotary_fraction,
            )
            for _ in range(layers)
        )
        self.norm = build_norm(d_model, norm_kind, norm_eps) if norm == "pre" else nn.Identity()
        self._scale_residual_init(layers)

    def _scale_residual_init(self, layers: int) -> None:
        """Scale the output projections by `1/√(2 · layers)`, as GPT-2 does.

        Otherwise the variance of the residual stream would grow with the depth.
        """
        for name, weight in self.named_parameters():
            if name.endswith(("attention.output.weight", "feed_forward.outer.weight")):
                with torch.no_grad():
                    weight.mul_((2 * layers) ** -0.5)

    def init_state(self) -> KVState:
        fast = None if has_hooks(self) or self.training else self._build_fast_step()
        return KVState([KeyValueCache() for _ in self.blocks], fast, [])

    def step(self, tokens: Int[Tensor, " batch"], state: KVState) -> tuple[Tensor, KVState]:
        if state.fast_step is None or is_tracing() or self._is_full(state, 1):
            return super().step(tokens, state)
        self._keep_recent_tokens(tokens.unsqueeze(1), state)
        return state.fast_step(tokens, state.caches), state

    def forward_features(self, ids: Tensor, state: KVState | None) -> tuple[Tensor, KVState | None]:
        if state is None:
            return self.run_blocks(ids, None), None
        self._keep_recent_tokens(ids, state)
        if self._is_full(state, ids.shape[1]):
            # All positions are used up: start again with the later half of the context.
            assert self.max_positions is not None
            ids = torch.cat(state.tokens, 1)[:, -max(self.max_positions // 2, 1) :]
            state.tokens = [ids]
            state = state.with_empty_caches()
        return self.run_blocks(ids, state.caches), state

    def _keep_recent_tokens(self, ids: Tensor, state: KVState) -> None:
        """Append tokens to the state's recent ones if they may be read again."""
        if self.max_positions is not None:
            state.tokens.append(ids)

    def _is_full(self, state: KVState, new: int) -> bool:
        """Return True if `new` more tokens would exceed the number of positions."""
        return self.max_positions is not None and state.caches[0].length + new > self.max_positions

    def run_blocks(
        self, ids: Int[Tensor, "batch time"], caches: list[KeyValueCache] | None
    ) -> Float[Tensor, "batch time width"]:
        """Return the features of tokens that follow those in the caches; caches are updated."""
        x = tap("embedded", self.embedding(ids))
        if self.positions is not None:
            x = self.positions(x, 0 if caches is None else caches[0].length)
        x = self.dropout(x)
        for k, block in enumerate(self.blocks):
            x = block(x, causal=True, cache=None if caches is None else caches[k])
        normed: Tensor = self.norm(x)
        return normed

    def _build_fast_step(self) -> FastStep:
        """Return a step of the whole model as a plain function, with the current weights."""
        embedding, positions = self.embedding.weight, self.positions
        head = fast_linear(self.head)
        norm = fast_norm(self.norm) if isinstance(self.norm, LayerNorm | RMSNorm) else None
        blocks = [
            fast_block_step(block) for block in self.blocks if isinstance(block, EncoderBlock)
        ]

        def step(tokens: Tensor, caches: list[KeyValueCache]) -> Tensor:
            x = F.embedding(tokens, embedding)
            if positions is not None:
                start = caches[0].length
                x = x + positions.rows(start, start + 1)
            for block, cache in zip(blocks, caches, strict=True):
                x = block(x, cache)
            return head(x if norm is None else norm(x))

        return step


LANGUAGE_MODELS: dict[str, Callable[..., LanguageModel]] = MODELS.setdefault("language", {})
LANGUAGE_MODELS.update(recurrent=RecurrentLM, transformer=TransformerLM)


def build_language_model(
    model: LanguageModelVariant | Mapping[str, Any], vocab_size: int
) -> LanguageModel:
    """Build the model that a recipe's `[model]` section describes, with new weights."""
    config = parse_language_model_config(model)
    return build_model(LANGUAGE_MODELS[config.kind], vocab_size=vocab_size, **config.settings())
