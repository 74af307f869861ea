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

from workings.errors import UserError, did_you_mean
from workings.problems.intervals import Bools, Floats, IntervalMatrix
from workings.problems.kinds import KINDS, Kind, Setting, Step
from workings.problems.kinds.base import Sizes
from workings.problems.numbers import Number
from workings.problems.ops import Masking, Normalization
from workings.problems.problem_file import (
    ProblemReader,
    format_claim_path,
    parse_problem_toml,
    prefix_errors,
    read_text_file,
)

if TYPE_CHECKING:
    from workings.problems.check import Report
    from workings.problems.solution import Solution


@dataclass(frozen=True)
class Claim:
    """A step as somebody worked it out; `again` counts the reprints of the same step, from 0."""

    key: str
    numbers: list[list[Number | None]]
    reprint: int = 0


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
    column_vectors: bool
    setting: Setting
    tokens: list[str] | None
    context_tokens: list[str] | None
    given: dict[str, IntervalMatrix]
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
        with prefix_errors(path):
            return cls.from_toml(read_text_file(path))

    @classmethod
    def from_toml(cls, text: str) -> "Problem":
        """Read the text of a problem file; decimals are kept as they are written."""
        table = parse_problem_toml(text)
        if not table:
            raise UserError("empty: a problem has a [given] table")
        problem = cls.__new__(cls)
        problem._read(table)
        return problem

    @classmethod
    def from_text(cls, text: str, **settings: Any) -> "Problem":
        """Read a problem from a slide's text: matrices by name, in LaTeX, Markdown or a print."""
        from workings.problems.documents.problem_text import parse_problem_text

        return parse_problem_text(text, **settings)

    def _read(self, table: Mapping[str, Any]) -> None:
        read = ProblemReader(table)
        self.kind = read.read_kind()
        self.title = read.read_text("title", default="")
        self.column_vectors = (
            read.read_choice("vectors", ("rows", "columns"), default="rows") == "columns"
        )
        self.given = read.read_matrices(self.kind, self.column_vectors)
        self.sizes = self._infer_sizes()
        self.setting = read.read_setting(self.kind, self.column_vectors, self.sizes)
        self.tokens = read.read_tokens("tokens", self.sizes.sizes.get("n", self.setting.count))
        self.context_tokens = read.read_tokens("context_tokens", self.sizes.sizes.get("m", 0))
        self.given |= self._make_constants()
        claimed = read.read_claims(self.kind)
        if ("angles", 0) in claimed:
            self.sizes.sizes["angles"] = len(
                read.read_first_row(claimed["angles", 0], self.column_vectors)
            )
        self.steps = self.kind.build(self.sizes, self.setting)
        self.claims = list(self._read_claims(read, claimed))

    def _infer_sizes(self) -> Sizes:
        """Work out how large everything is, and that it fits together."""
        sizes = Sizes(frozenset(self.given))
        missing = [name for name in self.kind.required if name not in self.given]
        if self.kind.name == "attention" and "X" not in self.given:
            # Queries have to come from somewhere, and keys and values, if not from a context.
            asked = ("K", "V") if "context" not in self.given else ()
            missing = [name for name in ("Q", *asked) if name not in self.given]
            missing = ["X"] if "Q" in missing else missing
        if missing:
            raise UserError(f"given.{missing[0]} is missing: kind {self.kind.name} needs it")
        for name, cells in self.given.items():
            self._check_exclusive_givens(name)
            words = ("columns", "rows") if self.column_vectors else ("rows", "columns")
            for size, value, word in zip(self.kind.matrices[name], cells.shape, words, strict=True):
                sizes.bind(size, value, f"{name} has {value} {word}")
        for absent, size, other in self.kind.tied_sizes:
            if not any(name in self.given for name in absent):
                sizes.tie(size, other, " or ".join(absent) or "another input")
        return sizes

    def _check_exclusive_givens(self, name: str) -> None:
        """Q given directly leaves no room for W_Q and b_Q."""
        for other in (f"W_{name}", f"b_{name}"):
            if name in ("Q", "K", "V") and other in self.given:
                raise UserError(
                    f"given: both {name} and {other}: give {name}, or what it is made from"
                )

    def _make_constants(self) -> dict[str, IntervalMatrix]:
        """The matrices nobody writes down: identities, and states that start at zero."""
        constants = {
            f"I.{n}": IntervalMatrix.exact(np.eye(n)) for n in set(self.sizes.sizes.values())
        }
        for name in ("Q", "K", "V"):
            if name in self.given:
                constants[f"given.{name}"] = self.given[name]
        for state in ("h0", "c0"):
            if state in self.kind.matrices and state not in self.given:
                constants[state] = IntervalMatrix.exact(np.zeros((1, self.sizes["h"])))
        return constants

    def _read_claims(
        self, reader: ProblemReader, claimed: dict[tuple[str, int], Any]
    ) -> Iterator[Claim]:
        exact = (
            self.exact_matrices
        )  # now, so that what cannot be worked out is an error of the file
        known = {
            step.key: format_claim_path(self.kind, step.key)
            for step in self.steps
            if step.is_claimable
        }
        for (key, again), value in claimed.items():
            path = format_claim_path(self.kind, key)
            where = f"claim.again.{again}.{path}" if again else f"claim.{path}"
            if key not in known:
                raise UserError(f"{where}: no such step: {did_you_mean(path, known.values())}")
            yield Claim(
                key, reader.read_matrix(where, value, exact[key].shape, self.column_vectors), again
            )

    @cached_property
    def exact_matrices(self) -> dict[str, IntervalMatrix]:
        """Every matrix of the problem, worked out exactly; by key, vectors as rows."""
        env = dict(self.given)
        for step in self.steps:
            with np.errstate(all="ignore"):  # what is not finite is told below
                cells = env[step.key] = step.op.compute(env)
            hidden = ~step.op.allowed if isinstance(step.op, Masking) else np.bool_(False)
            # What is divided by next to nothing, of which rounding says whether it is nothing, has
            # no bounds, and any number would do.
            bounded = np.isfinite(cells.mid) & np.isfinite(cells.lo) & np.isfinite(cells.hi)
            undefined = ~bounded & ~hidden
            if undefined.any():
                token = int(np.argwhere(undefined)[0][0]) + 1
                divides = isinstance(step.op, Normalization) or "normalised" in step.key
                raise UserError(
                    f"{step.key} cannot be worked out: vector {token} of it "
                    + ("divides by zero" if divides else "has too large a number")
                    + (" (is X constant there? give an eps)" if "normalised" in step.key else "")
                )
        return env

    def orient(self, matrix: Floats | Bools) -> Any:
        """Turn a matrix from rows to the problem's own convention, or back."""
        return matrix.T if self.column_vectors else matrix

    def get_step(self, key: str) -> Step:
        """Find a step by its key: `scores`, `scores.2` (head or time 2), `norm_1.mean`."""
        for step in self.steps:
            if step.key == key:
                return step
        known = [step.key for step in self.steps if step.is_claimable]
        raise UserError(f"no step {key!r}: {did_you_mean(key, known)}")

    def solve(self, decimals: int = 3) -> "Solution":
        """Work every step out."""
        from workings.problems.solution import Solution

        return Solution(self, decimals)

    def check(self) -> "Report":
        """Judge every claimed cell."""
        from workings.problems.check import check_problem

        return check_problem(self)
