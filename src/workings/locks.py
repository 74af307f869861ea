"""Locks between processes: the system takes one back when its holder ends, however it ends."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workings.files import opened


class Taken(Exception):  # noqa: N818
    """Another process holds the lock."""


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold a lock on a file that is made for it; raise `Taken` rather than wait, if told so."""
    with opened(path, "ab") as file:
        if os.name == "nt":
            _lock_on_windows(file.fileno(), wait)
        else:
            import fcntl

            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                raise Taken(str(path)) from None
            except OSError:  # some network file systems know no locks: do without
                pass
        yield


def _lock_on_windows(handle: int, wait: bool) -> None:
    import msvcrt

    os.lseek(handle, 0, os.SEEK_SET)
    while True:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK if not wait else msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined,unused-ignore]
            return
        except OSError:  # waiting, it gives up after ten seconds; we do not
            if not wait:
                raise Taken from None
