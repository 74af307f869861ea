"""The readers to fuzz: everything that parses files from outside, with valid files as seeds.

A reader gets bytes. It may raise a UserError with a message of one line, or an OSError of the
system. Any other exception is a finding, and so is a file written outside of its folder.
"""

import atexit
import gzip
import io
import json
import os
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import workings.data.readers as lines_module
from workings.data import (
    BytePairTokenizer,
    CharacterTokenizer,
    WordTokenizer,
    load_dataset,
    load_pair_split,
    load_pairs,
    load_tokenizer,
    read_examples,
    read_records,
)
from workings.data.archives import unpack
from workings.data.tokenizers.byte_pair import GPT2Tokenizer
from workings.errors import UserError
from workings.problems.documents.reading import read_problem
from workings.problems.problem import Problem

ROOT = Path(__file__).parents[1]
MAX_MESSAGE_CHARS = 1500


@dataclass(frozen=True)
class Reader:
    """A function that reads bytes, valid seed files, and words that occur in such files."""

    read: Callable[[bytes], None]
    seeds: Callable[[], Sequence[bytes]]
    words: tuple[str, ...] = ()


def read_or_refuse(reader: Reader, data: bytes) -> bool:
    """Return True if the reader accepts the data, False if it refuses it properly; else raise."""
    try:
        reader.read(data)
    except UserError as error:
        message = str(error)
        assert len(message.splitlines()) == 1, f"not one line: {message[:2000]!r}"
        assert len(message) <= MAX_MESSAGE_CHARS, f"{len(message)} characters: {message[:2000]!r}"
        return False
    except OSError as error:
        if error.strerror is None:
            raise
        return False
    return True


@cache
def work_folder() -> Path:
    """Return a temporary folder, deleted at exit; or the one that FUZZ_FOLDER names."""
    if "FUZZ_FOLDER" in os.environ:
        return Path(os.environ["FUZZ_FOLDER"])
    folder = Path(tempfile.mkdtemp(prefix="fuzz-", dir=memory_folder()))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def memory_folder() -> str | None:
    """Return a folder in memory, or None if the system has none."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108


def write_file(name: str, data: bytes) -> Path:
    """Write a file into the working folder; return its path."""
    path = work_folder() / name
    path.write_bytes(data)
    return path


# -- examples --------------------------------------------------------------------------------------

TABLE = 'text,label\r\n"Good, it is.",positive\r\n"two\nlines",negative\r\n"""Bad""",negative\r\n'
LINES = "\n".join(
    [
        json.dumps({"text": "Good, it is.", "label": "positive", "id": 7}),
        json.dumps({"text": "naïve 🙂", "label": 1.5, "more": [{"a": None}, True]}),
        r'{"label": false, "text": "caf\u00e9 \ud83d\ude42"}',
    ]
)


def _of_format(name: str) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        for example in read_examples(io.BytesIO(data), format=name):
            example.text.encode("utf-8")
            assert example.label is None or example.label.strip()
        if name in ("csv", "tsv"):
            list(read_records(io.BytesIO(data), format=name, columns=("a", "b")))

    return read


def _gzip(data: bytes) -> None:
    """Read with a low limit for decompressed bytes, so that small bombs reach it."""
    before = lines_module.FREE_EXPANSION_BYTES
    lines_module.FREE_EXPANSION_BYTES = 2**20
    try:
        for form in ("text", "jsonl"):
            num_chars = sum(
                len(e.text) for e in read_examples(io.BytesIO(data), format=form, label=None)
            )
            assert num_chars <= 2**21 + 200 * len(data)
    finally:
        lines_module.FREE_EXPANSION_BYTES = before


def _gzip_seeds() -> list[bytes]:
    packed = gzip.compress(TABLE.encode())
    named = io.BytesIO()
    with gzip.GzipFile("name.txt", "wb", fileobj=named, mtime=1) as file:
        file.write(LINES.encode())
    bomb = gzip.compress(bytes(3 * 2**20))
    return [packed, named.getvalue(), packed + packed, gzip.compress(b""), bomb, packed + b"rest"]


def _folder(data: bytes) -> None:
    """Read a folder described as KIND NAME NUL CONTENT NUL; kinds: file, link, pipe, gzip."""
    folder = work_folder() / "folder"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (work_folder() / "secret.txt").write_text("secret")
    parts = data.split(b"\0")
    for name, content in zip(parts[::2], parts[1::2], strict=False):
        where = folder / os.fsdecode(name[1:])
        try:
            if not where.parent.resolve().is_relative_to(folder.resolve()):
                continue
            where.parent.mkdir(parents=True, exist_ok=True)
            if where.is_symlink() or where.exists():
                continue  # do not write through a link or to a pipe
            if name[:1] == b"l":
                where.symlink_to(os.fsdecode(content))
            elif name[:1] == b"p":
                os.mkfifo(where)
            else:
                content = content.replace(b"secret", b"")  # only a link could lead to it
                with where.open("xb") as file:
                    file.write(gzip.compress(content) if name[:1] == b"g" else content)
        except (OSError, ValueError):
            continue
    for example in read_examples(folder):
        assert example.text != "secret"
    splits = load_dataset(folder)
    assert all(e.text != "secret" for e in (*splits.train, *splits.validation, *splits.test))


def _folder_seeds() -> list[bytes]:
    plain = {"fpos/a.txt": "good", "fpos/b.txt": "fine\n", "gneg/c.txt.gz": "bad"}
    split = {"ftrain.csv": TABLE, "ftest.csv": TABLE, "fdev.jsonl": LINES}
    links = {"fpos/a.txt": "x", "lpos/b.txt": "../../secret.txt", "pneg/p.txt": "", "lneg": "pos"}
    sets = {"ftrain/pos/a.txt": "x", "ftrain/neg/b.txt": "y", "ftest/pos/c.txt": "z"}
    return [
        b"".join(f"{name}\0{content}\0".encode() for name, content in files.items())
        for files in (plain, split, links, sets)
    ]


def _pairs(data: bytes) -> None:
    """Read pairs: p and two files separated by NUL, or t, c or j and a TSV, CSV or JSONL file."""
    folder = work_folder() / "pairs"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    kind, content = data[:1], data[1:]
    if kind == b"p":
        one, _, other = content.partition(b"\0")
        (folder / "train.de").write_bytes(one)
        (folder / "train.en").write_bytes(other)
        splits = load_pairs(folder / "train", source="de", target="en", validation=0.2, test=0.2)
        assert load_pair_split(folder, "train", source="de", target="en")
    else:
        name = {b"t": "a.tsv", b"c": "a.csv"}.get(kind, "a.jsonl")
        (folder / name).write_bytes(content)
        source, target = ("1", "2") if kind == b"t" else ("de", "en")
        splits = load_pairs(folder / name, source=source, target=target, validation=0.2, test=0.2)
    assert splits.train
    assert splits.validation
    assert splits.test
    for pair in (*splits.train, *splits.validation, *splits.test):
        assert not set("\r\n") & set(pair.source + pair.target)
        assert pair.source.strip()
        assert pair.target.strip()


def _pairs_seeds() -> list[bytes]:
    german = "Brot\nWein, rot\n\nKäse \r\nein Fisch\nzwei Fische\nMilch\n"
    english = "bread\nred wine\n\ncheese\na fish\ntwo fish\nmilk\n"
    both = list(zip(german.split("\n")[:-1], english.split("\n")[:-1], strict=True))
    lines = "\n".join(json.dumps({"de": one, "en": other}) for one, other in both)
    return [
        f"p{german}\0{english}".encode(),
        b"p" + gzip.compress(german.encode()) + b"\0" + english.encode(),
        ("t" + "".join(f"{one.strip()}\t{other}\n" for one, other in both)).encode(),
        ("cde,en\n" + "".join(f'"{one}",{other}\n' for one, other in both)).encode(),
        f"j{lines}".encode(),
    ]


# -- archives --------------------------------------------------------------------------------------

FILES = {"set/a.txt": b"one", "set/deep/b.txt": b"two" * 1000, "c.txt": b"", "d/": b""}


def _archive(data: bytes) -> None:
    path, out = write_file("archive", data), work_folder() / "out"
    shutil.rmtree(out, ignore_errors=True)
    before = sorted(p.name for p in work_folder().iterdir())
    try:
        unpack(path, out, max_bytes=10**6, max_members=100)
    finally:
        after = sorted(p.name for p in work_folder().iterdir() if p.name != "out")
        assert after == before, "files were left outside of the folder"
        if out.exists():
            assert sum(p.stat().st_size for p in out.rglob("*") if p.is_file()) <= 10**6
            assert not any(p.is_symlink() for p in out.rglob("*"))


def _zip_seeds() -> list[bytes]:
    files = []
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        raw = io.BytesIO()
        with zipfile.ZipFile(raw, "w", method) as archive:
            for name, content in FILES.items():
                archive.writestr(name, content)
        files.append(raw.getvalue())
    return files


def _tar_seeds() -> list[bytes]:
    files = []
    for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        for mode in ("w", "w:gz"):
            raw = io.BytesIO()
            with tarfile.open(fileobj=raw, mode=mode, format=form) as archive:
                for name, content in {**FILES, "long/" * 20 + "n" * 90: b"x"}.items():
                    info = tarfile.TarInfo(name)
                    info.size = len(content)
                    if form == tarfile.PAX_FORMAT:
                        info.pax_headers = {"comment": "ü", "mtime": "1.5"}
                    archive.addfile(info, io.BytesIO(content))
            files.append(raw.getvalue())
    for sparse in ("GNU.sparse.map", "GNU.sparse.major"):
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
            info = tarfile.TarInfo("sparse")
            info.size = 512
            info.pax_headers = {sparse: "0,1,9,9" if "map" in sparse else "1"}
            info.pax_headers |= {"GNU.sparse.minor": "0", "GNU.sparse.size": "99999999999"}
            archive.addfile(info, io.BytesIO(b"1\n0\n1\n" + bytes(506)))
        files.append(raw.getvalue())
    return files


# -- texts, tokenizers, problems -------------------------------------------------------------------

TEXTS = ['It\'s a "great" film!<br /><br />I loved it (twice).', "naïve 🙂 <pad> İ", "Bad; bad: ?"]


@cache
def _tokenizers() -> list[WordTokenizer | CharacterTokenizer | BytePairTokenizer]:
    return [
        kind.train(TEXTS * 3, vocab_size=300)
        for kind in (WordTokenizer, CharacterTokenizer, BytePairTokenizer)
    ]


def _texts(data: bytes) -> None:
    """Encode a text with every tokenizer, for their regular expressions."""
    text = data.decode("utf-8", "surrogateescape")
    for tokenizer in _tokenizers():
        ids = tokenizer.encode(text)
        assert len(tokenizer.find_spans(text)) == len(ids)
        assert tokenizer.encode_batch([text]) == [ids]
        tokenizer.decode(ids)


def _tokenizer(data: bytes) -> None:
    tokenizer = load_tokenizer(write_file("tokenizer.json", data))
    ids = tokenizer.encode(TEXTS[0])
    assert all(0 <= i < len(tokenizer) for i in ids)
    tokenizer.decode(ids)
    tokenizer.save(work_folder() / "again.json")
    assert load_tokenizer(work_folder() / "again.json") == tokenizer


def _tokenizer_seeds() -> list[bytes]:
    tables = []
    pairs = _tokenizers()[-1]
    imported = GPT2Tokenizer(pairs.to_dict()["vocabulary"], merges=pairs.merges, end_of_text_id=0)
    for tokenizer in (*_tokenizers(), imported):
        tokenizer.save(work_folder() / "seed.json")
        tables.append((work_folder() / "seed.json").read_bytes())
    return tables


def _problem(data: bytes) -> None:
    problem = Problem.from_toml(data.decode("utf-8", "replace"))
    problem.solve()
    problem.check()


def _problem_seeds() -> list[bytes]:
    return [p.read_bytes() for p in sorted((ROOT / "lectures").glob("*.toml"))]


def _slide(data: bytes) -> None:
    read_problem(data.decode("utf-8", "replace")).solve()


def _slide_seeds() -> list[bytes]:
    slides = [p.read_bytes() for p in sorted((ROOT / "docs").glob("slide.*"))]
    return [*slides, b"X = tensor([[1., 0.], [0., 1.]])\nscores:\n1,0\n0,4\n", b"X:\n1 2\n3 4\n"]


NUMBERS = ("nan", "inf", "-1", "0", "1e999", "9" * 70, "0x" + "f" * 2000, "1_0", "1979-05-27")
BRACKETS = ("[[", "]]", "{", "}", "[", "]", '"', '"""', "'''", "\\u0000", "\\ud800", "\ufeff")
TOML = (*NUMBERS, *BRACKETS, " = ", "\n[a]\n", "\n[[a]]\n", "true", "a.b.c", "# ", "\r\n")
JSON = (*NUMBERS, *BRACKETS, ":", ",", "null", "NaN", "\\", "[" * 200, '{"a":' * 200)

READERS: dict[str, Reader] = {
    "csv": Reader(
        _of_format("csv"),
        lambda: [TABLE.encode(), TABLE.replace(",", ";").encode()],
        ('"', '""', ",", ";", "\r", "\n", "\ufeff", "\0", "text,label"),
    ),
    "tsv": Reader(
        _of_format("tsv"), lambda: [b"text\tlabel\na\t1\n\nb c\t2\n"], ("\t", "\n", "text\tlabel")
    ),
    "jsonl": Reader(_of_format("jsonl"), lambda: [LINES.encode()], (*JSON, '"text"', '"label"')),
    "text": Reader(
        _of_format("text"), lambda: ["one\n\ntwo\x85\u2028\r\nü".encode()], ("\ufeff", "\r", "\n")
    ),
    "gzip": Reader(_gzip, _gzip_seeds),
    "folder": Reader(
        _folder,
        _folder_seeds,
        ("\0f", "\0l", "\0p", "\0g", "pos/", "train", "test", ".txt", ".csv", ".gz", "../", "/"),
    ),
    "pairs": Reader(
        _pairs, _pairs_seeds, ("\0", "\n", "\r\n", "\t", '"', "de", "en", "\ufeff", " ", "\x1f\x8b")
    ),
    "zip": Reader(_archive, _zip_seeds, ("PK\x01\x02", "PK\x03\x04", "PK\x05\x06", "../", "/")),
    "tar": Reader(_archive, _tar_seeds, ("ustar", "path=", "size=", "GNU.sparse.", "../", "12 ")),
    "texts": Reader(
        _texts, lambda: [t.encode() for t in TEXTS], ("<br />", '<"', "<b", "'", "İ", "\ud7ff", " ")
    ),
    "tokenizer": Reader(_tokenizer, _tokenizer_seeds, (*JSON, '"vocabulary"', '"merges"', "Ġ")),
    "problem": Reader(_problem, _problem_seeds, (*TOML, "[given]\n", "[claim]\n", "X = ", "W_Q")),
    "slide": Reader(
        _slide, _slide_seeds, ("\\begin{bmatrix}", "\\\\", "&", "$$", "|", "⎡", "tensor(", "=")
    ),
}
