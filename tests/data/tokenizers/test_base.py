"""What all tokenizers share: long texts split into parts, and the text that each token adds."""

import pytest

from workings.data.tokenizers.base import get_stop_id
from workings.data.tokenizers.byte_pair import BytePairTokenizer
from workings.data.tokenizers.characters import CharacterTokenizer
from workings.data.tokenizers.registry import train_tokenizer
from workings.data.tokenizers.unigram import UnigramTokenizer
from workings.data.tokenizers.words import WordTokenizer

# -- long texts ----------------------------------------------------------------------------------


def test_long_texts_are_split_into_sentences():
    words = WordTokenizer(["cat", "dog"], with_eos=True)
    text = "A cat, a dog! Two 3.5 m cats? Six… " * 60
    sentences = ["A cat, a dog!", "Two 3.5 m cats?", "Six…"] * 60
    assert words.split_long_text(text, 256) == sentences
    assert words.split_long_text(text[:200], 256) == [text[:200]]  # short enough


def test_long_texts_of_bytes_are_split_between_characters():
    pairs = BytePairTokenizer.train(["the cat"] * 9, 270, with_eos=True)
    parts = pairs.split_long_text("日本" * 125, 256)  # three tokens per character
    assert "".join(parts) == "日本" * 125
    assert max(len(pairs.encode(part)) for part in parts) <= 256
    assert "".join(pairs.split_long_text(" " * 900 + "x" * 300, 256)) == "x" * 300  # no blank part


def test_each_part_of_a_long_text_begins_with_its_language_tag():
    pieces = [("▁", -2.0), ("▁abc", -3.0), ("▁def", -2.5)]
    tokenizer = UnigramTokenizer(["▁abc", "▁def", "▁", ">>fr<<"], scored_pieces=pieces)
    parts = tokenizer.split_long_text(">>fr<< " + "abc def " * 400, 256)
    assert len(parts) > 3
    assert all(tokenizer.tokenize(part)[0] == ">>fr<<" for part in parts)
    assert max(len(tokenizer.encode(part)) for part in parts) <= 256
    assert " ".join(part.removeprefix(">>fr<<") for part in parts).split() == ["abc", "def"] * 400


# -- pieces --------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["a café x", "日本 x", "x é", "猫x。", "plain"])
def test_character_of_several_tokens_belongs_to_the_first(text):
    tokenizer = train_tokenizer("byte-pair", ["a cafe x"] * 3, 300, 1, with_eos=True)
    ids = tokenizer.encode(text)
    pieces = tokenizer.decode_pieces(ids)
    assert len(pieces) == len(ids) == len(tokenizer.find_spans(text))
    assert "".join(pieces) == text
    assert pieces == tokenizer.split_pieces(text)


def test_incomplete_last_character_keeps_all_tokens():
    tokenizer = train_tokenizer("byte-pair", ["a cafe x"] * 3, 300, 1, with_eos=True)
    incomplete = tokenizer.encode("a é")[:-1]
    pieces = tokenizer.decode_pieces(incomplete)
    assert len(pieces) == len(incomplete)
    assert "".join(pieces) == tokenizer.decode(incomplete) == "a \ufffd"


def test_words_are_labeled_without_spaces():
    words, characters = WordTokenizer(["a", "cat"]), CharacterTokenizer.train(["a cat"])
    assert words.split_pieces("a cat") == ["a", " cat"]
    assert words.label_pieces(["a", " cat"]) == ["a", "cat"]
    assert characters.label_pieces(["a", " ", "c"]) == ["a", " ", "c"]


def test_stop_token_must_be_in_the_vocabulary():
    assert get_stop_id(WordTokenizer(["a"], with_eos=True)) == 3
    with pytest.raises(AssertionError):
        get_stop_id(WordTokenizer(["a"]))
