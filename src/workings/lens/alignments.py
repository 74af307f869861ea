"""Which word of the source a translator looked at for each word that it wrote."""

from array import array
from collections.abc import Collection, Sequence
from itertools import groupby

import torch
from jaxtyping import Float
from torch import Tensor

from workings.data.tokenizer import STOP, Span
from workings.errors import UserError
from workings.lens.attention_maps import AttentionMaps, HeadMap, check_number
from workings.models.translators import START
from workings.tasks.alignment import cross_weights
from workings.tasks.translate import Translating
from workings.tasks.translation import sentences

MOST = 512  # tokens of either side


def alignment(
    task: Translating,
    source: str,
    target: str | None = None,
    *,
    layers: Collection[int] = (),
    heads: Collection[int] = (),
    whole_words: bool = False,
) -> AttentionMaps:
    """Source by target: the mean of all heads, or those of some layers and heads, from 1.

    Without a `target`, that of the model's own translation. `whole_words` joins pieces of words:
    what is looked at adds up, what looks is averaged.
    """
    words, model = task.words, task.model
    if target is None:
        target = next(task.best([source]))
    read, wrote = words.read(source), words.wrote(target)
    if max(len(read), len(wrote)) > MOST:
        told = f"{len(read):,} tokens and {len(wrote):,} of its translation"
        raise UserError(f"{told}: an alignment is drawn of {MOST} at most")
    device = next(model.parameters()).device
    ids = torch.tensor([[START, *wrote]], device=device)
    found = [w[0].float().cpu() for w in cross_weights(model, sentences([read], model), ids)]
    if not found:
        raise UserError(
            "this translator looks at nothing while it writes: there is no alignment "
            "(model.context is none or fixed)"
        )
    check_number("layer", layers, len(found))
    check_number("head", heads, len(found[0]))
    lower = words.lower
    columns = _pieces(source.lower() if lower else source, words.source.spans, len(read) - 1)
    rows = _pieces(target.lower() if lower else target, words.target.spans, len(wrote))
    maps = {
        f"layer {layer}, head {head}": weights
        for layer, step in enumerate(found, start=1)
        for head, weights in enumerate(step, start=1)
        if (not layers or layer in layers) and (not heads or head in heads)
    }
    if not layers and not heads:
        name = "attention" if len(maps) == 1 else f"mean of {len(maps)} heads"
        maps = {name: torch.stack(list(maps.values())).mean(0)}
    if whole_words:
        maps = {name: _joined(weights, rows, columns) for name, weights in maps.items()}
        rows, columns = _words(rows), _words(columns)
    named = [
        HeadMap(name, [array("f", row) for row in weights.tolist()])
        for name, weights in maps.items()
    ]
    return AttentionMaps(f"{source} → {target}", [*rows, STOP], [*columns, STOP], named)


def _pieces(text: str, spans: object, count: int) -> list[str]:
    """The text of each token; that of a word's first one begins with the space before it."""
    found: Sequence[Span] = spans(text)[:count]  # type: ignore[operator]
    pieces, before = [], 0
    for begin, end in found:
        pieces.append(text[min(before, begin) : end] if begin > before else text[begin:end])
        before = max(before, end)
    return pieces


def _numbers(pieces: Sequence[str]) -> list[int]:
    """Which word each piece belongs to; the stop at the end is one of its own."""
    numbers, word = [], -1
    for k, piece in enumerate(pieces):
        word += k == 0 or piece[:1].isspace()
        numbers.append(word)
    return [*numbers, word + 1]


def _words(pieces: Sequence[str]) -> list[str]:
    together = groupby(zip(_numbers(pieces), pieces, strict=False), lambda item: item[0])
    return ["".join(piece for _, piece in some).strip() for _, some in together]


def _joined(
    weights: Float[Tensor, "target source"], rows: Sequence[str], columns: Sequence[str]
) -> Float[Tensor, "words source_words"]:
    """What a word looks at is the mean of what its pieces do, and the sum over those of a word."""
    looking, seen = torch.tensor(_numbers(rows)), torch.tensor(_numbers(columns))
    summed = weights.new_zeros(len(weights), int(seen[-1]) + 1).index_add_(1, seen, weights)
    total = summed.new_zeros(int(looking[-1]) + 1, summed.shape[1]).index_add_(0, looking, summed)
    return total / torch.bincount(looking).unsqueeze(1)
