"""Archives, opened with care: nothing leaves its folder, and nothing swells without bound."""

import io
import lzma
import shutil
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import cast

from workings.data import lines as limits
from workings.data.lines import opened
from workings.errors import UserError, brief, shown

LARGEST = 4 * 2**30
"""Bytes that an archive may hold when unpacked."""
MOST_MEMBERS = 500_000
"""Files and folders that it may hold."""

_CHUNK = 2**18
_DAMAGE = (
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
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")


class _Budget:
    """What is left of an archive's limits; real bytes are counted, since headers may lie."""

    def __init__(self, archive: Path, largest: int, members: int) -> None:
        self.archive, self.largest, self.members = archive, largest, members
        self.bytes_left, self.members_left = largest, members

    def member(self) -> None:
        self.members_left -= 1
        if self.members_left < 0:
            raise UserError(f"{self.archive}: more than {self.members:,} files: not unpacked")

    def spend(self, count: int) -> None:
        self.bytes_left -= count
        if self.bytes_left < 0:
            raise UserError(f"{self.archive}: holds more than {self.largest:,} bytes: not unpacked")


class Member:
    """A file of an archive, to be read while the archive stands at it."""

    def __init__(self, name: str, stream: io.BufferedIOBase, budget: _Budget) -> None:
        self.name, self._stream, self._budget = name, stream, budget

    def _chunks(self) -> Iterator[bytes]:
        with _damage(self._budget.archive):
            while chunk := self._stream.read(_CHUNK):
                self._budget.spend(len(chunk))
                yield chunk

    def read(self) -> bytes:
        """Give its whole content."""
        return b"".join(self._chunks())

    def copy(self, to: io.BufferedIOBase) -> None:
        """Write its content to a file, piece by piece."""
        for chunk in self._chunks():
            to.write(chunk)


def members(
    archive: str | Path, *, largest: int = LARGEST, most: int = MOST_MEMBERS
) -> Iterator[Member]:
    """Go over the files of a tar.gz, tar or zip archive, each to be read when it comes up.

    An archive with a path that leaves it, a link, a device, or more bytes or files than allowed is
    refused. What it is is told by its first bytes, not by its name.
    """
    archive = Path(archive)
    budget = _Budget(archive, largest, most)
    with opened(archive) as stream:
        is_zip = stream.read(4) in _ZIP
    with _damage(archive):
        yield from _zip(archive, budget) if is_zip else _tar(archive, budget)


@contextmanager
def _damage(archive: Path) -> Iterator[None]:
    """Say in one way what the libraries say in many."""
    try:
        yield
    except UserError:
        raise
    except (*_DAMAGE, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the system's own, and not what a decompressor says of its input
        told = brief(str(error) or type(error).__name__, 100)
        raise UserError(f"{archive}: a damaged archive: {told}") from None


def _tar(archive: Path, budget: _Budget) -> Iterator[Member]:
    with opened(archive) as stream:
        try:
            tar = tarfile.open(fileobj=stream, mode="r|")  # noqa: SIM115 - closed just below
        except tarfile.TarError:
            raise UserError(f"{archive}: neither a tar.gz nor a zip archive") from None
        with tar:
            while info := tar.next():
                tar.members.clear()  # type: ignore[attr-defined]  # no list of what went by
                budget.member()
                name = safe_name(info.name, archive)
                if info.isdir():
                    continue
                if info.issparse():  # a few bytes that stand for as many as they like
                    raise UserError(f"{archive}: {shown(info.name)} is sparse: not unpacked")
                content = tar.extractfile(info) if info.isreg() else None
                if content is None:
                    raise UserError(
                        f"{archive}: {shown(info.name)} is a link or a device: not unpacked"
                    )
                with content:
                    yield Member(name, cast(io.BufferedIOBase, content), budget)


def _zip(archive: Path, budget: _Budget) -> Iterator[Member]:
    # What is packed is in the members' own streams, so that the rule for gzip is applied here.
    most = limits.FREE_EXPANSION + limits.MOST_EXPANSION * archive.stat().st_size
    if most < budget.largest:
        budget = _Budget(archive, most, budget.members)
    with zipfile.ZipFile(archive) as file:
        for name, info in _zip_entries(file, budget):
            with file.open(info) as stream:
                yield Member(name, cast(io.BufferedIOBase, stream), budget)


def _zip_entries(file: zipfile.ZipFile, budget: _Budget) -> Iterator[tuple[str, zipfile.ZipInfo]]:
    for info in file.infolist():
        budget.member()
        name = safe_name(info.filename, budget.archive)
        if info.is_dir():
            continue
        kind = info.external_attr >> 28  # the file type of Unix, where there is one
        if kind not in (0, 8):
            told = f"{shown(info.filename)} is a link or a device: not unpacked"
            raise UserError(f"{budget.archive}: {told}")
        yield name, info


class ZipFiles:
    """The files of a zip archive, read in place and in any order."""

    def __init__(self, archive: Path, *, most: int = MOST_MEMBERS) -> None:
        self.archive = archive
        with opened(archive) as stream:
            if stream.read(4) not in _ZIP:
                raise UserError(f"{archive}: not a zip archive")
        with _damage(archive):
            self._file = zipfile.ZipFile(archive)
            self.entries = dict(_zip_entries(self._file, _Budget(archive, LARGEST, most)))

    def read(self, name: str) -> bytes:
        """Give the content of one, which has no more bytes than its entry says."""
        with _damage(self.archive):
            return self._file.read(self.entries[name])

    def close(self) -> None:
        """Let the archive go."""
        self._file.close()


def safe_name(name: str, archive: str | Path = "archive") -> str:
    r"""Check that a path stays in its folder, on every system.

    >>> safe_name("aclImdb/train/pos/0_9.txt")
    'aclImdb/train/pos/0_9.txt'
    >>> safe_name("../evil.txt")
    Traceback (most recent call last):
    workings.errors.UserError: archive: '../evil.txt' would leave its folder: not unpacked
    """
    path = PurePosixPath(name)
    strange = set(name) & set("\\:\0")  # separators and drives elsewhere
    if path.is_absolute() or ".." in path.parts or strange or name.startswith("~"):
        raise UserError(f"{archive}: {shown(name)} would leave its folder: not unpacked")
    return str(path)


def unpack(
    archive: str | Path, folder: str | Path, *, largest: int = LARGEST, most: int = MOST_MEMBERS
) -> Path:
    """Unpack an archive into a new folder, which appears only when it is complete."""
    folder = Path(folder)
    if folder.exists():
        raise UserError(f"{folder}: already there")
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", suffix=".part", dir=folder.parent))
    try:
        for member in members(archive, largest=largest, most=most):
            target = part / member.name
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("xb") as file:
                    member.copy(file)
            except FileExistsError:
                told = f"holds {shown(member.name)} twice"
                raise UserError(f"{archive}: {told}: not unpacked") from None
            except OSError as error:
                raise UserError(f"{archive}: {shown(member.name)}: {error.strerror}") from None
        part.chmod(0o755)  # mkdtemp's is for its owner alone
        part.rename(folder)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return folder
