"""Quizzes: Moodle's parser and a processor of QTI responses, not the package's own, give the marks.

The numbers of a mistake are computed here by the mistake's operation on the exact givens, and must
lead to the message on that mistake, and to no points.
"""

import io
import os
import re
import zipfile
from html import unescape
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from kinds_of_sheets import ALL_BUT_DEAR

from workings.problems.sheets import Sheet, make_sheet
from workings.problems.sheets.layout import make_printed_sheet
from workings.problems.sheets.mistake_space import list_step_mistakes
from workings.render.qti import render_qti_packages
from workings.render.sheets import render_all_files

QTI = "{http://www.imsglobal.org/xsd/imsqti_v2p1}"
# The grammar of Moodle's embedded answers, as its documentation of the question type has it.
ALTERNATIVE = r"(?P<fraction>=|%-?\d+%)?(?P<answer>.+?(?<![\\&]))(?:#(?P<feedback>.*?(?<!\\)))?$"
BOX = re.compile(r"\{(\d+):(NUMERICAL|SHORTANSWER|MULTICHOICE):(.*?(?<!\\))\}", re.DOTALL)
Alternative = tuple[float, str, float, str]  # fraction, answer, tolerance, feedback


def parse_moodle(quiz: str) -> list[list[tuple[str, list[Alternative]]]]:
    """Return the boxes of each question: their type and alternatives."""
    questions = []
    for question in ET.fromstring(quiz).iter("question"):  # noqa: S314
        if question.get("type") != "cloze":
            continue
        text = question.findtext("questiontext/text") or ""
        boxes = []
        for _, kind, body in BOX.findall(text):
            alternatives = []
            for part in re.split(r"(?<!\\)~", body):
                match = re.match(ALTERNATIVE, part, re.DOTALL)
                assert match is not None, part
                share = match["fraction"] or "%0%"
                fraction = 1.0 if share == "=" else float(share.strip("%")) / 100
                answer, _, tolerance = match["answer"].partition(":")
                alternatives.append(
                    (fraction, answer, float(tolerance or 0), unescape(match["feedback"] or ""))
                )
            boxes.append((kind, alternatives))
        questions.append(boxes)
    return questions


def answer_text(alternatives: list[Alternative], text: str) -> tuple[float, str]:
    answers = {answer: (fraction, feedback) for fraction, answer, _, feedback in alternatives}
    return answers[re.sub(r"([~=#{}/\"])", r"\\\1", text)]


def answer_moodle(alternatives: list[Alternative], text: str) -> tuple[float, str]:
    """Return the fraction and message for a number: those of the first answer that it matches."""
    for fraction, answer, tolerance, feedback in alternatives:
        if abs(float(answer) - float(text)) <= tolerance + 1e-12:
            return fraction, feedback
    return 0.0, ""


def read_items(package: bytes, prefix: str = "problem-") -> list[ET.Element]:
    with zipfile.ZipFile(io.BytesIO(package)) as archive:
        names = sorted(name for name in archive.namelist() if name.startswith(prefix))
        return [ET.fromstring(archive.read(name)) for name in names]  # noqa: S314


def process(item: ET.Element, responses: dict[str, str]) -> tuple[float, list[str]]:
    """Return the score of an item and the messages that it shows."""
    score, shown = 0.0, []
    for condition in item.iter(f"{QTI}responseCondition"):
        for branch in condition:
            test, effect = branch
            if evaluate(test, responses):
                value = effect.find(f".//{QTI}baseValue")
                assert value is not None
                if effect.get("identifier") == "SCORE":
                    score += float(value.text or 0)
                else:
                    shown.append(value.text)
                break
    messages = {m.get("identifier"): "".join(m.itertext()).strip() for m in item}
    return score, [messages[name] for name in shown]


def evaluate(test: ET.Element, responses: dict[str, str]) -> bool:
    if test.tag == f"{QTI}or":
        return any(evaluate(part, responses) for part in test)
    variable, value = test
    response = responses.get(variable.get("identifier", ""))
    if response is None:
        return False
    if test.tag == f"{QTI}equal":
        tolerance = float((test.get("tolerance") or "0").split()[0])
        return abs(float(response) - float(value.text or 0)) <= tolerance + 1e-12
    return response.casefold() == (value.text or "").casefold()


def get_correct_responses(item: ET.Element) -> dict[str, str]:
    path = f"{QTI}correctResponse/{QTI}value"
    return {
        declaration.get("identifier", ""): declaration.findtext(path, "")
        for declaration in item.iter(f"{QTI}responseDeclaration")
    }


def make_quiz(kind: str, **options: object) -> tuple[Sheet, str, bytes]:
    sheet = make_sheet(kind, seed=3, level=1, **{"count": 1, **options})
    files = render_all_files(sheet)
    moodle, qti = files["key/moodle.xml"], files["key/qti-2.1.zip"]
    assert isinstance(moodle, str)
    assert isinstance(qti, bytes)
    return sheet, moodle, qti


@pytest.mark.parametrize("kind", ALL_BUT_DEAR)
def test_right_answers_get_all_points_and_mistakes_their_message(kind: str) -> None:
    sheet, moodle, qti = make_quiz(kind)
    (item,), (boxes,) = read_items(qti), parse_moodle(moodle)
    (problem,) = make_printed_sheet(sheet).problems
    correct = get_correct_responses(item)
    score, messages = process(item, correct)
    assert score == pytest.approx(problem.points)
    assert messages == []
    assert process(item, {}) == (0, [])
    cells = [
        (s, i, j)
        for s in problem.asked_steps
        for i, r in enumerate(s.solution)
        for j in range(len(r))
    ]
    assert len(cells) == len(correct) == len(boxes)
    for (step, i, j), (name, right), (box, alternatives) in zip(
        cells, correct.items(), boxes, strict=True
    ):
        assert right == step.solution[i][j]
        answer = answer_moodle if box == "NUMERICAL" else answer_text
        assert answer(alternatives, right) == (1, "")
        for mistake in step.mistakes[i][j] if step.mistakes else ():
            points, shown = process(item, {**correct, name: mistake.text})
            assert points < problem.points
            assert answer(alternatives, mistake.text) == (0, mistake.description)
            assert [text.partition(": ")[2] for text in shown] == [mistake.description]


@pytest.mark.parametrize("kind", ["masked", "lstm", "layer_norm", "cross_entropy"])
def test_most_mistakes_of_the_catalog_have_a_message(kind: str) -> None:
    """A mistake that changes a step is named in at least one of its cells."""
    sheet, moodle, _ = make_quiz(kind)
    (exercise,), texts = sheet.exercises, unescape(moodle).lower()
    mistakes = list_step_mistakes(exercise.problem)
    untold = [m for m in mistakes if m.description.lower() not in texts]
    assert len(untold) <= 0.1 * len(mistakes)


@pytest.mark.parametrize("kind", ["self", "beam_search"])
def test_planted_mistakes_are_found(kind: str) -> None:
    """The step, the cell, the right number and the name of the mistake are three points."""
    sheet, moodle, qti = make_quiz(kind, count=2, mistakes=True)
    for item in read_items(qti):
        correct = get_correct_responses(item)
        assert process(item, correct)[0] == pytest.approx(3)
        assert len(correct) == 5
    for boxes, exercise in zip(parse_moodle(moodle), sheet.exercises, strict=True):
        planted = exercise.planted_mistake
        assert planted is not None
        step, row, column, should, name = boxes
        right = [[a for share, a, *_ in box[1] if share == 1] for box in (step, name)]
        assert right[0] == [planted.step_title]
        assert planted.name in right[1]
        cell = [int(box[1][0][1]) - 1 for box in (row, column)]
        assert tuple(cell) == planted.cell
        assert should[1][0][1].rstrip("0").rstrip(".") == planted.correct.rstrip("0").rstrip(".")


def test_hidden_formulas_have_no_messages() -> None:
    sheet, moodle, qti = make_quiz("masked", hide_formulas=True)
    assert sheet.hides_formulas
    assert all(not a[3] for boxes in parse_moodle(moodle) for _, box in boxes for a in box)
    assert not list(read_items(qti)[0].iter(f"{QTI}modalFeedback"))


def test_package_is_complete_and_the_same_each_time() -> None:
    title = '<b>&amp; "x" ]]> \x07'
    sheet = make_sheet("masked", "2x3", 2, 5, title=title)
    packages = render_qti_packages(make_printed_sheet(sheet))
    assert packages == render_qti_packages(make_printed_sheet(sheet))
    for package in packages.values():
        with zipfile.ZipFile(io.BytesIO(package)) as archive:
            names = archive.namelist()
            manifest = ET.fromstring(archive.read("imsmanifest.xml"))  # noqa: S314
            test = ET.fromstring(archive.read("test.xml"))  # noqa: S314
        assert names == ["imsmanifest.xml", "test.xml", "problem-01.xml", "problem-02.xml"]
        assert (test.get("title") or "").startswith('<b>&amp; "x" ]]>')
        hrefs = [e.get("href") for e in manifest.iter() if e.tag.endswith("}file")]
        assert sorted(hrefs) == sorted(names[1:])
        references = [e.get("href") for e in test.iter() if e.get("href")]
        assert references == names[2:]


def test_qti_3_has_the_elements_of_qti_2() -> None:
    _, _, qti = make_quiz("masked")
    sheet = make_sheet("masked", count=1, seed=3, level=1)
    packages = render_qti_packages(make_printed_sheet(sheet))
    (old,), (new,) = read_items(qti), read_items(packages["qti-3.0.zip"])
    names = [e.tag.partition("}")[2].removeprefix("qti-").replace("-", "") for e in new.iter()]
    assert [e.tag.partition("}")[2].lower() for e in old.iter()] == [
        name for name in names if name != "contentbody"
    ]


@pytest.mark.parametrize("kind", ["masked", "lstm", "beam_search", "sentence", "mistakes"])
def test_package_is_valid_by_the_published_schemas(kind: str) -> None:
    """Needs a folder with imsqti_v2p1.xsd and the schemas that it imports, and lxml."""
    folder = os.environ.get("WORKINGS_QTI_SCHEMAS")
    if folder is None:
        pytest.skip("WORKINGS_QTI_SCHEMAS names no folder of schemas")
    etree = pytest.importorskip("lxml.etree")
    schema = etree.XMLSchema(etree.parse(Path(folder) / "imsqti_v2p1.xsd"))
    options = {"count": 2, "mistakes": True} if kind == "mistakes" else {}
    _, _, qti = make_quiz("self" if kind == "mistakes" else kind, **options)
    for element in [*read_items(qti), *read_items(qti, "test")]:
        schema.assertValid(etree.fromstring(ET.tostring(element)))
