"""A head as a worked problem: what one attention head of a model does with a text, written out.

A head of a trained model is softmax(Q Kᵀ / √d_k) V like a textbook's, only larger. So it becomes a
`Problem`, which is solved, shown and checked like any other; and its numbers, worked out in 64
bits from the vectors and the weights, are held against those that the model itself has.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from workings.errors import UserError
from workings.interpret.attention import AttentionStack, ModelInput, find_stack
from workings.interpret.attention_maps import check_index
from workings.layers.attention import MultiHeadAttention
from workings.modules import eval_mode
from workings.problems.derivation import CellDerivation, ModelValue, derive
from workings.problems.notation import Formula, TextNotation, format_decimal, typeset
from workings.problems.numbers import MAX_SIDE
from workings.problems.problem import Problem
from workings.problems.problem_file import MAX_PROBLEM_BYTES, format_toml
from workings.problems.solution import MAX_NOTED_CELLS, Solution, get_axis_labels
from workings.problems.worked_problem import Panel, WorkedProblem, WorkedResult
from workings.tasks.seq2seq import Generation
from workings.trace import Trace

MAX_FILE_TOKENS = 32  # tokens of a problem file: more than a person reads
MAX_SHOWN_SIDE = 12  # rows or columns of weights that can be looked at
CLAIM_DECIMALS = 4  # decimals of the model's own numbers in a file
ROTARY_NOTE = "Q and K are given as the model has them, turned by their positions (rotary)."
PROJECTED_NOTE = "It starts from Q, K and V as the model has them."
TOKEN_MATRICES = ("X", "context", "Q", "K", "V")
MATRIX_ORDER = ("X", "context", "W_Q", "b_Q", "Q", "W_K", "b_K", "K", "W_V", "b_V", "V")
STEPS = ("scores", "scaled", "masked", "weights", "mixed")
CELL_DESCRIPTIONS = {
    "Q": "column {column} of the query of {row}",
    "K": "column {column} of the key of {row}",
    "V": "column {column} of the value of {row}",
    "weights": "how much {row} looks at {column}",
    "mixed": "column {column} of what {row} takes from the values",
}
SCORE_DESCRIPTION = "the query of {row} with the key of {column}"

Matrix = NDArray[np.float32]


@dataclass(frozen=True)
class HeadProblem(WorkedResult):
    """A head as a problem, and its steps as the model has them."""

    problem: Problem
    settings: Mapping[str, Any]
    given: Mapping[str, Matrix]
    traced_steps: Mapping[str, Matrix]
    fused_output: Matrix
    """what is mixed, by the fused kernel, which never has scores or weights"""
    note: str = ""
    top: int = 5
    decimals: int = 4

    def cell(self, step: str, row: int, column: int) -> CellDerivation:
        """Derive a cell, counted from 1, and hold it against the model's own number."""
        found = derive(self.problem, step, row, column, top=self.top, decimals=self.decimals)
        place = (row - 1, column - 1)
        told = {"the model, traced": self.traced_steps.get(step)}
        if step == "mixed":
            told["the model, fused kernel"] = self.fused_output
        elsewhere = [
            ModelValue(
                what, float(matrix[place]), float(_absolute_difference(found.value, matrix[place]))
            )
            for what, matrix in told.items()
            if matrix is not None
        ]
        says = self._describe_cell(step, row, column)
        return replace(
            found, description=says, model_values=elsewhere, notes=[self.note] * bool(self.note)
        )

    def cell_formula(self, key: str, row: int, column: int) -> Formula:
        """Return the working of one cell, counted from 1, with its largest terms only."""
        return self.cell(key, row, column).working

    def _describe_cell(self, key: str, row: int, column: int) -> str:
        step, (rows, columns) = self.problem.get_step(key), self.problem.exact_matrices[key].shape
        names = (
            _format_name(get_axis_labels(self.problem, step.row_axis, rows), row),
            _format_name(get_axis_labels(self.problem, step.column_axis, columns), column),
        )
        return CELL_DESCRIPTIONS.get(key, SCORE_DESCRIPTION).format(row=names[0], column=names[1])

    def max_differences(self) -> dict[str, float]:
        """How far the model's numbers are from those written out, at most, step by step."""
        exact = self.problem.exact_matrices
        found = {
            step: float(_absolute_difference(exact[step].mid, matrix).max())
            for step, matrix in self.traced_steps.items()
        }
        return {
            **found,
            "fused": float(_absolute_difference(exact["mixed"].mid, self.fused_output).max()),
        }

    def to_worked_problem(self, *, notes: bool = False) -> WorkedProblem:
        """Lay the whole head out; `notes`: each cell with its largest terms."""
        solution = Solution(self.problem, self.decimals)
        laid = solution.to_worked_problem()
        steps = laid.steps
        if notes:
            steps = [self._annotate_panel(*one) for one in zip(solution.keys(), steps, strict=True)]
        givens = [
            _round_panel(panel, self.decimals)
            for panel in laid.givens
            if panel.name in TOKEN_MATRICES or not self._omitted_weights()
        ]
        return replace(
            laid, givens=givens, steps=steps, summary=" ".join(self._summary_sentences())
        )

    def _summary_sentences(self) -> list[str]:
        """Say what was left out, and how far the model's numbers are from these."""
        apart = self.max_differences()
        fused = apart.pop("fused")
        largest = max(apart, key=apart.__getitem__)
        large = self._omitted_weights()
        left_out = [f"Too large to be shown: {', '.join(large)}."] if large else []
        return [
            "Worked out in 64 bits from the vectors and weights of the model.",
            *left_out,
            f"The model's own numbers, traced, differ by {_format_difference(apart[largest])} at "
            f"most (in {largest}); what its fused kernel mixes, by {_format_difference(fused)}.",
            *([self.note] if self.note else []),
        ]

    def _omitted_weights(self) -> list[str]:
        """The weights, where they are more than can be looked at."""
        weights = {name: m.shape for name, m in self.given.items() if name.startswith("W_")}
        return (
            list(weights) if any(max(shape) > MAX_SHOWN_SIDE for shape in weights.values()) else []
        )

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
        """Take it apart into what JSON can hold."""
        solved: dict[str, Any] = json.loads(Solution(self.problem).to_json())
        return {**solved, "differences": self.max_differences(), "note": self.note}

    def to_file(self) -> str:
        """Write it as a problem file, which claims the model's own numbers, to four decimals."""
        tokens = max(len(matrix) for name, matrix in self.given.items() if name in TOKEN_MATRICES)
        if tokens > MAX_FILE_TOKENS:
            raise UserError(
                f"{tokens} tokens: a head of at most {MAX_FILE_TOKENS} makes a problem file"
            )
        given = {name: _to_shortest_decimals(matrix) for name, matrix in self.given.items()}
        shown = {step.key for step in self.problem.steps if step.is_shown}
        claim = {
            step: [[f"{x:.{CLAIM_DECIMALS}f}" for x in row] for row in matrix.tolist()]
            for step, matrix in self.traced_steps.items()
            if step in shown
        }
        comment = "A head of a trained model. The claims are its own numbers, in 32 bits."
        written = format_toml(
            {**self.settings, "given": given, "claim": claim}, f"{comment} {self.note}"
        )
        size = len(written.encode("utf-8", "replace"))
        if size > MAX_PROBLEM_BYTES:
            raise UserError(
                f"the problem file would have {size / 1e6:.1f} MB, and at most "
                f"{MAX_PROBLEM_BYTES / 1e6:.0f} are read: projected, it starts from Q, K and V "
                "and is smaller"
            )
        return written


def problem_from_head(
    task: object,
    text: ModelInput,
    layer: int,
    head: int,
    *,
    part: str | None = None,
    target: Generation | str | None = None,
    projected: bool = False,
) -> Problem:
    """Turn a head of a run's model, reading a text, into a problem; see `read_head`."""
    return read_head(task, text, layer, head, part=part, target=target, projected=projected).problem


@torch.no_grad()
def read_head(
    task: object,
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
    """Read a text and take one head out of the model, layers and heads counted from 1.

    `part`: "encoder", "decoder" or "cross"; by default the only one that a model has, and of a
    translator cross-attention, whose text is the source, and whose `target` is the model's own
    translation where none is given. A captioner is given a picture, and is like a translator.

    X is what enters the layer: after the norm where that comes first, positions and all. W_Q, W_K,
    W_V and the biases are the rows of the layer's one matrix that belong to the head; keys and
    values that serve a group of heads are the same in all their problems. Rotary positions turn
    queries and keys by an angle of their own at each place, which no matrix for all of X can do:
    then Q and K are given as they are after the turn, and only V is made from X. `projected` gives
    all three.
    """
    place = find_stack(task, text, part, target)
    check_index("layer", [layer], len(place.layer_paths))
    path = place.layer_paths[layer - 1]
    attention = place.model.get_submodule(path)
    assert isinstance(attention, MultiHeadAttention)
    check_index("head", [head], attention.heads)
    found = _trace_stack(place, f"{path}.*")
    fused = _trace_stack(place, f"{path}.mixed")
    group = (head - 1) // (attention.heads // attention.kv_heads)
    traced = {
        "Q": _to_matrix(found[f"{path}.query"], head - 1),
        "K": _to_matrix(found[f"{path}.key"], group),
        "V": _to_matrix(found[f"{path}.value"], group),
        **{step: _to_matrix(found[f"{path}.{step}"], head - 1) for step in STEPS},
    }
    started = ("Q", "K", "V") if projected else ("Q", "K") if attention.rotary is not None else ()
    given = {name: traced[name] for name in started}
    if not projected:
        made = _slice_head_weights(attention, head - 1, group)
        given |= {name: matrix for name, matrix in made.items() if name[2:] not in started}
        given["X"] = _to_matrix(found[f"{path}.input"], None)
    if not projected and place.key_tokens is not None:
        given["context"] = _to_matrix(found[f"{path}.context"], None)
    title = f"Layer {layer}, head {head} of the {place.label}: {place.text}"
    settings = _build_settings(place, title, separate_key_names=bool(started))
    return HeadProblem(
        _build_problem(settings, given),
        settings,
        {name: given[name] for name in MATRIX_ORDER if name in given},
        traced,
        _to_matrix(fused[f"{path}.mixed"], head - 1),
        PROJECTED_NOTE if projected else ROTARY_NOTE if started else "",
        top,
        decimals,
    )


def _build_problem(settings: Mapping[str, Any], given: Mapping[str, Matrix]) -> Problem:
    widest = max(max(matrix.shape) for matrix in given.values())
    if widest > MAX_SIDE:
        raise UserError(
            f"vectors of {widest:,} numbers, and a problem has at most {MAX_SIDE:,}: "
            "projected, it starts from Q, K and V and is smaller"
        )
    # Doubles are taken as they are; of shorter floats a problem reads the digits that count.
    doubles = {name: given[name].astype(np.float64) for name in MATRIX_ORDER if name in given}
    return Problem(**settings, given=doubles)


def _build_settings(stack: AttentionStack, title: str, separate_key_names: bool) -> dict[str, Any]:
    """What the problem says beside its matrices; keys that are given have names of their own."""
    settings = {
        "title": title,
        "vectors": "rows",
        "scale": "sqrt(d_k)",
        "mask": "causal" if stack.is_causal else "none",
        "tokens": list(stack.query_tokens),
    }
    if stack.key_tokens is not None or separate_key_names:
        settings["context_tokens"] = list(stack.key_tokens or stack.query_tokens)
    return settings


def _slice_head_weights(attention: MultiHeadAttention, head: int, group: int) -> dict[str, Matrix]:
    """What makes a head's queries, keys and values: rows of one matrix, turned over."""
    width, shared = attention.d_head, attention.kv_heads * attention.d_head
    starts = {
        "Q": head * width,
        "K": attention.d_model + group * width,
        "V": attention.d_model + shared + group * width,
    }
    made, bias = {}, attention.qkv.bias
    for name, start in starts.items():
        made[f"W_{name}"] = _to_numpy(attention.qkv.weight[start : start + width].T)
        if bias is not None:
            made[f"b_{name}"] = _to_numpy(bias[start : start + width].unsqueeze(0))
    return made


def _trace_stack(stack: AttentionStack, only: str) -> Trace:
    with eval_mode(stack.model), Trace(stack.model, only=only) as trace:
        stack.forward()
    return trace


def _to_matrix(value: Tensor, head: int | None) -> Matrix:
    """One text's matrix: `[1, heads, …] → […]` of a head, or `[1, time, width] → […]`."""
    return _to_numpy(value[0] if head is None else value[0, head])


def _to_numpy(value: Tensor) -> Matrix:
    numbers: Matrix = value.detach().float().cpu().numpy()
    return numbers


def _to_shortest_decimals(matrix: Matrix) -> list[list[float]]:
    """The shortest decimals that still tell a number of 32 bits from its neighbours."""
    return [[float(str(x)) for x in row] for row in matrix]


def _absolute_difference(expected: ArrayLike, actual: ArrayLike) -> NDArray[np.float64]:
    """How far numbers are apart; two infinities are not."""
    a, b = np.asarray(expected, np.float64), np.asarray(actual, np.float64)
    with np.errstate(invalid="ignore"):
        return np.where(a == b, 0.0, np.abs(a - b))


def _format_name(names: Sequence[str], index: int) -> str:
    name = names[index - 1]
    return name if name == str(index) else f"{index} “{name}”"


def _round_panel(panel: Panel, decimals: int) -> Panel:
    """Write a matrix of 32-bit numbers with as many decimals as the steps have."""
    cells = [
        [replace(cell, text=format_decimal(cell.value or 0.0, decimals)) for cell in row]
        for row in panel.cells
    ]
    return replace(panel, cells=cells)


def _format_difference(difference: float) -> str:
    return typeset(f"{difference:.1e}")
