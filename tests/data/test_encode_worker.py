"""Encoding in several processes, and arrays of ids that equal the lists."""

import os
import time
from itertools import chain
from random import Random

import pytest

from workings.data import cache, encode_worker
from workings.data.cache import encode_cached, encode_short_texts
from workings.data.corpora import sample_chunks
from workings.data.tokenizers.base import train_tokenizer
from workings.errors import UserError
from workings.ragged import RaggedArray

PARTS = ["it's", "ab", " ", "  ", "\n", "\t", "Äb", "12", "..", "\x1c", "\x85", "\xa0", "\u2003"]
PARTS += [
    "日本",
    "\r\n",
    "'s",
    " '",
    "\x1f",
    "\u200b",
    "\ufeff",
    "🙂",
    "\u2028",
    "\x00",
    "\x0b",
    "\ud800",
]


def random_texts(count, seed=0):
    rng = Random(seed)  # noqa: S311
    return ["".join(rng.choices(PARTS, k=rng.randint(0, 12))) for _ in range(count)]


@pytest.fixture(scope="module", params=["words", "characters", "byte-pair"])
def tokenizer(request):
    size = {"byte-pair": 600}.get(request.param, 20)
    return train_tokenizer(request.param, ["it's a ab ab 日本 .. 12 12"] * 20, size)


def test_an_array_has_the_ids_of_the_list(tokenizer):
    for text in random_texts(2000):
        assert tokenizer.encode_array(text, "uint16").tolist() == tokenizer.encode(text)


def test_batches_have_the_ids_of_single_texts(tokenizer):
    texts = random_texts(600)
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]


def test_several_processes_encode_in_order(tokenizer, monkeypatch):
    monkeypatch.setattr(encode_worker, "NUM_SINGLE", 3)
    monkeypatch.setattr(encode_worker, "_count_cores", lambda: 2)
    texts = random_texts(40, seed=1)
    arrays = list(encode_worker.encode_texts(texts, tokenizer, "uint16"))
    assert [ids.tolist() for ids in arrays] == [tokenizer.encode(text) for text in texts]


def test_a_process_that_ends_is_an_error(monkeypatch):
    monkeypatch.setattr(encode_worker, "NUM_SINGLE", 0)
    monkeypatch.setattr(encode_worker, "_count_cores", lambda: 2)
    monkeypatch.setattr(encode_worker.sys, "executable", "/bin/false")
    with pytest.raises(UserError, match="a process that encodes the text ended"):
        list(encode_worker.encode_texts(["a"] * 4, train_tokenizer("words", ["a"]), "uint16"))


def test_long_characters_are_counted_like_short_ones():
    text = "".join(random_texts(3000)).replace("\ud800", "")
    whole = train_tokenizer("characters", [text], 25, min_count=2)
    assert whole == train_tokenizer(
        "characters", [text[k : k + 100] for k in range(0, len(text), 100)], 25, 2
    )


def test_a_sample_of_chunks_is_evenly_spread():
    chunks = [chr(97 + k % 26) * 10 for k in range(100)]
    assert list(sample_chunks(chunks, 1000, 1000)) == chunks
    sample = list(sample_chunks(chunks, 1000, 250))
    assert sample == chunks[::4]


def test_rows_of_a_ragged_array():
    rows = RaggedArray.build([[1, 2], [], [3], [4, 5, 6]], "int32")
    assert [row.tolist() for row in rows] == [[1, 2], [], [3], [4, 5, 6]]
    assert rows[-1].tolist() == [4, 5, 6]
    assert [row.tolist() for row in rows[1:]] == [[], [3], [4, 5, 6]]
    assert rows[rows.lengths.argsort()[::-1]][0].tolist() == [4, 5, 6]
    with pytest.raises(IndexError):
        rows[4]
    assert len(RaggedArray.build([], "int32")) == 0


def test_the_cache_keeps_to_its_limit(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tokenizer = train_tokenizer("characters", ["abc"])
    now = iter(range(1, 100))
    utime = os.utime
    monkeypatch.setattr(cache.os, "utime", lambda path: utime(path, (next(now),) * 2))
    size = 2 * 1000 + cache.DIGEST_BYTES
    monkeypatch.setenv("WORKINGS_CACHE_GB", str(2.5 * size / 1e9))

    def encode(name):
        ids = encode_cached([name * 1000], tokenizer, name)
        assert ids[:3].tolist() == tokenizer.encode(name * 3)
        return ids

    first = encode("a")
    for name, age in ((".killed.uint16.part", 2), (".writing.uint16.part", 0)):
        part = tmp_path / "workings" / "tokens" / name
        part.write_bytes(b"")
        utime(part, (time.time() - 86_400 * age,) * 2)
    encode("b")
    assert [p.name for p in part.parent.glob(".*.part")] == [part.name]
    encode("a")
    encode("c")  # b was not used for longest
    files = [p for p in (tmp_path / "workings" / "tokens").iterdir() if p.suffix == ".uint16"]
    assert len(files) == 2
    made = []
    monkeypatch.setattr(cache, "_write_chunks", lambda *_: made.append(1))
    assert encode("a")[:].tolist() == first[:].tolist()
    assert not made
    monkeypatch.setenv("WORKINGS_CACHE_GB", "much")
    with pytest.raises(UserError, match="WORKINGS_CACHE_GB = 'much': expected a number"):
        cache.cache_limit()


@pytest.mark.parametrize("cores", [1, 2])
def test_short_texts_are_encoded_once_and_then_read_from_the_cache(
    tokenizer, cores, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(encode_worker, "NUM_SINGLE", 1)
    monkeypatch.setattr(encode_worker, "LIST_CHARACTERS", 200)
    monkeypatch.setattr(encode_worker, "_count_cores", lambda: cores)
    texts = [*random_texts(300, seed=2), "\ud83d" + "\ude00", ""]
    expected = [[7, *tokenizer.encode(text)[:5]] for text in texts]

    def adapt(rows):
        return rows.truncate(5).surround([7], [])

    for key in ("", "key", "key"):
        rows = encode_short_texts(iter(texts), tokenizer, adapt, key)
        assert [row.tolist() for row in rows] == expected
        assert rows.lengths.tolist() == list(map(len, expected))
        assert [row.tolist() for row in rows[3:9]] == expected[3:9]
        assert rows[-1].tolist() == expected[-1]
    monkeypatch.setattr(cache, "_write_chunks", lambda *_: pytest.fail("encoded again"))
    assert len(encode_short_texts(iter(()), tokenizer, adapt, "key")) == len(texts)


def test_rows_are_cut_surrounded_and_merged():
    rng = Random(3)  # noqa: S311
    for _ in range(50):
        lists = [rng.choices(range(9), k=rng.randint(0, 4)) for _ in range(rng.randint(0, 6))]
        rows = RaggedArray.build(lists, "uint16")
        limit, cut = rng.randint(0, 3), rng.randint(0, len(lists))
        assert [r.tolist() for r in rows.truncate(limit)] == [r[:limit] for r in lists]
        around = rows.surround([1, 2], [3])
        assert [r.tolist() for r in around] == [[1, 2, *r, 3] for r in lists]
        merged = rows.merge([cut, 0, len(lists) - cut])
        assert [r.tolist() for r in merged] == [[*chain(*lists[:cut])], [], [*chain(*lists[cut:])]]
        both = RaggedArray.concatenate([rows, around], "uint16")
        assert [r.tolist() for r in both] == [*lists, *(r.tolist() for r in around)]
