"""Downloads that are verified, resumed and retried; a file is complete or absent."""

import hashlib
import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.errors import UserError
from workings.io import file_lock, make_folder, replace_file

ProgressCallback = Callable[[int, int], None]
"""Called with the bytes downloaded so far, and the total."""

_CHUNK_BYTES = 2**16


@dataclass(frozen=True)
class Mirror:
    """The address of a file, its size and its digest."""

    url: str
    size: int
    digest: str
    """`sha256:`, followed by hexadecimal digits"""


class _AttemptError(Exception):
    """A failed attempt to download a file."""

    def __init__(self, reason: str, *, retryable: bool = True, corrupt: bool = False) -> None:
        super().__init__(reason)
        self.retryable, self.corrupt = retryable, corrupt


def locate_file(
    dataset: str,
    file: str,
    folders: Sequence[Path],
    mirrors: Sequence[Mirror],
    *,
    hint: str,
    download_as: str | None = None,
    verify: bool = False,
    allow_download: bool = True,
    progress: ProgressCallback | None = None,
) -> Path:
    """Return the path of a dataset's file, gzipped or not, in the first of `folders` that has it.

    If none has it, it is downloaded into the last folder, under the name `download_as` if that is
    given. With `verify`, only a file with the digest of a mirror is returned. Errors end with
    `hint`, which says how to get the file by hand.
    """
    for folder in folders:
        for path in (folder / file, folder / f"{file}.gz"):
            if matches_any_mirror(path, mirrors) if verify else path.is_file():
                return path
    if not mirrors or not allow_download:
        raise UserError(f"{dataset}: {file} is not on this machine\n{hint}")
    try:
        return download(mirrors, folders[-1] / (download_as or file), progress=progress)
    except UserError as error:
        raise UserError(f"{dataset}: {error}\n{hint}") from None
    except OSError as error:
        raise UserError(f"{folders[-1]}: {error.strerror}\n{hint}") from None


def download(
    mirrors: Sequence[Mirror],
    target: str | Path,
    *,
    progress: ProgressCallback | None = None,
    attempts: int = 4,
    pause: float = 1.0,
    timeout: float = 30.0,
) -> Path:
    """Download a file from the first mirror that delivers it with the right digest.

    If a connection breaks, the bytes so far are kept in `NAME.part` beside the target, and a later
    attempt or call resumes there, provided the server says that the file has not changed. A mirror
    is given up after `attempts` attempts in a row without progress, with pauses of `pause` seconds
    that double each time. Processes that download the same file wait for each other.
    """
    target = Path(target)
    if matches_any_mirror(target, mirrors):
        return target
    make_folder(target.parent)
    reasons = []
    with file_lock(target.with_name(f"{target.name}.lock")):
        if matches_any_mirror(target, mirrors):  # another process downloaded it meanwhile
            return target
        for mirror in mirrors:
            try:
                _retry(mirror, target, progress, attempts, pause, timeout)
                return target
            except _AttemptError as error:
                reasons.append(f"{mirror.url}: {error}")
    raise UserError(f"could not download {target.name}: " + "; ".join(reasons))


def _retry(
    mirror: Mirror,
    target: Path,
    progress: ProgressCallback | None,
    attempts: int,
    pause: float,
    timeout: float,
) -> None:
    """Download from a mirror; give up after `attempts` attempts in a row without progress."""
    num_failed = num_corrupt = max_bytes = 0
    while True:
        try:
            return _fetch(mirror, target, progress, timeout)
        except _AttemptError as error:
            last_error = error
        except (OSError, http.client.HTTPException) as error:
            last_error = _AttemptError(_error_text(error))
        num_bytes = _file_size(_partial_path(target))
        # At least 1%: a connection that delivers a byte per attempt is no progress.
        has_advanced = num_bytes >= max_bytes + mirror.size / 100
        max_bytes = max(num_bytes, max_bytes)
        num_failed = 1 if has_advanced else num_failed + 1
        num_corrupt += last_error.corrupt
        # A complete file with the wrong digest is downloaded only once more.
        if not last_error.retryable or num_failed >= attempts or num_corrupt > 1:
            raise last_error
        time.sleep(pause * 2 ** (num_failed - 1))


def matches_any_mirror(path: str | Path, mirrors: Sequence[Mirror]) -> bool:
    """Return True if a file exists and has the size and digest of one of the mirrors."""
    path = Path(path)
    if not path.is_file():
        return False
    size = path.stat().st_size
    return any(size == m.size and compute_digest(path) == m.digest for m in mirrors)


def compute_digest(path: Path) -> str:
    """Return the SHA-256 of a file, as a mirror states it."""
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def _partial_path(target: Path) -> Path:
    return target.with_name(f"{target.name}.part")


def _file_size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _error_text(error: Exception) -> str:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    return str(cause) or type(cause).__name__


def _fetch(mirror: Mirror, target: Path, progress: ProgressCallback | None, timeout: float) -> None:
    """Make one attempt: receive the missing bytes, verify the digest, and rename the file."""
    partial_path, metadata_path = _partial_path(target), target.with_name(f"{target.name}.note")
    offset = _file_size(partial_path)
    headers = _resume_headers(mirror, metadata_path, offset)
    if not headers or offset > mirror.size:
        partial_path.unlink(missing_ok=True)
        offset, headers = 0, {}
    if offset < mirror.size:
        _receive(mirror, partial_path, metadata_path, offset, headers, progress, timeout)
    if _file_size(partial_path) < mirror.size:
        raise _AttemptError(
            f"the connection broke at {_file_size(partial_path):,} of {mirror.size:,} bytes"
        )
    if compute_digest(partial_path) != mirror.digest:
        partial_path.unlink()
        metadata_path.unlink(missing_ok=True)
        raise _AttemptError("the checksum of the downloaded file is wrong", corrupt=True)
    replace_file(partial_path, target)
    metadata_path.unlink(missing_ok=True)


def _resume_headers(mirror: Mirror, metadata_path: Path, offset: int) -> dict[str, str]:
    """Return headers that request the rest of a partial file, or {} to start over."""
    if not offset:
        return {}
    try:
        metadata = json.loads(metadata_path.read_bytes())
        is_same = metadata["url"] == mirror.url and metadata["digest"] == mirror.digest
        validator = str(metadata["validator"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    if not is_same:
        return {}
    # Without a validator only the checksum will show whether the file has changed.
    return {"Range": f"bytes={offset}-"} | ({"If-Range": validator} if validator else {})


def _receive(
    mirror: Mirror,
    partial_path: Path,
    metadata_path: Path,
    offset: int,
    resume_headers: dict[str, str],
    progress: ProgressCallback | None,
    timeout: float,
) -> None:
    """Request the file from `offset` and append what arrives to the partial file."""
    headers = {"User-Agent": "workings", "Accept-Encoding": "identity"} | resume_headers
    try:
        with _build_opener().open(_build_request(mirror.url, headers), timeout=timeout) as response:
            if response.status == 206:
                _check_range(
                    response.headers.get("Content-Range", ""), offset, mirror, partial_path
                )
            else:  # the server has no ranges, or the file has changed: start over
                offset = 0
            validator = _read_validator(response.headers)
            metadata = {"url": mirror.url, "digest": mirror.digest, "validator": validator}
            metadata_path.write_text(json.dumps(metadata), encoding="utf-8")
            with partial_path.open("ab" if offset else "wb") as file:
                for chunk in _read_chunks(response):
                    offset += len(chunk)
                    if offset > mirror.size:
                        file.truncate(0)
                        raise _AttemptError(
                            f"the server sent more than the expected {mirror.size:,} bytes"
                        )
                    file.write(chunk)
                    if progress:
                        progress(offset, mirror.size)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:  # the server has no byte after ours: not the same file
            partial_path.unlink(missing_ok=True)
        is_transient = error.code in (408, 416, 425, 429) or error.code >= 500
        raise _AttemptError(f"{error.code} {error.reason}", retryable=is_transient) from None


def _read_chunks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """Yield chunks until the response ends or breaks off; the caller counts the bytes."""
    while True:
        try:
            chunk = response.read1(_CHUNK_BYTES)
        except (OSError, http.client.HTTPException):
            return
        if not chunk:
            return
        yield chunk


def _check_range(content_range: str, offset: int, mirror: Mirror, partial_path: Path) -> None:
    if content_range.strip().lower() != f"bytes {offset}-{mirror.size - 1}/{mirror.size}":
        partial_path.unlink(missing_ok=True)
        raise _AttemptError(f"the server sent another range than requested: {content_range!r:.60}")


def _read_validator(headers: Any) -> str:
    """Return what identifies this version of the file: a strong ETag, or else its date."""
    tag = str(headers.get("ETag") or "")
    if tag.startswith('"'):
        return tag
    return str(headers.get("Last-Modified") or "")


def _build_request(url: str, headers: dict[str, str]) -> urllib.request.Request:
    if not url.startswith(("https://", "http://")):
        raise _AttemptError("not an http or https address", retryable=False)
    return urllib.request.Request(url, headers=headers)  # noqa: S310 - checked just above


def _build_opener() -> urllib.request.OpenerDirector:
    """Return an opener for HTTP and HTTPS only, so that no redirect leads to a file or to FTP."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener
