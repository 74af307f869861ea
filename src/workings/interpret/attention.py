"""Where the attention heads of a model are, and what they look at while it reads a text."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from workings.data.tokenizers.base import BOS_TOKEN as BEGIN
from workings.data.tokenizers.base import EOS_TOKEN, PAD_TOKEN
from workings.errors import UserError, did_you_mean, truncate
from workings.interpret.attention_maps import (
    ImageArray,
    check_index,
    check_single_sentence,
    compute_alignment,
)
from workings.interpret.results import AttentionMaps, HeadMap
from workings.interpret.subwords import (
    build_target,
    build_translation_target,
    label_pieces,
    split_pieces,
)
from workings.layers.attention import MultiHeadAttention
from workings.models.captioning import ImageBatch, TransformerCaptioner
from workings.models.classifiers import TransformerClassifier
from workings.models.language import LanguageModel, TransformerLM
from workings.models.translation import START, TransformerTranslator
from workings.modules import device_of
from workings.plain_text import show_whitespace
from workings.tasks.captioning import Captioning, collate_pictures
from workings.tasks.classification import Classification
from workings.tasks.language_modeling import LanguageModeling
from workings.tasks.seq2seq import Generation
from workings.tasks.translation import Translation, collate_sources
from workings.trace import Trace

MAX_TOKENS = 512  # tokens
PARTS = ("encoder", "decoder", "cross")

ModelInput: TypeAlias = str | ImageArray
"""what a model is given: a text, or a captioner's picture"""


@dataclass(frozen=True)
class AttentionStack:
    """One of a model's stacks of attention layers; `read` makes the model read once more.

    A token of a translation is named by what the decoder reads at its place, not by what it writes
    there next: the vectors of a problem are what goes in.
    """

    model: nn.Module
    label: str
    layer_paths: Sequence[str]
    forward: Callable[[], object]
    text: str
    query_tokens: Sequence[str]
    key_tokens: Sequence[str] | None = None
    is_causal: bool = False


def find_stack(
    task: object, model_input: ModelInput, part: str | None, target: Generation | str | None
) -> AttentionStack:
    """Find the layers of a part of a run's model, and have it read a text or see a picture."""
    if part is not None and part not in PARTS:
        raise UserError(f"part {part!r}: {did_you_mean(part, PARTS)}")
    if isinstance(task, Captioning):
        _check_part("a captioner", part, ("cross", "decoder"))
        return _find_captioner_stack(task, model_input, part or "cross", target)
    if not isinstance(model_input, str):
        raise UserError("a picture is for a captioner: this model reads a text")
    if target is not None and not isinstance(task, Translation):
        raise UserError("a target is for translators and captioners: this model only reads")
    if isinstance(task, Classification):
        _check_part("a classifier", part, ("encoder",))
        return _find_classifier_stack(task, model_input)
    if isinstance(task, LanguageModeling):
        _check_part("a language model", part, ("decoder",))
        return _find_language_model_stack(task, model_input)
    if isinstance(task, Translation):
        return _find_translator_stack(task, model_input, part or "cross", target)
    raise UserError("heads can be shown of classifiers, language models, translators, captioners")


def _check_part(model_kind: str, part: str | None, parts: Sequence[str]) -> None:
    if part is not None and part not in parts:
        raise UserError(f"part {part!r}: {model_kind} has no such part, only {' and '.join(parts)}")


def _find_classifier_stack(task: Classification, text: str) -> AttentionStack:
    model = task.model
    if not isinstance(model, TransformerClassifier):
        raise UserError("this model has no attention: its kind is not transformer")
    ids, spans, _ = task.encode_with_spans(text)
    tokens = _check_tokens([show_whitespace(text[a:b]) for a, b in spans], MAX_TOKENS)
    room = 0 if model.excludes_padding else task.recipe.data.max_length
    padding = [PAD_TOKEN] * (
        _check_count(room, MAX_TOKENS) - len(tokens)
    )  # where it counts, it is looked at
    front = task.padding == "left"
    return AttentionStack(
        model,
        "encoder",
        [f"blocks.{k}.attention" for k in range(len(model.blocks))],
        lambda: task.compute_logits([ids]),
        truncate(text),
        [*padding, *tokens] if front else [*tokens, *padding],
    )


def _find_language_model_stack(task: LanguageModeling, text: str) -> AttentionStack:
    model, tokenizer = task.model, task.tokenizer
    if not isinstance(model, TransformerLM):
        raise UserError("this model has no attention: its kind is not transformer")
    tokens = [show_whitespace(text[a:b]) for a, b in tokenizer.find_spans(text)]
    tokens = _check_tokens(
        tokens, MAX_TOKENS if model.max_positions is None else min(MAX_TOKENS, model.max_positions)
    )
    ids = torch.tensor([tokenizer.encode(text)], device=device_of(model))
    return AttentionStack(
        model,
        "decoder",
        [f"blocks.{k}.attention" for k in range(len(model.blocks))],
        lambda: model.forward_features(ids, None),
        truncate(text),
        tokens,
        is_causal=True,
    )


def _find_translator_stack(
    task: Translation, text: str, part: str, target: Generation | str | None
) -> AttentionStack:
    model, words = task.model, task.tokenizers
    if not isinstance(model, TransformerTranslator):
        raise UserError("this translator has no attention heads: its kind is not transformer")
    small = words.normalize_case(text)
    pieces = split_pieces(small, words.source.find_spans(small))
    read = [
        *_check_tokens([*map(show_whitespace, label_pieces(words.source, pieces))], MAX_TOKENS - 1),
        EOS_TOKEN,
    ]
    source = collate_sources([words.encode_source(text)], model)
    if part == "encoder":
        paths = [f"encoder.{k}.attention" for k in range(len(model.encoder))]
        return AttentionStack(
            model, part, paths, lambda: model.encode(source), truncate(text), read
        )
    if target is None:
        check_single_sentence(task, text)
    wrote = build_translation_target(task, text, target)
    if len(wrote.tokens) >= MAX_TOKENS:
        told = f"a target of {len(wrote.tokens):,} tokens"
        raise UserError(f"{told}: at most {MAX_TOKENS - 1} can be shown")
    ids = torch.tensor([[START, *wrote.tokens]], device=source.ids.device)
    return AttentionStack(
        model,
        *_describe_decoder_part(part, len(model.decoder)),
        lambda: model.forward_features(source, ids),
        f"{truncate(text)} → {truncate(wrote.text)}",
        [BEGIN, *map(show_whitespace, label_pieces(words.target, wrote.pieces))],
        read if part == "cross" else None,
        is_causal=part == "decoder",
    )


def _find_captioner_stack(
    task: Captioning, model_input: ModelInput, part: str, target: Generation | str | None
) -> AttentionStack:
    """As of a translator; what is looked at are the places of a grid, named by row and column."""
    model = task.model
    if isinstance(model_input, str):
        raise UserError("a captioner looks at pictures: the workbench shows its heads (serve)")
    if not isinstance(model, TransformerCaptioner):
        raise UserError("this captioner has no attention heads: its kind is not transformer")
    if target is None:
        target = next(task.caption([model_input]))[0]
    said, about = build_target(task.tokenizer, target), collate_pictures([model_input], model)
    ids = torch.tensor([[START, *said.tokens]], device=about.image_index.device)
    places = None if part == "decoder" else _name_grid_cells(model, about)
    return AttentionStack(
        model,
        *_describe_decoder_part(part, len(model.decoder)),
        lambda: model.forward_features(about, ids),
        truncate(said.text),
        [BEGIN, *map(show_whitespace, label_pieces(task.tokenizer, said.pieces))],
        places,
        is_causal=part == "decoder",
    )


@torch.no_grad()
def _name_grid_cells(model: TransformerCaptioner, source: ImageBatch) -> list[str]:
    """Name the places of a picture's grid; pictures are square, and so are their grids."""
    side = isqrt(_check_count(model.encode(source)[0].shape[1], MAX_TOKENS, "places of a grid"))
    return [f"({row},{column})" for row in range(1, side + 1) for column in range(1, side + 1)]


def _describe_decoder_part(part: str, count: int) -> tuple[str, list[str]]:
    """What a part of a decoder is called, and its layers."""
    called, name = (
        ("decoder's cross-attention", "cross_attention") if part == "cross" else (part, "attention")
    )
    return called, [f"decoder.{k}.{name}" for k in range(count)]


def _check_tokens(tokens: list[str], maximum: int) -> list[str]:
    if not tokens:
        raise UserError("an empty text: there is nothing to look at")
    _check_count(len(tokens), maximum)
    return tokens


def _check_count(count: int, maximum: int, unit: str = "tokens") -> int:
    if count > maximum:
        raise UserError(f"{count:,} {unit}: a head is written out for {maximum} at most")
    return count


ALIGNMENT = "alignment"


@dataclass(frozen=True)
class HeadIndex:
    """A head by its place, layers and heads counted from 1."""

    part: str
    layer: int
    head: int


@dataclass(frozen=True, eq=False)
class StackWeights:
    """Layers that look from the same rows at the same columns."""

    part: str
    label: str
    query_tokens: Sequence[str]
    key_tokens: Sequence[str]
    weights: Sequence[Float[Tensor, "heads queries keys"]]
    is_causal: bool = False

    def head_name(self, layer: int, head: int) -> str:
        """What a head is called, counted from 1."""
        return self.label if self.part == ALIGNMENT else f"layer {layer}, head {head}"

    def to_maps(self, title: str, only: tuple[int, int] | None = None) -> AttentionMaps:
        """All heads as maps, or one by its layer and head."""
        found = [
            HeadMap(self.head_name(layer, head), weights.tolist())
            for layer, heads in enumerate(self.weights, start=1)
            for head, weights in enumerate(heads, start=1)
            if only in (None, (layer, head))
        ]
        aligned = self.part in (ALIGNMENT, "cross")
        return AttentionMaps(title, self.query_tokens, self.key_tokens, found, is_alignment=aligned)


def collect_stacks(
    task: object, model_input: ModelInput, target: Generation | str | None = None
) -> list[StackWeights]:
    """Where every head of a run's model looks while it reads a text, and writes a target.

    A translator has its alignment, the mean of all heads, first. A captioner is given a picture.
    """
    if isinstance(task, Captioning):
        heads = isinstance(task.model, TransformerCaptioner)
        return [
            _collect_stack(task, model_input, part, target)
            for part in ("cross", "decoder")
            if heads
        ]
    if not isinstance(task, Translation) or not isinstance(
        model_input, str
    ):  # a picture is refused
        return [_collect_stack(task, model_input, None, None)]
    target = task.translate_one(model_input) if target is None else target
    found = compute_alignment(task, model_input, target)
    weights = torch.tensor([list(row) for row in found.maps[0].weights])
    rows, columns = (
        [show_whitespace(token) for token in some] for some in (found.rows, found.columns)
    )
    aligned = StackWeights(ALIGNMENT, found.maps[0].name, rows, columns, [weights.unsqueeze(0)])
    parts = ("cross", "decoder", "encoder") if isinstance(task.model, TransformerTranslator) else ()
    return [aligned, *(_collect_stack(task, model_input, part, target) for part in parts)]


@torch.no_grad()
def _collect_stack(
    task: object, model_input: ModelInput, part: str | None, target: Generation | str | None
) -> StackWeights:
    place = find_stack(task, model_input, part, target)
    paths = [f"{path}.weights" for path in place.layer_paths]
    with Trace(place.model, only=paths) as trace:
        place.forward()
    name = part or ("decoder" if place.is_causal else "encoder")
    weights = [trace[path][0].float().cpu() for path in paths]
    return StackWeights(
        name,
        place.label,
        place.query_tokens,
        place.key_tokens or place.query_tokens,
        weights,
        place.is_causal,
    )


def find_attention_layers(model: nn.Module) -> dict[str, list[str]]:
    """The attention layers of a model by the part that they are of: their paths, in order."""
    found: dict[str, list[str]] = {}
    for path, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            decodes = path.startswith("decoder.") or isinstance(model, LanguageModel)
            part = (
                "cross"
                if path.endswith(".cross_attention")
                else "decoder"
                if decodes
                else "encoder"
            )
            found.setdefault(part, []).append(path)
    return found


def ablate_heads(model: nn.Module, heads: Collection[HeadIndex]) -> Trace:
    """A trace that is to be open while a model computes with some of its heads switched off.

    A head that is off looks as it did, but what it takes from the values is nothing.
    """
    layers, factors = find_attention_layers(model), dict[str, Tensor]()
    for one in heads:
        paths = layers.get(one.part, [])
        if not paths:
            known = ", ".join(part for part in PARTS if part in layers) or "none at all"
            raise UserError(f"part {one.part!r}: this model has no such heads; it has {known}")
        check_index("layer", [one.layer], len(paths))
        path = paths[one.layer - 1]
        module = model.get_submodule(path)
        assert isinstance(module, MultiHeadAttention)
        check_index("head", [one.head], module.heads)
        factor = factors.setdefault(f"{path}.mixed", torch.ones(module.heads, 1, 1))
        factor[one.head - 1] = 0
    return Trace(model, only=(), scale=factors)
