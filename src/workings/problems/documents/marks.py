"""Where the verdicts of an example stand in its document: by matrix and cell, by number."""

from dataclasses import dataclass

from workings.problems.check import Report
from workings.problems.documents.entries import Entry, is_scalar


@dataclass(frozen=True)
class Mark:
    """The verdict of a printed cell; `is_first` marks the first wrong one of its example."""

    verdict: str
    is_first: bool = False


def find_marks(report: Report, entries: list[Entry]) -> dict[int, list[list[Mark | None]]]:
    """Return the verdicts of the printed matrices by the index of their grid."""
    marks: dict[int, list[list[Mark | None]]] = {}
    panels = report.to_dict()["steps"]
    part_name = report.problem.kind.part_name or ""
    first = report.first
    for entry in entries:
        grid, rows = entry.statement.value_grid, entry.rows
        if grid < 0 or rows is None or entry.is_factor or grid in marks:
            continue
        for panel in panels:
            part = panel.get("head") if part_name == "head" else panel.get("t")
            if panel["step"] != entry.role or part != entry.part or panel.get("again"):
                continue
            cells = panel["cells"]
            is_column = report.problem.column_vectors
            if entry.row is not None and not is_scalar(rows):
                line = (
                    [c[entry.row] for c in cells] if is_column else cells[entry.row : entry.row + 1]
                )
                cells = [[v] for v in line] if is_column else line
            is_first_step = first is not None and first.key == _key(entry, part)
            marks[grid] = [
                [
                    Mark(
                        str(v), bool(is_first_step and first and _is_cell(first.cell, entry, i, j))
                    )
                    for j, v in enumerate(row)
                ]
                for i, row in enumerate(cells)
            ]
    return marks


def _key(entry: Entry, part: int | None) -> str:
    return entry.role if part is None else f"{entry.role}.{part}"


def _is_cell(cell: tuple[int, int], entry: Entry, i: int, j: int) -> bool:
    offset = entry.row or 0
    return cell == (i + offset, j)
