"""Write docs/lectures.md: what is wrong in the lecture notes' worked examples, cell by cell.

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

Written by `python docs/lectures.py --write` from `lectures/*.toml`, which hold the numbers as the
five sets of notes print them (L0 … L4, in order). Rows and columns are counted from 1. *Exact* is
what the formula gives; *carried* is what the numbers printed before lead to. What merely follows
from an earlier mistake is not held against a number.
"""

AFTERWORD = """\
## What no problem file can hold

- L0 writes a sigmoid where every printed number is a softmax's: in the general formula, in the
  set-up of example 2, and in each line of the masked example.
- L3 gives sizes for two heads that do not fit together: X of 4×2, W of 2×4, so Q of 2×2; a query of
  two numbers split between two heads leaves one each, not two. The sizes are those of a whole W of
  4×4 whose halves belong to the heads.
- L3 calls X Xᵀ the similarity of words that are its columns: that product compares features. Words
  as columns are compared by XᵀX.
- L4 writes QᵀK beside queries that are rows, and adds the mask before dividing by √d_k: the first
  needs Q Kᵀ, the second is harmless, because −∞ divided stays −∞.
- L1 and L4 work no numbers out.
"""


def main() -> None:
    """Print the page, or write it."""
    page = written()
    if "--write" in sys.argv:
        (HERE / "lectures.md").write_text(page, encoding="utf-8")
    else:
        sys.stdout.write(page)


def written() -> str:
    """Check every lecture and put the page together."""
    files = sorted((HERE.parent / "lectures").glob("*.toml"))
    reports = [(file, Problem.load(file).check()) for file in files]
    return "\n".join([TITLE, _overview(reports), *(_section(*one) for one in reports), AFTERWORD])


def _overview(reports: list[tuple[Path, Report]]) -> str:
    rows = ["| example | right | rounded | follows | wrong | blank |", "|---|--:|--:|--:|--:|--:|"]
    for file, report in reports:
        anchor = report.problem.title.lower().replace(" ", "-")
        anchor = "".join(c for c in anchor if c.isalnum() or c == "-")
        numbers = " | ".join(str(n) for n in report.counts.values())
        rows.append(f"| [{file.stem}](#{anchor}) | {numbers} |")
    return "\n".join(rows) + "\n"


def _section(file: Path, report: Report) -> str:
    told = [f"## {report.problem.title}\n", f"`lectures/{file.name}`\n", _comment(file)]
    rows = [row for one in range(len(report.steps)) for row in _rows(report, one)]
    if rows:
        head = [
            "| step | cell | printed | exact | carried | verdict |",
            "|---|---|--:|--:|--:|---|",
        ]
        told.append("\n".join([*head, *rows]) + "\n")
        told += [_finding(first) for first in report.wrong_cells]
    else:
        told.append("Every printed number is right, or rounded.\n")
    return "\n".join(told)


def _comment(file: Path) -> str:
    """The remarks at the head of the file are the prose about it."""
    lines = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").removeprefix(" "))
    return "\n".join(lines) + "\n"


def _rows(report: Report, index: int) -> list[str]:
    """A row of the table for each cell that is wrong or follows."""
    panel, one = report.to_worked_problem().steps[index], report.steps[index]
    carried = report.problem.orient(one.carried_matrix.mid)
    exact = report.problem.orient(report.problem.exact_matrices[one.step.key].mid)
    return [
        f"| {panel.name} | {i + 1}, {j + 1} | {cell.text} | {format_decimal(float(exact[i, j]), 6)} "
        f"| {format_decimal(float(carried[i, j]), 6)} | {cell.mark} |"
        for i, row in enumerate(panel.cells)
        for j, cell in enumerate(row)
        if cell.mark in ("wrong", "follows")
    ]


def _finding(first: WrongCell) -> str:
    row, column = first.cell
    causes = "; ".join(f"`{c.name}` ({c.reproduced_share}): {c.description}" for c in first.causes)
    again = " (reprint)" if first.reprint else ""
    return f"- **{first.key}{again}** at {row + 1}, {column + 1}: {causes}.\n"


if __name__ == "__main__":
    main()
