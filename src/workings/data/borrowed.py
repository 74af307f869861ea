"""Somebody else's byte pairs: their tokens, under their numbers."""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from workings.data.byte_pair import BytePair
from workings.errors import UserError


class Borrowed(BytePair):
    """Byte pairs as GPT-2 has them: no specials of ours, and one token that parts texts.

    That token begins a text, ends it and fills up what is shorter. No text can spell it, and
    nothing is unknown.
    """

    kind = "borrowed byte-pair"
    first_specials: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self, vocabulary: Sequence[str], *, merges: Sequence[tuple[str, str]], parting: int
    ) -> None:
        super().__init__(vocabulary, merges=merges)
        if not 0 <= parting < len(vocabulary):
            raise UserError(
                f"id {parting} is to part texts: the vocabulary has {len(vocabulary):,}"
            )
        self.pad = self.start = parting
        self.unknown = -1

    def decode(self, ids: Iterable[int]) -> str:
        return super().decode(i for i in ids if i != self.start)

    @property
    def stop(self) -> int | None:
        return self.start

    def to_table(self) -> dict[str, Any]:
        return super().to_table() | {"parting": self.start}

    @classmethod
    def from_table(cls, table: dict[str, Any]) -> "Borrowed":
        merges = [(str(a), str(b)) for a, b in table["merges"]]
        return cls(table["vocabulary"], merges=merges, parting=int(table["parting"]))
