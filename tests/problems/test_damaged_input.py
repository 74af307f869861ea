"""Fuzzing of the readers: damaged text gives a solvable problem or a one-line UserError."""

import contextlib
import sys
from collections.abc import Callable
from types import FrameType

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workings.errors import UserError
from workings.plain_text import to_one_line
from workings.problems.documents.matrices import parse_matrix
from workings.problems.documents.reading import read_problem
from workings.problems.numbers import read_number
from workings.problems.problem import Problem

FILES = [
    """title = "Masked"
scale = "none"
mask = "causal"
normalizer = "softmax"
tokens = ["the", "cat"]
[given]
X = [[1, 0], [0, 2]]
W_Q = [[1, 0.5], ["1/2", 1]]
b_Q = [0, 1]
[claim]
Q = [[1, 0.50], ["?", "2,0"]]
masked = [[1, "-inf"], [0, 4]]
[[claim.again]]
Q = [[1, 0], [0, 2]]
""",
    """heads = 2
vectors = "columns"
mask = [[1, 1], [0, 1]]
[given]
X = [[1, 0], [0, 2]]
context = [[1, 3], [0, 1]]
W_V = [[1, 0], [0, 1]]
W_O = [[1, 0], [0, 1]]
[claim.head.1]
scores = [[1, 0], [0, 4]]
[claim.head.2]
weights = [["0.5", 0.5], [0, 1e-3]]
""",
    """scale = 2
normalizer = "sum"
[given]
Q = [[1, 2]]
K = [[0, 1], [1, 1]]
V = '''| a | b |
|---|---|
| 1 | 2 |
| 3 | 4 |'''
[claim]
scores = '\\begin{bmatrix} 2 & 3 \\end{bmatrix}'
""",
    """kind = "positions"
[given]
count = 2
width = 4
base = 100
[claim]
angles = [[0, 0], [1, 0.1]]
encoding = [[0, 1, 0, 1], ["?", "?", "?", "?"]]
""",
    """kind = "layer_norm"
[given]
X = [[1, 2, 3], [3, 4, 8]]
gamma = [1, 2, 1]
beta = [[0, 1, 0]]
eps = 1e-5
[claim]
mean = [[2], [5]]
variance = [0.667, 4.667]
""",
    """kind = "rnn"
[given]
X = [[1], [2]]
W_xh = [[1, 0]]
W_hh = [[1, 0], [0, 1]]
b = [0, 1]
h0 = [0, 0]
[claim.t.1]
sum = [1, 1]
h = [[0.76, 0.76]]
""",
    """kind = "lstm"
[given]
X = [[1]]
W_x = [[1, 0, 2, 1]]
W_h = [[1, 1, 1, 1]]
c0 = [1]
[claim.t.1]
i = [0.73]
""",
    """kind = "additive"
[given]
s = [1, 0]
H = [[1, 2], [0, 1], [1, 1]]
W_s = [[1, 0], [0, 1]]
v = [1, 1]
[claim]
scores = [[1.7, 1.5, 1.7]]
""",
    """kind = "feed_forward"
activation = "gelu"
[given]
X = [[1, -1]]
W_1 = [[1, 0, 1], [0, 1, 1]]
b_1 = [0, 0, 1]
W_2 = [[1], [1], [1]]
[claim]
hidden = [[1, -1, 1]]
""",
    """kind = "block"
order = "pre"
[given]
X = [[1, 0], [0, 2]]
W_1 = [[1, 0], [0, 1]]
W_2 = [[1, 0], [0, 1]]
gamma_1 = [1, 1]
[claim]
add_1 = [[1, 0], [0, 2]]
[claim.norm_1]
mean = [[0.5], [1]]
[claim.attention]
Q = [[1, -1], [-1, 1]]
""",
]
DOCUMENTS = [
    r"""% workings: scale = "none"
\[ X = \begin{bmatrix} 1 & 0 \\ 0 & 2 \end{bmatrix}, \quad
   W^Q = \begin{pmatrix} 1 & 1 \\ 0 & 1 \end{pmatrix} \]
\begin{align} Q &= X W_Q \\ &= \begin{bmatrix} 1 & \frac12 \\ 0 & \dots \end{bmatrix} \end{align}
$$A = \text{softmax}\left(\frac{QK^T}{\sqrt{d}}\right) V = [0.5 \; 0.5; 1 \; 0] \cdot [1, 2; 3, 4]$$
""",
    """<!-- workings: mask = "causal" -->
**X:**

| word | a | b |
|------|---|---|
| the  | 1 | 0 |
| cat  | 0 | 2 |

W_K = tensor([[1., 0.], [0., 1.]], device='cpu')
scores:
1,0
0,4
""",
]
MATRICES = [
    r"$$\left[\begin{array}{cc} 1 & \frac12 \\[2pt] -\infty & 7\times10^{-3} \end{array}\right]^T$",
    "array([[1.e-09, 2.e+00],\n       [3.e+00,   -inf]], dtype=float32)",
    "Parameter containing:\ntensor([[1., 2.],\n        [3., 4.]], requires_grad=True)",
    "|   | a | b |\n|---|:-:|---|\n| c | 1 | **2** |\n| d | ? |  |",
    "a;b\n0,5;1\n2;3,5",
    "1, 2\n3, 4",
    "0,5 1\n2 3",
    "[1 2; 3 4]",
    "⎡1 2⎤\n⎣3 4⎦",
    "1 & 2 \\\\ 3 & 4",
    '[["?", 0.5], [null, "1/2"]]',
]  # fmt: skip
NUMBERS = [
    "nan", "inf", "-inf", "true", "1e999", "1e-999", "0", "-1", "1e200", "9" * 70, '"?"', '""',
    "[]", "0x" + "f" * 2000, "{}", "[[1]]", "[[[1]]]", "1979-05-27", "0.30000000000000004", "1_0",
]  # fmt: skip
PIECES = [
    *NUMBERS, "[[claim.again]]\n", "[claim.head.2]\n", "[given]\n", "X = ", "W_Q = ", '"""',
    "Q = [[1, 2]]\n", "heads = 3\n", "scale = 0\n", "tokens = []\n", "mask = ", "\\begin{bmatrix}",
    "\\end{bmatrix}", "\\\\", "&", "\\frac", "{", "}", "$$", "|", "\n\n", "%", "<!--", "-->", "=",
    "⎡", "...", "\ufeff", "\x00", "\x1b[31m", "\u2028", "\ud800", "²", "−", "∞", "tensor(", ":",
    "array(", ")", "^T", "softmax(", "\\text{", "% workings: ", "ignore = ['X']", "10^", "×", "\t",
]  # fmt: skip


SHORT_NUMBERS = (st.integers(-9, 9) | st.decimals(-9, 9, places=2)).map(str)


@st.composite
def damaged_texts(draw: st.DrawFn, originals: list[str]) -> str:
    """Draw a text with a few changes to characters, numbers or lines, or parts of another text."""
    text = draw(st.sampled_from(originals))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        end = min(len(text), at + draw(st.integers(0, 8)))
        lines = text.splitlines(keepends=True) or [""]
        line = draw(st.integers(0, len(lines) - 1))
        other = draw(st.sampled_from(originals))
        change = draw(st.sampled_from([0, 1, 2, 3, 4, 5, 5, 5, 6]))
        if change == 0:
            text = text[:at] + text[end:]
        elif change == 1:
            text = text[:at] + draw(st.sampled_from(PIECES)) + text[end:]
        elif change == 2:
            text = text[:at] + draw(st.text(max_size=3)) + text[at:]
        elif change == 3:
            lines[line : line + 1] = [lines[line]] * draw(st.integers(0, 2))
            text = "".join(lines)
        elif change == 4:
            text = text[:at] + other[draw(st.integers(0, len(other))) :]
        elif change == 5:
            digits = [i for i, c in enumerate(text) if c.isdigit()] or [0]
            position = draw(st.sampled_from(digits))
            number = draw(st.sampled_from(NUMBERS) | SHORT_NUMBERS)
            text = text[:position] + number + text[position + 1 :]
        else:
            lines.insert(line, draw(st.sampled_from(other.splitlines(keepends=True))))
            text = "".join(lines)
    return text


RANDOM_TEXTS = st.text(max_size=60) | st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


def expect_one_line(error: UserError) -> None:
    message = str(error)
    assert message == to_one_line(message)
    assert len(message) < 1000


def read_and_solve(reader: Callable[[str], Problem], text: str) -> None:
    """Read and solve a text: every number is finite, or −∞ by a mask, or there is an error."""
    try:
        solution = reader(text).solve()
        for key in solution.keys():  # noqa: SIM118
            matrix = solution[key]
            assert (np.isfinite(matrix) | (np.isneginf(matrix) & ("masked" in key))).all()
    except UserError as error:
        expect_one_line(error)


def read_file(text: str) -> None:
    read_and_solve(Problem.from_toml, text)


def read_document(text: str) -> None:
    read_and_solve(read_problem, text)


def read_matrix(text: str) -> None:
    try:
        rows = parse_matrix(text, "X")
    except UserError as error:
        expect_one_line(error)
    else:
        assert len({len(row) for row in rows}) == 1
        assert rows[0]
        assert all(read_number(cell, "X") or cell == "?" for row in rows for cell in row)


CASES = [
    pytest.param(read_file, FILES, id="files"),
    pytest.param(read_document, DOCUMENTS, id="documents"),
    pytest.param(read_matrix, MATRICES, id="matrices"),
]


@pytest.mark.parametrize(("reader", "originals"), CASES)
def test_originals_are_valid(reader: Callable[[str], None], originals: list[str]) -> None:
    for text in originals:
        if reader is read_file:
            Problem.from_toml(text)
        elif reader is read_document:
            read_problem(text)
        else:
            parse_matrix(text, "X")


def fuzz(reader: Callable[[str], None], originals: list[str], examples: int) -> None:
    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), database=None)
    @given(damaged_texts(originals) | damaged_texts(FILES + DOCUMENTS + MATRICES) | RANDOM_TEXTS)
    def survive(text: str) -> None:
        reader(text)

    survive()


@pytest.mark.parametrize(("reader", "originals"), CASES)
def test_damaged_text(reader: Callable[[str], None], originals: list[str]) -> None:
    fuzz(reader, originals, 80)


@pytest.mark.slow
@pytest.mark.parametrize(("reader", "originals"), CASES)
def test_damaged_text_at_length(reader: Callable[[str], None], originals: list[str]) -> None:
    fuzz(reader, originals, 20_000)


def count_calls(text: str) -> int:
    """Return the number of calls of functions and methods in which a document is parsed."""
    num_calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal num_calls
        num_calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        with contextlib.suppress(UserError):
            read_problem(text)
    finally:
        sys.setprofile(None)
    return num_calls


@pytest.mark.parametrize(
    "part",
    [
        "[", "X = ", "X = [1]", "X:\n", "1,:\n", "$$", "<!--", "% workings:", "% workings:\n",
        "\\begin{bmatrix}1\\end{bmatrix}", "(", "\n", "X\n\n", "⎡1⎤\n", "\\quad", "a b ", "=",
        "X=[1]\n=", "array(", "softmax(", "QK", "_", "{",
    ],
)  # fmt: skip
def test_documents_are_parsed_in_linear_time(part: str) -> None:
    """By the number of calls: twice the text may take twice as many, not four times."""
    count_calls(part * 100)  # fills caches
    assert count_calls(part * 400) <= 2.5 * count_calls(part * 200)


@pytest.mark.parametrize("text", ["[1" * 10**4 + "]" * 10**4, "1 " * 10**5])
def test_long_documents_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(UserError) as error:
        read_problem(text)
    expect_one_line(error.value)
