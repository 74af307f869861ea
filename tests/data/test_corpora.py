"""Corpora: built in, files, and named ones that are missing."""

import gzip

import pytest

from workings.data import corpora
from workings.data.corpora import list_corpora, read_corpus
from workings.errors import UserError


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def short_builtins(monkeypatch):
    """Parsing all docstrings of the standard library takes seconds."""
    monkeypatch.setattr(corpora, "MAX_BUILTIN_CHARACTERS", 60_000)
    corpora._collect_docstrings.cache_clear()
    yield
    corpora._collect_docstrings.cache_clear()


def test_builtin_corpus_is_long():
    assert len(next(read_corpus("python-source"))) > 500_000


@pytest.mark.usefixtures("short_builtins")
@pytest.mark.parametrize("name", ["python-prose", "python-source"])
def test_builtin_corpora_are_limited_and_repeatable(name):
    text = "".join(read_corpus(name))
    assert 60_000 <= len(text) < 70_000
    assert text == "".join(read_corpus(name))
    assert name in list_corpora()


@pytest.mark.usefixtures("short_builtins")
def test_python_source_is_code_and_prose_is_english():
    assert "def __init__(self" in next(read_corpus("python-source"))
    prose = next(read_corpus("python-prose"))
    assert prose.count("def ") < prose.count(" the ")


def test_file_is_read_in_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr("workings.data.corpora.CHUNK_CHARACTERS", 50)
    text = "".join(f"line {k}: élan\n" for k in range(40))
    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress(text.encode()))
    chunks = list(read_corpus(str(path)))
    assert len(chunks) > 5
    assert "".join(chunks) == text


def test_long_lines_are_read_in_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr("workings.data.readers.CHUNK_BYTES", 7)  # splits characters
    text = "élan vital " * 50 + "\nnaïve"
    path = tmp_path / "text.txt"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert "".join(read_corpus(str(path))) == text


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"one\ntwo \xe9\n", "line 2: not UTF-8: byte 0xe9"),
        (b"caf\xe9\n", "line 1: not UTF-8: byte 0xe9 in column 4"),
        ("text".encode("utf-16"), "UTF-16: save it as UTF-8"),
        (b"cut \xc3", "not UTF-8"),
    ],
)
def test_files_that_are_not_utf8_are_rejected(tmp_path, raw, message):
    path = tmp_path / "text.txt"
    path.write_bytes(raw)
    with pytest.raises(UserError, match=message):
        list(read_corpus(str(path)))


def test_missing_corpora_are_reported(monkeypatch):
    monkeypatch.delenv("WORKINGS_DATA", raising=False)
    with pytest.raises(UserError, match="did you mean 'python-source'"):
        next(read_corpus("python-sorce"))
    with pytest.raises(UserError, match="WORKINGS_DATA"):
        next(read_corpus("war-and-peace"))
