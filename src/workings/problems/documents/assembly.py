"""Make the table of a problem from the entries of an example."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from workings.problems.documents.attention_names import PER_HEAD, AttentionNames
from workings.problems.documents.chains import Statement
from workings.problems.documents.entries import Entry
from workings.problems.documents.examples import Example
from workings.problems.documents.formulas import (
    PROJECTIONS,
    Divisor,
    find_divisor,
    infer_step,
    infer_vectors,
    parse_product,
)
from workings.problems.documents.matrices import Rows
from workings.problems.documents.prints import Prints, shape_of
from workings.problems.documents.words import (
    find_root_division,
    find_vectors,
    hides_later_tokens,
    says_causal,
    says_unscaled,
)
from workings.problems.numbers import read_number, transpose_rows
from workings.problems.problem import Problem
from workings.problems.reprints import count_differences, is_reprint

Versions: TypeAlias = list[Rows | None]  # the prints of a matrix; None first for a given
_STEPS = ("scores", "scaled", "masked", "exponentials", "sums", "weights", "mixed", "output")
_DIVIDED = re.compile(
    r"((?:scores?|dot products?|products|skalarprodukte|produits|productos|得分|点积)"
    r"[^.=\n]{0,40})?"
    r"(?:divid\w*|geteilt|teilen|teilt|divis\w*|/|÷|除以)[^.=\d]{0,20}?(√|sqrt)?\s*\(?\s*(\d+(?:[.,]\d+)?)",
    re.IGNORECASE,
)


@dataclass
class Assembly:
    """The table of a problem, how it was read, and what of the example it leaves out."""

    kind: str
    table: dict[str, Any] = field(default_factory=dict)
    reading: list[str] = field(default_factory=list)
    unjudged: dict[str, str] = field(default_factory=dict)
    unread: list[tuple[Statement, str]] = field(default_factory=list)
    used: list[Entry] = field(default_factory=list)
    givens: list[str] = field(default_factory=list)
    declared: set[str] = field(default_factory=set)  # settings that a formula states as default
    undeclared: set[str] = field(default_factory=set)  # settings that the numbers may overrule
    has_unknown_mask: bool = False
    adds_mask: bool = False  # a formula adds a mask
    possible_scale: float | None = None  # a number that the text divides something by
    has_plain_softmax: bool = False  # softmax(S) for scores that only a letter names
    lettered: set[str] = field(default_factory=set)  # steps that no formula names
    doubtful: dict[str, str] = field(default_factory=dict)  # steps after an unreadable matrix

    def build(self) -> Problem:
        """Return the problem."""
        problem = Problem(**self.table)
        problem.undeclared = (problem.undeclared - self.declared) | self.undeclared
        problem.has_unknown_mask = self.has_unknown_mask and "mask" in problem.undeclared
        problem.unjudged = dict(self.unjudged)
        return problem


class AttentionAssembler:
    """Makes the table of an attention problem; `text` is that of the sections of its example."""

    def __init__(
        self, example: Example, text: str, settings: Mapping[str, Any], stated: str = ""
    ) -> None:
        self._example, self._text, self._settings = example, text, settings
        self._stated = stated  # from its first number to its first weights
        assert example.names is not None
        self._names: AttentionNames = example.names
        first = Prints(example)
        source = first.first("X") or first.first("Q")
        self._vectors = self._find_vectors()
        self._columns = self._vectors == "columns"
        count = None
        if source is not None:
            is_by_token = first.is_by_token("X") or (
                first.first("X") is None and first.is_by_token("Q")
            )
            count = len(source) if is_by_token or not self._columns else len(source[0])
        self._num_tokens = count
        self._prints = Prints(example, count, self._columns)
        self._result = Assembly("attention")

    def _find_vectors(self) -> str | None:
        if "vectors" in self._settings:
            return str(self._settings["vectors"])
        products = [p for formula in self._formulas() if (p := parse_product(formula))]
        return infer_vectors(products) or find_vectors(self._text)

    def _formulas(self) -> list[list[str]]:
        statements = {id(e.statement): e.statement for e in self._example.entries}
        formulas: list[list[str]] = []
        for statement in (*statements.values(), *self._example.formulas):
            formulas += self._names.list_formulas(statement)
        return formulas

    def _orient(self, rows: Rows, is_by_token: bool) -> Rows:
        """Return a matrix in the convention of the problem; one row per token if stacked."""
        return transpose_rows(rows) if is_by_token and self._columns else rows

    def _get(self, role: str, part: int | None = None) -> Rows | None:
        rows = self._prints.first(role, part)
        return None if rows is None else self._orient(rows, self._prints.is_by_token(role, part))

    def assemble(self) -> Assembly:
        """Return the table and what it leaves out."""
        result, prints = self._result, self._prints
        given: dict[str, Rows] = {}
        heads = self._count_heads()
        for role in ("X", "context"):
            if (rows := self._get(role)) is not None:
                given[role] = rows
        for letter in ("W", "b"):
            for name in (*PROJECTIONS, "O"):
                role = f"{letter}_{name}"
                joined = self._join_heads(role, heads)
                if joined is not None:
                    given[role] = joined
        if "context" in given and ("X" not in given or self._is_swapped()):
            swapped = given.pop("context")
            if "X" in given:
                given["context"] = given.pop("X")
            given["X"] = swapped
        claims: dict[str, Versions] = {}
        self._drop_misfits(given)
        self._take_projections(given, claims, heads)
        for step in _STEPS:
            self._take_claims(claims, step, heads)
        self._take_reprints(given, claims, heads)
        self._start_from_scores(given, claims)
        table: dict[str, Any] = dict(self._settings)
        if self._vectors is None and prints.is_by_token("X"):
            self._vectors = "rows"
        if self._vectors is not None:
            table["vectors"] = self._vectors
            result.declared.add("vectors")
        if heads > 1:
            table["heads"] = heads
        self._read_conventions(table, claims, given, heads)
        table["given"] = given
        table["claim"] = nest_claims(claims)
        has_mask = "mask" in table and prints.first("mask") is not None
        result.table, result.givens = table, [*given, *(["mask"] if has_mask else [])]
        self._mark_unreadable(given)
        self._mark_unprinted_scores(given)
        return result

    def _drop_misfits(self, given: dict[str, Rows]) -> None:
        """Drop weights of an earlier example that do not fit the X of this one."""
        if "X" not in given:
            return
        width = shape_of(given["X"])[0 if self._columns else 1]
        for entry in self._example.inherited:
            role = entry.role
            own = [e for e in self._example.entries if e.key == entry.key]
            is_old = role in ("W_Q", "W_K", "W_V") and role in given and not own
            if is_old and shape_of(given[role])[1 if self._columns else 0] != width:
                given.pop(role)

    def _start_from_scores(self, given: dict[str, Rows], claims: dict[str, Versions]) -> None:
        """Give the scores of an example without queries and keys, if a step follows them."""
        name = next((name for name in ("scores", "scaled", "masked") if name in claims), None)
        scores = claims[name][0] if name is not None else None
        if {"X", "Q", "K"} & given.keys() or scores is None or len(claims) < 2:
            return
        if name is not None and not any("?" in row for row in scores):
            given["scores"] = scores
            del claims[name]

    def _take_reprints(
        self, given: dict[str, Rows], claims: dict[str, Versions], heads: int
    ) -> None:
        """Add the givens that a product prints again with a few other numbers."""
        for role in [name for name in given if heads == 1 and name not in claims]:
            others = self._list_prints(role, None, given[role])[1:]
            if others and role not in PROJECTIONS:
                claims[role] = [None, *others]

    def _is_swapped(self) -> bool:
        """Return True if the queries come from C and the keys and values from X."""
        sources: dict[bool, set[str]] = {True: set(), False: set()}
        for formula in self._formulas():
            product = set(parse_product(formula))
            for name in PROJECTIONS:
                if f"W_{name}" in product:
                    sources[name == "Q"] |= product & {"X", "context"}
        return sources[True] == {"context"} and "X" in sources[False]

    def _count_heads(self) -> int:
        if "heads" in self._settings:
            return int(self._settings["heads"])
        parts = {
            part
            for role, part in self._prints.by_key
            if part is not None and role in PER_HEAD | {"Q", "K", "V", "W_Q", "W_K", "W_V"}
        }
        is_run = parts and parts == set(range(1, len(parts) + 1))
        return len(parts) if is_run else 1

    def _join_heads(self, role: str, heads: int) -> Rows | None:
        """Return a matrix, that of all heads side by side (stacked, if vectors are columns)."""
        own = self._get(role)
        parts = [self._get(role, head) for head in range(1, heads + 1)]
        if own is not None or heads < 2 or role.endswith("_O"):
            return own if own is not None else parts[0] if heads == 1 and parts else None
        present = [part for part in parts if part is not None]
        if not present or len({shape_of(part) for part in present}) > 1:
            return None
        height, width = shape_of(present[0])
        blank = [["?"] * width for _ in range(height)]
        if len(present) < len(parts) and role[:2] in ("W_", "b_"):
            return None
        filled = [part if part is not None else blank for part in parts]
        if self._columns and role[:2] != "b_":
            return [row for part in filled for row in part]
        return [[cell for part in filled for cell in part[i]] for i in range(height)]

    def _take_projections(
        self, given: dict[str, Rows], claims: dict[str, Versions], heads: int
    ) -> None:
        """Add Q, K and V: as claims, as givens without X, or as printed if a weight is unknown."""
        result = self._result
        rounded = []
        for name in PROJECTIONS:
            printed = self._join_heads(name, heads)
            weight, bias = f"W_{name}", f"b_{name}"
            if "X" not in given:
                if printed is not None:
                    given[name] = printed
                    given.pop(weight, None)
                    given.pop(bias, None)
                continue
            source = given.get("context", given["X"]) if name != "Q" else given["X"]
            if weight in given or bias in given:
                if printed is not None and not self._fits(source, given.get(weight), printed):
                    is_foreign = self._is_foreign(source, printed)
                    given.pop(weight, None)
                    given.pop(bias, None)
                    given[name] = printed
                    rounded.append(name)
                    why = "its input is not known" if is_foreign else f"{weight} does not fit it"
                    result.unjudged[name] = why
                    continue
                if printed is not None:
                    claims[name] = self._list_prints(name, None, printed, heads)
                continue
            is_unknown = self._has_weight_symbol(name) or (weight, None) in self._prints.problems
            if printed is None:
                if is_unknown and not self._is_identity(name):
                    for step in (name, *(_STEPS if name != "V" else ("mixed", "output"))):
                        result.doubtful.setdefault(step, f"{weight} is not given")
                continue
            is_copy = _is_same(source, printed) or self._is_copy_with_slip(name, source, printed)
            if self._is_identity(name) or (is_copy and not is_unknown):
                claims[name] = self._list_prints(name, None, printed, heads)
            else:
                given[name] = printed
                rounded.append(name)
                problem = self._prints.problems.get((weight, None))
                why = f"could not be read: {problem.problem}" if problem else "is not given"
                result.unjudged[name] = f"{weight} {why}"
        if "X" in given and rounded:
            result.table["rounded"] = rounded
            self._settings = {**self._settings, "rounded": rounded}
        if "X" not in given:
            for role in [r for r in given if r[:2] in ("W_", "b_") and r[2:] in PROJECTIONS]:
                given.pop(role)

    def _is_copy_with_slip(self, name: str, source: Rows, printed: Rows) -> bool:
        """Return True if one of Q, K and V is almost its input, and the others are not printed."""
        others = [p for p in PROJECTIONS if p != name and self._prints.first(p) is not None]
        return not others and shape_of(source) == shape_of(printed) and is_reprint(source, printed)

    def _fits(self, source: Rows, weight: Rows | None, printed: Rows) -> bool:
        width = (len(weight) if self._columns else len(weight[0])) if weight else None
        tokens = len(source[0]) if self._columns else len(source)
        shape = (width, tokens) if self._columns else (tokens, width)
        return width is None or shape_of(printed) == shape

    def _is_foreign(self, source: Rows, printed: Rows) -> bool:
        axis = 1 if self._columns else 0
        return shape_of(printed)[axis] != shape_of(source)[axis]

    def _has_weight_symbol(self, name: str) -> bool:
        """Return True if a formula of the example multiplies by a weight that has no numbers."""
        return any(f"W_{name}" in formula and len(formula) > 1 for formula in self._formulas())

    def _is_identity(self, name: str) -> bool:
        return f"W_{name}" in self._example.identities

    def _list_prints(self, role: str, part: int | None, first: Rows, heads: int = 1) -> Versions:
        """Return the first print and the reprints in which a few numbers differ."""
        prints: Versions = [first]
        if heads > 1 and part is None and role in PROJECTIONS:
            return prints
        for rows, entry, is_by_token in self._prints.by_key.get((role, part), []):
            rows = self._orient(rows, is_by_token)
            if shape_of(rows) != shape_of(first):
                if shape_of(rows) != shape_of(first)[::-1] or not entry.is_factor:
                    continue
                rows = transpose_rows(rows)
            is_known = any(other is not None and _is_same(rows, other) for other in prints)
            is_other = is_reprint(first, rows) and count_differences(first, rows) > 0
            if not is_known and is_other:
                prints.append(rows)
        return prints

    def _take_claims(self, claims: dict[str, Versions], step: str, heads: int) -> None:
        for part in (None, *range(1, heads + 1)):
            rows = self._get(step, part)
            if rows and step == "sums" and len(rows) == 1 < len(rows[0]) and not self._columns:
                rows = transpose_rows(rows)  # as NumPy prints a vector
            if rows is None and step == "scaled":
                rows = self._get_softmax_input(part)
            if rows is None:
                continue
            path = step if part is None or heads < 2 else f"head.{part}.{step}"
            if heads > 1 and part is None and step in PER_HEAD - {"mixed"}:
                continue
            own_part = None if heads < 2 and part is None else part
            claims.setdefault(path, self._list_prints(step, own_part, rows))

    def _get_softmax_input(self, part: int | None) -> Rows | None:
        """Return what stands in softmax([…]), if no scores are printed for it to repeat."""
        rows = self._prints.first("softmax-input", part)
        if rows is None or self._prints.first("masked", part) is not None:
            return None
        oriented = self._orient(rows, self._prints.is_by_token("softmax-input", part))
        scores = self._get("scores", part)
        return None if scores is not None and _is_same(scores, oriented) else oriented

    def _read_conventions(
        self,
        table: dict[str, Any],
        claims: dict[str, Versions],
        given: dict[str, Rows],
        heads: int,
    ) -> None:
        """Add scale, mask and normalizer as formulas and words state them."""
        result, formulas, text = self._result, self._formulas(), self._text
        steps = [(infer_step(formula), formula) for formula in formulas]
        divisors = [
            divisor
            for step, formula in steps
            if step in ("scaled", "masked", "weights", "mixed", "output")
            and (divisor := find_divisor(formula)) is not None
        ]
        divisors = list(map(self._resolve, divisors))
        k_width = self._find_key_width(given, heads)
        is_defined = any(
            e.role == "scores" and e.evidence == "formula" for e in self._example.entries
        )
        unscaled_formula = any(_is_softmax_of_scores(f, is_defined) for f in formulas)
        root = find_root_division(self._stated)
        if "scale" not in table:
            if divisors and all(divisor == divisors[0] for divisor in divisors):
                self._declare_divisor(table, divisors[0], k_width)
            elif root and not divisors and not says_unscaled(text):
                number = float(root) if root.isdigit() else None
                self._declare_divisor(table, Divisor(True, number is None, number), k_width)
            elif (says_unscaled(text) and not divisors and not root) or (
                unscaled_formula
                and not divisors
                and not any("scaled" in c for c in claims)
                and not ((match := _DIVIDED.search(text)) and match[1])
            ):
                table["scale"] = "none"
            elif (match := _DIVIDED.search(text)) and not divisors:
                number = float(match[3].replace(",", "."))
                divisor = Divisor(bool(match[2]), False, number)
                if divisor.is_default(k_width or 0) or divisor.is_root or match[1]:
                    self._declare_divisor(table, divisor, k_width)
                elif divisor.value:
                    result.possible_scale = divisor.value
        if table.get("scale") == "none" and "scaled" in claims:
            scaled = claims.pop("scaled")
            claims.setdefault("scores", scaled)
        normalizers = {s for f in formulas for s in f if s in ("softmax", "sigmoid")}
        if normalizers == {"softmax"} or (
            "softmax" in text.lower() and "sigmoid" not in text.lower()
        ):
            result.declared.add("normalizer")
        elif normalizers == {"sigmoid"} and "normalizer" not in table:
            table["normalizer"] = "sigmoid"  # unless the numbers are those of a softmax
            result.undeclared.add("normalizer")
        mask = self._prints.first("mask")
        if "mask" not in table:
            if mask is not None:
                table["mask"] = to_binary_mask(mask, self._columns)
            elif visible := self._find_shown_mask(claims):
                table["mask"] = visible
            elif hides_later_tokens(self._stated):
                table["mask"] = "causal"
        result.has_plain_softmax = any(_is_softmax_of_scores(f, True) for f in formulas)
        by_formula = {e.role for e in self._example.entries if e.evidence == "formula"}
        result.lettered = {e.role for e in self._example.entries} - by_formula
        result.adds_mask = any("mask" in formula for formula in formulas)
        result.has_unknown_mask = result.adds_mask or says_causal(text)

    def _resolve(self, divisor: Divisor) -> Divisor:
        """Return a divisor with the number that the text gives its name: T = 0.5."""
        if not divisor.name or divisor.is_root:
            return divisor
        stated = re.search(rf"\b{re.escape(divisor.name)}\s*=\s*(\d+(?:[.,]\d+)?)", self._text)
        if stated is None:
            for step in _STEPS[1:]:
                self._result.doubtful.setdefault(step, f"nothing says what {divisor.name} is")
            return divisor
        return replace(divisor, number=float(stated[1].replace(",", ".")))

    def _declare_divisor(self, table: dict[str, Any], divisor: Divisor, width: int | None) -> None:
        if (width is not None and divisor.is_default(width)) or (
            divisor.is_root and divisor.is_d_k
        ):
            self._result.declared.add("scale")
        elif divisor.value:
            table["scale"] = divisor.value

    def _find_key_width(self, given: dict[str, Rows], heads: int) -> int | None:
        for name, axis in (("W_Q", 1), ("Q", 1), ("W_K", 1), ("K", 1), ("X", 1)):
            if name in given:
                side = shape_of(given[name])[1 - axis if self._columns else axis]
                return side // heads
        return None

    def _find_shown_mask(self, claims: dict[str, Versions]) -> Any:
        """Return the mask that printed −∞ show."""
        for key, prints in claims.items():
            name = key.rpartition(".")[2]
            if name in ("masked", "scaled", "scores") and prints[0] and _has_infinity(prints[0]):
                if name != "masked":
                    claims[key.replace(name, "masked")] = claims.pop(key)
                rows = [["0" if _is_minus_infinity(c) else "1" for c in row] for row in prints[0]]
                n, m = shape_of(rows)
                causal = [["1" if j - i <= m - n else "0" for j in range(m)] for i in range(n)]
                if self._columns:
                    causal = transpose_rows(
                        [["1" if j - i <= n - m else "0" for j in range(n)] for i in range(m)]
                    )
                return "causal" if rows == causal else rows
        return None

    def _mark_unreadable(self, given: dict[str, Rows]) -> None:
        """Note the steps that depend on a definition or print that could not be read."""
        order = ["Q", "K", "V", *_STEPS]
        for (role, part), entry in self._prints.problems.items():
            is_read = self._prints.first(role, part) is not None
            if is_read or (entry in self._example.inherited and role not in given):
                continue
            why = f"{role} could not be read ({_describe_place(entry)})"
            if role in ("X", "context"):
                after = order if role not in given else []
            elif role[:2] in ("W_", "b_"):
                after = {
                    "Q": ["scores"],
                    "K": ["scores"],
                    "V": ["mixed", "output"],
                    "O": ["output"],
                }[role[2:]]
                is_printed = role[2:] in given or role[2:] in self._result.unjudged
                after = (
                    []
                    if is_printed
                    else order[order.index(after[0]) :]
                    if after[0] == "scores"
                    else after
                )
            elif role in order:
                after = order[order.index(role) + 1 :]
                after = [s for s in after if not (role == "V" and s in _STEPS[:6])]
                after = [s for s in after if not (role in ("Q", "K") and s == "V")]
                after = [s for s in after if not (role == "Q" and s == "K")]
            else:
                after = []
            for step in after:
                self._result.doubtful.setdefault(step, why)

    def _mark_unprinted_scores(self, given: dict[str, Rows]) -> None:
        """Doubt what follows softmax(S) if neither S nor what it is made of has numbers."""
        sources = {"Q", "K", "W_Q", "W_K"}
        if sources & (given.keys() | self._example.identities) or any(
            self._prints.first(role) is not None for role in sources
        ):
            return
        for entry in self._example.claims:
            if entry.role != "weights" or entry.evidence != "formula":
                continue
            if name := self._names.find_unprinted_scores(entry.statement):
                for step in _STEPS:
                    self._result.doubtful.setdefault(step, f"{name} is not printed")


def _describe_place(entry: Entry) -> str:
    place = entry.statement.place
    return f"line {place}" if isinstance(place, int) else str(place)


def _is_softmax_of_scores(formula: list[str], is_defined: bool) -> bool:
    """Return True for softmax(QK^T), and softmax(S) where S is defined as QK^T: no division."""
    inside = [s.removesuffix("ᵀ") for s in formula if s not in ("(", ")", "V", "+", "mask")]
    is_call = inside[:1] in (["softmax"], ["sigmoid"])
    return is_call and (
        inside[1:] in (["Q", "K"], ["K", "Q"]) or (is_defined and inside[1:] == ["scores"])
    )


def _has_infinity(rows: Rows) -> bool:
    return any(_is_minus_infinity(cell) for row in rows for cell in row)


def _is_minus_infinity(cell: str) -> bool:
    return cell.lower() in ("-inf", "-∞", "−∞") or (cell.startswith("-1e") and len(cell) > 4)


def _is_same(one: Rows, other: Rows) -> bool:
    return shape_of(one) == shape_of(other) and count_differences(one, other) == 0


def to_binary_mask(rows: Rows, columns: bool = False) -> Rows | str:
    """Return a mask of 0 and −∞ as one of 1 and 0; "causal" if it hides what comes later.

    `columns`: its columns are the queries.
    """
    values = [[_value(cell) for cell in row] for row in rows]
    is_binary = all(v in (0, 1) for row in values for v in row) and any(1 in row for row in values)
    if is_binary:
        mask = [["1" if v == 1 else "0" for v in row] for row in values]
    else:
        mask = [["1" if v == 0 else "0" for v in row] for row in values]
    size = range(len(mask))
    causal = [["1" if (j <= i) != (columns and i != j) else "0" for j in size] for i in size]
    if is_binary and [["0" if c == "1" else "1" for c in row] for row in mask] == causal:
        return "causal"  # ones where it hides
    return "causal" if mask == causal else mask


def _value(cell: str) -> float:
    number = read_number(cell, "mask")
    return math.nan if number is None else number.value


def nest_claims(claims: Mapping[str, Versions]) -> dict[str, Any]:
    """Return the claims as nested tables, reprints under `again`; None: a given, not claimed."""
    from workings.problems.problem_file import set_nested

    tables: list[dict[str, Any]] = [{}]
    for path, prints in claims.items():
        for reprint, rows in enumerate(prints):
            if reprint == len(tables):
                tables.append({})
            if rows is not None:
                set_nested(tables[reprint], path.split("."), rows)
    first, *others = tables
    return {**first, "again": others} if others else first
