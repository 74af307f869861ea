"""Safe reading of archives: no path leaves its folder, and sizes are limited."""

import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import cast

from workings.data import readers
from workings.data.readers import open_maybe_gzip
from workings.errors import UserError, safe_repr, truncate
from workings.io import atomic_folder

MAX_UNPACKED_BYTES = 4 * 2**30
MAX_MEMBERS = 500_000
"""Limit of files and folders in an archive."""

_CHUNK_BYTES = 2**18
_CORRUPTION_ERRORS = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    LookupError,
    OverflowError,
    RuntimeError,
    ValueError,
)
_ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")


def unpack(
    archive: str | Path,
    folder: str | Path,
    *,
    max_bytes: int = MAX_UNPACKED_BYTES,
    max_members: int = MAX_MEMBERS,
) -> Path:
    """Unpack an archive into a new folder, which appears only when it is complete."""
    folder = Path(folder)
    if folder.exists():
        raise UserError(f"{folder} exists already: give a new folder")
    with atomic_folder(folder, unique=True) as part:
        for member in iter_members(archive, max_bytes=max_bytes, max_members=max_members):
            target = part / member.name
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("xb") as file:
                    member.copy(file)
            except FileExistsError:
                raise UserError(
                    f"{archive}: {safe_repr(member.name)} is in the archive twice: not unpacked"
                ) from None
            except OSError as error:
                raise UserError(f"{archive}: {safe_repr(member.name)}: {error.strerror}") from None
    return folder


def iter_members(
    archive: str | Path, *, max_bytes: int = MAX_UNPACKED_BYTES, max_members: int = MAX_MEMBERS
) -> Iterator["ArchiveMember"]:
    """Yield the files of a tar, tar.gz or zip archive; read each before the next one.

    The type is detected from the first bytes. Raises UserError for a path that leaves the archive,
    a link or a device, and if there are more bytes or members than allowed.
    """
    archive = Path(archive)
    budget = _Budget(archive, max_bytes, max_members)
    with open_maybe_gzip(archive) as stream:
        is_zip = stream.read(4) in _ZIP_MAGIC
    with _corruption_as_user_error(archive):
        yield from _iter_zip(archive, budget) if is_zip else _iter_tar(archive, budget)


class ArchiveMember:
    """A file of an archive, which can be read until the next one is requested."""

    def __init__(self, name: str, stream: io.BufferedIOBase, budget: "_Budget") -> None:
        self.name, self._stream, self._budget = name, stream, budget

    def _chunks(self) -> Iterator[bytes]:
        with _corruption_as_user_error(self._budget.archive):
            while chunk := self._stream.read(_CHUNK_BYTES):
                self._budget.count_bytes(len(chunk))
                yield chunk

    def read(self) -> bytes:
        """Return the content."""
        return b"".join(self._chunks())

    def copy(self, to: io.BufferedIOBase) -> None:
        """Write the content to a file, chunk by chunk."""
        for chunk in self._chunks():
            to.write(chunk)


class ZipReader:
    """Random access to the files of a zip archive."""

    def __init__(self, archive: Path, *, max_members: int = MAX_MEMBERS) -> None:
        self.archive = archive
        with open_maybe_gzip(archive) as stream:
            if stream.read(4) not in _ZIP_MAGIC:
                raise UserError(f"{archive}: not a zip archive")
        with _corruption_as_user_error(archive):
            self._file = zipfile.ZipFile(archive)
            self.entries = dict(
                _iter_zip_entries(self._file, _Budget(archive, MAX_UNPACKED_BYTES, max_members))
            )

    def read(self, name: str) -> bytes:
        """Return the content of a file; it has at most the size that its entry states."""
        with _corruption_as_user_error(self.archive):
            return self._file.read(self.entries[name])

    def close(self) -> None:
        """Close the archive."""
        self._file.close()


def check_member_name(name: str, archive: str | Path = "archive") -> str:
    r"""Return a member's path, or raise UserError if it would leave the folder on any system.

    >>> check_member_name("aclImdb/train/pos/0_9.txt")
    'aclImdb/train/pos/0_9.txt'
    >>> check_member_name("../evil.txt")
    Traceback (most recent call last):
    workings.errors.UserError: archive: the path '../evil.txt' leaves the folder: not unpacked
    """
    path = PurePosixPath(name)
    has_separators = set(name) & set("\\:\0")  # of folders and drives on other systems
    if path.is_absolute() or ".." in path.parts or has_separators or name.startswith("~"):
        raise UserError(f"{archive}: the path {safe_repr(name)} leaves the folder: not unpacked")
    return str(path)


class _Budget:
    """The remaining bytes and members of an archive; actual bytes count, as headers may lie."""

    def __init__(self, archive: Path, max_bytes: int, max_members: int) -> None:
        self.archive, self.max_bytes, self.max_members = archive, max_bytes, max_members
        self.bytes_left, self.members_left = max_bytes, max_members

    def count_member(self) -> None:
        self.members_left -= 1
        if self.members_left < 0:
            raise UserError(f"{self.archive}: more than {self.max_members:,} files: not unpacked")

    def count_bytes(self, count: int) -> None:
        self.bytes_left -= count
        if self.bytes_left < 0:
            raise UserError(f"{self.archive}: more than {self.max_bytes:,} bytes: not unpacked")


@contextmanager
def _corruption_as_user_error(archive: Path) -> Iterator[None]:
    """Raise UserError for the many exceptions that the libraries raise for damaged archives."""
    try:
        yield
    except UserError:
        raise
    except (*_CORRUPTION_ERRORS, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # from the operating system, not from a decompressor
        reason = truncate(str(error) or type(error).__name__, 100)
        raise UserError(f"{archive}: a damaged archive: {reason}") from None


def _iter_tar(archive: Path, budget: _Budget) -> Iterator[ArchiveMember]:
    with open_maybe_gzip(archive) as stream:
        try:
            tar = tarfile.open(fileobj=stream, mode="r|")  # noqa: SIM115 - closed just below
        except tarfile.TarError:
            raise UserError(f"{archive}: neither a tar.gz nor a zip archive") from None
        with tar:
            while info := tar.next():
                tar.members.clear()  # type: ignore[attr-defined]  # keeps memory constant
                budget.count_member()
                name = check_member_name(info.name, archive)
                if info.isdir():
                    continue
                if info.issparse():  # a few bytes may expand to any number
                    raise UserError(f"{archive}: {safe_repr(info.name)} is sparse: not unpacked")
                content = tar.extractfile(info) if info.isreg() else None
                if content is None:
                    raise UserError(
                        f"{archive}: {safe_repr(info.name)} is a link or a device: not unpacked"
                    )
                with content:
                    yield ArchiveMember(name, cast(io.BufferedIOBase, content), budget)


def _iter_zip(archive: Path, budget: _Budget) -> Iterator[ArchiveMember]:
    # Members are compressed one by one, so `open_maybe_gzip` does not limit their expansion.
    max_bytes = readers.FREE_EXPANSION_BYTES + readers.MAX_EXPANSION_RATIO * archive.stat().st_size
    if max_bytes < budget.max_bytes:
        budget = _Budget(archive, max_bytes, budget.max_members)
    with zipfile.ZipFile(archive) as file:
        for name, info in _iter_zip_entries(file, budget):
            with file.open(info) as stream:
                yield ArchiveMember(name, cast(io.BufferedIOBase, stream), budget)


def _iter_zip_entries(
    file: zipfile.ZipFile, budget: _Budget
) -> Iterator[tuple[str, zipfile.ZipInfo]]:
    for info in file.infolist():
        budget.count_member()
        name = check_member_name(info.filename, budget.archive)
        if info.is_dir():
            continue
        unix_file_type = info.external_attr >> 28
        if unix_file_type not in (0, 8):  # not given, or a regular file
            raise UserError(
                f"{budget.archive}: {safe_repr(info.filename)} is a link or a device: not unpacked"
            )
        yield name, info
