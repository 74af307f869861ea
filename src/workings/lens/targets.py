"""A text that a model wrote, or is said to have written, token by token."""

from collections.abc import Sequence
from dataclasses import dataclass

from workings.data.tokenizer import Tokenizer
from workings.data.words import Words
from workings.lens.pieces import read_pieces, written_pieces
from workings.tasks.writing import Written


@dataclass(frozen=True)
class Target:
    """A translation or a caption, and its tokens: their ids, and where they stand in the text.

    `names` has the tokens themselves, `pieces` what they add: the blanks before words, too.
    """

    text: str
    tokens: Sequence[int]
    names: Sequence[str]
    pieces: Sequence[str]


def target_of(tokenizer: Tokenizer, given: Written | str) -> Target:
    """What a model wrote, by the tokens that it chose; somebody's text, by those it is read in.

    The two can differ: a model may spell a word otherwise than its tokenizer would.
    """
    if isinstance(given, str):
        spans = tokenizer.spans(given)
        names = [given[a:b] for a, b in spans]
        return Target(given, tokenizer.encode(given), names, read_pieces(given, spans))
    pieces = written_pieces(tokenizer, given.tokens)
    names = [piece.lstrip() for piece in pieces] if isinstance(tokenizer, Words) else pieces
    return Target(given.text, given.tokens, names, pieces)
