"""Problems read from documents: slides, notes and program output."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workings.problems.documents.reading import read_problem
from workings.problems.problem import Problem


def get_claims(problem: Problem) -> dict[str, list[list[str]]]:
    """Return the claimed cells as written; a repeated claim has a number."""
    return {
        claim.key + (f" again {claim.reprint}" if claim.reprint else ""): [
            [number.text if number else "?" for number in row] for row in claim.numbers
        ]
        for claim in problem.claims
    }


def get_givens(problem: Problem) -> dict[str, list[list[float]]]:
    return {
        name: cells.mid.tolist()
        for name, cells in problem.given.items()
        if name in problem.kind.matrices
    }


SLIDE = r"""
\section*{Self-attention}  % a comment with X = [[9, 9]] in it
% workings: scale = "none"
% workings: title = "Two words"
We start from the embeddings
\begin{equation}
  X = \begin{bmatrix} 1 & 0 \\ 0 & 2 \end{bmatrix} \in \mathbb{R}^{2 \times 2}
\end{equation}
and the weights
\[ W_Q = \begin{pmatrix} 1 & 1 \\ 0 & 1 \end{pmatrix} \qquad
   \mathbf{W}^K = \left[\begin{array}{cc} 2 & 0 \\ 0 & 1 \end{array}\right], \quad
   W_{V} = \begin{bmatrix} 1 & 0 \\ 0 & 1 \end{bmatrix}. \]
\begin{align*}
  Q &= X W_Q = \begin{bmatrix} 1 & 0 \\ 0 & 2 \end{bmatrix} \begin{bmatrix} 1 & 1 \\ 0 & 1 \end{bmatrix} \\
    &= \begin{bmatrix} 1 & 1 \\ 0 & 2 \end{bmatrix} \\[4pt]
  K &= X W_K = \begin{bmatrix} 2 & 0 \\ 0 & 2 \end{bmatrix} \\
  V &= X W_V = \begin{bmatrix} 1 & 0 \\ 0 & 2 \end{bmatrix} \quad \checkmark
\end{align*}
$$E = Q K^T$$
$$= \begin{bmatrix} 2 & 2 \\ 0 & 5 \end{bmatrix}$$
$$\text{Step 3: } A = \operatorname{softmax}(E) = \begin{bmatrix} \frac12 & \frac12 \\ 0.02 & 0.98 \end{bmatrix}$$
so that $Y = A V \approx \begin{bmatrix} 0.5 & 1 \\ 0.02 & \dots \end{bmatrix}$.
"""  # noqa: E501
GIVENS = {
    "X": [[1, 0], [0, 2]],
    "W_Q": [[1, 1], [0, 1]],
    "W_K": [[2, 0], [0, 1]],
    "W_V": [[1, 0], [0, 1]],
}
CLAIMS = {
    "Q": [["1", "1"], ["0", "2"]],
    "K": [["2", "0"], ["0", "2"]],
    "V": [["1", "0"], ["0", "2"]],
    "scores": [["2", "2"], ["0", "5"]],
    "weights": [["1/2", "1/2"], ["0.02", "0.98"]],
    "mixed": [["0.5", "1"], ["0.02", "?"]],
}

MARKDOWN = """
# Self-attention

<!-- workings:
scale = "none"
title = "Two words"
-->

**X:**

| word | a | b |
|------|---|---|
| the  | 1 | 0 |
| cat  | 0 | 2 |

W_Q:
1,1
0,1

`W_K` = [[2, 0],
         [0, 1]]

Wv = np.array([[1, 0], [0, 1]])

Queries:
 1  1
 0  2

Keys = tensor([[2, 0],
               [0, 2]], dtype=torch.float32)
V = ⎡1 0⎤
    ⎣0 2⎦

The scores are
$$S = \\begin{bmatrix} 2 & 2 \\\\ 0 & 5 \\end{bmatrix}$$

## Attention weights

| the | cat |
|-----|-----|
| 1/2 | 1/2 |
| 0.02 | 0.98 |

Z: [[0.5, 1], [0.02, "?"]]
"""


@pytest.mark.parametrize("text", [SLIDE, MARKDOWN, SLIDE.replace("\n", "\r\n")])
def test_complete_document(text: str) -> None:
    problem = read_problem(text)
    assert problem.title == "Two words"
    assert get_givens(problem) == GIVENS
    assert get_claims(problem) == CLAIMS
    first = problem.check().first
    assert first is not None
    assert (first.step, first.cell, first.claimed) == ("scores", (1, 1), "5")


X = "X = [[1, 0], [0, 2]]\n"


def test_transposed_matrices() -> None:
    text = (
        X
        + "W_K = [[1, 1], [0, 1]]\n"
        + r"$$K^\top = \begin{bmatrix} 1 & 0 \\ 1 & 2 \end{bmatrix}$$"
    )
    assert get_claims(read_problem(text)) == {"K": [["1", "1"], ["0", "2"]]}
    text = "X = [[1, 0], [0, 2]]^T\n" + "W_K = [[1, 1], [0, 1]].T\n"
    assert get_givens(read_problem(text)) == {"X": [[1, 0], [0, 2]], "W_K": [[1, 0], [1, 1]]}


def test_projections_are_givens_without_x() -> None:
    problem = read_problem("Q = [[1, 2]]\nK = [[0, 1], [1, 0]]\nV = [[1], [2]]\nE = [[2, 1]]")
    assert list(get_givens(problem)) == ["Q", "K", "V"]
    assert get_claims(problem) == {"scores": [["2", "1"]]}


def test_roles_of_x_and_context() -> None:
    c, w = "C = [[5, 0]]\n", "W_Q = W_K = [[1, 0], [0, 1]]\n"
    assert get_givens(read_problem(X + c))["context"] == [[5, 0]]
    assert get_givens(read_problem(c)) == {"X": [[5, 0]]}  # without X it is the input
    swapped = read_problem(X + c + "Q = C W_Q\nK = X W_K\n")
    assert get_givens(swapped) == {"X": [[5, 0]], "context": [[1, 0], [0, 2]]}
    assert "W_Q" in get_givens(read_problem(X + w))


def test_factors_without_value_are_read_from_products() -> None:
    m = r"\begin{{bmatrix}} {} \end{{bmatrix}}".format
    x, w, q = m(r"1 & 0 \\ 0 & 2"), m(r"1 & 3 \\ 0 & 1"), m(r"1 & 3 \\ 0 & 2")
    problem = read_problem(f"$$Q = X W^Q$$ $$Q = {x} \\times {w}$$ $$Q = {q}$$")
    assert get_givens(problem) == {"X": [[1, 0], [0, 2]], "W_Q": [[1, 3], [0, 1]]}
    assert get_claims(problem) == {"Q": [["1", "3"], ["0", "2"]]}
    below = read_problem(f"$$Q = X W^Q$$ $${x} \\times {w}$$ $$Q = {q}$$")
    assert get_givens(below) == get_givens(problem)


@pytest.mark.parametrize(
    ("mask", "allowed"),
    [
        (r"0 & -\infty \\ 0 & 0", [[True, False], [True, True]]),
        (r"0 & -10000 \\ 0 & 0", [[True, False], [True, True]]),
        (r"1 & 0 \\ 1 & 1", [[True, False], [True, True]]),
        (r"0 & 0 \\ 0 & 0", [[True, True], [True, True]]),
    ],
)
def test_masks(mask: str, allowed: list[list[bool]]) -> None:
    text = f"{X}$$M = \\begin{{bmatrix}} {mask} \\end{{bmatrix}}$$"
    read = read_problem(text).setting.mask
    assert read is not None
    assert read.tolist() == allowed
    assert read_problem(text, mask="none").setting.mask is None


def test_settings() -> None:
    text = X + '% workings: mask = "causal"\n# workings: scale = 2\n50 % workings: heads = 3\n'
    problem = read_problem(text)
    assert problem.setting.causal
    assert problem.setting.scale == 2
    assert problem.setting.heads == 1
    assert read_problem(text, scale=4, mask="none").setting.scale == 4
    assert read_problem(X + 'P = [[1]]\n% workings: ignore = ["P"]').claims == []
    assert read_problem(X + "P = [[1]]", ignore=["P"], tokens=["a", "b"]).tokens == ["a", "b"]


def test_heads_column_vectors_and_other_kinds() -> None:
    two = read_problem(X + "S_1 = [[1, 0], [0, 0]]\nscores^{(2)} = [[0, 0], [0, 4]]\n", heads=2)
    assert list(get_claims(two)) == ["scores.1", "scores.2"]
    transposed = read_problem(
        "X = [[1, 3], [2, 4], [0, 0]]\nscores = [[5, 11], [11, 25]]", vectors="columns"
    )
    assert transposed.sizes["n"] == 2
    norm = read_problem("X = [[1, 3]]\n$$\\mu = [2]$$\n$\\sigma^2 = [1]$\n", kind="layer_norm")
    assert list(get_claims(norm)) == ["mean", "variance"]
    rnn = read_problem(
        "X = [[1], [0]]\nW_{xh} = [[1]]\nW_{hh} = [[1]]\nh_0 = [[0]]\nh_1 = [[0.76]]\n", kind="rnn"
    )
    assert list(get_claims(rnn)) == ["h.1"]
    waves = read_problem("PE = [[0, 1]]", kind="positions", count=1, width=2)
    assert waves.check().verdict == "right"


TEMPLATES = {
    "latex": (r"$${} = \begin{{bmatrix}} {} \end{{bmatrix}}$$", " & ", r" \\ "),
    "align": (
        r"\begin{{align}} {} &= \begin{{pmatrix}} {} \end{{pmatrix}} \\ \end{{align}}",
        "&",
        r"\\",
    ),
    "list": ("{} = [[{}]]", ", ", "], ["),
    "print": ("{} = tensor([[{}]], device='cpu')", ", ", "],\n        ["),
    "csv": ("{}:\n{}\n", ",", "\n"),
    "markdown": ("**{}:**\n\n| {} |\n", " | ", " |\n| "),
}


@settings(max_examples=25)
@given(
    rows=st.integers(1, 3),
    width=st.integers(2, 3),
    seed=st.integers(0, 10**6),
    form=st.sampled_from(list(TEMPLATES)),
    mask=st.sampled_from(["none", "causal"]),
)
def test_formatted_solution_round_trips(
    rows: int, width: int, seed: int, form: str, mask: str
) -> None:
    random = np.random.default_rng(seed)
    names = {"X": (rows, width), "W_Q": (width, 2), "W_K": (width, 2), "W_V": (width, 2)}
    matrices = {name: random.integers(-3, 4, shape) for name, shape in names.items()}
    problem = Problem(**matrices, mask=mask)
    solution = problem.solve()
    steps = {"Q": "Q", "K": "K", "V": "V", "E": "scores", "scaled": "scaled", "A": "weights"}
    template, between, ends = TEMPLATES[form]
    text = "\n\n".join(
        template.format(name, ends.join(between.join(f"{v:.3f}" for v in row) for row in matrix))
        for name, matrix in itertools.chain(
            matrices.items(), ((name, solution[key]) for name, key in steps.items())
        )
    )
    read = read_problem(text, mask=mask)
    assert get_givens(read) == get_givens(problem)
    assert [claim.key for claim in read.claims] == list(steps.values())
    assert read.check().verdict == "right"


def test_consecutive_prints() -> None:
    prints = ["X = tensor([[1., 0.],\n        [0., 2.]])", "Q: [[1. 0.]\n [0. 2.]]"]
    text = "\n".join([*prints, "scores:\n[[1 0]\n [0 5]]"])
    problem = read_problem(text, scale="none")
    assert [claim.key for claim in problem.claims] == ["Q", "scores"]
    assert problem.check().first.claimed == "5"


# -- unknown weights -------------------------------------------------------------------------------

W = "W_Q^1 = [[1, 1], [0, 1]]\nW_K = [[1, 0], [1, 1]]\nW_V^1 = [[2, 0], [0, 1]]\n"
PRINTED = "Q = [[1, 1], [0, 2]]\nK = [[1, 0], [2, 2]]\n"


def test_weight_that_is_not_printed_is_not_the_identity() -> None:
    problem = read_problem(X + PRINTED + "scores = [[1, 4], [0, 4]]\n")
    assert set(problem.unjudged) == {"Q", "K"}
    assert problem.check().verdict == "right"
    # Printed Q and K are rounded; the scores are computed from the exact ones.
    rounded = "Q = [[0.33, 0.67]]\nK = [[0.67, 0.33]]\nscores = [[0.444]]\n"
    assert read_problem("X = [[1, 2]]\n" + rounded).check().verdict == "right"
    # A copy of X has no weight, and a slip in it is wrong.
    assert read_problem(X + "V = [[1, 0], [0, 3]]").check().verdict == "wrong"


# -- several examples ------------------------------------------------------------------------------
