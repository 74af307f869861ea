"""A class of students who solve a sheet in plain numpy, each with a known mistake and form.

The marker here is independent of the package: it solves masked self-attention itself, compares
every number with the exact one and with the one that the student's numbers before it lead to.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from workings.problems.problem_file import format_toml
from workings.problems.sheets import Sheet

STEPS = ("Q", "K", "V", "scores", "scaled", "masked", "weights", "mixed")
Matrix = np.ndarray
Env = dict[str, Matrix]
Formula = Callable[[Env], Matrix]


def softmax(x: Matrix, axis: int = 1) -> Matrix:
    with np.errstate(all="ignore"):
        e = np.exp(x - np.nanmax(np.where(np.isfinite(x), x, np.nan), axis=axis, keepdims=True))
        return np.nan_to_num(e / e.sum(axis=axis, keepdims=True))


def mask(x: Matrix) -> Matrix:
    return np.where(np.tril(np.ones(x.shape)) > 0, x, -np.inf)


def multiply(weights: Matrix, values: Matrix) -> Matrix:
    return weights @ values


RIGHT: dict[str, Formula] = {
    "Q": lambda e: e["X"] @ e["W_Q"],
    "K": lambda e: e["X"] @ e["W_K"],
    "V": lambda e: e["X"] @ e["W_V"],
    "scores": lambda e: e["Q"] @ e["K"].T,
    "scaled": lambda e: e["scores"] / np.sqrt(e["Q"].shape[1]),
    "masked": lambda e: mask(e["scaled"]),
    "weights": lambda e: softmax(e["masked"]),
    "mixed": lambda e: multiply(e["weights"], e["V"]),
}


def change_cell(step: str, change: Callable[[float], float], cell: tuple[int, int]) -> Formula:
    def formula(env: Env) -> Matrix:
        matrix = RIGHT[step](env).copy()
        i, j = cell[0] % matrix.shape[0], cell[1] % matrix.shape[1]
        matrix[i, j] = change(matrix[i, j])
        return matrix

    return formula


MISTAKES: list[tuple[str, Formula]] = [
    ("Q", lambda e: e["X"] @ e["W_K"]),
    ("K", lambda e: e["X"] @ e["W_Q"]),
    ("V", lambda e: e["X"] @ e["W_Q"]),
    ("Q", change_cell("Q", lambda v: v + 3, (0, 1))),
    ("K", change_cell("K", lambda v: v - 2, (1, 0))),
    ("V", change_cell("V", lambda v: v + 5, (1, 1))),
    ("scores", lambda e: e["Q"] @ e["V"].T),
    ("scores", lambda e: e["K"] @ e["Q"].T),
    ("scores", change_cell("scores", lambda v: v + 4, (0, 0))),
    ("scores", change_cell("scores", lambda v: -v - 1, (1, 0))),
    ("scaled", lambda e: e["scores"]),
    ("scaled", lambda e: e["scores"] / e["Q"].shape[1]),
    ("scaled", lambda e: e["scores"] * np.sqrt(e["Q"].shape[1])),
    ("scaled", change_cell("scaled", lambda v: v + 0.7, (1, 0))),
    ("masked", lambda e: e["scaled"]),
    ("masked", lambda e: np.where(np.tril(np.ones(e["scaled"].shape)) > 0, e["scaled"], 0)),
    ("masked", lambda e: mask(e["scaled"].T)),
    ("weights", lambda e: softmax(e["masked"], axis=0)),
    ("weights", lambda e: softmax(e["scaled"])),
    ("weights", change_cell("weights", lambda v: v + 0.2, (1, 0))),
    ("mixed", lambda e: e["weights"].T @ e["V"]),
    ("mixed", lambda e: e["weights"] @ e["K"]),
    ("mixed", change_cell("mixed", lambda v: v + 1, (0, 0))),
    ("mixed", change_cell("mixed", lambda v: -v - 2, (1, 1))),
    ("mixed", change_cell("mixed", lambda v: v + 9, (1, 0))),
]


@dataclass(frozen=True)
class Student:
    """A student: the mistake (None: none), the form of the answer and the steps left out."""

    name: str
    mistake: tuple[str, Formula] | None
    form: str
    left_out: tuple[str, ...] = ()


FORMS = ("toml", "one file", "csv", "notebook", "latex", "text", "moodle")


def make_students(count: int) -> list[Student]:
    students = []
    for k in range(count):
        mistake = MISTAKES[k % 28] if k % 28 < len(MISTAKES) else None
        # The step before the mistake is not left out, so that the mistake is where it is.
        left_out = (STEPS[k % len(STEPS)],) if k % 9 == 4 and mistake is None else ()
        students.append(Student(f"student{k:03d}", mistake, FORMS[k % len(FORMS)], left_out))
    return students


def solve(given: Env, mistake: tuple[str, Formula] | None, decimals: int) -> Env:
    """Solve as by hand: every number is rounded and used rounded."""
    env = dict(given)
    for step in STEPS:
        formula = mistake[1] if mistake and mistake[0] == step else RIGHT[step]
        env[step] = np.round(formula(env), decimals)
    return {step: env[step] for step in STEPS}


def mark(given: Env, answer: Env, decimals: int) -> float:
    """Return the points: the share of each step's cells that are right or follow."""
    exact: Env = dict(given)
    carried: Env = dict(given)
    total, unit = 0.0, 10.0**-decimals
    for step in STEPS:
        exact[step] = RIGHT[step](exact)
        from_claims = RIGHT[step](carried)
        if step in answer:
            claimed = answer[step]
            tolerance = 3 * unit * (1 + np.abs(np.where(np.isfinite(claimed), claimed, 0)))
            with np.errstate(invalid="ignore"):
                good = np.zeros(claimed.shape, dtype=bool)
                for target in (exact[step], from_claims):
                    same = np.isneginf(claimed) & np.isneginf(target)
                    good |= same | (np.abs(claimed - target) <= tolerance)
            total += float(good.mean()) if (good & ~_is_decided(step, good)).any() else 0.0
        carried[step] = answer.get(step, from_claims)
    return total


def _is_decided(step: str, good: Matrix) -> Matrix:
    """Return the cells that the mask decides alone: they count nothing by themselves."""
    decided = np.zeros(good.shape, dtype=bool)
    if step in ("masked", "weights"):
        decided |= np.triu(np.ones(good.shape), 1) > 0
    if step == "weights":
        decided[0] = True
    return decided


def format_number(value: float, decimals: int) -> str:
    if np.isneginf(value):
        return "-inf"
    text = f"{value:.{decimals}f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def to_texts(answer: Env, decimals: int) -> dict[str, list[list[str]]]:
    return {s: [[format_number(v, decimals) for v in row] for row in m] for s, m in answer.items()}


def write_answers(folder: Path, student: Student, texts: list[dict[str, list[list[str]]]]) -> None:
    """Write the answers to all problems in the student's form."""
    tables = {f"problem-{k:02d}": {"claim": t} for k, t in enumerate(texts, start=1)}
    own = folder / student.name
    if student.form == "one file":
        (folder / f"{student.name}.toml").write_text(format_toml(tables))
        return
    if student.form == "moodle":
        own = folder / f"{student.name}_{4000 + int(student.name[-3:])}_assignsubmission_file_"
    own.mkdir(parents=True)
    if student.form in ("toml", "moodle"):
        for k, text in enumerate(texts, start=1):
            (own / f"problem-{k}.toml").write_text(format_toml({"claim": text}))
    elif student.form == "csv":
        rows = ["problem;step;row;1;2;3;4"]
        for k, text in enumerate(texts, start=1):
            for step, matrix in text.items():
                for i, row in enumerate(matrix, start=1):
                    cells = ";".join(cell.replace(".", ",") for cell in row)
                    rows.append(f"problem-{k:02d};{step};{i};{cells}")
        (own / "answers.csv").write_text("\n".join(rows))
    elif student.form == "notebook":
        cells = [
            {"cell_type": "code", "source": f"claim_{k}['{step}'] = {_to_python(matrix)}"}
            for k, text in enumerate(texts, start=1)
            for step, matrix in text.items()
        ]
        (own / "sheet.ipynb").write_text(json.dumps({"cells": cells, "nbformat": 4}))
    else:
        is_latex = student.form == "latex"
        parts = []
        for k, text in enumerate(texts, start=1):
            parts.append(rf"\section*{{Problem {k}}}" if is_latex else f"Problem {k}")
            for step, matrix in text.items():
                parts.append(f"{step} = {_to_latex(matrix) if is_latex else _to_python(matrix)}\n")
        (own / f"solution.{'tex' if is_latex else 'txt'}").write_text("\n".join(parts))


def _to_python(matrix: list[list[str]]) -> str:
    rows = [", ".join(f'"{c}"' if c == "-inf" else c for c in row) for row in matrix]
    return "[" + ", ".join(f"[{row}]" for row in rows) + "]"


def _to_latex(matrix: list[list[str]]) -> str:
    rows = [" & ".join(c.replace("-inf", r"-\infty") for c in row) for row in matrix]
    return r"\begin{bmatrix} " + r" \\ ".join(rows) + r" \end{bmatrix}"


def hand_in(folder: Path, sheet: Sheet, students: list[Student]) -> dict[str, float]:
    """Write the answers of all students; return the points that the marker here gives."""
    points = {}
    for student in students:
        texts, total = [], 0.0
        for exercise in sheet.exercises:
            given = {n: np.array(m, dtype=float) for n, m in exercise.table["given"].items()}
            answer = solve(given, student.mistake, sheet.decimals)
            answer = {s: m for s, m in answer.items() if s not in student.left_out}
            texts.append(to_texts(answer, sheet.decimals))
            total += mark(given, answer, sheet.decimals)
        write_answers(folder, student, texts)
        points[student.name] = total
    return points
