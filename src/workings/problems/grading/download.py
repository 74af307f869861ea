"""Unpack the ZIP archive of all hand-ins that a learning platform lets a teacher download."""

import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workings.errors import UserError

_MAX_FILES = 50_000
_MAX_BYTES = 4_000_000_000


@contextmanager
def open_answers(path: Path) -> Iterator[Path]:
    """Yield the folder of the answers; that of a ZIP archive is removed at the end."""
    if not path.is_file():
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        try:
            with zipfile.ZipFile(path) as archive:
                members = archive.infolist()
                if len(members) > _MAX_FILES or sum(m.file_size for m in members) > _MAX_BYTES:
                    raise UserError(f"{path}: larger than {_MAX_BYTES // 10**9} GB unpacked")
                archive.extractall(folder)  # names are made safe
        except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError, ValueError):
            raise UserError(f"{path}: expected a folder or a ZIP archive of answers") from None
        yield _find_root(Path(folder))


def _find_root(folder: Path) -> Path:
    """Return the folder of the students: an archive often has one folder around them."""
    entries = [entry for entry in folder.iterdir() if not entry.name.startswith(("__", "."))]
    if len(entries) == 1 and entries[0].is_dir() and any(e.is_dir() for e in entries[0].iterdir()):
        return _find_root(entries[0])
    return folder
