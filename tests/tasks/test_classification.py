"""Text classification: learning, predicting, padding, and texts that are in several splits."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
import toys

from workings.cli import main
from workings.errors import UserError
from workings.recipes import ClassificationRecipe, build_recipe
from workings.tasks import classification
from workings.tasks.classification import Classification, load_splits, read_texts
from workings.training.runs import load, train_recipe


def test_classifier_learns_and_predicts(texts_run):
    task = load(texts_run)
    prediction = next(iter(task.predict_sources(["plum fig pear"])))
    assert prediction["label"] == "fruit"
    assert sum(prediction["probabilities"].values()) == pytest.approx(1, abs=1e-5)
    assert toys.result(texts_run)["test_accuracy"] == 1.0
    assert task.evaluate_on()["test_accuracy"] == 1.0
    assert task.evaluate_on(task.recipe.data.set)["test_examples"] == 216


def test_the_trained_task_and_the_loaded_one_predict_the_same(tmp_path):
    data = toys.write_texts(tmp_path / "texts.jsonl")
    trained = train_recipe(toys.texts_recipe(data, "--seed", "7"), tmp_path / "run", mode="quiet")
    loaded = load(tmp_path / "run")
    torch.testing.assert_close(loaded.predict(["iron tin"]), trained.predict(["iron tin"]))
    tested = [e.text for e in trained.examples["test"]]
    loaded.evaluate_on()
    assert [e.text for e in loaded.examples["test"]] == tested
    train = load_splits(trained.recipe).train
    assert len(train) == trained.data_info["train"]
    assert not {e.text for e in train} & set(tested)


@pytest.mark.parametrize(
    "model",
    [
        {"kind": "perceptron", "d_model": 8, "length": 3, "hidden_sizes": [32]},
        {"kind": "convolution", "d_model": 8, "kernel": 2, "stride": 1, "channels": [8]},
        {"kind": "regions", "regions": [1, 2], "channels": 8},
        {"kind": "transformer", "d_model": 8, "heads": 2, "layers": 1, "d_ff": 16},
        {"kind": "ngrams"},
    ],
    ids=lambda model: model["kind"],
)
def test_all_kinds_of_models_learn(tmp_path, model):
    data = {"set": str(toys.write_texts(tmp_path / "texts.jsonl"))}
    options = {"epochs": 6, "batch_size": 16, "learning_rate": 0.03}
    recipe = build_recipe({"data": data, "model": model, "train": options})
    train_recipe(recipe, tmp_path / "run", mode="quiet")
    assert toys.result(tmp_path / "run")["test_accuracy"] > 0.9


def test_very_long_and_empty_texts_are_predicted(texts_run):
    task = load(texts_run)
    long, empty = task.predict_sources(["iron " * 200_000, ""])
    assert long["label"] == "metal"
    assert empty["label"] in task.labels


def test_texts_in_training_and_test_are_counted_and_left_out(tmp_path):
    folder = tmp_path / "set"
    folder.mkdir()
    words = [
        json.dumps({"text": f"{w} {w}", "label": w[0]}) for w in ("ab", "ba") for _ in range(9)
    ]
    (folder / "train.jsonl").write_text("\n".join(words))
    # One training text with the other label, three new ones, and one with an unknown label.
    test = [("ab ab", "b"), ("ab", "a"), ("ba", "b"), ("ab ab ab", "a"), ("ab", "new")]
    (folder / "test.jsonl").write_text(
        "\n".join(json.dumps({"text": text, "label": label}) for text, label in test)
    )
    recipe = toys.texts_recipe(folder, "--data.validation", "0", "--train.epochs", "20")
    train_recipe(recipe, tmp_path / "run", mode="quiet")
    result = toys.result(tmp_path / "run")
    assert result["test_overlap"] == 1
    assert result["test_accuracy"] == 0.75
    assert result["test_accuracy_without_overlap"] == 1.0
    assert result["test_unseen_labels"] == 1
    assert "validation_accuracy" not in result


@pytest.mark.parametrize(
    ("padding", "expected"),
    [
        ("masked", [[5, 6], [7, 0]]),
        ("unmasked", [[5, 6, *[0] * 7], [7, *[0] * 8]]),
        ("left", [[*[0] * 7, 5, 6], [*[0] * 8, 7]]),
    ],
)
def test_padding(tmp_path, padding, expected):
    data = toys.write_texts(tmp_path / "texts.jsonl")
    recipe = toys.texts_recipe(data, "--model.padding", padding, "--data.max_length", "9")
    task = Classification.from_recipe(recipe)
    ids, lengths = task._pad([[5, 6], [7]])
    assert ids.tolist() == expected
    assert lengths.tolist() == [2, 1]
    for row, length in zip(ids, (2, 1), strict=True):
        assert all(row[task.token_slice(length, ids.shape[1])] > 0)
    assert task.loss(task.batches(0)[0], torch.device("cpu")).mean.isfinite()


def test_more_tokens_than_learned_positions_are_refused():
    model = {"kind": "transformer", "positions": "learned", "max_positions": 64}
    message = r"data\.max_length = 512: the model has only model\.max_positions = 64"
    with pytest.raises(UserError, match=message):
        build_recipe({"model": model})
    assert isinstance(
        build_recipe({"model": model, "data": {"max_length": 64}}), ClassificationRecipe
    )


def test_sources_of_texts(tmp_path, monkeypatch):
    file = tmp_path / "some.txt"
    file.write_text("one\ntwo\n")
    assert list(read_texts(["a text", str(file), "a file.csv"], "text")) == [
        "a text", "one", "two", "a file.csv"
    ]  # fmt: skip
    with pytest.raises(UserError, match="a folder"):
        list(read_texts([str(tmp_path)], "text"))
    with pytest.raises(UserError, match=r"missing\.csv: no such file"):
        list(read_texts(["missing.csv"], "text"))


def test_a_part_of_the_validation_texts_is_measured_after_an_epoch(tmp_path):
    texts = toys.write_texts(tmp_path / "texts.jsonl")
    recipe = toys.texts_recipe(texts, "--train.eval_tokens", "20", "--train.epochs", "1")
    task = train_recipe(recipe, tmp_path / "run", mode="quiet")
    every = task.evaluate(task.local_group)
    result, epoch = toys.result(tmp_path / "run"), task.history[0]
    assert result["validation_loss"] == pytest.approx(every["validation_loss"])
    assert epoch["validation_loss"] != pytest.approx(every["validation_loss"], rel=1e-9)
    task.eval_tokens = 20
    assert task.evaluate(task.local_group)["validation_loss"] == pytest.approx(
        epoch["validation_loss"]
    )
    logits, _ = task.compute_split_logits("validation", task.local_group)
    assert task.eval_stride > 1
    part, _ = task.compute_split_logits("validation", task.local_group, task.eval_stride)
    torch.testing.assert_close(part, logits[:: task.eval_stride])


def test_an_ensemble_has_the_mean_probabilities(tmp_path, capsys):
    texts = toys.write_texts(tmp_path / "texts.jsonl")
    for seed in (1, 2):
        recipe = toys.texts_recipe(texts, "--train.epochs", "1")
        train_recipe(replace(recipe, seed=seed), tmp_path / f"run{seed}", mode="quiet")
    first, second = (load(tmp_path / f"run{seed}") for seed in (1, 2))
    data = str(texts)
    metrics = first.evaluate_ensemble([second], data)
    texts = [e.text for e in first.examples["test"]]
    mean = (first.predict(texts) + second.predict(texts)) / 2
    labels = [example.label for example in first.examples["test"]]
    predicted = [first.labels[k] for k in mean.argmax(1)]
    assert metrics["test_accuracy"] == pytest.approx(np.mean(np.equal(predicted, labels)))
    assert metrics["classifiers"] == 2
    command = ["evaluate", str(tmp_path / "run1"), "--with", str(tmp_path / "run2")]
    assert main([*command, "--data", data, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["test_accuracy"] == metrics["test_accuracy"]
    assert main(command) == 2  # the seed selects the test texts
    assert "different test texts: give --data" in capsys.readouterr().err
    other = tmp_path / "other.jsonl"
    rows = ({"text": f"{'xy'[k % 2]} {k}", "label": "xy"[k % 2]} for k in range(18))
    other.write_text("\n".join(map(json.dumps, rows)))
    train_recipe(toys.texts_recipe(other, "--train.epochs", "1"), tmp_path / "other", mode="quiet")
    assert main([*command[:2], "--with", str(tmp_path / "other"), "--data", data]) == 2
    assert "different labels" in capsys.readouterr().err


def test_the_record_of_an_ensemble_has_the_sums_of_its_runs(tmp_path):
    texts = toys.write_texts(tmp_path / "texts.jsonl")
    recipe = toys.texts_recipe(texts, "--train.epochs", "1")
    train_recipe(recipe, tmp_path / "run", mode="quiet")
    run, record = str(tmp_path / "run"), tmp_path / "record.json"
    assert main(["evaluate", run, "--with", run, "--record", str(record)]) == 0
    alone, both = toys.result(tmp_path / "run"), json.loads(record.read_text())
    assert both["parameters"] == 2 * alone["parameters"]
    assert both["title"] == f"{alone['title']} + {alone['title']}"
    assert both["test_accuracy"] == alone["test_accuracy"]


@pytest.mark.parametrize("overrides", [(), ("--data.max_length", "2")])
def test_cached_texts_train_like_those_in_memory(tmp_path, monkeypatch, overrides):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    data = toys.write_texts(tmp_path / "texts.jsonl")
    recipe = toys.texts_recipe(data, *overrides)
    plain, shown = Classification.from_recipe(recipe), []
    monkeypatch.setattr(classification, "MIN_CACHED_CHARACTERS", 0)
    for _ in range(2):
        cached = Classification.from_recipe(recipe, lambda *state: shown.append(state))
        assert cached.fingerprint() == plain.fingerprint()
        batch = plain.batches(0)[0]
        assert cached.batches(0)[0] == batch
        for task in (plain, cached):
            task.model.eval()
        losses = [task.loss(batch, torch.device("cpu")).mean for task in (plain, cached)]
        assert losses[0] == losses[1]
    assert len(list((tmp_path / "cache" / "workings" / "tokens").glob("*.uint*"))) == 4
    assert shown[0][0] == 0
    assert all(0 <= done <= total for done, total in shown)
