"""Train, validation and test: held out by the text itself, so that no text is on two sides."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b, sha256

from workings.data.readers import Example
from workings.errors import UserError


@dataclass(frozen=True)
class Splits:
    """A set of examples, taken apart. Choices are made on `validation`, never on `test`."""

    name: str
    train: tuple[Example, ...]
    validation: tuple[Example, ...]
    test: tuple[Example, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that the training examples have, in the order of the alphabet."""
        return tuple(sorted({e.label for e in self.train if e.label is not None}))

    @property
    def checksum(self) -> str:
        """The SHA-256 of every text and label, part by part, in order."""
        parts = (self.train, self.validation, self.test)
        return compute_checksum(((e.text, e.label or "") for e in part) for part in parts)

    def __repr__(self) -> str:
        counts = (len(self.train), len(self.validation), len(self.test))
        return "Splits({!r}: {:,} train, {:,} validation, {:,} test)".format(self.name, *counts)


def compute_checksum(splits: Iterable[Iterable[tuple[str, str]]]) -> str:
    """Compute the SHA-256 of parts that are made of two texts each, in order."""
    digest = sha256()
    for part in splits:
        for both in part:
            for given in both:
                raw = given.encode("utf-8", "surrogatepass")
                digest.update(len(raw).to_bytes(8) + raw)
        digest.update(b"\xff" * 8)  # longer than any text: the end of a part
    return digest.hexdigest()


def hash_to_unit_interval(text: str, salt: str = "") -> float:
    """Draw a number from [0, 1) for a text: always the same one for the same text and salt.

    >>> round(hash_to_unit_interval("We are learning AI"), 4), hash_to_unit_interval("a") == hash_to_unit_interval("a", salt="1")
    (0.772, False)
    """
    # Broken texts may hold halves of characters: they, too, have a number.
    raw = f"{salt}\0{text}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(raw, digest_size=8).digest()[:6]) / 2**48


def hold_out(
    examples: Sequence[Example], fraction: float, *, seed: int = 0
) -> tuple[list[Example], list[Example]]:
    """Keep most examples and hold out a share of every label: (kept, held out), in their order.

    Which ones is a matter of their texts and the seed alone, not of their order. Copies of a text
    go together, even where their labels differ, so a label's share may be off by a few copies.

    >>> kept, held = hold_out([Example(f"text {i}", "ab"[i % 2]) for i in range(100)], 0.1)
    >>> len(kept), sorted(e.label for e in held)
    (90, ['a', 'a', 'a', 'a', 'a', 'b', 'b', 'b', 'b', 'b'])
    """
    if not 0 <= fraction < 1:
        raise UserError(f"share = {fraction}: it must be at least 0 and below 1")
    copies = Counter(e.text for e in examples)
    stratum: dict[str, str] = {}
    for example in examples:  # a text with two labels counts for one, whichever came first
        label = example.label or ""
        stratum[example.text] = min(label, stratum.get(example.text, label))
    strata: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for text, label in stratum.items():
        strata[label][text] = hash_to_unit_interval(text, str(seed))
    chosen: set[str] = set()
    for drawn in strata.values():
        wanted = round(fraction * sum(copies[text] for text in drawn))
        for text in sorted(drawn, key=lambda text: (drawn[text], text)):
            if wanted <= 0:
                break
            chosen.add(text)
            wanted -= copies[text]
    kept = [e for e in examples if e.text not in chosen]
    return kept, [e for e in examples if e.text in chosen]


@dataclass(frozen=True)
class TextOverlap:
    """The texts that stand in two sets of examples, and where."""

    texts: tuple[str, ...]
    first_indices: tuple[int, ...]
    second_indices: tuple[int, ...]

    def __str__(self) -> str:
        return (
            f"{len(self.texts):,} texts stand in both: "
            f"{len(self.first_indices):,} examples of the one, {len(self.second_indices):,} of the other"
        )


def find_text_overlap(first: Sequence[Example], second: Sequence[Example]) -> TextOverlap:
    """Find the texts that stand in both, character for character.

    >>> print(find_text_overlap([Example("a"), Example("b"), Example("a")], [Example("a")]))
    1 texts stand in both: 2 examples of the one, 1 of the other
    """
    both = {e.text for e in first} & {e.text for e in second}
    texts = tuple(dict.fromkeys(e.text for e in second if e.text in both))
    return TextOverlap(
        texts,
        tuple(i for i, e in enumerate(first) if e.text in both),
        tuple(i for i, e in enumerate(second) if e.text in both),
    )
