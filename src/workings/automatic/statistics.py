"""What a user's data are like, in the few numbers that choices depend on."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from workings.data.readers import Example
from workings.data.sentence_pairs import SentencePair

_UNSPACED = ("\u0e00", "\u0eff"), ("\u1000", "\u109f"), ("\u1780", "\u17ff"), ("\u3040", "\u9fff")
"""First and last characters of scripts without spaces between words."""
SAMPLE = 2000  # texts whose letters are counted


@dataclass(frozen=True)
class LabeledStatistics:
    """Labeled texts."""

    rows: int
    mean_characters: float
    longest_characters: int
    unspaced: float
    """fraction of the letters that are of a script without spaces between words"""
    label_counts: tuple[int, ...]
    """rows of each label, the most frequent first; a row may have several"""

    @property
    def characters(self) -> int:
        """All characters."""
        return round(self.rows * self.mean_characters)

    @property
    def classes(self) -> int:
        """The number of labels."""
        return len(self.label_counts)

    @property
    def majority(self) -> float:
        """The fraction of rows with the most frequent label."""
        return self.label_counts[0] / max(self.rows, 1) if self.label_counts else 0.0


@dataclass(frozen=True)
class PairStatistics:
    """Sentence pairs."""

    pairs: int
    mean_words: float
    """words of a sentence, the mean of both sides"""
    longest_words: float
    """words of the longest sentence"""
    unspaced: float


@dataclass(frozen=True)
class CorpusStatistics:
    """A text for a language model."""

    characters: int
    alphabet: int
    """different characters, in the beginning of the text"""


def describe_examples(examples: Sequence[Example]) -> LabeledStatistics:
    """Return the statistics of labeled texts."""
    lengths = [len(example.text) for example in examples]
    counts = Counter(label for example in examples for label in example.labels)
    return LabeledStatistics(
        len(examples),
        sum(lengths) / max(len(lengths), 1),
        max(lengths, default=0),
        measure_unspaced(example.text for example in examples[:SAMPLE]),
        tuple(count for _, count in counts.most_common()),
    )


def describe_pairs(pairs: Sequence[SentencePair]) -> PairStatistics:
    """Return the statistics of sentence pairs."""
    sides = [side for pair in pairs[:SAMPLE] for side in (pair.source, pair.target)]
    unspaced = measure_unspaced(sides)
    # A word has about two Chinese characters, or six letters and a space.
    letters = 7 - 5 * unspaced
    mean = sum(len(side) for side in sides) / max(len(sides), 1) / letters
    longest = max((max(len(p.source), len(p.target)) for p in pairs), default=0) / letters
    return PairStatistics(len(pairs), mean, longest, unspaced)


def measure_unspaced(texts: Iterable[str]) -> float:
    """Return the fraction of letters that are of a script without spaces between words.

    >>> measure_unspaced(["天气很好", "fine"])
    0.5
    """
    letters = unspaced = 0
    for text in texts:
        for character in text[:SAMPLE]:
            if character.isalpha():
                letters += 1
                unspaced += any(first <= character <= last for first, last in _UNSPACED)
    return unspaced / max(letters, 1)
