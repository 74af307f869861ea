r"""Parse formulas such as `softmax(QK^T / \sqrt{d_k}) V`: their symbols, steps and conventions.

A symbol is a role (Q, `Kᵀ` if it is transposed), `softmax`, `sigmoid`, an operator or any other
name. The letters of a document take precedence over the usual ones: after `P = QK^T`, P is the
scores.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from workings.problems.documents.latex import to_plain_text

_ALIASES = {
    "X": "x input inputs embedding embeddings",
    "context": "context c memory",
    "Q": "q query queries",
    "K": "k key keys",
    "V": "v value values",
    "scores": "scores score s e l similarity similarities energies logits attentionscores",
    "scaled": "scaled scaledscores",
    "masked": "masked maskedscores",
    "weights": "weights a a' alpha α p attentionweights attnweights attn probabilities",
    "mixed": "mixed z head attention contextvector contextvectors",
    "output": "output outputs out y o result",
    "mask": "mask m",
    "W_Q": "wq wquery wqueries",
    "W_K": "wk wkey wkeys",
    "W_V": "wv wvalue wvalues",
    "W_O": "wo w0 wout woutput",
    "b_Q": "bq bquery",
    "b_K": "bk bkey",
    "b_V": "bv bvalue",
    "b_O": "bo b0 bout boutput",
}
ATTENTION_ROLES = {word: role for role, words in _ALIASES.items() for word in words.split()}
NORMALIZERS = frozenset({"softmax", "sigmoid"})
PROJECTIONS = ("Q", "K", "V")
_NO_ROLES: Mapping[str, str] = {}

_SYMBOL = re.compile(
    r"\\?[A-Za-zα-ω]+(?:[_^](?:\(\w{1,20}\)|\\?[A-Za-z0-9]{1,20}))*(?:\^?')*(?:\^T|\.T\b|ᵀ)?"
    r"|[()/+@*×·√]|\d+(?:\.\d+)?"
)
_TRANSPOSE = re.compile(r"(?:\^T|\.T|ᵀ)$")
_TIMES = frozenset("×·*@")
_WORD = re.compile(r"(?<![\\\w^_.])[A-Za-z]{3,}(?![\w^_'])")
# Words of formulas and of program code that are no prose.
_CODE_WORDS = """
softmax sigmoid sqrt exp concat concatenate cat torch numpy math matmul dot dim axis mask transpose
functional head heads attention multihead mha rowsoftmax norm layernorm relu tanh inf sum masked
where tril triu ones tilde hat bar
"""
_FUNCTION_WORDS = frozenset(_CODE_WORDS.split())
D_K_NAMES = frozenset({"d", "dk", "dkey", "dhead", "dh", "dq"})


@lru_cache(4096)
def normalize_name(name: str) -> str:
    r"""Remove markup and punctuation from a name: `W_{Q}`, `W^Q` and `W_Q` become WQ.

    >>> normalize_name(r"\mathbf{W}^{(Q)}")
    'WQ'
    """
    return re.sub(r"[^\w']|_", "", to_plain_text(name))


def split_transpose(name: str) -> tuple[str, bool]:
    """Return a name without a sign of transposition, and whether it has one."""
    bare = _TRANSPOSE.sub("", name)
    return bare, bare != name


def parse_formula(text: str, roles: Mapping[str, str] = _NO_ROLES) -> list[str]:
    r"""Split a formula into symbols; `roles` has those of the document by normalized name.

    >>> parse_formula(r"\text{softmax}\left(\frac{QK^T}{\sqrt{d_k}}\right) V")
    ['softmax', '(', 'Q', 'Kᵀ', '/', '√', 'd_k', ')', 'V']
    >>> parse_formula("B V", {"B": "weights"})
    ['weights', 'V']
    """
    symbols = _SYMBOL.findall(to_plain_text(text))
    parse = _parse_usual_symbol if not roles else lambda symbol: _parse_symbol(symbol, roles)
    return [part for symbol in symbols for part in parse(symbol)]


@lru_cache(4096)
def _parse_usual_symbol(symbol: str) -> tuple[str, ...]:
    return _parse_symbol(symbol, _NO_ROLES)


def _parse_symbol(symbol: str, roles: Mapping[str, str]) -> tuple[str, ...]:
    """Return the role of a symbol; adjacent capitals are a product: QKᵀ is Q, Kᵀ."""
    bare, is_transposed = split_transpose(symbol)
    name = normalize_name(bare)
    if name.lower() in NORMALIZERS:
        return (name.lower(),)
    if symbol in ("√", "\\sqrt", "sqrt"):
        return ("√",)
    role = roles.get(name) or ATTENTION_ROLES.get(name.lower())
    if role is not None:
        return (role + "ᵀ" * is_transposed,)
    is_product = symbol[:1].isupper() and symbol[1:2].isupper() and len(symbol) < 20
    if is_product and (symbol[0] in roles or symbol[0].lower() in ATTENTION_ROLES):
        return (*_parse_symbol(symbol[0], roles), *_parse_symbol(symbol[1:], roles))
    return (symbol,)


def is_prose(text: str) -> bool:
    """Return True if a text has words that are neither matrices nor functions.

    >>> is_prose("the softmax of each row"), is_prose("softmax(scores / sqrt(d_k))")
    (True, False)
    """
    words = (word.lower() for word in _WORD.findall(to_plain_text(text)))
    return any(word not in ATTENTION_ROLES and word not in _FUNCTION_WORDS for word in words)


def is_role(symbol: str) -> bool:
    """Return True if a symbol of a formula is a matrix of the problem, perhaps transposed."""
    return symbol.removesuffix("ᵀ") in _ALIASES


def parse_product(formula: list[str]) -> tuple[str, ...]:
    """Return the factors of a product such as X W_Q; () if the formula is anything else."""
    names = tuple(symbol for symbol in formula if symbol not in _TIMES)
    return names if len(names) > 1 and all(map(is_role, names)) else ()


def split_factors(formula: list[str]) -> tuple[str, str] | None:
    """Return the two factors of a product of names, known or unknown; None for anything else."""
    names = [symbol for symbol in formula if symbol not in _TIMES]
    is_name = all(re.match(r"\\?[A-Za-zα-ω]", n) and n not in NORMALIZERS for n in names)
    return (names[0], names[1]) if len(names) == 2 and is_name else None


def is_computation(formula: list[str]) -> bool:
    """Return True if a formula computes something, False for prose such as "the softmax we add".

    >>> [is_computation(parse_formula(text)) for text in ("softmax(S)", "S / 8", "softmax we add")]
    [True, True, False]
    """
    for before, symbol, after in zip(["", *formula], formula, [*formula[1:], ""], strict=False):
        is_call = symbol in NORMALIZERS and (is_role(after) or after in ("", "("))
        are_digits = before.isdigit() and after.isdigit()
        is_operation = symbol in "/+" and before and after and not are_digits
        if is_call or is_operation or symbol == "√":
            return True
    return False


def mentions_matrix(formula: list[str]) -> bool:
    """Return True if a formula has a matrix or a softmax."""
    return any(is_role(symbol) or symbol in NORMALIZERS for symbol in formula)


def infer_step(formula: list[str]) -> str | None:
    """Return the step of attention that a formula computes, or None."""
    symbols = frozenset(symbol.removesuffix("ᵀ") for symbol in formula)
    if "W_O" in symbols and len(symbols) > 1:
        return "output"
    if symbols & NORMALIZERS:
        return "mixed" if "V" in symbols else "weights"
    factors = split_factors(formula)
    if {"V", "weights"} <= symbols:
        return "mixed"
    if factors and "V" in factors and not symbols & {"X", "context"}:  # with another letter
        return "mixed"
    has_scores = "scores" in symbols and symbols & {"/", "mask"}
    if {"Q", "K"} <= symbols or has_scores or {"scaled", "mask"} <= symbols:
        is_scaled = symbols & {"/", "√", "scaled"}
        return "masked" if "mask" in symbols else "scaled" if is_scaled else "scores"
    for name in PROJECTIONS:
        if f"W_{name}" in symbols and symbols & {"X", "context"}:
            return name
    return None


def infer_vectors(products: Iterable[tuple[str, ...]]) -> str | None:
    """Return "rows" or "columns" from the order of factors: X W_Q or W_Q X; None if it is open.

    >>> infer_vectors([("W_Q", "X"), ("Kᵀ", "Q")]), infer_vectors([("Q", "Kᵀ")])
    ('columns', 'rows')
    """
    weights = {"W_Q", "W_K", "W_V", "W_O"}
    rows: dict[bool, set[bool]] = {True: set(), False: set()}  # by whether a weight decides
    for product in products:
        if len(product) != 2:
            continue
        first, second = product
        if first in weights or second in weights:
            rows[True].add(second in weights)
        elif set(product) in ({"Q", "Kᵀ"}, {"weights", "V"}):
            rows[False].add(first in ("Q", "weights"))
        elif product == ("Qᵀ", "K"):
            rows[False].add(False)
    for orders in (rows[True], rows[False]):
        if len(orders) == 1:
            return "rows" if orders.pop() else "columns"
    return None


@dataclass(frozen=True)
class Divisor:
    """What a formula divides the scores by: a root or not; of d_k, a number or something else."""

    is_root: bool
    is_d_k: bool
    number: float | None
    name: str = ""  # of anything else

    @property
    def value(self) -> float | None:
        """The number to divide by, if it is written."""
        return self.number and (math.sqrt(self.number) if self.is_root else self.number)

    def is_default(self, d_k: int) -> bool:
        """Return True if it is √d_k, written with the symbol or the number."""
        if self.is_root:
            return self.is_d_k or self.number == d_k
        return self.number is not None and self.number**2 == d_k


def find_divisor(formula: list[str]) -> Divisor | None:
    r"""Return what a formula divides scores by; None if it does not divide.

    >>> find_divisor(parse_formula(r"\frac{QK^T}{\sqrt{d_k}}"))
    Divisor(is_root=True, is_d_k=True, number=None, name='')
    >>> find_divisor(parse_formula("S / 8")), find_divisor(parse_formula("QK^T"))
    (Divisor(is_root=False, is_d_k=False, number=8.0, name=''), None)
    """
    sign = next((sign for sign in ("√", "/") if sign in formula), None)
    if sign is None:
        return None
    rest = [symbol for symbol in formula[formula.index(sign) + 1 :] if symbol != "("]
    symbol = rest[0] if rest else ""
    number = float(symbol) if re.fullmatch(r"\d+(?:\.\d+)?", symbol) else None
    name = normalize_name(symbol)
    is_d_k = name.lower() in D_K_NAMES
    return Divisor(sign == "√", is_d_k, number, "" if is_d_k or number else name)
