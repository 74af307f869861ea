"""Translators on the same sentences: who is better, and who has seen them before."""

import json
import shutil

import pytest
from reversing import recipe_for

from workings.cli import main
from workings.errors import UserError
from workings.interpret.translator_comparison import compare_translators
from workings.tasks.translation import Translation
from workings.training.runs import load, train_recipe


@pytest.fixture(scope="module")
def run(reverser):
    return reverser


def test_judging_two(run, pairs, tmp_path, capsys):
    weaker = tmp_path / "weaker"
    train_recipe(
        recipe_for(pairs, "--train.epochs", "2", "--model.attention", "none"), weaker, mode="quiet"
    )
    assert main(["score", str(weaker), str(run), "--format", "json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["translators"]
    own = json.loads((run / "result.json").read_text())["test_bleu"]
    assert second["scores"]["bleu"]["score"] == pytest.approx(own)
    lead = second["against_first"]["difference"]
    assert lead["low"] > 0
    assert lead["value"] == pytest.approx(own - first["scores"]["bleu"]["score"])
    assert sum(b["sentences"] for b in second["buckets"]) == second_count(run)
    for form in ("text", "html"):
        assert main(["score", str(weaker), str(run), "--format", form]) == 0
        assert "weaker" in capsys.readouterr().out
    assert main(["score", str(run), str(weaker), "--out", str(tmp_path / "lengths.svg")]) == 0
    assert "words of the source" in (tmp_path / "lengths.svg").read_text()
    assert "over the first" in capsys.readouterr().out
    assert main(["score", str(run), str(run)]) == 2
    assert "given twice" in capsys.readouterr().err
    alike = tmp_path / "elsewhere" / "weaker"
    shutil.copytree(weaker, alike)
    assert main(["score", str(weaker), str(alike), "--format", "json"]) == 0
    message = json.loads(capsys.readouterr().out)["translators"]
    assert [verdict["name"] for verdict in message] == [str(weaker), str(alike)]


def second_count(run):
    return json.loads((run / "result.json").read_text())["test_pairs"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--out", "lengths.pdf"], "lengths.pdf: unknown suffix: expected .html, .svg"),
        (["--format", "png"], "--format png needs --out FILE"),
        (["--out", "nowhere/lengths.svg"], "no such folder: nowhere"),
    ],
)
def test_what_cannot_be_written_is_refused_before_all_is_translated(
    run, options, message, monkeypatch, capsys
):
    monkeypatch.setattr(Translation, "translate", None)
    assert main(["score", str(run), *options]) == 2
    assert message in capsys.readouterr().err


def test_a_judge_says_who_has_learned_the_answers(run, pairs, tmp_path, capsys, monkeypatch):
    lines = pairs.read_text().splitlines()
    (tmp_path / "known.tsv").write_text("\n".join(lines[:60]) + "\n")
    (tmp_path / "new.tsv").write_text("en\tfr\nten ten ten ten ten ten\tdix dix dix dix dix dix\n")
    assert main(["score", str(run), "--data", str(tmp_path / "known.tsv")]) == 0
    known = {(p.source, p.target) for p in load(run).load_train_pairs()}
    learned = sum(tuple(line.split("\t")) in known for line in lines[1:60])
    assert 0 < learned < 59
    assert f"trained on {learned} of these 59 pairs" in capsys.readouterr().out
    assert main(["score", str(run), "--data", str(tmp_path / "new.tsv")]) == 0
    assert "trained on" not in capsys.readouterr().out
    shutil.copy(pairs, tmp_path / "copied.tsv")  # other data by its name alone
    other, few = tmp_path / "other", ("--train.epochs", "1", "--seed", "2")
    train_recipe(recipe_for(tmp_path / "copied.tsv", *few), other, mode="quiet")
    assert main(["score", str(run), str(other)]) == 0
    message = capsys.readouterr().out
    assert "other was trained on" in message
    assert "reversed was trained on" not in message
    monkeypatch.setattr(Translation, "load_train_pairs", gone)
    assert main(["score", str(run), "--data", str(tmp_path / "new.tsv")]) == 0
    assert "are not available to check for overlap" in capsys.readouterr().out


def gone(_task):
    raise UserError("the data are elsewhere")


def test_runs_that_held_out_other_sentences_are_not_compared(run, pairs, tmp_path, capsys):
    other = tmp_path / "other"
    train_recipe(recipe_for(pairs, "--train.epochs", "1", "--seed", "2"), other, mode="quiet")
    assert main(["score", str(run), str(other)]) == 2
    assert "other has other test sentences" in capsys.readouterr().err
    assert main(["score", str(run), str(other), "--data", str(pairs)]) == 0


def test_columns_by_number_are_of_any_language(run, pairs, tmp_path, capsys):
    bare = tmp_path / "bare.tsv"
    bare.write_text("\n".join(pairs.read_text().splitlines()[1:300]) + "\n")
    columns = ("--data.source", '"1"', "--data.target", '"2"', "--train.epochs", "1")
    train_recipe(recipe_for(bare, *columns), tmp_path / "other", mode="quiet")
    few = tmp_path / "few.tsv"
    few.write_text("en\tfr\none two\tdeux un\nten cat\tchat dix\n")
    assert main(["score", str(run), str(tmp_path / "other"), "--data", str(few)]) == 0
    assert "2 sentences are few" in capsys.readouterr().out


def test_nor_by_a_sets_name():
    tasks = {
        name: Translation.from_recipe(recipe_for("emoji-names", "--seed", seed))
        for name, seed in (("one", "0"), ("other", "1"))
    }
    for data in (None, "emoji-names"):
        with pytest.raises(UserError, match="other has other test sentences of emoji-names"):
            compare_translators(tasks, data)
