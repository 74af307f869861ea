"""What a kind of problem is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from workings.errors import UserError
from workings.problems.intervals import Bools
from workings.problems.ops import Op


@dataclass(frozen=True)
class Setting:
    """What a problem says beside its matrices."""

    heads: int = 1
    scale: str | float = "sqrt(d_k)"
    normalizer: str = "softmax"
    mask: Bools | None = None  # [queries, keys]; None: everybody may look everywhere
    causal: bool = False
    activation: str = "relu"
    order: str = "post"
    count: int = 0
    width: int = 0
    base: float = 10_000.0
    eps: float = 0.0


@dataclass(frozen=True)
class Step:
    """A matrix that is worked out; `part` is the head or the time it belongs to, from 1."""

    name: str
    op: Op
    part_index: int | None = None
    row_axis: str = "tokens"  # what its rows and columns stand for, for the table's headers:
    column_axis: str = ""  # tokens, context, or nothing in particular
    is_shown: bool = True  # False: the problem does not have it, it equals the one before
    is_claimable: bool = True  # False: only a part of another step

    @property
    def key(self) -> str:
        """Its name among all matrices of the problem."""
        return self.name if self.part_index is None else f"{self.name}.{self.part_index}"


@dataclass(frozen=True)
class Kind:
    """A kind of problem.

    `matrices`: the givens and their shapes, in names for the sizes (`1`: a single row). `needs`:
    those that cannot be left out. `settings`: which settings it has. `parts`: what the numbered
    tables of its claims are called. `ties`: without any of these matrices, two sizes are one.
    """

    name: str
    matrices: Mapping[str, tuple[str, str]]
    required: tuple[str, ...]
    settings: tuple[str, ...]
    build: Callable[["Sizes", Setting], list[Step]]
    part_name: str | None = None
    prefixes: tuple[str, ...] = ()
    tied_sizes: tuple[tuple[tuple[str, ...], str, str], ...] = ()


@dataclass
class Sizes:
    """Which matrices are given, and how large everything is; a size is named by a letter."""

    given: frozenset[str]
    sizes: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, size: str) -> int:
        return self.sizes[size]

    def __contains__(self, matrix: str) -> bool:
        return matrix in self.given

    def bind(self, size: str, value: int, reason: str) -> None:
        """Settle a size, or hold it against what settled it: `what` is like "X has 4 columns"."""
        if size == "4h":  # four gates side by side
            if value % 4:
                raise UserError(f"{reason}: it must be a multiple of 4, one part for each gate")
            size, value = "h", value // 4
        if size == "1":
            if value != 1:
                raise UserError(f"{reason}: it must be a single vector")
        elif self.sizes.setdefault(size, value) != value:
            raise UserError(f"{reason}, but {self.reasons[size]}: it must be {self.sizes[size]}")
        else:
            self.reasons.setdefault(size, reason)

    def tie(self, size: str, other: str, absent: str) -> None:
        """Make two sizes one, because the matrix between them is absent."""
        for a, b in ((size, other), (other, size)):
            if b in self.sizes:
                self.bind(a, self.sizes[b], f"without {absent}, {self.reasons[b]}")
