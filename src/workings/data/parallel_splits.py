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

from workings.data.parallel_files import SentencePair
from workings.data.splits import compute_checksum, hash_to_unit_interval
from workings.errors import UserError

MIN_RATIO_WORDS = 3
"""Words that a shorter side counts for at least when sides are compared: "Help!", "À l'aide !"."""

CJK_RANGES = "\u3040-\u30ff\u3400-\u9fff"
"""Those of Chinese and Japanese, which are written without blanks between words."""
_WORD = re.compile(f"[{CJK_RANGES}]|[^\\s{CJK_RANGES}]+")


@dataclass(frozen=True)
class FilterStats:
    """What was left of the training pairs, and what was left out, and why."""

    num_kept: int
    num_empty: int = 0
    num_too_long: int = 0
    num_uneven: int = 0
    max_length: int = 100

    def describe(self) -> str:
        """Say it in a line.

        >>> FilterStats(29_000, num_empty=3, num_too_long=12, num_uneven=5).describe()
        '29,000 pairs; left out: 3 empty, 12 longer than 100 words, 5 uneven'
        >>> FilterStats(29_000).describe()
        '29,000 pairs; none left out'
        """
        reasons = {
            "empty": self.num_empty,
            f"longer than {self.max_length:,} words": self.num_too_long,
            "uneven": self.num_uneven,
        }
        some = ", ".join(f"{count:,} {why}" for why, count in reasons.items() if count)
        return f"{self.num_kept:,} pairs; " + (f"left out: {some}" if some else "none left out")


@dataclass(frozen=True)
class PairSplits:
    """A set of pairs, taken apart. Choices are made on `validation`, never on `test`."""

    name: str
    train: tuple[SentencePair, ...]
    validation: tuple[SentencePair, ...]
    test: tuple[SentencePair, ...]
    filter_stats: FilterStats

    @property
    def checksum(self) -> str:
        """The SHA-256 of every sentence, part by part, in order."""
        parts = (self.train, self.validation, self.test)
        return compute_checksum(((p.source, p.target) for p in part) for part in parts)

    def __repr__(self) -> str:
        counts = (len(self.train), len(self.validation), len(self.test))
        return "PairSplits({!r}: {:,} train, {:,} validation, {:,} test)".format(self.name, *counts)


def count_words(text: str) -> int:
    """Count the words between blanks; each sign of Chinese and Japanese counts for one.

    >>> count_words("Zwei junge Männer"), count_words("两个年轻人")
    (3, 5)
    """
    return len(text.split()) if text.isascii() else len(_WORD.findall(text))


def filter_pairs(
    pairs: Iterable[SentencePair], max_length: int, ratio: float
) -> tuple[list[SentencePair], FilterStats]:
    """Leave out pairs with an empty side, a very long one, or sides that differ too much."""
    kept: list[SentencePair] = []
    empty = too_long = too_uneven = 0
    for pair in pairs:
        shorter, longer = sorted((count_words(pair.source), count_words(pair.target)))
        if not shorter:
            empty += 1
        elif longer > max_length:
            too_long += 1
        elif longer > ratio * max(shorter, MIN_RATIO_WORDS):
            too_uneven += 1
        else:
            kept.append(pair)
    return kept, FilterStats(len(kept), empty, too_long, too_uneven, max_length)


class _PunctuationTable(dict[int, int]):
    """What a character is in a sentence's key: itself, or a blank for punctuation."""

    def __missing__(self, code: int) -> int:
        mark = unicodedata.category(chr(code))[0] in "PZC"
        return self.setdefault(code, ord(" ") if mark else code)


_PUNCTUATION_TO_SPACE = _PunctuationTable()


def sentence_key(text: str) -> str:
    """Write a sentence so that it is equal to itself in other capitals and punctuation.

    >>> sentence_key("Va !") == sentence_key("« va. »") != sentence_key("Vas")
    True
    """
    whole = text if text.isascii() else unicodedata.normalize("NFKC", text)
    bare = whole.casefold().translate(_PUNCTUATION_TO_SPACE)
    return " ".join(bare.split()) or text


def pair_keys(pair: SentencePair) -> tuple[tuple[str, str], tuple[str, str]]:
    """Name the two sentences that no other part may have."""
    return ("source", sentence_key(pair.source)), ("target", sentence_key(pair.target))


def group_by_shared_keys(keys: Iterable[Iterable[Hashable]]) -> list[int]:
    """Number things so that those that share a key, directly or through others, share a number.

    >>> group_by_shared_keys([["a"], ["b"], ["c"], ["a", "c"]])
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


def split_size(fraction: float, total: int) -> int:
    """Say how many pairs a share of them is: at least one, if there is to be a part at all."""
    return max(1, round(fraction * total)) if fraction else 0


def hold_out_pairs(
    pairs: Sequence[SentencePair],
    *counts: int,
    seed: int = 0,
    keys: Sequence[Iterable[Hashable]] | None = None,
) -> tuple[list[SentencePair], ...]:
    """Hold out up to so many pairs for each part: kept, held out, …, in their order.

    No sentence stands in two of them. Which pairs are held out is a matter of their sentences and
    the seed alone. Pairs that hang together are, if they still fit in, so that a group too large
    for that is kept. Pairs with an empty side are never held out. `keys` says what must not stand
    in two parts where that is more than the sentences.

    >>> pairs = [SentencePair("go", "va"), SentencePair("go", "pars"), SentencePair("leave", "pars"), SentencePair("run", "cours")]
    >>> hold_out_pairs(pairs, 1)[1]
    [SentencePair(source='run', target='cours')]
    """
    part_of = [0] * len(pairs)
    room = list(counts)
    groups = _group_pairs(pairs, seed, keys) if any(counts) else []
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
    parts: tuple[list[SentencePair], ...] = tuple([] for _ in range(len(counts) + 1))
    for part, pair in zip(part_of, pairs, strict=True):
        parts[part].append(pair)
    return parts


def _group_pairs(
    pairs: Sequence[SentencePair], seed: int, keys: Sequence[Iterable[Hashable]] | None
) -> list[list[int]]:
    """The pairs that hang together, by their places, groups in an order that the seed draws."""
    whole = [i for i, p in enumerate(pairs) if p.source.strip() and p.target.strip()]
    linked = (pair_keys(pairs[i]) if keys is None else keys[i] for i in whole)
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for number, i in zip(group_by_shared_keys(linked), whole, strict=True):
        groups[number].append(i)
    drawn = []
    for group in groups.values():
        name = min(f"{pairs[i].source}\0{pairs[i].target}" for i in group)
        drawn.append((hash_to_unit_interval(name, str(seed)), name, group))
    return [group for _, _, group in sorted(drawn)]
