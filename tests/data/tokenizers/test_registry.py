"""Behavior common to all tokenizers, and saved files: damaged, foreign and too large."""

import json
from pathlib import Path

import pytest

from workings.data import TOKENIZERS, CharacterTokenizer, Tokenizer, load_tokenizer, train_tokenizer
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
        ("words", {"specials": ["<s>"]}, "expected the specials <pad>, <s>, <unk>"),
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
    monkeypatch.setattr("workings.data.tokenizers.registry.MAX_FILE_BYTES", 10)
    with pytest.raises(UserError, match=r"larger than .*10 bytes"):
        load_tokenizer(tmp_path / "t.json")
