"""A Jupyter widget for results: the page's component, with the kernel as its server."""

from contextlib import suppress
from dataclasses import asdict
from typing import Any

import anywidget
import traitlets

from workings.errors import UserError, truncate
from workings.languages import get_language
from workings.render.page import base_css, escape_html, html_fragment
from workings.web.assets import bundle_module, component_css
from workings.web.problem_views import MAX_SIDE
from workings.web.standalone_page import MAX_HEATMAP_CELLS, Component, find_component


class Widget(anywidget.AnyWidget):
    """A component with its state; `working` is the computation of `requested_cell`."""

    _esm = bundle_module("widget.js")
    # A notebook has rules of its own, and those of results that are shown as HTML beside this one.
    _css = base_css() + component_css().replace(".bench", ".workings.bench")

    component = traitlets.Unicode().tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)
    note = traitlets.Unicode().tag(sync=True)
    data = traitlets.Dict().tag(sync=True)
    texts = traitlets.Dict().tag(sync=True)
    requested_cell = traitlets.Dict(default_value=None, allow_none=True).tag(sync=True)
    working = traitlets.Dict(default_value=None, allow_none=True).tag(sync=True)

    def __init__(self, source: Component) -> None:
        self._component = source  # traits are observed in super().__init__
        super().__init__(
            component=source.kind,
            title=source.title,
            note=source.note,
            data=source.data,
            texts=dict(get_language().page),
        )

    @traitlets.observe("requested_cell")
    def _write_requested_cell(self, change: dict[str, Any]) -> None:
        """Set `working`; None if the browser requested no valid cell."""
        working, workings = None, self._component.workings
        match change["new"]:
            case {"key": str(key), "row": int(row), "column": int(column)} if workings:
                with suppress(UserError):
                    working = asdict(workings.write_cell(key, row, column))
        self.working = working

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """Add plain HTML tables, for viewers that cannot show widgets."""
        data, metadata = super()._repr_mimebundle_(**options)
        title = escape_html(self._component.title)
        return {
            **data,
            "text/html": html_fragment(f"<h3>{title}</h3>\n{self._component.static_html}"),
        }, metadata


def widget(result: object) -> Widget:
    """Return an interactive widget of a problem, a solution, a report, a head or attention maps.

    >>> from workings import Problem
    >>> view = widget(Problem(X=[[1, 2], [3, 1]], scale="none"))
    >>> view.requested_cell = {"key": "scores", "row": 0, "column": 1}
    >>> view.working["working"]["text"]
    'scores[1,2] = 1·3 + 2·1 = 5'
    """
    component = find_component(result)
    if component is None:
        raise UserError(
            f"{truncate(type(result).__name__)}: a widget shows a problem, a solution, a report or "
            f"a head with at most {MAX_SIDE} rows and columns, or maps with at most "
            f"{MAX_HEATMAP_CELLS:,} cells"
        )
    return Widget(component)
