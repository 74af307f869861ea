"""Name the numbers of the other kinds: layer norm, positions, feed-forward, recurrent networks.

Their letters are settled by the kind, so a table of names is enough; a formula decides where one
letter may be two steps.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from workings.problems.documents.attention_names import format_canonical
from workings.problems.documents.chains import Statement, read_literal
from workings.problems.documents.entries import (
    Entry,
    get_numbers,
    get_symbol,
    is_scalar,
    is_vector,
)
from workings.problems.documents.matrices import Rows
from workings.problems.documents.sources import Grid
from workings.problems.documents.symbols import Symbol
from workings.problems.documents.words import find_time
from workings.problems.kinds import KINDS

# Role -> names without index, as `Symbol.name` has them; accents: x̂ is x with U+0302.
_HAT, _TILDE = "\u0302", "\u0303"
NAMES: dict[str, dict[str, str]] = {
    "layer_norm": {
        "X": "x X",
        "mean": "μ m mean mu x\u0304",
        "variance": "σ_2 var variance v s_2 Var",
        "normalised": f"x{_HAT} X{_HAT} x_hat n z z{_HAT} normalised normalized x_norm",
        "output": "y Y output LN LayerNorm out",
        "gamma": "γ g gamma",
        "beta": "β b beta",
        "eps": "ε eps epsilon",
    },
    "rms_norm": {
        "X": "x X",
        "mean_square": "ms mean_square",
        "rms": "rms RMS r",
        "normalised": f"x{_HAT} X{_HAT} x_hat n z z{_HAT} normalised normalized x_norm",
        "output": "y Y output RMSNorm out",
        "gamma": "γ g gamma",
        "eps": "ε eps epsilon",
    },
    "positions": {
        "encoding": "PE P pe encoding p pos_enc",
        "width": "d_model d dmodel D d_m width",
        "base": "base",
    },
    "feed_forward": {
        "X": "x X",
        "W": "W",
        "b": "b",
        "hidden": "h H z Z hidden u pre pre_act pre_activation",
        "activated": "a A activated r act activation activations",
        "output": "y Y o O output FFN F out",
    },
    "rnn": {
        "X": "x X",
        "W_xh": "w_x W_x W_xh w_xh W_hx W_ih w_in U_x W_in w_i W_i W_ax W_e",
        "W_hh": "w_h W_h W_hh w_hh U_h w_rec W_rec w_r W_aa u_h",
        "b": "b b_h b_a",
        "h": "h a s",
        "sum": "z u net n pre sum",
    },
    "lstm": {
        "X": "x X",
        "i": "i",
        "f": "f",
        "o": "o",
        "g": f"g c{_TILDE} C{_TILDE} c{_HAT} C{_HAT} g{_TILDE} c_tilde c_hat",
        "c": "c C s",
        "h": "h",
    },
    "gru": {
        "X": "x X",
        "z": "z u",
        "r": "r",
        "n": f"n h{_TILDE} h{_HAT} c{_TILDE} g h_tilde",
        "h": "h",
    },
}  # fmt: skip
_CAPTIONS: dict[str, tuple[tuple[str, str], ...]] = {
    "layer_norm": (
        ("normalised", r"normali[sz]ed|normalisiert|normalisé|normalizad|归一化后"),
        ("variance", r"variance|varianz|varianza|方差"),
        ("mean", r"\bmean\b(?! (?:of (?:the )?)?square)|mittelwert|moyenne|\bmedia\b|均值"),
        ("output", r"output|ausgabe|sortie|salida|输出"),
    ),
    "rms_norm": (
        ("normalised", r"normali[sz]ed|normalisiert|normalisé|normalizad|归一化后"),
        ("rms", r"\brms\b|root[- ]mean|均方根"),
        ("mean_square", r"mean[- ](?:of (?:the )?)?square|mittelwert der quadrate|均方"),
        ("output", r"output|ausgabe|sortie|salida|输出"),
    ),
    "positions": (("encoding", r"position|encoding|codes|kodierung|编码"),),
    "feed_forward": (
        ("output", r"output|ausgabe|sortie|salida|输出|second layer"),
        ("activated", r"relu|activat|aktivier|gelu|激活"),
        ("hidden", r"hidden|versteckt|cachée|oculta|隐藏|first layer|pre-?activation"),
        ("X", r"\binput"),
    ),
}

_INPUTS = re.compile(
    r"^\W*(?:(?:the|die|les|las|los)\s+)?(?:input|eingabe|entrée|entrada|输入)", re.IGNORECASE
)

_GIVENS = frozenset({"X", "W", "b", "gamma", "beta", "eps", "width", "base", "W_xh", "W_hh"})


def find_step_of_letter(kind: str, statement: Statement) -> str | None:
    """Return the step that the letter of a statement is in a kind, without its time or place."""
    symbol = get_symbol(statement)
    for role, names in NAMES.get(kind, {}).items() if symbol is not None else ():
        if symbol is not None and symbol.name in names.split() and role not in _GIVENS:
            return role
    return None


class LayerNames:
    """Names the statements of a section that is about one of these kinds."""

    def __init__(
        self,
        kind: str,
        headings: Sequence[str],
        statements: Sequence[Statement] = (),
        grids: Sequence[Grid] = (),
    ) -> None:
        self._kind, self._headings, self._grids = kind, headings, grids
        symbols = [symbol for s in statements if (symbol := get_symbol(s)) is not None]
        table = NAMES.get(kind, {name: name for name in KINDS[kind].matrices})
        self._announced: Symbol | None = None  # of a formula without numbers right before
        self._roles = {name: role for role, names in table.items() for name in names.split()}
        if kind == "rnn" and any(s.base == "h" and any(get_numbers(s)) for s in symbols):
            self._roles |= {"a": "sum", "s": "sum"}  # h_1 = tanh(a_1)
        if kind == "rnn":
            self._roles |= _find_scalar_weights(statements) | _find_weights(statements)

    def resolve(self, statement: Statement) -> list[Entry]:
        """Return what a statement says; [] if it names nothing of the kind."""
        announced, self._announced = self._announced, None
        if statement.value is None and not statement.problem:
            self._announced = get_symbol(statement)
            return []
        symbol = get_symbol(statement)
        if symbol is not None and announced is not None and not get_numbers(symbol):
            symbol = self._take_index(symbol, announced)
        if self._kind == "positions":
            return self._resolve_positions(statement, symbol)
        if self._kind == "feed_forward":
            return self._resolve_feed_forward(statement, symbol)
        if self._kind in ("layer_norm", "rms_norm"):
            return self._resolve_norm(statement, symbol)
        if self._kind in NAMES:
            return self._resolve_recurrent(statement, symbol)
        return self._resolve_by_format(statement, symbol)

    def _take_index(self, symbol: Symbol, announced: Symbol) -> Symbol:
        """Return a symbol with the index of a formula of the same step: h_2 = tanh(…), then h."""
        role = self._roles.get(symbol.name)
        is_same = role is not None and role == self._roles.get(announced.name)
        return replace(symbol, index=announced.index) if is_same else symbol

    def _resolve_by_format(self, statement: Statement, symbol: Symbol | None) -> list[Entry]:
        """Return what a statement says whose names are those of the problem format."""
        if symbol is None:
            return []
        name = self._roles.get(symbol.text, symbol.text)
        numbers, part_name = get_numbers(symbol), KINDS[self._kind].part_name
        if name not in self._roles and part_name and len(numbers) == 1:
            return [self._make(symbol.name, statement, "letter", part=numbers[0])]
        return [self._make(name, statement, "letter")]

    def _find_caption(self, statement: Statement) -> str | None:
        for role, pattern in _CAPTIONS.get(self._kind, ()):
            if len(statement.label) < 120 and re.search(pattern, statement.label, re.IGNORECASE):
                return role
        return None

    def _make(self, role: str, statement: Statement, evidence: str, **fields: int | None) -> Entry:
        return Entry(
            role,
            statement.value,
            statement,
            evidence,
            problem=statement.problem,
            **fields,  # type: ignore[arg-type]
        )

    def _resolve_norm(self, statement: Statement, symbol: Symbol | None) -> list[Entry]:
        if symbol is not None and symbol.base == "σ":
            if self._kind == "rms_norm" or not _is_squared(symbol):
                return []  # the standard deviation is no step of the format
            return [self._with_row("variance", statement, _drop_square(symbol))]
        if symbol is not None and _is_squared(symbol) and symbol.base == "s":
            return [self._with_row("variance", statement, _drop_square(symbol))]
        if symbol is None and _calls(statement, "ln", "layernorm"):
            return [self._make("output", statement, "formula")]
        role = self._roles.get(symbol.name) if symbol is not None else None
        caption = self._find_caption(statement)
        if role is not None and symbol is not None:
            if role in ("gamma", "beta") and is_scalar(statement.value):
                return []
            return [self._with_row(role, statement, get_numbers(symbol))]
        if symbol is not None and len(symbol.base) > 1:
            for name, pattern in _CAPTIONS[self._kind]:
                if re.search(pattern, symbol.base, re.IGNORECASE):
                    return [self._make(name, statement, "caption")]
        if caption and symbol is None and len([e for e in statement.elements if e]) == 1:
            return [self._make(caption, statement, "caption")]
        return []

    def _with_row(self, role: str, statement: Statement, numbers: Sequence[int]) -> Entry:
        """Return an entry whose index is that of a token."""
        row = numbers[0] - 1 if len(numbers) == 1 else None
        return self._make(role, statement, "letter", row=row)

    def _resolve_positions(self, statement: Statement, symbol: Symbol | None) -> list[Entry]:
        left = statement.elements[0] if statement.elements else ()
        if (
            symbol is not None
            and self._roles.get(symbol.name) == "width"
            and is_scalar(statement.value)
        ):
            return [self._make("width", statement, "letter")]
        if symbol is not None and symbol.base == "base" and is_scalar(statement.value):
            return [self._make("base", statement, "letter")]
        is_word = symbol is not None and self._roles.get(symbol.text) == "encoding"
        is_call = bool(left) and left[0].text.split("_")[0].lower() == "pe"
        is_call = is_call or (is_word and len(left[0].text) > 1)
        numbers = [int(t.text) for t in left if t.kind == "num" and t.text.isdigit()]
        numbers = numbers or list(get_numbers(left[0].symbol) if is_call else ())
        if is_call and len(numbers) == 1 and is_vector(statement.value):
            return [self._make("encoding", statement, "letter", row=numbers[0])]
        if is_call and len(numbers) == 2 and is_scalar(statement.value):
            return [self._make("encoding", statement, "letter", row=numbers[0], column=numbers[1])]
        if is_call and not numbers and statement.value_grid >= 0:
            return [self._make("encoding", statement, "letter")]
        if symbol is not None and symbol.base in ("p", "P") and is_vector(statement.value):
            index = get_numbers(symbol)
            return [self._make("encoding", statement, "letter", row=index[0] if index else None)]
        is_grid = statement.value_grid >= 0 and statement.value is not None
        if is_grid and len([e for e in statement.elements if e]) <= 2 and symbol is None:
            context = f"{statement.label} {self._headings[statement.section]}"
            if re.search(r"position|encod", context, re.IGNORECASE):
                return [self._make("encoding", statement, "caption")]
        return []

    def _resolve_feed_forward(self, statement: Statement, symbol: Symbol | None) -> list[Entry]:
        formulas = [format_canonical(e) for e in statement.elements if len(e) > 1]
        texts = " ".join(_format_indexed(e) for e in statement.elements)
        step = "output" if _calls(statement, "ffn", "mlp") else None
        step = step or (_infer_layer(texts) if formulas else None)
        if step is not None:
            return [self._make(step, statement, "formula")]
        if symbol is not None:
            numbers, role = get_numbers(symbol), self._roles.get(symbol.name)
            if symbol.base in ("W", "b") and len(numbers) == 1 and numbers[0] in (1, 2):
                return [self._make(f"{symbol.base}_{numbers[0]}", statement, "letter")]
            if role in ("W", "b"):
                return []
            if role is not None:
                row = (
                    numbers[0] - 1
                    if len(numbers) == 1 and is_vector(statement.value) and role == "X"
                    else None
                )
                return [self._make(role, statement, "letter", row=row)]
        caption = self._find_caption(statement)
        if symbol is not None and len(symbol.base) > 1:
            caption = next(
                (
                    r
                    for r, p in _CAPTIONS["feed_forward"]
                    if re.search(p, symbol.base, re.IGNORECASE)
                ),
                caption,
            )
        return [self._make(caption, statement, "caption")] if caption else []

    def _resolve_recurrent(self, statement: Statement, symbol: Symbol | None) -> list[Entry]:
        if symbol is None:
            is_alone = len([element for element in statement.elements if element]) == 1
            is_input = is_alone and _INPUTS.search(statement.label) and statement.value_grid >= 0
            return [self._make("X", statement, "caption")] if is_input else []
        numbers = get_numbers(symbol)
        gate = self._find_gate(symbol)
        if gate is not None:
            return [self._make(gate, statement, "letter")]
        name = re.sub(r"_t$", "", symbol.name)
        role = self._roles.get(name)
        if role is None:
            return []
        if self._kind == "rnn" and role in ("W_xh", "W_hh", "b"):
            return [self._make(role, statement, "letter")]
        time = numbers[0] if len(numbers) == 1 else find_time(self._headings[statement.section])
        if time is None and role == "X":
            return [self._make("X", statement, "letter")]
        if time is None:
            return []
        if role == "X":
            return [self._make("X", statement, "letter", row=time - 1)]
        if time == 0 and role in ("h", "c"):
            return [self._make(f"{role}0", statement, "letter")]
        entries = [self._make(role, statement, "letter", part=time)]
        if self._kind == "rnn" and role == "h" and (rows := _find_argument(statement, self._grids)):
            inside = replace(entries[0], role="sum", rows=rows, evidence="formula", is_factor=True)
            entries.append(inside)
        return entries

    def _find_gate(self, symbol: Symbol) -> str | None:
        """Return the role of a gate's weight: W_f and U_f, W_xf and W_hf, b_f."""
        if self._kind == "rnn" or symbol.base not in ("W", "U", "b", "w", "u", "R"):
            return None
        mark = "".join(symbol.marks)
        match = re.fullmatch(r"([xhi]?)([ifogczrnhu])", mark)
        if match is None:
            return None
        source, gate = match.groups()
        gate = {"g": "c", "c": "c"}.get(gate, gate) if self._kind == "lstm" else gate
        gate = {"h": "n", "u": "z", "c": "n"}.get(gate, gate) if self._kind == "gru" else gate
        base = symbol.base.upper() if symbol.base != "b" else "b"
        if base == "b":
            return f"b_{gate}"
        is_recurrent = base in ("U", "R") or source == "h"
        return f"U_{gate}" if is_recurrent else f"W_{gate}"


def _calls(statement: Statement, *names: str) -> bool:
    """Return True for a value of a function: FFN(X) = [matrix]."""
    left = statement.elements[0] if len(statement.elements) == 2 else ()
    return len(left) > 1 and left[0].text.lower() in names and left[1].kind == "open"


def _find_weights(statements: Sequence[Statement]) -> dict[str, str]:
    """Return the letters of the weights as formulas show them: W x_t + U h_{t-1} + c."""
    roles: dict[str, str] = {}
    for statement in statements:
        for element in statement.elements[1:]:
            tokens = [token for token in element if token.text not in "·*×@"]
            products = set()
            for pair in pairwise(tokens):
                names = [t.symbol.base for t in pair if t.kind == "sym" and t.symbol is not None]
                for name, state in (names, names[::-1]) if len(names) == 2 else ():
                    if state in ("x", "X", "h") and name not in ("x", "X", "h", "b", "tanh"):
                        symbol = next(t.symbol for t in pair if t.symbol and t.symbol.base == name)
                        products.add((symbol.name, "W_hh" if state == "h" else "W_xh"))
            if {role for _, role in products} == {"W_xh", "W_hh"}:
                roles |= dict(products)
    return roles


def _find_scalar_weights(statements: Sequence[Statement]) -> dict[str, str]:
    """Return the letters of weights by their numbers: tanh(0.3·1 + 0.5·0.2), with w = 0.3, x = 1.

    Letters that say by themselves which weight they are keep their role.
    """
    values: dict[str, list[str]] = {}
    for statement in statements:
        symbol = get_symbol(statement)
        if symbol is not None and symbol.base in "wuvWUVx" and is_scalar(statement.value):
            name = "x" if symbol.base == "x" else symbol.name
            values.setdefault(name, []).append((statement.value or [[""]])[0][0])
    letters = {name: own[0] for name, own in values.items() if name in tuple("wuvWUV")}
    for statement in statements:
        for element in statement.elements[1:]:
            numbers = [token.text for token in element if token.kind == "num"]
            is_sum = len(numbers) in (4, 5) and any(t.text == "tanh" for t in element)
            if not is_sum or numbers[1] not in values.get("x", []):
                continue
            names = [[n for n, v in letters.items() if v == number] for number in numbers[:3:2]]
            if names[0] == names[1] and len(names[0]) == 2:  # the same number: it is all one
                return dict(zip(names[0], ("W_xh", "W_hh"), strict=True))
            if all(len(own) == 1 for own in names) and names[0] != names[1]:
                return {names[0][0]: "W_xh", names[1][0]: "W_hh"}
    return {}


def _find_argument(statement: Statement, grids: Sequence[Grid]) -> Rows | None:
    """Return what is inside the activation of h = tanh(0.64) = 0.565, a number or a vector."""
    for element in statement.elements[1:]:
        if [t.kind for t in element if t.kind not in ("open", "close")] == ["func", "grid"]:
            literal = read_literal(tuple(t for t in element if t.kind == "grid"), grids)
            return literal[0] if literal is not None else None
        kinds = [t.kind for t in element if t.text not in ("-", "+")]
        if kinds == ["func", "open", "num", "close"] and is_scalar(statement.value):
            return [["".join(token.text for token in element[2:-1])]]
    return None


def _is_squared(symbol: Symbol) -> bool:
    return "2" in symbol.index or symbol.text.endswith("^2")


def _drop_square(symbol: Symbol) -> tuple[int, ...]:
    """Return the index of σ_1^2 without the exponent."""
    numbers = list(get_numbers(symbol))
    if 2 in numbers:
        numbers.remove(2)
    return tuple(numbers)


def _format_indexed(element: Sequence) -> str:  # type: ignore[type-arg]
    """Return the text of an element with W_1 and b_1 whatever way they are written."""
    pieces = []
    for token in element:
        if token.kind == "sym" and token.symbol is not None and token.symbol.base in ("W", "b"):
            numbers = get_numbers(token.symbol)
            pieces.append(f"{token.symbol.base}_{numbers[0]}" if numbers else token.text)
        else:
            pieces.append(token.text.lower() if token.kind == "func" else token.text)
    return " ".join(pieces)


def _infer_layer(text: str) -> str | None:
    """Return the step of a feed-forward network that a formula computes."""
    if "W_2" in text:
        return "output"
    if any(name in text for name in ("relu", "gelu", "max", "tanh", "sigmoid", "σ")):
        return "activated"
    if "W_1" in text:
        return "hidden"
    return None


def find_activation(text: str) -> str | None:
    """Return the activation that a text names, if it is one of the usual ones."""
    names = {name for name in ("relu", "gelu", "tanh", "sigmoid") if name in text.lower()}
    return names.pop() if len(names) == 1 else None
