"""The activations of a language model's neurons on a passage of text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workings.data.corpora import read_corpus
from workings.errors import UserError
from workings.layers.recurrent import RecurrentLayer
from workings.layers.transformer import EncoderBlock
from workings.models.language import LanguageModel, RecurrentLM, TransformerLM
from workings.modules import device_of, eval_mode
from workings.recipes import LanguageRecipe
from workings.tasks.language_modeling import count_train_characters
from workings.trace import Trace

WARMUP_TOKENS = 256  # read by a recurrent model before the first position that counts
BATCH_SIZE = 64  # segments of the text that are read in parallel
CHUNK_STEPS = 64  # time steps of a recurrent model per traced pass, to bound memory
DEFAULT_WINDOW = 256  # context length of a Transformer


def select_passage(
    recipe: LanguageRecipe, source: str | None, num_characters: int
) -> tuple[str, str]:
    """Read a passage; return the text before it and the passage.

    `source` is a file or the name of a corpus, read from its beginning. None: the recipe's corpus,
    from the end of its training part on.
    """
    if num_characters < 1:
        raise UserError(f"{num_characters} characters: expected at least 1")
    if source is not None:
        return "", _read_beginning(source, num_characters)
    corpus = "".join(read_corpus(recipe.data.set, recipe.data.text))
    start = count_train_characters(recipe, len(corpus))
    return corpus[:start], corpus[start : start + num_characters]


def _read_beginning(source: str, num_characters: int) -> str:
    parts: list[str] = []
    for text in read_corpus(source):
        parts.append(text[:num_characters])
        num_characters -= len(text)
        if num_characters <= 0:
            break
    return "".join(parts)


@dataclass(frozen=True)
class NeuronGroup:
    """The neurons whose activations one tap records."""

    path: str
    name: str
    """display name of a neuron, without its number"""
    size: int


def find_neuron_groups(model: nn.Module, num_tokens: int = 1) -> list[NeuronGroup]:
    """Return a language model's neurons that can be read on a text of `num_tokens` tokens.

    Other models have none, and models with fewer positions cannot read them.
    """
    if isinstance(model, RecurrentLM):
        return [
            NeuronGroup(f"recurrent.layers.{k}.0.{tap}", f"layer {k + 1}, {tap}", layer.hidden_size)
            for k, layer in enumerate(find_recurrent_layers(model))
            for tap in (("cell", "hidden") if layer.cell == "lstm" else ("hidden",))
        ]
    if isinstance(model, TransformerLM) and num_tokens <= (model.max_positions or num_tokens):
        return [
            group
            for k, block in enumerate(model.blocks)
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
    return []


def build_reader(model: nn.Module, ids: Sequence[int]) -> "ActivationReader":
    """Return a reader of a model's neurons; raise UserError if it is not a language model."""
    if not isinstance(model, LanguageModel):
        raise UserError("only language models have cells to inspect")
    return ActivationReader(model, np.asarray(ids))


@dataclass(frozen=True)
class ActivationReader:
    """Reads the activations of all neurons at any positions of a text."""

    model: LanguageModel
    ids: Int[np.ndarray, " text"]
    window: int = DEFAULT_WINDOW

    @property
    def groups(self) -> list[NeuronGroup]:
        """The states of a recurrent model, or the neurons and features of a Transformer."""
        groups = find_neuron_groups(self.model)
        if not groups:
            raise UserError(f"a {type(self.model).__name__} has no cells")
        return groups

    @property
    def num_neurons(self) -> int:
        """The number of neurons of all groups."""
        return sum(group.size for group in self.groups)

    @property
    def warmup_tokens(self) -> int:
        """The number of tokens that are read before each position, at least."""
        if isinstance(self.model, RecurrentLM):
            return min(WARMUP_TOKENS, len(self.ids) // 10)
        return min(self._effective_window() // 2, len(self.ids) // 2)

    def neuron_name(self, neuron: int) -> str:
        """Return the display name of a neuron, with layer and neuron counted from 1."""
        for group in self.groups:
            if neuron < group.size:
                return f"{group.name} {neuron + 1}"
            neuron -= group.size
        raise IndexError(neuron)

    @torch.no_grad()
    def read_activations(
        self, positions: Int[np.ndarray, " positions"], neurons: Sequence[int] | None = None
    ) -> Float[np.ndarray, "positions neurons"]:
        """Return the activations of neurons (None: all) at ascending positions of the text."""
        count = self.num_neurons if neurons is None else len(neurons)
        activations = np.empty((len(positions), count), np.float32)
        if not len(positions):
            return activations
        row_of = np.full(len(self.ids), -1)
        row_of[positions] = np.arange(len(positions))
        with eval_mode(self.model):
            for read_positions, values in self._read_segments(positions, neurons):
                is_in_text = read_positions < len(row_of)
                rows = np.where(is_in_text, row_of[read_positions.clip(max=len(row_of) - 1)], -1)
                is_requested = rows >= 0
                selected = values[torch.from_numpy(is_requested)]
                activations[rows[is_requested]] = selected.cpu().numpy()
        return activations

    @torch.no_grad()
    def read_from_start(
        self, neurons: Sequence[int] | None = None
    ) -> Float[np.ndarray, "text neurons"]:
        """Return the activations of neurons (None: all) at every position of a short text.

        The text is read in one pass, without a warm-up.
        """
        with eval_mode(self.model):
            values, _ = self._trace_chunk(np.arange(len(self.ids))[None], None, neurons)
        activations: Float[np.ndarray, "text neurons"] = values[0].float().cpu().numpy()
        return activations

    def _read_segments(
        self, positions: Int[np.ndarray, " positions"], neurons: Sequence[int] | None
    ) -> Iterator[tuple[Int[np.ndarray, "segments time"], Tensor]]:
        """Read the segments that contain requested positions; yield positions and activations."""
        is_recurrent = isinstance(self.model, RecurrentLM)
        first, last = int(positions[0]), int(positions[-1]) + 1
        if is_recurrent:  # the state is carried on, so a segment may be long
            length = -(-(last - first) // BATCH_SIZE)
        else:
            length = self._effective_window() - self.warmup_tokens
        length = max(length, 1)
        starts = first + length * np.unique((positions - first) // length)
        for k in range(0, len(starts), BATCH_SIZE):
            segments = starts[k : k + BATCH_SIZE, None] + np.arange(-self.warmup_tokens, length)
            steps = CHUNK_STEPS if is_recurrent else segments.shape[1]
            state = None
            for a in range(0, segments.shape[1], steps):
                chunk = segments[:, a : a + steps]
                # Beyond the end of the text, the last token is repeated.
                ids = chunk.clip(0, len(self.ids) - 1)
                values, state = self._trace_chunk(ids, state, neurons)
                is_warm = np.arange(a, a + chunk.shape[1]) >= self.warmup_tokens
                yield chunk[:, is_warm], values[:, torch.from_numpy(is_warm)]

    def _trace_chunk(
        self,
        positions: Int[np.ndarray, "segments time"],
        state: object,
        neurons: Sequence[int] | None,
    ) -> tuple[Tensor, object]:
        """Run the model on one chunk; return activations and the next state."""
        groups = self.groups
        ids = torch.from_numpy(self.ids[positions].astype(np.int64)).to(device_of(self.model))
        with Trace(self.model, only=[group.path for group in groups]) as trace:
            _, state = self.model.forward_features(ids, state)
        values = [_stack_steps(trace.steps(group.path)) for group in groups]
        if neurons is None:
            return torch.cat(values, -1), state
        offsets = [0, *accumulate(group.size for group in groups)]
        columns = []
        for neuron in neurons:
            k = int(np.searchsorted(offsets, neuron, side="right")) - 1
            columns.append(values[k][..., neuron - offsets[k]])
        return torch.stack(columns, -1), state

    def _effective_window(self) -> int:
        limit = self.model.max_positions
        return max(self.window if limit is None else min(self.window, limit), 2)


def find_recurrent_layers(model: RecurrentLM) -> list[RecurrentLayer]:
    """Return the layers of a recurrent language model, from the first on."""
    directions = (module for layer in model.recurrent.layers for module in layer.children())
    return [module for module in directions if isinstance(module, RecurrentLayer)]


def _stack_steps(steps: list[Tensor]) -> Tensor:
    """Return `[segments, time, neurons]` from a tap of every time step or of the whole sequence."""
    return steps[0] if steps[0].dim() == 3 else torch.stack(steps, 1)
