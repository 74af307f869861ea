// Types of the page. `Api` has the JSON that the server sends and receives, with the server's field names;
// the rest is the page's own state. Global, so that modules need no import for a type.

/** A cell's text, by row and column. */
type Cells = string[][];

declare namespace Api {
  /** An element's name, its attributes, then texts and further trees: MathML or SVG. */
  type Tree = [string, Record<string, string>, ...(Tree | string)[]];

  interface Formula {
    tree: Tree;
    text: string;
  }

  /** `axes`: what rows and columns stand for: words out of `tokens` and `context`. */
  interface Matrix {
    key: string;
    name: string;
    symbol: Formula;
    formula: Formula | null;
    role: string;
    axes: [string, string];
    row_names: string[];
    column_names: string[];
    texts: Cells;
    values: Cells;
    colors: Cells;
    marks: Cells;
    largest: string;
    part: number | null;
    sources: string[];
  }

  interface Size {
    label: string;
    value: number;
    names: ("tokens" | "context_tokens")[];
    /** Matrices that have this size, along rows (0) or columns (1). */
    lines: [string, number][];
  }

  interface Solution {
    title: string;
    given: Matrix[];
    steps: Matrix[];
    absent: { name: string; cells: Cells }[];
    sizes: Size[];
    heads: number[];
    settings: string[];
    mask: Cells | null;
  }

  /** Rows and columns of a matrix. */
  interface Block {
    key: string;
    rows: number[];
    columns: number[];
  }

  /** The computation of one cell and the cells that it uses. */
  interface Working {
    key: string;
    row: number;
    column: number;
    name: string;
    working: Formula;
    value: string;
    reads: Block[];
  }

  interface Claim {
    key: string;
    reprint: number;
    cells: Cells;
  }

  /** Without a declared convention, `vectors` is empty, and a setting is left out. */
  interface Table {
    title: string;
    kind: string;
    vectors: string;
    rounded: string[];
    tokens: string[] | null;
    context_tokens: string[] | null;
    settings: Record<string, string | number | Cells>;
    given: Record<string, Cells>;
    claims: Claim[];
  }

  interface CheckedStep {
    reprint: number;
    verdict: "right" | "rounded" | "follows" | "wrong" | "blank";
    claimed: Matrix & { formula: Formula };
    exact: Matrix;
    notes: Cells;
  }

  interface Cause {
    name: string;
    explained_share: string;
    description: string;
    resulting_cells: Cells | null;
    colors: Cells | null;
  }

  /** The first wrong number of a step. */
  interface Finding {
    key: string;
    reprint: number;
    location: string;
    row: number;
    column: number;
    claimed: string;
    expected: string;
    follow_through: string | null;
    working: Formula;
    causes: Cause[];
  }

  /** An error carried forward from one cell into a later step. */
  interface ErrorLink {
    source: string;
    cell: [number, number];
    target: string;
    first: [number, number];
    count: number;
  }

  interface Report {
    title: string;
    verdict: string;
    assumption: string;
    notes: string[];
    counts: Record<string, number>;
    steps: CheckedStep[];
    findings: Finding[];
    links: ErrorLink[];
    given: Matrix[];
    open_steps: Matrix[];
  }

  interface Hint {
    row: number;
    column: number;
    help: Formula;
  }

  interface Sheet {
    title: string;
    rules: string[];
    exercises: { name: string; heading: string; instructions: string[]; table: Table }[];
    notes: string[];
  }

  interface Run {
    name: string;
    title: string;
    kind: "caption" | "classify" | "language" | "translate";
  }

  interface Palette {
    colors: string[];
    inks: string[];
  }

  interface Palettes {
    light: Palette;
    dark: Palette;
  }

  /** `levels`: base64, one byte per cell; `numbers`: base64, one int16 per cell, in units of the last decimal. */
  interface Heatmap extends Palettes {
    name: string;
    description: string;
    rows: string[];
    columns: string[];
    levels: string;
    numbers: string;
    decimals: number;
    ticks: [number, string][];
    texts: Cells | null;
    largest_per_row: [number, string][][] | null;
  }

  interface HeatmapGallery extends Palettes {
    maps: Omit<Heatmap, "light" | "dark">[];
    maps_per_row: number;
  }

  interface HeatmapComparison {
    first: Heatmap | null;
    second: Heatmap | null;
    difference: Heatmap | null;
    summary: string;
  }

  /** Layers of attention with the same rows and columns; `thumbs`: base64 levels by layer and head. */
  interface AttentionStack {
    part: "alignment" | "cross" | "decoder" | "encoder";
    label: string;
    rows: number;
    columns: number;
    size: [number, number];
    thumbs: Cells;
    ablated: boolean[][];
    has_workings: boolean;
  }

  interface Bar {
    name: string;
    probability: number;
    text: string;
    baseline: number | null;
    baseline_text: string;
    change: string;
  }

  interface TokenStrip {
    name: string;
    description: string;
    tokens: string[];
    texts: string[];
    colors: string[];
    largest: string;
    signed: boolean;
  }

  interface CaptionImage {
    image: string;
    name: string;
    tiles: {
      word: string;
      note: string;
      description: string;
      overlay: string;
      frame: [number, number, number, number] | null;
    }[];
  }

  interface GeneratedText {
    text: string;
    note: string;
    baseline: string | null;
    baseline_note: string;
  }

  interface Inspection extends Palettes {
    kind: Run["kind"];
    description: string;
    tokens: string[];
    bars: Bar[];
    num_omitted: number;
    generation: GeneratedText | null;
    caption_attention: CaptionImage | null;
    stacks: AttentionStack[];
    cell_groups: string[];
    has_positions: boolean;
    notes: string[];
  }

  interface GeneratedToken {
    text: string;
    token: string;
    probability_text: string;
    bars: Bar[];
  }

  interface Completion {
    tokens: GeneratedToken[];
    stop_reason: string;
    milliseconds: number;
  }

  interface Derivation {
    title: string;
    name: string;
    description: string;
    formula: Formula;
    intermediates: Formula[];
    header: string[];
    lines: { name: string; numbers: string[]; is_marked: boolean }[];
    working: Formula;
    model_values: [string, string, string][];
    notes: string[];
    table: Table | null;
  }

  interface Attribution {
    label: string;
    contrast_label: string;
    strips: TokenStrip[];
  }

  interface NeuronStrip {
    group: string;
    size: number;
    cell: number;
    strip: TokenStrip;
    others: number[];
  }

  interface Positions {
    description: string;
    maps: Heatmap[];
  }

  interface DataTable {
    header: string[];
    rows: string[][];
  }

  interface Chart {
    title: string;
    picture: Tree;
    table: DataTable;
  }

  interface Fact {
    name: string;
    value: string;
  }

  interface Curves {
    charts: Chart[];
    metrics: DataTable;
    samples: { epoch: number; text: string }[];
    result: Fact[];
  }

  interface Training {
    state: string;
    summary: string;
    progress: number;
    facts: Fact[];
    revision: number;
    has_report: boolean;
    curves: Curves | null;
  }

  interface Recipe {
    sections: Record<string, { key: string; value: string; default: string; help: string }[]>;
    environment: Fact[];
  }

  interface CurveComparison {
    charts: Chart[];
    best: DataTable;
    settings: DataTable;
  }

  interface Pair {
    name: string;
    first: number | null;
    second: number | null;
    first_text: string;
    second_text: string;
    change: string;
  }

  interface HeadCounts {
    part: string;
    layers: number;
    heads: number;
  }

  interface ComparedOutput {
    name: string;
    text: string | null;
    note: string;
    caption_attention: CaptionImage | null;
    notes: string[];
  }

  interface Comparison {
    sides: ComparedOutput[];
    summary: string;
    pairs: Pair[];
    num_omitted: number;
    stacks: HeadCounts[];
    head_comparison: HeatmapComparison | null;
    notes: string[];
  }

  interface PermutationTest {
    tokens: string[];
    permuted_tokens: string[];
    residual: string;
    summary: string;
    has_removable_positions: boolean;
    layers: DataTable;
    deviation: Heatmap;
    pairs: Pair[];
    stacks: HeadCounts[];
    head_comparison: HeatmapComparison;
  }

  /** A head that is switched off. */
  interface AblatedHead {
    part: string;
    layer: number;
    head: number;
  }

  interface InspectRequest {
    run: string;
    ablated_heads: AblatedHead[];
    text?: string;
    scene?: number;
    picture?: string;
  }

  interface HeadRequest extends InspectRequest {
    part: string;
    layer: number;
    head: number;
  }
}

type Child = Node | string | null | undefined | false | readonly Child[];

interface Attributes {
  [handler: `on${string}`]: (event: any) => unknown;
  [name: string]: unknown;
}

/** The problem that Work and Check edit. */
interface ProblemState {
  table: Api.Table;
  decimals: number;
  practice?: boolean;
}

/** What another screen shows: words by name, as the address has them. */
type ViewState = Record<string, string | undefined>;

/** A cell of a matrix; a row's or column's header has null for the other index. */
interface CellFocus {
  key: string;
  row: number | null;
  column: number | null;
}

interface MapCell {
  row: number;
  column: number;
}

interface HeadChoice {
  layer: number;
  head: number;
}

/** A cell of a claimed step; `reprint` counts its repetitions. */
interface ClaimCell {
  key: string;
  reprint: number;
  row: number;
  column: number;
}

interface CellEdit {
  key: string;
  row: number;
  column: number;
  text: string;
  done: boolean;
}

interface MatrixState {
  matrix: Api.Matrix;
  /** Texts to edit; null: read-only. */
  cells: Cells | null;
  showSigns?: boolean;
  notes?: Cells | null;
  /** Row and column of the first wrong number. */
  first?: [number, number] | null;
  label?: string;
  reprint?: number;
  focus?: CellFocus | null;
  edit?: CellEdit;
  pastedText?: string;
}

interface DockState {
  working: Api.Working | null;
  message: string;
  place?: { query: string | null; key: string | null };
}

/** State that a notebook's kernel or a standalone file shares with a component, with the server's names. */
interface WidgetState {
  component?: "maps" | "report" | "solution";
  title?: string;
  note?: string;
  requested_cell?: CellFocus;
  working?: Api.Working | null;
}

interface SolutionState extends WidgetState {
  data: Api.Solution | null;
  /** Texts of the given matrices that may be edited. */
  cells?: Record<string, Cells>;
  edit?: CellEdit;
  paste?: { key: string; text: string };
  command?: { key: string; action: "paste" | "remove" };
}

interface ReportState extends WidgetState {
  data: Api.Report | null;
  /** Claims that may be edited. */
  claims?: Api.Claim[];
  /** True: give no answers away. */
  practice?: boolean;
  hints?: Record<string, Api.Formula[]>;
  /** A cell to move the focus to. */
  target?: ClaimCell;
  edit?: CellEdit & { reprint: number };
  paste?: { key: string; reprint: number; text: string };
  newStep?: Api.Matrix;
  hintRequest?: string;
}

interface GalleryState extends WidgetState {
  data: Api.HeatmapGallery;
}

interface HeatmapState {
  map: Api.Heatmap | null;
  pinned?: MapCell | null;
  axes?: [string, string];
  focus?: MapCell | null;
}

interface HeatmapComparisonState {
  comparison: Api.HeatmapComparison | null;
  axes: [string, string];
}

interface BarState {
  bars: Api.Bar[];
  /** The caption. */
  description: string;
  /** Outcomes that are left out. */
  num_omitted: number;
}

interface PairState {
  pairs: Api.Pair[];
  num_omitted: number;
  columns: [string, string];
}

interface HeadGridState {
  stack: Api.AttentionStack | null;
  palettes: Api.Palettes | null;
  chosen: HeadChoice | null;
  focus?: HeadChoice | null;
}

type Dispose = () => void;
