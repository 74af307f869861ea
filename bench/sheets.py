"""Problem sheets solved in numpy, independently of the checker.

A sheet is a problem with its steps as functions of earlier matrices (vectors are rows), and the
style in which the numbers are written.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import ROUND_DOWN, Decimal
from math import erf
from typing import Any

import numpy as np

Matrix = np.ndarray
Env = dict[str, Matrix]
Step = Callable[[Env], Matrix]
MAX_VALUE = 1e9  # larger numbers are not written by hand


def identity(x: Matrix) -> Matrix:
    return x


def sigmoid(x: Matrix) -> Matrix:
    return 1 / (1 + np.exp(-x))


def softmax(x: Matrix) -> Matrix:
    """Normalize each row; a row of −∞ gets zeros."""
    largest = x.max(1, keepdims=True)
    e = np.exp(x - np.where(np.isfinite(largest), largest, 0))
    total = e.sum(1, keepdims=True)
    return e / np.where(total == 0, 1, total)


def over_sum(x: Matrix) -> Matrix:
    finite = np.where(np.isneginf(x), 0, x)
    total = finite.sum(1, keepdims=True)
    return finite / np.where(np.isneginf(x).all(1, keepdims=True), 1, total)


def gelu(x: Matrix) -> Matrix:
    return x * (1 + np.vectorize(erf)(x / np.sqrt(2))) / 2


NORMALIZERS = {"softmax": softmax, "sigmoid": sigmoid, "sum": over_sum}
ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": gelu,
    "tanh": np.tanh,
    "sigmoid": sigmoid,
}
GATES = {"i": sigmoid, "f": sigmoid, "g": np.tanh, "o": sigmoid}


@dataclass(frozen=True)
class Product:
    """`then(a b + c d + … + bias)`."""

    pairs: tuple[tuple[str, str], ...]
    bias: str | None = None
    then: Callable[[Matrix], Matrix] = identity

    def __call__(self, env: Env) -> Matrix:
        total = sum(env[a] @ env[b] for a, b in self.pairs)
        return self.then(total if self.bias is None else total + env[self.bias])


@dataclass(frozen=True)
class Style:
    """How numbers are written: decimals, and which value the next step uses."""

    decimals: int
    mode: str  # round, truncate (the next step uses that), or print (it uses the exact value)
    strip: bool  # drop trailing zeros

    def write(self, value: float) -> str:
        """Format a number as on the sheet."""
        if np.isneginf(value):
            return "-inf"
        if not abs(value) < MAX_VALUE:
            raise ValueError(f"{value} is too large to be written by hand")
        if self.mode == "truncate":
            unit = Decimal(1).scaleb(-self.decimals)
            # Round to twelve decimals first: 2.0999999999999996 is 2.1, not 2.0.
            text = f"{Decimal(f'{value:.12f}').quantize(unit, ROUND_DOWN):f}"
        else:
            text = f"{round(float(value), 12):.{self.decimals}f}"
        if self.strip and "." in text:
            text = text.rstrip("0").rstrip(".")
        return text.removeprefix("-") if float(text) == 0 else text


@dataclass
class Sheet:
    """A problem: its givens, its steps in order, which of them are claimed, and the style."""

    kind: str
    given: Env
    style: Style
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
    """Solve a sheet, with some steps replaced or some written numbers changed by `spoil`."""
    env, texts = {**sheet.given, **sheet.constants}, {}
    for key, step in sheet.steps.items():
        with np.errstate(all="ignore"):
            exact = env[key] = (replaced or {}).get(key, step)(env)
        if key not in sheet.claimed:
            continue
        correct = [[sheet.style.write(v) for v in row] for row in exact]
        texts[key] = correct if spoil is None else spoil(key, correct)
        claimed_values = np.array([[float(t) for t in row] for row in texts[key]])
        if sheet.style.mode == "print":  # only changed numbers are used as written
            is_changed = np.array(texts[key]) != np.array(correct)
            env[key] = np.where(is_changed, claimed_values, exact)
        else:
            env[key] = claimed_values
    return Worked(env, texts)


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
        is_vector = len(cells) == 1 and name not in ("X", "context", "H")
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
    return f'"{text}"' if text == "-inf" else text
