"""The word tokenizer: torchtext's rules, spans, and joining words into a text."""

import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workings.data import WordTokenizer, basic_english, read_examples

TEXTS = [
    'It\'s a great film -- "great" film!<br /><br />I loved it (twice).',
    "Bad; very bad: don't watch it, ever?",
]
TOKENIZER = WordTokenizer.train(TEXTS)
# English and markup, with quotation marks, and letters that get longer in lower case.
MARKUP = st.lists(
    st.sampled_from(["<br />", '<b"r />', '"<"BR "/">"', "<br", "/>", "<", "word", "İ", "ΑΣ", "ς"])
    | st.text(alphabet="ab \"'.,()!?;:\n\x85", max_size=3)
).map("".join)


def torchtext_basic_english(text: str) -> list[str]:
    """Apply torchtext's documented rules one by one to the text."""
    text = text.lower()
    text = re.sub("'", " ' ", text)
    text = re.sub('"', "", text)
    text = re.sub(r"\.", " . ", text)
    text = re.sub("<br />", " ", text)
    for mark in ",()!?":
        text = re.sub(re.escape(mark), f" {mark} ", text)
    text = re.sub("[;:]", " ", text)
    return re.sub(r"\s+", " ", text).split()


@given(MARKUP)
def test_basic_english_equals_torchtexts_rules(text: str) -> None:
    assert basic_english(text) == torchtext_basic_english(text)


def test_basic_english_of_sentences() -> None:
    first, second = (" ".join(basic_english(text)) for text in TEXTS)
    assert first == "it ' s a great film -- great film ! i loved it ( twice ) ."
    assert second == "bad very bad don ' t watch it , ever ?"
    assert basic_english('a"b <BR /> <br/>') == ["ab", "<br/>"]
    assert basic_english("") == []


@given(MARKUP)
def test_spans_hold_the_words(text: str) -> None:
    spans = TOKENIZER.find_spans(text)
    assert len(spans) == len(TOKENIZER.tokenize(text))
    assert all(start < end <= len(text) for start, end in spans)
    assert all(end <= next_start for (_, end), (next_start, _) in pairwise(spans))
    if "Σ" not in text:  # its lower case depends on the letters around it
        words = [text[start:end].lower().replace('"', "") for start, end in spans]
        assert words == TOKENIZER.tokenize(text)


def test_vocabulary_is_sorted_by_frequency_and_limited() -> None:
    tokenizer = WordTokenizer.train(["b b b a a a c c d"], vocab_size=6, min_count=2)
    tokens = [tokenizer.id_to_token(i) for i in range(len(tokenizer))]
    assert tokens == ["<pad>", "<s>", "<unk>", "a", "b", "c"]
    assert len(WordTokenizer.train(["b b b a a a c c d"], vocab_size=5, min_count=2)) == 5
    assert len(WordTokenizer.train(["b b b a a a c c d"], min_count=3)) == 5


def test_vocabulary_of_real_reviews(data: Path) -> None:
    texts = [e.text for e in read_examples(data / "rt-polarity" / "mr.jsonl.gz")]
    tokenizer = WordTokenizer.train(texts, vocab_size=2_000, min_count=3)
    assert len(tokenizer) == 2_000
    counts = Counter(token for text in texts for token in torchtext_basic_english(text))
    vocabulary = [tokenizer.id_to_token(i) for i in range(3, len(tokenizer))]
    assert vocabulary == sorted(vocabulary, key=lambda t: (-counts[t], t))
    excluded = counts.keys() - set(vocabulary)
    assert min(counts[t] for t in vocabulary) >= max(counts[t] for t in excluded)


@pytest.mark.parametrize(
    "text",
    [
        "it's a dog, isn't it? (yes!)",
        "the dogs' bowl.",
        "l'homme qu'il a vu n'est pas là...",
        "a b",
    ],
)
def test_decoding_restores_spacing(text: str) -> None:
    tokenizer = WordTokenizer.train([text])
    assert tokenizer.decode(tokenizer.encode(text)) == text


@given(st.text(alphabet="ab s.,()'!?", max_size=30))
def test_joined_words_are_split_into_the_same_words(text: str) -> None:
    tokens = basic_english(text)
    assert basic_english(TOKENIZER.join(tokens)) == tokens
