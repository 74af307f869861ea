"""A thing to look at in a notebook: the page's component, answered by the kernel."""

from contextlib import suppress
from dataclasses import asdict
from typing import Any

import anywidget
import traitlets

from workings.errors import UserError, brief
from workings.views.page import harmless, piece
from workings.views.style import css
from workings.web.assets import rules
from workings.web.inlined import inlined
from workings.web.laid import MOST_SIDE
from workings.web.parts import MOST_MAPPED, Part, part


class Widget(anywidget.AnyWidget):
    """A component and its model: `asked` is the cell that is pointed at, `working` its working."""

    _esm = inlined("widget.js")
    _css = css() + rules()

    shown = traitlets.Unicode().tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)
    note = traitlets.Unicode().tag(sync=True)
    told = traitlets.Dict().tag(sync=True)
    asked = traitlets.Dict(default_value=None, allow_none=True).tag(sync=True)
    working = traitlets.Dict(default_value=None, allow_none=True).tag(sync=True)

    def __init__(self, found: Part) -> None:
        self._part = found
        super().__init__(shown=found.shown, title=found.title, note=found.note, told=found.told)

    @traitlets.observe("asked")
    def _answer(self, change: dict[str, Any]) -> None:
        """Answer a browser; what it asks may be anything."""
        answer, workings = None, self._part.workings
        match change["new"]:
            case {"key": str(key), "row": int(row), "column": int(column)} if workings:
                with suppress(UserError):
                    answer = asdict(workings.of(key, row, column))
        self.working = answer

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """Bring tables along, for where a notebook is read and no widget can be shown."""
        data, about = super()._repr_mimebundle_(**options)
        title = harmless(self._part.title)
        return {**data, "text/html": piece(f"<h3>{title}</h3>\n{self._part.static}")}, about


def widget(thing: object) -> Widget:
    """Show a problem, a solution, a report, a head or maps of heads in a notebook, to point at.

    >>> from workings import Problem
    >>> shown = widget(Problem(X=[[1, 2], [3, 1]], scale="none"))
    >>> shown.asked = {"key": "scores", "row": 0, "column": 1}
    >>> shown.working["working"]["text"]
    'scores[1,2] = 1·3 + 2·1 = 5'
    """
    found = part(thing)
    if found is None:
        kind = brief(type(thing).__name__)
        raise UserError(
            f"{kind}: a widget shows a problem, a solution, a report or a head with at most "
            f"{MOST_SIDE} rows and columns, or maps with at most {MOST_MAPPED:,} cells; other "
            "things show themselves"
        )
    return Widget(found)
