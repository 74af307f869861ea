"""The attention weights of a model, collected in one traced forward pass.

`collect` runs a model once over an input (and a target, if it generates text) and returns all
weights as `AttentionStacks`. Attention maps, alignments, heads as problems, ablation, permutation,
attribution and the page start from that result or from the same `AttentionPass`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from math import isqrt
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import UInt8
from numpy.typing import NDArray
from torch import Tensor, nn

from workings.data.tokenizers.base import BOS_TOKEN, EOS_TOKEN, PAD_TOKEN
from workings.errors import UserError, did_you_mean
from workings.interpret.results import AttentionStack, AttentionStacks, HeadIndex, check_index
from workings.interpret.subwords import TargetText, build_target, label_pieces, split_pieces
from workings.layers.attention import MultiHeadAttention
from workings.models.language import LanguageModel
from workings.models.seq2seq import START, RecurrentDecoder, TransformerDecoder
from workings.modules import device_of, eval_mode
from workings.tasks.captioning import Captioning, collate_pictures
from workings.tasks.classification import Classification
from workings.tasks.language_modeling import LanguageModeling
from workings.tasks.seq2seq import Generation
from workings.tasks.translation import (
    MAX_SENTENCE_TOKENS,
    Translation,
    collate_sources,
    split_long_text,
)
from workings.trace import Intervention, Trace

MAX_TOKENS = 512  # of the source or target: the weights of a head take 1 MB
PARTS = ("encoder", "decoder", "cross")
LABELS = {"encoder": "encoder", "decoder": "decoder", "cross": "decoder's cross-attention"}

ImageArray: TypeAlias = UInt8[np.ndarray, "size size 3"]
ModelInput: TypeAlias = str | ImageArray
"""a text, or the image of a captioner"""


class NoAttentionError(UserError):
    """The model has no attention."""


@dataclass(frozen=True)
class StackSpec:
    """One part of a model with attention: the paths of its layers, and names of rows and columns.

    A row of a decoder is named after the token that the decoder reads there, not after the token
    that it generates next: the vectors of a head belong to the input.
    """

    part: str
    layer_paths: Sequence[str]
    query_tokens: Sequence[str]
    key_tokens: Sequence[str] | None
    """None for the grid cells of an image, whose number is known after the pass"""
    is_causal: bool = False
    token_slice: slice = field(default_factory=lambda: slice(None))
    output_tokens: Sequence[str] = ()
    is_multi_head: bool = True

    def read(self, trace: Trace, max_tokens: int | None) -> AttentionStack:
        """Return the weights of all layers from a trace of one example."""
        weights = [self._read_layer(trace, f"{path}.weights") for path in self.layer_paths]
        return AttentionStack(
            self.part,
            LABELS[self.part],
            self.query_tokens,
            self.name_keys(weights[0].shape[-1], max_tokens),
            weights,
            self.is_causal,
            self.token_slice,
            self.output_tokens,
            self.is_multi_head,
        )

    def name_keys(self, count: int, max_tokens: int | None) -> Sequence[str]:
        """Return the names of the columns; grid cells of an image are named by row and column."""
        if self.key_tokens is not None:
            return self.key_tokens
        if max_tokens is not None:
            check_count(count, max_tokens, "grid cells")
        side = range(1, isqrt(count) + 1)  # images are square, and so are their grids
        return [f"({row},{column})" for row in side for column in side]

    def _read_layer(self, trace: Trace, path: str) -> NDArray[np.float32]:
        if self.is_multi_head:
            return to_numpy(trace[path][0])
        # A recurrent decoder attends once per step: `[batch, 1, source]` each.
        return to_numpy(torch.stack(trace.steps(path), 2)[0])


@dataclass(frozen=True)
class AttentionPass:
    """One forward pass of a task's model over one example."""

    model: nn.Module
    forward: Callable[[], Tensor | None]
    """runs the model; returns the logits of the prediction, or None"""
    specs: Sequence[StackSpec]
    source_text: str = ""
    target: TargetText | None = None
    source_pieces: Sequence[str] = ()
    truncated_characters: int = 0
    max_tokens: int | None = None

    @torch.no_grad()
    def trace(
        self,
        only: Sequence[str],
        replace: Mapping[str, Intervention] | None = None,
        scale: Mapping[str, float | Tensor] | None = None,
    ) -> tuple[Trace, Tensor | None]:
        """Run the model in evaluation mode; return the trace of some taps, and the logits."""
        trace = Trace(self.model, only=list(only), replace=replace, scale=scale)
        with eval_mode(self.model), trace:
            logits = self.forward()
        return trace, logits

    def collect(
        self,
        taps: Sequence[str] = (),
        replace: Mapping[str, Intervention] | None = None,
        scale: Mapping[str, float | Tensor] | None = None,
    ) -> AttentionStacks:
        """Run the model once; return the attention weights, and the values of further taps."""
        paths = [f"{path}.weights" for spec in self.specs for path in spec.layer_paths]
        trace, logits = self.trace([*paths, *taps], replace, scale)
        values = {path: trace[path] for path in trace if path not in paths} if taps else {}
        return AttentionStacks(
            [spec.read(trace, self.max_tokens) for spec in self.specs],
            self.source_text,
            None if self.target is None else self.target.text,
            self.source_pieces,
            () if self.target is None else self.target.pieces,
            self.truncated_characters,
            None if logits is None else to_numpy(logits),
            {path: to_numpy(value[0]) for path, value in values.items()},
        )


def collect(
    task: object,
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
    return plan_pass(task, model_input, target, options).collect()


@dataclass(frozen=True)
class PassOptions:
    """The parts of a model to trace (none: all), and the limit of the input's length."""

    parts: Sequence[str] = ()
    max_tokens: int | None = MAX_TOKENS
    truncate: bool = False

    def __post_init__(self) -> None:
        for part in self.parts:
            if part not in PARTS:
                raise UserError(f"part {part!r}: {did_you_mean(part, PARTS)}")

    def select_parts(self, model_kind: str, parts: Sequence[str]) -> list[str]:
        """Return the requested ones of a model's parts."""
        for part in self.parts:
            if part not in parts:
                known = " and ".join(parts)
                raise UserError(f"part {part!r}: {model_kind} has no such part, only {known}")
        return [part for part in parts if not self.parts or part in self.parts]

    @property
    def max_text_tokens(self) -> int | None:
        """The limit without the start or end token."""
        return None if self.max_tokens is None else self.max_tokens - 1

    def limit_tokens(self, count: int, limit: int | None = None) -> int:
        """Return how many of the tokens are read; raise UserError if there are none or too many.

        `limit` is the number of positions of the model.
        """
        if not count:
            raise UserError("an empty text: it has no attention")
        limit = min((n for n in (self.max_tokens, limit) if n is not None), default=count)
        if not self.truncate:
            check_count(count, limit)
        return min(count, limit)


def check_count(count: int, limit: int, unit: str = "tokens") -> None:
    """Raise UserError if there are more tokens than a head is shown for."""
    if count > limit:
        raise UserError(f"{count:,} {unit}: attention is shown for at most {limit}")


# -- the pass of each task -----------------------------------------------------------------------


@singledispatch
def plan_pass(
    task: object, model_input: ModelInput, target: Generation | str | None, options: PassOptions
) -> AttentionPass:
    """Return the forward pass of a task's model over an input; raise UserError if it has none."""
    del model_input, target, options
    raise UserError(
        f"a {type(task).__name__} has no attention: expected a run of a classifier, language "
        "model, translator or captioner"
    )


@plan_pass.register
def _plan_classifier_pass(
    task: Classification,
    model_input: ModelInput,
    target: Generation | str | None,
    options: PassOptions,
) -> AttentionPass:
    text = _check_text(model_input, target)
    (part,) = options.select_parts("a classifier", ("encoder",))
    layer_paths = _find_layers(task.model, part)
    ids, spans, num_truncated = task.encode_with_spans(text)
    count = options.limit_tokens(len(ids))
    ids, spans = ids[:count], spans[:count]
    width = count if task.padding == "masked" else task.recipe.data.max_length
    if options.max_tokens is not None and not options.truncate:
        check_count(width, options.max_tokens)  # padding that is not masked has weights, too
    token_slice = task.token_slice(count, width)
    tokens = [PAD_TOKEN] * width
    tokens[token_slice] = [text[a:b] for a, b in spans]
    return AttentionPass(
        task.model,
        lambda: task.compute_logits([ids])[0],
        [StackSpec(part, layer_paths, tokens, tokens, token_slice=token_slice)],
        text,
        truncated_characters=max(num_truncated, len(text[spans[-1][1] :].strip())),
    )


@plan_pass.register
def _plan_language_model_pass(
    task: LanguageModeling,
    model_input: ModelInput,
    target: Generation | str | None,
    options: PassOptions,
) -> AttentionPass:
    text, model = _check_text(model_input, target), task.model
    (part,) = options.select_parts("a language model", ("decoder",))
    layer_paths = _find_layers(model, part)
    spans = task.tokenizer.find_spans(text)
    count = options.limit_tokens(len(spans), model.max_positions)
    ids = torch.tensor([task.tokenizer.encode(text)[:count]], device=device_of(model))
    tokens = [text[a:b] for a, b in spans[:count]]

    def forward() -> Tensor:
        features, _ = model.forward_features(ids, None)
        logits: Tensor = model.head(features[0, -1])
        return logits

    return AttentionPass(
        model,
        forward,
        [StackSpec(part, layer_paths, tokens, tokens, is_causal=True)],
        text,
        truncated_characters=len(text) - spans[count - 1][1],
    )


@plan_pass.register
def _plan_translator_pass(
    task: Translation,
    model_input: ModelInput,
    target: Generation | str | None,
    options: PassOptions,
) -> AttentionPass:
    if not isinstance(model_input, str):
        raise UserError("a translator needs a text, not an image")
    text, model, tokenizers = model_input, task.model, task.tokenizers
    has_heads = _has_decoder_heads(model, "translator")
    known_parts = ("cross", "decoder", "encoder") if has_heads else ("cross",)
    parts = options.select_parts("this translator", known_parts)
    normalized = tokenizers.normalize_case(text)
    source_pieces = split_pieces(normalized, tokenizers.source.find_spans(normalized))
    PassOptions(max_tokens=options.max_text_tokens).limit_tokens(len(source_pieces))
    source_tokens = [*label_pieces(tokenizers.source, source_pieces), EOS_TOKEN]
    source = collate_sources([tokenizers.encode_source(text)], model)
    if parts == ["encoder"]:
        assert isinstance(model, TransformerDecoder)
        encode = model.encode

        def forward() -> None:
            encode(source)

        spec = StackSpec("encoder", _find_layers(model, "encoder"), source_tokens, source_tokens)
        return AttentionPass(model, forward, [spec], text, source_pieces=source_pieces)
    if not isinstance(target, str):
        check_single_sentence(task, text)
    if target is None:
        target = task.translate_one(text)
    elif isinstance(target, str):
        target = tokenizers.normalize_case(target)
    output = build_target(tokenizers.target, target)
    return _plan_decoder_pass(
        model,
        source,
        parts,
        label_pieces(tokenizers.target, output.pieces),
        source_tokens,
        output,
        options,
        source_text=text,
        source_pieces=source_pieces,
    )


@plan_pass.register
def _plan_captioner_pass(
    task: Captioning,
    model_input: ModelInput,
    target: Generation | str | None,
    options: PassOptions,
) -> AttentionPass:
    if isinstance(model_input, str):
        raise UserError("a captioner needs an image: the page shows its heads (workings serve)")
    model, has_heads = task.model, _has_decoder_heads(task.model, "captioner")
    parts = options.select_parts("a captioner", ("cross", "decoder") if has_heads else ("cross",))
    if target is None:
        target = next(task.caption([model_input]))[0]
    output = build_target(task.tokenizer, target)
    labels = label_pieces(task.tokenizer, output.pieces)
    source = collate_pictures([model_input], model)
    return _plan_decoder_pass(model, source, parts, labels, None, output, options)


def _plan_decoder_pass(
    model: Any,
    source: Any,
    parts: Sequence[str],
    labels: Sequence[str],
    source_tokens: Sequence[str] | None,
    target: TargetText,
    options: PassOptions,
    **texts: Any,
) -> AttentionPass:
    """Return the teacher-forced pass of a sequence-to-sequence model."""
    limit = options.max_text_tokens
    if limit is not None and len(target.tokens) > limit:
        raise UserError(f"a target of {len(target.tokens):,} tokens: at most {limit}")
    ids = torch.tensor([[START, *target.tokens]], device=device_of(model))
    inputs, outputs = [BOS_TOKEN, *labels], [*labels, EOS_TOKEN]
    has_heads = isinstance(model, TransformerDecoder)
    specs = []
    for part in parts:
        is_encoder, is_cross = part == "encoder", part == "cross"
        queries = source_tokens if is_encoder and source_tokens is not None else inputs
        specs.append(
            StackSpec(
                part,
                _find_layers(model, part) if has_heads else ["attention"],
                queries,
                source_tokens if is_cross else queries,
                is_causal=part == "decoder",
                output_tokens=() if is_encoder else outputs,
                is_multi_head=has_heads,
            )
        )

    def forward() -> None:
        model.forward_features(source, ids)

    return AttentionPass(
        model, forward, specs, target=target, max_tokens=options.max_tokens, **texts
    )


def _check_text(model_input: ModelInput, target: Generation | str | None) -> str:
    if not isinstance(model_input, str):
        raise UserError("an image needs a captioner: this model reads texts")
    if target is not None:
        raise UserError("only translators and captioners have a target")
    return model_input


def _find_layers(model: nn.Module, part: str) -> list[str]:
    layers = find_attention_layers(model).get(part, [])
    if not layers:
        raise NoAttentionError("this model has no attention: its kind is not transformer")
    return layers


def _has_decoder_heads(model: nn.Module, name: str) -> bool:
    """Return True for a Transformer decoder, False for a recurrent one with attention."""
    if isinstance(model, RecurrentDecoder) and model.attention is None:
        raise NoAttentionError(f"this {name} has no attention (model.attention is none or fixed)")
    return isinstance(model, TransformerDecoder)


def check_single_sentence(task: Translation, source: str) -> None:
    """Raise UserError for an empty text, or one that is translated in several parts."""
    if not source.strip():
        raise UserError("an empty text: it has no attention")
    if len(split_long_text(task.tokenizers, source)) > 1:
        count = len(task.tokenizers.encode_source(source)) - 1
        raise UserError(
            f"{count:,} tokens: an alignment needs one sentence of at most {MAX_SENTENCE_TOKENS}"
        )


def to_numpy(value: Tensor) -> NDArray[np.float32]:
    """Return a tensor as a float32 array."""
    array: NDArray[np.float32] = value.detach().float().cpu().numpy()
    return array


# -- layers and heads of a model -----------------------------------------------------------------


def find_attention_layers(model: nn.Module) -> dict[str, list[str]]:
    """Return the paths of a model's multi-head attention layers by part, in order."""
    layers: dict[str, list[str]] = {}
    for path, module in model.named_modules():
        if not isinstance(module, MultiHeadAttention):
            continue
        if path.endswith(".cross_attention"):
            part = "cross"
        elif path.startswith("decoder.") or isinstance(model, LanguageModel):
            part = "decoder"
        else:
            part = "encoder"
        layers.setdefault(part, []).append(path)
    return layers


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
