"""How models tell places apart, against what is known of their encodings."""

import pytest
import torch

from workings.interpret.positions import extract_position_vectors
from workings.models.language import build_language_model

TRANSFORMER = {"kind": "transformer", "d_model": 8, "layers": 1, "heads": 2, "max_positions": 32}


@pytest.mark.parametrize("kind", ["sinusoidal", "rotary"])
def test_fixed_positions_know_distances_only(kind):
    found = extract_position_vectors(build_language_model({**TRANSFORMER, "positions": kind}, 20))
    assert found.vectors.shape[0] == 64
    torch.testing.assert_close(
        found.dot_products[1:, 1:], found.dot_products[:-1, :-1], atol=1e-5, rtol=1e-4
    )
    assert (found.dot_products.diagonal() >= found.dot_products.max() - 1e-5).all()


def test_learned_ones_are_the_models_own():
    model = build_language_model({**TRANSFORMER, "positions": "learned"}, 20)
    found = extract_position_vectors(model)
    torch.testing.assert_close(found.vectors, model.positions.table.detach())


def test_a_recurrent_model_has_none():
    assert extract_position_vectors(build_language_model({"kind": "recurrent"}, 20)) is None
