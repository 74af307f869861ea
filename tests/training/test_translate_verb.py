"""`workings translate`, of a translator whose words come in reverse order."""

import io
import json

import pytest
from reversing import recipe_for

from workings.cli import main
from workings.errors import UserError
from workings.tasks.seq2seq import Generation
from workings.tasks.translation import Translation
from workings.training.runs import train_recipe


@pytest.fixture(scope="module")
def run(reverser):
    return reverser


def test_the_command_line(run, tmp_path, capsys):
    file = tmp_path / "some.txt"
    file.write_text("one two\n\ncat dog\r\n")
    assert main(["translate", str(run), "ten one", str(file)]) == 0
    assert capsys.readouterr().out.splitlines() == ["un dix", "deux un", "", "chien chat"]
    assert main(["translate", str(run), "ten one cat", "--n-best", "2"]) == 0
    first, second = (line.split("\t") for line in capsys.readouterr().out.splitlines())
    assert (first[0], second[0], first[2]) == ("1", "1", "chat un dix")
    assert float(first[1]) > float(second[1])
    assert main(["translate", str(run), "ten one cat", "--show"]) == 0
    assert "chat" in capsys.readouterr().out
    assert main(["translate", str(run), "ten one cat", "--show", "--out", f"{tmp_path}/a.svg"]) == 0
    assert "<svg" in (tmp_path / "a.svg").read_text()
    assert capsys.readouterr().out == "chat un dix\n"
    assert main(["evaluate", str(run), "--json"]) == 0
    message = json.loads(capsys.readouterr().out)
    assert message["test_bleu"] == json.loads((run / "result.json").read_text())["test_bleu"]


def test_a_sentence_stays_on_its_line_and_as_it_is(run, monkeypatch, capsys):
    broken = Generation("one\ntwo\tthree\u2028می\u200cخواهم\u00a0!", (), 0.0, -1.0)
    monkeypatch.setattr(Translation, "translate", lambda *_: iter([[broken]]))
    for options, fields in (((), 1), (("--n-best", "1"), 3)):
        assert main(["translate", str(run), "cat", *options]) == 0
        (line,) = capsys.readouterr().out.splitlines()
        assert len(line.split("\t")) == fields
        assert line.endswith("می\u200cخواهم\u00a0!")


def test_at_a_terminal_each_sentence_is_answered(run, monkeypatch, capsys):
    typed = iter(["ten one", "", "cat dog"])

    def answer(prompt):
        assert prompt == "> "
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", answer)
    assert main(["translate", str(run)]) == 0
    message = capsys.readouterr()
    assert message.out.splitlines() == ["un dix", "", "chien chat", ""]
    assert message.err == "en → fr, one sentence per line; Ctrl-D ends\n"
    typed = iter(["ten one", "cat dog"])
    assert main(["translate", str(run), "--show"]) == 0
    message = capsys.readouterr().out
    assert "ten one → un dix" in message
    assert "cat dog → chien chat" in message
    typed = iter(["ten one", "cat dog"])
    assert main(["translate", str(run), "--n-best", "1"]) == 0
    assert [line[:2] for line in capsys.readouterr().out.splitlines()] == ["1\t", "2\t", ""]
    assert main(["translate", str(run), "--show", "--out", "map.svg"]) == 2
    assert "--out needs a sentence" in capsys.readouterr().err
    typed = iter(["ten " * 400, "cat dog"])
    assert main(["translate", str(run), "--show"]) == 0
    message = capsys.readouterr()
    assert "400 tokens: an alignment needs one sentence" in message.err
    assert "cat dog → chien chat" in message.out  # the next one is answered


def test_missing_files_and_folders_are_not_translated(run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["translate", str(run), "cat", "i.e.", "Node.js", "and/or", "."]) == 0
    assert capsys.readouterr().out.startswith("chat")
    (tmp_path / "cat").mkdir()
    assert main(["translate", str(run), "cat"]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == (
        "workings: cat is a folder: give a text or a file, "
        "or - to read the text from standard input\n"
    )
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"cat\n")))
    assert main(["translate", str(run), "-"]) == 0
    assert capsys.readouterr().out.startswith("chat")
    assert main(["translate", str(run), "cat/" + "x" * 300 + "/dog"]) == 0  # too long for a name
    capsys.readouterr()
    for missing in ("some.txt", "TEST.FR", "data/test.en.gz", "cat/test"):
        assert main(["translate", str(run), missing]) == 2
        assert f"{missing}: no such file" in capsys.readouterr().err


def test_lines_before_a_bad_byte_are_translated(run, tmp_path, capsys):
    file = tmp_path / "some.txt"
    file.write_bytes(b"one two\n" * 4 + b"caf\xe9\n" + b"ten\n")
    assert main(["translate", str(run), "cat dog", str(file), "never reached"]) == 2
    output = capsys.readouterr()
    assert output.out.splitlines() == ["chien chat"] + ["deux un"] * 4
    assert output.err == f"workings: {file}, line 5: not UTF-8: byte 0xe9 in column 4\n"


def test_bad_input(run, pairs, tmp_path, capsys):
    assert main(["translate", str(run), "a", "b", "--show"]) == 2
    assert "one sentence" in capsys.readouterr().err
    assert main(["translate", str(run), "ten", "--n-best", "0"]) == 2
    assert "--n-best" in capsys.readouterr().err
    with pytest.raises(UserError, match="one vocabulary"):
        recipe_for(pairs, "--model.share_embeddings", "true")
    with pytest.raises(UserError, match="recurrent"):
        recipe_for(pairs, "--model.kind", "transformer", "--scheduled_sampling.rate", "0.5")
    recipe = recipe_for(pairs, "--train.epochs", "1", "--model.attention", "none")
    train_recipe(recipe, tmp_path / "none", mode="quiet")
    assert main(["translate", str(tmp_path / "none"), "ten", "--show"]) == 2
    assert "this translator has no attention" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--n-best", "2", "--temperature", "1"], "exclude each other"),
        (["--n-best", "2", "--show"], "exclude each other"),
        (["--n-best", "3", "--beams", "2"], "--n-best 3 must be at most --beams 2"),
        (["--out", "map.svg"], "--out needs --show"),
        (["--layer", "1"], "--layer needs --show"),
        (["--words"], "--words needs --show"),
        (
            ["--show", "--out", "map.pdf"],
            "map.pdf: unknown suffix: expected .html, .svg, .png, .json or .txt",
        ),
        (
            ["--temperature", "1", "--beams", "3"],
            "--temperature (sampling) and --beams (search) exclude each other",
        ),
        (["--seed", "3"], "--seed needs --temperature"),
        (["--length-penalty", "nan"], "length_penalty = nan: a number from -10 to 10"),
        (["--length-penalty", "1e9"], "length_penalty = 1000000000.0: a number from -10 to 10"),
    ],
)
def test_what_makes_no_sense_is_refused(run, options, message, capsys):
    assert main(["translate", str(run), "ten one", *options]) == 2
    assert message in capsys.readouterr().err


def test_what_is_shown_was_searched_for_as_asked(run, capsys):
    """A wild draw that is another translation than the best."""
    wild = ["--temperature", "50", "--seed", "3"]
    assert main(["translate", str(run), "ten one cat", *wild]) == 0
    drawn = capsys.readouterr().out.strip()
    assert drawn != "chat un dix"
    assert main(["translate", str(run), "ten one cat", *wild, "--show", "--format", "json"]) == 0
    *rows, _ = json.loads(capsys.readouterr().out)["rows"]
    assert [row.strip() for row in rows] == drawn.split()


def test_what_has_no_alignment_is_not_translated_first(run, monkeypatch, capsys):
    monkeypatch.setattr(Translation, "translate", None)
    assert main(["translate", str(run), "one cat " * 300, "--show"]) == 2
    assert "600 tokens: an alignment needs one sentence" in capsys.readouterr().err


def test_nothing_has_no_alignment(run, capsys):
    assert main(["translate", str(run), " ", "--show"]) == 2
    assert "an empty text" in capsys.readouterr().err


def test_whoever_writes_to_a_file_is_not_asked(run, monkeypatch, capsys):
    """The prompts would stand in it."""
    lines = io.TextIOWrapper(io.BytesIO(b"ten one\n"))
    lines.isatty = lambda: True
    monkeypatch.setattr("sys.stdin", lines)
    assert main(["translate", str(run)]) == 0
    assert capsys.readouterr().out == "un dix\n"
