"""What the page is told of runs: how one was trained, and how two compare."""

from pydantic import BaseModel

from workings.web.told import Tree
from workings.web.told_looks import Map, Pictured


class Grid(BaseModel):
    """A plain table: the first column has names, the others what goes with them."""

    head: list[str]
    rows: list[list[str]]


class Chart(BaseModel):
    """A picture (a tree of SVG), and the same as a table."""

    title: str
    picture: Tree
    table: Grid


class Fact(BaseModel):
    """Something about a run, in a word or two."""

    name: str
    value: str


class Sample(BaseModel):
    """What a model had to say after an epoch."""

    epoch: int
    text: str


class Curves(BaseModel):
    """What a log has told so far."""

    charts: list[Chart]
    measures: Grid
    samples: list[Sample]
    result: list[Fact]


class Training(BaseModel):
    """A training as it is now; `curves` only where they are others than those `seen`."""

    state: str
    says: str
    share: float
    facts: list[Fact]
    seen: int
    report: bool
    curves: Curves | None


class Setting(BaseModel):
    """A key of a recipe; `usual` is its default, where the run has another."""

    key: str
    value: str
    usual: str
    help: str


class Recipe(BaseModel):
    """What a run is made by, section by section, and what it was made with."""

    sections: dict[str, list[Setting]]
    made_with: list[Fact]


class Both(BaseModel):
    """Two runs' trainings: curves on the same charts, and the settings in which they differ."""

    charts: list[Chart]
    best: Grid
    settings: Grid


class Pair(BaseModel):
    """How likely something is to each of two; None where one of them does not know it."""

    name: str
    first: float | None
    second: float | None
    first_text: str
    second_text: str
    change: str


class Side(BaseModel):
    """One of two: what was written, if anything, of which picture, and what there is to say."""

    name: str
    text: str | None
    note: str
    pictured: Pictured | None
    notes: list[str]


class Heads(BaseModel):
    """Attention that both have."""

    part: str
    layers: int
    heads: int


class Beside(BaseModel):
    """A head of each, and the second minus the first; or why that cannot be."""

    first: Map
    second: Map
    difference: Map | None
    says: str


class Compared(BaseModel):
    """Two answers side by side."""

    sides: list[Side]
    says: str
    pairs: list[Pair]
    more: int
    stacks: list[Heads]
    beside: Beside | None
    notes: list[str]


class Permuted(BaseModel):
    """A text read in its order and in another; `apart` has a row a layer, a column a place."""

    tokens: list[str]
    permuted: list[str]
    residual: str
    says: str
    removable: bool
    layers: Grid
    apart: Map
    pairs: list[Pair]
    stacks: list[Heads]
    beside: Beside
