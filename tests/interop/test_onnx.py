"""ONNX files equal the models in ONNX Runtime, and an exported folder runs without this package."""

import json
import re
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from graph_checks import CHECKS
from PIL import Image
from small_tasks import (
    captioning_task,
    classification_task,
    language_task,
    several_labels_task,
    translation_task,
)

from workings.data.images import read_image
from workings.data.tokenizers.byte_pair import BytePairTokenizer
from workings.decode import GREEDY
from workings.errors import UserError
from workings.interop.conversion import FolderExporter
from workings.interop.graph_base import Graph
from workings.interop.onnx import write_graph
from workings.interop.onnx_folder import WITH_PAST_FILE
from workings.recipes import CaptionSearchConfig, SearchConfig

pytestmark = pytest.mark.usefixtures("without_shape_checks")  # a size may be symbolic
FAST = ("classifier-gru-mean",)
PROMPT = "low lower"
WORDS = ["the", "cat", "sees", "a", "dog", "."]


@pytest.fixture
def run_in_onnx_runtime(tmp_path):
    def run_graph(graph):
        path = tmp_path / f"{type(graph).__name__}.onnx"
        write_graph(graph, path)
        session = onnxruntime.InferenceSession(path)
        names = [spec.name for spec in graph.inputs]

        def run(feed):
            outputs = session.run(None, {name: feed[name].numpy() for name in names})
            values = map(torch.from_numpy, outputs)
            return dict(zip((spec.name for spec in graph.outputs), values, strict=True))

        return run

    return run_graph


@pytest.mark.parametrize(
    "name",
    [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in CHECKS],
)
def test_onnx_file_equals_the_model(name, run_in_onnx_runtime):
    check, table = CHECKS[name]
    with torch.no_grad():
        check(table, run_in_onnx_runtime)


# -- folders ---------------------------------------------------------------------------------------


def export(task, folder):
    assert task.export(FolderExporter("onnx", folder)) == []
    return folder


def run_readme(folder, capsys, monkeypatch, **values):
    """Run the README with other values of some variables; return what it prints and all."""
    code = re.search(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.S)[1]
    for name, value in values.items():
        code, count = re.subn(rf"^{name} = .*$", f"{name} = {value!r}", code, flags=re.M)
        assert count == 1
    monkeypatch.chdir(folder.parent)
    assert "workings" not in code
    variables = {}
    exec(compile(code, folder / "README.md", "exec"), variables)  # noqa: S102
    return capsys.readouterr().out, variables


@pytest.fixture(scope="module")
def byte_pairs():
    return BytePairTokenizer.train(["low lower lowest, naïve 🙂"] * 10, vocab_size=290)


@pytest.mark.slow
def test_language_model_generates_what_the_run_generates(byte_pairs, tmp_path, capsys, monkeypatch):
    task = language_task(byte_pairs, layers=1)
    folder = export(task, tmp_path / "model")
    files = ["README.md", WITH_PAST_FILE, "model.json", "model.onnx"]
    files += ["tokenizer.json", "tokenizer_config.json"]
    assert sorted(path.name for path in folder.iterdir()) == files
    printed, _ = run_readme(folder, capsys, monkeypatch, prompt=PROMPT)
    assert printed == task.complete(PROMPT, 20, GREEDY) + "\n"
    # The description says what the file says.
    about = json.loads((folder / "model.json").read_text())
    model, described = onnx.load(folder / WITH_PAST_FILE), about["files"][WITH_PAST_FILE]
    for values, entries in ((model.graph.input, "inputs"), (model.graph.output, "outputs")):
        assert [v.name for v in values] == [entry["name"] for entry in described[entries]]
    shape = model.graph.input[1].type.tensor_type.shape.dim
    assert [dim.dim_param or dim.dim_value for dim in shape] == ["batch", 4, "past_length", 4]
    assert about["special_ids"] == {"pad": 0, "bos": 1, "unk": 2}
    # Nothing of the machine that wrote it.
    for name in ("model.onnx", WITH_PAST_FILE):
        assert str(tmp_path.parent).encode() not in (folder / name).read_bytes()
        assert b"site-packages" not in (folder / name).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("padding", ["masked", "unmasked", "left"])
def test_classifier_predicts_what_the_run_predicts(padding, tmp_path, capsys, monkeypatch):
    task = classification_task(WORDS, kind="transformer", padding=padding)
    texts = ["the cat", "a dog <pad> sees! the cat", "", "the cat " * 9]
    printed, _ = run_readme(export(task, tmp_path / "model"), capsys, monkeypatch, texts=texts)
    labels = [task.labels[k] for k in task.predict(texts).argmax(1)]
    assert printed.splitlines() == [f"{p}\t{t}" for p, t in zip(labels, texts, strict=True)]


@pytest.mark.slow
def test_classifier_with_several_labels_predicts_what_the_run_predicts(
    tmp_path, capsys, monkeypatch
):
    task = several_labels_task(WORDS)
    texts = ["the cat", "a dog sees the cat", "", "dog"]
    printed, _ = run_readme(export(task, tmp_path / "model"), capsys, monkeypatch, texts=texts)
    labels = [
        [
            label
            for label, p in zip(task.labels, row, strict=True)
            if p >= task.recipe.train.threshold
        ]
        for row in task.predict(texts)
    ]
    assert len({*map(tuple, labels)}) > 1
    expected = ["\t".join([*row, text]) for row, text in zip(labels, texts, strict=True)]
    assert printed.splitlines() == expected


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
def test_translator_translates_what_the_run_translates(kind, tmp_path, capsys, monkeypatch):
    task = translation_task(WORDS, kind=kind)
    folder, text = export(task, tmp_path / "model"), "The cat sees a dog <pad>."
    _, variables = run_readme(folder, capsys, monkeypatch, text=text)
    (best,) = task.translate([text], SearchConfig(beams=1))
    assert_same_start(variables["tokens"], best[0].tokens)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
def test_captioner_describes_what_the_run_describes(kind, tmp_path, capsys, monkeypatch):
    task = captioning_task(kind)
    pixels = np.random.default_rng(0).integers(256, size=(40, 30, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "picture.png")
    _, variables = run_readme(export(task, tmp_path / "model"), capsys, monkeypatch)
    image = read_image(tmp_path / "picture.png", 16)
    (best,) = task.caption([image], CaptionSearchConfig(beams=1))
    assert_same_start(variables["tokens"], best[0].tokens)


def assert_same_start(tokens, expected):
    """Compare generated tokens; the two have different limits of the length."""
    count = min(len(tokens) - 1, len(expected))
    assert count > 0
    assert tokens[1 : count + 1] == list(expected[:count])


@pytest.mark.parametrize("format_name", ["gpt2", "ctranslate2", "onyx"])
def test_other_formats_are_refused_before_anything_is_written(format_name, tmp_path):
    tasks = {"classifier": classification_task(["a"]), "captioner": captioning_task()}
    messages = {
        "classifier": f"--to {format_name}: for a classifier, .*onnx",
        "captioner": "a captioner can be exported to onnx only",
    }
    for noun, task in tasks.items():
        with pytest.raises(UserError, match=messages[noun]):
            task.export(FolderExporter(format_name, tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_missing_package_names_the_extra(byte_pairs, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ModuleNotFoundError, match="onnxscript"):
        language_task(byte_pairs).export(FolderExporter("onnx", tmp_path / "new"))
    assert list(tmp_path.iterdir()) == []


def test_too_large_a_model_is_refused(tmp_path):
    class Large(Graph):
        def forward(self, *tensors):
            return tensors

    graph = Large((), ())
    graph.weight = torch.nn.Parameter(torch.empty(2**30, device="meta"))
    with pytest.raises(UserError, match=r"4\.0 GB of weights: an ONNX file has at most 2 GB"):
        write_graph(graph, tmp_path / "model.onnx")
