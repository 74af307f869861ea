"""Recurrent translators: one network reads, another writes, and looks at more and more of it.

The notes' ladder. `none`: the encoder's last state is the decoder's first, and all that it knows.
`fixed`: it sees that state, the context, at every step. Attention: it sees at every step what its
own state finds among all of the encoder's.
"""

import torch
from torch import Tensor, nn

from workings.layers.recurrent import Memory, Recurrent
from workings.models.recurrent_writer import Decoding, RecurrentWriter
from workings.models.translators import Sentences, Translator
from workings.recipes import RecurrentTranslatorConfig


class RecurrentTranslator(RecurrentWriter[Sentences], Translator):
    """RNN, GRU or LSTM, with as much of the source as the recipe lets it see."""

    def __init__(self, config: RecurrentTranslatorConfig, source: int, target: int) -> None:
        super().__init__(config, target)
        self.read_from(config, source)
        self.encoder = Recurrent(
            config.cell,
            config.embedding,
            config.hidden,
            layers=config.layers,
            bidirectional=config.bidirectional,
            dropout=config.dropout,
        )
        both = self.encoder.output_width
        self.merge = nn.Linear(both, config.hidden) if both != config.hidden else nn.Identity()
        # s_0 = h_T, where they are alike; else it is predicted.
        self.first = None
        if config.context != "none" or config.bidirectional:
            self.first = nn.Linear(both, config.hidden * config.layers)

    def begin(self, about: Sentences) -> Decoding:
        embedded = self.dropout(self.embedded(self.source_embedding, about.ids))
        if self.first is None:
            memories = self._last_memories(embedded, about)
            last = memories[-1][0][0]
            return Decoding(memories, last.unsqueeze(1), last.unsqueeze(1), None, last)
        states, ends, _ = self.encoder(embedded, about.lengths)
        states, last = self.merge(self.dropout(states)), ends.flatten(1)  # both ways
        return self.opened(self.first(last), states, about.real(), self.merge(last))

    def _last_memories(self, embedded: Tensor, source: Sentences) -> list[list[Memory]]:
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
