"""Check worked solutions: the first wrong number, its likely cause, and carried errors."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from workings.builtin import builtin_lectures
from workings.cli import supports_color, terminal_width, write_output
from workings.errors import UserError
from workings.plain_text import escape_control

if TYPE_CHECKING:
    from workings.problems import Problem, Report
    from workings.problems.documents.reports import DocumentReport, ExampleReport

HELP = "check worked solutions"
_NO_CLAIMS = "it claims no numbers: give those to check in a [claim] table"
_DOCUMENTS = frozenset(
    [
        ".csv",
        ".docx",
        ".htm",
        ".html",
        ".ipynb",
        ".markdown",
        ".md",
        ".pdf",
        ".pptx",
        ".tex",
        ".tsv",
        ".txt",
        ".xlsx",
    ]
)
_STATUS = {"right": 0, "wrong": 1, "blank": 2, "not judged": 2}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "files",
        metavar="PROBLEM",
        nargs="*",
        help="problem files with a [claim], names of lectures, or documents",
    )
    parser.add_argument(
        "--lectures", action="store_true", help="check the worked examples of all lectures"
    )
    parser.add_argument(
        "--from",
        dest="documents",
        metavar="DOCUMENT",
        action="append",
        default=[],
        help="document to find worked examples in: LaTeX, Markdown, HTML, a notebook, PDF, Word, "
        "PowerPoint, Excel, CSV, text; - for standard input (docs/problem-format.md)",
    )
    parser.add_argument(
        "--show-reading", action="store_true", help="print what was read from where in a document"
    )
    parser.add_argument(
        "--write", metavar="DIR", help="write the examples of a document as problem files"
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object per file or example"
    )
    parser.add_argument(
        "--format",
        choices=("text", "latex", "html", "json"),
        default="text",
        help="output format (default: text)",
    )
    parser.add_argument(
        "--full", action="store_true", help="show every step, even for several files"
    )
    parser.add_argument(
        "--language",
        default="en",
        metavar="CODE",
        help="language of the report: en, de, fr, vi or zh (default: en)",
    )
    parser.add_argument("--out", metavar="FILE", help="write to a file instead of the terminal")
    parser.epilog = f"lectures: {', '.join(builtin_lectures())}"


def run(arguments: argparse.Namespace) -> int:
    """Check every file; return 1 if a number is wrong, 2 if a file has none to check."""
    is_document = [Path(file).suffix.lower() in _DOCUMENTS for file in arguments.files]
    problems = [f for f, d in zip(arguments.files, is_document, strict=True) if not d]
    documents = [f for f, d in zip(arguments.files, is_document, strict=True) if d]
    documents += arguments.documents
    lectures = list(builtin_lectures()) if arguments.lectures else []
    count = len(problems) + len(lectures) + len(documents)
    if not count:
        raise UserError("nothing to check: give a problem file, --lectures or --from DOCUMENT")
    arguments.format = "json" if arguments.json else arguments.format
    if arguments.format in ("html", "latex") and count > 1:
        raise UserError(f"--format {arguments.format}: takes one file")
    if arguments.write and not documents:
        raise UserError("--write: takes documents: --from DOCUMENT")
    checker = _Checker(arguments, is_single=count == 1)
    for file in problems:
        checker.check(file, checker.check_problem)
    for name in lectures:
        checker.check(name, checker.check_lecture)
    for file in documents:
        checker.check(file, checker.check_document)
    arguments.status = checker.status  # returned even if the reader closes the pipe early
    if checker.outputs:
        write_output("\n".join(checker.outputs), arguments.out)
    return checker.status


class _Checker:
    """Checks files one after the other and collects what is printed."""

    def __init__(self, arguments: argparse.Namespace, is_single: bool) -> None:
        self._arguments, self._format = arguments, arguments.format
        self._is_single = is_single
        self.status = 0
        self.outputs: list[str] = []

    def check(self, file: str, check: Callable[[str], None]) -> None:
        """Check a file; an error is one line on standard error."""
        try:
            check(file)
        except (UserError, OSError) as error:
            message = str(error) if isinstance(error, UserError) else f"{file}: {error.strerror}"
            sys.stderr.write(f"workings: {escape_control(message)}\n")
            self.status = 2

    def check_problem(self, file: str) -> None:
        """Check a problem file."""
        from workings.problems import Problem

        self._add_report(file, Problem.load(file))

    def check_lecture(self, name: str) -> None:
        """Check the worked example of a lecture."""
        from workings.problems import Problem

        self._add_report(name, Problem.load(builtin_lectures()[name]))

    def _add_report(self, file: str, problem: "Problem") -> None:
        report = problem.check()
        if report.verdict == "blank":
            sys.stderr.write(f"workings: {escape_control(file)}: nothing to check: {_NO_CLAIMS}\n")
        self.status = max(self.status, _STATUS[report.verdict])
        if self._format == "json":
            self.outputs.append(report.to_json(file))
        elif self._format == "text" and not self._is_single and not self._arguments.full:
            self.outputs.append(f"{escape_control(file)}\n  {report.summarize()}")
        else:
            self.outputs.append(self._render(report))

    def _render(self, report: "Report") -> str:
        if self._format == "text":
            color = self._arguments.out is None and supports_color()
            return report.text(width=terminal_width(), color=color)
        if self._format == "html":
            from workings.web.standalone_page import page

            return page(report)
        return report.latex()

    def check_document(self, file: str) -> None:
        """Find the worked examples of a document and check each of them."""
        from workings.problems.documents.reading import load_document

        document = load_document(file)
        for example in document.examples:
            self.status = max(self.status, _STATUS[example.verdict])
        if not document.examples:
            self.status = 2
            message = "no worked example found: expected matrices such as X = …, Q = …"
            sys.stderr.write(f"workings: {escape_control(file)}: {message}\n")
        if self._arguments.write:
            self._write_problems(document, file)
        if self._format == "json":
            self.outputs += document.to_json_lines(file)
        elif self._format == "html":
            from workings.render.document_html import render_document

            self.outputs.append(render_document(document, Path(file).name))
        elif self._format == "latex":
            self.outputs += [e.report.latex() for e in document.examples if e.report is not None]
        else:
            self._add_sections(document, file)

    def _add_sections(self, document: "DocumentReport", file: str) -> None:
        """Add one section per example, what was read if that is asked for, and the counts."""
        is_full = self._arguments.full or (self._is_single and len(document.examples) == 1)
        for number, example in enumerate(document.examples, start=1):
            heading = f"{file}, {example.describe_place()}: example {number}, {example.kind}"
            self.outputs.append(escape_control(heading))
            self.outputs.append(self._format_example(example, is_full))
            if self._arguments.show_reading:
                self.outputs += [f"    {escape_control(line)}" for line in example.list_reading()]
        if self._arguments.show_reading:
            self.outputs += [f"not read: {escape_control(u.describe())}" for u in document.unread]
        self.outputs.append(document.summarize_counts())

    def _format_example(self, example: "ExampleReport", is_full: bool) -> str:
        if not is_full or example.report is None:
            return f"  {example.summarize()}"
        return f"{self._render(example.report)}\n  read as: {', '.join(example.reading)}"

    def _write_problems(self, document: "DocumentReport", file: str) -> None:
        """Write the problem files of the examples that were understood."""
        from workings.problems.problem_file import format_toml

        folder = Path(self._arguments.write)
        folder.mkdir(parents=True, exist_ok=True)
        stem = Path(file).stem if file != "-" else "document"
        for number, example in enumerate(document.examples, start=1):
            if example.report is not None:
                comment = f"{Path(file).name}, {example.describe_place()}"
                text = format_toml(example.to_table(), escape_control(comment))
                (folder / f"{stem}-{number}.toml").write_text(text, encoding="utf-8")
