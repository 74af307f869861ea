"""The byte-pair tokenizer: lossless for every text, the same one by one and in batches."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workings.data import BytePairTokenizer
from workings.errors import UserError

TEXTS = [
    "It's a great film -- great film! I loved it (twice).",
    "It was great.\tIt was GREAT. 🙂 naïve",
]
TOKENIZER = BytePairTokenizer.train(TEXTS * 5, vocab_size=300)


@given(st.text())
def test_encoding_is_lossless(text: str) -> None:
    ids = TOKENIZER.encode(text)
    assert TOKENIZER.decode(ids) == text
    assert TOKENIZER.unk_id not in ids
    spans = TOKENIZER.find_spans(text)
    assert len(spans) == len(ids) == len(TOKENIZER.tokenize(text))
    assert {i for start, end in spans for i in range(start, end)} == set(range(len(text)))


@given(st.lists(st.text() | st.text("ab'.1é \t\n\x1c\x85\xa0\u2003\u3000🙂")))
def test_batch_is_encoded_like_single_texts(texts: list[str]) -> None:
    assert TOKENIZER.encode_batch(texts) == [TOKENIZER.encode(text) for text in texts]


def test_full_cache_is_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workings.data.tokenizers.byte_pair.MAX_CACHED_CHUNKS", 1)
    texts = TEXTS * 300
    assert TOKENIZER.encode_batch(texts) == [TOKENIZER.encode(text) for text in TEXTS] * 300


def test_frequent_words_are_one_token() -> None:
    assert len(TOKENIZER) == 300
    assert " great" in TOKENIZER.tokenize("a great film")


def test_unknown_token_is_decoded_by_name() -> None:
    assert TOKENIZER.decode([TOKENIZER.unk_id, *TOKENIZER.encode("x")]) == "<unk>x"


def test_surrogates_are_replaced() -> None:
    assert TOKENIZER.decode(TOKENIZER.encode("a\ud800b")) == "a�b"
    assert TOKENIZER.find_spans("a\ud800b")[-1] == (2, 3)
    assert len(BytePairTokenizer.train(["\ud800"], vocab_size=260)) >= 259


def test_part_of_a_character_has_its_name_as_text() -> None:
    parts = [TOKENIZER.id_to_token(i) for i in TOKENIZER.encode("ж")]  # not in TEXTS: two bytes
    assert len(parts) == 2
    assert [TOKENIZER.token_to_text(part) for part in parts] == parts


def test_missing_package_has_install_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(UserError, match=r'pip install "workings\[data\]"'):
        BytePairTokenizer.train(TEXTS)
