"""Which word of the source a translator looked at for each word that it wrote."""

from collections.abc import Collection

import torch

from workings.data.tokenizer import STOP
from workings.errors import UserError
from workings.lens.attention_maps import AttentionMaps, chosen_heads, head_map
from workings.lens.pieces import joined_columns, joined_rows, names_of, read_pieces, words_of
from workings.lens.targets import translation_of
from workings.models.translators import START
from workings.tasks.alignment import cross_weights
from workings.tasks.translate import Translating
from workings.tasks.translation import LONGEST, sentences, stretches
from workings.tasks.writing import Written

MOST = 2 * LONGEST  # tokens of a translation


def alignment(
    task: Translating,
    source: str,
    target: Written | str | None = None,
    *,
    layers: Collection[int] = (),
    heads: Collection[int] = (),
    whole_words: bool = False,
) -> AttentionMaps:
    """Source by target: the mean of all heads, or those of some layers and heads, from 1.

    Without a `target`, that of the model's own translation. `whole_words` joins pieces of words:
    what is looked at adds up, what looks is averaged.
    """
    expect_a_sentence(task, source)
    words, model = task.words, task.model
    wrote, read = translation_of(task, source, target), words.read(source)
    if len(wrote.tokens) > MOST:
        told = f"{len(wrote.tokens):,} tokens of a translation"
        raise UserError(f"{told}: an alignment is drawn of {MOST} at most")
    device = next(model.parameters()).device
    ids = torch.tensor([[START, *wrote.tokens]], device=device)
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
    small = words.cased(source)
    seen, written = read_pieces(small, words.source.spans(small)), wrote.pieces
    if whole_words:
        stop = f" {STOP}"  # a word of its own
        parts, looked_at = [*written, stop], [*seen, stop]
        maps = {n: joined_columns(joined_rows(w, parts), looked_at) for n, w in maps.items()}
        rows, columns = words_of(parts), words_of(looked_at)
    else:
        rows = [*names_of(words.target, written), STOP]
        columns = [*names_of(words.source, seen), STOP]
    named = [head_map(name, weights) for name, weights in maps.items()]
    return AttentionMaps(f"{source} → {wrote.text}", rows, columns, named, aligned=True)


def expect_a_sentence(task: Translating, source: str) -> None:
    """Refuse what has no alignment: nothing, and what is translated in several parts."""
    if not source.strip():
        raise UserError("an empty text: there is nothing to look at")
    if len(stretches(task.words, source)) > 1:
        count = len(task.words.read(source)) - 1
        told = f"an alignment is drawn of one sentence, {LONGEST} at most"
        raise UserError(f"{count:,} tokens: {told}")
