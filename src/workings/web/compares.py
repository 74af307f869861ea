"""Two answers side by side, a head of each, and the difference."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from workings.errors import UserError
from workings.lens.permuted import Layer, permuted
from workings.lens.stacks import ALIGNMENT, Stack
from workings.tasks.classify import Classifying
from workings.views.notation import typeset
from workings.web import asked_looks, mapped
from workings.web.answers import Answer, answer, attention_of
from workings.web.comparing import CompareAsked, PermuteAsked, SideAsked
from workings.web.looks_told import percent
from workings.web.shelf import Shelf
from workings.web.told_looks import Map
from workings.web.told_runs import (
    Beside,
    Compared,
    Grid,
    Heads,
    Pair,
    Permuted,
    Side,
)

SHOWN = 12  # of what is likely
LEAST = 0.01  # a difference of weights that is drawn in full colour is no smaller
NAMES = ("A", "B")

Chances = dict[str, float]


@dataclass(frozen=True, eq=False)
class _Read:
    """What a run made of a side."""

    kind: str
    answer: Answer
    stacks: Sequence[Stack]
    notes: Sequence[str]

    @property
    def chances(self) -> Chances | None:
        """How likely each name is."""
        if self.answer.chances is None:
            return None
        return {self.answer.names(k): p for k, p in enumerate(self.answer.chances.tolist())}


class Compares:
    """Comparisons of the runs of a shelf; all of it is for the shelf's own thread."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def compared(self, given: CompareAsked) -> Compared:
        """Two sides, what they say, and a head of each."""
        asked = (given.first, given.second)
        both = [self._read(side) for side in asked]
        pairs, more, says = _answers(*both)
        shared = _shared(*(one.stacks for one in both))
        part = given.part or (shared[0].part if shared else None)
        beside = None
        if part is not None:
            found = [_stack(one.stacks, part) for one in both]
            beside = _beside(*(_head(s, given.layer, given.head) for s in found))
        return Compared(
            sides=[_side(*pair) for pair in zip(NAMES, both, strict=True)],
            says=says,
            pairs=pairs,
            more=more,
            stacks=shared,
            beside=beside,
            notes=[] if shared else _no_heads(*both),
        )

    def permuted(self, given: PermuteAsked) -> Permuted:
        """An input's tokens in another order."""
        task = self._shelf.task(given.run)
        found = permuted(task, given.text, given.order, seed=given.seed, positions=given.positions)
        moved = [found.tokens[k] for k in found.order]
        last, heads = found.layers[-1], len(found.found[0])
        stack = [
            Stack("attention", called, moved, moved, weights, found.causal and called == "A(P X)")
            for called, weights in (("A(X) permuted", found.expected), ("A(P X)", found.found))
        ]
        pairs: list[Pair] = []
        if found.chances is not None and isinstance(task, Classifying):
            chances = [dict(zip(task.labels, c.tolist(), strict=True)) for c in found.chances]
            pairs = _pairs(*chances)[0]
        return Permuted(
            tokens=list(found.tokens),
            permuted=moved,
            residual=_power(last.residual),
            says=_verdict(last, found.causal, found.positions, given.positions),
            removable=found.positions in ("sinusoidal", "learned"),
            layers=_layers(found.layers),
            apart=_apart(found.layers, moved),
            pairs=pairs,
            stacks=[Heads(part="attention", layers=len(found.found), heads=heads)],
            beside=_beside(*(_head(s, given.layer, given.head) for s in stack)),
        )

    def _read(self, side: SideAsked) -> _Read:
        task, kind = self._shelf.task(side.run), self._shelf.run(side.run).kind
        given = asked_looks.Look(run=side.run, text=side.text, scene=side.scene)
        found = answer(task, given)
        return _Read(kind, found, *attention_of(task, given, found))


def _side(name: str, read: _Read) -> Side:
    said = read.answer
    notes = [*said.notes, *read.notes]
    return Side(name=name, text=said.text, note=said.note, pictured=said.pictured, notes=notes)


def _answers(first: _Read, second: _Read) -> tuple[list[Pair], int, str]:
    """Chances side by side; or what can be said of two texts."""
    one, other = first.chances, second.chances
    if first.kind != second.kind:
        return [], 0, "These runs do different things: there is nothing to subtract"
    if one is None or other is None:
        same = first.answer.text == second.answer.text
        return [], 0, "Both write the same" if same else "They write different things"
    pairs, more = _pairs(one, other)
    best = [max(chances, key=chances.__getitem__) for chances in (one, other)]
    told = [f"“{name}”" for name in best]
    said = f"Both say {told[0]}" if best[0] == best[1] else f"A says {told[0]}, B says {told[1]}"
    if one.keys() == other.keys():
        apart = sum(abs(p - other[name]) for name, p in one.items()) / 2
        said += f"; {percent(apart)} of the probability lies elsewhere"
    return pairs, more, said


def _pairs(one: Chances, other: Chances) -> tuple[list[Pair], int]:
    """The likeliest names of both, each with the two chances; and how many are left out."""
    rank = {name: max(one.get(name, 0.0), other.get(name, 0.0)) for name in {**one, **other}}
    best = sorted(rank, key=lambda name: -rank[name])[:SHOWN]
    pairs = []
    for name in best:
        p, q = one.get(name), other.get(name)
        change = "" if p is None or q is None else _points(q - p)
        texts = ["–" if share is None else percent(share) for share in (p, q)]
        pairs.append(
            Pair(
                name=name,
                first=p,
                second=q,
                first_text=texts[0],
                second_text=texts[1],
                change=change,
            )
        )
    return pairs, len(rank) - len(best)


def _points(change: float) -> str:
    """Write a difference of chances, in points.

    >>> _points(0.0123), _points(-0.0001)
    ('+1.2', '0.0')
    """
    written = f"{100 * change:+.1f}"
    return typeset(written) if written.strip("+-0.") else "0.0"


def _shared(first: Sequence[Stack], second: Sequence[Stack]) -> list[Heads]:
    """The attention that both have, as far as both have it."""
    found = []
    for one in first:
        for other in second:
            if one.part == other.part:
                layers = min(len(one.weights), len(other.weights))
                heads = min(len(one.weights[0]), len(other.weights[0]))
                found.append(Heads(part=one.part, layers=layers, heads=heads))
    return found


def _no_heads(*both: _Read) -> list[str]:
    """Say why no heads are shown, unless pictures show what was looked at."""
    without = [name for name, one in zip(NAMES, both, strict=True) if not one.stacks]
    if len(without) == len(both) and all(one.answer.pictured for one in both):
        return []
    if without:
        return [f"{' and '.join(without)}: no attention heads to put side by side"]
    return ["their attention is of different parts: no head of one is a head of the other"]


def _stack(of: Sequence[Stack], part: str) -> Stack:
    for stack in of:
        if stack.part == part:
            return stack
    raise UserError(f"part {part!r}: it is not in both")


@dataclass(frozen=True, eq=False)
class _Head:
    """One head of a stack."""

    name: str
    stack: Stack
    weights: Tensor


def _head(stack: Stack, layer: int, head: int) -> _Head:
    layers, heads = len(stack.weights), len(stack.weights[0])
    if layer > layers or head > heads:
        raise UserError(f"layer {layer}, head {head}: there are {layers} layers of {heads} heads")
    name = stack.called if stack.part == ALIGNMENT else f"layer {layer}, head {head}"
    if stack.part == "attention":  # of one model, twice
        name = f"{stack.called}, {name}"
    return _Head(name, stack, stack.weights[layer - 1][head - 1])


def _beside(first: _Head, second: _Head) -> Beside:
    """Two maps, and the second minus the first where their cells have the same places."""
    maps = [
        mapped.weights_map(
            one.name if one.stack.part == "attention" else f"{name}: {one.name}",
            f"{one.name} of {name}",
            one.stack.rows,
            one.stack.columns,
            one.weights.double().numpy(),
            one.stack.causal,
        )
        for name, one in zip(NAMES, (first, second), strict=True)
    ]
    shapes = [tuple(one.weights.shape) for one in (first, second)]
    if shapes[0] != shapes[1]:
        told = " and ".join(f"{rows}×{columns}" for rows, columns in shapes)
        says = (
            f"The maps are {told}: no cell of one is a cell of the other, and nothing to subtract"
        )
        return Beside(first=maps[0], second=maps[1], difference=None, says=says)
    apart = (second.weights - first.weights).double()
    of_texts = [*first.stack.rows] != [*second.stack.rows]
    difference = mapped.signed_map(
        "difference",
        "the second map minus the first",
        _both(first.stack.rows, second.stack.rows),
        _both(first.stack.columns, second.stack.columns),
        apart.numpy(),
        least=LEAST,
        causal=first.stack.causal and second.stack.causal,
    )
    says = f"At most {_power(float(apart.abs().max()))} apart"
    says += ", place by place: the tokens differ" if of_texts else ""
    return Beside(first=maps[0], second=maps[1], difference=difference, says=says)


def _both(one: Sequence[str], other: Sequence[str]) -> list[str]:
    return [a if a == b else f"{a} | {b}" for a, b in zip(one, other, strict=True)]


def _layers(layers: Sequence[Layer]) -> Grid:
    head = ["after", "max |f(P X) − P f(X)|", "max |f(X)|", "is that rounding?"]
    rows = [
        [
            layer.name,
            _power(layer.residual),
            typeset(f"{layer.largest:.3f}"),
            "yes" if layer.is_rounding else "no",
        ]
        for layer in layers
    ]
    return Grid(head=head, rows=rows)


def _apart(layers: Sequence[Layer], tokens: Sequence[str]) -> Map:
    numbers = torch.stack([layer.apart for layer in layers]).double().numpy()
    least = 1e-3 * max(layer.largest for layer in layers)  # rounding stays pale
    return mapped.sized_map(
        "|f(P X) − P f(X)|",
        "how far each token's vector is from where it should be, after each layer",
        [layer.name for layer in layers],
        tokens,
        numbers,
        least,
    )


def _verdict(last: Layer, causal: bool, positions: str, kept: bool) -> str:
    if last.is_rounding:
        return (
            "f(P X) = P f(X) up to rounding: this attention does not know the order of its tokens"
        )
    ways = [f"{positions} positions"] * (positions != "none" and kept) + [
        "the causal mask"
    ] * causal
    return f"f(P X) ≠ P f(X): the order of the tokens is told by {' and '.join(ways) or 'padding'}"


def _power(number: float) -> str:
    """Write a number that may be tiny.

    >>> _power(0.25), _power(4.8e-7), _power(0.0)
    ('0.250', '4.8·10⁻⁷', '0')
    """
    if number == 0 or number >= 1e-3:
        return f"{number:.3f}" if number else "0"
    digits, _, exponent = f"{number:.1e}".partition("e")
    raised = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{digits}·10{raised}"
