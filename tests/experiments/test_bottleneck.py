import pytest

from workings.experiments.bottleneck import measure


@pytest.mark.slow
def test_attention_lies_between_one_vector_and_a_transformer():
    one_vector, attention, transformer = measure(steps=250)
    assert one_vector.accuracy[0] > 0.99
    assert one_vector.accuracy[-1] + 0.15 < attention.accuracy[-1] < transformer.accuracy[-1]
    assert one_vector.accuracy[-1] < 0.55 < 0.85 < transformer.accuracy[-1]
