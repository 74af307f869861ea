import math

import pytest

from workings.experiments.scale import NUM_KEYS, measure


def test_the_variance_is_the_width_and_dividing_undoes_it():
    found = measure()
    for plain, divided in zip(found.unscaled, found.scaled, strict=True):
        assert plain.variance == pytest.approx(plain.width, rel=0.25)
        assert divided.variance == pytest.approx(1, rel=0.25)
    assert found.unscaled[-1].entropy < 0.2 < 0.8 * math.log(NUM_KEYS) < found.scaled[-1].entropy
    assert 2 * found.unscaled[-1].jacobian_norm < found.scaled[-1].jacobian_norm
    assert 4 < found.min_useful_width < 1024
    assert found.scaled_losses[-1] < 0.1 < 1 < found.unscaled_losses[-1]
