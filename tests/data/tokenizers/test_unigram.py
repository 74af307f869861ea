from pathlib import Path

import pytest

from workings.data import load_tokenizer
from workings.data.tokenizers.unigram import UnigramTokenizer
from workings.errors import UserError

PIECES = {"▁": -2.0, "▁the": -2.5, "▁cat": -3.0, "s": -3.0, "e": -4.0}


@pytest.fixture
def tokenizer() -> UnigramTokenizer:
    return UnigramTokenizer([*PIECES, ">>fr<<"], scored_pieces=list(PIECES.items()))


def test_encode_and_decode(tokenizer: UnigramTokenizer) -> None:
    ids = tokenizer.encode("the  cats")
    assert [tokenizer.id_to_token(i) for i in ids] == ["▁the", "▁cat", "s"]
    assert tokenizer.decode(ids) == "the cats"
    assert tokenizer.encode("the cats!")[-1] == tokenizer.unk_id


def test_spans_are_those_of_the_original_text(tokenizer: UnigramTokenizer) -> None:
    text = "  the   cats"
    assert [text[a:b].strip() for a, b in tokenizer.find_spans(text)] == ["the", "cat", "s"]


def test_language_tag_is_one_token(tokenizer: UnigramTokenizer) -> None:
    assert tokenizer.tokenize(">>fr<< cats") == [">>fr<<", " cat", "s"]
    assert tokenizer.find_spans(">>fr<< cats") == [(0, 6), (7, 10), (10, 11)]
    assert tokenizer.extract_language_tag("cats") == ""


def test_surrogates_are_replaced(tokenizer: UnigramTokenizer) -> None:
    assert tokenizer.encode("the cats \udc80") == tokenizer.encode("the cats �")


def test_loaded_tokenizer_equals_saved_one(tokenizer: UnigramTokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "t.json")
    loaded = load_tokenizer(tmp_path / "t.json")
    assert isinstance(loaded, UnigramTokenizer)
    assert loaded == tokenizer


def test_training_is_refused() -> None:
    with pytest.raises(UserError, match="imported with its model"):
        UnigramTokenizer.train(["a"])


@pytest.mark.parametrize("charsmap", [b"\1", b"\0\0\0\0", b"\x05\0\0\0abcde", b"\x08\0\0\0abcd"])
def test_damaged_charsmap_is_rejected(charsmap: bytes) -> None:
    with pytest.raises(UserError, match="damaged"):
        UnigramTokenizer(["a"], scored_pieces=[("a", -1.0)], charsmap=charsmap)
