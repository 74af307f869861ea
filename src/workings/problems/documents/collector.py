"""Collect the matrices of a document by their role: values, factors of products, reprints."""

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from workings.errors import UserError, safe_repr
from workings.problems.documents.formulas import (
    PROJECTIONS,
    Divisor,
    find_divisor,
    infer_step,
    infer_vectors,
    is_role,
    mentions_matrix,
    parse_formula,
    parse_product,
)
from workings.problems.documents.latex import to_plain_text
from workings.problems.documents.matrices import Rows
from workings.problems.documents.names import PER_HEAD_ROLES, RoleResolver, list_formulas
from workings.problems.documents.statements import Segment, Statement, parse_numbers
from workings.problems.numbers import transpose_rows
from workings.problems.reprints import count_differences, is_reprint

_PRODUCTS = {
    "Q": ("X", "W_Q"),
    "K": ("X", "W_K"),
    "V": ("X", "W_V"),
    "scores": ("Q", "Kᵀ"),
    "mixed": ("weights", "V"),
    "output": ("mixed", "W_O"),
}
_BARE_NUMBERS = re.compile(r"[\s()]*[+−-]?\d[\d.]*(?:[\s,;&()]+[+−-]?\d[\d.]*)+[\s.()]*")


@dataclass(frozen=True)
class FormulaSettings:
    """The settings that the formulas of a document show; None if they leave it open."""

    vectors: str | None = None
    divisor: Divisor | None = None
    is_unscaled: bool = False
    normalizer: str | None = None
    has_mask: bool = False


@dataclass(frozen=True)
class _NamedStatement:
    """A statement with the role of its name."""

    role: str
    is_transposed: bool
    statement: Statement
    formulas: list[list[str]]  # its own, in symbols


class MatrixCollector:
    """Collects the matrices of a document by their role.

    `values` maps a role to its prints in order of appearance: {cells: rows}. It is keyed by cells,
    since a long text may repeat a matrix very often.
    """

    def __init__(self, resolver: RoleResolver, statements: list[Statement]) -> None:
        self.values: dict[str, dict[tuple[tuple[str, ...], ...], Rows]] = {}
        self._resolver = resolver
        resolver.learn(statements)
        self._statements = self._merge_factors(statements)
        if len(self._statements) != len(statements):
            resolver.learn(self._statements)
        self._formulas = [self._parse_formulas(statement) for statement in self._statements]
        self._products: dict[str, tuple[str, ...]] = {}  # role -> factors: Q -> (X, W_Q)

    def _parse_formulas(self, statement: Statement) -> list[list[str]]:
        roles = self._resolver.roles
        return [parse_formula(text, roles) for text in list_formulas(statement)]

    def infer_settings(self) -> FormulaSettings:
        """Return what the formulas show about vectors, scale, normalizer and mask."""
        if not self._resolver.is_attention:
            return FormulaSettings()
        steps = [(infer_step(formula), formula) for formula in self._parse_lefts()]
        for index, (statement, parsed) in enumerate(
            zip(self._statements, self._formulas, strict=True)
        ):
            resolution = self._resolver.resolve(statement, index) or (None, False)
            steps += [(infer_step(formula) or resolution[0], formula) for formula in parsed]
        formulas = [formula for _, formula in steps]
        products = [product for product in map(parse_product, formulas) if product]
        divisors = [
            find_divisor(formula)
            for step, formula in steps
            if step in ("scaled", "masked", "weights", "mixed", "output")
        ]
        normalizers = {s for f in formulas for s in f if s in ("softmax", "sigmoid")}
        stated = [divisor for divisor in divisors if divisor is not None]
        return FormulaSettings(
            vectors=infer_vectors(products),
            divisor=stated[0] if stated and all(d == stated[0] for d in stated) else None,
            is_unscaled=not stated and any(_is_softmax_of_scores(f) for f in formulas),
            normalizer=normalizers.pop() if len(normalizers) == 1 else None,
            has_mask=any("mask" in formula for formula in formulas),
        )

    def _parse_lefts(self) -> list[list[str]]:
        """Return the left sides that are formulas themselves: QK^T = …"""
        roles = self._resolver.roles
        lefts = (s.left[-300:].rpartition(":")[2] for s in self._statements)
        return [parse_formula(left, roles) for left in lefts]

    def collect(self, column_vectors: bool, has_mask: bool) -> None:
        """Collect the values, then the factors of products that have no value of their own."""
        self.values, self._products = {}, {}
        named = list(self._resolve_statements())
        has_transposed_scores = column_vectors and any(
            parse_product(f) == ("Qᵀ", "K") for parsed in self._formulas for f in parsed
        )
        for item in named:
            is_scores = item.role.rpartition(".")[2] in (PER_HEAD_ROLES - {"mixed"}) | {"mask"}
            is_transposed = item.is_transposed != (is_scores and has_transposed_scores)
            self._add_prints(replace(item, is_transposed=is_transposed))
        if self._resolver.is_attention:
            self._read_products(named, column_vectors, has_mask)
        for item in named:
            if item.role not in self.values:
                self._reject_unread_value(item.statement)
        if self._resolver.is_attention:
            self._assign_inputs()

    def _resolve_statements(self) -> Iterator[_NamedStatement]:
        for index, (statement, formulas) in enumerate(
            zip(self._statements, self._formulas, strict=True)
        ):
            products = [product for product in map(parse_product, formulas) if product]
            has_matrix = any(segment.matrices for segment in statement.segments)
            if not has_matrix:
                self._reject_bare_numbers(statement, index)
            if not products and not has_matrix:
                continue
            resolution = self._resolver.resolve(statement, index)
            if statement.is_sentence and not self._is_whole_matrix(statement):
                continue  # the first row of Q is [1, 2]
            if resolution is None:
                name = self._resolver.extract_name(statement.left)
                if name and not statement.is_sentence and self._find_value(statement) is not None:
                    raise self._resolver.make_unknown_name_error(statement.left)
                continue
            if has_matrix:
                self._reject_several_names(statement)
            role, is_transposed = resolution
            if products and role in PROJECTIONS:
                self._products.setdefault(role, products[0])
            yield _NamedStatement(role, is_transposed, statement, formulas)

    def _is_whole_matrix(self, statement: Statement) -> bool:
        """Return True if a sentence states a matrix, rather than one of its rows."""
        rows = self._find_value(statement)
        return rows is not None and len(rows) > 1

    def _add_prints(self, item: _NamedStatement) -> None:
        """Add the value of a statement, also to the other names of W_Q = W_K = [matrix]."""
        prints = self._list_prints(item.statement)
        if not prints:
            return
        value, *others = prints
        self._add_value(item.role, _orient(value, item.is_transposed))
        for rows in others:  # before the last equals sign
            self._add_reprint(item.role, _orient(rows, item.is_transposed))
        for formula in item.formulas:
            if len(formula) == 1 and is_role(formula[0]):
                role = formula[0].removesuffix("ᵀ")
                rows = _orient(value, role != formula[0])
                if role in self.values:
                    self._add_reprint(role, rows)
                else:
                    self._add_value(role, rows)

    def _list_prints(self, statement: Statement) -> list[Rows]:
        """Return the matrices of a chain that have a segment to themselves, the last one first."""
        name, prints = self._resolver.extract_name(statement.left), list[Rows]()
        for segment in reversed(statement.segments):
            matrix = segment.get_single_matrix()
            if matrix is None:
                continue
            try:
                rows = parse_numbers(matrix, name)
            except UserError:
                if not prints:
                    raise
                continue  # sums such as 1·1 + 0·2, before their results
            prints += [rows] if rows is not None else []
        return prints

    def _find_value(self, statement: Statement) -> Rows | None:
        """Return the last matrix of a chain that has a segment to itself."""
        return next(iter(self._list_prints(statement)), None)

    def _reject_unread_value(self, statement: Statement) -> None:
        """Reject 2 [matrix] as a value, rather than skip it; X [matrix] is a formula."""
        name = self._resolver.extract_name(statement.left)
        roles = self._resolver.roles
        for segment in statement.segments:
            text = segment.get_surrounding_text()
            is_formula = mentions_matrix(parse_formula(text[:400], roles))
            if len(segment.matrices) != 1 or not text or is_formula:
                continue
            if parse_numbers(segment.matrices[0], name):
                raise UserError(f"{name}: unexpected {safe_repr(text, 30)} beside the matrix")

    def _reject_bare_numbers(self, statement: Statement, index: int) -> None:
        """Reject `Q = 1 0; 0 2`, which would be skipped, since it has no brackets."""
        resolution = self._resolver.resolve(statement, index)
        if resolution is None:
            return
        for segment in statement.segments:
            line = segment.texts[0].strip().split("\n")[0]
            if _BARE_NUMBERS.fullmatch(to_plain_text(line)):
                name = self._resolver.extract_name(statement.left)
                raise UserError(
                    f"{name} = {safe_repr(line, 30)} is not a matrix: put it in brackets"
                )

    def _reject_several_names(self, statement: Statement) -> None:
        """Reject `Q, K = [matrix], [matrix]`: only one of the names would be read."""
        last_line = to_plain_text(statement.left.strip().split("\n")[-1])
        names_only = re.sub(r"\([^()]*\)", "", last_line)  # without Attention(Q, K, V)
        *others, name = (part.strip(" $&|") for part in names_only.split(","))
        names = [other for other in others if self._resolver.resolve_name(other) is not None]
        if names and len(name.split()) == 1:
            raise UserError(
                f"{names[-1]}, {name} = …: expected one name before each equals sign:"
                f" {names[-1]} = …, {name} = …"
            )

    def _merge_factors(self, statements: list[Statement]) -> list[Statement]:
        """Undo the split of Z = [matrix] V = [matrix] where V is a factor, not a new name."""
        if not self._resolver.is_attention or not any(s.follows_matrix for s in statements):
            return statements
        known = self._find_separate_values(statements)
        merged: list[Statement] = []
        for index, statement in enumerate(statements):
            if (
                statement.follows_matrix
                and merged
                and self._is_factor(merged[-1], statement, index, known)
            ):
                before = merged[-1].segments
                texts = [*before[-1].texts[:-1], f"{before[-1].texts[-1]} {statement.left}"]
                segments = [*before[:-1], replace(before[-1], texts=texts), *statement.segments]
                merged[-1] = replace(merged[-1], segments=segments)
            else:
                merged.append(statement)
        return merged

    def _find_separate_values(self, statements: list[Statement]) -> dict[str, Rows]:
        """Return the values of the statements that certainly are statements of their own."""
        known: dict[str, Rows] = {}
        for index, statement in enumerate(statements):
            is_followed = any(s.follows_matrix for s in statements[index + 1 : index + 2])
            if statement.follows_matrix or is_followed:
                continue
            resolution, value = (
                self._resolver.resolve(statement, index),
                self._find_value(statement),
            )
            if resolution is not None and value is not None:
                known.setdefault(resolution[0], _orient(value, resolution[1]))
        return known

    def _is_factor(
        self, before: Statement, statement: Statement, index: int, known: dict[str, Rows]
    ) -> bool:
        """Return True if the name after a matrix is a factor: V in Z = [matrix] V = [matrix].

        That is possible only if the name before is a product with it. Then the matrix decides: it
        is the other factor, or it is the value of the name before.
        """
        resolution = self._resolver.resolve(statement, index)
        left = self._resolver.resolve(before, index - 1)
        matrix = before.segments[-1].get_single_matrix()
        if resolution is None or left is None or matrix is None:
            return False
        product: tuple[str, ...] = _PRODUCTS.get(left[0], ())
        if resolution[0] not in {name.removesuffix("ᵀ") for name in product[1:]}:
            return False
        name = self._resolver.extract_name(before.left)
        own, value = parse_numbers(matrix, name), self._find_value(statement)
        if own is None or value is None:
            return False
        factor, other = known.get(product[0]), known.get(resolution[0])
        if other is None and resolution[0].startswith("W_"):
            return False  # a factor that no other statement defines
        is_other_factor, is_reprinted = factor == own, other == value
        if is_other_factor != is_reprinted:
            return is_other_factor
        if not is_other_factor and factor is not None and not is_reprint(factor, own):
            return False
        if factor is None and other is not None and not _have_same_shape(other, value):
            return True
        second = self._resolver.extract_name(statement.left)
        raise UserError(
            f"{name} = [matrix] {second} = [matrix]: {second} may be a factor or a new name: put a"
            " comma or a line break before a new name"
        )

    def _add_value(self, role: str, rows: Rows) -> None:
        self.values.setdefault(role, {}).setdefault(tuple(map(tuple, rows)), rows)

    def _add_reprint(self, role: str, rows: Rows) -> None:
        """Add a further print of a matrix if a few of its numbers differ from the first print."""
        first = next(iter(self.values[role].values()))
        if not is_reprint(first, rows) and is_reprint(first, transpose_rows(rows)):
            rows = transpose_rows(rows)
        if is_reprint(first, rows) and count_differences(first, rows):
            self._add_value(role, rows)

    def _read_products(
        self, named: list[_NamedStatement], column_vectors: bool, has_mask: bool
    ) -> None:
        """Read factors that have no value of their own: X and W_Q from [A][B]."""
        implied: dict[str, Rows] = {}
        reprints: list[tuple[str, Rows]] = []
        for item in named:
            default = _PRODUCTS.get(item.role, ())
            if item.role in PROJECTIONS and "context" in self.values:
                default = ()  # of X or of the context: only the text can decide
            default = default[::-1] if column_vectors else default
            product = self._products.get(item.role, default)
            for segment in item.statement.segments:
                parts = dict(zip(product, segment.get_factors(), strict=False))
                if len(parts) != len(product) or len(product) != len(segment.matrices):
                    is_mixture = item.role in ("weights", "mixed")
                    parts = self._parse_softmax(segment, has_mask) if is_mixture else {}
                reprints += self._align_with_formula(item, segment)
                reprints += self._find_mixed_values(item, segment)
                for name, matrix in parts.items():
                    if name.removesuffix("ᵀ") in self.values:
                        reprints += _parse_reprints([(name, matrix)])
                    else:
                        implied.update(_parse_part(name, matrix, implied))
        for role, rows in implied.items():
            self._add_value(role, rows)
        for role, rows in reprints:
            if role in self.values:
                self._add_reprint(role, rows)

    def _align_with_formula(
        self, item: _NamedStatement, segment: Segment
    ) -> Iterator[tuple[str, Rows]]:
        """Yield the matrices of a segment by the symbols of a formula with as many of them."""
        if len(segment.matrices) < 2:
            return
        roles = self._resolver.roles
        for formula in item.formulas:
            symbols = [symbol for symbol in formula if is_role(symbol)]
            for symbol in parse_formula(" ".join(segment.texts)[:300], roles):
                if symbol in symbols:  # not replaced by a matrix
                    symbols.remove(symbol)
            if len(symbols) == len(segment.matrices):
                yield from _parse_reprints(
                    zip(symbols, segment.get_transposed_matrices(), strict=True)
                )
                return

    def _find_mixed_values(
        self, item: _NamedStatement, segment: Segment
    ) -> Iterator[tuple[str, Rows]]:
        """Yield V from softmax([matrix]) [V]."""
        texts = [parse_formula(text[:300]) for text in segment.texts[-2:]]
        is_call = mentions_matrix(parse_formula(segment.texts[0][:300]))
        if item.role == "mixed" and is_call and texts == [[")"], []]:
            yield from _parse_reprints([("V", segment.get_transposed_matrices()[-1])])

    def _parse_softmax(self, segment: Segment, has_mask: bool) -> dict[str, str]:
        """Return the matrices of softmax([scores]) [V] or softmax([scores] + [mask]) [V]."""
        texts = [parse_formula(text[:300]) for text in segment.texts]
        if "softmax" not in texts[0] and "sigmoid" not in texts[0]:
            return {}
        if set(texts[0]) - {"softmax", "sigmoid", "("}:
            return {}
        if len(texts) > 1 and texts[1][:1] == [")"]:
            has_mask = has_mask or "mask" in self.values
            return {"masked" if has_mask else "scaled": segment.matrices[0]}
        if len(texts) > 2 and texts[1] == ["+"] and texts[2][:1] == [")"]:
            return {"scaled": segment.matrices[0], "mask": segment.matrices[1]}
        return {}

    def _assign_inputs(self) -> None:
        """Decide which of X and C provides the queries and which is the context."""
        values, queries = self.values, self._products.get("Q", ())
        keys_values = self._products.get("K", ()) + self._products.get("V", ())
        is_swapped = "context" in queries and "X" not in queries and "X" in keys_values
        if "context" in values and ("X" not in values or is_swapped):
            context = values.pop("context")
            if "X" in values:
                values["context"] = values.pop("X")
            values["X"] = context


def _orient(rows: Rows, is_transposed: bool) -> Rows:
    return transpose_rows(rows) if is_transposed else rows


def _have_same_shape(one: Rows, other: Rows) -> bool:
    return (len(one), len(one[0])) == (len(other), len(other[0]))


def _parse_part(name: str, matrix: str, known: Collection[str] = ()) -> dict[str, Rows]:
    """Return the role and rows of a matrix with numbers; Kᵀ is transposed back."""
    role = name.removesuffix("ᵀ")
    rows = None if role in known else parse_numbers(matrix, role)
    return {} if rows is None else {role: _orient(rows, name != role)}


def _parse_reprints(parts: Iterable[tuple[str, str]]) -> Iterator[tuple[str, Rows]]:
    """Yield the role and rows of matrices that may be reprints; others are skipped."""
    for name, matrix in parts:
        with suppress(UserError):  # only the first print must be readable
            yield from _parse_part(name, matrix).items()


def _is_softmax_of_scores(formula: list[str]) -> bool:
    """Return True for softmax(S), softmax(QK^T) and softmax(S + M), which do not divide."""
    inside = [s.removesuffix("ᵀ") for s in formula if s not in ("(", ")", "V", "+", "mask")]
    is_call = inside[:1] in (["softmax"], ["sigmoid"])
    return is_call and inside[1:] in (["scores"], ["Q", "K"], ["K", "Q"])
