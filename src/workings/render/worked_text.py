"""A solution or a report for the terminal."""

import re
import shutil

from workings import plain_text
from workings.plain_text import to_one_line, wrap_to_columns
from workings.problems.notation import TextNotation
from workings.problems.worked_problem import MistakeSummary, Panel, WorkedProblem
from workings.render.matrix import (
    MARK_MEANINGS,
    MARK_SYMBOLS,
    VERDICT_SYMBOLS,
    AnsiStyler,
    draw_matrix,
    used_marks,
    visible_width,
)

_MIN_WIDTH = 24
_MAX_NOTES = 6  # notes below a matrix; what is wrong beyond that is in the matrix


def render_text(problem: WorkedProblem, *, width: int | None = None, color: bool = False) -> str:
    """Write it for a terminal of so many columns; None: as wide as this one (80 without one).

    >>> from workings.problems.worked_problem import Cell, Panel
    >>> cells = [[Cell("1", 1.0), Cell("-0.5", -0.5)]]
    >>> page = WorkedProblem("One row", [], [Panel("Q", None, cells, ["1"], ["1", "2"])])
    >>> print(render_text(page))
    One row
    <BLANKLINE>
    1  Q  1×2
       [ 1.0  −0.5 ]
    """
    columns = width if width is not None else shutil.get_terminal_size((80, 24)).columns
    page = _TextDocument(problem, max(columns, _MIN_WIDTH), AnsiStyler(color))
    blocks = [
        page.heading_lines(),
        page.given_lines(),
        *page.step_blocks(),
        page.legend_lines(),
        page.summary_lines(),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block)


class _TextDocument:
    """The blocks of the page, each a list of lines."""

    def __init__(self, problem: WorkedProblem, width: int, styler: AnsiStyler) -> None:
        self.problem, self.width, self.styler = problem, width, styler
        self.notation = TextNotation(problem.decimals)

    def heading_lines(self) -> list[str]:
        """Write the title, and the verdict in one line."""
        worked, pen = self.problem, self.styler
        lines = [
            pen(line, "strong") for line in wrap_to_columns(to_one_line(worked.title), self.width)
        ]
        lines = lines if worked.title else []
        if not worked.verdict:
            return lines
        verdict = f"{VERDICT_SYMBOLS.get(worked.verdict, '')} {to_one_line(worked.verdict)}".strip()
        found = worked.mistake
        if found is not None:
            numbers = (
                f"claimed {to_one_line(found.claimed)}, expected {to_one_line(found.expected)}"
            )
            verdict += f": {to_one_line(found.location)}: {numbers}"
        style = "wrong" if worked.verdict == "wrong" else "found right"
        return [*lines, *(pen(line, style) for line in wrap_to_columns(verdict, self.width, "  "))]

    def given_lines(self) -> list[str]:
        """Draw what was given, side by side as far as there is room."""
        boxes = []
        for panel in self.problem.givens:
            title = self.panel_title(self.notation.symbol(to_one_line(panel.name)), panel)
            title = plain_text.truncate_to_columns(title.replace("\u00a0", " "), self.width)
            boxes.append([title, *self.matrix_lines(panel, 0)])
        lines: list[str] = []
        for k, shelf in enumerate(_pack_into_rows(boxes, self.width)):
            lines += ["", *_join_boxes(shelf)] if k else _join_boxes(shelf)
        return [self.styler("Given", "dim"), *lines] if lines else []

    def step_blocks(self) -> list[list[str]]:
        """Draw every step: its number and formula, the matrix, what is to be said about it."""
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
        """Write the formula, the shape, the verdict on the step."""
        rows, columns = panel.shape
        sign = VERDICT_SYMBOLS.get(panel.verdict, "")
        verdict = f"  {sign}\u00a0{to_one_line(panel.verdict)}" if panel.verdict else ""
        return f"{formula}  {rows}×{columns}{verdict}"

    def matrix_lines(self, panel: Panel, indent: int) -> list[str]:
        """Draw a matrix, indented."""
        lines = draw_matrix(panel, self.width - indent, self.styler, self.problem.decimals)
        return [" " * indent + line for line in lines]

    def note_lines(self, panel: Panel) -> list[str]:
        """Say what there is to say about the cells that are wrong."""
        said = [
            f"✗ row {i + 1}, column {j + 1}: {to_one_line(cell.note)}"
            for i, row in enumerate(panel.cells)
            for j, cell in enumerate(row)
            if cell.mark == "wrong" and cell.note
        ]
        if len(said) > _MAX_NOTES:
            said[_MAX_NOTES:] = [f"… and {len(said) - _MAX_NOTES} more"]
        lines = [line for note in said for line in wrap_to_columns(note, self.width - 3, "  ")]
        return [self.styler(f"   {line}", "wrong") for line in lines]

    def legend_lines(self) -> list[str]:
        """Explain the signs that occur."""
        parts = [
            f"{MARK_SYMBOLS[mark]} {MARK_MEANINGS[mark]}" for mark in used_marks(self.problem.steps)
        ]
        if any(panel.first_wrong for panel in self.problem.steps):
            parts.insert(0, "▸ the first wrong number")
        joined = " · ".join(part.replace(" ", "\u00a0") for part in parts)
        lines = wrap_to_columns(joined.replace(" · ", "\u00a0· "), self.width) if parts else []
        if any(plain_text.display_width(part) > self.width - 2 for part in parts):
            lines = [line for part in parts for line in wrap_to_columns(part, self.width, "  ")]
        return [self.styler(line, "dim") for line in lines]

    def summary_lines(self) -> list[str]:
        """Tell the first wrong number, what may have caused it, and the summary."""
        worked, pen = self.problem, self.styler
        lines = [] if worked.mistake is None else self.mistake_lines(worked.mistake)
        if worked.summary:
            lines += ([""] if lines else []) + wrap_to_columns(
                to_one_line(worked.summary), self.width
            )
        return [pen(lines[0], "strong"), *lines[1:]] if worked.mistake else lines

    def mistake_lines(self, mistake: MistakeSummary) -> list[str]:
        """Set out the finding, one thing below the other."""
        lines = wrap_to_columns(
            f"The first wrong number: {to_one_line(mistake.location)}", self.width, "  "
        )
        said = [
            ("claimed", to_one_line(mistake.claimed)),
            ("expected", to_one_line(mistake.expected)),
        ]
        if mistake.working is not None:
            said.append(("working", mistake.working(self.notation)))
        for k, (name, reproduces, says) in enumerate(mistake.causes):
            label = ("causes" if len(mistake.causes) > 1 else "cause") if not k else ""
            share = f" (explains {to_one_line(reproduces)})" if reproduces else ""
            said.append((label, f"{to_one_line(name)}{share}: {to_one_line(says)}"))
        for label, text in said:
            lines += wrap_to_columns(
                f"  {label:<10}{text}".replace("  ", "\u00a0\u00a0"), self.width, " " * 12
            )
        return lines


def _pack_into_rows(boxes: list[list[str]], width: int, gap: int = 4) -> list[list[list[str]]]:
    """Sort boxes into shelves, as many on each as there is room for."""
    shelves: list[list[list[str]]] = []
    used = 0
    for box in boxes:
        wide = max(map(visible_width, box))
        if shelves and used + gap + wide <= width:
            shelves[-1].append(box)
            used += gap + wide
        else:
            shelves.append([box])
            used = wide
    return shelves


def _join_boxes(boxes: list[list[str]], gap: int = 4) -> list[str]:
    """Put boxes beside each other, their tops in line."""
    height = max(map(len, boxes))
    lines = [""] * height
    for k, box in enumerate(boxes):
        wide = max(map(visible_width, box))
        for i in range(height):
            line = box[i] if i < len(box) else ""
            lines[i] += (" " * gap if k else "") + line + " " * (wide - visible_width(line))
    return [re.sub(r" +$", "", line) for line in lines]
