"""The screen Compare: two runs, two inputs, tokens in another order, and the difference."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pages import Open, violations, visits
from starlette.testclient import TestClient

from workings.interpret.attention import collect_stacks
from workings.interpret.positions import measure_permutation
from workings.training.compare import diff_configs
from workings.training.runs import load
from workings.web.server import serve_in_background

TEXT, OTHER = 'said "well"', "went <on>, he"
JSON = dict[str, Any]


def compared(client: TestClient, first: JSON, second: JSON, **more: Any) -> JSON:
    response = client.post("/api/compare", json={"first": first, "second": second, **more})
    assert response.status_code == 200, response.text
    told: JSON = response.json()
    return told


def numbers(told: JSON) -> np.ndarray:
    """The numbers of a map, to its last decimal."""
    whole = np.frombuffer(base64.b64decode(told["numbers"]), "<i2").astype(float)
    return (whole / 10 ** told["decimals"]).reshape(len(told["rows"]), len(told["columns"]))


def chances(run: Path, text: str) -> dict[str, float]:
    task: Any = load(run)
    task.model.eval()
    with torch.no_grad():
        scores, _ = task.model.start(torch.tensor([task.tokenizer.encode(text)]))
    found = torch.softmax(scores[0], -1).tolist()
    return {
        task.tokenizer.token(k).replace("\n", "⏎").replace(" ", "␣"): p for k, p in enumerate(found)
    }


def test_two_runs_read_one_input(looking: TestClient, runs: dict[str, Path]) -> None:
    first, second = {"run": "gpt", "text": TEXT}, {"run": "rotary", "text": TEXT}
    told = compared(looking, first, second, part="decoder", layer=2, head=1)
    one, other = (chances(runs[name], TEXT) for name in ("gpt", "rotary"))
    for pair in told["pairs"]:
        assert pair["first"] == pytest.approx(one[pair["name"]], abs=1e-6)
        assert pair["second"] == pytest.approx(other[pair["name"]], abs=1e-6)
        change = float(pair["change"].replace("−", "-"))
        assert change == pytest.approx(100 * (pair["second"] - pair["first"]), abs=0.051)
    assert len(told["pairs"]) + told["num_omitted"] == len(one)
    apart = sum(abs(p - other[name]) for name, p in one.items()) / 2
    assert f"{100 * apart:.1f} % of the probability" in told["summary"]
    weights = [
        collect_stacks(load(runs[n]), TEXT)[0].weights[1][0].numpy() for n in ("gpt", "rotary")
    ]
    beside = told["head_comparison"]
    np.testing.assert_allclose(numbers(beside["first"]), weights[0], atol=5.1e-5)
    np.testing.assert_allclose(numbers(beside["second"]), weights[1], atol=5.1e-5)
    np.testing.assert_allclose(numbers(beside["difference"]), weights[1] - weights[0], atol=5.1e-5)
    assert beside["difference"]["rows"] == [*TEXT.replace(" ", "␣")]


def test_one_run_reads_two_inputs(looking: TestClient) -> None:
    first, second = (
        {"run": "fruit", "text": "fig tin pear"},
        {"run": "fruit", "text": "tin tin pear"},
    )
    told = compared(looking, first, second)
    assert told["head_comparison"]["difference"]["rows"] == ["fig | tin", "tin", "pear"]
    assert "the tokens differ" in told["head_comparison"]["summary"]
    assert sorted(pair["name"] for pair in told["pairs"]) == ["fruit", "metal"]
    shorter = compared(looking, first, {**second, "text": "tin pear"})
    assert shorter["head_comparison"]["difference"] is None
    assert "3×3 and 2×2" in shorter["head_comparison"]["summary"]
    same = compared(looking, first, first)
    assert not numbers(same["head_comparison"]["difference"]).any()
    assert "0.0 % of the probability" in same["summary"]


def test_translations_stand_side_by_side(looking: TestClient, runs: dict[str, Path]) -> None:
    first, second = {"run": "french", "text": "red dog"}, {"run": "looks", "text": "red dog"}
    told = compared(looking, first, second)
    for side, name in zip(told["sides"], ("french", "looks"), strict=True):
        task: Any = load(runs[name])
        assert side["text"] == next(task.best(["red dog"]))
    assert told["pairs"] == []
    assert [stack["part"] for stack in told["stacks"]] == ["alignment"]


def test_captions_stand_side_by_side(looking: TestClient) -> None:
    first, second = {"run": "grids", "scene": 1}, {"run": "grids", "scene": 2}
    told = compared(looking, first, second)
    looked = [looking.post("/api/inspect", json=one).json() for one in (first, second)]
    for side, one in zip(told["sides"], looked, strict=True):
        assert side["text"] == one["generation"]["text"]
        assert side["caption_attention"] == one["caption_attention"]
    assert [stack["part"] for stack in told["stacks"]] == ["cross", "decoder"]
    assert compared(looking, first, {"run": "squares"})["notes"] == [
        "B: no attention heads to put side by side"
    ]
    assert compared(looking, {"run": "squares"}, {"run": "squares"})["notes"] == []
    for pair in ((first, {"run": "lstm", "text": "a"}), ({"run": "lstm", "text": "a"}, first)):
        (note,) = compared(looking, *pair)["notes"]
        assert "no attention heads" in note


def test_what_has_nothing_in_common_is_said(looking: TestClient) -> None:
    told = compared(looking, {"run": "fruit", "text": "fig"}, {"run": "lstm", "text": "fig"})
    assert "different things" in told["summary"]
    assert told["head_comparison"] is None
    assert told["notes"] == ["B: no attention heads to put side by side"]


@pytest.mark.parametrize("order", ["reversed", "swapped", "shuffled"])
def test_the_residual_is_pythons(looking: TestClient, runs: dict[str, Path], order: Any) -> None:
    text, task = "fig tin pear plum", load(runs["fruit"])
    for positions in (True, False):
        asked = {
            "run": "fruit",
            "text": text,
            "order": order,
            "seed": 3,
            "use_positions": positions,
        }
        told = looking.post("/api/permute", json={**asked, "layer": 2, "head": 2}).json()
        found = measure_permutation(task, text, order, seed=3, use_positions=positions)
        assert told["permuted_tokens"] == [found.tokens[k] for k in found.order]
        assert told["has_removable_positions"] is True
        rounds = [row[-1] for row in told["layers"]["rows"]]
        assert rounds == ["no" if positions else "yes"] * 2
        apart = torch.stack([layer.differences for layer in found.layers]).numpy()
        np.testing.assert_allclose(numbers(told["deviation"]), apart, atol=5.1e-4)
        if positions:
            assert float(told["residual"]) == pytest.approx(
                found.layers[-1].max_difference, abs=5e-4
            )
            assert "sinusoidal positions" in told["summary"]
        else:
            assert re.fullmatch(r"0|\d\.\d·10⁻[⁶⁷⁸⁹]", told["residual"])
            assert "up to rounding" in told["summary"]
        difference = found.permuted_weights[1][1] - found.expected_weights[1][1]
        np.testing.assert_allclose(
            numbers(told["head_comparison"]["difference"]), difference.numpy(), atol=5.1e-5
        )


def test_two_trainings(looking: TestClient, runs: dict[str, Path]) -> None:
    told = looking.get("/api/compare/curves?first=gpt&second=rotary").json()
    wanted = diff_configs(runs["gpt"], runs["rotary"])
    assert [row[0] for row in told["settings"]["rows"]] == list(wanted)
    by_key = {key: rest for key, *rest in told["settings"]["rows"]}
    assert by_key["title"] == ["A small one", ""]
    assert by_key["model.positions"] == ["learned", "–"]
    charts = {chart["title"]: chart["table"] for chart in told["charts"]}
    parts = ["A, validation", "A, train", "B, validation", "B, train"]
    assert charts["loss by epoch"]["header"] == ["epoch", *parts]
    assert told["best"]["header"] == ["best", "A: gpt", "B: rotary"]


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
        ("permute", {"run": "looks", "text": "red dog"}),
        ("permute", {"run": "rotary", "text": "x", "use_positions": False}),
        ("permute", {"run": "gpt", "text": "x", "order": "sideways"}),
        ("permute", {"run": "gpt", "text": "x" * 600}),
        ("permute", {"run": "../gpt", "text": "x"}),
    ],
)
def test_what_cannot_be_asked(looking: TestClient, path: str, body: JSON) -> None:
    response = looking.post(f"/api/{path}", json=body)
    assert response.status_code == 422, response.text
    assert list(response.json()) == ["error"]


def test_curves_that_cannot_be_asked(looking: TestClient) -> None:
    for query in ("first=gpt", "first=gpt&second=..", "first=gpt&second=lstm&width=1"):
        assert looking.get(f"/api/compare/curves?{query}").status_code == 422


# -- in a browser ----------------------------------------------------------------------------------

MAP = ".compared-maps td[data-row]"


@pytest.fixture(scope="module")
def server(runs: dict[str, Path]) -> Iterator[str]:
    names = ("gpt", "rotary", "fruit", "french", "squares", "grids")
    with serve_in_background([runs[name] for name in names]) as link:
        yield link


@pytest.fixture
def visit(browser: Any, server: str) -> Iterator[Open]:
    with visits(browser, server) as opened:
        yield opened


def shown(page: Any, number: int) -> list[list[str]]:
    """Read one of the three maps off the page."""
    rows: list[list[str]] = page.evaluate(
        """k => [...document.querySelectorAll('.compared-attention .compared-maps > div')[k]
        .querySelectorAll('tbody tr')]
        .map(row => [...row.querySelectorAll('td')].map(cell => cell.textContent))""",
        number,
    )
    return rows


def test_the_page_shows_what_python_has(visit: Open, looking: TestClient) -> None:
    page = visit("#compare?a=gpt&b=rotary&text=said", ready=MAP)
    side = {"text": "said"}
    told = compared(looking, {"run": "gpt", **side}, {"run": "rotary", **side})
    for k, name in enumerate(("first", "second", "difference")):
        texts = [
            [text or "masked" for text in row] for row in told["head_comparison"][name]["texts"]
        ]
        assert shown(page, k) == texts
    lines = page.locator("table.pairs tbody tr").all_text_contents()
    assert lines == [
        p["name"] + p["first_text"] + p["second_text"] + p["change"] for p in told["pairs"]
    ]
    page.wait_for_selector(".charts figure.chart svg")
    assert page.locator(".settings-diff tbody tr").count() > 1
    before = shown(page, 2)
    page.locator('button[data-control="Head1"]').click()
    page.wait_for_function("() => location.hash.includes('head=2')")
    page.wait_for_function(
        """before => JSON.stringify([...document
        .querySelectorAll('.compared-attention .compared-maps > div')[2]
        .querySelectorAll('tbody tr')].map(row => [...row.querySelectorAll('td')]
        .map(cell => cell.textContent))) !== JSON.stringify(before)""",
        arg=before,
    )
    page.locator(MAP).first.click()
    assert page.locator(".compared-attention td.pinned").count() == 3
    page.get_by_role("button", name="Undo").click()
    page.wait_for_function("() => !location.hash.includes('head=2')")


def test_permuted_on_the_page(visit: Open, looking: TestClient) -> None:
    page = visit("#compare?a=fruit&mode=permuted&text=fig+tin+pear", ready=MAP)
    asked = {"run": "fruit", "text": "fig tin pear"}
    told = looking.post("/api/permute", json=asked).json()
    assert page.locator(".residual").text_content() == told["residual"]
    words = told["tokens"] + told["permuted_tokens"]
    assert page.locator(".permutation li").all_text_contents() == words
    page.locator('input[name="positions"][value="off"]').check()
    page.wait_for_function(
        "() => document.querySelector('.verdict').textContent.includes('up to rounding')"
    )
    page.locator('input[name="order"][value="shuffled"]').check()
    page.locator('button[data-control="Seed1"]').click()
    page.wait_for_function("() => location.hash.includes('seed=2')")
    page.locator('input[name="mode"][value="inputs"]').check()
    page.wait_for_function("() => !document.querySelector('.residual')")


def test_refusals_are_shown_and_the_next_answer_follows(visit: Open) -> None:
    page = visit("#compare?a=fruit&mode=permuted&text=fig+tin", ready=".permutation li")
    page.locator("select").first.select_option("squares")
    page.wait_for_selector(".status:not(:empty)")
    assert page.locator(".permutation li").count() == 0
    assert "a captioner reads none" in page.locator(".status").text_content()
    page.locator("select").first.select_option("fruit")
    page.wait_for_selector(MAP)
    assert page.locator(".status").text_content() == ""


def test_captioners_on_the_page(visit: Open) -> None:
    page = visit("#compare?a=grids&b=squares&mode=runs", ready=".captioned")
    assert page.locator(".captioned .photo img").count() == 2
    assert page.get_by_role("textbox").count() == 0
    page.locator('input[name="mode"][value="inputs"]').click()
    page.get_by_role("button", name="Increase Scene B").click()
    page.wait_for_function(
        "() => [...document.querySelectorAll('.photo figcaption')].at(-1)"
        ".textContent.startsWith('scene 3')"
    )
    page.wait_for_selector(".compared-maps .drawing canvas")


def test_another_run_begins_with_its_first_head(visit: Open) -> None:
    asked = "a=french&mode=inputs&part=encoder&layer=2&text=red+dog&other=red+cat"
    page = visit(f"#compare?{asked}", ready=MAP)
    assert (
        page.locator(".compared-attention figcaption")
        .first.text_content()
        .startswith("A: layer 2, head 1")
    )
    page.locator("select").first.select_option("gpt")
    page.wait_for_selector("table.pairs")
    assert (
        page.locator(".compared-attention figcaption")
        .first.text_content()
        .startswith("A: layer 1, head 1")
    )
    assert page.locator(".status").text_content() == ""


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 320)])
@pytest.mark.parametrize("mode", ["runs", "inputs", "permuted"])
def test_axe_finds_nothing_serious(visit: Open, scheme: str, width: int, mode: str) -> None:
    pytest.importorskip("axe_playwright_python")
    options: JSON = {"color_scheme": scheme, "reduced_motion": "reduce"}
    a, b = ("gpt", "rotary") if mode == "runs" else ("fruit", "fruit")
    page = visit(f"#compare?a={a}&b={b}&mode={mode}&text=fig+tin", width, MAP, **options)
    if mode == "runs":
        page.wait_for_selector(".charts figure.chart svg")
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_any_words_stay_words(visit: Open) -> None:
    nasty = "<script>alert(1)</script> <img src=x onerror=alert(1)> " + "x" * 1900
    page = visit("#compare?a=gpt&b=rotary", width=320, ready=MAP)
    page.get_by_label("Input", exact=True).fill(nasty)
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.hash.includes('script')")
    page.wait_for_function("() => !document.querySelector('main.stale')")
    assert page.locator("main script, main img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_by_ear(visit: Open) -> None:
    page = visit("#compare?a=fruit&mode=permuted&text=fig+tin+pear", ready=MAP)
    heard = page.locator("main").aria_snapshot()
    for part in (
        'heading "Compare" [level=1]',
        'group "Order"',
        'list "P X"',
        'rowheader "layer 2"',
        'grid "the second map minus the first, 3 by 3"',
    ):
        assert part in heard, part


def test_by_keyboard_alone(visit: Open) -> None:
    page = visit("#compare?a=gpt&b=rotary&text=said", ready=MAP)
    seen = []
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.closest('td, input, select')?.tagName"))
        if seen[-1] == "TD":
            break
    assert seen.count("SELECT") == 2
    assert "INPUT" in seen
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.locator(".compared-attention td.pinned").count() == 3
