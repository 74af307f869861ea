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
from workings.layers.multi_head import MultiHeadAttention
from workings.lens.attention_maps import check_number
from workings.lens.head_places import Given, Place, place_of
from workings.problems.derive import derive
from workings.problems.make.problem_file import toml
from workings.problems.numbers import LARGEST_SIDE
from workings.problems.problem import Problem
from workings.problems.reading import LARGEST_FILE
from workings.problems.solve import NOTED, Solution, axis_names
from workings.tasks.writing import Written
from workings.trace import Trace
from workings.views.derived import Derived, Elsewhere
from workings.views.notation import Text, decimal, typeset
from workings.views.worked import Panel, Worked

FILED = 32  # tokens of a problem file: more than a person reads
SMALL = 12  # rows or columns of weights that can be looked at
CLAIMED = 4  # decimals of the model's own numbers in a file
TURNED = "Q and K are given as the model has them, turned by their positions (rotary)."
PROJECTED = "It starts from Q, K and V as the model has them."
OF_TOKENS = ("X", "context", "Q", "K", "V")
ORDER = ("X", "context", "W_Q", "b_Q", "Q", "W_K", "b_K", "K", "W_V", "b_V", "V")
STEPS = ("scores", "scaled", "masked", "weights", "mixed")
SAYS = {
    "Q": "column {column} of the query of {row}",
    "K": "column {column} of the key of {row}",
    "V": "column {column} of the value of {row}",
    "weights": "how much {row} looks at {column}",
    "mixed": "column {column} of what {row} takes from the values",
}
SCORED = "the query of {row} with the key of {column}"

Matrix = NDArray[np.float32]


@dataclass(frozen=True)
class Head:
    """A head as a problem, and its steps as the model has them."""

    problem: Problem
    settings: Mapping[str, Any]
    given: Mapping[str, Matrix]
    traced: Mapping[str, Matrix]
    fused: Matrix
    """what is mixed, by the fused kernel, which never has scores or weights"""
    note: str = ""
    top: int = 5
    decimals: int = 4

    def cell(self, step: str, row: int, column: int) -> Derived:
        """Derive a cell, counted from 1, and hold it against the model's own number."""
        found = derive(self.problem, step, row, column, top=self.top, decimals=self.decimals)
        place = (row - 1, column - 1)
        told = {"the model, traced": self.traced.get(step)}
        if step == "mixed":
            told["the model, fused kernel"] = self.fused
        elsewhere = [
            Elsewhere(what, float(matrix[place]), float(_apart(found.value, matrix[place])))
            for what, matrix in told.items()
            if matrix is not None
        ]
        says = self._says(step, row, column)
        return replace(found, says=says, elsewhere=elsewhere, notes=[self.note] * bool(self.note))

    def _says(self, key: str, row: int, column: int) -> str:
        step, (rows, columns) = self.problem.step(key), self.problem.exact[key].shape
        names = (
            _called(axis_names(self.problem, step.rows, rows), row),
            _called(axis_names(self.problem, step.columns, columns), column),
        )
        return SAYS.get(key, SCORED).format(row=names[0], column=names[1])

    def differences(self) -> dict[str, float]:
        """How far the model's numbers are from those written out, at most, step by step."""
        exact = self.problem.exact
        found = {
            step: float(_apart(exact[step].mid, matrix).max())
            for step, matrix in self.traced.items()
        }
        return {**found, "fused": float(_apart(exact["mixed"].mid, self.fused).max())}

    def worked(self, *, notes: bool = False) -> Worked:
        """Lay the whole head out; `notes`: each cell with its largest terms."""
        solution = Solution(self.problem, self.decimals)
        laid = solution.worked()
        steps = laid.steps
        if notes:
            steps = [self._noted(*one) for one in zip(solution.keys(), steps, strict=True)]
        givens = [
            _rounded(panel, self.decimals)
            for panel in laid.givens
            if panel.name in OF_TOKENS or not self._too_large()
        ]
        return replace(laid, givens=givens, steps=steps, summary=" ".join(self._sentences()))

    def _sentences(self) -> list[str]:
        """Say what was left out, and how far the model's numbers are from these."""
        apart = self.differences()
        fused = apart.pop("fused")
        largest = max(apart, key=apart.__getitem__)
        large = self._too_large()
        left_out = [f"Too large to be shown: {', '.join(large)}."] if large else []
        return [
            "Worked out in 64 bits from the vectors and weights of the model.",
            *left_out,
            f"The model's own numbers, traced, differ by {_size(apart[largest])} at most "
            f"(in {largest}); what its fused kernel mixes, by {_size(fused)}.",
            *([self.note] if self.note else []),
        ]

    def _too_large(self) -> list[str]:
        """The weights, where they are more than can be looked at."""
        weights = {name: m.shape for name, m in self.given.items() if name.startswith("W_")}
        return list(weights) if any(max(shape) > SMALL for shape in weights.values()) else []

    def _noted(self, key: str, panel: Panel) -> Panel:
        height, width = panel.shape
        if height * width > NOTED:
            return panel
        cells = [
            [
                replace(cell, note=self.cell(key, i, j).working(Text(self.decimals)))
                for j, cell in enumerate(row, start=1)
            ]
            for i, row in enumerate(panel.cells, start=1)
        ]
        return replace(panel, cells=cells)

    def to_text(self, *, width: int | None = None, color: bool = False) -> str:
        """Write the whole head for a terminal."""
        from workings.views import text

        return text.render(self.worked(), width=width, color=color)

    def to_html(self) -> str:
        """Write the whole head as one HTML file that needs nothing else."""
        from workings.views import html

        return html.render(self.worked(notes=True))

    def _repr_html_(self) -> str:
        from workings.views import html

        return html.fragment(self.worked(notes=True))

    def to_table(self) -> dict[str, Any]:
        """Take it apart into what JSON can hold."""
        solved: dict[str, Any] = json.loads(Solution(self.problem).json())
        return {**solved, "differences": self.differences(), "note": self.note}

    def to_file(self) -> str:
        """Write it as a problem file, which claims the model's own numbers, to four decimals."""
        tokens = max(len(matrix) for name, matrix in self.given.items() if name in OF_TOKENS)
        if tokens > FILED:
            raise UserError(f"{tokens} tokens: a head of at most {FILED} makes a problem file")
        given = {name: _shortest(matrix) for name, matrix in self.given.items()}
        shown = {step.key for step in self.problem.steps if step.shown}
        claim = {
            step: [[f"{x:.{CLAIMED}f}" for x in row] for row in matrix.tolist()]
            for step, matrix in self.traced.items()
            if step in shown
        }
        comment = "A head of a trained model. The claims are its own numbers, in 32 bits."
        written = toml({**self.settings, "given": given, "claim": claim}, f"{comment} {self.note}")
        size = len(written.encode("utf-8", "replace"))
        if size > LARGEST_FILE:
            raise UserError(
                f"the problem file would have {size / 1e6:.1f} MB, and at most "
                f"{LARGEST_FILE / 1e6:.0f} are read: projected, it starts from Q, K and V "
                "and is smaller"
            )
        return written


def problem_from_head(
    task: object,
    text: Given,
    layer: int,
    head: int,
    *,
    part: str | None = None,
    target: Written | str | None = None,
    projected: bool = False,
) -> Problem:
    """Turn a head of a run's model, reading a text, into a problem; see `read_head`."""
    return read_head(task, text, layer, head, part=part, target=target, projected=projected).problem


@torch.no_grad()
def read_head(
    task: object,
    text: Given,
    layer: int,
    head: int,
    *,
    part: str | None = None,
    target: Written | str | None = None,
    projected: bool = False,
    top: int = 5,
    decimals: int = 4,
) -> Head:
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
    place = place_of(task, text, part, target)
    check_number("layer", [layer], len(place.layers))
    path = place.layers[layer - 1]
    attention = place.model.get_submodule(path)
    assert isinstance(attention, MultiHeadAttention)
    check_number("head", [head], attention.heads)
    found = _traced(place, f"{path}.*")
    fused = _traced(place, f"{path}.mixed")
    group = (head - 1) // (attention.heads // attention.shared_heads)
    traced = {
        "Q": _matrix(found[f"{path}.query"], head - 1),
        "K": _matrix(found[f"{path}.key"], group),
        "V": _matrix(found[f"{path}.value"], group),
        **{step: _matrix(found[f"{path}.{step}"], head - 1) for step in STEPS},
    }
    started = ("Q", "K", "V") if projected else ("Q", "K") if attention.rotary is not None else ()
    given = {name: traced[name] for name in started}
    if not projected:
        made = _weights(attention, head - 1, group)
        given |= {name: matrix for name, matrix in made.items() if name[2:] not in started}
        given["X"] = _matrix(found[f"{path}.input"], None)
    if not projected and place.context is not None:
        given["context"] = _matrix(found[f"{path}.context"], None)
    title = f"Layer {layer}, head {head} of the {place.called}: {place.text}"
    settings = _settings(place, title, named_twice=bool(started))
    return Head(
        _problem(settings, given),
        settings,
        {name: given[name] for name in ORDER if name in given},
        traced,
        _matrix(fused[f"{path}.mixed"], head - 1),
        PROJECTED if projected else TURNED if started else "",
        top,
        decimals,
    )


def _problem(settings: Mapping[str, Any], given: Mapping[str, Matrix]) -> Problem:
    widest = max(max(matrix.shape) for matrix in given.values())
    if widest > LARGEST_SIDE:
        raise UserError(
            f"vectors of {widest:,} numbers, and a problem has at most {LARGEST_SIDE:,}: "
            "projected, it starts from Q, K and V and is smaller"
        )
    # Doubles are taken as they are; of shorter floats a problem reads the digits that count.
    doubles = {name: given[name].astype(np.float64) for name in ORDER if name in given}
    return Problem(**settings, given=doubles)


def _settings(place: Place, title: str, named_twice: bool) -> dict[str, Any]:
    """What the problem says beside its matrices; keys that are given have names of their own."""
    settings = {
        "title": title,
        "vectors": "rows",
        "scale": "sqrt(d_k)",
        "mask": "causal" if place.causal else "none",
        "tokens": list(place.tokens),
    }
    if place.context is not None or named_twice:
        settings["context_tokens"] = list(place.context or place.tokens)
    return settings


def _weights(attention: MultiHeadAttention, head: int, group: int) -> dict[str, Matrix]:
    """What makes a head's queries, keys and values: rows of one matrix, turned over."""
    width, shared = attention.head_width, attention.shared_heads * attention.head_width
    starts = {
        "Q": head * width,
        "K": attention.width + group * width,
        "V": attention.width + shared + group * width,
    }
    made, bias = {}, attention.project.bias
    for name, start in starts.items():
        made[f"W_{name}"] = _numbers(attention.project.weight[start : start + width].T)
        if bias is not None:
            made[f"b_{name}"] = _numbers(bias[start : start + width].unsqueeze(0))
    return made


def _traced(place: Place, only: str) -> Trace:
    was_training = place.model.training
    place.model.eval()
    try:
        with Trace(place.model, only=only) as trace:
            place.read()
    finally:
        place.model.train(was_training)
    return trace


def _matrix(value: Tensor, head: int | None) -> Matrix:
    """One text's matrix: `[1, heads, …] → […]` of a head, or `[1, time, width] → […]`."""
    return _numbers(value[0] if head is None else value[0, head])


def _numbers(value: Tensor) -> Matrix:
    numbers: Matrix = value.detach().float().cpu().numpy()
    return numbers


def _shortest(matrix: Matrix) -> list[list[float]]:
    """The shortest decimals that still tell a number of 32 bits from its neighbours."""
    return [[float(str(x)) for x in row] for row in matrix]


def _apart(here: ArrayLike, there: ArrayLike) -> NDArray[np.float64]:
    """How far numbers are apart; two infinities are not."""
    a, b = np.asarray(here, np.float64), np.asarray(there, np.float64)
    with np.errstate(invalid="ignore"):
        return np.where(a == b, 0.0, np.abs(a - b))


def _called(names: Sequence[str], number: int) -> str:
    name = names[number - 1]
    return name if name == str(number) else f"{number} “{name}”"


def _rounded(panel: Panel, decimals: int) -> Panel:
    """Write a matrix of 32-bit numbers with as many decimals as the steps have."""
    cells = [
        [replace(cell, text=decimal(cell.value or 0.0, decimals)) for cell in row]
        for row in panel.cells
    ]
    return replace(panel, cells=cells)


def _size(difference: float) -> str:
    return typeset(f"{difference:.1e}")
