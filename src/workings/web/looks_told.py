"""What was seen of a run, laid out for the page."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from torch import Tensor

from workings.lens.heads import Head
from workings.lens.reading import Reader
from workings.lens.stacks import ALIGNMENT, Stack
from workings.tasks.language import Modelling
from workings.tasks.task import Task
from workings.views import derived
from workings.views.colours import step as colour_of
from workings.views.notation import decimal, typeset
from workings.views.plain import one_line
from workings.web import asked_looks as asked
from workings.web import laid, mapped
from workings.web import told_looks as told
from workings.web.answers import MOST_READ, Answer
from workings.web.formulas import formula
from workings.web.laid import MOST_SIDE
from workings.web.told import Table

BARS = 12


def percent(share: float) -> str:
    """Write a probability.

    >>> percent(0.4124), percent(1.0)
    ('41.2 %', '100.0 %')
    """
    return f"{100 * share:.1f} %"


def numbers_of(value: Tensor) -> mapped.Numbers:
    """A tensor's numbers, in 64 bits."""
    numbers: mapped.Numbers = value.double().cpu().numpy()
    return numbers


def bars_of(found: Answer, before: Answer | None) -> tuple[list[told.Bar], int]:
    """Bars for the likeliest, now or before, and how many are left out."""
    if found.chances is None:
        return [], 0
    now = found.chances
    was = None if before is None or before.chances is None else before.chances
    rank = now if was is None else now.maximum(was)
    best = rank.topk(min(BARS, len(rank))).indices
    best = best[now[best].argsort(descending=True, stable=True)]
    bars = [
        bar_of(found.names(k), float(now[k]), None if was is None else float(was[k]))
        for k in best.tolist()
    ]
    return bars, len(rank) - len(bars)


def bar_of(name: str, now: float, was: float | None = None) -> told.Bar:
    """A bar; with what it was before, where something was changed."""
    bar = told.Bar(name=name, share=now, text=percent(now))
    if was is None:
        return bar
    change = typeset(f"{100 * (now - was):+.1f}")
    return replace(bar, before=was, before_text=percent(was), change=change)


def written_of(found: Answer, before: Answer | None) -> told.Written | None:
    """A text that was written, beside the one before."""
    if found.text is None:
        return None
    return told.Written(
        text=found.text,
        note=found.note,
        before=None if before is None else before.text,
        before_note="" if before is None else before.note,
    )


def stack_of(stack: Stack, off: Sequence[asked.Off]) -> told.Stack:
    """All heads of a stack in small."""
    away = {(o.layer, o.head) for o in off if o.part == stack.part}
    small = [
        [mapped.thumb(numbers_of(head), stack.causal) for head in layer] for layer in stack.weights
    ]
    return told.Stack(
        part=stack.part,
        called=stack.called,
        rows=len(stack.rows),
        columns=len(stack.columns),
        size=small[0][0][1],
        thumbs=[[drawn for drawn, _ in layer] for layer in small],
        off=[
            [(i, j) in away for j in range(1, len(layer) + 1)]
            for i, layer in enumerate(small, start=1)
        ],
        worked=stack.part != ALIGNMENT,
    )


def cell_groups(task: Task, tokens: int) -> list[str]:
    """Name the groups of cells that can be laid over so many tokens."""
    if not isinstance(task, Modelling) or not 0 < tokens <= (task.model.longest or MOST_READ):
        return []
    return [
        f"{group.name} 1–{group.size}" for group in Reader(task.model, np.zeros(1, np.int64)).groups
    ]


def strip_of(
    name: str, says: str, tokens: Sequence[str], values: Sequence[float], signed: bool = True
) -> told.Strip:
    """Tokens, coloured by a number each."""
    largest = max(map(abs, values), default=0.0)
    return told.Strip(
        name=name,
        says=says,
        tokens=list(tokens),
        texts=[typeset(f"{value:.3f}") for value in values],
        colours=[colour_of(value, largest) for value in values],
        largest=typeset(decimal(largest, 3)),
        signed=signed,
    )


def table_of(head: Head) -> Table | None:
    """A head as a problem for Work, where it is small enough to be looked at."""
    sides = [side for matrix in head.given.values() for side in matrix.shape]
    return laid.table(head.problem) if max(sides) <= MOST_SIDE else None


def derivation_of(cell: derived.Derived, table: Table | None) -> told.Derivation:
    """A cell, written out."""
    figures = derived.numbers(cell) if cell.lines else []
    return told.Derivation(
        title=one_line(cell.title),
        name=cell.name,
        says=one_line(cell.says),
        formula=formula(cell.formula, cell.decimals),
        before=[formula(one, cell.decimals) for one in cell.before],
        head=list(cell.head),
        lines=[
            told.Line(name=one_line(line.name), numbers=row, marked=line.marked)
            for line, row in zip(cell.lines, figures, strict=True)
        ],
        working=formula(cell.working, cell.decimals),
        elsewhere=derived.differences(cell) if cell.elsewhere else [],
        notes=list(cell.notes),
        table=table,
    )
