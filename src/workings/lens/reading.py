"""What every cell of a language model does while it reads a text.

The text is cut into shares that are read side by side. Each begins a little before its share, which
warms the state up, and what is read there is not looked at.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from workings.errors import UserError
from workings.layers.blocks import EncoderBlock
from workings.layers.recurrent import Direction
from workings.models.language import (
    LanguageModel,
    RecurrentLanguageModel,
    TransformerLanguageModel,
)
from workings.trace import Trace

WARM = 256  # tokens that a recurrent state is warmed up with
SIDE_BY_SIDE = 64  # shares
STEPS = 64  # of a recurrent model, between two looks
WINDOW = 256  # tokens that a Transformer looks at, where nobody says


@dataclass(frozen=True)
class Group:
    """Cells that are tapped together."""

    path: str
    name: str
    """of one of them, before its number"""
    size: int


@dataclass(frozen=True)
class Reader:
    """Reads a text with a model, and tells what its cells do at any places of it."""

    model: LanguageModel
    ids: Int[np.ndarray, " text"]
    window: int = WINDOW

    @property
    def groups(self) -> list[Group]:
        """The cells there are: a recurrent model's states, a Transformer's neurons and features."""
        if isinstance(self.model, RecurrentLanguageModel):
            return [
                Group(f"recurrent.layers.{k}.0.{tap}", f"layer {k + 1}, {tap}", way.hidden)
                for k, way in enumerate(directions(self.model))
                for tap in (("cell", "hidden") if way.cell == "lstm" else ("hidden",))
            ]
        if isinstance(self.model, TransformerLanguageModel):
            return [
                group
                for k, block in enumerate(self.model.blocks)
                if isinstance(block, EncoderBlock)
                for group in (
                    Group(
                        f"blocks.{k}.feed_forward.activated",
                        f"block {k + 1}, neuron",
                        block.feed_forward.inner.out_features,
                    ),
                    Group(f"blocks.{k}.residual", f"block {k + 1}, feature", block.attention.width),
                )
            ]
        raise UserError(f"a {type(self.model).__name__} has no cells to look at")

    @property
    def cells(self) -> int:
        """How many there are."""
        return sum(group.size for group in self.groups)

    @property
    def warm(self) -> int:
        """How many tokens before a place are read at least, before the place is looked at."""
        if isinstance(self.model, RecurrentLanguageModel):
            return min(WARM, len(self.ids) // 10)
        return min(self._window() // 2, len(self.ids) // 2)

    def name(self, cell: int) -> str:
        """Name a cell by its number among all.

        Like everything that a person reads, layers and cells are counted from 1.
        """
        for group in self.groups:
            if cell < group.size:
                return f"{group.name} {cell + 1}"
            cell -= group.size
        raise IndexError(cell)

    @torch.no_grad()
    def activations(
        self, places: Int[np.ndarray, " places"], cells: Sequence[int] | None = None
    ) -> Float[np.ndarray, "places cells"]:
        """What cells (None: all) do at places of the text, which rise and leave room to warm up."""
        count = self.cells if cells is None else len(cells)
        found = np.empty((len(places), count), np.float32)
        if not len(places):
            return found
        row_of = np.full(len(self.ids), -1)
        row_of[places] = np.arange(len(places))
        was_training = self.model.training
        self.model.eval()
        try:
            for at, seen in self._read(places, cells):
                rows = np.where(at < len(row_of), row_of[at.clip(max=len(row_of) - 1)], -1)
                wanted = rows >= 0
                found[rows[wanted]] = seen[torch.from_numpy(wanted)].cpu().numpy()
        finally:
            self.model.train(was_training)
        return found

    @torch.no_grad()
    def from_beginning(self, cells: Sequence[int] | None = None) -> Float[np.ndarray, "text cells"]:
        """What cells (None: all) do at every place of a text that is short enough to read at once.

        Here nothing is warmed up: the first token is the first that the model has read.
        """
        seen, _ = self._look(np.arange(len(self.ids))[None], None, cells)
        found: Float[np.ndarray, "text cells"] = seen[0].float().cpu().numpy()
        return found

    def _read(
        self, places: Int[np.ndarray, " places"], cells: Sequence[int] | None
    ) -> Iterator[tuple[Int[np.ndarray, "shares time"], Tensor]]:
        """Read the shares that have wanted places in them: where, and what the cells do there."""
        recurrent = isinstance(self.model, RecurrentLanguageModel)
        first, last = int(places[0]), int(places[-1]) + 1
        # One state is carried on and on, so that its share may be long; a window has an end.
        share = -(-(last - first) // SIDE_BY_SIDE) if recurrent else self._window() - self.warm
        share = max(share, 1)
        begins = first + share * np.unique((places - first) // share)
        for k in range(0, len(begins), SIDE_BY_SIDE):
            rows = begins[k : k + SIDE_BY_SIDE, None] + np.arange(-self.warm, share)
            steps = STEPS if recurrent else rows.shape[1]
            state = None
            for a in range(0, rows.shape[1], steps):
                at = rows[:, a : a + steps]
                # A last share that is longer than the text reads its last token again and again.
                seen, state = self._look(at.clip(0, len(self.ids) - 1), state, cells)
                own = np.arange(a, a + at.shape[1]) >= self.warm
                yield at[:, own], seen[:, torch.from_numpy(own)]

    def _look(
        self, at: Int[np.ndarray, "shares time"], state: object, cells: Sequence[int] | None
    ) -> tuple[Tensor, object]:
        groups = self.groups
        device = next(self.model.parameters()).device
        ids = torch.from_numpy(self.ids[at].astype(np.int64)).to(device)
        with Trace(self.model, only=[group.path for group in groups]) as trace:
            _, state = self.model.read(ids, state)
        seen = [_whole(trace.steps(group.path)) for group in groups]
        if cells is None:
            return torch.cat(seen, -1), state
        begins = [0, *accumulate(group.size for group in groups)]
        columns = []
        for cell in cells:
            k = int(np.searchsorted(begins, cell, side="right")) - 1
            columns.append(seen[k][..., cell - begins[k]])
        return torch.stack(columns, -1), state

    def _window(self) -> int:
        longest = self.model.longest
        return max(self.window if longest is None else min(self.window, longest), 2)


def directions(model: RecurrentLanguageModel) -> list[Direction]:
    """The layers of a recurrent model, from the first; each reads in one direction."""
    ways = (way for layer in model.recurrent.layers for way in layer.children())
    return [way for way in ways if isinstance(way, Direction)]


def _whole(steps: list[Tensor]) -> Tensor:
    """`[shares, time, cells]`, whether it was tapped at every time step or once."""
    return steps[0] if steps[0].dim() == 3 else torch.stack(steps, 1)
