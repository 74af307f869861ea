"""Problem sheets: generated problems that can be solved by hand, with their answer key."""

from workings.problems.sheets.sheet import Exercise, Sheet, make_sheet

__all__ = ["Exercise", "Sheet", "make_sheet"]
