"""Text classifiers: token ids in, logits of the classes out."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from workings.errors import UserError
from workings.layers.convolution import Convolution, max_pool, mean_pool, padding_mask
from workings.layers.positions import LearnedPositions, SinusoidalPositions
from workings.layers.recurrent import RecurrentStack
from workings.layers.transformer import Dropout, EncoderBlock, LayerNorm, apply_dropout
from workings.models.classifier_base import TextClassifier
from workings.models.language import build_language_model
from workings.models.regions import RegionClassifier
from workings.models.tfidf import TfidfClassifier
from workings.modules import build_model
from workings.ragged import Row
from workings.recipes import (
    DEFAULT_LANGUAGE_MODEL,
    Activation,
    CellKind,
    ClassifierVariant,
    LanguageModelVariant,
    Padding,
    Pooling,
    parse_classifier_config,
)
from workings.registry import MODELS
from workings.trace import tap


class NgramClassifier(TextClassifier):
    """A linear classifier over the set of a text's n-grams, with naive-Bayes weights.

    The feature of an n-gram is its log-count ratio for each class; training learns a factor for
    each (NBSVM, Wang and Manning 2012). Call `prepare` before training.

    >>> model = NgramClassifier(vocab_size=10, num_classes=2, min_count=1)
    >>> model.prepare([[5, 6], [8, 7]], labels=[0, 1])
    >>> model.featurize([5, 6, 9])
    array([1, 2, 5])
    """

    keys: Tensor
    ratios: Tensor

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        *,
        max_n: int = 3,
        min_count: int = 2,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if vocab_size**max_n >= 2**62:
            raise UserError(
                f"max_n = {max_n}: n-grams of {vocab_size:,} tokens would not fit into 64-bit keys"
            )
        self.vocab_size, self.num_classes = vocab_size, num_classes
        self.max_n, self.min_count, self.dropout = max_n, min_count, dropout
        # Row 0 is padding. `keys` are the n-grams as integers, sorted.
        self.register_buffer("keys", torch.zeros(0, dtype=torch.int64))
        self.register_buffer("ratios", torch.zeros(1, num_classes))
        self.weights = nn.Parameter(torch.zeros(1, num_classes))
        self.bias = nn.Parameter(torch.zeros(num_classes))

    def prepare(self, texts: Sequence[Row], labels: ArrayLike) -> None:
        """Count the n-grams of the training texts and compute their log-count ratios."""
        if len(self.keys):
            return  # a resumed run has counted them already
        ngrams = [self._unique_ngrams(ids) for ids in texts]
        keys, indices = np.unique(np.concatenate(ngrams), return_inverse=True)
        # The targets of the text that each n-gram is in: a class, or a row with 1 for each label.
        targets = np.repeat(np.asarray(labels), [len(unique) for unique in ngrams], axis=0)
        counts = np.zeros((len(keys), self.num_classes))
        if targets.ndim == 1:
            np.add.at(counts, (indices, targets), 1)
        else:
            for k in range(self.num_classes):
                counts[:, k] = np.bincount(indices[targets[:, k] > 0], minlength=len(keys))
        totals = np.bincount(indices)
        is_frequent = totals >= self.min_count
        if not is_frequent.any():
            raise UserError(
                f"too few texts to learn from, {len(texts):,} with {sum(map(len, texts)):,} tokens"
                f": no n-gram is in {self.min_count:,} of them; try a lower model.min_count"
            )
        counts, totals = counts[is_frequent], totals[is_frequent]
        inside = counts + 1  # add-one smoothing
        outside = totals[:, None] - counts + 1
        ratios = np.log(inside / inside.sum(0)) - np.log(outside / outside.sum(0))
        self.keys = torch.from_numpy(keys[is_frequent])
        self.ratios = torch.cat(
            (torch.zeros(1, self.num_classes), torch.from_numpy(ratios).float())
        )
        self.weights = nn.Parameter(torch.zeros_like(self.ratios))

    def featurize(self, ids: Row) -> Any:
        """Return the numbers (from 1) of the known n-grams of a text, each once."""
        numbers = self._look_up(self._unique_ngrams(ids))
        return numbers[numbers > 0]

    def index_ngrams(self, ids: Row) -> list[NDArray[np.int64]]:
        """Return for each n the numbers of the n-grams at each position; 0 is unknown."""
        return [self._look_up(keys) for keys in self._ngrams_by_length(ids)]

    def _look_up(self, ngrams: NDArray[np.int64]) -> NDArray[np.int64]:
        keys = self.keys.numpy()
        if not len(keys) or not len(ngrams):
            return np.zeros(len(ngrams), dtype=np.int64)
        index = np.searchsorted(keys, ngrams).clip(max=len(keys) - 1)
        return np.where(keys[index] == ngrams, index + 1, 0)

    def _unique_ngrams(self, ids: Row) -> NDArray[np.int64]:
        return np.unique(np.concatenate(self._ngrams_by_length(ids)))

    def _ngrams_by_length(self, ids: Row) -> list[NDArray[np.int64]]:
        """Return the 1-grams, 2-grams, … of a text as integers in base `vocab_size + 1`."""
        tokens = np.asarray(ids, dtype=np.int64) + 1  # digit 0 is unused, so that lengths differ
        base, ngrams, by_length = self.vocab_size + 1, tokens, [tokens]
        for n in range(1, self.max_n):
            if len(tokens) <= n:
                break
            ngrams = ngrams[:-1] * base + tokens[n:]
            by_length.append(ngrams)
        return by_length

    def forward(
        self,
        ids: Int[Tensor, "batch ngrams"],
        lengths: Int[Tensor, " batch"],  # noqa: ARG002
    ) -> Float[Tensor, "batch classes"]:
        """Return the sum of the weighted ratios of a text's n-grams."""
        evidence = self.ratios * self.weights
        if self.training and self.dropout:
            is_kept = torch.rand(ids.shape, device=ids.device) >= self.dropout
            ids = ids * is_kept
        return tap("scores", F.embedding_bag(ids, evidence, mode="sum", padding_idx=0)) + self.bias

    def _load_from_state_dict(self, state: dict[str, Tensor], prefix: str, *rest: object) -> None:
        """Resize the buffers to the number of n-grams in the state dict, then load them."""
        count = state[f"{prefix}keys"].numel()
        rows = (count + 1, self.num_classes)
        for name, shape in (("keys", (count,)), ("ratios", rows), ("weights", rows)):
            if state[f"{prefix}{name}"].shape != shape:
                raise RuntimeError(f"{name}: expected the shape {shape}")
        # Keep the parameter if its shape fits: an optimizer may hold it.
        if self.weights.shape != state[f"{prefix}weights"].shape:
            for name in ("keys", "ratios"):
                setattr(self, name, torch.zeros_like(state[f"{prefix}{name}"]))
            self.weights = nn.Parameter(torch.zeros_like(state[f"{prefix}weights"]))
        super()._load_from_state_dict(state, prefix, *rest)


class EmbeddingClassifier(TextClassifier):
    """Base class of neural classifiers: embedding, `encode` to one vector, linear head.

    `padding`: "masked" texts ignore their padding; "unmasked" and "left" read it as a token.
    """

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        *,
        num_features: int,
        d_model: int = 128,
        dropout: float = 0.0,
        embedding_dropout: float = 0.0,
        padding: Padding = "masked",
    ) -> None:
        super().__init__()
        self.excludes_padding = padding == "masked"
        self.embedding_dropout = embedding_dropout
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.dropout = Dropout(dropout)
        self.head = nn.Linear(num_features, num_classes)

    @abstractmethod
    def encode(
        self,
        x: Float[Tensor, "batch time width"],
        lengths: Int[Tensor, " batch"] | None,
    ) -> Float[Tensor, "batch features"]:
        """Return one vector per sequence; `lengths` is None if padding counts as a token."""

    def forward(
        self, ids: Int[Tensor, "batch time"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch classes"]:
        """Return the logits of the classes."""
        embedded = tap("embedded", self._drop_words(ids, self.embedding(ids)))
        encoded = self.encode(self.dropout(embedded), lengths if self.excludes_padding else None)
        logits: Tensor = self.head(self.dropout(tap("features", encoded)))
        return logits

    def _drop_words(
        self, ids: Int[Tensor, "batch time"], embedded: Float[Tensor, "batch time width"]
    ) -> Float[Tensor, "batch time width"]:
        """In training, zero all positions of some words (Gal and Ghahramani, 2016)."""
        if not (self.training and self.embedding_dropout):
            return embedded
        scales = apply_dropout(
            embedded.new_ones(len(self.embedding.weight)), self.embedding_dropout
        )
        return embedded * scales[ids].unsqueeze(-1)


class RecurrentClassifier(EmbeddingClassifier):
    """A recurrent classifier: RNN, GRU or LSTM.

    >>> model = RecurrentClassifier(vocab_size=100, num_classes=3, cell="gru", hidden_size=32)
    >>> model(torch.zeros(2, 5, dtype=torch.long), torch.tensor([5, 3])).shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        *,
        d_model: int = 128,
        cell: CellKind = "lstm",
        hidden_size: int = 64,
        layers: int = 1,
        bidirectional: bool = False,
        recurrent_dropout: float = 0.0,
        pooling: Pooling = "max",
        dropout: float = 0.0,
        embedding_dropout: float = 0.0,
        padding: Padding = "masked",
    ) -> None:
        # With pooling "last", the notes use one direction only, even if there are two.
        directions = 2 if bidirectional and pooling != "last" else 1
        parts = 3 if pooling == "concat" else 1
        super().__init__(
            vocab_size,
            num_classes,
            num_features=hidden_size * directions * parts,
            d_model=d_model,
            dropout=dropout,
            embedding_dropout=embedding_dropout,
            padding=padding,
        )
        self.pooling = pooling
        self.recurrent = RecurrentStack(
            cell,
            d_model,
            hidden_size,
            layers=layers,
            bidirectional=bidirectional,
            dropout=dropout,
            recurrent_dropout=recurrent_dropout,
        )

    def encode(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        states, last, _ = self.recurrent(x, lengths)
        if self.pooling == "concat":
            pooled = (pool(states, lengths, mode) for mode in ("max", "mean"))
            return torch.cat((last.flatten(1), *pooled), -1)
        if self.pooling == "last":
            final: Tensor = last[:, -1]
            return final
        return pool(states, lengths, self.pooling)


class PerceptronClassifier(EmbeddingClassifier):
    """A multilayer perceptron over all embeddings of a text, or over their mean.

    With pooling "flatten", every position has its own weights, and all texts have one `length`.

    >>> model = PerceptronClassifier(vocab_size=100, num_classes=3, pooling="mean")
    >>> model(torch.zeros(2, 5, dtype=torch.long), torch.tensor([5, 3])).shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        *,
        d_model: int = 128,
        pooling: Literal["flatten", "mean"] = "flatten",
        length: int = 500,
        hidden_sizes: Sequence[int] = (1024, 128),
        dropout: float = 0.0,
        embedding_dropout: float = 0.0,
        padding: Padding = "masked",
    ) -> None:
        super().__init__(
            vocab_size,
            num_classes,
            num_features=hidden_sizes[-1],
            d_model=d_model,
            dropout=dropout,
            embedding_dropout=embedding_dropout,
            padding=padding,
        )
        self.fixed_length = length if pooling == "flatten" else None
        widths = ((self.fixed_length or 1) * d_model, *hidden_sizes)
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
    """Stacked one-dimensional convolutions, pooled to one vector, and a hidden layer.

    >>> model = ConvolutionClassifier(vocab_size=100, num_classes=3, channels=(32, 32), kernel=3)
    >>> model(torch.zeros(2, 20, dtype=torch.long), torch.tensor([20, 3])).shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        *,
        d_model: int = 128,
        channels: Sequence[int] = (128, 128),
        kernel: int = 7,
        stride: int = 3,
        hidden_size: int = 128,
        pooling: Literal["max", "flatten"] = "max",
        length: int = 500,
        dropout: float = 0.0,
        embedding_dropout: float = 0.0,
        padding: Padding = "masked",
    ) -> None:
        super().__init__(
            vocab_size,
            num_classes,
            num_features=hidden_size,
            d_model=d_model,
            dropout=dropout,
            embedding_dropout=embedding_dropout,
            padding=padding,
        )
        self.layers = nn.ModuleList(
            Convolution(a, b, kernel, stride=stride) for a, b in pairwise((d_model, *channels))
        )
        # The shortest text of which the last convolution still sees a window.
        self.min_length = 1
        for _ in channels:
            self.min_length = (self.min_length - 1) * stride + kernel
        windows, self.pooling = 1, pooling
        if pooling == "flatten":
            self.fixed_length = windows = length
            for _ in channels:
                windows = (windows - kernel) // stride + 1
            if windows < 1:
                raise UserError(f"length = {length}: must be at least {self.min_length}")
        self.hidden_layer = nn.Linear(channels[-1] * windows, hidden_size)

    def encode(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        # Windows over padding are not pooled, unless a text is too short to have others.
        if torch.compiler.is_exporting() and self.pooling == "max":
            x, lengths = self._pad_to_any_length(x, lengths)
        elif lengths is not None and (self.pooling == "flatten" or lengths.min() < self.min_length):
            x = x * padding_mask(lengths, x.shape[1]).unsqueeze(-1)
        if x.shape[1] < self.min_length:
            x = F.pad(x, (0, 0, 0, self.min_length - x.shape[1]))
        for layer in self.layers:
            assert isinstance(layer, Convolution)
            x = torch.relu(layer(x))
            lengths = None if lengths is None else layer.output_lengths(lengths)
        x = x.flatten(1) if self.pooling == "flatten" else pool(x, lengths, "max")
        return torch.relu(self.hidden_layer(x))

    def _pad_to_any_length(self, x: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return texts padded so much that there are two windows or more, whatever the length.

        An exported graph cannot ask for the length. It needs the `lengths` to leave the windows
        over padding out, also if padding counts as a token.
        """
        if lengths is None:
            lengths = torch.full_like(x[:, 0, 0], x.shape[1], dtype=torch.long)
        x = x * padding_mask(lengths, x.shape[1]).unsqueeze(-1)
        return F.pad(x, (0, 0, 0, 2 * self.min_length)), lengths


class TransformerClassifier(EmbeddingClassifier):
    """A Transformer encoder, pooled to one vector.

    >>> model = TransformerClassifier(vocab_size=100, num_classes=3, d_model=16, layers=1)
    >>> model(torch.zeros(2, 5, dtype=torch.long), torch.tensor([5, 3])).shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        *,
        d_model: int = 128,
        layers: int = 2,
        heads: int = 4,
        d_ff: int = 256,
        positions: Literal["sinusoidal", "learned", "none"] = "sinusoidal",
        max_positions: int = 512,
        pooling: Pooling = "mean",
        dropout: float = 0.0,
        embedding_dropout: float = 0.0,
        padding: Padding = "masked",
    ) -> None:
        super().__init__(
            vocab_size,
            num_classes,
            num_features=d_model,
            d_model=d_model,
            dropout=dropout,
            embedding_dropout=embedding_dropout,
            padding=padding,
        )
        self.pooling = pooling
        self.positions: nn.Module = nn.Identity()
        if positions == "sinusoidal":
            self.positions = SinusoidalPositions(d_model)
        elif positions == "learned":
            self.positions = LearnedPositions(max_positions, d_model)
        self.blocks = nn.ModuleList(
            EncoderBlock(d_model, heads, d_ff, dropout=dropout) for _ in range(layers)
        )
        self.norm = LayerNorm(d_model)

    def encode(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        mask = None if lengths is None else padding_mask(lengths, x.shape[1])[:, None, None, :]
        x = self.positions(x)
        for block in self.blocks:
            x = block(x, mask=mask)
        return pool(self.norm(x), lengths, self.pooling)


class BertClassifier(EmbeddingClassifier):
    """A post-norm Transformer encoder, pooled at the first token (Devlin et al., 2019).

    The first token is [CLS] with BERT's tokenizer. Its vector passes a linear layer and an
    activation, the pooler: tanh in BERT, relu in DistilBERT. Each token is of a type, here always
    of the first; DistilBERT has no types. Taps: embedded, pooled, features.

    >>> model = BertClassifier(vocab_size=100, num_classes=3, d_model=16, layers=1, heads=2)
    >>> model(torch.zeros(2, 5, dtype=torch.long), torch.tensor([5, 3])).shape
    torch.Size([2, 3])
    """

    pooling = "first"

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        *,
        d_model: int = 768,
        layers: int = 12,
        heads: int = 12,
        d_ff: int = 3072,
        max_positions: int = 512,
        token_types: int = 2,
        activation: Activation = "gelu",
        pooler: Literal["tanh", "relu"] = "tanh",
        norm_eps: float = 1e-12,
        dropout: float = 0.1,
    ) -> None:
        super().__init__(
            vocab_size, num_classes, num_features=d_model, d_model=d_model, dropout=dropout
        )
        self.positions = LearnedPositions(max_positions, d_model)
        self.token_types = nn.Embedding(token_types, d_model) if token_types else None
        self.embedding_norm = LayerNorm(d_model, eps=norm_eps)
        self.blocks = nn.ModuleList(
            EncoderBlock(
                d_model,
                heads,
                d_ff,
                norm="post",
                norm_eps=norm_eps,
                activation=activation,
                dropout=dropout,
                activation_dropout=0.0,
            )
            for _ in range(layers)
        )
        self.pooler = nn.Linear(d_model, d_model)
        self.pooler_activation = pooler

    def forward(
        self, ids: Int[Tensor, "batch time"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch classes"]:
        """Return the logits of the classes."""
        features = self.encode(tap("embedded", self.embedding(ids)), lengths)
        logits: Tensor = self.head(self.dropout(tap("features", features)))
        return logits

    def encode(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        mask = None if lengths is None else padding_mask(lengths, x.shape[1])[:, None, None, :]
        x = self.positions(x)
        if self.token_types is not None:
            x = x + self.token_types.weight[0]
        x = self.dropout(self.embedding_norm(x))
        for block in self.blocks:
            x = block(x, mask=mask)
        pooled = tap("pooled", self.pooler(x[:, 0]))
        return torch.tanh(pooled) if self.pooler_activation == "tanh" else torch.relu(pooled)


class LanguageModelClassifier(TextClassifier):
    """The body of a language model, all but its head, pooled to one vector.

    Padding follows the text, and the body does not look ahead: only the pooling has to leave it
    out. Pooling "concat" is that of ULMFiT (Howard and Ruder, 2018): last, max and mean.

    >>> body = {"kind": "recurrent", "d_model": 16, "hidden_size": 32}
    >>> model = LanguageModelClassifier(vocab_size=100, num_classes=3, body=body, pooling="concat")
    >>> model(torch.zeros(2, 5, dtype=torch.long), torch.tensor([5, 3])).shape
    torch.Size([2, 3])
    """

    is_causal = True
    excludes_padding = True

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        *,
        body: LanguageModelVariant | Mapping[str, Any] = DEFAULT_LANGUAGE_MODEL,
        pooling: Pooling = "last",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.body = build_language_model(body, vocab_size)
        width = self.body.head.in_features
        del self.body.head
        self.pooling = pooling
        num_parts = 3 if pooling == "concat" else 1
        self.dropout = Dropout(dropout)
        self.head = nn.Linear(width * num_parts, num_classes)

    def forward(
        self, ids: Int[Tensor, "batch time"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch classes"]:
        states, _ = self.body.forward_features(ids, None)
        features = pool(states, lengths, self.pooling)
        logits: Tensor = self.head(self.dropout(tap("features", features)))
        return logits


def pool(
    x: Float[Tensor, "batch time width"],
    lengths: Int[Tensor, " batch"] | None,
    mode: Pooling,
) -> Float[Tensor, "batch width"]:
    """Pool each sequence to one vector: its last position, the maximum, the mean, or all three."""
    if mode == "concat":
        return torch.cat([pool(x, lengths, part) for part in ("last", "max", "mean")], -1)
    if mode == "last":
        if lengths is None:
            return x[:, -1]
        return x[torch.arange(x.shape[0], device=x.device), (lengths - 1).clamp(min=0)]
    mask = None if lengths is None else padding_mask(lengths, x.shape[1])
    return max_pool(x, mask) if mode == "max" else mean_pool(x, mask)


CLASSIFIERS: dict[str, Callable[..., TextClassifier]] = MODELS.setdefault("classify", {})
CLASSIFIERS.update(
    recurrent=RecurrentClassifier,
    perceptron=PerceptronClassifier,
    convolution=ConvolutionClassifier,
    regions=RegionClassifier,
    transformer=TransformerClassifier,
    bert=BertClassifier,
    ngrams=NgramClassifier,
)
CLASSIFIERS["language-model"] = LanguageModelClassifier
CLASSIFIERS["tf-idf"] = TfidfClassifier


def build_classifier(
    model: ClassifierVariant | Mapping[str, Any], vocab_size: int, num_classes: int
) -> TextClassifier:
    """Build the model that a recipe's `[model]` section describes, with new weights."""
    config = parse_classifier_config(model)
    return build_model(
        CLASSIFIERS[config.kind],
        vocab_size=vocab_size,
        num_classes=num_classes,
        **config.settings(),
    )
