"""A problem sheet, or its key, as one HTML page to print: it needs nothing but itself."""

from html import escape

from workings.views.exercises import Asked, Page, Task, part_of
from workings.views.notation import MathML, typeset
from workings.views.worked import Panel

_MATHML = "http://www.w3.org/1998/Math/MathML"
STYLE = """
:root { color-scheme: light; --line: #555; --faint: #666; --rule: #bbb; }
* { box-sizing: border-box; }
body { font: 15px/1.45 Georgia, "Times New Roman", serif; color: #111; background: #fff;
       max-width: 54rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
header { border-bottom: 2px solid #111; margin-bottom: 1rem; }
h1 { font-size: 1.7rem; margin: 0; }
.subtitle { color: var(--faint); margin: .1rem 0 .8rem; }
.who { display: flex; flex-wrap: wrap; gap: .5rem 2rem; margin: 0 0 1rem; }
.who span { flex: 1 1 12rem; white-space: nowrap; display: flex; gap: .5rem; }
.who span::after, .line::after { content: ""; flex: 1; border-bottom: 1px solid #111; }
.rules p { margin: .25rem 0; }
section { margin: 1.6rem 0 2.4rem; }
h2 { font-size: 1.25rem; margin: 0 0 .3rem; break-after: avoid; }
h2 small { font-weight: normal; font-style: italic; font-size: 1rem; color: var(--faint); }
h3 { font-size: 1rem; margin: 1rem 0 .2rem; padding-bottom: .1rem;
     border-bottom: 1px solid var(--rule); break-after: avoid; }
.tell { margin: .2rem 0; }
.row { display: flex; flex-wrap: wrap; gap: .9rem 1.6rem; align-items: flex-start; }
figure { margin: .4rem 0; break-inside: avoid; max-width: 100%; overflow-x: auto; }
figcaption { margin-bottom: .2rem; white-space: nowrap; }
.steps { align-items: stretch; }
.steps figure { display: flex; flex-direction: column; }
.steps figcaption { flex: 1; display: flex; align-items: end; }
.steps table { align-self: flex-start; }
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
.found { border-left: 4px solid #111; padding: .1rem .8rem; margin: .6rem 0; break-inside: avoid; }
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
  .who { margin-bottom: .5rem; }
  .rules p { margin: .1rem 0; }
  .blank td { min-width: 12.5mm; height: 7.2mm; padding: 0; }
  figure { overflow: visible; margin: .2rem 0; }
}
"""


def render(page: Page, *, key: bool = False) -> str:
    """Write the sheet, or with `key` its answers."""
    title = f"{page.title}: answers" if key else page.title
    body = [
        "<header>",
        f"<h1>{escape(title)}</h1>",
        f'<p class="subtitle">{escape(page.subtitle)}</p>',
        "</header>",
    ]
    if not key:
        who = "".join(f"<span>{word}</span>" for word in ("Name", "Date", "Marks"))
        body.append(f'<p class="who">{who}</p>')
        rules = "".join(f"<p>{escape(rule)}</p>" for rule in page.tell)
        body.append(f'<div class="rules">{rules}</div>')
        if any(task.fault for task in page.tasks):
            body.append(_choices(page))
    body += [_task(task, key, first=k == 0) for k, task in enumerate(page.tasks)]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body{_class('key' if key else '')}>\n" + "\n".join(body) + "\n</body>\n</html>\n"
    )


def _choices(page: Page) -> str:
    names = "".join(f"<li><code>{escape(name)}</code></li>" for name in page.choices)
    return f'<h3>Mistakes to choose from</h3>\n<ul class="choices">{names}</ul>'


def _task(task: Task, key: bool, first: bool) -> str:
    heading = f"Problem {task.number}"
    words = f" <small>{escape(task.heading)}</small>" if task.heading else ""
    lines = [
        f'<section class="{"problem first" if first else "problem"}">',
        f"<h2>{heading}{words}</h2>",
    ]
    lines += [] if key else [f'<p class="tell">{escape(" ".join(task.tell))}</p>']
    if key and task.fault is not None:
        lines.append(_found(task))
    if task.givens and not key:
        givens = "\n".join(_figure(given) for given in task.givens)
        lines += ["<h3>Given</h3>", f'<div class="row">\n{givens}\n</div>']
    steps = "\n".join(_step(step, task, key) for step in task.steps)
    title = "Answers" if key else "Somebody’s work" if task.fault else "Your work"
    lines += [f"<h3>{title}</h3>", f'<div class="row steps">\n{steps}\n</div>']
    if task.fault is not None and not key:
        lines.append(_answer_lines())
    lines.append("</section>")
    return "\n".join(lines)


def _found(task: Task) -> str:
    fault = task.fault
    assert fault is not None
    also = ", ".join(f"<code>{escape(name)}</code>" for name in fault.names[1:])
    return (
        f'<div class="found"><b><code>{escape(fault.names[0])}</code></b> in'
        f" <b>{escape(fault.where)}</b>, row {fault.row}, column {fault.column}:"
        f" {_number(fault.claimed)} instead of {_number(fault.right)}. {escape(fault.says)}."
        + (f" The same numbers come from {also}." if also else "")
        + "</div>"
    )


def _answer_lines() -> str:
    where = "".join(f'<span class="line">{word}</span>' for word in ("Step", "row", "column"))
    what = "".join(f'<span class="line">{word}</span>' for word in ("It should be", "Mistake"))
    return f'<div class="answer"><div>{where}</div><div>{what}</div></div>'


def _step(step: Asked, task: Task, key: bool) -> str:
    """A step: empty or as claimed on the sheet, right in the key."""
    fault = task.fault
    first = (fault.row - 1, fault.column - 1) if key and fault and fault.key == step.key else None
    texts = step.right if key else [[cell.text for cell in row] for row in step.panel.cells]
    return _figure(step.panel, texts, first, blank=not key and fault is None)


def _figure(
    panel: Panel,
    texts: list[list[str]] | None = None,
    first: tuple[int, int] | None = None,
    blank: bool = False,
) -> str:
    n = MathML()
    rows, columns = panel.shape
    formula = n.symbol(panel.name) if panel.formula is None else panel.formula(n)
    shape = f'<span class="shape">{escape(part_of(panel))} {rows} × {columns}</span>'
    title = "" if panel.formula is None else f' aria-label="{escape(panel.name)}"'
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in panel.column_names)
    lines = [
        f'<figure><figcaption><math xmlns="{_MATHML}">{formula}</math>{shape}</figcaption>',
        f"<table{title}{_class('blank' if blank else '')}>",
        f'<thead><tr><td class="corner"></td>{head}</tr></thead>',
        "<tbody>",
    ]
    for i, name in enumerate(panel.row_names):
        cells = [
            f"<td{_class('first' if (i, j) == first else '')}>"
            f"{_number(texts[i][j] if texts else cell.text)}</td>"
            for j, cell in enumerate(panel.cells[i])
        ]
        lines.append(f'<tr><th scope="row">{escape(name)}</th>{"".join(cells)}</tr>')
    return "\n".join([*lines, "</tbody></table></figure>"])


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


def _number(text: str) -> str:
    return escape(typeset(text))
