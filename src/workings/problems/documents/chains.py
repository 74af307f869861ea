"""Split lines into chains of equations: `A = softmax(S) ≈ [matrix]`, `h_1 = tanh(0.64) = 0.565`.

A *run* is a stretch of symbols, numbers, operators and matrices between words and punctuation. A
run with relation signs is a chain; a run that begins with one continues the run before it.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise

from workings.problems.documents.matrices import Rows
from workings.problems.documents.sources import Grid, Line, Place, Source
from workings.problems.documents.sources.cells import evaluate_constant, is_number, read_cell
from workings.problems.documents.words import ROLE_WORDS

FUNCTIONS = frozenset(
    [
        "softmax",
        "exp",
        "tanh",
        "sigmoid",
        "relu",
        "gelu",
        "concat",
        "concatenate",
        "attention",
        "multihead",
        "layernorm",
        "ln",
        "sqrt",
        "mean",
        "var",
        "std",
        "sin",
        "cos",
        "pe",
        "ffn",
        "mha",
        "hstack",
        "selfattention",
        "rowsoftmax",
        "cat",
        "logistic",
        "silu",
        "max",
        "where",
        "triu",
        "tril",
        "ones",
    ]
)
_FUNCTIONS_AND_WORDS = frozenset(
    {"attention", "mean", "max", "cat", "where", "ones", "sin", "cos", "std", "var", "ln"}
)
_MAX_LINE = 4_000
_MAX_FORMULA_LINE = 60  # a longer line without a relation is prose
_SCRIPT = (
    r"(?:[_^](?:\{[^{}]{1,40}\}|\(\w{1,12}\)|[+-]?\w{1,24}'{0,2}|[⊤])"
    r"|'{1,2}(?![^\W\d_])|\.T(?![A-Za-z]))"
)
_TOKEN = re.compile(
    rf"\ue000(?P<grid>\d+)\ue001(?P<after>(?:\^\{{?T\}}?|\.T)?)"
    r"|(?P<num>(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\d,])|\d+(?:[.,]\d+)?|\.\d+)(?:e[+-]?\d+)?"
    r"(?:\s?[×x*·]\s?10\s?\^\s?\{?\s?[+-]?\d+\}?)?\s?%?)"
    rf"|(?P<ident>(?:[^\W\d_][\u0300-\u036f]?)+\d{{0,3}}(?:[^\W\d_])*{_SCRIPT}*)"
    r"|(?P<break>[\v|│¦•]|-{1,2}>|=>|[⇒→⟹⟶])"
    r"|(?P<rel>:=|≔|==|=|≈|≃|≅|≡|←|~(?=\s*[-\d\ue000]))"
    r"|(?P<op>[-+*/^@×·⊙∘⊕⊗÷√∞±])"
    r"|(?P<open>[(\[{⟨])|(?P<close>[)\]}⟩])"
    r"|(?P<punct>[.,;:!?…])|(?P<other>\S)",
    re.IGNORECASE,
)
_PROSE_AFTER = re.compile(r"-[^\W\d_]|\s+[a-zà-ÿ]{2,}(?![_(])")
_LETTER = re.compile(r"[A-Za-zα-ωΑ-Ω]")
_LETTER_NUMBER = re.compile(r"([A-Za-zα-ω])[\u0300-\u036f]?(\d{1,3})")
_WEIGHT = re.compile(
    r"([Ww])([QKVOqkvoxh]|hh|xh|[ifogczrn12])|([Uu])([xhifogczr])|(b)([QKVOifogczr])"
    r"|(d)(k|v|q|model|h)"
)
_CAPITALS = re.compile(r"[QKVXWAZSOPHEYMCTB]{2,5}")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_ACCENT = re.compile(r"[\u0300-\u036f]")
_PROJECTIONS = "QKVO"
# A caption ends at these: "the softmax is α_1 = …, so z_1 = …".
_ASIDE = re.compile(  # softmax (row-wise) = …
    r"\s\((?:row|column|per|each|rounded|approx|over|along|zeilen|spalten|gerundet|pro|je|par|por"
    r"|arrondi|redondead|按|逐)[^()\ue000]{0,40}\)\s*(?=[=≈:])",
    re.IGNORECASE,
)
_REMARK = re.compile(r"\([^()\ue000]*=[^()\ue000]*\)")
_LETTERS = re.compile(r"[^\W\d_]{3}")
_CONSEQUENCES = frozenset(
    ["so", "thus", "hence", "therefore", "somit", "daher", "damit", "folglich", "donc", "ainsi",
     "luego", "entonces", "así", "所以", "因此"]
)  # fmt: skip
_SOFTMAX = re.compile(r"(?!.*(?:log|grad|back|deriv|jacob))\w*softmax\w*", re.IGNORECASE)
_ASSIGNED = re.compile(r"(?:^|\v)\s*([A-Za-z]\w+)\s*=(?!=)")


@dataclass(frozen=True)
class Symbol:
    """A symbol of a formula: W_1^Q has the base W, the mark Q and the index 1."""

    base: str
    marks: tuple[str, ...] = ()
    index: tuple[str, ...] = ()
    transposed: bool = False
    text: str = ""

    @property
    def name(self) -> str:
        """The symbol without its index: W_Q for W_1^Q, A' for A'_2."""
        letters = [mark for mark in self.marks if mark != "'"]
        return self.base + ("_" + "".join(letters) if letters else "") + "'" * self.marks.count("'")


@dataclass(frozen=True)
class Token:
    """A piece of a line: its kind, its text and, by kind, its symbol or the index of its grid."""

    kind: str
    text: str
    symbol: Symbol | None = None
    grid: int = -1


@dataclass
class Run:
    """A stretch of mathematics, with the words before it in its line and where it stands."""

    tokens: list[Token]
    caption: str
    line: int
    place: Place
    joins: bool  # only line ends or spaces are between it and the run before
    last_line: int = -1

    def __post_init__(self) -> None:
        self.last_line = max(self.last_line, self.line)


Element = tuple[Token, ...]


@dataclass
class Statement:
    """A chain of equal elements; the last one that is a number or matrix is its value.

    `label` is the text that names it: words of its line, or the line above.
    """

    elements: list[Element]
    label: str
    line: int
    place: Place
    section: int = 0
    value: Rows | None = None
    value_grid: int = -1
    problem: str = ""
    reprints: list[Rows] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The formulas and names before the value."""
        return " = ".join(format_element(element) for element in self.elements)[:120]


@lru_cache(16_384)
def parse_symbol(text: str) -> Symbol:
    r"""Split a symbol into base, marks, index and transposition.

    >>> parse_symbol("W_1^Q").name, parse_symbol("W_1^Q").index
    ('W_Q', ('1',))
    >>> parse_symbol("K^T").transposed, parse_symbol("α_{12}").index
    (True, ('12',))
    """
    scripts = re.findall(_SCRIPT, text)
    base = text[: len(text) - sum(map(len, scripts))] if scripts else text
    match = re.match(r"((?:[^\W\d_][\u0300-\u036f]?)+)(\d*)(.*)", base)
    marks, index, transposed = [], [], False
    if match and match[2] and not match[3]:
        base = match[1]
        index.append(match[2])
    if weight := _WEIGHT.fullmatch(base):
        letters = [group for group in weight.groups() if group]
        base = letters[0]
        marks.append(letters[1])
    for script in scripts:
        if script == ".T":
            transposed = True
            continue
        if set(script) == {"'"}:
            marks += ["'"] * len(script)
            continue
        inner = script[1:].strip("{}() ").replace(" ", "")
        primes = len(inner) - len(inner.rstrip("'"))
        inner = inner.rstrip("'")
        marks += ["'"] * primes
        if script[0] == "^" and inner in ("T", "⊤", "t", "top") and inner != "t":
            transposed = True
        elif numbered := re.fullmatch(r"(\w+?)_(\d{1,3})", inner):
            marks.append(numbered[1])
            index.append(numbered[2])
        elif re.fullmatch(r"[\d,;\s]+", inner):
            index.append(inner.replace(" ", ""))
        elif (numbered := re.fullmatch(r"([A-Za-z]+),?(\d{1,3})", inner)) and len(numbered[1]) < 3:
            marks.append(numbered[1])
            index.append(numbered[2])
        elif numbered := re.fullmatch(r"(\d{1,3}),?([A-Za-z]{1,2})", inner):
            marks.append(numbered[2])
            index.append(numbered[1])
        else:
            marks.append(inner)
    if base in ("W", "b") and index == ["0"] and not marks:
        marks, index = ["O"], []  # W_0 for W_O
    return Symbol(base, tuple(marks), tuple(index), transposed, text)


def tokenize(text: str, variables: Collection[str] = ()) -> list[Token]:
    """Return the tokens of a line; `variables` are names in a program."""
    tokens: list[Token] = []
    for match in _TOKEN.finditer(text[:_MAX_LINE]):
        kind, piece = match.lastgroup or "", match.group()
        if kind == "after":
            kind = "grid"
        if kind == "ident":
            following = text[match.end() : match.end() + 6]
            if piece in variables and not following.startswith("("):
                tokens.append(Token("sym", piece, parse_symbol(piece)))
            else:
                tokens += _classify(piece, following)
        elif kind == "grid":
            transposed = Symbol("", transposed=True) if match["after"] else None
            tokens.append(Token("grid", piece, transposed, int(match["grid"])))
        elif kind == "num":
            tokens.append(Token("num", piece.strip()))
        elif piece == "==":
            tokens.append(Token("punct", ";"))
        elif kind == "rel":
            tokens.append(Token("rel", "=" if piece != "≈" else "≈"))
        elif kind == "other":
            tokens.append(Token("word", piece))
        else:
            tokens.append(Token(kind, piece))
    return _resolve_words(tokens)


def _classify(piece: str, following: str) -> list[Token]:
    """Return the tokens of an identifier: a symbol, a product of capitals, a function or a word."""
    scripts = re.findall(_SCRIPT, piece)
    base = piece[: len(piece) - sum(map(len, scripts))] if scripts else piece
    if _CJK.search(base):
        return [Token("word", base)]
    bare = base.lower().rstrip("0123456789")
    if _SOFTMAX.fullmatch(piece) and following.startswith("("):
        return [Token("func", "softmax", parse_symbol("softmax"))]
    if bare in ("inf", "infty", "infinity"):
        return [Token("num", "inf")]
    if bare in FUNCTIONS and _PROSE_AFTER.match(following):
        return [Token("word", piece)]  # Softmax-Funktion, the softmax of
    is_call = following.lstrip().startswith("(") or (
        bare in ("sin", "cos", "ln") and following.lstrip()[:1].isdigit()
    )
    if bare in FUNCTIONS and (is_call or bare not in _FUNCTIONS_AND_WORDS):
        return [Token("func", piece, parse_symbol(piece))]
    letters = _ACCENT.sub("", base)
    if len(letters) == 1 or _LETTER_NUMBER.fullmatch(base) or _WEIGHT.fullmatch(letters):
        is_letter = bool(_LETTER.fullmatch(letters[:1]))
        return [Token("sym" if is_letter else "word", piece, parse_symbol(piece))]
    if match := _CAPITALS.match(base):
        rest = base[match.end() :]
        if re.fullmatch(r"[qkvoQKVO]?\d{0,2}", rest):
            return _split_capitals(base, "".join(scripts))
    if scripts and letters.isascii():
        return [Token("sym", piece, parse_symbol(piece))]
    return [Token("word", piece)]


def _split_capitals(base: str, scripts: str) -> list[Token]:
    """Return the factors of QK^T, XW_Q, AV: each capital is a matrix; a T at the end transposes."""
    pieces = re.findall(r"W[QKVOqkvo](?=[A-Z]|\d|$)|[A-Za-z]\d*", base)
    if len(pieces) > 1 and pieces[-1] == "T" and not scripts:
        pieces[-2:] = [pieces[-2] + "^T"]
    pieces[-1] += scripts
    return [Token("sym", piece, parse_symbol(piece)) for piece in pieces]


def _resolve_words(tokens: list[Token]) -> list[Token]:
    """Return the tokens with words that are names: beside an operator or relation, in a call."""
    depth, out = 0, list[Token]()
    for k, token in enumerate(tokens):
        before = tokens[k - 1] if k else None
        after = tokens[k + 1] if k + 1 < len(tokens) else None
        if token.kind == "open" and (
            depth or (before is not None and before.kind in ("func", "sym", "rel", "op"))
        ):
            depth += 1
        elif token.kind == "close" and depth:
            depth -= 1
        if token.kind == "word" and token.text.isascii() and token.text[:1].isalpha():
            is_beside = (after is not None and after.kind == "op" and after.text in "@*/") or (
                before is not None and before.kind in ("op",) and before.text in "@*/√+"
            )
            is_beside |= (
                k > 1
                and before is not None
                and before.text == "-"
                and (tokens[k - 2].kind in ("sym", "num", "close"))
            )
            is_known = token.text.lower() in ROLE_WORDS
            is_left = after is not None and after.kind == "rel"
            is_right = before is not None and before.kind == "rel"
            if (is_known and (is_beside or is_left or is_right or depth)) or (is_beside and depth):
                token = Token("sym", token.text, Symbol(token.text, text=token.text))
        is_raised = token.text == "T" and token.kind == "sym" and before is not None
        if is_raised and out and out[-1].kind == "sym" and out[-1].text[:1].isupper():
            out[-1] = Token("sym", out[-1].text + "^T", parse_symbol(out[-1].text + "^T"))
            continue  # QK T, as PDFs leave a raised T
        out.append(token)
    return _mark_prose(_strip_brackets(out))


def _strip_brackets(tokens: list[Token]) -> list[Token]:
    """Return the tokens without brackets that only enclose a matrix."""
    out = list(tokens)
    for k in range(len(out) - 3, -1, -1):
        is_enclosed = [t.kind for t in out[k : k + 3]] == ["open", "grid", "close"]
        is_argument = k > 0 and out[k - 1].kind in ("func", "sym")
        if is_enclosed and not is_argument:
            out[k : k + 3] = [out[k + 1]]
    return out


_MATH = frozenset({"grid", "num", "sym", "func", "rel", "op", "open", "close"})


def _mark_prose(tokens: list[Token]) -> list[Token]:
    """Return the tokens with parentheses around prose, and unmatched ones, as punctuation."""
    opened: list[int] = []
    groups: dict[int, int] = {}
    for k, token in enumerate(tokens):
        if token.kind == "open" and token.text == "(":
            opened.append(k)
        elif token.kind == "close" and token.text == ")" and opened:
            groups[opened.pop()] = k
    matched = {*groups, *groups.values()}
    prose = {
        end
        for start, stop in groups.items()
        if any(t.kind in ("word", "punct") and t.text not in ",;" for t in tokens[start:stop])
        and not (start and tokens[start - 1].kind in ("func",))
        for end in (start, stop)
    }
    out = []
    for k, token in enumerate(tokens):
        is_parenthesis = token.kind in ("open", "close") and token.text in "()"
        if is_parenthesis and k in prose:
            token = Token("punct", ";")
        elif is_parenthesis and k not in matched:
            beside = [t.kind in _MATH for t in (*tokens[max(0, k - 1) : k], *tokens[k + 1 : k + 2])]
            if all(beside):
                continue  # a bracket that the extraction lost the other half of
            token = Token("punct", ";")
        out.append(token)
    return out


def find_runs(source: Source) -> list[Run]:
    """Return the runs of a document in order."""
    scanner = _RunScanner()
    variables = {
        name
        for line in source.lines
        if line.is_code
        for name in _ASSIGNED.findall(line.text)
        if name.lower() not in ROLE_WORDS
    }
    for number, line in enumerate(source.lines):
        if line.level:
            scanner.joins = False
            if not any(sign in line.text for sign in "=≈\ue000"):
                continue
        has_relation = any(sign in line.text for sign in "=≈~:\ue000←")
        if has_relation or len(line.text) <= _MAX_FORMULA_LINE:
            known = variables if line.is_code else ()
            scanner.scan(tokenize(_ASIDE.sub(" ", line.text), known), number, line.place)
        else:
            scanner.joins = False  # prose
    return scanner.runs


class _RunScanner:
    """Collects the runs of lines, with the words before each of them."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.joins = False  # nothing but line ends is between the last run and what follows
        self._tokens: list[Token] = []
        self._caption, self._depth = "", 0

    def scan(self, tokens: list[Token], number: int, place: Place) -> None:
        """Add the runs of a line."""
        words: list[str] = []
        for k, token in enumerate(tokens):
            is_listed = self._depth > 0 and token.kind == "punct" and token.text in ",;"
            is_label = token.text == ":" and token.kind == "punct"
            is_after_break = k > 0 and tokens[k - 1].kind == "break" and not self._tokens
            if is_label and is_after_break and _is_last(tokens, k):
                self._resume(number)  # $X$: and its matrix in the next line
            is_label = is_label and (
                _is_value_next(tokens, k) or (bool(self._tokens) and _is_last(tokens, k))
            )
            if token.kind in _MATH or is_listed or is_label:
                if not self._tokens:
                    self._caption = " ".join(words)
                self._tokens.append(Token("rel", ":") if is_label else token)
                self._depth += (token.kind == "open") - (token.kind == "close")
                self._depth = max(self._depth, 0)
            elif token.kind == "break" and self._tokens and _leads_to_value(tokens, k):
                self._tokens.append(Token("rel", "="))
            elif token.kind == "break":
                if not self._depth or k + 1 == len(tokens):
                    self._end(number, place)
            else:
                self._end(number, place)
                self.joins = False
                is_end = token.kind == "punct" and token.text in ".;!?"
                if is_end or (token.kind == "word" and token.text.lower() in _CONSEQUENCES):
                    words = []
                elif token.kind == "word":
                    words.append(token.text)
                elif token.text == ",":
                    words = words[-12:]
        self._end(number, place)

    def _resume(self, number: int) -> None:
        """Continue the run that a break has ended in this line."""
        if self.joins and self.runs and self.runs[-1].line == number:
            run = self.runs.pop()
            self._tokens, self._caption, self.joins = run.tokens, run.caption, run.joins

    def _end(self, number: int, place: Place) -> None:
        if self._tokens:
            self.runs.append(Run(self._tokens, self._caption, number, place, self.joins))
            self.joins = True
        self._tokens, self._depth = [], 0


def _is_last(tokens: list[Token], k: int) -> bool:
    return all(token.kind == "break" for token in tokens[k + 1 :])


def _leads_to_value(tokens: list[Token], k: int) -> bool:
    """Return True for an arrow right before a matrix: softmax → [0.3, 0.7]."""
    is_arrow = tokens[k].text not in ("\v", "|", "│", "¦", "•")
    return is_arrow and k + 1 < len(tokens) and tokens[k + 1].kind == "grid"


def _is_value_next(tokens: list[Token], k: int) -> bool:
    after = next((token for token in tokens[k + 1 :] if token.kind != "break"), None)
    return after is not None and after.kind == "grid"


def find_statements(source: Source) -> list[Statement]:
    """Return the statements of a document in order, with their values and labels."""
    statements: list[Statement] = []
    sections = _number_sections(source)
    known: dict[str, Rows] = {}
    for run in _join_runs(find_runs(source)):
        for tokens in _split_statements(run.tokens, source.grids, known):
            elements = [tuple(element) for element in _split_at_relations(tokens)]
            if not elements:
                continue
            if len(elements) == 1 and statements and _is_product(elements[0]):
                previous = statements[-1]
                if (
                    previous.value is None
                    and not previous.problem
                    and run.joins
                    and len(previous.elements) > 1
                ):
                    previous.elements.append(elements[0])  # $$Q = X W_Q$$, then $$[A] × [B]$$
                    continue
            if len(elements) == 1 and not _is_worth_reading(
                elements[0], source.lines[run.line].text
            ):
                continue
            statement = Statement(elements, run.caption, run.line, run.place, sections[run.line])
            _read_value(statement, source)
            _drop_divisor(statement)
            if not statement.label and _is_bare(statement):
                statement.label = _find_label(source, run.line)
                _take_name(statement, source.lines)
            statements.append(statement)
            first = statement.elements[0][0] if statement.elements[0] else None
            if first is not None and first.symbol is not None and statement.value is not None:
                known[first.symbol.name] = statement.value
    return statements


def _is_worth_reading(element: Element, line: str) -> bool:
    """Return True for a matrix, and for a number beside an equation: exp(2) = 7.39, together 10."""
    if any(token.kind == "grid" for token in element):
        return True
    return len(element) == 1 and element[0].kind == "num" and ("=" in line or "≈" in line)


def _is_product(element: Element) -> bool:
    grids = [token for token in element if token.kind == "grid"]
    return len(grids) == 2 and all(t.kind == "grid" or t.text in "×·*@" for t in element)


def _number_sections(source: Source) -> list[int]:
    numbers, section = [], 0
    for line in source.lines:
        section += line.level > 0
        numbers.append(section)
    return numbers


def _join_runs(runs: Sequence[Run]) -> list[Run]:
    """Join a run that begins with a relation to the runs before it, as far back as they join."""
    joined: list[Run] = []
    for run in runs:
        previous = joined[-1] if joined else None
        is_continuation = (
            run.tokens[0].kind == "rel" and len(run.tokens) > 1 and run.tokens[0].text != ":"
        )
        awaits = previous is not None and previous.tokens[-1].kind == "rel"
        if (
            previous is not None
            and is_continuation
            and run.joins
            and (run.line - previous.last_line) <= 8
        ):
            parts = [joined.pop()]
            while (
                not any(token.kind == "rel" for token in parts[0].tokens)
                and parts[0].joins
                and joined
                and _is_formula_part(parts[0])
                and parts[0].line - joined[-1].last_line <= 2
            ):
                parts.insert(0, joined.pop())
            tokens = [token for part in parts for token in part.tokens]
            joined.append(replace(parts[0], tokens=[*tokens, *run.tokens], last_line=run.line))
        elif (
            previous is not None
            and awaits
            and _is_awaited(previous, run)
            and run.line - previous.last_line <= 6
            and (run.joins or run.tokens[0].kind == "grid")
        ):
            joined[-1] = replace(
                previous, tokens=[*previous.tokens, *run.tokens], last_line=run.line
            )
        elif previous is not None and _is_value_below(previous, run):
            joined[-1] = replace(
                previous,
                tokens=[*previous.tokens, Token("rel", "="), *run.tokens],
                last_line=run.line,
            )
        elif run.tokens == [Token("rel", "=")] and previous is not None and run.joins:
            parts = [joined.pop()]
            while (
                not any(token.kind == "rel" for token in parts[0].tokens)
                and parts[0].joins and joined and _is_formula_part(parts[0])
            ):  # fmt: skip
                parts.insert(0, joined.pop())
            tokens = [token for part in parts for token in part.tokens]
            joined.append(replace(parts[0], tokens=[*tokens, *run.tokens], last_line=run.line))
        elif (
            previous is not None
            and run.joins
            and previous.tokens[-1].text in ("×", "*", "·")
            and run.tokens[0].kind == "grid"
        ):
            joined[-1] = replace(
                previous, tokens=[*previous.tokens, *run.tokens], last_line=run.line
            )
        else:
            joined.append(run)
    return joined


def _is_awaited(previous: Run, run: Run) -> bool:
    """Return True if a run completes one that ends with a relation; a colon awaits a matrix."""
    return previous.tokens[-1].text != ":" or run.tokens[0].kind == "grid"


def _is_value_below(previous: Run, run: Run) -> bool:
    """Return True for a matrix alone in the line below Z = A V, an equation that fills its line."""
    is_alone = len(run.tokens) == 1 and run.tokens[0].kind == "grid" and run.joins
    if not is_alone or previous.caption or not 0 < run.line - previous.last_line <= 2:
        return False
    kinds = [token.kind for token in previous.tokens]
    is_equation = kinds.count("rel") == 1 and "grid" not in kinds and kinds[0] in ("sym", "func")
    right = previous.tokens[kinds.index("rel") + 1 :] if is_equation else []
    return len(right) > 1 and any(token.kind in ("sym", "func") for token in right)


def _is_formula_part(run: Run) -> bool:
    return not any(token.kind == "grid" for token in run.tokens) and len(run.tokens) < 12


def _split_statements(
    tokens: list[Token], grids: Sequence[Grid], known: Mapping[str, Rows]
) -> Iterator[list[Token]]:
    """Yield the statements of a run: X = [matrix] W_Q = [matrix] are two.

    `known` has the matrices so far: Z = [matrix] V = [matrix] is a product if V is another one.
    """
    start = 0
    relations = [k for k, token in enumerate(tokens) if token.kind == "rel"]
    for first, second in pairwise(relations):
        between = tokens[first + 1 : second]
        if (
            len(between) >= 2
            and between[0].kind in ("grid", "num")
            and between[1].kind in ("sym", "func")
            and all(
                token.kind in ("sym", "func", "open", "close", "punct") for token in between[1:]
            )
            and any(token.kind == "sym" for token in tokens[start:first])
            and not (between[0].kind == "num" and len(between) < 2)
            and not _is_projected(tokens[start:first], between[1])
            and not _is_known_factor(tokens[start:first], between[1], tokens[second:], grids, known)
        ):
            yield tokens[start : first + 2]
            start = first + 2
    yield tokens[start:]


def _is_projected(left: Sequence[Token], factor: Token) -> bool:
    """Return True for O = [matrix] W_O = …, a product and not two statements."""
    names = [token.symbol.name for token in left if token.symbol is not None]
    is_output = bool(names) and not names[-1].startswith(("W", "X"))
    return is_output and factor.symbol is not None and factor.symbol.name in ("W_O", "W_o")


_LEFT_OF_FACTOR = {"V": r"[^QKVXW].*", "W_Q": "[Qq]", "W_K": "[Kk]", "W_V": "[Vv]"}


def _is_known_factor(
    left: Sequence[Token],
    factor: Token,
    after: Sequence[Token],
    grids: Sequence[Grid],
    known: Mapping[str, Rows],
) -> bool:
    """Return True for Z = [weights] V = [matrix] where V has other numbers."""
    names = [token.symbol.name for token in left if token.symbol is not None]
    name = factor.symbol.name if factor.symbol is not None else ""
    pattern = _LEFT_OF_FACTOR.get(name)
    if not names or pattern is None or name not in known or not re.fullmatch(pattern, names[-1]):
        return False
    values = [grids[token.grid].rows for token in after[1:2] if token.kind == "grid"]
    return bool(values) and values[0] != known[name]


def _split_at_relations(tokens: list[Token]) -> Iterator[list[Token]]:
    element: list[Token] = []
    depth = 0
    for token in tokens:
        depth += (token.kind == "open") - (token.kind == "close")
        if token.kind == "rel" and depth <= 0:
            yield element
            element = []
        else:
            element.append(token)
    yield element


def _read_value(statement: Statement, source: Source) -> None:
    """Set the value of a statement: its last element that is a matrix or a number alone."""
    for element in reversed(statement.elements):
        literal = read_literal(element, source.grids)
        if literal is None:
            continue
        rows, problem, grid = literal
        if statement.value is None and not statement.problem:
            statement.value, statement.problem, statement.value_grid = rows, problem, grid
        elif rows is not None:
            statement.reprints.append(rows)


def read_literal(element: Element, grids: Sequence[Grid]) -> tuple[Rows | None, str, int] | None:
    """Return the rows of an element that is one matrix or number, or why it is not readable."""
    tokens = list(element)
    while tokens and tokens[0].kind == "open" and tokens[-1].kind == "close":
        tokens = tokens[1:-1]
    if len(tokens) == 1 and tokens[0].kind == "grid":
        grid = grids[tokens[0].grid] if tokens[0].grid < len(grids) else None
        if grid is None or (not grid.rows and not grid.problem):
            return None
        if not grid.rows and grid.problem == "it has no numbers":
            return None
        rows = (
            [list(row) for row in zip(*grid.rows, strict=True)] if tokens[0].symbol else grid.rows
        )
        return (rows or None), grid.problem, tokens[0].grid
    if not tokens or any(
        token.kind not in ("num", "op", "sym", "open", "close", "func") for token in tokens
    ):
        return None
    text = "".join(token.text for token in tokens)
    if re.fullmatch(
        r"[+-]?[\d.,]+(?:e[+-]?\d+)?(?:\s?[×x*·]\s?10\s?\^\s?\{?\s?[+-]?\d+\}?)?\s?%?|[+-]?∞",
        text,
        re.IGNORECASE,
    ):
        cell = read_cell(text.strip(",."))
        return ([[cell]], "", -1) if cell is not None and cell != "?" else None
    if (len(tokens) > 1 and "e" in text) or "√" in text:
        value = evaluate_constant(text)
        if value is not None and is_number(f"{value:.12g}"):
            return [[f"{value:.12g}"]], "", -1
    return None


def _drop_divisor(statement: Statement) -> None:
    """Drop √d_k = √2 before a matrix: "Divide by √2:" names it, and not the root."""
    if statement.value_grid < 0 or statement.value is None or len(statement.value) < 2:
        return
    kept = [element for element in statement.elements if not _is_root(element)]
    if len(kept) < len(statement.elements) and len(kept) == 1:
        statement.elements = kept


def _is_root(element: Element) -> bool:
    return bool(element) and all(
        token.kind in ("num", "open", "close") or token.text in ("√", "d", "d_k", "dk", "/", "÷")
        for token in element
    )


def _is_bare(statement: Statement) -> bool:
    return len([element for element in statement.elements if element]) == 1


def rename(statement: Statement, name: str) -> None:
    """Give the matrix of a statement another name; none leaves it out."""
    if not name:
        statement.value, statement.problem = None, "it is left out"
        return
    symbol = Token("sym", name, parse_symbol(name))
    statement.elements = [(symbol,), (Token("grid", "", grid=statement.value_grid),)]
    statement.label = ""


def _take_name(statement: Statement, lines: Sequence[Line]) -> None:
    """Make the line above a matrix its name if it is a symbol or formula alone: Q, QK^T / √2."""
    before = (line.text.strip(" \v") for line in reversed(lines[: statement.line]))
    above = next(filter(None, before), "")
    if statement.value_grid < 0 or above != statement.label or len(above) > _MAX_FORMULA_LINE:
        return
    tokens = tokenize(statement.label)
    is_formula = all(
        token.kind in ("sym", "func", "num", "op", "open", "close") for token in tokens
    )
    if is_formula and any(token.kind in ("sym", "func") for token in tokens):
        statement.elements.insert(0, tuple(tokens))
        statement.label = ""
    elif 1 < len(tokens) < 5 and [token.kind for token in tokens] == ["word"] * (
        len(tokens) - 1
    ) + ["sym"]:
        statement.elements.insert(0, (tokens[-1],))  # weight matrix W_Q


def _find_label(source: Source, line: int) -> str:
    """Return the text above a line, for a matrix that has no name in its own."""
    for k in range(line - 1, max(-1, line - 4), -1):
        text = source.lines[k].text.strip(" \v")
        if text and source.lines[k].level:
            return text[:200]
        text = _drop_remarks(text)
        if text:
            after = re.split("\ue001|=", text)[-1].strip(" ,;.\v")
            return after[-200:] if after and not after[0].isdigit() else ""
    return ""


def _drop_remarks(text: str) -> str:
    """Return a caption without an equation in parentheses: "Weights (rows = queries):"."""
    bare = _REMARK.sub(" ", re.sub(r"(?<=\w)\([^()]*\)", "", text))
    return " ".join(bare.split()) if text.endswith(":") and _LETTERS.search(bare) else text


def format_element(element: Sequence[Token]) -> str:
    """Return the text of an element; matrices as [·]."""
    return " ".join("[·]" if token.kind == "grid" else token.text for token in element)
