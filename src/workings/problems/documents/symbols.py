"""Split a line into tokens of mathematics and words: symbols, numbers, operators, matrices."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

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
_SCRIPT = (
    r"(?:[_^](?:\{[^{}]{1,40}\}|\(\w{1,12}\)|[+-]?\w{1,24}'{0,2}|[⊤])"
    r"|'{1,2}(?![^\W\d_])|\.T(?![A-Za-z]))"
)
_TOKEN = re.compile(
    rf"\ue000(?P<grid>\d+)\ue001(?P<after>(?:\^\{{?T\}}?|\.T)?)"
    r"|(?P<num>(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\d,])|\d+(?:[.,]\d+)?|\.\d+)(?:e[+-]?\d+)?"
    r"(?:\s?[×x*·]\s?10\s?\^\s?\{?\s?[+-]?\d+\}?)?\s?%?)"
    rf"|(?P<ident>(?:[∂∇]\s?)?(?:[^\W\d_][\u0300-\u036f]?)+\d{{0,3}}(?:[^\W\d_])*{_SCRIPT}*)"
    r"|(?P<break>[\v|│¦•]|-{1,2}>|=>|[⇒→⟹⟶])"
    r"|(?P<rel>:=|≔|==|=|≈|≃|≅|≡|←|~(?=\s*[-\d\ue000]))"
    r"|(?P<op>[-+*/^@×·⊙∘⊕⊗÷√∞±])"
    r"|(?P<open>[(\[{⟨])|(?P<close>[)\]}⟩])"
    r"|(?P<punct>[.,;:!?…])|(?P<other>\S)",
    re.IGNORECASE,
)
_PROSE_AFTER = re.compile(r"-[^\W\d_]|\s+(?:[a-zà-ÿ]{2,}(?![_(])|[а-яё])")
_CALL = re.compile(r"\(+\s*[QKSXAEPM](?![a-z])")  # of a function that nobody knows: norm(QK^T)
_LETTER = re.compile(r"[A-Za-zα-ωΑ-Ω]")
_LETTER_NUMBER = re.compile(r"([A-Za-zα-ω])[\u0300-\u036f]?(\d{1,3})")
_WEIGHT = re.compile(
    r"([Ww])([QKVOqkvoxh]|hh|xh|[ifogczrn12])|([Uu])([xhifogczr])|(b)([QKVOifogczr])"
    r"|(d)(k|v|q|model|h)"
)
_CAPITALS = re.compile(r"[QKVXWAZSOPHEYMCTB]{2,5}")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_ACCENT = re.compile(r"[\u0300-\u036f]")
_SOFTMAX = re.compile(r"(?!.*(?:log|grad|back|deriv|jacob))\w*softmax\w*", re.IGNORECASE)


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


Element = tuple[Token, ...]


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
            following = text[match.end() : match.end() + 12]
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
    if base == "qk" and scripts:
        return _split_capitals(base, "".join(scripts))
    if (scripts and letters.isascii()) or (_CALL.match(following) and bare not in ROLE_WORDS):
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


MATH = frozenset({"grid", "num", "sym", "func", "rel", "op", "open", "close"})


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
            beside = [t.kind in MATH for t in (*tokens[max(0, k - 1) : k], *tokens[k + 1 : k + 2])]
            if all(beside):
                continue  # a bracket that the extraction lost the other half of
            token = Token("punct", ";")
        out.append(token)
    return out


def format_element(element: Sequence[Token]) -> str:
    """Return the text of an element; matrices as [·]."""
    return " ".join("[·]" if token.kind == "grid" else token.text for token in element)
