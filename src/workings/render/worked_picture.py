"""A worked problem as a picture: every matrix with its formula, row and column names, numbers."""

from dataclasses import dataclass, replace

from workings.languages import gettext
from workings.plain_text import to_one_line
from workings.problems.notation import TextNotation, typeset
from workings.problems.worked_problem import Panel, WorkedProblem
from workings.render.colors import color_step
from workings.render.matrix import MARK_SYMBOLS, format_cells, max_abs_cell, truncate_matrix
from workings.render.pictures import Picture, text_width, truncate_to_pixels, wrap_to_pixels

_WIDTH = 1160.0  # of the picture; all lengths are in pixels
_MARGIN = 28.0
_TITLE_SIZE, _HEADER_TOP = 18, 40.0  # font size, and the baseline of the title
_GAP = 34.0  # between panels
_NUMBER_SIZE, _NAME_SIZE = 13.0, 11.0  # font sizes
_ROW_HEIGHT = 26.0
_HEADER_HEIGHT = 66.0  # formula, shape and column names above the first row
_MAX_SIDE = 24  # rows or columns; the middle of a larger matrix is left out
_MAX_NAME_WIDTH = 120.0  # of a row name


def render_picture(problem: WorkedProblem, *, width: float = _WIDTH) -> Picture:
    """Draw the givens and the steps, from left to right, line by line."""
    title = to_one_line(problem.title) or gettext("A worked problem")
    panels = [
        _MeasuredPanel.measure(panel, problem.decimals)
        for panel in (*problem.givens, *problem.steps)
    ]
    width = max(width, 2 * _MARGIN + max(panel.table_width for panel in panels))
    lines = wrap_to_pixels(title, width - 2 * _MARGIN, _TITLE_SIZE, bold=True, max_lines=4)
    panels = [replace(panel, max_width=width - 2 * _MARGIN) for panel in panels]
    top = _HEADER_TOP + (_TITLE_SIZE + 4) * len(lines)
    positions, height = _place_panels(panels, top, width)
    picture = Picture(width, height, title, lambda w: render_picture(problem, width=w))
    for k, line in enumerate(lines):
        y = _HEADER_TOP + (_TITLE_SIZE + 4) * k
        picture.add_text(_MARGIN, y, line, size=_TITLE_SIZE, bold=True)
    for panel, (x, y) in zip(panels, positions, strict=True):
        panel.draw(picture, x, y)
    return picture


def _place_panels(
    panels: list["_MeasuredPanel"], top: float, width: float
) -> tuple[list[tuple[float, float]], float]:
    """Return the top left corner of each panel, and the height of the picture."""
    x, y, bottom, positions = _MARGIN, top, top, []
    for panel in panels:
        if x > _MARGIN and x + panel.width > width - _MARGIN:
            x, y = _MARGIN, bottom + _GAP
        positions.append((x, y))
        x, bottom = x + panel.width + _GAP, max(bottom, y + panel.height)
    return positions, bottom + _MARGIN


@dataclass(frozen=True)
class _MeasuredPanel:
    """A panel with its formatted numbers and the widths of its columns."""

    panel: Panel
    formula: str
    shape: str
    numbers: list[list[str]]
    name_width: float  # of the row names
    column_width: float
    max_width: float = _WIDTH

    @classmethod
    def measure(cls, panel: Panel, decimals: int) -> "_MeasuredPanel":
        """Format the numbers of a panel and compute the widths they need."""
        height, width = panel.shape
        formula = panel.name if panel.formula is None else panel.formula(TextNotation(decimals))
        panel = truncate_matrix(panel, _MAX_SIDE, _MAX_SIDE)
        numbers = [
            [
                typeset(text) + (f" {MARK_SYMBOLS[cell.mark]}" if cell.mark in MARK_SYMBOLS else "")
                for text, cell in zip(row, cells, strict=True)
            ]
            for row, cells in zip(format_cells(panel, decimals), panel.cells, strict=True)
        ]
        names = [to_one_line(name) for name in panel.row_names]
        name_width = max(text_width(name, _NAME_SIZE) for name in names)
        name_width = min(name_width, _MAX_NAME_WIDTH) + 12
        column_width = 18 + max(text_width(n, _NUMBER_SIZE) for row in numbers for n in row)
        shape = f"{height} × {width}"
        return cls(panel, to_one_line(formula), shape, numbers, name_width, column_width)

    @property
    def table_width(self) -> float:
        """The width of names and numbers, without the formula."""
        return self.name_width + self.column_width * self.panel.shape[1]

    @property
    def width(self) -> float:
        formula = text_width(self.formula, _NUMBER_SIZE)
        return min(max(self.table_width, formula), self.max_width)

    @property
    def height(self) -> float:
        return _HEADER_HEIGHT + _ROW_HEIGHT * self.panel.shape[0]

    def draw(self, picture: Picture, x: float, y: float) -> None:
        """Draw the matrix with its top left corner at (x, y)."""
        picture.add_text(
            x, y + 14, truncate_to_pixels(self.formula, self.width, _NUMBER_SIZE), size=_NUMBER_SIZE
        )
        picture.add_text(x, y + 31, self.shape, "soft", _NAME_SIZE)
        left, top = x + self.name_width, y + _HEADER_HEIGHT
        for j, name in enumerate(self.panel.column_names):
            label = truncate_to_pixels(to_one_line(name), self.column_width - 4, _NAME_SIZE)
            center = left + self.column_width * (j + 0.5)
            picture.add_text(center, top - 8, label, "soft", _NAME_SIZE, anchor="middle")
        for i, name in enumerate(self.panel.row_names):
            label = truncate_to_pixels(to_one_line(name), _MAX_NAME_WIDTH, _NAME_SIZE)
            baseline = top + _ROW_HEIGHT * i + 17
            picture.add_text(left - 8, baseline, label, "soft", _NAME_SIZE, anchor="end")
            self._draw_row(picture, i, left, baseline)
        self._draw_brackets(picture, left, top)

    def _draw_row(self, picture: Picture, i: int, left: float, baseline: float) -> None:
        full_scale = max_abs_cell(self.panel)
        for j, cell in enumerate(self.panel.cells[i]):
            right = left + self.column_width * (j + 1)
            if color := color_step(cell.value, full_scale):
                box = (right - self.column_width, baseline - 17, self.column_width, _ROW_HEIGHT)
                picture.add_rectangle(*box, color)
            picture.add_text(
                right - 9,
                baseline,
                self.numbers[i][j],
                "soft" if cell.mark == "masked" else "ink",
                _NUMBER_SIZE,
                anchor="end",
                bold=cell.mark == "wrong",
            )

    def _draw_brackets(self, picture: Picture, left: float, top: float) -> None:
        rows, columns = self.panel.shape
        right, bottom = left + self.column_width * columns, top + _ROW_HEIGHT * rows
        for edge, serif in ((left - 3, 6), (right + 3, -6)):
            corners = [(edge + serif, top - 2), (edge, top - 2), (edge, bottom + 2)]
            picture.add_line([*corners, (edge + serif, bottom + 2)], width=1.5)
