"""Real Pyodide in a browser, through the worker of the static site.

The npm package has Pyodide without numpy: with it, everything up to the import of numpy is tested.
With WORKINGS_PYODIDE, a folder with the full distribution, the page answers for real.
"""

import hashlib
import io
import json
import os
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import PagePool, open_pages
from site_server import serve_site

from workings.web import package_wheel, pyodide_release, static_site
from workings.web.problem_answers import answer

NPM_PACKAGE = Path(__file__).parents[2] / "node_modules" / "pyodide"
NO_NPM = not (NPM_PACKAGE / "pyodide.asm.wasm").is_file()
DISTRIBUTION = os.environ.get("WORKINGS_PYODIDE")
ANSWERS = "workings/web/problem_answers.py"
WITHOUT_NUMPY = '''
"""Answers a path that is the name of a module: whether it can be imported."""
import importlib, json, sys
from types import SimpleNamespace

def answer(path, body=None, language=""):
    importlib.import_module(path)
    return SimpleNamespace(status=200, headers={"content-type": "application/json"},
                           body=json.dumps([sys.platform, sys.version_info[:2], body]))
'''
MODULES = (
    "workings.builtin",
    "workings.config",
    "workings.errors",
    "workings.io",
    "workings.json_files",
    "workings.languages",
    "workings.plain_text",
    "workings.registry",
    "workings.render.page",
    "workings.web.request_reader",
)
ASK = """async ([path, body]) => {
  const { transport } = await import(new URL('page/transport.js', location.href).href);
  const response = await transport(path, body);
  return [response.status, await response.json()];
}"""


def build_zip(contents: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return file.getvalue()


@pytest.fixture(scope="module")
def pyodide_without_numpy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pyodide of the npm package, with an empty package in the place of numpy."""
    folder = tmp_path_factory.mktemp("pyodide")
    for name in pyodide_release.RUNTIME_HASHES:
        shutil.copy(NPM_PACKAGE / name, folder)
    info = "numpy-0.dist-info"
    metadata = b"Metadata-Version: 2.1\nName: numpy\nVersion: 0\n"
    wheel = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    names = {
        "numpy/__init__.py": b"",
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": wheel,
        f"{info}/RECORD": b"",
    }
    content = build_zip(names)
    file_name = "numpy-0-py3-none-any.whl"
    (folder / file_name).write_bytes(content)
    lock = json.loads((NPM_PACKAGE / "pyodide-lock.json").read_text(encoding="utf-8"))
    lock["packages"]["numpy"] |= {
        "file_name": file_name,
        "sha256": hashlib.sha256(content).hexdigest(),
        "version": "0",
    }
    (folder / "pyodide-lock.json").write_text(json.dumps(lock), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def address_without_numpy(
    pyodide_without_numpy: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with zipfile.ZipFile(io.BytesIO(package_wheel.build_wheel())) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    wheel = build_zip({**contents, ANSWERS: WITHOUT_NUMPY.encode()})
    folder = tmp_path_factory.mktemp("site") / "site"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(package_wheel, "build_wheel", lambda: wheel)
        static_site.write_site(folder, str(pyodide_without_numpy))
    with serve_site(folder) as address:
        yield address


@pytest.mark.skipif(NO_NPM, reason="no npm package pyodide: npm ci")
def test_hashes_are_those_of_the_release() -> None:
    for name, digest in pyodide_release.RUNTIME_HASHES.items():
        assert hashlib.sha256((NPM_PACKAGE / name).read_bytes()).hexdigest() == digest
    lock = json.loads((NPM_PACKAGE / "pyodide-lock.json").read_text(encoding="utf-8"))
    assert lock["info"] == pyodide_release.LOCK["info"]
    assert lock["packages"]["numpy"] == pyodide_release.LOCK["packages"]["numpy"]
    package = json.loads((NPM_PACKAGE / "package.json").read_text(encoding="utf-8"))
    assert package["version"] == pyodide_release.VERSION


@pytest.mark.slow
@pytest.mark.skipif(NO_NPM, reason="no npm package pyodide: npm ci")
def test_pyodide_starts_and_imports_what_needs_no_numpy(
    page_pool: PagePool, address_without_numpy: str
) -> None:
    with open_pages(page_pool, address_without_numpy) as open_page:
        page = open_page("index.html#check", ready=".bar-top")
        for module in MODULES:
            assert page.evaluate(ASK, [module, {}]) == [200, ["emscripten", [3, 13], "{}"]]
        status, error = page.evaluate(ASK, ["workings.problems", {}])
        assert status == 500
        assert "numpy" in error["error"]


@pytest.mark.slow
@pytest.mark.skipif(DISTRIBUTION is None, reason="WORKINGS_PYODIDE names no folder")
def test_real_python_answers(page_pool: PagePool, tmp_path: Path) -> None:
    static_site.write_site(tmp_path / "site", DISTRIBUTION)
    with serve_site(tmp_path / "site") as address, open_pages(page_pool, address) as open_page:
        page = open_page("index.html#work?given.X=1,0;0,2", ready="figure[data-key=mixed]")
        for name in ("L2-self", "L0-cross"):
            table = json.loads(answer(f"/api/lecture/{name}").body)
            body: dict[str, Any] = {"table": table, "decimals": 4}
            expected = answer("/api/check", json.dumps(body))
            assert page.evaluate(ASK, ["/api/check", body]) == [200, json.loads(expected.body)]
