"""The report of a run, read as a browser would."""

import json
import re
import shutil
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
import toys

from workings.render.training_report import confusion_matrix_html
from workings.training.report import write_report
from workings.training.runs import load, train_recipe


class Page(HTMLParser):
    """Collects the headings, the text, and all that would load or run something."""

    def __init__(self, text):
        super().__init__()
        self.headings, self.words, self.active, self._tag = [], [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self._tag = tag
        loads = [v for k, v in attributes if k in ("src", "href", "action") or k.startswith("on")]
        if loads or tag in ("script", "link", "img", "iframe"):
            self.active.append((tag, loads))

    def handle_data(self, data):
        if self._tag in ("h1", "h2"):
            self.headings.append(data.strip())
        self.words.append(data)


@pytest.mark.parametrize("kind", ["recurrent", "transformer"])
def test_a_report_is_complete_and_loads_nothing(texts, tmp_path, kind):
    overrides = ["--title", "Fruit <or> metal?", "--train.epochs", "2", "--model.kind", kind]
    recipe = toys.texts_recipe(texts, *overrides, "--train.learning_rate", "1e-4")
    train_recipe(recipe, tmp_path / "run", mode="quiet")
    page = Page((tmp_path / "run" / "report.html").read_text())
    assert not page.active
    text = " ".join(page.words)
    assert "Fruit <or> metal?" in text
    for heading in ("Curves", "Confusion matrix (test)", "Surest mistakes (test)", "Layers"):
        assert heading in page.headings
    assert f"{100 * toys.result(tmp_path / 'run')['test_accuracy']:.2f} %" in text
    assert 'kind = "' in text  # the recipe
    assert "data.sha256" in text
    assert "{'" not in text
    ElementTree.parse(tmp_path / "run" / "curves.svg")  # noqa: S314 - our own
    assert (tmp_path / "run" / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_the_report_of_a_captioner(squares_run):
    report = (squares_run / "report.html").read_text()
    assert "120 pictures of" in report
    assert "150 images; none left out" in (squares_run / "environment.json").read_text()
    assert report.count("References:") == 6


def test_the_samples_of_a_language_model(corpus_run, tmp_path):
    assert "after epoch 8" in (corpus_run / "report.html").read_text()
    run = shutil.copytree(corpus_run, tmp_path / "run")
    records = (run / "log.jsonl").read_text().splitlines()
    kept = [r for r in records if json.loads(r)["kind"] != "sample"]
    samples = [
        {"kind": "sample"},
        {"kind": "sample", "epoch": "2", "sample": 7},
        {"kind": "sample", "epoch": 3, "sample": "valid"},
    ]
    (run / "log.jsonl").write_text("\n".join([*kept, *map(json.dumps, samples)]) + "\n")
    write_report(run, load(run))
    assert (run / "report.html").read_text().count("after epoch") == 1


def test_the_confusion_matrix_counts_the_predictions(texts, tmp_path):
    recipe = toys.texts_recipe(texts, "--train.learning_rate", "1e-4")
    train_recipe(recipe, tmp_path / "run", mode="quiet")
    page = (tmp_path / "run" / "report.html").read_text()
    table = re.search(r'<table class="confusion">.*?</table>', page).group()
    counts = [int(n) for n in re.findall(r'<span class="v \w+">(\d+)</span>', table)]
    task = load(tmp_path / "run")
    task.evaluate_on()
    expected = {(t, p): 0 for t in task.labels for p in task.labels}
    for example in task.examples["test"]:
        expected[example.label, next(task.predict_sources([example.text]))["label"]] += 1
    assert counts == list(expected.values())


@pytest.mark.parametrize("classes", [2, 14])
def test_the_confusion_matrix_of_many_classes(classes):
    counts = [[3 if i == j else 1 for j in range(classes)] for i in range(classes)]
    page = confusion_matrix_html([f"class {k}" for k in range(classes)], counts)
    head, *rows = re.findall(r"<tr>.*?</tr>", page)
    assert re.search(r"<th[^>]*>(.*?)</th>", head).group(1) == "recall"
    share = f"{300 / (classes + 2):.1f} %"
    assert all(
        re.search(r"<td>(.*?)</td>", row).group(1).endswith(f"{share}</span>") for row in rows
    )
    assert ("confusion many" in page) == (classes == 14)


def test_labels_are_escaped():
    page = confusion_matrix_html(["<script>", 'a" onload="x'], [[1, 0], [0, 0]])
    assert not Page(page).active
    assert "–" in page  # a class without examples
