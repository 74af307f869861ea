import pytest

from workings.experiments.norm import (
    DEPTHS,
    NORMS,
    measure_batch_dependence,
    measure_depth,
    measure_shift,
)


def test_only_batch_norm_depends_on_the_batch():
    for batch_size in (2, 16):
        assert max(measure_shift(NORMS["layer norm"](), batch_size, seed=1)) < 1e-6
    small, large = (measure_shift(NORMS["batch norm"](), n, seed=1)[0] for n in (2, 16))
    assert small > 1.3 * large > 0.1


@pytest.mark.slow
def test_running_averages_do_not_fit_batches_of_one():
    layer, batch = (
        measure_batch_dependence(name, 1, batch_sizes=(1,)) for name in ("layer norm", "batch norm")
    )
    assert batch.eval_accuracy[0] < 0.5 < 0.75 < batch.train_accuracy[0]
    assert min(layer.train_accuracy[0], layer.eval_accuracy[0]) > 0.75


@pytest.mark.slow
def test_activations_of_a_deep_stack_explode_without_a_norm():
    with_norm, without_norm = (
        measure_depth(name, 1, steps=30) for name in ("layer norm", "no norm")
    )
    assert with_norm.activation_rms[-1] < DEPTHS[-1] < 1000 < without_norm.activation_rms[-1]
    assert with_norm.losses[-1] < 1 < 5 < without_norm.losses[-1]
