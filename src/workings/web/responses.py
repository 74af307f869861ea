"""The responses of the API: plain data, with every number as text ready to show.

These are dataclasses without pydantic, because `workings.page` and `workings.widget` use them, too.
"""

from dataclasses import dataclass, field

from workings.problems.derivation import ErrorLink, SourceBlock

MarkupTree = list[object]
"""An element of MathML or SVG: its name, its attributes, then texts and further trees."""


@dataclass
class FormulaView:
    """A formula as a tree of MathML, and as text for screen readers."""

    tree: MarkupTree
    text: str


@dataclass
class MatrixView:
    """A matrix with its names. A cell has a text, an exact value, a color and a mark.

    `axes`: the meaning of rows and columns: `tokens`, `context`, `tokens context` or empty.
    """

    key: str
    name: str
    symbol: FormulaView
    formula: FormulaView | None
    role: str
    axes: tuple[str, str]
    row_names: list[str]
    column_names: list[str]
    texts: list[list[str]]
    values: list[list[str]]
    colors: list[list[str]]
    marks: list[list[str]]
    largest: str
    part: int | None = None
    sources: list[str] = field(default_factory=list)


@dataclass
class OptionalMatrix:
    """A matrix that can be added, with initial numbers that change no result."""

    name: str
    cells: list[list[str]]


@dataclass
class ResizableDimension:
    """A size that can be changed, and the matrices that have it along rows (0) or columns (1)."""

    label: str
    value: int
    names: list[str]  # fields with token lists of this length
    lines: list[tuple[str, int]]


@dataclass
class SolutionView:
    """A solved problem, and the options to change it."""

    title: str
    given: list[MatrixView]
    steps: list[MatrixView]
    absent: list[OptionalMatrix]
    sizes: list[ResizableDimension]
    heads: list[int]
    settings: list[str]
    mask: list[list[str]] | None
    milliseconds: float


@dataclass
class CellWorking:
    """The computation of a cell, and the cells that it reads."""

    key: str
    row: int
    column: int
    name: str
    working: FormulaView
    value: str
    reads: list[SourceBlock]


@dataclass
class CheckedStepView:
    """A claimed step and the exact one; `notes` say what each cell should be."""

    reprint: int
    verdict: str
    claimed: MatrixView
    exact: MatrixView
    notes: list[list[str]]


@dataclass
class CauseView:
    """A mistake that explains the claimed numbers, and the cells that it would result in."""

    name: str
    explained_share: str
    description: str
    resulting_cells: list[list[str]] | None
    colors: list[list[str]] | None


@dataclass
class FindingView:
    """The first wrong number of a step."""

    key: str
    reprint: int
    location: str
    row: int
    column: int
    claimed: str
    expected: str
    follow_through: str | None
    working: FormulaView
    causes: list[CauseView]


@dataclass
class ReportView:
    """A checked solution; `open_steps` are not claimed yet.

    `assumption` is the condition of the verdict, `notes` what it does not cover.
    """

    title: str
    verdict: str
    assumption: str
    notes: list[str]
    counts: dict[str, int]
    steps: list[CheckedStepView]
    findings: list[FindingView]
    links: list[ErrorLink]
    given: list[MatrixView]
    open_steps: list[MatrixView]


@dataclass
class ClaimView:
    """A claimed step; `reprint` is 0, or k for its k-th repetition in the source."""

    key: str
    reprint: int
    cells: list[list[str]]


@dataclass
class ProblemTable:
    """A problem as the page edits it; conventions that it does not declare are left out."""

    title: str
    kind: str
    vectors: str
    rounded: list[str]
    tokens: list[str] | None
    context_tokens: list[str] | None
    settings: dict[str, str | int | float | list[list[str]]]
    given: dict[str, list[list[str]]]
    claims: list[ClaimView]


@dataclass
class MatrixRows:
    """A matrix parsed from text."""

    cells: list[list[str]]


@dataclass
class LectureView:
    """A worked example of the lecture notes."""

    name: str
    title: str


@dataclass
class HintView:
    """A hint for a step, about one of its cells."""

    row: int
    column: int
    help: FormulaView


@dataclass
class ExerciseView:
    """A problem of a problem sheet."""

    name: str
    heading: str
    instructions: list[str]
    table: ProblemTable


@dataclass
class SheetView:
    """A problem sheet to answer on the page."""

    title: str
    rules: list[str]
    exercises: list[ExerciseView]
    notes: list[str]


@dataclass
class RunView:
    """A registered run; `kind`: caption, classify, language or translate."""

    name: str
    title: str
    kind: str


@dataclass
class ErrorResponse:
    """The message of an error, one line."""

    error: str


@dataclass
class Palette:
    """The color of each level of a heatmap, and a text color that is readable on it."""

    colors: list[str]
    inks: list[str]


@dataclass
class Heatmap:
    """A heatmap, with its cells in row-major order.

    `levels`: base64, one byte per cell, an index into the palette (255: masked). `numbers`: base64,
    one little-endian int16 per cell, in units of the last decimal. A small map has `texts`; a large
    one has `largest_per_row`: the columns and numbers of the largest cells of each row.
    """

    name: str
    description: str
    rows: list[str]
    columns: list[str]
    levels: str
    numbers: str
    decimals: int
    light: Palette
    dark: Palette
    ticks: list[tuple[int, str]]
    texts: list[list[str]] | None
    largest_per_row: list[list[tuple[int, str]]] | None


@dataclass
class AttentionStackView:
    """Attention layers with the same queries and keys, with a thumbnail of each head.

    `thumbs`: by layer and head, base64 levels of a map with `size` (rows, columns).
    """

    part: str
    label: str
    rows: int
    columns: int
    size: tuple[int, int]
    thumbs: list[list[str]]
    ablated: list[list[bool]]
    has_workings: bool  # cells can be derived and heads ablated


@dataclass
class ProbabilityBar:
    """A probability; with ablated heads, also that of the intact model and the change."""

    name: str
    probability: float
    text: str
    baseline: float | None = None
    baseline_text: str = ""
    change: str = ""


@dataclass
class TokenStrip:
    """The tokens of a text, each with a value and a color."""

    name: str
    description: str
    tokens: list[str]
    texts: list[str]
    colors: list[str]
    largest: str
    signed: bool


@dataclass
class CaptionTile:
    """A word of a caption, and its attention as an overlay of the picture."""

    word: str
    note: str
    description: str
    overlay: str
    frame: tuple[float, float, float, float] | None


@dataclass
class CaptionAttentionView:
    """A picture as the model reads it (a data URI), and the attention of each word."""

    image: str
    name: str
    tiles: list[CaptionTile]


@dataclass
class GenerationView:
    """A generated text with its score; `baseline`: that of the intact model."""

    text: str
    note: str
    baseline: str | None = None
    baseline_note: str = ""


@dataclass
class InspectView:
    """The output of a run for an input, and its attention stacks."""

    kind: str
    description: str
    tokens: list[str]
    bars: list[ProbabilityBar]
    num_omitted: int  # outcomes without a bar
    generation: GenerationView | None
    caption_attention: CaptionAttentionView | None
    stacks: list[AttentionStackView]
    cell_groups: list[str]  # with their sizes
    has_positions: bool
    notes: list[str]
    light: Palette
    dark: Palette


@dataclass
class TokenView:
    """A generated token: the text that it adds, its probability and its alternatives."""

    text: str
    token: str
    probability_text: str
    bars: list[ProbabilityBar]


@dataclass
class CompletionView:
    """A continuation of a text; `stop_reason`: why it is shorter than requested."""

    tokens: list[TokenView]
    stop_reason: str
    milliseconds: float


@dataclass
class DerivationLine:
    """One term of a sum."""

    name: str
    numbers: list[str]
    is_marked: bool


@dataclass
class DerivationView:
    """The derivation of a head's cell: its largest terms, the sum of the rest, the model's value.

    `table`: the head as a problem for Work, if it is small enough.
    """

    title: str
    name: str
    description: str
    formula: FormulaView
    intermediates: list[FormulaView]
    header: list[str]
    lines: list[DerivationLine]
    working: FormulaView
    model_values: list[tuple[str, str, str]]
    notes: list[str]
    table: ProblemTable | None


@dataclass
class AttributionView:
    """The prediction attributed to input tokens, by several methods."""

    label: str
    contrast_label: str
    strips: list[TokenStrip]


@dataclass
class CellActivationsView:
    """The activations of a cell on a text, and the cells of its group that vary most."""

    group: str
    size: int
    cell: int
    strip: TokenStrip
    others: list[int]


@dataclass
class PositionsView:
    """The position vectors of a model, and their dot products."""

    description: str
    maps: list[Heatmap]


@dataclass
class PlainTable:
    """A table whose first column has the names of the rows."""

    header: list[str]
    rows: list[list[str]]


@dataclass
class ChartView:
    """A chart as a tree of SVG, and its numbers as a table."""

    title: str
    picture: MarkupTree
    table: PlainTable


@dataclass
class Fact:
    """A named value."""

    name: str
    value: str


@dataclass
class SampleView:
    """A sample of the model's output after an epoch."""

    epoch: int
    text: str


@dataclass
class CurvesView:
    """Charts, metrics, samples and results from a training log."""

    charts: list[ChartView]
    metrics: PlainTable
    samples: list[SampleView]
    result: list[Fact]


@dataclass
class TrainingView:
    """The state of a training; `curves` is None if the client has this `revision` already."""

    state: str
    summary: str
    progress: float
    facts: list[Fact]
    revision: int
    has_report: bool
    curves: CurvesView | None


@dataclass
class SettingView:
    """A key of a recipe; `default` is empty if the run uses the default."""

    key: str
    value: str
    default: str
    help: str


@dataclass
class RecipeView:
    """The recipe of a run by section, and the environment it was trained in."""

    sections: dict[str, list[SettingView]]
    environment: list[Fact]


@dataclass
class TrainingComparison:
    """The training curves of two runs on shared charts, and the settings that differ."""

    charts: list[ChartView]
    best: PlainTable
    settings: PlainTable


@dataclass
class ProbabilityPair:
    """The probabilities of an outcome on both sides; None if a side does not have it."""

    name: str
    first: float | None
    second: float | None
    first_text: str
    second_text: str
    change: str


@dataclass
class ComparisonSide:
    """The output of one side of a comparison."""

    name: str
    text: str | None
    note: str
    caption_attention: CaptionAttentionView | None
    notes: list[str]


@dataclass
class SharedHeads:
    """A part with attention that both sides have."""

    part: str
    layers: int
    heads: int


@dataclass
class HeadComparison:
    """One head of each side, and the second minus the first if their shapes are equal."""

    first: Heatmap
    second: Heatmap
    difference: Heatmap | None
    summary: str


@dataclass
class ComparisonView:
    """The outputs of two sides, and one head of each."""

    sides: list[ComparisonSide]
    summary: str
    pairs: list[ProbabilityPair]
    num_omitted: int
    stacks: list[SharedHeads]
    head_comparison: HeadComparison | None
    notes: list[str]


@dataclass
class PermutationView:
    """f(P X) compared with P f(X); `deviation` has one row per layer, one column per token."""

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
