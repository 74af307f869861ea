"""Text classifiers: token ids in, a score for each class out.

Each comes as the lecture notes define it (`padding = "counts"`: padding is read like any token) and
in the form that works well (`padding = "excluded"`, pooling over real tokens, dropout). A new one
is a configuration (recipes/classify.py), a class, and a line in CLASSIFIERS.
"""

from abc import abstractmethod
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workings.errors import UserError, brief
from workings.layers.blocks import EncoderBlock
from workings.layers.convolution import Convolution, max_pool, mean_pool, real
from workings.layers.dropout import Dropout
from workings.layers.norms import LayerNorm
from workings.layers.positions import LearnedPositions, SinusoidalPositions
from workings.layers.recurrent import Recurrent
from workings.models.ngrams import NgramClassifier
from workings.models.text_classifier import TextClassifier
from workings.recipes import (
    ClassifierConfig,
    ConvolutionConfig,
    PerceptronConfig,
    Pooling,
    RecurrentConfig,
    TransformerConfig,
    model_config,
)
from workings.trace import tap


class Classifier(TextClassifier):
    """Embed, encode to one vector, score the classes."""

    def __init__(
        self, config: ClassifierConfig, vocabulary: int, features: int, classes: int
    ) -> None:
        super().__init__()
        self.excludes_padding = config.padding == "excluded"
        self.embedding = nn.Embedding(vocabulary, config.embedding)
        self.dropout = Dropout(config.dropout)
        self.head = nn.Linear(features, classes)

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


class RecurrentClassifier(Classifier):
    """Read word by word."""

    def __init__(self, config: RecurrentConfig, vocabulary: int, classes: int) -> None:
        # The notes read the class off one direction's last state, whatever the directions.
        ways = 2 if config.bidirectional and config.pooling != "last" else 1
        super().__init__(config, vocabulary, config.hidden * ways, classes)
        self.pooling = config.pooling
        self.recurrent = Recurrent(
            config.cell,
            config.embedding,
            config.hidden,
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


class Perceptron(Classifier):
    """Every position has weights of its own, and every text the same length; or none has them."""

    def __init__(self, config: PerceptronConfig, vocabulary: int, classes: int) -> None:
        super().__init__(config, vocabulary, config.hidden[-1], classes)
        self.fixed_length = config.length if config.pooling == "flatten" else None
        widths = ((self.fixed_length or 1) * config.embedding, *config.hidden)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))

    def encode(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        if self.fixed_length is None:
            x = pool(x, lengths, "mean")
        elif lengths is not None:
            x = x * real(lengths, x.shape[1]).unsqueeze(-1)
        x = x.flatten(1)
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


class ConvolutionClassifier(Classifier):
    """Look through a window that slides along the text."""

    def __init__(self, config: ConvolutionConfig, vocabulary: int, classes: int) -> None:
        super().__init__(config, vocabulary, config.hidden, classes)
        widths = (config.embedding, *config.channels)
        self.layers = nn.ModuleList(
            Convolution(a, b, config.kernel, stride=config.stride) for a, b in pairwise(widths)
        )
        # Shorter texts would leave a later window nothing to see.
        self.shortest = 1
        for _ in config.channels:
            self.shortest = (self.shortest - 1) * config.stride + config.kernel
        seen, self.pooling = 1, config.pooling
        if config.pooling == "flatten":
            self.fixed_length = seen = config.length
            for _ in config.channels:
                seen = (seen - config.kernel) // config.stride + 1
            if seen < 1:
                raise UserError(f"length = {config.length}: at least {self.shortest} are needed")
        self.hidden = nn.Linear(config.channels[-1] * seen, config.hidden)

    def encode(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        # Windows that see padding are not pooled, but where a text has no other.
        if lengths is not None and (self.pooling == "flatten" or lengths.min() < self.shortest):
            x = x * real(lengths, x.shape[1]).unsqueeze(-1)
        if x.shape[1] < self.shortest:
            x = nn.functional.pad(x, (0, 0, 0, self.shortest - x.shape[1]))
        for layer in self.layers:
            assert isinstance(layer, Convolution)
            x = torch.relu(layer(x))
            lengths = None if lengths is None else layer.windows(lengths)
        x = x.flatten(1) if self.pooling == "flatten" else pool(x, lengths, "max")
        return torch.relu(self.hidden(x))


class TransformerClassifier(Classifier):
    """Let every token look at every other."""

    def __init__(self, config: TransformerConfig, vocabulary: int, classes: int) -> None:
        super().__init__(config, vocabulary, config.embedding, classes)
        self.pooling = config.pooling
        self.positions: nn.Module = nn.Identity()
        if config.positions == "sinusoidal":
            self.positions = SinusoidalPositions(config.embedding)
        elif config.positions == "learned":
            self.positions = LearnedPositions(config.length, config.embedding)
        self.blocks = nn.ModuleList(
            EncoderBlock(config.embedding, config.heads, config.hidden, dropout=config.dropout)
            for _ in range(config.layers)
        )
        self.norm = LayerNorm(config.embedding)

    def encode(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        mask = None if lengths is None else real(lengths, x.shape[1])[:, None, None, :]
        x = self.positions(x)
        for block in self.blocks:
            x = block(x, mask=mask)
        return pool(self.norm(x), lengths, "last" if self.pooling == "stop" else self.pooling)


def pool(
    x: Float[Tensor, "batch time width"],
    lengths: Int[Tensor, " batch"] | None,
    how: Pooling,
) -> Float[Tensor, "batch width"]:
    """Make one vector of a sequence."""
    if how == "last":
        if lengths is None:
            return x[:, -1]
        return x[torch.arange(len(x), device=x.device), (lengths - 1).clamp(min=0)]
    mask = None if lengths is None else real(lengths, x.shape[1])
    return max_pool(x, mask) if how == "max" else mean_pool(x, mask)


CLASSIFIERS: dict[str, Callable[[Any, int, int], TextClassifier]] = {
    "recurrent": RecurrentClassifier,
    "perceptron": Perceptron,
    "convolution": ConvolutionClassifier,
    "transformer": TransformerClassifier,
    "ngrams": NgramClassifier,
}


def build_classifier(table: dict[str, Any], vocabulary: int, classes: int) -> TextClassifier:
    """Make the model that a recipe's `[model]` section describes, with fresh weights."""
    kind, config = model_config(table)
    try:
        return CLASSIFIERS[kind](config, vocabulary, classes)
    except (RuntimeError, MemoryError) as error:
        told = brief(str(error) or "out of memory", 150)
        raise UserError(f"model: it cannot be made like this: {told}") from None
