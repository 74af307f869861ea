"""What a sheet asks for: chosen steps, points, hidden formulas, several kinds, levels."""

import json
import re
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from workings.errors import UserError
from workings.problems import Problem
from workings.problems.grading import grade
from workings.problems.sheets import Sheet, make_sheet
from workings.problems.sheets.plan import make_plan, make_plans
from workings.render.sheets import render_files, write_sheet

MATH = re.compile(r"<math.*?</math>", re.DOTALL)


@pytest.fixture(scope="module")
def sheet() -> Sheet:
    return make_sheet("self,lstm", count=4, seed=3, level=1, steps="weights,mixed,h", points="h=2")


@pytest.fixture(scope="module")
def files(sheet: Sheet) -> dict[str, str]:
    return render_files(sheet)


def test_kinds_take_turns_with_their_own_numbers(sheet: Sheet) -> None:
    assert [e.problem.kind.name for e in sheet.exercises] == ["attention", "lstm"] * 2
    assert sheet.title == "Self-attention, an LSTM"
    alone = make_sheet("lstm", count=2, seed=3, level=1).exercises[1]
    assert alone.table["given"] == sheet.exercises[1].table["given"]


def test_asked_steps_are_in_every_file(sheet: Sheet, files: dict[str, str]) -> None:
    asked = [["weights", "mixed"], ["h.1", "h.2"]] * 2
    assert [list(sheet.get_asked_steps(e)) for e in sheet.exercises] == asked
    assert [p["steps"] for p in json.loads(files["sheet.json"])["problems"]] == asked
    assert files["sheet.html"].count('class="blank"') == sum(map(len, asked))
    assert files["sheet.ipynb"].count(".check()") == sum(map(len, asked))
    assert "2 points" in files["sheet.html"]
    assert "Marks (of 12)" in files["sheet.html"]  # 1 + 1 and 2 + 2, twice


def test_key_has_the_working_of_every_cell(sheet: Sheet, files: dict[str, str]) -> None:
    root = ET.fromstring(files["key/key.html"].removeprefix("<!DOCTYPE html>\n"))  # noqa: S314
    num_cells = sum(
        exercise.problem.exact_matrices[step.key].mid.size
        for exercise in sheet.exercises
        for step in exercise.problem.asked_steps
    )
    lists = [ul for ul in root.iter("ul") if ul.get("class") == "working"]
    assert sum(len(ul) for ul in lists) == num_cells
    assert files["key/key.tex"].count(r"\footnotesize \working{") >= num_cells
    for exercise in sheet.exercises:
        key = Problem.from_toml(files[f"key/{exercise.name}.toml"])
        assert [claim.key for claim in key.claims] == key.solve().keys()


def test_moodle_weights_give_each_step_its_points(files: dict[str, str]) -> None:
    root = ET.fromstring(files["key/moodle.xml"])  # noqa: S314
    questions = [q for q in root.iter("question") if q.get("type") == "cloze"]
    assert [q.findtext("defaultgrade") for q in questions] == ["2", "4"] * 2
    text = questions[0].findtext("questiontext/text") or ""
    tables = re.findall(r"<table>.*?</table>", text, re.DOTALL)
    sums = [sum(map(int, re.findall(r"\{(\d+):", table))) for table in tables]
    assert [total for total in sums if total] == [sums[-1]] * 2  # one point each: equal sums


def test_hidden_formulas_are_only_in_the_key() -> None:
    sheet = make_sheet("masked", "2x3", count=1, hide_formulas=True)
    files = render_files(sheet)
    handouts = {name: text for name, text in files.items() if not name.startswith("key/")}
    for text in (*handouts.values(), files["key/moodle.xml"]):
        for word in ("sqrt", "softmax", "√", "scale =", '"scale"'):
            assert word not in text
    assert "msqrt" in files["key/key.html"]
    assert "scale" in files["key/problem-01.toml"]
    assert all("<mo>=</mo>" not in math for math in MATH.findall(files["sheet.html"]))
    assert make_sheet("masked", count=1, level=3).hides_formulas


def hand_in(folder: Path, sheet: Sheet, answers: dict[str, dict[str, object]]) -> Path:
    """Write a student's answers to one file."""
    student = folder / "answers" / "ann.toml"
    student.parent.mkdir()
    lines = []
    for exercise in sheet.exercises:
        claims = answers.get(exercise.name, {})
        lines.append(f"[{exercise.name}.claim]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in claims.items()]
    student.write_text("\n".join(lines))
    write_sheet(sheet, folder / "sheet")
    return student.parent


def test_grade_honours_asked_steps_and_points(tmp_path: Path) -> None:
    sheet = make_sheet("self", "2x3", count=1, steps="weights,mixed", points="mixed=3")
    solution = sheet.exercises[0].problem.solve()
    weights, mixed = (np.round(solution[key], 3).tolist() for key in ("weights", "mixed"))
    weights[0][0] = 0.111  # one of four cells is wrong
    answers = hand_in(tmp_path, sheet, {"problem-01": {"weights": weights, "mixed": mixed}})
    grades = grade(tmp_path / "sheet", answers)
    ((mark,),) = (student.marks for student in grades.students)
    assert mark.problem.points == {"weights": 1, "mixed": 3}
    assert mark.points["weights"] == pytest.approx(0.75)
    assert mark.points["mixed"] == pytest.approx(3)


def test_a_step_that_is_not_asked_earns_nothing_but_others_follow_from_it(tmp_path: Path) -> None:
    sheet = make_sheet("self", "2x3", count=1, steps="mixed")
    problem = sheet.exercises[0].problem
    v = problem.solve()["V"].copy()
    v[0, 0] += 1
    mixed = np.round(problem.solve()["weights"] @ v, 3)
    answers = hand_in(
        tmp_path, sheet, {"problem-01": {"V": v.astype(int).tolist(), "mixed": mixed.tolist()}}
    )
    ((mark,),) = (s.marks for s in grade(tmp_path / "sheet", answers).students)
    assert mark.points == {"mixed": pytest.approx(1.0)}


def test_grade_reads_hidden_settings_from_the_key(tmp_path: Path) -> None:
    sheet = make_sheet("self", "2x3", count=1, scale="none", hide_formulas=True, steps="weights")
    weights = np.round(sheet.exercises[0].problem.solve()["weights"], 3).tolist()
    answers = hand_in(tmp_path, sheet, {"problem-01": {"weights": weights}})
    assert "scale" not in tomllib.loads((tmp_path / "sheet" / "problem-01.toml").read_text())
    ((mark,),) = (s.marks for s in grade(tmp_path / "sheet", answers).students)
    assert mark.points == {"weights": pytest.approx(1.0)}


def test_damaged_points_are_an_error_of_the_manifest(tmp_path: Path) -> None:
    sheet = make_sheet("self", "2x3", count=1, points="2")
    answers = hand_in(tmp_path, sheet, {})
    path = tmp_path / "sheet" / "sheet.json"
    for damaged in ({"points": {"mixed": 0}}, {"points": {"nothing": 1}}, {"steps": []}):
        manifest = json.loads(path.read_text())
        manifest["problems"][0] |= damaged
        path.write_text(json.dumps(manifest))
        with pytest.raises(UserError, match=r"sheet\.json: problem-01\.toml"):
            grade(tmp_path / "sheet", answers)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": "wieghts"}, "--steps 'wieghts': no such step: did you mean 'weights'"),
        ({"steps": "weights,"}, "--steps: expected names of steps, like weights,mixed"),
        ({"points": "mixed=0"}, "--points mixed=0: it must be from 1 to 100"),
        ({"points": "mixed:2"}, "--points 'mixed:2': expected STEP=POINTS, like mixed=2"),
        ({"points": "Q=2", "steps": "mixed"}, "--points Q: --steps does not ask for it"),
        ({"steps": "mixed", "mistakes": True}, "--steps is for problems to compute"),
        ({"level": 0}, "--level 0: it must be from 1 to 3"),
    ],
)
def test_bad_questions_are_one_line_errors(options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=f"^{re.escape(message)}"):
        make_sheet("self", "2x3", count=1, **options)


def test_every_kind_needs_a_question_and_a_problem() -> None:
    with pytest.raises(UserError, match=r"none is a step of rnn problems, which have sum, h"):
        make_sheet("self,rnn", "2x2", count=2, steps="weights")
    with pytest.raises(UserError, match=r"--count 1: 2 kinds need at least 2 problems"):
        make_sheet("self,lstm", "2x2", count=1)


def test_option_goes_to_the_kinds_that_have_it() -> None:
    assert [plan.hidden_size for plan in make_plans("self,rnn", hidden_size=3)] == [0, 3]
    with pytest.raises(UserError, match="--context is for --kind cross"):
        make_plans("self,rnn", context=3)


@pytest.mark.parametrize(
    ("kind", "size", "reason"),
    [
        ("layer_norm", "3x2", "always gives −1 and 1"),
        ("block", "2x2", "always gives −1 and 1"),
        ("self", "5x2", "5 distinct tokens need a width of 3"),
        ("positions", "3x3", "even width"),
    ],
)
def test_degenerate_sizes_are_refused_with_a_reason(kind: str, size: str, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        make_plan(kind, size)


def test_gate_columns_of_an_lstm_are_labeled() -> None:
    for vectors in ("rows", "columns"):
        sheet = make_sheet("lstm", "2x2", count=1, hidden_size=2, vectors=vectors)
        html = render_files(sheet)["sheet.html"]
        scope = "col" if vectors == "rows" else "row"
        labels = re.findall(f'<th scope="{scope}">([ifgo].)</th>', html)
        assert labels == ["i₁", "i₂", "f₁", "f₂", "g₁", "g₂", "o₁", "o₂"] * 3  # W_x, W_h, b
