"""Which characters count as which, by a table of SentencePiece's; and spaces as one.

The table is a trie in one array (Darts-clone's): a node's children stand at its place, exclusive-or
its offset and the next byte. What a key leads to is a place in a list of texts that end with zeros.
"""

import struct
from typing import NamedTuple

from workings.errors import UserError

SPACE = "▁"


class Folded(NamedTuple):
    """A text as it counts, and where each of its characters stands in the original."""

    text: str
    spans: list[tuple[int, int]]


class Folding:
    """Replaces the longest prefix that the table knows, again and again; nothing, by no table.

    >>> Folding().fold(" a  b ")
    Folded(text='▁a▁b', spans=[(1, 1), (1, 2), (2, 4), (4, 5)])
    """

    def __init__(self, table: bytes = b"") -> None:
        self.table = table
        size = int.from_bytes(table[:4], "little")
        if table and (size % 4 or not 0 < size <= len(table) - 4):
            raise UserError("the table of characters is damaged")
        self._units = struct.unpack(f"<{size // 4}I", table[4 : 4 + size])
        self._texts = table[4 + size :]

    def fold(self, text: str) -> Folded:
        """Replace characters, leave out spaces at the ends, make one of many, put one before."""
        found: list[tuple[str, int, int]] = []
        place = 0
        while place < len(text):
            count, replaced = self._longest(text, place)
            for character in replaced:
                if character != " ":
                    found.append((character, place, place + count))
                elif found and found[-1][0] != SPACE:
                    found.append((SPACE, place, place + count))
                elif found:
                    found[-1] = (SPACE, found[-1][1], place + count)
            place += count
        if found and found[-1][0] == SPACE:
            found.pop()
        if not found:
            return Folded("", [])
        first = found[0][1]
        spans = [(first, first), *((begin, end) for _, begin, end in found)]
        return Folded(SPACE + "".join(character for character, _, _ in found), spans)

    def _longest(self, text: str, place: int) -> tuple[int, str]:
        """How many characters are replaced here, and by what: one by itself, if none is known."""
        best, units = (1, text[place]), self._units
        node = _offset(units[0]) if units else len(units)
        for count in range(1, len(text) - place + 1):
            for byte in text[place + count - 1].encode("utf-8"):
                node ^= byte
                if node >= len(units) or units[node] & 0x800000FF != byte:
                    return best
                unit = units[node]
                node ^= _offset(unit)
            if unit >> 8 & 1 and node < len(units):  # a key ends here
                best = count, self._text(units[node] & 0x7FFFFFFF)
        return best

    def _text(self, begin: int) -> str:
        end = self._texts.find(b"\0", begin)
        return self._texts[begin : end if end >= 0 else None].decode("utf-8", "replace")


def _offset(unit: int) -> int:
    return (unit >> 10) << ((unit & 0x200) >> 6)
