"""The notebook, the tolerances, the manifest and the folder of a sheet."""

import contextlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from kinds_of_sheets import make_sheet_of_one, render_sheet_of_one

from workings.errors import UserError
from workings.problems import Problem
from workings.problems.sheets import Sheet, make_sheet
from workings.problems.sheets.folder import read_manifest
from workings.problems.sheets.layout import estimate_tolerances, make_printed_sheet
from workings.problems.sheets.rounded_solution import (
    make_answer_key,
    solve_rounded,
)
from workings.problems.sheets.sheet_kinds import SHEET_KINDS
from workings.render.sheets import render_files, write_sheet

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


def test_notebook_format(files: dict[str, dict[str, str]]) -> None:
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


def get_code_cells(text: str) -> Iterator[str]:
    for cell in json.loads(text)["cells"]:
        if cell["cell_type"] == "code":
            yield "".join(cell["source"])


def fill_in(sheet: Sheet, text: str) -> str:
    """Return the code of a notebook with the key in its blanks, printing the counts."""
    program = []
    answers = iter(
        texts
        for exercise in sheet.exercises
        for texts in make_answer_key(exercise.problem, sheet.decimals).values()
    )
    for code in get_code_cells(text):
        if '"?"' in code:
            place, last = code.split(" = ")[0], code.splitlines()[-1]
            program.append(f"{place} = {next(answers)!r}\nprint({last}.counts)")
        else:
            program.append(code)
    return "\n".join(program)


def run_program(program: str) -> list[str]:
    """Run the code of a notebook and return the printed lines."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(program, {})  # noqa: S102
    return out.getvalue().splitlines()


def test_notebook_checks_filled_in_answers(
    sheets: dict[str, Sheet], files: dict[str, dict[str, str]]
) -> None:
    kinds = ("masked", "multi-head", "lstm", "positions", "block", "layer_norm", "columns")
    program = "\n".join(fill_in(sheets[name], files[name]["sheet.ipynb"]) for name in kinds)
    printed = run_program(program)
    steps = [e.problem.asked_steps for name in kinds for e in sheets[name].exercises]
    assert len(printed) == sum(map(len, steps))
    for line in printed:
        counts = eval(line)  # noqa: S307
        assert counts["right"] == sum(counts.values()) > 0


def test_notebook_runs_with_blanks(files: dict[str, dict[str, str]]) -> None:
    program = "\n".join(
        code
        for name in ("masked", "multi-head", "rnn")
        for code in get_code_cells(files[name]["sheet.ipynb"])
    )
    run_program(program)


def test_notebook_recognizes_planted_mistake(
    sheets: dict[str, Sheet], files: dict[str, dict[str, str]]
) -> None:
    planted = iter(e.planted_mistake for e in sheets["mistakes"].exercises)
    program = []
    for code in get_code_cells(files["mistakes"]["sheet.ipynb"]):
        if '"?"' in code:
            program.append(code)
            mistake = next(planted)
            assert mistake is not None
            row, column = mistake.cell
            answer = (mistake.key, row + 1, column + 1, mistake.name)
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


@pytest.mark.parametrize("kind", SHEET_KINDS)
def test_tolerances_allow_for_rounding_at_every_step(kind: str, sheets: dict[str, Sheet]) -> None:
    sheet = sheets[kind]
    for exercise, printed_problem in zip(
        sheet.exercises, make_printed_sheet(sheet).problems, strict=True
    ):
        rounded = solve_rounded(exercise.problem, sheet.decimals)
        tolerances = estimate_tolerances(exercise.problem, sheet.decimals)
        for step in printed_problem.steps:
            labels = exercise.problem.get_step(step.key).labels
            if labels:
                words = {word for row in step.solution for word in row}
                assert words <= set(labels)
                continue
            key = np.array([[float(t) for t in row] for row in step.solution])
            with np.errstate(invalid="ignore"):
                error = np.nan_to_num(np.abs(rounded[step.key].mid - key), nan=0)
            assert (error <= np.array(tolerances[step.key]) + 1e-9).all()
            assert np.max(tolerances[step.key]) < 0.2


def test_folder_is_replaced_by_new_sheet(tmp_path: Path) -> None:
    sheet = make_sheet("positions", "2x4", 2)
    write_sheet(sheet, tmp_path / "new" / "sheet")
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == ["sheet"]
    folder = tmp_path / "new" / "sheet"
    for name, text in render_files(sheet).items():
        assert (folder / name).read_text(encoding="utf-8") == text
    write_sheet(make_sheet("positions", "2x4", 1), folder)
    assert not (folder / "problem-02.toml").exists()
    assert Problem.load(folder / "problem-01.toml").kind.name == "positions"


def test_other_files_are_not_overwritten(tmp_path: Path) -> None:
    sheet = make_sheet("positions", "2x4", 1)
    other = tmp_path / "other"
    other.mkdir()
    write_sheet(sheet, other)  # an empty folder may be used
    (other / "answers").mkdir()
    (other / "answers" / "alice.toml").write_text("")
    with pytest.raises(UserError, match=r"answers/alice\.toml, which is not part of its sheet"):
        write_sheet(sheet, other)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match=r"not empty and not a sheet: it contains thesis\.tex"):
        write_sheet(sheet, tmp_path / "thesis")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is a file: --out must name a folder"):
        write_sheet(sheet, tmp_path / "file")
    (tmp_path / "thesis" / "sheet.json").write_text("[]")
    with pytest.raises(UserError, match="is not the manifest of a sheet"):
        write_sheet(sheet, tmp_path / "thesis")
    assert (tmp_path / "thesis" / "thesis.tex").read_text() == "years of work"


def test_failed_write_keeps_old_sheet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sheet = make_sheet("positions", "2x4", 1)
    write_sheet(sheet, tmp_path / "sheet")
    before = {p: p.read_bytes() for p in (tmp_path / "sheet").rglob("*") if p.is_file()}

    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(OSError, match="No space left"):
            write_sheet(sheet, tmp_path / "sheet")
    assert {p: p.read_bytes() for p in (tmp_path / "sheet").rglob("*") if p.is_file()} == before
    assert [p.name for p in tmp_path.iterdir()] == ["sheet"]


def test_invalid_manifest_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "sheet.json").symlink_to("/dev/zero")  # which never ends
    with pytest.raises(UserError, match="is not the manifest of a sheet"):
        read_manifest(tmp_path)
    (tmp_path / "sheet.json").unlink()
    (tmp_path / "sheet.json").write_text("[" * 100_000)
    with pytest.raises(UserError, match="is not the manifest of a sheet"):
        read_manifest(tmp_path)


def test_manifest_reproduces_sheet(files: dict[str, dict[str, str]]) -> None:
    manifest = json.loads(files["mistakes"]["sheet.json"])
    assert manifest["kind"] == "multi-head"
    assert (manifest["size"], manifest["seed"], manifest["decimals"]) == ("2x3", 5, 3)
    assert manifest["mistakes"] is True
    packages = {"key/qti-2.1.zip", "key/qti-3.0.zip"}
    assert packages < set(manifest["files"])
    assert sorted({*files["mistakes"]} | packages) == manifest["files"]
    assert "planted" not in files["mistakes"]["sheet.json"]
