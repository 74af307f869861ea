"""A log that is read while somebody writes it: each time, only what is new."""

import os
import threading
from pathlib import Path
from typing import Any

from workings.errors import UserError
from workings.files import at_most, opened
from workings.train.log import records_in

LARGEST = 64 * 2**20  # bytes that are kept up with
_REMEMBERED = 512  # bytes before the place that was read to, to know the file again by


class Followed:
    """The records of a log, as far as they are written.

    A resumed training cuts its log back and writes the end anew: what was read then no longer
    stands before the place that was read to, and everything is read again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._read_to, self._before = 0, b""
        self._records: list[dict[str, Any]] = []
        self._changes = 0

    def read(self) -> tuple[int, list[dict[str, Any]]]:
        """Catch up: how often there was something new so far, and all records.

        A log that is gone has none. A line that is not whole yet waits for its end.
        """
        with self._lock:
            try:
                with opened(self._path) as file:
                    self._catch_up(file)
            except FileNotFoundError:
                self._forget()
            return self._changes, list(self._records)

    def _catch_up(self, file: Any) -> None:
        size = os.fstat(file.fileno()).st_size
        if size > LARGEST:
            raise UserError(f"{self._path.name}: larger than {LARGEST:,} bytes: too long to follow")
        file.seek(self._read_to - len(self._before))
        if file.read(len(self._before)) != self._before:
            self._forget()
            file.seek(0)
        new = at_most(file, LARGEST, self._path.name)
        whole = new[: new.rfind(b"\n") + 1]
        if whole:
            self._read_to += len(whole)
            self._before = (self._before + whole)[-_REMEMBERED:]
            self._records += records_in(whole)
            self._changes += 1

    def _forget(self) -> None:
        if self._read_to:
            self._read_to, self._before, self._records = 0, b"", []
            self._changes += 1
