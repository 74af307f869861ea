r"""A solution or a report as a LaTeX document that compiles by itself.

It needs article, amsmath and geometry, and compiles with pdfLaTeX and XeLaTeX. The source is meant
to be copied from: a step is a formula and a plain `bmatrix`.
"""

import re

from workings.views.elide import elided
from workings.views.notation import Latex
from workings.views.numerals import MEANINGS, is_number, marks, named, texts
from workings.views.plain import one_line
from workings.views.tex_text import PREAMBLE, escape
from workings.views.worked import Finding, Panel, Worked

__all__ = ["escape", "matrix", "render"]

_PREAMBLE = r"""\documentclass[11pt,a4paper]{article}
\usepackage[margin=2.2cm]{geometry}
\usepackage{amsmath}
\setlength{\parindent}{0pt}
\setlength{\parskip}{6pt plus 2pt}
\setlength{\fboxsep}{1.5pt}
\renewcommand{\arraystretch}{1.2}
\raggedbottom
% Matrices with their numbers in line at the right. Without this they are centred.
\renewenvironment{bmatrix}
  {\left[\hskip-\arraycolsep\begin{array}{*{\value{MaxMatrixCols}}{r}}}
  {\end{array}\hskip-\arraycolsep\right]}
% \headed{row names}{columns}{column names \\ rows}: a matrix with names outside its brackets.
% Names and rows are one array; what hangs below its first line is the body, which is brought to
% the height of the formula and gives the brackets theirs.
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
_DOTS = {"⋯": "\\cdots", "⋮": "\\vdots", "⋱": "\\ddots"}
_LINE = 81.0  # digits that fit on a line at the normal size
_SIZES = (
    ("\\normalsize", 1.0), ("\\small", 1.09), ("\\footnotesize", 1.2), ("\\scriptsize", 1.36),
    ("\\tiny", 1.62),
)  # fmt: skip
_MOST_ROWS, _MOST_COLUMNS = 36, 16  # of more, the middle is left out
_LONGEST_NAME, _SHORTENED_NAME = 24, 12  # letters; the shorter where there are many columns
_SAMPLES = {
    "wrong": r"\boxed{a}", "follows": r"\underline{a}", "rounded": r"a^{\approx}", "blank": "?",
}  # fmt: skip


def matrix(panel: Panel, decimals: int = 3) -> str:
    r"""Write a matrix as a `bmatrix`, marked where it was judged; wants amsmath and no more.

    >>> from workings.views.worked import Cell
    >>> cells = [[Cell("1", 1.0), Cell("18", 18.0, "wrong")]]
    >>> print(matrix(Panel("Q", None, cells, ["1"], ["1", "2"])))
    \begin{bmatrix}
      1 & \boxed{18}
    \end{bmatrix}
    """
    columns = panel.shape[1]
    more = f"\\setcounter{{MaxMatrixCols}}{{{columns}}}\n" if columns > 10 else ""
    return f"{more}\\begin{{bmatrix}}\n{_rows(panel, decimals)}\n\\end{{bmatrix}}"


def render(worked: Worked) -> str:
    """Write a whole document."""
    n = Latex(worked.decimals)
    parts = [_PREAMBLE + PREAMBLE + "\\begin{document}"]
    if worked.title:
        parts.append(f"\\section*{{{escape(worked.title)}}}")
    if worked.verdict:
        summary = f": {escape(worked.summary)}" if worked.summary else ""
        parts.append(f"\\textbf{{{escape(worked.verdict.capitalize())}}}{summary}.")
    if worked.finding is not None:
        parts.append(_finding(worked.finding, n))
    if worked.givens:
        parts += ["\\subsection*{Given}", _givens(worked.givens, n), "\\subsection*{Steps}"]
    parts += [_legend(worked)] if marks(worked.steps) else []
    parts += [_step(k, panel, n) for k, panel in enumerate(worked.steps, start=1)]
    return "\n\n".join([*parts, "\\end{document}\n"])


def _givens(panels: list[Panel], n: Latex) -> str:
    """Set what was given side by side, as many to a line as fit."""
    written = []
    for panel in panels:
        size, body = _fitted(panel, n.decimals, names_after=True)
        written.append(f"{{{size}\\mbox{{$\\displaystyle {_name(panel, n)} = {body}$}}}}")
    return (
        "{\\raggedright\\lineskip=9pt\\lineskiplimit=9pt\n" + "\\qquad\n".join(written) + "\\par}"
    )


def _step(number: int, panel: Panel, n: Latex) -> str:
    rows, columns = panel.shape
    formula = _name(panel, n) if panel.formula is None else panel.formula(n)
    name = one_line(panel.name)
    label = "" if formula.startswith(f"{_name(panel, n)} =") else f"{escape(name)}: "
    judged = f", {escape(panel.judged)}" if panel.judged else ""
    size, body = _fitted(panel, n.decimals)
    return (
        f"\\textbf{{{number}.}}\\quad {label}$\\displaystyle {formula}$"
        f"\\hfill ${rows} \\times {columns}${judged}\\nopagebreak\n"
        f"{{{size}\\[ {body} \\]}}"
    )


def _fitted(
    panel: Panel, decimals: int, names_after: bool = False, most: int = _MOST_COLUMNS
) -> tuple[str, str]:
    """Choose a size at which a matrix fits on a line, and write it with the names it has."""
    shown = elided(panel, _MOST_ROWS, most)
    written = texts(shown, decimals)
    widths = [max(_digits(row[j]) for row in written) + 1.4 for j in range(shown.shape[1])]
    heads, rows = "", ""
    if named(panel.column_names):
        longest = _SHORTENED_NAME if len(widths) > 4 else _LONGEST_NAME
        names = [_shortened(name, longest) for name in shown.column_names]
        widths = [max(wide, _letters(name) + 1.4) for wide, name in zip(widths, names, strict=True)]
        heads = " & ".join(_label(name) for name in names)
    if named(panel.row_names):
        names = [_shortened(name, _LONGEST_NAME) for name in shown.row_names]
        widths.append(max(map(_letters, names)))
        rows = " \\\\ ".join(_label(name) for name in names)
    total = sum(widths) + 6
    if total > _LINE * _SIZES[-1][1] and most > 4 and shown.shape[1] > 4:
        return _fitted(panel, decimals, names_after, min(most, shown.shape[1]) - 1)
    size = next((size for size, more in _SIZES if total <= _LINE * more), _SIZES[-1][0])
    if heads:
        columns = "r" * shown.shape[1]
        body = f"\\headed{{{rows}}}{{{columns}}}{{\n  {heads} \\\\\n{_rows(shown, decimals)}}}"
    elif rows and names_after:
        body = f"{matrix(shown, decimals)}\\,\n\\begin{{array}}{{@{{}}l@{{}}}}{rows}\\end{{array}}"
    elif rows:
        body = f"\\begin{{array}}{{@{{}}r@{{}}}}{rows}\\end{{array}}\\,\n{matrix(shown, decimals)}"
    else:
        body = matrix(shown, decimals)
    return f"{size}\\arraycolsep=0.4em", body


def _digits(text: str) -> float:
    """Estimate how wide a number is set, in digits."""
    wide = {"-": 1.6, ".": 0.6, "e": 2.6}
    return sum(wide.get(c, 1.0) for c in text)


def _letters(text: str) -> int:
    """Estimate how wide text is set; what may have to be written by its number is wider."""
    return sum(1 if ord(c) < 0x250 else 8 for c in text)


def _shortened(name: str, letters: int) -> str:
    kept_whole = one_line(name)
    name = kept_whole
    while _letters(name) > letters:
        name = name[:-1]
    return name if name == kept_whole else f"{name}…"


def _label(name: str) -> str:
    return _DOTS.get(name) or (f"\\text{{{escape(name)}}}" if name else "")


def _rows(panel: Panel, decimals: int) -> str:
    """Write the rows; where claims have different decimals, their points are brought in line."""
    written = texts(panel, decimals)
    tails = [[_tail(text) for text in row] for row in written]
    longest = [max(column, key=lambda tail: len(tail or "")) for column in zip(*tails, strict=True)]
    lines = []
    for i, row in enumerate(panel.cells):
        cells = []
        for j, cell in enumerate(row):
            number = _marked(_number(written[i][j]), cell.mark, panel.first == (i, j))
            tail, whole = tails[i][j], longest[j] or ""
            missing = "" if tail is None else whole[len(tail) :]
            cells.append(f"{number}\\phantom{{{missing}}}" if missing and panel.judged else number)
        lines.append("  " + " & ".join(cells))
    return " \\\\\n".join(lines)


def _tail(text: str) -> str | None:
    """Take what stands from the decimal point on; None: it has no place for one."""
    match = re.fullmatch(r"[+-]?\d+([.,]\d*)?", text)
    return (match[1] or "") if match else None


def _number(text: str) -> str:
    """Write a number, or whatever somebody wrote in its place."""
    plain = text.replace("−", "-").replace("∞", "inf").replace(" ", "")
    if text in _DOTS or re.fullmatch(r"[+-]?\d+/\d+", plain):
        return _DOTS.get(text, plain)
    if not is_number(text):
        return f"\\text{{{escape(text)}}}"
    mantissa, _, exponent = plain.lower().replace("inf", "\\infty").partition("e")
    mantissa = mantissa.replace(",", "{,}")
    return f"{mantissa}{{\\cdot}}10^{{{int(exponent)}}}" if exponent else mantissa


def _marked(number: str, mark: str, first: bool) -> str:
    if first:
        return f"\\boxed{{\\mathbf{{{number}}}}}"
    if mark == "wrong":
        return f"\\boxed{{{number}}}"
    if mark == "follows":
        return f"\\underline{{{number}}}"
    return f"{number}\\rlap{{$^{{\\approx}}$}}" if mark == "rounded" else number


def _name(panel: Panel, n: Latex) -> str:
    name = one_line(panel.name)
    return n.symbol(name) if re.fullmatch(r"\w+", name) else f"\\text{{{escape(name)}}}"


def _finding(finding: Finding, n: Latex) -> str:
    lines = [
        f"\\textbf{{The first wrong number:}} {escape(finding.where)}.",
        f"Claimed:~${_number(finding.claimed)}$. Expected:~${_number(finding.expected)}$.",
    ]
    if finding.working is not None:
        lines.append(f"\\[ {finding.working(n)} \\]")
    if finding.causes:
        lines.append("What may have caused it:\n\\begin{itemize}")
        for name, reproduces, says in finding.causes:
            share = f" (explains {escape(reproduces)})" if reproduces else ""
            lines.append(f"  \\item \\texttt{{{escape(name)}}}{share}: {escape(says)}")
        lines.append("\\end{itemize}")
    return "\n".join(lines)


def _legend(worked: Worked) -> str:
    parts = [f"${_SAMPLES[mark]}$~{MEANINGS[mark]}" for mark in marks(worked.steps)]
    if any(panel.first for panel in worked.steps):
        parts.insert(0, "$\\boxed{\\mathbf{a}}$~the first wrong number")
    return f"\\emph{{Marks:}} {'; '.join(parts)}."
