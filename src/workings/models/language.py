"""Language models: ids in, scores of the next token at every place out; and start and step.

`forward` reads whole windows in training. `start` and `step` are what decoding asks: a prompt in
one pass, then a token at a time, with a state that remembers what was read.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from workings.errors import UserError, truncate
from workings.layers.cache import KeyValueCache
from workings.layers.dropout import Dropout
from workings.layers.fast_step import fast_block_step, fast_linear, fast_norm
from workings.layers.positions import LearnedPositions, SinusoidalPositions
from workings.layers.recurrent import HiddenState, RecurrentStack
from workings.layers.transformer import EncoderBlock, LayerNorm
from workings.recipes import (
    LanguageModelConfig,
    RecurrentLanguageModelConfig,
    TransformerLanguageModelConfig,
    parse_language_model_config,
)
from workings.trace import is_tracing, tap

FastStep: TypeAlias = Callable[[Tensor, list[KeyValueCache]], Tensor]


class LanguageModel(nn.Module, ABC):
    """Embed, go through layers that never look ahead, score the vocabulary."""

    max_positions: int | None = None  # positions the model has, where it cannot go on without end
    is_recurrent: bool = False  # all it has read, in a state of fixed size

    def __init__(self, config: LanguageModelConfig, vocab_size: int, num_features: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, config.d_model)
        self.dropout = Dropout(config.dropout)
        if config.tie_embeddings and num_features != config.d_model:
            raise UserError(
                f"tie_embeddings = true: the head shares the embedding's weights, so d_model must "
                f"be {num_features}, not {config.d_model}"
            )
        self.head = nn.Linear(num_features, vocab_size, bias=not config.tie_embeddings)
        nn.init.normal_(self.embedding.weight, std=0.02 if config.tie_embeddings else 1.0)
        if config.tie_embeddings:
            self.head.weight = self.embedding.weight  # u = h Eᵀ

    @abstractmethod
    def forward_features(self, ids: Int[Tensor, "batch time"], state: Any) -> tuple[Tensor, Any]:
        """Features at every place, and what to remember; None: the sequence begins."""

    @abstractmethod
    def init_state(self) -> Any:
        """A state that remembers nothing yet."""

    def forward(
        self, ids: Int[Tensor, "batch time"], state: Any = None
    ) -> tuple[Float[Tensor, "batch time vocabulary"], Any]:
        """Score the next token at every place; go on from a state, where one is given."""
        features, state = self.forward_features(ids, state)
        return self.head(tap("features", features)), state

    def start(self, prompt: Int[Tensor, "batch time"]) -> tuple[Tensor, Any]:
        """Read a prompt of at least one token; score what follows it."""
        features, state = self.forward_features(prompt, self.init_state())
        return self.head(features[:, -1]), state

    def step(self, tokens: Int[Tensor, " batch"], state: Any) -> tuple[Tensor, Any]:
        """Read a token; score what follows."""
        features, state = self.forward_features(tokens.unsqueeze(1), state)
        return self.head(features[:, -1]), state


class RNNState:
    """What a recurrent model remembers: the state of each layer."""

    def __init__(self, layers: list[list[HiddenState]]) -> None:
        self.layers = layers

    def select(self, rows: Int[Tensor, " chosen"]) -> "RNNState":
        """Make a state of these rows."""
        return self._map(lambda t: t[rows])

    def detach(self) -> "RNNState":
        """The same, but gradients end here: truncated back-propagation."""
        return self._map(Tensor.detach)

    def _map(self, change: Callable[[Tensor], Tensor]) -> "RNNState":
        return RNNState(
            [[tuple(change(t) for t in memory) for memory in ways] for ways in self.layers]
        )


class RecurrentLM(LanguageModel):
    """Reads token after token; the whole past is in the state."""

    is_recurrent = True

    def __init__(self, config: RecurrentLanguageModelConfig, vocab_size: int) -> None:
        super().__init__(config, vocab_size, config.hidden_size)
        self.recurrent = RecurrentStack(
            config.cell,
            config.d_model,
            config.hidden_size,
            layers=config.layers,
            dropout=config.dropout,
            chrono_steps=config.chrono_init,
        )

    def init_state(self) -> RNNState | None:
        return None  # zeros

    def forward_features(self, ids: Tensor, state: RNNState | None) -> tuple[Tensor, RNNState]:
        embedded = self.dropout(tap("embedded", self.embedding(ids)))
        before = None if state is None else state.layers
        states, _, memories = self.recurrent(embedded, hidden_states=before)
        return self.dropout(states), RNNState(memories)


class KVState:
    """What a Transformer remembers: keys and values of each block.

    And the last tokens themselves, where positions may come to an end.

    With it goes the fast way to read a token, where there is one.
    """

    def __init__(
        self, caches: list[KeyValueCache], fast_step: FastStep | None, tokens: Tensor | None = None
    ) -> None:
        self.caches, self.fast_step, self.tokens = caches, fast_step, tokens

    def select(self, rows: Int[Tensor, " chosen"]) -> "KVState":
        """Make a state of these rows."""
        tokens = None if self.tokens is None else self.tokens[rows]
        return KVState([cache.select(rows) for cache in self.caches], self.fast_step, tokens)

    def with_empty_caches(self) -> "KVState":
        """The same tokens, but nothing of them in the caches."""
        return KVState([KeyValueCache() for _ in self.caches], self.fast_step, self.tokens)


class TransformerLM(LanguageModel):
    """Every token looks back at all before it."""

    def __init__(self, config: TransformerLanguageModelConfig, vocab_size: int) -> None:
        super().__init__(config, vocab_size, config.d_model)
        self.positions: SinusoidalPositions | LearnedPositions | None = None
        if config.positions == "sinusoidal":
            self.positions = SinusoidalPositions(config.d_model)
        elif config.positions == "learned":
            self.positions = LearnedPositions(config.max_positions, config.d_model)
            self.max_positions = config.max_positions
        self.blocks = nn.ModuleList(
            EncoderBlock(
                config.d_model,
                config.heads,
                config.d_ff or 4 * config.d_model,
                norm=config.norm,
                activation=config.activation,
                dropout=config.dropout,
                kv_heads=config.kv_heads,
                rotary=config.positions == "rotary",
            )
            for _ in range(config.layers)
        )
        self.norm = LayerNorm(config.d_model) if config.norm == "pre" else nn.Identity()
        self._scale_residual_init(config.layers)

    def _scale_residual_init(self, layers: int) -> None:
        """Start with small steps: what is added to the residual path grows with the depth."""
        for name, weight in self.named_parameters():
            if name.endswith(("attention.output.weight", "feed_forward.outer.weight")):
                with torch.no_grad():
                    weight.mul_((2 * layers) ** -0.5)

    def init_state(self) -> KVState:
        # Modules that somebody has hooked have to be called as such.
        hooked = any(m._forward_pre_hooks or m._forward_hooks for m in self.modules())
        fast = None if hooked or self.training else self._build_fast_step()
        return KVState([KeyValueCache() for _ in self.blocks], fast)

    def step(self, tokens: Int[Tensor, " batch"], state: KVState) -> tuple[Tensor, KVState]:
        if state.fast_step is None or is_tracing() or self._is_full(state, 1):
            return super().step(tokens, state)
        self._update_recent_tokens(tokens.unsqueeze(1), state)
        return state.fast_step(tokens, state.caches), state

    def forward_features(self, ids: Tensor, state: KVState | None) -> tuple[Tensor, KVState | None]:
        if state is None:
            return self._run_blocks(ids, None), None
        late = self._update_recent_tokens(ids, state)
        if self._is_full(state, ids.shape[1]):
            # No positions are left: begin anew with the later half of what there is room for.
            state, ids = state.with_empty_caches(), late
        return self._run_blocks(ids, state.caches), state

    def _update_recent_tokens(self, ids: Tensor, state: KVState) -> Tensor:
        """Remember as many tokens as are read again where positions come to an end."""
        if self.max_positions is None:
            return ids
        before = ids if state.tokens is None else torch.cat((state.tokens, ids), 1)
        state.tokens = before[:, -max(self.max_positions // 2, 1) :]
        return state.tokens

    def _is_full(self, state: KVState, new: int) -> bool:
        return self.max_positions is not None and state.caches[0].length + new > self.max_positions

    def _run_blocks(self, ids: Tensor, caches: list[KeyValueCache] | None) -> Tensor:
        x = tap("embedded", self.embedding(ids))
        if self.positions is not None:
            x = self.positions(x, 0 if caches is None else caches[0].length)
        x = self.dropout(x)
        for k, block in enumerate(self.blocks):
            x = block(x, causal=True, cache=None if caches is None else caches[k])
        normed: Tensor = self.norm(x)
        return normed

    def _build_fast_step(self) -> FastStep:
        """Make a step of the whole model as a plain function, with the weights as they are now."""
        embedding, positions = self.embedding.weight, self.positions
        head = fast_linear(self.head)
        norm = fast_norm(self.norm) if isinstance(self.norm, LayerNorm) else None
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


LANGUAGE_MODELS: dict[str, Callable[[Any, int], LanguageModel]] = {
    "recurrent": RecurrentLM,
    "transformer": TransformerLM,
}


def build_language_model(table: dict[str, Any], vocab_size: int) -> LanguageModel:
    """Make the model that a recipe's `[model]` section describes, with fresh weights."""
    kind, config = parse_language_model_config(table)
    try:
        return LANGUAGE_MODELS[kind](config, vocab_size)
    except (RuntimeError, MemoryError) as error:
        told = truncate(str(error) or "out of memory", 150)
        raise UserError(f"model: it cannot be made like this: {told}") from None
