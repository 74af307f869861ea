"""Names of matrices in documents: aliases, markup and formulas."""

import pytest

from workings.problems.documents.names import infer_step, parse_formula, parse_product
from workings.problems.documents.problem_text import parse_problem_text

X = "X = [[1, 0], [0, 2]]\n"


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("scores", "scores"), ("E", "scores"), ("S", "scores"), ("QK^T", "scores"),
        ("Q K^T", "scores"), (r"\mathbf{Q}\mathbf{K}^\top", "scores"),
        (r"Q \cdot K^{\mathsf{T}}", "scores"), ("Q @ K.T", "scores"),
        (r"\frac{QK^T}{\sqrt{d_k}}", "scaled"), ("scaled scores", "scaled"),
        (r"E = QK^T/\sqrt{d_k}", "scaled"), (r"\frac{QK^T}{\sqrt{2}} + M", "masked"),
        ("Masked scores", "masked"), ("A", "weights"), (r"\alpha", "weights"), ("α", "weights"),
        ("attention weights", "weights"), (r"\text{softmax}(E)", "weights"),
        (r"A = \text{softmax}\left(\frac{QK^T}{\sqrt{d}}\right)", "weights"),
        ("P = softmax(S)", "weights"), ("A'", "weights"),
        (r"A = \operatorname{softmax}\left( \frac{QK^T}{\sqrt{d}} \right) V", "mixed"),
        ("Z", "mixed"), (r"\text{Attention}(Q, K, V)", "mixed"), ("AV", "mixed"),
        ("Y = A V", "mixed"), ("head", "mixed"), ("Y", "output"), ("Output", "output"),
        (r"\text{Output}", "output"), ("O", "output"), ("Y = A W_O", "output"), ("Q", "Q"),
        (r"\mathbf{Q}", "Q"), ("X W_Q", "Q"), ("XW^Q", "Q"), ("queries", "Q"), ("K^T", "K"),
        ("Key matrix K", "K"), (r"\text{Step 2: } V", "V"), ("**Values:** V", "V"),
        (r"\text{Step 2/4: } S", "scores"), (r"\text{Scores before softmax: } S", "scores"),
        (r"\text{Step 2/4} \quad S", "scores"), (r"\text{softmax} E", "weights"),
    ],
)  # fmt: skip
def test_names_of_steps(name: str, key: str) -> None:
    text = X + f"$${name} = " + r"\begin{bmatrix} 1 & 0 \\ 0 & 4 \end{bmatrix}$$"
    assert [claim.key for claim in parse_problem_text(text).claims] == [key]


def test_prose_is_not_a_formula() -> None:
    text = f"{X}Before the softmax we add the mask M = [[1, 0], [1, 1]]\n"
    assert not list(parse_problem_text(text).claims)
    assert parse_problem_text(text).solve()["weights"][0, 1] == 0


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("W_Q", "W_Q"), ("W^Q", "W_Q"), ("W_{Q}", "W_Q"), ("W^{Q}", "W_Q"), ("W^{(Q)}", "W_Q"),
        (r"\mathbf{W}_Q", "W_Q"), (r"\mathbf{W}^{\mathbf{K}}", "W_K"), ("WV", "W_V"),
        ("$W_O$", "W_O"), (r"\boldsymbol{W}_{\text{K}}", "W_K"), ("**W_K**", "W_K"),
        ("`W_K`", "W_K"), ("Wq", "W_Q"), (r"\mathrm{W}_{\mathrm{V}}", "W_V"), ("W_q", "W_Q"),
        ("w_v", "W_V"), ("W_{query}", "W_Q"), ("W_0", "W_O"), ("W_out", "W_O"), ("W^{O}", "W_O"),
        ("b_Q", "b_Q"), ("b^{K}", "b_K"), ("context", "context"), ("C", "context"),
        (r"\mathbf{C}", "context"),
    ],
)  # fmt: skip
def test_names_of_givens(name: str, key: str) -> None:
    value = "[1, 1]" if key.startswith("b_") else "[[1, 1], [0, 1]]"
    assert parse_problem_text(f"{X}{name} = {value}\n").sizes.given == {"X", key}


@pytest.mark.parametrize(
    ("formula", "factors", "step"),
    [
        ("X W_Q", ("X", "W_Q"), "Q"), ("XW^K", ("X", "W_K"), "K"),
        ("CW_V", ("context", "W_V"), "V"), ("QK^T", ("Q", "Kᵀ"), "scores"),
        (r"K^\top Q", ("Kᵀ", "Q"), "scores"), ("X @ Wq", ("X", "W_Q"), "Q"),
        (r"Q \times K^{T}", ("Q", "Kᵀ"), "scores"), (r"\frac{Q K^T}{\sqrt{d_k}}", (), "scaled"),
        (r"\frac{QK^T}{\sqrt{d}} + M", (), "masked"), ("E / 2", (), "scaled"),
        ("E + M", (), "masked"), ("softmax(E)", (), "weights"), ("sigmoid(QK^T)V", (), "mixed"),
        ("A V", ("weights", "V"), "mixed"), ("VA'", ("V", "weights"), "mixed"),
        ("AW_O", ("weights", "W_O"), "output"), ("d_k", (), None), ("3 + 4", (), None),
        ("", (), None), ("So far, the same case", (), None), ("K", (), None),
    ],
)  # fmt: skip
def test_formulas(formula: str, factors: tuple[str, ...], step: str | None) -> None:
    symbols = parse_formula(formula)
    assert parse_product(symbols) == factors
    assert infer_step(symbols) == step
