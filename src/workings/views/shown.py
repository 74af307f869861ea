"""Whatever lays itself out as `Worked` can be shown in every form."""

from abc import ABC, abstractmethod

from workings.views.worked import Worked


class Shown(ABC):
    """Text, LaTeX, HTML and a notebook's display, of anything that can be `worked`."""

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

    def _repr_html_(self) -> str:
        from workings.views import html

        return html.fragment(self.worked(notes=True))
