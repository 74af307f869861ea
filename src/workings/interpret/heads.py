"""One attention head of a trained model as a worked problem.

A head computes softmax(Q Kᵀ / √d_k) V, like the attention of a textbook, only larger. So it becomes
a `Problem`, which is solved, rendered and checked like any other. Its numbers are computed in
float64 from the model's vectors and weights and compared with the model's own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workings.errors import UserError, truncate
from workings.interpret.attention import LABELS, to_numpy
from workings.interpret.model_problem import (
    MAX_FILE_TOKENS,
    Matrix,
    ModelProblem,
    absolute_difference,
    build_problem,
    format_difference,
    format_name,
)
from workings.interpret.results import HeadIndex, check_index
from workings.layers.attention import MultiHeadAttention
from workings.plain_text import show_whitespace
from workings.problems.problem import Problem
from workings.problems.solution import get_axis_labels
from workings.tasks.attention import AttentionPass, NoAttentionError, PassOptions, StackSpec
from workings.tasks.base import Generation, ModelInput, Task

SMALLER_HINT = "with --projected (projected=True), it starts from Q, K and V and is smaller"
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


@dataclass(frozen=True)
class HeadProblem(ModelProblem):
    """A head as a problem, and its steps as the model computed them."""

    fused_output: Matrix = field(default_factory=lambda: np.zeros((0, 0)))
    """output of the fused kernel, which computes no scores or weights"""

    comment = "A head of a trained model. The claims are its own numbers, in float32."
    smaller_file_hint = f": {SMALLER_HINT}"

    def _list_model_matrices(self, step: str) -> dict[str, Matrix]:
        traced = {"the model, traced": self.model_steps[step]} if step in self.model_steps else {}
        return traced | ({"the model, fused kernel": self.fused_output} if step == "mixed" else {})

    def _describe_cell(self, key: str, row: int, column: int) -> str:
        step, (rows, columns) = self.problem.get_step(key), self.problem.exact_matrices[key].shape
        row_name = format_name(get_axis_labels(self.problem, step.row_axis, rows), row)
        column_name = format_name(get_axis_labels(self.problem, step.column_axis, columns), column)
        description = CELL_DESCRIPTIONS.get(key, SCORE_DESCRIPTION)
        return description.format(row=row_name, column=column_name)

    def max_differences(self) -> dict[str, float]:
        """Return the largest difference between the model's numbers and the exact ones by step."""
        mixed = self.problem.exact_matrices["mixed"].mid
        fused = float(absolute_difference(mixed, self.fused_output).max())
        return {**super().max_differences(), "fused": fused}

    def _summarize_differences(self) -> str:
        differences = self.max_differences()
        fused = differences.pop("fused")
        step = max(differences, key=differences.__getitem__)
        return (
            "The model's own numbers differ by at most "
            f"{format_difference(differences[step])} (in {step}); the output of its fused kernel "
            f"by {format_difference(fused)}."
        )

    def _check_file(self) -> None:
        tokens = max(len(matrix) for name, matrix in self.given.items() if name in TOKEN_MATRICES)
        if tokens > MAX_FILE_TOKENS:
            raise UserError(f"{tokens} tokens: a problem file has at most {MAX_FILE_TOKENS}")


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
        problem = build_problem(settings, given, f"; {SMALLER_HINT}")
        return HeadProblem(
            problem, settings, given, self.steps, note, top, decimals, self.fused_output
        )

    def _build_settings(self, has_key_names: bool) -> dict[str, Any]:
        """Return the problem's settings; `has_key_names`: name the tokens of the keys as well."""
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
