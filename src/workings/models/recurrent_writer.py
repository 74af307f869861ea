"""A recurrent network that writes, and sees as much of what it writes about as it is let.

`none`: its first state is all that it knows. `fixed`: it sees one vector, the context, at every
step. Attention: it sees at every step what its own state finds among many vectors.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from workings.attention import attend, scaled_dot
from workings.errors import UserError
from workings.layers.recurrent import Memory, Recurrent
from workings.layers.similarity import Additive, General
from workings.models.writers import About, Writer
from workings.recipes import RecurrentWriterConfig
from workings.trace import tap


@dataclass(frozen=True)
class Decoding:
    """What a recurrent decoder remembers: its own states, and what it writes about."""

    memories: list[list[Memory]]
    states: Float[Tensor, "batch places hidden"]
    keys: Float[Tensor, "batch places d"]
    real: Bool[Tensor, "batch places"] | None
    fixed: Float[Tensor, "batch hidden"]  # all of it in one vector

    def select(self, rows: Int[Tensor, " chosen"]) -> "Decoding":
        """Make a state of these rows."""
        real = None if self.real is None else self.real[rows]
        memories = [[tuple(t[rows] for t in m) for m in ways] for ways in self.memories]
        return Decoding(memories, self.states[rows], self.keys[rows], real, self.fixed[rows])


class Look(nn.Module):
    """One query, the decoder's state, looks at many. Taps: those of `attend`."""

    def __init__(self, how: str, hidden: int) -> None:
        super().__init__()
        if how not in ("additive", "dot", "general"):
            raise UserError(f"context {how!r}: expected additive, dot or general")
        self.additive = Additive(hidden, hidden, hidden) if how == "additive" else None
        self.general = General(hidden, hidden) if how == "general" else None

    def project(self, states: Float[Tensor, "batch places hidden"]) -> Tensor:
        """What of the states the query is compared with: once a text."""
        return states if self.additive is None else self.additive.project(states)

    def forward(
        self, query: Float[Tensor, "batch hidden"], seen: Decoding
    ) -> Float[Tensor, "batch hidden"]:
        """Mix the states by how well they fit the query."""
        compare: Callable[[Tensor, Tensor], Tensor] = self.general or scaled_dot
        if self.additive is not None:
            compare = self.additive.compare
        mask = None if seen.real is None else seen.real.unsqueeze(1)
        mixed = attend(query.unsqueeze(1), seen.keys, seen.states, mask=mask, similarity=compare)
        return mixed.squeeze(1)


class RecurrentWriter(Writer[About], Generic[About]):
    """RNN, GRU or LSTM; `begin` is up to what it writes about."""

    def __init__(self, config: RecurrentWriterConfig, vocabulary: int) -> None:
        super().__init__(config, vocabulary)
        width, hidden = config.embedding, config.hidden
        self.context, self.layers = config.context, config.layers
        self.is_lstm = config.cell == "lstm"
        sees = self.context != "none"
        self.look = Look(self.context, hidden) if self.context not in ("none", "fixed") else None
        self.decoder = Recurrent(
            config.cell,
            width + (hidden if sees else 0),
            hidden,
            layers=config.layers,
            dropout=config.dropout,
        )
        self.readout = nn.Linear(hidden + (hidden + width if sees else 0), width)

    def opened(
        self,
        first: Float[Tensor, "batch all"],
        states: Float[Tensor, "batch places hidden"],
        real: Bool[Tensor, "batch places"] | None,
        fixed: Float[Tensor, "batch hidden"],
    ) -> Decoding:
        """A state to begin with, out of the hidden ones of all layers side by side."""
        hidden = torch.tanh(first).chunk(self.layers, -1)
        memories: list[list[Memory]] = [
            [(h, torch.zeros_like(h)) if self.is_lstm else (h,)] for h in hidden
        ]
        keys = states if self.look is None else self.look.project(states)
        return Decoding(memories, states, keys, real, fixed)

    def write(self, tokens: Int[Tensor, " batch"], state: Decoding) -> tuple[Tensor, Decoding]:
        embedded = self.dropout(self.embedded(self.target_embedding, tokens))
        hidden, context, state = self._advance(embedded, state)
        return self._read_out(hidden, context, embedded), state

    def _advance(
        self, embedded: Float[Tensor, "batch width"], state: Decoding
    ) -> tuple[Tensor, Tensor | None, Decoding]:
        """Go on by a token: the state of the top layer, and what it has seen."""
        context = self._context(state)
        seen = embedded if context is None else torch.cat((embedded, context), -1)
        _, last, memories = self.decoder(seen.unsqueeze(1), memories=state.memories)
        return last[:, 0], context, replace(state, memories=memories)

    def _context(self, state: Decoding) -> Tensor | None:
        """What the decoder sees before it writes."""
        if self.look is not None:
            context: Tensor = self.look(state.memories[-1][0][0], state)
            return context
        return state.fixed if self.context == "fixed" else None

    def _read_out(self, hidden: Tensor, context: Tensor | None, embedded: Tensor) -> Tensor:
        parts = [hidden] if context is None else [hidden, context, embedded]
        features = torch.tanh(self.readout(torch.cat(parts, -1)))
        dropped: Tensor = self.dropout(tap("features", features))
        return dropped

    def features(
        self, about: About, target: Int[Tensor, "batch time"]
    ) -> Float[Tensor, "batch time width"]:
        state = self.begin(about)
        embedded = self.dropout(self.embedded(self.target_embedding, target))
        if self.look is None:
            return self._at_once(embedded, state)
        hidden, contexts = [], []
        for token in embedded.unbind(1):  # what can be done for all tokens is done outside
            last, context, state = self._advance(token, state)
            assert context is not None
            hidden.append(last)
            contexts.append(context)
        return self._read_out(torch.stack(hidden, 1), torch.stack(contexts, 1), embedded)

    def _at_once(self, embedded: Float[Tensor, "batch time width"], state: Decoding) -> Tensor:
        """All steps in one call: what is seen does not depend on what is written."""
        context = None
        if self.context == "fixed":
            context = state.fixed.unsqueeze(1).expand(-1, embedded.shape[1], -1)
        seen = embedded if context is None else torch.cat((embedded, context), -1)
        states, _, _ = self.decoder(seen, memories=state.memories)
        return self._read_out(states, context, embedded)
