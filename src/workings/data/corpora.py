"""Texts to learn a language from: named ones, files, and Python's own source and prose."""

import ast
import hashlib
import os
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from workings.data.datasets import cache_folder
from workings.data.download import Mirror, download
from workings.data.readers import read_text_chunks
from workings.errors import UserError, did_you_mean
from workings.io import file_lock

CHUNK_CHARACTERS = 1 << 20  # characters read at a time
MAX_BUILTIN_CHARACTERS = 4_000_000  # characters: enough to learn from, and soon read


@dataclass(frozen=True)
class CorpusSpec:
    """A text by name: the file that holds it, and where it can be had, if it can."""

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
    """Name the texts that `pieces` knows.

    >>> list_corpora()
    ('hello', 'linux-kernel', 'python-prose', 'python-source', 'tinyshakespeare', 'war-and-peace')
    """
    return tuple(sorted([*BUILTIN_CORPORA, *CORPORA]))


def read_corpus(name: str) -> Iterator[str]:
    """Read a text a piece at a time, of whole lines if they are short: it may exceed memory."""
    some = (
        BUILTIN_CORPORA[name]()
        if name in BUILTIN_CORPORA
        else read_text_chunks(_locate_corpus(name))
    )
    waiting: list[str] = []
    length = 0
    for line in some:
        waiting.append(line)
        length += len(line)
        if length >= CHUNK_CHARACTERS:
            yield "".join(waiting)
            waiting, length = [], 0
    if waiting:
        yield "".join(waiting)


def _locate_corpus(name: str) -> Path:
    """Find a text's file: as it is called, under WORKINGS_DATA, in the cache, or download it."""
    if name not in CORPORA:
        path = Path(name)
        if not path.is_file():
            raise UserError(
                f"{name}: neither a file nor a named text: {did_you_mean(name, list_corpora())}"
            )
        return path
    chosen = CORPORA[name]
    kept = cache_folder() / "text"
    given = os.environ.get("WORKINGS_DATA")
    folders = [Path(given) / "text", kept] if given else [kept]
    for folder in folders:
        for end in ("", ".gz"):
            if (folder / f"{chosen.file}{end}").is_file():
                return folder / f"{chosen.file}{end}"
    advice = f"put {chosen.file} into {kept}, or set WORKINGS_DATA to a folder with text/ in it"
    if not chosen.mirrors:
        raise UserError(f"{name}: not on this machine\n{advice}")
    try:
        kept.mkdir(parents=True, exist_ok=True)
        with file_lock(kept / ".lock"):
            return download(chosen.mirrors, kept / chosen.file)
    except UserError as error:
        raise UserError(f"{name}: {error}\n{advice}") from None


def _read_python_source() -> Iterator[str]:
    """The standard library's modules, up to a limit."""
    for text in _limit_characters(_iter_stdlib_sources()):
        yield from text.splitlines(keepends=True)


def _read_python_prose() -> Iterator[str]:
    """What the standard library's modules say of themselves: their documentation strings."""
    for text in _collect_docstrings():
        yield from f"{text.strip()}\n\n".splitlines(keepends=True)


@cache
def _collect_docstrings() -> tuple[str, ...]:
    """Parsed once: it takes seconds, and a text is read three times before it is learned from."""
    return tuple(_limit_characters(_iter_docstrings()))


def _repeat_hello() -> Iterator[str]:
    """The notes' toy: four letters, of which the l is followed by two different ones."""
    yield "hello" * 200


BUILTIN_CORPORA = {
    "hello": _repeat_hello,
    "python-prose": _read_python_prose,
    "python-source": _read_python_source,
}


def _iter_stdlib_sources() -> Iterator[str]:
    """The sources, in an order that has nothing to do with their names: the end is like the rest.

    Without tests, tables of characters, and what other people have installed.
    """
    library = Path(sysconfig.get_paths()["stdlib"])
    found = (*library.glob("*.py"), *library.glob("[a-z]*/*.py"))
    for path in sorted(found, key=lambda p: _hash_name(p.relative_to(library).as_posix())):
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
            if isinstance(node, kinds) and (said := ast.get_docstring(node)):
                yield said


def _limit_characters(texts: Iterable[str]) -> Iterator[str]:
    left = MAX_BUILTIN_CHARACTERS
    for text in texts:
        if left <= 0:
            return
        yield text[:left]
        left -= len(text)
