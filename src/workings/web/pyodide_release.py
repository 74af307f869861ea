"""The release of Pyodide that a static site runs on: where its files are, and their hashes.

A visitor's browser takes a file only if it has the hash that the site was written with. The hashes
below are those of the release in the npm registry, and of the numpy in its lock file.
"""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from workings.errors import UserError
from workings.io import read_bytes, read_json_object

VERSION = "0.29.5"
RUNTIME_URL = f"https://cdn.jsdelivr.net/npm/pyodide@{VERSION}/"
PACKAGES_URL = f"https://cdn.jsdelivr.net/pyodide/v{VERSION}/full/"
RUNTIME_HASHES = {
    "pyodide.mjs": "510ca14305230018f50c40fb81be673afd68080e70ce7733fcce6600dd6a1714",
    "pyodide.asm.js": "356c42f69e1695397e9d8670bd3c2e678248cde76e18bdae1731e848537b47d7",
    "pyodide.asm.wasm": "54309a5a2cfd757b1f0fdbc9093c92503f7b341500110329d932487183912718",
    "python_stdlib.zip": "831fd1e535084b972f87c6a35275de3d236efd5166f5e77ce89497710635e73c",
}
"""SHA-256 of the files that Pyodide itself consists of."""
LOCK: Mapping[str, Any] = {
    "info": {
        "abi_version": "2025_0",
        "arch": "wasm32",
        "platform": "emscripten_4_0_9",
        "python": "3.13.2",
    },
    "packages": {
        "numpy": {
            "depends": [],
            "file_name": "numpy-2.2.5-cp313-cp313-pyemscripten_2025_0_wasm32.whl",
            "imports": ["numpy"],
            "install_dir": "site",
            "name": "numpy",
            "package_type": "package",
            "sha256": "800c98edc0c864dfa49f07005680c699b4b42b84eae1f8cb19d35b3634e7f05c",
            "unvendored_tests": False,
            "version": "2.2.5",
        }
    },
}
"""The lock file of the release, without its other packages."""
LOCK_FILE = "pyodide-lock.json"
FOLDER = "pyodide"  # of the site, if it has the files itself
MAX_FILE_BYTES = 100 * 2**20


@dataclass(frozen=True)
class PyodideFiles:
    """Pyodide as a site loads it."""

    settings: dict[str, Any]
    """addresses and hashes for the worker"""
    origins: tuple[str, ...] = ()
    """hosts other than the site's own that have the files"""
    copies: Mapping[str, bytes] = field(default_factory=dict)
    """files of the site by path"""


def find_pyodide(source: str | None = None) -> PyodideFiles:
    """Return the pinned release, or that of a URL with the same files, or the one in a folder.

    >>> find_pyodide().origins
    ('https://cdn.jsdelivr.net',)
    """
    if source is None:
        return _hosted_files(RUNTIME_URL, PACKAGES_URL)
    if urlsplit(source).scheme in ("http", "https"):
        folder = source.rstrip("/") + "/"
        return _hosted_files(folder, folder)
    return _copied_files(Path(source))


def _hosted_files(runtime_url: str, packages_url: str) -> PyodideFiles:
    parts = map(urlsplit, (runtime_url, packages_url))
    origins = dict.fromkeys(f"{part.scheme}://{part.netloc}" for part in parts)
    settings = _build_settings(runtime_url, packages_url, RUNTIME_HASHES, LOCK)
    return PyodideFiles(settings, tuple(origins))


def _copied_files(folder: Path) -> PyodideFiles:
    """Return the files of a folder: whatever release it has, its numpy is the one it names."""
    if not folder.is_dir():
        raise UserError(f"--pyodide {folder}: no such folder")
    contents = {name: _read(folder, name) for name in RUNTIME_HASHES}
    lock = read_json_object(folder / LOCK_FILE, MAX_FILE_BYTES) if _read(folder, LOCK_FILE) else {}
    numpy = lock.get("packages", {}).get("numpy")
    if not isinstance(numpy, dict) or not isinstance(numpy.get("file_name"), str):
        raise UserError(f"--pyodide {folder}: {LOCK_FILE} names no numpy")
    name = Path(numpy["file_name"]).name
    contents[name] = _read(folder, name)
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    if hashes.pop(name) != numpy.get("sha256"):
        raise UserError(f"--pyodide {folder}: {name} is not the file that {LOCK_FILE} names")
    lock = {"info": lock.get("info", {}), "packages": {"numpy": numpy}}
    settings = _build_settings(f"{FOLDER}/", f"{FOLDER}/", hashes, lock)
    copies = {f"{FOLDER}/{name}": content for name, content in contents.items()}
    return PyodideFiles(settings, copies=copies)


def _read(folder: Path, name: str) -> bytes:
    try:
        return read_bytes(folder / name, MAX_FILE_BYTES)
    except OSError:
        release = f"the full distribution of Pyodide {VERSION}"
        raise UserError(f"--pyodide {folder}: {name} is missing: expected {release}") from None


def _build_settings(
    runtime_url: str, packages_url: str, hashes: Mapping[str, str], lock: Mapping[str, Any]
) -> dict[str, Any]:
    numpy = lock["packages"]["numpy"]
    return {
        "runtime": {
            name: {"url": runtime_url + name, "integrity": format_integrity(bytes.fromhex(digest))}
            for name, digest in hashes.items()
        },
        "numpy": {
            "url": packages_url + numpy["file_name"],
            "integrity": format_integrity(bytes.fromhex(numpy["sha256"])),
        },
        "lock": lock,
    }


def format_integrity(digest: bytes) -> str:
    """Return a SHA-256 digest as browsers check it.

    >>> format_integrity(bytes(32))
    'sha256-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA='
    """
    return f"sha256-{base64.b64encode(digest).decode()}"
