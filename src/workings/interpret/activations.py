"""Which text to look at: a file, a named text, or what a run held out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from workings.data.corpora import read_corpus
from workings.errors import UserError
from workings.layers.recurrent import RecurrentLayer
from workings.layers.transformer import EncoderBlock
from workings.models.language import LanguageModel, RecurrentLM, TransformerLM
from workings.recipes import LanguageRecipe
from workings.tasks.language_modeling import count_train_characters
from workings.trace import Trace


def select_passage(
    recipe: LanguageRecipe, source: str | None, num_characters: int
) -> tuple[str, str]:
    """Read so many characters of a text, and what stands before them.

    `source` is a file or a named text, from its beginning; None: the recipe's own, from where its
    training did not read.
    """
    if num_characters < 1:
        raise UserError(f"{num_characters} characters: at least 1")
    if source is not None:
        return "", _read_beginning(source, num_characters)
    whole = "".join(read_corpus(recipe.data.set))
    begin = count_train_characters(recipe, len(whole))
    return whole[:begin], whole[begin : begin + num_characters]


def _read_beginning(source: str, num_characters: int) -> str:
    found: list[str] = []
    for text in read_corpus(source):
        found.append(text[:num_characters])
        num_characters -= len(text)
        if num_characters <= 0:
            break
    return "".join(found)


WARMUP_TOKENS = 256  # tokens that a recurrent state is warmed up with
BATCH_SIZE = 64  # shares
CHUNK_STEPS = 64  # of a recurrent model, between two looks
DEFAULT_WINDOW = 256  # tokens that a Transformer looks at, where nobody says


@dataclass(frozen=True)
class NeuronGroup:
    """Cells that are tapped together."""

    path: str
    name: str
    """of one of them, before its number"""
    size: int


@dataclass(frozen=True)
class ActivationReader:
    """Reads a text with a model, and tells what its cells do at any places of it."""

    model: LanguageModel
    ids: Int[np.ndarray, " text"]
    window: int = DEFAULT_WINDOW

    @property
    def groups(self) -> list[NeuronGroup]:
        """The cells there are: a recurrent model's states, a Transformer's neurons and features."""
        if isinstance(self.model, RecurrentLM):
            return [
                NeuronGroup(
                    f"recurrent.layers.{k}.0.{tap}", f"layer {k + 1}, {tap}", way.hidden_size
                )
                for k, way in enumerate(find_recurrent_layers(self.model))
                for tap in (("cell", "hidden") if way.cell == "lstm" else ("hidden",))
            ]
        if isinstance(self.model, TransformerLM):
            return [
                group
                for k, block in enumerate(self.model.blocks)
                if isinstance(block, EncoderBlock)
                for group in (
                    NeuronGroup(
                        f"blocks.{k}.feed_forward.activated",
                        f"block {k + 1}, neuron",
                        block.feed_forward.inner.out_features,
                    ),
                    NeuronGroup(
                        f"blocks.{k}.residual", f"block {k + 1}, feature", block.attention.d_model
                    ),
                )
            ]
        raise UserError(f"a {type(self.model).__name__} has no cells to look at")

    @property
    def num_neurons(self) -> int:
        """How many there are."""
        return sum(group.size for group in self.groups)

    @property
    def warmup_tokens(self) -> int:
        """How many tokens before a place are read at least, before the place is looked at."""
        if isinstance(self.model, RecurrentLM):
            return min(WARMUP_TOKENS, len(self.ids) // 10)
        return min(self._effective_window() // 2, len(self.ids) // 2)

    def neuron_name(self, neuron: int) -> str:
        """Name a cell by its number among all.

        Like everything that a person reads, layers and cells are counted from 1.
        """
        for group in self.groups:
            if neuron < group.size:
                return f"{group.name} {neuron + 1}"
            neuron -= group.size
        raise IndexError(neuron)

    @torch.no_grad()
    def read_activations(
        self, positions: Int[np.ndarray, " places"], neurons: Sequence[int] | None = None
    ) -> Float[np.ndarray, "places cells"]:
        """What cells (None: all) do at places of the text, which rise and leave room to warm up."""
        count = self.num_neurons if neurons is None else len(neurons)
        found = np.empty((len(positions), count), np.float32)
        if not len(positions):
            return found
        row_of = np.full(len(self.ids), -1)
        row_of[positions] = np.arange(len(positions))
        was_training = self.model.training
        self.model.eval()
        try:
            for at, seen in self._read_chunks(positions, neurons):
                rows = np.where(at < len(row_of), row_of[at.clip(max=len(row_of) - 1)], -1)
                wanted = rows >= 0
                found[rows[wanted]] = seen[torch.from_numpy(wanted)].cpu().numpy()
        finally:
            self.model.train(was_training)
        return found

    @torch.no_grad()
    def read_from_start(
        self, neurons: Sequence[int] | None = None
    ) -> Float[np.ndarray, "text cells"]:
        """What cells (None: all) do at every place of a text that is short enough to read at once.

        Here nothing is warmed up: the first token is the first that the model has read.
        """
        seen, _ = self._trace_chunk(np.arange(len(self.ids))[None], None, neurons)
        found: Float[np.ndarray, "text cells"] = seen[0].float().cpu().numpy()
        return found

    def _read_chunks(
        self, positions: Int[np.ndarray, " places"], neurons: Sequence[int] | None
    ) -> Iterator[tuple[Int[np.ndarray, "shares time"], Tensor]]:
        """Read the shares that have wanted places in them: where, and what the cells do there."""
        recurrent = isinstance(self.model, RecurrentLM)
        first, last = int(positions[0]), int(positions[-1]) + 1
        # One state is carried on and on, so that its share may be long; a window has an end.
        share = (
            -(-(last - first) // BATCH_SIZE)
            if recurrent
            else self._effective_window() - self.warmup_tokens
        )
        share = max(share, 1)
        begins = first + share * np.unique((positions - first) // share)
        for k in range(0, len(begins), BATCH_SIZE):
            rows = begins[k : k + BATCH_SIZE, None] + np.arange(-self.warmup_tokens, share)
            steps = CHUNK_STEPS if recurrent else rows.shape[1]
            state = None
            for a in range(0, rows.shape[1], steps):
                at = rows[:, a : a + steps]
                # A last share that is longer than the text reads its last token again and again.
                seen, state = self._trace_chunk(at.clip(0, len(self.ids) - 1), state, neurons)
                own = np.arange(a, a + at.shape[1]) >= self.warmup_tokens
                yield at[:, own], seen[:, torch.from_numpy(own)]

    def _trace_chunk(
        self,
        positions: Int[np.ndarray, "shares time"],
        state: object,
        neurons: Sequence[int] | None,
    ) -> tuple[Tensor, object]:
        groups = self.groups
        device = next(self.model.parameters()).device
        ids = torch.from_numpy(self.ids[positions].astype(np.int64)).to(device)
        with Trace(self.model, only=[group.path for group in groups]) as trace:
            _, state = self.model.forward_features(ids, state)
        seen = [_stack_steps(trace.steps(group.path)) for group in groups]
        if neurons is None:
            return torch.cat(seen, -1), state
        begins = [0, *accumulate(group.size for group in groups)]
        columns = []
        for cell in neurons:
            k = int(np.searchsorted(begins, cell, side="right")) - 1
            columns.append(seen[k][..., cell - begins[k]])
        return torch.stack(columns, -1), state

    def _effective_window(self) -> int:
        longest = self.model.max_positions
        return max(self.window if longest is None else min(self.window, longest), 2)


def find_recurrent_layers(model: RecurrentLM) -> list[RecurrentLayer]:
    """The layers of a recurrent model, from the first; each reads in one direction."""
    ways = (way for layer in model.recurrent.layers for way in layer.children())
    return [way for way in ways if isinstance(way, RecurrentLayer)]


def _stack_steps(steps: list[Tensor]) -> Tensor:
    """`[shares, time, cells]`, whether it was tapped at every time step or once."""
    return steps[0] if steps[0].dim() == 3 else torch.stack(steps, 1)
