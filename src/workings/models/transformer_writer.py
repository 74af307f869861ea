"""A Transformer decoder: every token looks at all before it, and at what it writes about."""

from abc import abstractmethod
from typing import Any, Generic

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workings.layers.blocks import DecoderBlock
from workings.layers.cache import KeyValueCache
from workings.layers.norms import LayerNorm
from workings.layers.positions import SinusoidalPositions
from workings.layers.straight import Memory, StraightDecoder
from workings.models.writers import About, Writer
from workings.recipes import TransformerWriterConfig
from workings.trace import traced


class Written:
    """What a decoder remembers: keys and values of each translation, and what it looks at.

    That is of each source, and the translations of one source share it. Rows are translations;
    those of one source stand together, equally many of each.
    """

    def __init__(
        self,
        caches: list[KeyValueCache],
        source: Float[Tensor, "sources time width"],
        mask: Float[Tensor, "sources 1 1 time"] | None,
        fast: StraightDecoder | None,
        memory: list[Memory] | None = None,
        each: int = 1,
    ) -> None:
        self.caches, self.source, self.mask = caches, source, mask
        self.fast, self.each = fast, each
        self.memory = memory if memory is not None or fast is None else fast.remember(source)

    def select(self, rows: Int[Tensor, " chosen"]) -> "Written":
        """Make a state of these rows."""
        of = rows // self.each
        each = _each(of)
        kept = of[::each]
        source, mask, memory = self.source, self.mask, self.memory
        if len(kept) != len(source) or not torch.equal(kept, torch.arange(len(source)).to(kept)):
            source, mask = source[kept], None if mask is None else mask[kept]
            memory = memory and [(key[kept], value[kept]) for key, value in memory]
        caches = [cache.select(rows) for cache in self.caches]
        return Written(caches, source, mask, self.fast, memory, each)


def _each(of: Int[Tensor, " rows"]) -> int:
    """How many rows of one source stand together, if it is as many of each; else one.

    >>> _each(torch.tensor([4, 4, 7, 7])), _each(torch.tensor([4, 4, 7])), _each(torch.tensor([4]))
    (2, 1, 1)
    """
    counts = torch.unique_consecutive(of, return_counts=True)[1].tolist()
    return int(counts[0]) if len(set(counts)) == 1 else 1


class TransformerWriter(Writer[About], Generic[About]):
    """Blocks of self-attention and cross-attention; `read` is up to what it writes about."""

    def __init__(self, config: TransformerWriterConfig, vocabulary: int) -> None:
        super().__init__(config, vocabulary)
        self.positions = SinusoidalPositions(config.embedding)
        self.decoder = nn.ModuleList(
            DecoderBlock(**block_settings(config)) for _ in range(config.layers)
        )
        self.decoder_norm = end_norm(config)

    @abstractmethod
    def read(
        self, about: About
    ) -> tuple[Float[Tensor, "batch places width"], Float[Tensor, "batch 1 1 places"] | None]:
        """What the decoder looks at, and a mask that keeps padding out."""

    def features(
        self, about: About, target: Int[Tensor, "batch time"]
    ) -> Float[Tensor, "batch time width"]:
        memory, mask = self.read(about)
        x = self.placed(self.target_embedding, target, 0)
        for block in self.decoder:
            x = block(x, memory, memory_mask=mask)
        normed: Tensor = self.decoder_norm(x)
        return normed

    def placed(self, embedding: nn.Embedding, ids: Tensor, begin: int) -> Tensor:
        """Vectors of tokens, with where they stand."""
        placed: Tensor = self.dropout(self.positions(self.embedded(embedding, ids), begin))
        return placed

    def begin(self, about: About) -> Written:
        memory, mask = self.read(about)
        # Modules that somebody has hooked have to be called as such.
        hooked = any(m._forward_pre_hooks or m._forward_hooks for m in self.modules())
        fast = None
        if not hooked and not self.training and not torch.is_grad_enabled():
            fast = StraightDecoder([b for b in self.decoder if isinstance(b, DecoderBlock)])
        return Written([KeyValueCache() for _ in self.decoder], memory, mask, fast)

    def write(self, tokens: Int[Tensor, " batch"], state: Written) -> tuple[Tensor, Written]:
        x = self.placed(self.target_embedding, tokens.unsqueeze(1), state.caches[0].length)
        if state.fast is not None and state.memory is not None and not traced():
            x = state.fast(x.squeeze(1), state.caches, state.memory, state.mask)
            return self.decoder_norm(x), state
        memory = state.source.repeat_interleave(state.each, 0)
        mask = None if state.mask is None else state.mask.repeat_interleave(state.each, 0)
        for block, cache in zip(self.decoder, state.caches, strict=True):
            x = block(x, memory, memory_mask=mask, cache=cache)
        return self.decoder_norm(x).squeeze(1), state


def block_settings(config: TransformerWriterConfig) -> dict[str, Any]:
    """What the blocks of encoder and decoder have in common."""
    return {
        "width": config.embedding,
        "heads": config.heads,
        "hidden": config.hidden or 4 * config.embedding,
        "norm": config.norm,
        "activation": config.activation,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "hidden_dropout": config.hidden_dropout,
    }


def end_norm(config: TransformerWriterConfig) -> nn.Module:
    """With the norms in front, what comes out of the last block has none yet."""
    return LayerNorm(config.embedding) if config.norm == "pre" else nn.Identity()
