"""A process that answers requests about problems and logs, one by one, until its input ends.

The server starts it with `python -m workings.web.worker`, kills it when a request takes too long or
too much memory, and starts another. Messages are a JSON head and a body of bytes, each preceded by
its length. The head of the first one has the runs of the server and how far the process stands
back for others; the first answer says that it is ready.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

LENGTH_BYTES = 8
END_AFTER_MEMORY = 100 * 10**6  # bytes over the idle process, after which it ends itself
MAX_DATA = 400 * 10**6  # over the idle process, then a MemoryError: the server ends it before that
IS_LAST = "is_last"  # in the head of the answer of a process that ends itself

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
    idle = _peak_memory()
    _limit_memory()
    output.write(encode_message({"is_ready": True}, b""))
    output.flush()
    _serve(sys.stdin.buffer, output, answer, idle + END_AFTER_MEMORY)


def _serve(
    messages: BinaryIO, output: BinaryIO, answer: Callable[[Head, bytes], Answer], max_memory: int
) -> None:
    while (message := read_message(messages.read)) is not None:
        head, body = answer(*message)
        is_last = _peak_memory() > max_memory
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
        try:
            return runner.run(_call_app(app, head, body))
        except MemoryError:
            error = {"error": "too large: it needs too much memory"}
            return _json_head(422), json.dumps(error).encode()

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


def _peak_memory() -> int:
    """Return the largest resident memory so far, in bytes; 0 where the system does not tell."""
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _limit_memory() -> None:
    if sys.platform != "linux":  # elsewhere the limit is not enforced, or counts other memory
        return
    import resource

    with open("/proc/self/status", encoding="utf-8") as file:  # noqa: PTH123
        sizes = dict(line.split(":", 1) for line in file)
    limit = int(sizes["VmData"].split()[0]) * 1024 + MAX_DATA
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


if __name__ == "__main__":
    main()
