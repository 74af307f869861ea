import json
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workings.data import (
    TOKENIZERS,
    BytePairTokenizer,
    CharacterTokenizer,
    Tokenizer,
    WordTokenizer,
    basic_english,
    load_tokenizer,
    read_examples,
    train_tokenizer,
)
from workings.errors import UserError

TEXTS = [
    'It\'s a great film -- "great" film!<br /><br />I loved it (twice).',
    "Bad; very bad: don't watch it, ever?",
    "It was great.\tIt was GREAT. 🙂 naïve",
]
SPELT = "<pad> <s> <unk> </s>"
# What English and markup are made of, with the quotation mark and letters that grow in lower case.
TRICKY = st.lists(
    st.sampled_from(["<br />", '<b"r />', '"<"BR "/">"', "<br", "/>", "<", "word", "İ", "ΑΣ", "ς"])
    | st.text(alphabet="ab \"'.,()!?;:\n\x85", max_size=3)
).map("".join)


def trained(kind: str, *, stop: bool = False) -> Tokenizer:
    return train_tokenizer(kind, TEXTS * 3, vocab_size=300, with_eos=stop)


def reference(text: str) -> list[str]:
    """The documented rules, one after the other, each over the whole text."""
    text = text.lower()
    text = re.sub("'", " ' ", text)
    text = re.sub('"', "", text)
    text = re.sub(r"\.", " . ", text)
    text = re.sub("<br />", " ", text)
    for mark in ",()!?":
        text = re.sub(re.escape(mark), f" {mark} ", text)
    text = re.sub("[;:]", " ", text)
    return re.sub(r"\s+", " ", text).split()


@given(TRICKY)
def test_basic_english_is_what_is_documented(text: str) -> None:
    assert basic_english(text) == reference(text)


@given(TRICKY)
def test_the_spans_of_words_hold_the_words(text: str) -> None:
    words = trained("words")
    spans = words.find_spans(text)
    assert len(spans) == len(words.tokenize(text))
    assert all(a < b <= len(text) for a, b in spans)
    assert all(b <= c for (_, b), (c, _) in pairwise(spans))
    if "Σ" not in text:  # whose lower case hangs on its neighbours
        found = [text[a:b].lower().replace('"', "") for a, b in spans]
        assert found == words.tokenize(text)


def test_words_of_the_documentation() -> None:
    first, second, _ = (" ".join(basic_english(text)) for text in TEXTS)
    assert first == "it ' s a great film -- great film ! i loved it ( twice ) ."
    assert second == "bad very bad don ' t watch it , ever ?"
    assert basic_english('a"b <BR /> <br/>') == ["ab", "<br/>"]
    assert basic_english("") == []


def test_the_vocabulary_of_words() -> None:
    words = WordTokenizer.train(["b b b a a a c c d"], vocab_size=6, min_count=2)
    assert [words.id_to_token(i) for i in range(len(words))] == [
        "<pad>",
        "<s>",
        "<unk>",
        "a",
        "b",
        "c",
    ]
    assert len(WordTokenizer.train(["b b b a a a c c d"], vocab_size=5, min_count=2)) == 5
    assert len(WordTokenizer.train(["b b b a a a c c d"], min_count=3)) == 5


@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize("stop", [False, True])
def test_the_interface(kind: str, stop: bool) -> None:
    tokenizer = trained(kind, stop=stop)
    assert (tokenizer.pad_id, tokenizer.bos_id, tokenizer.unk_id) == (0, 1, 2)
    assert tokenizer.eos_id == (3 if stop else None)
    assert tokenizer.specials == ("<pad>", "<s>", "<unk>", "</s>")[: 3 + stop]
    for text in [*TEXTS, "", "ξένος 𝔘nseen"]:
        ids = tokenizer.encode(text)
        assert len(ids) == len(tokenizer.tokenize(text)) == len(tokenizer.find_spans(text))
        assert all(0 <= i < len(tokenizer) for i in ids)
        padded = [tokenizer.bos_id, *ids, *([3] if stop else []), 0, 0]
        assert tokenizer.decode(padded) == tokenizer.decode(ids)
    assert tokenizer.encode_batch(TEXTS) == [tokenizer.encode(text) for text in TEXTS]
    assert trained(kind, stop=stop) == tokenizer
    assert trained(kind, stop=not stop) != tokenizer
    assert f"{len(tokenizer)} tokens" in repr(tokenizer)


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_no_text_spells_a_special(kind: str) -> None:
    tokenizer = train_tokenizer(kind, [SPELT] * 50, vocab_size=320, with_eos=True)
    ids = tokenizer.encode(SPELT)
    assert not {0, 1, 3} & set(ids)
    assert tokenizer.decode(ids) == ("<unk> <unk> <unk> <unk>" if kind == "words" else SPELT)


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_ids_that_are_none(kind: str) -> None:
    tokenizer = trained(kind)
    for wrong in (-1, len(tokenizer)):
        with pytest.raises(UserError, match=rf"id {wrong}: the vocabulary has"):
            tokenizer.decode([wrong])


def test_characters() -> None:
    tokenizer = CharacterTokenizer.train(["hello", "Hello"])
    assert tokenizer.decode(tokenizer.encode("Hello")) == "Hello"
    assert tokenizer.decode(tokenizer.encode("Hex")) == "He<unk>"
    assert tokenizer.find_spans("hé") == [(0, 1), (1, 2)]
    assert len(CharacterTokenizer.train(["hello" * 9 + "x"], min_count=2)) == 3 + 4


PIECES = BytePairTokenizer.train(TEXTS * 5, vocab_size=320)


@given(st.text())
def test_byte_pairs_lose_nothing(text: str) -> None:
    assert PIECES.decode(PIECES.encode(text)) == text
    assert 2 not in PIECES.encode(text)
    spans = PIECES.find_spans(text)
    assert len(spans) == len(PIECES.encode(text)) == len(PIECES.tokenize(text))
    covered = {i for a, b in spans for i in range(a, b)}
    assert covered == set(range(len(text)))


@given(st.lists(st.text() | st.text("ab'.1é \t\n\x1c\x85\xa0\u2003\u3000🙂")))
def test_byte_pairs_of_many_texts_are_those_of_each(texts: list[str]) -> None:
    assert PIECES.encode_batch(texts) == [PIECES.encode(text) for text in texts]


def test_byte_pairs_forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workings.data.tokenizers.byte_pair.MAX_CACHED_CHUNKS", 1)
    texts = TEXTS * 300
    assert PIECES.encode_batch(texts) == [PIECES.encode(text) for text in TEXTS] * 300


def test_byte_pairs_learn() -> None:
    assert len(PIECES) == 320
    assert " great" in PIECES.tokenize("a great film")
    assert PIECES.decode([PIECES.unk_id, *PIECES.encode("x")]) == "<unk>x"


def test_half_a_character_is_replaced() -> None:
    assert PIECES.decode(PIECES.encode("a\ud800b")) == "a�b"
    assert PIECES.find_spans("a\ud800b")[-1] == (2, 3)
    broken = CharacterTokenizer.train(["a\ud800"])
    assert broken.decode(broken.encode("a\ud800")) == "a\ud800"


def test_byte_pairs_of_halves(tmp_path: Path) -> None:
    assert len(BytePairTokenizer.train(["\ud800"], vocab_size=260)) >= 259
    broken = CharacterTokenizer.train(["a\ud800"])
    broken.save(tmp_path / "t.json")
    assert load_tokenizer(tmp_path / "t.json") == broken


@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize("stop", [False, True])
def test_saved_and_loaded(tmp_path: Path, kind: str, stop: bool) -> None:
    tokenizer = trained(kind, stop=stop)
    tokenizer.save(tmp_path / "t.json")
    again = load_tokenizer(tmp_path / "t.json")
    assert again == tokenizer
    assert hash(again) == hash(tokenizer)
    assert again.encode_batch(TEXTS) == tokenizer.encode_batch(TEXTS)
    assert [p.name for p in tmp_path.iterdir()] == ["t.json"]
    table = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))
    assert (table["format"], table["version"], table["kind"]) == ("workings tokenizer", 2, kind)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": "other"}, "not a tokenizer of this program"),
        ({"version": 3}, "newer than this program's 2"),
        ({"version": None}, "not a tokenizer of this program"),
        ({"kind": "word"}, "did you mean 'words'"),
        ({"kind": None}, "expected one of"),
        ({"kind": "byte-pair"}, "broken"),
        ({"kind": "byte-pair", "merges": []}, "lacks .* of the 256 bytes"),
        ({"vocabulary": None}, "not a list of texts"),
        ({"vocabulary": ["a", 3]}, "not a list of texts"),
        ({"vocabulary": ["a", "a"]}, "twice"),
        ({"specials": ["<s>"]}, "specials are not"),
    ],
)
def test_broken_files(tmp_path: Path, change: dict[str, object], said: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps(trained("words").to_dict() | change))
    with pytest.raises(UserError, match=said) as error:
        load_tokenizer(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"merges": [["a", "zzz"]]}, "do not fit"),
        ({"merges": [["a"]]}, "broken"),
        ({"merges": 3}, "broken"),
        ({"merges": [["a", "b", "c"]]}, "broken"),
    ],
)
def test_broken_merges(tmp_path: Path, change: dict[str, object], said: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps(PIECES.to_dict() | change))
    with pytest.raises(UserError, match=said):
        load_tokenizer(path)
    table = PIECES.to_dict()
    table["vocabulary"][-1] = "一"
    path.write_text(json.dumps(table))
    with pytest.raises(UserError, match="spells no bytes"):
        load_tokenizer(path)


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b"\xff", b"[" * 100_000, b"3"])
def test_foreign_files(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(raw)
    with pytest.raises(UserError, match=r"t\.json: not a tokenizer"):
        load_tokenizer(path)
    with pytest.raises(UserError, match="No such file"):
        load_tokenizer(tmp_path / "none.json")


def test_a_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained("words").save(tmp_path / "t.json")
    monkeypatch.setattr("workings.data.tokenizers.registry.MAX_FILE_BYTES", 10)
    with pytest.raises(UserError, match="larger than 10 bytes"):
        load_tokenizer(tmp_path / "t.json")


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_nothing_to_train_on(kind: str) -> None:
    with pytest.raises(UserError, match="no texts"):
        train_tokenizer(kind, [], vocab_size=300)
    with pytest.raises(UserError, match="size = 3"):
        train_tokenizer(kind, TEXTS, vocab_size=3)


def test_an_unknown_kind() -> None:
    with pytest.raises(UserError, match="did you mean 'characters'"):
        train_tokenizer("character", TEXTS)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
    with pytest.raises(UserError, match=r'pip install "workings\[data\]"'):
        BytePairTokenizer.train(TEXTS)


def test_the_vocabulary_of_the_notes_on_real_reviews(data: Path) -> None:
    texts = [e.text for e in read_examples(data / "rt-polarity" / "mr.jsonl.gz")]
    words = WordTokenizer.train(texts, vocab_size=2_000, min_count=3)
    assert len(words) == 2_000
    counts = Counter(token for text in texts for token in reference(text))
    order = [words.id_to_token(i) for i in range(3, len(words))]
    assert order == sorted(order, key=lambda t: (-counts[t], t))
    left = counts.keys() - set(order)
    assert min(counts[t] for t in order) >= max(counts[t] for t in left)


@pytest.mark.parametrize(
    "text",
    [
        "it's a dog, isn't it? (yes!)",
        "the dogs' bowl.",
        "l'homme qu'il a vu n'est pas là...",
        "a b",
    ],
)
def test_words_are_written_as_people_write_them(text):
    words = WordTokenizer.train([text])
    assert words.decode(words.encode(text)) == text


@given(st.text(alphabet="ab s.,()'!?", max_size=30))
def test_words_that_were_joined_are_the_same_words(text):
    tokens = basic_english(text)
    assert basic_english(trained("words").join(tokens)) == tokens


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_a_token_is_spelt_as_it_stands_in_a_text(kind):
    tokenizer = trained(kind)
    spelt = [
        tokenizer.token_to_text(tokenizer.id_to_token(i)) for i in tokenizer.encode("It was great")
    ]
    assert "".join(spelt).replace(" ", "").lower() == "itwasgreat"
    assert tokenizer.token_to_text("<pad>") == "<pad>"


def test_a_part_of_a_letter_goes_by_its_name():
    tokenizer = trained("byte-pair")
    parts = [tokenizer.id_to_token(i) for i in tokenizer.encode("ж")]  # never seen: two bytes
    assert len(parts) == 2
    assert [tokenizer.token_to_text(part) for part in parts] == parts
