"""Feedback on a sheet: a page for each student, and one for the class."""

import re
from pathlib import Path

from workings.errors import UserError
from workings.io import make_folder, write_text
from workings.languages import gettext, localize_number, ngettext
from workings.problems.check import Report
from workings.problems.grading.class_summary import ClassSummary, Item, summarize_class
from workings.problems.grading.marking import ProblemMark
from workings.problems.grading.marks import Grades, StudentMarks, format_points
from workings.problems.solution import Solution, format_step_title
from workings.problems.worked_problem import WorkedProblem
from workings.render.bars import bar_chart
from workings.render.page import escape_html, html_page
from workings.render.tables import TABLE_CSS, html_table
from workings.render.worked_html import render_body

CLASS_PAGE = "class.html"
_MAX_MISTAKES = 12
_MAX_NAMES = 8  # of students beside a mistake
_FEEDBACK_CSS = (
    TABLE_CSS
    + """
.workings .points { font-size: 1.3rem; }
.workings .problem { margin-top: 2.4rem; border-top: 2px solid var(--line); }
.workings .problem h1 { font-size: 1.2rem; }
.workings ul.notes { margin: .4rem 0; padding-left: 1.2rem; }
.workings .charts svg { max-width: 100%; height: auto; }
.workings table.plain td { white-space: normal; vertical-align: top; }
@media print { .workings .problem { break-before: page; } }
"""
)


def write_feedback(grades: Grades, folder: str | Path) -> list[str]:
    """Write a page for each student and one for the class; return the names of the files."""
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file: --feedback must name a folder")
    make_folder(folder)
    names = _name_pages(grades)
    for student, name in zip(grades.students, names, strict=True):
        write_text(folder / name, render_student_page(student, grades.title))
    write_text(folder / CLASS_PAGE, render_class_page(grades))
    return [*names, CLASS_PAGE]


def _name_pages(grades: Grades) -> list[str]:
    """Return a distinct file name for each student, from the id."""
    names: list[str] = []
    for student in grades.students:
        base = re.sub(r"[^\w\-]+", "_", student.id).strip("_")[:80] or "student"
        name, number = f"{base}.html", 2
        while name.casefold() in (other.casefold() for other in [*names, CLASS_PAGE]):
            name, number = f"{base}-{number}.html", number + 1
        names.append(name)
    return names


def render_student_page(student: StudentMarks, title: str = "") -> str:
    """Return the page of one student: the points, and for each problem what went wrong where."""
    heading = f"{title}: {student.student}" if title else student.student
    points = _points_of(student.final, student.max_points)
    by_hand = "" if student.hand_mark is None else gettext(" (set by hand)")
    parts = [
        f'<h1 dir="auto">{escape_html(heading)}</h1>',
        f'<p class="points">{points}{by_hand}</p>',
        _points_table(student),
    ]
    names = {mark.problem.name for mark in student.marks}
    unassigned = [f"{name}: {text}" for name, text in student.errors.items() if name not in names]
    parts.append(_notes_html(unassigned))
    parts += [_problem_html(mark) for mark in student.marks]
    return html_page(heading, "\n".join(filter(None, parts)), style=_FEEDBACK_CSS)


def _points_of(points: float, worth: float) -> str:
    return gettext(
        "{points} of {worth} points",
        points=localize_number(format_points(points)),
        worth=localize_number(format_points(worth)),
    )


def _points_table(student: StudentMarks) -> str:
    rows = [
        [
            mark.problem.name,
            localize_number(
                f"{format_points(mark.total)} / {format_points(mark.problem.max_points)}"
            ),
            mark.describe_first_mistake(),
        ]
        for mark in student.marks
    ]
    return html_table(
        (gettext("problem"), gettext("points"), gettext("first mistake")), rows, text_columns=3
    )


def _notes_html(notes: list[str]) -> str:
    items = "".join(f"<li>{escape_html(note)}</li>" for note in notes)
    return f'<ul class="notes">{items}</ul>' if items else ""


def _problem_html(mark: ProblemMark) -> str:
    """Return one problem: the points, the numbers with their verdicts, the right working."""
    points = _points_of(mark.total, mark.problem.max_points)
    lost = [
        gettext(
            "{step}: {points} of {worth}",
            step=step,
            points=localize_number(format_points(mark.points[step])),
            worth=localize_number(format_points(worth)),
        )
        for step, worth in mark.problem.points.items()
        if mark.points.get(step, 0.0) < worth - 1e-9
    ]
    parts = [
        '<section class="problem">',
        f"<h2>{escape_html(mark.problem.name)}: {points}</h2>",
        f"<p>{escape_html(gettext('Points were lost in {steps}.', steps='; '.join(lost)))}</p>"
        if lost
        else "",
        _notes_html(mark.notes),
    ]
    if mark.report is not None:
        parts.append(render_body(mark.report.to_worked_problem()))
        parts.append(_right_working_html(mark.report))
    elif mark.problem.planted_report is not None and mark.total < mark.problem.max_points:
        parts.append(render_body(mark.problem.planted_report.to_worked_problem()))
    elif lost:
        parts.append(render_body(Solution(mark.problem.problem).to_worked_problem()))
    return "\n".join(filter(None, [*parts, "</section>"]))


def _right_working_html(report: Report) -> str:
    """Return the right steps from the first wrong one on; "" if nothing is wrong."""
    first = report.first
    if first is None:
        return ""
    solution = Solution(report.problem)
    worked = solution.to_worked_problem()
    keys = solution.keys()
    steps = worked.steps[keys.index(first.key) :] if first.key in keys else worked.steps
    title = format_step_title(report.problem.get_step(first.key), report.problem)
    rest = WorkedProblem("", [], steps, decimals=worked.decimals)
    heading = escape_html(gettext("The right working from {step} on", step=title))
    return f"<h2>{heading}</h2>\n{render_body(rest)}"


def render_class_page(grades: Grades) -> str:
    """Return the page of the class: distribution, commonest mistakes, items."""
    summary = summarize_class(grades)
    title = (
        gettext("{title}: the class", title=grades.title) if grades.title else gettext("The class")
    )
    count = len(grades.students)
    mean = sum(summary.shares) / count if count else 0.0
    parts = [
        f'<h1 dir="auto">{escape_html(title)}</h1>',
        f'<p class="points">{_describe_average(count, 100 * mean)}</p>',
        '<div class="charts">',
        bar_chart(summary.histogram, title=gettext("Students by share of the points")).svg(),
        *_mistake_parts(summary),
        *_item_parts(summary.items),
        "</div>",
    ]
    if grades.errors:
        parts += [f"<h2>{gettext('What could not be read')}</h2>", _notes_html(grades.errors)]
    return html_page(title, "\n".join(parts), style=_FEEDBACK_CSS)


def _describe_average(count: int, percent: float) -> str:
    return ngettext(
        "{count} student, {percent:.0f} % of the points on average",
        "{count} students, {percent:.0f} % of the points on average",
        count,
        percent=percent,
    )


def _mistake_parts(summary: ClassSummary) -> list[str]:
    mistakes = summary.mistakes[:_MAX_MISTAKES]
    if not mistakes:
        return [f"<p>{gettext('No mistake of the catalog occurred.')}</p>"]
    chart = bar_chart(
        [(mistake.name, len(mistake.students)) for mistake in mistakes],
        title=gettext("Students by first mistake"),
    )
    rows = [
        [
            mistake.name,
            str(len(mistake.students)),
            mistake.description,
            mistake.example,
            _list_names(mistake.students),
        ]
        for mistake in mistakes
    ]
    header = (
        gettext("mistake"),
        gettext("students"),
        gettext("what was done"),
        gettext("example"),
        gettext("who"),
    )
    return [
        chart.svg(),
        f"<h2>{gettext('The commonest mistakes')}</h2>",
        html_table(header, rows, text_columns=5),
    ]


def _list_names(names: list[str]) -> str:
    text = ", ".join(names[:_MAX_NAMES])
    if len(names) <= _MAX_NAMES:
        return text
    return gettext("{names} and {count} more", names=text, count=len(names) - _MAX_NAMES)


def _item_parts(items: list[Item]) -> list[str]:
    """Return a bar for each step, and the steps that do not tell students apart."""
    if not items:
        return []
    chart = bar_chart(
        [(f"{item.problem} {item.step}", item.mean) for item in items],
        title=gettext("Mean share of the points by step (other color: does not discriminate)"),
        labels=[f"{100 * item.mean:.0f} %" for item in items],
        maximum=1.0,
        highlighted=[not item.discriminates for item in items],
    )
    rows = [
        [
            f"{item.problem} {item.step}",
            f"{100 * item.mean:.0f} %",
            gettext("all alike")
            if item.correlation is None
            else localize_number(f"{item.correlation:.2f}"),
        ]
        for item in items
        if not item.discriminates
    ]
    parts = [chart.svg()]
    if rows:
        header = (gettext("step"), gettext("mean"), gettext("correlation with the rest"))
        parts += [f"<h2>{gettext('Steps that do not discriminate')}</h2>", html_table(header, rows)]
    return parts
