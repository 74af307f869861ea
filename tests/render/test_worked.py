"""Worked problems as text for a terminal."""

import re
from dataclasses import replace

import pytest

from workings.plain_text import visible_width
from workings.problems.worked_problem import CauseSummary, WorkedProblem
from workings.render.worked import render_text

ANSI = re.compile(r"\x1b\[[\d;]*m")


def matrix_rows(page: str, heading: str) -> list[str]:
    """Return the lines of the matrix below a heading."""
    lines = page.splitlines()
    start = next(k for k, line in enumerate(lines) if heading in line)
    return [line for line in lines[start + 1 : lines.index("", start)] if re.search("[⎡⎢⎣[]", line)]


def test_solution(solution: WorkedProblem) -> None:
    assert render_text(solution, width=80) == "\n".join(
        [
            "Two words",
            "",
            "Given",
            "X  2×2           W_Q  2×2",
            "the ⎡ 1   0 ⎤    ⎡   0.50  1.00 ⎤",
            "cat ⎣ 0  −2 ⎦    ⎣ −12.25  0.00 ⎦",
            "",
            "1  scores = Q Kᵀ  2×2",
            "          the     cat",
            "   the ⎡ 1.00      −∞ ⎤",
            "   cat ⎣ 0.25  1·10⁻⁷ ⎦",
            "",
            "2  scaled, head 2: scaled₂ = scores₂/√3  1×2",
            "   [ 1.5  −20.0 ]",
        ]
    )


def test_decimal_points_are_aligned(report: WorkedProblem) -> None:
    rows = matrix_rows(render_text(report, width=80), "weights")
    assert len(rows) == 2
    points = [[m.start() for m in re.finditer(r"\.", row)] for row in rows]
    assert points[0][0] == points[1][0]
    assert rows[0].index("⎤") == rows[1].index("⎦")
    # 3 has no decimal point: its last digit is aligned with the digit before the point.
    assert rows[1].index("3") == points[0][1] - 1


def test_marks_have_symbols_without_color(report: WorkedProblem) -> None:
    page = render_text(report, width=80)
    assert "\x1b" not in page
    assert "▸18✗" in page
    for symbol in ("0.468   ≈", "0.000007↳", "3    ✗", "?"):
        assert symbol.replace(" ", "") in page.replace(" ", "")
    for meaning in ("the first wrong number", "follows from", "rounding", "left blank"):
        assert meaning in page


def test_verdict_comes_first_and_mistake_last(report: WorkedProblem) -> None:
    lines = render_text(report, width=100).splitlines()
    assert lines[1].startswith("✗ wrong: scores, row 2, column 3: claimed 18, expected 12")
    last = "\n".join(lines[lines.index("The first wrong number: scores, row 2, column 3") :])
    for part in ("claimed", "18", "12", "2·6 = 12", "arithmetic-slip (explains 1/1)", "5 right"):
        assert part in last
    assert last.index("arithmetic-slip") < last.index("sign-lost")
    second = "weights, row 2, column 2: 3, but it is 0.88: not-scaled or scaled-by-d_k, 9 of 9"
    assert f"Second mistake: {second}\n" in last


def test_unknown_and_joint_causes(report: WorkedProblem) -> None:
    assert report.mistake is not None
    unknown = CauseSummary("unknown", "", "no known mistake explains this: 2·6 is 12, not 18")
    joint = [CauseSummary("a", "3/3", "both", "b"), CauseSummary("b", "3/3", "both", "a")]
    page, pair = (
        replace(report.mistake, causes=causes) for causes in ([unknown], [*joint, joint[0]])
    )
    text = render_text(replace(report, mistakes=[page]), width=100)
    assert "cause     unknown: no known mistake explains this: 2·6 is 12, not 18" in text
    assert page.format_as_further(3).startswith("third mistake: scores, row 2, column 3: 18, but")
    assert page.format_as_further(12).endswith(": no known mistake explains this")
    assert pair.format_causes() == "a and b"


def test_notes_on_wrong_cells(report: WorkedProblem) -> None:
    page = render_text(report, width=80)
    assert "✗ row 2, column 3: should be 12" in page
    assert "✗ row 2, column 2: should be 0.88" in page


def test_color_changes_only_the_colors(report: WorkedProblem) -> None:
    colored = render_text(report, width=80, color=True)
    assert ANSI.sub("", colored) == render_text(report, width=80)
    assert "\x1b[1;7;31m▸18✗\x1b[0m" in colored
    assert colored.count("\x1b[") % 2 == 0


def test_masked_cells_are_dim(solution: WorkedProblem) -> None:
    assert "\x1b[2m−∞\x1b[0m" in render_text(solution, width=80, color=True)


@pytest.mark.parametrize("color", [False, True])
def test_control_characters_are_escaped(hostile: WorkedProblem, color: bool) -> None:
    page = ANSI.sub("", render_text(hostile, width=80, color=color))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u202a-\u202e\u2066-\u2069]", page)
    assert "\\x1b[31mred\\u202e" in page


@pytest.mark.parametrize("width", [24, 30, 40, 60, 80, 120])
@pytest.mark.parametrize("page", ["solution", "report", "hostile", "large"])
def test_width_is_respected(page: str, width: int, request: pytest.FixtureRequest) -> None:
    text = render_text(request.getfixturevalue(page), width=width, color=True)
    assert max(map(visible_width, text.splitlines())) <= width


def test_large_matrices_keep_the_wrong_cell(large: WorkedProblem) -> None:
    page = render_text(large, width=80)
    assert "▸77" in page
    assert "⋮" in page
    assert "40×40" in page
    assert len(page.splitlines()) < 60


def test_columns_that_do_not_fit_are_drawn_below(large: WorkedProblem) -> None:
    page = render_text(large, width=50)
    parts = re.findall(r"(?m)^ +columns? (\d+)(?: to (\d+))?:$", page)
    assert len(parts) >= 2
    assert parts[0][0] == "1"
    assert (parts[-1][1] or parts[-1][0]) == "40"


def test_rows_of_a_block_have_one_width(large: WorkedProblem) -> None:
    rows = [line for line in render_text(large, width=80).splitlines() if re.search("[⎡⎢⎣]", line)]
    assert len({visible_width(row) for row in rows}) <= 2


def test_default_width_is_that_of_the_terminal(
    report: WorkedProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert render_text(report) == render_text(report, width=40)
