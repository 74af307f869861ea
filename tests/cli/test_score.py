"""`workings score`: translators compared on the same sentences, and training data among them."""

import json
import shutil

import pytest
import toys

from workings.cli import main
from workings.errors import UserError
from workings.interpret.translator_comparison import compare_translators
from workings.tasks.translation import Translation
from workings.training.runs import load, train_recipe


@pytest.fixture
def run(pairs_run):
    return str(pairs_run)


@pytest.fixture(scope="module")
def weaker(pairs, tmp_path_factory):
    """A translator without attention, on the same data."""
    folder = tmp_path_factory.mktemp("runs") / "weaker"
    recipe = toys.pairs_recipe(pairs, "--train.epochs", "2", "--model.attention", "none")
    train_recipe(recipe, folder, mode="quiet")
    return str(folder)


@pytest.fixture(scope="module")
def other(pairs, tmp_path_factory):
    """A translator with another seed, and so other test data, of a copy of the same file."""
    folder = tmp_path_factory.mktemp("runs")
    shutil.copy(pairs, folder / "copied.tsv")
    recipe = toys.pairs_recipe(folder / "copied.tsv", "--train.epochs", "1", "--seed", "2")
    train_recipe(recipe, folder / "other", mode="quiet")
    return str(folder / "other")


def test_two_translators(run, weaker, tmp_path, capsys):
    assert main(["score", weaker, run, "--format", "json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["translators"]
    result = toys.result(run)
    assert second["scores"]["bleu"]["score"] == pytest.approx(result["test_bleu"])
    difference = second["against_first"]["difference"]
    assert difference["low"] > 0
    gain = result["test_bleu"] - first["scores"]["bleu"]["score"]
    assert difference["value"] == pytest.approx(gain)
    assert sum(b["sentences"] for b in second["buckets"]) == result["test_pairs"]
    for form in ("text", "html"):
        assert main(["score", weaker, run, "--format", form]) == 0
        assert "weaker" in capsys.readouterr().out
    assert main(["score", run, weaker, "--out", str(tmp_path / "lengths.svg")]) == 0
    assert "words of the source" in (tmp_path / "lengths.svg").read_text()
    assert "over the first" in capsys.readouterr().out
    assert main(["score", run, run]) == 2
    assert "given twice" in capsys.readouterr().err


def test_runs_of_the_same_name_are_named_by_their_paths(weaker, tmp_path, capsys):
    copy = str(shutil.copytree(weaker, tmp_path / "weaker"))
    assert main(["score", weaker, copy, "--format", "json"]) == 0
    translators = json.loads(capsys.readouterr().out)["translators"]
    assert [translator["name"] for translator in translators] == [weaker, copy]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--out", "lengths.jpg"], "lengths.jpg: unknown suffix: expected .html, .svg"),
        (["--format", "png"], "--format png needs --out FILE"),
        (["--out", "nowhere/lengths.svg"], "no such folder: nowhere"),
    ],
)
def test_invalid_outputs_are_refused_before_anything_is_translated(
    run, options, message, monkeypatch, capsys
):
    monkeypatch.setattr(Translation, "translate", None)
    assert main(["score", run, *options]) == 2
    assert message in capsys.readouterr().err


def test_training_pairs_among_the_sentences_are_reported(
    run, other, pairs, tmp_path, capsys, monkeypatch
):
    lines = pairs.read_text().splitlines()
    (tmp_path / "known.tsv").write_text("\n".join(lines[:60]) + "\n")
    (tmp_path / "new.tsv").write_text("en\tfr\nten ten ten ten ten ten\tdix dix dix dix dix dix\n")
    assert main(["score", run, "--data", str(tmp_path / "known.tsv")]) == 0
    learned = {(p.source, p.target) for p in load(run).load_train_pairs()}
    count = sum(tuple(line.split("\t")) in learned for line in lines[1:60])
    assert 0 < count < 59
    assert f"trained on {count} of these 59 pairs" in capsys.readouterr().out
    assert main(["score", run, "--data", str(tmp_path / "new.tsv")]) == 0
    assert "trained on" not in capsys.readouterr().out
    assert main(["score", run, other]) == 0  # other data by their file name only
    printed = capsys.readouterr().out
    assert "other was trained on" in printed
    assert "reversed was trained on" not in printed

    def fail(_task):
        raise UserError("the data are missing")

    monkeypatch.setattr(Translation, "load_train_pairs", fail)
    assert main(["score", run, "--data", str(tmp_path / "new.tsv")]) == 0
    assert "are not available to check for overlap" in capsys.readouterr().out


def test_runs_with_other_test_sentences_are_not_compared(run, pairs, tmp_path, capsys):
    other = tmp_path / "other"
    recipe = toys.pairs_recipe(pairs, "--train.epochs", "1", "--seed", "2")
    train_recipe(recipe, other, mode="quiet")
    assert main(["score", run, str(other)]) == 2
    assert "other has other test sentences" in capsys.readouterr().err
    few = tmp_path / "few.tsv"
    few.write_text("\n".join(pairs.read_text().splitlines()[:30]) + "\n")
    assert main(["score", run, str(other), "--data", str(few)]) == 0


def test_datasets_with_other_test_sentences_are_not_compared():
    tasks = {
        name: Translation.from_recipe(toys.pairs_recipe("emoji-names", "--seed", seed))
        for name, seed in (("one", "0"), ("other", "1"))
    }
    for data in (None, "emoji-names"):
        with pytest.raises(UserError, match="other has other test sentences of emoji-names"):
            compare_translators(tasks, data)


def test_columns_may_be_given_by_number(run, few_pairs, tmp_path, capsys):
    """On the command line, without quotes."""
    bare = tmp_path / "bare.tsv"
    bare.write_text("\n".join(few_pairs.read_text().splitlines()[1:]) + "\n")
    columns = ("--data.source", "1", "--data.target", "2", "--train.epochs", "1")
    train_recipe(toys.pairs_recipe(bare, *columns), tmp_path / "other", mode="quiet")
    few = tmp_path / "few.tsv"
    few.write_text("en\tfr\none two\tdeux un\nten cat\tchat dix\n")
    assert main(["score", run, str(tmp_path / "other"), "--data", str(few)]) == 0
    assert "2 sentences are few" in capsys.readouterr().out
