"""Downloads that survive bad networks: checked, resumed, retried, and complete or absent."""

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
from workings.io import file_lock

ProgressCallback = Callable[[int, int], None]
"""Called with the bytes that are there, and all there will be."""

_CHUNK = 2**16


@dataclass(frozen=True)
class Mirror:
    """Where a file is to be had, how large it is there, and what it must be."""

    url: str
    size: int
    digest: str
    """As `sha256:…` (or `md5:…`), in hexadecimal."""


class _AttemptError(Exception):
    """An attempt that did not work out; `again` tells whether another one might."""

    def __init__(self, reason: str, *, retryable: bool = True, corrupt: bool = False) -> None:
        super().__init__(reason)
        self.retryable, self.corrupt = retryable, corrupt


def download(
    mirrors: Sequence[Mirror],
    target: str | Path,
    *,
    progress: ProgressCallback | None = None,
    attempts: int = 4,
    pause: float = 1.0,
    timeout: float = 30.0,
) -> Path:
    """Fetch a file from the first mirror that has it, whole and unharmed.

    What arrived before a connection broke is kept beside the target as `NAME.part` and continued
    from, now or by a later call, if the server agrees that the file is still the same. A mirror is
    asked until `attempts` attempts in a row got no further, `pause` seconds apart and twice as long
    each time. Two processes that want the same file wait for each other.
    """
    target = Path(target)
    if matches_any_mirror(target, mirrors):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    reasons = []
    with file_lock(target.with_name(f"{target.name}.lock")):
        if matches_any_mirror(target, mirrors):  # another process was faster
            return target
        for mirror in mirrors:
            try:
                _retry(mirror, target, progress, attempts, pause, timeout)
                return target
            except _AttemptError as failure:
                reasons.append(f"{mirror.url}: {failure}")
    raise UserError(f"could not download {target.name}: " + "; ".join(reasons))


def _retry(
    mirror: Mirror,
    target: Path,
    progress: ProgressCallback | None,
    attempts: int,
    pause: float,
    timeout: float,
) -> None:
    """Try again and again, and stop after so many attempts in a row that got no further."""
    failed = spoilt = furthest = 0
    while True:
        try:
            return _fetch(mirror, target, progress, timeout)
        except _AttemptError as failure:
            last = failure
        except (OSError, http.client.HTTPException) as error:
            last = _AttemptError(_error_text(error))
        have = _file_size(_partial_path(target))
        advanced = (
            have >= furthest + mirror.size / 100
        )  # else a byte at a time would go on for ever
        furthest = max(have, furthest)
        failed = 1 if advanced else failed + 1
        spoilt += last.corrupt
        # A whole file that is the wrong one is fetched once more, not again and again.
        if not last.retryable or failed >= attempts or spoilt > 1:
            raise last
        time.sleep(pause * 2 ** (failed - 1))


def _partial_path(target: Path) -> Path:
    return target.with_name(f"{target.name}.part")


def _file_size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def matches_any_mirror(path: str | Path, mirrors: Sequence[Mirror]) -> bool:
    """Tell whether a file is there and is what one of the mirrors promises."""
    path = Path(path)
    if not path.is_file():
        return False
    size = path.stat().st_size
    return any(size == m.size and compute_digest(path, m.digest) == m.digest for m in mirrors)


def compute_digest(path: Path, like: str) -> str:
    """Compute a file's digest, by the same method as another one."""
    method = like.partition(":")[0]
    with path.open("rb") as file:
        return f"{method}:{hashlib.file_digest(file, method).hexdigest()}"


def _error_text(error: Exception) -> str:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    return str(cause) or type(cause).__name__


def _fetch(mirror: Mirror, target: Path, progress: ProgressCallback | None, timeout: float) -> None:
    part, note = _partial_path(target), target.with_name(f"{target.name}.note")
    have = _file_size(part)
    asked = _resume_headers(mirror, note, have)
    if not asked or have > mirror.size:
        part.unlink(missing_ok=True)
        have, asked = 0, {}
    if have < mirror.size:
        _receive(mirror, part, note, have, asked, progress, timeout)
    if _file_size(part) < mirror.size:
        raise _AttemptError(f"broke off at {_file_size(part):,} of {mirror.size:,} bytes")
    if compute_digest(part, mirror.digest) != mirror.digest:
        part.unlink()
        note.unlink(missing_ok=True)
        raise _AttemptError("not the file it should be: its checksum differs", corrupt=True)
    part.replace(target)
    note.unlink(missing_ok=True)


def _resume_headers(mirror: Mirror, metadata_path: Path, offset: int) -> dict[str, str]:
    """The headers that ask for the rest of the very file whose beginning is here."""
    if not offset:
        return {}
    try:
        known = json.loads(metadata_path.read_bytes())
        same = known["url"] == mirror.url and known["digest"] == mirror.digest
        validator = str(known["validator"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    if not same:
        return {}
    # With no validator the checksum alone decides, in the end, whether the halves fit.
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
    headers = {"User-Agent": "workings", "Accept-Encoding": "identity"} | resume_headers
    try:
        with _build_opener().open(_build_request(mirror.url, headers), timeout=timeout) as response:
            if response.status == 206:
                _check_range(
                    response.headers.get("Content-Range", ""), offset, mirror, partial_path
                )
            else:  # the server knows no ranges, or the file has changed: all over again
                offset = 0
            validator = _read_validator(response.headers)
            about = {"url": mirror.url, "digest": mirror.digest, "validator": validator}
            metadata_path.write_text(json.dumps(about), encoding="utf-8")
            with partial_path.open("ab" if offset else "wb") as file:
                for chunk in _read_chunks(response):
                    offset += len(chunk)
                    if offset > mirror.size:
                        file.truncate(0)
                        raise _AttemptError(f"sends more than the {mirror.size:,} bytes it should")
                    file.write(chunk)
                    if progress:
                        progress(offset, mirror.size)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:  # what is here is no beginning of what is there
            partial_path.unlink(missing_ok=True)
        passing = error.code in (408, 416, 425, 429) or error.code >= 500
        raise _AttemptError(f"{error.code} {error.reason}", retryable=passing) from None


def _read_chunks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """What arrives, until it ends or breaks off: what came is kept, and counted afterwards."""
    while True:
        try:
            chunk = response.read1(_CHUNK)
        except (OSError, http.client.HTTPException):
            return
        if not chunk:
            return
        yield chunk


def _check_range(content_range: str, offset: int, mirror: Mirror, partial_path: Path) -> None:
    if content_range.strip().lower() != f"bytes {offset}-{mirror.size - 1}/{mirror.size}":
        partial_path.unlink(missing_ok=True)
        raise _AttemptError(f"answers with another piece than was asked for: {content_range!r:.60}")


def _read_validator(headers: Any) -> str:
    """What names this version of the file: a strong tag, or else its date."""
    tag = str(headers.get("ETag") or "")
    if tag.startswith('"'):
        return tag
    return str(headers.get("Last-Modified") or "")


def _build_request(url: str, headers: dict[str, str]) -> urllib.request.Request:
    if not url.startswith(("https://", "http://")):
        raise _AttemptError("not a web address", retryable=False)
    return urllib.request.Request(url, headers=headers)  # noqa: S310 - checked just above


def _build_opener() -> urllib.request.OpenerDirector:
    """An opener that knows the web and nothing else: no redirection leads to a file or to FTP."""
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
