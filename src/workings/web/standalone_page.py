"""Things to look at outside of the page: the component of each, and what that is told."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import takewhile
from typing import Any

import numpy as np

from workings import render
from workings.interpret.results import AttentionMaps
from workings.plain_text import show_whitespace
from workings.problems import Problem, Report, Solution
from workings.problems.worked_problem import WorkedResult
from workings.render import attention_maps, worked_html
from workings.render.page import escape_html, html_page
from workings.web import responses
from workings.web.assets import bundle_module, component_css
from workings.web.cell_workings import CellWorkings
from workings.web.heatmaps import build_palette, build_weights_heatmap
from workings.web.problem_views import MAX_SIDE, build_solution_view
from workings.web.report_views import build_report_view

MAX_HEATMAP_CELLS = 300_000  # cells of all maps together: somewhat more than a megabyte


@dataclass(frozen=True)
class Component:
    """A component by its name, what it is told, and the same as HTML for where nothing runs."""

    kind: str
    title: str
    note: str
    data: dict[str, Any]
    static_html: str
    steps: Sequence[str] = ()  # whose cells it may ask about
    workings: CellWorkings | None = None


def find_component(thing: object) -> Component | None:
    """Find a thing's component; None: it has none, or is too large to be looked at so."""
    if isinstance(thing, Problem):
        return find_component(thing.solve())
    if isinstance(thing, WorkedResult):
        return _problem_component(thing)
    return _heatmap_component(thing) if isinstance(thing, AttentionMaps) else None


def _problem_component(thing: WorkedResult) -> Component | None:
    problem = thing.problem
    keys = Solution(problem).keys()
    if any(max(problem.exact_matrices[key].shape) > MAX_SIDE for key in keys):
        return None
    laid = thing.to_worked_problem()
    if isinstance(thing, Report):
        report = build_report_view(thing, laid.decimals)
        shown, tells, note = "report", asdict(report), ""  # its verdict says more than a note
        keys = list(dict.fromkeys(one.exact.key for one in report.steps))
    else:
        solved = build_solution_view(problem, laid.decimals, laid)
        solved.given = [matrix for matrix in solved.given if _is_displayable(matrix)]
        shown, tells, note = "solution", asdict(solved), laid.summary
    return Component(
        shown,
        laid.title or "Worked problem",
        note,
        tells,
        worked_html.render_body(replace(laid, title="")),
        keys,
        CellWorkings(problem, laid.decimals, thing.cell_formula),
    )


def _is_displayable(matrix: responses.MatrixView) -> bool:
    return max(len(matrix.row_names), len(matrix.column_names)) <= MAX_SIDE


def _heatmap_component(thing: AttentionMaps) -> Component | None:
    if len(thing.rows) * len(thing.columns) * len(thing.maps) > MAX_HEATMAP_CELLS:
        return None
    rows, columns = (
        [show_whitespace(token) for token in some] for some in (thing.rows, thing.columns)
    )
    weights = [np.array([list(row) for row in one.weights]) for one in thing.maps]
    causal = len(rows) == len(columns) > 1 and not any(np.triu(one, 1).any() for one in weights)
    drawn = [
        asdict(build_weights_heatmap(one.name, one.name, rows, columns, numbers, causal))
        for one, numbers in zip(thing.maps, weights, strict=True)
    ]
    for one in drawn:  # all have the same colours
        del one["light"], one["dark"]
    colours = {theme: asdict(build_palette(theme)) for theme in ("light", "dark")}
    tells = {
        "maps": drawn,
        "maps_per_row": _maps_per_row([one.name for one in thing.maps]),
        **colours,
    }
    note = f"{attention_maps.axes_legend(thing)}."
    return Component(
        "maps", attention_maps.map_title(thing), note, tells, attention_maps.render_body(thing)
    )


def _maps_per_row(names: Sequence[str]) -> int:
    """How many of the first maps are of one layer: so many stand in a row.

    >>> _maps_per_row(["layer 1, head 1", "layer 1, head 2", "layer 2, head 1"])
    2
    """
    layer = names[0].partition(",")[0]
    return sum(1 for _ in takewhile(lambda name: name.partition(",")[0] == layer, names))


MAX_CELLS = 2_000  # whose workings a file holds: some megabytes at most

_STYLE = """
body > .workings { max-width: none; padding: 1.2rem clamp(.8rem, 2.2vw, 3rem) 0; }
@media print { body > .workings { padding: 0; } }
"""


def page(thing: object) -> str:
    """Write a solution, a report or what a lens found as one HTML file that needs nothing else.

    Pointing at a number writes it out and lights up what it comes from. What has more numbers than
    a file should hold the workings of, and what is no problem and no map, is the page that it
    writes of itself.

    >>> from workings import Problem
    >>> page(Problem(X=[[1, 2], [3, 1]])).startswith("<!doctype html>")
    True
    """
    found = find_component(thing)
    if found is not None and (workings := _collect_workings(found)) is not None:
        return _write_interactive_page(found, workings)
    return render.html(thing)


def _collect_workings(component: Component) -> dict[str, Any] | None:
    """Write out every cell that can be asked about; None: they are too many."""
    if component.workings is None:
        return {}
    if sum(component.workings.num_cells(key) for key in component.steps) > MAX_CELLS:
        return None
    return {
        key: [[asdict(cell) for cell in row] for row in component.workings.write_step(key)]
        for key in component.steps
    }


def _write_interactive_page(component: Component, workings: dict[str, Any]) -> str:
    state = {"component": component.kind, "data": component.data, "note": component.note}
    body = f"""<h1 dir="auto">{escape_html(component.title)}</h1>
<div id="component"></div>
<noscript>{component.static_html}</noscript>
<script type="application/json" id="data">{_dump_json(state=state, workings=workings)}</script>
"""
    return html_page(
        component.title, body, style=component_css() + _STYLE, script=bundle_module("standalone.js")
    )


def _dump_json(**fields: Any) -> str:
    """Write data so that nothing in it can end the element that it stands in."""
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
