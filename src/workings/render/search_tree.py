"""The tree of a search as text and as a picture: time runs from left to right."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from workings.plain_text import AnsiStyler, output_columns, to_one_line, truncate_to_columns
from workings.problems.notation import TextNotation
from workings.problems.search_tree import SearchNode, SearchTree
from workings.render.pictures import Picture, text_width, truncate_to_pixels, wrap_to_pixels

_START = "start"
_DECIMALS = 3
_MARGIN = 28.0  # all lengths are in pixels
_ROW_HEIGHT = 34.0
_NODE_HEIGHT = 25.0
_GAP, _MIN_GAP, _MAX_GAP = 54.0, 40.0, 160.0  # between columns
_TITLE_SIZE, _LEGEND_SIZE = 17.0, 12.0
_MIN_WIDTH = 560.0  # for title and legend, unless a smaller width is asked for
_TOKEN_SIZE, _SCORE_SIZE = 13.0, 11.0
_MAX_TOKEN_WIDTH = 120.0


def _describe(tree: SearchTree) -> str:
    kind = "log probability" if tree.in_logs else "probability"
    kept = "greedy search" if tree.beams == 1 else f"beam search, {tree.beams} hypotheses are kept"
    return f"{kept}; numbers are the {kind} so far"


def _format_score(node: SearchNode) -> str:
    return TextNotation(_DECIMALS).number(node.score)


def render_text(tree: SearchTree, *, width: int | None = None, color: bool = False) -> str:
    """Return the tree as text: kept hypotheses have their rank, the best path a star."""
    styler, columns = AnsiStyler(color), output_columns(width)
    title = [styler(to_one_line(tree.title), "strong")] if tree.title else []
    lines = [*title, styler(_describe(tree), "dim"), "", _START]
    for line, node in _list_lines(tree.root, ""):
        style = "strong" if node is not None and node.is_best else "dim"
        is_plain = node is not None and node.is_kept and not node.is_best
        text = truncate_to_columns(line, columns)
        lines.append(text if is_plain else styler(text, style))
    return "\n".join([*lines, "", styler("[1] kept, with its rank · ★ the best hypothesis", "dim")])


def _list_lines(node: SearchNode, indent: str) -> Iterator[tuple[str, SearchNode | None]]:
    """Yield a line for each node below this one, with the lines of the tree before it."""
    count = len(node.children) + (1 if node.num_hidden else 0)
    for k, child in enumerate(node.children, 1):
        branch, below = ("└─ ", "   ") if k == count else ("├─ ", "│  ")
        rank = f"  [{child.rank}]" if child.is_kept else ""
        star = " ★" if child.is_best else ""
        yield (
            f"{indent}{branch}{to_one_line(child.token)} {_format_score(child)}{rank}{star}",
            child,
        )
        yield from _list_lines(child, indent + below)
    if node.num_hidden:
        yield f"{indent}└─ … {node.num_hidden} more", None


def render_picture(tree: SearchTree, *, width: float | None = None) -> Picture:
    """Draw the tree: kept hypotheses in boxes, the path of the best one in color."""
    layout = _Layout(tree, width)
    redraw: Callable[[float], Picture] = lambda width: render_picture(tree, width=width)  # noqa: E731
    picture = Picture(layout.width, layout.height, layout.title, redraw)
    y = _MARGIN - 9
    for line in layout.title_lines:
        y += _TITLE_SIZE + 3
        picture.add_text(_MARGIN, y, line, size=_TITLE_SIZE, bold=True)
    for line in layout.legend_lines:
        y += _LEGEND_SIZE + 6
        picture.add_text(_MARGIN, y + 2, line, "soft", _LEGEND_SIZE)
    for edge in layout.list_edges():
        edge.draw(picture)
    for place in layout.places:
        place.draw(picture)
    return picture


@dataclass(frozen=True)
class _Place:
    """A node in the picture; (x, y) is the middle of its left side."""

    node: SearchNode
    depth: int
    x: float
    y: float
    width: float

    @property
    def color(self) -> str:
        return "c1" if self.node.is_best else "ink" if self.node.is_kept else "soft"

    def draw(self, picture: Picture) -> None:
        top, token = self.y - _NODE_HEIGHT / 2, _format_token(self.node, self.depth)
        baseline = self.y + 4.5
        if self.node.is_kept:
            color = "c1" if self.node.is_best else "line"
            picture.add_rectangle(
                self.x, top, self.width, _NODE_HEIGHT, color, 0.16 if self.node.is_best else 0.6
            )
        bold = self.node.is_best and self.depth > 0
        picture.add_text(self.x + 8, baseline, token, self.color, _TOKEN_SIZE, bold=bold)
        if self.depth:
            right, score = self.x + self.width - 8, _format_score(self.node)
            picture.add_text(right, baseline, score, self.color, _SCORE_SIZE, anchor="end")
        if self.node.rank is not None:
            x = self.x + self.width + 11
            picture.add_circle(x, self.y, 8, self.color)
            picture.add_text(x, self.y + 4, str(self.node.rank), "paper", 11, anchor="middle")
        if self.node.num_hidden:
            below = self.y + _NODE_HEIGHT / 2 + 11
            picture.add_text(self.x + 8, below, f"… {self.node.num_hidden} more", "soft", 10)


@dataclass(frozen=True)
class _Edge:
    """The line from a hypothesis to its extension."""

    start: _Place
    end: _Place

    def draw(self, picture: Picture) -> None:
        node = self.end.node
        x = self.start.x + self.start.width + (22 if self.start.node.is_kept else 2)
        middle = (x + self.end.x) / 2
        points = [(x, self.start.y), (middle, self.start.y), (middle, self.end.y)]
        color = "c1" if node.is_best else "ink" if node.is_kept else "line"
        width = 2.5 if node.is_best else 1.3
        picture.add_line([*points, (self.end.x - 2, self.end.y)], color, width)


def _format_token(node: SearchNode, depth: int) -> str:
    token = to_one_line(node.token) if depth else _START
    return truncate_to_pixels(token, _MAX_TOKEN_WIDTH, _TOKEN_SIZE, bold=True)


class _Layout:
    """Places the nodes: a column per time, leaves below each other, parents amid their children."""

    def __init__(self, tree: SearchTree, width: float | None) -> None:
        self.places: list[_Place] = []
        self.title = to_one_line(tree.title) or "The tree of a search"
        self._num_rows = 0
        self._widths: dict[int, float] = {}
        self._measure(tree.root, 0)
        nodes, num_gaps = sum(self._widths.values()), max(len(self._widths) - 1, 1)
        self._gap = _GAP
        if width is not None:  # the tree fills it
            room = width - 2 * _MARGIN - 30 - nodes
            self._gap = min(max(room / num_gaps, _MIN_GAP), _MAX_GAP)
        tree_width = nodes + num_gaps * self._gap + 30 + 2 * _MARGIN
        self.width = max(tree_width, min(width or _MIN_WIDTH, _MIN_WIDTH))
        room = self.width - 2 * _MARGIN
        self.title_lines = wrap_to_pixels(self.title, room, _TITLE_SIZE, bold=True, max_lines=4)
        self.legend_lines = wrap_to_pixels(_describe(tree), room, _LEGEND_SIZE, max_lines=4)
        self._top = _MARGIN + 18 + 20 * len(self.title_lines) + 18 * len(self.legend_lines)
        self._place(tree.root, 0)
        self.height = self._top + _ROW_HEIGHT * self._num_rows + _MARGIN / 2

    def _measure(self, node: SearchNode, depth: int) -> None:
        token = text_width(_format_token(node, depth), _TOKEN_SIZE, bold=True)
        score = text_width(_format_score(node), _SCORE_SIZE) + 14 if depth else 0.0
        self._widths[depth] = max(self._widths.get(depth, 0.0), token + score + 16)
        for child in node.children:
            self._measure(child, depth + 1)

    def _place(self, node: SearchNode, depth: int) -> float:
        """Place a node and all below it; return the middle of its row."""
        rows = [self._place(child, depth + 1) for child in node.children]
        if not rows:
            rows = [self._top + _ROW_HEIGHT * (self._num_rows + 0.5)]
            self._num_rows += 1
        y = (rows[0] + rows[-1]) / 2
        x = _MARGIN + sum(self._widths[d] + self._gap for d in range(depth))
        self.places.append(_Place(node, depth, x, y, self._widths[depth]))
        return y

    def list_edges(self) -> Iterator[_Edge]:
        """Yield the edges, those of the best path last, so that they are drawn on top."""
        by_node = {id(place.node): place for place in self.places}
        edges = [
            _Edge(place, by_node[id(child)])
            for place in self.places
            for child in place.node.children
        ]
        yield from sorted(edges, key=lambda edge: (edge.end.node.is_best, edge.end.node.is_kept))
