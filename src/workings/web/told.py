"""What the page is told: plain data, every number as Python worked it out and as it is shown."""

from dataclasses import dataclass, field

Tree = list[object]
"""A formula as a tree: an element's name, its attributes, then texts and further trees."""


@dataclass
class Formula:
    """A formula for the eye (a tree of MathML) and for the ear (a line of text)."""

    tree: Tree
    text: str


@dataclass
class Matrix:
    """A matrix with its names. A cell has a text, a value to the last digit, a colour, a mark.

    `axes`: what its rows and columns stand for (`tokens`, `context`, both, or nothing).
    """

    key: str
    name: str
    symbol: Formula
    formula: Formula | None
    role: str
    axes: tuple[str, str]
    row_names: list[str]
    column_names: list[str]
    texts: list[list[str]]
    values: list[list[str]]
    colours: list[list[str]]
    marks: list[list[str]]
    largest: str
    part: int | None = None
    sources: list[str] = field(default_factory=list)


@dataclass
class Absent:
    """A matrix that is not given, and the numbers that it may start with: they change nothing."""

    name: str
    cells: list[list[str]]


@dataclass
class Size:
    """A size that can be changed: the matrices that have it, down (0) or across (1)."""

    label: str
    value: int
    names: list[str]  # of the lists of tokens that go with it
    lines: list[tuple[str, int]]


@dataclass
class Worked:
    """A problem, solved."""

    title: str
    given: list[Matrix]
    steps: list[Matrix]
    absent: list[Absent]
    sizes: list[Size]
    heads: list[int]
    settings: list[str]
    mask: list[list[str]] | None
    milliseconds: float


@dataclass
class Block:
    """Some rows and columns of a matrix."""

    key: str
    rows: list[int]
    columns: list[int]


@dataclass
class Working:
    """A cell, written out: its place, the substitution, and what it is computed from."""

    key: str
    row: int
    column: int
    name: str
    working: Formula
    value: str
    reads: list[Block]


@dataclass
class Judged:
    """A claimed step beside the exact one; `notes` say what a cell should be."""

    again: int
    verdict: str
    claimed: Matrix
    exact: Matrix
    notes: list[list[str]]


@dataclass
class Cause:
    """A mistake that leads to what was written, and the step as it would have it."""

    name: str
    reproduces: str
    says: str
    gives: list[list[str]] | None
    colours: list[list[str]] | None


@dataclass
class First:
    """The first wrong number of a step."""

    key: str
    again: int
    where: str
    row: int
    column: int
    claimed: str
    expected: str
    carried: str | None
    working: Formula
    causes: list[Cause]


@dataclass
class Link:
    """An error carried on from a cell into `count` cells of a later step."""

    source: str
    cell: tuple[int, int]
    target: str
    first: tuple[int, int]
    count: int


@dataclass
class Report:
    """A worked solution, judged; `open`: steps that are not claimed yet."""

    title: str
    verdict: str
    counts: dict[str, int]
    steps: list[Judged]
    findings: list[First]
    links: list[Link]
    given: list[Matrix]
    open: list[Matrix]


@dataclass
class Claimed:
    """A step as somebody worked it out."""

    key: str
    again: int
    cells: list[list[str]]


@dataclass
class Table:
    """A problem as the page edits it."""

    title: str
    kind: str
    vectors: str
    tokens: list[str] | None
    context_tokens: list[str] | None
    settings: dict[str, str | int | float | list[list[str]]]
    given: dict[str, list[list[str]]]
    claims: list[Claimed]


@dataclass
class Rows:
    """A matrix that was read from text."""

    cells: list[list[str]]


@dataclass
class Lecture:
    """A worked example by its name."""

    name: str
    title: str


@dataclass
class Hint:
    """Help with a step, about one of its cells."""

    row: int
    column: int
    help: Formula


@dataclass
class Exercise:
    """A problem of a sheet."""

    name: str
    heading: str
    tell: list[str]
    table: Table


@dataclass
class Sheet:
    """A problem sheet to be answered on the page."""

    title: str
    rules: list[str]
    exercises: list[Exercise]
    notes: list[str]


@dataclass
class Run:
    """A run by its name; `kind`: caption, classify, language or translate."""

    name: str
    title: str
    kind: str


@dataclass
class Refusal:
    """What was wrong, in a line."""

    error: str
