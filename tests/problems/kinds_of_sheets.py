"""Kinds of sheets for tests that are dear: one of each family, the others in slow tests."""

from functools import cache

import pytest

from workings.problems.sheets import Sheet, make_sheet
from workings.problems.sheets.sheet_kinds import SHEET_FAMILIES, SHEET_KINDS
from workings.render.sheets import render_files

# These take several times as long as the others of their families, which share their code.
DEAR_KINDS = ("bidirectional_lstm", "decoder_block", "block", "grouped", "lstm_gradient")

ONE_OF_EACH_FAMILY = [
    kind.name if k == 0 else pytest.param(kind.name, marks=pytest.mark.slow)
    for kinds in SHEET_FAMILIES.values()
    for k, kind in enumerate(kinds)
]
ALL_BUT_DEAR = [
    pytest.param(kind, marks=pytest.mark.slow) if kind in DEAR_KINDS else kind
    for kind in SHEET_KINDS
]


@cache
def make_sheet_of_one(kind: str) -> Sheet:
    """Make a sheet with one small problem."""
    return make_sheet(kind, SHEET_KINDS[kind].sizes[0], 1, 5)


@cache
def render_sheet_of_one(kind: str) -> dict[str, str]:
    return render_files(make_sheet_of_one(kind))
