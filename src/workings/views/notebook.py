"""A Jupyter notebook (format 4.5) out of its cells."""

import json
import re
from dataclasses import dataclass
from html import escape

_MARKS = re.compile(r"([\\`*_{}\[\]#|$~])")


@dataclass(frozen=True)
class Note:
    """A cell of Markdown."""

    text: str


@dataclass(frozen=True)
class Code:
    """A cell of Python."""

    text: str


def markdown_text(text: str) -> str:
    r"""Write text so that Markdown, HTML and formulas leave it alone.

    >>> markdown_text("<b> $x_1$")
    '&lt;b&gt; \\$x\\_1\\$'
    """
    return _MARKS.sub(r"\\\1", escape(text, quote=False))


def render(cells: list[Note | Code]) -> str:
    """Write the notebook's file; the same cells give the same bytes."""
    written = [_cell(cell, number) for number, cell in enumerate(cells, 1)]
    notebook = {
        "cells": written,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _cell(cell: Note | Code, number: int) -> dict[str, object]:
    source = cell.text.splitlines(keepends=True)
    common = {"id": f"cell-{number}", "metadata": {}, "source": source}
    if isinstance(cell, Note):
        return {"cell_type": "markdown", **common}
    return {"cell_type": "code", "execution_count": None, "outputs": [], **common}
