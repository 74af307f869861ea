"""Make the table of a problem on layers or recurrent networks from the entries of an example."""

import re
from collections.abc import Mapping
from typing import Any

from workings.errors import UserError
from workings.problems.documents.assembly import Assembly, Versions, nest_claims
from workings.problems.documents.attention_names import format_canonical
from workings.problems.documents.entries import Entry, to_row
from workings.problems.documents.examples import Example, is_given
from workings.problems.documents.layer_names import find_activation
from workings.problems.documents.matrices import Rows
from workings.problems.documents.prints import Prints, shape_of
from workings.problems.documents.symbols import Element
from workings.problems.documents.words import find_vectors
from workings.problems.kinds import KINDS
from workings.problems.numbers import transpose_rows

_BY_ROW = ("layer_norm", "rms_norm", "feed_forward")


def _drop_counter(rows: Rows) -> Rows:
    """Return the rows without a first column 0, 1, 2, … that counts the positions."""
    is_counter = len(rows) > 1 and [row[0] for row in rows] == [str(k) for k in range(len(rows))]
    return [row[1:] for row in rows] if is_counter and len(rows[0]) > 2 else rows


class LayerAssembler:
    """Makes the table of a kind whose numbers are named by letters."""

    def __init__(
        self, example: Example, text: str, settings: Mapping[str, Any], stated: str = ""
    ) -> None:
        del stated  # the other kinds have no mask and no scale
        self._example, self._text, self._settings = example, text, settings
        self._prints = Prints(example)
        self._result = Assembly(example.kind)

    def assemble(self) -> Assembly:
        """Return the table and what it leaves out."""
        kind = self._example.kind
        table: dict[str, Any] = {"kind": kind, **self._settings}
        given = {
            role: rows
            for (role, part), _ in self._prints.by_key.items()
            if part is None
            and is_given(kind, role)
            and (rows := self._prints.first(role)) is not None
        }
        claims: dict[str, Versions] = {
            (role if part is None else f"{KINDS[kind].part_name}.{part}.{role}"): [rows]
            for (role, part) in self._prints.by_key
            if not is_given(kind, role) and (rows := self._prints.first(role, part)) is not None
        }
        names = [*given]
        if kind == "positions":
            self._read_positions(table, given, claims)
            names = ["width"]
        elif kind in ("layer_norm", "rms_norm"):
            self._read_norm(table, given, claims)
        elif kind == "feed_forward":
            activation = find_activation(self._text)
            if activation and "activation" not in table:
                table["activation"] = activation
        else:
            self._read_recurrent(given, claims)
            if kind == "gru":
                table |= {k: v for k, v in self._find_gru_form().items() if k not in table}
        vectors = find_vectors(self._text) if kind in _BY_ROW else None
        if vectors and "vectors" not in table:
            table["vectors"] = vectors
            self._result.declared.add("vectors")
        table["given"], table["claim"] = given, nest_claims(claims)
        self._result.table, self._result.givens = table, names
        for (role, _), entry in self._prints.problems.items():
            if is_given(kind, role) and role not in given:
                raise UserError(f"{role} could not be read: {entry.problem}")
        return self._result

    def _read_positions(
        self, table: dict[str, Any], given: dict[str, Rows], claims: dict[str, Versions]
    ) -> None:
        encoding = claims.get("encoding", [[["?"]]])[0] or [["?"]]
        width = given.pop("width", None)
        base = given.pop("base", None)
        encoding = _drop_counter(encoding)
        table["width"] = int(float(width[0][0])) if width else len(encoding[0])
        table["count"] = len(encoding)
        if base:
            table["base"] = base[0][0]
        size = table["width"]
        claims["encoding"] = [[[*row, *["?"] * (size - len(row))][:size] for row in encoding]]

    def _read_norm(
        self, table: dict[str, Any], given: dict[str, Rows], claims: dict[str, Versions]
    ) -> None:
        eps = given.pop("eps", None)
        if eps and "eps" not in table:
            table["eps"] = eps[0][0]
        x = given.get("X")
        if x is None:
            return
        for role in ("mean", "variance", "mean_square", "rms"):
            rows = claims.get(role, [None])[0]
            if rows and len(rows) == 1 and len(rows[0]) == len(x) > 1:
                claims[role] = [transpose_rows(rows)]

    def _find_gru_form(self) -> dict[str, str]:
        """Return which forms of the update and of the reset gate the formulas have."""
        form: dict[str, str] = {}
        for entry in self._example.claims:
            for element in entry.statement.elements[1:]:
                text = re.sub(r"[\s·*×∘⊙@]", "", format_canonical(element)).lower()
                if entry.role == "h" and (update := self._find_update(text, element, entry)):
                    form["update"] = update
                elif entry.role == "n" and re.search(r"\(rh\)|r_?h(?![a-z])", text):
                    form["reset"] = "before"
        return form

    def _find_update(self, text: str, element: Element, entry: Entry) -> str | None:
        """Return what 1 − z multiplies, in letters or in the numbers that stand for them."""
        if match := re.search(r"\(1-[zu]\)\(?(.[\u0300-\u036f]?)", text):
            return "candidate" if match[1] == "h" else "state"
        numbers = [token.text for token in element if token.kind == "num"]
        if not re.match(r"\(1-[\d.,]+\)", text) or len(numbers) != 5 or entry.part is None:
            return None
        before = self._prints.first("h", entry.part - 1) or self._prints.first("h0")
        candidate = self._prints.first("n", entry.part)
        values = [abs(float(rows[0][0])) if rows else None for rows in (before, candidate)]
        factor = abs(float(numbers[2].replace(",", ".")))
        if values.count(factor) != 1:
            return None
        return ("candidate", "state")[values.index(factor)]

    def _read_recurrent(self, given: dict[str, Rows], claims: dict[str, Versions]) -> None:
        """Put the gates of an LSTM side by side, as the format has them; vectors become rows."""
        kind = KINDS.get(self._example.kind)
        if kind is None:
            raise UserError(f"kind {self._example.kind} is not known")
        for path, prints in claims.items():
            claims[path] = [[to_row(r)] if r and len(r[0]) == 1 else r for r in prints]
        columns = bool(re.search(r"[WU]_?\w*\s*[·*@]?\s*[xh]_", self._text))
        for role in list(given):
            rows = given[role]
            if role in ("h0", "c0") or role[0] == "b":
                given[role] = [to_row(rows)]
            elif columns and role != "X" and shape_of(rows) != (1, 1):
                given[role] = transpose_rows(rows)
        if "W_i" in kind.matrices or not any(
            role in given for role in ("W_i", "W_f", "W_o", "W_c")
        ):
            if "W_n" not in kind.matrices:
                return
            return
        width = len(given.get("W_i", given.get("W_f", [["0"]]))[0])
        for name, letter in (("W_x", "W"), ("W_h", "U"), ("b", "b")):
            parts = [given.pop(f"{letter}_{gate}", None) for gate in ("i", "f", "c", "o")]
            if all(part is None for part in parts):
                continue
            height = max(len(part) for part in parts if part is not None)
            if any(part is None for part in parts) and letter != "b":
                raise UserError(f"not every gate has its {letter}")
            zero = [["0"] * width for _ in range(height)]
            filled = [part if part is not None else zero for part in parts]
            given[name] = [[cell for part in filled for cell in part[i]] for i in range(height)]
