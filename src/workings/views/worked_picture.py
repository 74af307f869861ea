"""A solution or a report as a picture: every matrix with its formula, its names and its numbers."""

from dataclasses import dataclass

from workings.views.colours import step
from workings.views.elide import elided
from workings.views.measure import shortened, text_width
from workings.views.notation import Text, typeset
from workings.views.numerals import SIGNS, largest, texts
from workings.views.picture import Picture
from workings.views.plain import one_line
from workings.views.worked import Panel, Worked

_WIDTH = 1160.0
_MARGIN = 28.0
_GAP = 34.0
_SIZE, _SMALL = 13.0, 11.0
_LINE = 26.0  # the height of a row
_HEAD = 66.0  # of a panel, above its first row: formula, shape, names of columns
_MOST = 24  # rows or columns; of more, the middle is left out
_NAME = 120.0  # pixels for the name of a row, at most


def picture(worked: Worked) -> Picture:
    """Draw what was given and the steps, from left to right and line after line."""
    title = one_line(worked.title) or "A worked problem"
    panels = [_Drawn.of(panel, worked.decimals) for panel in (*worked.givens, *worked.steps)]
    places, height = _placed(panels)
    drawn = Picture(_WIDTH, height, title)
    room = _WIDTH - 2 * _MARGIN
    drawn.text(_MARGIN, 40, shortened(title, room, 18, bold=True), size=18, bold=True)
    for panel, (x, y) in zip(panels, places, strict=True):
        panel.draw(drawn, x, y)
    return drawn


def _placed(panels: list["_Drawn"]) -> tuple[list[tuple[float, float]], float]:
    """Fill lines with panels; also say how high all of it is."""
    x, y, below, places = _MARGIN, 64.0, 64.0, []
    for panel in panels:
        if x > _MARGIN and x + panel.width > _WIDTH - _MARGIN:
            x, y = _MARGIN, below + _GAP
        places.append((x, y))
        x, below = x + panel.width + _GAP, max(below, y + panel.height)
    return places, below + _MARGIN


@dataclass(frozen=True)
class _Drawn:
    """A panel, measured."""

    panel: Panel
    formula: str
    shape: str
    numbers: list[list[str]]
    side: float  # the names of the rows
    column: float  # one column

    @classmethod
    def of(cls, panel: Panel, decimals: int) -> "_Drawn":
        height, width = panel.shape
        formula = panel.name if panel.formula is None else panel.formula(Text(decimals))
        panel = elided(panel, _MOST, _MOST)
        numbers = [
            [
                typeset(text) + (f" {SIGNS[cell.mark]}" if cell.mark in SIGNS else "")
                for text, cell in zip(row, cells, strict=True)
            ]
            for row, cells in zip(texts(panel, decimals), panel.cells, strict=True)
        ]
        names = [one_line(name) for name in panel.row_names]
        side = min(max(text_width(name, _SMALL) for name in names), _NAME) + 12
        widest = max(text_width(number, _SIZE) for row in numbers for number in row)
        shape = f"{height} × {width}"
        return cls(panel, one_line(formula), shape, numbers, side, widest + 18)

    @property
    def width(self) -> float:
        table = self.side + self.column * self.panel.shape[1]
        return min(max(table, text_width(self.formula, _SIZE)), _WIDTH - 2 * _MARGIN)

    @property
    def height(self) -> float:
        return _HEAD + _LINE * self.panel.shape[0]

    def draw(self, to: Picture, x: float, y: float) -> None:
        """Draw the matrix with its top left corner there."""
        to.text(x, y + 14, shortened(self.formula, self.width, _SIZE), size=_SIZE)
        to.text(x, y + 31, self.shape, "soft", _SMALL)
        full, left, top = largest(self.panel), x + self.side, y + _HEAD
        for j, name in enumerate(self.panel.column_names):
            words = shortened(one_line(name), self.column - 4, _SMALL)
            middle = left + self.column * (j + 0.5)
            to.text(middle, top - 8, words, "soft", _SMALL, anchor="middle")
        for i, name in enumerate(self.panel.row_names):
            words, base = shortened(one_line(name), _NAME, _SMALL), top + _LINE * i + 17
            to.text(left - 8, base, words, "soft", _SMALL, anchor="end")
            for j, cell in enumerate(self.panel.cells[i]):
                right = left + self.column * (j + 1)
                if colour := step(cell.value, full):
                    box = (right - self.column, base - 17, self.column, _LINE)
                    to.rectangle(*box, colour)
                bold, ink = cell.mark == "wrong", "soft" if cell.mark == "masked" else "ink"
                to.text(right - 9, base, self.numbers[i][j], ink, _SIZE, anchor="end", bold=bold)
        self._brackets(to, left, top)

    def _brackets(self, to: Picture, left: float, top: float) -> None:
        rows, columns = self.panel.shape
        right, bottom = left + self.column * columns, top + _LINE * rows
        for edge, inwards in ((left - 3, 6), (right + 3, -6)):
            corners = [(edge + inwards, top - 2), (edge, top - 2), (edge, bottom + 2)]
            to.line([*corners, (edge + inwards, bottom + 2)], width=1.5)
