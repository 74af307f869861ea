"""Build the responses of the screen Inspect from model outputs, attention and derivations."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from workings.interpret.activations import find_neuron_groups
from workings.interpret.heads import HeadProblem
from workings.interpret.results import AttentionStack
from workings.plain_text import show_whitespace, to_one_line
from workings.problems.derivation import CellDerivation
from workings.problems.notation import format_decimal, typeset
from workings.render import derivation
from workings.render.colors import color_step
from workings.tasks.base import Task
from workings.web import heatmaps, problem_views, requests, responses
from workings.web.markup import build_formula
from workings.web.model_outputs import MAX_INPUT_TOKENS, ModelOutput
from workings.web.problem_views import MAX_SIDE
from workings.web.responses import ProblemTable

NUM_BARS = 12


def format_percent(probability: float) -> str:
    """Return a probability as a percentage.

    >>> format_percent(0.4124), format_percent(1.0)
    ('41.2 %', '100.0 %')
    """
    return f"{100 * probability:.1f} %"


def visible_tokens(tokens: Sequence[str]) -> list[str]:
    """Return tokens with whitespace made visible."""
    return [show_whitespace(token) for token in tokens]


def build_bars(
    output: ModelOutput, baseline: ModelOutput | None
) -> tuple[list[responses.ProbabilityBar], int]:
    """Return bars of the most probable outcomes, now or before, and how many are omitted."""
    now = output.response.probabilities
    if now is None:
        return [], 0
    before = None if baseline is None else baseline.response.probabilities
    rank = now if before is None else now.maximum(before)
    best = rank.topk(min(NUM_BARS, len(rank))).indices
    best = best[now[best].argsort(descending=True, stable=True)]
    bars = [
        build_bar(
            output.response.name_of(k), float(now[k]), None if before is None else float(before[k])
        )
        for k in best.tolist()
    ]
    return bars, len(rank) - len(bars)


def build_bar(
    name: str, probability: float, baseline: float | None = None
) -> responses.ProbabilityBar:
    """Return the bar of one outcome; with a baseline, also the change in percentage points."""
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
    """Return the generated text and that of the baseline; None if the model generates none."""
    if output.text is None:
        return None
    return responses.GenerationView(
        text=output.text,
        note=output.score_note,
        baseline=None if baseline is None else baseline.text,
        baseline_note="" if baseline is None else baseline.score_note,
    )


def build_stack_view(
    stack: AttentionStack, ablated_heads: Sequence[requests.AblatedHead]
) -> responses.AttentionStackView:
    """Return thumbnails of all heads of a stack."""
    ablated = {(head.layer, head.head) for head in ablated_heads if head.part == stack.part}
    thumbnails = [
        [heatmaps.build_thumbnail(head.astype(np.float64), stack.is_causal) for head in layer]
        for layer in stack.weights
    ]
    return responses.AttentionStackView(
        part=stack.part,
        label=stack.label,
        rows=len(stack.query_tokens),
        columns=len(stack.key_tokens),
        size=thumbnails[0][0][1],
        thumbs=[[levels for levels, _ in layer] for layer in thumbnails],
        ablated=[
            [(i, j) in ablated for j in range(1, len(layer) + 1)]
            for i, layer in enumerate(thumbnails, start=1)
        ],
        has_workings=stack.is_multi_head,
    )


def list_cell_groups(task: Task, num_tokens: int) -> list[str]:
    """Return the names of the groups of cells whose activations can be read on so many tokens."""
    if not 0 < num_tokens <= MAX_INPUT_TOKENS:
        return []
    groups = find_neuron_groups(task.model, num_tokens)
    return [f"{group.name} 1–{group.size}" for group in groups]


def build_strip(
    name: str, description: str, tokens: Sequence[str], values: Sequence[float], signed: bool = True
) -> responses.TokenStrip:
    """Return tokens with a value and a color each."""
    largest = max(map(abs, values), default=0.0)
    return responses.TokenStrip(
        name=name,
        description=description,
        tokens=list(tokens),
        texts=[typeset(f"{value:.3f}") for value in values],
        colors=[color_step(value, largest) for value in values],
        largest=typeset(format_decimal(largest, 3)),
        signed=signed,
    )


def build_head_table(head: HeadProblem) -> ProblemTable | None:
    """Return a head as a problem for Work; None if it is too large for the page."""
    sides = [side for matrix in head.given.values() for side in matrix.shape]
    return problem_views.build_problem_table(head.problem) if max(sides) <= MAX_SIDE else None


def build_derivation(cell: CellDerivation, table: ProblemTable | None) -> responses.DerivationView:
    """Return the derivation of one cell of a head."""
    numbers = derivation.format_numbers(cell) if cell.lines else []
    return responses.DerivationView(
        title=to_one_line(cell.title),
        name=cell.name,
        description=to_one_line(cell.description),
        formula=build_formula(cell.formula, cell.decimals),
        intermediates=[build_formula(formula, cell.decimals) for formula in cell.intermediates],
        header=list(cell.header),
        lines=[
            responses.DerivationLine(
                name=to_one_line(line.name), numbers=row, is_marked=line.is_marked
            )
            for line, row in zip(cell.lines, numbers, strict=True)
        ],
        working=build_formula(cell.working, cell.decimals),
        model_values=derivation.format_model_values(cell) if cell.model_values else [],
        notes=list(cell.notes),
        table=table,
    )
