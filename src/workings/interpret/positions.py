"""How a model tells places apart: a vector for each, and how alike two places are."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from workings.errors import UserError
from workings.interpret.attention import AttentionStack, find_stack
from workings.layers.positions import LearnedPositions, RotaryPositions, SinusoidalPositions
from workings.modules import eval_mode
from workings.tasks.classification import Classification
from workings.tasks.language_modeling import LanguageModeling
from workings.tasks.translation import Translation
from workings.trace import Trace

MAX_POSITIONS = 64  # places


@dataclass(frozen=True, eq=False)
class PositionVectors:
    """A vector for each place, and the products of all pairs of them."""

    description: str
    vectors: Float[Tensor, "places width"]
    dot_products: Float[Tensor, "places places"]


@torch.no_grad()
def extract_position_vectors(model: nn.Module) -> PositionVectors | None:
    """The first places that a model knows; None where it has no positions."""
    for module in model.modules():
        if isinstance(module, LearnedPositions):
            vectors = module.rows(0, min(MAX_POSITIONS, len(module.table))).detach().cpu()
            return PositionVectors("learned, a vector for each place", vectors, vectors @ vectors.T)
        if isinstance(module, SinusoidalPositions):
            vectors = module.rows(0, MAX_POSITIONS).cpu()
            says = "sines and cosines, slower from pair to pair of columns"
            return PositionVectors(says, vectors, vectors @ vectors.T)
        if isinstance(module, RotaryPositions):
            half = module.width // 2
            vectors = torch.cat(
                (module.cosines[:MAX_POSITIONS, :half], module.sines[:MAX_POSITIONS, half:]), 1
            ).cpu()
            says = (
                "rotary: each pair of columns of queries and keys is turned by an angle that grows "
                "with the place; here the cosines, then the sines of these angles, and the mean "
                "cosine of the angle between two places"
            )
            return PositionVectors(says, vectors, vectors @ vectors.T / half)
    return None


TokenOrder: TypeAlias = Literal["reversed", "swapped", "shuffled"]
ROUNDING_TOLERANCE = (
    1e-5  # of the largest number of a layer: what sums in another order may come to
)


@dataclass(frozen=True, eq=False)
class LayerDifference:
    """The vectors after a layer: how far f(P X) is from P f(X) for each token, and their size."""

    name: str
    differences: Float[Tensor, " tokens"]
    max_activation: float

    @property
    def max_difference(self) -> float:
        """The largest |f(P X) − P f(X)|."""
        return float(self.differences.max())

    @property
    def is_rounding(self) -> bool:
        """Say whether that is no more than rounding."""
        return self.max_difference <= ROUNDING_TOLERANCE * self.max_activation


@dataclass(frozen=True, eq=False)
class PermutationResult:
    """A text read in its order, and in another: at place i stands its token `order[i]`."""

    tokens: Sequence[str]
    order: Sequence[int]
    layers: Sequence[LayerDifference]
    expected_weights: Sequence[Float[Tensor, "heads queries keys"]]
    """the heads' weights on the text as it is, permuted: P A(X) Pᵀ"""
    permuted_weights: Sequence[Float[Tensor, "heads queries keys"]]
    """the heads' weights on the permuted text: A(P X)"""
    class_probabilities: tuple[Tensor, Tensor] | None
    """of a classifier's classes, before and after"""
    is_causal: bool
    position_encoding: str
    """sinusoidal, learned, rotary or none"""


@torch.no_grad()
def measure_permutation(
    task: object, text: str, order: TokenOrder, *, seed: int = 0, use_positions: bool = True
) -> PermutationResult:
    """Have a Transformer read a text and the same tokens in another order.

    Of a translator that is its encoder. Without `positions` those that are added to the vectors
    are left out, both times.
    """
    if not isinstance(task, Classification | LanguageModeling | Translation):
        raise UserError("tokens are permuted, and a captioner reads none")
    place = find_stack(task, text, "encoder" if isinstance(task, Translation) else None, None)
    how = _detect_position_encoding(place)
    if how == "rotary" and not use_positions:
        raise UserError("rotary positions turn queries and keys: nothing that could be left out")
    index = torch.tensor(build_permutation(len(place.query_tokens), order, seed))
    if index.equal(index.sort().values):
        raise UserError("no token has another place then: give more tokens, or another seed")
    before, scores = _trace_permuted(place, None, use_positions)
    after, scores_after = _trace_permuted(place, index, use_positions)
    blocks = [path.removesuffix(".attention") for path in place.layer_paths]
    weights = [
        [trace[f"{path}.weights"][0].float().cpu() for path in place.layer_paths]
        for trace in (before, after)
    ]
    classes = isinstance(task, Classification)
    return PermutationResult(
        tokens=place.query_tokens,
        order=index.tolist(),
        layers=[
            _compare_layer(f"layer {k}", before[f"{b}.residual"], after[f"{b}.residual"], index)
            for k, b in enumerate(blocks, start=1)
        ],
        expected_weights=[layer[:, index][:, :, index] for layer in weights[0]],
        permuted_weights=weights[1],
        class_probabilities=(_compute_probabilities(scores), _compute_probabilities(scores_after))
        if classes
        else None,
        is_causal=place.is_causal,
        position_encoding=how,
    )


def build_permutation(count: int, order: TokenOrder, seed: int = 0) -> list[int]:
    """Which token comes to stand at each place.

    >>> build_permutation(4, "reversed"), build_permutation(4, "swapped")
    ([3, 2, 1, 0], [1, 0, 2, 3])
    """
    places = list(range(count))
    if order == "reversed":
        return places[::-1]
    if order == "swapped":
        return [*places[:2][::-1], *places[2:]]
    random.Random(seed).shuffle(places)  # noqa: S311 - an order, no secret
    return places


def _detect_position_encoding(stack: AttentionStack) -> str:
    """Name the way in which a model tells places apart."""
    if any(isinstance(module, RotaryPositions) for module in stack.model.modules()):
        return "rotary"
    added = getattr(stack.model, "positions", None)
    kinds = {SinusoidalPositions: "sinusoidal", LearnedPositions: "learned"}
    return next((name for kind, name in kinds.items() if isinstance(added, kind)), "none")


def _trace_permuted(
    stack: AttentionStack, index: Tensor | None, use_positions: bool
) -> tuple[Trace, object]:
    """Read the text, its embedded tokens in the given order."""
    change = {} if index is None else {"embedded": lambda x: x[:, index.to(x.device)]}
    scale = {} if use_positions else {"positions.positions": 0.0}
    taps = ("*.residual", *(f"{path}.weights" for path in stack.layer_paths))
    with (
        eval_mode(stack.model),
        Trace(stack.model, only=taps, replace=change, scale=scale) as trace,
    ):
        return trace, stack.forward()


def _compare_layer(name: str, before: Tensor, after: Tensor, index: Tensor) -> LayerDifference:
    wanted = before[0].float().cpu()[index]
    apart = (after[0].float().cpu() - wanted).abs().amax(-1)
    return LayerDifference(name, apart, float(wanted.abs().max()))


def _compute_probabilities(scores: object) -> Tensor:
    assert isinstance(scores, Tensor)
    return torch.softmax(scores[0].float(), -1).cpu()
