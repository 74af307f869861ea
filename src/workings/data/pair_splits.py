"""Pairs taken apart into train, validation and test, and cleaned: no sentence is on two sides.

One English sentence may have ten French ones, each of which has English ones of its own: pairs that
share a sentence, directly or through others, go together. Capitals and punctuation make no other
sentence of it: "Run!" learnt is "Run." known.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from workings.data.pair_files import Pair
from workings.data.splits import checksum_of, fraction
from workings.errors import UserError

SHORT = 3
"""Words that a shorter side counts for at least when sides are compared: "Help!", "À l'aide !"."""

SIGNS = "\u3040-\u30ff\u3400-\u9fff"
"""Those of Chinese and Japanese, which are written without blanks between words."""
_WORD = re.compile(f"[{SIGNS}]|[^\\s{SIGNS}]+")


@dataclass(frozen=True)
class Cleaned:
    """What was left of the training pairs, and what was left out, and why."""

    kept: int
    empty: int = 0
    too_long: int = 0
    too_uneven: int = 0
    longest: int = 100

    def told(self) -> str:
        """Say it in a line.

        >>> Cleaned(29_000, empty=3, too_long=12, too_uneven=5).told()
        '29,000 pairs; left out: 3 empty, 12 longer than 100 words, 5 uneven'
        >>> Cleaned(29_000).told()
        '29,000 pairs; none left out'
        """
        reasons = {
            "empty": self.empty,
            f"longer than {self.longest:,} words": self.too_long,
            "uneven": self.too_uneven,
        }
        some = ", ".join(f"{count:,} {why}" for why, count in reasons.items() if count)
        return f"{self.kept:,} pairs; " + (f"left out: {some}" if some else "none left out")


@dataclass(frozen=True)
class PairSplits:
    """A set of pairs, taken apart. Choices are made on `validation`, never on `test`."""

    name: str
    train: tuple[Pair, ...]
    validation: tuple[Pair, ...]
    test: tuple[Pair, ...]
    cleaned: Cleaned

    @property
    def checksum(self) -> str:
        """The SHA-256 of every sentence, part by part, in order."""
        parts = (self.train, self.validation, self.test)
        return checksum_of(((p.source, p.target) for p in part) for part in parts)

    def __repr__(self) -> str:
        counts = (len(self.train), len(self.validation), len(self.test))
        return "PairSplits({!r}: {:,} train, {:,} validation, {:,} test)".format(self.name, *counts)


def count_words(text: str) -> int:
    """Count the words between blanks; each sign of Chinese and Japanese counts for one.

    >>> count_words("Zwei junge Männer"), count_words("两个年轻人")
    (3, 5)
    """
    return len(text.split()) if text.isascii() else len(_WORD.findall(text))


def clean(pairs: Iterable[Pair], longest: int, ratio: float) -> tuple[list[Pair], Cleaned]:
    """Leave out pairs with an empty side, a very long one, or sides that differ too much."""
    kept: list[Pair] = []
    empty = too_long = too_uneven = 0
    for pair in pairs:
        shorter, longer = sorted((count_words(pair.source), count_words(pair.target)))
        if not shorter:
            empty += 1
        elif longer > longest:
            too_long += 1
        elif longer > ratio * max(shorter, SHORT):
            too_uneven += 1
        else:
            kept.append(pair)
    return kept, Cleaned(len(kept), empty, too_long, too_uneven, longest)


class _Bare(dict[int, int]):
    """What a character is in a sentence's key: itself, or a blank for punctuation."""

    def __missing__(self, code: int) -> int:
        mark = unicodedata.category(chr(code))[0] in "PZC"
        return self.setdefault(code, ord(" ") if mark else code)


_BARE = _Bare()


def sentence_key(text: str) -> str:
    """Write a sentence so that it is equal to itself in other capitals and punctuation.

    >>> sentence_key("Va !") == sentence_key("« va. »") != sentence_key("Vas")
    True
    """
    whole = text if text.isascii() else unicodedata.normalize("NFKC", text)
    bare = whole.casefold().translate(_BARE)
    return " ".join(bare.split()) or text


def pair_keys(pair: Pair) -> tuple[tuple[str, str], tuple[str, str]]:
    """Name the two sentences that no other part may have."""
    return ("source", sentence_key(pair.source)), ("target", sentence_key(pair.target))


def together(keys: Iterable[Iterable[Hashable]]) -> list[int]:
    """Number things so that those that share a key, directly or through others, share a number.

    >>> together([["a"], ["b"], ["c"], ["a", "c"]])
    [0, 1, 0, 0]
    """
    parent: list[int] = []
    first: dict[Hashable, int] = {}

    def root(thing: int) -> int:
        while parent[thing] != thing:
            parent[thing] = thing = parent[parent[thing]]
        return thing

    for thing, some in enumerate(keys):
        parent.append(thing)
        for key in some:
            one, other = root(first.setdefault(key, thing)), root(thing)
            if one != other:
                parent[max(one, other)] = min(one, other)
    return [root(thing) for thing in range(len(parent))]


def part_size(share: float, whole: int) -> int:
    """Say how many pairs a share of them is: at least one, if there is to be a part at all."""
    return max(1, round(share * whole)) if share else 0


def hold_out_pairs(
    pairs: Sequence[Pair],
    *counts: int,
    seed: int = 0,
    keys: Sequence[Iterable[Hashable]] | None = None,
) -> tuple[list[Pair], ...]:
    """Hold out up to so many pairs for each part: kept, held out, …, in their order.

    No sentence stands in two of them. Which pairs are held out is a matter of their sentences and
    the seed alone. Pairs that hang together are, if they still fit in, so that a group too large
    for that is kept. Pairs with an empty side are never held out. `keys` says what must not stand
    in two parts where that is more than the sentences.

    >>> pairs = [Pair("go", "va"), Pair("go", "pars"), Pair("leave", "pars"), Pair("run", "cours")]
    >>> hold_out_pairs(pairs, 1)[1]
    [Pair(source='run', target='cours')]
    """
    part_of = [0] * len(pairs)
    room = list(counts)
    groups = _groups(pairs, seed, keys) if any(counts) else []
    for group in groups:
        part = next((part for part, free in enumerate(room, 1) if free >= len(group)), 0)
        if part:
            room[part - 1] -= len(group)
            for i in group:
                part_of[i] = part
    if any(count and count == free for count, free in zip(counts, room, strict=True)):
        if not groups:
            raise UserError(f"of {len(pairs):,} pairs, none has two sides: there are empty lines")
        least = min(map(len, groups))
        raise UserError(
            f"of {len(pairs):,} pairs {' and '.join(f'{c:,}' for c in counts if c)} may be held "
            f"out, but those that share sentences are {least:,} or more: "
            "a larger share, or files of their own"
        )
    parts: tuple[list[Pair], ...] = tuple([] for _ in range(len(counts) + 1))
    for part, pair in zip(part_of, pairs, strict=True):
        parts[part].append(pair)
    return parts


def _groups(
    pairs: Sequence[Pair], seed: int, keys: Sequence[Iterable[Hashable]] | None
) -> list[list[int]]:
    """The pairs that hang together, by their places, groups in an order that the seed draws."""
    whole = [i for i, p in enumerate(pairs) if p.source.strip() and p.target.strip()]
    linked = (pair_keys(pairs[i]) if keys is None else keys[i] for i in whole)
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for number, i in zip(together(linked), whole, strict=True):
        groups[number].append(i)
    drawn = []
    for group in groups.values():
        name = min(f"{pairs[i].source}\0{pairs[i].target}" for i in group)
        drawn.append((fraction(name, str(seed)), name, group))
    return [group for _, _, group in sorted(drawn)]
