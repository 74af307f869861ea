"""Whatever lays itself out as `Worked` can be shown in every form."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from workings.views.worked import Worked

if TYPE_CHECKING:
    from workings.views.picture import Picture


class Shown(ABC):
    """Text, LaTeX, HTML, a picture and a notebook's display, of anything that can be `worked`."""

    @abstractmethod
    def worked(self, *, notes: bool = False) -> Worked:
        """Lay it out; `notes`: with what can be said about each cell."""

    def text(self, *, width: int | None = None, color: bool = False) -> str:
        """Write it for a terminal."""
        from workings.views import text

        return text.render(self.worked(), width=width, color=color)

    def latex(self) -> str:
        """Write it as a LaTeX document."""
        from workings.views import latex

        return latex.render(self.worked())

    def html(self) -> str:
        """Write it as one HTML file that needs nothing else."""
        from workings.views import html

        return html.render(self.worked(notes=True))

    def picture(self) -> "Picture":
        """Draw it, as SVG or PNG."""
        from workings.views import worked_picture

        return worked_picture.picture(self.worked())

    def _repr_html_(self) -> str:
        from workings.views import html

        return html.fragment(self.worked(notes=True))
