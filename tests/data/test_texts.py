"""Texts, and their tokens mapped into memory."""

import gzip
import os

import numpy as np
import pytest

from workings.data.cache import compute_text_checksum, encode_cached
from workings.data.corpora import list_corpora, read_corpus
from workings.data.datasets import cache_folder
from workings.data.tokenizers.characters import CharacterTokenizer
from workings.errors import UserError


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize("name", ["python-prose", "python-source"])
def test_what_is_built_in_is_long_and_the_same_every_time(name):
    first = next(read_corpus(name))
    assert len(first) > 500_000
    assert first == next(read_corpus(name))
    assert name in list_corpora()


def test_python_source_is_source_and_prose_is_prose():
    assert "def __init__(self" in next(read_corpus("python-source"))
    prose = next(read_corpus("python-prose"))
    assert prose.count("def ") < prose.count(" the ")


def test_a_file_comes_in_pieces_that_make_it_up(tmp_path, monkeypatch):
    monkeypatch.setattr("workings.data.corpora.CHUNK_CHARACTERS", 50)
    text = "".join(f"line {k}: élan\n" for k in range(40))
    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress(text.encode()))
    some = list(read_corpus(str(path)))
    assert len(some) > 5
    assert "".join(some) == text


def test_a_text_may_be_one_long_line(tmp_path, monkeypatch):
    monkeypatch.setattr("workings.data.readers.CHUNK_BYTES", 7)  # which cuts characters in two
    text = "élan vital " * 50 + "\nnaïve"
    path = tmp_path / "text.txt"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert "".join(read_corpus(str(path))) == text


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"one\ntwo \xe9\n", "line 2: not UTF-8: byte 0xe9"),
        (b"caf\xe9\n", "line 1: not UTF-8: byte 0xe9 in column 4"),
        ("text".encode("utf-16"), "UTF-16: save it as UTF-8"),
        (b"cut \xc3", "not UTF-8"),
    ],
)
def test_what_is_no_text_is_told(tmp_path, raw, said):
    path = tmp_path / "text.txt"
    path.write_bytes(raw)
    with pytest.raises(UserError, match=said):
        list(read_corpus(str(path)))


def test_what_is_not_there_is_told(monkeypatch):
    monkeypatch.delenv("WORKINGS_DATA", raising=False)
    with pytest.raises(UserError, match="did you mean 'python-source'"):
        next(read_corpus("python-sorce"))
    with pytest.raises(UserError, match="WORKINGS_DATA"):
        next(read_corpus("war-and-peace"))


def test_tokens_are_mapped_once_and_belong_to_their_tokenizer():
    text = ["abra", "cadabra"]
    checksum, characters = compute_text_checksum(text)
    assert characters == 11
    letters = CharacterTokenizer.train(text)
    ids = encode_cached(text, letters, checksum)
    assert isinstance(ids, np.memmap)
    assert ids.dtype == np.uint16
    assert letters.decode(ids.tolist()) == "abracadabra"
    assert np.array_equal(encode_cached(iter(()), letters, checksum), ids)  # not read again
    other = CharacterTokenizer.train(["abrcdx"])
    assert other.decode(encode_cached(text, other, checksum).tolist()) == "abracadabra"
    with pytest.raises(UserError, match="empty"):
        encode_cached([], letters, "another")


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: raw[: len(raw) // 2],
        lambda raw: raw[:-1],
        lambda _: b"",
        lambda raw: b"\xff" * len(raw),
        lambda raw: raw[:4] + bytes([raw[4] ^ 1]) + raw[5:],
        lambda raw: raw + raw,
    ],
)
def test_a_damaged_file_of_tokens_is_written_again(damage):
    text = ["abra", "cadabra"]
    letters = CharacterTokenizer.train(text)
    encode_cached(text, letters, "sum")
    (path,) = (cache_folder() / "tokens").glob("*.uint16")
    raw = path.read_bytes()
    path.write_bytes(damage(raw))
    assert letters.decode(encode_cached(text, letters, "sum").tolist()) == "abracadabra"
    assert path.read_bytes() == raw


def test_a_full_disk_is_told_and_leaves_nothing_behind(monkeypatch):
    def full(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"tokens.*No space left on device"):
        encode_cached(["abra"], CharacterTokenizer.train(["abra"]), "sum")
    assert not list((cache_folder() / "tokens").glob("[!.]*"))
