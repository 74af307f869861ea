"""Solutions, reports and attention heads in every format, each through its worked problem."""

from workings.problems.worked_problem import WorkedProblem, WorkedResult
from workings.render import worked_html, worked_latex, worked_picture, worked_text
from workings.render.pictures import Picture


def render_text(
    result: WorkedProblem | WorkedResult, *, width: int | None = None, color: bool = False
) -> str:
    """Return the problem as text for a terminal."""
    return worked_text.render_text(_worked_problem(result), width=width, color=color)


def render_latex(result: WorkedProblem | WorkedResult) -> str:
    """Return the problem as a LaTeX document."""
    return worked_latex.render_latex(_worked_problem(result))


def render_page(result: WorkedProblem | WorkedResult) -> str:
    """Return the problem as an HTML page, with a note at each cell."""
    return worked_html.render_page(_worked_problem(result, notes=True))


def render_fragment(result: WorkedProblem | WorkedResult) -> str:
    """Return the problem as a fragment of a page, with a note at each cell."""
    return worked_html.render_fragment(_worked_problem(result, notes=True))


def render_picture(result: WorkedProblem | WorkedResult) -> Picture:
    """Return the problem as a picture."""
    return worked_picture.render_picture(_worked_problem(result))


def _worked_problem(result: WorkedProblem | WorkedResult, *, notes: bool = False) -> WorkedProblem:
    return result if isinstance(result, WorkedProblem) else result.to_worked_problem(notes=notes)
