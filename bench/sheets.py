"""Problem sheets solved in numpy, independently of the checker.

A sheet is a problem with its steps as functions of earlier matrices (vectors are rows), and the
style in which the numbers are written. All steps also accept batches of matrices in front.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from math import erf
from typing import Any

import numpy as np

from styles import Style

Matrix = np.ndarray
Env = dict[str, Matrix]
Step = Callable[[Env], Matrix]
# Receives the name and the value of an intermediate result that is no step of its own, and returns
# the value to continue with.
Note = Callable[[str, Matrix], Matrix]
_ROUNDOFF = 1e-12  # smaller sums are zero up to floating point
_MAX_EXPONENT = 20.0  # nobody writes out larger exponentials
_TOML_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")


def identity(x: Matrix) -> Matrix:
    return x


def transpose(x: Matrix) -> Matrix:
    return x.swapaxes(-1, -2)


def sigmoid(x: Matrix) -> Matrix:
    return 1 / (1 + np.exp(-x))


def softmax(x: Matrix) -> Matrix:
    """Normalize each row; a row of −∞ gets zeros."""
    largest = x.max(-1, keepdims=True)
    return over_total(np.exp(x - np.where(np.isfinite(largest), largest, 0)))


def over_total(x: Matrix) -> Matrix:
    total = x.sum(-1, keepdims=True)
    return x / np.where(total == 0, 1, total)


def over_sum(x: Matrix) -> Matrix:
    finite = np.where(np.isneginf(x), 0, x)
    total = finite.sum(-1, keepdims=True)
    return finite / np.where(np.isneginf(x).all(-1, keepdims=True), 1, total)


def relu(x: Matrix) -> Matrix:
    return np.maximum(x, 0)


def gelu(x: Matrix) -> Matrix:
    return x * (1 + np.vectorize(erf)(x / np.sqrt(2))) / 2


NORMALIZERS = {"softmax": softmax, "sigmoid": sigmoid, "sum": over_sum}
ACTIVATIONS = {"relu": relu, "gelu": gelu, "tanh": np.tanh, "sigmoid": sigmoid}
GATES = {"i": sigmoid, "f": sigmoid, "g": np.tanh, "o": sigmoid}


class ByHand:
    """A step with intermediate results that a person may round."""

    def __call__(self, env: Env) -> Matrix:
        return self.by_hand(env, lambda _name, value: value)

    def by_hand(self, env: Env, note: Note) -> Matrix:
        """Compute the step, with each intermediate result replaced by `note` of it."""
        raise NotImplementedError


@dataclass(frozen=True)
class Product(ByHand):
    """`then(a b + c d + … + bias)`."""

    pairs: tuple[tuple[str, str], ...]
    bias: str | None = None
    then: Callable[[Matrix], Matrix] = identity

    def by_hand(self, env: Env, note: Note) -> Matrix:
        total = sum(env[a] @ env[b] for a, b in self.pairs)
        total = total if self.bias is None else total + env[self.bias]
        return total if self.then is identity else self.then(note("sum", total))


@dataclass(frozen=True)
class Quotient(ByHand):
    """The scores divided by a number, which may be the root of an integer."""

    source: str
    divisor: float
    is_root: bool = False

    def by_hand(self, env: Env, note: Note) -> Matrix:
        divisor = np.array([[self.divisor]])
        return env[self.source] / (note("root", divisor) if self.is_root else divisor)


@dataclass(frozen=True)
class Softmax(ByHand):
    """The softmax of each row."""

    source: str

    def by_hand(self, env: Env, note: Note) -> Matrix:
        x = env[self.source]
        if not (np.isfinite(x).any() and x.max() <= _MAX_EXPONENT):
            return softmax(x)
        return over_total(note("exponentials", np.exp(x)))


@dataclass(frozen=True)
class Standardized(ByHand):
    """The distances from the mean divided by the standard deviation."""

    source: str
    mean: str
    variance: str
    eps: float

    def by_hand(self, env: Env, note: Note) -> Matrix:
        deviation = note("deviation", np.sqrt(env[self.variance] + self.eps))
        return (env[self.source] - env[self.mean]) / deviation


@dataclass
class Sheet:
    """A problem: its givens, its steps in order, which of them are claimed, and the style."""

    kind: str
    given: Env
    style: Style = Style("")
    columns: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    steps: dict[str, Step] = field(default_factory=dict)
    inner: set[str] = field(default_factory=set)  # parts of other steps, never claimed
    constants: Env = field(default_factory=dict)
    claimed: list[str] = field(default_factory=list)
    prefix: str = ""
    mask: Matrix | None = None
    scale: float | None = None
    d_k: int = 1
    heads: int = 1
    parts: str = "head"

    @property
    def ends(self) -> list[str]:
        """Return the suffixes of the heads' step keys."""
        return [f".{h}" for h in range(1, self.heads + 1)] if self.heads > 1 else [""]

    @property
    def claimable(self) -> list[str]:
        """Return the keys of the steps that can be claimed."""
        return [key for key in self.steps if key not in self.inner]


@dataclass
class Worked:
    """A solved sheet: the numbers that later steps used, and the numbers as written."""

    env: Env
    texts: dict[str, list[list[str]]]


def work(
    sheet: Sheet,
    replaced: dict[str, Step] | None = None,
    spoil: Callable[[str, list[list[str]]], list[list[str]]] | None = None,
) -> Worked:
    """Solve a sheet in its style.

    Steps can be replaced, and `spoil` can change written numbers. Raise ValueError if a number is
    too large to be written, which includes a division by zero.
    """
    env, texts, style = {**sheet.given, **sheet.constants}, {}, sheet.style
    for index, (key, step) in enumerate(sheet.steps.items()):
        exact = _compute((replaced or {}).get(key, step), env, style, index)
        env[key] = exact
        if key in sheet.inner:
            continue
        is_softmax = isinstance(step, Softmax)
        if key not in sheet.claimed:
            env[key] = style.read(style.write(exact, index, is_softmax), exact, hidden=True)
            continue
        correct = style.write(exact, index, is_softmax)
        texts[key] = correct if spoil is None else spoil(key, correct)
        is_changed = np.array(texts[key]) != np.array(correct)
        env[key] = style.read(texts[key], exact, is_changed=is_changed)
    return Worked(env, texts)


def _compute(step: Step, env: Env, style: Style, index: int) -> Matrix:
    with np.errstate(all="ignore"):
        if isinstance(step, ByHand):
            exact = step.by_hand(env, lambda name, value: style.note(name, value, index))
        else:
            exact = step(env)
    if not isinstance(step, Softmax):  # small weights are no roundoff
        exact = np.where(np.abs(exact) < _ROUNDOFF, 0.0, exact)
    return exact


def solve(sheet: Sheet) -> Env:
    """Return all matrices of a sheet, computed exactly."""
    env = {**sheet.given, **sheet.constants}
    for key, step in sheet.steps.items():
        with np.errstate(all="ignore"):
            env[key] = step(env)
    return env


def to_toml(sheet: Sheet, worked: Worked) -> str:
    """Format a solved sheet as a problem file."""
    lines = [f'kind = "{sheet.kind}"', f'vectors = "{"columns" if sheet.columns else "rows"}"']
    lines += [f"{name} = {_toml(value)}" for name, value in sheet.settings.items()]
    if sheet.kind == "attention" or sheet.kind == "block":
        mask = sheet.mask
        if mask is not None and "mask" not in sheet.settings:
            oriented = mask.T if sheet.columns else mask
            lines.append(f"mask = {oriented.astype(int).tolist()}")
    lines.append("[given]")
    for name, cells in sheet.given.items():
        oriented = cells.T if sheet.columns else cells
        is_vector = len(cells) == 1 and name not in ("X", "context", "H", "Q", "K", "V")
        lines.append(f"{name} = {_toml((cells[0] if is_vector else oriented).tolist())}")
    tables: dict[str, list[str]] = {}
    for key, texts in worked.texts.items():
        *path, name = key.split(".")
        if name.isdigit():  # attention.scores.2 is claim.attention.head.2.scores
            *path, name, part = key.split(".")
            path = [*path, sheet.parts, part]
        rows = list(zip(*texts, strict=True)) if sheet.columns else texts
        cells = ", ".join(f"[{', '.join(_cell(t) for t in row)}]" for row in rows)
        tables.setdefault(".".join(("claim", *path)), []).append(f"{name} = [{cells}]")
    for table in sorted(tables):
        lines += [f"[{table}]", *tables[table]]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _cell(text: str) -> str:
    return text if _TOML_NUMBER.fullmatch(text) else f'"{text}"'
