"""The report of a run, read as a browser would."""

import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from workings.render.training_report import confusion_matrix_html
from workings.training.runs import load, train_recipe


class Page(HTMLParser):
    """Collects the headings, the text, and whatever would load or run something."""

    def __init__(self, text):
        super().__init__()
        self.headings, self.words, self.foreign, self._tag = [], [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self._tag = tag
        loads = [v for k, v in attributes if k in ("src", "href", "action") or k.startswith("on")]
        if loads or tag in ("script", "link", "img", "iframe"):
            self.foreign.append((tag, loads))

    def handle_data(self, data):
        if self._tag in ("h1", "h2"):
            self.headings.append(data.strip())
        self.words.append(data)


@pytest.mark.parametrize("kind", ["recurrent", "transformer"])
def test_a_report_says_everything_and_loads_nothing(toy, tmp_path, recipe_for, kind):
    changes = [
        "--title",
        "Fruit <or> metal?",
        "--train.epochs",
        "2",
        "--train.learning_rate",
        "1e-4",
    ]
    recipe = recipe_for(toy, *changes, "--model.kind", kind)
    train_recipe(recipe, tmp_path / "run", mode="quiet")
    page = Page((tmp_path / "run" / "report.html").read_text())
    assert not page.foreign
    text = " ".join(page.words)
    assert "Fruit <or> metal?" in text
    for heading in ("Curves", "Confusion matrix (test)", "Surest mistakes (test)", "Layers"):
        assert heading in page.headings
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert f"{100 * result['test_accuracy']:.2f} %" in text
    assert 'kind = "' in text  # the recipe itself
    assert "data.sha256" in text
    assert "{'" not in text
    ElementTree.parse(tmp_path / "run" / "curves.svg")  # noqa: S314 - our own
    assert (tmp_path / "run" / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_the_confusion_matrix_is_the_truth(toy, tmp_path, recipe_for):
    train_recipe(recipe_for(toy, "--train.learning_rate", "1e-4"), tmp_path / "run", mode="quiet")
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
def test_what_was_found_stands_beside_the_class_however_many_there_are(classes):
    counts = [[3 if i == j else 1 for j in range(classes)] for i in range(classes)]
    page = confusion_matrix_html([f"class {k}" for k in range(classes)], counts)
    head, *rows = re.findall(r"<tr>.*?</tr>", page)
    assert re.search(r"<th[^>]*>(.*?)</th>", head).group(1) == "recall"
    share = f"{300 / (classes + 2):.1f} %"
    assert all(
        re.search(r"<td>(.*?)</td>", row).group(1).endswith(f"{share}</span>") for row in rows
    )
    assert ("confusion many" in page) == (classes == 14)


def test_labels_mean_no_harm():
    page = confusion_matrix_html(["<script>", 'a" onload="x'], [[1, 0], [0, 0]])
    assert not Page(page).foreign
    assert "–" in page  # a class without examples
