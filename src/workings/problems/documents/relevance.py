"""Tell worked examples from other pages with matrices: a regression, a Kalman filter, statistics.

Letters alone are no evidence: X, V and Z = X V are also a principal component analysis.
"""

import re
from collections.abc import Sequence

from workings.problems.documents.dot_products import DOT_PRODUCT
from workings.problems.documents.entries import Entry, get_symbol
from workings.problems.documents.examples import Example
from workings.problems.documents.forms import has_infinity
from workings.problems.documents.words import ROLE_WORDS

_ATTENTION = re.compile(
    r"attention|transformer|soft-?max|aufmerksamkeit|atenci[oó]n|aten[cç][aã]o|attenzione|aandacht"
    r"|注意|アテンション|어텐션|вниман|chú\s+ý|scaled\s+dot|√\s?\(?d_?\{?k|sqrt\(?d_?k",
    re.IGNORECASE,
)
_LAYER_NORM = re.compile(
    r"layer[-\s_]?norm|\bLN\b|transformer|schichtnorm|(?:normali[sz]\w*|norma)\W+(?:\w+\W+){0,3}"
    r"(?:layer|schicht|couche|capa)|normalisation\s+de\s+couche|层归一|レイヤー正規化|γ|\\gamma|gamma",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W\d_]{3,}")
_MAX_WORDS = 3
_STEPS = frozenset({"Q", "K", "V", "scores", "scaled", "masked", "exponentials", "weights"})
_WEIGHTS = frozenset({"W_Q", "W_K", "W_V"})


def keep_worked_examples(examples: Sequence[Example], text: str) -> None:
    """Leave out the numbers of examples that are not about their kind; `text` is of all.

    A text of matrices alone may be a problem of attention.
    """
    words = [word for word in _WORD.findall(text) if word.lower() not in ROLE_WORDS]
    is_about_attention = (
        len(words) <= _MAX_WORDS
        or bool(_ATTENTION.search(text))
        or any(map(_has_own_letters, examples))
    )
    for example in examples:
        is_other = example.kind == "layer_norm" and not (
            _LAYER_NORM.search(text) or any(map(_is_normalised, example.entries))
        )
        if example.kind == "attention":
            is_other = not (is_about_attention and _has_steps(example))
        if is_other:
            example.leave_out()


def _is_normalised(entry: Entry) -> bool:
    """Return True for x̂ and the word; z is also a score of statistics."""
    symbol = get_symbol(entry.statement)
    return entry.role == "normalised" and (symbol is None or symbol.base.lower() != "z")


def _has_own_letters(example: Example) -> bool:
    """Return True for W_Q, for Q with K and V, and for products of Q and K."""
    roles = {entry.role for entry in example.entries}
    has_product = any(
        entry.role in ("scores", "scaled", "weights") and entry.evidence in ("formula", DOT_PRODUCT)
        for entry in example.entries
    )
    is_product = {"Q", "K"} <= roles and (has_product or "V" in roles)
    return example.kind == "attention" and (bool(roles & _WEIGHTS) or is_product)


def _has_steps(example: Example) -> bool:
    """Return False for x = … and y = … alone, and where nothing but −∞ is printed."""
    return any(
        any(not has_infinity([[cell]]) for row in entry.rows or [["?"]] for cell in row)
        for entry in example.entries
    ) and any(
        entry.role in _STEPS | _WEIGHTS or (entry.role != "X" and entry.evidence != "letter")
        for entry in (*example.entries, *example.inherited)
    )
