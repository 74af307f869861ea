"""Problem sheets as HTML, LaTeX and a Moodle quiz."""

import json
import re
import shutil
import subprocess
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from kinds_of_sheets import make_sheet_of_one, render_sheet_of_one

from workings.problems.sheets import Sheet, make_sheet
from workings.problems.sheets.rounded_solution import make_answer_key
from workings.problems.sheets.sheet_kinds import SHEET_KINDS
from workings.render.sheets import render_files

HOSTILE = (
    '<script>alert(1)</script> ]]> \\input{/etc/passwd} {1:NUMERICAL:=1} $x_1$ "q" \n é 日 \x07'
)


@pytest.fixture(scope="module")
def sheets() -> dict[str, Sheet]:
    sheets = {kind: make_sheet_of_one(kind) for kind in SHEET_KINDS}
    sheets["mistakes"] = make_sheet("multi-head", "2x3", 2, 5, mistakes=True)
    sheets["columns"] = make_sheet("masked", "2x3", 1, 5, vectors="columns")
    sheets["hostile"] = make_sheet("masked", "2x3", 1, 5, title=HOSTILE)
    return sheets


@pytest.fixture(scope="module")
def files(sheets: dict[str, Sheet]) -> dict[str, dict[str, str]]:
    return {
        name: render_sheet_of_one(name) if name in SHEET_KINDS else render_files(sheet)
        for name, sheet in sheets.items()
    }


def test_html_is_well_formed_and_self_contained(files: dict[str, dict[str, str]]) -> None:
    for sheet in files.values():
        for name in ("sheet.html", "key/key.html"):
            text = sheet[name]
            ET.fromstring(text.removeprefix("<!DOCTYPE html>\n"))  # noqa: S314
            links = set(re.findall(r"https?://[^\s\"<]+", text))
            assert links <= {"http://www.w3.org/1998/Math/MathML"}
            assert "<script" not in text
            assert "url(" not in text
            assert "@import" not in text


def test_sheet_has_blank_tables_and_no_answers(
    sheets: dict[str, Sheet], files: dict[str, dict[str, str]]
) -> None:
    root = ET.fromstring(files["masked"]["sheet.html"].removeprefix("<!DOCTYPE html>\n"))  # noqa: S314
    blank = [t for t in root.iter("table") if t.get("class") == "blank"]
    assert len(blank) == sum(len(e.problem.asked_steps) for e in sheets["masked"].exercises)
    for table in blank:
        cells = [cell for row in table.iter("tr") for cell in row.findall("td")]
        assert all(not cell.text for cell in cells)
        assert {th.get("scope") for th in table.iter("th")} == {"row", "col"}
    for step, texts in make_answer_key(sheets["masked"].exercises[0].problem, 3).items():
        number = texts[1][0]
        if step not in ("weights", "mixed"):  # integers occur everywhere
            continue
        assert number in files["masked"]["key/problem-01.toml"]
        assert all(
            number not in text for name, text in files["masked"].items() if "key" not in name
        )


def test_key_marks_planted_mistake(files: dict[str, dict[str, str]]) -> None:
    key = files["mistakes"]["key/key.html"]
    assert key.count('class="first"') == 2
    assert 'class="first"' not in files["mistakes"]["sheet.html"]
    assert "Mistakes to choose from" in files["mistakes"]["sheet.html"]


def test_latex_is_balanced(files: dict[str, dict[str, str]]) -> None:
    for sheet in files.values():
        for name in ("sheet.tex", "key/key.tex"):
            text = sheet[name]
            open_names: list[str] = []
            for kind, environment in re.findall(r"\\(begin|end)\{(\w+)\}", text):
                if kind == "begin":
                    open_names.append(environment)
                else:
                    assert open_names.pop() == environment
            assert open_names == []
            bare = re.sub(r"\\[\\{}]", "", text)
            assert bare.count("{") == bare.count("}")


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex")
@pytest.mark.parametrize("name", ["hostile", "mistakes", "lstm"])
def test_latex_compiles(name: str, files: dict[str, dict[str, str]], tmp_path: Path) -> None:
    for file in ("sheet.tex", "key/key.tex"):
        (tmp_path / "a.tex").write_text(files[name][file], encoding="utf-8")
        run = subprocess.run(
            ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "a.tex"],
            cwd=tmp_path,
            capture_output=True,
            check=False,
        )
        assert run.returncode == 0, run.stdout.decode(errors="replace")[-2000:]
        assert name == "hostile" or b"Overfull" not in run.stdout


def test_title_is_escaped(files: dict[str, dict[str, str]]) -> None:
    sheet = files["hostile"]
    assert "&lt;script&gt;" in sheet["sheet.html"]
    assert "\\input{/" not in sheet["sheet.tex"]
    quiz = ET.fromstring(sheet["key/moodle.xml"])  # noqa: S314
    assert "<script>alert" in (quiz.findtext("question/category/text") or "")
    assert json.loads(sheet["sheet.json"])["title"].startswith("<script>")
    title = "".join(json.loads(sheet["sheet.ipynb"])["cells"][0]["source"]).splitlines()[0]
    assert "<script" not in title
    assert r"\$x\_1\$" in title
    for name, text in sheet.items():
        if name.endswith(".toml"):
            tomllib.loads(text)


def test_moodle_asks_for_every_number(
    sheets: dict[str, Sheet], files: dict[str, dict[str, str]]
) -> None:
    for name, sheet in sheets.items():
        quiz = ET.fromstring(files[name]["key/moodle.xml"])  # noqa: S314
        kinds = [question.get("type") for question in quiz.findall("question")]
        assert kinds == ["category"] + ["cloze"] * len(sheet.exercises)
        for exercise, question in zip(sheet.exercises, quiz.findall("question")[1:], strict=True):
            text = question.findtext("questiontext/text") or ""
            asks = re.findall(r"\{1:(\w+):", text)
            if sheet.mistakes:
                assert asks == ["MULTICHOICE", *3 * ["NUMERICAL"], "MULTICHOICE"]
                assert text.count("~=") + text.count(":=") >= 4
                continue
            exact = exercise.problem.exact_matrices
            cells = sum(exact[step.key].mid.size for step in exercise.problem.asked_steps)
            assert len(asks) == cells
            num_texts = sum(  # words, and −∞
                exact[s.key].mid.size if s.labels else np.isneginf(exact[s.key].mid).sum()
                for s in exercise.problem.asked_steps
            )
            assert asks.count("SHORTANSWER") == num_texts
