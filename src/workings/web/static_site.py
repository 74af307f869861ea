"""The page as static files for any web host: Python runs in the browser of its visitor.

The modules are those of the server's page; `site/transport.js` takes the place of `transport.js`.
What needs no computing is a file: lists, lectures and their checks, looks into runs.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from workings import __version__
from workings.errors import UserError
from workings.io import atomic_folder
from workings.web import lecture_pages, package_wheel
from workings.web.assets import load_assets
from workings.web.problem_answers import LECTURE_PATH, answer, load_lectures
from workings.web.pyodide_release import PyodideFiles, find_pyodide, format_integrity

MANIFEST = "site.json"
GENERATOR = "workings site"
_COMMENTS = re.compile(rb"^[ \t]*(?:/\*(?:[^*]|\*(?!/))*\*/|//[^\n]*)[ \t]*\n", re.MULTILINE)
OMITTED = ("page.html", "standalone.js", "transport.js", "widget.js")  # of the page's files


@dataclass(frozen=True)
class SiteSummary:
    """What was written."""

    num_files: int
    num_bytes: int
    num_lectures: int
    num_looks: int


def write_site(
    folder: Path,
    pyodide: str | None = None,
    runs: Sequence[Path] = (),
    texts: Sequence[str] = (),
) -> SiteSummary:
    """Write the site into a folder that is new, empty or an earlier site; return what it has."""
    _check_folder(folder)
    contents = dict(list_files(find_pyodide(pyodide), runs, texts))
    try:
        with atomic_folder(folder, replace=True) as part:
            for name, content in contents.items():
                path = part / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
    except OSError as error:
        raise UserError(f"{folder}: cannot be written: {error.strerror or error}") from None
    return SiteSummary(
        num_files=len(contents),
        num_bytes=sum(map(len, contents.values())),
        num_lectures=len(load_lectures()),
        num_looks=sum(name.endswith("/look.json") for name in contents),
    )


def list_files(
    pyodide: PyodideFiles, runs: Sequence[Path] = (), texts: Sequence[str] = ()
) -> Iterator[tuple[str, bytes]]:
    """Yield the path and content of every file of the site."""
    yield from _list_looks(runs, texts)
    yield "index.html", _write_index(pyodide).encode()
    for name, (content, _) in load_assets().items():
        if name not in OMITTED:
            yield f"page/{name}", _remove_comments(name, content)
    for file in (files("workings.web") / "static" / "site").iterdir():
        if file.name.endswith((".css", ".js")):
            yield f"page/{file.name}", _remove_comments(file.name, file.read_bytes())
    wheel = package_wheel.build_wheel()
    wheel_path = f"python/{package_wheel.FILE_NAME}"
    yield wheel_path, wheel
    yield from pyodide.copies.items()
    yield from _list_answers()
    for name, page in lecture_pages.list_pages():
        yield f"lectures/{name}.html", page.encode()
    python = {
        **pyodide.settings,
        "wheel": {"url": wheel_path, "integrity": format_integrity(hashlib.sha256(wheel).digest())},
    }
    manifest = {"generator": GENERATOR, "version": __version__, "python": python}
    yield MANIFEST, _dump(manifest)


def _remove_comments(name: str, content: bytes) -> bytes:
    """Return JavaScript and CSS without the comments that have lines of their own."""
    return _COMMENTS.sub(b"", content) if name.endswith((".js", ".css")) else content


def _check_folder(folder: Path) -> None:
    """Raise a `UserError` if the folder has files that are not those of an earlier site."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UserError(f"{folder}: a file is there: expected a folder")
    try:
        names = {file.name for file in folder.iterdir()}
    except OSError as error:
        raise UserError(f"{folder}: cannot be read: {error.strerror}") from None
    if names and not _is_site(folder):
        raise UserError(
            f"{folder}: it has other files: expected a new or empty folder, or an earlier site"
        )


def _is_site(folder: Path) -> bool:
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(manifest, dict) and manifest.get("generator") == GENERATOR


def _list_looks(runs: Sequence[Path], texts: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    if not runs:
        yield "api/runs.json", _dump([])
        return
    from workings.web.run_looks import RunLooks

    looks = RunLooks(runs, texts)
    yield "api/runs.json", _dump(looks.list_runs())
    for name, look in looks.files():
        yield f"{name}.json", _dump(look)


def _list_answers() -> Iterator[tuple[str, bytes]]:
    """Yield the answers that the page needs first: they are there before Python is."""
    paths = ["/api/kinds", "/api/lectures", *(LECTURE_PATH + name for name in load_lectures())]
    for path in paths:
        table = answer(path).body
        yield f"{path[1:]}.json", table.encode()
        if path.startswith(LECTURE_PATH):
            report = answer("/api/check", f'{{"table": {table}}}').body
            yield f"api/check/{path.removeprefix(LECTURE_PATH)}.json", report.encode()


def _write_index(pyodide: PyodideFiles) -> str:
    page = load_assets()["page.html"][0].decode().replace('"/page/', '"page/')
    policy = format_policy(pyodide.origins)
    charset = '<meta charset="utf-8" />\n'
    assert charset in page
    meta = f'    <meta http-equiv="Content-Security-Policy" content="{policy}" />\n'
    style = '    <link rel="stylesheet" href="page/site.css" />\n'
    return page.replace(charset, charset + meta).replace("  </head>\n", f"{style}  </head>\n")


def format_policy(origins: Sequence[str]) -> str:
    """Return the policy of the page and of its worker: which scripts run, and who is asked."""
    sources = " ".join(["'self'", *origins])
    rules = (
        "default-src 'none'",
        # Pyodide's modules become blobs after their hashes have been checked.
        "script-src 'self' blob: 'wasm-unsafe-eval'",
        "worker-src 'self' blob:",
        f"connect-src {sources}",
        "style-src 'self'",
        "font-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types workings",
    )
    return "; ".join(rules)


def _dump(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
