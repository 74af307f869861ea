"""A sheet for each student: own numbers, one key, one call of grade, and no answer outside key/."""

import json
import re
import shutil
from pathlib import Path

import pytest
from kinds_of_sheets import ONE_OF_EACH_FAMILY

from workings.cli import main
from workings.errors import UserError
from workings.problems.grading import grade
from workings.problems.problem import Problem
from workings.problems.sheets import make_sheet
from workings.problems.sheets.rounded_solution import make_answer_key
from workings.problems.sheets.students import derive_seed, make_students, read_students
from workings.render.sheets import render_files


def test_lists_of_students_are_read(tmp_path: Path) -> None:
    path = tmp_path / "list.csv"
    for text in ("id,name\n1,Ann\n2,Bo\n", "Name;ID\nAnn;1\nBo;2\n", "1,Ann\n2,Bo\n"):
        path.write_text(text)
        assert [(s.id, s.name) for s in read_students(path)] == [("1", "Ann"), ("2", "Bo")]
    path.write_text("Ann\nBo Li\n")
    assert [(s.id, s.folder) for s in read_students(path)] == [("Ann", "Ann"), ("Bo Li", "Bo_Li")]
    for text, message in (("", "empty"), ("1,A\n1,B\n", "twice")):
        path.write_text(text)
        with pytest.raises(UserError, match=message):
            read_students(path)


def test_seed_depends_on_secret_and_student() -> None:
    one, other = make_students([("1", "Ann"), ("2", "Bo")])
    seeds = {derive_seed(secret, s, 1) for secret in ("a", "b") for s in (one, other)}
    assert len(seeds) == 4
    assert derive_seed("a", one, 1) == derive_seed("a", one, 1)


def test_each_student_has_own_numbers_and_one_call_grades_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "list.csv").write_text("id,name\n17,Ann Ng\n18,Bo\n")
    arguments = ["make", "--kind", "self", "--size", "2x3", "--count", "1", "--out"]
    out = tmp_path / "sheets"
    arguments += [str(out), "--students", str(tmp_path / "list.csv")]
    assert main(arguments) == 0
    assert "2 sheets in students/; answers in key/" in capsys.readouterr().out
    problems = [(out / "students" / k / "problem-01.toml").read_text() for k in ("17", "18")]
    assert problems[0] != problems[1]
    answers = tmp_path / "answers"
    for entry, key in (
        ("Ann Ng_17_assignsubmission_file_", "17"),
        ("Bo", "18"),
        ("18 copied", "17"),
    ):
        (answers / entry).mkdir(parents=True)
        shutil.copy(out / "key" / key / "problem-01.toml", answers / entry)
    grades = grade(out, answers)
    points = {s.student: (s.total, s.max_points) for s in grades.students}
    assert points == {"18 copied": (0, 7), "Ann Ng": (7, 7), "Bo": (7, 7)}
    assert "no sheet was made for this student" in grades.errors[0]
    assert grades.to_csv().count("\n") == 4
    # The answers of another student's sheet earn nothing.
    shutil.copy(out / "key" / "17" / "problem-01.toml", answers / "Bo" / "problem-01.toml")
    assert {s.student: s.total for s in grade(out, answers).students}["Bo"] <= 0.05 * 7
    # Made again, everyone keeps their numbers.
    assert main(arguments) == 0
    assert (out / "students" / "17" / "problem-01.toml").read_text() == problems[0]


def test_sheets_of_students_do_not_show_their_seed(tmp_path: Path) -> None:
    out = tmp_path / "sheets"
    arguments = ["make", "--kind", "positions", "--count", "1", "--variants", "2"]
    assert main([*arguments, "--out", str(out)]) == 0
    manifest = json.loads((out / "students" / "001" / "sheet.json").read_text())
    assert "seed" not in manifest
    secret = (out / "key" / "secret.txt").read_text().strip()
    for path in (out / "students").rglob("*.*"):
        text = path.read_text()
        assert secret not in text
        assert not re.search(r"\bseed \d", text)


@pytest.mark.parametrize("kind", ONE_OF_EACH_FAMILY)
def test_no_answer_outside_the_key(kind: str) -> None:
    """No number of the solution that has all its decimals stands in a file for students."""
    sheet = make_sheet(kind, count=1, level=1)
    problem = sheet.exercises[0].problem
    given = str(sheet.exercises[0].table)
    key = make_answer_key(Problem(**sheet.exercises[0].table), sheet.decimals)
    answers = {t for matrix in key.values() for row in matrix for t in row if len(t) > 4}
    answers = {t for t in answers if t not in given and not t.endswith("00")}
    files = {n: t for n, t in render_files(sheet).items() if not n.startswith("key/")}
    assert {"answers.csv", "answers.toml", "sheet.tex", "sheet.ipynb"} <= files.keys()
    assert problem.asked_steps
    for name, text in files.items():
        numbers = set(re.findall(r"(?<![\d.])-?\d+\.\d+(?![\d.])", text))
        assert not numbers & answers, name
