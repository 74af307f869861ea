"""Read a dot product that is written out between two vectors: 1·4 + 3·1 + 2·1 = 9."""

import re
from collections.abc import Sequence

from workings.problems.documents.chains import Statement
from workings.problems.documents.entries import Entry, is_scalar, is_vector, to_row
from workings.problems.documents.symbols import Element
from workings.problems.documents.words import find_caption_role

DOT_PRODUCT = "dot product"  # the evidence that names its two vectors
_PRODUCTS = re.compile(r"n\*n(?:\+n\*n)+")
_MAX_DISTANCE = 4  # statements between a vector and the product


def read_dot_product(statement: Statement, before: Sequence[Statement]) -> list[Entry]:
    """Return the two vectors, as X and context, and their dot product; [] if it is none."""
    is_named = statement.label and find_caption_role(statement.label) == "scores"
    if not is_named or not is_scalar(statement.value):
        return []
    for element in statement.elements:
        factors = _list_factors(element)
        vectors = [
            other
            for other in before[-_MAX_DISTANCE:]
            if is_vector(other.value) and other.section == statement.section
        ]
        if not factors or len(vectors) < 2:
            continue
        first, second = vectors[-2:]
        printed = [to_row(vector.value or []) for vector in (first, second)]
        if factors in (printed, printed[::-1]):
            return [
                Entry("X", [printed[0]], first, DOT_PRODUCT, row=0),
                Entry("context", [printed[1]], second, DOT_PRODUCT, row=0),
                Entry("scores", statement.value, statement, "formula", row=0, column=0),
            ]
    return []


def _list_factors(element: Element) -> list[list[str]]:
    """Return the first and the second factors of a sum of products of numbers."""
    kinds = "".join(
        "n" if t.kind == "num" else "*" if t.text in "·*×" else t.text[:1] for t in element
    )
    if not _PRODUCTS.fullmatch(kinds):
        return []
    numbers = [token.text for token in element if token.kind == "num"]
    return [numbers[::2], numbers[1::2]]
