import pytest

from workings.why.size import fitted, learned, measure, texts


def test_a_power_law_is_a_straight_line():
    fit = fitted([(n, 5 * n**-0.1) for n in (10, 100, 1000)])
    assert fit.slope == pytest.approx(-0.1)
    assert fit.off == pytest.approx(0, abs=1e-9)
    assert fitted([(1, 1), (10, 2), (100, 1)]).off > 0.2


def test_more_data_helps():
    train, held_out = texts()
    (_, few), (_, many) = (
        learned(16, part, held_out, seed=1, stretches=2) for part in (train[:2000], train)
    )
    assert many < few - 0.3


@pytest.mark.slow
def test_loss_falls_with_size_nearly_on_a_line():
    sizes, amounts = measure()
    losses = [loss for _, loss in sizes.points]
    assert losses == sorted(losses, reverse=True)
    assert -0.1 < sizes.slope < -0.02
    assert sizes.off < 0.03
    first, second, third, last = (loss for _, loss in amounts)
    assert second / first < third / second < last / third < 1.02
