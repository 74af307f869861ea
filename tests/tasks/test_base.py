"""Behavior common to all tasks: loading, copying with other weights, the check of their data."""

import pytest
import torch

from workings.errors import UserError
from workings.tasks.base import SPLIT_NAMES, is_out_of_memory, oom_hint
from workings.tasks.captioning import Captioning
from workings.tasks.classification import Classification
from workings.tasks.language_modeling import LanguageModeling
from workings.tasks.translation import Translation
from workings.training.runs import load

RUNS = {
    "texts_run": Classification,
    "corpus_run": LanguageModeling,
    "pairs_run": Translation,
    "squares_run": Captioning,
}


@pytest.fixture(params=RUNS)
def run(request):
    return request.getfixturevalue(request.param), RUNS[request.param]


def test_saved_files_are_those_that_are_listed_and_match(run, tmp_path):
    folder, kind = run
    task = load(folder)
    assert type(task) is kind
    task.save(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == set(task.files)
    assert task.matches_folder(tmp_path)
    assert kind.load_preprocessing(tmp_path, task.recipe) == task.preprocessing


def test_a_copy_with_other_weights_has_its_own_model(run):
    task = load(run[0])
    zeros = {name: torch.zeros_like(t) for name, t in task.model.state_dict().items()}
    before = {name: t.clone() for name, t in task.model.state_dict().items()}
    other = task.with_weights(zeros)
    assert type(other) is type(task)
    assert other.preprocessing == task.preprocessing
    assert not any(t.any() for t in other.model.state_dict().values())
    assert all(torch.equal(t, before[name]) for name, t in task.model.state_dict().items())


def test_data_that_have_changed_are_refused(run):
    task = load(run[0])
    task.check_trained_on(task.data_info["sha256"])
    with pytest.raises(UserError, match="is not what this run was trained on"):
        task.check_trained_on("0" * 64)
    task.data_info = {}  # an old run does not know its data
    task.check_trained_on("0" * 64)


def test_sizes_of_the_data_are_described(run):
    data_info = load(run[0]).data_info
    assert all(data_info[split] > 0 for split in SPLIT_NAMES if split in data_info)
    assert data_info["train"] > data_info["validation"] > 0


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")]
)
def test_out_of_memory_becomes_a_hint(error):
    assert is_out_of_memory(error)
    with pytest.raises(UserError, match=r"^out of memory while testing: buy more$"):  # noqa: SIM117
        with oom_hint("while testing", "buy more"):
            raise error


def test_other_errors_are_unchanged():
    with pytest.raises(RuntimeError, match="shapes"), oom_hint("while testing"):
        raise RuntimeError("shapes do not match")
