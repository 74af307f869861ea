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

from workings.errors import UserError, brief
from workings.layers.blocks import EncoderBlock
from workings.layers.cache import KeyValueCache
from workings.layers.dropout import Dropout
from workings.layers.norms import LayerNorm
from workings.layers.positions import LearnedPositions, SinusoidalPositions
from workings.layers.recurrent import Memory, Recurrent
from workings.layers.straight import straight, straight_linear, straight_norm
from workings.recipes import (
    LanguageConfig,
    RecurrentLanguageConfig,
    TransformerLanguageConfig,
    language_config,
)
from workings.trace import tap, traced

FastStep: TypeAlias = Callable[[Tensor, list[KeyValueCache]], Tensor]


class LanguageModel(nn.Module, ABC):
    """Embed, go through layers that never look ahead, score the vocabulary."""

    longest: int | None = None  # positions the model has, where it cannot go on without end
    remembers: bool = False  # all it has read, in a state of fixed size

    def __init__(self, config: LanguageConfig, vocabulary: int, features: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, config.embedding)
        self.dropout = Dropout(config.dropout)
        if config.tied and features != config.embedding:
            raise UserError(
                f"tied = true: the head is the embedding, so that {features} features need an "
                f"embedding of {features}, not {config.embedding}"
            )
        self.head = nn.Linear(features, vocabulary, bias=not config.tied)
        nn.init.normal_(self.embedding.weight, std=0.02 if config.tied else 1.0)
        if config.tied:
            self.head.weight = self.embedding.weight  # u = h Eᵀ

    @abstractmethod
    def read(self, ids: Int[Tensor, "batch time"], state: Any) -> tuple[Tensor, Any]:
        """Features at every place, and what to remember; None: the sequence begins."""

    @abstractmethod
    def fresh(self) -> Any:
        """A state that remembers nothing yet."""

    def forward(
        self, ids: Int[Tensor, "batch time"], state: Any = None
    ) -> tuple[Float[Tensor, "batch time vocabulary"], Any]:
        """Score the next token at every place; go on from a state, where one is given."""
        features, state = self.read(ids, state)
        return self.head(tap("features", features)), state

    def start(self, prompt: Int[Tensor, "batch time"]) -> tuple[Tensor, Any]:
        """Read a prompt of at least one token; score what follows it."""
        features, state = self.read(prompt, self.fresh())
        return self.head(features[:, -1]), state

    def step(self, tokens: Int[Tensor, " batch"], state: Any) -> tuple[Tensor, Any]:
        """Read a token; score what follows."""
        features, state = self.read(tokens.unsqueeze(1), state)
        return self.head(features[:, -1]), state


class Memories:
    """What a recurrent model remembers: the state of each layer."""

    def __init__(self, layers: list[list[Memory]]) -> None:
        self.layers = layers

    def select(self, rows: Int[Tensor, " chosen"]) -> "Memories":
        """Make a state of these rows."""
        return self._each(lambda t: t[rows])

    def detach(self) -> "Memories":
        """The same, but gradients end here: truncated back-propagation."""
        return self._each(Tensor.detach)

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Memories":
        return Memories(
            [[tuple(change(t) for t in memory) for memory in ways] for ways in self.layers]
        )


class RecurrentLanguageModel(LanguageModel):
    """Reads token after token; the whole past is in the state."""

    remembers = True

    def __init__(self, config: RecurrentLanguageConfig, vocabulary: int) -> None:
        super().__init__(config, vocabulary, config.hidden)
        self.recurrent = Recurrent(
            config.cell,
            config.embedding,
            config.hidden,
            layers=config.layers,
            dropout=config.dropout,
            memory=config.memory,
        )

    def fresh(self) -> Memories | None:
        return None  # zeros

    def read(self, ids: Tensor, state: Memories | None) -> tuple[Tensor, Memories]:
        embedded = self.dropout(tap("embedded", self.embedding(ids)))
        before = None if state is None else state.layers
        states, _, memories = self.recurrent(embedded, memories=before)
        return self.dropout(states), Memories(memories)


class Window:
    """What a Transformer remembers: keys and values of each block.

    And the last tokens themselves, where positions may come to an end.

    With it goes the fast way to read a token, where there is one.
    """

    def __init__(
        self, caches: list[KeyValueCache], fast: FastStep | None, tokens: Tensor | None = None
    ) -> None:
        self.caches, self.fast, self.tokens = caches, fast, tokens

    def select(self, rows: Int[Tensor, " chosen"]) -> "Window":
        """Make a state of these rows."""
        tokens = None if self.tokens is None else self.tokens[rows]
        return Window([cache.select(rows) for cache in self.caches], self.fast, tokens)

    def anew(self) -> "Window":
        """The same tokens, but nothing of them in the caches."""
        return Window([KeyValueCache() for _ in self.caches], self.fast, self.tokens)


class TransformerLanguageModel(LanguageModel):
    """Every token looks back at all before it."""

    def __init__(self, config: TransformerLanguageConfig, vocabulary: int) -> None:
        super().__init__(config, vocabulary, config.embedding)
        self.positions: SinusoidalPositions | LearnedPositions | None = None
        if config.positions == "sinusoidal":
            self.positions = SinusoidalPositions(config.embedding)
        elif config.positions == "learned":
            self.positions = LearnedPositions(config.length, config.embedding)
            self.longest = config.length
        self.blocks = nn.ModuleList(
            EncoderBlock(
                config.embedding,
                config.heads,
                config.hidden or 4 * config.embedding,
                norm=config.norm,
                activation=config.activation,
                dropout=config.dropout,
                shared_heads=config.shared_heads,
                rotary=config.positions == "rotary",
            )
            for _ in range(config.layers)
        )
        self.norm = LayerNorm(config.embedding) if config.norm == "pre" else nn.Identity()
        self._calm(config.layers)

    def _calm(self, layers: int) -> None:
        """Start with small steps: what is added to the residual path grows with the depth."""
        for name, weight in self.named_parameters():
            if name.endswith(("attention.output.weight", "feed_forward.outer.weight")):
                with torch.no_grad():
                    weight.mul_((2 * layers) ** -0.5)

    def fresh(self) -> Window:
        # Modules that somebody has hooked have to be called as such.
        hooked = any(m._forward_pre_hooks or m._forward_hooks for m in self.modules())
        fast = None if hooked or self.training else self._straight()
        return Window([KeyValueCache() for _ in self.blocks], fast)

    def step(self, tokens: Int[Tensor, " batch"], state: Window) -> tuple[Tensor, Window]:
        if state.fast is None or traced() or self._is_full(state, 1):
            return super().step(tokens, state)
        self._late(tokens.unsqueeze(1), state)
        return state.fast(tokens, state.caches), state

    def read(self, ids: Tensor, state: Window | None) -> tuple[Tensor, Window | None]:
        if state is None:
            return self._through(ids, None), None
        late = self._late(ids, state)
        if self._is_full(state, ids.shape[1]):
            # No positions are left: begin anew with the later half of what there is room for.
            state, ids = state.anew(), late
        return self._through(ids, state.caches), state

    def _late(self, ids: Tensor, state: Window) -> Tensor:
        """Remember as many tokens as are read again where positions come to an end."""
        if self.longest is None:
            return ids
        before = ids if state.tokens is None else torch.cat((state.tokens, ids), 1)
        state.tokens = before[:, -max(self.longest // 2, 1) :]
        return state.tokens

    def _is_full(self, state: Window, new: int) -> bool:
        return self.longest is not None and state.caches[0].length + new > self.longest

    def _through(self, ids: Tensor, caches: list[KeyValueCache] | None) -> Tensor:
        x = tap("embedded", self.embedding(ids))
        if self.positions is not None:
            x = self.positions(x, 0 if caches is None else caches[0].length)
        x = self.dropout(x)
        for k, block in enumerate(self.blocks):
            x = block(x, causal=True, cache=None if caches is None else caches[k])
        normed: Tensor = self.norm(x)
        return normed

    def _straight(self) -> FastStep:
        """Make a step of the whole model as a plain function, with the weights as they are now."""
        embedding, positions = self.embedding.weight, self.positions
        head = straight_linear(self.head)
        norm = straight_norm(self.norm) if isinstance(self.norm, LayerNorm) else None
        blocks = [straight(block) for block in self.blocks if isinstance(block, EncoderBlock)]

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
    "recurrent": RecurrentLanguageModel,
    "transformer": TransformerLanguageModel,
}


def build_language_model(table: dict[str, Any], vocabulary: int) -> LanguageModel:
    """Make the model that a recipe's `[model]` section describes, with fresh weights."""
    kind, config = language_config(table)
    try:
        return LANGUAGE_MODELS[kind](config, vocabulary)
    except (RuntimeError, MemoryError) as error:
        told = brief(str(error) or "out of memory", 150)
        raise UserError(f"model: it cannot be made like this: {told}") from None
