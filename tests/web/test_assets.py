"""A component bundled with its imports is one module that works in any page."""

import re
from collections.abc import Callable
from dataclasses import asdict
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import OpenPage

from workings import Problem
from workings.errors import install_command
from workings.web import assets, problem_views, report_views
from workings.web.assets import bundle_module
from workings.web.heatmaps import build_weights_heatmap, level_colors, level_inks
from workings.web.problem_views import CellWorkings

PROBLEM = Problem(X=[[1, 2], [3, 1]], claim={"scores": [[5, 5], [5, 11]]})
SOLUTION = asdict(problem_views.build_solution_view(PROBLEM, 3))
REPORT = asdict(report_views.build_report_view(PROBLEM.check(), 3))
WORKING = asdict(CellWorkings(PROBLEM, 3).write_cell("scores", 0, 1))
MAP = asdict(
    build_weights_heatmap("one", "one", ["a"], ["b", "c"], np.array([[0.25, 0.75]]), False)
)
MAPS = {"maps": [MAP, MAP], "maps_per_row": 2, "colors": level_colors(), "inks": level_inks()}
STATES: dict[str, tuple[dict[str, Any], str]] = {
    "matrix.js": ({"matrix": SOLUTION["given"][0]}, "td[data-row]"),
    "dock.js": ({"working": WORKING}, "math"),
    "heatmap.js": ({"map": MAP}, "td[data-row]"),
    "heatmap_groups.js": ({"data": MAPS}, "button.thumb"),
    "solution.js": ({"data": SOLUTION}, "figure[data-key=mixed]"),
    "report.js": ({"data": REPORT}, ".finding code"),
    "widget.js": ({"component": "report", "data": REPORT}, ".finding code"),
}
RENDER = """async ([text, state, selector]) => {
  const link = URL.createObjectURL(new Blob([text], {type: 'text/javascript'}));
  const listeners = {};
  const model = {
    get: name => state[name],
    set: (name, value) => { state[name] = value; listeners[`change:${name}`]?.forEach(f => f()); },
    on: (name, listener) => (listeners[name] ??= []).push(listener),
    save_changes() {},
  };
  const el = document.querySelector('main');
  (await import(link)).default.render({ model, el });
  return el.querySelectorAll(selector).length;
}"""


def test_components_work_alone(open_file: OpenPage, tmp_path: Path) -> None:
    (tmp_path / "empty.html").write_text("<!doctype html><main>empty</main>", encoding="utf-8")
    page = open_file("empty.html")
    for name, (state, selector) in STATES.items():
        page.evaluate("document.querySelector('main').replaceChildren()")
        assert page.evaluate(RENDER, [bundle_module(name), state, selector]) > 0, name


@pytest.fixture
def bundle(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Bundle the module `a` of these modules."""

    def bundle_sources(**modules: str) -> str:
        sources = {f"{name}.js": text for name, text in modules.items()}
        monkeypatch.setattr(assets, "_read_source", sources.__getitem__)
        text: str = bundle_module.__wrapped__("a.js")  # type: ignore[attr-defined]
        return text

    return bundle_sources


def test_modules_have_own_scopes_and_run_once(
    open_file: OpenPage, tmp_path: Path, bundle: Callable[..., str]
) -> None:
    (tmp_path / "empty.html").write_text("<!doctype html><main>empty</main>", encoding="utf-8")
    text = bundle(
        a='import b from "./c.js";\nimport { count,\n  next } from "./d.js";\nconst own = "a";\n'
        "export default { join: () => [own, b.join(), count, next()].join() };\n",
        c='import { next } from "./d.js";\nconst own = "c";\n'
        "export default { join: () => own + next() };\n",
        d="let own = 0;\nexport const count = 7;\nexport function next() { return ++own; }\n",
    )
    page = open_file("empty.html")
    run = """async text =>
      (await import(URL.createObjectURL(new Blob([text], {type: 'text/javascript'}))))
      .default.join()"""
    assert page.evaluate(run, text) == "a,c1,7,2"


@pytest.mark.parametrize(
    "text",
    [
        'import * as b from "./b.js";\n',
        'import { b as c } from "./b.js";\n',
        'import { b } from "https://elsewhere/b.js";\n',
        'import { b } from "../b.js";\n',
        'import "./b.js";\n',
        'const b = await import("./b.js");\n',
        "const here = import.meta.url;\n",
        "export let a = 1;\n",
        "export { a };\n",
        'export * from "./b.js";\n',
        "export default 1;\n",
        "await something;\n",
        'import { a } from "./a.js";\n',
        'const a = "</script>";\n',
    ],
)
def test_unsupported_forms_fail(bundle: Callable[..., str], text: str) -> None:
    with pytest.raises(AssertionError):
        bundle(a=text, b="export const b = 1;\n")


def test_page_has_the_install_command() -> None:
    page = assets.load_assets()["page.html"][0].decode()
    [content] = re.findall(r'<meta name="install-command" content="([^"]*)"', page)
    assert unescape(content) == install_command("all")
