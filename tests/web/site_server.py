"""Serves a static site under a path, like a web host; CPython stands in for the worker's Python."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from workings.web.problem_answers import answer

PREFIX = "/some/where"
STAND_IN = """
self.onmessage = async ({ data }) => {
  if (data.start) return self.postMessage({ isReady: true });
  const link = new URL("../answer", import.meta.url);
  const response = await fetch(link, { method: "POST", body: JSON.stringify(data) });
  self.postMessage({ answer: await response.json() });
};
"""


class SiteHandler(SimpleHTTPRequestHandler):
    """Serves files below the prefix; a POST is answered by this process."""

    def translate_path(self, path: str) -> str:
        return super().translate_path(path.removeprefix(PREFIX) if path.startswith(PREFIX) else "")

    def do_POST(self) -> None:
        question = json.loads(self.rfile.read(int(self.headers["content-length"])))
        content = json.dumps(asdict(answer(**question))).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serve_site(folder: Path) -> Iterator[str]:
    """Serve a site; yield its address without the last slash."""
    handler = partial(SiteHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}{PREFIX}"
        server.shutdown()


def replace_python(folder: Path) -> None:
    """Let CPython answer instead of Python in the browser."""
    (folder / "page" / "python_worker.js").write_text(STAND_IN, encoding="utf-8")
