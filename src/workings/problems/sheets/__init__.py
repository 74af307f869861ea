"""Problem sheets: problems that are pleasant to work and tell mistakes apart, with their key."""

from workings.problems.sheets.sheet import Exercise, Sheet, make_sheet

__all__ = ["Exercise", "Sheet", "make_sheet"]
