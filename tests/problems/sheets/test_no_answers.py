"""Nothing that a student gets carries an answer: every file outside key/, and what it shows."""

import ast
import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from kinds_of_sheets import ALL_BUT_DEAR

from workings.problems import Report
from workings.problems.sheets import Sheet, make_sheet
from workings.problems.sheets.sheet_kinds import SHEET_KINDS
from workings.render.sheets import render_files

NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])")
# What is the same in every sheet and has numbers of its own: styles and the LaTeX preamble.
FRAME = re.compile(r"<style>.*?</style>|\\documentclass.*?\\begin\{document\}", re.DOTALL)


def find_numbers(text: str) -> set[str]:
    """Return the numbers of a text that have at least three digits, without their signs."""
    return {n for n in NUMBER.findall(text) if sum(c.isdigit() for c in n) >= 3}


def find_answers(sheet: Sheet, files: dict[str, str]) -> set[str]:
    """Return the numbers of the key that are neither given nor printed on purpose."""
    answers, printed = set[str](), set[str]()
    for exercise in sheet.exercises:
        key = tomllib.loads(files[f"key/{exercise.name}.toml"], parse_float=str)
        answers |= find_numbers(str(key["claim"]))
        printed |= find_numbers(str(exercise.table))
        if exercise.planted_mistake is not None:
            printed |= find_numbers(str(exercise.planted_mistake.claims))
    return answers - printed


def list_handouts(files: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield every file outside key/ and what a student sees who runs the notebook."""
    for name, text in files.items():
        if not name.startswith("key/"):
            yield name, FRAME.sub("", text)
    for k, output in enumerate(run_notebook(files["sheet.ipynb"])):
        yield f"output {k}", FRAME.sub("", output)


def run_notebook(text: str) -> Iterator[str]:
    """Run the cells of a notebook and yield what each displays."""
    names: dict[str, Any] = {}
    for cell in json.loads(text)["cells"]:
        if cell["cell_type"] != "code":
            continue
        *body, last = ast.parse("".join(cell["source"])).body
        is_result = isinstance(last, ast.Expr) and "print" not in ast.dump(last)
        body = body if is_result else [*body, last]
        exec(compile(ast.Module(body, []), "cell", "exec"), names)  # noqa: S102
        if is_result:
            report = eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307
            assert isinstance(report, Report)
            yield from (repr(report), report.text(), report._repr_html_(), report.latex())


@pytest.mark.parametrize("seed", [pytest.param(1, marks=pytest.mark.slow), 5])
@pytest.mark.parametrize("kind", ALL_BUT_DEAR)
def test_handouts_have_no_number_of_the_key(kind: str, seed: int) -> None:
    vectors = "columns" if seed == 5 else "rows"
    count = 1 if seed == 5 else 2
    sheet = make_sheet(kind, SHEET_KINDS[kind].sizes[0], count, seed, vectors=vectors)
    files = render_files(sheet)
    answers = find_answers(sheet, files)
    # The answers of some are small integers.
    assert len(answers) > 2 or kind in ("feed_forward", "conv1d", "edit_distance")
    for name, text in list_handouts(files):
        assert not find_numbers(text) & answers, name


@pytest.mark.parametrize("kind", ["self", "multi-head", "rnn"])
def test_handouts_with_mistakes_have_no_number_of_the_key(kind: str) -> None:
    sheet = make_sheet(kind, SHEET_KINDS[kind].sizes[0], 3, 7, mistakes=True)
    files = render_files(sheet)
    answers = find_answers(sheet, files)
    for name, text in list_handouts(files):
        assert not find_numbers(text) & answers, name
        for exercise in sheet.exercises:
            assert exercise.planted_mistake is not None
            assert exercise.planted_mistake.description not in text, name


def test_unanswered_notebook_has_no_verdict() -> None:
    outputs = list(run_notebook(render_files(make_sheet("masked", "3x3", 1, 1))["sheet.ipynb"]))
    assert len(outputs) == 4 * len(
        make_sheet("masked", "3x3", 1, 1).exercises[0].problem.asked_steps
    )
    for output in outputs:
        assert "othing to check" in output
        assert "✓" not in output
        assert 'class="is-right"' not in output
        assert "exact" not in FRAME.sub("", output)
