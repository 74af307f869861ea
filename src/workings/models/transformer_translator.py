"""The Transformer of encoder and decoder."""

import torch
from torch import Tensor, nn

from workings.layers.blocks import EncoderBlock
from workings.models.transformer_writer import TransformerWriter, block_settings, end_norm
from workings.models.translators import Sentences, Translator
from workings.recipes import TransformerTranslatorConfig


class TransformerTranslator(TransformerWriter[Sentences], Translator):
    """Every token of the translation looks at all of it before, and at all of the source."""

    def __init__(self, config: TransformerTranslatorConfig, source: int, target: int) -> None:
        super().__init__(config, target)
        self.read_from(config, source)
        self.encoder = nn.ModuleList(
            EncoderBlock(**block_settings(config)) for _ in range(config.layers)
        )
        self.encoder_norm = end_norm(config)

    def read(self, about: Sentences) -> tuple[Tensor, Tensor | None]:
        real = about.real()
        x = self.placed(self.source_embedding, about.ids, 0)
        mask = None
        if real is not None:
            mask = x.new_zeros(real.shape).masked_fill_(~real, -torch.inf)[:, None, None]
        for block in self.encoder:
            x = block(x, mask=mask)
        return self.encoder_norm(x), mask
