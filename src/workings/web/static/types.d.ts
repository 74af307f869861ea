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
    /** A gradient, or computed from one. */
    is_backward: boolean;
  }

  /** A kind of problem in the menu; `picture` is its computation on one line. */
  interface Kind {
    name: string;
    family: string;
    title: string;
    picture: string;
  }

  interface Size {
    label: string;
    value: number;
    names: ("tokens" | "context_tokens")[];
    /** Matrices that have this size, along rows (0) or columns (1). */
    lines: [string, number][];
  }

  /** A setting that only one kind has; `default` is empty if there is none. */
  interface Option {
    name: string;
    form: "choice" | "flag" | "number" | "text";
    choices: string[];
    default: string;
  }

  interface Solution {
    title: string;
    given: Matrix[];
    steps: Matrix[];
    /** Matrices that can be added, with numbers that change no result. */
    absent: Record<string, Cells>;
    sizes: Size[];
    heads: number[];
    settings: string[];
    options: Option[];
    mask: Cells | null;
  }

  /** Rows and columns of a matrix. */
  interface Block {
    key: string;
    rows: number[];
    columns: number[];
  }

  /** The computation of one cell and the cells that it uses; a hint has no value. */
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
    /** Settings that only the kind of the problem has, as JSON. */
    options: Record<string, string>;
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

  /** A wrong cell, and the first cell of a later step that follows from it. */
  interface ErrorLink {
    source: string;
    cell: [number, number];
    target: string;
    first: [number, number];
    count: number;
  }

  interface Report {
    title: string;
    verdict: "right" | "wrong" | "blank";
    assumption: string;
    notes: string[];
    counts: Record<string, number>;
    summary: string;
    steps: CheckedStep[];
    findings: Finding[];
    links: ErrorLink[];
    given: Matrix[];
    open_steps: Matrix[];
    /** The conventions that the solution was checked under, by setting. */
    read_as: Record<string, string>;
    heads: number[];
  }

  interface DocumentMatrix {
    index: number;
    name: string;
    evidence: string;
    why: string;
    rows: Cells;
    verdicts: Cells;
    is_factor: boolean;
  }

  interface DocumentReading {
    read_as: string;
    verdict: string;
    summary: string[];
  }

  interface DocumentExample {
    place: string;
    kind: string;
    verdict: "right" | "wrong" | "blank" | "not judged";
    summary: string[];
    matrices: number[];
    names: string[];
    table: Table | null;
    readings: DocumentReading[];
  }

  /** A document beside its reading. */
  interface Document {
    summary: string;
    lines: { place: string; level: number; parts: (string | DocumentMatrix)[] }[];
    examples: DocumentExample[];
  }

  interface Exercise {
    heading: string;
    instructions: string;
    table: Table;
  }

  interface Run {
    name: string;
    title: string;
    kind: "caption" | "classify" | "language" | "translate";
    /** The only inputs that a static page has answers to. */
    texts?: string[];
    /** Texts of its validation data. */
    samples?: string[];
  }

  /** One color per level. */
  interface Colors {
    light: string[];
    dark: string[];
  }

  /** `levels`: base64, one byte per cell; `numbers`: base64, one int16 per cell, in units of the last decimal. */
  interface Heatmap {
    name: string;
    description: string;
    rows: string[];
    columns: string[];
    levels: string;
    numbers: string;
    decimals: number;
    colors: Colors;
    /** Readable text colors on these colors. */
    inks: Colors;
    ticks: [number, string][];
    texts: Cells | null;
    largest_per_row: [number, string][][] | null;
    /** Of cross-attention: the token that the decoder reads where it writes that of the row. */
    reads?: string[];
  }

  interface HeatmapGallery {
    maps: Omit<Heatmap, "colors" | "inks">[];
    maps_per_row: number;
    colors: Colors;
    inks: Colors;
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

  /** The probability of a class or token, and another one: of the intact model, or of side B. */
  interface Outcome {
    name: string;
    probability: number | null;
    text: string;
    other: number | null;
    other_text: string;
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

  /** `text` is null if the model generates none. */
  interface Output {
    text: string | null;
    note: string;
    caption_attention: CaptionImage | null;
    notes: string[];
  }

  /** A module's output for every token; `thumb`: base64 levels. Tokens are rows; of a recurrent layer, columns. */
  interface Stage {
    path: string;
    name: string;
    group: string;
    num_tokens: number;
    width: number;
    size: [number, number];
    thumb: string;
    is_recurrent: boolean;
  }

  interface ModelDrawing {
    stages: Stage[];
    colors: Colors;
  }

  interface Inspection {
    kind: Run["kind"];
    description: string;
    tokens: string[];
    bars: Outcome[];
    num_omitted: number;
    output: Output;
    /** Of the intact model, if heads are ablated. */
    baseline: Output | null;
    stacks: AttentionStack[];
    cell_groups: string[];
    has_positions: boolean;
    colors: Colors;
  }

  interface GeneratedToken {
    text: string;
    token: string;
    probability_text: string;
    bars: Outcome[];
  }

  interface Completion {
    tokens: GeneratedToken[];
    stop_reason: string;
    milliseconds: number;
  }

  /** A query times a key, by dimension. */
  interface Product {
    description: string;
    formula: Formula;
    terms: DataTable;
    working: Formula;
  }

  interface Derivation {
    title: string;
    name: string;
    description: string;
    product: Product;
    formula: Formula;
    intermediates: Formula[];
    terms: DataTable;
    working: Formula;
    model_values: DataTable;
    notes: string[];
  }

  interface NeuronStrip {
    size: number;
    cell: number;
    strip: TokenStrip;
    others: number[];
  }

  interface DataTable {
    title: string;
    header: string[];
    rows: Cells;
    /** Of a chart. */
    picture?: Tree | null;
  }

  interface Chart extends DataTable {
    picture: Tree;
  }

  /** `samples`: with their epochs. */
  interface Curves {
    charts: Chart[];
    metrics: DataTable;
    samples: [number, string][];
    result: Record<string, string>;
  }

  interface Training {
    state: string;
    summary: string;
    progress: number;
    facts: Record<string, string>;
    revision: number;
    has_report: boolean;
    curves: Curves | null;
  }

  /** By section, and the environment of the training. */
  type Recipe = Record<string, { key: string; value: string; default: string; help: string }[]>;

  /** Numbers of layers and heads, by part. */
  type HeadCounts = Record<string, [number, number]>;

  interface Comparison {
    sides: Output[];
    summary: string;
    pairs: Outcome[];
    num_omitted: number;
    heads: HeadCounts;
    maps: Heatmap[];
    maps_summary: string;
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
    pairs: Outcome[];
    heads: HeadCounts;
    maps: Heatmap[];
    maps_summary: string;
  }

  /** A head whose output is set to zero. */
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

  /** How the probabilities are shown. */
  interface OutcomeRequest extends InspectRequest {
    temperature?: number;
    top_k?: number;
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
}

/** A pasted text, or a file. */
type DocumentSource = { text: string } | { file: File };

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
  texts?: Record<string, string>;
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
  /** A cell that is explained, wherever the pointer and the keyboard's focus are. */
  spotlight?: CellFocus | null;
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
  /** A convention to read the solution by. */
  convention?: { name: string; value: string };
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

/** A map, or two maps and their difference. */
interface HeatmapComparisonState {
  maps: Api.Heatmap[];
  summary?: string;
  axes: [string, string];
}

interface BarState {
  bars: Api.Outcome[];
  /** The caption. */
  description: string;
  /** Outcomes that are left out. */
  num_omitted: number;
}

interface PairState {
  pairs: Api.Outcome[];
  num_omitted: number;
  columns: [string, string];
}

interface HeadGridState {
  stack: Api.AttentionStack | null;
  colors: Api.Colors | null;
  chosen: HeadChoice | null;
  focus?: HeadChoice | null;
  /** A head to ablate or restore. */
  toggled?: HeadChoice;
}

type Dispose = () => void;
