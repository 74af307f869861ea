"""One attention head of a trained model as a worked problem.

A head computes softmax(Q Kᵀ / √d_k) V, like the attention of a textbook, only larger. So it becomes
a `Problem`, which is solved, rendered and checked like any other. Its numbers are computed in
float64 from the model's vectors and weights and compared with the model's own.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workings.errors import UserError, truncate
from workings.interpret.attention import LABELS, to_numpy
from workings.interpret.results import HeadIndex, check_index
from workings.layers.attention import MultiHeadAttention
from workings.plain_text import show_whitespace
from workings.problems.derivation import CellDerivation, ModelValue, derive
from workings.problems.notation import Formula, TextNotation, format_decimal, typeset
from workings.problems.numbers import MAX_SIDE
from workings.problems.problem import Problem
from workings.problems.problem_file import MAX_PROBLEM_BYTES, format_toml
from workings.problems.solution import MAX_NOTED_CELLS, Solution, get_axis_labels
from workings.problems.worked_problem import Panel, WorkedProblem, WorkedResult
from workings.tasks.attention import AttentionPass, NoAttentionError, PassOptions, StackSpec
from workings.tasks.base import Generation, ModelInput, Task

MAX_FILE_TOKENS = 32  # of a problem file that a person can read
MAX_SHOWN_SIDE = 12  # rows or columns of weight matrices that are shown
CLAIM_DECIMALS = 4  # of the model's numbers in a problem file
ROTARY_NOTE = "Q and K are given after the rotation by their positions (rotary)."
PROJECTED_NOTE = "Q, K and V are given as the model has them."
TOKEN_MATRICES = ("X", "context", "Q", "K", "V")
MATRIX_ORDER = ("X", "context", "W_Q", "b_Q", "Q", "W_K", "b_K", "K", "W_V", "b_V", "V")
STEPS = ("scores", "scaled", "masked", "weights", "mixed")
CELL_DESCRIPTIONS = {
    "Q": "column {column} of the query of {row}",
    "K": "column {column} of the key of {row}",
    "V": "column {column} of the value of {row}",
    "weights": "attention weight from {row} to {column}",
    "mixed": "column {column} of the weighted values of {row}",
}
SCORE_DESCRIPTION = "the query of {row} with the key of {column}"

Matrix = NDArray[np.float32]


@dataclass(frozen=True)
class HeadProblem(WorkedResult):
    """A head as a problem, and its steps as the model computed them."""

    problem: Problem
    settings: Mapping[str, Any]
    given: Mapping[str, Matrix]
    traced_steps: Mapping[str, Matrix]
    fused_output: Matrix
    """output of the fused kernel, which computes no scores or weights"""
    note: str = ""
    top: int = 5
    decimals: int = 4

    def cell(self, step: str, row: int, column: int) -> CellDerivation:
        """Derive one cell, counted from 1, and compare it with the model's number."""
        derivation = derive(self.problem, step, row, column, top=self.top, decimals=self.decimals)
        sources = {"the model, traced": self.traced_steps.get(step)}
        if step == "mixed":
            sources["the model, fused kernel"] = self.fused_output
        model_values = []
        for source, matrix in sources.items():
            if matrix is not None:
                value = matrix[row - 1, column - 1]
                difference = float(_absolute_difference(derivation.value, value))
                model_values.append(ModelValue(source, float(value), difference))
        return replace(
            derivation,
            description=self._describe_cell(step, row, column),
            model_values=model_values,
            notes=[self.note] if self.note else [],
        )

    def cell_formula(self, key: str, row: int, column: int) -> Formula:
        """Return the working of one cell, counted from 1, with its largest terms only."""
        return self.cell(key, row, column).working

    def _describe_cell(self, key: str, row: int, column: int) -> str:
        step, (rows, columns) = self.problem.get_step(key), self.problem.exact_matrices[key].shape
        row_name = _format_name(get_axis_labels(self.problem, step.row_axis, rows), row)
        column_name = _format_name(get_axis_labels(self.problem, step.column_axis, columns), column)
        description = CELL_DESCRIPTIONS.get(key, SCORE_DESCRIPTION)
        return description.format(row=row_name, column=column_name)

    def max_differences(self) -> dict[str, float]:
        """Return the largest difference between the model's numbers and the exact ones by step."""
        exact = self.problem.exact_matrices
        differences = {
            step: float(_absolute_difference(exact[step].mid, matrix).max())
            for step, matrix in self.traced_steps.items()
        }
        fused = float(_absolute_difference(exact["mixed"].mid, self.fused_output).max())
        return {**differences, "fused": fused}

    def to_worked_problem(self, *, notes: bool = False) -> WorkedProblem:
        """Return the layout of the head; with `notes` each cell has its largest terms."""
        solution = Solution(self.problem, self.decimals)
        layout = solution.to_worked_problem()
        steps = layout.steps
        if notes:
            steps = [
                self._annotate_panel(key, panel)
                for key, panel in zip(solution.keys(), steps, strict=True)
            ]
        givens = [
            _round_panel(panel, self.decimals)
            for panel in layout.givens
            if panel.name in TOKEN_MATRICES or not self._omitted_weights()
        ]
        return replace(layout, givens=givens, steps=steps, summary=self._summarize())

    def _summarize(self) -> str:
        """Return which matrices are omitted, and the differences to the model's numbers."""
        differences = self.max_differences()
        fused = differences.pop("fused")
        step = max(differences, key=differences.__getitem__)
        sentences = ["Computed in 64-bit arithmetic from the vectors and weights of the model."]
        if omitted := self._omitted_weights():
            sentences.append(f"Too large to show: {', '.join(omitted)}.")
        sentences.append(
            "The model's own numbers differ by at most "
            f"{_format_difference(differences[step])} (in {step}); the output of its fused kernel "
            f"by {_format_difference(fused)}."
        )
        return " ".join([*sentences, self.note] if self.note else sentences)

    def _omitted_weights(self) -> list[str]:
        """Return the names of the weight matrices if one of them is too large to show."""
        shapes = {name: m.shape for name, m in self.given.items() if name.startswith("W_")}
        is_large = any(max(shape) > MAX_SHOWN_SIDE for shape in shapes.values())
        return list(shapes) if is_large else []

    def _annotate_panel(self, key: str, panel: Panel) -> Panel:
        height, width = panel.shape
        if height * width > MAX_NOTED_CELLS:
            return panel
        cells = [
            [
                replace(cell, note=self.cell(key, i, j).working(TextNotation(self.decimals)))
                for j, cell in enumerate(row, start=1)
            ]
            for i, row in enumerate(panel.cells, start=1)
        ]
        return replace(panel, cells=cells)

    def to_dict(self) -> dict[str, Any]:
        """Return the solved problem and the differences as a dictionary for JSON."""
        solution: dict[str, Any] = json.loads(Solution(self.problem).to_json())
        return {**solution, "differences": self.max_differences(), "note": self.note}

    def to_file(self) -> str:
        """Return a problem file whose claims are the model's numbers to four decimals."""
        tokens = max(len(matrix) for name, matrix in self.given.items() if name in TOKEN_MATRICES)
        if tokens > MAX_FILE_TOKENS:
            raise UserError(f"{tokens} tokens: a problem file has at most {MAX_FILE_TOKENS}")
        given = {name: _to_shortest_decimals(matrix) for name, matrix in self.given.items()}
        shown_steps = {step.key for step in self.problem.steps if step.is_shown}
        claim = {
            step: [[f"{x:.{CLAIM_DECIMALS}f}" for x in row] for row in matrix.tolist()]
            for step, matrix in self.traced_steps.items()
            if step in shown_steps
        }
        comment = "A head of a trained model. The claims are its own numbers, in float32."
        table = {**self.settings, "given": given, "claim": claim}
        content = format_toml(table, f"{comment} {self.note}")
        size = len(content.encode("utf-8", "replace"))
        if size > MAX_PROBLEM_BYTES:
            raise UserError(
                f"the problem file would have {size / 1e6:.1f} MB, the limit is "
                f"{MAX_PROBLEM_BYTES / 1e6:.0f} MB: with --projected (projected=True), it "
                "starts from Q, K and V and is smaller"
            )
        return content


@dataclass(frozen=True, eq=False)
class HeadTrace:
    """The inputs, weights and steps of one head in one pass of the model."""

    title: str
    query_tokens: Sequence[str]
    key_tokens: Sequence[str] | None
    """None for self-attention"""
    is_causal: bool
    is_rotary: bool
    inputs: Mapping[str, Matrix]
    """X and, for cross-attention, context"""
    projections: Mapping[str, Matrix]
    """W_Q, b_Q, …: what makes Q, K and V of the inputs"""
    steps: Mapping[str, Matrix]
    """Q, K, V, scores, scaled, masked, weights, mixed"""
    fused_output: Matrix

    def to_problem(
        self, *, projected: bool = False, top: int = 5, decimals: int = 4
    ) -> HeadProblem:
        """Return the head as a problem that starts from X or, if `projected`, from Q, K and V.

        With rotary positions, Q and K are given after their rotation, since no matrix for all rows
        of X can rotate each row by its own angle; only V is computed from X.
        """
        start = ("Q", "K", "V") if projected else ("Q", "K") if self.is_rotary else ()
        given = {name: self.steps[name] for name in start}
        if not projected:
            given |= {
                name: matrix for name, matrix in self.projections.items() if name[2:] not in start
            }
            given |= self.inputs
        given = {name: given[name] for name in MATRIX_ORDER if name in given}
        settings = self._build_settings(has_key_names=self.key_tokens is not None or bool(start))
        note = PROJECTED_NOTE if projected else ROTARY_NOTE if start else ""
        problem = _build_problem(settings, given)
        return HeadProblem(
            problem, settings, given, self.steps, self.fused_output, note, top, decimals
        )

    def _build_settings(self, has_key_names: bool) -> dict[str, Any]:
        """Return the problem's settings; keys that are given have names of their own."""
        settings = {
            "title": self.title,
            "vectors": "rows",
            "scale": "sqrt(d_k)",
            "mask": "causal" if self.is_causal else "none",
            "tokens": list(self.query_tokens),
        }
        if has_key_names:
            settings["context_tokens"] = list(self.key_tokens or self.query_tokens)
        return settings


def _build_problem(settings: Mapping[str, Any], given: Mapping[str, Matrix]) -> Problem:
    max_side = max(max(matrix.shape) for matrix in given.values())
    if max_side > MAX_SIDE:
        raise UserError(
            f"vectors of {max_side:,} numbers: a problem has at most {MAX_SIDE:,}; with "
            "--projected (projected=True), it starts from Q, K and V and is smaller"
        )
    # A problem takes float64 numbers as they are, and float32 numbers by their shortest decimals.
    doubles = {name: matrix.astype(np.float64) for name, matrix in given.items()}
    return Problem(**settings, given=doubles)


def problem_from_head(
    task: Task,
    text: ModelInput,
    layer: int,
    head: int,
    *,
    part: str | None = None,
    target: Generation | str | None = None,
    projected: bool = False,
) -> Problem:
    """Return one head of a task's model on a text as a problem; see `read_head`."""
    return read_head(task, text, layer, head, part=part, target=target, projected=projected).problem


def read_head(
    task: Task,
    text: ModelInput,
    layer: int,
    head: int,
    *,
    part: str | None = None,
    target: Generation | str | None = None,
    projected: bool = False,
    top: int = 5,
    decimals: int = 4,
) -> HeadProblem:
    """Return one head of a task's model on a text as a problem, with the model's own numbers.

    See `trace_head` and `HeadTrace.to_problem`. `top` is the number of terms in the derivation of a
    cell.
    """
    trace = trace_head(task, text, layer, head, part=part, target=target)
    return trace.to_problem(projected=projected, top=top, decimals=decimals)


def trace_head(
    task: Task,
    text: ModelInput,
    layer: int,
    head: int,
    *,
    part: str | None = None,
    target: Generation | str | None = None,
) -> HeadTrace:
    """Trace one head of a task's model, layer and head counted from 1.

    `part` is "encoder", "decoder" or "cross"; by default cross-attention of a translator or
    captioner, and the only part of other models. The text of a translator is the source, and its
    `target` by default its own translation; a captioner is given an image.

    X is the input of the layer: after the norm of a pre-norm block, with positions. W_Q, W_K, W_V
    and the biases are the head's rows of the layer's one projection; heads that share keys and
    values have the same ones. The model runs twice: with all taps, and with its fused kernel.
    """
    plan = task.plan_attention(text, target, PassOptions((part,) if part else ()))
    spec = plan.specs[0]
    if not spec.is_multi_head:
        raise NoAttentionError("this model has no attention heads: its kind is not transformer")
    check_index("layer", [layer], len(spec.layer_paths))
    path = spec.layer_paths[layer - 1]
    attention = plan.model.get_submodule(path)
    assert isinstance(attention, MultiHeadAttention)
    check_index("head", [head], attention.heads)
    trace, _ = plan.trace([f"{path}.*"])
    fused_trace, _ = plan.trace([f"{path}.mixed"])
    group = (head - 1) // (attention.heads // attention.kv_heads)

    def read(tap: str, index: int) -> Matrix:
        return to_numpy(trace[f"{path}.{tap}"][0, index])

    inputs = {"X": to_numpy(trace[f"{path}.input"][0])}
    keys: Sequence[str] | None = None
    if spec.part == "cross":
        inputs["context"] = to_numpy(trace[f"{path}.context"][0])
        keys = spec.name_keys(len(inputs["context"]), plan.max_tokens)
    steps = {step: read(step, head - 1) for step in STEPS}
    return HeadTrace(
        _build_title(plan, spec, HeadIndex(spec.part, layer, head)),
        [show_whitespace(token) for token in spec.query_tokens],
        keys and [show_whitespace(token) for token in keys],
        spec.is_causal,
        attention.rotary is not None,
        inputs,
        _slice_projections(attention, head - 1, group),
        {"Q": read("query", head - 1), "K": read("key", group), "V": read("value", group), **steps},
        to_numpy(fused_trace[f"{path}.mixed"][0, head - 1]),
    )


def _build_title(plan: AttentionPass, spec: StackSpec, index: HeadIndex) -> str:
    texts = [plan.source_text, plan.target.text if plan.target else ""]
    text = " → ".join(truncate(text) for text in texts if text)
    return f"{str(index).capitalize()} of the {LABELS[spec.part]}: {text}"


def _slice_projections(attention: MultiHeadAttention, head: int, group: int) -> dict[str, Matrix]:
    """Return W_Q, W_K, W_V and the biases of a head: transposed rows of the layer's projection."""
    width, shared = attention.d_head, attention.kv_heads * attention.d_head
    starts = {
        "Q": head * width,
        "K": attention.d_model + group * width,
        "V": attention.d_model + shared + group * width,
    }
    projections, bias = {}, attention.qkv.bias
    for name, start in starts.items():
        projections[f"W_{name}"] = to_numpy(attention.qkv.weight[start : start + width].T)
        if bias is not None:
            projections[f"b_{name}"] = to_numpy(bias[start : start + width].unsqueeze(0))
    return projections


def _to_shortest_decimals(matrix: Matrix) -> list[list[float]]:
    """Return the shortest decimals that are read back as the same float32 numbers."""
    return [[float(str(x)) for x in row] for row in matrix]


def _absolute_difference(expected: ArrayLike, actual: ArrayLike) -> NDArray[np.float64]:
    """Return |expected − actual|; equal infinities have difference 0."""
    a, b = np.asarray(expected, np.float64), np.asarray(actual, np.float64)
    with np.errstate(invalid="ignore"):
        return np.where(a == b, 0.0, np.abs(a - b))


def _format_name(names: Sequence[str], index: int) -> str:
    name = names[index - 1]
    return name if name == str(index) else f"{index} “{name}”"


def _round_panel(panel: Panel, decimals: int) -> Panel:
    """Show a matrix of float32 numbers with the decimals of the steps."""
    cells = [
        [replace(cell, text=format_decimal(cell.value or 0.0, decimals)) for cell in row]
        for row in panel.cells
    ]
    return replace(panel, cells=cells)


def _format_difference(difference: float) -> str:
    return typeset(f"{difference:.1e}")
