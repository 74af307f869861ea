"""A run knows what it was trained on, and is neither measured nor repeated on something else."""

import json

import pytest

from workings.cli import main


def write(path, flip=False):
    words = {"fruit": ["apple", "pear", "plum", "fig"], "metal": ["iron", "zinc", "tin", "lead"]}
    labels = list(words)
    rows = ["name,kind"]
    for k, label in enumerate(labels):
        told = labels[1 - k] if flip else label
        rows += [f"{a} {b} {c},{told}" for a in words[label] for b in words[label] for c in "xyz"]
    path.write_text("\n".join(rows) + "\n")


@pytest.fixture
def run(tmp_path):
    write(tmp_path / "names.csv")
    (tmp_path / "mine.toml").write_text(
        f'[data]\nset = "{tmp_path / "names.csv"}"\ntext = "name"\nlabel = "kind"\n'
        '[model]\nkind = "recurrent"\nd_model = 8\nhidden_size = 8\n'
        "[train]\nepochs = 3\nbatch_size = 16\nlearning_rate = 0.02\n"
    )
    out = str(tmp_path / "run")
    assert main(["train", str(tmp_path / "mine.toml"), "--out", out, "--quiet"]) == 0
    return out


def test_its_own_columns_are_read_in_predicting(run, tmp_path, capsys):
    assert main(["predict", run, str(tmp_path / "names.csv")]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 96
    assert main(["predict", run, "nosuch.csv"]) == 2
    assert "nosuch.csv: no such file" in capsys.readouterr().err


def test_other_data_is_refused(run, tmp_path, capsys):
    assert main(["evaluate", run]) == 0
    assert main(["train", "--repeat", run, "--out", str(tmp_path / "same"), "--quiet"]) == 0
    write(tmp_path / "names.csv", flip=True)
    capsys.readouterr()
    assert main(["evaluate", run]) == 2
    assert "is not what this run was trained on" in capsys.readouterr().err
    assert main(["train", "--repeat", run, "--out", str(tmp_path / "other"), "--quiet"]) == 2
    assert f"is not what {run} was trained on" in capsys.readouterr().err
    assert main(["evaluate", run, "--data", str(tmp_path / "names.csv")]) == 0


def test_a_tie_is_broken_by_the_loss(run, tmp_path):
    records = [
        json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().split("\n")[:-1]
    ]
    epochs = [r for r in records if r["kind"] == "epoch"]
    best = max(epochs, key=lambda r: (r["validation_accuracy"], -r["validation_loss"]))
    assert json.loads((tmp_path / "run" / "result.json").read_text())["best_epoch"] == best["epoch"]
