"""Match the names that students write with the problems and steps of a sheet."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
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
_MIN_MISSPELT, _LONG_NAME, _MAX_EDITS = 4, 6, 2  # letters


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


def _count_edits(first: str, second: str) -> int:
    """Return how many letters are changed, left out, added or exchanged with their neighbor.

    >>> _count_edits("wieghts", "weights"), _count_edits("scors", "scores")
    (1, 1)
    """
    if abs(len(first) - len(second)) > _MAX_EDITS:
        return _MAX_EDITS + 1
    rows = [list(range(len(second) + 1))]
    for i, a in enumerate(first, start=1):
        row = [i]
        for j, b in enumerate(second, start=1):
            cost = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (a != b))
            if i > 1 and j > 1 and a == second[j - 2] and first[i - 2] == b:
                cost = min(cost, rows[-2][j - 2] + 1)
            row.append(cost)
        rows.append(row)
    return rows[-1][-1]


class StepNames:
    """The names under which the steps of a problem are found."""

    def __init__(self, problem: SheetProblem) -> None:
        kind = problem.problem.kind
        self._has_usual_names = kind.name == "attention"
        self._givens = {_flatten(name) for name in problem.table.get("given", {})}
        self._known_words = {_flatten(n) for n in (*kind.matrices, *kind.setting_names)}
        self._known_words |= self._givens
        if self._has_usual_names:
            self._known_words |= ATTENTION_ROLES.keys()
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
        last_word = name.split()[-1] if name.strip() else ""
        numbered = last_word if last_word[-1:].isdigit() else ""  # So we get mixed.1
        path = self.find_exact_path(name) or self.find_exact_path(numbered)
        is_given = _flatten(name) in self._givens
        if path is None and self._has_usual_names and not is_given:
            path = self._find_usual_name(name)
        return path or self._find_misspelt(name)

    def find_exact_path(self, name: str) -> tuple[str, ...] | None:
        """Return the path of a step under one of the names that the sheet prints."""
        return self._paths.get(_flatten(name))

    def _find_usual_name(self, name: str) -> tuple[str, ...] | None:
        """Return the path of a step of attention under another name: A, QK^T, Attention weights."""
        words = name.split()
        if len(words) > _MAX_NAME_WORDS:
            return None
        roles = {ATTENTION_ROLES.get(word.lower()) for word in words}
        role = ATTENTION_ROLES.get(normalize_name(name).lower())
        role = role or (roles.pop() if len(roles) == 1 else None)  # queries Q
        role = role or infer_step(parse_formula(name[:80]))
        role = role or find_caption_role(name.replace("_", " ")) or ""
        if role in ("output", "context") and role not in self._paths:
            role = "mixed"
        return self._paths.get(_flatten(role))

    def _find_misspelt(self, name: str) -> tuple[str, ...] | None:
        """Return the path of the step whose name is one or two letters different: wieghts."""
        word = _flatten(name)
        if len(word) < _MIN_MISSPELT or word in self._known_words:
            return None
        most = 1 if len(word) < _LONG_NAME else _MAX_EDITS
        digits = re.sub(r"\D", "", word)
        likeness = {
            known: SequenceMatcher(None, word, known).ratio()
            for known in self._paths
            if re.sub(r"\D", "", known) == digits and _count_edits(word, known) <= most
        }
        best = [known for known in likeness if likeness[known] == max(likeness.values())]
        return self._paths[best[0]] if len(best) == 1 else None

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
