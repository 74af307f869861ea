"""Maps of attention weights: the heads of a model, alignments, and the attention of captions."""

from collections.abc import Collection
from math import isqrt

import numpy as np

from workings.data.tokenizers.base import EOS_TOKEN
from workings.errors import UserError
from workings.interpret.attention import (
    ImageArray,
    NoAttentionError,
    check_single_sentence,
    collect,
)
from workings.interpret.results import (
    AttentionMaps,
    AttentionStack,
    AttentionStacks,
    CaptionAttention,
    HeadIndex,
    HeadMap,
    Weights,
    to_float_rows,
)
from workings.interpret.subwords import (
    average_rows_by_word,
    decode_pieces,
    join_pieces,
    sum_columns_by_word,
)
from workings.tasks.captioning import Captioning
from workings.tasks.classification import Classification
from workings.tasks.language_modeling import LanguageModeling
from workings.tasks.seq2seq import Generation
from workings.tasks.translation import MAX_SENTENCE_TOKENS, Translation

ALIGNMENT = "alignment"  # the part of `alignment_stack`
MAX_TARGET_TOKENS = 2 * MAX_SENTENCE_TOKENS


def compute_attention_maps(
    task: object, text: str, *, layers: Collection[int] = (), heads: Collection[int] = ()
) -> AttentionMaps:
    """Return the heads of a classifier or language model on a text.

    `layers` and `heads` are counted from 1; none means all. A long text is truncated.
    """
    if not isinstance(task, Classification | LanguageModeling):
        raise UserError(
            "attention maps need a run of a classifier or language model. For a translator: "
            "workings translate RUN TEXT --show; for a captioner: workings caption RUN PICTURE "
            "--show"
        )
    stacks = collect(task, text, truncate=True)
    (stack,) = (stack.without_padding() for stack in stacks)
    return AttentionMaps(
        text,
        stack.query_tokens,
        stack.key_tokens,
        stack.to_head_maps(layers, heads),
        stacks.truncated_characters,
    )


def compute_alignment(
    task: Translation,
    source: str,
    target: Generation | str | None = None,
    *,
    layers: Collection[int] = (),
    heads: Collection[int] = (),
    whole_words: bool = False,
) -> AttentionMaps:
    """Return the cross-attention between a source and a target (None: the model's translation).

    See `build_alignment`.
    """
    check_single_sentence(task, source)
    stacks = collect(task, source, target, parts=("cross",), max_tokens=MAX_TARGET_TOKENS + 1)
    return build_alignment(stacks, layers=layers, heads=heads, whole_words=whole_words)


def build_alignment(
    stacks: AttentionStacks,
    *,
    layers: Collection[int] = (),
    heads: Collection[int] = (),
    whole_words: bool = False,
) -> AttentionMaps:
    """Return a map of target tokens (rows) by source tokens (columns).

    It is the mean of all heads, or has one map for each of the chosen layers and heads. With
    `whole_words` the subwords of a word are joined: columns are added, rows are averaged.
    """
    cross = stacks["cross"]
    maps: dict[str, tuple[Weights, HeadIndex | None]] = {_mean_name(cross): (cross.mean(), None)}
    if layers or heads:
        maps = {str(index): (w, index) for index, w in cross.select(layers, heads).items()}
    rows, columns = list(cross.output_tokens), list(cross.key_tokens)
    if whole_words:
        # The end token is a word of its own.
        target, source = (
            [*pieces, f" {EOS_TOKEN}"] for pieces in (stacks.target_pieces, stacks.source_pieces)
        )
        rows, columns = join_pieces(target), join_pieces(source)
        maps = {
            name: (sum_columns_by_word(average_rows_by_word(w, target), source), index)
            for name, (w, index) in maps.items()
        }
    head_maps = [HeadMap(name, to_float_rows(w), index) for name, (w, index) in maps.items()]
    title = f"{stacks.source_text} → {stacks.target_text}"
    return AttentionMaps(title, rows, columns, head_maps, is_alignment=True)


def alignment_stack(cross: AttentionStack) -> AttentionStack:
    """Return the mean of all cross-attention heads as a stack of one head."""
    mean = cross.mean()[None]
    return AttentionStack(
        ALIGNMENT,
        _mean_name(cross),
        cross.output_tokens,
        cross.key_tokens,
        [mean],
        is_multi_head=False,
    )


def _mean_name(stack: AttentionStack) -> str:
    count = stack.num_layers * stack.num_heads
    return "attention" if count == 1 else f"mean of {count} heads"


def caption_attention(
    task: Captioning,
    image: ImageArray,
    caption: Generation,
    name: str,
    *,
    layers: Collection[int] = (),
    heads: Collection[int] = (),
) -> CaptionAttention:
    """Return a caption and the attention of each word: the mean of all heads, or of some.

    A model without attention has the caption only.
    """
    stack = None
    try:
        stack = collect(task, image, caption, parts=("cross",), max_tokens=None)["cross"]
    except NoAttentionError:
        if layers or heads:
            raise
    return build_caption_attention(task, image, caption, name, stack, layers=layers, heads=heads)


def build_caption_attention(
    task: Captioning,
    image: ImageArray,
    caption: Generation,
    name: str,
    cross: AttentionStack | None,
    *,
    layers: Collection[int] = (),
    heads: Collection[int] = (),
) -> CaptionAttention:
    """Return a caption with the cross-attention weights of its words, or without weights."""
    pieces = decode_pieces(task.tokenizer, caption.tokens)
    weights = None
    if cross is not None:
        # The last row belongs to the end token.
        by_token: Weights = cross.mean(layers, heads)[: len(caption.tokens)]
        by_word = average_rows_by_word(by_token, pieces)
        side = isqrt(by_word.shape[-1])  # images are square, and so are their grids
        weights = np.reshape(by_word, (-1, side, side))
    return CaptionAttention(image, join_pieces(pieces), weights, caption.log_probability, name)
