"""Sheets and reports in every language: nothing is left in English, and LaTeX compiles."""

import html
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from marked_texts import list_python_texts

from workings.languages import SOURCE_LANGUAGE, list_languages, messages, use_language
from workings.languages.catalog import ENGLISH
from workings.problems import Problem
from workings.problems.mistakes import list_mistakes
from workings.problems.sheets import make_sheet
from workings.problems.sheets.layout import make_printed_sheet
from workings.problems.sheets.sheet_kinds import SHEET_FAMILIES, SHEET_KINDS
from workings.render.sheets import render_files

WRONG = {"X": [[1, 0], [0, 2], [1, 1]], "mask": "causal", "claim": {"scaled": [[1, 0, 1]] * 3}}
# Words of notation, identifiers and data that stay.
KEPT = re.compile(
    r"[a-z]+_\w+|\b(?:softmax|logits?|token|tokens|dropout|given|diag|pos|base|tanh|ids|start"
    r"|back|norm|scores|scaled|masked|weights|mixed|output|weights|totals|targets|hidden|activated|dnormalised)\b"
)


@contextmanager
def use_marked_texts() -> Iterator[None]:
    """Make a language the current one that puts every translated text in brackets."""
    texts: dict[str, str | list[str]] = {
        text: f"⟦{text}⟧" if forms == 1 else [f"⟦{text}⟧", f"⟦{text}⟧"]
        for text, forms in list_python_texts().items()
    }
    token = messages._current.set(replace(ENGLISH, code="xx", messages=texts))
    try:
        yield
    finally:
        messages._current.reset(token)


def list_unmarked_words(text: str) -> list[str]:
    """Return the words of a text that are outside of all brackets and no part of notation."""
    before = ""
    while before != text:
        before, text = text, re.sub(r"⟦[^⟦⟧]*⟧", " ", text)
    assert "⟦" not in text
    return re.findall(r"[A-Za-z]{4,}", KEPT.sub(" ", text))


def list_visible_words(page: str) -> list[str]:
    """Return the unmarked words of an HTML page, without formulas, names and tokens."""
    page = re.sub(r"<(style|script|math|code|th|td|title)\b.*?</\1>", " ", page, flags=re.DOTALL)
    page = re.sub(r"<small>.*?</small>", " ", page)  # the words of a sentence
    page = re.sub(r'class="shape">[^<]*?, ', ">", page)  # the part of a block
    return list_unmarked_words(html.unescape(re.sub(r"<[^>]*>", " ", page)))


@pytest.mark.parametrize("kind", SHEET_KINDS)
def test_what_a_kind_says_of_itself_is_marked(kind: str) -> None:
    texts = list_python_texts()
    assert {SHEET_KINDS[kind].title, SHEET_KINDS[kind].size_text} <= texts.keys()
    picture = SHEET_KINDS[kind].picture
    assert picture in texts or not re.search("[a-z]{3}", picture)  # or it is a formula
    assert SHEET_FAMILIES.keys() <= texts.keys()


@pytest.mark.slow
@pytest.mark.parametrize("kind", SHEET_KINDS)
def test_a_sheet_of_every_kind_has_nothing_in_english(kind: str) -> None:
    with use_marked_texts():
        sheet = make_sheet(kind, count=1, seed=2, level=1)
        exercise = sheet.exercises[0]
        assert list_unmarked_words(" ".join(make_printed_sheet(sheet).instructions)) == []
        assert (
            list_unmarked_words(
                " ".join(SHEET_KINDS[kind].describe(exercise.plan, exercise.problem))
            )
            == []
        )
        keys = [step.key for step in exercise.problem.steps]
        descriptions = {m.description for m in list_mistakes(exercise.problem, keys)}
        unmarked = {text for text in descriptions if not text.startswith("⟦")}
        assert unmarked == set()
        files = render_files(sheet)
        for name in ("sheet.html", "key/key.html"):
            assert list_visible_words(files[name]) == [], name


def test_a_sheet_and_a_report_have_nothing_in_english() -> None:
    with use_marked_texts():
        files = render_files(make_sheet("masked", "2x3", count=1, seed=2, mistakes=True))
        assert list_visible_words(files["sheet.html"]) == []
        assert list_visible_words(files["key/key.html"]) == []
        assert list_visible_words(Problem(**WRONG).check().html()) == []


def test_numbers_are_the_same_in_every_language() -> None:
    tables = []
    for code in list_languages():
        with use_language(code):
            sheet = make_sheet("self,gru", count=2, seed=5)
            tables.append([exercise.table["given"] for exercise in sheet.exercises])
            files = render_files(sheet)
            assert "\\unicodechar{" not in files["sheet.tex"] + files["key/key.tex"]
            texts = "".join(files.values())
            assert ("0,5" in texts) == (code in ("de", "fr", "vi"))
    assert all(table == tables[0] for table in tables)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("xelatex") is None, reason="no xelatex")
@pytest.mark.parametrize("code", [code for code in list_languages() if code != SOURCE_LANGUAGE])
def test_latex_compiles_in_every_language(code: str, tmp_path: Path) -> None:
    with use_language(code) as language:
        files = render_files(make_sheet("masked,lstm", count=2, seed=1, level=1, mistakes=True))
        texts = {
            "sheet": files["sheet.tex"],
            "key": files["key/key.tex"],
            "report": Problem(**WRONG).check().latex(),
        }
    for name, text in texts.items():
        assert compile_latex("xelatex", tmp_path / f"{name}.tex", text)
        if not language.is_unicode_latex and shutil.which("pdflatex"):
            assert compile_latex("pdflatex", tmp_path / f"{name}.tex", text)


def compile_latex(program: str, file: Path, text: str) -> bool:
    """Compile a document; return True if that succeeds and no character is missing."""
    file.write_text(text, encoding="utf-8")
    command = [program, "-interaction=nonstopmode", "-halt-on-error", file.name]
    run = subprocess.run(command, cwd=file.parent, capture_output=True, check=False)
    log = file.with_suffix(".log").read_text(encoding="utf-8", errors="replace")
    return run.returncode == 0 and "Missing character" not in log
