import pytest

from workings.experiments.size import fit_line, load_texts, measure, train_width


def test_power_law_is_a_straight_line():
    fit = fit_line([(n, 5 * n**-0.1) for n in (10, 100, 1000)])
    assert fit.slope == pytest.approx(-0.1)
    assert fit.max_deviation == pytest.approx(0, abs=1e-9)
    assert fit_line([(1, 1), (10, 2), (100, 1)]).max_deviation > 0.2


def test_more_data_lowers_the_loss():
    train, held_out = load_texts()
    (_, few), (_, many) = (
        train_width(16, text, held_out, seed=1, rounds=2) for text in (train[:2000], train)
    )
    assert many < few - 0.3


@pytest.mark.slow
def test_loss_falls_with_size_nearly_on_a_line():
    by_size, by_data = measure(widths=(8, 16, 32), rounds=3)
    losses = [loss for _, loss in by_size.points]
    assert losses == sorted(losses, reverse=True)
    assert -0.1 < by_size.slope < -0.02
    assert by_size.max_deviation < 0.03
    first, second, third, last = (loss for _, loss in by_data)
    assert second / first < third / second < last / third < 1.02
