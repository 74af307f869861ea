import math

import pytest

from workings.why.scale import KEYS, measure


def test_the_variance_is_the_width_and_dividing_undoes_it():
    found = measure()
    for plain, divided in zip(found.plain, found.divided, strict=True):
        assert plain.variance == pytest.approx(plain.width, rel=0.25)
        assert divided.variance == pytest.approx(1, rel=0.25)
    assert found.plain[-1].entropy < 0.2 < 0.8 * math.log(KEYS) < found.divided[-1].entropy
    assert 2 * found.plain[-1].gradient < found.divided[-1].gradient
    assert 4 < found.pays_from < 1024
    assert found.divided_losses[-1] < 0.1 < 1 < found.plain_losses[-1]
