"""A worked problem: what is given, and what somebody claims came out.

The contract for the file is docs/problem-format.md. Inside, vectors are rows: a problem in columns
is turned over on the way in, and its results on the way out.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workings.errors import UserError, near
from workings.problems.cells import Bools, Cells, Floats
from workings.problems.kinds import KINDS, Kind, Setting, Step
from workings.problems.kinds.base import Sizes
from workings.problems.numbers import Number
from workings.problems.ops import Masked, Normalised
from workings.problems.reading import Reader, claim_path, naming, read_toml, text_of_file

if TYPE_CHECKING:
    from workings.problems.check import Report
    from workings.problems.solve import Solution


@dataclass(frozen=True)
class Claim:
    """A step as somebody worked it out; `again` counts the reprints of the same step, from 0."""

    key: str
    numbers: list[list[Number | None]]
    again: int = 0


class Problem:
    """A problem, from a file (`load`), from text (`from_toml`) or from matrices.

    >>> problem = Problem(X=[[1, 0], [0, 2]], scale="none", claim={"scores": [[1, 0], [0, 5]]})
    >>> problem.solve()["scores"]
    array([[1., 0.],
           [0., 4.]])
    >>> problem.check().first.cell
    (1, 1)
    """

    kind: Kind
    title: str
    columns: bool
    setting: Setting
    tokens: list[str] | None
    context_tokens: list[str] | None
    given: dict[str, Cells]
    sizes: Sizes
    steps: list[Step]
    claims: list[Claim]

    def __init__(self, **fields: Any) -> None:
        kind = fields.get("kind", "attention")
        known = KINDS.get(kind if isinstance(kind, str) else "")
        table, own = dict(fields), known.matrices if known is not None else {}
        given = {name: table.pop(name) for name in fields if name in own}
        if given and isinstance(table.get("given", {}), Mapping):
            table["given"] = {**table.get("given", {}), **given}
        self._read(table)

    def __repr__(self) -> str:
        claimed = ", ".join(claim.key for claim in self.claims) or "nothing"
        return f"<Problem {self.title or self.kind.name!r}: {claimed} claimed>"

    @classmethod
    def load(cls, path: str | Path) -> "Problem":
        """Read a problem file."""
        with naming(path):
            return cls.from_toml(text_of_file(path))

    @classmethod
    def from_toml(cls, text: str) -> "Problem":
        """Read the text of a problem file; decimals are kept as they are written."""
        table = read_toml(text)
        if not table:
            raise UserError("empty: a problem has a [given] table")
        problem = cls.__new__(cls)
        problem._read(table)
        return problem

    @classmethod
    def from_text(cls, text: str, **settings: Any) -> "Problem":
        """Read a problem from a slide's text: matrices by name, in LaTeX, Markdown or a print."""
        from workings.problems.from_text import problem_from_text

        return problem_from_text(text, **settings)

    def _read(self, table: Mapping[str, Any]) -> None:
        read = Reader(table)
        self.kind = read.kind()
        self.title = read.text("title", default="")
        self.columns = read.choice("vectors", ("rows", "columns"), default="rows") == "columns"
        self.given = read.matrices(self.kind, self.columns)
        self.sizes = self._sizes()
        self.setting = read.setting(self.kind, self.columns, self.sizes)
        self.tokens = read.tokens("tokens", self.sizes.sizes.get("n", self.setting.count))
        self.context_tokens = read.tokens("context_tokens", self.sizes.sizes.get("m", 0))
        self.given |= self._constants()
        claimed = read.claimed(self.kind)
        if ("angles", 0) in claimed:
            self.sizes.sizes["angles"] = len(read.row_of(claimed["angles", 0], self.columns))
        self.steps = self.kind.build(self.sizes, self.setting)
        self.claims = list(self._claims(read, claimed))

    def _sizes(self) -> Sizes:
        """Work out how large everything is, and that it fits together."""
        sizes = Sizes(frozenset(self.given))
        missing = [name for name in self.kind.needs if name not in self.given]
        if self.kind.name == "attention" and "X" not in self.given:
            # Queries have to come from somewhere, and keys and values, if not from a context.
            asked = ("K", "V") if "context" not in self.given else ()
            missing = [name for name in ("Q", *asked) if name not in self.given]
            missing = ["X"] if "Q" in missing else missing
        if missing:
            raise UserError(f"given.{missing[0]} is missing: kind {self.kind.name} needs it")
        for name, cells in self.given.items():
            self._check_instead(name)
            words = ("columns", "rows") if self.columns else ("rows", "columns")
            for size, value, word in zip(self.kind.matrices[name], cells.shape, words, strict=True):
                sizes.bind(size, value, f"{name} has {value} {word}")
        for absent, size, other in self.kind.ties:
            if not any(name in self.given for name in absent):
                sizes.tie(size, other, " or ".join(absent) or "another input")
        return sizes

    def _check_instead(self, name: str) -> None:
        """Q given directly leaves no room for W_Q and b_Q."""
        for other in (f"W_{name}", f"b_{name}"):
            if name in ("Q", "K", "V") and other in self.given:
                raise UserError(
                    f"given: both {name} and {other}: give {name}, or what it is made from"
                )

    def _constants(self) -> dict[str, Cells]:
        """The matrices nobody writes down: identities, and states that start at zero."""
        constants = {f"I.{n}": Cells.exact(np.eye(n)) for n in set(self.sizes.sizes.values())}
        for name in ("Q", "K", "V"):
            if name in self.given:
                constants[f"given.{name}"] = self.given[name]
        for state in ("h0", "c0"):
            if state in self.kind.matrices and state not in self.given:
                constants[state] = Cells.exact(np.zeros((1, self.sizes["h"])))
        return constants

    def _claims(self, read: Reader, claimed: dict[tuple[str, int], Any]) -> Iterator[Claim]:
        exact = self.exact  # now, so that what cannot be worked out is an error of the file
        known = {step.key: claim_path(self.kind, step.key) for step in self.steps if step.claimable}
        for (key, again), value in claimed.items():
            path = claim_path(self.kind, key)
            where = f"claim.again.{again}.{path}" if again else f"claim.{path}"
            if key not in known:
                raise UserError(f"{where}: no such step: {near(path, known.values())}")
            yield Claim(key, read.matrix(where, value, exact[key].shape, self.columns), again)

    @cached_property
    def exact(self) -> dict[str, Cells]:
        """Every matrix of the problem, worked out exactly; by key, vectors as rows."""
        env = dict(self.given)
        for step in self.steps:
            with np.errstate(all="ignore"):  # what is not finite is told below
                cells = env[step.key] = step.op.compute(env)
            hidden = ~step.op.allowed if isinstance(step.op, Masked) else np.bool_(False)
            # What is divided by next to nothing, of which rounding says whether it is nothing, has
            # no bounds, and any number would do.
            bounded = np.isfinite(cells.mid) & np.isfinite(cells.lo) & np.isfinite(cells.hi)
            undefined = ~bounded & ~hidden
            if undefined.any():
                token = int(np.argwhere(undefined)[0][0]) + 1
                divides = isinstance(step.op, Normalised) or "normalised" in step.key
                raise UserError(
                    f"{step.key} cannot be worked out: vector {token} of it "
                    + ("divides by zero" if divides else "has too large a number")
                    + (" (is X constant there? give an eps)" if "normalised" in step.key else "")
                )
        return env

    def turn(self, rows: Floats | Bools) -> Any:
        """Turn a matrix from rows to the problem's own convention, or back."""
        return rows.T if self.columns else rows

    def step(self, key: str) -> Step:
        """Find a step by its key: `scores`, `scores.2` (head or time 2), `norm_1.mean`."""
        for step in self.steps:
            if step.key == key:
                return step
        known = [step.key for step in self.steps if step.claimable]
        raise UserError(f"no step {key!r}: {near(key, known)}")

    def solve(self, decimals: int = 3) -> "Solution":
        """Work every step out."""
        from workings.problems.solve import Solution

        return Solution(self, decimals)

    def check(self) -> "Report":
        """Judge every claimed cell."""
        from workings.problems.check import check

        return check(self)
