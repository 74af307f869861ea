"""A solution or a report as a picture: every matrix with its formula, its names and its numbers."""

from dataclasses import dataclass

from workings.plain_text import to_one_line
from workings.problems.notation import TextNotation, typeset
from workings.problems.worked_problem import Panel, WorkedProblem
from workings.render.colors import color_step
from workings.render.matrix import MARK_SYMBOLS, format_cells, max_abs_cell, truncate_matrix
from workings.render.pictures import Picture, text_width, truncate_to_pixels

_WIDTH = 1160.0
_MARGIN = 28.0
_GAP = 34.0
_NUMBER_SIZE, _NAME_SIZE = 13.0, 11.0
_ROW_HEIGHT = 26.0  # the height of a row
_HEADER_HEIGHT = 66.0  # of a panel, above its first row: formula, shape, names of columns
_MAX_SIDE = 24  # rows or columns; of more, the middle is left out
_MAX_NAME_WIDTH = 120.0  # pixels for the name of a row, at most


def render_picture(problem: WorkedProblem) -> Picture:
    """Draw what was given and the steps, from left to right and line after line."""
    title = to_one_line(problem.title) or "A worked problem"
    panels = [
        _MeasuredPanel.measure(panel, problem.decimals)
        for panel in (*problem.givens, *problem.steps)
    ]
    places, height = _place_panels(panels)
    drawn = Picture(_WIDTH, height, title)
    room = _WIDTH - 2 * _MARGIN
    drawn.add_text(_MARGIN, 40, truncate_to_pixels(title, room, 18, bold=True), size=18, bold=True)
    for panel, (x, y) in zip(panels, places, strict=True):
        panel.draw(drawn, x, y)
    return drawn


def _place_panels(panels: list["_MeasuredPanel"]) -> tuple[list[tuple[float, float]], float]:
    """Fill lines with panels; also say how high all of it is."""
    x, y, below, places = _MARGIN, 64.0, 64.0, []
    for panel in panels:
        if x > _MARGIN and x + panel.width > _WIDTH - _MARGIN:
            x, y = _MARGIN, below + _GAP
        places.append((x, y))
        x, below = x + panel.width + _GAP, max(below, y + panel.height)
    return places, below + _MARGIN


@dataclass(frozen=True)
class _MeasuredPanel:
    """A panel, measured."""

    panel: Panel
    formula: str
    shape: str
    numbers: list[list[str]]
    name_width: float  # the names of the rows
    column_width: float  # one column

    @classmethod
    def measure(cls, panel: Panel, decimals: int) -> "_MeasuredPanel":
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
        side = min(max(text_width(name, _NAME_SIZE) for name in names), _MAX_NAME_WIDTH) + 12
        widest = max(text_width(number, _NUMBER_SIZE) for row in numbers for number in row)
        shape = f"{height} × {width}"
        return cls(panel, to_one_line(formula), shape, numbers, side, widest + 18)

    @property
    def width(self) -> float:
        table = self.name_width + self.column_width * self.panel.shape[1]
        return min(max(table, text_width(self.formula, _NUMBER_SIZE)), _WIDTH - 2 * _MARGIN)

    @property
    def height(self) -> float:
        return _HEADER_HEIGHT + _ROW_HEIGHT * self.panel.shape[0]

    def draw(self, picture: Picture, x: float, y: float) -> None:
        """Draw the matrix with its top left corner there."""
        picture.add_text(
            x, y + 14, truncate_to_pixels(self.formula, self.width, _NUMBER_SIZE), size=_NUMBER_SIZE
        )
        picture.add_text(x, y + 31, self.shape, "soft", _NAME_SIZE)
        full, left, top = max_abs_cell(self.panel), x + self.name_width, y + _HEADER_HEIGHT
        for j, name in enumerate(self.panel.column_names):
            words = truncate_to_pixels(to_one_line(name), self.column_width - 4, _NAME_SIZE)
            middle = left + self.column_width * (j + 0.5)
            picture.add_text(middle, top - 8, words, "soft", _NAME_SIZE, anchor="middle")
        for i, name in enumerate(self.panel.row_names):
            words, base = (
                truncate_to_pixels(to_one_line(name), _MAX_NAME_WIDTH, _NAME_SIZE),
                top + _ROW_HEIGHT * i + 17,
            )
            picture.add_text(left - 8, base, words, "soft", _NAME_SIZE, anchor="end")
            for j, cell in enumerate(self.panel.cells[i]):
                right = left + self.column_width * (j + 1)
                if colour := color_step(cell.value, full):
                    box = (right - self.column_width, base - 17, self.column_width, _ROW_HEIGHT)
                    picture.add_rectangle(*box, colour)
                bold, ink = cell.mark == "wrong", "soft" if cell.mark == "masked" else "ink"
                picture.add_text(
                    right - 9, base, self.numbers[i][j], ink, _NUMBER_SIZE, anchor="end", bold=bold
                )
        self._draw_brackets(picture, left, top)

    def _draw_brackets(self, picture: Picture, left: float, top: float) -> None:
        rows, columns = self.panel.shape
        right, bottom = left + self.column_width * columns, top + _ROW_HEIGHT * rows
        for edge, inwards in ((left - 3, 6), (right + 3, -6)):
            corners = [(edge + inwards, top - 2), (edge, top - 2), (edge, bottom + 2)]
            picture.add_line([*corners, (edge + inwards, bottom + 2)], width=1.5)
