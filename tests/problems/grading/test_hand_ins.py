"""Hand-ins in every form that students have: none gets zero for its form alone."""

import gzip
import io
import json
import re
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from simulated_class import STEPS

from workings.problems.grading import Grades, grade
from workings.problems.problem_file import format_toml
from workings.problems.sheets import Sheet, make_sheet
from workings.problems.sheets.rounded_solution import CellTexts, make_answer_key, nest_claims
from workings.render.sheets import write_sheet


@pytest.fixture(scope="module")
def sheet() -> Sheet:
    return make_sheet("masked", "2x3", 2, 9)


@pytest.fixture(scope="module")
def folder(sheet: Sheet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hand_ins") / "sheet"
    write_sheet(sheet, folder)
    return folder


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    (tmp_path / "answers").mkdir()
    return tmp_path / "answers"


def get_keys(sheet: Sheet) -> list[dict[str, CellTexts]]:
    return [make_answer_key(e.problem, sheet.decimals) for e in sheet.exercises]


def make_toml(sheet: Sheet, number: int) -> str:
    return format_toml({"claim": get_keys(sheet)[number - 1]})


def get_total(grades: Grades, student: str) -> float:
    (marks,) = (s for s in grades.students if s.student == student)
    return marks.total


def fill_notebook(folder: Path, sheet: Sheet) -> str:
    """Fill in the sheet's own notebook as a student would."""
    notebook = json.loads((folder / "sheet.ipynb").read_text())
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        for number, key in enumerate(get_keys(sheet), start=1):
            for step, matrix in key.items():
                start = f'claim_{number}["{step}"] = '
                if source.startswith(start):
                    rows = ", ".join(
                        "[" + ", ".join(t if t != "-inf" else '"-inf"' for t in row) + "]"
                        for row in matrix
                    )
                    call = source.rpartition("\n")[2]
                    cell["source"] = f"{start}[{rows}]\n{call}".splitlines(keepends=True)
    return json.dumps(notebook)


def fill_csv(folder: Path, sheet: Sheet, separator: str = ",", point: str = ".") -> str:
    lines = (folder / "answers.csv").read_text().splitlines()
    filled = [lines[0].replace(",", separator)]
    for line in lines[1:]:
        problem, step, row, *_ = line.split(",")
        cells = get_keys(sheet)[int(problem[-2:]) - 1][step][int(row) - 1]
        texts = [cell.replace(".", point) for cell in cells]
        filled.append(separator.join([problem, step, row, *texts]))
    return "\n".join(filled)


def fill_latex(folder: Path, sheet: Sheet) -> str:
    """Fill in the boxes of sheet.tex in order."""
    text = (folder / "sheet.tex").read_text()
    for key in get_keys(sheet):
        for matrix in key.values():
            for cell in (c for row in matrix for c in row):
                number = r"$-\infty$" if cell == "-inf" else f"${cell}$"
                text = text.replace(r"\blank ", f"{number} ", 1)
    return text


def write_prose(
    sheet: Sheet,
    heading: str,
    format_matrix: Callable[[CellTexts], str],
    line: str = "{} = {}\n",
) -> str:
    parts = []
    for number, key in enumerate(get_keys(sheet), start=1):
        parts.append(heading.format(number))
        parts += [line.format(step, format_matrix(cells)) for step, cells in key.items()]
    return "\n".join(parts)


def to_bmatrix(matrix: CellTexts) -> str:
    rows = [" & ".join(row) for row in matrix]
    body = r" \\ ".join(rows).replace("-inf", r"-\infty")
    return rf"\begin{{bmatrix}} {body} \end{{bmatrix}}"


def to_list(matrix: CellTexts) -> str:
    return "[" + ", ".join("[" + ", ".join(row) + "]" for row in matrix) + "]"


def to_markdown_table(matrix: CellTexts) -> str:
    rows = [[" " for _ in matrix[0]], ["---" for _ in matrix[0]], *matrix]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def make_zip(files: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return out.getvalue()


def write_forms(answers: Path, folder: Path, sheet: Sheet) -> dict[str, int]:
    """Write the same right answers in many forms; return how many problems each has."""
    first, both = make_toml(sheet, 1), [make_toml(sheet, 1), make_toml(sheet, 2)]
    # The matrix of a TOML file has "-inf" in quotes; here it is bare, as students type it.
    in_one = format_toml({f"problem-0{k}": {"claim": c} for k, c in enumerate(get_keys(sheet), 1)})
    in_one = in_one.replace('"-inf"', "-inf")
    files: dict[str, str | bytes] = {
        "own notebook/sheet.ipynb": fill_notebook(folder, sheet),
        "renamed notebook.ipynb": fill_notebook(folder, sheet),
        "csv/answers.csv": fill_csv(folder, sheet),
        "csv of a German Excel/answers.csv": fill_csv(folder, sheet, ";", ","),
        "tabs/answers.tsv": fill_csv(folder, sheet, "\t"),
        "filled sheet.tex/sheet.tex": fill_latex(folder, sheet),
        "latex/solution.tex": write_prose(sheet, r"\section*{{Problem {}}}", to_bmatrix),
        "markdown/solution.md": write_prose(sheet, "## Problem {}", to_list),
        "plain text/solution.txt": write_prose(sheet, "Problem {}", to_list),
        "toml in one.toml": in_one,
        "short names.toml": in_one.replace("problem-0", "problem-"),
        "utf-16.toml": in_one.encode("utf-16"),
        "bom.toml": "\ufeff" + in_one,
        "windows lines.toml": in_one.replace("\n", "\r\n"),
        "unicode minus.toml": in_one.replace("-inf", "−∞").replace(" -", " −"),
        "smart quotes.toml": in_one.replace("-inf", "“-inf”"),
        "infinity.toml": in_one.replace("-inf", '"-infinity"'),
        "float.toml": in_one.replace("-inf", "\"float('-inf')\""),
        "upper case.toml": in_one.replace("claim", "Claim").replace("masked", "Masked"),
        "archive/solution.zip": make_zip({f"x/problem-0{k + 1}.toml": both[k] for k in (0, 1)}),
    }
    for student, pattern in {
        "short": "problem-{}.toml",
        "copy": "Problem-0{} (1).toml.txt",
        "spaces": "Problem 0{}.toml",
        "nested": "week 3/solutions/problem_{}.toml",
        "numbers": "0{}.toml",
        "text suffix": "problem-0{}.txt",
        "Ada Lovelace_81234_assignsubmission_file_": "problem-0{}.toml",
    }.items():
        for number in (1, 2):
            files[f"{student}/{pattern.format(number)}"] = both[number - 1]
    for number in (1, 2):
        files[f"lovelaceada_LATE_71_990{number}_problem-0{number}.toml"] = both[number - 1]
    loose = first.replace("[claim]\n", "")
    files["no claim table/problem-01.toml"] = loose
    for name, content in files.items():
        path = answers / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    students = {name.split("/")[0].removesuffix(".toml").removesuffix(".ipynb") for name in files}
    counts = dict.fromkeys(students, 2)
    counts["no claim table"] = 1
    del counts["Ada Lovelace_81234_assignsubmission_file_"]
    for number in (1, 2):
        del counts[f"lovelaceada_LATE_71_990{number}_problem-0{number}"]
    return {**counts, "Ada Lovelace": 2, "lovelaceada": 2}


def test_every_form_gets_full_points(folder: Path, answers: Path, sheet: Sheet) -> None:
    expected = write_forms(answers, folder, sheet)
    grades = grade(folder, answers)
    assert {s.student: (s.total, s.list_notes()[:1]) for s in grades.students} == {
        student: (8.0 * count, [] if count == 2 else ["problem-02: nothing handed in"])
        for student, count in expected.items()
    }
    assert not grades.errors
    ids = {s.student: s.id for s in grades.students}
    assert (ids["Ada Lovelace"], ids["lovelaceada"]) == ("81234", "71")


def test_spreadsheet(folder: Path, answers: Path, sheet: Sheet) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    workbook = openpyxl.Workbook()
    for line in fill_csv(folder, sheet).splitlines():
        cells = [
            float(t) if t.replace(".", "").lstrip("-").isdigit() else t for t in line.split(",")
        ]
        workbook.active.append(cells)
    (answers / "xl").mkdir()
    workbook.save(answers / "xl" / "answers.xlsx")
    grades = grade(folder, answers)
    assert get_total(grades, "xl") == 16


def test_unread_lines_are_told_and_the_rest_is_marked(
    folder: Path, answers: Path, sheet: Sheet
) -> None:
    """One damaged entry costs its step; the note has its line and the reason."""
    lines = make_toml(sheet, 1).splitlines()
    broken = next(k for k, line in enumerate(lines) if line.startswith("V "))
    lines[broken] = re.sub(r", [^,]*\]\]", "]", lines[broken])
    (answers / "ann").mkdir()
    (answers / "ann" / "problem-01.toml").write_text("\n".join(lines))
    notebook = json.loads(fill_notebook(folder, sheet))
    for cell in notebook["cells"]:
        if "".join(cell["source"]).startswith('claim_1["V"]'):
            cell["source"] = 'claim_1["V"] = f(X) @ W_V'
    (answers / "ben.ipynb").write_text(json.dumps(notebook))
    grades = grade(folder, answers)
    ann, ben = grades.students
    assert (ann.marks[0].total, ben.marks[0].total, ben.marks[1].total) == (7, 7, 8)
    assert f"line {broken + 1}: V: 1 bracket too few" in ann.marks[0].notes[0]
    assert "claim_1['V']: 'f(X)' is computed: write out the numbers" in grades.errors[1]


def test_notebook_is_not_executed(folder: Path, answers: Path, tmp_path: Path) -> None:
    trap = tmp_path / "executed"
    code = f"open({str(trap)!r}, 'w'); claim_1 = eval('1')\nclaim_1['Q'] = open({str(trap)!r}, 'w')"
    cells = [{"cell_type": "code", "source": code}]
    (answers / "eve.ipynb").write_text(json.dumps({"cells": cells, "nbformat": 4}))
    grade(folder, answers)
    assert not trap.exists()


def test_binary_and_damaged_files_are_told(folder: Path, answers: Path) -> None:
    for name, content, message in [
        ("a.pdf", b"%PDF", "PDF"),
        ("a.png", b"\x89PNG", "a picture cannot be read: expected .toml"),
        ("b.ipynb", b"{", "not a Jupyter notebook"),
        ("c.zip", b"PK", "not a ZIP archive that can be read"),
        ("d.toml", b"", "the file is empty"),
        ("e.md", b"I did it on paper.", "which problem is this?"),
        ("f.toml", b"\x00\xff\xfe\x00", "not a text file"),
    ]:
        (answers / name).write_bytes(content)
        errors = grade(folder, answers).errors
        assert any(message in error for error in errors), (name, errors)
        (answers / name).unlink()


def test_skeletons_are_blank(folder: Path, answers: Path) -> None:
    for name in ("answers.toml", "answers.csv", "sheet.ipynb", "sheet.tex"):
        (answers / name.replace(".", "-")).mkdir()
        shutil.copy(folder / name, answers / name.replace(".", "-"))
    grades = grade(folder, answers)
    assert [s.total for s in grades.students] == [0] * 4
    assert not any(m.first_mistake for s in grades.students for m in s.marks)


@pytest.mark.parametrize("suffix", ["toml", "csv"])
def test_findings_are_filled_in(suffix: str, tmp_path: Path, answers: Path) -> None:
    """A name or the number that should stand there is accepted."""
    sheet = make_sheet("self", "2x3", 2, 2, mistakes=True)
    write_sheet(sheet, tmp_path / "sheet")
    lines = (tmp_path / "sheet" / f"answers.{suffix}").read_text().splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#"))
    for number, exercise in enumerate(sheet.exercises):
        planted = exercise.planted_mistake
        assert planted is not None
        row, column = planted.cell
        fields = [planted.key, str(row + 1), str(column + 1), planted.name, planted.correct]
        fields[3 + number] = "?"
        for field in fields:
            old = '"?"' if suffix == "toml" else ",?"
            new = f'"{field}"' if suffix == "toml" else f",{field}"
            text = text.replace(old, new.replace("?", "\0"), 1)
    (answers / f"ann.{suffix}").write_text(text.replace("\0", "?"))
    (marks,) = grade(tmp_path / "sheet", answers).students
    assert [mark.total for mark in marks.marks] == [3, 3]


def test_heads_in_a_table(tmp_path: Path, answers: Path) -> None:
    sheet = make_sheet("multi-head", "2x3", 1, 2, vectors="columns")
    write_sheet(sheet, tmp_path / "sheet")
    (answers / "lea").mkdir()
    (answers / "lea" / "answers.csv").write_text(fill_csv(tmp_path / "sheet", sheet))
    key = get_keys(sheet)[0]
    claim = nest_claims(sheet.exercises[0].problem, key)
    (answers / "max.toml").write_text(format_toml({"claim": claim}))
    lea, other = grade(tmp_path / "sheet", answers).students
    assert lea.total == other.total == len(key)


def make_word_document(text: str) -> bytes:
    paragraphs = "".join(
        f'<w:p><w:r><w:t xml:space="preserve">{line}</w:t></w:r></w:p>'
        for line in text.splitlines()
    )
    namespace = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    document = f'<w:document xmlns:w="{namespace}"><w:body>{paragraphs}</w:body></w:document>'
    return make_zip({"word/document.xml": document})


def transpose(key: dict[str, CellTexts]) -> dict[str, CellTexts]:
    return {step: [list(row) for row in zip(*m, strict=True)] for step, m in key.items()}


def write_odd_forms(answers: Path, folder: Path, sheet: Sheet) -> None:
    """Write the same right answers in forms that students hand in without being asked to."""
    keys = [(f"problem-0{k}", key) for k, key in enumerate(get_keys(sheet), 1)]
    table = fill_csv(folder, sheet)
    german = fill_csv(folder, sheet, ";", ",")
    in_one = format_toml({name: {"claim": key} for name, key in keys}).replace('"-inf"', "-inf")
    flat = {name: {s: [c for row in m for c in row] for s, m in key.items()} for name, key in keys}
    notebook = json.loads(fill_notebook(folder, sheet))
    notebook["cells"].reverse()
    both = {f"problem-0{k}.toml": make_toml(sheet, k) for k in (1, 2)}
    html = "".join(
        f"<h2>Problem {k}</h2>" + "".join(f"<p>{s} = {to_list(m)}</p>" for s, m in key.items())
        for k, key in enumerate(get_keys(sheet), 1)
    )
    script = "\n".join(
        f'claim_{name[-1]}["{step}"] = {to_list(matrix)}'
        for name, key in keys
        for step, matrix in key.items()
    )
    rows = [line.split(",") for line in table.splitlines()]
    files: dict[str, str | bytes] = {
        "archive in an archive.zip": make_zip({"inner.zip": make_zip(both)}),
        "latin-1/answers.csv": ("# Lösung von Jörg\n" + table).encode("latin-1"),
        "utf-16/answers.csv": table.replace(",", "\t").encode("utf-16"),
        "title above/answers.csv": "Week 3;;\nName:;Ann;\n\n" + german,
        "separator line/answers.csv": "sep=;\n" + german,
        "quoted/answers.csv": "\n".join(",".join(f'"{c}"' for c in row) for row in rows),
        "spaces/answers.csv": table.replace(",", " , "),
        "no header/answers.csv": "\n".join(table.splitlines()[1:]),
        "remarks/answers.csv": "\n".join(line + ",ok?" for line in table.splitlines()),
        "cells in reverse.ipynb": json.dumps(notebook),
        "quotes of Word.toml": in_one.replace("-inf", "“-inf”").replace(
            "problem-01", "“problem-01”"
        ),
        "comments.toml": "# Ann\n" + in_one.replace("\n", "  # checked\n"),
        "blank lines.toml": in_one.replace("\n", "\n\n"),
        "colons.txt": in_one.replace(" = ", ": "),
        "object.json": json.dumps(dict(keys)),
        "object in a text.txt": json.dumps({name: {"claim": key} for name, key in keys}),
        "script.py": script,
        "one row.toml": format_toml({name: {"claim": key} for name, key in flat.items()}),
        "rows and columns exchanged.toml": format_toml(
            {name: {"claim": transpose(key)} for name, key in keys}
        ),
        "web page.html": f"<html><body>{html}</body></html>",
        "word.docx": make_word_document(write_prose(sheet, "Problem {}", to_list)),
        "one line.tex": r"\begin{document}"
        + write_prose(sheet, r"\section{{Problem {}}}", to_bmatrix),
        "Aufgabe.md": write_prose(sheet, "# Aufgabe {}", to_list),
        "numpy.txt": write_prose(sheet, "Problem {}", lambda m: f"np.array({to_list(m)})"),
        "matlab.txt": write_prose(
            sheet, "Problem {}", lambda m: "[" + "; ".join(" ".join(row) for row in m) + "]"
        ),
        "tables.md": write_prose(sheet, "## Problem {}", to_markdown_table, "\n**{}**\n\n{}\n"),
        "names.yaml": write_prose(sheet, "problem-0{}:", to_list, "  {}: {}"),
        "numbers alone.txt": write_prose(sheet, "{})", to_list),
        "numbers and periods.txt": write_prose(sheet, "{}.", to_list),
    }
    for name, content in files.items():
        path = answers / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def test_every_odd_form_gets_full_points(folder: Path, answers: Path, sheet: Sheet) -> None:
    write_odd_forms(answers, folder, sheet)
    grades = grade(folder, answers)
    assert len(grades.students) == 29
    assert {s.student: s.list_notes() for s in grades.students if s.total != 16} == {}


def edit_notebook(notebook: str, pattern: str, replacement: str) -> str:
    """Return a notebook whose code a student changed."""
    content = json.loads(notebook)
    for cell in content["cells"]:
        if cell["cell_type"] == "code":
            cell["source"] = re.sub(pattern, replacement, "".join(cell["source"]))
    return json.dumps(content)


def make_open_document(kind: str, body: str) -> bytes:
    namespaces = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
        for name in ("office", "text", "table")
    )
    content = f"<office:document-content {namespaces}>{body}</office:document-content>"
    return make_zip(
        {"mimetype": f"application/vnd.oasis.opendocument.{kind}", "content.xml": content}
    )


def make_tar(files: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return out.getvalue()


def list_notebooks(notebook: str) -> dict[str, str]:
    """Return the sheet's notebook as students edit it."""
    claim = r'(claim_\d)\["(\w+)"\] = (\[\[.*\]\])'
    numpy_cell = r"\2_1 = np.array(\3)\n"
    with_infinity = edit_notebook(notebook, '"-inf"', "-np.inf")
    return {
        "variables.ipynb": edit_notebook(
            with_infinity, claim, numpy_cell + r'\1["\2"] = \2_1.tolist()'
        ),
        "rounded.ipynb": edit_notebook(
            with_infinity, claim, numpy_cell + r'\1["\2"] = np.round(\2_1, 3)'
        ),
        "update.ipynb": edit_notebook(notebook, claim, r'\1.update({"\2": \3})'),
        "keywords.ipynb": edit_notebook(notebook, claim, r"\1.update(\2=\3)"),
        "annotated.ipynb": edit_notebook(notebook, claim, r'\1["\2"]: list = \3'),
        "sums.ipynb": edit_notebook(notebook, r"(?<=[\[ ])(-?\d+\.\d+)(?=[,\]])", r"2 * \1 / 2"),
        "cell by cell.ipynb": edit_notebook(
            with_infinity, claim, r'Z = np.zeros((2, 2))\nZ[0] = \3[0]\nZ[1] = \3[1]\n\1["\2"] = Z'
        ),
    }


def test_every_form_that_students_invent_gets_full_points(
    folder: Path, answers: Path, sheet: Sheet
) -> None:
    """Formats of other programs, edited notebooks, lists as other tools print them."""
    keys = [(f"problem-0{k}", key) for k, key in enumerate(get_keys(sheet), 1)]
    in_one = format_toml({name: {"claim": key} for name, key in keys}).replace('"-inf"', "-inf")
    table, prose = fill_csv(folder, sheet), write_prose(sheet, "Problem {}", to_list)
    both = {f"problem-0{k}.toml": make_toml(sheet, k) for k in (1, 2)}
    rows = "".join(
        "<table:table-row>"
        + "".join(f"<table:table-cell><text:p>{c}</text:p></table:table-cell>" for c in line)
        + "</table:table-row>"
        for line in (line.split(",") for line in table.splitlines())
    )
    paragraphs = "".join(f"<text:p>{line}</text:p>" for line in prose.splitlines())
    side_by_side = "\n".join(
        f"Problem {name[-1]},checked\n"
        + ",".join(f"{step}{',' * len(matrix[0])}" for step, matrix in key.items())
        + "\n"
        + "\n".join(",,".join(",".join(m[i]) for m in key.values()) for i in (0, 1))
        for name, key in keys
    )
    matlab = "\n".join(
        f"{{}}\n{step} = [{'; '.join(' '.join(row) for row in matrix)}];"
        for _, key in keys
        for step, matrix in key.items()
    )
    usual = dict(zip(STEPS, ("Queries", "Keys", "Values", "QK^T", "scaled scores"), strict=False))
    usual |= {"masked": "S_masked", "weights": "Attention weights", "mixed": "Z"}
    named = "\n".join(
        f"Problem {name[-1]}\n" + "\n".join(f"{usual[s]} = {to_list(m)}\n" for s, m in key.items())
        for name, key in keys
    )
    files: dict[str, str | bytes] = {
        **list_notebooks(fill_notebook(folder, sheet)),
        "libre.odt": make_open_document("text", f"<office:text>{paragraphs}</office:text>"),
        "libre.ods": make_open_document(
            "spreadsheet", f'<table:table table:name="Sheet1">{rows}</table:table>'
        ),
        "mac.rtf": r"{\rtf1\ansi{\fonttbl\f0 Helvetica;}\f0\fs24 "
        + prose.replace("\n", "\\\n")
        + "}",
        "tar/hw.tar.gz": make_tar({f"hw/{name}": text for name, text in both.items()}),
        "gzip/answers.toml.gz": gzip.compress(in_one.encode()),
        "utf-16 without mark.toml": in_one.encode("utf-16-le"),
        "decimal commas.toml": re.sub(r"(\d)\.(\d)", r"\1,\2", in_one),
        "semicolons.toml": re.sub(r", (?=[-\d])", "; ", in_one),
        "tuples.toml": in_one.replace("[[", "((").replace("]]", "))"),
        "matlab/problem-01.m": matlab.split("{}", 9)[0] + "\n".join(matlab.split("{}")[1:9]),
        "matlab/problem-02.m": "\n".join(matlab.split("{}")[9:]),
        "dictionary.json": str({name: {"claim": key} for name, key in keys}),
        "list.json": json.dumps([{"problem": name, **key} for name, key in keys]),
        "rows.yaml": "\n".join(
            f"{name}:\n  claim:\n"
            + "\n".join(
                f"    {s}:\n" + "\n".join(f"      - [{', '.join(row)}]" for row in m)
                for s, m in key.items()
            )
            for name, key in keys
        ),
        "table in a text.txt": table,
        "bars/answers.csv": table.replace(",", "|"),
        "side by side/answers.csv": side_by_side,
        "usual names.txt": named,
        "items.tex": r"\begin{enumerate}" + write_prose(sheet, r"\item", to_bmatrix),
        "bold.tex": write_prose(sheet, r"\noindent\textbf{{Problem {}}}\\", to_bmatrix),
        "numbers.tex": write_prose(sheet, r"\section{{Problem {}}}", to_bmatrix).replace(
            " 0.", r" \num{0}."
        ),
        "exercice.md": write_prose(sheet, "# 第 {} 题", to_list),
        "numbered.md": write_prose(
            sheet,
            "## Problem {}",
            lambda m: (
                "| "
                + "".join(f"| {j} " for j, _ in enumerate(m[0], 1))
                + "|\n"
                + "|---" * (len(m[0]) + 1)
                + "|\n"
                + "\n".join(f"| {i} | {' | '.join(row)} |" for i, row in enumerate(m, 1))
            ),
            "\n### {}\n\n{}\n",
        ),
        # All that was handed out comes back; the skeletons that were left blank replace nothing.
        "whole folder/answers.toml": in_one,
        **{
            f"whole folder/{p.name}": p.read_bytes()
            for p in folder.glob("*.*")
            if "answers" not in p.name
        },
        "whole folder/answers.csv": (folder / "answers.csv").read_bytes(),
        "CS101-Sheet 3-4711/Ada Lovelace_1_assignsubmission_file_/answers.toml": in_one,
        "CS101-Sheet 3-4711/Bob Brown_2_assignsubmission_file_/answers.csv": table,
    }
    for name, content in files.items():
        path = answers / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    grades = grade(folder, answers)
    assert {s.student: s.list_notes() for s in grades.students if s.total != 16} == {}
    assert len(grades.students) == 31


def test_square_matrices_with_tokens_as_columns(tmp_path: Path, answers: Path) -> None:
    sheet = make_sheet("masked", "3x4", 1, 7)
    write_sheet(sheet, tmp_path / "sheet")
    claim = transpose(get_keys(sheet)[0])
    (answers / "ann.toml").write_text(format_toml({"claim": claim}))
    (ann,) = grade(tmp_path / "sheet", answers).students
    assert ann.total == 8
    assert ann.list_notes() == ["problem-01: read with rows and columns exchanged"]
