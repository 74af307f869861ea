import math

import pytest

from workings.experiments.scale import NUM_KEYS, measure


def test_variance_is_the_width_and_scaling_makes_it_one():
    found = measure()
    for unscaled, scaled in zip(found.unscaled, found.scaled, strict=True):
        assert unscaled.variance == pytest.approx(unscaled.width, rel=0.25)
        assert scaled.variance == pytest.approx(1, rel=0.25)
    assert found.unscaled[-1].entropy < 0.2 < 0.8 * math.log(NUM_KEYS) < found.scaled[-1].entropy
    assert 2 * found.unscaled[-1].jacobian_norm < found.scaled[-1].jacobian_norm
    assert 4 < found.min_useful_width < 1024
    assert found.scaled_losses[-1] < 0.1 < 1 < found.unscaled_losses[-1]
