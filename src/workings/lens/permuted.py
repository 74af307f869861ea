"""What a model makes of its input's tokens in another order.

Attention by itself knows no order: f(P X) = P f(X), whatever the permutation P. Positions break
that, and so does a causal mask; how much, layer by layer, is what is measured here.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from workings.errors import UserError
from workings.layers.positions import LearnedPositions, RotaryPositions, SinusoidalPositions
from workings.lens.head_places import Place, place_of
from workings.tasks.classify import Classifying
from workings.tasks.language import Modelling
from workings.tasks.translate import Translating
from workings.trace import Trace

Order: TypeAlias = Literal["reversed", "swapped", "shuffled"]
ROUNDING = 1e-5  # of the largest number of a layer: what sums in another order may come to


@dataclass(frozen=True, eq=False)
class Layer:
    """The vectors after a layer: how far f(P X) is from P f(X) for each token, and their size."""

    name: str
    apart: Float[Tensor, " tokens"]
    largest: float

    @property
    def residual(self) -> float:
        """The largest |f(P X) − P f(X)|."""
        return float(self.apart.max())

    @property
    def is_rounding(self) -> bool:
        """Say whether that is no more than rounding."""
        return self.residual <= ROUNDING * self.largest


@dataclass(frozen=True, eq=False)
class Permuted:
    """A text read in its order, and in another: at place i stands its token `order[i]`."""

    tokens: Sequence[str]
    order: Sequence[int]
    layers: Sequence[Layer]
    expected: Sequence[Float[Tensor, "heads queries keys"]]
    """the heads' weights on the text as it is, permuted: P A(X) Pᵀ"""
    found: Sequence[Float[Tensor, "heads queries keys"]]
    """the heads' weights on the permuted text: A(P X)"""
    chances: tuple[Tensor, Tensor] | None
    """of a classifier's classes, before and after"""
    causal: bool
    positions: str
    """sinusoidal, learned, rotary or none"""


@torch.no_grad()
def permuted(
    task: object, text: str, order: Order, *, seed: int = 0, positions: bool = True
) -> Permuted:
    """Have a Transformer read a text and the same tokens in another order.

    Of a translator that is its encoder. Without `positions` those that are added to the vectors
    are left out, both times.
    """
    if not isinstance(task, Classifying | Modelling | Translating):
        raise UserError("tokens are permuted, and a captioner reads none")
    place = place_of(task, text, "encoder" if isinstance(task, Translating) else None, None)
    how = _positions(place)
    if how == "rotary" and not positions:
        raise UserError("rotary positions turn queries and keys: nothing that could be left out")
    index = torch.tensor(ordered(len(place.tokens), order, seed))
    if index.equal(index.sort().values):
        raise UserError("no token has another place then: give more tokens, or another seed")
    before, scores = _read(place, None, positions)
    after, scores_after = _read(place, index, positions)
    blocks = [path.removesuffix(".attention") for path in place.layers]
    weights = [
        [trace[f"{path}.weights"][0].float().cpu() for path in place.layers]
        for trace in (before, after)
    ]
    classes = isinstance(task, Classifying)
    return Permuted(
        tokens=place.tokens,
        order=index.tolist(),
        layers=[
            _layer(f"layer {k}", before[f"{b}.residual"], after[f"{b}.residual"], index)
            for k, b in enumerate(blocks, start=1)
        ],
        expected=[layer[:, index][:, :, index] for layer in weights[0]],
        found=weights[1],
        chances=(_chances(scores), _chances(scores_after)) if classes else None,
        causal=place.causal,
        positions=how,
    )


def ordered(count: int, order: Order, seed: int = 0) -> list[int]:
    """Which token comes to stand at each place.

    >>> ordered(4, "reversed"), ordered(4, "swapped")
    ([3, 2, 1, 0], [1, 0, 2, 3])
    """
    places = list(range(count))
    if order == "reversed":
        return places[::-1]
    if order == "swapped":
        return [*places[:2][::-1], *places[2:]]
    random.Random(seed).shuffle(places)  # noqa: S311 - an order, no secret
    return places


def _positions(place: Place) -> str:
    """Name the way in which a model tells places apart."""
    if any(isinstance(module, RotaryPositions) for module in place.model.modules()):
        return "rotary"
    added = getattr(place.model, "positions", None)
    kinds = {SinusoidalPositions: "sinusoidal", LearnedPositions: "learned"}
    return next((name for kind, name in kinds.items() if isinstance(added, kind)), "none")


def _read(place: Place, index: Tensor | None, positions: bool) -> tuple[Trace, object]:
    """Read the text, its embedded tokens in the given order."""
    change = {} if index is None else {"embedded": lambda x: x[:, index.to(x.device)]}
    scale = {} if positions else {"positions.positions": 0.0}
    taps = ("*.residual", *(f"{path}.weights" for path in place.layers))
    was_training = place.model.training
    place.model.eval()
    try:
        with Trace(place.model, only=taps, replace=change, scale=scale) as trace:
            return trace, place.read()
    finally:
        place.model.train(was_training)


def _layer(name: str, before: Tensor, after: Tensor, index: Tensor) -> Layer:
    wanted = before[0].float().cpu()[index]
    apart = (after[0].float().cpu() - wanted).abs().amax(-1)
    return Layer(name, apart, float(wanted.abs().max()))


def _chances(scores: object) -> Tensor:
    assert isinstance(scores, Tensor)
    return torch.softmax(scores[0].float(), -1).cpu()
