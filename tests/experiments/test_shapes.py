import pytest
import torch

from workings.experiments.shapes import NAMES, TASKS, decode, encode, measure


@pytest.mark.slow
def test_every_shape_is_learned_and_beats_the_majority():
    for result in measure():
        assert result.accuracy > 0.95, result.task.shape
        assert result.majority_accuracy < 0.7, result.task.shape


def test_decode_inverts_encode():
    assert [decode(encode(name, 9)) for name in NAMES] == list(NAMES)


def test_targets_match_the_descriptions():
    solutions = (
        lambda x: str(2 * int(x) % 10),
        lambda x: NAMES[int(x[0])],
        max,
        lambda x: "".join(max(x[: k + 1]) for k in range(len(x))),
        lambda x: "".join(str(n) for n in _split_names(x)),
    )
    for task, solve in zip(TASKS, solutions, strict=True):
        inputs, targets = task.sampler(torch.Generator().manual_seed(1), 50)
        for x, y in zip(inputs.tolist(), targets.tolist(), strict=True):
            text = decode(x[:-1]) if task.shape == "encoder-decoder" else decode(x)
            assert solve(text) == decode(y)


def _split_names(word):
    first = next(n for n, name in enumerate(NAMES) if word.startswith(name))
    return first, NAMES.index(word[len(NAMES[first]) :])
