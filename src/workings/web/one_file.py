"""A thing to look at as one HTML file: with its interactions, without network and server."""

import json
from dataclasses import asdict
from typing import Any

from workings.errors import UserError, brief
from workings.views.page import harmless, whole_page
from workings.web.assets import rules
from workings.web.inlined import inlined
from workings.web.parts import Part, part

MOST_CELLS = 2_000  # whose workings a file holds: some megabytes at most

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
    found = part(thing)
    if found is not None and (workings := _held(found)) is not None:
        return _interactive(found, workings)
    write = getattr(thing, "html", None) or getattr(thing, "to_html", None)
    if write is None:
        raise UserError(f"{brief(type(thing).__name__)}: nothing that makes a page")
    written: str = write()
    return written


def _held(found: Part) -> dict[str, Any] | None:
    """Write out every cell that can be asked about; None: they are too many."""
    if found.workings is None:
        return {}
    if sum(found.workings.size(key) for key in found.steps) > MOST_CELLS:
        return None
    return {
        key: [[asdict(cell) for cell in row] for row in found.workings.step(key)]
        for key in found.steps
    }


def _interactive(found: Part, workings: dict[str, Any]) -> str:
    state = {"shown": found.shown, "told": found.told, "note": found.note}
    body = f"""<h1 dir="auto">{harmless(found.title)}</h1>
<div id="shown"></div>
<noscript>{found.static}</noscript>
<script type="application/json" id="told">{_data(state=state, workings=workings)}</script>
"""
    return whole_page(found.title, body, style=rules() + _STYLE, script=inlined("standalone.js"))


def _data(**given: Any) -> str:
    """Write data so that nothing in it can end the element that it stands in."""
    return json.dumps(given, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
