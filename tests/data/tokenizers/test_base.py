"""What all kinds of tokenizers have in common, pieces of texts, and damaged or foreign files."""

import json
from pathlib import Path

import pytest

from workings.data import TOKENIZERS, CharacterTokenizer, Tokenizer, load_tokenizer, train_tokenizer
from workings.data.tokenizers.base import get_stop_id
from workings.data.tokenizers.byte_pair import BytePairTokenizer
from workings.data.tokenizers.unigram import UnigramTokenizer
from workings.data.tokenizers.words import WordTokenizer
from workings.errors import UserError

TEXTS = [
    'It\'s a great film -- "great" film!<br /><br />I loved it (twice).',
    "Bad; very bad: don't watch it, ever?",
    "It was great.\tIt was GREAT. 🙂 naïve",
]


def trained(kind: str, *, with_eos: bool = False) -> Tokenizer:
    return train_tokenizer(kind, TEXTS * 3, vocab_size=300, with_eos=with_eos)


@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize("with_eos", [False, True])
def test_interface(kind: str, with_eos: bool) -> None:
    tokenizer = trained(kind, with_eos=with_eos)
    assert (tokenizer.pad_id, tokenizer.bos_id, tokenizer.unk_id) == (0, 1, 2)
    assert tokenizer.eos_id == (3 if with_eos else None)
    assert tokenizer.specials == ("<pad>", "<s>", "<unk>", "</s>")[: 3 + with_eos]
    for text in [*TEXTS, "", "ξένος 𝔘nseen"]:
        ids = tokenizer.encode(text)
        assert len(ids) == len(tokenizer.tokenize(text)) == len(tokenizer.find_spans(text))
        assert all(0 <= i < len(tokenizer) for i in ids)
        padded = [tokenizer.bos_id, *ids, *([3] if with_eos else []), 0, 0]
        assert tokenizer.decode(padded) == tokenizer.decode(ids)
    assert tokenizer.encode_batch(TEXTS) == [tokenizer.encode(text) for text in TEXTS]
    assert trained(kind, with_eos=with_eos) == tokenizer
    assert trained(kind, with_eos=not with_eos) != tokenizer
    assert f"{len(tokenizer)} tokens" in repr(tokenizer)


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_no_text_is_encoded_as_special_tokens(kind: str) -> None:
    text = "<pad> <s> <unk> </s>"
    tokenizer = train_tokenizer(kind, [text] * 50, vocab_size=320, with_eos=True)
    ids = tokenizer.encode(text)
    assert not {0, 1, 3} & set(ids)
    assert tokenizer.decode(ids) == ("<unk> <unk> <unk> <unk>" if kind == "words" else text)


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_ids_out_of_range_are_rejected(kind: str) -> None:
    tokenizer = trained(kind)
    for wrong in (-1, len(tokenizer)):
        with pytest.raises(UserError, match=rf"token id {wrong} is out of range: 0 to "):
            tokenizer.decode([wrong])


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_token_to_text(kind: str) -> None:
    tokenizer = trained(kind)
    ids = tokenizer.encode("It was great")
    texts = [tokenizer.token_to_text(tokenizer.id_to_token(i)) for i in ids]
    assert "".join(texts).replace(" ", "").lower() == "itwasgreat"
    assert tokenizer.token_to_text("<pad>") == "<pad>"


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_training_needs_texts_and_a_vocabulary(kind: str) -> None:
    with pytest.raises(UserError, match="no texts"):
        train_tokenizer(kind, [], vocab_size=300)
    with pytest.raises(UserError, match="vocab_size = 3: expected"):
        train_tokenizer(kind, TEXTS, vocab_size=3)


def test_unknown_kind_is_rejected() -> None:
    with pytest.raises(UserError, match="did you mean 'characters'"):
        train_tokenizer("character", TEXTS)


@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize("with_eos", [False, True])
def test_loaded_tokenizer_equals_saved_one(tmp_path: Path, kind: str, with_eos: bool) -> None:
    tokenizer = trained(kind, with_eos=with_eos)
    tokenizer.save(tmp_path / "t.json")
    loaded = load_tokenizer(tmp_path / "t.json")
    assert loaded == tokenizer
    assert hash(loaded) == hash(tokenizer)
    assert loaded.encode_batch(TEXTS) == tokenizer.encode_batch(TEXTS)
    assert [p.name for p in tmp_path.iterdir()] == ["t.json"]
    table = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))
    assert (table["format"], table["version"], table["kind"]) == ("workings tokenizer", 2, kind)


def test_surrogates_are_saved_and_loaded(tmp_path: Path) -> None:
    tokenizer = CharacterTokenizer.train(["a\ud800"])
    tokenizer.save(tmp_path / "t.json")
    assert load_tokenizer(tmp_path / "t.json") == tokenizer


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("words", {"format": "other"}, "not a tokenizer of this program"),
        ("words", {"version": 3}, "version 3 is newer than this program's 2"),
        ("words", {"version": None}, "not a tokenizer of this program"),
        ("words", {"kind": "word"}, "did you mean 'words'"),
        ("words", {"kind": None}, "expected one of"),
        ("words", {"kind": "byte-pair"}, "broken"),
        ("words", {"kind": "byte-pair", "merges": []}, "lacks .* of the 256 bytes"),
        ("words", {"vocabulary": None}, "not a list of texts"),
        ("words", {"vocabulary": ["a", 3]}, "not a list of texts"),
        ("words", {"vocabulary": ["a", "a"]}, "twice"),
        ("words", {"specials": ["<s>"]}, "expected the special tokens <pad>, <s>, <unk>"),
        ("byte-pair", {"merges": [["a", "zzz"]]}, "do not fit"),
        ("byte-pair", {"merges": [["a"]]}, "broken"),
        ("byte-pair", {"merges": 3}, "broken"),
        ("byte-pair", {"merges": [["a", "b", "c"]]}, "broken"),
    ],
)
def test_damaged_files_are_rejected(
    tmp_path: Path, kind: str, change: dict[str, object], message: str
) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps(trained(kind).to_dict() | change))
    with pytest.raises(UserError, match=message) as error:
        load_tokenizer(path)
    assert str(path) in str(error.value)


def test_byte_pair_token_that_is_not_made_of_bytes_is_rejected(tmp_path: Path) -> None:
    table = trained("byte-pair").to_dict()
    table["vocabulary"][-1] = "一"
    (tmp_path / "t.json").write_text(json.dumps(table))
    with pytest.raises(UserError, match="'一', which is not a sequence of bytes"):
        load_tokenizer(tmp_path / "t.json")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", r"expected a JSON object, got \[\]"),
        (b"3", "expected a JSON object, got 3"),
        (b"{}", "not a tokenizer"),
    ],
)
def test_foreign_files_are_rejected(tmp_path: Path, raw: bytes, message: str) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(raw)
    with pytest.raises(UserError, match=rf"t\.json: {message}"):
        load_tokenizer(path)


def test_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        load_tokenizer(tmp_path / "none.json")


def test_too_large_file_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained("words").save(tmp_path / "t.json")
    monkeypatch.setattr("workings.data.tokenizers.base.MAX_FILE_BYTES", 10)
    with pytest.raises(UserError, match=r"larger than .*10 bytes"):
        load_tokenizer(tmp_path / "t.json")


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
