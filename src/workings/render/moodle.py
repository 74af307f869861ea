"""Problem sheets as a Moodle quiz: one cloze question per problem."""

import math
import re
from collections.abc import Sequence
from html import escape

from workings.languages import gettext
from workings.problems.notation import TextNotation, typeset
from workings.problems.sheets.expected_answers import ExpectedMistake
from workings.problems.sheets.printed_sheet import (
    PrintedMistake,
    PrintedProblem,
    PrintedSheet,
    PrintedStep,
    format_points,
)
from workings.problems.worked_problem import Panel

_NUMBER = re.compile(r"-?\d+(\.\d+)?")
# Characters that XML 1.0 does not allow.
_XML_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def render_moodle(sheet: PrintedSheet) -> str:
    """Return Moodle XML: a category with the title of the sheet, and one question per problem."""
    questions = [
        _moodle_category(sheet),
        *(_moodle_question(problem, sheet) for problem in sheet.problems),
    ]
    return '<?xml version="1.0" encoding="UTF-8"?>\n<quiz>\n' + "\n".join(questions) + "\n</quiz>\n"


def _moodle_category(sheet: PrintedSheet) -> str:
    name = sheet.title.replace("/", "//")  # a single slash would start a subcategory
    return (
        '<question type="category">\n'
        f"<category><text>$course$/top/{_escape_xml(name)}</text></category>\n"
        '<info format="html"><text></text></info>\n<idnumber></idnumber>\n</question>'
    )


def _moodle_question(problem: PrintedProblem, sheet: PrintedSheet) -> str:
    name = _escape_xml(f"{sheet.title} {problem.number:02d}")
    text = _cdata_section(_moodle_question_text(problem, sheet))
    feedback = _cdata_section(_moodle_feedback(problem))
    return (
        '<question type="cloze">\n'
        f"<name><text>{name}</text></name>\n"
        f'<questiontext format="html"><text>{text}</text></questiontext>\n'
        f"{_moodle_grade(problem, sheet)}"
        f'<generalfeedback format="html"><text>{feedback}</text></generalfeedback>\n'
        "<penalty>0.3333333</penalty>\n<hidden>0</hidden>\n<idnumber></idnumber>\n</question>"
    )


def _moodle_grade(problem: PrintedProblem, sheet: PrintedSheet) -> str:
    return f"<defaultgrade>{problem.points}</defaultgrade>\n" if sheet.has_points else ""


def _moodle_question_text(problem: PrintedProblem, sheet: PrintedSheet) -> str:
    # Only the first instruction: Moodle compares with fixed answers and gives no marks for numbers
    # that follow from a wrong one, as the other instructions promise.
    instructions = sheet.instructions if problem.mistake else sheet.instructions[:1]
    lines = [f"<p>{_escape_cloze_html(text)}</p>" for text in instructions]
    if problem.heading:
        lines.append(f"<p><em>{_escape_cloze_html(problem.heading)}</em></p>")
    lines.append(f"<p>{_escape_cloze_html(' '.join(problem.instructions))}</p>")
    lines += [_moodle_table(given) for given in problem.givens]
    weights = _choose_weights(problem, sheet)
    for step in problem.asked_steps:
        boxes = None if problem.mistake else _moodle_boxes(step, weights[step.key])
        caption = _format_caption(step, problem, sheet)
        lines.append(_moodle_table(step.panel, boxes, caption))
    if problem.mistake is not None:
        lines.append(_moodle_mistake_question(problem, problem.mistake, sheet.choices))
    return "\n".join(lines)


def _moodle_mistake_question(
    problem: PrintedProblem, mistake: PrintedMistake, choices: list[str]
) -> str:
    steps = _moodle_choice([step.panel.name for step in problem.steps], (mistake.step_name,))
    names = _moodle_choice(choices, mistake.names)
    question = gettext(
        "The first wrong number: step {step}, row {row}, column {column}. It should be {number}."
        " The mistake: {mistake}",
        step=steps,
        row=f"{{1:NUMERICAL:={mistake.row}:0}}",
        column=f"{{1:NUMERICAL:={mistake.column}:0}}",
        number=_moodle_box(mistake.expected, mistake.tolerance, 1),
        mistake=names,
    )
    return f"<p>{question}</p>"


def _moodle_choice(names: list[str], correct: tuple[str, ...]) -> str:
    answers = "~".join(f"{'=' if name in correct else ''}{_escape_cloze(name)}" for name in names)
    return f"{{1:MULTICHOICE:{answers}}}"


def _choose_weights(problem: PrintedProblem, sheet: PrintedSheet) -> dict[str, int]:
    """Return the weight of a cell in each step: 1, or what gives each step its share of the points.

    Moodle's weights are whole numbers, so they have the least common multiple of the cell counts.
    """
    counts = {step.key: sum(map(len, step.solution)) for step in problem.asked_steps}
    if not sheet.has_points:
        return dict.fromkeys(counts, 1)
    multiple = math.lcm(*counts.values())
    weights = {s.key: s.points * multiple // counts[s.key] for s in problem.asked_steps}
    divisor = math.gcd(*weights.values())
    return {key: weight // divisor for key, weight in weights.items()}


def _format_caption(step: PrintedStep, problem: PrintedProblem, sheet: PrintedSheet) -> str:
    """Return the equation or name of a step as plain text, because Moodle removes MathML."""
    panel = step.panel
    hides_formula = sheet.hides_formulas or panel.formula is None
    caption = panel.name if hides_formula or not panel.formula else panel.formula(TextNotation())
    has_points = sheet.has_points and problem.mistake is None
    return f"{caption} ({format_points(step.points)})" if has_points else caption


def _moodle_boxes(step: PrintedStep, weight: int) -> list[list[str]]:
    return [
        [
            _moodle_box(
                text, step.tolerance[i][j], weight, step.mistakes[i][j] if step.mistakes else []
            )
            for j, text in enumerate(row)
        ]
        for i, row in enumerate(step.solution)
    ]


def _moodle_box(
    text: str, tolerance: float, weight: int, mistakes: Sequence[ExpectedMistake] = ()
) -> str:
    """Return a box for a number; −∞ is a text in Moodle, with several accepted spellings.

    The number of a mistake is an answer without points that has its own message.
    """
    if text == "-inf":
        wrong = "".join(
            f"~%0%{spelling}#{_escape_cloze_html(mistake.description)}"
            for mistake in mistakes
            for spelling in mistake.spellings
        )
        return f"{{{weight}:SHORTANSWER:=-inf~=-∞~=−∞~=-infinity~=−inf{wrong}}}"
    if not _NUMBER.fullmatch(text):  # a word
        return f"{{{weight}:SHORTANSWER:={_escape_cloze(text)}}}"
    wrong = "".join(
        f"~%0%{mistake.text}:{mistake.tolerance:g}#{_escape_cloze_html(mistake.description)}"
        for mistake in mistakes
    )
    return f"{{{weight}:NUMERICAL:={text}:{tolerance:g}{wrong}}}"


def _moodle_table(
    panel: Panel, boxes: list[list[str]] | None = None, caption: str | None = None
) -> str:
    """Return a matrix with a caption, by default its name."""
    caption = panel.name if caption is None else caption
    header = "".join(
        f'<th scope="col">{_escape_cloze_html(name)}</th>' for name in panel.column_names
    )
    rows = []
    for i, name in enumerate(panel.row_names):
        cells = "".join(
            f"<td>{boxes[i][j] if boxes else _escape_cloze_html(typeset(cell.text))}</td>"
            for j, cell in enumerate(panel.cells[i])
        )
        rows.append(f'<tr><th scope="row">{_escape_cloze_html(name)}</th>{cells}</tr>')
    return (
        f"<p><strong>{_escape_cloze_html(caption)}</strong></p>\n"
        f"<table><thead><tr><td></td>{header}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


def _moodle_feedback(problem: PrintedProblem) -> str:
    mistake = problem.mistake
    if mistake is None:
        return ""
    claimed, expected = (
        _escape_cloze_html(typeset(number)) for number in (mistake.claimed, mistake.expected)
    )
    sentence = gettext(
        "{step}, row {row}, column {column}: {claimed} instead of {expected}."
        " {mistake}: {description}.",
        step=_escape_cloze_html(mistake.step_name),
        row=mistake.row,
        column=mistake.column,
        claimed=claimed,
        expected=expected,
        mistake=_escape_cloze_html(mistake.names[0]),
        description=_escape_cloze_html(mistake.description),
    )
    return f"<p>{sentence}</p>"


def _escape_cloze_html(text: str) -> str:
    """Escape text for HTML, and what has a meaning in cloze questions."""
    return escape(text).translate({ord(character): f"&#{ord(character)};" for character in "{}~\\"})


def _escape_cloze(text: str) -> str:
    """Escape the text of an answer inside a cloze question."""
    return re.sub(r"([\\~=#{}/\"])", r"\\\1", text)


def _escape_xml(text: str) -> str:
    return escape(_XML_FORBIDDEN.sub("?", text), quote=False)


def _cdata_section(text: str) -> str:
    content = _XML_FORBIDDEN.sub("?", text).replace("]]>", "]]]]><![CDATA[>")
    return f"<![CDATA[{content}]]>"
