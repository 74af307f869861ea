"""Kinds of sheets for tests that are dear: one of each family, the others in slow tests."""

import pytest

from workings.problems.sheets.sheet_kinds import SHEET_FAMILIES

ONE_OF_EACH_FAMILY = [
    kind.name if k == 0 else pytest.param(kind.name, marks=pytest.mark.slow)
    for kinds in SHEET_FAMILIES.values()
    for k, kind in enumerate(kinds)
]
