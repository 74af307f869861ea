"""The smallest task: five methods train, save, load and evaluate it; the rest is one line."""

import pytest
import torch
from torch import nn

from workings.cli import main
from workings.errors import UserError
from workings.interpret.attention import collect
from workings.interpret.attribution import explain
from workings.interpret.heads import read_head
from workings.interpret.positions import measure_permutation
from workings.recipes import build_recipe
from workings.tasks.base import BatchLoss, Task
from workings.training.runs import TASKS, load, train_recipe
from workings.web.model_outputs import run_model
from workings.web.requests import InspectRequest


class Doubling(Task):
    """Numbers and their doubles, and a linear layer."""

    inputs = torch.linspace(-1, 1, 40)[:, None]

    def __init__(self, recipe, model):
        self.recipe, self.model = recipe, model
        self.data_info = {"set": "numbers", "train": len(self.inputs)}

    def batches(self, epoch):
        del epoch
        return [list(range(k, k + 10)) for k in range(0, 40, 10)]

    def loss(self, batch, device):
        x = self.inputs[list(batch)].to(device)
        return BatchLoss((self.model(x) - 2 * x).square().mean())

    @torch.no_grad()
    def evaluate(self, process_group):
        return {"validation_loss": float(self.loss(range(40), process_group.device).mean)}

    @classmethod
    def from_recipe(cls, recipe, progress=None):
        del progress
        torch.manual_seed(recipe.seed)
        return cls(recipe, cls.build_model(recipe))

    @classmethod
    def build_model(cls, recipe):
        del recipe
        return nn.Linear(1, 1)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setitem(TASKS, "classify", Doubling)
    settings = ("--train.epochs", "20", "--train.learning_rate", "0.05", "--train.warmup", "0")
    settings += ("--train.metric", "loss")
    recipe = build_recipe({}, [*settings, "--data.set", "numbers"])
    train_recipe(recipe, tmp_path / "run", mode="quiet")
    return tmp_path / "run"


def test_five_methods_are_enough_for_a_run(folder):
    task = load(folder)
    assert type(task) is Doubling
    assert task.model.weight.item() == pytest.approx(2, abs=0.1)
    assert task.describe([1, 2]) == "a batch of 2 examples"
    report = (folder / "report.html").read_text()
    assert "40 examples of numbers" in report
    assert "Layers" not in report  # only the task knows what its model reads


def test_verbs_of_other_tasks_are_one_line_of_error(folder, capsys, tmp_path):
    out = str(tmp_path / "out")
    for arguments in (
        ["evaluate", str(folder)],
        ["evaluate", str(folder), "--beams", "2"],
        ["attention", str(folder), "text"],
        ["head", str(folder), "text"],
        ["export", str(folder), "--to", "gpt2", "--out", out],
        ["summary", str(folder / "config.toml")],
        ["complete", str(folder), "text"],
    ):
        assert main([*arguments, "--threads", "1"]) == 2, arguments
        assert len(capsys.readouterr().err.splitlines()) == 1, arguments


def test_looking_inside_is_refused(folder):
    task = load(folder)
    for use in (
        lambda: collect(task, "text"),
        lambda: explain(task, "text"),
        lambda: read_head(task, "text", 1, 1),
        lambda: measure_permutation(task, "text", "reversed"),
        lambda: run_model(task, InspectRequest(run="run", text="text")),
    ):
        with pytest.raises(UserError, match="classifier"):
            use()
