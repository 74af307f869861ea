"""Whatever lays itself out as `Worked` can be shown in every form."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from workings.problems.worked_problem import WorkedProblem

if TYPE_CHECKING:
    from workings.render.picture import Picture


class Renderable(ABC):
    """Text, LaTeX, HTML, a picture and a notebook's display, of anything that can be `worked`."""

    @abstractmethod
    def to_worked_problem(self, *, notes: bool = False) -> WorkedProblem:
        """Lay it out; `notes`: with what can be said about each cell."""

    def text(self, *, width: int | None = None, color: bool = False) -> str:
        """Write it for a terminal."""
        from workings.render import worked_text

        return worked_text.render_text(self.to_worked_problem(), width=width, color=color)

    def latex(self) -> str:
        """Write it as a LaTeX document."""
        from workings.render import worked_latex

        return worked_latex.render_latex(self.to_worked_problem())

    def html(self) -> str:
        """Write it as one HTML file that needs nothing else."""
        from workings.render import worked_html

        return worked_html.render_page(self.to_worked_problem(notes=True))

    def picture(self) -> "Picture":
        """Draw it, as SVG or PNG."""
        from workings.render import worked_picture

        return worked_picture.render_picture(self.to_worked_problem())

    def _repr_html_(self) -> str:
        from workings.render import worked_html

        return worked_html.render_fragment(self.to_worked_problem(notes=True))
