from workings.experiments.norm import (
    DEPTHS,
    NORMS,
    measure_batch_dependence,
    measure_depth,
    measure_shift,
)


def test_only_batch_norm_ties_a_sentence_to_its_batch():
    for batch in (2, 16):
        assert max(measure_shift(NORMS["layer norm"](), batch, seed=1)) < 1e-6
    few, many = (measure_shift(NORMS["batch norm"](), n, seed=1)[0] for n in (2, 16))
    assert few > 1.3 * many > 0.1


def test_what_was_kept_of_sentences_alone_does_not_stand_in_for_their_own():
    layer, batch = (
        measure_batch_dependence(name, 1, batch_sizes=(1,)) for name in ("layer norm", "batch norm")
    )
    assert batch.eval_accuracy[0] < 0.5 < 0.75 < batch.train_accuracy[0]
    assert min(layer.train_accuracy[0], layer.eval_accuracy[0]) > 0.75


def test_without_a_norm_a_deep_stack_explodes():
    normed, bare = (measure_depth(name, 1, steps=30) for name in ("layer norm", "no norm"))
    assert normed.activation_rms[-1] < DEPTHS[-1] < 1000 < bare.activation_rms[-1]
    assert normed.losses[-1] < 1 < 5 < bare.losses[-1]
