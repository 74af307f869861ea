"""The user's cache folder, and arrays in it that are computed once."""

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from workings.data.encode_worker import encode_rows, encode_texts
from workings.data.tokenizers.base import Tokenizer, tokenizer_from_dict
from workings.errors import UserError
from workings.file_array import FileArray, FileBytes
from workings.io import atomic_write, file_lock, open_regular_file

if TYPE_CHECKING:  # numpy is imported in functions: readers of named datasets do not need it
    import numpy as np
    from numpy.typing import NDArray

    from workings.ragged import RaggedArray

TokenIds: TypeAlias = "FileArray | NDArray[np.uint16]"

ARRAY_FOLDERS = ("tokens", "images")
"""The folders of the cache that have arrays."""
MIN_CACHED_CHARACTERS = 10_000_000
"""The tokenizer of a longer text is cached; else it takes no time."""
MAX_VOCABULARY_CHARACTERS = 50_000_000
"""Characters of the training text from which a vocabulary of words or byte pairs is learned."""
ABANDONED_SECONDS = 86_400
"""An unfinished file that has not grown for so long was left by a killed process."""
DIGEST_BYTES = 32
"""A cached file ends with the SHA-256 of its content."""


def cache_folder() -> Path:
    """Return the folder in which the operating system expects this program's cached files."""
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "workings" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "workings"
    xdg = os.environ.get("XDG_CACHE_HOME")
    # The XDG standard says that a relative path must be ignored.
    base = Path(xdg) if xdg and Path(xdg).is_absolute() else Path.home() / ".cache"
    return base / "workings"


def dataset_folders(name: str) -> list[Path]:
    """Return where a dataset may be: under WORKINGS_DATA, if that is set, and in the cache."""
    folders = [cache_folder() / "data" / name]
    if data := os.environ.get("WORKINGS_DATA"):
        folders.insert(0, Path(data) / name)
    return folders


def open_cached_array(
    category: str, key: str, dtype: str, make_chunks: Callable[[], "Iterable[NDArray[Any]]"]
) -> tuple[FileArray, str]:
    """Open the cached array of a key, and return it with the SHA-256 of its bytes.

    The array is written first if there is no file for the key, or a damaged one, from the chunks
    that `make_chunks` returns. The file is in the folder `category` of the cache.
    """
    folder = cache_folder() / category
    name = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    path = folder / f"{name}.{dtype}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: {error.strerror}: cannot cache {category} there") from None
    with file_lock(folder / f".{name}.lock"):
        array = _open_verified(path, dtype)
        if array is None:
            _write_chunks(path, make_chunks(), category)
            array = _open_verified(path, dtype)
            _remove_oldest(folder.parent, path)
        with suppress(OSError):
            os.utime(path)  # when it was last used
    if array is None:  # possible on a file system without locks
        raise UserError(f"{path}: another process changed the file: try again")
    return array


def cache_limit() -> int:
    """Return how many bytes the cached arrays may have: WORKINGS_CACHE_GB, or 10 GB."""
    value = os.environ.get("WORKINGS_CACHE_GB", "10")
    try:
        gigabytes = float(value)
    except ValueError:
        gigabytes = -1.0
    if not 0 <= gigabytes < 10**6:
        raise UserError(f"WORKINGS_CACHE_GB = {value!r}: expected a number of gigabytes")
    return int(gigabytes * 10**9)


def _remove_oldest(cache: Path, newest: Path) -> None:
    """Remove the arrays that have not been used for longest until the rest is within the limit.

    A training that reads a removed file keeps it until it ends. Also remove what killed processes
    were writing.
    """
    for part in (p for name in ARRAY_FOLDERS for p in (cache / name).glob(".*.part")):
        with suppress(OSError):
            if part.stat().st_mtime < time.time() - ABANDONED_SECONDS:
                part.unlink()
    files = (p for name in ARRAY_FOLDERS for p in (cache / name).glob("*"))
    arrays = [p for p in files if p != newest and not p.name.startswith(".")]
    ranked = []
    with suppress(OSError):  # another process removes them, too
        ranked = sorted((p.stat().st_mtime, p.stat().st_size, p) for p in arrays)
    excess = newest.stat().st_size + sum(size for _, size, _ in ranked) - cache_limit()
    for _, size, path in ranked:
        if excess <= 0:
            return
        with suppress(OSError):  # Windows does not remove a file that is open
            path.unlink()
            excess -= size


def _open_verified(path: Path, dtype: str) -> tuple[FileArray, str] | None:
    """Open a file and return its content and digest; None if it is missing or damaged."""
    import numpy as np

    if not path.is_file():
        return None
    file = open_regular_file(path)
    size = os.fstat(file.fileno()).st_size - DIGEST_BYTES
    content, itemsize = FileBytes(file, path), np.dtype(dtype).itemsize
    if size < 0 or size % itemsize:
        return None
    actual, expected = hashlib.sha256(), memoryview(bytearray(DIGEST_BYTES))
    try:
        content.update(actual.update, size)
        content.read_into(expected, size)
    except UserError:  # another process has just cut it short
        return None
    if actual.digest() != expected:
        return None
    return FileArray(content, dtype, size // itemsize), actual.hexdigest()


def _write_chunks(path: Path, chunks: "Iterable[NDArray[Any]]", category: str) -> None:
    digest = hashlib.sha256()
    try:
        with atomic_write(path) as file:
            for chunk in chunks:
                raw = chunk.tobytes()
                digest.update(raw)
                file.write(raw)
            file.write(digest.digest())
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"{path}: {reason}: cannot cache {category} there") from None


def encode_cached(texts: Iterable[str], tokenizer: Tokenizer, checksum: str) -> TokenIds:
    """Return the token ids of a text given in chunks, in a file of the user's cache.

    They are encoded once for each checksum of the text and tokenizer.
    """
    dtype = select_dtype(tokenizer)
    settings = json.dumps(tokenizer.to_dict(), sort_keys=True)
    ids, _ = open_cached_array(
        "tokens",
        f"{checksum}\0{settings}",
        dtype,
        lambda: encode_texts(texts, tokenizer, dtype),
    )
    if not len(ids):
        raise UserError("the text is empty: there is nothing to train on")
    return ids


def encode_short_texts(
    texts: Iterable[str],
    tokenizer: Tokenizer,
    adapt: "Callable[[RaggedArray], RaggedArray]",
    key: str = "",
) -> "RaggedArray":
    """Return the ids of many texts, as `adapt` changes them: truncates them, for example.

    With a key, they are encoded once for each key and tokenizer, and are in a file of the user's
    cache: the key is that of the texts and of what `adapt` does.
    """
    import numpy as np

    from workings.ragged import RaggedArray

    dtype = select_dtype(tokenizer)
    parts = (adapt(rows) for rows in encode_rows(texts, tokenizer, dtype))
    if not key:
        return RaggedArray.concatenate(list(parts), dtype)

    def encode() -> "Iterator[NDArray[Any]]":
        """Yield the ids, then the lengths of the texts, then their number."""
        lengths = []
        for part in parts:
            lengths.append(part.lengths)
            yield np.asarray(part.values)
        count = sum(map(len, lengths))
        yield np.concatenate((*lengths, [count])).astype(np.uint32).view(dtype)

    settings = json.dumps(tokenizer.to_dict(), sort_keys=True)
    array, _ = open_cached_array("tokens", f"rows\0{key}\0{settings}", dtype, encode)
    width = 4 // array.dtype.itemsize  # of a length, in items
    count = int(array[-width:].view(np.uint32)[0])
    lengths = array[-width * (count + 1) : -width].view(np.uint32)
    return RaggedArray(array, lengths.astype(np.int64))


def select_dtype(tokenizer: Tokenizer) -> str:
    """Return the smallest type of the ids of a vocabulary."""
    return "uint16" if len(tokenizer) <= 2**16 else "uint32"


def train_cached_tokenizer(train: "Callable[[], Tokenizer]", key: str) -> Tokenizer:
    """Return a tokenizer that is trained once for each key, and then read from the cache."""
    import numpy as np

    def encode() -> "Iterable[NDArray[Any]]":
        table = json.dumps(train().to_dict())
        return [np.frombuffer(table.encode(), np.uint8)]

    raw, _ = open_cached_array("tokens", f"tokenizer\0{key}", "uint8", encode)
    return tokenizer_from_dict(json.loads(raw[:].tobytes()))


def compute_text_checksum(texts: Iterable[str]) -> tuple[str, int]:
    """Return the SHA-256 of a text given in chunks, and its number of characters."""
    digest, count = hashlib.sha256(), 0
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass"))
        count += len(text)
    return digest.hexdigest(), count
