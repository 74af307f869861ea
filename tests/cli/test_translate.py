"""`workings translate`, with a translator that reverses the words."""

import io
import json

import pytest
import toys

from workings.cli import main
from workings.tasks.base import Generation
from workings.tasks.translation import Translation
from workings.training.runs import train_recipe


@pytest.fixture
def run(pairs_run):
    return str(pairs_run)


def test_texts_and_files_are_translated(run, tmp_path, capsys):
    file = tmp_path / "some.txt"
    file.write_text("one two\n\ncat dog\r\n")
    assert main(["translate", run, "ten one", str(file)]) == 0
    assert capsys.readouterr().out.splitlines() == ["un dix", "deux un", "", "chien chat"]
    assert main(["translate", run, "ten one cat", "--n-best", "2"]) == 0
    first, second = (line.split("\t") for line in capsys.readouterr().out.splitlines())
    assert (first[0], second[0], first[2]) == ("1", "1", "chat un dix")
    assert float(first[1]) > float(second[1])


def test_alignments_are_shown_and_saved(run, tmp_path, capsys):
    assert main(["translate", run, "ten one cat", "--show"]) == 0
    assert "chat" in capsys.readouterr().out
    assert main(["translate", run, "ten one cat", "--show", "--out", f"{tmp_path}/a.svg"]) == 0
    assert "<svg" in (tmp_path / "a.svg").read_text()
    assert capsys.readouterr().out == "chat un dix\n"


def test_each_translation_is_one_line(run, monkeypatch, capsys):
    generation = Generation("one\ntwo\tthree\u2028می\u200cخواهم\u00a0!", (), 0.0, -1.0)
    monkeypatch.setattr(Translation, "translate", lambda *_: iter([[generation]]))
    for options, num_fields in (((), 1), (("--n-best", "1"), 3)):
        assert main(["translate", run, "cat", *options]) == 0
        (line,) = capsys.readouterr().out.splitlines()
        assert len(line.split("\t")) == num_fields
        assert line.endswith("می\u200cخواهم\u00a0!")


def test_an_interactive_terminal_translates_each_line(run, monkeypatch, capsys):
    lines = iter(["ten one", "", "cat dog"])

    def read_line(prompt):
        assert prompt == "> "
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", read_line)
    assert main(["translate", run]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines() == ["un dix", "", "chien chat", ""]
    assert printed.err == "en → fr, one sentence per line; Ctrl-D ends\n"
    lines = iter(["ten one", "cat dog"])
    assert main(["translate", run, "--show"]) == 0
    printed = capsys.readouterr().out
    assert "ten one → un dix" in printed
    assert "cat dog → chien chat" in printed
    lines = iter(["ten one", "cat dog"])
    assert main(["translate", run, "--n-best", "1"]) == 0
    assert [line[:2] for line in capsys.readouterr().out.splitlines()] == ["1\t", "2\t", ""]
    assert main(["translate", run, "--show", "--out", "map.svg"]) == 2
    assert "--out needs a sentence" in capsys.readouterr().err
    lines = iter(["ten " * 400, "cat dog"])
    assert main(["translate", run, "--show"]) == 0
    printed = capsys.readouterr()
    assert "400 tokens: an alignment needs one sentence" in printed.err
    assert "cat dog → chien chat" in printed.out  # the next line is translated


def test_there_is_no_prompt_if_the_output_is_not_a_terminal(run, monkeypatch, capsys):
    lines = io.TextIOWrapper(io.BytesIO(b"ten one\n"))
    lines.isatty = lambda: True
    monkeypatch.setattr("sys.stdin", lines)
    assert main(["translate", run]) == 0
    assert capsys.readouterr().out == "un dix\n"


def test_missing_files_and_folders_are_not_translated(run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["translate", run, "cat", "i.e.", "Node.js", "and/or", "."]) == 0
    assert capsys.readouterr().out.startswith("chat")
    (tmp_path / "cat").mkdir()
    assert main(["translate", run, "cat"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == (
        "workings: cat is a folder: give a text or a file, "
        "or - to read the text from standard input\n"
    )
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"cat\n")))
    assert main(["translate", run, "-"]) == 0
    assert capsys.readouterr().out.startswith("chat")
    assert main(["translate", run, "cat/" + "x" * 300 + "/dog"]) == 0  # too long for a file name
    capsys.readouterr()
    for missing in ("some.txt", "TEST.FR", "data/test.en.gz", "cat/test"):
        assert main(["translate", run, missing]) == 2
        assert f"{missing}: no such file" in capsys.readouterr().err


def test_lines_before_a_bad_byte_are_translated(run, tmp_path, capsys):
    file = tmp_path / "some.txt"
    file.write_bytes(b"one two\n" * 4 + b"caf\xe9\n" + b"ten\n")
    assert main(["translate", run, "cat dog", str(file), "never reached"]) == 2
    printed = capsys.readouterr()
    assert printed.out.splitlines() == ["chien chat"] + ["deux un"] * 4
    assert printed.err == f"workings: {file}, line 5: not UTF-8: byte 0xe9 in column 4\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["two", "--show"], "one sentence"),
        (["--n-best", "0"], "--n-best"),
        (["--n-best", "2", "--temperature", "1"], "exclude each other"),
        (["--n-best", "2", "--show"], "exclude each other"),
        (["--n-best", "3", "--beams", "2"], "--n-best 3 must be at most --beams 2"),
        (["--out", "map.svg"], "--out needs --show"),
        (["--layer", "1"], "--layer needs --show"),
        (["--words"], "--words needs --show"),
        (
            ["--show", "--out", "map.gif"],
            "map.gif: unknown suffix: expected .html, .svg, .pdf, .png, .json or .txt",
        ),
        (
            ["--temperature", "1", "--beams", "3"],
            "--temperature (sampling) and --beams (search) exclude each other",
        ),
        (["--seed", "3"], "--seed needs --temperature"),
        (["--length-penalty", "nan"], "length_penalty = nan: expected a number from -10 to 10"),
        (["--length-penalty", "1e9"], "length_penalty = 1000000000.0: expected a number from -10"),
    ],
)
def test_invalid_options_are_refused(run, options, message, capsys):
    assert main(["translate", run, "ten one", *options]) == 2
    assert message in capsys.readouterr().err


def test_a_translator_without_attention_has_no_alignment(few_pairs, tmp_path, capsys):
    recipe = toys.pairs_recipe(few_pairs, "--train.epochs", "1", "--model.attention", "none")
    train_recipe(recipe, tmp_path / "run", mode="quiet")
    assert main(["translate", str(tmp_path / "run"), "ten", "--show"]) == 2
    assert "this translator has no attention" in capsys.readouterr().err


def test_the_alignment_is_that_of_the_sampled_translation(run, capsys):
    """So hot a sample differs from the best translation."""
    hot = ["--temperature", "50", "--seed", "3"]
    assert main(["translate", run, "ten one cat", *hot]) == 0
    sample = capsys.readouterr().out.strip()
    assert sample != "chat un dix"
    assert main(["translate", run, "ten one cat", *hot, "--show", "--format", "json"]) == 0
    *rows, _ = json.loads(capsys.readouterr().out)["rows"]
    assert [row.strip() for row in rows] == sample.split()


def test_texts_without_an_alignment_are_refused_before_they_are_translated(
    run, monkeypatch, capsys
):
    monkeypatch.setattr(Translation, "translate", None)
    assert main(["translate", run, "one cat " * 300, "--show"]) == 2
    assert "600 tokens: an alignment needs one sentence" in capsys.readouterr().err
    assert main(["translate", run, " ", "--show"]) == 2
    assert "an empty text" in capsys.readouterr().err
