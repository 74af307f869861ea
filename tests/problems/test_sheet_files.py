"""What a sheet is written as: HTML, LaTeX, a notebook, a quiz, and the folder they lie in."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from workings.errors import UserError
from workings.problems import Problem
from workings.problems.sheets import Sheet, make_sheet
from workings.problems.sheets.folder import read_manifest
from workings.problems.sheets.layout import estimate_tolerances, make_printed_sheet
from workings.problems.sheets.plan import SHEET_KINDS
from workings.problems.sheets.rounded_solution import (
    list_asked_steps,
    make_answer_key,
    solve_rounded,
)
from workings.render.sheets import render_files, write_sheet

HOSTILE = (
    '<script>alert(1)</script> ]]> \\input{/etc/passwd} {1:NUMERICAL:=1} $x_1$ "q" \n é 日 \x07'
)
SIZES = {"positions": "2x4", "lstm": "2x2", "block": "2x3"}


@pytest.fixture(scope="module")
def sheets() -> dict[str, Sheet]:
    made = {kind: make_sheet(kind, SIZES.get(kind, "3x3"), 1, 5) for kind in SHEET_KINDS}
    made["found"] = make_sheet("multi-head", "2x3", 2, 5, mistakes=True)
    made["columns"] = make_sheet("masked", "2x3", 1, 5, vectors="columns")
    made["hostile"] = make_sheet("masked", "2x3", 1, 5, title=HOSTILE)
    return made


@pytest.fixture(scope="module")
def files(sheets: dict[str, Sheet]) -> dict[str, dict[str, str]]:
    return {name: render_files(sheet) for name, sheet in sheets.items()}


def test_html_is_well_formed_and_needs_nothing_else(files: dict[str, dict[str, str]]) -> None:
    for sheet in files.values():
        for name in ("sheet.html", "key/key.html"):
            text = sheet[name]
            ET.fromstring(text.removeprefix("<!DOCTYPE html>\n"))  # noqa: S314
            links = set(re.findall(r"https?://[^\s\"<]+", text))
            assert links <= {"http://www.w3.org/1998/Math/MathML"}
            assert "<script" not in text
            assert "url(" not in text
            assert "@import" not in text


def test_the_sheet_has_boxes_and_no_answers(
    sheets: dict[str, Sheet], files: dict[str, dict[str, str]]
) -> None:
    root = ET.fromstring(files["masked"]["sheet.html"].removeprefix("<!DOCTYPE html>\n"))  # noqa: S314
    blank = [t for t in root.iter("table") if t.get("class") == "blank"]
    assert len(blank) == sum(len(list_asked_steps(e.problem)) for e in sheets["masked"].exercises)
    for table in blank:
        cells = [cell for row in table.iter("tr") for cell in row.findall("td")]
        assert all(not cell.text for cell in cells)
        assert {th.get("scope") for th in table.iter("th")} == {"row", "col"}
    for step, texts in make_answer_key(sheets["masked"].exercises[0].problem, 3).items():
        number = texts[2][0]
        if step not in ("weights", "mixed"):  # whole numbers stand everywhere
            continue
        assert number in files["masked"]["key/problem-01.toml"]
        assert all(
            number not in text for name, text in files["masked"].items() if "key" not in name
        )


def test_the_key_of_a_search_marks_the_cell(files: dict[str, dict[str, str]]) -> None:
    key = files["found"]["key/key.html"]
    assert key.count('class="first"') == 2
    assert 'class="first"' not in files["found"]["sheet.html"]
    assert "Mistakes to choose from" in files["found"]["sheet.html"]


def test_latex_is_balanced(files: dict[str, dict[str, str]]) -> None:
    for sheet in files.values():
        for name in ("sheet.tex", "key/key.tex"):
            text = sheet[name]
            open_ones: list[str] = []
            for kind, what in re.findall(r"\\(begin|end)\{(\w+)\}", text):
                if kind == "begin":
                    open_ones.append(what)
                else:
                    assert open_ones.pop() == what
            assert open_ones == []
            bare = re.sub(r"\\[\\{}]", "", text)
            assert bare.count("{") == bare.count("}")


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex")
@pytest.mark.parametrize("name", ["hostile", "found", "lstm"])
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


def test_hostile_text_stays_text(files: dict[str, dict[str, str]]) -> None:
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


def test_the_notebook_has_the_form_of_one(files: dict[str, dict[str, str]]) -> None:
    for sheet in files.values():
        notebook = json.loads(sheet["sheet.ipynb"])
        assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
        assert notebook["metadata"]["kernelspec"]["name"] == "python3"
        ids = [cell["id"] for cell in notebook["cells"]]
        assert len(set(ids)) == len(ids)
        for cell in notebook["cells"]:
            assert re.fullmatch(r"[a-zA-Z0-9-_]{1,64}", cell["id"])
            assert all(isinstance(line, str) for line in cell["source"])
            extra = {"outputs", "execution_count"} if cell["cell_type"] == "code" else set()
            assert set(cell) == {"cell_type", "id", "metadata", "source"} | extra


def code_of(text: str) -> Iterator[str]:
    for cell in json.loads(text)["cells"]:
        if cell["cell_type"] == "code":
            yield "".join(cell["source"])


def filled(sheet: Sheet, text: str) -> str:
    """The notebook's program, with the key in its blanks, telling each verdict."""
    program = []
    answers = iter(
        texts
        for exercise in sheet.exercises
        for texts in make_answer_key(exercise.problem, sheet.plan.decimals).values()
    )
    for code in code_of(text):
        if '"?"' in code:
            place, last = code.split(" = ")[0], code.splitlines()[-1]
            program.append(f"{place} = {next(answers)!r}\nprint({last}.counts)")
        else:
            program.append(code)
    return "\n".join(program)


def run_program(program: str) -> list[str]:
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": ":".join(p for p in sys.path if p)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def test_the_notebook_checks_what_is_filled_in(
    sheets: dict[str, Sheet], files: dict[str, dict[str, str]]
) -> None:
    kinds = ("masked", "multi-head", "lstm", "positions", "block", "layer_norm", "columns")
    program = "\n".join(filled(sheets[name], files[name]["sheet.ipynb"]) for name in kinds)
    printed = run_program(program)
    steps = [list_asked_steps(e.problem) for name in kinds for e in sheets[name].exercises]
    assert len(printed) == sum(len(many) for many in steps)
    for line in printed:
        counts = eval(line)  # noqa: S307
        assert counts["right"] == sum(counts.values()) > 0


def test_the_notebook_runs_with_its_blanks(files: dict[str, dict[str, str]]) -> None:
    program = "\n".join(
        code
        for name in ("masked", "multi-head", "rnn")
        for code in code_of(files[name]["sheet.ipynb"])
    )
    run_program(program)


def test_the_notebook_of_a_search_says_when_it_is_found(
    sheets: dict[str, Sheet], files: dict[str, dict[str, str]]
) -> None:
    planted = iter(e.planted_mistake for e in sheets["found"].exercises)
    program = []
    for code in code_of(files["found"]["sheet.ipynb"]):
        if '"?"' in code:
            program.append(code)
            one = next(planted)
            assert one is not None
            answer = (one.key, one.cell[0] + 1, one.cell[1] + 1, one.name)
            program.append(code.replace('"?", "?", "?", "?"', repr(answer)))
        else:
            program.append(code)
    printed = run_program("\n".join(program))
    assert printed == 2 * [
        "the number: not yet",
        "the mistake: not yet",
        "the number: found",
        "the mistake: named",
    ]


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
                assert asks == ["MULTICHOICE", "NUMERICAL", "NUMERICAL", "MULTICHOICE"]
                assert text.count("~=") + text.count(":=") >= 4
                continue
            exact = exercise.problem.exact_matrices
            cells = sum(exact[step.key].mid.size for step in list_asked_steps(exercise.problem))
            assert len(asks) == cells
            hidden = sum(
                np.isneginf(exact[s.key].mid).sum() for s in list_asked_steps(exercise.problem)
            )
            assert asks.count("SHORTANSWER") == hidden


@pytest.mark.parametrize("kind", SHEET_KINDS)
def test_tolerances_allow_for_rounding_at_every_step(kind: str, sheets: dict[str, Sheet]) -> None:
    sheet = sheets[kind]
    for exercise, task in zip(sheet.exercises, make_printed_sheet(sheet).problems, strict=True):
        honest = solve_rounded(exercise.problem, sheet.plan.decimals)
        margins = estimate_tolerances(exercise.problem, sheet.plan.decimals)
        for step in task.steps:
            key = np.array([[float(t) for t in row] for row in step.solution])
            with np.errstate(invalid="ignore"):
                off = np.nan_to_num(np.abs(honest[step.key].mid - key), nan=0)
            assert (off <= np.array(margins[step.key]) + 1e-9).all()
            assert np.max(margins[step.key]) < 0.2


def test_a_folder_is_written_whole_and_can_be_made_again(tmp_path: Path) -> None:
    sheet = make_sheet("positions", "2x4", 2)
    write_sheet(sheet, tmp_path / "new" / "sheet")
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == ["sheet"]
    folder = tmp_path / "new" / "sheet"
    for name, text in render_files(sheet).items():
        assert (folder / name).read_text(encoding="utf-8") == text
    write_sheet(make_sheet("positions", "2x4", 1), folder)
    assert not (folder / "problem-02.toml").exists()
    assert Problem.load(folder / "problem-01.toml").kind.name == "positions"


def test_nothing_that_is_not_of_a_sheet_is_lost(tmp_path: Path) -> None:
    sheet = make_sheet("positions", "2x4", 1)
    other = tmp_path / "other"
    other.mkdir()
    write_sheet(sheet, other)  # an empty folder is no loss
    (other / "answers").mkdir()
    (other / "answers" / "alice.toml").write_text("")
    with pytest.raises(UserError, match=r"answers/alice\.toml, which is not of the sheet"):
        write_sheet(sheet, other)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match=r"not empty and no sheet: it has thesis\.tex"):
        write_sheet(sheet, tmp_path / "thesis")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="a file is in the way"):
        write_sheet(sheet, tmp_path / "file")
    (tmp_path / "thesis" / "sheet.json").write_text("[]")
    with pytest.raises(UserError, match=r"not a sheet's sheet\.json"):
        write_sheet(sheet, tmp_path / "thesis")
    assert (tmp_path / "thesis" / "thesis.tex").read_text() == "years of work"


def test_a_sheet_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sheet = make_sheet("positions", "2x4", 1)
    write_sheet(sheet, tmp_path / "sheet")
    before = {p: p.read_bytes() for p in (tmp_path / "sheet").rglob("*") if p.is_file()}

    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        with pytest.raises(OSError, match="No space left"):
            write_sheet(sheet, tmp_path / "sheet")
    assert {p: p.read_bytes() for p in (tmp_path / "sheet").rglob("*") if p.is_file()} == before
    assert [p.name for p in tmp_path.iterdir()] == ["sheet"]


def test_a_manifest_that_leads_elsewhere_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "sheet.json").symlink_to("/dev/zero")  # which has no end
    with pytest.raises(UserError, match=r"not a sheet's sheet\.json"):
        read_manifest(tmp_path)
    (tmp_path / "sheet.json").unlink()
    (tmp_path / "sheet.json").write_text("[" * 100_000)
    with pytest.raises(UserError, match=r"not a sheet's sheet\.json"):
        read_manifest(tmp_path)


def test_the_manifest_tells_how_to_make_it_again(files: dict[str, dict[str, str]]) -> None:
    manifest = json.loads(files["found"]["sheet.json"])
    assert manifest["kind"] == "multi-head"
    assert (manifest["size"], manifest["seed"], manifest["decimals"]) == ("2x3", 5, 3)
    assert manifest["mistakes"] is True
    assert sorted(files["found"]) == manifest["files"]
    assert "planted" not in files["found"]["sheet.json"]
