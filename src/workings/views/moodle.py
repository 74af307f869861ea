"""A problem sheet as a quiz for Moodle: one cloze question a problem, a box for every number."""

import re
from html import escape

from workings.views.exercises import Asked, Fault, Page, Task
from workings.views.notation import Text, typeset
from workings.views.worked import Panel

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # not in XML 1.0


def render(page: Page) -> str:
    """Write Moodle XML: a category named like the sheet, and its questions."""
    questions = [_category(page), *(_question(task, page) for task in page.tasks)]
    return '<?xml version="1.0" encoding="UTF-8"?>\n<quiz>\n' + "\n".join(questions) + "\n</quiz>\n"


def _category(page: Page) -> str:
    name = page.title.replace("/", "//")  # a single one would be read as a subcategory
    return (
        '<question type="category">\n'
        f"<category><text>$course$/top/{_xml(name)}</text></category>\n"
        '<info format="html"><text></text></info>\n<idnumber></idnumber>\n</question>'
    )


def _question(task: Task, page: Page) -> str:
    return (
        '<question type="cloze">\n'
        f"<name><text>{_xml(f'{page.title} {task.number:02d}')}</text></name>\n"
        f'<questiontext format="html"><text>{_cdata(_body(task, page))}</text></questiontext>\n'
        f'<generalfeedback format="html"><text>{_cdata(_feedback(task))}</text></generalfeedback>\n'
        "<penalty>0.3333333</penalty>\n<hidden>0</hidden>\n<idnumber></idnumber>\n</question>"
    )


def _body(task: Task, page: Page) -> str:
    # The first rule alone: Moodle compares with fixed answers, and gives nothing for what follows.
    rules = page.tell if task.fault else page.tell[:1]
    lines = [f"<p>{_html(rule)}</p>" for rule in rules]
    if task.heading:
        lines.append(f"<p><em>{_html(task.heading)}</em></p>")
    lines.append(f"<p>{_html(' '.join(task.tell))}</p>")
    lines += [_table(given) for given in task.givens]
    for step in task.steps:
        lines.append(_table(step.panel, None if task.fault else _boxes(step)))
    if task.fault is not None:
        lines.append(_search(task, task.fault, page.choices))
    return "\n".join(lines)


def _search(task: Task, fault: Fault, choices: list[str]) -> str:
    steps = _choice([step.panel.name for step in task.steps], (fault.where,))
    return (
        f"<p>The first wrong number: step {steps}, row {{1:NUMERICAL:={fault.row}:0}}, column"
        f" {{1:NUMERICAL:={fault.column}:0}}. The mistake: {_choice(choices, fault.names)}</p>"
    )


def _choice(names: list[str], right: tuple[str, ...]) -> str:
    answers = "~".join(f"{'=' if name in right else ''}{_cloze(name)}" for name in names)
    return f"{{1:MULTICHOICE:{answers}}}"


def _boxes(step: Asked) -> list[list[str]]:
    return [
        [_box(text, margin) for text, margin in zip(row, margins, strict=True)]
        for row, margins in zip(step.right, step.tolerance, strict=True)
    ]


def _box(text: str, tolerance: float) -> str:
    """A number to fill in; −∞ is no number to Moodle, and is written in several ways."""
    if text == "-inf":
        return "{1:SHORTANSWER:=-inf~=-∞~=−∞~=-infinity~=−inf}"
    return f"{{1:NUMERICAL:={text}:{tolerance:g}}}"


def _table(panel: Panel, boxes: list[list[str]] | None = None) -> str:
    """A matrix; formulas are plain text, because Moodle takes MathML out."""
    formula = panel.name if panel.formula is None else panel.formula(Text())
    head = "".join(f'<th scope="col">{_html(name)}</th>' for name in panel.column_names)
    rows = []
    for i, name in enumerate(panel.row_names):
        cells = "".join(
            f"<td>{boxes[i][j] if boxes else _html(typeset(cell.text))}</td>"
            for j, cell in enumerate(panel.cells[i])
        )
        rows.append(f'<tr><th scope="row">{_html(name)}</th>{cells}</tr>')
    return (
        f"<p><strong>{_html(formula)}</strong></p>\n"
        f"<table><thead><tr><td></td>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


def _feedback(task: Task) -> str:
    fault = task.fault
    if fault is None:
        return ""
    return (
        f"<p>{_html(fault.where)}, row {fault.row}, column {fault.column}:"
        f" {_html(typeset(fault.claimed))} instead of {_html(typeset(fault.right))}."
        f" {_html(fault.names[0])}: {_html(fault.says)}.</p>"
    )


def _html(text: str) -> str:
    """Escape text for HTML, and braces so that none of it is read as a question."""
    return escape(text).replace("{", "&#123;").replace("}", "&#125;")


def _cloze(text: str) -> str:
    """Escape an answer's text inside a cloze question."""
    return re.sub(r"([\\~=#{}/\"])", r"\\\1", text)


def _xml(text: str) -> str:
    return escape(_CONTROL.sub("?", text), quote=False)


def _cdata(text: str) -> str:
    inside = _CONTROL.sub("?", text).replace("]]>", "]]]]><![CDATA[>")
    return f"<![CDATA[{inside}]]>"
