"""Standalone HTML pages of results, and the components that pages and widgets show them with."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import takewhile
from typing import Any

import numpy as np

from workings import render
from workings.interpret.results import AttentionMaps, HeadMap
from workings.languages import get_language, gettext
from workings.plain_text import show_whitespace
from workings.problems import Problem, Report, Solution
from workings.problems.worked_problem import WorkedResult
from workings.render import attention_maps, worked_html
from workings.render.page import escape_html, html_page
from workings.web import responses
from workings.web.assets import bundle_module, component_css
from workings.web.heatmaps import build_weights_heatmap, level_colors, level_inks
from workings.web.problem_views import MAX_SIDE, CellWorkings, build_solution_view
from workings.web.report_views import build_report_view

MAX_HEATMAP_CELLS = 300_000  # of all maps of a page: slightly more than a megabyte
MAX_CELLS = 2_000  # whose workings a page holds: a few megabytes at most


@dataclass(frozen=True)
class Component:
    """A JavaScript component by name, its data, and the same as HTML without scripts."""

    kind: str
    title: str
    note: str
    data: dict[str, Any]
    static_html: str
    steps: Sequence[str] = ()  # whose cells can be written out
    workings: CellWorkings | None = None


def find_component(result: object) -> Component | None:
    """Return the component for a result; None if it has none or is too large."""
    if isinstance(result, Problem):
        return find_component(result.solve())
    if isinstance(result, WorkedResult):
        return _problem_component(result)
    return _heatmap_component(result) if isinstance(result, AttentionMaps) else None


def _problem_component(result: WorkedResult) -> Component | None:
    problem = result.problem
    keys = Solution(problem).keys()
    if any(max(problem.exact_matrices[key].shape) > MAX_SIDE for key in keys):
        return None
    layout = result.to_worked_problem()
    if isinstance(result, Report):
        report = build_report_view(result, layout.decimals)
        kind, data, note = "report", asdict(report), ""  # the report has a verdict of its own
        keys = list(dict.fromkeys(step.exact.key for step in report.steps))
    else:
        solution = build_solution_view(problem, layout.decimals, layout)
        solution.given = [matrix for matrix in solution.given if _is_displayable(matrix)]
        kind, data, note = "solution", asdict(solution), layout.summary
    return Component(
        kind,
        layout.title or gettext("Worked problem"),
        note,
        data,
        worked_html.render_body(replace(layout, title="")),
        keys,
        CellWorkings(problem, layout.decimals, result.cell_formula),
    )


def _is_displayable(matrix: responses.MatrixView) -> bool:
    return max(len(matrix.row_names), len(matrix.column_names)) <= MAX_SIDE


def _heatmap_component(maps: AttentionMaps) -> Component | None:
    if len(maps.rows) * len(maps.columns) * len(maps.maps) > MAX_HEATMAP_CELLS:
        return None
    rows, columns = (
        [show_whitespace(token) for token in tokens] for tokens in (maps.rows, maps.columns)
    )
    weights = [np.array([list(row) for row in head.weights]) for head in maps.maps]
    is_causal = len(rows) == len(columns) > 1 and not any(np.triu(w, 1).any() for w in weights)
    heatmaps = [
        asdict(build_weights_heatmap(head.name, head.name, rows, columns, numbers, is_causal))
        for head, numbers in zip(maps.maps, weights, strict=True)
    ]
    for heatmap in heatmaps:  # the data have the colors once for all maps
        del heatmap["colors"], heatmap["inks"]
    data = {
        "maps": heatmaps,
        "maps_per_row": _maps_per_row(maps.maps),
        "colors": level_colors(),
        "inks": level_inks(),
    }
    note, html = f"{attention_maps.axes_legend(maps)}.", attention_maps.render_body(maps)
    return Component("maps", attention_maps.map_title(maps), note, data, html)


def _maps_per_row(maps: Sequence[HeadMap]) -> int:
    """Return the number of maps of the first layer: a row holds the heads of one layer."""
    indices = [head_map.index for head_map in maps]
    first = indices[0]
    if first is None:
        return 1
    same_layer = takewhile(lambda index: index and index.layer == first.layer, indices)
    return len(list(same_layer))


_STYLE = """
body > .workings { max-width: none; padding: 1.2rem clamp(.8rem, 2.2vw, 3rem) 0; }
@media print { body > .workings { padding: 0; } }
"""


def page(result: object) -> str:
    """Return a result as one HTML page that needs no other file.

    In a solution or a report, pointing at a number shows its computation and highlights its
    inputs. A result with too many numbers for that, or of another kind, is rendered without.

    >>> from workings import Problem
    >>> page(Problem(X=[[1, 2], [3, 1]])).startswith("<!doctype html>")
    True
    """
    component = find_component(result)
    if component is not None and (workings := _collect_workings(component)) is not None:
        return _write_interactive_page(component, workings)
    return render.html(result)


def _collect_workings(component: Component) -> dict[str, Any] | None:
    """Return the workings of all cells by step; None if there are too many."""
    if component.workings is None:
        return {}
    if sum(component.workings.num_cells(key) for key in component.steps) > MAX_CELLS:
        return None
    return {
        key: [[asdict(cell) for cell in row] for row in component.workings.write_step(key)]
        for key in component.steps
    }


def _write_interactive_page(component: Component, workings: dict[str, Any]) -> str:
    state = {
        "component": component.kind,
        "data": component.data,
        "note": component.note,
        "texts": get_language().page,
    }
    body = f"""<h1 dir="auto">{escape_html(component.title)}</h1>
<div id="component"></div>
<noscript>{component.static_html}</noscript>
<script type="application/json" id="data">{_dump_json(state=state, workings=workings)}</script>
"""
    return html_page(
        component.title, body, style=component_css() + _STYLE, script=bundle_module("standalone.js")
    )


def _dump_json(**fields: Any) -> str:
    """Return JSON in which no text can end the script element around it."""
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
