"""`workings cells`, `attention`, `head` and `gradients`, on small runs."""

import json

import pytest

from workings.cli import main
from workings.config import build
from workings.recipes import LanguageRecipe
from workings.training.runs import train_recipe

TEXT = 'She said "well, well" and\nwent on. "Yes," he (who else) said.\n\n'
SHORT = {"epochs": 1, "batch_size": 4}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inside")
    (folder / "text.txt").write_text(TEXT * 200, encoding="utf-8")
    data = {"set": str(folder / "text.txt"), "context_length": 16, "eval_every": 3, "sample": 0}
    models = {
        "lstm": {"kind": "recurrent", "cell": "lstm", "d_model": 8, "hidden_size": 8},
        "transformer": {"kind": "transformer", "d_model": 8, "layers": 2, "heads": 2},
    }
    for name, model in models.items():
        table = {"data": data, "model": model, "train": SHORT}
        train_recipe(build(LanguageRecipe, table), folder / name, mode="quiet")
    (folder / "rnn.toml").write_text(
        f'task = "language"\n[data]\nset = {json.dumps(data["set"])}\n[model]\n'
        'kind = "recurrent"\ncell = "rnn"\nd_model = 8\nhidden_size = 8\n'
    )
    (folder / "classify.toml").write_text('task = "classify"\n')
    return folder


def run(*arguments):
    return main([*map(str, arguments), "--threads", "1"])


def test_cells_in_held_out_text(folder, capsys):
    assert run("cells", folder / "lstm", "--top", "2", "--format", "json") == 0
    search = json.loads(capsys.readouterr().out)
    assert search["num_neurons"] == 16
    num_tokens = search["num_selection_tokens"] + search["num_scoring_tokens"]
    assert num_tokens < 0.1 * 200 * len(TEXT)
    names = [tracked["name"] for tracked in search["properties"]]
    assert names == ["quotes", "brackets", "line"]
    assert all(len(tracked["neurons"]) == 2 for tracked in search["properties"])


def test_cells_of_text_and_pattern(folder, tmp_path, capsys):
    text = folder / "text.txt"
    options = ["--text", text, "--characters", "2000"]
    options += ["--property", "line", "--pattern", "well=w[a-z]+"]
    assert run("cells", folder / "transformer", *options) == 0
    output = capsys.readouterr().out
    assert "Inside a match of w[a-z]+" in output
    assert "block 2, " in output
    out = tmp_path / "cells.html"
    assert run("cells", folder / "lstm", *options, "--format", "html", "--out", out) == 0
    assert "Position in the line" in out.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--property", "qoutes"), "did you mean 'quotes'?"),
        (("--kind", "pyton"), "did you mean 'python'?"),
        (("--pattern", "a=("), "invalid regular expression"),
        (("--characters", "100"), "at least 400"),
        (("--characters", "0"), "at least 1"),
        (("--text", "nowhere.txt"), "neither a file nor a named corpus"),
    ],
)
def test_cells_with_invalid_option(folder, capsys, arguments, message):
    assert run("cells", folder / "lstm", *arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_attention_in_every_format(folder, tmp_path, capsys):
    assert run("attention", folder / "transformer", "he said", "--layer", "2") == 0
    output = capsys.readouterr().out
    assert "layer 2, head 1" in output
    assert "layer 1" not in output
    for name in ("maps.html", "maps.svg", "maps.png", "maps.json"):
        assert run("attention", folder / "transformer", "he said", "--out", tmp_path / name) == 0
    assert (tmp_path / "maps.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "maps.svg").read_text().startswith("<svg")
    assert len(json.loads((tmp_path / "maps.json").read_text())["maps"]) == 4
    assert run("attention", folder / "lstm", "he said") == 2
    assert "no attention" in capsys.readouterr().err


def test_head_and_cell(folder, tmp_path, capsys):
    gpt = folder / "transformer"
    assert run("head", gpt, "he said", "--layer", "2", "--cell", "weights,5,2") == 0
    output = capsys.readouterr().out
    assert "Layer 2, head 1 of the decoder: he said" in output
    assert "weights[5,2]: attention weight from 5 “a” to 2 “e”" in output
    assert "the model, traced" in output
    assert run("head", gpt, "he said", "--head", "2", "--cell", "mixed,5,2", "--top", "1") == 0
    output = capsys.readouterr().out
    assert "+ remainder of the other 6" in output
    assert "the model, fused kernel" in output
    for name in ("cell.html", "cell.json"):
        assert run("head", gpt, "he said", "--cell", "Q,1,1", "--out", tmp_path / name) == 0
    assert json.loads((tmp_path / "cell.json").read_text())["cell"] == "Q[1,1]"
    assert "<math" in (tmp_path / "cell.html").read_text()
    assert run("head", gpt, "he said", "--decimals", "2") == 0
    assert "weights = softmax(masked)" in capsys.readouterr().out


def test_head_as_problem_file(folder, tmp_path, capsys):
    file = tmp_path / "head.toml"
    assert run("head", folder / "transformer", "he said", "--problem", file) == 0
    assert run("check", file) == 0
    assert run("solve", file, "--cell", "weights,5,2") == 0
    assert "weights[5,2] = e^" in capsys.readouterr().out
    shorter = tmp_path / "shorter.toml"
    assert run("head", folder / "transformer", "he said", "--projected", "--problem", shorter) == 0
    assert run("check", shorter) == 0
    assert shorter.stat().st_size < file.stat().st_size


@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        ("transformer", ("he said", "--layer", "3"), "layer 3: this model has 2"),
        ("transformer", ("he said", "--head", "9"), "head 9: this model has 2"),
        ("transformer", ("he said", "--cell", "scores,8,1"), "scores is 7×7"),
        ("transformer", ("he said", "--cell", "scores,8"), "expected STEP,ROW,COLUMN"),
        ("transformer", ("he said", "--part", "cross"), "only decoder"),
        ("transformer", ("he said " * 6, "--problem", "x.toml"), "at most 32"),
        ("transformer", ("",), "an empty text"),
        ("transformer", ("x" * 600,), "600 tokens"),
        ("lstm", ("he said",), "no attention"),
    ],
)
def test_head_with_invalid_option(folder, capsys, model, arguments, message):
    assert run("head", folder / model, *arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_gradients_of_recipes_and_runs(folder, tmp_path, capsys):
    models = (folder / "rnn.toml", folder / "lstm", folder / "transformer")
    assert run("gradients", *models, "--max-lag", "12", "--format", "json") == 0
    report = json.loads(capsys.readouterr().out)
    assert [flow["model"] for flow in report["gradients"]] == ["rnn", "lstm", "transformer"]
    assert all(len(flow["norms"]) == 13 for flow in report["gradients"])
    assert [r["matrix"] for r in report["spectral_radii"]][:2] == ["W_hh", "input"]
    assert run("gradients", *models[:1], "--max-lag", "5", "--out", tmp_path / "g.svg") == 0
    assert (tmp_path / "g.svg").read_text().startswith("<svg")
    assert run("gradients", folder / "classify.toml") == 2
    assert "expected one of the task 'language'" in capsys.readouterr().err
    assert run("gradients", *models[:1], "--max-lag", "0") == 2
    assert "at least 1" in capsys.readouterr().err
