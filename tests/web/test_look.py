"""The screen Look is told what the library says, of every kind of run."""

import base64
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pages import short
from starlette.testclient import TestClient

from workings.interpret.attention import HeadIndex, ablate_heads
from workings.interpret.attention_maps import compute_alignment, compute_attention_maps
from workings.interpret.attribution import explain
from workings.interpret.heads import read_head
from workings.training.runs import load

TEXT = 'He said "well'
Json = dict[str, Any]
FIRST = {"part": "decoder", "layer": 1, "head": 1}


def told(looking: TestClient, path: str, **asked: Any) -> Json:
    response = looking.post(f"/api/inspect{path}", json=asked)
    assert response.status_code == 200, response.text
    found: Json = response.json()
    return found


def refused(looking: TestClient, path: str, **asked: Any) -> str:
    response = looking.post(f"/api/inspect{path}", json=asked)
    assert response.status_code == 422, response.text
    line: str = response.json()["error"]
    assert "\n" not in line
    return line


def numbers(found: Json) -> np.ndarray:
    raw = np.frombuffer(base64.b64decode(found["numbers"]), "<i2").astype(float)
    return raw.reshape(len(found["rows"]), len(found["columns"])) / 10 ** found["decimals"]


def levels(found: Json) -> np.ndarray:
    raw = np.frombuffer(base64.b64decode(found["levels"]), np.uint8)
    return raw.reshape(len(found["rows"]), len(found["columns"]))


@pytest.mark.parametrize("name", ["gpt", "rotary", "lstm"])
def test_the_next_token_is_as_likely_as_the_library_says(
    looking: TestClient, runs: dict[str, Path], name: str
) -> None:
    found = told(looking, "", run=name, text=TEXT)
    (first,) = load(runs[name]).stream(TEXT, 1, num_alternatives=12)  # type: ignore[attr-defined]
    assert [bar["probability"] for bar in found["bars"]] == pytest.approx(
        [p for _, p in first.alternatives]
    )
    assert found["tokens"] == [c.replace(" ", "␣") for c in TEXT]
    assert found["has_positions"] is (name != "lstm")


def test_completions_are_the_librarys(looking: TestClient, runs: dict[str, Path]) -> None:
    task: Any = load(runs["gpt"])
    found = told(looking, "/complete", run="gpt", text=TEXT, max_new_tokens=20)
    assert TEXT + "".join(t["text"] for t in found["tokens"]) == task.complete(TEXT, 20)
    assert found["stop_reason"] == ""
    assert "only a language model" in refused(looking, "/complete", run="fruit", text="a")


@pytest.mark.parametrize(("name", "text"), [("gpt", TEXT), ("fruit", "fig iron plum")])
def test_every_head_is_the_librarys(
    looking: TestClient, runs: dict[str, Path], name: str, text: str
) -> None:
    found = told(looking, "", run=name, text=text)
    (stack,) = found["stacks"]
    maps = compute_attention_maps(load(runs[name]), text).maps
    assert [len(layer) for layer in stack["thumbs"]] == [2, 2]
    for k, one in enumerate(maps):
        layer, head = divmod(k, 2)
        asked = {"part": stack["part"], "layer": layer + 1, "head": head + 1}
        shown = told(looking, "/map", run=name, text=text, **asked)
        weights = np.asarray([list(row) for row in one.weights])
        np.testing.assert_allclose(numbers(shown), weights, atol=0.5e-4 + 1e-6)
        hidden = levels(shown) == 255
        assert hidden[0, 1:].all() == (name == "gpt")
        assert not hidden[weights > 0].any()
        wanted = np.where(hidden, "", [[short(w) for w in row] for row in weights])
        assert shown["texts"] == wanted.tolist()


def test_a_large_map_is_drawn_and_its_largest_are_named(looking: TestClient) -> None:
    text = "she said well " * 4
    shown = told(looking, "/map", run="rotary", text=text, part="decoder", layer=2, head=1)
    assert shown["texts"] is None
    best = numbers(shown).argmax(1)
    assert [row[0][0] for row in shown["largest_per_row"]] == best.tolist()
    (stack,) = told(looking, "", run="rotary", text=text)["stacks"]
    assert stack["size"] == [28, 28]
    small = np.frombuffer(base64.b64decode(stack["thumbs"][1][0]), np.uint8).reshape(28, 28)
    whole = np.where(levels(shown) == 255, 0, levels(shown))
    np.testing.assert_array_equal(small, whole.reshape(28, 2, 28, 2).max((1, 3)))


def test_a_head_that_is_off_changes_what_comes_out(
    looking: TestClient, runs: dict[str, Path]
) -> None:
    task: Any = load(runs["gpt"])
    off = [{"part": "decoder", "layer": 1, "head": 2}]
    found = told(looking, "", run="gpt", text=TEXT, ablated_heads=off)
    before = told(looking, "", run="gpt", text=TEXT)
    with ablate_heads(task.model, [HeadIndex("decoder", 1, 2)]):
        (now,) = task.stream(TEXT, 1, num_alternatives=99)
    chances = dict(now.alternatives)
    was = {bar["name"]: bar["probability"] for bar in before["bars"]}
    for bar in found["bars"]:
        name = bar["name"].replace("␣", " ").replace("⏎", "\n")
        assert bar["probability"] == pytest.approx(chances[name])
        assert bar["baseline"] == pytest.approx(was.get(bar["name"], bar["baseline"]))
        assert (
            bar["change"].replace("−", "-")
            == f"{100 * (bar['probability'] - bar['baseline']):+.1f}"
        )
    assert found["stacks"][0]["ablated"] == [[False, True], [False, False]]
    # By hand: the columns of the output matrix that the head's values go through are nought.
    matrix = task.model.blocks[0].attention.output.weight
    with torch.no_grad():
        matrix[:, 4:8] = 0
    (by_hand,) = task.stream(TEXT, 1, num_alternatives=99)
    assert dict(by_hand.alternatives) == pytest.approx(chances)


def test_a_cell_is_written_out_and_opens_in_work(
    looking: TestClient, client: TestClient, runs: dict[str, Path]
) -> None:
    asked = {"part": "decoder", "layer": 2, "head": 1, "row": 5, "column": 3}
    found = told(looking, "/working", run="rotary", text=TEXT, **asked)
    head = read_head(load(runs["rotary"]), TEXT, 2, 1)
    cell = head.cell("weights", 6, 4).to_dict()
    assert found["working"]["text"] == cell["working"]
    assert [line["name"] for line in found["lines"]] == [line["name"] for line in cell["lines"]]
    worked = client.post("/api/work", json={"table": found["table"]}).json()
    weights = next(step for step in worked["steps"] if step["key"] == "weights")
    assert float(weights["values"][5][3]) == pytest.approx(
        head.problem.exact_matrices["weights"].mid[5, 3]
    )


def test_classes_and_the_words_that_decided(looking: TestClient, runs: dict[str, Path]) -> None:
    text = "fig <b> plum"
    task: Any = load(runs["fruit"])
    found = told(looking, "", run="fruit", text=text)
    wanted = dict(zip(task.labels, task.predict([text])[0].tolist(), strict=True))
    assert {bar["name"]: bar["probability"] for bar in found["bars"]} == pytest.approx(wanted)
    shown = told(looking, "/explain", run="fruit", text=text)
    by = explain(task, text)
    assert [s["name"] for s in shown["strips"]] == ["occlusion", "gradient", "attention"]
    for strip, shares in zip(shown["strips"], by.token_attributions, strict=True):
        assert strip["texts"] == [f"{v:.3f}".replace("-", "−") for v in shares.values]
        assert strip["tokens"] == [text[a:b] for a, b in by.spans]
    assert "only a classifier" in refused(looking, "/explain", run="gpt", text="a")


@pytest.mark.parametrize("name", ["french", "looks"])
def test_a_translation_and_its_alignment(
    looking: TestClient, runs: dict[str, Path], name: str
) -> None:
    source = "one red cat"
    task: Any = load(runs[name])
    found = told(looking, "", run=name, text=source)
    assert found["generation"]["text"] == next(task.best([source]))
    parts = [stack["part"] for stack in found["stacks"]]
    assert parts == ["alignment", *(["cross", "decoder", "encoder"] if name == "french" else [])]
    shown = told(looking, "/map", run=name, text=source, part="alignment")
    wanted = np.asarray([list(row) for row in compute_alignment(task, source).maps[0].weights])
    np.testing.assert_allclose(numbers(shown), wanted, atol=0.5e-4 + 1e-6)
    if name == "looks":
        return
    off = [{"part": "cross", "layer": k, "head": h} for k in (1, 2) for h in (1, 2)]
    changed = told(looking, "", run=name, text=source, ablated_heads=off)["generation"]
    assert changed["baseline"] == found["generation"]["text"]
    assert changed["note"] != found["generation"]["note"] == changed["baseline_note"]
    asked = {"part": "cross", "layer": 1, "head": 2, "row": 0, "column": 1}
    cell = told(looking, "/working", run=name, text=source, **asked)
    assert cell["table"]["context_tokens"][-1] == "</s>"


def test_a_caption_and_where_it_looked(looking: TestClient, runs: dict[str, Path]) -> None:
    from workings.data.scenes import draw_scene, generate_scenes
    from workings.render.images import encode_png_rgb

    task: Any = load(runs["squares"])
    pixels = draw_scene(next(generate_scenes("test")), 32)
    found = told(looking, "", run="squares", scene=1)
    assert found["generation"]["text"] == next(task.caption([pixels]))[0].text
    assert found["caption_attention"]["image"].startswith("data:image/png;base64,")
    picture = base64.b64encode(encode_png_rgb(pixels)).decode()
    sent = told(looking, "", run="squares", picture=picture)
    assert sent["generation"] == found["generation"]
    assert [tile["word"] for tile in sent["caption_attention"]["tiles"]] == found["generation"][
        "text"
    ].split()
    assert "base64" in refused(looking, "", run="squares", picture="no picture!")
    nothing = base64.b64encode(b"GIF89a nothing").decode()
    assert refused(looking, "", run="squares", picture=nothing)


def test_a_captioners_heads_are_the_librarys(looking: TestClient, runs: dict[str, Path]) -> None:
    from workings.data.scenes import draw_scene, generate_scenes

    task: Any = load(runs["grids"])
    pixels = draw_scene(next(generate_scenes("test")), 32)
    found = told(looking, "", run="grids", scene=1)
    said = next(task.caption([pixels]))[0].text
    assert found["generation"]["text"] == said
    assert [stack["part"] for stack in found["stacks"]] == ["cross", "decoder"]
    asked = {"part": "cross", "layer": 2, "head": 1}
    shown = told(looking, "/map", run="grids", scene=1, **asked)
    head = read_head(task, pixels, 2, 1, part="cross", target=said)
    np.testing.assert_allclose(numbers(shown), head.traced_steps["weights"], atol=0.5e-4 + 1e-6)
    cell = told(looking, "/working", run="grids", scene=1, **asked, row=0, column=5)
    assert cell["working"]["text"] == head.cell("weights", 1, 6).to_dict()["working"]
    off = told(looking, "", run="grids", scene=1, ablated_heads=[asked])
    assert off["stacks"][0]["ablated"] == [[False, False], [True, False]]
    assert off["generation"]["baseline"] == said


@pytest.mark.parametrize("name", ["lstm", "gpt"])
def test_a_cell_over_the_text(looking: TestClient, runs: dict[str, Path], name: str) -> None:
    found = told(looking, "/cells", run=name, text=TEXT, group=1)
    assert found["cell"] == found["others"][0]
    assert len(found["strip"]["texts"]) == len(TEXT)
    again = told(looking, "/cells", run=name, text=TEXT, group=1, cell=found["cell"])
    assert again["strip"] == found["strip"]
    if name == "lstm":
        task: Any = load(runs[name])
        ids = torch.tensor([task.tokenizer.encode(TEXT)])
        _, state = task.model.read(ids, None)
        last = state.layers[0][0][1][0, found["cell"] - 1].item()
        assert found["strip"]["texts"][-1] == f"{last:.3f}".replace("-", "−")
    assert "counted from 1" in refused(looking, "/cells", run=name, text=TEXT, group=99)
    assert "counted from 1" in refused(looking, "/cells", run=name, text=TEXT, cell=999)


def test_positions_are_the_models(looking: TestClient, runs: dict[str, Path]) -> None:
    task: Any = load(runs["gpt"])
    table = task.model.positions.table.detach().double().numpy()
    vectors, products = told(looking, "/positions", run="gpt")["maps"]
    np.testing.assert_allclose(numbers(vectors), table[:64], atol=1e-4)
    np.testing.assert_allclose(numbers(products), table[:64] @ table[:64].T, atol=1e-4)
    turned = numbers(told(looking, "/positions", run="rotary")["maps"][1])
    np.testing.assert_allclose(np.diag(turned), 1, atol=1e-4)
    np.testing.assert_allclose(turned[1:, 1:], turned[:-1, :-1], atol=1e-3)
    assert "no positions" in refused(looking, "/positions", run="lstm")


@pytest.mark.parametrize(
    ("path", "asked", "said"),
    [
        ("", {"run": "gtp"}, "did you mean 'gpt'?"),
        ("", {"run": "../gpt"}, "no such run"),
        ("", {"run": "gpt", "text": "x" * 20_001}, "text"),
        ("", {"run": "gpt", "text": "x" * 3000}, "the page takes 2,048"),
        ("", {"run": "fruit", "text": ""}, "write a text"),
        ("", {"run": "french", "text": " "}, "write a sentence"),
        ("", {"run": "squares", "scene": 0}, "scene"),
        ("", {"run": "gpt", "ablated_heads": [{"part": "cross", "layer": 1, "head": 1}]}, "no such heads"),
        ("", {"run": "gpt", "ablated_heads": [{"part": "decoder", "layer": 3, "head": 1}]}, "has 2"),
        ("/map", {"run": "gpt", "text": "ab", "part": "decoder", "layer": 1, "head": 9}, "2 heads"),
        ("/map", {"run": "gpt", "text": "ab", "part": "encoder"}, "no such attention"),
        ("/complete", {"run": "gpt", "max_new_tokens": 201}, "max_new_tokens"),
        ("/complete", {"run": "gpt", "temperature": float("1e9")}, "temperature"),
        (
            "/working",
            {"run": "gpt", "text": "ab", **FIRST, "row": 7, "column": 0},
            "no cell 8,1",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_in_a_line(
    looking: TestClient, path: str, asked: Json, said: str
) -> None:
    assert said in refused(looking, path, **asked)


def test_a_text_that_is_too_long_for_maps_still_has_an_answer(looking: TestClient) -> None:
    found = told(looking, "", run="rotary", text="well, " * 100)
    assert found["stacks"] == []
    assert found["notes"][-1] == "600 tokens: a head is written out for 512 at most"
    assert len(found["bars"]) == 12


def test_without_runs_nothing_is_asked(client: TestClient) -> None:
    assert "workings serve RUN…" in refused(client, "", run="gpt", text="a")


@pytest.mark.parametrize(("name", "part"), [("gpt", "decoder"), ("looks", "alignment")])
def test_heads_are_downloaded_as_one_file(looking: TestClient, name: str, part: str) -> None:
    asked = {"run": name, "text": "one two", "part": part}
    response = looking.post("/api/inspect/export", json=asked)
    assert "attachment" in response.headers["content-disposition"]
    held = re.search(r'id="data">(.*?)</script>', response.text)
    assert held is not None
    first, *others = json.loads(held[1])["state"]["data"]["maps"]
    assert len(others) == (3 if part == "decoder" else 0)
    assert (numbers(first) == numbers(told(looking, "/map", **asked))).all()
    assert "there are" in refused(looking, "/export", **asked, layer=9)
