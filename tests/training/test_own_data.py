"""Training on a user's own data: in one command, from files and tables of any kind."""

import csv
import json
import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import texts_recipe, write_texts

from workings import UserError, load, train
from workings.cli import main
from workings.tasks.classification import Classification
from workings.training import own_data
from workings.training.api import _store_rows
from workings.training.logging import read_epochs
from workings.training.own_data import (
    Plan,
    Validation,
    compare_with_baselines,
    suggest_next,
)
from workings.training.runs import resume, train_recipe

WORDS = {
    "positive": ("wonderful", "moving", "clever", "bright", "charming"),
    "negative": ("dull", "clumsy", "boring", "tired", "hollow"),
}


def make_rows(count, seed=0):
    """Return reviews: an id, a sentence with a word that decides, and the sentiment."""
    rng = random.Random(seed)  # noqa: S311
    labels = list(WORDS)
    return [
        (i, f"the film, a {rng.choice(WORDS[labels[i % 2]])} one, number {i}", labels[i % 2])
        for i in range(count)
    ]


def write_csv(path, rows, header=("id", "review", "sentiment"), encoding="utf-8-sig"):
    with path.open("w", newline="", encoding=encoding) as file:
        writer = csv.writer(file)
        writer.writerows([header, *rows] if header else rows)
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A classifier that is trained by the command line on a CSV file with a byte order mark."""
    folder = tmp_path_factory.mktemp("own")
    rows = make_rows(240)
    rows[3], rows[5] = (3, "", "positive"), (5, "no label", "")
    data = write_csv(folder / "reviews.csv", rows)
    out = folder / "run"
    command = ["train", "--task", "classify", "--data", str(data), "--out", str(out)]
    assert main([*command, "--minutes", "1", "--quiet"]) == 0
    return out


def test_a_classifier_in_one_command(run):
    task = load(run)
    assert task.labels == ("negative", "positive")
    result = json.loads((run / "result.json").read_text())
    choices = json.loads((run / "choices.json").read_text())
    assert result["test_accuracy"] > 0.9
    assert result["test_accuracy"] > choices["baselines"]["majority class"]
    assert len(choices["lines"]) <= 5
    assert "text = 'review', label = 'sentiment' (both by name)" in choices["lines"][0]
    assert "2 rows without text or label left out" in choices["lines"][0]
    assert 'set = "' in (run / "config.toml").read_text()


def test_formats_of_the_export_are_said_before_training(run, tmp_path, capsys):
    data, out = write_csv(tmp_path / "few.csv", make_rows(20)), tmp_path / "run"
    command = ["train", "--task", "classify", "--data", str(data), "--out", str(out)]
    assert main([*command, "--train.epochs", "1"]) == 0
    errors = capsys.readouterr().err
    assert "export: can be exported to onnx; not to bert" in errors
    assert errors.index("export: ") < errors.index("epoch 1")


def test_the_recipe_of_the_run_gives_the_same_model(run, tmp_path):
    again = tmp_path / "again"
    assert main(["train", str(run / "config.toml"), "--out", str(again), "--quiet"]) == 0
    first, second = ((r / "model.safetensors").read_bytes() for r in (run, again))
    assert len(first) == len(second)
    text = ["a charming one"]
    assert load(run).predict(text).equal(load(again).predict(text))


def test_data_in_place_of_a_recipe_say_what_to_type(run, tmp_path, capsys):
    data = write_csv(tmp_path / "reviews.csv", make_rows(20))
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"one {i}\tun {i}\n" for i in range(20)))
    text = tmp_path / "play.txt"
    text.write_text("To be.\n")
    tabs = tmp_path / "pairs.txt"
    tabs.write_text(pairs.read_text())
    guesses = ((data, "classify"), (pairs, "translate"), (tabs, "translate"), (text, "language"))
    for path, task in guesses:
        assert main(["train", str(path)]) == 2
        assert f"not a recipe: workings train --task {task} --data" in capsys.readouterr().err
    assert main(["train", str(run)]) == 2
    assert "is a run, not a recipe: workings train --repeat" in capsys.readouterr().err
    assert main(["train", "--task", "classify"]) == 2
    assert "--task and --data go together" in capsys.readouterr().err
    assert main(["train", "--from", str(run), "--data", str(data), "--out", f"{tmp_path}/x"]) == 2
    assert "n-grams are counted, not fine-tuned" in capsys.readouterr().err


def test_labels_that_never_repeat_are_told(tmp_path, capsys):
    data = write_csv(tmp_path / "reviews.csv", [(i, "a film", f"label {i}") for i in range(30)])
    assert main(["train", "--task", "classify", "--data", str(data), "--data.label", "id"]) == 2
    assert "every row has a label of its own" in capsys.readouterr().err


def test_a_data_frame_with_any_columns(tmp_path):
    pandas = pytest.importorskip("pandas")
    rows = make_rows(60)
    frame = pandas.DataFrame(rows, columns=["id", "Review Text", "stars"])
    frame["stars"] = frame["stars"].map({"positive": 5, "negative": 1})
    frame.loc[7, "Review Text"] = None
    task = train(task="classify", data=frame, minutes=0.5)
    assert task.labels == ("1", "5")
    assert task.predict(["a dull one"])[0, 0] > 0.5
    assert task.recipe.data.text == "Review Text"


@pytest.mark.parametrize("kind", ["lists", "arrays", "pyarrow"])
def test_several_labels_in_tables_in_memory(kind, tmp_path):
    columns = {"text": [f"text {i}" for i in range(4)], "tags": [["x"], ["x", "y"], [], ["y"]]}
    data = columns
    if kind == "arrays":
        data = {"text": columns["text"], "tags": [np.array(tags) for tags in columns["tags"]]}
    elif kind == "pyarrow":
        data = pytest.importorskip("pyarrow").table(columns)
    path = _store_rows("classify", data, tmp_path)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["tags"] for row in rows] == columns["tags"]


def test_twenty_rows_are_enough_for_a_classifier():
    pairs = [(text, label) for _, text, label in make_rows(20)]
    task = train(task="classify", data=pairs, minutes=0.5, epochs=3)
    assert task.recipe.train.epochs == 3
    with pytest.raises(UserError, match="needs a recipe or a model, start_from= a run, or task="):
        train(data=pairs)


def test_a_language_model_and_a_translator(tmp_path):
    task = train(task="language", data=["hello world, yellow fellow"] * 40, minutes=0.02)
    assert task.complete("hello", 5).startswith("hello")
    assert set(task.score_baselines()) == {"single tokens", "trigrams"}
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"red {i} cats\t{i} chats rouges\n" for i in range(60)))
    out = tmp_path / "run"
    stated = {"train": {"epochs": 1}, "model": {"d_model": 16, "d_ff": 16, "layers": 1}}
    from workings.training.own_data import train_own_data

    train_own_data("translate", pairs, out, minutes=0.1, stated=stated, mode="quiet")
    choices = json.loads((out / "choices.json").read_text())
    assert "from '1' to '2'" in choices["lines"][0]
    assert "copying the source" in choices["baselines"]


def test_several_labels_have_baselines(tmp_path):
    words = {"sea": "wave", "farm": "cow", "sea,farm": "wave cow"}
    rows = [(f"a {text} {i}", labels) for i in range(20) for labels, text in words.items()]
    data, out = write_csv(tmp_path / "texts.csv", rows, header=("text", "label")), tmp_path / "run"
    command = ["train", "--task", "classify", "--data", str(data), "--out", str(out), "--quiet"]
    assert main([*command, "--data.multi_label", "true", "--minutes", "0.05"]) == 0
    choices = json.loads((out / "choices.json").read_text())
    assert set(choices["baselines"]) == {"metric", "majority class", "naive Bayes"}
    assert "more labeled rows" in choices["suggestions"][1]


def test_the_line_with_the_baselines():
    line = compare_with_baselines("test_accuracy", {"test_accuracy": 0.9}, {"majority class": 0.5})
    assert line == ["result: test accuracy 90.0% · majority class 50.0%"]
    assert compare_with_baselines("test_bleu", {}, {"copying the source": 1.0}) == []


def test_suggestions_compare_with_the_baselines(run):
    task = load(run)
    task.data_info = {"train": 2000}

    def suggest(accuracy, rows=1000, **baselines):
        result = {"test_accuracy": accuracy, "test_examples": rows}
        return suggest_next(task, result, baselines, run)[1]

    baselines = {"majority class": 0.5, "naive Bayes": 0.76}
    assert "a pretrained model" in suggest(0.8, **baselines)
    task.data_info = {"train": 200_000}
    assert "--model.kind transformer" in suggest(0.8, **baselines)
    assert "naive Bayes is ahead by 1.0%, within the noise of 1,000 " in suggest(0.75, **baselines)
    assert "naive Bayes is better by 10.0%: try --model.kind ngrams" in suggest(0.66, **baselines)
    assert "hardly better than always" in suggest(0.51, **baselines)
    assert "none were left to test on" in suggest(0.0, rows=0)


def test_suggestions_for_generators_name_a_baseline_that_is_not_beaten(tmp_path):
    task = train(task="language", data=["hello world, yellow fellow"] * 40, minutes=0.01)
    metric, baselines = task.baseline_metric, {"single tokens": 4.0, "trigrams": 2.0}
    lines = [suggest_next(task, {metric: s}, baselines, tmp_path)[1] for s in (1.5, 3.0)]
    assert lines[0] == "next: more time allows a larger model: --minutes 30"
    assert lines[1].startswith("next: not better than trigrams: more time")


def test_a_chosen_classifier_is_trained_although_the_comparison_took_all_the_time(
    tmp_path, monkeypatch
):
    data = write_csv(tmp_path / "reviews.csv", make_rows(240))
    monkeypatch.setattr(Plan, "elapsed_minutes", 1.0)
    monkeypatch.setattr(
        "workings.training.own_data.validate_classifier",
        lambda recipe, _: Validation(1 / recipe.train.epochs, 0.0, minutes=0.4),
    )
    plan = Plan("classify", str(data), 0.5)
    assert plan.recipe.train.minutes == 0.5  # 0.4 for four fifths of the rows
    plan = Plan("classify", str(data), 10.0)
    assert plan.recipe.train.minutes == 8.0
    monkeypatch.setattr(Plan, "elapsed_minutes", 4.0)  # the data are read once more
    assert plan.minutes_left() == 5.0


# -- odd tables ------------------------------------------------------------------------------------

TABLES = {
    "": "empty: no examples",
    "text,label\n": "a header, and no rows below it",
    "text\n" + "a row\nanother row\n" * 5: "no column beside 'text' has labels",
    "text,label\n" + "a row,x\nanother,x\n" * 5: "column 'label' has the same label in every row",
    "text,label\n" + "a row,\nanother,\n" * 5: "no column beside 'text' has labels",
    "text,score\n" + "".join(f"row {i},{i / 7}\n" for i in range(30)): "another number in each row",
    "text,text,label\n" + "a,b,x\nc,d,y\n" * 5: "the header has the column 'text' twice",
    "text,label\ra,x\rb,y\r": "a carriage return within a row",
    'text,label\na,x\n"never closed,y\n': "line 3: not CSV",
    "text,label\na,x,z\n": "line 2: 3 fields, but 2 columns",
}


@pytest.mark.parametrize("table", TABLES, ids=TABLES.values())
def test_a_table_that_cannot_be_learned_is_refused_in_one_line(table, tmp_path, capsys):
    data = tmp_path / "odd.csv"
    data.write_text(table, newline="")
    command = ["train", "--task", "classify", "--data", str(data), "--out", str(tmp_path / "run")]
    assert main(command) == 2
    errors = capsys.readouterr().err
    assert TABLES[table] in errors
    assert errors.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_few_different_texts_stay_in_the_training_part(tmp_path):
    """However often they are repeated: no label loses its only text to the test part."""
    data = write_csv(tmp_path / "odd.csv", [("fine day", "a"), ("awful day", "b")] * 20, ("t", "l"))
    recipe = Plan("classify", str(data), 0.5).recipe
    task = Classification.from_recipe(recipe)
    assert task.labels == ("a", "b")
    assert task.data_info["train"] == 40


CELLS = st.sampled_from(
    ["", " ", "a", "b", "0", "1", "1.5", "true", "NaN", 'say "x"', "a,b;c\td", "two\nlines", "é",
     "天气", "\u200b", "\x00", "\x1b[0m", "👩‍👩‍👧", "x" * 5000, "<b>", "=1+1", "text", "label",
     "two words"]
)  # fmt: skip


@settings(deadline=None, max_examples=80)
@given(st.integers(1, 3).flatmap(lambda n: st.lists(st.tuples(*[CELLS] * n), max_size=20)))
def test_any_table_is_read_or_refused_in_one_line(tmp_path_factory, rows):
    data = write_csv(tmp_path_factory.mktemp("odd") / "odd.csv", rows, header=None)
    message, task = "", None
    try:
        task = Classification.from_recipe(Plan("classify", str(data), 0.5).recipe)
    except UserError as error:
        message = str(error)
    assert (task is None) == bool(message)
    assert "\n" not in message
    if task is not None:
        assert len(task.labels) >= 2
        assert task.predict(["a", ""]).isfinite().all()


# -- train.minutes ---------------------------------------------------------------------------------


def test_a_time_limit_ends_the_training_and_the_schedule(tmp_path):
    data = write_texts(tmp_path / "texts.jsonl")
    settings = ("--train.schedule", "linear", "--train.epochs", "1000", "--train.minutes", "0.01")
    task = train_recipe(texts_recipe(data, *settings), tmp_path / "run", mode="quiet")
    assert 1 <= len(task.history) < 1000
    with pytest.raises(UserError, match=r"minutes = 0\.0: it must be positive"):
        texts_recipe(data, "--train.minutes", "0")
    again = resume(tmp_path / "run", mode="quiet")  # nothing is left to do
    assert len(again.history) == len(task.history)


def test_a_limit_that_is_never_reached_changes_nothing(tmp_path):
    data = write_texts(tmp_path / "texts.jsonl")
    losses = []
    for name, limit in (("a", "none"), ("b", "60")):
        recipe = texts_recipe(data, "--train.minutes", limit, "--train.schedule", "linear")
        train_recipe(recipe, tmp_path / name, mode="quiet")
        losses.append([e["train_loss"] for e in read_epochs(tmp_path / name / "log.jsonl")])
    assert losses[0] == losses[1]


@pytest.mark.parametrize(("speeds", "expected"), [((1e9, 4e9), 1), ((4e9, 1e9), 2)])
def test_one_thread_is_used_where_it_is_faster(speeds, expected, monkeypatch):
    measured = iter(speeds)
    monkeypatch.setattr(own_data, "measure_flops", lambda: next(measured))
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        own_data.settle_threads()
        assert torch.get_num_threads() == expected
    finally:
        torch.set_num_threads(before)
