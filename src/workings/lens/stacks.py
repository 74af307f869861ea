"""All attention of a model on one input: stack by stack, layer by layer, head by head."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from workings.errors import UserError
from workings.layers.multi_head import MultiHeadAttention
from workings.lens.alignments import alignment
from workings.lens.attention_maps import AttentionMaps, HeadMap, check_number
from workings.lens.head_places import PARTS, Given, place_of
from workings.models.captioners import TransformerCaptioner
from workings.models.language import LanguageModel
from workings.models.transformer_translator import TransformerTranslator
from workings.tasks.caption import Captioning
from workings.tasks.translate import Translating
from workings.tasks.writing import Written
from workings.trace import Trace
from workings.views.maps import label

ALIGNMENT = "alignment"


@dataclass(frozen=True)
class HeadAt:
    """A head by its place, layers and heads counted from 1."""

    part: str
    layer: int
    head: int


@dataclass(frozen=True, eq=False)
class Stack:
    """Layers that look from the same rows at the same columns."""

    part: str
    called: str
    rows: Sequence[str]
    columns: Sequence[str]
    weights: Sequence[Float[Tensor, "heads queries keys"]]
    causal: bool = False

    def name(self, layer: int, head: int) -> str:
        """What a head is called, counted from 1."""
        return self.called if self.part == ALIGNMENT else f"layer {layer}, head {head}"

    def maps(self, title: str, only: tuple[int, int] | None = None) -> AttentionMaps:
        """All heads as maps, or one by its layer and head."""
        found = [
            HeadMap(self.name(layer, head), weights.tolist())
            for layer, heads in enumerate(self.weights, start=1)
            for head, weights in enumerate(heads, start=1)
            if only in (None, (layer, head))
        ]
        aligned = self.part in (ALIGNMENT, "cross")
        return AttentionMaps(title, self.rows, self.columns, found, aligned=aligned)


def stacks(task: object, given: Given, target: Written | str | None = None) -> list[Stack]:
    """Where every head of a run's model looks while it reads a text, and writes a target.

    A translator has its alignment, the mean of all heads, first. A captioner is given a picture.
    """
    if isinstance(task, Captioning):
        heads = isinstance(task.model, TransformerCaptioner)
        return [_stack(task, given, part, target) for part in ("cross", "decoder") if heads]
    if not isinstance(task, Translating) or not isinstance(given, str):  # a picture is refused
        return [_stack(task, given, None, None)]
    target = task.written(given) if target is None else target
    found = alignment(task, given, target)
    weights = torch.tensor([list(row) for row in found.maps[0].weights])
    rows, columns = ([label(token) for token in some] for some in (found.rows, found.columns))
    aligned = Stack(ALIGNMENT, found.maps[0].name, rows, columns, [weights.unsqueeze(0)])
    parts = ("cross", "decoder", "encoder") if isinstance(task.model, TransformerTranslator) else ()
    return [aligned, *(_stack(task, given, part, target) for part in parts)]


@torch.no_grad()
def _stack(task: object, given: Given, part: str | None, target: Written | str | None) -> Stack:
    place = place_of(task, given, part, target)
    paths = [f"{path}.weights" for path in place.layers]
    with Trace(place.model, only=paths) as trace:
        place.read()
    name = part or ("decoder" if place.causal else "encoder")
    weights = [trace[path][0].float().cpu() for path in paths]
    return Stack(
        name, place.called, place.tokens, place.context or place.tokens, weights, place.causal
    )


def layers_of(model: nn.Module) -> dict[str, list[str]]:
    """The attention layers of a model by the part that they are of: their paths, in order."""
    found: dict[str, list[str]] = {}
    for path, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            decodes = path.startswith("decoder.") or isinstance(model, LanguageModel)
            part = "cross" if path.endswith(".cross") else "decoder" if decodes else "encoder"
            found.setdefault(part, []).append(path)
    return found


def without(model: nn.Module, heads: Collection[HeadAt]) -> Trace:
    """A trace that is to be open while a model computes with some of its heads switched off.

    A head that is off looks as it did, but what it takes from the values is nothing.
    """
    layers, factors = layers_of(model), dict[str, Tensor]()
    for one in heads:
        paths = layers.get(one.part, [])
        if not paths:
            known = ", ".join(part for part in PARTS if part in layers) or "none at all"
            raise UserError(f"part {one.part!r}: this model has no such heads; it has {known}")
        check_number("layer", [one.layer], len(paths))
        path = paths[one.layer - 1]
        module = model.get_submodule(path)
        assert isinstance(module, MultiHeadAttention)
        check_number("head", [one.head], module.heads)
        factor = factors.setdefault(f"{path}.mixed", torch.ones(module.heads, 1, 1))
        factor[one.head - 1] = 0
    return Trace(model, only=(), scale=factors)
