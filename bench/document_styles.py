"""Render the story of a worked sheet as its authors would: seventeen styles of document."""
# ruff: noqa: E501 - an element of markup has one line

import io
import json
import re
import zipfile
from collections.abc import Callable
from html import escape

import numpy as np

from document_items import Item, Rows, Story, transpose

Rng = np.random.Generator
_GREEK = {
    r"\alpha": "α",
    r"\mu": "μ",
    r"\sigma": "σ",
    r"\gamma": "γ",
    r"\beta": "β",
    r"\epsilon": "ε",
}
_PROSE = (
    "Let us work through it by hand.",
    "A model with 12 layers would do the same, only larger.",
    "In the paper of 2017 the width was 512.",
    "Nothing here needs a computer.",
    "The picture has the shape [3, 224, 224], which does not matter here.",
    "Wir rechnen alles von Hand nach.",
    "On calcule tout à la main.",
    "Calculamos todo a mano, paso a paso.",
    "我们一步一步地手算。",
)
_NOISE = (
    "Our confusion matrix last week was [[50, 3], [2, 45]], by the way.",
    "The learning rate is lr = 0.001 and the batch has 32 sentences.",
    "See Table 3 and reference [12].",
)


def plain(text: str) -> str:
    r"""Return a formula in plain notation: \frac{S}{\sqrt{2}} becomes S / sqrt(2)."""
    for name, letter in _GREEK.items():
        text = text.replace(name, letter)
    text = re.sub(r"\\frac\{((?:[^{}]|\{[^{}]*\})*)\}\{((?:[^{}]|\{[^{}]*\})*)\}", r"\1 / \2", text)
    text = re.sub(r"\\sqrt\{([^{}]*)\}", r"sqrt(\1)", text)
    text = re.sub(r"\\tilde\{(\w)\}", "\\1\u0303", text)
    text = re.sub(r"\\hat\{(\w)\}", "\\1\u0302", text)
    text = re.sub(r"\\text\{([^{}]*)\}", r"\1", text)
    text = text.replace(r"\tanh", "tanh").replace(r"\infty", "inf")
    return re.sub(r"_\{(\w+)\}", r"_\1", text)


def cell(text: str) -> str:
    """Return a number without LaTeX."""
    return text.replace(r"-\infty", "-inf")


def tex_matrix(rows: Rows, environment: str = "bmatrix") -> str:
    """Return a LaTeX matrix."""
    body = r" \\ ".join(" & ".join(row) for row in rows)
    return rf"\begin{{{environment}}} {body} \end{{{environment}}}"


def chain(item: Item, matrix: str, story: Story, rng: Rng) -> str:
    """Return name = formula = (factors =) matrix in LaTeX."""
    parts = [item.name]
    if item.formula:
        parts.append(item.formula)
    by_role = {i.role: i for i in story.items if i.part is None}
    if item.factors and all(f in by_role for f in item.factors) and rng.random() < 0.4:
        factors = [by_role[f].rows for f in item.factors]
        factors = factors[::-1] if story.is_column else factors
        parts.append(" ".join(tex_matrix(rows) for rows in factors))
    return " = ".join([*parts, matrix])


def _noise(rng: Rng) -> str:
    lines = [str(rng.choice(_PROSE))]
    if rng.random() < 0.3:
        lines.append(str(rng.choice(_NOISE)))
    return "\n\n".join(lines)


def _split(story: Story) -> tuple[list[Item], list[Item]]:
    """Return the givens and the steps."""
    steps = {"Q", "K", "V", "scores", "scaled", "masked", "weights", "mixed", "output", "hidden",
             "activated", "mean", "variance", "normalised", "encoding"}  # fmt: skip
    has_x = any(item.role == "X" for item in story.items)
    is_step = [
        (item.role in steps and (item.formula or item.caption or has_x)) or item.part is not None
        for item in story.items
    ]
    givens = [i for i, s in zip(story.items, is_step, strict=True) if not s]
    return givens, [i for i, s in zip(story.items, is_step, strict=True) if s]


def markdown(stories: list[Story], rng: Rng) -> bytes:
    lines = ["# Notes", "", _noise(rng), ""]
    environment = str(rng.choice(["bmatrix", "pmatrix"]))
    for number, story in enumerate(stories, start=1):
        lines += [f"## {story.title}, example {number}", "", *story.remarks, ""]
        for item in story.items:
            lines += [f"$${chain(item, tex_matrix(item.rows, environment), story, rng)}$$", ""]
            if rng.random() < 0.2:
                lines += [str(rng.choice(_PROSE)), ""]
    return "\n".join(lines).encode()


def latex(stories: list[Story], rng: Rng) -> bytes:
    lines = [r"\documentclass{article}", r"\usepackage{amsmath}", r"\begin{document}"]
    for number, story in enumerate(stories, start=1):
        givens, steps = _split(story)
        lines += [rf"\section{{{story.title} {number}}}", *story.remarks, str(rng.choice(_PROSE))]
        listed = [f"${item.name} = {tex_matrix(item.rows, 'pmatrix')}$" for item in givens]
        lines += ["Let " + ",\n".join(listed) + ".", r"\begin{align*}"]
        for item in steps:
            left, _, right = chain(item, tex_matrix(item.rows, "pmatrix"), story, rng).partition(
                " = "
            )
            lines.append(rf"  {left} &= {right} \\ % a step")
        lines += [r"\end{align*}"]
    return "\n".join([*lines, r"\end{document}"]).encode()


def beamer(stories: list[Story], rng: Rng) -> bytes:
    lines = [r"\documentclass{beamer}", r"\begin{document}", r"\frame{\titlepage}"]
    for number, story in enumerate(stories, start=1):
        for start in range(0, len(story.items), 3):
            title = f"{story.title} {number}" if not start else "Next step"
            lines.append(rf"\begin{{frame}}{{{title}}}")
            lines += story.remarks if not start else []
            for item in story.items[start : start + 3]:
                gap = str(
                    rng.choice(
                        [r" \]" + "\n" + r"  \[ ", r" \quad ", r" \hspace{1cm} ", r" \hfill "]
                    )
                )
                lines.append(rf"  \[ {chain(item, tex_matrix(item.rows), story, rng)} \]")
                if gap.startswith(r" \]"):
                    lines.append(r"  \pause")
            lines.append(r"\end{frame}")
    return "\n".join([*lines, r"\end{document}"]).encode()


def lists(stories: list[Story], rng: Rng) -> bytes:
    lines = [_noise(rng), ""]
    for number, story in enumerate(stories, start=1):
        lines += [f"Example {number}", "", plain(" ".join(story.remarks)), ""]
        for item in story.items:
            rows = ", ".join("[" + ", ".join(map(cell, row)) + "]" for row in item.rows)
            middle = f" = {plain(item.formula)}" if item.formula else ""
            lines.append(f"{plain(item.name)}{middle} = [{rows}]")
            lines += [str(rng.choice(_PROSE))] if rng.random() < 0.2 else []
    return "\n".join(lines).encode()


def prose(stories: list[Story], rng: Rng) -> bytes:  # noqa: ARG001
    """Rows in sentences: x_1 = [1, 0]; the rest as lists."""
    lines = ["# A walk through the numbers", ""]
    for number, story in enumerate(stories, start=1):
        lines += [f"## Part {number}: {story.title}", "", plain(" ".join(story.remarks)), ""]
        for item in story.items:
            by_row = story.kind == "attention" and item.part is None and not story.is_column
            letter = {"X": "x", "Q": "q", "K": "k", "V": "v"}.get(item.role)
            if by_row and letter and item.role in ("X", "Q", "K", "V"):
                rows = [
                    f"{letter}_{k} = [{', '.join(row)}]" for k, row in enumerate(item.rows, start=1)
                ]
                lines += ["The next vectors are " + ", ".join(rows[:-1]) + f" and {rows[-1]}.", ""]
                continue
            rows = ", ".join("[" + ", ".join(map(cell, row)) + "]" for row in item.rows)
            middle = f" = {plain(item.formula)}" if item.formula else ""
            lines += [f"Then **{plain(item.name)}**{middle} = `[{rows}]`.", ""]
    return "\n".join(lines).encode()


def html(stories: list[Story], rng: Rng) -> bytes:
    """Tables with captions and decimal commas."""
    comma = rng.random() < 0.5
    lines = ["<!DOCTYPE html>", '<html lang="de"><head><title>Rechnung</title>',
             "<style>td { padding: 2px }</style></head><body>"]  # fmt: skip
    for number, story in enumerate(stories, start=1):
        lines += [f"<h2>{story.title} {number}</h2>"]
        lines += [f"<p>{escape(plain(remark))}</p>" for remark in story.remarks]
        for item in story.items:
            caption = _html_formula(f"{item.name} = {item.formula}" if item.formula else item.name)
            if item.caption and rng.random() < 0.5:
                caption = (
                    f"{item.caption} {_html_formula(item.name)}" if item.part is None else caption
                )
            if item.part is not None or story.kind in ("rnn", "lstm", "layer_norm", "positions"):
                caption = _html_formula(item.name)
            rows = "".join(
                "<tr>" + "".join(f"<td>{_html_number(c, comma)}</td>" for c in row) + "</tr>\n"
                for row in item.rows
            )
            lines.append(f"<table>\n<caption>{caption}</caption>\n{rows}</table>")
    return "\n".join([*lines, "</body></html>"]).encode()


def _html_number(text: str, comma: bool) -> str:
    text = text.replace(r"-\infty", "&minus;&infin;").replace("-", "&minus;")
    return text.replace(".", ",") if comma else text


def _html_formula(text: str) -> str:
    text = plain(text).replace("sqrt(", "√(")
    text = re.sub(r"\^(\w)", r"<sup>\1</sup>", text)
    return re.sub(r"_(\w+)", r"<sub>\1</sub>", text)


def mathml(stories: list[Story], rng: Rng) -> bytes:
    lines = ["<html><body>", f"<p>{escape(str(rng.choice(_PROSE)))}</p>"]
    for number, story in enumerate(stories, start=1):
        lines.append(f"<h3>{story.title} {number}</h3>")
        lines += [f"<p>{escape(plain(remark))}</p>" for remark in story.remarks]
        for item in story.items:
            rows = "".join(
                "<mtr>"
                + "".join(f"<mtd><mn>{cell(c).replace('-inf', '−∞')}</mn></mtd>" for c in row)
                + "</mtr>"
                for row in item.rows
            )
            table = f"<mrow><mo>[</mo><mtable>{rows}</mtable><mo>]</mo></mrow>"
            formula = f"<mo>=</mo>{_mathml(item.formula)}" if item.formula else ""
            lines.append(f"<p><math>{_mathml(item.name)}{formula}<mo>=</mo>{table}</math></p>")
    return "\n".join([*lines, "</body></html>"]).encode()


def _mathml(text: str) -> str:
    """Return presentation MathML for the formulas of a story."""
    tokens = re.findall(r"\\[a-z]+|[A-Za-z]'*|\d+(?:\.\d+)?|[_^{}()+/,]", text)
    position = 0

    def group() -> str:
        nonlocal position
        if position < len(tokens) and tokens[position] == "{":
            position += 1
            out = []
            while position < len(tokens) and tokens[position] != "}":
                out.append(scripted())
            position += 1
            return f"<mrow>{''.join(out)}</mrow>"
        return atom()

    def atom() -> str:
        nonlocal position
        symbol = tokens[position]
        position += 1
        if symbol == r"\frac":
            return f"<mfrac>{group()}{group()}</mfrac>"
        if symbol == r"\sqrt":
            return f"<msqrt>{group()}</msqrt>"
        if symbol in (r"\hat", r"\tilde"):
            accent = "^" if symbol == r"\hat" else "~"
            return f"<mover>{group()}<mo>{accent}</mo></mover>"
        if symbol == r"\text":
            position += 1
            letters = []
            while tokens[position] != "}":
                letters.append(tokens[position])
                position += 1
            position += 1
            return f"<mi>{''.join(letters)}</mi>"
        if symbol.startswith("\\"):
            return f"<mi>{_GREEK.get(symbol, symbol[1:])}</mi>"
        if symbol[0].isdigit():
            return f"<mn>{symbol}</mn>"
        return f"<mi>{symbol}</mi>" if symbol[0].isalpha() else f"<mo>{symbol}</mo>"

    def scripted() -> str:
        nonlocal position
        base = atom()
        lower = upper = ""
        while position < len(tokens) and tokens[position] in "_^":
            sign = tokens[position]
            position += 1
            lower, upper = (group(), upper) if sign == "_" else (lower, group())
        if lower and upper:
            return f"<msubsup>{base}{lower}{upper}</msubsup>"
        if lower or upper:
            return f"<{'msub' if lower else 'msup'}>{base}{lower or upper}</{'msub' if lower else 'msup'}>"
        return base

    out = []
    while position < len(tokens):
        out.append(scripted())
    return "".join(out)


def name_variable(item: Item) -> str:
    """Return the name of a variable in a program."""
    name = plain(item.name).replace("'", "_s")
    if item.role in ("scores", "scaled", "masked", "weights", "mixed", "output"):
        name = item.role + (f"_{item.part}" if item.part is not None else "")
    names = {"μ": "mean", "σ^2": "variance", "x\u0302": "x_hat", "X\u0302": "x_hat", "γ": "gamma", "β": "beta",
             "h_0": "h_0", "c_0": "c_0"}  # fmt: skip
    return names.get(name, name.replace("c\u0303", "c_tilde").replace("^", ""))


def _numpy_print(rows: Rows, tensor: bool = False) -> str:
    cells = [[cell(c) for c in row] for row in rows]
    widths = [max(len(row[j]) for row in cells) for j in range(len(cells[0]))]
    comma = ", " if tensor else " "
    lines = [
        "[" + comma.join(c.rjust(w) for c, w in zip(row, widths, strict=True)) + "]"
        for row in cells
    ]
    if tensor:
        return "tensor([" + ",\n        ".join(lines) + "])"
    return "[" + "\n ".join(lines) + "]"


def _notebook(stories: list[Story], rng: Rng, tensor: bool) -> bytes:
    cells: list[dict[str, object]] = []
    for number, story in enumerate(stories, start=1):
        text = f"## {story.title} {number}\n\n" + plain(" ".join(story.remarks))
        cells.append({"cell_type": "markdown", "source": text.splitlines(keepends=True)})
        for item in story.items:
            name = name_variable(item)
            code = f"{name} = {plain(item.formula) if item.formula else '...'}\n"
            shape = rng.integers(3)
            body = _numpy_print(item.rows, tensor)
            if shape == 0:
                code, output = "", _stream(f"{name} = {body}\n")
            elif shape == 1 and item.caption and item.part is None and story.kind == "attention":
                code, output = "", _stream(f"{item.caption}:\n{body}\n")
            else:
                code = name
                output = {
                    "output_type": "execute_result",
                    "data": {"text/plain": body.splitlines(keepends=True)},
                }
            cells.append({"cell_type": "code", "source": [code], "outputs": [output]})
    return json.dumps({"nbformat": 4, "cells": cells}).encode()


def _stream(text: str) -> dict[str, object]:
    return {"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)}


def numpy_notebook(stories: list[Story], rng: Rng) -> bytes:
    return _notebook(stories, rng, tensor=False)


def torch_notebook(stories: list[Story], rng: Rng) -> bytes:
    return _notebook(stories, rng, tensor=True)


def matlab(stories: list[Story], rng: Rng) -> bytes:  # noqa: ARG001
    lines = []
    for number, story in enumerate(stories, start=1):
        lines += [f"Example {number}", plain(" ".join(story.remarks)), ""]
        for item in story.items:
            lines += [f">> {name_variable(item)}", "", f"{name_variable(item)} =", ""]
            lines += [
                "   " + "   ".join(cell(c).rjust(8).replace("-inf", "-Inf") for c in row)
                for row in item.rows
            ]
            lines.append("")
    return "\n".join(lines).encode()


def pandas(stories: list[Story], rng: Rng) -> bytes:  # noqa: ARG001
    lines = []
    for number, story in enumerate(stories, start=1):
        lines += [f"## Example {number}: {story.title}", "", plain(" ".join(story.remarks)), ""]
        for item in story.items:
            lines += [f"{plain(item.name)}:", "```"]
            width = max(len(cell(c)) for row in item.rows for c in row) + 2
            lines.append(" " + "".join(str(j).rjust(width) for j in range(len(item.rows[0]))))
            lines += [
                str(i) + "".join(cell(c).rjust(width) for c in row)
                for i, row in enumerate(item.rows)
            ]
            lines += ["```", ""]
    return "\n".join(lines).encode()


def pdf_columns(stories: list[Story], rng: Rng) -> bytes:
    """Two matrices side by side, as `pdftotext -layout` leaves formulas."""
    lines = []
    for number, story in enumerate(stories, start=1):
        lines += [f"Part {number}. {story.title}", plain(" ".join(story.remarks)), ""]
        items = list(story.items)
        while items:
            count = 2 if len(items) > 1 and rng.random() < 0.5 else 1
            block, items = items[:count], items[count:]
            height = max(len(item.rows) for item in block)
            texts = [""] * height
            for item in block:
                name = (
                    plain(item.name) + (f" = {plain(item.formula)}" if item.formula else "") + " = "
                )
                width = max(len(cell(c)) for row in item.rows for c in row) + 3
                top = (height - len(item.rows)) // 2
                anchor = top + (len(item.rows) - 1) // 2
                start = max(map(len, texts)) + 4
                for i in range(height):
                    text = texts[i].ljust(start)
                    text += name if i == anchor else " " * len(name)
                    if top <= i < top + len(item.rows):
                        text += "".join(cell(c).rjust(width) for c in item.rows[i - top])
                        text += " ," if i == anchor and item is not block[-1] else ""
                    texts[i] = text
            lines += [text.rstrip() for text in texts] + [""]
    return "\n".join(lines).encode()


def pdf_stacked(stories: list[Story], rng: Rng) -> bytes:  # noqa: ARG001
    """One row of numbers per line under its name, as PDF text comes out."""
    lines = []
    for number, story in enumerate(stories, start=1):
        lines += [f"Part {number}. {story.title}", plain(" ".join(story.remarks))]
        for item in story.items:
            formula = f" = {plain(item.formula)}" if item.formula else ""
            lines.append(f"{plain(item.name)}{formula} =")
            lines += [" ".join(cell(c) for c in row) for row in item.rows]
        lines.append(str(number))
    return "\n".join(lines).encode()


def csv(stories: list[Story], rng: Rng) -> bytes:  # noqa: ARG001
    lines = []
    for story in stories:
        lines += [f"{story.title},,,"] + [f'"{plain(r)}",,,' for r in story.remarks] + [",,,"]
        for item in story.items:
            for i, row in enumerate(item.rows):
                lines.append(",".join([plain(item.name) if i == 0 else "", *map(cell, row)]))
            lines.append(",,,")
    return "\n".join(lines).encode()


def _zip(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def xlsx(stories: list[Story], rng: Rng) -> bytes:
    """One sheet per example; numbers have formats with their decimals."""
    files = {}
    formats = '<numFmts count="5">' + "".join(
        f'<numFmt numFmtId="{170 + d}" formatCode="0{"." if d else ""}{"0" * d}"/>' for d in range(7)
    ) + "</numFmts>"  # fmt: skip
    styles = "".join(f'<xf numFmtId="{170 + d}"/>' for d in range(7))
    files["xl/styles.xml"] = f"<styleSheet>{formats}<cellXfs>{styles}</cellXfs></styleSheet>"
    sheets, relations = [], []
    for number, story in enumerate(stories, start=1):
        rows: list[str] = []
        line = 1
        for remark in story.remarks:
            rows.append(
                f'<row r="{line}"><c r="A{line}" t="inlineStr"><is><t>{escape(plain(remark))}</t></is></c></row>'
            )
            line += 2
        above = rng.random() < 0.4
        for item in story.items:
            label = escape(
                plain(item.name if item.part is not None else (item.formula or item.name))
            )
            label = (
                escape(plain(item.name))
                if item.role in ("Q", "K", "V", "mixed", "output")
                else label
            )
            if above:
                rows.append(
                    f'<row r="{line}"><c r="B{line}" t="inlineStr"><is><t>{label}</t></is></c></row>'
                )
                line += 1
            for i, row in enumerate(item.rows):
                cells = (
                    ""
                    if above or i
                    else f'<c r="A{line}" t="inlineStr"><is><t>{label}</t></is></c>'
                )
                for j, text in enumerate(row):
                    reference = f"{chr(66 + j)}{line}"
                    if "infty" in text:
                        cells += f'<c r="{reference}" t="inlineStr"><is><t>-inf</t></is></c>'
                    else:
                        decimals = min(len(text.partition(".")[2]), 6)
                        cells += f'<c r="{reference}" s="{decimals}"><v>{float(text)!r}</v></c>'
                rows.append(f'<row r="{line}">{cells}</row>')
                line += 1
            line += 1
        files[f"xl/worksheets/sheet{number}.xml"] = (
            f"<worksheet><sheetData>{''.join(rows)}</sheetData></worksheet>"
        )
        sheets.append(f'<sheet name="example {number}" r:id="rId{number}"/>')
        relations.append(f'<Relationship Id="rId{number}" Target="worksheets/sheet{number}.xml"/>')
    files["xl/workbook.xml"] = (
        f'<workbook xmlns:r="r"><sheets>{"".join(sheets)}</sheets></workbook>'
    )
    files["xl/_rels/workbook.xml.rels"] = f"<Relationships>{''.join(relations)}</Relationships>"
    return _zip(files)


def pptx(stories: list[Story], rng: Rng) -> bytes:  # noqa: ARG001
    """Slides with text boxes and tables side by side."""
    files, identifiers, relations, number = {}, [], [], 0
    for story in stories:
        for start in range(0, len(story.items), 4):
            number += 1
            shapes = [_box(story.title if not start else "Further", 0, 0)]
            shapes += [_box(plain(r), 0, 400_000) for r in story.remarks] if not start else []
            for k, item in enumerate(story.items[start : start + 4]):
                top = 1_000_000 + 1_400_000 * k
                formula = f" = {plain(item.formula)}" if item.formula else ""
                shapes.append(_box(f"{plain(item.name)}{formula} =", 0, top))
                shapes.append(_table(item.rows, 3_000_000, top))
            files[f"ppt/slides/slide{number}.xml"] = (
                f'<p:sld xmlns:p="p" xmlns:a="a"><p:cSld><p:spTree>{"".join(shapes)}</p:spTree></p:cSld></p:sld>'
            )
            identifiers.append(f'<p:sldId r:id="rId{number}"/>')
            relations.append(f'<Relationship Id="rId{number}" Target="slides/slide{number}.xml"/>')
    files["ppt/presentation.xml"] = (
        f'<p:presentation xmlns:p="p" xmlns:r="r"><p:sldIdLst>{"".join(identifiers)}</p:sldIdLst></p:presentation>'
    )
    files["ppt/_rels/presentation.xml.rels"] = (
        f"<Relationships>{''.join(relations)}</Relationships>"
    )
    return _zip(files)


def _box(text: str, x: int, y: int) -> str:
    return (
        f'<p:sp><p:spPr><a:xfrm><a:off x="{x}" y="{y}"/></a:xfrm></p:spPr>'
        f"<p:txBody><a:p><a:r><a:t>{escape(text)}</a:t></a:r></a:p></p:txBody></p:sp>"
    )


def _table(rows: Rows, x: int, y: int) -> str:
    body = "".join(
        "<a:tr>"
        + "".join(
            f"<a:tc><a:txBody><a:p><a:r><a:t>{cell(c)}</a:t></a:r></a:p></a:txBody></a:tc>"
            for c in row
        )
        + "</a:tr>"
        for row in rows
    )
    return f'<p:graphicFrame><p:xfrm><a:off x="{x}" y="{y}"/></p:xfrm><a:graphic><a:tbl>{body}</a:tbl></a:graphic></p:graphicFrame>'


def docx(stories: list[Story], rng: Rng) -> bytes:
    """Paragraphs with Office math; some matrices are tables."""
    body = []
    for number, story in enumerate(stories, start=1):
        body.append(
            f'<w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>{story.title} {number}</w:t></w:r></w:p>'
        )
        body += [f"<w:p><w:r><w:t>{escape(plain(r))}</w:t></w:r></w:p>" for r in story.remarks]
        body.append(f"<w:p><w:r><w:t>{escape(str(rng.choice(_PROSE)))}</w:t></w:r></w:p>")
        for item in story.items:
            formula = f" = {plain(item.formula)}" if item.formula else ""
            text = escape(f"{plain(item.name)}{formula} = ")
            if rng.random() < 0.6:
                rows = "".join(
                    "<m:mr>"
                    + "".join(f"<m:e><m:r><m:t>{cell(c)}</m:t></m:r></m:e>" for c in row)
                    + "</m:mr>"
                    for row in item.rows
                )
                body.append(
                    f"<w:p><m:oMath><m:r><m:t>{text}</m:t></m:r><m:d><m:e><m:m>{rows}</m:m></m:e></m:d></m:oMath></w:p>"
                )
                continue
            rows = "".join(
                "<w:tr>"
                + "".join(f"<w:tc><w:p><w:r><w:t>{cell(c)}</w:t></w:r></w:p></w:tc>" for c in row)
                + "</w:tr>"
                for row in item.rows
            )
            body.append(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p><w:tbl>{rows}</w:tbl>")
    document = f'<w:document xmlns:w="w" xmlns:m="m"><w:body>{"".join(body)}</w:body></w:document>'
    return _zip({"word/document.xml": document})


STYLES: dict[str, tuple[str, Callable[[list[Story], Rng], bytes]]] = {
    "markdown": ("post.md", markdown),
    "latex": ("article.tex", latex),
    "beamer": ("deck.tex", beamer),
    "lists": ("notes.txt", lists),
    "prose": ("walk.md", prose),
    "html": ("page.html", html),
    "mathml": ("math.html", mathml),
    "numpy": ("book.ipynb", numpy_notebook),
    "torch": ("torch.ipynb", torch_notebook),
    "matlab": ("session.txt", matlab),
    "pandas": ("frames.md", pandas),
    "pdf columns": ("layout.txt", pdf_columns),
    "pdf stacked": ("stacked.txt", pdf_stacked),
    "csv": ("table.csv", csv),
    "xlsx": ("book.xlsx", xlsx),
    "pptx": ("slides.pptx", pptx),
    "docx": ("paper.docx", docx),
}

__all__ = ["STYLES", "transpose"]
