"""Which word of the source a translator looked at for each word that it wrote."""

from collections.abc import Collection

import torch

from workings.data.tokenizer import STOP
from workings.errors import UserError
from workings.lens.attention_maps import AttentionMaps, chosen_heads, head_map
from workings.lens.pieces import joined_columns, joined_rows, read_pieces, words_of
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
    if not source.strip():
        raise UserError("an empty text: there is nothing to look at")
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
    maps = chosen_heads(found, layers, heads)
    if not layers and not heads:
        name = "attention" if len(maps) == 1 else f"mean of {len(maps)} heads"
        maps = {name: torch.stack(list(maps.values())).mean(0)}
    source_read, target_read = words.cased(source), words.cased(target)
    stop = f" {STOP}" if whole_words else STOP  # a word of its own
    columns = [*read_pieces(source_read, words.source.spans(source_read)[: len(read) - 1]), stop]
    rows = [*read_pieces(target_read, words.target.spans(target_read)[: len(wrote)]), stop]
    if whole_words:
        maps = {n: joined_columns(joined_rows(w, rows), columns) for n, w in maps.items()}
        rows, columns = words_of(rows), words_of(columns)
    named = [head_map(name, weights) for name, weights in maps.items()]
    return AttentionMaps(f"{source} → {target}", rows, columns, named)
