"""Worked problems as LaTeX: documents compile, and text is escaped."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workings.problems.notation import escape_latex
from workings.problems.worked_problem import Cell, Panel, WorkedProblem
from workings.render.worked_latex import matrix_latex, render_latex

ENGINES = [engine for engine in ("pdflatex", "xelatex") if shutil.which(engine)]
# The commands that escape_latex() may write: symbols, accents, characters by their code.
COMMAND = re.compile(
    r"\\(?:(?:text[a-z]+|quotedblbase|guillemot[a-z]+|unicodechar|char|ldots|copyright|pounds|ae|AE|oe|OE|ss|[urHvdcijoOlLSP])"
    r"(?![a-zA-Z])|['`^~=.\"{}$&#%_])"
)
MATHS = re.compile(r"\\ensuremath\{(?:[^{}]|\{[^{}]*\})*\}")


def balanced(source: str) -> bool:
    depth = 0
    for brace in re.findall(r"(?<!\\)(?:\\\\)*([{}])", source):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            return False
    return depth == 0


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        (r"\input{x}", r"\textbackslash{}input\{x\}"),
        ("50 % of $5 & #1_a", r"50 \% of \$5 \& \#1\_a"),
        ("~^", r"\textasciitilde{}\textasciicircum{}"),
        ("<|>", r"\textless{}\textbar{}\textgreater{}"),
        ("a--b ''", r"a-{}-b '{}'"),
        ("naïve Käse", r"na\"{\i}ve K\"{a}se"),
        ("ﬀ中", r"\unicodechar{FB00}\unicodechar{4E2D}"),
        ("a\nb\x1b", r"a\textbackslash{}nb\textbackslash{}x1b"),
        ("▁the", r"\textvisiblespace{}the"),
        ("self-attention, twice", "self-attention, twice"),
    ],
)
def test_escape(text: str, escaped: str) -> None:
    assert escape_latex(text) == escaped


@given(st.text(max_size=40))
def test_escaped_text_has_no_commands(text: str) -> None:
    latex = escape_latex(text)
    assert latex.isascii()
    assert latex.isprintable()
    assert balanced(latex)
    rest = COMMAND.sub("", MATHS.sub("", latex))
    assert not re.search(r"[\\$&#%^_]", rest)
    assert "~" not in rest or "\u00a0" in text


@given(st.text(alphabet="\\{}$&#%_^~-'`\"<>|,abc", max_size=30))
def test_every_special_character_is_escaped(text: str) -> None:
    rest = re.sub(r"\\text[a-z]+\{\}|\\char34\{\}|\\[{}$&#%_]", "", escape_latex(text)).replace(
        "{}", ""
    )
    assert re.fullmatch(r"[-',abc]*", rest)


def test_matrix(report: WorkedProblem) -> None:
    assert matrix_latex(report.steps[0]) == "\n".join(
        [
            r"\begin{bmatrix}",
            r"  2 & 4 & \text{?} \\",
            r"  4 & 16 & \boxed{\mathbf{18}}",
            r"\end{bmatrix}",
        ]
    )


def test_marks_need_no_color(report: WorkedProblem) -> None:
    page = render_latex(report)
    assert "Second mistake: weights, row 2, column 2: 3, but it is 0.88" in page
    assert r"\underline{0.000007}" in page
    assert r"\boxed{3}" in page
    assert r"0.468\rlap{$^{\approx}$}" in page
    assert r"0.06\phantom{0007}" in page  # claims as they were typed, decimal points aligned
    for meaning in ("the first wrong number", "follows from", "rounding", "left blank"):
        assert meaning in page.split("Marks:")[1]


def test_numbers(solution: WorkedProblem) -> None:
    page = render_latex(solution)
    assert r"1.00 & -\infty" in page
    assert r"0.25 & 1{\cdot}10^{-7}" in page
    assert "-12.25 & 0.00" in page


@pytest.mark.parametrize(
    ("text", "latex"), [("0,5", "0{,}5"), ("1/2", "1/2"), ("−3", "-3"), ("-inf", r"-\infty")]
)
def test_claims_as_they_were_typed(text: str, latex: str) -> None:
    panel = Panel("Q", None, [[Cell(text, 0.5, "right")]], ["1"], ["1"], verdict="right")
    assert f"  {latex}\n" in matrix_latex(panel)


def test_names_are_outside_the_brackets(solution: WorkedProblem) -> None:
    page = render_latex(solution)
    assert r"\headed{\text{the} \\ \text{cat}}{rr}" in page
    assert r"\text{the} & \text{cat} \\" in page


@pytest.mark.parametrize("page", ["solution", "report", "hostile", "large"])
def test_documents_are_complete(page: str, request: pytest.FixtureRequest) -> None:
    source = render_latex(request.getfixturevalue(page))
    assert source.isascii()
    assert balanced(source)
    begins = re.findall(r"\\begin\{([a-z*]+)\}", source)
    assert sorted(begins) == sorted(re.findall(r"\\end\{([a-z*]+)\}", source))
    assert source.startswith(r"\documentclass")
    assert source.endswith("\\end{document}\n")
    for lines in re.findall(r"\\begin\{bmatrix\}\n(.*?)\n\\end\{bmatrix\}", source, re.DOTALL):
        assert len({row.count("&") for row in lines.split("\\\\\n")}) == 1


def test_hostile_text_stays_text(hostile: WorkedProblem) -> None:
    body = render_latex(hostile).split(r"\begin{document}")[1]
    assert r"\input" not in body
    assert "%" not in re.sub(r"\\%", "", body)
    assert r"\textbackslash{}input\{/etc/passwd\}" in body


def test_large_matrices_keep_the_wrong_cell(large: WorkedProblem) -> None:
    page = render_latex(large)
    assert r"\boxed{\mathbf{77}}" in page
    assert r"\vdots" in page
    assert r"\cdots" in page
    assert r"40 \times 40" in page


def test_more_than_ten_columns() -> None:
    cells = [[Cell(str(k), float(k)) for k in range(12)]]
    panel = Panel("Q", None, cells, ["1"], [str(k + 1) for k in range(12)])
    assert matrix_latex(panel).startswith(r"\setcounter{MaxMatrixCols}{12}")


@pytest.mark.slow
@pytest.mark.skipif(not ENGINES, reason="LaTeX is not installed")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("page", ["solution", "report", "hostile", "large"])
def test_compiles(page: str, engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    source = tmp_path / "page.tex"
    source.write_text(render_latex(request.getfixturevalue(page)), encoding="ascii")
    command = [engine, "-interaction=nonstopmode", "-halt-on-error", source.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-2000:]
    log = (tmp_path / "page.log").read_text(encoding="utf-8", errors="replace")
    assert "Missing character" not in log
