"""Where the attention heads of a model are, and what they look at while it reads a text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import TypeAlias

import torch
from torch import nn

from workings.data.tokenizer import PAD, STOP
from workings.data.tokenizer import START as BEGIN
from workings.errors import UserError, brief, near
from workings.lens.alignments import expect_a_sentence
from workings.lens.glances import Photo
from workings.lens.pieces import names_of, read_pieces
from workings.lens.targets import target_of, translation_of
from workings.models.captioners import Pictures, TransformerCaptioner
from workings.models.classifiers import TransformerClassifier
from workings.models.language import TransformerLanguageModel
from workings.models.transformer_translator import TransformerTranslator
from workings.models.translators import START
from workings.tasks.caption import Captioning, pictured
from workings.tasks.classify import Classifying
from workings.tasks.language import Modelling
from workings.tasks.translate import Translating
from workings.tasks.translation import sentences
from workings.tasks.writing import Written
from workings.views.maps import label

MOST = 512  # tokens
PARTS = ("encoder", "decoder", "cross")

Given: TypeAlias = str | Photo
"""what a model is given: a text, or a captioner's picture"""


@dataclass(frozen=True)
class Place:
    """One of a model's stacks of attention layers; `read` makes the model read once more.

    A token of a translation is named by what the decoder reads at its place, not by what it writes
    there next: the vectors of a problem are what goes in.
    """

    model: nn.Module
    called: str
    layers: Sequence[str]
    read: Callable[[], object]
    text: str
    tokens: Sequence[str]
    context: Sequence[str] | None = None
    causal: bool = False


def place_of(task: object, given: Given, part: str | None, target: Written | str | None) -> Place:
    """Find the layers of a part of a run's model, and have it read a text or see a picture."""
    if part is not None and part not in PARTS:
        raise UserError(f"part {part!r}: {near(part, PARTS)}")
    if isinstance(task, Captioning):
        _expect("a captioner", part, ("cross", "decoder"))
        return _of_captioner(task, given, part or "cross", target)
    if not isinstance(given, str):
        raise UserError("a picture is for a captioner: this model reads a text")
    if target is not None and not isinstance(task, Translating):
        raise UserError("a target is for translators and captioners: this model only reads")
    if isinstance(task, Classifying):
        _expect("a classifier", part, ("encoder",))
        return _of_classifier(task, given)
    if isinstance(task, Modelling):
        _expect("a language model", part, ("decoder",))
        return _of_language_model(task, given)
    if isinstance(task, Translating):
        return _of_translator(task, given, part or "cross", target)
    raise UserError("heads can be shown of classifiers, language models, translators, captioners")


def _expect(what: str, part: str | None, parts: Sequence[str]) -> None:
    if part is not None and part not in parts:
        raise UserError(f"part {part!r}: {what} has no such part, only {' and '.join(parts)}")


def _of_classifier(task: Classifying, text: str) -> Place:
    model = task.model
    if not isinstance(model, TransformerClassifier):
        raise UserError("this model has no attention: its kind is not transformer")
    ids, spans, _ = task.located(text)
    tokens = _bounded([label(text[a:b]) for a, b in spans], MOST)
    room = 0 if model.excludes_padding else task.recipe.data.longest
    padding = [PAD] * (_within(room, MOST) - len(tokens))  # where it counts, it is looked at
    front = task.recipe.model.get("padding") == "front"
    return Place(
        model,
        "encoder",
        [f"blocks.{k}.attention" for k in range(len(model.blocks))],
        lambda: task.score([ids]),
        brief(text),
        [*padding, *tokens] if front else [*tokens, *padding],
    )


def _of_language_model(task: Modelling, text: str) -> Place:
    model, tokenizer = task.model, task.tokenizer
    if not isinstance(model, TransformerLanguageModel):
        raise UserError("this model has no attention: its kind is not transformer")
    tokens = [label(text[a:b]) for a, b in tokenizer.spans(text)]
    tokens = _bounded(tokens, MOST if model.longest is None else min(MOST, model.longest))
    ids = torch.tensor([tokenizer.encode(text)], device=next(model.parameters()).device)
    return Place(
        model,
        "decoder",
        [f"blocks.{k}.attention" for k in range(len(model.blocks))],
        lambda: model.read(ids, None),
        brief(text),
        tokens,
        causal=True,
    )


def _of_translator(task: Translating, text: str, part: str, target: Written | str | None) -> Place:
    model, words = task.model, task.words
    if not isinstance(model, TransformerTranslator):
        raise UserError("this translator has no attention heads: its kind is not transformer")
    small = words.cased(text)
    pieces = read_pieces(small, words.source.spans(small))
    read = [*_bounded([*map(label, names_of(words.source, pieces))], MOST - 1), STOP]
    source = sentences([words.read(text)], model)
    if part == "encoder":
        paths = [f"encoder.{k}.attention" for k in range(len(model.encoder))]
        return Place(model, part, paths, lambda: model.read(source), brief(text), read)
    if target is None:
        expect_a_sentence(task, text)
    wrote = translation_of(task, text, target)
    if len(wrote.tokens) >= MOST:
        told = f"a target of {len(wrote.tokens):,} tokens"
        raise UserError(f"{told}: at most {MOST - 1} can be shown")
    ids = torch.tensor([[START, *wrote.tokens]], device=source.ids.device)
    return Place(
        model,
        *_of_decoder(part, len(model.decoder)),
        lambda: model.features(source, ids),
        f"{brief(text)} → {brief(wrote.text)}",
        [BEGIN, *map(label, names_of(words.target, wrote.pieces))],
        read if part == "cross" else None,
        causal=part == "decoder",
    )


def _of_captioner(task: Captioning, given: Given, part: str, target: Written | str | None) -> Place:
    """As of a translator; what is looked at are the places of a grid, named by row and column."""
    model = task.model
    if isinstance(given, str):
        raise UserError("a captioner looks at pictures: the workbench shows its heads (serve)")
    if not isinstance(model, TransformerCaptioner):
        raise UserError("this captioner has no attention heads: its kind is not transformer")
    if target is None:
        target = next(task.caption([given]))[0]
    said, about = target_of(task.tokenizer, target), pictured([given], model)
    ids = torch.tensor([[START, *said.tokens]], device=about.of.device)
    places = None if part == "decoder" else _places(model, about)
    return Place(
        model,
        *_of_decoder(part, len(model.decoder)),
        lambda: model.features(about, ids),
        brief(said.text),
        [BEGIN, *map(label, names_of(task.tokenizer, said.pieces))],
        places,
        causal=part == "decoder",
    )


@torch.no_grad()
def _places(model: TransformerCaptioner, about: Pictures) -> list[str]:
    """Name the places of a picture's grid; pictures are square, and so are their grids."""
    side = isqrt(_within(model.read(about)[0].shape[1], MOST, "places of a grid"))
    return [f"({row},{column})" for row in range(1, side + 1) for column in range(1, side + 1)]


def _of_decoder(part: str, count: int) -> tuple[str, list[str]]:
    """What a part of a decoder is called, and its layers."""
    called, name = ("decoder's cross-attention", part) if part == "cross" else (part, "attention")
    return called, [f"decoder.{k}.{name}" for k in range(count)]


def _bounded(tokens: list[str], most: int) -> list[str]:
    if not tokens:
        raise UserError("an empty text: there is nothing to look at")
    _within(len(tokens), most)
    return tokens


def _within(count: int, most: int, of: str = "tokens") -> int:
    if count > most:
        raise UserError(f"{count:,} {of}: a head is written out for {most} at most")
    return count
