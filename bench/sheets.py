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


class NotedStep:
    """A step with intermediate results that a person may round."""

    def __call__(self, env: Env) -> Matrix:
        return self.compute(env, lambda _name, value: value)

    def compute(self, env: Env, note: Note) -> Matrix:
        """Compute the step, with each intermediate result replaced by `note` of it."""
        raise NotImplementedError


@dataclass(frozen=True)
class Product(NotedStep):
    """`then(a b + c d + … + bias)`.

    The weight `Wᵀ` is the transpose of W, and an empty one leaves a as it is.
    """

    pairs: tuple[tuple[str, str], ...]
    bias: str | None = None
    then: Callable[[Matrix], Matrix] = identity

    def compute(self, env: Env, note: Note) -> Matrix:
        total = sum(multiply(env, a, b) for a, b in self.pairs)
        total = total if self.bias is None else total + env[self.bias]
        return total if self.then is identity else self.then(note("sum", total))


def multiply(env: Env, a: str, b: str) -> Matrix:
    """Return the product of two matrices by name."""
    if not b:
        return get(env, a)
    return get(env, a) @ get(env, b)


def get(env: Env, name: str) -> Matrix:
    return transpose(env[name[:-1]]) if name.endswith("ᵀ") else env[name]


@dataclass(frozen=True)
class Quotient(NotedStep):
    """The scores divided by a number, which may be the root of an integer."""

    source: str
    divisor: float
    is_root: bool = False

    def compute(self, env: Env, note: Note) -> Matrix:
        divisor = np.array([[self.divisor]])
        return env[self.source] / (note("root", divisor) if self.is_root else divisor)


@dataclass(frozen=True)
class Masked:
    """The scores with a number, as a rule −∞, where the mask forbids."""

    source: str
    mask: Matrix | None
    fill: float = -np.inf

    def __call__(self, env: Env) -> Matrix:
        scores = env[self.source]
        if self.mask is None:
            return scores
        if scores.shape[-2:] != self.mask.shape:
            raise ValueError("the mask does not fit")
        return np.where(self.mask, scores, self.fill)


@dataclass(frozen=True)
class Softmax(NotedStep):
    """The softmax of each row."""

    source: str

    def compute(self, env: Env, note: Note) -> Matrix:
        x = env[self.source]
        if not (np.isfinite(x).any() and x.max() <= _MAX_EXPONENT):
            return softmax(x)
        return over_total(note("exponentials", np.exp(x)))


@dataclass(frozen=True)
class Standardized(NotedStep):
    """The distances from the mean divided by the standard deviation."""

    source: str
    mean: str
    variance: str
    eps: float
    takes_root: bool = True

    def compute(self, env: Env, note: Note) -> Matrix:
        divisor = env[self.variance] + self.eps
        if self.takes_root:
            divisor = note("deviation", np.sqrt(divisor))
        divisor = np.where(divisor > 0, divisor, np.nan)
        return (env[self.source] - env[self.mean]) / divisor


@dataclass(frozen=True)
class Affine:
    """Each column times its γ plus its β."""

    source: str
    gamma: str | None
    beta: str | None

    def __call__(self, env: Env) -> Matrix:
        x = env[self.source]
        x = x if self.gamma is None else x * env[self.gamma]
        return x if self.beta is None else x + env[self.beta]


@dataclass(frozen=True)
class Activated:
    """A function of each cell."""

    source: str
    function: Callable[[Matrix], Matrix]

    def __call__(self, env: Env) -> Matrix:
        return self.function(env[self.source])


@dataclass(frozen=True)
class Angles:
    """The angles of sinusoidal positions: position / base^(2i / width), the same for a pair.

    With `by_column` the exponent is that many times the column / width.
    """

    count: int
    columns: int
    base: float
    width: float
    first: int = 0
    by_column: int = 0

    def __call__(self, _env: Env) -> Matrix:
        columns = np.arange(self.columns)
        steps = self.by_column * columns if self.by_column else columns - columns % 2
        exponents = steps / self.width
        return (self.first + np.arange(self.count))[:, None] / self.base**exponents


@dataclass(frozen=True)
class Encoding:
    """The sine of the even and the cosine of the odd columns."""

    source: str = "angles"
    is_swapped: bool = False
    in_degrees: bool = False

    def __call__(self, env: Env) -> Matrix:
        angles = np.radians(env[self.source]) if self.in_degrees else env[self.source]
        is_sine = np.arange(angles.shape[-1]) % 2 == self.is_swapped
        return np.where(is_sine, np.sin(angles), np.cos(angles))


@dataclass(frozen=True)
class Cell:
    """The cell of an LSTM, `forget · old + let · new`."""

    forget: str
    old: str
    let: str
    new: str

    def __call__(self, env: Env) -> Matrix:
        return env[self.forget] * env[self.old] + env[self.let] * env[self.new]


@dataclass(frozen=True)
class State:
    """The hidden state of an LSTM, `gate · tanh(cell)`."""

    gate: str
    cell: str
    squash: Callable[[Matrix], Matrix] = np.tanh

    def __call__(self, env: Env) -> Matrix:
        return env[self.gate] * self.squash(env[self.cell])


@dataclass
class Sheet:
    """A problem: its givens, its steps in order, which of them are claimed, and the style."""

    kind: str
    given: Env
    style: Style = field(default_factory=lambda: Style(""))
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
            if style.rounds_unclaimed:
                env[key] = style.read(style.write(exact, index, is_softmax), exact)
            continue
        correct = style.write(exact, index, is_softmax)
        texts[key] = correct if spoil is None else spoil(key, correct)
        is_changed = np.array(texts[key]) != np.array(correct)
        env[key] = style.read(texts[key], exact, is_changed=is_changed)
    return Worked(env, texts)


def _compute(step: Step, env: Env, style: Style, index: int) -> Matrix:
    with np.errstate(all="ignore"):
        if isinstance(step, NotedStep):
            exact = step.compute(env, lambda name, value: style.note(name, value, index))
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
        elif mask is None:  # declared, since a convention that is left open is no mistake
            lines.append('mask = "none"')
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
