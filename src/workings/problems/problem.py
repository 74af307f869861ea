"""A problem: the given matrices, the steps to compute and the claimed results.

docs/problem-format.md defines the file format. Inside, vectors are rows: a problem with column
vectors is transposed when it is read, and its results are transposed back.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from workings.builtin import find_problem
from workings.errors import UserError, did_you_mean
from workings.problems.intervals import Bools, Floats, IntervalMatrix
from workings.problems.kind_names import find_kind
from workings.problems.kinds import Kind, Setting, Step
from workings.problems.kinds.base import Sizes
from workings.problems.letters import find_given, find_step_names
from workings.problems.numbers import Number
from workings.problems.ops import Masking
from workings.problems.problem_file import (
    ProblemReader,
    format_claim_path,
    parse_problem_toml,
    prefix_errors,
    read_text_file,
    remove_part_index,
)

if TYPE_CHECKING:
    from workings.problems.check import Report
    from workings.problems.solution import Solution


MAX_CELLS = 5_000_000  # of all steps: about 200 MB


@dataclass(frozen=True)
class Claim:
    """The claimed numbers of a step; `reprint` is 0, or k for its k-th repetition in the source."""

    key: str
    numbers: list[list[Number | None]]
    reprint: int = 0


@dataclass(frozen=True)
class GivenReprint(Claim):
    """A given matrix that is printed more than once: the k-th reprint and its first print."""

    first: list[list[Number | None]] = field(default_factory=list)


class Problem:
    """A problem from a file (`load`), from TOML or other text, or from matrices as keywords.

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
    given_reprints: list[GivenReprint]
    table: Mapping[str, Any]  # as it was read
    undeclared: frozenset[str]  # settings that the table leaves open
    assumption: str = ""  # what a document leaves open and its numbers show
    has_unknown_mask: bool = False  # the formulas of a document add a mask that it does not give
    unjudged: Mapping[str, str] = MappingProxyType({})  # steps of an unknown matrix, and why

    def __init__(self, **fields: Any) -> None:
        kind, _ = find_kind(fields.get("kind", "attention")) or (None, {})
        table = dict(fields)
        given = {
            name: table.pop(name) for name in fields if kind and find_given(name, kind) is not None
        }
        if given and isinstance(table.get("given", {}), Mapping):
            table["given"] = {**table.get("given", {}), **given}
        self._read(table)

    def __repr__(self) -> str:
        claimed = ", ".join(claim.key for claim in self.claims) or "nothing"
        return f"<Problem {self.title or self.kind.name!r}: {claimed} claimed>"

    @classmethod
    def load(cls, path: str | Path) -> "Problem":
        """Read a problem file, or a lecture's worked example by its name.

        >>> Problem.load("L2-self").title
        'L2 self-attention: three tokens, 4 to 3, unscaled'
        """
        file = find_problem(path)
        with prefix_errors(path):
            return cls.from_toml(read_text_file(file))

    @classmethod
    def from_toml(cls, text: str) -> "Problem":
        """Read the text of a problem file; numbers keep the decimals they are written with."""
        table = parse_problem_toml(text)
        if not table:
            raise UserError("the file is empty: a problem needs a [given] table")
        problem = cls.__new__(cls)
        problem._read(table)
        return problem

    @classmethod
    def from_text(cls, text: str, **settings: Any) -> "Problem":
        """Read a problem from prose with named matrices: LaTeX, Markdown or printed arrays."""
        from workings.problems.documents.reading import read_problem

        return read_problem(text, **settings)

    def _read(self, table: Mapping[str, Any]) -> None:
        reader, claimed = self._read_steps(table)
        self.given_reprints = list(self._read_given_reprints(reader, claimed))
        self.claims = list(self._read_claims(reader, claimed))

    def _read_steps(
        self, table: Mapping[str, Any]
    ) -> tuple[ProblemReader, dict[tuple[str, int], Any]]:
        """Read all but the claims, which are returned by step and reprint; compute nothing."""
        reader = ProblemReader(table)
        self.kind = reader.read_kind()
        self.table = reader.table
        self.undeclared = reader.find_undeclared(self.kind)
        self.title = reader.read_text("title", default="")
        vectors = reader.read_choice("vectors", ("rows", "columns"), default="rows")
        self.column_vectors = vectors == "columns"
        self.given = reader.read_matrices(self.kind, self.column_vectors)
        self.given |= reader.read_rounded(self.given, self.column_vectors)
        self.sizes = self._find_sizes(reader)
        self.kind.check_givens(self.given)
        self.setting = reader.read_setting(self.kind, self.column_vectors, self.sizes)
        self.tokens = reader.read_tokens("tokens", self.sizes.sizes.get("n", self.setting.count))
        self.context_tokens = reader.read_tokens("context_tokens", self.sizes.sizes.get("m", 0))
        self.setting = replace(self.setting, tokens=tuple(self.tokens or ()))
        self.given |= self._make_constants()
        claimed = reader.read_claims(self.kind)
        if ("angles", 0) in claimed:
            first_row = reader.read_first_row(claimed["angles", 0], self.column_vectors)
            self.sizes.sizes["angles"] = len(first_row)
        self._build_steps(claimed)
        names = find_step_names(claimed, self.steps, self.kind.part_name)
        if names:
            claimed = {(names.get(key, key), n): value for (key, n), value in claimed.items()}
            self._build_steps(claimed)
        return reader, claimed

    def _build_steps(self, claimed: Mapping[tuple[str, int], Any]) -> None:
        """Build the steps; those that are optional are built if they are claimed."""
        self.sizes.claimed = frozenset(
            name for key, _ in claimed for name in (key, remove_part_index(key))
        )
        self.steps = self.kind.build(self.sizes, self.setting)

    def _find_sizes(self, reader: ProblemReader) -> Sizes:
        """Infer the sizes; a number alone stands for a vector if the others fit without it."""
        given, scalars = dict(self.given), reader.find_scalars()
        if scalars:
            try:
                sizes = self._infer_sizes(reader, scalars)
            except UserError:
                self.given = given
            else:
                reader.fill_vectors({name: self.given[name].shape[1] for name in scalars})
                return sizes
        return self._infer_sizes(reader)

    def _infer_sizes(self, reader: ProblemReader, scalars: frozenset[str] = frozenset()) -> Sizes:
        """Infer every size from the given matrices and check that their shapes fit together.

        Those that are written as a flat list come after the others, and the inputs last: they are
        a row or, if only that fits the others, a column. `scalars` have the sizes of the others.
        """
        flat = reader.find_flat_givens()
        sizes = Sizes(frozenset(self.given))
        required = (name for name in self.kind.required if name not in self.given)
        missing = next(required, None) or self.kind.find_missing(self.given)
        if missing:
            raise UserError(f"given.{missing} is missing: kind {self.kind.name} needs it")
        axes = ("columns", "rows") if self.column_vectors else ("rows", "columns")
        for name in sorted(self.given, key=lambda n: (n in scalars, n in flat, n in flat & {"X"})):
            self._check_exclusive_givens(name)
            shape = self.kind.matrices[name]
            if name in scalars and (width := sizes.find(shape[1])) is not None:
                self.given[name] = IntervalMatrix.exact(
                    np.repeat(self.given[name].mid, width, axis=1)
                )
            if name in flat:
                self.kind.relate_sizes(sizes)
                if sizes.fits_transposed(shape, self.given[name].shape):
                    self.given[name] = self.given[name].T
            for size, value, axis in zip(shape, self.given[name].shape, axes, strict=True):
                sizes.bind(size, value, f"{name} has {value} {axis}")
        self.kind.relate_sizes(sizes)
        for absent, size, other in self.kind.tied_sizes:
            if not any(name in self.given for name in absent):
                sizes.tie(size, other, " or ".join(absent[:2]) or "another input")
        return sizes

    def _check_exclusive_givens(self, name: str) -> None:
        """Reject W_Q and b_Q beside a Q that is given directly; likewise for K and V."""
        for other in (f"W_{name}", f"b_{name}"):
            if name in ("Q", "K", "V") and other in self.given:
                raise UserError(
                    f"given has both {name} and {other}: give {name} itself or its weights"
                )

    def _make_constants(self) -> dict[str, IntervalMatrix]:
        """Return matrices that are implied: identities, and those of the kind."""
        constants = {
            f"I.{n}": IntervalMatrix.exact(np.eye(n)) for n in set(self.sizes.sizes.values())
        }
        constants |= self.kind.make_constants(self.sizes)
        # A given may take the place of the step of its name.
        return constants | {f"given.{name}": matrix for name, matrix in self.given.items()}

    def _read_given_reprints(
        self, reader: ProblemReader, claimed: dict[tuple[str, int], Any]
    ) -> Iterator[GivenReprint]:
        """Remove the givens from the reprints of claims, and yield them."""
        steps = {step.key for step in self.steps}
        for key, reprint in list(claimed):
            if reprint and key in self.kind.matrices and key in self.given and key not in steps:
                value, shape = claimed.pop((key, reprint)), self.given[key].shape
                where = f"claim.again.{reprint}.{key}"
                first = reader.read_given(key, shape, self.column_vectors)
                numbers = reader.read_matrix(where, value, shape, self.column_vectors)
                yield GivenReprint(key, numbers, reprint, first)

    def _read_claims(
        self, reader: ProblemReader, claimed: dict[tuple[str, int], Any]
    ) -> Iterator[Claim]:
        exact = self.exact_matrices  # computed now: a failure is an error of the file
        known = {
            step.key: format_claim_path(self.kind, step.key)
            for step in self.steps
            if step.is_claimable
        }
        for (key, reprint), value in claimed.items():
            path = format_claim_path(self.kind, key)
            where = f"claim.again.{reprint}.{path}" if reprint else f"claim.{path}"
            if key not in known:
                raise UserError(f"{where}: no such step: {did_you_mean(path, known.values())}")
            shape, labels = exact[key].shape, self.get_step(key).labels
            numbers = reader.read_matrix(where, value, shape, self.column_vectors, labels)
            yield Claim(key, numbers, reprint)

    def can_add(self, name: str, matrix: Any) -> bool:
        """Return True if a matrix fits the given ones; nothing is computed."""
        table = {key: value for key, value in self.table.items() if key != "claim"}
        try:
            with_matrix = {**table, "given": {**table.get("given", {}), name: matrix}}
            Problem.__new__(Problem)._read_steps(with_matrix)
        except UserError:
            return False
        return True

    @cached_property
    def exact_matrices(self) -> dict[str, IntervalMatrix]:
        """Every matrix of the problem by key: the givens and the exact steps, vectors as rows."""
        env, num_cells = dict(self.given), 0
        for step in self.steps:
            with np.errstate(all="ignore"):  # infinities are reported below
                matrix = env[step.key] = step.op.compute(env)
            num_cells += matrix.mid.size
            if num_cells > MAX_CELLS:
                raise UserError(
                    f"the problem is too large: its steps have more than {MAX_CELLS:,} numbers;"
                    " expected fewer tokens or heads"
                )
            masked = ~step.op.allowed if isinstance(step.op, Masking) else np.bool_(False)
            # A cell divided by a number that may be zero has no bounds: every claim would match.
            bounded = np.isfinite(matrix.mid) & np.isfinite(matrix.lo) & np.isfinite(matrix.hi)
            undefined = ~bounded & ~masked
            if step.op.allows_minus_infinity:
                undefined &= ~np.isneginf(matrix.mid)
            if undefined.any():
                vector = int(np.argwhere(undefined)[0][0]) + 1
                raise UserError(
                    f"{step.key} cannot be computed: vector {vector} of it {step.op.failure}"
                )
        return env

    def orient(self, matrix: Floats | Bools) -> Any:
        """Transpose a matrix from vectors as rows to the problem's convention, or back."""
        return matrix.T if self.column_vectors else matrix

    @property
    def asked_steps(self) -> list[Step]:
        """The steps that a solution states: those that the problem has, without mere slices."""
        return [step for step in self.steps if step.is_shown and step.is_claimable]

    def get_step(self, key: str) -> Step:
        """Return a step by its key: `scores`, `scores.2` (head or time 2), `norm_1.mean`."""
        for step in self.steps:
            if step.key == key:
                return step
        known = [step.key for step in self.steps if step.is_claimable]
        raise UserError(f"no step {key!r}: {did_you_mean(key, known)}")

    def solve(self, decimals: int = 3) -> "Solution":
        """Compute every step; `decimals` is how many are displayed."""
        from workings.problems.solution import Solution

        return Solution(self, decimals)

    def check(self) -> "Report":
        """Check every claimed cell, under the conventions that undeclared settings show."""
        from workings.problems.alternatives import check_readings

        return check_readings(self)
