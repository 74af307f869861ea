"""The definition of a kind of problem: its givens, settings, sizes and steps."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from workings.errors import UserError
from workings.problems.intervals import Bools, IntervalMatrix
from workings.problems.ops import MistakeOption, Op
from workings.problems.options import Option

Axis: TypeAlias = str | tuple[str, ...]


@dataclass(frozen=True)
class Setting:
    """The settings of a problem, beside its matrices.

    `scale` is what the scores are divided by: "sqrt(d_k)", "none" or a number. (`workings.attend`
    multiplies the scores by its `scale`.) `options` has the settings that only some kinds declare.
    """

    heads: int = 1
    scale: str | float = "sqrt(d_k)"
    normalizer: str = "softmax"
    mask: Bools | None = None  # [queries, keys], True: may attend; None: no mask
    causal: bool = False
    activation: str = "relu"
    order: str = "post"
    count: int = 0
    width: int = 0
    base: float = 10_000.0
    eps: float = 0.0
    tokens: tuple[str, ...] = ()  # their names, if they have any
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """A matrix to be computed; `part_index` is its head or time step, from 1."""

    name: str
    op: Op
    part_index: int | None = None
    row_axis: Axis = "tokens"  # what rows and columns are, for the headers of tables:
    column_axis: Axis = ""  # tokens, context, "" (neither) or their names
    is_shown: bool = True  # False: the problem lacks this step, and it equals the step before
    is_claimable: bool = True  # False: only a slice of another step
    labels: tuple[str, ...] = ()  # the cells are numbers of these words, from 1: tokens
    # Named mistakes that depend on the other steps of the kind, beside those of the operation.
    mistakes: tuple[MistakeOption, ...] = ()

    @cached_property
    def key(self) -> str:
        """Key among the matrices of the problem: `scores` or, for head 2, `scores.2`."""
        return self.name if self.part_index is None else f"{self.name}.{self.part_index}"


@dataclass(frozen=True)
class Kind:
    """A kind of problem, such as attention or lstm.

    `matrices` maps each given to its shape, in letters for the sizes (`1`: a single row);
    `required` are the givens that must be present. `settings` names the settings it accepts,
    `part_name` the numbered tables of its claims (head or t), `prefixes` the parts of a block.
    `tied_sizes` lists (matrices, size, size): without any of the matrices, the sizes are equal.
    `options` are settings of this kind alone, which its steps find in `setting.options`;
    `make_constants` returns matrices that are implied, such as an initial state of zero.
    `sequences` are givens whose rows are positions: a flat list of numbers has one channel. The
    option it names, if any, counts the matrices that are stacked in it, such as filters.
    `label_size` names the rows or columns of a size, such as the gates that are side by side.
    `check_givens` raises a `UserError` if a given cannot be what it stands for.
    `find_missing` names a given that is missing beside the required ones; None if none is.
    `relate_sizes` binds sizes that follow from others, such as the rows of W·[h, x].
    `per_head` are weights that may be given for each head: together they are the columns, or the
    rows, of one matrix.
    `rewrite_givens(given, table)` returns the givens of a problem in the form of `matrices`, if
    they may be written in other ways.
    """

    name: str
    matrices: Mapping[str, tuple[str, str]]
    required: tuple[str, ...]
    settings: tuple[str, ...]
    build: Callable[["Sizes", Setting], list[Step]]
    part_name: str | None = None
    prefixes: tuple[str, ...] = ()
    tied_sizes: tuple[tuple[tuple[str, ...], str, str], ...] = ()
    options: Mapping[str, Option] = field(default_factory=dict)
    make_constants: Callable[["Sizes"], dict[str, IntervalMatrix]] = lambda _: {}
    sequences: Mapping[str, str | None] = field(default_factory=dict)
    label_size: Callable[[str, "Sizes", Setting], tuple[str, ...]] = lambda *_: ()
    check_givens: Callable[[Mapping[str, IntervalMatrix]], None] = lambda _: None
    find_missing: Callable[[Collection[str]], str | None] = lambda _: None
    relate_sizes: Callable[["Sizes"], None] = lambda _: None
    per_head: Mapping[str, str] = field(default_factory=dict)
    rewrite_givens: Callable[[dict[str, Any], Mapping[str, Any]], dict[str, Any]] = (
        lambda given, _: given
    )

    @property
    def setting_names(self) -> tuple[str, ...]:
        """The names of all settings and options."""
        return (*self.settings, *self.options)


_GATES_SIDE_BY_SIDE = {"2h": 2, "3h": 3, "4h": 4}  # or two directions


@dataclass
class Sizes:
    """The names of the given matrices and the value of each size; a letter names a size.

    `claimed` has the names of the claimed steps without their part: optional steps are built if
    they are claimed.
    """

    given: frozenset[str]
    sizes: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    claimed: frozenset[str] = frozenset()

    def __getitem__(self, size: str) -> int:
        return self.sizes[size]

    def __contains__(self, matrix: str) -> bool:
        return matrix in self.given

    def bind(self, size: str, value: int, reason: str) -> None:
        """Set a size or check it against its value; `reason` is like "X has 4 columns"."""
        if size in _GATES_SIDE_BY_SIDE:
            count = _GATES_SIDE_BY_SIDE[size]
            part = "direction" if size == "2h" else "gate"
            if value % count:
                raise UserError(f"{reason}: it must be a multiple of {count}, one part per {part}")
            size, value = "h", value // count
        if size == "1":
            if value != 1:
                raise UserError(f"{reason}: it must be a single vector")
        elif self.sizes.setdefault(size, value) != value:
            raise UserError(f"{reason}, but {self.reasons[size]}: it must be {self.sizes[size]}")
        else:
            self.reasons.setdefault(size, reason)

    def find(self, size: str) -> int | None:
        """Return the value of a size; None if it is not known."""
        if size in _GATES_SIDE_BY_SIDE and "h" in self.sizes:
            return _GATES_SIDE_BY_SIDE[size] * self.sizes["h"]
        return self.sizes.get(size)

    def fits_transposed(self, names: tuple[str, str], shape: tuple[int, int]) -> bool:
        """Return True if a matrix contradicts the sizes known so far and its transpose does not."""
        return not self._accepts(names, shape) and self._accepts(names, shape[::-1])

    def _accepts(self, names: tuple[str, str], shape: tuple[int, ...]) -> bool:
        known = {"1": 1, **self.sizes}
        if "h" in known:
            known |= {name: count * known["h"] for name, count in _GATES_SIDE_BY_SIDE.items()}
        return all(known.get(name, side) == side for name, side in zip(names, shape, strict=True))

    def tie(self, size: str, other: str, absent: str) -> None:
        """Make two sizes equal because the matrix between them is absent."""
        for a, b in ((size, other), (other, size)):
            if b in self.sizes:
                self.bind(a, self.sizes[b], f"without {absent}, {self.reasons[b]}")
