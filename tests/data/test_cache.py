"""The cache folder of each system, and arrays that are cached in it."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from workings.data.cache import cache_folder, compute_text_checksum, encode_cached
from workings.data.tokenizers.characters import CharacterTokenizer
from workings.errors import UserError


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_cache_folder_of_each_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() == tmp_path / ".cache" / "workings"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert cache_folder() == tmp_path / "x" / "workings"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache_folder() == tmp_path / "Library" / "Caches" / "workings"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert cache_folder() == tmp_path / "local" / "workings" / "Cache"
    monkeypatch.delenv("LOCALAPPDATA")
    assert cache_folder() == tmp_path / "AppData" / "Local" / "workings" / "Cache"


@pytest.mark.usefixtures("cache")
def test_ids_are_cached_for_each_tokenizer():
    texts = ["abra", "cadabra"]
    checksum, characters = compute_text_checksum(texts)
    assert characters == 11
    tokenizer = CharacterTokenizer.train(texts)
    ids = encode_cached(texts, tokenizer, checksum)
    assert isinstance(ids, np.memmap)
    assert ids.dtype == np.uint16
    assert tokenizer.decode(ids.tolist()) == "abracadabra"
    assert np.array_equal(encode_cached(iter(()), tokenizer, checksum), ids)  # from the cache
    other = CharacterTokenizer.train(["abrcdx"])
    assert other.decode(encode_cached(texts, other, checksum).tolist()) == "abracadabra"
    with pytest.raises(UserError, match="empty"):
        encode_cached([], tokenizer, "another")


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
@pytest.mark.usefixtures("cache")
def test_damaged_file_is_written_again(damage):
    texts = ["abra", "cadabra"]
    tokenizer = CharacterTokenizer.train(texts)
    encode_cached(texts, tokenizer, "sum")
    (path,) = (cache_folder() / "tokens").glob("*.uint16")
    raw = path.read_bytes()
    path.write_bytes(damage(raw))
    assert tokenizer.decode(encode_cached(texts, tokenizer, "sum").tolist()) == "abracadabra"
    assert path.read_bytes() == raw


@pytest.mark.usefixtures("cache")
def test_full_disk_is_reported_and_leaves_no_file(monkeypatch):
    def fail(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(UserError, match=r"No space left on device: cannot cache tokens"):
        encode_cached(["abra"], CharacterTokenizer.train(["abra"]), "sum")
    assert not list((cache_folder() / "tokens").glob("[!.]*"))
