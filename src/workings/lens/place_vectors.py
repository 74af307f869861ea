"""How a model tells places apart: a vector for each, and how alike two places are."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from workings.layers.positions import LearnedPositions, RotaryPositions, SinusoidalPositions

MOST = 64  # places


@dataclass(frozen=True, eq=False)
class PlaceVectors:
    """A vector for each place, and the products of all pairs of them."""

    says: str
    vectors: Float[Tensor, "places width"]
    products: Float[Tensor, "places places"]


@torch.no_grad()
def place_vectors(model: nn.Module) -> PlaceVectors | None:
    """The first places that a model knows; None where it has no positions."""
    for module in model.modules():
        if isinstance(module, LearnedPositions):
            vectors = module.rows(0, min(MOST, len(module.table))).detach().cpu()
            return PlaceVectors("learned, a vector for each place", vectors, vectors @ vectors.T)
        if isinstance(module, SinusoidalPositions):
            vectors = module.rows(0, MOST).cpu()
            says = "sines and cosines, slower from pair to pair of columns"
            return PlaceVectors(says, vectors, vectors @ vectors.T)
        if isinstance(module, RotaryPositions):
            half = module.width // 2
            vectors = torch.cat((module.cosines[:MOST, :half], module.sines[:MOST, half:]), 1).cpu()
            says = (
                "rotary: each pair of columns of queries and keys is turned by an angle that grows "
                "with the place; here the cosines, then the sines of these angles, and the mean "
                "cosine of the angle between two places"
            )
            return PlaceVectors(says, vectors, vectors @ vectors.T / half)
    return None
