"""Statements of documents: where one ends and the next begins, and what is never dropped."""

import pytest

from workings.problems.documents.reading import read_document, read_problem
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
X, W_Q, Q = [[1, 0], [0, 2]], [[1, 1], [0, 1]], [[1, 1], [0, 2]]


def latex(rows: list[list[int]]) -> str:
    body = r" \\ ".join(" & ".join(map(str, row)) for row in rows)
    return rf"\begin{{bmatrix}} {body} \end{{bmatrix}}"


def has_all_names(problem: Problem) -> bool:
    given = {name: problem.given[name].mid.tolist() for name in problem.sizes.given}
    claims = [claim.key for claim in problem.claims]
    return (given, claims) == ({"X": X, "W_Q": W_Q}, ["Q"]) and problem.check().verdict == "right"


@pytest.mark.parametrize("formula", ["", " = X W_Q"])
def test_separators_in_latex(formula: str) -> None:
    parts = [f"X = {latex(X)}", f"W_Q = {latex(W_Q)}", f"Q{formula} = {latex(Q)}"]
    problems = {s: read_problem(f"${s.join(parts)}$") for s in LATEX_SEPARATORS}
    assert [s for s, problem in problems.items() if not has_all_names(problem)] == []


@pytest.mark.parametrize("template", ["{}", "np.array({})", "tensor({}, dtype=torch.float32)"])
def test_separators_in_plain_text(template: str) -> None:
    parts = [f"{n} = {template.format(m)}" for n, m in (("X", X), ("W_Q", W_Q), ("Q", Q))]
    problems = {s: read_problem(s.join(parts)) for s in PLAIN_SEPARATORS}
    assert [s for s, problem in problems.items() if not has_all_names(problem)] == []


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
        f"X, W_Q = {X}, {W_Q}\nQ = {Q}",
        f"X = {X}^T, W_Q = [[1, 0], [1, 1]]^T Q = {Q}",
    ],
)
def test_other_forms(text: str) -> None:
    assert has_all_names(read_problem(text))


def test_a_known_factor_after_a_space() -> None:
    text = f"Q = {X}; K = {X}; V = {X}; A = [[0.67, 0.33], [0.06, 0.94]]\n"
    (example,) = read_document(f"{text}Z = {X} V = [[0.67, 0.67], [0.06, 1.89]]".encode()).examples
    assert not [e for e in example.entries if e.role == "V" and e.rows != [["1", "0"], ["0", "2"]]]


def test_summands_of_the_input_are_no_scores() -> None:
    text = f"X = E + P = {X}\nE = {X}\nQ = X W_Q, W_Q = {W_Q}, Q = [[1, 1], [0, 3]]"
    (example,) = read_document(text.encode()).examples
    assert example.report is not None
    assert example.report.first is not None
    assert (example.report.first.step, example.report.first.cell) == ("Q", (1, 1))


def test_chain_of_names() -> None:
    problem = read_problem(f"X = {X}\nW_Q = W_K = {W_Q}\n")
    assert problem.sizes.given == {"X", "W_Q", "W_K"}
    assert [c.key for c in read_problem(f"Q = X = {X}\nV = {X}").claims] == ["Q", "V"]


def test_repeated_claims_are_one() -> None:
    scores = "scores = [[1, 0], [0, 4]]\n"
    problem = read_problem(f"X = {X}\n{scores}{scores.replace('0]', '0.0]')}{scores}")
    assert [claim.key for claim in problem.claims] == ["scores"]
    wrong = read_problem(f"X = {X}\n{scores}{scores.replace('4', '5')}")
    assert wrong.check().verdict == "wrong"


def test_formulas_and_prose_are_no_accusation() -> None:
    text = r"""
    Let $d_k = 2$ and see [1], [2, 3] and x[0] = 5. In general
    $$X = \begin{bmatrix} x_1 \\ \dots \\ x_n \end{bmatrix} \in \mathcal{R}^{n \times d}$$
    $$\alpha_{12} = \begin{bmatrix} 1 \\ 2 \end{bmatrix} \cdot
      \begin{bmatrix} 3 \\ 4 \end{bmatrix} = 1*3+2*4 = 11$$
    $$\left[\frac{e^2}{e^2+e^4}, \frac{e^4}{e^2 + e^4}\right] = [0.1, 0.9] \to \text{first}$$
    Note: the output is a matrix.
    $$V = \begin{bmatrix} 1 & 0 \\ 0 & 2 \end{bmatrix}_{2 \times 2} \cancel{x} (2 \times 2)$$

    $$X = \begin{bmatrix} 1 & 0 \\ 0 & 2 \end{bmatrix}$$
    $$Q = \begin{bmatrix} 1 \cdot 1 + 0 & 0 \\ 0 & 2 \cdot 1 \end{bmatrix}
        = \begin{bmatrix} 1 & 0 \\ 0 & 2 \end{bmatrix}$$
    """
    assert all(e.verdict != "wrong" for e in read_document(text.encode(), "a.tex").examples)


def test_scores_of_an_ignored_weight_are_not_accused() -> None:
    text = f"X = {X}\nW_Q^1 = {W_Q}\nW_K = [[1, 0], [1, 1]]\nK = [[1, 0], [2, 2]]\n"
    text += "scores = [[1, 4], [0, 4]]\n"  # those of X W_Q^1
    problem = read_problem(text, ignore=["W_Q^1"])
    assert "scores" in problem.unjudged
    assert problem.check().verdict == "right"
    printed = read_problem(text + f"Q = {Q}\n", ignore=["W_Q^1"])
    assert [claim.key for claim in printed.claims] == ["K", "scores"]
    wrong = read_problem(text.replace("4]]", "5]]") + f"Q = {Q}\n", ignore=["W_Q^1"])
    assert wrong.check().verdict == "wrong"  # what follows from the printed Q is judged
