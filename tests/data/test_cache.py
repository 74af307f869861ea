"""The cache folder of each system, and arrays that are cached in it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from workings.data.cache import (
    cache_folder,
    compute_text_checksum,
    encode_cached,
    open_cached_array,
)
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
    assert ids.dtype == np.uint16
    assert tokenizer.decode(ids[:].tolist()) == "abracadabra"
    assert np.array_equal(encode_cached(iter(()), tokenizer, checksum), ids)  # from the cache
    other = CharacterTokenizer.train(["abrcdx"])
    assert other.decode(encode_cached(texts, other, checksum)[:].tolist()) == "abracadabra"
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
    assert tokenizer.decode(encode_cached(texts, tokenizer, "sum")[:].tolist()) == "abracadabra"
    assert path.read_bytes() == raw


@pytest.mark.usefixtures("cache")
def test_full_disk_is_reported_and_leaves_no_file(monkeypatch):
    def fail(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(UserError, match=r"No space left on device: cannot cache tokens"):
        encode_cached(["abra"], CharacterTokenizer.train(["abra"]), "sum")
    assert not list((cache_folder() / "tokens").glob("[!.]*"))


CUT_SHORT = """
import os, sys
from pathlib import Path
import numpy as np
from workings.data.cache import cache_folder, open_cached_array
from workings.errors import UserError

array, _ = open_cached_array("tokens", "key", "uint16", lambda: [np.arange(30_000, dtype="uint16")])
(path,) = (cache_folder() / "tokens").glob("*.uint16")
os.truncate(path, 1000)
print(int(array[3]))
try:
    array[20_000:20_010].sum()
except UserError as error:
    print(error)
"""


@pytest.mark.usefixtures("cache")
def test_a_file_cut_short_while_it_is_read_is_an_error():
    """In a process of its own: a memory map would end it with SIGBUS."""
    done = subprocess.run(
        [sys.executable, "-c", CUT_SHORT], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    first, message = done.stdout.splitlines()
    assert first == "3"
    assert re.fullmatch(r".*\.uint16: cut short .*: .* written again", message)


@pytest.mark.usefixtures("cache")
def test_rows_of_an_array_in_a_file_are_those_of_an_array():
    expected = np.random.default_rng(0).integers(0, 256, size=(20, 3, 2), dtype=np.uint8)
    flat, _ = open_cached_array("images", "key", "uint8", lambda: [expected])
    rows = flat.split_rows(18, (3, 2))
    assert (len(rows), rows.shape) == (18, (18, 3, 2))
    slices = [
        slice(*k) for k in [(None,), (4, 9), (-3, None), (9, 4), (2, 15, 3), (None, None, -2)]
    ]
    for index in (0, 17, -1, *slices, [5], [3, 3, 0, -2], []):
        np.testing.assert_array_equal(rows[index], expected[:18][index])
    np.testing.assert_array_equal(np.asarray(rows), expected[:18])
    assert [row.tolist() for row in rows] == expected[:18].tolist()
    assert rows[:2].flags.writeable
    for index in (18, -19, [0, 18]):
        with pytest.raises(IndexError):
            rows[index]
