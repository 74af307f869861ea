"""The static site: its files, and its page in a browser with CPython in place of Pyodide."""

import hashlib
import io
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import OpenPage, PagePool, choose_lecture, locate_cell, open_pages, read_matrix
from site_server import replace_python, serve_site

from workings.builtin import builtin_lectures
from workings.cli import main
from workings.errors import UserError
from workings.web import pyodide_release, static_site
from workings.web.package_wheel import FILE_NAME, build_wheel
from workings.web.problem_answers import answer


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "site"
    static_site.write_site(folder)
    return folder


@pytest.fixture(scope="module")
def site_address(site: Path) -> Iterator[str]:
    replace_python(site)
    with serve_site(site) as address:
        yield address


@pytest.fixture
def visit(page_pool: PagePool, site_address: str) -> Iterator[OpenPage]:
    with open_pages(page_pool, site_address) as open_page:
        yield open_page


def test_lecture_has_a_link(visit: OpenPage) -> None:
    page = visit("index.html#check/L2-self", ready=".finding")
    assert "scores, row 2, column 3" in page.locator(".finding").first.inner_text()
    assert page.locator("#screens a").all_inner_texts() == ["Work", "Check", "Practice"]


def test_numbers_are_computed_as_they_are_typed(visit: OpenPage) -> None:
    page = visit("index.html#work?given.X=1,0;0,2", ready="figure[data-key=mixed]")
    locate_cell(page, "X", 0, 0).click()
    page.keyboard.press("Enter")
    page.keyboard.type("3")
    page.keyboard.press("Enter")
    page.locator("figure[data-key=scores] td").filter(has_text="9").wait_for()
    assert read_matrix(page, "scores")[0] == ["9", "0"]


def test_practice(visit: OpenPage) -> None:
    page = visit("index.html#practice", ready=".exercises button")
    assert page.locator(".exercises button").count() == 3


def test_lecture_is_opened_from_the_list(visit: OpenPage) -> None:
    page = visit("index.html#check")
    choose_lecture(page, "L0-cross", ".finding")


def test_answer_that_takes_too_long_ends_python(page_pool: PagePool, site_address: str) -> None:
    """The worker is ended and the next question starts another."""
    slow = """window.realSetTimeout = setTimeout;
      window.setTimeout = (f, time) => realSetTimeout(f, time === 20000 ? 0 : time);"""
    with open_pages(page_pool, site_address) as open_page:
        page = open_page(
            "index.html#work?given.X=1,0;0,2", ready=".status:not(:empty)", init_script=slow
        )
        assert "the answer took longer than 20 s: ask for less" in page.inner_text(".status")
        page.evaluate("void (window.setTimeout = realSetTimeout)")
        page.evaluate("void (location.hash = '#work?given.X=1,0;0,3')")
        page.wait_for_selector("figure[data-key=mixed]")


def test_lecture_page_asks_without_telling(visit: OpenPage) -> None:
    page = visit("lectures/L2-self.html", ready="main")
    assert page.inner_text("h1").endswith("can you find the first?")
    assert "expected" not in page.inner_text("main")
    page.get_by_role("link", name="Show the wrong number").click()
    page.wait_for_selector(".finding")


def test_precomputed_answers_are_those_of_python(site: Path) -> None:
    for name in builtin_lectures():
        table = (site / "api" / "lecture" / f"{name}.json").read_text(encoding="utf-8")
        assert json.loads(table) == json.loads(answer(f"/api/lecture/{name}").body)
        body = json.dumps({"table": json.loads(table), "decimals": 3})
        report = (site / "api" / "check" / f"{name}.json").read_text(encoding="utf-8")
        assert json.loads(report) == json.loads(answer("/api/check", body).body)
        assert (site / "lectures" / f"{name}.html").is_file()


def test_files_of_the_page_are_there_and_small(site: Path) -> None:
    """Every module and style that the page names is in the site; nothing names the root."""
    index = (site / "index.html").read_text(encoding="utf-8")
    names, seen = re.findall(r'(?:src|href)="(page/[\w.]+)"', index), set[str]()
    while names:
        name = names.pop()
        if name not in seen:
            seen.add(name)
            text = (site / name).read_text(encoding="utf-8", errors="replace")  # a font, too
            assert "/page/" not in text
            names += [f"page/{other}" for other in re.findall(r'"\./([\w.]+)"', text)]
    assert {"page/app.js", "page/looks.js", "page/check.js"} <= seen
    assert sum((site / name).stat().st_size for name in seen) < 400_000


def test_policy_names_every_host(site: Path) -> None:
    index = (site / "index.html").read_text(encoding="utf-8")
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]*)"', index)
    hosts = set(re.findall(r"https?://[^/\"; ]+", policy))
    assert hosts == {"https://cdn.jsdelivr.net"}
    settings = json.loads((site / "site.json").read_text(encoding="utf-8"))["python"]
    files = [*settings["runtime"].values(), settings["numpy"], settings["wheel"]]
    assert all(re.fullmatch(r"sha256-[\w+/]{43}=", file["integrity"]) for file in files)
    urls = [file["url"] for file in files if not file["url"].startswith("python/")]
    assert all(pyodide_release.VERSION in url for url in urls)


def test_wheel_is_installed_by_pip_and_answers(tmp_path: Path) -> None:
    assert build_wheel() == build_wheel()
    wheel = tmp_path / FILE_NAME
    wheel.write_bytes(build_wheel())
    install = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index")
    subprocess.run([*install, "--target", str(tmp_path / "there"), str(wheel)], check=True)
    program = (
        "import workings; from workings.web.problem_answers import answer, load_lectures\n"
        "print(workings.__file__, len(load_lectures()), answer('/api/kinds').status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path / "there",
        env={"PYTHONPATH": str(tmp_path / "there")},
        capture_output=True,
        text=True,
        check=True,
    )
    file, lectures, status = done.stdout.split()
    assert file == str(tmp_path / "there" / "workings" / "__init__.py")
    assert (lectures, status) == (str(len(builtin_lectures())), "200")
    with zipfile.ZipFile(io.BytesIO(build_wheel())) as archive:
        names = archive.namelist()
        assert not [name for name in names if "/training/" in name or "__pycache__" in name]


def fake_pyodide(folder: Path, **changes: Any) -> Path:
    """Write a folder with files of the names that Pyodide's have."""
    folder.mkdir()
    numpy = {"file_name": "numpy.whl", "sha256": hashlib.sha256(b"numpy").hexdigest(), **changes}
    lock = {"info": {}, "packages": {"numpy": numpy, "scipy": {}}}
    for name in pyodide_release.RUNTIME_HASHES:
        (folder / name).write_text(name, encoding="utf-8")
    (folder / "numpy.whl").write_bytes(b"numpy")
    (folder / "pyodide-lock.json").write_text(json.dumps(lock), encoding="utf-8")
    return folder


def test_pyodide_of_a_folder_is_copied(tmp_path: Path) -> None:
    files = pyodide_release.find_pyodide(str(fake_pyodide(tmp_path / "pyodide")))
    assert files.origins == ()
    assert set(files.copies) == {
        f"pyodide/{name}" for name in (*pyodide_release.RUNTIME_HASHES, "numpy.whl")
    }
    digest = hashlib.sha256(b"pyodide.mjs").digest()
    assert files.settings["runtime"]["pyodide.mjs"] == {
        "url": "pyodide/pyodide.mjs",
        "integrity": pyodide_release.format_integrity(digest),
    }
    assert list(files.settings["lock"]["packages"]) == ["numpy"]


def test_pyodide_of_a_url_has_the_pinned_hashes() -> None:
    files = pyodide_release.find_pyodide("https://files.example/pyodide")
    assert files.origins == ("https://files.example",)
    pinned = pyodide_release.find_pyodide().settings
    for name, file in files.settings["runtime"].items():
        assert file["url"] == f"https://files.example/pyodide/{name}"
        assert file["integrity"] == pinned["runtime"][name]["integrity"]


def test_invalid_pyodide_folder_is_a_one_line_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        pyodide_release.find_pyodide(str(tmp_path / "nothing"))
    folder = fake_pyodide(tmp_path / "other", sha256="0" * 64)
    with pytest.raises(UserError, match=r"numpy\.whl is not the file that pyodide-lock\.json"):
        pyodide_release.find_pyodide(str(folder))
    (folder / "pyodide-lock.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UserError, match="names no numpy"):
        pyodide_release.find_pyodide(str(folder))
    (folder / "pyodide.asm.wasm").unlink()
    with pytest.raises(UserError, match=r"pyodide\.asm\.wasm is missing"):
        pyodide_release.find_pyodide(str(folder))


def test_other_folders_are_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("years of work", encoding="utf-8")
    assert main(["site", "--out", str(mine)]) == 2
    assert "it has other files" in capsys.readouterr().err
    assert (mine / "thesis.tex").is_file()
    assert main(["site", "--out", str(mine / "thesis.tex")]) == 2
    assert "expected a folder" in capsys.readouterr().err
    assert main(["site", "--out", str(mine / "thesis.tex" / "site")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_earlier_site_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "site.json").write_text('{"generator": "workings site"}', encoding="utf-8")
    (folder / "old.js").touch()
    summary = static_site.write_site(folder)
    assert not (folder / "old.js").exists()
    assert summary.num_files == sum(file.is_file() for file in folder.rglob("*"))
