"""Marking: credit for what follows, none for what is blank, and nobody can cheat or spoil it."""

import csv
import io
import json
import os
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
    folder = tmp_path_factory.mktemp("made") / "sheet"
    write_sheet(sheet, folder)
    return folder


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    (tmp_path / "answers").mkdir()
    return tmp_path / "answers"


def key(sheet: Sheet, number: int = 1) -> dict[str, list[list[str]]]:
    return make_answer_key(sheet.exercises[number - 1].problem, sheet.plan.decimals)


def hand_in(
    answers: Path, student: str, claim: dict[str, list[list[str]]], name: str = "problem-01"
) -> None:
    (answers / student).mkdir(exist_ok=True)
    (answers / student / f"{name}.toml").write_text(format_toml({"claim": claim}), encoding="utf-8")


def table(marks: Grades) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(marks.to_csv())))


def test_a_perfect_answer_has_every_mark(folder: Path, answers: Path) -> None:
    shutil.copytree(
        folder / "key", answers / "alice", ignore=shutil.ignore_patterns("key.*", "*.xml")
    )
    first, second, both = table(grade(folder, answers))
    assert [first[step] for step in STEPS] == ["1"] * 8
    assert (first["total"], first["out of"], first["first wrong"]) == ("8", "8", "")
    assert second["problem"] == "problem-02"
    assert (both["problem"], both["total"], both["out of"]) == ("all", "16", "16")


def test_blank_is_nothing(folder: Path, answers: Path, sheet: Sheet) -> None:
    hand_in(answers, "bob", {"Q": [["?"] * 4] * 2, "K": key(sheet)["K"]})
    first, second, _ = table(grade(folder, answers))
    assert (first["Q"], first["K"], first["V"], first["total"]) == ("0", "1", "0", "1")
    assert (second["total"], second["note"]) == ("0", "nothing handed in")


def test_what_follows_counts_in_full(folder: Path, answers: Path, sheet: Sheet) -> None:
    problem = sheet.exercises[0].problem

    def slip(step: object, env: dict[str, object]) -> object:
        if getattr(step, "key", "") != "scores":
            return None
        wrong = problem.exact_matrices["scores"].mid.copy()
        wrong[0, 0] += 3
        return wrong

    env = solve_rounded(problem, 3, slip)  # type: ignore[arg-type]
    hand_in(answers, "carl", {s: format_matrix(env[s].mid, 3) for s in STEPS})
    first, *_ = table(grade(folder, answers))
    assert [first[step] for step in STEPS] == ["1", "1", "1", "0.75", "1", "1", "1", "1"]
    assert first["first wrong"].startswith("scores, row 1, column 1: ")
    assert first["likely causes"]


def test_a_named_mistake_is_told(folder: Path, answers: Path, sheet: Sheet) -> None:
    claim = key(sheet)
    hand_in(answers, "dora", {**claim, "scaled": claim["scores"]})
    first, *_ = table(grade(folder, answers))
    assert "not-scaled" in first["likely causes"]
    assert float(first["total"]) < 8


def test_one_file_for_all_problems(folder: Path, answers: Path, sheet: Sheet) -> None:
    tables = {f"problem-0{k}": {"claim": key(sheet, k)} for k in (1, 2)}
    (answers / "erin.toml").write_text(format_toml(tables), encoding="utf-8")
    assert [line["total"] for line in table(grade(folder, answers))] == ["8", "8", "16"]


def test_givens_are_the_sheets_own(folder: Path, answers: Path) -> None:
    """A student who makes X zero gets no marks for zeros."""
    (answers / "frank").mkdir()
    easy = 'kind = "positions"\n[given]\nX = [[0, 0, 0], [0, 0, 0]]\n[claim]\n'
    zeros = "".join(f"{s} = [[0, 0, 0, 0], [0, 0, 0, 0]]\n" for s in ("Q", "K", "V"))
    (answers / "frank" / "problem-01.toml").write_text(easy + zeros)
    marks = grade(folder, answers)
    assert marks.errors == []
    assert float(table(marks)[0]["Q"]) < 1


def test_a_number_that_says_nothing_earns_nothing(
    folder: Path, answers: Path, sheet: Sheet
) -> None:
    """`1e9` may have been rounded from anything: what comes after it would all follow."""
    for huge in ("inf", "-inf"):
        claim = {"Q": [[huge] * 4] * 2, "K": [[huge] * 4] * 2}
        hand_in(answers, "gina", {**claim, "mixed": [["7.77"] * 4] * 2})
        assert table(grade(folder, answers))[0]["total"] == "0"
    claim = {"Q": [["1e9"] * 4] * 2, "K": [["-3e9"] * 4] * 2}
    nonsense = {step: [["7.77"] * 2] * 2 for step in ("scores", "scaled", "weights")}
    hand_in(answers, "gina", {**claim, **nonsense})
    first, *_ = table(grade(folder, answers))
    assert first["total"] == "0"
    assert first["note"].startswith("too few decimals, not counted: Q row 1 column 1")
    weights = [[f"{float(w):.0f}" for w in row] for row in key(sheet)["weights"]]
    hand_in(answers, "hal", {"weights": weights})
    whole = next(line for line in table(grade(folder, answers)) if line["student"] == "hal")
    assert float(whole["weights"]) <= 0.5  # the first row is 1 and 0 indeed
    nearly = [[f"{float(w):.2f}" for w in row] for row in key(sheet)["weights"]]
    hand_in(answers, "ida", {"weights": nearly})
    fine = next(line for line in table(grade(folder, answers)) if line["student"] == "ida")
    assert fine["weights"] == "1"


def test_short_numbers_are_no_coarse_ones(folder: Path, answers: Path, sheet: Sheet) -> None:
    """`1.5` for 1.500 is as good; a wrong whole number is wrong, and not imprecise."""
    claim = key(sheet)
    scaled = [
        [t.rstrip("0").rstrip(".") if "." in t else t for t in row] for row in claim["scaled"]
    ]
    wrong = [[str(int(float(t)) + 1) for t in row] for row in claim["Q"]]
    hand_in(answers, "jack", {"Q": wrong, "scaled": scaled})
    first, *_ = table(grade(folder, answers))
    assert (first["Q"], first["scaled"], first["note"]) == ("0", "1", "")
    assert first["first wrong"].startswith("Q, row 1, column 1")


def test_what_cannot_be_read_is_told_and_the_rest_is_marked(
    folder: Path, answers: Path, sheet: Sheet
) -> None:
    hand_in(answers, "zoe", key(sheet))
    (answers / "a.toml").write_text("not = [toml")
    (answers / "b.toml").write_bytes(b"\xff\xfe")
    (answers / "c.pdf").write_bytes(b"%PDF")
    (answers / "d.toml").write_text("x = " + "[" * 5000)
    hand_in(answers, "e", {"Q": [["1", "2"], ["3"]]})
    hand_in(answers, "f", {"Q": [["one"] * 4] * 2})
    hand_in(answers, "g", key(sheet), name="problem-99")
    (answers / "h.toml").write_text("[problem-1.claim]\n[problem-02]\nclaim = 3\n")
    marks = grade(folder, answers)
    students = [line["student"] for line in table(marks)]
    assert sorted(set(students)) == ["a", "b", "c", "d", "e", "f", "g", "h", "zoe"]
    assert students == sorted(students)
    told = {error.split(":")[0] for error in marks.errors}
    assert told == set("abcdefgh")
    assert all("\n" not in error for error in marks.errors)
    by = {line["student"]: line for line in reversed(table(marks)) if line["problem"] != "all"}
    assert by["zoe"]["total"] == "8"
    assert by["a"]["note"].startswith("could not be read: not TOML")
    assert "row 2 has 1 numbers" in by["e"]["note"]
    assert "did you mean 'problem-" in by["g"]["note"]


def test_links_and_devices_are_not_followed(folder: Path, answers: Path, sheet: Sheet) -> None:
    (answers / "ann").mkdir()
    (answers / "ann" / "problem-01.toml").symlink_to(folder / "key" / "problem-01.toml")
    (answers / "ben").symlink_to(folder / "key")
    (answers / "cid.toml").symlink_to("/etc/passwd")
    os.mkfifo(answers / "dan.toml")
    (answers / ".DS_Store").write_bytes(b"\x00")
    (answers / "__MACOSX").mkdir()
    marks = grade(folder, answers)
    assert {line["student"] for line in table(marks)} == {"ann", "ben", "cid", "dan"}
    assert all(line["total"] == "0" for line in table(marks))
    assert len(marks.errors) == 4


@pytest.mark.parametrize("name", ["=cmd|' calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "＝1"])
def test_no_name_is_a_formula(name: str, folder: Path, answers: Path) -> None:
    (answers / name).mkdir()
    (answers / name / "=evil.toml").write_text("")
    for row in csv.reader(io.StringIO(grade(folder, answers).to_csv())):
        for cell in row:
            assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "＝"))


def test_names_are_told_on_one_line(folder: Path, answers: Path) -> None:
    (answers / "two\nlines \x1b[31m.toml").write_text("?")
    marks = grade(folder, answers)
    assert "\n" not in marks.errors[0]
    assert "\x1b" not in marks.to_csv() + marks.errors[0]


def test_a_student_who_is_there_twice_is_told(folder: Path, answers: Path, sheet: Sheet) -> None:
    hand_in(answers, "kim", key(sheet))
    (answers / "kim.toml").write_text("")
    marks = grade(folder, answers)
    assert len(marks.errors) == 1
    assert "twice" in marks.errors[0]


def test_heads_and_columns(tmp_path: Path, answers: Path) -> None:
    sheet = make_sheet("multi-head", "2x3", 1, 2, vectors="columns")
    write_sheet(sheet, tmp_path / "sheet")
    claim = nest_claims(sheet.exercises[0].problem, key(sheet))
    claim["head"]["2"]["weights"][0][1] = "0.999"
    hand_in(answers, "lea", claim)
    first, *_ = table(grade(tmp_path / "sheet", answers))
    assert first["weights.2"] == "0.75"
    assert first["first wrong"].startswith("weights, head 2, row 1, column 2: 0.999")


def test_what_was_found_is_marked(tmp_path: Path, answers: Path) -> None:
    sheet = make_sheet("self", "2x3", 2, 2, mistakes=True)
    write_sheet(sheet, tmp_path / "sheet")
    planted = [exercise.planted_mistake for exercise in sheet.exercises]
    assert planted[0] is not None
    row, column = planted[0].cell
    found = {"step": planted[0].key, "mistake": planted[0].name}
    text = format_toml({"problem-01": {"found": found}}).rstrip()
    (answers / "mia.toml").write_text(f"{text}\ncell = [{row + 1}, {column + 1}]\n")
    shutil.copytree(
        tmp_path / "sheet", answers / "ned", ignore=shutil.ignore_patterns("key", "sheet.*")
    )
    (answers / "oli.toml").write_text(
        "[problem-01.found]\nstepp = 3\n[problem-02.found]\ncell = 7\n"
    )
    marks = grade(tmp_path / "sheet", answers)
    lines = {(line["student"], line["problem"]): line for line in table(marks)}
    mia = lines["mia", "problem-01"]
    assert [mia[what] for what in ("step", "cell", "mistake")] == ["1", "1", "1"]
    assert lines["ned", "problem-01"]["note"] == "no [found]"
    assert lines["oli", "problem-02"]["total"] == "0"
    assert marks.errors == [
        "oli: problem-01: found.stepp: expected step (and head or t), cell, mistake"
    ]


def test_one_problem_needs_no_names(tmp_path: Path, answers: Path) -> None:
    sheet = make_sheet("positions", "2x4", 1)
    write_sheet(sheet, tmp_path / "sheet")
    (answers / "pia.toml").write_text(format_toml({"claim": key(sheet)}))
    assert table(grade(tmp_path / "sheet", answers))[0]["total"] == "2"


def test_a_folder_that_is_no_sheet_is_refused(tmp_path: Path, answers: Path, folder: Path) -> None:
    with pytest.raises(UserError, match=r"there is no sheet\.json"):
        grade(tmp_path, answers)
    with pytest.raises(UserError, match="expected a folder"):
        grade(folder, tmp_path / "nowhere")
    manifest = json.loads((folder / "sheet.json").read_text())
    broken = tmp_path / "broken"
    broken.mkdir()
    for change, says in [
        ({"problems": [{"file": "../../etc/passwd"}]}, "is no name of a problem"),
        ({"problems": []}, "lists no problems"),
        ({"problems": 7}, "lists no problems"),
        ({"decimals": "3"}, "from 1 to 6"),
        ({"version": 2}, "reads version 1"),
        ({"format": "?"}, r"not a sheet's sheet\.json"),
        ({"mistakes": True}, "no mistake in it"),
    ]:
        shutil.copy(folder / "problem-01.toml", broken)
        shutil.copy(folder / "problem-02.toml", broken)
        (broken / "sheet.json").write_text(json.dumps({**manifest, **change}))
        with pytest.raises(UserError, match=says):
            grade(broken, answers)


def test_a_step_that_cannot_be_read_does_not_cost_the_others(
    folder: Path, answers: Path, sheet: Sheet
) -> None:
    right = key(sheet)
    spoilt = {**right, "Q": [["oops"] * 4] * 2, "sores": right["scores"]}
    hand_in(answers, "joe", spoilt)
    first, *_ = table(grade(folder, answers))
    assert float(first["Q"]) == 0
    assert float(first["K"]) == float(first["mixed"]) == 1
    assert "claim.Q" in first["note"]
    assert "claim.sores" in first["note"]


@pytest.mark.parametrize("large", ["-1e9", "-10000", "-inf"])
def test_a_large_negative_number_is_as_good_as_minus_infinity(
    large: str, folder: Path, answers: Path, sheet: Sheet
) -> None:
    masked = [[large if t == "-inf" else t for t in row] for row in key(sheet)["masked"]]
    assert any(large in row for row in masked)
    hand_in(answers, "kim", {"masked": masked})
    line, *_ = table(grade(folder, answers))
    assert (line["masked"], line["note"]) == ("1", "")
