"""One label per text or several: losses, class weights, metrics, and a run in every verb."""

import json

import numpy as np
import pytest
import torch
from sklearn import metrics as sklearn_metrics

from workings.cli import main
from workings.data.readers import Example, read_examples
from workings.errors import UserError
from workings.models.classifiers import NgramClassifier
from workings.recipes import CLASSIFIER_KINDS, build_recipe
from workings.tasks.classification import Classification
from workings.tasks.labels import MultiLabel, SingleLabel
from workings.training.runs import load, train_recipe
from workings.web.inspector import Inspector
from workings.web.requests import InspectRequest
from workings.web.runs import RunRegistry

WORDS = {"fruit": ("apple", "pear"), "metal": ("iron", "zinc"), "color": ("red", "blue")}
SMALL = {
    "recurrent": {"d_model": 8, "hidden_size": 8},
    "perceptron": {"d_model": 8, "pooling": "mean", "hidden_sizes": [16]},
    "convolution": {"d_model": 8, "channels": [16], "kernel": 1, "stride": 1, "hidden_size": 16},
    "regions": {"regions": [1], "channels": 64, "dropout": 0.0},
    "transformer": {"d_model": 8, "heads": 2, "layers": 1, "d_ff": 16},
    "bert": {"d_model": 16, "heads": 2, "layers": 1, "d_ff": 32, "dropout": 0.0},
    "language-model": {"body": {"d_model": 16, "heads": 2, "layers": 1}, "pooling": "mean"},
    "ngrams": {"min_count": 1, "max_n": 1},
    "tf-idf": {"min_count": 1, "max_words": 1, "max_characters": 2},
}


def write_multi_label(path, count=120):
    """Write texts whose words are of any number of kinds; color is rare."""
    generator, lines = np.random.default_rng(0), []
    for _ in range(count):
        rates = {"fruit": 0.5, "metal": 0.5, "color": 0.15}
        labels = [label for label, rate in rates.items() if generator.random() < rate]
        words = [str(generator.choice(WORDS[label])) for label in labels]
        words += [f"the{k}" for k in generator.integers(9, size=2)]
        lines.append(json.dumps({"text": " ".join(words), "label": labels}))
    path.write_text("\n".join(lines))
    return path


def multi_label_recipe(path, kind, **train):
    data = {"set": str(path), "multi_label": True}
    train = {"epochs": 8, "batch_size": 16, "learning_rate": 0.05, "metric": "f1_micro", **train}
    changes = {"tokenizer": {"kind": "characters"}} if kind == "tf-idf" else {}
    model = {"kind": kind, **SMALL[kind]}
    return build_recipe({"data": data, "model": model, "train": train, **changes})


# -- losses and weights ----------------------------------------------------------------------------


def test_weighted_loss_equals_scikit_learn():
    torch.manual_seed(0)
    logits, targets = torch.randn(20, 3), torch.randint(3, (20,))
    weights = torch.tensor([0.5, 1.0, 4.0])
    expected = sklearn_metrics.log_loss(
        targets, torch.softmax(logits.double(), -1), sample_weight=weights[targets], labels=range(3)
    )  # which divides by the sum of the weights
    scheme = SingleLabel("abc")
    ours = scheme.loss(logits, targets, weights=weights) * 20 / weights[targets].sum()
    assert float(ours) == pytest.approx(expected, rel=1e-5)
    # Parts of a batch, as several processes have them, give the loss of the batch.
    parts = [scheme.loss(logits[k : k + 10], targets[k : k + 10], weights=weights) for k in (0, 10)]
    torch.testing.assert_close(sum(parts) / 2, scheme.loss(logits, targets, weights=weights))


def test_multi_label_loss_by_hand():
    scheme, logits = MultiLabel("ab"), torch.tensor([[0.3, -1.2], [2.0, 0.1]])
    targets = scheme.stack([(0,), (0, 1)])
    assert targets.tolist() == [[1, 0], [1, 1]]
    p = 1 / (1 + np.exp(-logits.numpy()))
    losses = [-3 * np.log(p[0, 0]), -np.log(1 - p[0, 1]), -3 * np.log(p[1, 0]), -np.log(p[1, 1])]
    loss = scheme.loss(logits, targets, weights=torch.tensor([3.0, 1.0]))
    assert float(loss) == pytest.approx(np.mean(losses), rel=1e-6)
    smooth = 0.9 * targets.numpy() + 0.05
    expected = -(smooth * np.log(p) + (1 - smooth) * np.log(1 - p)).mean()
    assert float(scheme.loss(logits, targets, smoothing=0.1)) == pytest.approx(expected, rel=1e-6)


def test_class_weights():
    single, multi = SingleLabel(["a", "b"]), MultiLabel(["a", "b", "c"])
    assert single.class_weights("none", [0, 1]) is None
    assert single.class_weights("balanced", [0, 0, 0, 1]).tolist() == pytest.approx([2 / 3, 2])
    assert single.class_weights({"b": 5}, [0, 1]).tolist() == [1, 5]
    # Of each label: texts without it per text with it; a label without texts has nothing to weigh.
    weights = multi.class_weights("balanced", [(0,), (0, 1), (0,), ()])
    assert weights.tolist() == pytest.approx([1 / 3, 3, 1])
    with pytest.raises(UserError, match="class_weights: no label 'B': did you mean 'b'"):
        single.class_weights({"B": 5}, [0, 1])


def test_class_weights_are_checked():
    for weights, problem in (
        ({"a": -1}, "class_weights.a = -1: expected a number, 0 or more"),
        ({"a": "x"}, "class_weights.a = 'x': expected a number"),
        ("balance", "class_weights = 'balance': did you mean 'balanced'"),
    ):
        with pytest.raises(UserError, match=problem):
            build_recipe({"train": {"class_weights": weights}})
    with pytest.raises(UserError, match=r"threshold = 1\.0: expected a number"):
        build_recipe({"train": {"threshold": 1.0}})


def test_balanced_weights_find_the_rare_class(tmp_path):
    rows = [f"the word {k % 7},common" for k in range(95)] + [
        f"the word {k},rare" for k in range(5)
    ]
    (tmp_path / "data.csv").write_text("\n".join(["text,label", *rows]))
    recalls = {}
    for weights in ("none", "balanced"):
        recipe = build_recipe(
            {
                "data": {"set": str(tmp_path / "data.csv"), "validation": 0.0},
                "model": {"kind": "perceptron", **SMALL["perceptron"]},
                "train": {"epochs": 4, "learning_rate": 0.02, "class_weights": weights},
            }
        )
        task = train_recipe(recipe, tmp_path / weights, mode="quiet")
        logits, targets = task.compute_split_logits("train", task.local_group)
        recalls[weights] = task.scheme.count(logits, targets).recall.tolist()
    assert recalls["none"] == [1.0, 0.0]
    assert recalls["balanced"][1] > 0.5


# -- several labels --------------------------------------------------------------------------------


def test_labels_of_a_file(tmp_path):
    (tmp_path / "a.csv").write_text('text,tags\nx,"b; a;b; "\ny,\nz,c\n')
    examples = list(read_examples(tmp_path / "a.csv", label="tags", label_delimiter=";"))
    assert [e.labels for e in examples] == [("b", "a"), (), ("c",)]
    (tmp_path / "a.jsonl").write_text(
        '{"text": "x", "label": ["b", 1, true]}\n{"text": "y", "label": null}\n'
        '{"text": "z", "label": "c,d"}\n{"text": "z", "label": [[]]}'
    )
    examples = read_examples(tmp_path / "a.jsonl", label_delimiter=",")
    assert [next(examples).labels for _ in range(3)] == [("b", "1", "true"), (), ("c", "d")]
    with pytest.raises(UserError, match=r"line 4: 'label' is not a label but \[\]"):
        next(examples)
    with pytest.raises(UserError, match=r"several labels need data\.multi_label"):
        list(read_examples(tmp_path / "a.jsonl"))


def test_ngram_ratios_of_several_labels():
    """The log-count ratio of a label, counted by hand: [5] is in texts 0 and 1, [6] in 1 and 2."""
    texts, labels = [[5], [5, 6], [6]], [[1, 1], [1, 0], [0, 0]]
    model = NgramClassifier(vocab_size=10, num_classes=2, max_n=1, min_count=1)
    model.prepare(texts, labels)
    counts = np.array([[2, 1], [1, 0]])  # of [5] and [6], in texts with each label
    inside, outside = counts + 1, np.array([[2], [2]]) - counts + 1
    expected = np.log(inside / inside.sum(0)) - np.log(outside / outside.sum(0))
    np.testing.assert_allclose(model.ratios[1:].numpy(), expected, rtol=1e-6)
    single = [NgramClassifier(10, 2, max_n=1, min_count=1) for _ in range(2)]
    single[0].prepare(texts, [0, 1, 1])
    single[1].prepare(texts, np.eye(2)[[0, 1, 1]])
    torch.testing.assert_close(single[0].ratios, single[1].ratios)


@pytest.mark.parametrize("kind", CLASSIFIER_KINDS)
def test_every_kind_learns_several_labels(kind, tmp_path):
    recipe = multi_label_recipe(write_multi_label(tmp_path / "data.jsonl"), kind)
    task = train_recipe(recipe, tmp_path / "run", mode="quiet")
    assert task.test(task.local_group)["test_f1_micro"] > 0.85


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("multi")
    recipe = multi_label_recipe(
        write_multi_label(folder / "data.jsonl"), "transformer", class_weights="balanced", epochs=3
    )
    train_recipe(recipe, folder / "run", mode="quiet")
    return folder / "run"


def test_predictions_are_thresholded_sigmoids(run, capsys):
    assert main(["predict", str(run), "apple iron the"]) == 0
    prediction = json.loads(capsys.readouterr().out)
    probabilities = prediction["probabilities"]
    assert prediction["labels"] == [label for label, p in probabilities.items() if p >= 0.5]
    task = load(run, Classification)
    logits = task.compute_logits([task.encode("apple iron the")])[0].detach()
    assert list(probabilities.values()) == pytest.approx(torch.sigmoid(logits).tolist(), abs=1e-5)


def test_metrics_of_a_run_equal_scikit_learn(run, capsys):
    assert main(["evaluate", str(run), "--json"]) == 0
    metrics = json.loads(capsys.readouterr().out)
    task = load(run, Classification)
    task.evaluate_on()
    texts = [e.text for e in task.examples["test"]]
    targets = np.array(
        [[label in e.labels for label in task.labels] for e in task.examples["test"]]
    )
    predictions = task.predict(texts).numpy() >= 0.5
    for average in ("micro", "macro"):
        expected = sklearn_metrics.f1_score(targets, predictions, average=average, zero_division=0)
        assert metrics[f"test_f1_{average}"] == pytest.approx(expected)
    assert metrics["test_accuracy"] == sklearn_metrics.accuracy_score(targets, predictions)
    report = sklearn_metrics.classification_report(
        targets, predictions, target_names=task.labels, output_dict=True, zero_division=0
    )
    for label, row in metrics["classes"].items():
        assert row["f1"] == pytest.approx(report[label]["f1-score"])
        assert row["support"] == report[label]["support"]
    assert main(["evaluate", str(run)]) == 0
    assert "class  precision  recall" in capsys.readouterr().out


def test_report_has_the_classes(run):
    page = (run / "report.html").read_text()
    assert "Classes (test)" in page
    assert "Confusion matrix" not in page
    result = json.loads((run / "result.json").read_text())
    assert set(result["classes"]) == set(WORDS)
    assert "validation_f1_micro" in result


def test_attribution_explains_one_label(run, capsys):
    assert main(["explain", str(run), "apple the", "--format", "json"]) == 0
    attribution = json.loads(capsys.readouterr().out)
    assert attribution["runner_up"] == f"not {attribution['label']}"
    task = load(run, Classification)
    logits = task.compute_logits([task.encode("apple the")])[0].detach()
    assert attribution["margin"] == pytest.approx(float(logits.max()), abs=1e-5)
    without = task.compute_logits([task.encode("the")])[0].detach()[logits.argmax()]
    occlusion = attribution["token_attributions"][0]["values"]
    assert occlusion[0] == pytest.approx(float(logits.max() - without), abs=1e-5)
    assert main(["explain", str(run), "apple the", "--format", "html"]) == 0


def test_export_is_refused(run, tmp_path, capsys):
    assert main(["export", str(run), "--to", "bert", "--out", str(tmp_path / "x")]) == 2
    assert "several labels per text can be exported to onnx only" in capsys.readouterr().err


def test_page_inspects_several_labels(run):
    inspector = Inspector(RunRegistry([run]))
    view = inspector.inspect(InspectRequest(run="run", text="apple the"))
    assert view.description == "Probability of each label"
    expected = load(run, Classification).predict(["apple the"])[0]
    assert sorted(bar.probability for bar in view.bars) == pytest.approx(sorted(expected.tolist()))
    assert inspector.explain(InspectRequest(run="run", text="apple the"))


def test_texts_with_unknown_labels_are_left_out(run, tmp_path, capsys):
    (tmp_path / "other.jsonl").write_text(
        '{"text": "apple", "label": ["fruit"]}\n{"text": "bread", "label": ["fruit", "food"]}'
    )
    assert main(["evaluate", str(run), "--data", str(tmp_path / "other.jsonl"), "--json"]) == 0
    metrics = json.loads(capsys.readouterr().out)
    assert (metrics["test_examples"], metrics["test_unseen_labels"]) == (1, 1)


def test_scheme_of_examples():
    examples = [Example("x", "b\x1fa"), Example("y", ""), Example("z", "c")]
    assert MultiLabel.list_labels(examples) == ("a", "b", "c")
    scheme = MultiLabel(["a", "b"])
    assert [scheme.encode(example) for example in examples] == [(1, 0), (), None]
    assert scheme.name_of((1, 0)) == "a, b"
    assert scheme.name_of(()) == "no label"
