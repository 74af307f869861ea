import torch

from workings.experiments.shapes import NAMES, TASKS, decode, encode, measure


def test_every_shape_is_learned_and_none_by_guessing():
    for one in measure():
        assert one.accuracy > 0.95, one.task.shape
        assert one.majority_accuracy < 0.7, one.task.shape


def test_a_text_is_read_as_it_was_written():
    assert [decode(encode(name, 9)) for name in NAMES] == list(NAMES)


def test_tasks_are_what_they_say():
    solved = (
        lambda x: str(2 * int(x) % 10),
        lambda x: NAMES[int(x[0])],
        max,
        lambda x: "".join(max(x[: k + 1]) for k in range(len(x))),
        lambda x: "".join(str(n) for n in _digits(x)),
    )
    for task, solve in zip(TASKS, solved, strict=True):
        inputs, targets = task.sampler(torch.Generator().manual_seed(1), 50)
        for x, y in zip(inputs.tolist(), targets.tolist(), strict=True):
            told = decode(x[:-1]) if task.shape == "read, then write" else decode(x)
            assert solve(told) == decode(y)


def _digits(word):
    first = next(n for n, name in enumerate(NAMES) if word.startswith(name))
    return first, NAMES.index(word[len(NAMES[first]) :])
