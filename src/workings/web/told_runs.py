"""What the page is told of runs: how one was trained, and how two compare."""

from pydantic import BaseModel

from workings.web.told import Tree


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
