"""`workings grade`: marks as CSV; status 2 if an answer cannot be read."""

import shutil
from pathlib import Path

import pytest

from workings.cli import main
from workings.problems.sheets import make_sheet
from workings.render.sheets import write_sheet


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_sheet(make_sheet("positions", "2x4", 1), tmp_path / "sheet")
    (tmp_path / "answers" / "alice").mkdir(parents=True)
    shutil.copy(tmp_path / "sheet" / "key" / "problem-01.toml", tmp_path / "answers" / "alice")
    return tmp_path


def test_marks_go_to_a_file(folder: Path) -> None:
    marks = folder / "marks.csv"
    arguments = ["grade", str(folder / "sheet"), str(folder / "answers")]
    assert main([*arguments, "--out", str(marks)]) == 0
    assert marks.read_text().replace('"', "") == (
        "student,problem,angles,encoding,total,out of,first wrong,likely causes,note\n"
        "alice,problem-01,1,1,2,2,,,\n"
        "alice,all,,,2,2,,,\n"
    )


def test_unreadable_answer(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "answers" / "bob.toml").write_text("?")
    assert main(["grade", str(folder / "sheet"), str(folder / "answers")]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("workings: bob: bob.toml: not TOML")
    assert captured.err.count("\n") == 1
    assert '"alice","problem-01","1","1","2","2"' in captured.out


def test_folder_without_sheet(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grade", str(folder), str(folder / "answers")]) == 2
    assert "no sheet" in capsys.readouterr().err
