"""Matrices pasted as text: LaTeX, a NumPy or PyTorch print, Markdown, CSV."""

from workings.errors import UserError


def rows_of_text(_text: str, where: str) -> list[list[str]]:
    """Split a pasted matrix into rows of cells."""
    raise UserError(f"{where}: not a matrix")
