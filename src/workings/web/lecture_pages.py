"""Pages with the worked examples as their lecture printed them: each is a link to pass on.

A page shows no verdict. It asks the reader to find the wrong number, and leads to the check.
"""

from collections.abc import Iterator
from dataclasses import replace

from workings.problems import Report
from workings.problems.worked_problem import Panel, WorkedProblem
from workings.render import worked_html
from workings.render.page import escape_html, html_page
from workings.web.problem_answers import load_lectures

INDEX = "index"
TITLE = "Published slides: can you find the wrong number?"
_STYLE = """
.workings .action { display: inline-block; margin: 0 1.2rem 1.2rem 0; padding: .45rem .9rem;
  border: 1px solid currentColor; border-radius: .3rem; text-decoration: none; }
.workings .examples li { margin: 0 0 .5rem; }
"""


def list_pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the HTML of every page; `index` lists the others."""
    reports = {name: problem.check() for name, problem in load_lectures().items()}
    for name, report in reports.items():
        yield name, write_page(name, report)
    yield INDEX, _write_index(reports)


def write_page(name: str, report: Report) -> str:
    """Return the page of an example: its claims without any verdict."""
    question = ask_question(report)
    slide = worked_html.render_body(_hide_verdicts(report))
    body = f"""<h1>{escape_html(question)}</h1>
<p><a class="action" href="../index.html#check/{name}">{_action(report)}</a>
<a href="{INDEX}.html">Other slides</a></p>
{slide}
"""
    return html_page(f"{question} {report.problem.title}", body, style=_STYLE)


def ask_question(report: Report) -> str:
    """Return the question of a page: how many of its steps begin to be wrong.

    >>> from workings import Problem
    >>> ask_question(Problem(X=[[1, 2]], claim={"scores": [[4]]}, scale="none").check())
    'This published slide has a wrong number: can you find it?'
    """
    wrong = report.counts["wrong"]
    if wrong == 0:
        return "Every number of this published slide is right: can you work it yourself?"
    if wrong == 1:
        return "This published slide has a wrong number: can you find it?"
    return f"This published slide has {wrong} wrong numbers: can you find the first?"


def _action(report: Report) -> str:
    return "Show the wrong number" if report.counts["wrong"] else "Work it number by number"


def _hide_verdicts(report: Report) -> WorkedProblem:
    problem = report.to_worked_problem()
    steps = [_hide_marks(panel) for panel in problem.steps]
    return replace(
        problem, steps=steps, verdict="", summary="", mistakes=[], assumption="", notes=()
    )


def _hide_marks(panel: Panel) -> Panel:
    cells = [
        [replace(cell, mark="masked" if cell.mark == "masked" else "", note="") for cell in row]
        for row in panel.cells
    ]
    return replace(panel, cells=cells, verdict="", first_wrong=None)


def _write_index(reports: dict[str, Report]) -> str:
    def item(name: str, report: Report) -> str:
        title, question = escape_html(report.problem.title), escape_html(ask_question(report))
        return f'<li><a href="{name}.html">{title}</a><br>{question}</li>'

    items = "\n".join(item(name, report) for name, report in reports.items())
    body = f"""<h1>{TITLE}</h1>
<p><a class="action" href="../index.html">Work an example of your own</a></p>
<ul class="examples">
{items}
</ul>
"""
    return html_page(TITLE, body, style=_STYLE)
