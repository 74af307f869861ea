import pytest

from workings.experiments.bottleneck import measure


def test_one_vector_holds_little():
    one_vector, transformer = measure(names=("one vector", "Transformer"), steps=200)
    assert one_vector.accuracy[0] > 0.99
    assert one_vector.accuracy[-1] < 0.55 < 0.65 < transformer.accuracy[-1]


@pytest.mark.slow
def test_attention_lies_between_one_vector_and_a_transformer():
    one_vector, attention, transformer = measure()
    assert one_vector.accuracy[-1] + 0.15 < attention.accuracy[-1] < transformer.accuracy[-1]
    assert one_vector.accuracy[-1] < 0.6 < 0.85 < transformer.accuracy[-1]
