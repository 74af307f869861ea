"""Runs looked into, as the page is told; what was seen last is kept: heads come one by one."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock
from time import perf_counter

import numpy as np

from workings.decode.sample import Sampling
from workings.errors import UserError
from workings.lens.explain import explain
from workings.lens.heads import read_head
from workings.lens.place_vectors import place_vectors
from workings.lens.reading import Reader
from workings.lens.stacks import ALIGNMENT, HeadAt, Stack, without
from workings.tasks.classify import Classifying
from workings.tasks.language import Modelling
from workings.tasks.task import Task
from workings.trace import Trace
from workings.views.maps import label
from workings.web import asked_looks as asked
from workings.web import mapped
from workings.web import told_looks as told
from workings.web.answers import MOST_READ, Answer, answer, attention_of, token_name
from workings.web.looks_told import (
    bar_of,
    bars_of,
    cell_groups,
    derivation_of,
    numbers_of,
    percent,
    stack_of,
    strip_of,
    table_of,
    written_of,
)
from workings.web.one_file import page
from workings.web.parts import MOST_MAPPED
from workings.web.shelf import Shelf
from workings.web.worker import Turn

KEPT = 4  # inputs whose maps are kept
FEW = 5  # of what was likely instead of a token that was written
OTHERS = 8  # cells that vary most


@dataclass(frozen=True, eq=False)
class Seen:
    """An input, what a run made of it, and where its heads looked."""

    answer: Answer
    stacks: Sequence[Stack]
    notes: Sequence[str] = ()

    def stack(self, part: str) -> Stack:
        """Find a stack by its part."""
        for one in self.stacks:
            if one.part == part:
                return one
        raise UserError(f"part {part!r}: there is no such attention to look at here")


class Looks:
    """Answers about the runs of a shelf; all of it is for the shelf's own threads."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._kept: OrderedDict[tuple[Task, str], Seen] = OrderedDict()
        self._lock = Lock()

    def looked(self, given: asked.Look) -> told.Looked:
        """What a run makes of an input; with heads off, beside what it makes of it with all."""
        task, seen = self._task(given), self._seen(given)
        before = self._seen(given.model_copy(update={"off": []})).answer if given.off else None
        found = seen.answer
        bars, more = bars_of(found, before)
        return told.Looked(
            kind=self._shelf.run(given.run).kind,
            says=found.says,
            tokens=list(found.tokens),
            bars=bars,
            more=more,
            written=written_of(found, before),
            pictured=found.pictured,
            stacks=[stack_of(stack, given.off) for stack in seen.stacks],
            cells=cell_groups(task, len(found.tokens)),
            positions=place_vectors(task.model) is not None,
            notes=[*found.notes, *seen.notes],
            light=mapped.palette("light"),
            dark=mapped.palette("dark"),
        )

    def map(self, given: asked.MapAsked) -> told.Map:
        """One head's map."""
        stack = self._stack(given)
        name = stack.name(given.layer, given.head)
        return mapped.weights_map(
            name,
            name if given.part == ALIGNMENT else f"{name} of the {stack.called}",
            stack.rows,
            stack.columns,
            numbers_of(stack.weights[given.layer - 1][given.head - 1]),
            stack.causal,
        )

    def page(self, given: asked.MapAsked) -> str:
        """Write a part's heads as a page of their own; of many large ones the chosen one alone."""
        stack, found = self._stack(given), self._answered(given)
        title = f"{given.text} → {found.text}" if given.part == ALIGNMENT else given.text
        if found.photo is not None:
            title = found.text or ""
        maps = stack.maps(title)
        if len(stack.rows) * len(stack.columns) * len(maps.maps) > MOST_MAPPED:
            maps = stack.maps(title, (given.layer, given.head))
        return page(maps)

    def derivation(self, given: asked.DerivationAsked) -> told.Derivation:
        """One cell of a head's weights, written out; and the head as a problem, if it is small."""
        task, found = self._task(given), self._answered(given)
        with self._off(task, given):
            head = partial(
                read_head,
                task,
                found.read(given),
                given.layer,
                given.head,
                part=given.part,
                target=found.written,
            )
            whole = head()
            cell = whole.cell("weights", given.row + 1, given.column + 1)
            table = table_of(whole) or table_of(head(projected=True))
        return derivation_of(cell, table)

    def completed(self, given: asked.Complete, turn: Turn) -> told.Completed:
        """Go on with a text, for a while."""
        task, began = self._task(given), perf_counter()
        if not isinstance(task, Modelling):
            raise UserError("only a language model goes on with a text")
        answer(task, given)  # refuses what is too long
        how = Sampling(temperature=given.temperature, seed=given.seed)
        written: list[told.Token] = []
        with self._off(task, given):
            for one in task.stream(given.text, given.tokens, how, top=FEW):
                written.append(
                    told.Token(
                        text=one.text,
                        token=token_name(task.tokenizer, one.token),
                        chance=percent(one.probability),
                        bars=[bar_of(token_name(task.tokenizer, name), p) for name, p in one.top],
                    )
                )
                if turn.over:
                    break
        short = turn.over and len(written) < given.tokens
        ended = f"it took too long: {len(written)} of {given.tokens} tokens" if short else ""
        return told.Completed(
            tokens=written, ended=ended, milliseconds=1000 * (perf_counter() - began)
        )

    def explained(self, given: asked.Look) -> told.Explained:
        """Which words decided."""
        task = self._task(given)
        if not isinstance(task, Classifying):
            raise UserError("only a classifier has words that decide")
        with self._off(task, given):
            found = explain(task, given.text)
        tokens = [label(given.text[a:b]) for a, b in found.spans]
        return told.Explained(
            label=found.label,
            against=found.against,
            strips=[strip_of(s.method, s.what, tokens, s.values, s.signed) for s in found.shares],
        )

    def tracked(self, given: asked.CellsAsked) -> told.Tracked:
        """One cell over a text, and which cells of its group vary most."""
        task = self._task(given)
        if not isinstance(task, Modelling):
            raise UserError("cells are shown of language models")
        spans = task.tokenizer.spans(given.text)
        if not 0 < len(spans) <= MOST_READ:
            raise UserError(f"{len(spans):,} tokens: from 1 to {MOST_READ:,} are shown")
        reader = Reader(task.model, np.asarray(task.tokenizer.encode(given.text)))
        groups = reader.groups
        if given.group > len(groups):
            raise UserError(f"group {given.group}: there are {len(groups)}, counted from 1")
        begin, group = sum(g.size for g in groups[: given.group - 1]), groups[given.group - 1]
        if given.cell is not None and given.cell > group.size:
            raise UserError(f"cell {given.cell}: there are {group.size}, counted from 1")
        with self._off(task, given):
            seen = reader.from_beginning(range(begin, begin + group.size))
        varied = np.argsort(-seen.std(0), kind="stable")[:OTHERS] + 1
        cell = int(varied[0]) if given.cell is None else given.cell
        values = seen[:, cell - 1].astype(float).tolist()
        tokens = [label(given.text[a:b]) for a, b in spans]
        says = "what it holds after each token"
        return told.Tracked(
            group=group.name,
            size=group.size,
            cell=cell,
            strip=strip_of(f"{group.name} {cell}", says, tokens, values),
            others=varied.tolist(),
        )

    def positions(self, given: asked.RunAsked) -> told.Positions:
        """How the model tells places apart."""
        found = place_vectors(self._shelf.task(given.run).model)
        if found is None:
            raise UserError("this model has no positions: it reads one token after the other")
        places = [str(k + 1) for k in range(len(found.vectors))]
        columns = [str(k + 1) for k in range(found.vectors.shape[1])]
        return told.Positions(
            says=found.says,
            maps=[
                mapped.signed_map(
                    "vectors", "a row for each place", places, columns, numbers_of(found.vectors)
                ),
                mapped.signed_map(
                    "products", "place by place", places, places, numbers_of(found.products)
                ),
            ],
        )

    def _stack(self, given: asked.MapAsked) -> Stack:
        stack = self._seen(_plain(given)).stack(given.part)
        if given.layer > len(stack.weights) or given.head > len(stack.weights[0]):
            size = f"{len(stack.weights)} layers of {len(stack.weights[0])} heads"
            raise UserError(f"layer {given.layer}, head {given.head}: there are {size}")
        return stack

    def _task(self, given: asked.Look) -> Task:
        return self._shelf.task(given.run)

    def _off(self, task: Task, given: asked.Look) -> Trace:
        return without(task.model, [HeadAt(o.part, o.layer, o.head) for o in given.off])

    def _answered(self, given: asked.Look) -> Answer:
        return self._seen(_plain(given)).answer

    def _seen(self, given: asked.Look) -> Seen:
        key = self._task(given), given.model_dump_json()
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        seen = self._read(given)
        with self._lock:
            self._kept[key] = seen
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return seen

    def _read(self, given: asked.Look) -> Seen:
        task = self._task(given)
        with self._off(task, given):
            found = answer(task, given)
            return Seen(found, *attention_of(task, given, found))


def _plain(given: asked.Look) -> asked.Look:
    """Only what an input is: what is kept goes by that."""
    return asked.Look(**{name: getattr(given, name) for name in asked.Look.model_fields})
