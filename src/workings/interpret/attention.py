"""The attention weights of a model, collected in one traced forward pass, and maps of them.

`collect` runs a model once over an input (and a target, if it generates text) and returns all
weights as `AttentionStacks`. Attention maps, alignments, heads as problems, ablation, permutation,
attribution and the page start from that result or from the `AttentionPass` of the task.
"""

from collections.abc import Collection, Mapping, Sequence
from math import isqrt

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from workings.data.tokenizers.base import EOS_TOKEN
from workings.errors import UserError
from workings.interpret.results import (
    AttentionMaps,
    AttentionStack,
    AttentionStacks,
    CaptionAttention,
    HeadIndex,
    HeadMap,
    Weights,
    check_index,
    to_float_rows,
)
from workings.interpret.subwords import (
    average_rows_by_word,
    join_pieces,
    sum_columns_by_word,
)
from workings.layers.attention import MultiHeadAttention
from workings.tasks.attention import (
    MAX_TOKENS,
    PARTS,
    AttentionPass,
    NoAttentionError,
    PassOptions,
    StackSpec,
    find_attention_layers,
)
from workings.tasks.base import Generation, ImageArray, ModelInput, Task
from workings.tasks.translation import MAX_SENTENCE_TOKENS, Translation
from workings.trace import Intervention, Trace

LABELS = {"encoder": "encoder", "decoder": "decoder", "cross": "decoder's cross-attention"}
ALIGNMENT = "alignment"  # the part of `alignment_stack`
MAX_TARGET_TOKENS = 2 * MAX_SENTENCE_TOKENS


def collect(
    task: Task,
    model_input: ModelInput,
    target: Generation | str | None = None,
    *,
    parts: Collection[str] = (),
    max_tokens: int | None = MAX_TOKENS,
    truncate: bool = False,
) -> AttentionStacks:
    """Run a task's model once over an input and return the attention weights of all heads.

    A translator or captioner is given a `target`, by default its own output. `parts` are some of
    "encoder", "decoder" and "cross" (none: all that the model has). An input of more than
    `max_tokens` is refused, or with `truncate` cut off.
    """
    options = PassOptions(tuple(parts), max_tokens, truncate)
    return collect_pass(task.plan_attention(model_input, target, options))


def collect_pass(
    plan: AttentionPass,
    taps: Sequence[str] = (),
    replace: Mapping[str, Intervention] | None = None,
    scale: Mapping[str, float | Tensor] | None = None,
) -> AttentionStacks:
    """Run a pass once; return the attention weights, and the values of further taps."""
    paths = [f"{path}.weights" for spec in plan.specs for path in spec.layer_paths]
    trace, result = plan.trace([*paths, *taps], replace, scale)
    numbers = None if result is None else to_numpy(result)
    values = {path: trace[path] for path in trace if path not in paths} if taps else {}
    return AttentionStacks(
        [_read_stack(spec, trace, plan.max_tokens) for spec in plan.specs],
        plan.source_text,
        None if plan.target is None else plan.target.text,
        plan.source_pieces,
        () if plan.target is None else plan.target.pieces,
        plan.truncated_characters,
        None if plan.target is not None else numbers,
        () if plan.target is None or numbers is None else numbers.tolist(),
        {path: to_numpy(value[0]) for path, value in values.items()},
    )


def _read_stack(spec: StackSpec, trace: Trace, max_tokens: int | None) -> AttentionStack:
    weights = [to_numpy(layer) for layer in spec.read_weights(trace)]
    return AttentionStack(
        spec.part,
        LABELS[spec.part],
        spec.query_tokens,
        spec.name_keys(weights[0].shape[-1], max_tokens),
        weights,
        spec.is_causal,
        spec.token_slice,
        spec.output_tokens,
        spec.is_multi_head,
    )


def to_numpy(value: Tensor) -> NDArray[np.float32]:
    """Return a tensor as a float32 array."""
    array: NDArray[np.float32] = value.detach().float().cpu().numpy()
    return array


def ablate_heads(model: nn.Module, heads: Collection[HeadIndex]) -> Trace:
    """Return a trace inside which the outputs of some heads are zero.

    The attention weights of an ablated head are computed as before.
    """
    layers, factors = find_attention_layers(model), dict[str, Tensor]()
    for index in heads:
        paths = layers.get(index.part, [])
        if not paths:
            known = ", ".join(part for part in PARTS if part in layers) or "none at all"
            raise UserError(f"part {index.part!r}: this model has no such heads; it has {known}")
        check_index("layer", [index.layer], len(paths))
        path = paths[index.layer - 1]
        module = model.get_submodule(path)
        assert isinstance(module, MultiHeadAttention)
        check_index("head", [index.head], module.heads)
        factor = factors.setdefault(f"{path}.mixed", torch.ones(module.heads, 1, 1))
        factor[index.head - 1] = 0
    return Trace(model, only=(), scale=factors)


# -- maps ----------------------------------------------------------------------------------------


def compute_attention_maps(
    task: Task, text: str, *, layers: Collection[int] = (), heads: Collection[int] = ()
) -> AttentionMaps:
    """Return the heads of a classifier or language model on a text.

    `layers` and `heads` are counted from 1; none means all. A long text is truncated.
    """
    if task.is_seq2seq:
        raise UserError(
            f"attention maps of one text need a classifier or language model; for a {task.noun}: "
            f"workings {task.verb} RUN … --show"
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
    task.check_single_sentence(source)
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
    task: Task,
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
    task: Task,
    image: ImageArray,
    caption: Generation,
    name: str,
    cross: AttentionStack | None,
    *,
    layers: Collection[int] = (),
    heads: Collection[int] = (),
) -> CaptionAttention:
    """Return a caption with the cross-attention weights of its words, or without weights."""
    pieces = task.split_generation(caption)
    weights = None
    if cross is not None:
        # The last row belongs to the end token.
        by_token: Weights = cross.mean(layers, heads)[: len(caption.tokens)]
        by_word = average_rows_by_word(by_token, pieces)
        side = isqrt(by_word.shape[-1])  # images are square, and so are their grids
        weights = np.reshape(by_word, (-1, side, side))
    return CaptionAttention(image, join_pieces(pieces), weights, caption.log_probability, name)
