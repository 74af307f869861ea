r"""A problem sheet, or its key, as a LaTeX document: `pdflatex`, amsmath and geometry will do."""

from workings.views.exercises import Asked, Page, Task, part_of
from workings.views.notation import Latex, typeset
from workings.views.tex_text import PREAMBLE, escape
from workings.views.worked import Panel

_PREAMBLE = r"""\documentclass[11pt,a4paper]{article}
\usepackage[margin=1.9cm]{geometry}
\usepackage{amsmath}
\usepackage[T1]{fontenc}
\IfFileExists{lmodern.sty}{\usepackage{lmodern}}{}
\setlength{\parindent}{0pt}
\setlength{\parskip}{6pt}
\setlength{\lineskip}{10pt}
\setlength{\lineskiplimit}{6pt}
\setlength{\tabcolsep}{3pt}
\newcommand{\blank}{\rule[-2.4mm]{0pt}{7mm}\hspace*{10.5mm}}
\newcommand{\filled}{\rule[-1mm]{0pt}{4.6mm}}
\newcommand{\gap}{\hspace{5mm plus 2mm minus 2mm}\allowbreak}
\newcommand{\term}[1]{\texttt{#1}}
\newcommand{\fillin}[1]{\rule{#1}{0.4pt}}
"""


def render(page: Page, *, key: bool = False) -> str:
    """Write the sheet, or with `key` its answers."""
    title = f"{page.title}: answers" if key else page.title
    lines = [
        _PREAMBLE + PREAMBLE.rstrip(),
        r"\begin{document}",
        r"{\LARGE\bfseries " + escape(title) + r"\par}",
        escape(page.subtitle) + r"\par\smallskip",
        r"\hrule\bigskip",
    ]
    if not key:
        lines.append(
            r"Name \fillin{6cm}\hfill Date \fillin{3cm}\hfill Marks \fillin{2cm}\par\medskip"
        )
        lines += [escape(rule) + r"\par" for rule in page.tell]
        if any(task.fault for task in page.tasks):
            names = r",\, ".join(rf"\term{{{escape(name)}}}" for name in page.choices)
            lines.append(rf"Mistakes to choose from: {{\raggedright\small {names}.\par}}")
    for k, task in enumerate(page.tasks):
        lines += _task(task, key, first=k == 0)
    return "\n".join([*lines, r"\end{document}", ""])


def _task(task: Task, key: bool, first: bool) -> list[str]:
    words = rf" \textit{{{escape(task.heading)}}}" if task.heading else ""
    new_page = [] if first else [r"\filbreak" if key else r"\newpage"]
    lines = [*new_page, rf"\section*{{Problem {task.number}{words}}}"]
    lines += [] if key else [escape(" ".join(task.tell)) + r"\par"]
    if key and task.fault is not None:
        lines.append(_found(task))
    if task.givens and not key:
        lines += [r"\textbf{Given}\par", *_flow([_figure(given) for given in task.givens])]
    title = "Answers" if key else "Somebody's work" if task.fault else "Your work"
    lines += [rf"\textbf{{{title}}}\par", *_flow([_step(step, task, key) for step in task.steps])]
    if task.fault is not None and not key:
        lines.append(
            r"\medskip Step \fillin{4cm}\hfill row \fillin{2cm}\hfill column \fillin{2cm}\par"
            "\n" + r"\medskip It should be \fillin{3cm}\hfill Mistake \fillin{7cm}\par"
        )
    return lines


def _flow(figures: list[str]) -> list[str]:
    """Set boxes one after the other, with as many on a line as there is room for."""
    return [r"{\raggedright", "\\gap\n".join(figures), r"\par}"]


def _found(task: Task) -> str:
    fault = task.fault
    assert fault is not None
    also = ", ".join(rf"\term{{{escape(name)}}}" for name in fault.names[1:])
    return (
        rf"\fbox{{\parbox{{0.97\linewidth}}{{\term{{{escape(fault.names[0])}}} in"
        rf" {escape(fault.where)}, row {fault.row}, column {fault.column}:"
        f" {_number(fault.claimed)} instead of {_number(fault.right)}. {escape(fault.says)}."
        + (f" The same numbers come from {also}." if also else "")
        + r"}}\par"
    )


def _step(step: Asked, task: Task, key: bool) -> str:
    fault = task.fault
    first = (fault.row - 1, fault.column - 1) if key and fault and fault.key == step.key else None
    texts = step.right if key else [[cell.text for cell in row] for row in step.panel.cells]
    return _figure(step.panel, texts, first)


def _figure(
    panel: Panel, texts: list[list[str]] | None = None, first: tuple[int, int] | None = None
) -> str:
    """A matrix under its formula; cells without a number are boxes to write in."""
    n = Latex()
    rows, columns = panel.shape
    formula = n.symbol(panel.name) if panel.formula is None else panel.formula(n)
    head = " & ".join(rf"\multicolumn{{1}}{{c}}{{{_name(name)}}}" for name in panel.column_names)
    lines = [
        r"\begin{tabular}[t]{@{}l@{}}",
        rf"\setlength{{\tabcolsep}}{{{3 if texts else 4}pt}}"
        rf"${formula}$ {{\footnotesize {escape(part_of(panel))}"
        rf" ${rows}\times{columns}$}}\\[1mm]",
        rf"\begin{{tabular}}{{r|{'c|' * columns}}}",
        rf"\multicolumn{{1}}{{c}}{{}} & {head} \\ \cline{{2-{columns + 1}}}",
    ]
    for i, name in enumerate(panel.row_names):
        cells = [
            _cell(texts[i][j] if texts else cell.text, (i, j) == first)
            for j, cell in enumerate(panel.cells[i])
        ]
        lines.append(rf"{_name(name)} & {' & '.join(cells)} \\ \cline{{2-{columns + 1}}}")
    return "\n".join([*lines, r"\end{tabular}", r"\end{tabular}"])


def _name(name: str) -> str:
    return rf"\textit{{\footnotesize {escape(name)}}}"


def _cell(text: str, first: bool) -> str:
    if not text:
        return r"\blank"
    number = _number(text)
    return rf"\filled\fbox{{{number}}}" if first else rf"\filled {number}"


def _number(text: str) -> str:
    return escape(typeset(text))
