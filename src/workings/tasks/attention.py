"""The attention of a task's model: one forward pass, and the names of its rows and columns.

A task's `plan_attention` returns an `AttentionPass`; `interpret.attention` runs it under a trace.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isqrt
from typing import Any, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workings.data.tokenizers.base import BOS_TOKEN, EOS_TOKEN, Tokenizer
from workings.errors import UserError, did_you_mean
from workings.layers.attention import MultiHeadAttention
from workings.models.language import LanguageModel
from workings.models.seq2seq import (
    START,
    ConditionalDecoder,
    RecurrentDecoder,
    SourceBatch,
    TransformerDecoder,
)
from workings.modules import device_of, eval_mode
from workings.tasks.base import Generation
from workings.trace import Intervention, Trace

MAX_TOKENS = 512  # of the source or target: the weights of a head take 1 MB
PARTS = ("encoder", "decoder", "cross")


class NoAttentionError(UserError):
    """The model has no attention, or the input has no tokens."""


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

    def read_weights(self, trace: Trace) -> list[Float[Tensor, "heads queries keys"]]:
        """Return the weights of each layer from a trace of one example."""
        paths = [f"{path}.weights" for path in self.layer_paths]
        if self.is_multi_head:
            return [trace[path][0] for path in paths]
        # A recurrent decoder attends once per step: `[batch, 1, source]` each.
        return [torch.stack(trace.steps(path), 2)[0] for path in paths]

    def name_keys(self, count: int, max_tokens: int | None) -> Sequence[str]:
        """Return the names of the columns; grid cells of an image are named by row and column."""
        if self.key_tokens is not None:
            return self.key_tokens
        if max_tokens is not None:
            check_count(count, max_tokens, "grid cells")
        side = range(1, isqrt(count) + 1)  # images are square, and so are their grids
        return [f"({row},{column})" for row in side for column in side]


@dataclass(frozen=True)
class TargetText:
    """A translation or caption: its tokens, and the text that each of them adds."""

    text: str
    tokens: Sequence[int]
    pieces: Sequence[str]
    labels: Sequence[str]
    """the pieces as rows and columns are named"""

    @classmethod
    def build(cls, tokenizer: Tokenizer, target: Generation | str) -> Self:
        """Return the tokens and pieces of a target.

        A generation has the tokens that the model chose; a text is encoded. They can differ: a
        model may generate other tokens for a word than its tokenizer would.
        """
        if isinstance(target, str):
            text, tokens = target, [*tokenizer.prefix_ids, *tokenizer.encode(target)]
            pieces = tokenizer.add_prefix_pieces(tokenizer.split_pieces(target))
        else:
            text, tokens = target.text, [*target.tokens]
            num_prefixes = len(tokenizer.prefix_ids)
            pieces = tokenizer.add_prefix_pieces(tokenizer.decode_pieces(tokens[num_prefixes:]))
        return cls(text, tokens, pieces, tokenizer.label_pieces(pieces))


@dataclass(frozen=True)
class AttentionPass:
    """One forward pass of a task's model over one example."""

    model: nn.Module
    forward: Callable[[], Tensor | None]
    """runs the model; returns the logits of the prediction, or None; with a target, the
    probability of each of its tokens"""
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
        """Run the model in evaluation mode; return the trace of some taps, and its result."""
        trace = Trace(self.model, only=list(only), replace=replace, scale=scale)
        with eval_mode(self.model), trace:
            result = self.forward()
        return trace, result


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
            raise NoAttentionError("an empty text: it has no attention")
        limit = min((n for n in (self.max_tokens, limit) if n is not None), default=count)
        if not self.truncate:
            check_count(count, limit)
        return min(count, limit)


def check_count(count: int, limit: int, unit: str = "tokens") -> None:
    """Raise UserError if there are more tokens than a head is shown for."""
    if count > limit:
        raise UserError(f"{count:,} {unit}: attention is shown for at most {limit}")


def check_no_target(target: Generation | str | None) -> None:
    """Raise UserError if a model that generates no target is given one."""
    if target is not None:
        raise UserError("only translators and captioners have a target")


# -- models with a decoder -----------------------------------------------------------------------


def select_decoder_parts(
    model: nn.Module, noun: str, parts: Sequence[str], options: PassOptions
) -> list[str]:
    """Return the requested ones of a model's parts; raise NoAttentionError if it has none.

    `parts` are those of a Transformer; a recurrent decoder has cross-attention only.
    """
    if isinstance(model, RecurrentDecoder) and model.attention is None:
        raise NoAttentionError(f"this {noun} has no attention (model.attention is none or fixed)")
    known = parts if isinstance(model, TransformerDecoder) else ("cross",)
    return options.select_parts(f"this {noun}", known)


def plan_encoder_pass(
    model: nn.Module, source: SourceBatch, tokens: Sequence[str], **texts: Any
) -> AttentionPass:
    """Return the pass of a translator's encoder alone."""
    assert isinstance(model, TransformerDecoder)

    def forward() -> None:
        model.encode(source)

    spec = StackSpec("encoder", require_layers(model, "encoder"), tokens, tokens)
    return AttentionPass(model, forward, [spec], **texts)


def plan_decoder_pass(
    model: ConditionalDecoder[Any],
    source: SourceBatch,
    parts: Sequence[str],
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
    inputs, outputs = [BOS_TOKEN, *target.labels], [*target.labels, EOS_TOKEN]
    has_heads = isinstance(model, TransformerDecoder)
    specs = []
    for part in parts:
        is_encoder, is_cross = part == "encoder", part == "cross"
        queries = source_tokens if is_encoder and source_tokens is not None else inputs
        specs.append(
            StackSpec(
                part,
                require_layers(model, part) if has_heads else ["attention"],
                queries,
                source_tokens if is_cross else queries,
                is_causal=part == "decoder",
                output_tokens=() if is_encoder else outputs,
                is_multi_head=has_heads,
            )
        )

    def forward() -> Tensor:
        logits = model.head(model.forward_features(source, ids)[0, :-1])
        return torch.softmax(logits.float(), -1).gather(-1, ids[0, 1:, None])[:, 0]

    return AttentionPass(
        model, forward, specs, target=target, max_tokens=options.max_tokens, **texts
    )


@torch.no_grad()
def collect_cross_attention(
    model: ConditionalDecoder[Any], source: SourceBatch, target: Int[Tensor, "batch time"]
) -> list[Float[Tensor, "batch heads time source"]]:
    """Return the cross-attention weights of each layer; none for models without attention.

    `target` begins with the start token: row k has the weights at which token k + 1 was predicted.
    """
    if isinstance(model, RecurrentDecoder):
        if model.attention is None:
            return []
        with Trace(model, only="attention.weights") as trace:
            model(source, target)
        return [torch.stack(trace.steps("attention.weights"), 2)]
    with Trace(model, only="decoder.*.cross_attention.weights") as trace:
        model(source, target)
    return [trace[path] for path in trace]


# -- layers of a model ---------------------------------------------------------------------------


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


def require_layers(model: nn.Module, part: str) -> list[str]:
    """Return the paths of the attention layers of a part; raise NoAttentionError without any."""
    layers = find_attention_layers(model).get(part, [])
    if not layers:
        raise NoAttentionError("this model has no attention: its kind is not transformer")
    return layers
