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
    told = json.loads(capsys.readouterr().out)
    assert told["test_bleu"] == json.loads((run / "result.json").read_text())["test_bleu"]


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
    told = capsys.readouterr()
    assert told.out.splitlines() == ["un dix", "", "chien chat", ""]
    assert told.err == "en → fr, a sentence a line; Ctrl-D ends\n"
    typed = iter(["ten one", "cat dog"])
    assert main(["translate", str(run), "--show"]) == 0
    told = capsys.readouterr().out
    assert "ten one → un dix" in told
    assert "cat dog → chien chat" in told
    typed = iter(["ten one", "cat dog"])
    assert main(["translate", str(run), "--n-best", "1"]) == 0
    assert [line[:2] for line in capsys.readouterr().out.splitlines()] == ["1\t", "2\t", ""]
    assert main(["translate", str(run), "--show", "--out", "map.svg"]) == 2
    assert "--out is of one sentence" in capsys.readouterr().err
    typed = iter(["ten " * 400, "cat dog"])
    assert main(["translate", str(run), "--show"]) == 0
    told = capsys.readouterr()
    assert "400 tokens: an alignment needs one sentence" in told.err
    assert "cat dog → chien chat" in told.out  # the next one is answered


def test_a_file_that_is_not_there_is_no_sentence_but_a_folders_name_may_be_one(
    run, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cat").mkdir()
    assert main(["translate", str(run), "cat", "i.e.", "Node.js", "and/or"]) == 0
    assert capsys.readouterr().out.startswith("chat")
    assert main(["translate", str(run), "cat/" + "x" * 300 + "/dog"]) == 0  # too long for a name
    capsys.readouterr()
    for missing in ("some.txt", "TEST.FR", "data/test.en.gz", "cat/test", "cat/"):
        assert main(["translate", str(run), missing]) == 2
        assert f"{missing}: no such file" in capsys.readouterr().err


def test_bad_input(run, pairs, tmp_path, capsys):
    assert main(["translate", str(run), "a", "b", "--show"]) == 2
    assert "one sentence" in capsys.readouterr().err
    assert main(["translate", str(run), "ten", "--n-best", "0"]) == 2
    assert "--n-best" in capsys.readouterr().err
    with pytest.raises(UserError, match="one vocabulary"):
        recipe_for(pairs, "--model.share_embeddings", "true")
    with pytest.raises(UserError, match="recurrent"):
        recipe_for(pairs, "--model.kind", "transformer", "--scheduled_sampling.rate", "0.5")
    train_recipe(recipe_for(pairs, "--train.epochs", "1", "--model.attention", "none"), tmp_path / "none",
          mode="quiet")  # fmt: skip
    assert main(["translate", str(tmp_path / "none"), "ten", "--show"]) == 2
    assert "this translator has no attention" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--n-best", "2", "--temperature", "1"], "--temperature makes one"),
        (["--n-best", "2", "--show"], "--show makes one"),
        (["--n-best", "3", "--beams", "2"], "--n-best 3 of --beams 2: there are at most as many"),
        (["--out", "map.svg"], "--out is of the alignment, which --show draws"),
        (["--layer", "1"], "--layer is of the alignment"),
        (["--words"], "--words is of the alignment"),
        (
            ["--show", "--out", "map.pdf"],
            "map.pdf: a name ends in .html, .svg, .png, .json or .txt",
        ),
        (["--temperature", "1", "--beams", "3"], "--beams is of a search"),
        (["--seed", "3"], "--temperature T asks for"),
        (["--length-penalty", "nan"], "length_penalty = nan: a number from -10 to 10"),
        (["--length-penalty", "1e9"], "length_penalty = 1000000000.0: a number from -10 to 10"),
    ],
)
def test_what_makes_no_sense_is_refused(run, options, told, capsys):
    assert main(["translate", str(run), "ten one", *options]) == 2
    assert told in capsys.readouterr().err


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
