"""The routes of Inspect return what the library computes, for every kind of run."""

import base64
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pages import format_weight
from starlette.testclient import TestClient

from workings.interpret.attention import (
    HeadIndex,
    ablate_heads,
    compute_alignment,
    compute_attention_maps,
)
from workings.interpret.attribution import explain
from workings.interpret.heads import read_head
from workings.tasks.language_modeling import LanguageModeling
from workings.trace import Trace
from workings.training.runs import load

TEXT = 'He said "well'
Json = dict[str, Any]
FIRST_HEAD = {"part": "decoder", "layer": 1, "head": 1}


def inspect(client: TestClient, path: str = "", **body: Any) -> Json:
    response = client.post(f"/api/inspect{path}", json=body)
    assert response.status_code == 200, response.text
    view: Json = response.json()
    return view


def error_of(client: TestClient, path: str, **body: Any) -> str:
    response = client.post(f"/api/inspect{path}", json=body)
    assert response.status_code == 422, response.text
    message: str = response.json()["error"]
    assert "\n" not in message
    return message


def decode_numbers(heatmap: Json) -> np.ndarray:
    raw = np.frombuffer(base64.b64decode(heatmap["numbers"]), "<i2").astype(float)
    shape = len(heatmap["rows"]), len(heatmap["columns"])
    return raw.reshape(shape) / 10 ** heatmap["decimals"]


def decode_levels(heatmap: Json) -> np.ndarray:
    raw = np.frombuffer(base64.b64decode(heatmap["levels"]), np.uint8)
    return raw.reshape(len(heatmap["rows"]), len(heatmap["columns"]))


def draw_first_scene() -> np.ndarray:
    from workings.data.scenes import draw_scene, generate_scenes

    return draw_scene(next(generate_scenes("test")), 32)


@pytest.mark.parametrize("name", ["gpt", "rotary", "lstm"])
def test_next_token_probabilities(
    runs_client: TestClient, runs: dict[str, Path], name: str
) -> None:
    view = inspect(runs_client, run=name, text=TEXT)
    (first,) = load(runs[name]).stream(TEXT, 1, num_alternatives=12)  # type: ignore[attr-defined]
    expected = [p for _, p in first.alternatives]
    assert [bar["probability"] for bar in view["bars"]] == pytest.approx(expected)
    assert view["tokens"] == [c.replace(" ", "␣") for c in TEXT]
    assert view["has_positions"] is (name != "lstm")


def test_completion(runs_client: TestClient, runs: dict[str, Path]) -> None:
    task: Any = load(runs["gpt"])
    view = inspect(runs_client, "/complete", run="gpt", text=TEXT, max_new_tokens=20)
    assert TEXT + "".join(t["text"] for t in view["tokens"]) == task.complete(TEXT, 20)
    assert view["stop_reason"] == ""
    for name in ("fruit", "french", "squares"):
        message = error_of(runs_client, "/complete", run=name, text="a")
        assert message == "only a language model can continue a text"


@pytest.mark.parametrize(("name", "text"), [("gpt", TEXT), ("fruit", "fig iron plum")])
def test_heatmap_of_every_head(
    runs_client: TestClient, runs: dict[str, Path], name: str, text: str
) -> None:
    (stack,) = inspect(runs_client, run=name, text=text)["stacks"]
    maps = compute_attention_maps(load(runs[name]), text).maps
    assert [len(layer) for layer in stack["thumbs"]] == [2, 2]
    for k, head_map in enumerate(maps):
        layer, head = divmod(k, 2)
        body = {"part": stack["part"], "layer": layer + 1, "head": head + 1}
        heatmap = inspect(runs_client, "/map", run=name, text=text, **body)
        weights = np.asarray([list(row) for row in head_map.weights])
        np.testing.assert_allclose(decode_numbers(heatmap), weights, atol=0.5e-4 + 1e-6)
        masked = decode_levels(heatmap) == 255
        assert masked[0, 1:].all() == (name == "gpt")
        assert not masked[weights > 0].any()
        texts = np.where(masked, "", [[format_weight(w) for w in row] for row in weights])
        assert heatmap["texts"] == texts.tolist()


def test_large_heatmap_lists_largest_per_row(runs_client: TestClient) -> None:
    text = "she said well " * 4
    head = {"part": "decoder", "layer": 2, "head": 1}
    heatmap = inspect(runs_client, "/map", run="rotary", text=text, **head)
    assert heatmap["texts"] is None
    largest = decode_numbers(heatmap).argmax(1)
    assert [row[0][0] for row in heatmap["largest_per_row"]] == largest.tolist()
    (stack,) = inspect(runs_client, run="rotary", text=text)["stacks"]
    assert stack["size"] == [28, 28]
    thumbnail = np.frombuffer(base64.b64decode(stack["thumbs"][1][0]), np.uint8).reshape(28, 28)
    levels = decode_levels(heatmap)
    levels = np.where(levels == 255, 0, levels)
    np.testing.assert_array_equal(thumbnail, levels.reshape(28, 2, 28, 2).max((1, 3)))


def test_ablated_head_changes_probabilities(runs_client: TestClient, runs: dict[str, Path]) -> None:
    task: Any = load(runs["gpt"])
    head = {"part": "decoder", "layer": 1, "head": 2}
    view = inspect(runs_client, run="gpt", text=TEXT, ablated_heads=[head])
    intact = inspect(runs_client, run="gpt", text=TEXT)
    with ablate_heads(task.model, [HeadIndex("decoder", 1, 2)]):
        (token,) = task.stream(TEXT, 1, num_alternatives=99)
    probabilities = dict(token.alternatives)
    baseline = {bar["name"]: bar["probability"] for bar in intact["bars"]}
    for bar in view["bars"]:
        name = bar["name"].replace("␣", " ").replace("⏎", "\n")
        assert bar["probability"] == pytest.approx(probabilities[name])
        assert bar["other"] == pytest.approx(baseline.get(bar["name"], bar["other"]))
        change = 100 * (bar["probability"] - bar["other"])
        assert float(bar["change"].replace("−", "-")) == pytest.approx(change, abs=0.051)
    assert view["stacks"][0]["ablated"] == [[False, True], [False, False]]
    # The same without hooks: set the head's columns of the output projection to zero.
    matrix = task.model.blocks[0].attention.output.weight
    with torch.no_grad():
        matrix[:, 4:8] = 0
    (token,) = task.stream(TEXT, 1, num_alternatives=99)
    assert dict(token.alternatives) == pytest.approx(probabilities)


def test_derivation_and_table_for_work(
    runs_client: TestClient, client: TestClient, runs: dict[str, Path]
) -> None:
    body = {"part": "decoder", "layer": 2, "head": 1, "row": 5, "column": 3}
    view, table = inspect(runs_client, "/working", run="rotary", text=TEXT, **body)
    head = read_head(load(runs["rotary"]), TEXT, 2, 1)
    cell = head.cell("weights", 6, 4).to_dict()
    assert view["working"]["text"] == cell["working"]
    names = [row[0].removeprefix("▸ ") for row in view["terms"]["rows"]]
    assert names == [line["name"] for line in cell["lines"]]
    worked = client.post("/api/work", json={"table": table}).json()
    weights = next(step for step in worked["steps"] if step["key"] == "weights")
    assert float(weights["values"][5][3]) == pytest.approx(
        head.problem.exact_matrices["weights"].mid[5, 3]
    )


def test_classification_and_attribution(runs_client: TestClient, runs: dict[str, Path]) -> None:
    text = "fig <b> plum"
    task: Any = load(runs["fruit"])
    view = inspect(runs_client, run="fruit", text=text)
    expected = dict(zip(task.labels, task.predict([text])[0].tolist(), strict=True))
    assert {bar["name"]: bar["probability"] for bar in view["bars"]} == pytest.approx(expected)
    strips: Any = inspect(runs_client, "/explain", run="fruit", text=text)
    attribution = explain(task, text)
    assert [strip["name"] for strip in strips] == ["occlusion", "gradient", "attention"]
    for strip, values in zip(strips, attribution.token_attributions, strict=True):
        assert strip["texts"] == [f"{v:.3f}".replace("-", "−") for v in values.values]
        assert strip["tokens"] == [text[a:b] for a, b in attribution.spans]
    assert "of a classifier" in error_of(runs_client, "/explain", run="gpt", text="a")


@pytest.mark.parametrize("name", ["french", "french-rnn"])
def test_translation_and_alignment(
    runs_client: TestClient, runs: dict[str, Path], name: str
) -> None:
    source = "one red cat"
    task: Any = load(runs[name])
    view = inspect(runs_client, run=name, text=source)
    assert view["output"]["text"] == next(task.translate_best([source]))
    parts = [stack["part"] for stack in view["stacks"]]
    assert parts == ["alignment", *(["cross", "decoder", "encoder"] if name == "french" else [])]
    heatmap = inspect(runs_client, "/map", run=name, text=source, part="alignment")
    expected = np.asarray([list(row) for row in compute_alignment(task, source).maps[0].weights])
    np.testing.assert_allclose(decode_numbers(heatmap), expected, atol=0.5e-4 + 1e-6)
    if name == "french-rnn":
        return
    heads = [{"part": "cross", "layer": k, "head": h} for k in (1, 2) for h in (1, 2)]
    ablated = inspect(runs_client, run=name, text=source, ablated_heads=heads)
    assert ablated["output"]["note"] != view["output"]["note"]
    assert ablated["baseline"] == view["output"]
    body = {"part": "cross", "layer": 1, "head": 2, "row": 0, "column": 1}
    _, table = inspect(runs_client, "/working", run=name, text=source, **body)
    assert table["context_tokens"][-1] == "</s>"


def test_caption_of_scene_and_of_uploaded_picture(
    runs_client: TestClient, runs: dict[str, Path]
) -> None:
    from workings.render.images import encode_png_rgb

    task: Any = load(runs["squares"])
    pixels = draw_first_scene()
    view = inspect(runs_client, run="squares", scene=1)
    caption = next(task.caption([pixels]))[0].text
    assert view["output"]["text"] == caption
    assert view["output"]["caption_attention"]["image"].startswith("data:image/png;base64,")
    picture = base64.b64encode(encode_png_rgb(pixels)).decode()
    uploaded = inspect(runs_client, run="squares", picture=picture)
    assert uploaded["output"]["note"] == view["output"]["note"]
    words = [tile["word"] for tile in uploaded["output"]["caption_attention"]["tiles"]]
    assert words == caption.split()
    assert "base64" in error_of(runs_client, "", run="squares", picture="no picture!")
    invalid = base64.b64encode(b"GIF89a nothing").decode()
    assert error_of(runs_client, "", run="squares", picture=invalid)


def test_heads_of_captioner(runs_client: TestClient, runs: dict[str, Path]) -> None:
    task: Any = load(runs["grids"])
    pixels = draw_first_scene()
    view = inspect(runs_client, run="grids", scene=1)
    caption = next(task.caption([pixels]))[0].text
    assert view["output"]["text"] == caption
    assert [stack["part"] for stack in view["stacks"]] == ["cross", "decoder"]
    body = {"part": "cross", "layer": 2, "head": 1}
    heatmap = inspect(runs_client, "/map", run="grids", scene=1, **body)
    head = read_head(task, pixels, 2, 1, part="cross", target=caption)
    weights = head.model_steps["weights"]
    np.testing.assert_allclose(decode_numbers(heatmap), weights, atol=0.5e-4 + 1e-6)
    cell, _ = inspect(runs_client, "/working", run="grids", scene=1, **body, row=0, column=5)
    assert cell["working"]["text"] == head.cell("weights", 1, 6).to_dict()["working"]
    ablated = inspect(runs_client, run="grids", scene=1, ablated_heads=[body])
    assert ablated["stacks"][0]["ablated"] == [[False, False], [True, False]]
    assert ablated["baseline"]["text"] == caption


@pytest.mark.parametrize("name", ["lstm", "gpt"])
def test_activations_of_cell(runs_client: TestClient, runs: dict[str, Path], name: str) -> None:
    view = inspect(runs_client, "/cells", run=name, text=TEXT, group=1)
    assert view["cell"] == view["others"][0]
    assert len(view["strip"]["texts"]) == len(TEXT)
    chosen = inspect(runs_client, "/cells", run=name, text=TEXT, group=1, cell=view["cell"])
    assert chosen["strip"] == view["strip"]
    if name == "lstm":
        task: Any = load(runs[name])
        ids = torch.tensor([task.tokenizer.encode(TEXT)])
        _, state = task.model.forward_features(ids, None)
        last = state.layers[0][0][1][0, view["cell"] - 1].item()
        assert view["strip"]["texts"][-1] == f"{last:.3f}".replace("-", "−")
    assert "counted from 1" in error_of(runs_client, "/cells", run=name, text=TEXT, group=99)
    assert "counted from 1" in error_of(runs_client, "/cells", run=name, text=TEXT, cell=999)
    assert "expected 1 to 2,048" in error_of(runs_client, "/cells", run=name, text="")
    assert "only language models have cells" in error_of(
        runs_client, "/cells", run="fruit", text="fig"
    )
    assert "reads no text" in error_of(runs_client, "/cells", run="squares", text="fig")


def test_position_vectors(runs_client: TestClient, runs: dict[str, Path]) -> None:
    task: Any = load(runs["gpt"])
    table = task.model.positions.table.detach().double().numpy()
    vectors, products = inspect(runs_client, "/positions", run="gpt")
    np.testing.assert_allclose(decode_numbers(vectors), table[:64], atol=1e-4)
    np.testing.assert_allclose(decode_numbers(products), table[:64] @ table[:64].T, atol=1e-4)
    rotary = decode_numbers(inspect(runs_client, "/positions", run="rotary")[1])
    np.testing.assert_allclose(np.diag(rotary), 1, atol=1e-4)
    np.testing.assert_allclose(rotary[1:, 1:], rotary[:-1, :-1], atol=1e-3)
    assert "no positional encoding" in error_of(runs_client, "/positions", run="lstm")


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("", {"run": "gtp"}, "did you mean 'gpt'?"),
        ("", {"run": "../gpt"}, "no such run"),
        ("", {"run": "gpt", "text": "x" * 20_001}, "text"),
        ("", {"run": "gpt", "text": "x" * 3000}, "at most 2,048"),
        ("", {"run": "fruit", "text": ""}, "enter a text"),
        ("", {"run": "french", "text": " "}, "enter a sentence"),
        ("", {"run": "squares", "scene": 0}, "scene"),
        ("", {"run": "gpt", "ablated_heads": [{**FIRST_HEAD, "part": "cross"}]}, "no such heads"),
        ("", {"run": "gpt", "ablated_heads": [{**FIRST_HEAD, "layer": 3}]}, "has 2"),
        ("/map", {"run": "gpt", "text": "ab", **FIRST_HEAD, "head": 9}, "2 heads"),
        ("/map", {"run": "gpt", "text": "ab", "part": "encoder"}, "no such attention"),
        ("/complete", {"run": "gpt", "max_new_tokens": 201}, "max_new_tokens"),
        ("/complete", {"run": "gpt", "temperature": float("1e9")}, "temperature"),
        ("/working", {"run": "gpt", "text": "ab", **FIRST_HEAD, "row": 7, "column": 0}, "no cell"),
    ],
)
def test_invalid_request_returns_one_line_error(
    runs_client: TestClient, path: str, body: Json, message: str
) -> None:
    assert message in error_of(runs_client, path, **body)


def test_text_too_long_for_heatmaps_has_an_output(runs_client: TestClient) -> None:
    view = inspect(runs_client, run="rotary", text="well, " * 100)
    assert view["stacks"] == []
    assert view["output"]["notes"][-1] == "600 tokens: attention is shown for at most 512"
    assert len(view["bars"]) == 12


def test_without_runs_error_names_the_command(client: TestClient) -> None:
    assert "workings serve RUN…" in error_of(client, "", run="gpt", text="a")


@pytest.mark.parametrize(("name", "part"), [("gpt", "decoder"), ("french-rnn", "alignment")])
def test_heads_are_exported_as_one_file(runs_client: TestClient, name: str, part: str) -> None:
    body = {"run": name, "text": "one two", "part": part}
    response = runs_client.post("/api/inspect/export", json=body)
    assert "attachment" in response.headers["content-disposition"]
    data = re.search(r'id="data">(.*?)</script>', response.text)
    assert data is not None
    first, *others = json.loads(data[1])["state"]["data"]["maps"]
    assert len(others) == (3 if part == "decoder" else 0)
    heatmap = inspect(runs_client, "/map", **body)
    assert (decode_numbers(first) == decode_numbers(heatmap)).all()
    assert "there are" in error_of(runs_client, "/export", **body, layer=9)


def test_model_is_drawn_stage_by_stage(runs_client: TestClient, runs: dict[str, Path]) -> None:
    drawing = inspect(runs_client, "/model", run="gpt", text=TEXT)
    stage = next(s for s in drawing["stages"] if s["path"] == "blocks.1.attention")
    assert (stage["group"], stage["name"]) == ("layer 2", "attention")
    assert (stage["num_tokens"], stage["width"], stage["size"]) == (len(TEXT), 8, [len(TEXT), 8])
    heatmap = inspect(runs_client, "/stage", run="gpt", text=TEXT, stage=stage["path"])
    task = load(runs["gpt"], LanguageModeling)
    with torch.no_grad(), Trace(task.model) as trace:
        task.model(torch.tensor([task.encode_with_spans(TEXT)[0]]))
    numbers = np.frombuffer(base64.b64decode(heatmap["numbers"]), "<i2").reshape(len(TEXT), 8)
    expected = trace["blocks.1.attention.output"][0].numpy()
    unit = 10.0 ** -heatmap["decimals"]
    np.testing.assert_allclose(numbers * unit, expected, rtol=0, atol=unit)
    ablated = [{"part": "decoder", "layer": 2, "head": k} for k in (1, 2)]
    body = {"run": "gpt", "text": TEXT, "ablated_heads": ablated}
    bias = task.model.blocks[1].attention.output.bias.detach().numpy()
    heatmap = inspect(runs_client, "/stage", stage=stage["path"], **body)
    numbers = np.frombuffer(base64.b64decode(heatmap["numbers"]), "<i2").reshape(len(TEXT), 8)
    unit = 10.0 ** -heatmap["decimals"]
    np.testing.assert_allclose(numbers * unit, np.tile(bias, (len(TEXT), 1)), rtol=0, atol=unit)


def test_unknown_stage_is_an_error(runs_client: TestClient) -> None:
    message = error_of(runs_client, "/stage", run="gpt", text=TEXT, stage="blocks.1.atention")
    assert "did you mean 'blocks.1.attention'" in message
