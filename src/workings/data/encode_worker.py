"""Encode texts in several processes, each a `python -m workings.data.encode_worker`.

A process gets the tokenizer as JSON, and then lists of texts; it answers each list with the
lengths of the texts and their ids. Messages are bytes after their length. Scripts of users need no
`if __name__ == "__main__"` for it, as they would with multiprocessing.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from itertools import chain, islice
from typing import IO, TYPE_CHECKING

from workings.data.tokenizers.base import LOADABLE_TOKENIZERS, Tokenizer, tokenizer_from_dict
from workings.errors import UserError

if TYPE_CHECKING:
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray

    from workings.ragged import RaggedArray

MAX_WORKERS = 8
NUM_SINGLE = 16
"""Lists of texts that are encoded here before processes are started, which takes as long."""
LIST_CHARACTERS = 2**18
"""Short texts are encoded in lists of about so many characters."""
_LENGTH_BYTES = 8


def encode_texts(
    texts: Iterable[str], tokenizer: Tokenizer, dtype: str
) -> "Iterator[NDArray[np.unsignedinteger[Any]]]":
    """Yield the ids of each text, in order; if there are many, several processes encode them."""
    for rows in _encode_lists(([text] for text in texts), tokenizer, dtype):
        yield rows[0]


def encode_rows(texts: Iterable[str], tokenizer: Tokenizer, dtype: str) -> "Iterator[RaggedArray]":
    """Yield the ids of some texts after the other, in order; texts are short, and can be many."""
    return _encode_lists(_group_texts(texts), tokenizer, dtype)


def _group_texts(texts: Iterable[str]) -> Iterator[list[str]]:
    group: list[str] = []
    characters = 0
    for text in texts:
        group.append(text)
        characters += len(text) + 1
        if characters >= LIST_CHARACTERS:
            yield group
            group, characters = [], 0
    if group:
        yield group


def _encode_lists(
    lists: Iterable[list[str]], tokenizer: Tokenizer, dtype: str
) -> "Iterator[RaggedArray]":
    remaining = iter(lists)
    for texts in islice(remaining, NUM_SINGLE):
        yield tokenizer.encode_rows(texts, dtype)
    workers = min(_count_cores(), MAX_WORKERS)
    if workers == 1 or tokenizer.kind not in LOADABLE_TOKENIZERS:
        workers = 0
    first = list(islice(remaining, workers))
    if len(first) < 2:
        for texts in chain(first, remaining):
            yield tokenizer.encode_rows(texts, dtype)
        return
    yield from _encode_in_processes(first, remaining, tokenizer, dtype)


def _count_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _encode_in_processes(
    first: list[list[str]], remaining: Iterator[list[str]], tokenizer: Tokenizer, dtype: str
) -> "Iterator[RaggedArray]":
    settings = json.dumps({**tokenizer.to_dict(), "dtype": dtype}).encode()
    with ExitStack() as stack:
        workers = []
        for _ in first:
            workers.append(_start_worker())
            stack.callback(_stop_worker, workers[-1])
        for worker, texts in zip(workers, first, strict=True):
            _send(worker.stdin, settings)
            _send(worker.stdin, _pack_texts(texts))
        busy = list(workers)
        while busy:
            worker = busy.pop(0)
            raw = _receive(worker.stdout)
            if raw is None:
                raise UserError("a process that encodes the text ended: is there enough memory?")
            for texts in islice(remaining, 1):
                _send(worker.stdin, _pack_texts(texts))
                busy.append(worker)
            yield _unpack_rows(raw, dtype)


def _pack_texts(texts: list[str]) -> bytes:
    return json.dumps(texts, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _unpack_texts(raw: bytes) -> list[str]:
    texts: list[str] = json.loads(raw.decode("utf-8", "surrogatepass"))
    return texts


def _pack_rows(rows: "RaggedArray") -> bytes:
    return len(rows).to_bytes(_LENGTH_BYTES) + rows.lengths.tobytes() + rows.values[:].tobytes()


def _unpack_rows(raw: bytes, dtype: str) -> "RaggedArray":
    import numpy as np

    from workings.ragged import RaggedArray

    count = int.from_bytes(raw[:_LENGTH_BYTES])
    lengths = np.frombuffer(raw, np.int64, count, _LENGTH_BYTES)
    return RaggedArray(np.frombuffer(raw, dtype, offset=_LENGTH_BYTES + lengths.nbytes), lengths)


def _start_worker() -> "subprocess.Popen[bytes]":
    # In a session of its own: Ctrl-C ends this process, and with it the input of the others.
    return subprocess.Popen(  # noqa: S603 - of this program
        [sys.executable, "-P", "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )


def _stop_worker(worker: "subprocess.Popen[bytes]") -> None:
    worker.kill()
    with suppress(BrokenPipeError), worker:  # it may not have read its input
        pass


def _send(stream: IO[bytes] | None, message: bytes) -> None:
    assert stream is not None
    with suppress(BrokenPipeError):  # the process has ended, and its answer is missing
        stream.write(len(message).to_bytes(_LENGTH_BYTES) + message)
        stream.flush()


def _receive(stream: IO[bytes] | None) -> bytes | None:
    """Return the next message; None at the end of the stream."""
    assert stream is not None
    header = stream.read(_LENGTH_BYTES)
    if len(header) < _LENGTH_BYTES:
        return None
    message = stream.read(int.from_bytes(header))
    return message if len(message) == int.from_bytes(header) else None


def main() -> None:
    """Answer lists of texts with their ids, until the input ends."""
    source, target = sys.stdin.buffer, sys.stdout.buffer
    if (settings := _receive(source)) is None:
        return
    table = json.loads(settings)
    tokenizer = tokenizer_from_dict(table)
    while (message := _receive(source)) is not None:
        rows = tokenizer.encode_rows(_unpack_texts(message), table["dtype"])
        _send(target, _pack_rows(rows))


if __name__ == "__main__":
    main()
