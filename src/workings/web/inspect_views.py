"""Build the responses of the screen Inspect from model outputs, attention and derivations."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workings.interpret.activations import find_neuron_groups
from workings.interpret.heads import HeadProblem
from workings.interpret.results import AttentionStack
from workings.interpret.stages import Stage
from workings.plain_text import show_whitespace, to_one_line
from workings.problems.derivation import CellDerivation
from workings.problems.notation import format_decimal, typeset
from workings.render import derivation
from workings.render.colors import color_step
from workings.tasks.base import Task
from workings.web import heatmaps, requests, responses
from workings.web.markup import build_formula
from workings.web.model_outputs import MAX_INPUT_TOKENS, ModelOutput
from workings.web.problem_views import MAX_SIDE

NUM_BARS = 12
MAX_TOKEN_BARS = 40


def format_percent(probability: float) -> str:
    """Return a probability as a percentage.

    >>> format_percent(0.4124), format_percent(1.0)
    ('41.2 %', '100.0 %')
    """
    return f"{100 * probability:.1f} %"


def visible_tokens(tokens: Sequence[str]) -> list[str]:
    """Return tokens with whitespace made visible."""
    return [show_whitespace(token) for token in tokens]


def reshape_probabilities(
    probabilities: Float[Tensor, " outcomes"], temperature: float, top_k: int
) -> Float[Tensor, " outcomes"]:
    """Return the probabilities at a temperature, of the `top_k` outcomes alone unless it is 0.

    >>> reshape_probabilities(torch.tensor([0.5, 0.3, 0.2]), 0.5, 2).tolist()
    [0.7352941036224365, 0.2647058963775635, 0.0]
    """
    if temperature == 1 and not top_k:
        return probabilities
    logits = probabilities.double().clamp_min(1e-300).log() / temperature
    if 0 < top_k < len(logits):
        smallest = logits.topk(top_k).values[-1]
        logits = logits.masked_fill(logits < smallest, float("-inf"))
    return torch.softmax(logits, -1).float()


def build_bars(
    output: ModelOutput,
    baseline: ModelOutput | None,
    temperature: float = 1.0,
    top_k: int = 0,
) -> tuple[list[responses.OutcomeView], int]:
    """Return bars of the outcomes most probable with or without ablation; count those omitted."""
    now = output.response.probabilities
    if now is None:
        return [], 0
    now = reshape_probabilities(now, temperature, top_k)
    before = None if baseline is None else baseline.response.probabilities
    if before is not None:
        before = reshape_probabilities(before, temperature, top_k)
    rank = now if before is None else now.maximum(before)
    best = rank.topk(min(NUM_BARS, len(rank))).indices
    best = best[now[best].argsort(descending=True, stable=True)]
    bars = []
    for k in best.tolist():
        p, q = float(now[k]), None if before is None else float(before[k])
        change = "" if q is None else format_points(p - q)
        bars.append(build_outcome(output.response.name_of(k), p, q, change))
    return bars, len(rank) - len(bars)


def build_token_bars(
    now: Sequence[tuple[str, float]], before: Sequence[tuple[str, float]]
) -> tuple[list[responses.OutcomeView], int]:
    """Return bars of a generated text's tokens, with and without ablation; count those omitted."""
    bars = []
    for k, (name, p) in enumerate(now[:MAX_TOKEN_BARS]):
        q = before[k][1] if before else None
        change = "" if q is None else format_points(p - q)
        bars.append(build_outcome(name, p, q, change))
    return bars, len(now) - len(bars)


def build_outcome(
    name: str, probability: float | None, other: float | None = None, change: str = ""
) -> responses.OutcomeView:
    """Return one outcome with its probability, and with another one to compare it with."""
    texts = ("–" if p is None else format_percent(p) for p in (probability, other))
    return responses.OutcomeView(name, probability, next(texts), other, next(texts), change)


def format_points(change: float) -> str:
    """Return a difference of probabilities in percentage points.

    >>> format_points(0.0123), format_points(-0.0001)
    ('+1.2', '0.0')
    """
    text = f"{100 * change:+.1f}"
    return typeset(text) if text.strip("+-0.") else "0.0"


def build_output(output: ModelOutput) -> responses.OutputView:
    """Return the generated text of a model, and where a captioner attended."""
    return responses.OutputView(
        text=output.text,
        note=output.score_note,
        caption_attention=output.caption_attention,
        notes=list(output.notes),
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
    """Return the names of a model's groups of cells; none for a text that is too long."""
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


def build_drawing(stages: Sequence[Stage]) -> responses.ModelDrawing:
    """Return a thumbnail of every stage of a model."""
    views = []
    for stage in stages:
        numbers = stage.values.T if stage.is_recurrent else stage.values
        thumb, size = heatmaps.build_signed_thumbnail(numbers.astype(np.float64))
        num_tokens, width = stage.values.shape
        views.append(
            responses.StageView(
                path=stage.path,
                name=stage.name,
                group=stage.group,
                num_tokens=num_tokens,
                width=width,
                size=size,
                thumb=thumb,
                is_recurrent=stage.is_recurrent,
            )
        )
    return responses.ModelDrawing(views, heatmaps.level_colors(signed=True))


def build_stage_heatmap(stage: Stage) -> responses.Heatmap:
    """Return all numbers of a stage."""
    tokens = visible_tokens(stage.tokens)
    features = [str(k + 1) for k in range(stage.values.shape[1])]
    rows, columns, numbers = tokens, features, stage.values.astype(np.float64)
    if stage.is_recurrent:
        rows, columns, numbers = features, tokens, numbers.T
    name = f"{stage.group}, {stage.name}"
    return heatmaps.build_signed_heatmap(name, stage.path, rows, columns, numbers)


def build_head_table(head: HeadProblem) -> requests.ProblemTable | None:
    """Return a head as a problem for Work; None if it is too large for the page."""
    sides = [side for matrix in head.given.values() for side in matrix.shape]
    return requests.ProblemTable.from_problem(head.problem) if max(sides) <= MAX_SIDE else None


def build_derivation(head: HeadProblem, row: int, column: int) -> responses.DerivationView:
    """Return the derivation of an attention weight, from the product of query and key on."""
    cell, score = (head.cell(step, row, column) for step in ("weights", "scores"))
    return responses.DerivationView(
        title=to_one_line(cell.title),
        name=cell.name,
        description=to_one_line(cell.description),
        product=_build_product(score),
        formula=build_formula(cell.formula, cell.decimals),
        intermediates=[build_formula(formula, cell.decimals) for formula in cell.intermediates[1:]],
        terms=responses.TableView("Largest terms of the sum", *derivation.sum_table(cell)),
        working=build_formula(cell.working, cell.decimals),
        model_values=responses.TableView(
            "Value here and in the model", *derivation.model_value_table(cell)
        ),
        notes=list(cell.notes),
    )


def _build_product(score: CellDerivation) -> responses.ProductView:
    """Return the product of a query and a key by dimension."""
    return responses.ProductView(
        description=to_one_line(score.description),
        formula=build_formula(score.formula, score.decimals),
        terms=responses.TableView("Largest terms by dimension", *derivation.sum_table(score)),
        working=build_formula(score.working, score.decimals),
    )
