"""`workings explain` on a run that the test makes itself."""

import io
import json
import sys

import pytest

from workings.cli import main
from workings.config import build
from workings.recipes import ClassificationRecipe
from workings.training.runs import train_recipe


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("explain")
    kinds = {"fruit": ["apple", "pear", "plum", "fig"], "metal": ["iron", "zinc", "tin", "gold"]}
    lines = [
        json.dumps({"text": f"{a} {b}", "label": label})
        for label, words in kinds.items()
        for a in words
        for b in words
    ]
    (folder / "toy.jsonl").write_text("\n".join(lines))
    table = {
        "data": {"set": str(folder / "toy.jsonl")},
        "model": {"kind": "ngrams", "min_count": 1},
        "train": {"epochs": 4, "batch_size": 8, "learning_rate": 0.1},
    }
    train_recipe(build(ClassificationRecipe, table), folder / "run", mode="quiet")
    return str(folder / "run")


def explain(*arguments: str) -> int:
    return main(["explain", *arguments, "--threads", "1"])


def test_text_says_which_words(run, capsys):
    assert explain(run, "plum and fig plum iron pear") == 0
    said = capsys.readouterr().out
    assert said.startswith("fruit ")
    assert "for fruit" in said
    assert "\x1b" not in said
    assert "not in the vocabulary: and" in said


def test_json_and_standard_input(run, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("plum\nfig é\n".encode())))
    assert explain(run, "-", "--format", "json", "--method", "gradient") == 0
    message = json.loads(capsys.readouterr().out)
    assert message["text"] == "plum\nfig é"
    assert [token["text"] for token in message["tokens"]] == ["plum", "fig", "é"]
    assert [shares["method"] for shares in message["token_attributions"]] == ["gradient"]
    values = message["token_attributions"][0]["values"]
    assert values[0] > 0 < values[1]


def test_html_goes_to_a_file(run, tmp_path, capsys):
    out = tmp_path / "why.html"
    by = ["--method", "occlusion", "--method", "gradient"]
    assert explain(run, *by, "iron plum", "--format", "html", "--out", str(out)) == 0
    assert capsys.readouterr().out == ""
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("by", "message"),
    [
        ("oclusion", "did you mean 'occlusion'?"),
        ("attention", "a model of kind ngrams has none; use occlusion or gradient"),
    ],
)
def test_what_cannot_be_asked_is_told(run, capsys, by, message):
    assert explain(run, "plum", "--method", by) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert said.out == ""


def test_a_file_is_not_taken_for_a_text(run, tmp_path, capsys):
    path = tmp_path / "texts.txt"
    path.write_text("plum")
    assert explain(run, str(path)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{path} is a file: explain takes a text, or -" in line
    assert f"workings predict {run} {path}" in line
    assert main(["predict", run, str(path)]) == 0


def test_a_folder_is_not_taken_for_a_text(run, tmp_path, capsys):
    assert main(["predict", run, str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{tmp_path}: a folder: give a text, a file, or -" in line


def test_a_text_may_be_longer_than_a_name(run, capsys):
    for text in ("plum " * 60, "plum/fig " * 1000, "", "plum\0"):
        assert main(["predict", run, text]) == 0
        assert explain(run, text) == 0
    assert capsys.readouterr().err == ""


def test_a_folder_that_is_no_run(tmp_path, capsys):
    assert explain(str(tmp_path), "plum") == 2
    assert "not a run" in capsys.readouterr().err


def test_ngrams_have_no_vectors_to_show(run, capsys):
    assert main(["tokens", "plum", "--run", run]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "an n-gram model has no token embeddings" in line
    assert f"workings explain {run} TEXT" in line


def test_a_classifier_is_not_exported(run, tmp_path, capsys):
    assert main(["export", run, "--to", "gpt2", "--out", str(tmp_path / "out")]) == 2
    assert "no language model, and no translator" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
