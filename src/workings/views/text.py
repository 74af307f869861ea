"""A solution or a report for the terminal."""

import re
import shutil

from workings.views import plain
from workings.views.drawing import Pen, draw, visible
from workings.views.notation import Text
from workings.views.numerals import MEANINGS, SIGNS, VERDICTS, marks
from workings.views.plain import one_line, wrap
from workings.views.worked import Finding, Panel, Worked

_NARROWEST = 24
_NOTES = 6  # notes below a matrix; what is wrong beyond that is in the matrix


def render(worked: Worked, *, width: int | None = None, color: bool = False) -> str:
    """Write it for a terminal of so many columns; None: as wide as this one (80 without one).

    >>> from workings.views.worked import Cell, Panel
    >>> cells = [[Cell("1", 1.0), Cell("-0.5", -0.5)]]
    >>> page = Worked("One row", [], [Panel("Q", None, cells, ["1"], ["1", "2"])])
    >>> print(render(page))
    One row
    <BLANKLINE>
    1  Q  1×2
       [ 1.0  −0.5 ]
    """
    columns = width if width is not None else shutil.get_terminal_size((80, 24)).columns
    page = _Page(worked, max(columns, _NARROWEST), Pen(color))
    blocks = [page.head(), page.givens(), *page.steps(), page.legend(), page.finding()]
    return "\n\n".join("\n".join(block) for block in blocks if block)


class _Page:
    """The blocks of the page, each a list of lines."""

    def __init__(self, worked: Worked, width: int, pen: Pen) -> None:
        self.worked, self.width, self.pen = worked, width, pen
        self.notation = Text(worked.decimals)

    def head(self) -> list[str]:
        """Write the title, and the verdict in one line."""
        worked, pen = self.worked, self.pen
        lines = [pen(line, "strong") for line in wrap(one_line(worked.title), self.width)]
        lines = lines if worked.title else []
        if not worked.verdict:
            return lines
        verdict = f"{VERDICTS.get(worked.verdict, '')} {one_line(worked.verdict)}".strip()
        found = worked.finding
        if found is not None:
            numbers = f"claimed {one_line(found.claimed)}, expected {one_line(found.expected)}"
            verdict += f": {one_line(found.where)}: {numbers}"
        style = "wrong" if worked.verdict == "wrong" else "found right"
        return [*lines, *(pen(line, style) for line in wrap(verdict, self.width, "  "))]

    def givens(self) -> list[str]:
        """Draw what was given, side by side as far as there is room."""
        boxes = []
        for panel in self.worked.givens:
            title = self.title(self.notation.symbol(one_line(panel.name)), panel)
            title = plain.clip(title.replace("\u00a0", " "), self.width)
            boxes.append([title, *self.matrix(panel, 0)])
        lines: list[str] = []
        for k, shelf in enumerate(_shelves(boxes, self.width)):
            lines += ["", *_side_by_side(shelf)] if k else _side_by_side(shelf)
        return [self.pen("Given", "dim"), *lines] if lines else []

    def steps(self) -> list[list[str]]:
        """Draw every step: its number and formula, the matrix, what is to be said about it."""
        blocks = []
        for k, panel in enumerate(self.worked.steps, start=1):
            formula = "" if panel.formula is None else panel.formula(self.notation)
            name = one_line(panel.name)
            if not formula:
                formula = name
            elif not formula.startswith(f"{name} ="):
                formula = f"{name}: {formula}"
            heading = wrap(self.title(formula, panel), self.width - 3)
            lines = [
                f"{'' if i else k:<2} {self.pen(line, 'strong')}" for i, line in enumerate(heading)
            ]
            blocks.append([*lines, *self.matrix(panel, 3), *self.notes(panel)])
        return blocks

    def title(self, formula: str, panel: Panel) -> str:
        """Write the formula, the shape, the verdict on the step."""
        rows, columns = panel.shape
        sign = VERDICTS.get(panel.judged, "")
        verdict = f"  {sign}\u00a0{one_line(panel.judged)}" if panel.judged else ""
        return f"{formula}  {rows}×{columns}{verdict}"

    def matrix(self, panel: Panel, indent: int) -> list[str]:
        """Draw a matrix, indented."""
        lines = draw(panel, self.width - indent, self.pen, self.worked.decimals)
        return [" " * indent + line for line in lines]

    def notes(self, panel: Panel) -> list[str]:
        """Say what there is to say about the cells that are wrong."""
        said = [
            f"✗ row {i + 1}, column {j + 1}: {one_line(cell.note)}"
            for i, row in enumerate(panel.cells)
            for j, cell in enumerate(row)
            if cell.mark == "wrong" and cell.note
        ]
        if len(said) > _NOTES:
            said[_NOTES:] = [f"… and {len(said) - _NOTES} more"]
        lines = [line for note in said for line in wrap(note, self.width - 3, "  ")]
        return [self.pen(f"   {line}", "wrong") for line in lines]

    def legend(self) -> list[str]:
        """Explain the signs that occur."""
        parts = [f"{SIGNS[mark]} {MEANINGS[mark]}" for mark in marks(self.worked.steps)]
        if any(panel.first for panel in self.worked.steps):
            parts.insert(0, "▸ the first wrong number")
        joined = " · ".join(part.replace(" ", "\u00a0") for part in parts)
        lines = wrap(joined.replace(" · ", "\u00a0· "), self.width) if parts else []
        if any(plain.width(part) > self.width - 2 for part in parts):
            lines = [line for part in parts for line in wrap(part, self.width, "  ")]
        return [self.pen(line, "dim") for line in lines]

    def finding(self) -> list[str]:
        """Tell the first wrong number, what may have caused it, and the summary."""
        worked, pen = self.worked, self.pen
        lines = [] if worked.finding is None else self.found(worked.finding)
        if worked.summary:
            lines += ([""] if lines else []) + wrap(one_line(worked.summary), self.width)
        return [pen(lines[0], "strong"), *lines[1:]] if worked.finding else lines

    def found(self, finding: Finding) -> list[str]:
        """Set out the finding, one thing below the other."""
        lines = wrap(f"The first wrong number: {one_line(finding.where)}", self.width, "  ")
        said = [("claimed", one_line(finding.claimed)), ("expected", one_line(finding.expected))]
        if finding.working is not None:
            said.append(("working", finding.working(self.notation)))
        for k, (name, reproduces, says) in enumerate(finding.causes):
            label = ("causes" if len(finding.causes) > 1 else "cause") if not k else ""
            share = f" (explains {one_line(reproduces)})" if reproduces else ""
            said.append((label, f"{one_line(name)}{share}: {one_line(says)}"))
        for label, text in said:
            lines += wrap(
                f"  {label:<10}{text}".replace("  ", "\u00a0\u00a0"), self.width, " " * 12
            )
        return lines


def _shelves(boxes: list[list[str]], width: int, gap: int = 4) -> list[list[list[str]]]:
    """Sort boxes into shelves, as many on each as there is room for."""
    shelves: list[list[list[str]]] = []
    used = 0
    for box in boxes:
        wide = max(map(visible, box))
        if shelves and used + gap + wide <= width:
            shelves[-1].append(box)
            used += gap + wide
        else:
            shelves.append([box])
            used = wide
    return shelves


def _side_by_side(boxes: list[list[str]], gap: int = 4) -> list[str]:
    """Put boxes beside each other, their tops in line."""
    height = max(map(len, boxes))
    lines = [""] * height
    for k, box in enumerate(boxes):
        wide = max(map(visible, box))
        for i in range(height):
            line = box[i] if i < len(box) else ""
            lines[i] += (" " * gap if k else "") + line + " " * (wide - visible(line))
    return [re.sub(r" +$", "", line) for line in lines]
