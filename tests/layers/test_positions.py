import math

import pytest
import torch

from workings import UserError, attend
from workings.layers import LearnedPositions, SinusoidalPositions, sinusoids

WORDS = torch.tensor([[[1.0, 0.0, 2.0, -1.0], [0.5, 1.5, -1.0, 0.0], [-1.0, 2.0, 0.0, 1.0]]])


@pytest.mark.parametrize(
    ("count", "width", "base"), [(3, 4, 10_000.0), (50, 64, 10_000.0), (7, 5, 100.0), (4, 1, 10.0)]
)
def test_sinusoids_are_the_formula_also_at_odd_widths(count, width, base):
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


def test_the_table_of_i_love_you():
    expected = [  # position 0 is not all zeros: cos 0 = 1
        [0.0, 1.0, 0.0, 1.0],
        [0.841471, 0.540302, 0.0099998, 0.99995],
        [0.909297, -0.416147, 0.0199987, 0.9998],
    ]
    torch.testing.assert_close(sinusoids(3, 4), torch.tensor(expected), atol=1e-6, rtol=0)


def test_far_positions_are_as_exact_as_near_ones():
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
def test_concatenated_positions_stand_beside_the_vectors(layer):
    batch = WORDS.expand(5, -1, -1)
    joined = layer(batch)
    assert joined.shape == (5, 3, 6)
    torch.testing.assert_close(joined[..., :4], batch)
    torch.testing.assert_close(joined[..., 4:], layer.table[:3].expand(5, -1, -1))


@pytest.mark.parametrize("layer", [SinusoidalPositions(4), LearnedPositions(9, 4)])
def test_a_later_start_continues_where_a_cache_ended(layer):
    whole = layer(WORDS)
    torch.testing.assert_close(layer(WORDS[:, 2:], start=2), whole[:, 2:])
    assert not torch.allclose(layer(WORDS[:, 2:]), whole[:, 2:])


def bag(sentence: torch.Tensor) -> torch.Tensor:
    """What attention makes of the words, in no order."""
    return torch.tensor(sorted(attend(sentence, sentence, sentence)[0].tolist()))


@pytest.mark.parametrize(
    "positions", [SinusoidalPositions(4), SinusoidalPositions(4, mode="concatenate")]
)
def test_i_love_you_and_you_love_i_differ_only_with_positions(positions):
    i_love_you, you_love_i = WORDS, WORDS.flip(1)
    torch.testing.assert_close(bag(i_love_you), bag(you_love_i))
    assert not torch.allclose(bag(positions(i_love_you)), bag(positions(you_love_i)), atol=1e-2)


def test_learned_positions_learn_where_they_were_used():
    layer = LearnedPositions(5, 4)
    layer(WORDS.expand(2, -1, -1), start=1).sum().backward()
    expected = torch.tensor([0.0, 2.0, 2.0, 2.0, 0.0]).unsqueeze(1).expand(5, 4)
    torch.testing.assert_close(layer.table.grad, expected)


def test_learned_snapshot(fill, waves):
    out = fill(LearnedPositions(6, 2))(waves(1, 2, 2), start=3)
    expected = [[[1.498457, 1.898656], [0.553239, -1.300824]]]  # sin 1 + sin 7, sin 2 + sin 8, …
    torch.testing.assert_close(out, torch.tensor(expected), atol=1e-5, rtol=0)


def test_a_position_beyond_the_learned_ones_is_named():
    layer = LearnedPositions(3, 4)
    layer(WORDS)
    with pytest.raises(UserError, match="position 4: the model has learned positions 0 to 2"):
        layer(WORDS, start=2)


def test_the_sinusoidal_table_grows_for_long_sequences_and_is_never_saved():
    layer = SinusoidalPositions(4)
    out = layer(torch.zeros(1, 1000, 4))
    torch.testing.assert_close(out[0], sinusoids(1000, 4))
    torch.testing.assert_close(layer(torch.zeros(1, 1, 4), start=5000)[0], sinusoids(5001, 4)[-1:])
    assert not layer.state_dict()
    SinusoidalPositions(4).load_state_dict(layer.state_dict())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_positions_follow_the_model_to_another_precision_and_grow_there(dtype):
    layer = SinusoidalPositions(4).to(dtype)
    short, long = (layer(torch.zeros(1, length, 4, dtype=dtype)) for length in (3, 999))
    assert short.dtype == long.dtype == layer.table.dtype == dtype
    assert torch.equal(short, long[:, :3])


@pytest.mark.parametrize("layer", [SinusoidalPositions(1), LearnedPositions(9, 1)])
def test_added_positions_of_another_width_are_refused_and_not_spread(layer):
    with pytest.raises(UserError, match="expected vectors of width 1, got 4"):
        layer(WORDS)


@pytest.mark.usefixtures("without_shape_checks")
def test_an_unknown_way_to_join_is_refused_at_once():
    with pytest.raises(UserError, match="mode 'concat': did you mean 'concatenate'"):
        SinusoidalPositions(4, mode="concat")
    with pytest.raises(UserError, match="mode 'x': expected one of add, concatenate"):
        LearnedPositions(3, 4, mode="x")
