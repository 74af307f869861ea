"""`workings complete`, on a model trained on one sentence."""

import io
import sys

import pytest

from workings.cli import main


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("complete")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        (folder / "text.txt").write_text("the cat sat on the mat\n" * 80)
        (folder / "recipe.toml").write_text(
            f'task = "language"\n[data]\nset = "{folder / "text.txt"}"\n'
            "context_length = 24\neval_every = 80\n"
            '[model]\nkind = "recurrent"\ncell = "gru"\nd_model = 16\nhidden_size = 32\n'
            "[train]\nepochs = 2\nbatch_size = 8\nlearning_rate = 0.02\n"
        )
        out = folder / "run"
        assert main(["train", str(folder / "recipe.toml"), "--out", str(out), "--quiet"]) == 0
    return str(out)


def test_prompt_is_continued(run, capsys):
    assert main(["complete", run, "the cat", "--tokens", "15", "--temperature", "0"]) == 0
    assert capsys.readouterr().out == "the cat sat on the mat\n"


def test_prompt_from_standard_input_but_no_folder(run, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "the").mkdir()
    assert main(["complete", run, "the", "--tokens", "5"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "the is a folder: give a text, or - to read the text from standard input" in line
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"the\n")))
    assert main(["complete", run, "-", "--tokens", "4", "--temperature", "0"]) == 0
    assert capsys.readouterr().out in ("the cat\n", "the mat\n")


def test_empty_prompt_with_seed_is_reproducible(run, capsys):
    assert main(["complete", run, "--tokens", "30", "--seed", "3"]) == 0
    first = capsys.readouterr().out
    assert len(first) == 31
    assert main(["complete", run, "--tokens", "30", "--seed", "3"]) == 0
    assert capsys.readouterr().out == first


def test_show_lists_alternatives_of_each_token(run, capsys):
    options = ["--tokens", "4", "--temperature", "0", "--show", "--top", "3"]
    assert main(["complete", run, "the cat s", *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:4]] == ["'a'", "'t'"]
    assert lines[2].count("'") == 8  # the token and three alternatives


def test_beams_lists_best_texts(run, capsys):
    assert main(["complete", run, "the cat s", "--tokens", "3", "--beams", "2"]) == 0
    first, second = (line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    assert first[1] == "the cat sat "
    assert float(second[0]) < float(first[0]) < 0


def test_stop_text_ends_completion(run, capsys):
    assert main(["complete", run, "the cat", "--temperature", "0", "--stop", "mat"]) == 0
    assert capsys.readouterr().out == "the cat sat on the \n"


def test_unknown_characters_are_noted(run, capsys):
    assert main(["complete", run, "Ünd", "--tokens", "3"]) == 0
    assert "read as unknown: d Ü" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--temperature", "-1"], "temperature = -1.0: must be 0 (greedy) or more"),
        (["--temperature", "nan"], "temperature = nan"),
        (["--tokens", "0"], "at least 1"),
        (["--tokens", "99999999999"], "--tokens"),
        (["--top-p", "0"], "top_p = 0.0"),
        (["--top-k", "-3"], "top_k = -3"),
        (["--repetition-penalty", "0"], "repetition_penalty = 0.0"),
        (["--stop", ""], "--stop"),
        (["--beams", "0"], "--beams 0: expected 1 to 1,000"),
        (["--beams", "100000"], "--beams 100000: expected 1 to 1,000"),
    ],
)
def test_invalid_option_is_one_line_error(run, capsys, options, message):
    assert main(["complete", run, "the", *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_predict_needs_a_classifier(run, capsys):
    assert main(["predict", run, "the cat"]) == 2
    assert "expected one of the task 'classify'" in capsys.readouterr().err


def test_evaluate_on_other_text(run, tmp_path, capsys):
    (tmp_path / "other.txt").write_text("the mat sat on the cat\n" * 5)
    assert main(["evaluate", run, "--data", str(tmp_path / "other.txt")]) == 0
    assert "test bits per character" in capsys.readouterr().out


def test_file_output_is_not_escaped(run, capsys):
    prompt = "the \u200dcat\r\n"
    assert main(["complete", run, prompt, "--tokens", "1", "--temperature", "0"]) == 0
    assert capsys.readouterr().out.startswith(prompt)
