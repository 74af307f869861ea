"""`workings export` and `workings import`: a round trip, CTranslate2, errors."""

import json
import sys

import pytest
import torch

from workings.cli import main
from workings.data.tokenizers.byte_pair import BytePairTokenizer
from workings.errors import install_command
from workings.interop.language_models import write_language_model
from workings.models.language import build_language_model
from workings.training.runs import load


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """A GPT-2 in Hugging Face's format."""
    folder = tmp_path_factory.mktemp("foreign")
    pairs = BytePairTokenizer.train(["low lower lowest, naïve 🙂"] * 10, vocab_size=290)
    vocabulary = [*pairs.to_dict()["vocabulary"], "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({t: k for k, t in enumerate(vocabulary)}))
    merges = "\n".join(" ".join(pair) for pair in pairs.merges)
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}\n", encoding="utf-8")
    torch.manual_seed(0)
    sizes = {"d_model": 32, "layers": 2, "heads": 2, "positions": "learned", "max_positions": 24}
    model = build_language_model(sizes | {"activation": "gelu-tanh"}, len(vocabulary))
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    write_language_model(
        model, folder, "gpt2", bos_id=len(vocabulary) - 1, eos_id=len(vocabulary) - 1
    )
    return folder


@pytest.fixture(scope="module")
def run(foreign, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert main(["import", str(foreign), "--out", str(folder)]) == 0
    return folder


def complete(run, capsys, *options):
    capsys.readouterr()
    assert main(["complete", str(run), "low", "--tokens", "40", *options]) == 0
    return capsys.readouterr()


@pytest.mark.parametrize("options", [("--temperature", "0"), ("--seed", "3")])
def test_imported_run_completes_the_same_with_and_without_ctranslate2(
    options, run, capsys, monkeypatch
):
    accelerated = complete(run, capsys, *options).out
    monkeypatch.setattr("workings.interop.ctranslate2.find_spec", lambda _: None)
    assert complete(run, capsys, *options).out == accelerated
    assert accelerated.startswith("low")


def test_empty_prompt_begins_with_end_of_text_token(run, capsys):
    assert main(["complete", str(run), "", "--tokens", "3"]) == 0
    assert "training never had" not in capsys.readouterr().err


def test_round_trip(foreign, run, tmp_path, capsys):
    assert main(["export", str(run), "--to", "gpt2", "--out", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'out'}: {run}, for gpt2\n"
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "out" / name).read_bytes() == (foreign / name).read_bytes()
    assert main(["import", str(tmp_path / "out"), "--out", str(tmp_path / "back")]) == 0
    assert (
        capsys.readouterr().out == f"{tmp_path / 'back'}: a run, imported from {tmp_path / 'out'}\n"
    )
    assert load(tmp_path / "back").tokenizer == load(run).tokenizer


def test_export_to_ctranslate2(run, tmp_path):
    pytest.importorskip("ctranslate2")
    assert main(["export", str(run), "--to", "ctranslate2", "--out", str(tmp_path / "out")]) == 0
    assert {"model.bin", "config.json", "vocabulary.json"} <= {
        p.name for p in (tmp_path / "out").iterdir()
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["export", "RUN", "--to", "gtp2", "--out", "new"], "did you mean 'gpt2'?"),
        (["export", "RUN", "--to", "gpt2", "--out", "RUN"], "exists already: give another --out"),
        (["import", "nowhere", "--out", "new"], "nowhere/config.json: No such file"),
        (["import", "FOREIGN", "--out", "RUN"], "exists already: give another --out"),
    ],
)
def test_invalid_argument_is_one_line_error(
    arguments, message, foreign, run, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    folders = {"RUN": str(run), "FOREIGN": str(foreign)}
    assert main([folders.get(word, word) for word in arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "new").exists()


def test_classifiers_are_not_exported_as_language_models(texts_run, tmp_path, capsys):
    arguments = ["export", str(texts_run), "--to", "gpt2", "--out", str(tmp_path / "out")]
    assert main(arguments) == 2
    assert "--to gpt2: for a classifier, expected one of onnx, bert" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_missing_package_names_the_extra(run, capsys, tmp_path, monkeypatch):
    for name in ("ctranslate2", "ctranslate2.specs"):
        monkeypatch.setitem(sys.modules, name, None)
    arguments = ["export", str(run), "--to", "ctranslate2", "--out", str(tmp_path / "out")]
    assert main(arguments) == 2
    assert install_command("fast") in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
