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
        "id,student,problem-01,total,out of,by hand,final,first mistakes,likely causes,notes\n"
        "alice,alice,2,2,2,,2,,,\n"
    )


def test_unreadable_answer(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "answers" / "bob.toml").write_text("?")
    assert main(["grade", str(folder / "sheet"), str(folder / "answers")]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("workings: bob: bob.toml: line 1: ")
    assert captured.err.count("\n") == 1
    assert '"alice","alice","2","2","2"' in captured.out


def test_folder_without_sheet(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grade", str(folder), str(folder / "answers")]) == 2
    assert "no sheet" in capsys.readouterr().err


def test_marks_by_hand_are_kept_and_changes_are_printed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    marks = folder / "marks.csv"
    arguments = ["grade", str(folder / "sheet"), str(folder / "answers"), "--out", str(marks)]
    assert main([*arguments, "--bom"]) == 0
    assert marks.read_bytes().startswith(b"\xef\xbb\xbf")
    text = marks.read_text(encoding="utf-8-sig")
    marks.write_text(text.replace('"2","2","","2"', '"2","2","1,5","2"'))
    (folder / "sheet" / "policy.toml").write_text("[points]\nencoding = 3\n")
    (folder / "answers" / "bob").mkdir()
    shutil.copy(folder / "sheet" / "key" / "problem-01.toml", folder / "answers" / "bob")
    capsys.readouterr()
    assert main([*arguments, "--details", str(folder / "details.csv")]) == 0
    assert capsys.readouterr().out == "alice: 2 → 1.5\nbob: new, 4\n"
    assert '"alice","alice","4","4","4","1.5","1.5"' in marks.read_text()
    assert '"alice","alice","problem-01","1","3","4","4"' in (folder / "details.csv").read_text()
    assert main(arguments) == 0
    assert capsys.readouterr().out == ""


def test_damaged_marks_are_not_overwritten(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    marks = folder / "marks.csv"
    marks.write_text("my notes")
    arguments = ["grade", str(folder / "sheet"), str(folder / "answers"), "--out", str(marks)]
    assert main(arguments) == 2
    assert "not a table of marks" in capsys.readouterr().err
    assert marks.read_text() == "my notes"


def test_policy_is_checked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = folder / "sheet" / "policy.toml"
    for text, message in [
        ("[points]\nangels = 2\n", "points.angels: the sheet has no such step: did you mean"),
        ("[points]\nangles = -1\n", "points.angles = -1: expected a number from 0 to 1000"),
        ("[marking]\nfollow = 1\n", "marking.follow: did you mean 'follows'"),
        ("[marking]\nfollows = 2\n", "marking.follows = 2: expected a number from 0 to 1"),
        ("steps = 1\n", "steps: expected the tables [points] and [marking]"),
        ("[points", "not TOML"),
    ]:
        policy.write_text(text)
        assert main(["grade", str(folder / "sheet"), str(folder / "answers")]) == 2
        assert message in capsys.readouterr().err
    arguments = ["grade", str(folder / "sheet"), str(folder / "answers")]
    assert main([*arguments, "--policy", str(folder / "none.toml")]) == 2
    assert "no such file" in capsys.readouterr().err
