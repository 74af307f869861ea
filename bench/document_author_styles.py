"""More styles of authors: a German blog, notebooks of data frames, softmax in sentences, R."""

import json
import math
from collections.abc import Callable
from html import escape

import numpy as np

from document_items import Item, Rows, Story
from document_styles import cell, name_variable, plain, tex_matrix

Rng = np.random.Generator
_STEPS_IN_GERMAN = (
    "Als Nächstes rechnen wir",
    "Daraus ergibt sich",
    "Damit erhalten wir",
    "Setzen wir die Zahlen ein, so folgt",
)
_TOKENS = ("ich", "mag", "den", "alten", "Hund", "sehr", "gern", "heute")


def german_blog(stories: list[Story], rng: Rng) -> bytes:
    """Sentences, matrices and bold vectors with decimal commas: (0,5; 1,25)."""
    lines = ["---", "title: Aufmerksamkeit von Hand", "date: 2023-11-02", "---", ""]
    lines += ["Heute rechnen wir 1 Beispiel mit Papier und Bleistift; das dauert 10 Minuten.", ""]
    for number, story in enumerate(stories, start=1):
        lines += [f"## {number}. {story.title}", "", *map(plain, story.remarks), ""]
        for item in story.items:
            start = str(rng.choice(_STEPS_IN_GERMAN)) if item.formula else "Gegeben ist"
            middle = f" = {item.formula}" if item.formula else ""
            rows = [[cell(c).replace(".", ",").replace("-inf", "-∞") for c in r] for r in item.rows]
            form = rng.integers(3)
            if form == 0 and len(rows[0]) > 1:  # (0,1) would be two numbers
                body = "; ".join("(" + "; ".join(row) + ")" for row in rows)
                lines += [f"{start} **{plain(item.name)}**{plain(middle)} = [{body}].", ""]
            elif form == 1:
                braced = [
                    [c.replace(",", "{,}").replace("-∞", r"-\infty") for c in r] for r in rows
                ]
                lines += [f"{start}", "", f"$${item.name}{middle} = {tex_matrix(braced)}$$", ""]
            else:
                lines += [f"{start} ${item.name}{middle}$:", ""]
                lines += ["|" + " |" * len(rows[0]), "|" + "---|" * len(rows[0])]
                lines += ["| " + " | ".join(row) + " |" for row in rows] + [""]
    return "\n".join(lines).encode()


def frame_notebook(stories: list[Story], rng: Rng) -> bytes:
    """Data frames as a notebook keeps them: as a table in HTML and as text."""
    cells: list[dict[str, object]] = []
    for number, story in enumerate(stories, start=1):
        text = f"# {story.title} {number}\n" + plain(" ".join(story.remarks))
        cells.append({"cell_type": "markdown", "source": text})
        has_tokens = bool(rng.integers(2))
        for item in story.items:
            formula = f" = {item.formula}" if item.formula else ""
            if rng.random() < 0.5:
                cells.append({"cell_type": "markdown", "source": f"${item.name}{formula}$"})
            index = _name_axis(item, len(item.rows), 0, has_tokens)
            columns = _name_axis(item, len(item.rows[0]), 1, has_tokens)
            data: dict[str, object] = {"text/plain": _print_frame(item.rows, index, columns)}
            if rng.random() < 0.7:
                data["text/html"] = _frame_html(item.rows, index, columns)
            output = {"output_type": "execute_result", "data": data, "execution_count": 3}
            labels = ", index=tokens" if has_tokens else ""
            source = f"pd.DataFrame({name_variable(item)}{labels}).round(4)"
            cells.append({"cell_type": "code", "source": source, "outputs": [output]})
    return json.dumps({"nbformat": 4, "cells": cells}).encode()


def _name_axis(item: Item, size: int, axis: int, has_tokens: bool) -> list[str]:
    by_token = item.role in ("scores", "scaled", "masked", "weights")
    is_token = by_token or (axis == 0 and item.role in ("X", "Q", "K", "V", "mixed", "output"))
    if has_tokens and is_token and size <= len(_TOKENS):
        return [*_TOKENS[:size]]
    return [str(k) for k in range(size)]


def _print_frame(rows: Rows, index: list[str], columns: list[str]) -> str:
    table = [["", *columns], *([i, *map(cell, row)] for i, row in zip(index, rows, strict=True))]
    widths = [max(len(row[j]) for row in table) for j in range(len(table[0]))]
    lines = [row[0].ljust(widths[0]) + "".join(
        "  " + c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True)
    ) for row in table]  # fmt: skip
    return "\n".join(lines)


def _frame_html(rows: Rows, index: list[str], columns: list[str]) -> str:
    head = "".join(f"<th>{escape(c)}</th>" for c in columns)
    body = "".join(
        f"<tr>\n<th>{escape(i)}</th>" + "".join(f"<td>{cell(c)}</td>\n" for c in row) + "</tr>\n"
        for i, row in zip(index, rows, strict=True)
    )
    return (
        "<div><style scoped>.dataframe tbody tr th { vertical-align: top; }</style>\n"
        '<table border="1" class="dataframe">\n<thead><tr style="text-align: right;"><th></th>'
        f"{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>"
    )


def softmax_sentences(stories: list[Story], rng: Rng) -> bytes:
    """Every softmax row by row in running text, with its exponentials, or as fractions."""
    lines = ["A worked example in words", "", "I hope that 20 minutes are enough for it.", ""]
    for number, story in enumerate(stories, start=1):
        lines += [f"Example {number}", "", plain(" ".join(story.remarks)), ""]
        steps = {(item.role, item.part): item for item in story.items}
        for item in story.items:
            before = [steps.get((role, item.part)) for role in ("masked", "scaled", "scores")]
            source = next((step for step in before if step is not None), None)
            is_apart = item.role == "weights" and source is not None and not story.is_column
            if is_apart and all(map(_leads_to, source.rows, item.rows)):
                form = int(rng.integers(3))
                lines.append(f"Now the rows of {plain(item.name)} = {plain(item.formula)}:")
                rows = enumerate(zip(source.rows, item.rows, strict=True), start=1)
                lines += [_say_softmax(k, a, b, form) for k, (a, b) in rows]
                lines.append("")
                continue
            rows = ", ".join("[" + ", ".join(map(cell, row)) + "]" for row in item.rows)
            formula = f" = {plain(item.formula)}" if item.formula else ""
            lines += [f"We get {plain(item.name)}{formula} = [{rows}].", ""]
    return "\n".join(lines).encode()


def _exponentials(row: list[str]) -> list[float]:
    return [math.exp(float(cell(c))) for c in row]


def _leads_to(scores: list[str], weights: list[str]) -> bool:
    """Return True if a row of weights is the softmax of the printed scores."""
    powers = _exponentials(scores)
    if not any(powers):
        return False
    pairs = zip(powers, weights, strict=True)
    return all(abs(p / sum(powers) - float(w)) < 0.02 for p, w in pairs)


def _say_softmax(number: int, scores: list[str], weights: list[str], form: int) -> str:
    inside, result = ", ".join(map(cell, scores)), ", ".join(map(cell, weights))
    powers = [f"{p:.4f}" for p in _exponentials(scores)]
    total = f"{sum(_exponentials(scores)):.4f}"
    if form == 0:
        return f"Row {number}: softmax([{inside}]) = [{result}]."
    if form == 1:
        listed = ", ".join(powers)
        return f"Row {number}: softmax([{inside}]) = [{listed}] / {total} ≈ [{result}]."
    fractions = ", ".join(f"{p}/{total}" for p in powers)
    return f"Row {number}: softmax([{inside}]) = [{fractions}] ≈ [{result}]."


def r_console(stories: list[Story], rng: Rng) -> bytes:  # noqa: ARG001
    """Prints of R: [1,] before every row, [,1] above every column."""
    lines = []
    for number, story in enumerate(stories, start=1):
        lines += [f"# Example {number}: {story.title}", plain(" ".join(story.remarks)), "", "```r"]
        for item in story.items:
            name = plain(item.name)
            formula = f" = {plain(item.formula)}" if item.formula else ""
            lines += [f"# {name}{formula}", f"> print({item.role})"]
            cells = [[cell(c).replace("-inf", "-Inf") for c in row] for row in item.rows]
            width = max(4, *(len(c) for row in cells for c in row))
            lines.append(
                "     " + " ".join(f"[,{j + 1}]".rjust(width) for j in range(len(cells[0])))
            )
            lines += [f"[{i},] " + " ".join(c.rjust(width) for c in row)
                      for i, row in enumerate(cells, start=1)]  # fmt: skip
            lines.append("")
        lines += ["```", ""]
    return "\n".join(lines).encode()


AUTHOR_STYLES: dict[str, tuple[str, Callable[[list[Story], Rng], bytes]]] = {
    "german blog": ("blog.md", german_blog),
    "data frames": ("frames.ipynb", frame_notebook),
    "sentences": ("words.txt", softmax_sentences),
    "R": ("session.md", r_console),
}
