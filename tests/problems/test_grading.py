"""Grading: credit for carried-over numbers, none for blanks, and robust to any answer."""

import csv
import io
import json
import os
import re
import shutil
from pathlib import Path

import pytest

from workings.errors import UserError
from workings.problems.grading import Grades, grade
from workings.problems.problem_file import format_toml
from workings.problems.sheets import Sheet, make_sheet
from workings.problems.sheets.rounded_solution import (
    format_matrix,
    make_answer_key,
    nest_claims,
    solve_rounded,
)
from workings.render.sheets import write_sheet

STEPS = ["Q", "K", "V", "scores", "scaled", "masked", "weights", "mixed"]


@pytest.fixture(scope="module")
def sheet() -> Sheet:
    return make_sheet("masked", "2x3", 2, 9)


@pytest.fixture(scope="module")
def folder(sheet: Sheet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("grading") / "sheet"
    write_sheet(sheet, folder)
    return folder


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    (tmp_path / "answers").mkdir()
    return tmp_path / "answers"


def get_key(sheet: Sheet, number: int = 1) -> dict[str, list[list[str]]]:
    return make_answer_key(sheet.exercises[number - 1].problem, sheet.decimals)


def write_answer(
    answers: Path, student: str, claim: dict[str, list[list[str]]], name: str = "problem-01"
) -> None:
    (answers / student).mkdir(exist_ok=True)
    (answers / student / f"{name}.toml").write_text(format_toml({"claim": claim}), encoding="utf-8")


def read_csv(grades: Grades) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(grades.to_details_csv())))


def test_correct_answer_gets_full_points(folder: Path, answers: Path) -> None:
    shutil.copytree(
        folder / "key", answers / "alice", ignore=shutil.ignore_patterns("key.*", "*.xml")
    )
    grades = grade(folder, answers)
    first, second = read_csv(grades)
    assert [first[step] for step in STEPS] == ["1"] * 8
    assert (first["total"], first["out of"], first["first mistake"]) == ("8", "8", "")
    assert second["problem"] == "problem-02"
    (alice,) = csv.DictReader(io.StringIO(grades.to_csv()))
    assert (alice["id"], alice["student"], alice["problem-02"]) == ("alice", "alice", "8")
    assert (alice["total"], alice["out of"], alice["by hand"], alice["final"]) == (
        *("16", "16", "", "16"),
    )


def test_blank_cells_get_no_points(folder: Path, answers: Path, sheet: Sheet) -> None:
    write_answer(answers, "bob", {"Q": [["?"] * 4] * 2, "K": get_key(sheet)["K"]})
    first, second = read_csv(grade(folder, answers))
    assert (first["Q"], first["K"], first["V"], first["total"]) == ("0", "1", "0", "1")
    assert (second["total"], second["note"]) == ("0", "nothing handed in")


def test_carried_over_numbers_get_full_points(folder: Path, answers: Path, sheet: Sheet) -> None:
    problem = sheet.exercises[0].problem

    def slip(step: object, env: dict[str, object]) -> object:
        if getattr(step, "key", "") != "scores":
            return None
        wrong = problem.exact_matrices["scores"].mid.copy()
        wrong[0, 0] += 3
        return wrong

    env = solve_rounded(problem, 3, slip)  # type: ignore[arg-type]
    write_answer(answers, "carl", {s: format_matrix(env[s].mid, 3) for s in STEPS})
    first, *_ = read_csv(grade(folder, answers))
    assert [first[step] for step in STEPS] == ["1", "1", "1", "0.75", "1", "1", "1", "1"]
    assert first["first mistake"].startswith("scores, row 1, column 1: ")
    assert first["likely causes"]


def test_cause_is_named(folder: Path, answers: Path, sheet: Sheet) -> None:
    claim = get_key(sheet)
    write_answer(answers, "dora", {**claim, "scaled": claim["scores"]})
    first, *_ = read_csv(grade(folder, answers))
    assert "not-scaled" in first["likely causes"]
    assert float(first["total"]) < 8


def test_one_file_for_all_problems(folder: Path, answers: Path, sheet: Sheet) -> None:
    tables = {f"problem-0{k}": {"claim": get_key(sheet, k)} for k in (1, 2)}
    (answers / "erin.toml").write_text(format_toml(tables), encoding="utf-8")
    assert [line["total"] for line in read_csv(grade(folder, answers))] == ["8", "8"]


def test_givens_of_answers_are_ignored(folder: Path, answers: Path) -> None:
    """A student who sets X to zero gets no points for zeros."""
    (answers / "frank").mkdir()
    easy = 'kind = "positions"\n[given]\nX = [[0, 0, 0], [0, 0, 0]]\n[claim]\n'
    zeros = "".join(f"{s} = [[0, 0, 0, 0], [0, 0, 0, 0]]\n" for s in ("Q", "K", "V"))
    (answers / "frank" / "problem-01.toml").write_text(easy + zeros)
    grades = grade(folder, answers)
    assert grades.errors == []
    assert float(read_csv(grades)[0]["Q"]) < 1


def test_coarse_numbers_get_no_points(folder: Path, answers: Path, sheet: Sheet) -> None:
    """`1e9` may be rounded from anything, so every later number would follow from it."""
    for huge in ("inf", "-inf"):
        claim = {"Q": [[huge] * 4] * 2, "K": [[huge] * 4] * 2}
        write_answer(answers, "gina", {**claim, "mixed": [["7.77"] * 4] * 2})
        assert read_csv(grade(folder, answers))[0]["total"] == "0"
    claim = {"Q": [["1e9"] * 4] * 2, "K": [["-3e9"] * 4] * 2}
    nonsense = {step: [["7.77"] * 2] * 2 for step in ("scores", "scaled", "weights")}
    write_answer(answers, "gina", {**claim, **nonsense})
    first, *_ = read_csv(grade(folder, answers))
    assert first["total"] == "0"
    assert "too few decimals, not counted: Q row 1 column 1, Q" in first["note"]
    weights = [[f"{float(w):.0f}" for w in row] for row in get_key(sheet)["weights"]]
    write_answer(answers, "hal", {"weights": weights})
    hal = next(line for line in read_csv(grade(folder, answers)) if line["student"] == "hal")
    assert float(hal["weights"]) <= 0.5  # the first row is exactly 1 and 0
    nearly = [[f"{float(w):.2f}" for w in row] for row in get_key(sheet)["weights"]]
    write_answer(answers, "ida", {"weights": nearly})
    ida = next(line for line in read_csv(grade(folder, answers)) if line["student"] == "ida")
    assert ida["weights"] == "1"


def test_short_exact_numbers_get_points(folder: Path, answers: Path, sheet: Sheet) -> None:
    """`1.5` for 1.500 is right; a wrong integer is wrong, not imprecise."""
    claim = get_key(sheet)
    scaled = [
        [t.rstrip("0").rstrip(".") if "." in t else t for t in row] for row in claim["scaled"]
    ]
    wrong = [[str(int(float(t)) + 1) for t in row] for row in claim["Q"]]
    write_answer(answers, "jack", {"Q": wrong, "scaled": scaled})
    first, *_ = read_csv(grade(folder, answers))
    assert (first["Q"], first["scaled"], "decimals" in first["note"]) == ("0", "1", False)
    assert first["first mistake"].startswith("Q, row 1, column 1")


def test_unreadable_answers_are_reported_and_others_graded(
    folder: Path, answers: Path, sheet: Sheet
) -> None:
    write_answer(answers, "zoe", get_key(sheet))
    (answers / "a.toml").write_text("not = [toml")
    (answers / "b.toml").write_bytes(b"\xff\xfe")
    (answers / "c.pdf").write_bytes(b"%PDF")
    (answers / "d.toml").write_text("x = " + "[" * 5000)
    write_answer(answers, "e", {"Q": [["1", "2"], ["3"]]})
    write_answer(answers, "f", {"Q": [["one"] * 4] * 2})
    write_answer(answers, "g", get_key(sheet), name="problem-99")
    (answers / "h.toml").write_text("[problem-1.claim]\n[problem-02]\nclaim = 3\n")
    grades = grade(folder, answers)
    students = [line["student"] for line in read_csv(grades)]
    assert sorted(set(students)) == ["a", "b", "c", "d", "e", "f", "g", "h", "zoe"]
    assert students == sorted(students)
    reported = {error.split(":")[0] for error in grades.errors}
    assert reported == set("abcdefgh")
    assert all("\n" not in error for error in grades.errors)
    by = {line["student"]: line for line in reversed(read_csv(grades))}
    assert by["zoe"]["total"] == "8"
    (a, *_) = csv.DictReader(io.StringIO(grades.to_csv()))
    assert a["notes"].endswith("a.toml: line 1: not: 1 bracket too few at the end")
    assert "row 2 has 1 numbers" in by["e"]["note"]
    assert "problem-99.toml: the sheet has no such problem" in " ".join(grades.errors)


def test_links_and_devices_are_not_read(folder: Path, answers: Path, sheet: Sheet) -> None:
    (answers / "ann").mkdir()
    (answers / "ann" / "problem-01.toml").symlink_to(folder / "key" / "problem-01.toml")
    (answers / "ben").symlink_to(folder / "key")
    (answers / "cid.toml").symlink_to("/etc/passwd")
    os.mkfifo(answers / "dan.toml")
    (answers / ".DS_Store").write_bytes(b"\x00")
    (answers / "__MACOSX").mkdir()
    grades = grade(folder, answers)
    assert {line["student"] for line in read_csv(grades)} == {"ann", "ben", "cid", "dan"}
    assert all(line["total"] == "0" for line in read_csv(grades))
    assert len(grades.errors) == 4


@pytest.mark.parametrize(
    "name", ["=cmd|' calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "＝1", " =1", "x;=1;"]
)
def test_names_are_escaped_for_spreadsheets(name: str, folder: Path, answers: Path) -> None:
    (answers / name).mkdir()
    (answers / name / "=evil.toml").write_text("")
    for row in csv.reader(io.StringIO(grade(folder, answers).to_csv())):
        for cell in row:
            assert not cell.lstrip().startswith(("=", "+", "-", "@", "＝"))
            assert not cell.startswith(("\t", "\r", "\n"))
    for line in grade(folder, answers).to_csv().splitlines():  # ";" may separate elsewhere
        assert re.fullmatch(r'"(?:[^"]|"")*"(?:,"(?:[^"]|"")*")*', line)


def test_errors_are_on_one_line(folder: Path, answers: Path) -> None:
    (answers / "two\nlines \x1b[31m.toml").write_text("?")
    grades = grade(folder, answers)
    assert "\n" not in grades.errors[0]
    assert "\x1b" not in grades.to_csv() + grades.errors[0]


def test_folder_and_file_of_a_student_are_both_read(
    folder: Path, answers: Path, sheet: Sheet
) -> None:
    write_answer(answers, "kim", get_key(sheet))
    (answers / "kim.toml").write_text(format_toml({"problem-02": {"claim": get_key(sheet, 2)}}))
    assert [line["total"] for line in read_csv(grade(folder, answers))] == ["8", "8"]


def test_heads_with_column_vectors(tmp_path: Path, answers: Path) -> None:
    sheet = make_sheet("multi-head", "2x3", 1, 2, vectors="columns")
    write_sheet(sheet, tmp_path / "sheet")
    claim = nest_claims(sheet.exercises[0].problem, get_key(sheet))
    claim["head"]["2"]["weights"][0][1] = "0.999"
    write_answer(answers, "lea", claim)
    first, *_ = read_csv(grade(tmp_path / "sheet", answers))
    assert first["weights.2"] == "0.75"
    assert first["first mistake"].startswith("weights, head 2, row 1, column 2: 0.999")


def test_planted_mistakes_are_graded(tmp_path: Path, answers: Path) -> None:
    sheet = make_sheet("self", "2x3", 2, 2, mistakes=True)
    write_sheet(sheet, tmp_path / "sheet")
    planted = [exercise.planted_mistake for exercise in sheet.exercises]
    assert planted[0] is not None
    row, column = planted[0].cell
    finding = {"step": planted[0].key, "mistake": planted[0].name}
    text = format_toml({"problem-01": {"found": finding}}).rstrip()
    (answers / "mia.toml").write_text(f"{text}\ncell = [{row + 1}, {column + 1}]\n")
    shutil.copytree(
        tmp_path / "sheet", answers / "ned", ignore=shutil.ignore_patterns("key", "sheet.*")
    )
    (answers / "oli.toml").write_text(
        "[problem-01.found]\nstepp = 3\n[problem-02.found]\ncell = 7\n"
    )
    grades = grade(tmp_path / "sheet", answers)
    lines = {(line["student"], line["problem"]): line for line in read_csv(grades)}
    mia = lines["mia", "problem-01"]
    assert [mia[what] for what in ("step", "cell", "mistake")] == ["1", "1", "1"]
    assert lines["ned", "problem-01"]["note"] == "no [found]"
    assert lines["oli", "problem-02"]["total"] == "0"
    assert grades.errors == [
        "oli: problem-01: found.stepp: expected step (and head or t), cell, mistake or should"
    ]


def test_single_problem_needs_no_name(tmp_path: Path, answers: Path) -> None:
    sheet = make_sheet("positions", "2x4", 1)
    write_sheet(sheet, tmp_path / "sheet")
    (answers / "pia.toml").write_text(format_toml({"claim": get_key(sheet)}))
    assert read_csv(grade(tmp_path / "sheet", answers))[0]["total"] == "2"


def test_invalid_sheet_is_rejected(tmp_path: Path, answers: Path, folder: Path) -> None:
    with pytest.raises(UserError, match=r"it has no sheet\.json"):
        grade(tmp_path, answers)
    with pytest.raises(UserError, match="expected a folder"):
        grade(folder, tmp_path / "nowhere")
    manifest = json.loads((folder / "sheet.json").read_text())
    broken = tmp_path / "broken"
    broken.mkdir()
    for change, message in [
        ({"problems": [{"file": "../../etc/passwd"}]}, "is not the name of a problem"),
        ({"problems": []}, "lists no problems"),
        ({"problems": 7}, "lists no problems"),
        ({"decimals": "3"}, "from 1 to 6"),
        ({"version": 2}, "expected 1"),
        ({"format": "?"}, "is not the manifest of a sheet"),
        ({"mistakes": True}, "no mistake to find"),
    ]:
        shutil.copy(folder / "problem-01.toml", broken)
        shutil.copy(folder / "problem-02.toml", broken)
        (broken / "sheet.json").write_text(json.dumps({**manifest, **change}))
        with pytest.raises(UserError, match=message):
            grade(broken, answers)


def test_unreadable_step_does_not_affect_others(folder: Path, answers: Path, sheet: Sheet) -> None:
    right = get_key(sheet)
    damaged = {**right, "Q": [["oops"] * 4] * 2, "sores": right.pop("scores")}
    damaged["V"] = [["x", *right["V"][0][1:]], right["V"][1]]
    del damaged["scores"]
    write_answer(answers, "joe", damaged)
    first, *_ = read_csv(grade(folder, answers))
    assert float(first["Q"]) == 0
    assert float(first["K"]) == float(first["mixed"]) == 1
    assert float(first["V"]) == pytest.approx(
        7 / 8, abs=0.01
    )  # a cell that cannot be read is a blank
    assert float(first["scores"]) == 1  # whatever its name, it is read
    assert "claim.Q" in first["note"]


@pytest.mark.parametrize("large", ["-1e9", "-10000", "-inf"])
def test_large_negative_number_counts_as_minus_infinity(
    large: str, folder: Path, answers: Path, sheet: Sheet
) -> None:
    masked = [[large if t == "-inf" else t for t in row] for row in get_key(sheet)["masked"]]
    assert any(large in row for row in masked)
    write_answer(answers, "kim", {"masked": masked})
    line, *_ = read_csv(grade(folder, answers))
    assert (line["masked"], "decimals" in line["note"]) == ("1", False)


def test_hidden_self_is_named_and_later_numbers_follow(
    folder: Path, answers: Path, sheet: Sheet
) -> None:
    """A −∞ on the diagonal is judged as `workings check` judges it: the weights follow from it."""
    masked = get_key(sheet)["masked"]
    for k, row in enumerate(masked):
        row[k] = "-inf"
    weights = [["0.000", "0.000"], ["1.000", "0.000"]]
    claim = {**get_key(sheet), "masked": masked, "weights": weights}
    write_answer(answers, "lea", {k: v for k, v in claim.items() if k != "mixed"})
    line, *_ = read_csv(grade(folder, answers))
    assert (line["likely causes"], line["weights"]) == ("mask-hides-self", "1")
    assert line["note"] == "left out: mixed"
