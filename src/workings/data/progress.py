"""Progress of the parts of a task, and of an iteration, as a fraction of the whole."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from workings.data.download import ProgressCallback

T = TypeVar("T")
REPORTED_ITEMS = 1000
"""Progress is reported after so many items."""


def split_progress(progress: ProgressCallback | None, parts: int) -> list[ProgressCallback | None]:
    """Return a callback for each part of a task; all parts count the same.

    >>> reading, encoding = split_progress(print, 2)
    >>> reading(1, 4), encoding(1, 4)
    1 8
    5 8
    (None, None)
    """
    if progress is None:
        return [None] * parts

    def make_callback(part: int) -> ProgressCallback:
        return lambda done, total: progress(part * total + done, parts * total)

    return [make_callback(part) for part in range(parts)]


def report_items(
    items: Iterable[T],
    total: int,
    progress: ProgressCallback | None,
    size: Callable[[T], int] = lambda _: 1,
) -> Iterator[T]:
    """Yield items, and report how many of about `total` have been taken, or their sizes."""
    done = 0
    for count, item in enumerate(items):
        if progress and count % REPORTED_ITEMS == 0:
            progress(min(done, total), max(total, 1))
        done += size(item)
        yield item


def estimate_file_characters(path: Path) -> int:
    """Return about how many characters a file, or the text files of a folder, have by their size.

    It is 0 if they are unknown.
    """
    files = path.rglob("*.txt*") if path.is_dir() else [path] if path.is_file() else []
    factors = ((file.stat().st_size, 3 if file.suffix == ".gz" else 1) for file in files)
    return sum(size * factor for size, factor in factors)
