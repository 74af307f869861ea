"""Read a document and judge each of its worked examples."""

import sys
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType
from typing import Any

from workings.errors import UserError
from workings.problems.documents.aliases import replace_aliases
from workings.problems.documents.chains import find_statements, rename
from workings.problems.documents.entries import get_symbol
from workings.problems.documents.examples import Example, split_examples
from workings.problems.documents.formulas import normalize_name
from workings.problems.documents.judge import ExampleJudge
from workings.problems.documents.matrices import MAX_TEXT_CHARS
from workings.problems.documents.relevance import keep_worked_examples
from workings.problems.documents.reports import DocumentReport, Unread, format_places
from workings.problems.documents.sources import Source, read_source
from workings.problems.documents.sources.formats import MAX_DOCUMENT_BYTES
from workings.problems.documents.states import name_as_attention
from workings.problems.problem import Problem
from workings.problems.problem_file import (
    ProblemReader,
    parse_problem_toml,
    prefix_errors,
)

_MAX_EXAMPLES = 400
_MAX_INTRODUCTION = 4  # sections


def load_document(path: str | Path, **settings: Any) -> DocumentReport:
    """Read and judge a document file, or standard input for `-`; errors name the file."""
    with prefix_errors(path):
        try:
            if str(path) == "-":
                content = sys.stdin.buffer.read(MAX_DOCUMENT_BYTES + 1)
            else:
                with Path(path).open("rb") as file:
                    content = file.read(MAX_DOCUMENT_BYTES + 1)
        except (OSError, ValueError) as error:  # ValueError: a name with a NUL
            raise UserError(f"{getattr(error, 'strerror', None) or error}") from None
        return read_document(content, str(path), **settings)


def read_document(
    content: bytes,
    name: str = "",
    *,
    names: Mapping[int, str] = MappingProxyType({}),
    **settings: Any,
) -> DocumentReport:
    """Read a document of any format and judge its examples; `settings` hold for all of them.

    `names` corrects the names of matrices, by the index of their grid; an empty one leaves a matrix
    out.
    """
    source = read_source(content, name)
    return judge_source(source, settings, names)


def read_problem(text: str, **settings: Any) -> Problem:
    """Return the problem of a text with a single worked example; settings as in a problem file."""
    document = judge_source(_read_text(text), settings, is_problem=True)
    examples = document.examples or document.unclaimed
    problems = [problem for e in examples if (problem := e.without_doubt()) is not None]
    if len(problems) == 1:
        return problems[0]
    if problems:
        places = format_places([example.place for example in document.examples])
        raise UserError(f"{len(problems)} worked examples ({places}): expected a single problem")
    whys = [example.why for example in document.examples if example.why]
    whys += [unread.describe() for unread in document.unread]
    raise UserError(whys[0] if whys else "no worked example found: expected X = …, W_Q = …, Q = …")


def _read_text(text: str) -> Source:
    if len(text) > MAX_TEXT_CHARS:
        raise UserError(f"{len(text)} characters of text; at most {MAX_TEXT_CHARS} are allowed")
    return read_source(text.encode("utf-8", "replace"))


def judge_source(
    source: Source,
    settings: Mapping[str, Any],
    names: Mapping[int, str] = MappingProxyType({}),
    *,
    is_problem: bool = False,
) -> DocumentReport:
    """Judge the examples of a source; `is_problem`: it is a problem, whatever its words."""
    declared = _read_settings(source)
    settings = {**declared, **settings}
    statements = find_statements(source)
    settings, ignored, kind = _take_reader_settings(settings)
    for statement in statements:
        if statement.value_grid in names:
            rename(statement, names[statement.value_grid])
        symbol = get_symbol(statement)
        if symbol is not None and normalize_name(symbol.text) in ignored:
            statement.value, statement.problem = None, "it is ignored"
    statements = name_as_attention(replace_aliases(statements))
    examples = split_examples(source, statements, kind)
    texts = _collect_texts(source)
    reports, unread, used = [], list[Unread](), set[int]()
    if not (is_problem or kind is not None or names):
        keep_worked_examples(examples, "\n".join(texts))
    for example in examples[:_MAX_EXAMPLES]:
        sections = [*_find_introduction(example, examples), *example.sections]
        text = "\n".join(texts[section] for section in sections)
        judge = ExampleJudge(source, example, text, settings)
        report = judge.judge()
        unread += judge.unread
        used |= judge.used
        if report is not None:
            reports.append(report)
    unread = _sort_unread(unread)
    with_claims = [r for r in reports if r.report is not None or r.why]
    others = [r for r in reports if r.report is None and not r.why]
    count = len(used) + len(unread)
    return DocumentReport(with_claims, unread, count, len(used), others, source)


def _find_introduction(example: Example, examples: list[Example]) -> list[int]:
    """Return the sections right before an example that have no numbers: titles and remarks."""
    taken = {section for other in examples for section in other.sections if other.entries}
    first = min(example.sections)
    before = list(takewhile(lambda s: s not in taken, range(first - 1, -1, -1)))
    return before[:_MAX_INTRODUCTION][::-1]


def _take_reader_settings(
    settings: Mapping[str, Any],
) -> tuple[dict[str, Any], set[str], str | None]:
    """Return the settings of problems, the names that are not read, and the kind if it is given."""
    rest = dict(settings)
    ignored, kind = rest.pop("ignore", []), rest.pop("kind", None)
    if not isinstance(ignored, list) or not all(isinstance(name, str) for name in ignored):
        raise UserError('ignore must be a list of names: ["P"]')
    if kind is not None:
        kind = ProblemReader({"kind": kind}).read_kind().name
    return rest, {normalize_name(name) for name in ignored}, kind


def _read_settings(source: Source) -> dict[str, Any]:
    try:
        return parse_problem_toml("\n".join(source.settings))
    except UserError as error:
        raise UserError(f"settings in a comment: {error}") from None


def _collect_texts(source: Source) -> list[str]:
    texts: list[list[str]] = [[]]
    for line in source.lines:
        if line.level:
            texts.append([])
        texts[-1].append(line.text)
    return ["\n".join(lines) for lines in texts]


def _sort_unread(unread: list[Unread]) -> list[Unread]:
    unique = {(str(u.place), u.text, u.why): u for u in unread}
    return sorted(
        unique.values(),
        key=lambda u: (isinstance(u.place, str), u.place if isinstance(u.place, int) else 0),
    )
