"""What the page is told of runs: how one was trained, and how two compare."""

from pydantic import BaseModel

from workings.web.responses import CaptionAttentionView, Heatmap, MarkupTree


class PlainTable(BaseModel):
    """A plain table: the first column has names, the others what goes with them."""

    header: list[str]
    rows: list[list[str]]


class ChartView(BaseModel):
    """A picture (a tree of SVG), and the same as a table."""

    title: str
    picture: MarkupTree
    table: PlainTable


class Fact(BaseModel):
    """Something about a run, in a word or two."""

    name: str
    value: str


class SampleView(BaseModel):
    """What a model had to say after an epoch."""

    epoch: int
    text: str


class CurvesView(BaseModel):
    """What a log has told so far."""

    charts: list[ChartView]
    metrics: PlainTable
    samples: list[SampleView]
    result: list[Fact]


class TrainingView(BaseModel):
    """A training as it is now; `curves` only where they are others than those `seen`."""

    state: str
    summary: str
    progress: float
    facts: list[Fact]
    revision: int
    has_report: bool
    curves: CurvesView | None


class SettingView(BaseModel):
    """A key of a recipe; `usual` is its default, where the run has another."""

    key: str
    value: str
    default: str
    help: str


class RecipeView(BaseModel):
    """What a run is made by, section by section, and what it was made with."""

    sections: dict[str, list[SettingView]]
    environment: list[Fact]


class TrainingComparison(BaseModel):
    """Two runs' trainings: curves on the same charts, and the settings in which they differ."""

    charts: list[ChartView]
    best: PlainTable
    settings: PlainTable


class ProbabilityPair(BaseModel):
    """How likely something is to each of two; None where one of them does not know it."""

    name: str
    first: float | None
    second: float | None
    first_text: str
    second_text: str
    change: str


class ComparisonSide(BaseModel):
    """One of two: what was written, if anything, of which picture, and what there is to say."""

    name: str
    text: str | None
    note: str
    caption_attention: CaptionAttentionView | None
    notes: list[str]


class SharedHeads(BaseModel):
    """Attention that both have."""

    part: str
    layers: int
    heads: int


class HeadComparison(BaseModel):
    """A head of each, and the second minus the first; or why that cannot be."""

    first: Heatmap
    second: Heatmap
    difference: Heatmap | None
    summary: str


class ComparisonView(BaseModel):
    """Two answers side by side."""

    sides: list[ComparisonSide]
    summary: str
    pairs: list[ProbabilityPair]
    num_omitted: int
    stacks: list[SharedHeads]
    head_comparison: HeadComparison | None
    notes: list[str]


class PermutationView(BaseModel):
    """A text read in its order and in another; `apart` has a row a layer, a column a place."""

    tokens: list[str]
    permuted_tokens: list[str]
    residual: str
    summary: str
    has_removable_positions: bool
    layers: PlainTable
    deviation: Heatmap
    pairs: list[ProbabilityPair]
    stacks: list[SharedHeads]
    head_comparison: HeadComparison
