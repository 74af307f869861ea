"""What a problem sheet looks like, before anybody decides on HTML, LaTeX, a notebook or a quiz."""

from dataclasses import dataclass

from workings.views.worked import Panel


@dataclass(frozen=True)
class Asked:
    """A step to work out, or one to look for a mistake in.

    `panel` holds what is printed: nothing, or what somebody claims. `right`: what belongs there;
    `tolerance`: how far a solver who rounds at every step may honestly be from it.
    """

    key: str
    panel: Panel
    right: list[list[str]]
    tolerance: list[list[float]]


@dataclass(frozen=True)
class Fault:
    """The mistake that was planted; row and column are counted from 1.

    `names`: how it is called; the first is what was planted, the others lead to the same numbers.
    """

    key: str
    where: str
    row: int
    column: int
    claimed: str
    right: str
    names: tuple[str, ...]
    says: str


@dataclass(frozen=True)
class Task:
    """One problem of a sheet."""

    number: int
    heading: str
    tell: list[str]
    givens: list[Panel]
    steps: list[Asked]
    fault: Fault | None = None


@dataclass(frozen=True)
class Page:
    """A whole sheet. `choices`: the mistakes that may have been made, where one is to be found."""

    title: str
    subtitle: str
    tell: list[str]
    tasks: list[Task]
    choices: list[str]
    decimals: int


def part_of(panel: Panel) -> str:
    """Name the part of a block that a step belongs to, `norm 1, `; other steps have none."""
    part = panel.name.rpartition(".")[0].replace("_", " ")
    return f"{part}, " if part else ""
