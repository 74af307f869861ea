"""Positional encodings against their formula, added and concatenated, cached and growing."""

import math

import pytest
import torch

from workings import UserError, attend
from workings.layers import LearnedPositions, SinusoidalPositions, sinusoids

WORDS = torch.tensor([[[1.0, 0.0, 2.0, -1.0], [0.5, 1.5, -1.0, 0.0], [-1.0, 2.0, 0.0, 1.0]]])


@pytest.mark.parametrize(
    ("count", "width", "base"), [(3, 4, 10_000.0), (50, 64, 10_000.0), (7, 5, 100.0), (4, 1, 10.0)]
)
def test_sinusoids_equal_the_formula_at_even_and_odd_widths(count, width, base):
    expected = [
        [
            math.sin(position / base ** (column / width))
            if column % 2 == 0
            else math.cos(position / base ** ((column - 1) / width))
            for column in range(width)
        ]
        for position in range(count)
    ]
    torch.testing.assert_close(sinusoids(count, width, base=base), torch.tensor(expected))


def test_the_table_of_the_notes():
    expected = [  # position 0 is not all zeros: cos 0 = 1
        [0.0, 1.0, 0.0, 1.0],
        [0.841471, 0.540302, 0.0099998, 0.99995],
        [0.909297, -0.416147, 0.0199987, 0.9998],
    ]
    torch.testing.assert_close(sinusoids(3, 4), torch.tensor(expected), atol=1e-6, rtol=0)


def test_late_positions_are_as_exact_as_early_ones():
    # In single precision 100,001 / 10,000^(2/64) is off by 0.002 and more.
    position, column, width = 100_001, 2, 64
    exact = math.sin(position / 10_000 ** (column / width))
    assert sinusoids(position + 1, width)[position, column].item() == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize("layer", [SinusoidalPositions(4), LearnedPositions(9, 4)])
def test_added_positions_keep_the_width(layer):
    torch.testing.assert_close(layer(WORDS), WORDS + layer.table[:3])


@pytest.mark.parametrize(
    "layer",
    [SinusoidalPositions(2, mode="concatenate"), LearnedPositions(9, 2, mode="concatenate")],
)
def test_concatenated_positions_follow_the_vectors(layer):
    batch = WORDS.expand(5, -1, -1)
    joined = layer(batch)
    assert joined.shape == (5, 3, 6)
    torch.testing.assert_close(joined[..., :4], batch)
    torch.testing.assert_close(joined[..., 4:], layer.table[:3].expand(5, -1, -1))


@pytest.mark.parametrize("layer", [SinusoidalPositions(4), LearnedPositions(9, 4)])
def test_a_later_start_continues_a_cached_sequence(layer):
    expected = layer(WORDS)
    torch.testing.assert_close(layer(WORDS[:, 2:], start=2), expected[:, 2:])
    assert not torch.allclose(layer(WORDS[:, 2:]), expected[:, 2:])


def sorted_outputs(sentence: torch.Tensor) -> torch.Tensor:
    """Return the outputs of attention as a set: sorted."""
    return torch.tensor(sorted(attend(sentence, sentence, sentence)[0].tolist()))


@pytest.mark.parametrize(
    "positions", [SinusoidalPositions(4), SinusoidalPositions(4, mode="concatenate")]
)
def test_word_order_matters_only_with_positions(positions):
    i_love_you, you_love_i = WORDS, WORDS.flip(1)
    torch.testing.assert_close(sorted_outputs(i_love_you), sorted_outputs(you_love_i))
    assert not torch.allclose(
        sorted_outputs(positions(i_love_you)), sorted_outputs(positions(you_love_i)), atol=1e-2
    )


def test_only_used_positions_get_a_gradient():
    layer = LearnedPositions(5, 4)
    layer(WORDS.expand(2, -1, -1), start=1).sum().backward()
    expected = torch.tensor([0.0, 2.0, 2.0, 2.0, 0.0]).unsqueeze(1).expand(5, 4)
    torch.testing.assert_close(layer.table.grad, expected)


def test_learned_snapshot(fill, waves):
    out = fill(LearnedPositions(6, 2))(waves(1, 2, 2), start=3)
    expected = [[[1.498457, 1.898656], [0.553239, -1.300824]]]  # sin 1 + sin 7, sin 2 + sin 8, …
    torch.testing.assert_close(out, torch.tensor(expected), atol=1e-5, rtol=0)


def test_a_position_beyond_the_learned_ones_is_refused():
    layer = LearnedPositions(3, 4)
    layer(WORDS)
    with pytest.raises(UserError, match="position 4: the model has learned positions 0 to 2"):
        layer(WORDS, start=2)


def test_the_sinusoidal_table_grows_and_is_not_in_the_state_dict():
    layer = SinusoidalPositions(4)
    out = layer(torch.zeros(1, 1000, 4))
    torch.testing.assert_close(out[0], sinusoids(1000, 4))
    torch.testing.assert_close(layer(torch.zeros(1, 1, 4), start=5000)[0], sinusoids(5001, 4)[-1:])
    assert not layer.state_dict()
    SinusoidalPositions(4).load_state_dict(layer.state_dict())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_the_table_keeps_the_models_dtype_when_it_grows(dtype):
    layer = SinusoidalPositions(4).to(dtype)
    short, long = (layer(torch.zeros(1, length, 4, dtype=dtype)) for length in (3, 999))
    assert short.dtype == long.dtype == layer.table.dtype == dtype
    assert torch.equal(short, long[:, :3])


@pytest.mark.parametrize("layer", [SinusoidalPositions(1), LearnedPositions(9, 1)])
def test_added_positions_of_another_width_are_not_broadcast(layer):
    with pytest.raises(UserError, match="expected vectors of width 1, got 4"):
        layer(WORDS)


@pytest.mark.usefixtures("without_shape_checks")
def test_an_unknown_mode_is_refused():
    with pytest.raises(UserError, match="mode 'concat': did you mean 'concatenate'"):
        SinusoidalPositions(4, mode="concat")
    with pytest.raises(UserError, match="mode 'x': expected one of add, concatenate"):
        LearnedPositions(3, 4, mode="x")
