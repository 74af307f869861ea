"""What every text classifier is to the task that trains it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from workings.errors import UserError, truncate
from workings.layers.convolution import Convolution, max_pool, mean_pool, padding_mask
from workings.layers.dropout import Dropout
from workings.layers.positions import LearnedPositions, SinusoidalPositions
from workings.layers.recurrent import RecurrentStack
from workings.layers.transformer import EncoderBlock, LayerNorm
from workings.recipes import (
    ClassifierConfig,
    ConvolutionConfig,
    NgramConfig,
    PerceptronConfig,
    Pooling,
    RecurrentClassifierConfig,
    TransformerClassifierConfig,
    parse_classifier_config,
)
from workings.trace import tap


class TextClassifier(nn.Module, ABC):
    """Ids in, a score for each class out."""

    fixed_length: int | None = None  # set where every text must have the same length

    def prepare(self, texts: Sequence[Sequence[int]], labels: Sequence[int]) -> None:
        """Look at the training texts once, before training; most models need not."""

    def featurize(self, ids: Sequence[int]) -> Sequence[int]:
        """Turn a text's ids into what `forward` reads; for most models the ids themselves."""
        return ids

    @abstractmethod
    def forward(
        self, ids: Int[Tensor, "batch time"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch classes"]:
        """Score the classes."""


class NgramClassifier(TextClassifier):
    """Scores classes by the n-grams that occur in a text, however often."""

    keys: Tensor
    ratios: Tensor

    def __init__(self, config: NgramConfig, vocab_size: int, num_classes: int) -> None:
        super().__init__()
        if vocab_size**config.max_n >= 2**62:
            raise UserError(
                f"max_n = {config.max_n}: too long for {vocab_size:,} tokens to tell apart"
            )
        self.config, self.vocab_size, self.num_classes = config, vocab_size, num_classes
        # Row 0 is padding. `keys` are the n-grams as numbers, in order.
        self.register_buffer("keys", torch.zeros(0, dtype=torch.int64))
        self.register_buffer("ratios", torch.zeros(1, num_classes))
        self.weights = nn.Parameter(torch.zeros(1, num_classes))
        self.bias = nn.Parameter(torch.zeros(num_classes))

    def prepare(self, texts: Sequence[Sequence[int]], labels: Sequence[int]) -> None:
        """Count the n-grams of the training texts and how they lean."""
        if len(self.keys):
            return  # counted when the run began
        found = [self._unique_ngrams(ids) for ids in texts]
        keys, places = np.unique(np.concatenate(found), return_inverse=True)
        of_text = np.repeat(np.asarray(labels), [len(f) for f in found])
        counts = np.zeros((len(keys), self.num_classes))
        np.add.at(counts, (places, of_text), 1)
        often = counts.sum(1) >= self.config.min_count
        if not often.any():
            raise UserError(
                f"too few texts to learn from, {len(texts):,} with {sum(map(len, texts)):,} tokens"
                f": no n-gram is in {self.config.min_count:,} of them; a lower model.min_count?"
            )
        inside = counts[often] + 1  # one for luck, so that nothing is impossible
        outside = counts[often].sum(1, keepdims=True) - counts[often] + 1
        ratios = np.log(inside / inside.sum(0)) - np.log(outside / outside.sum(0))
        self.keys = torch.from_numpy(keys[often])
        self.ratios = torch.cat(
            (torch.zeros(1, self.num_classes), torch.from_numpy(ratios).float())
        )
        self.weights = nn.Parameter(torch.zeros_like(self.ratios))

    def featurize(self, ids: Sequence[int]) -> Any:
        """Number the n-grams of a text that were counted; each once, from 1."""
        numbers = self._look_up(self._unique_ngrams(ids))
        return numbers[numbers > 0]

    def index_ngrams(self, ids: Sequence[int]) -> list[NDArray[np.int64]]:
        """Number the single tokens, the pairs, … that begin at each place; 0: never counted."""
        return [self._look_up(keys) for keys in self._ngrams_by_length(ids)]

    def _look_up(self, ngrams: NDArray[np.int64]) -> NDArray[np.int64]:
        keys = self.keys.numpy()
        if not len(keys) or not len(ngrams):
            return np.zeros(len(ngrams), dtype=np.int64)
        place = np.searchsorted(keys, ngrams).clip(max=len(keys) - 1)
        return np.where(keys[place] == ngrams, place + 1, 0)

    def _unique_ngrams(self, ids: Sequence[int]) -> NDArray[np.int64]:
        return np.unique(np.concatenate(self._ngrams_by_length(ids)))

    def _ngrams_by_length(self, ids: Sequence[int]) -> list[NDArray[np.int64]]:
        """Write each n-gram as one number, in a number system with a digit for every token."""
        tokens = np.asarray(ids, dtype=np.int64) + 1  # 0 is no token, so that lengths differ
        base, grown, all_of_them = self.vocab_size + 1, tokens, [tokens]
        for n in range(1, self.config.max_n):
            if len(tokens) <= n:
                break
            grown = grown[:-1] * base + tokens[n:]
            all_of_them.append(grown)
        return all_of_them

    def forward(
        self,
        ids: Int[Tensor, "batch ngrams"],
        lengths: Int[Tensor, " batch"],  # noqa: ARG002
    ) -> Float[Tensor, "batch classes"]:
        """Add up what the n-grams say."""
        says = self.ratios * self.weights
        if self.training and self.config.dropout:
            kept = torch.rand(ids.shape, device=ids.device) >= self.config.dropout
            ids = ids * kept
        return tap("scores", F.embedding_bag(ids, says, mode="sum", padding_idx=0)) + self.bias

    def _load_from_state_dict(self, state: dict[str, Tensor], prefix: str, *rest: object) -> None:
        """Make room for as many n-grams as were counted."""
        count = state[f"{prefix}keys"].numel()
        rows = (count + 1, self.num_classes)
        for name, shape in (("keys", (count,)), ("ratios", rows), ("weights", rows)):
            if state[f"{prefix}{name}"].shape != shape:
                raise RuntimeError(f"{name}: expected the shape {shape}")
        if self.weights.shape != state[f"{prefix}weights"].shape:  # else somebody may train them
            for name in ("keys", "ratios"):
                setattr(self, name, torch.zeros_like(state[f"{prefix}{name}"]))
            self.weights = nn.Parameter(torch.zeros_like(state[f"{prefix}weights"]))
        super()._load_from_state_dict(state, prefix, *rest)


class EmbeddingClassifier(TextClassifier):
    """Embed, encode to one vector, score the classes."""

    def __init__(
        self, config: ClassifierConfig, vocab_size: int, num_features: int, num_classes: int
    ) -> None:
        super().__init__()
        self.excludes_padding = config.padding == "masked"
        self.embedding = nn.Embedding(vocab_size, config.d_model)
        self.dropout = Dropout(config.dropout)
        self.head = nn.Linear(num_features, num_classes)

    @abstractmethod
    def encode(
        self,
        x: Float[Tensor, "batch time width"],
        lengths: Int[Tensor, " batch"] | None,
    ) -> Float[Tensor, "batch features"]:
        """Turn a sequence into one vector; `lengths` is None where padding counts."""

    def forward(
        self, ids: Int[Tensor, "batch time"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch classes"]:
        """Score the classes."""
        embedded = tap("embedded", self.embedding(ids))
        encoded = self.encode(self.dropout(embedded), lengths if self.excludes_padding else None)
        scores: Tensor = self.head(self.dropout(tap("features", encoded)))
        return scores


class RecurrentClassifier(EmbeddingClassifier):
    """Read word by word."""

    def __init__(
        self, config: RecurrentClassifierConfig, vocab_size: int, num_classes: int
    ) -> None:
        # The notes read the class off one direction's last state, whatever the directions.
        ways = 2 if config.bidirectional and config.pooling != "last" else 1
        super().__init__(config, vocab_size, config.hidden_size * ways, num_classes)
        self.pooling = config.pooling
        self.recurrent = RecurrentStack(
            config.cell,
            config.d_model,
            config.hidden_size,
            layers=config.layers,
            bidirectional=config.bidirectional,
            dropout=config.dropout,
        )

    def encode(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        states, last, _ = self.recurrent(x, lengths)
        if self.pooling == "last":
            final: Tensor = last[:, -1]
            return final
        return pool(states, lengths, self.pooling)


class Perceptron(EmbeddingClassifier):
    """Every position has weights of its own, and every text the same length; or none has them."""

    def __init__(self, config: PerceptronConfig, vocab_size: int, num_classes: int) -> None:
        super().__init__(config, vocab_size, config.hidden_sizes[-1], num_classes)
        self.fixed_length = config.length if config.pooling == "flatten" else None
        widths = ((self.fixed_length or 1) * config.d_model, *config.hidden_sizes)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))

    def encode(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        if self.fixed_length is None:
            x = pool(x, lengths, "mean")
        elif lengths is not None:
            x = x * padding_mask(lengths, x.shape[1]).unsqueeze(-1)
        x = x.flatten(1)
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


class ConvolutionClassifier(EmbeddingClassifier):
    """Look through a window that slides along the text."""

    def __init__(self, config: ConvolutionConfig, vocab_size: int, num_classes: int) -> None:
        super().__init__(config, vocab_size, config.hidden_size, num_classes)
        widths = (config.d_model, *config.channels)
        self.layers = nn.ModuleList(
            Convolution(a, b, config.kernel, stride=config.stride) for a, b in pairwise(widths)
        )
        # Shorter texts would leave a later window nothing to see.
        self.min_length = 1
        for _ in config.channels:
            self.min_length = (self.min_length - 1) * config.stride + config.kernel
        seen, self.pooling = 1, config.pooling
        if config.pooling == "flatten":
            self.fixed_length = seen = config.length
            for _ in config.channels:
                seen = (seen - config.kernel) // config.stride + 1
            if seen < 1:
                raise UserError(f"length = {config.length}: at least {self.min_length} are needed")
        self.hidden_layer = nn.Linear(config.channels[-1] * seen, config.hidden_size)

    def encode(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        # Windows that see padding are not pooled, but where a text has no other.
        if lengths is not None and (self.pooling == "flatten" or lengths.min() < self.min_length):
            x = x * padding_mask(lengths, x.shape[1]).unsqueeze(-1)
        if x.shape[1] < self.min_length:
            x = nn.functional.pad(x, (0, 0, 0, self.min_length - x.shape[1]))
        for layer in self.layers:
            assert isinstance(layer, Convolution)
            x = torch.relu(layer(x))
            lengths = None if lengths is None else layer.output_lengths(lengths)
        x = x.flatten(1) if self.pooling == "flatten" else pool(x, lengths, "max")
        return torch.relu(self.hidden_layer(x))


class TransformerClassifier(EmbeddingClassifier):
    """Let every token look at every other."""

    def __init__(
        self, config: TransformerClassifierConfig, vocab_size: int, num_classes: int
    ) -> None:
        super().__init__(config, vocab_size, config.d_model, num_classes)
        self.pooling = config.pooling
        self.positions: nn.Module = nn.Identity()
        if config.positions == "sinusoidal":
            self.positions = SinusoidalPositions(config.d_model)
        elif config.positions == "learned":
            self.positions = LearnedPositions(config.max_positions, config.d_model)
        self.blocks = nn.ModuleList(
            EncoderBlock(config.d_model, config.heads, config.d_ff, dropout=config.dropout)
            for _ in range(config.layers)
        )
        self.norm = LayerNorm(config.d_model)

    def encode(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        mask = None if lengths is None else padding_mask(lengths, x.shape[1])[:, None, None, :]
        x = self.positions(x)
        for block in self.blocks:
            x = block(x, mask=mask)
        return pool(self.norm(x), lengths, self.pooling)


def pool(
    x: Float[Tensor, "batch time width"],
    lengths: Int[Tensor, " batch"] | None,
    mode: Pooling,
) -> Float[Tensor, "batch width"]:
    """Make one vector of a sequence."""
    if mode == "last":
        if lengths is None:
            return x[:, -1]
        return x[torch.arange(len(x), device=x.device), (lengths - 1).clamp(min=0)]
    mask = None if lengths is None else padding_mask(lengths, x.shape[1])
    return max_pool(x, mask) if mode == "max" else mean_pool(x, mask)


CLASSIFIERS: dict[str, Callable[[Any, int, int], TextClassifier]] = {
    "recurrent": RecurrentClassifier,
    "perceptron": Perceptron,
    "convolution": ConvolutionClassifier,
    "transformer": TransformerClassifier,
    "ngrams": NgramClassifier,
}


def build_classifier(table: dict[str, Any], vocab_size: int, num_classes: int) -> TextClassifier:
    """Make the model that a recipe's `[model]` section describes, with fresh weights."""
    kind, config = parse_classifier_config(table)
    try:
        return CLASSIFIERS[kind](config, vocab_size, num_classes)
    except (RuntimeError, MemoryError) as error:
        told = truncate(str(error) or "out of memory", 150)
        raise UserError(f"model: it cannot be made like this: {told}") from None
