"""The routes of Compare: two runs, two inputs, permuted tokens, training curves."""

import base64
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient

from workings.interpret.attention import collect
from workings.interpret.positions import measure_permutation
from workings.training.run_folder import diff_configs
from workings.training.runs import load

TEXT = 'said "well"'
Json = dict[str, Any]


def compare(client: TestClient, first: Json, second: Json, **options: Any) -> Json:
    response = client.post("/api/compare", json={"first": first, "second": second, **options})
    assert response.status_code == 200, response.text
    view: Json = response.json()
    return view


def decode_numbers(heatmap: Json) -> np.ndarray:
    raw = np.frombuffer(base64.b64decode(heatmap["numbers"]), "<i2").astype(float)
    shape = len(heatmap["rows"]), len(heatmap["columns"])
    return (raw / 10 ** heatmap["decimals"]).reshape(shape)


def next_token_probabilities(run: Path, text: str) -> dict[str, float]:
    task: Any = load(run)
    task.model.eval()
    with torch.no_grad():
        logits, _ = task.model.start(torch.tensor([task.tokenizer.encode(text)]))
    return {
        task.tokenizer.id_to_token(k).replace("\n", "⏎").replace(" ", "␣"): p
        for k, p in enumerate(torch.softmax(logits[0], -1).tolist())
    }


def test_two_runs_on_one_input(runs_client: TestClient, runs: dict[str, Path]) -> None:
    first, second = {"run": "gpt", "text": TEXT}, {"run": "rotary", "text": TEXT}
    view = compare(runs_client, first, second, part="decoder", layer=2, head=1)
    p, q = (next_token_probabilities(runs[name], TEXT) for name in ("gpt", "rotary"))
    for pair in view["pairs"]:
        assert pair["probability"] == pytest.approx(p[pair["name"]], abs=1e-6)
        assert pair["other"] == pytest.approx(q[pair["name"]], abs=1e-6)
        change = float(pair["change"].replace("−", "-"))
        assert change == pytest.approx(100 * (pair["other"] - pair["probability"]), abs=0.051)
    assert len(view["pairs"]) + view["num_omitted"] == len(p)
    distance = sum(abs(value - q[name]) for name, value in p.items()) / 2
    assert f"total variation distance {100 * distance:.1f} %" in view["summary"]
    weights = [
        collect(load(runs[name]), TEXT).stacks[0].head_weights(2, 1) for name in ("gpt", "rotary")
    ]
    for heatmap, expected in zip(view["maps"], [*weights, weights[1] - weights[0]], strict=True):
        np.testing.assert_allclose(decode_numbers(heatmap), expected, atol=5.1e-5)
        assert heatmap["rows"] == [*TEXT.replace(" ", "␣")]


def test_one_run_on_two_inputs(runs_client: TestClient) -> None:
    first = {"run": "fruit", "text": "fig tin pear"}
    second = {"run": "fruit", "text": "tin tin pear"}
    view = compare(runs_client, first, second)
    assert view["maps"][2]["rows"] == ["fig | tin", "tin", "pear"]
    assert "the tokens differ" in view["maps_summary"]
    assert sorted(pair["name"] for pair in view["pairs"]) == ["fruit", "metal"]
    shorter = compare(runs_client, first, {**second, "text": "tin pear"})
    assert len(shorter["maps"]) == 2
    assert "3×3 and 2×2" in shorter["maps_summary"]
    same = compare(runs_client, first, first)
    assert not decode_numbers(same["maps"][2]).any()
    assert "total variation distance 0.0 %" in same["summary"]


def test_translations(runs_client: TestClient, runs: dict[str, Path]) -> None:
    names = ("french", "french-rnn")
    view = compare(runs_client, *({"run": name, "text": "red dog"} for name in names))
    for side, name in zip(view["sides"], names, strict=True):
        task: Any = load(runs[name])
        assert side["text"] == next(task.translate_best(["red dog"]))
    assert view["pairs"] == []
    assert view["heads"] == {"alignment": [1, 1]}


def test_captions(runs_client: TestClient) -> None:
    first, second = {"run": "grids", "scene": 1}, {"run": "grids", "scene": 2}
    view = compare(runs_client, first, second)
    outputs = [runs_client.post("/api/inspect", json=side).json() for side in (first, second)]
    for side, output in zip(view["sides"], outputs, strict=True):
        assert side == output["output"]
    assert view["heads"] == {"cross": [2, 2], "decoder": [2, 2]}
    without_heads = {"run": "squares"}
    notes = compare(runs_client, first, without_heads)["notes"]
    assert notes == ["B: no attention heads to compare"]
    assert compare(runs_client, without_heads, without_heads)["notes"] == []
    recurrent = {"run": "lstm", "text": "a"}
    for sides in ((first, recurrent), (recurrent, first)):
        (note,) = compare(runs_client, *sides)["notes"]
        assert "no attention heads" in note


def test_runs_of_different_tasks(runs_client: TestClient) -> None:
    sides = {"run": "fruit", "text": "fig"}, {"run": "lstm", "text": "fig"}
    view = compare(runs_client, *sides)
    assert "different tasks" in view["summary"]
    assert view["maps"] == []
    assert view["notes"] == ["B: no attention heads to compare"]


@pytest.mark.parametrize("order", ["reversed", "swapped", "shuffled"])
def test_permutation_equals_library(
    runs_client: TestClient, runs: dict[str, Path], order: Any
) -> None:
    text, task = "fig tin pear plum", load(runs["fruit"])
    for use_positions in (True, False):
        body = {"run": "fruit", "text": text, "order": order, "seed": 3, "layer": 2, "head": 2}
        body["use_positions"] = use_positions
        view = runs_client.post("/api/permute", json=body).json()
        result = measure_permutation(task, text, order, seed=3, use_positions=use_positions)
        assert view["permuted_tokens"] == [result.tokens[k] for k in result.order]
        assert view["has_removable_positions"] is True
        is_rounding = [row[-1] for row in view["layers"]["rows"]]
        assert is_rounding == ["no" if use_positions else "yes"] * 2
        deviation = np.stack([layer.differences for layer in result.layers])
        np.testing.assert_allclose(decode_numbers(view["deviation"]), deviation, atol=5.1e-4)
        if use_positions:
            largest = result.layers[-1].max_difference
            assert float(view["residual"]) == pytest.approx(largest, abs=5e-4)
            assert "sinusoidal positions" in view["summary"]
        else:
            assert re.fullmatch(r"0|\d\.\d·10⁻[⁶⁷⁸⁹]", view["residual"])
            assert "up to rounding" in view["summary"]
        expected = result.permuted_weights[1][1] - result.expected_weights[1][1]
        difference = decode_numbers(view["maps"][2])
        np.testing.assert_allclose(difference, expected, atol=5.1e-5)


def test_training_curves_and_settings(runs_client: TestClient, runs: dict[str, Path]) -> None:
    view = runs_client.get("/api/compare/curves?first=gpt&second=rotary").json()
    expected = diff_configs(runs["gpt"], runs["rotary"])
    *charts, best, differences = view
    settings = {key: values for key, *values in differences["rows"]}
    assert list(settings) == list(expected)
    assert settings["title"] == ["A small one", ""]
    assert settings["model.positions"] == ["learned", "–"]
    headers = {chart["title"]: chart["header"] for chart in charts}
    columns = ["A, validation", "A, train", "B, validation", "B, train"]
    assert headers["loss by epoch"] == ["epoch", *columns]
    assert best["header"] == ["best", "A: gpt", "B: rotary"]


SIDE = {"run": "gpt", "text": "x"}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("compare", {"first": SIDE, "second": {"run": "other", "text": "x"}}),
        ("compare", {"first": SIDE, "second": {"run": "squares", "scene": 201}}),
        ("compare", {"first": SIDE, "second": SIDE, "layer": 3}),
        ("compare", {"first": SIDE, "second": SIDE, "head": 0}),
        ("compare", {"first": SIDE, "second": SIDE, "part": "encoder"}),
        ("compare", {"first": SIDE, "second": SIDE, "part": "<b>"}),
        ("compare", {"first": SIDE, "second": {"run": "gpt", "text": "x" * 20_001}}),
        ("compare", {"first": SIDE}),
        ("permute", {"run": "gpt", "text": ""}),
        ("permute", {"run": "lstm", "text": "x"}),
        ("permute", {"run": "french-rnn", "text": "red dog"}),
        ("permute", {"run": "rotary", "text": "x", "use_positions": False}),
        ("permute", {"run": "gpt", "text": "x", "order": "sideways"}),
        ("permute", {"run": "gpt", "text": "x" * 600}),
        ("permute", {"run": "../gpt", "text": "x"}),
    ],
)
def test_invalid_request_returns_error(runs_client: TestClient, path: str, body: Json) -> None:
    response = runs_client.post(f"/api/{path}", json=body)
    assert response.status_code == 422, response.text
    assert list(response.json()) == ["error"]


def test_invalid_request_for_curves_returns_error(runs_client: TestClient) -> None:
    for query in ("first=gpt", "first=gpt&second=..", "first=gpt&second=lstm&width=1"):
        assert runs_client.get(f"/api/compare/curves?{query}").status_code == 422
