"""A small web server on this machine that misbehaves on request."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest


class Server(ThreadingHTTPServer):
    """Serves one file, each request in the next of the planned ways, and well after those."""

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
        """Broken connections are what this is for."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    def do_GET(self) -> None:
        server = self.server
        server.requests.append({k.lower(): v for k, v in self.headers.items()})
        way = server.plan.pop(0) if server.plan else "well"
        if way.isdigit():
            self.send_error(int(way))
            return
        if way.startswith("to "):
            self.send_response(302)
            self.send_header("Location", way.removeprefix("to "))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        whole = server.content
        first, status = 0, 200
        asked = self.headers.get("Range")
        condition = self.headers.get("If-Range")
        known = (None, server.etag, server.modified)
        if asked and way != "no ranges" and condition in known:
            first, status = int(asked.removeprefix("bytes=").rstrip("-")), 206
            if first >= len(whole):
                self.send_error(416)
                return
        body = whole[first:]
        self.send_response(status)
        if status == 206:
            said = first + 1 if way == "wrong range" else first
            self.send_header("Content-Range", f"bytes {said}-{len(whole) - 1}/{len(whole)}")
        if server.etag:
            self.send_header("ETag", server.etag)
        if server.modified:
            self.send_header("Last-Modified", server.modified)
        if way == "corrupt":
            body = bytes([body[0] ^ 1]) + body[1:]
        if way == "truncate":  # says that half of it is all of it
            body = body[: len(body) // 2]
        if way == "too much":
            body += b"and more"
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if way == "drop":
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            self.connection.close()
        elif way == "crawl":  # one byte, and gone
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
    """The named sets are the real ones, and the cache is nobody's."""
    monkeypatch.setenv("WORKINGS_DATA", str(data))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
