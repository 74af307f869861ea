"""`workings.train` with a recipe by name, models and data in memory, and modules of one's own."""

import json

import pytest
import torch
from torch.nn import functional as F

import workings
from workings import UserError, load, models, tasks, train
from workings.builtin import builtin_recipes
from workings.registry import Metric

TEXT = "the quick brown fox jumps over the lazy dog. " * 30
REVIEWS = [(f"good plot {k}", "pos") for k in range(30)] + [
    (f"bad plot {k}", "neg") for k in range(30)
]


def make_classifier():
    torch.manual_seed(0)
    return models.TransformerClassifier(
        vocab_size=80, num_classes=2, d_model=16, layers=1, heads=2, d_ff=32
    )


def test_train_updates_the_given_language_model():
    model = models.TransformerLM(vocab_size=50, d_model=16, layers=1, heads=2)
    before = model.embedding.weight.detach().clone()
    task = train(model, TEXT, epochs=2)
    assert task.model is model
    assert not torch.equal(before, model.embedding.weight)
    assert [record["epoch"] for record in task.history] == [1, 2]
    assert isinstance(task.complete("the quick", 5), str)


def test_training_continues_from_the_models_weights():
    model = models.RecurrentLM(vocab_size=50, d_model=16, hidden_size=16)
    first = train(model, TEXT, epochs=3, learning_rate=0.02).history[-1]["validation_loss"]
    again = train(model, TEXT, epochs=1, learning_rate=0.001).history[-1]["validation_loss"]
    assert again < first + 0.1


@pytest.mark.parametrize(
    "data",
    [
        REVIEWS,
        iter(REVIEWS),
        {"text": [t for t, _ in REVIEWS], "label": [y for _, y in REVIEWS]},
        [{"text": t, "label": y} for t, y in REVIEWS],
    ],
    ids=["tuples", "iterator", "columns", "mappings"],
)
def test_classifier_takes_examples_in_any_form(data):
    task = train(make_classifier(), data, epochs=4, learning_rate=0.01, batch_size=8)
    assert task.predict(["good plot 7"]).argmax() == task.labels.index("pos")


def test_metrics_and_callbacks_are_functions():
    records = []
    train(
        make_classifier(),
        REVIEWS,
        epochs=2,
        metrics={"constant": lambda task: len(task.labels)},
        callbacks=[records.append],
    )
    assert [record["epoch"] for record in records] == [1, 2]
    assert [record["validation_constant"] for record in records] == [2.0, 2.0]


def test_a_run_kept_in_a_folder_can_be_loaded(tmp_path):
    task = train(make_classifier(), REVIEWS, epochs=1, out=tmp_path / "run")
    loaded = load(tmp_path / "run", tasks.Classification)
    text = ["good plot 3"]
    assert torch.equal(loaded.predict(text), task.predict(text))
    with pytest.raises(UserError, match="'classify'"):
        load(tmp_path / "run", tasks.Translation)


def test_translator_on_columns():
    model = models.RecurrentTranslator(
        source_vocab_size=80, target_vocab_size=80, d_model=16, hidden_size=16
    )
    pairs = [(f"red heart {k}", f"coeur rouge {k}") for k in range(40)]
    assert train(model, pairs, epochs=1).history[0]["train_loss"] > 0


def test_a_recipe_by_name(tmp_path):
    task = train("helo", epochs=1, out=tmp_path / "run")
    assert isinstance(task, tasks.LanguageModeling)
    recorded = (tmp_path / "run" / "log.jsonl").read_text().splitlines()
    assert sum(json.loads(line)["kind"] == "epoch" for line in recorded) == 1


def test_any_module_with_a_loss_and_a_collate_function():
    torch.manual_seed(0)
    weight = torch.tensor([2.0, -1.0])
    inputs = torch.randn(200, 2)
    examples = [(x, x @ weight) for x in inputs]
    model = torch.nn.Linear(2, 1)
    task = train(
        model,
        examples,
        loss=lambda model, batch: F.mse_loss(model(batch[0]).squeeze(-1), batch[1]),
        collate=lambda rows: tuple(torch.stack(column) for column in zip(*rows, strict=True)),
        epochs=30,
        learning_rate=0.05,
        batch_size=20,
    )
    assert torch.allclose(model.weight[0], weight, atol=0.05)
    assert task.history[-1]["validation_loss"] < 0.01


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("emojis",), "did you mean 'emoji'"),
        ((torch.nn.Linear(1, 1), [1]), "loss= and collate="),
    ],
)
def test_mistakes_are_named(arguments, message):
    with pytest.raises(UserError, match=message):
        train(*arguments)


def test_unknown_settings_are_refused_with_the_nearest_key():
    with pytest.raises(UserError, match="did you mean 'epochs'"):
        train(make_classifier(), REVIEWS, epoch=1)
    with pytest.raises(UserError, match="no column 'label'"):
        train(make_classifier(), {"text": ["a"]})


def test_the_public_names():
    assert {"train", "load", "models", "layers", "Problem", "attend", "Trace"} <= set(dir(workings))
    assert {"emoji", "helo", "scenes"} <= set(builtin_recipes())


# -- the metric that chooses the best epoch --------------------------------------------------------


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_a_metric_of_ones_own_chooses_the_best_epoch(higher_is_better):
    values = iter([0.5, 0.9, 0.2, 0.4, 0.3])
    metric = Metric(lambda _: next(values), higher_is_better)
    task = train(
        make_classifier(),
        REVIEWS,
        metrics={"mine": metric},
        metric="mine",
        epochs=5,
        patience=2,
    )
    recorded = [record["validation_mine"] for record in task.history]
    assert recorded == ([0.5, 0.9, 0.2, 0.4] if higher_is_better else [0.5, 0.9, 0.2, 0.4, 0.3])
    assert task.recipe.train.metric == "mine"


def test_metric_of_a_module_of_ones_own():
    values = iter([3.0, 1.0, 2.0, 2.5])
    module = torch.nn.Linear(1, 1)
    task = train(
        module,
        [torch.ones(1)] * 20,
        loss=lambda model, batch: model(batch).square().mean(),
        collate=torch.stack,
        metrics={"error": Metric(lambda _: next(values), higher_is_better=False)},
        metric="error",
        epochs=9,
        patience=2,
    )
    assert len(task.history) == 4
    with pytest.raises(UserError, match=r"train\.metric = 'eror': expected one of loss"):
        train(
            module,
            [torch.ones(1)] * 20,
            loss=lambda model, batch: model(batch).square().mean(),
            collate=torch.stack,
            metric="eror",
        )


def test_ngrams_of_the_data_are_counted():
    model = models.NgramClassifier(vocab_size=80, num_classes=2, min_count=1)
    task = train(model, REVIEWS, epochs=3, learning_rate=0.1)
    assert task.model is model
    assert [prediction["label"] for prediction in task.predict_iter(["good", "bad"])] == [
        "pos",
        "neg",
    ]


def test_several_labels_in_memory():
    model = models.PerceptronClassifier(vocab_size=80, num_classes=3, d_model=4, length=4)
    task = train(model, [(text, {label, "review"}) for text, label in REVIEWS], epochs=1)
    assert task.recipe.data.multi_label
    assert task.labels == ("neg", "pos", "review")
