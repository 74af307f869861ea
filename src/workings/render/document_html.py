"""An annotated page of a document: its lines and matrices, with the verdict of every number."""

import re

from workings.problems.documents.marks import Mark, find_marks
from workings.problems.documents.reports import DocumentReport, ExampleReport
from workings.problems.documents.sources import Grid, Place
from workings.render.page import escape_html, html_page

_GRID = re.compile("\ue000(\\d+)\ue001")
_MAX_LINES = 20_000
_STYLE = """
.doc{max-width:60rem;line-height:1.6}
.doc .line{white-space:pre-wrap;margin:0;overflow-wrap:anywhere}
.doc .place{color:#5c6370;font-size:.8em;display:inline-block;min-width:5em;user-select:none}
.doc table{display:inline-table;vertical-align:middle;border-collapse:collapse;margin:.2em .4em;
border-left:1.5px solid;border-right:1.5px solid}
.doc td{padding:.1em .6em;text-align:right;font-variant-numeric:tabular-nums}
.doc .wrong{background:#ffd7d5;text-decoration:underline wavy #b3261e}
.doc .follows{background:#fff0c2}
.doc .right,.doc .rounded{background:#e3f4e1}
.doc .first{outline:3px solid #b3261e;font-weight:bold}
.doc .unread{border:1.5px dashed #8a6d00}
.doc .note{border-left:4px solid #4a6fa5;padding:.2em .8em;margin:.5em 0;background:#eef3fa;
color:#111}
.doc .note.bad{border-color:#b3261e;background:#fdeeed}
@media(prefers-color-scheme:dark){.doc .wrong,.doc .follows,.doc .right,.doc .rounded{color:#111}}
"""


def render_document(report: DocumentReport, title: str) -> str:
    """Return an HTML page with the document's lines; each example has its verdict above it."""
    marks: dict[int, list[list[Mark | None]]] = {}
    notes: dict[Place, list[ExampleReport]] = {}
    for example in report.examples:
        notes.setdefault(example.place, []).append(example)
        if example.report is not None:
            marks |= find_marks(example.report, example.entries)
    unread = {str(u.place): u.why for u in report.unread}
    parts = [f"<p>{escape_html(report.summarize_counts())}</p>"]
    place: Place | None = None
    for line in report.source.lines[:_MAX_LINES]:
        if line.place != place:
            place = line.place
            parts += [_render_note(example) for example in notes.pop(place, [])]
        if not line.text.strip():
            continue
        body = _render_line(line.text, report.source.grids, marks, unread)
        tag = f"h{min(line.level + 1, 6)}" if line.level else "p"
        label = f'<span class="place">{escape_html(str(place))}</span>'
        parts.append(f'<{tag} class="line">{label}{body}</{tag}>')
    for examples in notes.values():
        parts += [_render_note(example) for example in examples]
    content = f"<style>{_STYLE}</style><div class='doc'>{''.join(parts)}</div>"
    return html_page(title, content)


def _render_note(example: ExampleReport) -> str:
    kind = "note bad" if example.verdict == "wrong" else "note"
    lines = escape_html(example.summarize()).replace("\n", "<br>")
    return f'<div class="{kind}">{lines}</div>'


def _render_line(
    text: str,
    grids: list[Grid],
    marks: dict[int, list[list[Mark | None]]],
    unread: dict[str, str],
) -> str:
    pieces, position = [], 0
    for match in _GRID.finditer(text):
        pieces.append(escape_html(text[position : match.start()].replace("\v", " ")))
        index = int(match[1])
        if index < len(grids):
            pieces.append(_render_grid(grids[index], marks.get(index), unread))
        position = match.end()
    pieces.append(escape_html(text[position:].replace("\v", " ")))
    return "".join(pieces)


def _render_grid(grid: Grid, marks: list[list[Mark | None]] | None, unread: dict[str, str]) -> str:
    if not grid.rows:
        return f'<span class="unread" title="{escape_html(grid.problem)}">[…]</span>'
    why = unread.get(str(grid.place), "") if marks is None else ""
    rows = []
    for i, row in enumerate(grid.rows):
        cells = []
        for j, cell in enumerate(row):
            mark = marks[i][j] if marks and i < len(marks) and j < len(marks[i]) else None
            name = "" if mark is None else f"{mark.verdict}{' first' if mark.is_first else ''}"
            attribute = f' class="{name}" title="{name}"' if name else ""
            cells.append(f"<td{attribute}>{escape_html(cell)}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    title = f' class="unread" title="{escape_html(why)}"' if why else ""
    return f"<table{title}>{''.join(rows)}</table>"
