"""What is scored: a hypothesis a sentence, and one or more references for each."""

from collections.abc import Sequence
from typing import TypeAlias

from workings.errors import UserError

References: TypeAlias = Sequence[str] | Sequence[Sequence[str]]


def expect_as_many(texts: Sequence[object], hypotheses: Sequence[str], what: str) -> None:
    """Stop lists that cannot belong together, sentence by sentence.

    >>> expect_as_many(["ein Hund"], ["a dog", "a cat"], "sources")
    Traceback (most recent call last):
    workings.errors.UserError: expected as many sources as hypotheses (2), got 1
    """
    if isinstance(texts, str) or isinstance(hypotheses, str):
        raise UserError("expected a list with a text for each sentence, got one text")
    if len(texts) != len(hypotheses):
        raise UserError(
            f"expected as many {what} as hypotheses ({len(hypotheses)}), got {len(texts)}"
        )


def lists_of_references(hypotheses: Sequence[str], references: References) -> list[tuple[str, ...]]:
    """Give every sentence a list of references, of which there may be one; check that all fits.

    >>> lists_of_references(["a dog", "a cat"], ["one dog", ["one cat", "the cat"]])
    [('one dog',), ('one cat', 'the cat')]
    """
    expect_as_many(references, hypotheses, "references")
    if not hypotheses:
        raise UserError("there is nothing to score: expected at least one hypothesis")
    lists = [tuple(r) if isinstance(r, list | tuple) else (r,) for r in references]
    if not all(lists):
        raise UserError(f"sentence {lists.index(()) + 1} has no reference")
    for number, texts in enumerate(zip(hypotheses, lists, strict=True), 1):
        if not all(isinstance(text, str) for text in (texts[0], *texts[1])):
            raise UserError(f"expected texts, got something else for sentence {number}")
    return lists
