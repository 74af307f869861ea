"""`workings explain`, `predict` and other verbs on a small classifier."""

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


def test_text_output(run, capsys):
    assert explain(run, "plum and fig plum iron pear") == 0
    output = capsys.readouterr().out
    assert output.startswith("fruit ")
    assert "for fruit" in output
    assert "\x1b" not in output
    assert "not in the vocabulary: and" in output


def test_json_from_standard_input(run, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("plum\nfig é\n".encode())))
    assert explain(run, "-", "--format", "json", "--method", "gradient") == 0
    attribution = json.loads(capsys.readouterr().out)
    assert attribution["text"] == "plum\nfig é"
    assert [token["text"] for token in attribution["tokens"]] == ["plum", "fig", "é"]
    assert [values["method"] for values in attribution["token_attributions"]] == ["gradient"]
    values = attribution["token_attributions"][0]["values"]
    assert values[0] > 0 < values[1]


def test_html_file(run, tmp_path, capsys):
    out = tmp_path / "why.html"
    methods = ["--method", "occlusion", "--method", "gradient"]
    assert explain(run, *methods, "iron plum", "--format", "html", "--out", str(out)) == 0
    assert capsys.readouterr().out == ""
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("oclusion", "did you mean 'occlusion'?"),
        ("attention", "a model of kind ngrams has none; use occlusion or gradient"),
    ],
)
def test_invalid_method_is_an_error(run, capsys, method, message):
    assert explain(run, "plum", "--method", method) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_explain_rejects_files(run, tmp_path, capsys):
    path = tmp_path / "texts.txt"
    path.write_text("plum")
    assert explain(run, str(path)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{path} is a file: explain takes a text, or -" in line
    assert f"workings predict {run} {path}" in line
    assert main(["predict", run, str(path)]) == 0


def test_folder_is_not_a_text(run, tmp_path, capsys, monkeypatch):
    assert main(["predict", run, str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{tmp_path}: a folder: give a text, a file, or -" in line
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plum").mkdir()
    assert explain(run, "plum") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "plum is a folder: give a text, or - to read the text from standard input" in line
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"plum\n")))
    assert explain(run, "-") == 0
    assert explain(run, ".") == 0  # punctuation is a text


def test_texts_before_a_bad_byte_are_predicted(run, tmp_path, capsys):
    path = tmp_path / "texts.txt"
    path.write_bytes(b"plum\niron\n\xff\n")
    assert main(["predict", run, str(path)]) == 2
    output = capsys.readouterr()
    assert [json.loads(line)["text"] for line in output.out.splitlines()] == ["plum", "iron"]
    assert f"{path}, line 3: not UTF-8" in output.err


def test_long_texts(run, capsys):
    for text in ("plum " * 60, "plum/fig " * 1000, "", "plum\0"):
        assert main(["predict", run, text]) == 0
        assert explain(run, text) == 0
    assert capsys.readouterr().err == ""


def test_folder_that_is_no_run(tmp_path, capsys):
    assert explain(str(tmp_path), "plum") == 2
    assert "not a run" in capsys.readouterr().err


def test_ngrams_have_no_embeddings(run, capsys):
    assert main(["tokens", "plum", "--run", run]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "an n-gram model has no token embeddings" in line
    assert f"workings explain {run} TEXT" in line
