"""Who looks at whom: the weights of every attention head on a text."""

from array import array
from collections.abc import Callable, Collection, Sequence
from math import isqrt

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from workings.data.tokenizers.base import EOS_TOKEN, Tokenizer
from workings.errors import UserError
from workings.interpret.results import AttentionMaps, CaptionAttention, HeadMap
from workings.interpret.subwords import (
    average_rows_by_word,
    build_translation_target,
    decode_pieces,
    join_pieces,
    label_pieces,
    split_pieces,
    sum_columns_by_word,
)
from workings.models.language import LanguageModel
from workings.models.seq2seq import START
from workings.modules import device_of, eval_mode
from workings.tasks.captioning import Captioning, collate_pictures
from workings.tasks.classification import Classification
from workings.tasks.language_modeling import LanguageModeling
from workings.tasks.seq2seq import Generation, collect_cross_attention
from workings.tasks.translation import (
    MAX_SENTENCE_TOKENS,
    Translation,
    collate_sources,
    split_long_text,
)
from workings.trace import Trace

MAX_TOKENS = 512  # tokens


def compute_attention_maps(
    task: object, text: str, *, layers: Collection[int] = (), heads: Collection[int] = ()
) -> AttentionMaps:
    """The heads of a run's model while it reads a text; of some layers and heads, from 1."""
    if isinstance(task, Classification):
        return compute_classifier_maps(task, text, layers=layers, heads=heads)
    if isinstance(task, LanguageModeling):
        return compute_language_model_maps(
            task.model, task.tokenizer, text, layers=layers, heads=heads
        )
    raise UserError(
        "attention is shown of classifiers and language models; of a translator, the alignment: "
        "workings translate RUN TEXT --show; of a captioner, workings caption RUN PICTURE --show"
    )


def compute_language_model_maps(
    model: LanguageModel,
    tokenizer: Tokenizer,
    text: str,
    *,
    layers: Collection[int] = (),
    heads: Collection[int] = (),
) -> AttentionMaps:
    """The heads of a language model while it reads a text."""
    most = MAX_TOKENS if model.max_positions is None else min(MAX_TOKENS, model.max_positions)
    ids, spans = tokenizer.encode(text)[:most], tokenizer.find_spans(text)[:most]
    if not ids:
        raise UserError("an empty text: there is nothing to look at")
    device = device_of(model)
    found = _trace_weights(
        model, lambda: model.forward_features(torch.tensor([ids], device=device), None)
    )
    tokens = [text[a:b] for a, b in spans]
    return _build_maps(
        text, tokens, found, layers, heads, truncated_characters=len(text) - spans[-1][1]
    )


def compute_classifier_maps(
    task: Classification,
    text: str,
    *,
    layers: Collection[int] = (),
    heads: Collection[int] = (),
) -> AttentionMaps:
    """The heads of a classifier while it reads a text; what goes to padding is left out."""
    ids, spans, cut = task.encode_with_spans(text)
    if not ids:
        raise UserError("no token was read: there is nothing to look at")
    ids, spans = ids[:MAX_TOKENS], spans[:MAX_TOKENS]
    every = _trace_weights(task.model, lambda: task.compute_logits([ids]))
    places = [task.token_slice(len(ids), heads.shape[-1]) for heads in every]
    found = [heads[:, own, own] for heads, own in zip(every, places, strict=True)]
    tokens = [text[a:b] for a, b in spans]
    return _build_maps(
        text, tokens, found, layers, heads, max(cut, len(text[spans[-1][1] :].strip()))
    )


@torch.no_grad()
def _trace_weights(
    model: torch.nn.Module, forward: Callable[[], object]
) -> list[Float[Tensor, "heads queries keys"]]:
    """What each layer's heads do while something is read, in the order of the layers."""
    with eval_mode(model), Trace(model, only="*weights") as trace:
        forward()
    return [step[0].float().cpu() for path in trace for step in trace.steps(path)]


def _build_maps(
    text: str,
    tokens: Sequence[str],
    layer_weights: Sequence[Float[Tensor, "heads queries keys"]],
    layers: Collection[int],
    heads: Collection[int],
    truncated_characters: int,
) -> AttentionMaps:
    if not layer_weights:
        raise UserError("this model has no attention to look at")
    maps = [
        build_head_map(name, weights)
        for name, weights in select_heads(layer_weights, layers, heads).items()
    ]
    return AttentionMaps(text, tokens, tokens, maps, truncated_characters)


def select_heads(
    layer_weights: Sequence[Float[Tensor, "heads rows columns"]],
    layers: Collection[int],
    heads: Collection[int],
) -> dict[str, Float[Tensor, "rows columns"]]:
    """The heads of some layers, by their names; numbers count from 1, and none means all."""
    check_index("layer", layers, len(layer_weights))
    check_index("head", heads, len(layer_weights[0]))
    return {
        f"layer {layer}, head {head}": weights
        for layer, step in enumerate(layer_weights, start=1)
        for head, weights in enumerate(step, start=1)
        if (not layers or layer in layers) and (not heads or head in heads)
    }


def build_head_map(name: str, weights: Float[Tensor, "rows columns"]) -> HeadMap:
    """A head as arrays of C's: a list of Python's numbers takes eight times the room."""
    return HeadMap(name, [array("f", row) for row in weights.tolist()])


def check_index(name: str, indices: Collection[int], count: int) -> None:
    """Refuse numbers of layers or heads that a model does not have."""
    for number in indices:
        if not 1 <= number <= count:
            raise UserError(f"{name} {number}: this model has {count}, counted from 1")


MAX_TARGET_TOKENS = 2 * MAX_SENTENCE_TOKENS  # tokens of a translation


def compute_alignment(
    task: Translation,
    source: str,
    target: Generation | str | None = None,
    *,
    layers: Collection[int] = (),
    heads: Collection[int] = (),
    whole_words: bool = False,
) -> AttentionMaps:
    """Source by target: the mean of all heads, or those of some layers and heads, from 1.

    Without a `target`, that of the model's own translation. `whole_words` joins pieces of words:
    what is looked at adds up, what looks is averaged.
    """
    check_single_sentence(task, source)
    words, model = task.tokenizers, task.model
    wrote, read = build_translation_target(task, source, target), words.encode_source(source)
    if len(wrote.tokens) > MAX_TARGET_TOKENS:
        told = f"{len(wrote.tokens):,} tokens of a translation"
        raise UserError(f"{told}: an alignment is drawn of {MAX_TARGET_TOKENS} at most")
    device = device_of(model)
    ids = torch.tensor([[START, *wrote.tokens]], device=device)
    found = [
        w[0].float().cpu()
        for w in collect_cross_attention(model, collate_sources([read], model), ids)
    ]
    if not found:
        raise UserError(
            "this translator looks at nothing while it writes: there is no alignment "
            "(model.attention is none or fixed)"
        )
    maps = select_heads(found, layers, heads)
    if not layers and not heads:
        name = "attention" if len(maps) == 1 else f"mean of {len(maps)} heads"
        maps = {name: torch.stack(list(maps.values())).mean(0)}
    small = words.normalize_case(source)
    seen, written = split_pieces(small, words.source.find_spans(small)), wrote.pieces
    if whole_words:
        stop = f" {EOS_TOKEN}"  # a word of its own
        parts, looked_at = [*written, stop], [*seen, stop]
        maps = {
            n: sum_columns_by_word(average_rows_by_word(w, parts), looked_at)
            for n, w in maps.items()
        }
        rows, columns = join_pieces(parts), join_pieces(looked_at)
    else:
        rows = [*label_pieces(words.target, written), EOS_TOKEN]
        columns = [*label_pieces(words.source, seen), EOS_TOKEN]
    named = [build_head_map(name, weights) for name, weights in maps.items()]
    return AttentionMaps(f"{source} → {wrote.text}", rows, columns, named, is_alignment=True)


def check_single_sentence(task: Translation, source: str) -> None:
    """Refuse what has no alignment: nothing, and what is translated in several parts."""
    if not source.strip():
        raise UserError("an empty text: there is nothing to look at")
    if len(split_long_text(task.tokenizers, source)) > 1:
        count = len(task.tokenizers.encode_source(source)) - 1
        told = f"an alignment is drawn of one sentence, {MAX_SENTENCE_TOKENS} at most"
        raise UserError(f"{count:,} tokens: {told}")


ImageArray = UInt8[np.ndarray, "size size 3"]


def caption_attention(
    task: Captioning,
    image: ImageArray,
    caption: Generation,
    name: str,
    *,
    layers: Collection[int] = (),
    heads: Collection[int] = (),
) -> CaptionAttention:
    """A picture, its caption, and what was looked at for each word: by all heads, or by some.

    Where the model does not look while it writes, there are just the picture and the caption.
    """
    parts = decode_pieces(task.tokenizer, caption.tokens)
    seen = _mean_cross_attention(task, image, caption, layers, heads)
    weights = None
    if seen is not None:
        places = average_rows_by_word(seen, parts)
        side = isqrt(places.shape[-1])  # pictures are square, and so are their grids
        weights = places.numpy().reshape(-1, side, side)
    return CaptionAttention(image, join_pieces(parts), weights, caption.log_probability, name)


def _mean_cross_attention(
    task: Captioning,
    image: ImageArray,
    caption: Generation,
    layers: Collection[int],
    heads: Collection[int],
) -> Float[Tensor, "tokens places"] | None:
    """The mean of the chosen heads' weights for each token of a caption."""
    about = collate_pictures([image], task.model)
    target = torch.tensor([[START, *caption.tokens]], device=about.image_index.device)
    found = [w[0].float().cpu() for w in collect_cross_attention(task.model, about, target)]
    if not found:
        if layers or heads:
            raise UserError("this captioner looks at nothing while it writes (model.attention)")
        return None
    chosen = select_heads(found, layers, heads).values()
    return torch.stack(list(chosen)).mean(0)[: len(caption.tokens)]
