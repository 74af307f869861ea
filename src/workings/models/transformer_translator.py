"""The Transformer of encoder and decoder."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workings.layers.blocks import DecoderBlock, EncoderBlock
from workings.layers.cache import KeyValueCache
from workings.layers.norms import LayerNorm
from workings.layers.positions import SinusoidalPositions
from workings.layers.straight import Memory, StraightDecoder
from workings.models.translators import Sentences, Translator
from workings.recipes import TransformerTranslatorConfig
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


class TransformerTranslator(Translator):
    """Every token of the translation looks at all of it before, and at all of the source."""

    def __init__(self, config: TransformerTranslatorConfig, source: int, target: int) -> None:
        super().__init__(config, source, target)
        self.positions = SinusoidalPositions(config.embedding)
        shape = (config.embedding, config.heads, config.hidden or 4 * config.embedding)
        settings = {
            "norm": config.norm,
            "activation": config.activation,
            "dropout": config.dropout,
            "attention_dropout": config.attention_dropout,
        }
        layers = range(config.layers)
        self.encoder = nn.ModuleList(EncoderBlock(*shape, **settings) for _ in layers)  # type: ignore[arg-type]
        self.decoder = nn.ModuleList(DecoderBlock(*shape, **settings) for _ in layers)  # type: ignore[arg-type]
        ends = config.norm == "pre"
        self.encoder_norm = LayerNorm(config.embedding) if ends else nn.Identity()
        self.decoder_norm = LayerNorm(config.embedding) if ends else nn.Identity()

    def features(
        self, source: Sentences, target: Int[Tensor, "batch time"]
    ) -> Float[Tensor, "batch time width"]:
        memory, mask = self._read(source)
        x = self._placed(self.target_embedding, target, 0)
        for block in self.decoder:
            x = block(x, memory, memory_mask=mask)
        normed: Tensor = self.decoder_norm(x)
        return normed

    def _read(self, source: Sentences) -> tuple[Tensor, Tensor | None]:
        """The source as the decoder sees it, and a mask that keeps padding out."""
        real = source.real()
        x = self._placed(self.source_embedding, source.ids, 0)
        mask = None
        if real is not None:
            mask = x.new_zeros(real.shape).masked_fill_(~real, -torch.inf)[:, None, None]
        for block in self.encoder:
            x = block(x, mask=mask)
        return self.encoder_norm(x), mask

    def _placed(self, embedding: nn.Embedding, ids: Tensor, begin: int) -> Tensor:
        placed: Tensor = self.dropout(self.positions(self.embedded(embedding, ids), begin))
        return placed

    def begin(self, source: Sentences) -> Written:
        memory, mask = self._read(source)
        # Modules that somebody has hooked have to be called as such.
        hooked = any(m._forward_pre_hooks or m._forward_hooks for m in self.modules())
        fast = None
        if not hooked and not self.training and not torch.is_grad_enabled():
            fast = StraightDecoder([b for b in self.decoder if isinstance(b, DecoderBlock)])
        return Written([KeyValueCache() for _ in self.decoder], memory, mask, fast)

    def write(self, tokens: Int[Tensor, " batch"], state: Written) -> tuple[Tensor, Written]:
        x = self._placed(self.target_embedding, tokens.unsqueeze(1), state.caches[0].length)
        if state.fast is not None and state.memory is not None and not traced():
            x = state.fast(x.squeeze(1), state.caches, state.memory, state.mask)
            return self.decoder_norm(x), state
        memory = state.source.repeat_interleave(state.each, 0)
        mask = None if state.mask is None else state.mask.repeat_interleave(state.each, 0)
        for block, cache in zip(self.decoder, state.caches, strict=True):
            x = block(x, memory, memory_mask=mask, cache=cache)
        return self.decoder_norm(x).squeeze(1), state
