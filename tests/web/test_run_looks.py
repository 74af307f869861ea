"""Looks into runs on a static site: the server's answers, found by the page without a server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import OpenPage, PagePool, open_pages
from site_server import replace_python, serve_site
from starlette.testclient import TestClient

from workings.cli import main
from workings.web import static_site

TEXT = "He (who"
ASK = """async ([path, body]) => {
  const { transport } = await import(new URL('page/transport.js', location.href).href);
  const response = await transport(path, body);
  return [response.status, await response.json()];
}"""
FIRST_HEAD = {"part": "decoder", "layer": 1, "head": 2}


@pytest.fixture(scope="module")
def site_address(runs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("looks") / "site"
    static_site.write_site(folder, runs=[runs["gpt"], runs["fruit"]], texts=[TEXT])
    replace_python(folder)
    with serve_site(folder) as address:
        yield address


@pytest.fixture
def visit(page_pool: PagePool, site_address: str) -> Iterator[OpenPage]:
    with open_pages(page_pool, site_address) as open_page:
        yield open_page


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("", {}),
        ("", {"ablated_heads": [FIRST_HEAD]}),
        ("/map", FIRST_HEAD),
        ("/map", {**FIRST_HEAD, "ablated_heads": [{**FIRST_HEAD, "layer": 2}]}),
        ("/working", {**FIRST_HEAD, "row": 3, "column": 1}),
        ("/working", {**FIRST_HEAD, "row": 3, "column": 1, "ablated_heads": [FIRST_HEAD]}),
        ("/model", {}),
        ("/model", {"ablated_heads": [FIRST_HEAD]}),
        ("/stage", {"stage": "blocks.0.attention"}),
        ("/explain", {"run": "fruit"}),
        ("/positions", None),
    ],
)
def test_look_is_the_answer_of_the_server(
    visit: OpenPage, runs_client: TestClient, path: str, body: dict[str, Any] | None
) -> None:
    question = {"run": "gpt"} if body is None else {"run": "gpt", "text": TEXT, **body}
    response = runs_client.post(f"/api/inspect{path}", json=question)
    assert response.status_code == 200, response.text
    expected = response.json()
    if not path:
        expected["cell_groups"] = []  # activations need the model
    page = visit("index.html#check")
    assert page.evaluate(ASK, [f"/api/inspect{path}", question]) == [200, expected]


def test_any_number_can_be_clicked(visit: OpenPage) -> None:
    page = visit("index.html#inspect", ready="button.thumb")
    assert page.get_by_label("Prompt").locator("option").all_inner_texts() == [TEXT]
    page.locator("button.thumb").nth(1).click()
    page.wait_for_selector(".model-layer")
    page.wait_for_url(lambda url: "head=2" in url)
    page.evaluate("void (location.hash += '&row=2&column=0')")
    page.wait_for_selector(".inspect-dock math")
    page.get_by_role("button", name="Ablate this head").click()
    page.wait_for_selector(".thumb.off")
    assert page.locator(".status").inner_text() == ""


def test_what_needs_the_model_says_so(visit: OpenPage) -> None:
    page = visit("index.html#check")
    for path, body in (
        ("inspect", {"run": "gpt", "text": "another"}),
        ("inspect", {"run": "nothing", "text": TEXT}),
        ("inspect/complete", {"run": "gpt", "text": TEXT}),
        ("compare", {"first": {"run": "gpt"}, "second": {"run": "gpt"}}),
    ):
        status, answer = page.evaluate(ASK, [f"/api/{path}", body])
        assert status == 422
        assert "workings serve" in answer["error"]


@pytest.mark.parametrize(
    ("run", "texts", "message"),
    [
        ("lstm", [TEXT], "lstm: it has no attention heads: expected a Transformer"),
        ("squares", [], "squares: a run that reads pictures"),
        ("gpt", ["a" * 30], "30 tokens: expected at most 24"),
        ("missing", [], "missing"),
    ],
)
def test_unsuitable_run_is_a_one_line_error(
    runs: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    run: str,
    texts: list[str],
    message: str,
) -> None:
    folder = runs.get(run, tmp_path / run)
    options = [word for text in texts for word in ("--text", text)]
    assert main(["site", "--out", str(tmp_path / "site"), "--run", str(folder), *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "site").exists()
