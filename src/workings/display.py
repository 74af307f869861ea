"""The display methods of every result: text, HTML, LaTeX, SVG, picture, output of a notebook.

Results stand below `workings.render` and must not import it; these methods load it by name when
they are first called.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workings.render.pictures import Picture


class Renderable:
    """A result that `workings.render` can show; a format that it lacks is a `UserError`."""

    def text(self, *, width: int | None = None, color: bool = False) -> str:
        """Return text for a terminal of `width` columns (None: the width of this terminal)."""
        return str(_render().text(self, width=width, color=color))

    def html(self) -> str:
        """Return one HTML page that needs no other file."""
        return str(_render().html(self))

    def latex(self) -> str:
        """Return a LaTeX document."""
        return str(_render().latex(self))

    def svg(self) -> str:
        """Return the picture as SVG."""
        return str(_render().svg(self))

    def picture(self) -> "Picture":
        """Return a picture, to be saved as SVG, PDF or PNG."""
        picture: Picture = _render().picture(self)
        return picture

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows."""
        return str(_render().html(self, fragment=True))


def _render() -> Any:
    return import_module("workings.render")
