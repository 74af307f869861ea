"""Problem sheets as QTI packages, which Canvas, OpenOLAT, TAO and other platforms import.

One item per problem, with a box for every number, and a test of all items. An item is written as
QTI 2.1; QTI 3 has the same elements under other names. The response processing accepts numbers
within the tolerance of rounding, and has a message for every number that a named mistake leads to.
"""

import io
import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from xml.etree import ElementTree as ET

from workings.languages import get_language, gettext
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

Element = ET.Element

_NUMBER = re.compile(r"-?\d+(\.\d+)?")
# Characters that XML 1.0 does not allow.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_MINUS_INFINITY = ("-inf", "-∞", "−∞", "-infinity", "−inf")
_HTML = ("p", "em", "strong", "table", "thead", "tbody", "tr", "th", "td")
_SCHEMA_INSTANCE = "http://www.w3.org/2001/XMLSchema-instance"


@dataclass(frozen=True)
class QtiVersion:
    """How a version of QTI names its elements and packages."""

    number: str
    namespace: str
    schema: str
    package_namespace: str
    package_schema: str
    package_version: str
    resource_suffix: str
    has_prefix: bool  # names are like qti-item-body, not itemBody


VERSIONS = (
    QtiVersion(
        "2.1",
        "http://www.imsglobal.org/xsd/imsqti_v2p1",
        "http://www.imsglobal.org/xsd/qti/qtiv2p1/imsqti_v2p1.xsd",
        "http://www.imsglobal.org/xsd/imscp_v1p1",
        "QTIv2.1 Package",
        "1.0.0",
        "xmlv2p1",
        has_prefix=False,
    ),
    QtiVersion(
        "3.0",
        "http://www.imsglobal.org/xsd/imsqtiasi_v3p0",
        "https://purl.imsglobal.org/spec/qti/v3p0/schema/xsd/imsqti_asiv3p0_v1p0.xsd",
        "http://www.imsglobal.org/xsd/qti/qtiv3p0/imscp_v1p1",
        "QTI Package",
        "3.0.0",
        "xmlv3p0",
        has_prefix=True,
    ),
)


QTI_PACKAGES = {f"qti-{version.number}.zip": version for version in VERSIONS}


def render_qti_packages(sheet: PrintedSheet) -> dict[str, bytes]:
    """Return the packages of a sheet, by file name."""
    return {
        name: _make_archive(render_qti(sheet, version)) for name, version in QTI_PACKAGES.items()
    }


def _make_archive(files: dict[str, str]) -> bytes:
    """Return a ZIP archive that depends on nothing but the files."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, text)
    return out.getvalue()


def render_qti(sheet: PrintedSheet, version: QtiVersion) -> dict[str, str]:
    """Return the files of a package: the manifest, the test and one item per problem."""
    names = [f"problem-{problem.number:02d}" for problem in sheet.problems]
    items = (_ItemMaker(problem, sheet).make() for problem in sheet.problems)
    return {
        "imsmanifest.xml": _serialize(_make_manifest(names, version)),
        "test.xml": _format(_make_test(sheet, names), version),
        **{f"{n}.xml": _format(i, version) for n, i in zip(names, items, strict=True)},
    }


def _make_manifest(names: Sequence[str], version: QtiVersion) -> Element:
    root = Element("manifest", xmlns=version.package_namespace, identifier="sheet")
    metadata = ET.SubElement(root, "metadata")
    ET.SubElement(metadata, "schema").text = version.package_schema
    ET.SubElement(metadata, "schemaversion").text = version.package_version
    ET.SubElement(root, "organizations")
    resources = ET.SubElement(root, "resources")
    for name, kind in [("test", "test"), *((name, "item") for name in names)]:
        resource = ET.SubElement(
            resources,
            "resource",
            identifier=f"resource-{name}",
            type=f"imsqti_{kind}_{version.resource_suffix}",
            href=f"{name}.xml",
        )
        ET.SubElement(resource, "file", href=f"{name}.xml")
        for other in names if kind == "test" else ():
            ET.SubElement(resource, "dependency", identifierref=f"resource-{other}")
    return root


def _make_test(sheet: PrintedSheet, names: Sequence[str]) -> Element:
    root = Element("assessmentTest", identifier="test", title=_clean(sheet.title))
    score = ET.SubElement(
        root, "outcomeDeclaration", identifier="SCORE", cardinality="single", baseType="float"
    )
    _add_text(ET.SubElement(score, "defaultValue"), "value", "0")
    part = ET.SubElement(
        root,
        "testPart",
        identifier="part",
        navigationMode="nonlinear",
        submissionMode="individual",
    )
    section = ET.SubElement(
        part, "assessmentSection", identifier="section", title=_clean(sheet.title), visible="true"
    )
    for name in names:
        ET.SubElement(section, "assessmentItemRef", identifier=name, href=f"{name}.xml")
    total = ET.SubElement(
        ET.SubElement(root, "outcomeProcessing"), "setOutcomeValue", identifier="SCORE"
    )
    ET.SubElement(ET.SubElement(total, "sum"), "testVariables", variableIdentifier="SCORE")
    return root


@dataclass
class _ItemMaker:
    """Makes the item of one problem."""

    problem: PrintedProblem
    sheet: PrintedSheet
    declarations: list[Element] = field(default_factory=list)
    conditions: list[Element] = field(default_factory=list)
    messages: dict[str, str] = field(default_factory=dict)  # identifiers by text

    def make(self) -> Element:
        """Return the item."""
        problem = self.problem
        body = Element("itemBody")
        for text in self._list_paragraphs():
            _add_text(body, "p", text)
        for given in problem.givens:
            _add_table(body, given, given.name)
        for step in problem.asked_steps:
            boxes = None if problem.mistake else self._make_boxes(step)
            _add_table(body, step.panel, self._format_caption(step), boxes)
        if problem.mistake is not None:
            self._ask_for_mistake(body, problem.mistake)
        root = Element(
            "assessmentItem",
            {
                "identifier": f"problem-{problem.number:02d}",
                "title": _clean(f"{self.sheet.title} {problem.number:02d}"),
                "adaptive": "false",
                "timeDependent": "false",
                "xml:lang": get_language().code,
            },
        )
        root.extend(self.declarations)
        root.extend(self._declare_outcomes())
        root.append(body)
        ET.SubElement(root, "responseProcessing").extend(self.conditions)
        root.extend(self._list_messages())
        return root

    def _list_paragraphs(self) -> list[str]:
        # Only the first instruction: numbers that follow from a wrong one get no points here, as
        # the other instructions promise.
        problem, all_texts = self.problem, self.sheet.instructions
        texts = [*(all_texts if problem.mistake else all_texts[:1]), problem.heading]
        return [text for text in (*texts, " ".join(problem.instructions)) if text]

    def _format_caption(self, step: PrintedStep) -> str:
        panel = step.panel
        hides_formula = self.sheet.hides_formulas or not panel.formula
        caption = (
            panel.name if hides_formula or not panel.formula else panel.formula(TextNotation())
        )
        has_points = self.sheet.has_points and self.problem.mistake is None
        return f"{caption} ({format_points(step.points)})" if has_points else caption

    def _declare_outcomes(self) -> Iterator[Element]:
        points = str(self.problem.points)
        for name, default in (("SCORE", "0"), ("MAXSCORE", points)):
            outcome = Element(
                "outcomeDeclaration", identifier=name, cardinality="single", baseType="float"
            )
            _add_text(ET.SubElement(outcome, "defaultValue"), "value", default)
            yield outcome
        yield Element(
            "outcomeDeclaration",
            identifier="FEEDBACK",
            cardinality="multiple",
            baseType="identifier",
        )

    def _list_messages(self) -> Iterator[Element]:
        for text, identifier in self.messages.items():
            message = Element(
                "modalFeedback",
                outcomeIdentifier="FEEDBACK",
                identifier=identifier,
                showHide="show",
            )
            _add_text(message, "p", text)
            yield message

    def _make_boxes(self, step: PrintedStep) -> list[list[Element]]:
        points = step.points / sum(map(len, step.solution))
        return [
            [
                self._make_box(
                    text,
                    step.tolerance[i][j],
                    points,
                    gettext(
                        "{step}, row {row}, column {column}",
                        step=step.panel.name,
                        row=i + 1,
                        column=j + 1,
                    ),
                    step.mistakes[i][j] if step.mistakes else (),
                )
                for j, text in enumerate(row)
            ]
            for i, row in enumerate(step.solution)
        ]

    def _make_box(
        self,
        text: str,
        tolerance: float,
        points: float,
        label: str,
        mistakes: Sequence[ExpectedMistake] = (),
    ) -> Element:
        """Return a box for a number or word, and process what is written into it."""
        if _NUMBER.fullmatch(text):
            response = self._declare("float", text)
            branches = [(_is_number(response, text, tolerance), "")]
            branches += [
                (_is_number(response, m.text, m.tolerance), _describe(label, m)) for m in mistakes
            ]
        else:
            response = self._declare("string", text)
            branches = [(_is_text(response, _MINUS_INFINITY if text == "-inf" else (text,)), "")]
            branches += [(_is_text(response, m.spellings), _describe(label, m)) for m in mistakes]
        self._add_condition(branches, points)
        return Element(
            "textEntryInteraction",
            responseIdentifier=response,
            expectedLength="8",
            label=_clean(label),
        )

    def _declare(self, base_type: str, correct: str) -> str:
        """Declare a response and return its identifier."""
        identifier = f"R{len(self.declarations) + 1}"
        declaration = Element(
            "responseDeclaration",
            identifier=identifier,
            cardinality="single",
            baseType=base_type,
        )
        _add_text(ET.SubElement(declaration, "correctResponse"), "value", correct)
        self.declarations.append(declaration)
        return identifier

    def _add_condition(self, branches: Sequence[tuple[Element, str]], points: float) -> None:
        """Add a condition: points for the first branch, a message for every other one."""
        condition = Element("responseCondition")
        for k, (test, message) in enumerate(branches):
            branch = ET.SubElement(condition, "responseElseIf" if k else "responseIf")
            branch.append(test)
            if k:
                branch.append(_set_outcome("FEEDBACK", "identifier", self._name_message(message)))
            else:
                branch.append(_set_outcome("SCORE", "float", f"{points:.15g}"))
        self.conditions.append(condition)

    def _name_message(self, text: str) -> str:
        return self.messages.setdefault(text, f"M{len(self.messages) + 1}")

    def _ask_for_mistake(self, body: Element, mistake: PrintedMistake) -> None:
        """Ask for the step, the cell, the number that should stand there, and the mistake.

        A point each for the step and the cell, and one for the number and the name together.
        """
        steps = [step.panel.name for step in self.problem.steps]
        boxes = {
            "step": self._make_choice(steps, (mistake.step_name,), 1),
            "row": self._make_box(str(mistake.row), 0, 0.5, gettext("row")),
            "column": self._make_box(str(mistake.column), 0, 0.5, gettext("column")),
            "number": self._make_box(
                mistake.expected, mistake.tolerance, 0.5, gettext("It should be")
            ),
            "mistake": self._make_choice(self.sheet.choices, mistake.names, 0.5),
        }
        text = gettext(
            "The first wrong number: step {step}, row {row}, column {column}. It should be"
            " {number}. The mistake: {mistake}",
            **{name: f"{{{name}}}" for name in boxes},
        )
        first, *parts = re.split(r"\{(\w+)\}", text)
        paragraph = _add_text(body, "p", first)
        for name, following in zip(parts[::2], parts[1::2], strict=True):
            boxes[name].tail = following
            paragraph.append(boxes[name])

    def _make_choice(
        self, names: Sequence[str], correct: tuple[str, ...], points: float
    ) -> Element:
        identifiers = {name: f"C{k}" for k, name in enumerate(names, start=1)}
        response = self._declare("identifier", identifiers[correct[0]])
        # Other mistakes that lead to the same numbers are not always among the choices.
        known = [identifiers[name] for name in correct if name in identifiers]
        alternatives = [_match(response, "identifier", identifier) for identifier in known]
        self._add_condition([(_any_of(alternatives), "")], points)
        choice = Element("inlineChoiceInteraction", responseIdentifier=response, shuffle="false")
        for name, identifier in identifiers.items():
            _add_text(choice, "inlineChoice", name).set("identifier", identifier)
        return choice


def _describe(label: str, mistake: ExpectedMistake) -> str:
    return f"{label}: {mistake.description}"


def _is_number(response: str, text: str, tolerance: float) -> Element:
    test = Element("equal", toleranceMode="absolute", tolerance=f"{tolerance:g} {tolerance:g}")
    ET.SubElement(test, "variable", identifier=response)
    _add_text(test, "baseValue", text).set("baseType", "float")
    return test


def _is_text(response: str, texts: Sequence[str]) -> Element:
    tests = []
    for text in texts:
        test = Element("stringMatch", caseSensitive="false")
        ET.SubElement(test, "variable", identifier=response)
        _add_text(test, "baseValue", text).set("baseType", "string")
        tests.append(test)
    return _any_of(tests)


def _match(response: str, base_type: str, value: str) -> Element:
    test = Element("match")
    ET.SubElement(test, "variable", identifier=response)
    _add_text(test, "baseValue", value).set("baseType", base_type)
    return test


def _any_of(tests: Sequence[Element]) -> Element:
    if len(tests) == 1:
        return tests[0]
    either = Element("or")
    either.extend(tests)
    return either


def _set_outcome(name: str, base_type: str, value: str) -> Element:
    """Return the element that adds a number to an outcome, or an identifier to its list."""
    outcome = Element("setOutcomeValue", identifier=name)
    total = ET.SubElement(outcome, "sum" if base_type == "float" else "multiple")
    ET.SubElement(total, "variable", identifier=name)
    _add_text(total, "baseValue", value).set("baseType", base_type)
    return outcome


def _add_table(
    body: Element, panel: Panel, caption: str, boxes: list[list[Element]] | None = None
) -> None:
    """Add a matrix below its caption."""
    _add_text(ET.SubElement(body, "p"), "strong", caption)
    table = ET.SubElement(body, "table")
    header = ET.SubElement(ET.SubElement(table, "thead"), "tr")
    ET.SubElement(header, "th")
    for name in panel.column_names:
        _add_text(header, "th", name).set("scope", "col")
    rows = ET.SubElement(table, "tbody")
    for i, name in enumerate(panel.row_names):
        row = ET.SubElement(rows, "tr")
        _add_text(row, "th", name).set("scope", "row")
        for j, cell in enumerate(panel.cells[i]):
            if boxes:
                ET.SubElement(row, "td").append(boxes[i][j])
            else:
                _add_text(row, "td", typeset(cell.text))


def _add_text(parent: Element, name: str, text: str) -> Element:
    child = ET.SubElement(parent, name)
    child.text = _clean(text)
    return child


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("?", text)


def _format(root: Element, version: QtiVersion) -> str:
    """Return a file of this version, with the location of its schema."""
    root.set("xmlns", version.namespace)
    root.set("xmlns:xsi", _SCHEMA_INSTANCE)
    root.set("xsi:schemaLocation", f"{version.namespace} {version.schema}")
    if version.has_prefix:
        _rename(root)
    return _serialize(root)


def _rename(root: Element) -> None:
    """Rename elements and attributes as in QTI 3: itemBody to qti-item-body."""
    for element in list(root.iter()):
        if element.tag == "modalFeedback":
            content = Element("qti-content-body")
            content.extend(list(element))
            element[:] = [content]
        if element.tag not in _HTML and not element.tag.startswith("qti-"):
            element.tag = f"qti-{_to_kebab(element.tag)}"
        for name in [name for name in element.attrib if ":" not in name]:
            element.set(_to_kebab(name), element.attrib.pop(name))


@cache
def _to_kebab(name: str) -> str:
    return re.sub(r"[A-Z]", lambda match: f"-{match[0].lower()}", name)


def _serialize(root: Element) -> str:
    ET.indent(root)
    text = ET.tostring(root, encoding="unicode", short_empty_elements=True)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'
