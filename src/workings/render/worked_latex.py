r"""A worked problem as a LaTeX document of its own, for pdfLaTeX and XeLaTeX.

It needs article, amsmath and geometry. A step is a formula and a plain `bmatrix`, so that it can be
copied into another document.
"""

import re

from workings.languages import SOURCE_LANGUAGE, get_language, gettext, localize_number
from workings.plain_text import to_one_line
from workings.problems.notation import UNICODE_PREAMBLE, LatexNotation, escape_latex
from workings.problems.worked_problem import MistakeSummary, Panel, WorkedProblem, format_verdict
from workings.render.matrix import (
    MARK_MEANINGS,
    format_cells,
    has_names,
    is_number,
    truncate_matrix,
    used_marks,
)

_PREAMBLE = r"""\documentclass[11pt,a4paper]{article}
\usepackage[margin=2.2cm]{geometry}
\usepackage{amsmath}
@LANGUAGE@\setlength{\parindent}{0pt}
\setlength{\parskip}{6pt plus 2pt}
\setlength{\fboxsep}{1.5pt}
\renewcommand{\arraystretch}{1.2}
\raggedbottom
% Matrices with numbers aligned right; without this they are centered.
\renewenvironment{bmatrix}
  {\left[\hskip-\arraycolsep\begin{array}{*{\value{MaxMatrixCols}}{r}}}
  {\end{array}\hskip-\arraycolsep\right]}
% \headed{row names}{columns}{column names \\ rows}: a matrix with names outside its brackets.
% Names and rows are one array. The part below its first line is the body: it is centered on the
% formula, and the brackets have its height.
\newsavebox{\headedbox}
\newcommand{\headedbody}{%
  \vcenter{\hbox{\rule{0pt}{\dimexpr\dp\headedbox-\arraystretch\dp\strutbox\relax}}}}
\newcommand{\headed}[3]{%
  \sbox{\headedbox}{$\begin{array}[t]{@{}#2@{}}#3\end{array}$}%
  \begin{array}{@{}r@{}}#1\end{array}\,\left[\headedbody\right.%
  \raisebox{\dimexpr(\dp\headedbox+\arraystretch\dp\strutbox)/2+\fontdimen22\textfont2\relax}%
    {\usebox{\headedbox}}%
  \left.\headedbody\right]}
"""
_ELLIPSES = {"⋯": "\\cdots", "⋮": "\\vdots", "⋱": "\\ddots"}
_LINE_DIGITS = 81.0  # digits that fit on a line at \normalsize
_SIZES = (
    ("\\normalsize", 1.0), ("\\small", 1.09), ("\\footnotesize", 1.2), ("\\scriptsize", 1.36),
    ("\\tiny", 1.62),
)  # fmt: skip
_MAX_ROWS, _MAX_COLUMNS = 36, 16  # the middle of a larger matrix is left out
_MAX_NAME_LENGTH, _MAX_SHORT_NAME_LENGTH = 24, 12  # the shorter one with more than four columns
_MARK_SAMPLES = {
    "wrong": r"\boxed{a}", "follows": r"\underline{a}", "rounded": r"a^{\approx}", "blank": "?",
}  # fmt: skip


def matrix_latex(panel: Panel, decimals: int = 3) -> str:
    r"""Return a matrix as a `bmatrix` (amsmath), with the marks of checked cells.

    >>> from workings.problems.worked_problem import Cell
    >>> cells = [[Cell("1", 1.0), Cell("18", 18.0, "wrong")]]
    >>> print(matrix_latex(Panel("Q", None, cells, ["1"], ["1", "2"])))
    \begin{bmatrix}
      1 & \boxed{18}
    \end{bmatrix}
    """
    columns = panel.shape[1]
    more = f"\\setcounter{{MaxMatrixCols}}{{{columns}}}\n" if columns > 10 else ""
    return f"{more}\\begin{{bmatrix}}\n{_rows_latex(panel, decimals)}\n\\end{{bmatrix}}"


def _latex_preamble() -> str:
    """Return the preamble with the fonts of the current language; English needs none."""
    language = get_language()
    fonts = "" if language.code == SOURCE_LANGUAGE else language.latex
    return _PREAMBLE.replace("@LANGUAGE@", fonts)


def render_latex(problem: WorkedProblem) -> str:
    """Return the problem as a document."""
    n = LatexNotation(problem.decimals)
    parts = [_latex_preamble() + UNICODE_PREAMBLE + "\\begin{document}"]
    if problem.title:
        parts.append(f"\\section*{{{escape_latex(problem.title)}}}")
    if problem.verdict:
        summary = f": {escape_latex(problem.summary)}" if problem.summary else ""
        condition = (
            gettext(", if {assumption}", assumption=escape_latex(problem.assumption))
            if problem.assumption
            else ""
        )
        verdict = escape_latex(
            format_verdict(problem.verdict)[:1].upper() + format_verdict(problem.verdict)[1:]
        )
        parts.append(f"\\textbf{{{verdict}}}{condition}{summary}.")
        parts += [f"{escape_latex(note[:1].upper() + note[1:])}." for note in problem.notes]
    if problem.mistake is not None:
        parts.append(_mistake_latex(problem.mistake, n))
        for number, mistake in enumerate(problem.mistakes[1:], start=2):
            text = mistake.format_as_further(number)
            parts.append(f"{escape_latex(text[:1].upper() + text[1:])}.")
    if problem.givens:
        parts += [
            f"\\subsection*{{{escape_latex(gettext('Given'))}}}",
            _givens_latex(problem.givens, n),
            f"\\subsection*{{{escape_latex(gettext('Steps'))}}}",
        ]
    parts += [_legend_latex(problem)] if used_marks(problem.steps) else []
    parts += [_step_latex(k, panel, n) for k, panel in enumerate(problem.steps, start=1)]
    return "\n\n".join([*parts, "\\end{document}\n"])


def _givens_latex(panels: list[Panel], notation: LatexNotation) -> str:
    """Return the given matrices side by side, as many on a line as fit."""
    boxes = []
    for panel in panels:
        size, body = _fit_matrix(panel, notation.decimals, names_after=True)
        boxes.append(
            f"{{{size}\\mbox{{$\\displaystyle {_name_latex(panel, notation)} = {body}$}}}}"
        )
    return "{\\raggedright\\lineskip=9pt\\lineskiplimit=9pt\n" + "\\qquad\n".join(boxes) + "\\par}"


def _step_latex(number: int, panel: Panel, notation: LatexNotation) -> str:
    rows, columns = panel.shape
    formula = _name_latex(panel, notation) if panel.formula is None else panel.formula(notation)
    name = to_one_line(panel.name)
    label = (
        "" if formula.startswith(f"{_name_latex(panel, notation)} =") else f"{escape_latex(name)}: "
    )
    verdict = f", {escape_latex(format_verdict(panel.verdict))}" if panel.verdict else ""
    size, body = _fit_matrix(panel, notation.decimals)
    return (
        f"\\textbf{{{number}.}}\\quad {label}$\\displaystyle {formula}$"
        f"\\hfill ${rows} \\times {columns}${verdict}\\nopagebreak\n"
        f"{{{size}\\[ {body} \\]}}"
    )


def _fit_matrix(
    panel: Panel, decimals: int, names_after: bool = False, max_columns: int = _MAX_COLUMNS
) -> tuple[str, str]:
    """Return the font size at which a matrix fits on a line, and the matrix with its names."""
    truncated = truncate_matrix(panel, _MAX_ROWS, max_columns)
    texts = format_cells(truncated, decimals)
    widths = [max(_digits_width(row[j]) for row in texts) + 1.4 for j in range(truncated.shape[1])]
    headers, rows = "", ""
    if has_names(panel.column_names):
        max_length = _MAX_SHORT_NAME_LENGTH if len(widths) > 4 else _MAX_NAME_LENGTH
        names = [_truncate_name(name, max_length) for name in truncated.column_names]
        widths = [
            max(width, _text_width(name) + 1.4) for width, name in zip(widths, names, strict=True)
        ]
        headers = " & ".join(_label_latex(name) for name in names)
    if has_names(panel.row_names):
        names = [_truncate_name(name, _MAX_NAME_LENGTH) for name in truncated.row_names]
        widths.append(max(map(_text_width, names)))
        rows = " \\\\ ".join(_label_latex(name) for name in names)
    total = sum(widths) + 6
    if total > _LINE_DIGITS * _SIZES[-1][1] and max_columns > 4 and truncated.shape[1] > 4:
        return _fit_matrix(panel, decimals, names_after, min(max_columns, truncated.shape[1]) - 1)
    size = next((size for size, scale in _SIZES if total <= _LINE_DIGITS * scale), _SIZES[-1][0])
    body = matrix_latex(truncated, decimals)
    if headers:
        columns, cells = "r" * truncated.shape[1], _rows_latex(truncated, decimals)
        body = f"\\headed{{{rows}}}{{{columns}}}{{\n  {headers} \\\\\n{cells}}}"
    elif rows and names_after:
        body = f"{body}\\,\n\\begin{{array}}{{@{{}}l@{{}}}}{rows}\\end{{array}}"
    elif rows:
        body = f"\\begin{{array}}{{@{{}}r@{{}}}}{rows}\\end{{array}}\\,\n{body}"
    return f"{size}\\arraycolsep=0.4em", body


def _digits_width(text: str) -> float:
    """Estimate the width of a typeset number, in digits."""
    widths = {"-": 1.6, ".": 0.6, "e": 2.6}
    return sum(widths.get(c, 1.0) for c in text)


def _text_width(text: str) -> int:
    """Estimate the width of text, in digits; a letter that may be printed by its code is wider."""
    return sum(1 if ord(c) < 0x250 else 8 for c in text)


def _truncate_name(name: str, max_width: int) -> str:
    full_name = name = to_one_line(name)
    while _text_width(name) > max_width:
        name = name[:-1]
    return name if name == full_name else f"{name}…"


def _label_latex(name: str) -> str:
    return _ELLIPSES.get(name) or (f"\\text{{{escape_latex(name)}}}" if name else "")


def _rows_latex(panel: Panel, decimals: int) -> str:
    r"""Return the rows; a `\phantom` aligns the points of claims with different decimals."""
    texts = format_cells(panel, decimals)
    fractions = [[_fraction_digits(text) for text in row] for row in texts]
    longest_fractions = [
        max(column, key=lambda f: len(f or "")) for column in zip(*fractions, strict=True)
    ]
    lines = []
    for i, row in enumerate(panel.cells):
        cells = []
        for j, cell in enumerate(row):
            number = _mark_number(
                _number_latex(texts[i][j]), cell.mark, panel.first_wrong == (i, j)
            )
            fraction = fractions[i][j]
            missing = "" if fraction is None else (longest_fractions[j] or "")[len(fraction) :]
            cells.append(f"{number}\\phantom{{{missing}}}" if missing and panel.verdict else number)
        lines.append("  " + " & ".join(cells))
    return " \\\\\n".join(lines)


def _fraction_digits(text: str) -> str | None:
    """Return the part of a number from its decimal point on; None: it is not a plain number."""
    match = re.fullmatch(r"[+-]?\d+([.,]\d*)?", text)
    return (match[1] or "") if match else None


def _number_latex(text: str) -> str:
    r"""Return a number in LaTeX; any other text in its place as `\text`."""
    plain = text.replace("−", "-").replace("∞", "inf").replace(" ", "")
    if text in _ELLIPSES or re.fullmatch(r"[+-]?\d+/\d+", plain):
        return _ELLIPSES.get(text, plain)
    if not is_number(text):
        return f"\\text{{{escape_latex(text)}}}"
    mantissa, _, exponent = plain.lower().replace("inf", "\\infty").partition("e")
    mantissa = localize_number(mantissa).replace(",", "{,}")
    return f"{mantissa}{{\\cdot}}10^{{{int(exponent)}}}" if exponent else mantissa


def _mark_number(number: str, mark: str, first: bool) -> str:
    if first:
        return f"\\boxed{{\\mathbf{{{number}}}}}"
    if mark == "wrong":
        return f"\\boxed{{{number}}}"
    if mark == "follows":
        return f"\\underline{{{number}}}"
    return f"{number}\\rlap{{$^{{\\approx}}$}}" if mark == "rounded" else number


def _name_latex(panel: Panel, notation: LatexNotation) -> str:
    name = to_one_line(panel.name)
    return (
        notation.symbol(name) if re.fullmatch(r"\w+", name) else f"\\text{{{escape_latex(name)}}}"
    )


def _mistake_latex(mistake: MistakeSummary, notation: LatexNotation) -> str:
    lines = [
        f"\\textbf{{{escape_latex(gettext('The first wrong number:'))}}}"
        f" {escape_latex(mistake.location)}.",
        f"{escape_latex(gettext('Claimed:'))}~${_number_latex(mistake.claimed)}$."
        f" {escape_latex(gettext('Expected:'))}~${_number_latex(mistake.expected)}$.",
    ]
    if mistake.working is not None:
        lines.append(f"\\[ {mistake.working(notation)} \\]")
    if mistake.causes:
        lines.append(f"{escape_latex(gettext('Likely causes:'))}\n\\begin{{itemize}}")
        for cause in mistake.causes:
            share = escape_latex(gettext(" (explains {share})", share=cause.explained_share))
            name = f"\\texttt{{{escape_latex(cause.name)}}}"
            name += share if cause.explained_share else ""
            lines.append(f"  \\item {name}: {escape_latex(cause.description)}")
        lines.append("\\end{itemize}")
    return "\n".join(lines)


def _legend_latex(problem: WorkedProblem) -> str:
    parts = [
        f"${_MARK_SAMPLES[mark]}$~{escape_latex(gettext(MARK_MEANINGS[mark]))}"
        for mark in used_marks(problem.steps)
    ]
    if any(panel.first_wrong for panel in problem.steps):
        parts.insert(
            0, f"$\\boxed{{\\mathbf{{a}}}}$~{escape_latex(gettext('the first wrong number'))}"
        )
    return f"\\emph{{{escape_latex(gettext('Marks:'))}}} {'; '.join(parts)}."
