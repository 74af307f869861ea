"""Who looks at whom: the weights of every attention head on a text."""

from array import array
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from workings.data.tokenizer import Tokenizer
from workings.errors import UserError
from workings.models.language import LanguageModel
from workings.tasks.classify import Classifying
from workings.tasks.language import Modelling
from workings.trace import Trace
from workings.views.picture import Picture

MOST = 512  # tokens


@dataclass(frozen=True)
class HeadMap:
    """One head: how much each token of a row looks at each token of a column."""

    name: str
    weights: Sequence[Sequence[float]]


@dataclass(frozen=True)
class AttentionMaps:
    """Heads that looked at the same: rows are what looks, columns what is looked at."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    maps: Sequence[HeadMap]
    cut: int = 0
    """how many characters at the end of the text were not read"""
    aligned: bool = False
    """whether the rows are of another text than the columns, written about it"""

    def to_table(self) -> dict[str, Any]:
        """Take it apart into what JSON can hold."""
        return {
            "rows": list(self.rows),
            "columns": list(self.columns),
            "maps": [
                {"name": one.name, "weights": [[round(w, 6) for w in row] for row in one.weights]}
                for one in self.maps
            ],
        }

    def to_text(self, *, width: int | None = None, color: bool = False) -> str:
        """Write it for a terminal."""
        from workings.views import maps_text

        return maps_text.text(self, width=width, color=color)

    def to_picture(self) -> Picture:
        """Draw all heads in one picture."""
        from workings.views import maps

        return maps.picture(self)

    def to_html(self) -> str:
        """Write it as one HTML file that needs nothing else."""
        from workings.views import maps

        return maps.page(self)

    def _repr_html_(self) -> str:
        from workings.views import maps

        return maps.fragment(self)


def attention_maps(
    task: object, text: str, *, layers: Collection[int] = (), heads: Collection[int] = ()
) -> AttentionMaps:
    """The heads of a run's model while it reads a text; of some layers and heads, from 1."""
    if isinstance(task, Classifying):
        return classifier_maps(task, text, layers=layers, heads=heads)
    if isinstance(task, Modelling):
        return language_maps(task.model, task.tokenizer, text, layers=layers, heads=heads)
    raise UserError(
        "attention is shown of classifiers and language models; of a translator, the alignment: "
        "workings translate RUN TEXT --show; of a captioner, workings caption RUN PICTURE --show"
    )


def language_maps(
    model: LanguageModel,
    tokenizer: Tokenizer,
    text: str,
    *,
    layers: Collection[int] = (),
    heads: Collection[int] = (),
) -> AttentionMaps:
    """The heads of a language model while it reads a text."""
    most = MOST if model.longest is None else min(MOST, model.longest)
    ids, spans = tokenizer.encode(text)[:most], tokenizer.spans(text)[:most]
    if not ids:
        raise UserError("an empty text: there is nothing to look at")
    device = next(model.parameters()).device
    found = _heads(model, lambda: model.read(torch.tensor([ids], device=device), None))
    tokens = [text[a:b] for a, b in spans]
    return _maps(text, tokens, found, layers, heads, cut=len(text) - spans[-1][1])


def classifier_maps(
    task: Classifying,
    text: str,
    *,
    layers: Collection[int] = (),
    heads: Collection[int] = (),
) -> AttentionMaps:
    """The heads of a classifier while it reads a text; what goes to padding is left out."""
    ids, spans, cut = task.located(text)
    if not ids:
        raise UserError("no token was read: there is nothing to look at")
    ids, spans = ids[:MOST], spans[:MOST]
    every = _heads(task.model, lambda: task.score([ids]))
    places = [task.places(len(ids), heads.shape[-1]) for heads in every]
    found = [heads[:, own, own] for heads, own in zip(every, places, strict=True)]
    tokens = [text[a:b] for a, b in spans]
    return _maps(text, tokens, found, layers, heads, max(cut, len(text[spans[-1][1] :].strip())))


@torch.no_grad()
def _heads(
    model: torch.nn.Module, read: Callable[[], object]
) -> list[Float[Tensor, "heads queries keys"]]:
    """What each layer's heads do while something is read, in the order of the layers."""
    was_training = model.training
    model.eval()
    try:
        with Trace(model, only="*weights") as trace:
            read()
    finally:
        model.train(was_training)
    return [step[0].float().cpu() for path in trace for step in trace.steps(path)]


def _maps(
    text: str,
    tokens: Sequence[str],
    found: Sequence[Float[Tensor, "heads queries keys"]],
    layers: Collection[int],
    heads: Collection[int],
    cut: int,
) -> AttentionMaps:
    if not found:
        raise UserError("this model has no attention to look at")
    maps = [head_map(name, weights) for name, weights in chosen_heads(found, layers, heads).items()]
    return AttentionMaps(text, tokens, tokens, maps, cut)


def chosen_heads(
    found: Sequence[Float[Tensor, "heads rows columns"]],
    layers: Collection[int],
    heads: Collection[int],
) -> dict[str, Float[Tensor, "rows columns"]]:
    """The heads of some layers, by their names; numbers count from 1, and none means all."""
    check_number("layer", layers, len(found))
    check_number("head", heads, len(found[0]))
    return {
        f"layer {layer}, head {head}": weights
        for layer, step in enumerate(found, start=1)
        for head, weights in enumerate(step, start=1)
        if (not layers or layer in layers) and (not heads or head in heads)
    }


def head_map(name: str, weights: Float[Tensor, "rows columns"]) -> HeadMap:
    """A head as arrays of C's: a list of Python's numbers takes eight times the room."""
    return HeadMap(name, [array("f", row) for row in weights.tolist()])


def check_number(what: str, wanted: Collection[int], count: int) -> None:
    """Refuse numbers of layers or heads that a model does not have."""
    for number in wanted:
        if not 1 <= number <= count:
            raise UserError(f"{what} {number}: this model has {count}, counted from 1")
