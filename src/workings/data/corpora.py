"""Texts to train language models on: named corpora, files, and Python's own source code."""

import ast
import hashlib
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from workings.data.cache import dataset_folders
from workings.data.datasets import find_split_paths, read_hub_splits
from workings.data.download import Mirror, locate_file
from workings.data.progress import estimate_file_characters
from workings.data.readers import Example, read_examples, read_text_chunks, to_examples
from workings.data.tables import HUGGING_FACE_PREFIX
from workings.errors import UserError, did_you_mean
from workings.io import check_inside

CHUNK_CHARACTERS = 1 << 20
MAX_BUILTIN_CHARACTERS = 4_000_000
"""Limit of the texts from Python's standard library: enough to train on, and quick to read."""


@dataclass(frozen=True)
class CorpusSpec:
    """A corpus: its file, and its mirrors if it can be downloaded."""

    file: str
    mirrors: tuple[Mirror, ...] = ()


CORPORA = {
    "tinyshakespeare": CorpusSpec(
        "tinyshakespeare.txt",
        (
            Mirror(
                "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
                size=1_115_394,
                digest="sha256:86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
            ),
        ),
    ),
    "war-and-peace": CorpusSpec("war_and_peace.txt"),
    "linux-kernel": CorpusSpec("linux_kernel.txt"),
}


def list_corpora() -> tuple[str, ...]:
    """Return the names of the corpora that `read_corpus` knows.

    >>> list_corpora()
    ('hello', 'linux-kernel', 'python-prose', 'python-source', 'tinyshakespeare', 'war-and-peace')
    """
    return tuple(sorted([*BUILTIN_CORPORA, *CORPORA]))


def read_corpus(name: str, column: str = "") -> Iterator[str]:
    """Read a corpus or file in chunks, since it may be larger than memory.

    `column` is the column of the texts, if the file is a table or a dataset. A folder is read as
    its .txt files, one after the other. Chunks end at the end of a line, unless lines are very
    long.
    """
    if name in BUILTIN_CORPORA:
        lines = BUILTIN_CORPORA[name]()
    elif column:
        lines = (row.text.rstrip("\r\n") + "\n" for row in _read_rows(name, column))
    elif Path(name).is_dir() and name not in CORPORA:
        lines = _read_text_folder(Path(name))
    else:
        lines = read_text_chunks(_locate_corpus(name))
    chunk: list[str] = []
    length = 0
    for line in lines:
        chunk.append(line)
        length += len(line)
        if length >= CHUNK_CHARACTERS:
            yield "".join(chunk)
            chunk, length = [], 0
    if chunk:
        yield "".join(chunk)


def _read_rows(name: str, column: str) -> Iterator[Example]:
    """Read the texts of a table, or of the training split of a dataset, maybe on the hub."""
    if name.startswith(HUGGING_FACE_PREFIX):
        return to_examples(read_hub_splits(name)["train"], column, None, skip_missing=True)
    path = Path(name)
    source = find_split_paths(path)["train"] if path.is_dir() else path
    return read_examples(source, text=column, label=None, skip_missing=True)


def estimate_characters(name: str) -> int:
    """Return about how many characters a corpus has, by the size of its files; 0: unknown."""
    if name in BUILTIN_CORPORA:
        return 0
    return estimate_file_characters(Path(name) if name not in CORPORA else _locate_corpus(name))


def sample_chunks(chunks: Iterable[str], total: int, limit: int) -> Iterator[str]:
    """Yield chunks of a text of `total` characters: all, or evenly spread ones of about `limit`."""
    seen = taken = 0
    for chunk in chunks:
        seen += len(chunk)
        if total <= limit or taken < seen * limit / total:
            taken += len(chunk)
            yield chunk


def _read_text_folder(folder: Path) -> Iterator[str]:
    files = sorted(p for p in folder.rglob("*") if p.name.endswith((".txt", ".txt.gz")))
    if not files:
        raise UserError(f"{folder}: no texts: expected *.txt files")
    for file in files:
        check_inside(file, folder)
        yield from read_text_chunks(file)


def _locate_corpus(name: str) -> Path:
    """Return the path of a file, or of a named corpus, which is downloaded if necessary."""
    if name not in CORPORA:
        path = Path(name)
        if not path.is_file():
            suggestion = did_you_mean(name, list_corpora())
            raise UserError(f"{name}: neither a file nor a named corpus: {suggestion}")
        return path
    spec = CORPORA[name]
    folders = dataset_folders("text")
    hint = f"put {spec.file} into {folders[-1]}, or set WORKINGS_DATA to a folder with text/ in it"
    return locate_file(name, spec.file, folders, spec.mirrors, hint=hint)


def _read_python_source() -> Iterator[str]:
    """Yield the lines of the standard library's modules, up to the limit."""
    for text in _limit_characters(_iter_stdlib_sources()):
        yield from text.splitlines(keepends=True)


def _read_python_prose() -> Iterator[str]:
    """Yield the lines of the standard library's docstrings, up to the limit."""
    for text in _collect_docstrings():
        yield from f"{text.strip()}\n\n".splitlines(keepends=True)


def _repeat_hello() -> Iterator[str]:
    """Yield the toy corpus of the lectures: in "hello", l is followed by two different letters."""
    yield "hello" * 200


BUILTIN_CORPORA = {
    "hello": _repeat_hello,
    "python-prose": _read_python_prose,
    "python-source": _read_python_source,
}


@cache
def _collect_docstrings() -> tuple[str, ...]:
    """Return the docstrings; cached, since parsing takes seconds and training reads them often."""
    return tuple(_limit_characters(_iter_docstrings()))


def _iter_stdlib_sources() -> Iterator[str]:
    """Yield the modules' sources ordered by a hash, so that the held-out end is like the rest.

    Tests, tables of characters and installed packages are left out.
    """
    library = Path(sysconfig.get_paths()["stdlib"])
    paths = (*library.glob("*.py"), *library.glob("[a-z]*/*.py"))
    for path in sorted(paths, key=lambda p: _hash_name(p.relative_to(library).as_posix())):
        if path.parent.name in ("test", "site-packages", "encodings", "pydoc_data", "lib2to3"):
            continue
        try:
            yield path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue


def _hash_name(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def _iter_docstrings() -> Iterator[str]:
    for source in _iter_stdlib_sources():
        try:
            tree = ast.parse(source)
        except (SyntaxError, RecursionError):
            continue
        for node in ast.walk(tree):
            kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
            if isinstance(node, kinds) and (docstring := ast.get_docstring(node)):
                yield docstring


def _limit_characters(texts: Iterable[str]) -> Iterator[str]:
    """Yield texts until `MAX_BUILTIN_CHARACTERS`; the last one is cut off there."""
    remaining = MAX_BUILTIN_CHARACTERS
    for text in texts:
        if remaining <= 0:
            return
        yield text[:remaining]
        remaining -= len(text)
