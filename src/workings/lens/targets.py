"""A text that a model wrote, or is said to have written, token by token."""

from collections.abc import Sequence
from dataclasses import dataclass

from workings.data.tokenizer import Tokenizer
from workings.lens.pieces import read_pieces, written_pieces
from workings.tasks.translate import Translating
from workings.tasks.writing import Written


@dataclass(frozen=True)
class Target:
    """A translation or a caption: its tokens, and what each of them adds to the text."""

    text: str
    tokens: Sequence[int]
    pieces: Sequence[str]


def target_of(tokenizer: Tokenizer, given: Written | str) -> Target:
    """What a model wrote, by the tokens that it chose; somebody's text, by those it is read in.

    The two can differ: a model may spell a word otherwise than its tokenizer would.
    """
    if isinstance(given, Written):
        return Target(given.text, given.tokens, written_pieces(tokenizer, given.tokens))
    return Target(given, tokenizer.encode(given), read_pieces(given, tokenizer.spans(given)))


def translation_of(task: Translating, source: str, given: Written | str | None) -> Target:
    """A translation to look into: the model's own, where none is given."""
    if isinstance(given, str):
        given = task.words.cased(given)
    return target_of(task.words.target, task.written(source) if given is None else given)
