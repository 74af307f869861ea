"""JSON files with checksums, written atomically and verified when read. Imports no torch."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from workings.errors import UserError, safe_repr
from workings.io import read_bytes, write_text

FORMAT_VERSION = 2
MAX_JSON_BYTES = 64 * 2**20


class CorruptFileError(UserError):
    """A file that differs from what was written, or belongs to another run."""


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write a table as JSON, with the format version and a checksum."""
    write_text(path, _encode_json(data))


def _encode_json(data: Mapping[str, Any]) -> str:
    table = {"format": FORMAT_VERSION, **data}
    canonical = json.dumps(table, sort_keys=True, separators=(",", ":"))
    table["sum"] = hashlib.sha256(canonical.encode()).hexdigest()
    return json.dumps(table, indent=1, ensure_ascii=False) + "\n"


def read_json(path: Path) -> dict[str, Any]:
    """Read a table written by `write_json`; raise CorruptFileError if a byte differs."""
    raw = _read_bytes(path, MAX_JSON_BYTES)
    try:
        data = json.loads(raw.decode("utf-8"))
        version = data.pop("format", None) if isinstance(data, dict) else None
        if version != FORMAT_VERSION:
            raise CorruptFileError(
                f"{path}: format {safe_repr(version)}; this version reads format {FORMAT_VERSION}"
            )
        data.pop("sum", None)
        is_unchanged = raw == _encode_json(data).encode("utf-8")
    except CorruptFileError:
        raise
    except (ValueError, TypeError, RecursionError):
        raise CorruptFileError(f"{path}: not valid JSON: the file is damaged") from None
    if not is_unchanged:
        raise CorruptFileError(f"{path}: wrong checksum: the file is damaged or was edited")
    return dict(data)


def _read_bytes(path: Path, max_bytes: int) -> bytes:
    with wrap_read_errors(path):
        return read_bytes(path, max_bytes)


@contextmanager
def wrap_read_errors(path: Path) -> Iterator[None]:
    """Report a missing, oversized or irregular file as corrupt; other OS errors as a UserError."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise CorruptFileError(f"{path}: missing, or not a file") from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    except UserError as error:
        raise CorruptFileError(str(error)) from None


def file_checksums(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of each named file of a folder."""
    return {n: hashlib.sha256(_read_bytes(folder / n, 2**30)).hexdigest() for n in names}


def table_checksum(table: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a JSON-serializable table."""
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()
