"""Name the matrices of attention: by formula, then by caption, then by letter.

A letter means different steps in different books, so what a document computes with it decides:
after `A = K^T Q` and `A' = softmax(A)`, A is the scores and A' the weights.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from workings.problems.documents.chains import Statement, read_literal
from workings.problems.documents.dot_products import read_dot_product
from workings.problems.documents.entries import (
    Entry,
    get_numbers,
    get_symbol,
    is_scalar,
    is_vector,
    to_row,
)
from workings.problems.documents.forms import (
    DIVISOR_TEXTS,
    calls_unknown,
    find_divided,
    find_projection,
    find_summands,
    has_infinity,
    is_check,
    is_exponential,
    is_mask,
    is_plausible,
    is_weighted_sum,
    list_projected,
    list_uses,
)
from workings.problems.documents.formulas import (
    ATTENTION_ROLES,
    D_K_NAMES,
    NORMALIZERS,
    PROJECTIONS,
    infer_step,
    infer_vectors,
    normalize_name,
    parse_formula,
    parse_product,
)
from workings.problems.documents.matrices import Rows
from workings.problems.documents.sources import Grid
from workings.problems.documents.sources.plain import to_plain
from workings.problems.documents.symbols import Element, Symbol, Token, parse_symbol
from workings.problems.documents.words import find_adjective, find_caption_role, find_head
from workings.problems.numbers import read_number, transpose_rows

PER_HEAD = frozenset({"scores", "scaled", "masked", "exponentials", "sums", "weights", "mixed"})
_CERTAIN = frozenset({"Q", "K", "V", "W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O"})
_CERTAIN_WORDS = frozenset({"scores", "weights", "mixed", "output", "masked", "scaled", "mask"})
FACTORS = {
    "Q": ("X", "W_Q"),
    "K": ("X", "W_K"),
    "V": ("X", "W_V"),
    "scores": ("Q", "Kᵀ"),
    "mixed": ("weights", "V"),
    "output": ("mixed", "W_O"),
}
_CONCATENATIONS = frozenset({"concat", "concatenate", "cat", "hstack"})


def format_canonical(element: Sequence[Token]) -> str:
    """Return the text of an element without the indices of its symbols and without matrices."""
    pieces = []
    for token in element:
        if token.kind == "grid":
            continue
        if token.symbol is not None and token.kind in ("sym", "func"):
            name = token.symbol.name
            pieces.append(name + ("^T" if token.symbol.transposed else ""))
        else:
            pieces.append(token.text)
    return " ".join(pieces)


def _remove_accents(text: str) -> str:
    return re.sub(r"[\u0300-\u036f]", "", text)


class AttentionNames:
    """Names the statements of a document that are about attention."""

    def __init__(
        self, statements: Sequence[Statement], grids: Sequence[Grid], headings: Sequence[str]
    ) -> None:
        self._grids, self._headings, self._statements = grids, headings, statements
        self._history: dict[str, list[tuple[int, str]]] = {}
        self._indices = {id(statement): index for index, statement in enumerate(statements)}
        self._has_output_weight = any(
            token.symbol is not None and normalize_name(token.symbol.name) in ("WO", "Wo", "W0")
            for statement in statements
            for element in statement.elements
            for token in element
        )
        own = {s.name for st in statements if (s := get_symbol(st)) is not None and st.value}
        self._is_plain = not own & {"W_Q", "W_K", "W_q", "W_k", "Q", "K"}  # scores are X Xᵀ
        self._summands = find_summands(statements)
        self._announced: tuple[str, int, int] | None = None  # step, section and head
        self._mixed_letters = self._find_mixed_letters(statements)
        self._learn(statements)
        self.vectors = self._find_vectors(statements)

    def _find_vectors(self, statements: Sequence[Statement]) -> str | None:
        formulas = (formula for s in statements for formula in self.list_formulas(s))
        return infer_vectors(product for f in formulas if (product := parse_product(f)))

    def _learn(self, statements: Sequence[Statement]) -> None:
        """Read which step each letter is from the formulas that define or use it."""
        formulas = [f for s in statements for f in self.list_formulas(s)]
        projected = {name for formula in formulas for name, _ in list_projected(formula)}
        for _ in range(2):  # the second time with letters that are defined after their first use
            roles = {name: history[0][1] for name, history in self._history.items()}
            self._history = {}
            for index, statement in enumerate(statements):
                symbol = get_symbol(statement)
                if symbol is None:
                    continue
                name = normalize_name(symbol.name)
                if not self._is_open(name):
                    continue
                step = self._infer(statement, roles)
                shows_mask = ATTENTION_ROLES.get(name.lower()) == "mask" and is_mask(statement)
                is_source = name in projected  # H = …, and later K = H W_K
                has_caption = statement.value is not None and statement.label and not is_source
                if step is None and has_caption and not shows_mask:
                    caption = find_caption_role(statement.label)
                    step = self._adapt(caption) if caption in PER_HEAD | {"output"} else None
                if step is not None:
                    self._history.setdefault(name, []).append((index, step))
                    roles[name] = step
        self._learn_uses(statements)

    def _is_open(self, name: str) -> bool:
        """Return True if a formula may decide what a name is."""
        role = ATTENTION_ROLES.get(name.lower())
        is_certain = name in _CERTAIN_WORDS and name != "scores"  # scores = Q @ K.T / sqrt(d)
        is_width = name.lower() in D_K_NAMES
        return role not in _CERTAIN and not is_certain and role != "X" and not is_width

    def _learn_uses(self, statements: Sequence[Statement]) -> None:
        """Learn letters without a formula of their own: H in Q = H W_Q, P in softmax(P)."""
        roles = {name: history[0][1] for name, history in self._history.items()}
        used: dict[str, str] = {}
        of_queries, of_keys = set[str](), set[str]()
        names = {normalize_name(s.name) for st in statements if (s := get_symbol(st)) is not None}
        for statement in statements:
            for element in statement.elements:
                if any(token.kind == "grid" for token in element):
                    continue
                marked = {n: f"?{n}" for n in names if n not in roles and self._is_open(n)}
                formula = parse_formula(format_canonical(element)[:400], roles | marked)
                for name, role in list_uses(formula):
                    used.setdefault(name, role)
                for name, weight in list_projected(formula):
                    (of_queries if weight == "W_Q" else of_keys).add(name)
        if of_queries:  # Q = Y W_Q, K = H W_K
            others = {n for n in of_keys - of_queries if ATTENTION_ROLES.get(n.lower()) != "X"}
            used |= dict.fromkeys(others, "context")
        for name, role in used.items():
            usual = ATTENTION_ROLES.get(name.lower())
            is_known = usual in (role, "context") or (usual == "scores" and role == "scaled")
            if name not in self._history and not is_known:
                self._history[name] = [(-1, role)]

    def get_roles(self, index: int) -> dict[str, str]:
        """Return the step that each letter is at a statement."""
        roles = {}
        for name, history in self._history.items():
            role = next((role for k, role in reversed(history) if k <= index), history[0][1])
            roles[name] = role
        return roles

    def list_formulas(self, statement: Statement) -> list[list[str]]:
        """Return the formulas of a statement in symbols."""
        roles = self.get_roles(self._indices.get(id(statement), 0))
        return [
            parse_formula(format_canonical(element)[:400], roles)
            for element in statement.elements
            if len(element) > 1
            and any(token.kind in ("sym", "func") for token in element)
            and not any(token.text.startswith("e^") for token in element)
        ]

    def find_unprinted_scores(self, statement: Statement) -> str:
        """Return the name of scores inside a softmax that have no numbers; "" if there is none.

        Scores that a formula makes of X, which has numbers, are known.
        """
        defined = set()
        for other in self._statements:
            symbol = get_symbol(other)
            if symbol is not None and (
                other.value is not None
                or other.problem
                or any("X" in formula for formula in self.list_formulas(other))
            ):
                defined.add(normalize_name(symbol.name))
        roles = self.get_roles(self._indices.get(id(statement), 0))
        for element in statement.elements[1:]:
            if not any(t.kind == "func" and t.text.lower() in NORMALIZERS for t in element):
                continue
            for token in element:
                if token.kind != "sym" or token.symbol is None:
                    continue
                name = normalize_name(token.symbol.name)
                role = roles.get(name) or ATTENTION_ROLES.get(name.lower())
                if role in ("scores", "scaled", "masked") and name not in defined:
                    return token.text
        return ""

    def _infer(self, statement: Statement, roles: dict[str, str]) -> str | None:
        """Return the step that the formulas of a statement compute."""
        with_grids: list[Element] = []
        for element in statement.elements:
            if any(token.kind == "grid" for token in element):
                with_grids.append(element)
                continue
            step = self._infer_element(element, roles)
            if step is not None:
                return step
        for element in with_grids:
            if len(element) > 1 and (step := self._infer_element(element, roles)) is not None:
                return step
        return None

    def _infer_element(self, element: Element, roles: dict[str, str]) -> str | None:
        functions = {token.text.lower() for token in element if token.kind == "func"}
        if (projection := find_projection(element)) is not None:
            return projection
        if calls_unknown(element):
            return None
        is_single = len([t for t in element if t.kind in ("sym", "func", "num")]) < 2
        if is_single and not functions & NORMALIZERS:
            return None
        text = format_canonical(element)[:400]
        if re.search(r"\be\^", " ".join(token.text for token in element)) and "/" in text:
            return "weights"  # e^2 / (e^2 + e^4)
        formula = parse_formula(text, roles)
        if functions & _CONCATENATIONS and "W_O" not in formula:
            return "mixed"
        if functions & {"attention", "selfattention"} and "W_O" not in formula:
            return "mixed"
        if functions & {"multihead", "mha"}:
            return self._adapt("output")
        if "exp" in functions and not functions & NORMALIZERS:
            return "weights" if "/" in formula else None
        is_added = "mask" in formula and ("+" in formula or "where" in functions)
        if is_added and not functions & NORMALIZERS:
            return "masked"
        if self._is_plain and "X" in formula[: len(formula) - 1] and "Xᵀ" in formula:
            formula = [{"X": "Q", "Xᵀ": "Kᵀ"}.get(symbol, symbol) for symbol in formula]
        return infer_step(formula)

    def resolve(self, statement: Statement) -> list[Entry]:
        """Return what a statement says; [] if it names no matrix of attention."""
        index = self._indices.get(id(statement), 0)
        if dot_product := read_dot_product(statement, self._statements[:index]):
            return dot_product
        entries = list(self._read_parts(index, statement))
        if statement.value is None and not statement.problem:
            self._announce(index, statement)
            named = self._name(index, statement) if self._find_product(statement) else None
            return [*entries, *(self._read_factors(named[0], statement) if named else ())]
        if is_exponential(statement):
            return [*entries, Entry("exponentials", statement.value, statement, "formula")]
        named = self._name(index, statement)
        if named is None:
            return entries
        role, evidence = named
        is_bare = len([element for element in statement.elements if element]) == 1
        is_number = is_scalar(statement.value) and statement.value_grid < 0
        if is_number and is_bare and role != "sums":
            return entries
        if role in ("scores", "scaled") and statement.value and has_infinity(statement.value):
            role = "masked"
        if not is_plausible(role, statement) or (role == "sums" and is_check(statement)):
            return entries
        entries += self._read_factors(role, statement)
        entry = self._make_entry(role, evidence, statement)
        if is_number and entry.column is None and role != "sums" and role[:2] not in ("W_", "b_"):
            if role == "scores" and self._is_wrong_dot_product(statement):
                why = "it is not the product of its vectors, and nothing says which score it is"
                entries.append(replace(entry, rows=None, problem=why))
            return entries
        entries.append(entry)
        entries += [replace(entry, rows=rows, is_factor=True) for rows in statement.reprints]
        entries += self._list_copies(role, statement)
        return entries

    def _announce(self, index: int, statement: Statement) -> None:
        """Keep the head of a formula without numbers: A_1 = softmax(S_1), then its rows."""
        step = self._infer(statement, self.get_roles(index))
        part = self._find_index(step, statement)[0] if step in PER_HEAD else None
        self._announced = (step, statement.section, part) if step and part else None

    def _read_factors(self, role: str, statement: Statement) -> Iterator[Entry]:
        """Yield the two matrices of a printed product: X and W_Q before Q, q_1 of W_Q x_1."""
        names, product = FACTORS.get(role), self._find_product(statement)
        if role == "scaled":
            for token in map(find_divided, statement.elements):
                rows = self._read(token) if token is not None else None
                if rows is not None:
                    part, row, _ = self._find_index(role, statement)
                    yield Entry("scores", rows, statement, "formula", part, row, is_factor=True)
        if names is None or product is None:
            return
        products = [p for f in self.list_formulas(statement) if (p := parse_product(f))]
        own = infer_vectors(products)
        is_column = (own or self.vectors) == "columns"
        if role in PROJECTIONS and any("context" in p for p in products):
            names = ("context", names[1])  # K = C W_K
        part, row, column = self._find_index(role, statement)
        if role == "scores" and column is None and is_scalar(statement.value):
            return  # a dot product of two vectors that nothing numbers
        if role == "scores" and column is not None:
            for name, rows, index in zip("QK", product, (row, column), strict=True):
                if rows and is_vector(rows):
                    yield Entry(name, rows, statement, "formula", None, index, is_factor=True)
            return
        if row is not None and product[1] and len(product[1][0]) == 1:
            is_column = True  # q_1 = [W_Q] [x_1], a column
        for name, rows in zip(names, product[::-1] if is_column else product, strict=True):
            bare = name.removesuffix("ᵀ")
            rows = transpose_rows(rows) if name != bare and rows else rows
            is_shared = bare in ("X", "context", "W_O") or (bare == "mixed" and role == "output")
            yield Entry(
                bare,
                rows or None,
                statement,
                "formula",
                None if is_shared else part,
                row if bare in ("X", "context", "weights", "mixed") else None,
                is_factor=True,
                problem="" if rows else "a matrix of its product is not readable",
            )

    def is_summand(self, statement: Statement) -> bool:
        """Return True for a matrix that X is a sum of: embeddings, position codes."""
        symbol = get_symbol(statement)
        return symbol is not None and symbol.name in self._summands

    def _name(self, index: int, statement: Statement) -> tuple[str, str] | None:
        """Return the role of the value of a statement and what shows it."""
        symbol = get_symbol(statement)
        if self.is_summand(statement):
            return None
        name = normalize_name(symbol.name) if symbol is not None else ""
        usual = ATTENTION_ROLES.get(name.lower()) or self._guess(symbol, statement)
        usual = "mixed" if name in self._mixed_letters else usual
        usual = "masked" if self._is_marked_copy(symbol, statement) else usual
        if is_scalar(statement.value) and self._has_dot_product(statement):
            return "scores", "formula"
        if any(map(is_weighted_sum, statement.elements)) and is_vector(statement.value):
            return "mixed", "formula"
        if name.lower() in _CERTAIN_WORDS and statement.label:
            role = find_caption_role(f"{statement.label} {name}")
            if role in ("scaled", "masked", "weights", "mixed"):  # softmax of the masked scores
                return role, "caption"
        if name == "scores" and self.get_roles(index).get(name) in ("scaled", "masked"):
            return self.get_roles(index)[name], "formula"
        if usual in _CERTAIN or name in _CERTAIN_WORDS:
            return str(usual), "letter"
        step = self._infer(statement, self.get_roles(index))
        if step == "scores" and not name and (role := find_adjective(statement.label)):
            return role, "caption"
        if step is not None:
            return step, "formula"
        if name and name in self._history:
            return self.get_roles(index)[name], "formula"
        if usual == "mask" and name not in ("mask",) and not is_mask(statement):
            usual = None
        caption = find_caption_role(statement.label) if statement.label else None
        if symbol is None or (usual is None and len(symbol.base) > 1):
            own = find_caption_role(symbol.base) if symbol is not None else None
            caption = own or caption
            if symbol is None and caption is None and (role := self._find_labeled(statement)):
                return role, "letter"
            if caption is None or (symbol is None and not self._is_captioned(statement)):
                return None
            return self._adapt(caption), "caption"
        if usual == "mask" and is_mask(statement):
            return "mask", "letter"
        if usual in PER_HEAD | {"output"} and caption in PER_HEAD | {"output", "masked"}:
            return self._adapt(str(caption)), "caption"
        if usual is not None:
            return self._adapt(usual), "letter"
        return (self._adapt(caption), "caption") if caption in PER_HEAD | {"output"} else None

    def _find_labeled(self, statement: Statement) -> str | None:
        """Return the step whose letter with an index is above each column of a table."""
        grid = self._grids[statement.value_grid] if statement.value_grid >= 0 else None
        bases = (
            {parse_symbol(to_plain(label).strip("\v ")).base for label in grid.column_labels}
            if (grid is not None and len(grid.column_labels) > 1)
            else set()
        )
        usual = ATTENTION_ROLES.get(bases.pop().lower()) if len(bases) == 1 else None
        is_step = usual in PER_HEAD or usual == "K"
        return ("scores" if usual == "K" else usual) if is_step else None

    def _guess(self, symbol: Symbol | None, statement: Statement) -> str | None:
        """Return scaled or masked for the letter of the scores with a mark: E_s, S', L''."""
        base = _remove_accents(symbol.base) if symbol is not None else ""
        is_marked = symbol is not None and (symbol.marks or base != symbol.base)
        if not is_marked or statement.value is None:
            return None
        if ATTENTION_ROLES.get(base.lower()) != "scores" or len(base) > 1:
            return None
        return "masked" if has_infinity(statement.value) else "scaled"

    def _is_marked_copy(self, symbol: Symbol | None, statement: Statement) -> bool:
        """Return True for a marked letter of the scores with the numbers of another: S' and S''.

        Scaled scores are other numbers; these are not masked where they should be.
        """
        base = _remove_accents(symbol.base) if symbol is not None else ""
        is_scores = len(base) == 1 and ATTENTION_ROLES.get(base.lower()) == "scores"
        if symbol is None or not is_scores or not (symbol.marks or base != symbol.base):
            return False
        before = self._statements[: self._indices.get(id(statement), 0)]
        return statement.value_grid >= 0 and any(
            other.value == statement.value
            and (first := get_symbol(other)) is not None
            and (_remove_accents(first.base), first.index) == (base, symbol.index)
            and first.text != symbol.text
            for other in before
        )

    def _find_mixed_letters(self, statements: Sequence[Statement]) -> set[str]:
        """Return the letters of weights times values: O before Y, H after the weights."""
        names = [
            normalize_name(symbol.name)
            for statement in statements
            if (symbol := get_symbol(statement)) is not None and statement.value_grid >= 0
        ]
        first = {name: names.index(name) for name in names}
        letters = set()
        if self._has_output_weight and first.get("O", len(names)) < first.get("Y", -1):
            letters.add("O")
        weights = [k for name, k in first.items() if ATTENTION_ROLES.get(name.lower()) == "weights"]
        if weights and first.get("H", -1) > min(weights):
            letters.add("H")
        return letters

    def _has_dot_product(self, statement: Statement) -> bool:
        """Return True for α_12 = [q_1] · [k_2] = 9."""
        product = self._find_product(statement)
        return product is not None and all(rows and is_vector(rows) for rows in product)

    def _is_wrong_dot_product(self, statement: Statement) -> bool:
        """Return True if a number differs from the product of the two vectors before it."""
        product, value = self._find_product(statement), statement.value
        if product is None or value is None or not all(is_vector(rows) for rows in product):
            return False
        numbers = [[read_number(cell, "") for cell in to_row(rows)] for rows in (*product, value)]
        if len(numbers[0]) != len(numbers[1]) or any(n is None for row in numbers for n in row):
            return False
        first, second, (claimed,) = ([n.value for n in row if n] for row in numbers)
        unit = 10.0 ** -(numbers[2][0].places or 0) if numbers[2][0] else 0.0
        width = sum(map(abs, first)) + sum(map(abs, second))  # of the rounded factors
        exact = sum(a * b for a, b in zip(first, second, strict=True))
        is_whole = all(n is not None and n.is_integer for row in numbers for n in row)
        return abs(exact - claimed) > (1e-9 if is_whole else unit + 0.01 * width)

    def _adapt(self, role: str) -> str:
        """Return mixed for an output without an output projection."""
        return "mixed" if role == "output" and not self._has_output_weight else role

    def _is_captioned(self, statement: Statement) -> bool:
        """Return True if a matrix without a symbol is named by the words before it."""
        is_bare = [e for e in statement.elements if e]
        return len(is_bare) == 1 and len(statement.label) < 120

    def _make_entry(self, role: str, evidence: str, statement: Statement) -> Entry:
        rows, symbol = statement.value, get_symbol(statement)
        if symbol is not None and symbol.transposed and rows is not None and role != "scores":
            rows = transpose_rows(rows)
        part, row, column = self._find_index(role, statement)
        return Entry(role, rows, statement, evidence, part, row, column, False, statement.problem)

    def _find_product(self, statement: Statement) -> tuple[Rows, Rows] | None:
        """Return the two matrices of an element that is their product."""
        for element in statement.elements:
            tokens = [t for t in element if not (t.kind == "op" and t.text in "×·*@")]
            if len(tokens) == 2 and all(token.kind == "grid" for token in tokens):
                first, second = (self._read(token) for token in tokens)
                if first or second:
                    return first or [], second or []  # one that is not readable is empty
        return None

    def _find_index(
        self, role: str, statement: Statement
    ) -> tuple[int | None, int | None, int | None]:
        """Return head, row and column (from 0) that the indices of a statement name."""
        symbols = [
            token.symbol
            for element in statement.elements
            for token in element
            if token.kind in ("sym", "func") and token.symbol is not None
        ]
        own = get_symbol(statement)
        numbers = get_numbers(own) if own is not None else ()
        rows = statement.value
        if own is None and is_scalar(rows) and statement.value_grid < 0:
            first = statement.elements[0] if statement.elements else ()
            vectors = [get_numbers(t.symbol) for t in first if t.kind == "sym" and t.symbol]
            vectors = [v for v in vectors if v]
            if len(vectors) == 2:
                return None, vectors[0][0] - 1, vectors[1][0] - 1
            return None, None, None
        if own is None:
            left = statement.elements[0] if statement.elements else ()
            indices = [get_numbers(t.symbol) for t in left if t.kind == "sym" and t.symbol]
            single = {index[0] for index in indices if len(index) == 1}
            numbers = (single.pop(),) if len(single) == 1 else ()
            is_lower = any(s.base[:1].islower() and get_numbers(s) for s in symbols)
        else:
            is_lower = own.base[:1].islower() and own.base not in ("head",)
        is_written = statement.value_grid >= 0  # [3] is a vector of width one
        if is_scalar(rows) and not is_written and own is not None and own.index:
            if len(numbers) == 1 and numbers[0] > 9:
                numbers = tuple(int(c) for c in str(numbers[0]))
            if len(numbers) == 2:
                return None, numbers[0] - 1, numbers[1] - 1
            return None, None, None
        if len(numbers) == 1 and (is_vector(rows) or is_scalar(rows)) and is_lower:
            return None, numbers[0] - 1, None
        if len(numbers) == 1:
            return numbers[0], None, None
        heading = self._headings[statement.section]
        if own is None and self._announced and self._announced[:2] == (role, statement.section):
            return self._announced[2], None, None
        if role in PER_HEAD | {"Q", "K", "V", "W_Q", "W_K", "W_V", "b_Q", "b_K", "b_V"}:
            return find_head(heading), None, None
        return None, None, None

    def _list_copies(self, role: str, statement: Statement) -> Iterator[Entry]:
        """Yield the other names of W_Q = W_K = [matrix]."""
        for element in statement.elements[1:]:
            if len(element) == 1 and element[0].kind == "sym" and element[0].symbol is not None:
                other = ATTENTION_ROLES.get(normalize_name(element[0].symbol.name).lower())
                if other is not None and other != role and (other in _CERTAIN or other == "X"):
                    yield Entry(
                        other, statement.value, statement, "letter", problem=statement.problem
                    )

    def _read_parts(self, index: int, statement: Statement) -> Iterator[Entry]:
        """Yield the matrices inside softmax([scores] + [mask]) [values] and [weights] [values]."""
        step = self._infer(statement, self.get_roles(index))
        part, _, _ = self._find_index(step or "", statement)
        for element in statement.elements:
            grids = [token for token in element if token.kind == "grid"]
            if not grids or len(element) == 1:
                continue
            functions = {token.text.lower() for token in element if token.kind == "func"}
            if functions & NORMALIZERS:
                yield from self._read_softmax(element, statement, part)

    def _read_softmax(
        self, element: Element, statement: Statement, part: int | None
    ) -> Iterator[Entry]:
        """Yield the argument of a softmax, the mask that is added to it, and the values after."""
        depth, inside, after = 0, list[Token](), list[Token]()
        seen = False
        for token in element:
            depth += (token.kind == "open") - (token.kind == "close")
            if token.kind == "func":
                seen = True
            elif token.kind == "grid" and seen:
                (inside if depth > 0 else after).append(token)
        texts = {t.text for t in element if t.kind in ("op", "sym", "num")} - {"+", "×", "·", "*"}
        rows = [self._read(token) for token in inside]
        is_sum = len(inside) == 2 and any(t.text == "+" for t in element)  # scores + mask
        is_product = len(inside) in (2, 3) and texts <= DIVISOR_TEXTS and not is_sum
        if is_product and rows[0] and rows[1] and len(rows[0][0]) == len(rows[1]):
            yield Entry("Q", rows[0], statement, "formula", part, is_factor=True)
            yield Entry("K", transpose_rows(rows[1]), statement, "formula", part, is_factor=True)
            if len(rows) == 3 and rows[2] is not None and has_infinity(rows[2]):
                yield Entry("mask", rows[2], statement, "formula", is_factor=True)
            for token in after[:1]:
                if (values := self._read(token)) is not None:
                    yield Entry("V", values, statement, "formula", part, is_factor=True)
            return
        if len(inside) == 1 and rows[0] is not None and texts & {"/", "√"}:
            if texts <= DIVISOR_TEXTS - {"V"}:
                yield Entry("scores", rows[0], statement, "formula", part, is_factor=True)
            return
        if texts or not inside or rows[0] is None:
            return
        if len(rows) == 2 and rows[1] is not None and has_infinity(rows[1]):
            yield Entry("mask", rows[1], statement, "formula", is_factor=True)
        elif len(rows) > 1:
            return
        role = "masked" if has_infinity(rows[0]) else "softmax-input"
        yield Entry(role, rows[0], statement, "formula", part, is_factor=True)
        for token in after[:1]:
            if (values := self._read(token)) is not None:
                yield Entry("V", values, statement, "formula", part, is_factor=True)

    def _read(self, token: Token) -> list[list[str]] | None:
        literal = read_literal((token,), self._grids)
        return None if literal is None else literal[0]
