"""`workings make`: the folder, the printed line, errors with a suggestion."""

from pathlib import Path

import pytest

from workings.cli import main
from workings.problems.sheets.sheet_kinds import SHEET_KINDS


def test_make_writes_folder_and_prints_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "sheet")
    arguments = ["make", "--kind", "masked", "--size", "2x3", "--count", "1", "--seed", "7"]
    assert main([*arguments, "--out", out]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{out}: 1 problem; answers in key/\n"
    assert captured.err == ""
    assert main(["check", f"{out}/key/problem-01.toml", "--json"]) == 0
    assert sorted(p.name for p in (tmp_path / "sheet").iterdir()) == [
        "answers.csv",
        "answers.toml",
        "key",
        "problem-01.toml",
        "sheet.html",
        "sheet.ipynb",
        "sheet.json",
        "sheet.tex",
    ]


def test_note_goes_to_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["make", "--kind", "self", "--size", "2x3", "--d-k", "3", "--count", "1"]
    assert main([*arguments, "--out", str(tmp_path / "s")]) == 0
    assert "workings: note: d_k and the width are both 3" in capsys.readouterr().err


def test_invalid_argument_is_one_line_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["make", "--kind", "masked", "--size", "3x4", "--d-k", "2"]
    assert main([*arguments, "--out", str(tmp_path / "s")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "use --d-k 3" in error
    assert not (tmp_path / "s").exists()


def test_help_names_every_kind(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["make", "--help"])
    text = " ".join(capsys.readouterr().out.split()).replace("- ", "-")
    assert all(kind in text for kind in SHEET_KINDS)
