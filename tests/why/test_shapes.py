import torch

from workings.why.shapes import NAMES, TASKS, decoded, encoded, measure


def test_every_shape_is_learned_and_none_by_guessing():
    for one in measure():
        assert one.right > 0.95, one.task.shape
        assert one.guessed < 0.7, one.task.shape


def test_a_text_is_read_as_it_was_written():
    assert [decoded(encoded(name, 9)) for name in NAMES] == list(NAMES)


def test_tasks_are_what_they_say():
    solved = (
        lambda x: str(2 * int(x) % 10),
        lambda x: NAMES[int(x[0])],
        max,
        lambda x: "".join(max(x[: k + 1]) for k in range(len(x))),
        lambda x: "".join(str(n) for n in _digits(x)),
    )
    for task, solve in zip(TASKS, solved, strict=True):
        inputs, targets = task.draw(torch.Generator().manual_seed(1), 50)
        for x, y in zip(inputs.tolist(), targets.tolist(), strict=True):
            told = decoded(x[:-1]) if task.shape == "read, then write" else decoded(x)
            assert solve(told) == decoded(y)


def _digits(word):
    first = next(n for n, name in enumerate(NAMES) if word.startswith(name))
    return first, NAMES.index(word[len(NAMES[first]) :])
