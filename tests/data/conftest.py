"""A web server on this machine whose failures can be planned."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest


class Server(ThreadingHTTPServer):
    """A server of one file; each request gets the next planned behavior, then the normal one."""

    daemon_threads = True
    content = b""
    etag: str | None = '"one"'
    modified: str | None = None

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.plan: list[str] = []
        self.requests: list[dict[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/file.bin"

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore broken connections, which are planned."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    def do_GET(self) -> None:
        server = self.server
        server.requests.append({k.lower(): v for k, v in self.headers.items()})
        behavior = server.plan.pop(0) if server.plan else "normal"
        if behavior.isdigit():
            self.send_error(int(behavior))
            return
        if behavior.startswith("to "):
            self.send_response(302)
            self.send_header("Location", behavior.removeprefix("to "))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        content = server.content
        first, status = 0, 200
        requested = self.headers.get("Range")
        condition = self.headers.get("If-Range")
        validators = (None, server.etag, server.modified)
        if requested and behavior != "no ranges" and condition in validators:
            first, status = int(requested.removeprefix("bytes=").rstrip("-")), 206
            if first >= len(content):
                self.send_error(416)
                return
        body = content[first:]
        self.send_response(status)
        if status == 206:
            start = first + 1 if behavior == "wrong range" else first
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if server.etag:
            self.send_header("ETag", server.etag)
        if server.modified:
            self.send_header("Last-Modified", server.modified)
        if behavior == "corrupt":
            body = bytes([body[0] ^ 1]) + body[1:]
        if behavior == "truncate":  # states half of the length
            body = body[: len(body) // 2]
        if behavior == "too much":
            body += b"and more"
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if behavior == "drop":
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            self.connection.close()
        elif behavior == "crawl":  # sends one byte
            self.wfile.write(body[:1])
        else:
            self.wfile.write(body)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def named(data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Named datasets are the real ones, and the cache is empty."""
    monkeypatch.setenv("WORKINGS_DATA", str(data))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
