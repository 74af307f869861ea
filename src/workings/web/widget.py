"""A thing to look at in a notebook: the page's component, answered by the kernel."""

from contextlib import suppress
from dataclasses import asdict
from typing import Any

import anywidget
import traitlets

from workings.errors import UserError, truncate
from workings.render.page import base_css, escape_html, html_fragment
from workings.web.assets import bundle_module, component_css
from workings.web.problem_views import MAX_SIDE
from workings.web.standalone_page import MAX_HEATMAP_CELLS, Component, find_component


class Widget(anywidget.AnyWidget):
    """A component and its model: `requested_cell` is the cell that is pointed at, `working` its working."""

    _esm = bundle_module("widget.js")
    _css = base_css() + component_css()

    component = traitlets.Unicode().tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)
    note = traitlets.Unicode().tag(sync=True)
    data = traitlets.Dict().tag(sync=True)
    requested_cell = traitlets.Dict(default_value=None, allow_none=True).tag(sync=True)
    working = traitlets.Dict(default_value=None, allow_none=True).tag(sync=True)

    def __init__(self, source: Component) -> None:
        self._component = source
        super().__init__(
            component=source.kind, title=source.title, note=source.note, data=source.data
        )

    @traitlets.observe("requested_cell")
    def _write_requested_cell(self, change: dict[str, Any]) -> None:
        """Answer a browser; what it asks may be anything."""
        answer, workings = None, self._component.workings
        match change["new"]:
            case {"key": str(key), "row": int(row), "column": int(column)} if workings:
                with suppress(UserError):
                    answer = asdict(workings.write_cell(key, row, column))
        self.working = answer

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """Bring tables along, for where a notebook is read and no widget can be shown."""
        data, about = super()._repr_mimebundle_(**options)
        title = escape_html(self._component.title)
        return {
            **data,
            "text/html": html_fragment(f"<h3>{title}</h3>\n{self._component.static_html}"),
        }, about


def widget(thing: object) -> Widget:
    """Show a problem, a solution, a report, a head or maps of heads in a notebook, to point at.

    >>> from workings import Problem
    >>> kind = widget(Problem(X=[[1, 2], [3, 1]], scale="none"))
    >>> kind.requested_cell = {"key": "scores", "row": 0, "column": 1}
    >>> kind.working["working"]["text"]
    'scores[1,2] = 1·3 + 2·1 = 5'
    """
    found = find_component(thing)
    if found is None:
        kind = truncate(type(thing).__name__)
        raise UserError(
            f"{kind}: a widget shows a problem, a solution, a report or a head with at most "
            f"{MAX_SIDE} rows and columns, or maps with at most {MAX_HEATMAP_CELLS:,} cells; other "
            "things show themselves"
        )
    return Widget(found)
