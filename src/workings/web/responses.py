"""What the page is told: plain data, every number as Python worked it out and as it is shown."""

from dataclasses import dataclass, field

MarkupTree = list[object]
"""A formula as a tree: an element's name, its attributes, then texts and further trees."""


@dataclass
class FormulaView:
    """A formula for the eye (a tree of MathML) and for the ear (a line of text)."""

    tree: MarkupTree
    text: str


@dataclass
class MatrixView:
    """A matrix with its names. A cell has a text, a value to the last digit, a colour, a mark.

    `axes`: what its rows and columns stand for (`tokens`, `context`, both, or nothing).
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
    """A matrix that is not given, and the numbers that it may start with: they change nothing."""

    name: str
    cells: list[list[str]]


@dataclass
class ResizableDimension:
    """A size that can be changed: the matrices that have it, down (0) or across (1)."""

    label: str
    value: int
    names: list[str]  # of the lists of tokens that go with it
    lines: list[tuple[str, int]]


@dataclass
class SolutionView:
    """A problem, solved."""

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
class CellBlock:
    """Some rows and columns of a matrix."""

    key: str
    rows: list[int]
    columns: list[int]


@dataclass
class CellWorking:
    """A cell, written out: its place, the substitution, and what it is computed from."""

    key: str
    row: int
    column: int
    name: str
    working: FormulaView
    value: str
    reads: list[CellBlock]


@dataclass
class CheckedStepView:
    """A claimed step beside the exact one; `notes` say what a cell should be."""

    reprint: int
    verdict: str
    claimed: MatrixView
    exact: MatrixView
    notes: list[list[str]]


@dataclass
class CauseView:
    """A mistake that leads to what was written, and the step as it would have it."""

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
class ErrorLinkView:
    """An error carried on from a cell into `count` cells of a later step."""

    source: str
    cell: tuple[int, int]
    target: str
    first: tuple[int, int]
    count: int


@dataclass
class ReportView:
    """A worked solution, judged; `open`: steps that are not claimed yet."""

    title: str
    verdict: str
    counts: dict[str, int]
    steps: list[CheckedStepView]
    findings: list[FindingView]
    links: list[ErrorLinkView]
    given: list[MatrixView]
    open_steps: list[MatrixView]


@dataclass
class ClaimView:
    """A step as somebody worked it out."""

    key: str
    reprint: int
    cells: list[list[str]]


@dataclass
class ProblemTable:
    """A problem as the page edits it."""

    title: str
    kind: str
    vectors: str
    tokens: list[str] | None
    context_tokens: list[str] | None
    settings: dict[str, str | int | float | list[list[str]]]
    given: dict[str, list[list[str]]]
    claims: list[ClaimView]


@dataclass
class MatrixRows:
    """A matrix that was read from text."""

    cells: list[list[str]]


@dataclass
class LectureView:
    """A worked example by its name."""

    name: str
    title: str


@dataclass
class HintView:
    """Help with a step, about one of its cells."""

    row: int
    column: int
    help: FormulaView


@dataclass
class ExerciseView:
    """A problem of a sheet."""

    name: str
    heading: str
    instructions: list[str]
    table: ProblemTable


@dataclass
class SheetView:
    """A problem sheet to be answered on the page."""

    title: str
    rules: list[str]
    exercises: list[ExerciseView]
    notes: list[str]


@dataclass
class RunView:
    """A run by its name; `kind`: caption, classify, language or translate."""

    name: str
    title: str
    kind: str


@dataclass
class ErrorResponse:
    """What was wrong, in a line."""

    error: str


@dataclass
class Palette:
    """The colours of a map's levels, and what can be read on each."""

    colors: list[str]
    inks: list[str]


@dataclass
class Heatmap:
    """A map, rows by columns.

    `levels` and `numbers` are base64 of bytes, row by row: a byte a cell, an index into the palette
    (255: hidden by the mask); and two bytes a cell, little-endian and signed, the number in units
    of its last decimal. A small map has `texts`, too; of a large one, `most` names the largest of
    each row, as (column, number).
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
    """Layers that look from the same rows at the same columns, each head in small.

    `thumbs`: by layer and head, base64 of a byte a cell, `size` (rows, columns) of them.
    """

    part: str
    label: str
    rows: int
    columns: int
    size: tuple[int, int]
    thumbs: list[list[str]]
    ablated: list[list[bool]]
    has_workings: bool  # whether a cell can be written out, and a head switched off


@dataclass
class ProbabilityBar:
    """How likely something is; with heads switched off, `before` and `change` as well."""

    name: str
    probability: float
    text: str
    baseline: float | None = None
    baseline_text: str = ""
    change: str = ""


@dataclass
class TokenStrip:
    """Tokens of a text with a number each: its text and its colour, by step."""

    name: str
    description: str
    tokens: list[str]
    texts: list[str]
    colors: list[str]
    largest: str
    signed: bool


@dataclass
class CaptionTile:
    """A word of a caption, and what was looked at for it: a shadow to lay over the picture."""

    word: str
    note: str
    description: str
    overlay: str
    frame: tuple[float, float, float, float] | None


@dataclass
class CaptionAttentionView:
    """A picture as the model saw it (an address with all its data), and a tile a word."""

    image: str
    name: str
    tiles: list[CaptionTile]


@dataclass
class GenerationView:
    """What a model wrote, and how likely it thinks that is; `before`: with all heads on."""

    text: str
    note: str
    baseline: str | None = None
    baseline_note: str = ""


@dataclass
class InspectView:
    """What a run makes of an input."""

    kind: str
    description: str
    tokens: list[str]
    bars: list[ProbabilityBar]
    num_omitted: int  # that the bars leave out
    generation: GenerationView | None
    caption_attention: CaptionAttentionView | None
    stacks: list[AttentionStackView]
    cell_groups: list[str]  # groups of cells that can be laid over the text, each with its size
    has_positions: bool
    notes: list[str]
    light: Palette
    dark: Palette


@dataclass
class TokenView:
    """A token of a completion: the text that it adds, how likely it was, and what else was."""

    text: str
    token: str
    probability_text: str
    bars: list[ProbabilityBar]


@dataclass
class CompletionView:
    """How a text goes on; `ended`: why it is shorter than was asked for."""

    tokens: list[TokenView]
    stop_reason: str
    milliseconds: float


@dataclass
class DerivationLine:
    """A line of a sum."""

    name: str
    numbers: list[str]
    is_marked: bool


@dataclass
class DerivationView:
    """A cell of a head, written out: its largest terms, the others together, the model's own.

    `table`: the head as a problem for Work, where it is small enough.
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
    """Which words decided, by several ways of asking."""

    label: str
    contrast_label: str
    strips: list[TokenStrip]


@dataclass
class CellActivationsView:
    """A cell over the text, and other cells of its group that vary most."""

    group: str
    size: int
    cell: int
    strip: TokenStrip
    others: list[int]


@dataclass
class PositionsView:
    """How a model tells places apart: the vectors, and how alike two places are."""

    description: str
    maps: list[Heatmap]
