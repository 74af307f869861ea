"""The content of a printed sheet, independent of HTML, LaTeX, notebook or Moodle quiz."""

from dataclasses import dataclass

from workings.problems.worked_problem import Panel


@dataclass(frozen=True)
class PrintedStep:
    """A step to compute, or in which to find a mistake.

    `panel` is the table to print, blank or with claimed numbers. `solution` is the correct text of
    each cell, `tolerance` how far rounding at every step may lead away from it.
    """

    key: str
    panel: Panel
    solution: list[list[str]]
    tolerance: list[list[float]]


@dataclass(frozen=True)
class PrintedMistake:
    """A planted mistake; row and column are counted from 1.

    The first of the `names` was planted, the others lead to the same numbers.
    """

    key: str
    step_name: str
    row: int
    column: int
    claimed: str
    expected: str
    names: tuple[str, ...]
    description: str


@dataclass(frozen=True)
class PrintedProblem:
    """One problem of a printed sheet."""

    number: int
    heading: str
    instructions: list[str]
    givens: list[Panel]
    steps: list[PrintedStep]
    mistake: PrintedMistake | None = None


@dataclass(frozen=True)
class PrintedSheet:
    """The content of a sheet; `choices` are the names of mistakes that students choose from."""

    title: str
    subtitle: str
    instructions: list[str]
    problems: list[PrintedProblem]
    choices: list[str]
    decimals: int


def block_part_prefix(panel: Panel) -> str:
    """Return the part of a block that a step belongs to: `norm 1, ` or "" for other steps."""
    part = panel.name.rpartition(".")[0].replace("_", " ")
    return f"{part}, " if part else ""
