"""Splits into train, validation and test, by a hash of the text: no text is in two of them."""

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b, sha256
from typing import TypeVar

from workings.data.readers import Example
from workings.errors import UserError

T = TypeVar("T")


@dataclass(frozen=True)
class Splits:
    """Examples to train on, to validate on (and select the best epoch by), and to test on."""

    name: str
    train: tuple[Example, ...]
    validation: tuple[Example, ...]
    test: tuple[Example, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the training examples, in alphabetical order."""
        return tuple(sorted({e.label for e in self.train if e.label is not None}))

    @property
    def checksum(self) -> str:
        """The SHA-256 of all texts and labels in their order."""
        splits = (self.train, self.validation, self.test)
        return compute_checksum(((e.text, e.label or "") for e in split) for split in splits)

    def __repr__(self) -> str:
        counts = (len(self.train), len(self.validation), len(self.test))
        return "Splits({!r}: {:,} train, {:,} validation, {:,} test)".format(self.name, *counts)


def compute_checksum(splits: Iterable[Iterable[tuple[str, str]]]) -> str:
    """Return the SHA-256 of splits that consist of pairs of texts, in their order."""
    digest = sha256()
    for split in splits:
        for pair in split:
            for text in pair:
                raw = text.encode("utf-8", "surrogatepass")
                digest.update(len(raw).to_bytes(8) + raw)
        digest.update(b"\xff" * 8)  # end of a split: no text has this length
    return digest.hexdigest()


def hash_to_unit_interval(text: str, salt: str = "") -> float:
    """Return a number in [0, 1) that depends on the text and the salt only.

    >>> round(hash_to_unit_interval("We are learning AI"), 4)
    0.772
    >>> hash_to_unit_interval("a") == hash_to_unit_interval("a", salt="1")
    False
    """
    # Texts may have unpaired surrogates.
    raw = f"{salt}\0{text}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(raw, digest_size=8).digest()[:6]) / 2**48


def check_split_fractions(validation: float, test: float) -> None:
    """Raise UserError unless both fractions are at least 0 and leave something to train on."""
    if not (min(validation, test) >= 0 and validation + test < 1):
        raise UserError(
            f"validation = {validation}, test = {test}: nothing is left to train on: "
            "expected fractions of at least 0 with a sum below 1"
        )


def split_size(fraction: float, total: int) -> int:
    """Return the size of a split: at least 1, unless the fraction is 0."""
    return max(1, round(fraction * total)) if fraction else 0


def hold_out_missing_splits(
    splits: Mapping[str, Sequence[T]],
    validation: float,
    test: float,
    hold_out: Callable[[Sequence[T], Mapping[str, float]], Mapping[str, Sequence[T]]],
) -> dict[str, list[T]]:
    """Return the splits, with those of test and validation that are missing held out of train.

    `hold_out(train, fractions)` is called with the fractions of the missing splits, relative to
    `train`, and returns these splits and what is left of `train`.
    """
    fractions = {"test": test, "validation": validation}
    missing = {name: f for name, f in fractions.items() if f and name not in splits}
    complete: dict[str, Sequence[T]] = {"train": (), "validation": (), "test": (), **splits}
    if missing:
        complete |= hold_out(complete["train"], missing)
    return {name: list(items) for name, items in complete.items()}


def hold_out(
    examples: Sequence[Example], fraction: float, *, seed: int = 0, by_label: bool = True
) -> tuple[list[Example], list[Example]]:
    """Hold out a fraction of the examples of every label: (the rest, held out), in their order.

    Without `by_label` it is a fraction of all examples, whatever their labels.
    The choice depends on the texts and the seed, not on the order. Copies of a text stay together
    even if their labels differ, so the fraction of a label may be off by a few copies. The rest
    has at least one text of each label.

    >>> train, test = hold_out([Example(f"text {i}", "ab"[i % 2]) for i in range(100)], 0.1)
    >>> len(train), sorted(e.label for e in test)
    (90, ['a', 'a', 'a', 'a', 'a', 'b', 'b', 'b', 'b', 'b'])
    """
    if not 0 <= fraction < 1:
        raise UserError(f"fraction = {fraction}: expected at least 0 and below 1")
    copies = Counter(e.text for e in examples)
    label_of: dict[str, str] = {}
    for example in examples:  # a text with several labels counts for the first by the alphabet
        label = (by_label and example.label) or ""
        label_of[example.text] = min(label, label_of.get(example.text, label))
    texts_by_label: defaultdict[str, list[str]] = defaultdict(list)
    for text, label in label_of.items():
        texts_by_label[label].append(text)
    selected: set[str] = set()
    for texts in texts_by_label.values():
        remaining = round(fraction * sum(copies[text] for text in texts))
        # One text of each label stays, however many copies it has.
        count = min(remaining, len(texts) - 1)
        for text in _select_smallest_hashes(texts, count, str(seed)):
            if remaining <= 0:
                break
            selected.add(text)
            remaining -= copies[text]
    rest = [e for e in examples if e.text not in selected]
    return rest, [e for e in examples if e.text in selected]


def _select_smallest_hashes(texts: Sequence[str], count: int, salt: str) -> list[str]:
    """Return the `count` texts with the smallest hashes, in the order of these."""
    if count <= 0:
        return []
    hashes = array("d", (hash_to_unit_interval(text, salt) for text in texts))
    limit = sorted(hashes)[count - 1]  # of pairs with all texts, sorting takes far more memory
    smallest = ((h, text) for h, text in zip(hashes, texts, strict=True) if h <= limit)
    return [text for _, text in sorted(smallest)[:count]]


@dataclass(frozen=True)
class TextOverlap:
    """The texts that two sequences of examples have in common, and their indices."""

    texts: tuple[str, ...]
    first_indices: tuple[int, ...]
    second_indices: tuple[int, ...]

    def __str__(self) -> str:
        return (
            f"{len(self.texts):,} texts in common: {len(self.first_indices):,} examples of the "
            f"first set, {len(self.second_indices):,} of the second"
        )


def find_text_overlap(first: Sequence[Example], second: Sequence[Example]) -> TextOverlap:
    """Find the texts that are in both sequences, compared character by character.

    >>> print(find_text_overlap([Example("a"), Example("b"), Example("a")], [Example("a")]))
    1 texts in common: 2 examples of the first set, 1 of the second
    """
    texts = {e.text for e in second}  # usually the smaller one
    common = {e.text for e in first if e.text in texts}
    return TextOverlap(
        tuple(dict.fromkeys(e.text for e in second if e.text in common)),
        tuple(i for i, e in enumerate(first) if e.text in common),
        tuple(i for i, e in enumerate(second) if e.text in common),
    )
