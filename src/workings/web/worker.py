"""A process that answers requests about problems and logs, one by one, until its input ends.

The server starts it with `python -m workings.web.worker`, kills it when a request takes too long,
and starts another. Messages are a JSON head and a body of bytes, each preceded by its length. The
head of the first one has the runs of the server, how far the process stands back for others, and
how much memory a request may take; the first answer says that it is ready.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

LENGTH_BYTES = 8
MAX_KEPT = 0.25  # of the memory that a request may take; a process that keeps more ends itself
IS_LAST = "is_last"  # in the head of the answer of a process that ends itself
WARM_UP = (
    {"method": "POST", "path": "/api/check", "query": ""},
    b'{"table": {"given": {"X": [[1, 0], [0, 2]]}, "claims": [{"key": "mixed", "cells": [[9]]}]}}',
)
"""A request that imports everything."""

Head = dict[str, Any]
Answer = tuple[Head, bytes]


def encode_message(head: Head, body: bytes) -> bytes:
    """Return a message as bytes."""
    raw = json.dumps(head).encode()
    return b"".join(part for text in (raw, body) for part in (_encode_length(text), text))


def _encode_length(text: bytes) -> bytes:
    return len(text).to_bytes(LENGTH_BYTES, "big")


def read_message(read: Callable[[int], bytes]) -> Answer | None:
    """Read a message; None at the end of the input."""
    parts = []
    for _ in range(2):
        length = read(LENGTH_BYTES)
        if len(length) < LENGTH_BYTES:
            return None
        parts.append(read(int.from_bytes(length, "big")))
    return json.loads(parts[0]), parts[1]


def main() -> None:
    """Answer requests from standard input on standard output."""
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a stray print must not look like an answer
    first = read_message(sys.stdin.buffer.read)
    if first is None:
        return
    if hasattr(os, "nice"):
        os.nice(first[0]["niceness"])
    answer = build_answerer(first[0]["runs"])
    answer(*WARM_UP)
    idle, max_memory = _measure_memory(), first[0]["max_memory"]
    max_kept = int(MAX_KEPT * max_memory)
    _limit_memory(idle + max_memory)
    output.write(encode_message({"is_ready": True}, b""))
    output.flush()
    _serve(sys.stdin.buffer, output, _within_limit(answer, max_memory), idle + max_kept)


def _within_limit(
    answer: Callable[[Head, bytes], Answer], max_memory: int
) -> Callable[[Head, bytes], Answer]:
    """Return a function that answers requests, and says of which that they need too much memory."""
    error = f"too large: it needs more than {max_memory // 10**6} MB of memory"

    def answer_within_limit(head: Head, body: bytes) -> Answer:
        try:
            return answer(head, body)
        except MemoryError:
            return _json_head(422), json.dumps({"error": error}).encode()

    return answer_within_limit


def _serve(
    messages: BinaryIO, output: BinaryIO, answer: Callable[[Head, bytes], Answer], max_kept: int
) -> None:
    while (message := read_message(messages.read)) is not None:
        head, body = answer(*message)
        is_last = _measure_memory() > max_kept  # the next request could not take as much
        output.write(encode_message({**head, IS_LAST: is_last}, body))
        output.flush()
        if is_last:
            return


def build_answerer(runs: Sequence[dict[str, Any]] = ()) -> Callable[[Head, bytes], Answer]:
    """Return a function that answers a request about these runs with the application's routes."""
    from workings.registry import import_plugins
    from workings.web.app import build_app
    from workings.web.runs import RegisteredRun, RunRegistry

    registered = [RegisteredRun.from_dict(table) for table in runs]
    import_plugins(dict.fromkeys(name for run in registered for name in run.plugins))
    app: Any = build_app(RunRegistry(registered=registered))
    runner = asyncio.Runner()

    def answer(head: Head, body: bytes) -> Answer:
        return runner.run(_call_app(app, head, body))

    return answer


async def _call_app(app: Any, head: Head, body: bytes) -> Answer:
    """Send one request to an ASGI application and collect its response."""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": head["method"],
        "scheme": "http",
        "path": head["path"],
        "raw_path": head["path"].encode(),
        "root_path": "",
        "query_string": head["query"].encode("latin-1"),
        "headers": [
            (b"content-type", b"application/json"),
            (b"accept-language", head.get("language", "").encode("latin-1")),
        ],
    }
    status, headers, chunks = 500, dict[str, str](), list[bytes]()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status = message["status"]
            headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in message["headers"]}
        else:
            chunks.append(message.get("body", b""))

    await app(scope, receive, send)
    return {"status": status, "headers": headers}, b"".join(chunks)


def _json_head(status: int) -> Head:
    return {"status": status, "headers": {"content-type": "application/json"}}


def _measure_memory() -> int:
    """Return the bytes that the process may write to; 0 where the system does not tell."""
    if sys.platform != "linux":
        return 0
    with open("/proc/self/status", encoding="utf-8") as file:  # noqa: PTH123
        sizes = dict(line.split(":", 1) for line in file)
    return int(sizes["VmData"].split()[0]) * 1024


def _limit_memory(limit: int) -> None:
    """Make what goes beyond the limit a MemoryError."""
    if sys.platform != "linux":  # elsewhere the limit is not enforced, or counts other memory
        return
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


if __name__ == "__main__":
    main()
