"""What the page is told of a run that reads an input: bars, texts, maps of who looks at whom."""

from dataclasses import dataclass

from workings.web.told import Formula, Table


@dataclass
class Palette:
    """The colours of a map's levels, and what can be read on each."""

    colours: list[str]
    inks: list[str]


@dataclass
class Map:
    """A map, rows by columns.

    `levels` and `numbers` are base64 of bytes, row by row: a byte a cell, an index into the palette
    (255: hidden by the mask); and two bytes a cell, little-endian and signed, the number in units
    of its last decimal. A small map has `texts`, too; of a large one, `most` names the largest of
    each row, as (column, number).
    """

    name: str
    says: str
    rows: list[str]
    columns: list[str]
    levels: str
    numbers: str
    decimals: int
    light: Palette
    dark: Palette
    ticks: list[tuple[int, str]]
    texts: list[list[str]] | None
    most: list[list[tuple[int, str]]] | None


@dataclass
class Stack:
    """Layers that look from the same rows at the same columns, each head in small.

    `thumbs`: by layer and head, base64 of a byte a cell, `size` (rows, columns) of them.
    """

    part: str
    called: str
    rows: int
    columns: int
    size: tuple[int, int]
    thumbs: list[list[str]]
    off: list[list[bool]]
    worked: bool  # whether a cell can be written out, and a head switched off


@dataclass
class Bar:
    """How likely something is; with heads switched off, `before` and `change` as well."""

    name: str
    share: float
    text: str
    before: float | None = None
    before_text: str = ""
    change: str = ""


@dataclass
class Strip:
    """Tokens of a text with a number each: its text and its colour, by step."""

    name: str
    says: str
    tokens: list[str]
    texts: list[str]
    colours: list[str]
    largest: str
    signed: bool


@dataclass
class Tile:
    """A word of a caption, and what was looked at for it: a shadow to lay over the picture."""

    word: str
    note: str
    says: str
    shadow: str
    frame: tuple[float, float, float, float] | None


@dataclass
class Pictured:
    """A picture as the model saw it (an address with all its data), and a tile a word."""

    photo: str
    name: str
    tiles: list[Tile]


@dataclass
class Written:
    """What a model wrote, and how likely it thinks that is; `before`: with all heads on."""

    text: str
    note: str
    before: str | None = None
    before_note: str = ""


@dataclass
class Looked:
    """What a run makes of an input."""

    kind: str
    says: str
    tokens: list[str]
    bars: list[Bar]
    more: int  # that the bars leave out
    written: Written | None
    pictured: Pictured | None
    stacks: list[Stack]
    cells: list[str]  # groups of cells that can be laid over the text, each with its size
    positions: bool
    notes: list[str]
    light: Palette
    dark: Palette


@dataclass
class Token:
    """A token of a completion: the text that it adds, how likely it was, and what else was."""

    text: str
    token: str
    chance: str
    bars: list[Bar]


@dataclass
class Completed:
    """How a text goes on; `ended`: why it is shorter than was asked for."""

    tokens: list[Token]
    ended: str
    milliseconds: float


@dataclass
class Line:
    """A line of a sum."""

    name: str
    numbers: list[str]
    marked: bool


@dataclass
class Derivation:
    """A cell of a head, written out: its largest terms, the others together, the model's own.

    `table`: the head as a problem for Work, where it is small enough.
    """

    title: str
    name: str
    says: str
    formula: Formula
    before: list[Formula]
    head: list[str]
    lines: list[Line]
    working: Formula
    elsewhere: list[tuple[str, str, str]]
    notes: list[str]
    table: Table | None


@dataclass
class Explained:
    """Which words decided, by several ways of asking."""

    label: str
    against: str
    strips: list[Strip]


@dataclass
class Tracked:
    """A cell over the text, and other cells of its group that vary most."""

    group: str
    size: int
    cell: int
    strip: Strip
    others: list[int]


@dataclass
class Positions:
    """How a model tells places apart: the vectors, and how alike two places are."""

    says: str
    maps: list[Map]
