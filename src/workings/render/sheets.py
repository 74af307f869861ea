"""Problem sheets and their keys as HTML and LaTeX, and all files of a sheet."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from workings.languages import get_language, gettext
from workings.problems.notation import (
    UNICODE_PREAMBLE,
    Formula,
    LatexNotation,
    MathMLNotation,
    escape_latex,
    format_given_name,
    typeset,
)
from workings.problems.sheets.answer_files import format_answer_files
from workings.problems.sheets.folder import (
    MANIFEST,
    format_manifest,
    format_problem_files,
    write_folder,
)
from workings.problems.sheets.layout import make_printed_sheet
from workings.problems.sheets.notebook import make_cells, render_notebook
from workings.problems.sheets.printed_sheet import (
    PrintedMistake,
    PrintedProblem,
    PrintedSheet,
    PrintedStep,
    block_part_prefix,
    format_points,
)
from workings.problems.sheets.sheet import Sheet
from workings.problems.worked_problem import Panel
from workings.render.moodle import render_moodle
from workings.render.qti import QTI_PACKAGES, render_qti_packages


def write_sheet(sheet: Sheet, folder: str | Path) -> None:
    """Write every file of a sheet; a folder that holds anything but a sheet is a `UserError`."""
    write_folder(render_all_files(sheet), Path(folder))


def render_files(sheet: Sheet) -> dict[str, str]:
    """Return every file of a sheet that is text, by its path in the folder."""
    return _render_texts(sheet, make_printed_sheet(sheet))


def render_all_files(sheet: Sheet) -> dict[str, str | bytes]:
    """Return every file of a sheet by its path in the folder: texts, and packages as bytes."""
    printed = make_printed_sheet(sheet)
    files: dict[str, str | bytes] = {**_render_texts(sheet, printed)}
    files |= {f"key/{name}": package for name, package in render_qti_packages(printed).items()}
    return dict(sorted(files.items()))


def _render_texts(sheet: Sheet, printed: PrintedSheet) -> dict[str, str]:
    files = {
        "sheet.html": render_html(printed),
        "sheet.tex": render_latex(printed),
        "sheet.ipynb": render_notebook(make_cells(sheet, printed)),
        "key/key.html": render_html(printed, key=True),
        "key/key.tex": render_latex(printed, key=True),
        "key/moodle.xml": render_moodle(printed),
        **format_problem_files(sheet),
        **format_answer_files(sheet),
    }
    packages = (f"key/{name}" for name in QTI_PACKAGES)
    files[MANIFEST] = format_manifest(sheet, [*files, *packages, MANIFEST])
    return dict(sorted(files.items()))


_MATHML_NAMESPACE = "http://www.w3.org/1998/Math/MathML"
SHEET_CSS = """
:root { color-scheme: light; --line: #555; --faint: #666; --rule: #bbb; }
* { box-sizing: border-box; }
body { font: 15px/1.45 Georgia, "Times New Roman", serif; color: #111; background: #fff;
       max-width: 54rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
header { border-bottom: 2px solid #111; margin-bottom: 1rem; }
h1 { font-size: 1.7rem; margin: 0; }
.subtitle { color: var(--faint); margin: .1rem 0 .8rem; }
.student { display: flex; flex-wrap: wrap; gap: .5rem 2rem; margin: 0 0 1rem; }
.student span { flex: 1 1 12rem; white-space: nowrap; display: flex; gap: .5rem; }
.student span::after, .line::after { content: ""; flex: 1; border-bottom: 1px solid #111; }
.instructions p { margin: .25rem 0; }
section { margin: 1.6rem 0 2.4rem; }
h2 { font-size: 1.25rem; margin: 0 0 .3rem; break-after: avoid; }
h2 small { font-weight: normal; font-style: italic; font-size: 1rem; color: var(--faint); }
h3 { font-size: 1rem; margin: 1rem 0 .2rem; padding-bottom: .1rem;
     border-bottom: 1px solid var(--rule); break-after: avoid; }
.task { margin: .2rem 0; }
.row { display: flex; flex-wrap: wrap; gap: .9rem 1.6rem; align-items: flex-start; }
figure { margin: .4rem 0; break-inside: avoid; max-width: 100%; overflow-x: auto; }
figcaption { margin-bottom: .2rem; white-space: nowrap; }
.steps { align-items: stretch; }
.steps figure { display: flex; flex-direction: column; }
.steps figcaption { flex: 1; display: flex; align-items: end; }
.steps table { align-self: flex-start; }
.key .steps { align-items: flex-start; }
figcaption .shape { color: var(--faint); font-size: .8rem; margin-left: .4rem; }
math { font-size: 1.02rem; math-style: normal; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th { font: italic .78rem/1.2 Georgia, serif; color: var(--faint); padding: .1rem .35rem; }
tbody th { text-align: right; }
td { border: 1px solid var(--line); text-align: center; padding: .12rem .4rem; min-width: 2.1rem;
     height: 1.6rem; }
.blank td { min-width: 3.7rem; height: 2rem; }
td.corner { border: 0; min-width: 0; height: 0; padding: 0; }
td.first { border: 3px solid #111; font-weight: bold; }
.answer { break-inside: avoid; margin-top: .9rem; display: grid; gap: .9rem; }
.answer > div { display: flex; flex-wrap: wrap; gap: .6rem 1.5rem; }
.line { display: flex; gap: .4rem; flex: 1 1 7rem; white-space: nowrap; }
.mistake { border-left: 4px solid #111; padding: .1rem .8rem; margin: .6rem 0;
           break-inside: avoid; }
.working { list-style: none; margin: .3rem 0; padding: 0; font-size: .85rem; }
.working li { margin: .3rem 0; padding: .15rem 0; }
.working math { display: block math; width: max-content; }
.choices { columns: 13rem; margin: .3rem 0; padding-left: 1.2rem; }
code { font: .9em/1.2 ui-monospace, Menlo, Consolas, monospace; }
@media (max-width: 30rem) { body { padding: .8rem .6rem; } .blank td { min-width: 2.9rem; } }
@media print {
  @page { size: A4; margin: 13mm 14mm; }
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  section { break-before: page; margin: 0; }
  .key section { break-before: auto; margin-top: 1rem; }
  section.first { break-before: auto; margin-top: .4rem; }
  .row { gap: .2rem 5mm; }
  h3 { margin-top: .5rem; }
  td { height: 1.4rem; min-width: 1.6rem; padding: 0 .3rem; }
  th { padding: 0 .25rem; }
  h1 { font-size: 1.4rem; }
  header, .subtitle { margin-bottom: .3rem; }
  .student { margin-bottom: .5rem; }
  .instructions p { margin: .1rem 0; }
  .blank td { min-width: 12.5mm; height: 7.2mm; padding: 0; }
  figure { overflow: visible; margin: .2rem 0; }
}
"""


def render_html(sheet: PrintedSheet, *, key: bool = False) -> str:
    """Return the sheet, or with `key` its answers, as one HTML page to print."""
    title = gettext("{title}: answers", title=sheet.title) if key else sheet.title
    body = [
        "<header>",
        f"<h1>{escape(title)}</h1>",
        f'<p class="subtitle">{escape(sheet.subtitle)}</p>',
        "</header>",
    ]
    if not key:
        words = (gettext("Name"), gettext("Date"), _marks_title(sheet))
        fields = "".join(f"<span>{escape(word)}</span>" for word in words)
        body.append(f'<p class="student">{fields}</p>')
        instructions = "".join(f"<p>{escape(text)}</p>" for text in sheet.instructions)
        body.append(f'<div class="instructions">{instructions}</div>')
        if any(problem.mistake for problem in sheet.problems):
            body.append(_html_choices(sheet))
    body += [_html_problem(p, sheet, key, first=k == 0) for k, p in enumerate(sheet.problems)]
    return (
        f'<!DOCTYPE html>\n<html lang="{get_language().code}">\n<head>\n<meta charset="utf-8"/>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>\n'
        f"<title>{escape(title)}</title>\n<style>{SHEET_CSS}</style>\n</head>\n"
        f"<body{_html_class('key' if key else '')}>\n" + "\n".join(body) + "\n</body>\n</html>\n"
    )


def _html_choices(sheet: PrintedSheet) -> str:
    names = "".join(f"<li><code>{escape(name)}</code></li>" for name in sheet.choices)
    title = escape(gettext("Mistakes to choose from"))
    return f'<h3>{title}</h3>\n<ul class="choices">{names}</ul>'


def _marks_title(sheet: PrintedSheet) -> str:
    if sheet.has_points:
        return gettext("Marks (of {points})", points=sheet.points)
    return gettext("Marks")


def _html_problem(problem: PrintedProblem, sheet: PrintedSheet, key: bool, first: bool) -> str:
    heading = f" <small>{escape(problem.heading)}</small>" if problem.heading else ""
    lines = [
        f'<section class="{"problem first" if first else "problem"}">',
        f"<h2>{_problem_title(problem)}{heading}</h2>",
    ]
    lines += [] if key else [f'<p class="task">{escape(" ".join(problem.instructions))}</p>']
    if key and problem.mistake is not None:
        lines.append(_html_mistake(problem.mistake))
    if problem.givens and not key:
        givens = "\n".join(_html_matrix(given) for given in problem.givens)
        lines += [f"<h3>{escape(gettext('Given'))}</h3>", f'<div class="row">\n{givens}\n</div>']
    steps = "\n".join(
        _html_step(step, problem, sheet, key)
        for step in (problem.steps if key else problem.asked_steps)
    )
    lines += [
        f"<h3>{escape(_steps_title(problem, key))}</h3>",
        f'<div class="row steps">\n{steps}\n</div>',
    ]
    if problem.mistake is not None and not key:
        lines.append(_html_answer_lines())
    lines.append("</section>")
    return "\n".join(lines)


def _steps_title(problem: PrintedProblem, key: bool) -> str:
    if key:
        return gettext("Answers")
    return gettext("Worked solution") if problem.mistake else gettext("Your work")


def _problem_title(problem: PrintedProblem) -> str:
    return gettext("Problem {number}", number=problem.number)


def _html_mistake(mistake: PrintedMistake) -> str:
    equivalents = ", ".join(f"<code>{escape(name)}</code>" for name in mistake.names[1:])
    claimed, expected = _html_number(mistake.claimed), _html_number(mistake.expected)
    sentence = _describe_mistake(
        mistake,
        name=f"<b><code>{escape(mistake.names[0])}</code></b>",
        step=f"<b>{escape(mistake.step_name)}</b>",
        claimed=claimed,
        expected=expected,
        description=escape(mistake.description),
        equivalents=equivalents,
    )
    return f'<div class="mistake">{sentence}</div>'


def _describe_mistake(mistake: PrintedMistake, equivalents: str, **parts: str) -> str:
    """Return the sentence on a mistake; `parts` are marked up already."""
    sentence = gettext(
        "{name} in {step}, row {row}, column {column}: {claimed} instead of {expected}."
        " {description}.",
        row=mistake.row,
        column=mistake.column,
        **parts,
    )
    if not equivalents:
        return sentence
    return f"{sentence} {gettext('The same numbers come from {names}.', names=equivalents)}"


def _html_answer_lines() -> str:
    words = (gettext("Step"), gettext("row"), gettext("column"))
    location = "".join(f'<span class="line">{escape(word)}</span>' for word in words)
    parts = (gettext("It should be"), gettext("Mistake"))
    answer = "".join(f'<span class="line">{escape(part)}</span>' for part in parts)
    return f'<div class="answer"><div>{location}</div><div>{answer}</div></div>'


def _html_step(step: PrintedStep, problem: PrintedProblem, sheet: PrintedSheet, key: bool) -> str:
    texts, first_wrong = _step_numbers(step, problem, key)
    return _html_matrix(
        step.panel,
        texts,
        first_wrong,
        blank=not key and problem.mistake is None,
        note=_step_note(step, problem, sheet),
        working=step.working if key else [],
        hides_formula=sheet.hides_formulas and not key,
    )


def _step_note(step: PrintedStep, problem: PrintedProblem, sheet: PrintedSheet) -> str:
    """Return the points of a step, or that it is not asked (in the key); "" if all are alike."""
    if not step.is_asked:
        return gettext("not asked")
    return format_points(step.points) if sheet.has_points and problem.mistake is None else ""


def _step_numbers(
    step: PrintedStep, problem: PrintedProblem, key: bool
) -> tuple[list[list[str]], tuple[int, int] | None]:
    """Return the numbers of a step, and the first wrong cell that the key points out.

    On the sheet the numbers are empty or claimed; in the key they are the solution.
    """
    if not key:
        return [[cell.text for cell in row] for row in step.panel.cells], None
    mistake = problem.mistake
    is_wrong = mistake is not None and mistake.key == step.key
    return step.solution, (mistake.row - 1, mistake.column - 1) if mistake and is_wrong else None


def _html_matrix(
    panel: Panel,
    texts: list[list[str]] | None = None,
    first_wrong: tuple[int, int] | None = None,
    *,
    blank: bool = False,
    note: str = "",
    working: Sequence[Formula] = (),
    hides_formula: bool = False,
) -> str:
    n = MathMLNotation()
    rows, columns = panel.shape
    formula = format_given_name(n, panel.name) if panel.formula is None else panel.formula(n)
    note = f" · {note}" if note else ""
    shape = (
        f'<span class="shape">{escape(block_part_prefix(panel))} {rows} × {columns}'
        f"{escape(note)}</span>"
    )
    caption = f'<math xmlns="{_MATHML_NAMESPACE}">{formula}</math>'
    if hides_formula:
        caption = f"<b>{escape(panel.name)}</b>"
    label = "" if panel.formula is None else f' aria-label="{escape(panel.name)}"'
    header = "".join(f'<th scope="col">{escape(name)}</th>' for name in panel.column_names)
    lines = [
        f"<figure><figcaption>{caption}{shape}</figcaption>",
        f"<table{label}{_html_class('blank' if blank else '')}>",
        f'<thead><tr><td class="corner"></td>{header}</tr></thead>',
        "<tbody>",
    ]
    for i, name in enumerate(panel.row_names):
        cells = [
            f"<td{_html_class('first' if (i, j) == first_wrong else '')}>"
            f"{_html_number(texts[i][j] if texts else cell.text)}</td>"
            for j, cell in enumerate(panel.cells[i])
        ]
        lines.append(f'<tr><th scope="row">{escape(name)}</th>{"".join(cells)}</tr>')
    return "\n".join([*lines, "</tbody></table>", *_html_working(working), "</figure>"])


def _html_working(working: Sequence[Formula]) -> list[str]:
    """Return the arithmetic of each cell."""
    if not working:
        return []
    n = MathMLNotation()
    cells = [
        f'<li><math xmlns="{_MATHML_NAMESPACE}">{formula(n)}</math></li>' for formula in working
    ]
    return ['<ul class="working">', *cells, "</ul>"]


def _html_class(name: str) -> str:
    return f' class="{name}"' if name else ""


def _html_number(text: str) -> str:
    return escape(typeset(text))


_SHEET_PREAMBLE = r"""\documentclass[11pt,a4paper]{article}
\usepackage[margin=1.9cm]{geometry}
\usepackage{amsmath}
@LANGUAGE@\setlength{\parindent}{0pt}
\setlength{\parskip}{6pt}
\setlength{\lineskip}{10pt}
\setlength{\lineskiplimit}{6pt}
\setlength{\tabcolsep}{3pt}
\newcommand{\blank}{\rule[-2.4mm]{0pt}{7mm}\hspace*{10.5mm}}
\newcommand{\filled}{\rule[-1mm]{0pt}{4.6mm}}
\newcommand{\working}[1]{\sbox0{$#1$}\ifdim\wd0>\linewidth
  \parbox[t]{\linewidth}{\raggedright\hangindent=2em $#1$}\else\usebox0\fi}
\newcommand{\gap}{\hspace{5mm plus 2mm minus 2mm}\allowbreak}
\newcommand{\term}[1]{\texttt{#1}}
\newcommand{\fillin}[1]{\rule{#1}{0.4pt}}
"""


def render_latex(sheet: PrintedSheet, *, key: bool = False) -> str:
    """Return the sheet, or with `key` its answers, as a LaTeX document."""
    title = gettext("{title}: answers", title=sheet.title) if key else sheet.title
    lines = [
        _SHEET_PREAMBLE.replace("@LANGUAGE@", get_language().latex) + UNICODE_PREAMBLE.rstrip(),
        r"\begin{document}",
        r"{\LARGE\bfseries\raggedright " + escape_latex(title) + r"\par}",
        escape_latex(sheet.subtitle) + r"\par\smallskip",
        r"\hrule\bigskip",
    ]
    if not key:
        lines.append(
            rf"{escape_latex(gettext('Name'))} \fillin{{6cm}}\hfill"
            rf" {escape_latex(gettext('Date'))} \fillin{{3cm}}\hfill "
            + escape_latex(_marks_title(sheet))
            + r" \fillin{2cm}\par\medskip"
        )
        lines += [escape_latex(text) + r"\par" for text in sheet.instructions]
        if any(problem.mistake for problem in sheet.problems):
            names = r",\, ".join(rf"\term{{{escape_latex(name)}}}" for name in sheet.choices)
            title = escape_latex(gettext("Mistakes to choose from:"))
            lines.append(rf"{title} {{\raggedright\small {names}.\par}}")
    for k, problem in enumerate(sheet.problems):
        lines += _latex_problem(problem, sheet, key, first=k == 0)
    return "\n".join([*lines, r"\end{document}", ""])


def _latex_problem(
    problem: PrintedProblem, sheet: PrintedSheet, key: bool, first: bool
) -> list[str]:
    heading = rf" \textit{{{escape_latex(problem.heading)}}}" if problem.heading else ""
    page_break = [] if first else [r"\filbreak" if key else r"\newpage"]
    lines = [*page_break, rf"\section*{{{escape_latex(_problem_title(problem))}{heading}}}"]
    lines += [] if key else [escape_latex(" ".join(problem.instructions)) + r"\par"]
    if key and problem.mistake is not None:
        lines.append(_latex_mistake(problem.mistake))
    if problem.givens and not key:
        lines += [
            rf"\textbf{{{escape_latex(gettext('Given'))}}}\par",
            *_latex_flow([_latex_matrix(given) for given in problem.givens]),
        ]
    lines += [
        rf"\textbf{{{escape_latex(_steps_title(problem, key))}}}\par",
        *_latex_flow(
            [
                _latex_step(step, problem, sheet, key)
                for step in (problem.steps if key else problem.asked_steps)
            ]
        ),
    ]
    if problem.mistake is not None and not key:
        lines.append(
            rf"\medskip {escape_latex(gettext('Step'))} \fillin{{4cm}}\hfill"
            rf" {escape_latex(gettext('row'))} \fillin{{2cm}}\hfill"
            rf" {escape_latex(gettext('column'))} \fillin{{2cm}}\par"
            "\n" + rf"\medskip {escape_latex(gettext('It should be'))} \fillin{{3cm}}\hfill"
            rf" {escape_latex(gettext('Mistake'))} \fillin{{7cm}}\par"
        )
    return lines


def _latex_flow(figures: list[str]) -> list[str]:
    """Return figures side by side, as many on a line as fit."""
    return [r"{\raggedright", "\\gap\n".join(figures), r"\par}"]


def _latex_mistake(mistake: PrintedMistake) -> str:
    equivalents = ", ".join(rf"\term{{{escape_latex(name)}}}" for name in mistake.names[1:])
    claimed, expected = _latex_number(mistake.claimed), _latex_number(mistake.expected)
    # The words of the sentence are escaped with marks in place of its parts.
    parts = {
        "name": rf"\term{{{escape_latex(mistake.names[0])}}}",
        "step": escape_latex(mistake.step_name),
        "claimed": claimed,
        "expected": expected,
        "description": escape_latex(mistake.description),
    }
    marks = {name: f"@{name}@" for name in parts}
    sentence = escape_latex(
        _describe_mistake(mistake, equivalents="@equivalents@" * bool(equivalents), **marks)
    )
    for name, part in {**parts, "equivalents": equivalents}.items():
        sentence = sentence.replace(f"@{name}@", part)
    return rf"\fbox{{\parbox{{0.97\linewidth}}{{{sentence}}}}}\par"


def _latex_step(step: PrintedStep, problem: PrintedProblem, sheet: PrintedSheet, key: bool) -> str:
    return _latex_matrix(
        step.panel,
        *_step_numbers(step, problem, key),
        note=_step_note(step, problem, sheet),
        working=step.working if key else [],
        hides_formula=sheet.hides_formulas and not key,
    )


def _latex_matrix(
    panel: Panel,
    texts: list[list[str]] | None = None,
    first_wrong: tuple[int, int] | None = None,
    *,
    note: str = "",
    working: Sequence[Formula] = (),
    hides_formula: bool = False,
) -> str:
    """Return a matrix below its formula; cells without a number are empty boxes."""
    n = LatexNotation()
    rows, columns = panel.shape
    formula = format_given_name(n, panel.name) if panel.formula is None else panel.formula(n)
    caption = rf"\textbf{{{escape_latex(panel.name)}}}" if hides_formula else f"${formula}$"
    note = f"; {note}" if note else ""
    header = " & ".join(
        rf"\multicolumn{{1}}{{c}}{{{_latex_name(name)}}}" for name in panel.column_names
    )
    lines = [
        r"\begin{tabular}[t]{@{}l@{}}",
        rf"\setlength{{\tabcolsep}}{{{3 if texts else 4}pt}}"
        rf"{caption} {{\footnotesize {escape_latex(block_part_prefix(panel))}"
        rf" ${rows}\times{columns}$" + rf"{escape_latex(note)}}}\\[1mm]",
        rf"\begin{{tabular}}{{r|{'c|' * columns}}}",
        rf"\multicolumn{{1}}{{c}}{{}} & {header} \\ \cline{{2-{columns + 1}}}",
    ]
    for i, name in enumerate(panel.row_names):
        cells = [
            _latex_cell(texts[i][j] if texts else cell.text, (i, j) == first_wrong)
            for j, cell in enumerate(panel.cells[i])
        ]
        lines.append(rf"{_latex_name(name)} & {' & '.join(cells)} \\ \cline{{2-{columns + 1}}}")
    lines.append(r"\end{tabular}")
    lines += [rf"\\[.5mm] \footnotesize \working{{{formula(n)}}}" for formula in working]
    return "\n".join([*lines, r"\end{tabular}"])


def _latex_name(name: str) -> str:
    return rf"\textit{{\footnotesize {escape_latex(name)}}}"


def _latex_cell(text: str, is_first_wrong: bool) -> str:
    if not text:
        return r"\blank"
    number = _latex_number(text)
    return rf"\filled\fbox{{{number}}}" if is_first_wrong else rf"\filled {number}"


def _latex_number(text: str) -> str:
    return escape_latex(typeset(text))
