"""What was seen of a run, laid out for the page."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from torch import Tensor

from workings.interpret.activations import ActivationReader
from workings.interpret.attention import ALIGNMENT, StackWeights
from workings.interpret.heads import HeadProblem
from workings.plain_text import to_one_line
from workings.problems.derivation import CellDerivation
from workings.problems.notation import format_decimal, typeset
from workings.render import derivation
from workings.render.colors import color_step as colour_of
from workings.tasks.base import Task
from workings.tasks.language_modeling import LanguageModeling
from workings.web import heatmaps, problem_views, requests, responses
from workings.web.markup import build_formula
from workings.web.model_outputs import MAX_INPUT_TOKENS, ModelOutput
from workings.web.problem_views import MAX_SIDE
from workings.web.responses import ProblemTable

NUM_BARS = 12


def format_percent(share: float) -> str:
    """Write a probability.

    >>> format_percent(0.4124), format_percent(1.0)
    ('41.2 %', '100.0 %')
    """
    return f"{100 * share:.1f} %"


def to_float64(value: Tensor) -> heatmaps.Numbers:
    """A tensor's numbers, in 64 bits."""
    numbers: heatmaps.Numbers = value.double().cpu().numpy()
    return numbers


def build_bars(
    output: ModelOutput, baseline: ModelOutput | None
) -> tuple[list[responses.ProbabilityBar], int]:
    """Bars for the likeliest, now or before, and how many are left out."""
    if output.probabilities is None:
        return [], 0
    now = output.probabilities
    was = None if baseline is None or baseline.probabilities is None else baseline.probabilities
    rank = now if was is None else now.maximum(was)
    best = rank.topk(min(NUM_BARS, len(rank))).indices
    best = best[now[best].argsort(descending=True, stable=True)]
    bars = [
        build_bar(output.name_of(k), float(now[k]), None if was is None else float(was[k]))
        for k in best.tolist()
    ]
    return bars, len(rank) - len(bars)


def build_bar(
    name: str, probability: float, baseline: float | None = None
) -> responses.ProbabilityBar:
    """A bar; with what it was before, where something was changed."""
    bar = responses.ProbabilityBar(
        name=name, probability=probability, text=format_percent(probability)
    )
    if baseline is None:
        return bar
    change = typeset(f"{100 * (probability - baseline):+.1f}")
    return replace(bar, baseline=baseline, baseline_text=format_percent(baseline), change=change)


def build_generation(
    output: ModelOutput, baseline: ModelOutput | None
) -> responses.GenerationView | None:
    """A text that was written, beside the one before."""
    if output.text is None:
        return None
    return responses.GenerationView(
        text=output.text,
        note=output.note,
        baseline=None if baseline is None else baseline.text,
        baseline_note="" if baseline is None else baseline.note,
    )


def build_stack_view(
    stack: StackWeights, ablated_heads: Sequence[requests.AblatedHead]
) -> responses.AttentionStackView:
    """All heads of a stack in small."""
    away = {(o.layer, o.head) for o in ablated_heads if o.part == stack.part}
    small = [
        [heatmaps.build_thumbnail(to_float64(head), stack.is_causal) for head in layer]
        for layer in stack.weights
    ]
    return responses.AttentionStackView(
        part=stack.part,
        label=stack.label,
        rows=len(stack.query_tokens),
        columns=len(stack.key_tokens),
        size=small[0][0][1],
        thumbs=[[drawn for drawn, _ in layer] for layer in small],
        ablated=[
            [(i, j) in away for j in range(1, len(layer) + 1)]
            for i, layer in enumerate(small, start=1)
        ],
        has_workings=stack.part != ALIGNMENT,
    )


def list_cell_groups(task: Task, num_tokens: int) -> list[str]:
    """Name the groups of cells that can be laid over so many tokens."""
    if not isinstance(task, LanguageModeling) or not 0 < num_tokens <= (
        task.model.max_positions or MAX_INPUT_TOKENS
    ):
        return []
    return [
        f"{group.name} 1–{group.size}"
        for group in ActivationReader(task.model, np.zeros(1, np.int64)).groups
    ]


def build_strip(
    name: str, description: str, tokens: Sequence[str], values: Sequence[float], signed: bool = True
) -> responses.TokenStrip:
    """Tokens, coloured by a number each."""
    largest = max(map(abs, values), default=0.0)
    return responses.TokenStrip(
        name=name,
        description=description,
        tokens=list(tokens),
        texts=[typeset(f"{value:.3f}") for value in values],
        colors=[colour_of(value, largest) for value in values],
        largest=typeset(format_decimal(largest, 3)),
        signed=signed,
    )


def build_head_table(head: HeadProblem) -> ProblemTable | None:
    """A head as a problem for Work, where it is small enough to be looked at."""
    sides = [side for matrix in head.given.values() for side in matrix.shape]
    return problem_views.build_problem_table(head.problem) if max(sides) <= MAX_SIDE else None


def build_derivation(cell: CellDerivation, table: ProblemTable | None) -> responses.DerivationView:
    """A cell, written out."""
    figures = derivation.format_numbers(cell) if cell.lines else []
    return responses.DerivationView(
        title=to_one_line(cell.title),
        name=cell.name,
        description=to_one_line(cell.description),
        formula=build_formula(cell.formula, cell.decimals),
        intermediates=[build_formula(one, cell.decimals) for one in cell.intermediates],
        header=list(cell.header),
        lines=[
            responses.DerivationLine(
                name=to_one_line(line.name), numbers=row, is_marked=line.is_marked
            )
            for line, row in zip(cell.lines, figures, strict=True)
        ],
        working=build_formula(cell.working, cell.decimals),
        model_values=derivation.format_model_values(cell) if cell.model_values else [],
        notes=list(cell.notes),
        table=table,
    )
