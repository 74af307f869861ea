"""A convolution over one-hot word regions, pooled to one vector (Johnson and Zhang, 2015)."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from workings.layers.convolution import max_pool, padding_mask
from workings.models.classifier_base import TextClassifier
from workings.trace import tap

INIT_STD = 0.005  # of the weights of one word: those of a region are summed


class RegionClassifier(TextClassifier):
    """Convolutions over one-hot regions: a filter has a weight for each word at each position.

    There is no embedding between words and filters, so that a filter can prefer one phrase to its
    synonyms. The largest value of each filter over a text is its feature. Taps: features.

    >>> model = RegionClassifier(vocab_size=100, num_classes=3, regions=(2, 3), channels=8)
    >>> model(torch.zeros(2, 5, dtype=torch.long), torch.tensor([5, 3])).shape
    torch.Size([2, 3])
    """

    excludes_padding = True

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        *,
        regions: Sequence[int] = (2, 3),
        channels: int = 200,
        dropout: float = 0.5,
        word_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.dropout, self.word_dropout = nn.Dropout(dropout), word_dropout
        self.filters = nn.ModuleList(RegionFilters(size, vocab_size, channels) for size in regions)
        self.head = nn.Linear(channels * len(regions), num_classes)
        nn.init.normal_(self.head.weight, std=0.01)

    def forward(
        self, ids: Int[Tensor, "batch time"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch classes"]:
        """Return the logits of the classes."""
        lengths = lengths.clamp(min=1)
        ids = ids * padding_mask(lengths, ids.shape[1])  # row 0 of each position is padding
        if self.training and self.word_dropout:
            is_kept = torch.rand(ids.shape, device=ids.device) >= self.word_dropout
            ids = ids * is_kept  # a dropped word is read as padding
        features = [filters(ids, lengths) for filters in self.filters]
        logits: Tensor = self.head(self.dropout(tap("features", torch.cat(features, -1))))
        return logits


class RegionFilters(nn.Embedding):
    """The filters of one region size; the largest value of each is its feature.

    Row `j · vocab_size + id` has the weights of a word at position j of a region.
    """

    def __init__(self, size: int, vocab_size: int, channels: int) -> None:
        super().__init__(size * vocab_size, channels)
        self.size, self.vocab_size = size, vocab_size
        self.bias = nn.Parameter(torch.zeros(channels))
        nn.init.normal_(self.weight, std=INIT_STD)

    def forward(  # type: ignore[override]
        self, ids: Int[Tensor, "batch time"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch channels"]:
        """Return the largest value of each filter over all regions, those at the ends included."""
        padded = F.pad(ids, (self.size - 1, self.size - 1))
        offsets = torch.arange(self.size, device=ids.device) * self.vocab_size
        rows = padded.unfold(1, self.size, 1) + offsets  # [batch, regions, size]
        counts = lengths + self.size - 1
        if torch.compiler.is_exporting():
            sums = F.embedding(rows, self.weight).sum(-2)
            largest = max_pool(sums, padding_mask(counts, sums.shape[1]))
        else:
            largest = _LargestRegion.apply(self.weight, rows, counts)  # type: ignore[no-untyped-call]
        return torch.relu(largest + self.bias)


class _LargestRegion(torch.autograd.Function):
    """The largest sum of rows over the regions of each text, by column.

    Only one region per text and filter has a gradient. Autograd would write one for each region of
    each text, most of them zero: several times the time of the forward pass.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, rows: Tensor, counts: Tensor) -> Tensor:
        shape = rows.shape[0], table.shape[1]
        largest = table.new_empty(shape)
        winners = torch.empty(shape, dtype=torch.long, device=table.device)
        for k, count in enumerate(counts.tolist()):  # a text at a time: its sums fit the cache
            sums = F.embedding_bag(rows[k, :count], table, mode="sum")
            torch.max(sums, 0, out=(largest[k], winners[k]))
        ctx.save_for_backward(rows, winners)
        ctx.shape = table.shape
        return largest

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        rows, winners = ctx.saved_tensors
        num_rows, channels = ctx.shape
        gradient = grad.new_zeros(num_rows * channels)
        columns = torch.arange(channels, device=grad.device)
        for k in range(rows.shape[2]):
            index = rows[:, :, k].gather(1, winners) * channels + columns
            gradient.index_add_(0, index.flatten(), grad.flatten())
        return gradient.view(num_rows, channels), None, None
