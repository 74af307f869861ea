"""Write docs/lectures.md: the errors in the worked examples of the lecture notes, cell by cell.

python docs/lectures.py            print it
python docs/lectures.py --write    write it
"""

import sys
from pathlib import Path

from workings.problems import Problem, Report
from workings.problems.check import WrongCell
from workings.problems.notation import format_decimal

HERE = Path(__file__).parent
TITLE = """\
# What the lecture notes' worked examples get right and wrong

`python docs/lectures.py --write` writes this page from `lectures/*.toml`. Those files have the
numbers as five sets of lecture notes print them (L0 … L4, in order). Rows and columns are counted
from 1. *Exact* is the result of the formula. *Carried* is computed from the numbers printed before.
A number that correctly follows from an earlier mistake is marked *follows*, not *wrong*.
"""

AFTERWORD = """\
## Errors outside the worked examples

- L0 writes a sigmoid where all printed numbers are those of a softmax: in the general formula, in
  the setup of example 2, and in each line of the masked example.
- L3 gives inconsistent sizes for two heads: X is 4×2 and W is 2×4, so Q is 2×2. A query of two
  numbers split between two heads leaves one number each, not two. The sizes fit a full W of 4×4
  with one half per head.
- L3 calls X Xᵀ the similarity of words that are its columns. That product compares features. Words
  in columns are compared by XᵀX.
- L4 writes QᵀK for queries that are rows; it should be Q Kᵀ. L4 also adds the mask before dividing
  by √d_k. That changes nothing, because −∞ divided by a number is still −∞.
- L1 and L4 have no worked numbers.
"""


def main() -> None:
    """Print or write the page."""
    page = build_page()
    if "--write" in sys.argv:
        (HERE / "lectures.md").write_text(page, encoding="utf-8")
    else:
        sys.stdout.write(page)


def build_page() -> str:
    """Check every lecture and return the page."""
    files = sorted((HERE.parent / "lectures").glob("*.toml"))
    reports = [(file, Problem.load(file).check()) for file in files]
    return "\n".join(
        [TITLE, _overview(reports), *(_section(*checked) for checked in reports), AFTERWORD]
    )


def _overview(reports: list[tuple[Path, Report]]) -> str:
    rows = ["| example | right | rounded | follows | wrong | blank |", "|---|--:|--:|--:|--:|--:|"]
    for file, report in reports:
        anchor = report.problem.title.lower().replace(" ", "-")
        anchor = "".join(c for c in anchor if c.isalnum() or c == "-")
        numbers = " | ".join(str(n) for n in report.counts.values())
        rows.append(f"| [{file.stem}](#{anchor}) | {numbers} |")
    return "\n".join(rows) + "\n"


def _section(file: Path, report: Report) -> str:
    parts = [f"## {report.problem.title}\n", f"`workings check {file.stem}`\n", _comment(file)]
    rows = [row for index in range(len(report.steps)) for row in _rows(report, index)]
    if rows:
        head = [
            "| step | cell | printed | exact | carried | verdict |",
            "|---|---|--:|--:|--:|---|",
        ]
        parts.append("\n".join([*head, *rows]) + "\n")
        parts += [_finding(first) for first in report.wrong_cells]
        parts += [f"- Reprinted differently: {c.describe()}.\n" for c in report.reprinted_cells]
    elif report.steps:
        parts.append("Every printed number is right or rounded.\n")
    else:
        parts.append("No number is printed to check; `workings solve` works it.\n")
    return "\n".join(parts)


def _comment(file: Path) -> str:
    """Return the comment at the top of a problem file."""
    lines = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").removeprefix(" "))
    return "\n".join(lines) + "\n"


def _rows(report: Report, index: int) -> list[str]:
    """Return one row of the table for each cell that is wrong or follows."""
    panel, checked = report.to_worked_problem().steps[index], report.steps[index]
    carried_values = report.problem.orient(checked.carried_matrix.mid)
    exact = report.problem.orient(report.problem.exact_matrices[checked.step.key].mid)
    return [
        f"| {panel.name} | {i + 1}, {j + 1} | {cell.text} "
        f"| {format_decimal(float(exact[i, j]), 6)} "
        f"| {format_decimal(float(carried_values[i, j]), 6)} | {cell.mark} |"
        for i, row in enumerate(panel.cells)
        for j, cell in enumerate(row)
        if cell.mark in ("wrong", "follows")
    ]


def _finding(first: WrongCell) -> str:
    row, column = first.cell
    causes = "; ".join(f"`{c.name}` ({c.reproduced_share}): {c.description}" for c in first.causes)
    reprint = " (reprint)" if first.reprint else ""
    return f"- **{first.key}{reprint}** at {row + 1}, {column + 1}: {causes}.\n"


if __name__ == "__main__":
    main()
