"""What a problem sheet looks like, before anybody decides on HTML, LaTeX, a notebook or a quiz."""

from dataclasses import dataclass

from workings.problems.worked_problem import Panel


@dataclass(frozen=True)
class PrintedStep:
    """A step to work out, or one to look for a mistake in.

    `panel` holds what is printed: nothing, or what somebody claims. `right`: what belongs there;
    `tolerance`: how far a solver who rounds at every step may honestly be from it.
    """

    key: str
    panel: Panel
    solution: list[list[str]]
    tolerance: list[list[float]]


@dataclass(frozen=True)
class PrintedMistake:
    """The mistake that was planted; row and column are counted from 1.

    `names`: how it is called; the first is what was planted, the others lead to the same numbers.
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
    """One problem of a sheet."""

    number: int
    heading: str
    instructions: list[str]
    givens: list[Panel]
    steps: list[PrintedStep]
    mistake: PrintedMistake | None = None


@dataclass(frozen=True)
class PrintedSheet:
    """A whole sheet. `choices`: the mistakes that may have been made, where one is to be found."""

    title: str
    subtitle: str
    instructions: list[str]
    problems: list[PrintedProblem]
    choices: list[str]
    decimals: int


def block_part_prefix(panel: Panel) -> str:
    """Name the part of a block that a step belongs to, `norm 1, `; other steps have none."""
    part = panel.name.rpartition(".")[0].replace("_", " ")
    return f"{part}, " if part else ""
