"""Hand-ins in forms that nobody asked for: a step's name and its numbers are enough."""

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
import pytest

from workings.errors import UserError
from workings.problems.grading import grade
from workings.problems.grading.hand_ins import read_hand_ins
from workings.problems.problem_file import format_toml
from workings.problems.sheets import Sheet, make_sheet
from workings.problems.sheets.rounded_solution import CellTexts, make_answer_key
from workings.render.sheets import write_sheet

Keys = list[tuple[int, dict[str, CellTexts]]]
Files = dict[str, str | bytes]
Body = Callable[[str, CellTexts], str]  # of a step's name and matrix


def get_keys(sheet: Sheet) -> Keys:
    exercises = enumerate(sheet.exercises, start=1)
    return [(k, make_answer_key(e.problem, sheet.decimals)) for k, e in exercises]


def write(folder: Path, files: Files) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def join(matrix: CellTexts, between: str = " ", after: str = "\n") -> str:
    return after.join(between.join(row) for row in matrix)


def to_list(matrix: CellTexts) -> str:
    return f"[[{join(matrix, ', ', '], [')}]]"


def to_python(matrix: CellTexts) -> str:
    return to_list(matrix).replace("-inf", "-np.inf")


def notation(pattern: str, between: str = " ", after: str = "\n") -> Body:
    """Return a function that writes a step in a notation: a pattern and two separators."""
    return lambda step, matrix: pattern.format(step, join(matrix, between, after))


def make_zip(files: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return out.getvalue()


def make_word(blocks: list[str | CellTexts]) -> bytes:
    """Return a Word document of paragraphs and tables."""

    def format_block(block: str | CellTexts) -> str:
        if isinstance(block, str):
            return f"<w:p><w:r><w:t>{escape(block)}</w:t></w:r></w:p>"
        rows = ["".join(f"<w:tc>{format_block(cell)}</w:tc>" for cell in row) for row in block]
        return "<w:tbl>" + "".join(f"<w:tr>{row}</w:tr>" for row in rows) + "</w:tbl>"

    namespace = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    body = "".join(map(format_block, blocks))
    document = f'<w:document xmlns:w="{namespace}"><w:body>{body}</w:body></w:document>'
    return make_zip({"word/document.xml": document})


def transpose(matrix: CellTexts) -> CellTexts:
    return [list(column) for column in zip(*matrix, strict=True)]


def draw_bars(step: str, matrix: CellTexts) -> str:
    """Return a matrix between bars with its name beside the last row."""
    names = [" " * (len(step) + 3)] * (len(matrix) - 1) + [f"{step} = "]
    lines = zip(names, matrix, strict=True)
    return "\n".join(f"{name}| {'  '.join(row)} |" for name, row in lines)


def misspell(step: str) -> str:
    """Exchange two letters, as a fast writer does."""
    return step[:2] + step[3] + step[2] + step[4:] if len(step) > 4 else step


def add_zeros(matrix: CellTexts) -> CellTexts:
    """Return rounded numbers as a program prints them."""
    return [[cell if cell == "-inf" else f"{float(cell):.6f}" for cell in row] for row in matrix]


def make_notebook(*cells: tuple[str, str, str]) -> str:
    """Return a notebook of cells: type, source and what is printed."""
    table = [{"cell_type": t, "source": s, "outputs": [{"text": o}]} for t, s, o in cells]
    return json.dumps({"cells": table})


def list_notebooks(keys: Keys) -> Files:
    """Return notebooks that are not the sheet's, and values in the ways of numpy."""

    def sheet(pattern: str) -> str:
        return make_notebook(
            *(
                ("code", pattern.format(f'claim_{k}["{s}"]', to_python(m)), "")
                for k, key in keys
                for s, m in key.items()
            )
        )

    def own(code: str, printed: Body) -> str:
        cells = []
        for k, key in keys:
            cells.append(("markdown", f"## Problem {k}", ""))
            cells += [("code", code.format(s, to_python(m)), printed(s, m)) for s, m in key.items()]
        return make_notebook(*cells)

    return {
        "variables.ipynb": own("{0} = np.array({1})\n{0}", lambda *_: ""),
        "values.ipynb": own("{0} = compute(X)\n{0}", lambda _, m: f"array({to_list(m)})"),
        "prints.ipynb": own("show()", notation("{}:\n[[{}]]", " ", "]\n [")),
        "stacked.ipynb": sheet("{} = np.vstack({})"),
        "reshaped.ipynb": sheet("{} = np.array({}).reshape(-1).reshape(2, -1)"),
        "rounded.ipynb": sheet("rows = {1}\n{0} = [[round(x, 3) for x in r] for r in rows]"),
        "appended.ipynb": sheet("rows = []\nrows.append({1}[0])\nrows.append({1}[1])\n{0} = rows"),
        "exported.md": "\n".join(
            f'```python\nclaim_{k}["{s}"] = {to_python(m)}\n```'
            for k, key in keys
            for s, m in key.items()
        ),
    }


def list_texts(keys: Keys) -> Files:
    """Return texts: headings of every kind, matrices in every notation."""

    def prose(heading: str, body: Callable[[str, CellTexts], str]) -> str:
        return "\n\n".join(
            heading.format(k) + "\n\n" + "\n\n".join(body(s, m) for s, m in key.items())
            for k, key in keys
        )

    def tex(step: str, matrix: CellTexts) -> str:
        body = join(matrix, " & ", r" \\ ").replace("-inf", r"-\infty").replace(".", "{,}")
        return rf"\[ \mathbf{{{step}}} = \left(\begin{{array}}{{rr}} {body} \end{{array}}\right) \]"

    def cells(step: str, matrix: CellTexts, pattern: str, first: int) -> str:
        return "\n".join(
            pattern.format(step, i, j, cell)
            for i, row in enumerate(matrix, first)
            for j, cell in enumerate(row, first)
        )

    headings = {
        "ex": "Ex. {}:",
        "nr": "Nr. {}",
        "bracket": "({})",
        "rule": "===== Problem {} =====",
        "dashes": "--- Aufgabe {} ---",
        "hash": "#{}",
        "bold": "**Problem {}**",
    }
    files = {
        f"{name}.txt": prose(heading, lambda s, m: f"{s} = {to_list(m)}")
        for name, heading in headings.items()
    }
    plain = prose("Problem {}", lambda s, m: f"{s} = {to_list(m)}")
    return {
        **files,
        "roman.txt": plain.replace("Problem 1", "Problem I").replace("Problem 2", "Problem II"),
        "words.txt": plain.replace("Problem 1", "Problem one").replace("Problem 2", "Problem two"),
        "inline.txt": plain.replace("1\n\nQ", "1: Q"),
        "mail.eml": f"Subject: Homework 7\nFrom: ann@x.org\n\nHello,\n\n{plain}\n\nAnn",
        "letters.md": prose("## Problem {}", lambda s, m: f"**a) {s}:**\n\n{to_list(m)}"),
        "chain.txt": prose("Problem {}", lambda s, m: f"{s} = A · B / 1.41 = {to_list(m)}"),
        "drawn.txt": prose("Problem {}", draw_bars),
        "bars.txt": prose("Problem {}", notation("{} =\n| {} |", "  ", " |\n| ")),
        "tall.txt": prose("Problem {}", notation("{} =\n⎡{}⎦", "  ", "⎤\n⎣")),
        "tokens.txt": prose("Problem {}", notation("{}\ntoken 1: {}", ", ", "\ntoken 2: ")),
        "braces.nb": prose("Problem {}", notation("{} = {{{{{}}}}}", ", ", "}, {")),
        "dots.m": prose("%% Problem {}", notation("{} = [{}];", ", ", "; ...\n     ")),
        "lines.m": prose("% Problem {}", notation("{} = [{}];", " ", "\n     ")),
        "rows.R": prose("# Problem {}", notation("{} <- rbind(c({}))", ", ", "), c(")),
        "by row.R": prose(
            "# Problem {}", notation("{} <- matrix(c({}), nrow = 2, byrow = TRUE)", ", ", ", ")
        ),
        "by column.R": prose(
            "# Problem {}",
            lambda s, m: notation("{} <- matrix(c({}), nrow = 2)", ", ", ", ")(s, transpose(m)),
        ),
        "print.R.txt": prose(
            "Problem {}",
            lambda s, m: f"> {s}\n     [,1] [,2]\n[1,] {' '.join(m[0])}\n[2,] {' '.join(m[1])}",
        ),
        "mat.typ": prose("= Problem {}", notation("$ {} = mat({}) $", ", ", "; ")),
        "matrix.py": prose("# Problem {}", notation("{} = np.matrix('{}')", " ", "; ")),
        "numbers.py": "\n".join(
            f"{s}_{k} = {to_python(m)}" for k, key in keys for s, m in key.items()
        ),
        "dict.py": "\n".join(
            f"problem_{k} = {{"
            + ",\n ".join(f"'{s}': {to_python(m)}" for s, m in key.items())
            + "}"
            for k, key in keys
        ),
        "cells.txt": prose("Problem {}", lambda s, m: cells(s, m, "{}[{},{}] = {}", 1)),
        "cells.py": prose("# Problem {}", lambda s, m: cells(s, m, "{}[{}][{}] = {}", 0)),
        "cells.tex": prose(
            r"\section{{Problem {}}}", lambda s, m: cells(s, m, "${}_{{{}{}}} = {}$", 1)
        ),
        "commas.tex": prose(r"\section{{Problem {}}}", tex),
        "environments.tex": prose(r"\begin{{exercise}}[{}]", tex),
        "plain.tex": prose(
            r"{{\bf Problem {}}}", notation(r"$${} = \pmatrix{{{}\cr}}$$", " & ", r" \cr ")
        ),
        "linear.docx": make_word(
            list(prose("Problem {}", notation("{} = [■({})]", "&", "@")).splitlines())
        ),
        "pandas.txt": prose(
            "Problem {}",
            lambda s, m: (
                f"{s}\n   {join([list('0123'[: len(m[0])])])}\n0 {join(m[:1])}\n1 {join(m[1:])}"
            ),
        ),
        "semicolons.md": prose("## Aufgabe {}", notation("{} = [[{}]]", "; ", "]; [")).replace(
            ".", ","
        ),
        "misspelt.txt": prose("Problem {}", lambda s, m: f"{misspell(s)} = {to_list(m)}"),
        "zeros.txt": prose("Problem {}", lambda s, m: f"{s} = {to_list(add_zeros(m))}"),
        "prose.txt": prose(
            "Problem {}", lambda s, m: f"So we get {s} = {to_list(m)}, as expected."
        ),
    }


def list_tables(keys: Keys) -> Files:
    """Return TOML, JSON, YAML, CSV and Word files in shapes of their own."""
    steps = [(k, step, matrix) for k, key in keys for step, matrix in key.items()]
    cells = [
        (k, step, i, j, cell)
        for k, step, matrix in steps
        for i, row in enumerate(matrix, 1)
        for j, cell in enumerate(row, 1)
    ]
    lines = [(k, step, i, row) for k, step, m in steps for i, row in enumerate(m, 1)]
    tables = {f"problem-0{k}": {"claim": key} for k, key in keys}
    floats = {
        name: {s: [[float(c) for c in row] for row in m] for s, m in table["claim"].items()}
        for name, table in tables.items()
    }
    nested_rows = "\n".join(
        f"problem-0{k}:\n"
        + "\n".join(
            notation("  {}:\n  - - {}", "\n    - ", "\n  - - ")(*step) for step in key.items()
        )
        for k, key in keys
    )
    toml = format_toml(tables)
    rows = [["problem", "step", "row", "1", "2"]]
    rows += [[f"problem-0{k}", step, str(i), *row] for k, step, i, row in lines]
    return {
        "fenced.md": f"My solution:\n\n```toml\n{toml}\n```\n",
        "list.toml": "\n".join(f"[[problem]]\nnumber = {k}\n{format_toml(key)}" for k, key in keys),
        "wrapped.json": json.dumps({"student": "Ann", "answers": {str(k): key for k, key in keys}}),
        "listed.json": json.dumps({"problems": [{"id": k, "claim": key} for k, key in keys]}),
        "objects.json": json.dumps(
            {
                "name": "Ann",
                "exercises": [
                    {"nr": k, "steps": [{"name": s, "matrix": m} for s, m in key.items()]}
                    for k, key in keys
                ],
            }
        ),
        "sorted.csv": join(
            sorted(rows, key=lambda row: (row[0] != "problem", row[1], "12".find(row[2]))[::-1]),
            ",",
        ),
        "steps.json": json.dumps([{"problem": k, "step": s, "value": m} for k, s, m in steps]),
        "floats.json": json.dumps(floats),
        "nested.yaml": nested_rows.replace("-inf", "-.inf"),
        "long.csv": "problem,step,row,column,value\n"
        + "\n".join(f"{k},{s},{i},{j},{c}" for k, s, i, j, c in cells),
        "index.csv": "problem,step,cell,answer\n"
        + "\n".join(f'{k},{s},"{i},{j}",{c}' for k, s, i, j, c in cells),
        "whole.csv": "problem,step,answer\n"
        + "\n".join(f'{k},{s},"{to_list(m)}"' for k, s, m in steps),
        "german.csv": "Aufgabe;Schritt;Zeile;1;2\n"
        + "\n".join(f"{k};{s};{i};{';'.join(row)}".replace(".", ",") for k, s, i, row in lines),
        "toml.docx": make_word(list(toml.replace('"-inf"', "“-inf”").splitlines())),
        "csv.docx": make_word([",".join(row) for row in rows]),
        "table.docx": make_word([rows]),
    }


def list_folders(keys: Keys) -> Files:
    """Return files whose place or name says what they are."""
    files: Files = {}
    for k, key in keys:
        text = "\n".join(f"{step} = {to_list(matrix)}" for step, matrix in key.items())
        files[f"folders/Exercise {k}/solution.txt"] = text
        files[f"numbered folders/{k}/answers.toml"] = format_toml({"claim": key})
        files[f"maria_problem-0{k}.toml"] = format_toml({"claim": key})
        out = io.BytesIO()
        np.savez(out, **{s: np.array(m, dtype=float) for s, m in key.items()})
        files[f"arrays/problem-0{k}.npz"] = out.getvalue()
        for step, matrix in key.items():
            lines = [" ".join(f"{float(cell):.18e}" for cell in row) for row in matrix]
            files[f"savetxt/p{k}_{step}.txt"] = "\n".join(lines)
            files[f"files/problem-0{k}/{step}.csv"] = join(matrix, ",")
    inner = {f"hw/Problem {k}/a.toml": format_toml({"claim": key}) for k, key in keys}
    return {**files, "archive.zip": make_zip(inner)}


@pytest.mark.parametrize("list_forms", [list_texts, list_tables, list_folders, list_notebooks])
def test_no_form_costs_points(list_forms: Callable[[Keys], Files], tmp_path: Path) -> None:
    sheet = make_sheet("masked", "2x3", 2, 9)
    write_sheet(sheet, tmp_path / "sheet")
    write(tmp_path / "answers", list_forms(get_keys(sheet)))
    grades = grade(tmp_path / "sheet", tmp_path / "answers")
    assert {s.student: s.list_notes() for s in grades.students if s.total != 16} == {}


def test_words_are_cells_of_steps_whose_answers_are_words(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    sheet = make_sheet("beam_search", None, 1, 9)
    write_sheet(sheet, tmp_path / "sheet")
    ((_, key),) = get_keys(sheet)
    workbook = openpyxl.Workbook()
    for step, matrix in key.items():
        worksheet = workbook.create_sheet(step)
        for row in matrix:
            worksheet.append(row)
    out = io.BytesIO()
    workbook.save(out)
    files: dict[str, Any] = {
        "worksheets.xlsx": out.getvalue(),
        "lists.txt": "\n".join(f"{step} = {to_list(matrix)}" for step, matrix in key.items()),
        "rows.txt": "\n\n".join(f"{step}:\n{join(matrix)}" for step, matrix in key.items()),
        "blocks.csv": "\n".join(f"{step}\n{join(matrix, ',')}" for step, matrix in key.items()),
    }
    write(tmp_path / "answers", files)
    grades = grade(tmp_path / "sheet", tmp_path / "answers")
    full = len(key)
    assert {s.student: s.list_notes() for s in grades.students if s.total != full} == {}


@pytest.mark.parametrize("root", ["", "CS101-Sheet 3-4711/"])
def test_answers_may_be_the_archive_that_a_platform_makes(root: str, tmp_path: Path) -> None:
    sheet = make_sheet("masked", "2x3", 1, 9)
    write_sheet(sheet, tmp_path / "sheet")
    ((_, key),) = get_keys(sheet)
    answer = format_toml({"claim": key})
    names = (
        ("Ada Lovelace_1_assignsubmission_file_/a.toml", "Bob_2_assignsubmission_file_/b.toml")
        if root
        else ("lovelaceada_71_9901_answers.toml", "brownbob_72_9902_answers.toml")
    )
    (tmp_path / "all.zip").write_bytes(make_zip({root + name: answer for name in names}))
    grades = grade(tmp_path / "sheet", tmp_path / "all.zip")
    assert [s.total for s in grades.students] == [8, 8]
    (tmp_path / "all.zip").write_bytes(b"PK")
    with pytest.raises(UserError, match="expected a folder or a ZIP archive"):
        grade(tmp_path / "sheet", tmp_path / "all.zip")


def test_marks_of_blanks_are_blanks_in_any_text(tmp_path: Path) -> None:
    """One cell is left out; the other cells of its step are read."""
    sheet = make_sheet("masked", "2x3", 1, 9)
    write_sheet(sheet, tmp_path / "sheet")
    ((_, key),) = get_keys(sheet)
    files: Files = {}
    for k, mark in enumerate(("?", "n/a", "____", "…")):
        key["Q"][1][1] = mark
        files[f"{k}.txt"] = "\n\n".join(f"{step}\n{join(m, '  ')}" for step, m in key.items())
    write(tmp_path / "answers", files)
    totals = [s.total for s in grade(tmp_path / "sheet", tmp_path / "answers").students]
    assert totals == [pytest.approx(7 + 7 / 8)] * 4


@pytest.mark.parametrize("kind", ["masked", "layer_norm"])  # layer_norm has columns
def test_filled_cells_of_tables_count(kind: str, tmp_path: Path) -> None:
    """The last rows and a cell are left out, in any table and with any mark."""
    openpyxl = pytest.importorskip("openpyxl")
    sheet = make_sheet(kind, "2x3" if kind == "masked" else None, 1, 9)
    write_sheet(sheet, tmp_path / "sheet")
    ((_, key),) = get_keys(sheet)
    files: Files = {"toml.toml": ""}
    for name, mark in {"question": "?", "empty": "", "x": "x", "dash": "–"}.items():
        steps = {s: [*m[:-1], [mark] * len(m[0])] for s, m in key.items()}
        next(reversed(steps.values()))[0][0] = mark
        if mark == "?":
            files["toml.toml"] = format_toml({"claim": steps})
        tables = {
            s: f"<p>{s}</p><table>{''.join('<tr>' + ''.join(f'<td>{c}' for c in r) for r in m)}"
            for s, m in steps.items()
        }
        markdown = notation("{}\n\n| | |\n|---|---|\n| {} |", " | ", " |\n| ")
        tex = notation(r"\[{} = \begin{{pmatrix}}{}\end{{pmatrix}}\]", " & ", r" \\ ")
        workbook = openpyxl.Workbook()
        for step, matrix in steps.items():
            for row in ([step], *matrix, []):
                workbook.active.append(row)
        out = io.BytesIO()
        workbook.save(out)
        files |= {
            f"{name}.html": "</table>".join(tables.values()) + "</table>",
            f"{name}.md": "\n\n".join(markdown(s, m) for s, m in steps.items()),
            f"{name}.tex": "\n".join(tex(s, m) for s, m in steps.items()),
            f"{name}.docx": make_word([block for step in steps.items() for block in step]),
            f"{name}.xlsx": out.getvalue(),
        }
    for name, content in files.items():
        write(tmp_path / "answers" / name.replace(".", " "), {name: content})
    totals = {s.student: s.total for s in grade(tmp_path / "sheet", tmp_path / "answers").students}
    assert len(totals) == 21
    assert totals == dict.fromkeys(totals, pytest.approx(totals["toml toml"]))
    assert totals["toml toml"] > 0


def test_learning_platforms_name_files_after_students(tmp_path: Path) -> None:
    names = {
        "Ng, Eve_12_assignsubmission_file_/a.toml": ("Ng, Eve", "12"),
        "ngeve_LATE_13_99_a-1.toml": ("ngeve", "13"),
        "Sheet 3_ngeve_attempt_2026-11-19-10-00-00.txt": ("ngeve", "ngeve"),
        "Sheet 3_ngeve_attempt_2026-11-19-10-00-00_a.toml": ("ngeve", "ngeve"),
        "14-99 - Eve Ng - Nov 19, 2026 1005 PM/a.toml": ("Eve Ng", "14"),
        "15-99 - Al O - Nov 9, 2026 705 AM - a.toml": ("Al O", "15"),
    }
    write(tmp_path, {**dict.fromkeys(names, ""), "index.html": "", "submission_metadata.yml": ""})
    assert {(h.student, h.id) for h in read_hand_ins(tmp_path)} == set(names.values())


@pytest.mark.parametrize(
    "content",
    [
        "problem,step,row,1,2\n1,Q,1,,\n1,Q,2,,\n",
        "Q = []",
        "[claim]\nmasked = []",
        '{"Q": []}',
        "Q\n[]\n",
        "Q,\n",
    ],
)
def test_empty_lists_are_blank(content: str, tmp_path: Path) -> None:
    write_sheet(make_sheet("masked", "2x3", 1, 9), tmp_path / "sheet")
    for suffix in ("toml", "json", "csv", "txt"):
        write(tmp_path / "answers", {f"ann.{suffix}": content})
    (tmp_path / "answers" / "ann.toml").write_text(content)
    grades = grade(tmp_path / "sheet", tmp_path / "answers")
    assert all(s.total == 0 for s in grades.students)
    assert not any("of the program" in note for s in grades.students for note in s.list_notes())
