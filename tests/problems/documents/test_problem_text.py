"""Problems read from documents: slides, notes and program output."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workings.errors import UserError
from workings.problems.documents.matrices import MAX_TEXT_CHARS
from workings.problems.documents.problem_text import load_problem_text, parse_problem_text
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
    problem = parse_problem_text(text)
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
    assert get_claims(parse_problem_text(text)) == {"K": [["1", "1"], ["0", "2"]]}
    text = "X = [[1, 0], [0, 2]]^T\n" + "W_K = [[1, 1], [0, 1]].T\n"
    assert get_givens(parse_problem_text(text)) == {"X": [[1, 0], [0, 2]], "W_K": [[1, 0], [1, 1]]}


def test_projections_are_givens_without_x() -> None:
    problem = parse_problem_text("Q = [[1, 2]]\nK = [[0, 1], [1, 0]]\nV = [[1], [2]]\nE = [[2, 1]]")
    assert list(get_givens(problem)) == ["Q", "K", "V"]
    assert get_claims(problem) == {"scores": [["2", "1"]]}


def test_roles_of_x_and_context() -> None:
    c, w = "C = [[5, 0]]\n", "W_Q = W_K = [[1, 0], [0, 1]]\n"
    assert get_givens(parse_problem_text(X + c))["context"] == [[5, 0]]
    assert get_givens(parse_problem_text(c)) == {"X": [[5, 0]]}  # without X it is the input
    swapped = parse_problem_text(X + c + "Q = C W_Q\nK = X W_K\n")
    assert get_givens(swapped) == {"X": [[5, 0]], "context": [[1, 0], [0, 2]]}
    assert "W_Q" in get_givens(parse_problem_text(X + w))


def test_factors_without_value_are_read_from_products() -> None:
    m = r"\begin{{bmatrix}} {} \end{{bmatrix}}".format
    x, w, q = m(r"1 & 0 \\ 0 & 2"), m(r"1 & 3 \\ 0 & 1"), m(r"1 & 3 \\ 0 & 2")
    problem = parse_problem_text(f"$$Q = X W^Q$$ $$Q = {x} \\times {w}$$ $$Q = {q}$$")
    assert get_givens(problem) == {"X": [[1, 0], [0, 2]], "W_Q": [[1, 3], [0, 1]]}
    assert get_claims(problem) == {"Q": [["1", "3"], ["0", "2"]]}
    below = parse_problem_text(f"$$Q = X W^Q$$ $${x} \\times {w}$$ $$Q = {q}$$")
    assert get_givens(below) == get_givens(problem)


def test_matrices_inside_softmax() -> None:
    m = r"\begin{{bmatrix}} {} \end{{bmatrix}}".format
    x, scaled, weights = (
        m(r"1 & 0 \\ 0 & 2"),
        m(r"0.7 & 0 \\ 0 & 2.8"),
        m(r"0.7 & 0.3 \\ 0.1 & 0.9"),
    )
    chain = r"$$A = \text{softmax}\left(\frac{QK^T}{\sqrt{d}}\right) V$$" + (
        f"$$= \\text{{softmax}}\\left({scaled}\\right) {x}$$ $$= {weights} {x} = {m('9 & 9 & 9')}$$"
    )
    steps = get_claims(
        parse_problem_text(X + chain.replace("9 & 9 & 9", r"0.7 & 0.6 \\ 0.1 & 1.8"))
    )
    assert steps["scaled"] == [["0.7", "0"], ["0", "2.8"]]
    assert steps["weights"] == [["0.7", "0.3"], ["0.1", "0.9"]]
    assert steps["mixed"] == [["0.7", "0.6"], ["0.1", "1.8"]]
    assert list(steps) == ["mixed", "scaled", "weights", "V"]
    mask = m(r"0 & -\infty \\ 0 & 0")
    problem = parse_problem_text(f"{X}$$A = B$$ $$= \\text{{softmax}}({scaled} + {mask}) {x}$$")
    assert problem.setting.mask is not None
    assert problem.setting.mask.tolist() == [[True, False], [True, True]]
    assert list(get_claims(problem)) == ["scaled"]


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
    read = parse_problem_text(text).setting.mask
    assert read is not None
    assert read.tolist() == allowed
    assert parse_problem_text(text, mask="none").setting.mask is None


def test_repeated_claims_and_givens() -> None:
    text = (
        X
        + "scores = [[1, 0], [0, 4]]\nscores = [[1.0, 0.0], [0.0, 4.0]]\nscores = [[1, 0], [0, 4]]"
    )
    assert list(get_claims(parse_problem_text(text))) == ["scores", "scores again 1"]
    assert get_givens(parse_problem_text(X + X.replace("1", "1.0"))) == {"X": [[1, 0], [0, 2]]}


def test_formulas_and_prose_are_skipped() -> None:
    text = r"""
    Let $d_k = 2$ and see [1], [2, 3] and x[0] = 5. In general
    $$X = \begin{bmatrix} x_1 \\ \dots \\ x_n \end{bmatrix} \in \mathcal{R}^{n \times d}$$
    $$\alpha_{12} = \begin{bmatrix} 1 \\ 2 \end{bmatrix} \cdot \begin{bmatrix} 3 \\ 4 \end{bmatrix} = 1*3+2*4 = 11$$
    $$\left[\frac{e^2}{e^2+e^4}, \frac{e^4}{e^2 + e^4}\right] = [0.1, 0.9] \rightarrow \text{first}$$
    Note: the output is a matrix.
    $$V = \begin{bmatrix} 1 & 0 \\ 0 & 2 \end{bmatrix}_{2 \times 2} \cancel{\text{wrong}} (2 \times 2)$$

    Output:
    in this example, 2 rows.

    $$X = \begin{bmatrix} 1 & 0 \\ 0 & 2 \end{bmatrix}$$
    $$Q = \begin{bmatrix} 1 \cdot 1 + 0 & 0 \\ 0 & 2 \cdot 1 \end{bmatrix} = \begin{bmatrix} 1 & 0 \\ 0 & 2 \end{bmatrix}$$
    """  # noqa: E501
    problem = parse_problem_text(text)
    assert get_givens(problem) == {"X": [[1, 0], [0, 2]]}
    assert list(get_claims(problem)) == ["V", "Q"]


def test_interactive_session() -> None:
    text = """
>>> X = np.array([[1, 0],
...               [0, 2]])
>>> Q = X @ W_Q
>>> Q
array([[1., 0.],
       [0., 2.]])
In [7]: print(scores)
[[1. 0.]
 [0. 4.]]
In [8]: A

Out[8]: tensor([[0.6, 0.4],
        [0.1, 0.9]])
"""
    problem = parse_problem_text(text)
    assert get_givens(problem) == {"X": [[1, 0], [0, 2]]}
    assert list(get_claims(problem)) == ["Q", "scores", "weights"]


def test_load_problem_text(tmp_path: Path) -> None:
    path = tmp_path / "slide.tex"
    path.write_bytes(b"\xef\xbb\xbf" + SLIDE.encode())
    assert get_claims(load_problem_text(path)) == CLAIMS
    assert load_problem_text(path, scale=2).setting.scale == 2
    for content, message_part in (
        (b"X = 3", "no matrix found"),
        (b"\xff", "not UTF-8"),
        (b"", "no matrix"),
    ):
        path.write_bytes(content)
        with pytest.raises(UserError, match=f"slide.tex: {message_part}"):
            load_problem_text(path)


def test_settings() -> None:
    text = X + '% workings: mask = "causal"\n# workings: scale = 2\n50 % workings: heads = 3\n'
    problem = parse_problem_text(text)
    assert problem.setting.causal
    assert problem.setting.scale == 2
    assert problem.setting.heads == 1
    assert parse_problem_text(text, scale=4, mask="none").setting.scale == 4
    assert parse_problem_text(X + 'P = [[1]]\n% workings: ignore = ["P"]').claims == []
    assert parse_problem_text(X + "P = [[1]]", ignore=["P"], tokens=["a", "b"]).tokens == ["a", "b"]


def test_heads_column_vectors_and_other_kinds() -> None:
    two = parse_problem_text(
        X + "S_1 = [[1, 0], [0, 0]]\nscores^{(2)} = [[0, 0], [0, 4]]\n", heads=2
    )
    assert list(get_claims(two)) == ["scores.1", "scores.2"]
    transposed = parse_problem_text(
        "X = [[1, 3], [2, 4], [0, 0]]\nscores = [[5, 11], [11, 25]]", vectors="columns"
    )
    assert transposed.sizes["n"] == 2
    norm = parse_problem_text(
        "X = [[1, 3]]\n$$\\mu = [2]$$\n$\\sigma^2 = [1]$\n", kind="layer_norm"
    )
    assert list(get_claims(norm)) == ["mean", "variance"]
    rnn = parse_problem_text(
        "X = [[1], [0]]\nW_{xh} = [[1]]\nW_{hh} = [[1]]\nh_0 = [[0]]\nh_1 = [[0.76]]\n", kind="rnn"
    )
    assert list(get_claims(rnn)) == ["h.1"]
    waves = parse_problem_text("PE = [[0, 1]]", kind="positions", count=1, width=2)
    assert waves.check().verdict == "right"


@pytest.mark.parametrize(
    ("text", "message_part"),
    [
        ("", "no matrix found: expected X = …"), ("Hello.", "no matrix found"),
        ("x = 3", "no matrix found"),
        ("scores = [[1, 2]]", "X is missing: found scores, but no X = …"),
        ("W_Q = [[1]]\nQ = [[1]]\nK = [[1]]\nV = [[1]]", "X is missing: found W_Q, Q, K, V"),
        ("Q = [[1]]\nK = [[1]]", "given.V is missing"),
        (X + "Wieghts = [[1, 0], [0, 1]]", "did you mean 'weights'?"),
        (X + "P_3 = [[1, 2]]", "'P_3' is not a matrix of the problem"),
        (X + "X = [[5, 0], [7, 3]]", "X is given twice, with different numbers"),
        (X + "M = [[1, 0], [1, 1]]\nM = [[1, 1], [1, 1]]", "mask is given twice"),
        ("X = [[1, ?]]", "given.X: every cell must be a finite number"),
        (X + "Q = [[1, 0], [0]]", "Q: row 2 has 1 numbers, row 1 has 2"),
        (X + "Q = [[1, o], [0, 2]]", "Q: row 1: 'o'"),
        (X + "Q = [[[1, 0], [0, 2]]]", "Q: more than two dimensions"),
        (X + "Q = [[1, 0], [0, 2]] * 3", "Q: unexpected '3' beside the matrix"),
        (X + r"$W_Q = \frac12 \begin{bmatrix} 1 \\ 2 \end{bmatrix}$", r"'\\frac12' beside"),
        (X + "W_Q = [[1, 0], [0, 1]]\nQ = [[1, 0]]", "claim.Q is 1×2; it must be 2×2"),
        (X + "W_Q = [[1, 0]]", "W_Q has 1 rows, but X has 2 columns"),
        ("X = [[1, nan]]", "X: row 1: 'nan'"),
        ("X = [[1, -inf]]", "given.X: every cell must be a finite number"),
        (r"X = \begin{bmatrix} 1 & 2", r"\begin{bmatrix} has no \end{bmatrix}"),
        (X + "% workings: scale = none", "settings in a comment: not TOML"),
        (X + "% workings: scal = 2", "did you mean 'scale'?"),
        (X + '% workings: kind = "atention"', "did you mean 'attention'?"),
        (X + "% workings: ignore = 3", "ignore must be"),
        (X + "% workings: given = 3", "given must be a table"),
        (X + "% workings: heads = 0", "heads = 0"),
        (X + "M = [[0, 5], [0, 0]]", "mask: every cell must be 1 (may attend) or 0 (may not)"),
        ("X" * (MAX_TEXT_CHARS + 1), "at most"),
        (X + "S_1 = [[1, 0], [0, 1]]", "'S_1' is not a matrix"),
        (X + "% workings: " + "a." * 99 + "b = 1", "nested too deeply"),
    ],
    ids=lambda text: text[-20:],
)  # fmt: skip
def test_invalid_document_is_rejected(text: str, message_part: str) -> None:
    with pytest.raises(UserError) as error:
        parse_problem_text(text)
    assert message_part in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


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
    read = parse_problem_text(text, mask=mask)
    assert get_givens(read) == get_givens(problem)
    assert [claim.key for claim in read.claims] == list(steps.values())
    assert read.check().verdict == "right"


def test_consecutive_prints() -> None:
    prints = ["X = tensor([[1., 0.],\n        [0., 2.]])", "Q: [[1. 0.]\n [0. 2.]]"]
    text = "\n".join([*prints, "scores:\n[[1 0]\n [0 5]]"])
    problem = parse_problem_text(text, scale="none")
    assert [claim.key for claim in problem.claims] == ["Q", "scores"]
    assert problem.check().first.claimed == "5"


# -- unknown weights -------------------------------------------------------------------------------

W = "W_Q^1 = [[1, 1], [0, 1]]\nW_K = [[1, 0], [1, 1]]\nW_V^1 = [[2, 0], [0, 1]]\n"
PRINTED = "Q = [[1, 1], [0, 2]]\nK = [[1, 0], [2, 2]]\n"


def test_ignored_weight_is_not_the_identity() -> None:
    text = X + W + PRINTED + "scores = [[1, 4], [0, 4]]\n"
    problem = parse_problem_text(text, ignore=["W_Q^1", "W_V^1"])
    assert problem.unjudged == {"Q": "W_Q^1 is ignored", "V": "W_V^1 is ignored"}
    assert list(get_claims(problem)) == ["K", "scores"]
    report = problem.check()
    assert report.verdict == "right"
    assert "Q is not judged: W_Q^1 is ignored" in report.summarize()
    wrong = parse_problem_text(text.replace("4]]", "5]]"), ignore=["W_Q^1", "W_V^1"])
    assert wrong.check().verdict == "wrong"  # what follows from the printed Q is judged


def test_step_of_an_ignored_weight_must_be_printed() -> None:
    text = X + W + "K = [[1, 0], [2, 2]]\nscores = [[1, 4], [0, 4]]\n"
    with pytest.raises(UserError, match="W_Q\\^1 is ignored: print Q, or nothing after it"):
        parse_problem_text(text, ignore=["W_Q^1", "W_V^1"])
    text = X + "W_V^1 = [[1, 1], [0, 1]]\nscores = [[1, 0], [0, 4]]\nZ = [[9, 9], [9, 9]]\n"
    problem = parse_problem_text(text, ignore=["W_V^1"])
    assert list(get_claims(problem)) == ["scores"]  # mixed needs V
    text = X + "W_O' = [[1, 1], [0, 1]]\nscores = [[1, 0], [0, 4]]\nY = [[9, 9], [9, 9]]\n"
    assert list(get_claims(parse_problem_text(text, ignore=["W_O'"]))) == ["scores", "output"]
    text = text.replace("W_O'", "W_O^1")
    assert list(get_claims(parse_problem_text(text, ignore=["W_O^1"]))) == ["scores"]


def test_weight_that_is_not_printed_is_not_the_identity() -> None:
    problem = parse_problem_text(X + PRINTED + "scores = [[1, 4], [0, 4]]\n")
    assert set(problem.unjudged) == {"Q", "K"}
    assert problem.check().verdict == "right"
    # Printed Q and K are rounded; the scores are computed from the exact ones.
    rounded = "Q = [[0.33, 0.67]]\nK = [[0.67, 0.33]]\nscores = [[0.444]]\n"
    assert parse_problem_text("X = [[1, 2]]\n" + rounded).check().verdict == "right"
    # A copy of X has no weight, and a slip in it is wrong.
    assert parse_problem_text(X + "V = [[1, 0], [0, 3]]").check().verdict == "wrong"


# -- several examples ------------------------------------------------------------------------------


def test_two_examples_have_no_verdict() -> None:
    masked = "M = [[1, 0], [1, 1]]\nA = [[1, 0], [0.06, 0.94]]\n"
    unmasked = "A = [[0.67, 0.33], [0.06, 0.94]]\n"
    assert parse_problem_text(X + masked).check().verdict == "right"
    with pytest.raises(UserError, match="weights is printed twice, with different numbers"):
        parse_problem_text(X + unmasked + masked)
