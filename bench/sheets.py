"""Random problem sheets, worked in plain numpy. Nothing here knows how the checker works.

A sheet is a problem with its steps as plain functions of the matrices before them, vectors as rows,
and with the way somebody writes the numbers down.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import ROUND_DOWN, Decimal
from math import erf
from typing import Any

import numpy as np

Matrix = np.ndarray
Env = dict[str, Matrix]
Way = Callable[[Env], Matrix]
LARGEST = 1e9  # what somebody still works with by hand


def plain(x: Matrix) -> Matrix:
    return x


def sigmoid(x: Matrix) -> Matrix:
    return 1 / (1 + np.exp(-x))


def softmax(x: Matrix) -> Matrix:
    """Normalise each row; a row of −∞ has no weight at all."""
    top = x.max(1, keepdims=True)
    e = np.exp(x - np.where(np.isfinite(top), top, 0))
    total = e.sum(1, keepdims=True)
    return e / np.where(total == 0, 1, total)


def over_sum(x: Matrix) -> Matrix:
    shown = np.where(np.isneginf(x), 0, x)
    total = shown.sum(1, keepdims=True)
    return shown / np.where(np.isneginf(x).all(1, keepdims=True), 1, total)


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
    then: Callable[[Matrix], Matrix] = plain

    def __call__(self, env: Env) -> Matrix:
        total = sum(env[a] @ env[b] for a, b in self.pairs)
        return self.then(total if self.bias is None else total + env[self.bias])


@dataclass(frozen=True)
class Style:
    """How somebody writes: so many decimals, and what is carried on to the next step."""

    decimals: int
    mode: str  # round (and carry on with that), truncate (likewise), print (round for print only)
    strip: bool  # leaves noughts at the end out

    def write(self, value: float) -> str:
        """Write a number as it would stand on the sheet."""
        if np.isneginf(value):
            return "-inf"
        if not abs(value) < LARGEST:
            raise ValueError(f"nobody writes {value} down")
        if self.mode == "truncate":
            unit = Decimal(1).scaleb(-self.decimals)
            # Twelve decimals first: 2.0999999999999996 is nobody's 2.0.
            text = f"{Decimal(f'{value:.12f}').quantize(unit, ROUND_DOWN):f}"
        else:
            text = f"{round(float(value), 12):.{self.decimals}f}"
        if self.strip and "." in text:
            text = text.rstrip("0").rstrip(".")
        return text.removeprefix("-") if float(text) == 0 else text


@dataclass
class Sheet:
    """A problem: what is given (rows), its steps in order, which are written down, and how."""

    kind: str
    given: Env
    style: Style
    columns: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    steps: dict[str, Way] = field(default_factory=dict)
    inner: set[str] = field(default_factory=set)  # parts of other steps: never written down
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
        """What the keys of the heads' steps end in."""
        return [f".{h}" for h in range(1, self.heads + 1)] if self.heads > 1 else [""]


@dataclass
class Worked:
    """What came out: the numbers as they were carried on, and as they were written."""

    env: Env
    texts: dict[str, list[list[str]]]


def work(
    sheet: Sheet,
    instead: dict[str, Way] | None = None,
    spoil: Callable[[str, list[list[str]]], list[list[str]]] | None = None,
) -> Worked:
    """Work a sheet, some steps in another way, some numbers spoiled in writing."""
    env, texts = {**sheet.given, **sheet.constants}, {}
    for key, way in sheet.steps.items():
        with np.errstate(all="ignore"):
            exact = env[key] = (instead or {}).get(key, way)(env)
        if key not in sheet.claimed:
            continue
        honest = [[sheet.style.write(v) for v in row] for row in exact]
        texts[key] = honest if spoil is None else spoil(key, honest)
        written = np.array([[float(t) for t in row] for row in texts[key]])
        if sheet.style.mode == "print":  # only what was spoiled is carried on as written
            spoiled = np.array(texts[key]) != np.array(honest)
            env[key] = np.where(spoiled, written, exact)
        else:
            env[key] = written
    return Worked(env, texts)


def to_toml(sheet: Sheet, worked: Worked) -> str:
    """Write the problem file."""
    lines = [f'kind = "{sheet.kind}"', f'vectors = "{"columns" if sheet.columns else "rows"}"']
    lines += [f"{name} = {_toml(value)}" for name, value in sheet.settings.items()]
    if sheet.kind == "attention" or sheet.kind == "block":
        mask = sheet.mask
        if mask is not None and "mask" not in sheet.settings:
            turned = mask.T if sheet.columns else mask
            lines.append(f"mask = {turned.astype(int).tolist()}")
    lines.append("[given]")
    for name, cells in sheet.given.items():
        turned = cells.T if sheet.columns else cells
        flat = len(cells) == 1 and name not in ("X", "context", "H")
        lines.append(f"{name} = {_toml((cells[0] if flat else turned).tolist())}")
    tables: dict[str, list[str]] = {}
    for key, texts in worked.texts.items():
        *place, name = key.split(".")
        if name.isdigit():  # attention.scores.2 stands under claim.attention.head.2
            *place, name, part = key.split(".")
            place = [*place, sheet.parts, part]
        rows = list(zip(*texts, strict=True)) if sheet.columns else texts
        cells = ", ".join(f"[{', '.join(_cell(t) for t in row)}]" for row in rows)
        tables.setdefault(".".join(("claim", *place)), []).append(f"{name} = [{cells}]")
    for table in sorted(tables):
        lines += [f"[{table}]", *tables[table]]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _cell(text: str) -> str:
    return f'"{text}"' if text == "-inf" else text
