"""Statements of documents: where one ends and the next begins, and what is never dropped."""

import pytest

from workings.errors import UserError
from workings.problems.documents.problem_text import parse_problem_text
from workings.problems.documents.statements import find_statements
from workings.problems.problem import Problem

LATEX_SEPARATORS = [
    " ", "~", "\t", "\n", ", ", "; ", ". ", r"\hspace{1cm}", r" \hspace*{2em} ", r"\hfill ",
    r" \enspace ", r"\quad ", r" \qquad ", r",\quad ", r"\;", r"\,", r"\ ", r" \text{ and } ",
    r" \Rightarrow ", r" \implies ", r" \hskip 1em ", r" \mid ", r"\\ ", r" & ", "$ and $", "$, $",
    "$ | $", "$$ $$", "$, so that\n$", r"~,\qquad ", r"\,,\; ", "\u2003", r"\hphantom{xx}",
    r"\kern1em ", r" \tag{1} ",
]  # fmt: skip
PLAIN_SEPARATORS = [
    " ", "    ", "\t", " | ", "; ", ", ", "\n", "\n\n", " and ", ". ", " -> ", " => ", " → ", " • ",
    ";\n", ", then ", "; thus ", " und ", "<br>", " where ",
]  # fmt: skip


def latex(rows: list[list[int]], environment: str = "bmatrix") -> str:
    body = r" \\ ".join(" & ".join(map(str, row)) for row in rows)
    return rf"\begin{{{environment}}} {body} \end{{{environment}}}"


X, W_Q, Q = [[1, 0], [0, 2]], [[1, 1], [0, 1]], [[1, 1], [0, 2]]


def expect_all_names(problem: Problem) -> None:
    given = {name: problem.given[name].mid.tolist() for name in problem.sizes.given}
    assert given == {"X": X, "W_Q": W_Q}
    assert [claim.key for claim in problem.claims] == ["Q"]
    assert problem.check().verdict == "right"


@pytest.mark.parametrize("separator", LATEX_SEPARATORS)
@pytest.mark.parametrize("formula", ["", " = X W_Q"])
def test_separators_in_latex(separator: str, formula: str) -> None:
    parts = [f"X = {latex(X)}", f"W_Q = {latex(W_Q)}", f"Q{formula} = {latex(Q)}"]
    expect_all_names(parse_problem_text(f"${separator.join(parts)}$"))
    arrays = [part.replace(r"\begin{bmatrix}", r"\left[\begin{array}{cc}") for part in parts]
    arrays = [part.replace(r"\end{bmatrix}", r"\end{array}\right]") for part in arrays]
    expect_all_names(parse_problem_text(f"${separator.join(arrays)}$"))


@pytest.mark.parametrize("separator", PLAIN_SEPARATORS)
@pytest.mark.parametrize("template", ["{}", "np.array({})", "tensor({}, dtype=torch.float32)"])
def test_separators_in_plain_text(separator: str, template: str) -> None:
    parts = [f"{n} = {template.format(m)}" for n, m in (("X", X), ("W_Q", W_Q), ("Q", Q))]
    expect_all_names(parse_problem_text(separator.join(parts)))


@pytest.mark.parametrize(
    "text",
    [
        f"| X = {X} | W_Q = {W_Q} | Q = {Q} |",
        f"| X | W_Q | Q |\n|---|---|---|\n| {X} | {W_Q} | {Q} |",
        f"| matrix | value |\n|---|---|\n| X | {X} |\n| W_Q | {W_Q} |\n| **Q** | `{Q}` |",
        f"| X | W_Q | Q |\n|---|---|---|\n| ${latex(X)}$ | ${latex(W_Q)}$ | ${latex(Q)}$ |",
        f"X ← {X}\nW_Q := {W_Q}\nQ ≔ {Q}",
        rf"$X \stackrel{{def}}{{=}} {latex(X)}$, $W_Q \triangleq {latex(W_Q)}$, $Q ≈ {latex(Q)}$",
        f"The input is {X}.\nW_Q = {W_Q}\nThe queries are\n{Q}\n",
        f"X = {X} and\nW_Q = {W_Q} so that\nQ = {Q}",
    ],
)
def test_other_forms(text: str) -> None:
    expect_all_names(parse_problem_text(text))


def test_transpose_belongs_to_the_matrix_before_it() -> None:
    transposed = [[1, 0], [1, 1]]
    for separator in (", ", " ", "; ", " and "):
        text = f"X = {X}^T{separator}W_Q = {transposed}^T{separator}Q = {Q}"
        expect_all_names(parse_problem_text(text))


def test_name_after_an_operator_is_a_factor() -> None:
    (statement,) = find_statements("Z = [[1, 0]] · V = [[3, 4]]")
    assert len(statement.segments) == 2
    (statement,) = find_statements("Z = softmax([[1, 0]]) V = [[3, 4]]")
    assert len(statement.segments) == 2
    one, other = find_statements("A = [[1, 0]] V = [[3, 4]]")
    assert (one.left.strip(), other.left.strip()) == ("A", "V")
    assert other.follows_matrix


def test_factor_after_a_space() -> None:
    v, weights, mixed = [[1, 2], [3, 4]], [["1/2", "1/2"], [0, 1]], [[2, 3], [3, 4]]
    start = f"X = {v}; V = {v}; A = {weights}; "
    (claim,) = (
        claim
        for claim in parse_problem_text(f"{start}Z = {weights} V = {mixed}").claims
        if claim.key == "mixed"
    )
    assert [[number.value for number in row if number] for row in claim.numbers] == mixed
    with pytest.raises(UserError, match="V may be a factor or a new name"):
        parse_problem_text(f"X = {v}; Z = {weights} V = {v}")


def test_chain_of_names() -> None:
    problem = parse_problem_text(f"X = {X}\nW_Q = W_K = {W_Q}\n")
    assert problem.sizes.given == {"X", "W_Q", "W_K"}
    assert [c.key for c in parse_problem_text(f"Q = X = {X}\nV = {X}").claims] == ["Q", "V"]


def test_prose_between_matrices() -> None:
    text = (
        f"$X = {latex(X)}$ times $W_Q = {latex(W_Q)}$, and the product with ${latex(Q)}$ is left."
    )
    assert parse_problem_text(text).sizes.given == {"X", "W_Q"}
    with pytest.raises(UserError, match="unexpected 'halved' beside the matrix"):
        parse_problem_text(f"X = {X} halved\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"X, W_Q = {X}, {W_Q}", "expected one name before each equals sign: X = …, W_Q = …"),
        (f"X = {X}\nQ = 1 1; 0 2", "Q = '1 1; 0 2' is not a matrix: put it in brackets"),
        (f"X = {X}\nscores = 1, 0", "put it in brackets"),
        (f"X = {X} T = {W_Q}", "'T' is not a matrix of the problem"),
        (f"X = E + P = {X}\nE = {X}", "the formulas use it only in the input"),
    ],
)
def test_dropped_names_are_errors(text: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        parse_problem_text(text)
    assert message in str(error.value)
