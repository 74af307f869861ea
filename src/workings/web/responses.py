"""The responses of the API that are the page's own: numbers as text, formulas as trees, colors.

These are dataclasses without pydantic, because `workings.page` and `workings.widget` use them, too.
Other routes return what they have: problems as they were requested, settings, runs.
"""

from dataclasses import dataclass, field

from workings.problems.derivation import ErrorLink, SourceBlock

Cells = list[list[str]]
"""The texts of a matrix, by row and column."""

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
    texts: Cells
    values: Cells
    colors: Cells
    marks: Cells
    largest: str
    part: int | None = None
    sources: list[str] = field(default_factory=list)
    is_backward: bool = False  # a gradient, or computed from one


@dataclass
class KindView:
    """A kind of problem in the menu: its family, its title and its computation on one line."""

    name: str
    family: str
    title: str
    picture: str


@dataclass
class ResizableDimension:
    """A size that can be changed, and the matrices that have it along rows (0) or columns (1)."""

    label: str
    value: int
    names: list[str]  # fields with token lists of this length
    lines: list[tuple[str, int]]


@dataclass
class OptionView:
    """A setting that only one kind of problem has: how it is entered, and its default."""

    name: str
    form: str  # choice, flag, number or text
    choices: list[str]
    default: str  # "": none


@dataclass
class SolutionView:
    """A solved problem, and the options to change it.

    `absent`: matrices that can be added, with initial numbers that change no result.
    """

    title: str
    given: list[MatrixView]
    steps: list[MatrixView]
    absent: dict[str, Cells]
    sizes: list[ResizableDimension]
    heads: list[int]
    settings: list[str]
    options: list[OptionView]
    mask: Cells | None
    milliseconds: float


@dataclass
class CellWorking:
    """The computation of a cell, and the cells that it reads; a hint has no value and no reads."""

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
    notes: Cells


@dataclass
class CauseView:
    """A mistake that explains the claimed numbers, and the cells that it would result in."""

    name: str
    explained_share: str
    description: str
    resulting_cells: Cells | None
    colors: Cells | None


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

    `assumption` is the condition of the verdict, `notes` are about the source. `read_as` has the
    conventions that the solution was checked under, `heads` the numbers of heads that are possible.
    """

    title: str
    verdict: str
    assumption: str
    notes: list[str]
    counts: dict[str, int]
    summary: str
    steps: list[CheckedStepView]
    findings: list[FindingView]
    links: list[ErrorLink]
    given: list[MatrixView]
    open_steps: list[MatrixView]
    read_as: dict[str, str]
    heads: list[int]


@dataclass
class ErrorResponse:
    """The message of an error, one line."""

    error: str


@dataclass
class Heatmap:
    """A heatmap, with its cells in row-major order.

    `levels`: base64, one byte per cell (255: masked). `colors`, `inks`: the color of each level and
    a readable text color on it, by theme (light, dark). `numbers`: base64, one little-endian int16
    per cell, in units of the last decimal. A small map has `texts`; a large one has
    `largest_per_row`: the columns and numbers of the largest cells of each row.
    """

    name: str
    description: str
    rows: list[str]
    columns: list[str]
    levels: str
    numbers: str
    decimals: int
    colors: dict[str, list[str]]
    inks: dict[str, list[str]]
    ticks: list[tuple[int, str]]
    texts: Cells | None
    largest_per_row: list[list[tuple[int, str]]] | None
    reads: list[str] = field(default_factory=list)
    """of cross-attention: the token that the decoder reads where it writes that of the row"""


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
    thumbs: Cells
    ablated: list[list[bool]]
    has_workings: bool  # cells can be derived and heads ablated


@dataclass
class OutcomeView:
    """The probability of a class or token, and another one to compare it with.

    `other`: of the intact model, or of side B; None if there is none. `change`: the change from the
    intact model, or from side A to side B, in percentage points.
    """

    name: str
    probability: float | None
    text: str
    other: float | None = None
    other_text: str = ""
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
class OutputView:
    """The generated text of a model with its score; `text` is None if it generates none."""

    text: str | None
    note: str
    caption_attention: CaptionAttentionView | None
    notes: list[str]


@dataclass
class StageView:
    """What one stage of a model computes for every token, as a thumbnail with `size`.

    The rows are tokens; of a recurrent layer, the columns are, and time runs from left to right.
    """

    path: str
    name: str
    group: str
    num_tokens: int
    width: int
    size: tuple[int, int]
    thumb: str
    is_recurrent: bool


@dataclass
class ModelDrawing:
    """The stages of a model in the order in which they are computed."""

    stages: list[StageView]
    colors: dict[str, list[str]]


@dataclass
class InspectView:
    """The output of a run for an input, and its attention stacks.

    `baseline`: the output of the intact model, if heads are ablated. `colors`: of the thumbnails.
    """

    kind: str
    description: str
    tokens: list[str]
    bars: list[OutcomeView]
    num_omitted: int  # outcomes without a bar
    output: OutputView
    baseline: OutputView | None
    stacks: list[AttentionStackView]
    cell_groups: list[str]  # with their sizes
    has_positions: bool
    colors: dict[str, list[str]]


@dataclass
class TokenView:
    """A generated token: the text that it adds, its probability and its alternatives."""

    text: str
    token: str
    probability_text: str
    bars: list[OutcomeView]


@dataclass
class CompletionView:
    """A continuation of a text; `stop_reason`: why it is shorter than requested."""

    tokens: list[TokenView]
    stop_reason: str
    milliseconds: float


@dataclass
class TableView:
    """A table whose first column has the names of the rows; a chart has a picture (SVG), too."""

    title: str
    header: list[str]
    rows: Cells
    picture: MarkupTree | None = None


@dataclass
class ProductView:
    """The product of a query and a key: its largest terms by dimension, and their sum."""

    description: str
    formula: FormulaView
    terms: TableView
    working: FormulaView


@dataclass
class DerivationView:
    """The derivation of a weight: product, scale, mask and softmax; and the model's value."""

    title: str
    name: str
    description: str
    product: ProductView
    formula: FormulaView
    intermediates: list[FormulaView]
    terms: TableView
    working: FormulaView
    model_values: TableView
    notes: list[str]


@dataclass
class CellActivationsView:
    """The activations of a cell on a text, and the cells of its group that vary most."""

    size: int
    cell: int
    strip: TokenStrip
    others: list[int]


@dataclass
class CurvesView:
    """The charts of a training log, its metrics, its result by name, and samples by epoch."""

    charts: list[TableView]
    metrics: TableView
    samples: list[tuple[int, str]]
    result: dict[str, str]


@dataclass
class TrainingView:
    """The state of a training; `curves` is None if the client has this `revision` already."""

    state: str
    summary: str
    progress: float
    facts: dict[str, str]
    revision: int
    has_report: bool
    curves: CurvesView | None


@dataclass
class ComparisonView:
    """The outputs of two sides, and one head of each.

    `heads`: the numbers of layers and heads that both sides have, by part. `maps`: the head of each
    side, and the second minus the first if their shapes are equal; none if no part is shared.
    """

    sides: list[OutputView]
    summary: str
    pairs: list[OutcomeView]
    num_omitted: int
    heads: dict[str, tuple[int, int]]
    maps: list[Heatmap]
    maps_summary: str
    notes: list[str]


@dataclass
class PermutationView:
    """f(P X) compared with P f(X); `deviation` has one row per layer, one column per token."""

    tokens: list[str]
    permuted_tokens: list[str]
    residual: str
    summary: str
    has_removable_positions: bool
    layers: TableView
    deviation: Heatmap
    pairs: list[OutcomeView]
    heads: dict[str, tuple[int, int]]
    maps: list[Heatmap]
    maps_summary: str
