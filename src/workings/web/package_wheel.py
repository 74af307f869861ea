"""This package as a wheel, from its installed files: without what needs more than numpy."""

import base64
import hashlib
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import workings
from workings.builtin import builtin_lectures

OMITTED = (
    *("automatic", "builtin_recipes", "cli", "data", "decode", "experiments", "interop", "layers"),
    *("lectures", "metrics", "models", "tasks", "training"),
)
"""Packages that solving and checking do not need, most of which need torch."""
TAG = "py3-none-any"
FILE_NAME = f"workings-{workings.__version__}-{TAG}.whl"
_TIME = (2020, 1, 1, 0, 0, 0)  # the same package is the same file


def build_wheel() -> bytes:
    """Return the wheel as bytes; the same package gives the same bytes."""
    contents = dict(_list_contents())
    info = f"workings-{workings.__version__}.dist-info"
    contents[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: workings\nVersion: {workings.__version__}\n"
        "Requires-Dist: numpy\n"
    ).encode()
    contents[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: workings\nRoot-Is-Purelib: true\nTag: {TAG}\n"
    ).encode()
    record = [f"{name},{_hash(content)},{len(content)}" for name, content in contents.items()]
    contents[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in contents.items():
            entry = zipfile.ZipInfo(name, _TIME)
            entry.external_attr, entry.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return file.getvalue()


def _list_contents() -> Iterator[tuple[str, bytes]]:
    """Yield the path in the wheel and the content of every file."""
    package = Path(workings.__file__).parent
    for file in sorted(package.rglob("*")):
        path = file.relative_to(package)
        if file.is_file() and path.parts[0] not in OMITTED and "__pycache__" not in path.parts:
            yield f"workings/{path.as_posix()}", file.read_bytes()
    for file in builtin_lectures().values():
        yield f"workings/lectures/{file.name}", file.read_bytes()


def _hash(content: bytes) -> str:
    """Return a hash as the record of a wheel has it."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
    return f"sha256={digest.decode().rstrip('=')}"
