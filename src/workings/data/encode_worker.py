"""Encode texts in several processes, each a `python -m workings.data.encode_worker`.

A process gets the tokenizer as JSON, and then texts; it answers each text with its ids. Messages
are bytes after their length. Scripts of users need no `if __name__ == "__main__"` for it, as they
would with multiprocessing.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from itertools import islice
from typing import IO, TYPE_CHECKING

from workings.data.tokenizers.base import LOADABLE_TOKENIZERS, Tokenizer, tokenizer_from_dict
from workings.errors import UserError

if TYPE_CHECKING:
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray

MAX_WORKERS = 8
NUM_SINGLE = 16
"""Texts that are encoded here before processes are started, which takes as long."""
_LENGTH_BYTES = 8


def encode_texts(
    texts: Iterable[str], tokenizer: Tokenizer, dtype: str
) -> "Iterator[NDArray[np.unsignedinteger[Any]]]":
    """Yield the ids of each text, in order; if there are many, several processes encode them."""
    remaining = iter(texts)
    for text in islice(remaining, NUM_SINGLE):
        yield tokenizer.encode_array(text, dtype)
    workers = min(_count_cores(), MAX_WORKERS)
    if workers == 1 or tokenizer.kind not in LOADABLE_TOKENIZERS:
        workers = 0
    first = list(islice(remaining, workers))
    if len(first) < 2:
        for text in (*first, *remaining):
            yield tokenizer.encode_array(text, dtype)
        return
    yield from _encode_in_processes(first, remaining, tokenizer, dtype)


def _count_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _encode_in_processes(
    first: list[str], remaining: Iterator[str], tokenizer: Tokenizer, dtype: str
) -> "Iterator[NDArray[np.unsignedinteger[Any]]]":
    import numpy as np

    settings = json.dumps({**tokenizer.to_dict(), "dtype": dtype}).encode()
    with ExitStack() as stack:
        workers = []
        for _ in first:
            workers.append(_start_worker())
            stack.callback(_stop_worker, workers[-1])
        for worker, text in zip(workers, first, strict=True):
            _send(worker.stdin, settings)
            _send(worker.stdin, text.encode("utf-8", "surrogatepass"))
        busy = list(workers)
        while busy:
            worker = busy.pop(0)
            raw = _receive(worker.stdout)
            if raw is None:
                raise UserError("a process that encodes the text ended: is there enough memory?")
            for text in islice(remaining, 1):
                _send(worker.stdin, text.encode("utf-8", "surrogatepass"))
                busy.append(worker)
            yield np.frombuffer(raw, dtype)


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
    """Answer texts with their ids, until the input ends."""
    source, target = sys.stdin.buffer, sys.stdout.buffer
    if (settings := _receive(source)) is None:
        return
    table = json.loads(settings)
    tokenizer = tokenizer_from_dict(table)
    while (message := _receive(source)) is not None:
        text = message.decode("utf-8", "surrogatepass")
        _send(target, tokenizer.encode_array(text, table["dtype"]).tobytes())


if __name__ == "__main__":
    main()
