"""Solutions, reports and attention heads: each through its worked problem, here as text.

The other formats have a module each, which is imported when it is needed.
"""

import re
from typing import TYPE_CHECKING, TypeAlias

from workings.languages import gettext
from workings.plain_text import (
    AnsiStyler,
    display_width,
    output_columns,
    to_one_line,
    truncate_to_columns,
    visible_width,
    wrap_to_columns,
)
from workings.problems.notation import TextNotation, format_given_name
from workings.problems.worked_problem import (
    MistakeSummary,
    Panel,
    WorkedProblem,
    WorkedResult,
    format_verdict,
)
from workings.render.matrix import (
    MARK_MEANINGS,
    MARK_SYMBOLS,
    VERDICT_SYMBOLS,
    draw_matrix,
    used_marks,
)

if TYPE_CHECKING:
    from workings.render.pictures import Picture

Worked: TypeAlias = WorkedProblem | WorkedResult
_MAX_NOTES = 6  # notes below a matrix; further wrong cells are only marked in it


def render_latex(result: Worked) -> str:
    """Return the problem as a LaTeX document."""
    from workings.render import worked_latex

    return worked_latex.render_latex(_worked_problem(result))


def render_page(result: Worked) -> str:
    """Return the problem as an HTML page, with a note at each cell."""
    from workings.render import worked_html

    return worked_html.render_page(_worked_problem(result, notes=True))


def render_fragment(result: Worked) -> str:
    """Return the problem as a fragment of a page, with a note at each cell."""
    from workings.render import worked_html

    return worked_html.render_fragment(_worked_problem(result, notes=True))


def render_picture(result: Worked) -> "Picture":
    """Return the problem as a picture."""
    from workings.render import worked_picture

    return worked_picture.render_picture(_worked_problem(result))


def _worked_problem(result: Worked, *, notes: bool = False) -> WorkedProblem:
    return result if isinstance(result, WorkedProblem) else result.to_worked_problem(notes=notes)


def render_text(result: Worked, *, width: int | None = None, color: bool = False) -> str:
    """Return the problem as text of `width` columns (None: the width of this terminal).

    >>> from workings.problems.worked_problem import Cell
    >>> cells = [[Cell("1", 1.0), Cell("-0.5", -0.5)]]
    >>> problem = WorkedProblem("One row", [], [Panel("Q", None, cells, ["1"], ["1", "2"])])
    >>> print(render_text(problem))
    One row
    <BLANKLINE>
    1  Q  1×2
       [ 1.0  −0.5 ]
    """
    document = _TextDocument(_worked_problem(result), output_columns(width), AnsiStyler(color))
    blocks = [
        document.heading_lines(),
        document.given_lines(),
        *document.step_blocks(),
        document.legend_lines(),
        document.summary_lines(),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block)


class _TextDocument:
    """The blocks of the text, each a list of lines."""

    def __init__(self, problem: WorkedProblem, width: int, styler: AnsiStyler) -> None:
        self.problem, self.width, self.styler = problem, width, styler
        self.notation = TextNotation(problem.decimals)

    def heading_lines(self) -> list[str]:
        """Return the title and the verdict."""
        problem, lines = self.problem, list[str]()
        if problem.title:
            title = wrap_to_columns(to_one_line(problem.title), self.width)
            lines += [self.styler(line, "strong") for line in title]
        if not problem.verdict:
            return lines
        symbol = VERDICT_SYMBOLS.get(problem.verdict, "")
        verdict = f"{symbol} {to_one_line(format_verdict(problem.verdict))}".strip()
        if (mistake := problem.mistake) is not None:
            claimed, expected = to_one_line(mistake.claimed), to_one_line(mistake.expected)
            location = to_one_line(mistake.location)
            verdict += gettext(
                ": {location}: claimed {claimed}, expected {expected}",
                location=location,
                claimed=claimed,
                expected=expected,
            )
        if problem.assumption:
            verdict += gettext(", if {assumption}", assumption=to_one_line(problem.assumption))
        style = {"wrong": "wrong", "right": "right verdict"}.get(problem.verdict, "strong")
        return lines + [
            self.styler(line, style) for line in wrap_to_columns(verdict, self.width, "  ")
        ]

    def given_lines(self) -> list[str]:
        """Return the given matrices, as many side by side as fit."""
        boxes = []
        for panel in self.problem.givens:
            title = self.panel_title(
                format_given_name(self.notation, to_one_line(panel.name)), panel
            )
            title = truncate_to_columns(title.replace("\u00a0", " "), self.width)
            boxes.append([title, *self.matrix_lines(panel, 0)])
        lines: list[str] = []
        for k, row in enumerate(_pack_into_rows(boxes, self.width)):
            lines += ["", *_join_boxes(row)] if k else _join_boxes(row)
        return [self.styler(gettext("Given"), "dim"), *lines] if lines else []

    def step_blocks(self) -> list[list[str]]:
        """Return one block per step: its number and formula, the matrix, notes on wrong cells."""
        blocks = []
        for k, panel in enumerate(self.problem.steps, start=1):
            formula = "" if panel.formula is None else panel.formula(self.notation)
            name = to_one_line(panel.name)
            if not formula:
                formula = name
            elif not formula.startswith(f"{name} ="):
                formula = f"{name}: {formula}"
            heading = wrap_to_columns(self.panel_title(formula, panel), self.width - 3)
            lines = [
                f"{'' if i else k:<2} {self.styler(line, 'strong')}"
                for i, line in enumerate(heading)
            ]
            blocks.append([*lines, *self.matrix_lines(panel, 3), *self.note_lines(panel)])
        return blocks

    def panel_title(self, formula: str, panel: Panel) -> str:
        """Return the title of a matrix: its formula, its shape, the verdict on it."""
        rows, columns = panel.shape
        symbol = VERDICT_SYMBOLS.get(panel.verdict, "")
        verdict = (
            f"  {symbol}\u00a0{to_one_line(format_verdict(panel.verdict))}" if panel.verdict else ""
        )
        return f"{formula}  {rows}×{columns}{verdict}"

    def matrix_lines(self, panel: Panel, indent: int) -> list[str]:
        """Return the lines of a matrix, indented."""
        lines = draw_matrix(panel, self.width - indent, self.styler, self.problem.decimals)
        return [" " * indent + line for line in lines]

    def note_lines(self, panel: Panel) -> list[str]:
        """Return the notes on the wrong cells of a step."""
        notes = [
            gettext(
                "✗ row {row}, column {column}: {note}",
                row=i + 1,
                column=j + 1,
                note=to_one_line(cell.note),
            )
            for i, row in enumerate(panel.cells)
            for j, cell in enumerate(row)
            if cell.mark == "wrong" and cell.note
        ]
        if len(notes) > _MAX_NOTES:
            notes[_MAX_NOTES:] = [gettext("… and {count} more", count=len(notes) - _MAX_NOTES)]
        lines = [line for note in notes for line in wrap_to_columns(note, self.width - 3, "  ")]
        return [self.styler(f"   {line}", "wrong") for line in lines]

    def legend_lines(self) -> list[str]:
        """Return the meanings of the marks that occur."""
        parts = [
            f"{MARK_SYMBOLS[mark]} {gettext(MARK_MEANINGS[mark])}"
            for mark in used_marks(self.problem.steps)
        ]
        if any(panel.first_wrong for panel in self.problem.steps):
            parts.insert(0, f"▸ {gettext('the first wrong number')}")
        joined = " · ".join(part.replace(" ", "\u00a0") for part in parts)
        lines = wrap_to_columns(joined.replace(" · ", "\u00a0· "), self.width) if parts else []
        if any(display_width(part) > self.width - 2 for part in parts):
            lines = [line for part in parts for line in wrap_to_columns(part, self.width, "  ")]
        return [self.styler(line, "dim") for line in lines]

    def summary_lines(self) -> list[str]:
        """Return the first wrong number, its likely causes, those of other steps, the summary."""
        problem = self.problem
        lines = [] if problem.mistake is None else self.mistake_lines(problem.mistake)
        for number, mistake in enumerate(problem.mistakes[1:], start=2):
            text = to_one_line(mistake.format_as_further(number))
            lines += wrap_to_columns(f"{text[:1].upper()}{text[1:]}", self.width, "  ")
        if problem.summary:
            summary = wrap_to_columns(to_one_line(problem.summary), self.width)
            lines += ["", *summary] if lines else summary
        for note in problem.notes:
            lines += wrap_to_columns(to_one_line(note), self.width, "  ")
        return [self.styler(lines[0], "strong"), *lines[1:]] if problem.mistake else lines

    def mistake_lines(self, mistake: MistakeSummary) -> list[str]:
        """Return the first wrong number: location, claimed, expected, working and causes."""
        lines = wrap_to_columns(
            gettext("The first wrong number: {location}", location=to_one_line(mistake.location)),
            self.width,
            "  ",
        )
        fields = [
            (gettext("claimed"), to_one_line(mistake.claimed)),
            (gettext("expected"), to_one_line(mistake.expected)),
        ]
        if mistake.working is not None:
            fields.append((gettext("working"), mistake.working(self.notation)))
        for k, cause in enumerate(mistake.causes):
            label = gettext("causes") if len(mistake.causes) > 1 else gettext("cause")
            label = "" if k else label
            share = gettext(" (explains {share})", share=to_one_line(cause.explained_share))
            name = to_one_line(cause.name) + (share if cause.explained_share else "")
            fields.append((label, f"{name}: {to_one_line(cause.description)}"))
        for label, text in fields:
            lines += wrap_to_columns(
                f"  {label:<10}{text}".replace("  ", "\u00a0\u00a0"), self.width, " " * 12
            )
        return lines


def _pack_into_rows(boxes: list[list[str]], width: int, gap: int = 4) -> list[list[list[str]]]:
    """Group boxes into rows, as many in each as fit into the width."""
    rows: list[list[list[str]]] = []
    used = 0
    for box in boxes:
        box_width = max(map(visible_width, box))
        if rows and used + gap + box_width <= width:
            rows[-1].append(box)
            used += gap + box_width
        else:
            rows.append([box])
            used = box_width
    return rows


def _join_boxes(boxes: list[list[str]], gap: int = 4) -> list[str]:
    """Join boxes side by side, aligned at the top."""
    height = max(map(len, boxes))
    lines = [""] * height
    for k, box in enumerate(boxes):
        box_width = max(map(visible_width, box))
        for i in range(height):
            line = box[i] if i < len(box) else ""
            lines[i] += (" " * gap if k else "") + line + " " * (box_width - visible_width(line))
    return [re.sub(r" +$", "", line) for line in lines]
