"""What a kind of sheet declares, and the plan of a sheet: its kind with every size chosen."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal, TypeAlias

from workings.languages import gettext, gettext_noop
from workings.problems.intervals import Floats
from workings.problems.problem import Problem

Size: TypeAlias = tuple[int, int]
Fields: TypeAlias = dict[str, Any]  # keywords of `Problem`: matrices with vectors as rows, settings
Givens: TypeAlias = dict[str, Floats]

MAX_SIZE = 8  # of width, heads, …: more cannot be computed by hand
MAX_TOKENS = 6


@dataclass(frozen=True)
class SizeOption:
    """A size that a kind of sheet accepts beside --size; `default(tokens, width)` chooses it."""

    default: Callable[[int, int], int]
    minimum: int = 2
    maximum: int = MAX_SIZE


def make_fixed_option(value: int, minimum: int = 2, maximum: int = MAX_SIZE) -> SizeOption:
    """Return an option with the same default for every size."""
    return SizeOption(lambda _tokens, _width: value, minimum, maximum)


@dataclass(frozen=True, kw_only=True)
class SheetKind:
    """A kind of sheet: how its problems are drawn, described and sized.

    `problem_kind` is the kind of its problem files. `draw(rng, plan)` returns the matrices of a
    problem by name (vectors as rows) and any setting that differs from problem to problem; it
    raises `SamplingError` if it finds none. A kind with few problems lists them all in
    `list_fields(plan)` instead. `make_settings(plan)` returns the settings that all problems share;
    every convention is declared there, because one that is left open is no mistake.
    `describe(plan, problem)` returns sentences on what matrices and formulas do not show.
    """

    name: str
    title: str
    problem_kind: str
    picture: str  # the computation on one line, as in `X → Q, K, V → weights → mixed`
    describe: Callable[["SheetPlan", Problem], list[str]]
    draw: Callable[[Random, "SheetPlan"], Fields] | None = None
    list_fields: Callable[["SheetPlan"], Sequence[Fields]] | None = None
    make_settings: Callable[["SheetPlan"], Fields] = lambda _: {}
    is_suitable: Callable[[Problem], bool] = lambda _: True
    sizes: tuple[Size, Size, Size] = ((2, 3), (3, 4), (4, 5))  # of levels 1, 2 (default) and 3
    min_size: Size = (2, 2)
    max_size: Size = (MAX_TOKENS, MAX_SIZE)
    size_names: tuple[str, str] = ("tokens", "width")
    size_text: str = gettext_noop("{tokens} tokens of width {width}")
    check_size: Callable[[int, int], str] = lambda _tokens, _width: ""  # why it is impossible
    options: Mapping[str, SizeOption] = field(default_factory=dict)
    complete_plan: Callable[["SheetPlan", Mapping[str, int]], "SheetPlan"] = lambda plan, _: plan
    # The words of a sentence: over the problem and at its vectors, only there, or not at all.
    sentence: Literal["heading", "labels", "none"] = "heading"
    # False: the mistakes are compared in drawn problems, not in matrices of arbitrary numbers,
    # because the givens must be probabilities, whole numbers or labels.
    takes_any_numbers: bool = True

    @property
    def has_attention(self) -> bool:
        """True if the problems contain scaled dot-product attention."""
        return "d_k" in self.options


@dataclass(frozen=True, kw_only=True)
class SheetPlan:
    """The kind and sizes of a sheet's problems; `notes` are remarks for the teacher."""

    kind: SheetKind
    tokens: int
    width: int
    decimals: int
    column_vectors: bool = False
    is_scaled: bool = True
    sizes: Mapping[str, int] = field(default_factory=dict)  # the options of its kind
    notes: tuple[str, ...] = ()

    @property
    def heads(self) -> int:
        """Attention heads."""
        return self.sizes.get("heads", 1)

    @property
    def d_k(self) -> int:
        """Width of a query per head; 0: the kind has no queries."""
        return self.sizes.get("d_k", 0)

    @property
    def context(self) -> int:
        """Tokens of the context; 0: attention within the sentence."""
        return self.sizes.get("context", 0)

    @property
    def hidden_size(self) -> int:
        """Hidden units; 0: the kind has none."""
        return self.sizes.get("hidden_size", 0)

    @property
    def divisor(self) -> float:
        """The number that the scores are divided by."""
        return math.sqrt(self.d_k) if self.is_scaled else 1.0

    @property
    def vector(self) -> str:
        """The axis of a token in the file, in words: row or column."""
        return gettext("column") if self.column_vectors else gettext("row")

    @property
    def vectors(self) -> str:
        """The axes of several tokens: rows or columns."""
        return gettext("columns") if self.column_vectors else gettext("rows")

    @property
    def feature_axis(self) -> str:
        """The axis along which the numbers of a token are counted: columns or rows."""
        return gettext("rows") if self.column_vectors else gettext("columns")


def format_shares(axis: str, width: int, names: Sequence[str]) -> str:
    """Format which columns belong to whom: `columns 1–2 to head 1, 3–4 to head 2`."""
    parts = [f"{k * width + 1}–{k * width + width} {gettext(name)}" for k, name in enumerate(names)]
    return f"{axis} {', '.join(parts)}"
