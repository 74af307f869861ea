"""Attack a server of this machine with hostile requests, beside a well-behaved client; print JSON.

    python fuzz/attack.py [--rounds 1]

The server is a process of its own, on loopback, with small runs. Every attack is bounded in count
and time. The exit status is 1 if the well-behaved client got a wrong answer or none, if a forbidden
request was answered, if there was a server error or a traceback, if the server ended, or if one
of its processes took more than 100 MB over what it had before.
"""

import argparse
import http.client
import json
import math
import random
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "web"))
from small_runs import train_small_runs

MAX_WAIT = 60.0  # seconds for an answer
NUM_IDLE = 1300  # sockets that send nothing
MAX_FILES = 1024  # that the server may open
MAX_MEGABYTES = 100  # over idle, for any process
JSON_HEADERS = {"content-type": "application/json"}
PROBLEM_PATHS = (
    "work", "cell", "check", "hint", "make", "export", "answers", "read", "open", "document"
)  # fmt: skip
SMALL_PROBLEM = {"table": {"given": {"X": [["1", "0"], ["0", "2"]]}}}
MODEL_PATHS = (
    "inspect",
    "inspect/complete",
    "inspect/map",
    "inspect/explain",
    "compare",
    "permute",
)


class Target:
    """The server under attack, and what it has answered."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.statuses: Counter[str] = Counter()
        self.findings: list[str] = []

    def request(self, method: str, path: str, body: bytes | None = None, **headers: str) -> int:
        """Send a request with any body and headers; return its status, or 0 without an answer."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=MAX_WAIT)
        with closing(connection):
            try:
                connection.request(method, path, body, sent)
                response = connection.getresponse()
                response.read()
            except (OSError, http.client.HTTPException):
                return self._count(0)
        return self._count(response.status, f"{method} {path[:60]} {(body or b'')[:60]!r}")

    def post(self, path: str, body: object) -> int:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.request("POST", f"/api/{path}", raw, content_type="application/json")

    def send_raw(self, raw: bytes, *, then: bytes = b"", pause: float = 0.0) -> bytes:
        """Send bytes on a connection; return the beginning of the answer."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 15) as sock:
            sock.sendall(raw)
            if pause:
                time.sleep(pause)
            with suppress(OSError):
                sock.sendall(then)
            answer = sock.recv(65536)
            self._count(int(answer[9:12]) if answer[9:12].isdigit() else 0, repr(raw[:80]))
            return answer
        self._count(0)
        return b""

    def refuse(self, what: str, status: int) -> None:
        """Note a finding if a forbidden request was answered."""
        if status in (200, 206, 304):
            self.findings.append(f"{what} was answered with {status}")

    def _count(self, status: int, what: str = "") -> int:
        self.statuses[str(status or "closed")] += 1
        if status >= 500 and status != 501:
            self.findings.append(f"status {status}: {what}")
        return status


Attack = Callable[[Target], object]


class Bystander:
    """A browser that works a small problem again and again, and gets the page.

    It is a process of its own, which does not wait for the attacks to be made up.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.waits: list[tuple[float, float]] = []  # the time of each answer, and how long it took
        self.num_retries = 0
        self.failures: list[str] = []

    def run(self, is_over: threading.Event) -> None:
        status, body, cookie = self._send("GET", "/")
        while not is_over.is_set():
            headers = {**JSON_HEADERS, "cookie": cookie.partition(";")[0]}
            status, body, _ = self._send("GET", "/", headers=headers)
            if status != 200 or b"<html" not in body:
                self.failures.append(f"page: {status} {body[:80]!r}")
            status, body, _ = self._send("POST", "/api/work", json.dumps(SMALL_PROBLEM), headers)
            if status != 200 or not json.loads(body).get("steps"):
                self.failures.append(f"work: {status} {body[:80]!r}")
            is_over.wait(0.1)

    def _send(self, method: str, path: str, body: str = "", headers: dict[str, str] | None = None):
        """Send a request; after a closed connection, send it once more, as a browser does."""
        start = time.monotonic()
        for is_last in (False, True):
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=MAX_WAIT)
            with closing(connection):
                try:
                    connection.request(method, path, body or None, headers or {})
                    response = connection.getresponse()
                    answer = response.read()
                    break
                except (OSError, http.client.HTTPException) as error:
                    self.num_retries += 1
                    if is_last:
                        return 0, repr(error).encode(), ""
        self.waits.append((time.monotonic(), time.monotonic() - start))
        return response.status, answer, response.getheader("set-cookie") or ""

    def main(self) -> None:
        """Run until the input ends; then print what happened."""
        is_over = threading.Event()
        thread = threading.Thread(target=self.run, args=(is_over,))
        thread.start()
        sys.stdin.read()
        is_over.set()
        thread.join()
        sys.stdout.write(json.dumps([self.waits, self.num_retries, self.failures]))


# -- attacks ---------------------------------------------------------------------------------------


def random_rows(rng: random.Random, rows: int, columns: int) -> list[list[str]]:
    return [[f"{rng.gauss(0, 1):.2f}" for _ in range(columns)] for _ in range(rows)]


def costly_problems() -> Iterator[tuple[str, object]]:
    """Yield valid problems that would take minutes or gigabytes."""
    rng = random.Random(0)  # noqa: S311
    names = ("X", "W_Q", "W_K", "W_V", "W_O")
    for side, heads, num_claims in ((64, 64, 14), (64, 1, 14), (48, 4, 5), (100, 100, 2)):
        given = {name: random_rows(rng, side, side) for name in names}
        keys = ["Q", "K", "V", "mixed", "output"] + [f"scores.{k}" for k in range(1, 10)]
        claims = [{"key": k, "cells": random_rows(rng, side, side)} for k in keys[:num_claims]]
        table = {"given": given, "settings": {"heads": heads}, "claims": claims}
        for path in ("check", "work"):
            yield path, {"table": table}
        yield "export", {"table": table, "file_format": "html", "report": True}
        yield "hint", {"table": table, "key": "Q", "level": 3}
    yield "work", {"table": {"given": {"X": [["1"] * 512] * 400}, "settings": {"heads": 512}}}
    for kind in ("rnn", "lstm", "positions", "layer_norm", "block", "feed_forward", "additive"):
        given = {name: [["1"] * 200] * 200 for name in ("X", "W_1", "W_2", "W_xh", "W_hh")}
        yield "work", {"table": {"kind": kind, "given": given}}
    yield (
        "work",
        {"table": {"kind": "positions", "given": {"count": [[10**9]], "width": [[10**9]]}}},
    )


def hostile_values() -> Iterator[tuple[str, object]]:
    """Yield bodies with values that no page sends, for every path."""
    cells = ("9" * 190, "1e999", "-1e-999", "NaN", "∞", "1/0", "0x" + "f" * 190, "\u202e\0\ud800",
             "<img src=x onerror=alert(1)>", "__import__('os')", "{{7*7}}", "=1+1", "٣", True, None,
             1e308, -0.0, 10**300, [], {}, "\\begin{bmatrix}", "1" + ",1" * 90)  # fmt: skip
    for cell in cells:
        yield "work", {"table": {"given": {"X": [[cell, 1], [1, cell]]}}}
    for name in ("__class__", "X" * 60, "X" * 61, "../X", "\0", "constructor", "W_Q", ""):
        yield "work", {"table": {"given": {"X": [[1]], name: [[1]]}}}
    for settings in ({"heads": 10**9}, {"heads": -1}, {"heads": 1e308}, {"scale": "\0"},
                     {"mask": [[0] * 1024] * 300}, {f"k{k}": 1 for k in range(21)}):  # fmt: skip
        yield "work", {"table": {"given": {"X": [[1, 2]]}, "settings": settings}}
    for decimals in (-1, 16, 10**9, "3", 2.5, None):
        yield "work", {"table": {"given": {"X": [[1]]}}, "decimals": decimals}
    yield (
        "check",
        {"table": {"given": {"X": [[1]]}, "claims": [{"key": "Q", "cells": [[1]]}] * 201}},
    )
    for count in (0, 7, 10**9, -1, math.inf):
        yield "make", {"kind": "self", "count": count, "seed": 1}
    yield "make", {"kind": "../../etc/passwd"}
    for text in ("[" * 200_000, "X = " * 100_000, "(" * 300_000, "a." * 50_000 + "b = 1",
                 "\\begin{bmatrix}1\\end{bmatrix}" * 8_000, "| 1 " * 100_000, "1 " * 300_000,
                 "[given]\nX = " + "[" * 5_000, "% workings:\n" * 30_000, "\n" * 500_000,
                 "⎡1⎤\n" * 50_000, "0" * 500_000, "title = '''" + "'" * 100_000):  # fmt: skip
        yield "read", {"text": text}
        yield "open", {"text": text}


def hostile_bodies() -> Iterator[bytes]:
    """Yield bodies that are no JSON, or JSON that costs much to read."""
    yield b'{"table":{"given":{"X":[' + b",".join([b"[" + b"{}," * 999 + b"{}]"] * 320) + b"]}}}"
    yield b"[" * 400_000
    yield b'{"a":' * 100_000
    yield b'{"table":' + b'{"given":' * 50_000
    yield b'"' + b"\\ud800" * 100_000 + b'"'
    yield b'{"table":{"given":{"X":[[' + b"9" * 900_000 + b"]]}}}"
    yield b"{" + b",".join(b'"k%d":1' % k for k in range(80_000)) + b"}"
    yield b'{"table":{"given":{"X":[[1]]}},"table":{}}'
    yield from (
        b"",
        b"null",
        b"{}",
        b"[]",
        b"1",
        b"\xff\xfe",
        b"\xef\xbb\xbf{}",
        b"NaN",
        b"\0" * 99,
    )
    yield b" " * 990_000 + b"{}"


def hostile_http(port: int) -> Iterator[bytes]:
    """Yield requests that break the rules of HTTP, or go to their limits."""
    host = f"Host: 127.0.0.1:{port}\r\n".encode()
    post = b"POST /api/work HTTP/1.1\r\n" + host + b"Content-Type: application/json\r\n"
    yield b"GET /\r\n\r\n"
    yield b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    yield b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200
    yield b"\0" * 5_000
    yield b"G" * 100_000
    yield b"GET / HTTP/1.1\r\n" + host + b"X: " + b"a" * 900_000 + b"\r\n\r\n"
    yield b"GET / HTTP/1.1\r\n" + host + b"".join(b"X%d: 1\r\n" % k for k in range(5_000)) + b"\r\n"
    yield b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n" + host + b"\r\n"
    yield b"GET /?" + b"token=x&" * 20_000 + b" HTTP/1.1\r\n" + host + b"\r\n"
    yield b"GET / HTTP/1.1\r\n" + host + b"Cookie: " + b"a=b; " * 12_000 + b"\r\n\r\n"
    yield b"GET / HTTP/1.1\r\n" + host + b'Cookie: a="\\' + b"\\" * 30_000 + b"\r\n\r\n"
    yield post + b"Content-Length: -1\r\n\r\n{}"
    yield post + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x"
    yield (
        post + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n"
    )
    yield post + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n{}"
    yield post + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 30_000 + b"0\r\n\r\n"
    yield post + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"
    yield post + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b"
    yield post + b"Content-Length: 99999999999999999999\r\n\r\n{}"
    yield post + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    yield b"GET / HTTP/1.1\r\nHost: x\r\n" + host + b"\r\n"
    yield b"GET / HTTP/1.1\r\n\r\n"
    yield b"GET / HTTP/1.0\r\n\r\n"
    yield b"GET http://evil.example/ HTTP/1.1\r\n" + host + b"\r\n"
    yield b"CONNECT evil.example:80 HTTP/1.1\r\n" + host + b"\r\n"
    yield b"GET / HTTP/1.1\r\n" + host + b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
    yield b"GET / HTTP/1.1\r\n" + host + b"Upgrade: h2c\r\nConnection: Upgrade\r\n\r\n"
    yield (b"GET /api/runs HTTP/1.1\r\n" + host + b"\r\n") * 300  # pipelined
    for method in (b"OPTIONS", b"TRACE", b"PUT", b"DELETE", b"PATCH", b"BREW"):
        yield method + b" /api/work HTTP/1.1\r\n" + host + b"\r\n"


FORBIDDEN_PATHS = (
    "/page/..%2f..%2fpyproject.toml", "/page/../../../etc/passwd", "/page/%2e%2e/app.py",
    "/api/report/..%2f..%2f..%2fetc%2fpasswd", "/api/report/%2e%2e", "/api/training/%00",
    "/api/report/fruit%2f..%2fgpt", "/api/lecture/..%2fL2-self", "//etc/passwd",
    "/api/../etc/passwd",
    "/api/training/" + "x" * 400, "/api/recipe/%E2%80%AE", "/.git/config",
    "/api/training/fruit?width=999999999", "/api/training/fruit?revision=99999999999999999999",
    "/api/compare/curves?first=fruit&second=../gpt", "/docs", "/redoc", "/openapi.json",
)  # fmt: skip


def forbidden(target: Target) -> None:
    """Ask for other files, from other sites and under other names."""
    for path in FORBIDDEN_PATHS:
        target.refuse(path[:80], target.request("GET", path))
    own = f"127.0.0.1:{target.port}"
    for host in ("evil.example", f"evil.example:{target.port}", "127.0.0.1", "127.0.0.1.evil:1",
                 f"localhost.evil.example:{target.port}", "[::1", "0.0.0.0:80"):  # fmt: skip
        target.refuse(f"host {host}", target.request("GET", "/api/runs", host=host))
    body = json.dumps(SMALL_PROBLEM).encode()
    for origin in ("http://evil.example", "null", f"http://{own}.evil.example", f"https://{own}"):
        for headers in ({"origin": origin}, {"origin": origin, "sec_fetch_site": "same-origin"}):
            status = target.request("POST", "/api/work", body, **JSON_HEADERS_ARGUMENT, **headers)
            target.refuse(f"origin {origin}", status)
    for site in ("cross-site", "same-site", "x"):
        status = target.request("GET", "/api/runs", sec_fetch_site=site)
        target.refuse(f"sec-fetch-site {site}", status)
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        status = target.request("POST", "/api/work", body, content_type=kind)
        target.refuse(f"content type {kind}", status)


JSON_HEADERS_ARGUMENT = {"content_type": "application/json"}


def hostile_model_requests(target: Target) -> None:
    """Ask the models for much, and for what does not exist."""
    texts = (
        "",
        " " * 9_000,
        "a" * 9_000,
        "fig " * 2_000,
        "\0\ud800\u202e",
        "🏳️‍🌈" * 500,
        "x" * 900_000,
    )
    for path in MODEL_PATHS:
        for run in ("fruit", "gpt", "nowhere", "../gpt", "\0"):
            side = {"run": run, "text": "fig", "layer": 4096, "head": 4096, "part": "encoder"}
            target.post(path, {"first": side, "second": side} if path == "compare" else side)
    for text in texts:
        target.post("inspect", {"run": "fruit", "text": text})
        body = {"run": "gpt", "text": text, "max_new_tokens": 400, "temperature": 10}
        target.post("inspect/complete", body)
    for picture in ("x", "data:image/png;base64,AAAA", "A" * 700_000):
        target.post("inspect", {"run": "squares", "picture": picture})


def burst(send: Callable[[], object], count: int) -> None:
    """Send many requests at once."""
    threads = [threading.Thread(target=send, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(MAX_WAIT)


def flood(target: Target) -> None:
    """Send 45 sheets at once, then as many checks and models; leave before some answers."""
    rng = random.Random(0)  # noqa: S311
    sheet = {"kind": "block", "count": 6, "tokens": 6, "width": 8}
    burst(lambda: target.post("make", {**sheet, "seed": rng.randrange(10**6)}), 45)
    (_, check), *_ = (item for item in costly_problems() if item[0] == "check")
    burst(lambda: target.post("check", check), 8)
    burst(lambda: target.post("inspect/complete", {"run": "gpt", "max_new_tokens": 200}), 20)
    burst(lambda: target.request("GET", "/api/training/fruit"), 60)
    for _ in range(20):
        raw = json.dumps(check).encode()
        head = f"POST /api/check HTTP/1.1\r\nHost: 127.0.0.1:{target.port}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(raw)}\r\n\r\n"
        with suppress(OSError), socket.create_connection(("127.0.0.1", target.port), 15) as sock:
            sock.sendall(head.encode() + raw)  # and leave


def idle_sockets(target: Target) -> None:
    """Open many connections that send nothing, a part of the headers, or a part of the body."""
    sockets = []
    host = f"Host: 127.0.0.1:{target.port}\r\n"
    begin = f"POST /api/work HTTP/1.1\r\n{host}Content-Type: application/json\r\n"
    parts = (b"", b"GET / HTTP/1.1\r\nX: ", f"{begin}Content-Length: 900\r\n\r\n{{".encode())
    for k in range(NUM_IDLE):
        with suppress(OSError):
            sock = socket.create_connection(("127.0.0.1", target.port), 5)
            sockets.append(sock)
            sock.sendall(parts[k % 3])
    time.sleep(3)
    for sock in sockets:
        sock.close()


def hostile_logs(runs: dict[str, Path]) -> Attack:
    """Return an attack that replaces the log of a run, and follows it."""

    def attack(target: Target) -> None:
        log = runs["lstm"] / "log.jsonl"
        metrics = (f'"validation_m{k}": {k}' for k in range(8_000))
        record = '{{"kind": "epoch", "epoch": {}, "step": {}, {}}}\n'
        contents = (
            "".join(record.format(k, k, metric) for k, metric in enumerate(metrics)),
            record.format(1, 1, ", ".join(f'"train_m{k}": 1' for k in range(60_000))) * 40,
            '{"kind": "step", "epoch": 1, "step": 1, "steps": 9, "train_loss": 1}\n' * 600_000,
            "[" * 10_000_000,
            "\n" * 20_000_000,
            '{"kind": "epoch", "epoch": 1e308, "step": -1, "train_loss": NaN}\n' * 10,
        )
        for content in contents:
            log.write_text(content)
            for _ in range(3):
                target.request("GET", "/api/training/lstm")
            target.request("GET", "/api/compare/curves?first=lstm&second=gpt")

    return attack


def all_attacks(port: int, runs: dict[str, Path]) -> Iterator[tuple[str, Attack]]:
    yield "hostile values", lambda t: [t.post(path, body) for path, body in hostile_values()]
    yield (
        "hostile bodies",
        lambda t: [
            t.post(path, body)
            for body in hostile_bodies()
            for path in (*PROBLEM_PATHS, *MODEL_PATHS)
        ],
    )
    yield "hostile HTTP", lambda t: [t.send_raw(raw) for raw in hostile_http(port)]
    yield "forbidden", forbidden
    yield "hostile model requests", hostile_model_requests
    yield "hostile logs", hostile_logs(runs)
    yield "idle sockets", idle_sockets
    yield "flood", flood
    yield "costly problems", lambda t: [t.post(path, body) for path, body in costly_problems()]


# -- figures ---------------------------------------------------------------------------------------


class MemoryWatch(threading.Thread):
    """The resident memory of the server and its workers, measured fifty times a second (Linux)."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.is_over = pid, threading.Event()
        self.start_of_attack: dict[str, float] = {}  # megabytes
        self.peak: dict[str, float] = {"server": 0.0, "worker": 0.0, "all": 0.0}

    def run(self) -> None:
        while not self.is_over.wait(0.02):
            now = self.measure()
            self.start_of_attack = self.start_of_attack or now
            self.peak = {kind: max(self.peak[kind], now[kind]) for kind in now}

    def measure(self) -> dict[str, float]:
        """Return the megabytes of the server, of its largest worker, and of all processes."""
        megabytes = {}
        with suppress(OSError, ValueError):
            tasks = Path(f"/proc/{self.pid}/task").iterdir()
            children = [int(p) for t in tasks for p in (t / "children").read_text().split()]
            for pid in (self.pid, *children):
                with suppress(OSError, IndexError):
                    command = Path(f"/proc/{pid}/cmdline").read_bytes()
                    if pid != self.pid and b"workings.web.worker" not in command:
                        continue  # still a copy of the server
                    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
                    megabytes[pid] = pages * 4096 / 1e6
        server = megabytes.get(self.pid, 0.0)
        workers = [size for pid, size in megabytes.items() if pid != self.pid]
        return {"server": server, "worker": max(workers, default=0.0), "all": server + sum(workers)}


def set_max_files(number: int) -> None:
    """Limit the files and sockets of this process."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))


def main() -> int:
    """Attack, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--bystander", type=int, metavar="PORT", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.bystander:
        Bystander(arguments.bystander).main()
        return 0
    with tempfile.TemporaryDirectory() as name:
        runs = train_small_runs(Path(name))
        command = [sys.executable, "-m", "workings", "serve", "--port", "0", "--no-open"]
        errors = (Path(name) / "errors.txt").open("w+")
        server = subprocess.Popen(
            [*command, "--no-token", *map(str, runs.values())],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            preexec_fn=partial(set_max_files, MAX_FILES),
        )
        set_max_files(2 * NUM_IDLE)
        try:
            port = int(server.stdout.readline().partition("127.0.0.1:")[2].partition("/")[0])
            figures = attack_server(port, server, runs, arguments.rounds)
        finally:
            server.terminate()
            with suppress(subprocess.TimeoutExpired):
                server.wait(20)
            server.kill()
        errors.seek(0)
        figures["printed"] = errors.read()[-2000:]
        errors.close()
    sys.stdout.write(json.dumps(figures, indent=1) + "\n")
    problems = ("findings", "bystander_failures", "printed")
    idle, peak = figures["megabytes_idle"], figures["megabytes_peak"]
    is_large = any(peak[kind] > idle[kind] + MAX_MEGABYTES for kind in ("server", "worker"))
    return int(any(figures[k] for k in problems) or is_large or not figures["still_serving"])


def attack_server(port: int, server: subprocess.Popen, runs: dict[str, Path], rounds: int) -> dict:
    """Run all attacks one after the other; return the figures."""
    target, memory = Target(port), MemoryWatch(server.pid)
    target.post("work", SMALL_PROBLEM)
    target.post("inspect", {"run": "fruit", "text": "fig"})  # imports torch
    time.sleep(3)  # until all workers have started
    memory.start()
    time.sleep(0.5)
    bystander = subprocess.Popen(
        [sys.executable, __file__, "--bystander", str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    attacks, highest = list[dict](), dict[str, float]()
    for _ in range(rounds):
        for name, attack in all_attacks(port, runs):
            start = time.monotonic()
            attack(target)
            end = time.monotonic()
            peaks, memory.peak = memory.peak, memory.measure()
            highest = {kind: max(highest.get(kind, 0.0), peaks[kind]) for kind in peaks}
            megabytes = {kind: round(size) for kind, size in peaks.items()}
            attacks.append({"name": name, "start": start, "end": end, "megabytes": megabytes})
    waits, num_retries, failures = json.loads(bystander.communicate(timeout=2 * MAX_WAIT)[0])
    for attack in attacks:
        start, end = attack.pop("start"), attack.pop("end")
        during = [wait for moment, wait in waits if start <= moment and moment - wait <= end]
        attack |= {
            "seconds": round(end - start, 1),
            "longest_wait": round(max(during, default=0), 2),
        }
    seconds = sorted(wait for _, wait in waits)
    memory.is_over.set()
    is_serving = server.poll() is None and target.request("GET", "/") == 200
    return {
        "requests": sum(target.statuses.values()),
        "statuses": dict(sorted(target.statuses.items())),
        "attacks": attacks,
        "bystander_requests": len(seconds),
        "bystander_retries": num_retries,
        "bystander_failures": failures[:10],
        "longest_wait": round(seconds[-1], 2),
        "median_wait": round(seconds[len(seconds) // 2], 3),
        "megabytes_idle": {k: round(v) for k, v in memory.start_of_attack.items()},
        "megabytes_peak": {k: round(v) for k, v in highest.items()},
        "findings": target.findings[:20],
        "still_serving": is_serving,
    }


if __name__ == "__main__":
    sys.exit(main())
