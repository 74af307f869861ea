"""Mark the answer to a planted mistake: the first wrong number, and the name of the mistake."""

from collections.abc import Mapping
from typing import Any

from workings.errors import UserError
from workings.problems.check import Report
from workings.problems.numbers import read_number

FINDING_COLUMNS = ("step", "cell", "mistake")  # each worth a point
_KEYS = (*FINDING_COLUMNS, "head", "t", "row", "column", "should")


def mark_finding(report: Report, finding: Any) -> dict[str, float]:
    """Return the share of each part: the step, the cell and the mistake.

    The name of the mistake or, instead, the number that `should` stand there is accepted.
    """
    first = report.first
    assert first is not None, "a sheet with mistakes has one in every problem"
    if not isinstance(finding, Mapping):
        raise UserError('found: expected a table: [found] step = "scores", cell = [1, 2]')
    for key in finding:
        if key not in _KEYS:
            raise UserError(
                f"found.{key[:40]}: expected step (and head or t), cell, mistake or should"
            )
    part = finding.get("head", finding.get("t"))
    step = str(finding.get("step", "")).strip() + (f".{part}" if part is not None else "")
    is_step = step == first.key
    is_cell = is_step and _read_cell(finding) == [k + 1 for k in first.cell]
    name = str(finding.get("mistake", "")).strip().lower().replace(" ", "-").replace("_", "-")
    is_mistake = name in [cause.name for cause in first.causes]
    is_mistake |= is_cell and _is_expected(report, finding.get("should"))
    return {"step": float(is_step), "cell": float(is_cell), "mistake": float(is_mistake)}


def _read_cell(finding: Mapping[str, Any]) -> list[int]:
    """Return row and column, counted from 1; [] if they are not whole numbers."""
    cell = finding.get("cell", [finding.get("row"), finding.get("column")])
    if not isinstance(cell, list):
        return []
    texts = [str(part).strip() for part in cell]
    return [int(text) for text in texts] if all(text.isdecimal() for text in texts) else []


def _is_expected(report: Report, should: Any) -> bool:
    """Return True if a number is the right one, up to the decimals it is written with."""
    first = report.first
    if should is None or first is None or should == "?":
        return False
    number, claimed = (read_number(text, "found.should") for text in (should, first.claimed))
    if number is not None and claimed is not None and number.value == claimed.value:
        return False
    if number is None or number.places is None:
        return number is not None and number.value == first.judged_value
    return abs(number.value - first.judged_value) <= 10.0 ** -max(number.places, 1)
