"""Match the names that students write with the problems and steps of a sheet."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from workings.errors import UserError
from workings.problems.documents.formulas import (
    ATTENTION_ROLES,
    infer_step,
    normalize_name,
    parse_formula,
)
from workings.problems.documents.words import find_caption_role
from workings.problems.grading.marking import SheetProblem
from workings.problems.labels import read_label
from workings.problems.numbers import Number, read_number
from workings.problems.problem_file import format_claim_path
from workings.problems.solution import format_step_title

PROBLEM_WORDS = (
    "problem|prob|exercise|ex|question|task|assignment|aufgabe|übung|frage|probl[eè]me|exercice"
    "|question|bài|câu|问题|题目|练习|题|題|第"
)
NUMERALS = (
    "i|ii|iii|iv|v|vi|vii|viii|ix|x|one|two|three|four|five|six|eins|zwei|drei|vier|fünf"
    "|un|deux|trois|quatre|cinq|một|hai|ba|bốn|năm|一|二|三|四|五|六"
)
_NUMERAL_VALUES = {
    numeral: value
    for numerals in (
        "i ii iii iv v vi vii viii ix x",
        "one two three four five six",
        "eins zwei drei vier fünf",
        "un deux trois quatre cinq",
        "một hai ba bốn năm",
        "一 二 三 四 五 六",
    )
    for value, numeral in enumerate(numerals.split(), start=1)
}
_NUMBERED = re.compile(
    rf"(?<![^\W\d_])(?:(?:{PROBLEM_WORDS}|q|p|nr|no)[\s_\-.:#]*0*(\d{{1,3}})(?!\d)"
    rf"|(?:{PROBLEM_WORDS})(?:[\s_\-.:#]+|(?=[^\x00-\u2000]))({NUMERALS})(?![^\W\d_](?<![题題])))",
    re.IGNORECASE,
)
_LONE_NUMBER = re.compile(r"(?:^|[\s_\-(])0*(\d{1,3})(?:$|[\s_\-.)])")
_COPY = re.compile(r"\s*(?:\(\d+\)|- ?copy(?: ?\(\d+\))?|- ?kopie|copy of )\s*", re.IGNORECASE)
_MAX_NAME_WORDS = 6
_NEAR_NAME = 0.84  # gate_i and gate_f are 0.8 alike


def find_problem_name(text: str, problems: Sequence[str]) -> str | None:
    """Return the problem that a file or heading names; None if it names none.

    >>> find_problem_name("Problem-1 (2)", ["problem-01", "problem-02"])
    'problem-01'
    """
    text = _COPY.sub(" ", text).strip()
    if text in problems:
        return text
    match = _NUMBERED.search(text) or _LONE_NUMBER.search(text)
    if match is None:
        return None
    names = {int(name.rpartition("-")[2]): name for name in problems}
    number = int(match[1]) if match[1] else _NUMERAL_VALUES[match[2].casefold()]
    return names.get(number)


def find_path_problem(path: str, problems: Sequence[str]) -> str | None:
    """Return the problem that a file's path names: the file, a folder, or a number alone.

    >>> find_path_problem("week 3/Exercise 2/answers", ["problem-01", "problem-02"])
    'problem-02'
    """
    *folders, file = path.split("/")
    parts = [file, *reversed(folders)]
    named = (find_problem_name(part, problems) for part in parts if _NUMBERED.search(part))
    numbers = (part for part in (file, *(f for f in reversed(folders) if f.strip().isdecimal())))
    return next(filter(None, named), None) or next(
        filter(None, (find_problem_name(part, problems) for part in numbers)), None
    )


def remove_problem_name(text: str) -> str:
    """Return a file's name without the problem that it names: "Q" for "p1_Q"."""
    return _NUMBERED.sub("", text)


def names_unknown_problem(text: str, problems: Sequence[str]) -> bool:
    """Return True if a file is named like a problem that the sheet does not have: problem-99."""
    match = re.fullmatch(r"problem[\s_\-]*(\d{1,3})", _COPY.sub(" ", text).strip(), re.IGNORECASE)
    return match is not None and find_problem_name(text, problems) is None


def _flatten(name: str) -> str:
    """Return a name for comparison, without case and punctuation."""
    return re.sub(r"[\W_]", "", name).casefold()


class StepNames:
    """The names under which the steps of a problem are found."""

    def __init__(self, problem: SheetProblem) -> None:
        kind = problem.problem.kind
        self._has_usual_names = kind.name == "attention"
        self._paths: dict[str, tuple[str, ...]] = {}
        self._shapes: dict[tuple[str, ...], tuple[int, int]] = {}
        self._labels: dict[tuple[str, ...], tuple[str, ...]] = {}
        for step in problem.problem.asked_steps:
            path = tuple(format_claim_path(kind, step.key).split("."))
            matrix = problem.problem.exact_matrices[step.key].mid
            self._shapes[path] = problem.problem.orient(matrix).shape
            self._labels[path] = step.labels
            title = format_step_title(step, problem.problem)
            for name in ("".join(path), step.key, title):
                self._paths.setdefault(_flatten(name), path)

    def find_path(self, name: str) -> tuple[str, ...] | None:
        """Return the path of a step in a claim: `("head", "2", "scores")` for `scores.2`."""
        path = self.find_exact_path(name)
        return path if path or not self._has_usual_names else self._find_usual_name(name)

    def find_exact_path(self, name: str) -> tuple[str, ...] | None:
        """Return the path of a step under one of the names that the sheet prints."""
        return self._paths.get(_flatten(name))

    def find_misspelled_path(self, name: str, value: Any) -> tuple[str, ...] | None:
        """Return the path of the step that a matrix fits and whose name is almost the same."""
        flat = _flatten(name)
        for near in get_close_matches(flat, self._paths, n=1, cutoff=_NEAR_NAME):
            if re.findall(r"\d+", near) == re.findall(r"\d+", flat):
                path = self._paths[near]
                return path if self.count_cells(path, value) is not None else None
        return None

    def _find_usual_name(self, name: str) -> tuple[str, ...] | None:
        """Return the path of a step of attention under another name: A, QK^T, Attention weights."""
        if len(name.split()) > _MAX_NAME_WORDS:
            return None
        role = ATTENTION_ROLES.get(normalize_name(name).lower())
        role = role or infer_step(parse_formula(name[:80]))
        role = role or find_caption_role(name.replace("_", " ")) or ""
        if role == "output" and role not in self._paths:
            role = "mixed"
        return self._paths.get(_flatten(role))

    def get_shape(self, path: tuple[str, ...]) -> tuple[int, int]:
        """Return the rows and columns of a step, in the problem's convention."""
        return self._shapes[path]

    def find_shape(self, path: tuple[str, ...]) -> tuple[int, int] | None:
        """Return the rows and columns of a step; None if there is no such step."""
        return self._shapes.get(path)

    def list_labels(self) -> set[str]:
        """Return the words that are cells of some step."""
        return {label for labels in self._labels.values() for label in labels}

    def is_cell(self, path: tuple[str, ...], text: Any) -> bool:
        """Return True if a text is a number or, in a step whose cells are words, such a word."""
        try:
            self._read_cell(path, text)
        except UserError:
            return False
        return True

    def count_cells(self, path: tuple[str, ...], value: Any) -> int | None:
        """Return how many cells of a matrix are filled; None if it does not fit its step."""
        shape = self.find_shape(path)
        if shape is None or not isinstance(value, list):
            return None
        rows = value if all(isinstance(row, list) for row in value) else [value]
        if len(rows) != shape[0] or any(len(row) != shape[1] for row in rows):
            return None
        try:
            return sum(self._read_cell(path, cell) is not None for row in rows for cell in row)
        except UserError:
            return None

    def _read_cell(self, path: tuple[str, ...], cell: Any) -> Number | None:
        labels = self._labels.get(path, ())
        return read_label(cell, "", labels) if labels else read_number(cell, "")
