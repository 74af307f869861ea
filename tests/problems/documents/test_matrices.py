"""Parsing of pasted matrices in every supported form."""

import json
import sys
import time
from decimal import Decimal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workings.errors import UserError
from workings.problems.documents.matrices import MAX_TEXT_CHARS, parse_matrix
from workings.problems.numbers import read_number

PLAIN = [["1", "0.5"], ["-2", "30"]]

LATEX_CELLS = r"1 & 0.5 \\ -2 & 30"
LATEX = [
    *(
        f"\\begin{{{name}}} {LATEX_CELLS} \\end{{{name}}}"
        for name in ("bmatrix", "pmatrix", "vmatrix", "Vmatrix", "Bmatrix", "matrix", "smallmatrix")
    ),
    r"\begin{pmatrix}1&0.5\\-2&30\end{pmatrix}",
    r"\left( \begin{matrix} 1 & 0.5 \\ -2 & 30 \\ \end{matrix} \right)",
    r"\bigl[\begin{smallmatrix} 1 & 0.5 \\ -2 & 30 \end{smallmatrix}\bigr]",
    r"\begin{bmatrix*}[r] 1 & 0.5 \\ -2 & 30 \end{bmatrix*}",
    r"\left[\begin{array}{cc} 1 & 0.5 \\ -2 & 30 \end{array}\right]",
    r"\begin{array}[t]{|c|@{}c@{}|} \hline 1 & 0.5 \\ \hline -2 & 30 \\ \hline \end{array}",
    r"\begin{array} 1 & 0.5 \\ -2 & 30 \end{array}",
    r"\begin{array}{c|cc} & \text{a} & \text{b} \\ \hline a & 1 & 0.5 \\ b & -2 & 30 \end{array}",
    r"\begin{tabular}{rr} $1$ & 0.5 \tabularnewline $-2$ & 30 \end{tabular}",
    r"\begin{tabular*}{5cm}{*{2}{c}} 1 & 0.5 \\ -2 & 30 \end{tabular*}",
    r"$$\begin{bmatrix} 1 & 0.5 \\ -2 & 30 \end{bmatrix}$$",
    r"\[ \begin{bmatrix} 1 & 0.5 \\ -2 & 30 \end{bmatrix}, \]",
    "\\begin{equation}\n\\begin{bmatrix}\n1 & 0.5 \\\\\n-2 & 30\n\\end{bmatrix}.\n\\end{equation}",
    r"\begin{bmatrix} 1 & 0.5 \\[2pt] -2 & 30 \\*[-1ex] \end{bmatrix}",
    r"\begin{bmatrix} \text{1} & \mathrm{0.5} \\ \mathbf{-2} & \boxed{\mathbf{30}} \end{bmatrix}",
    r"\begin{bmatrix} \textcolor{red}{1} & \color{blue}0.5 \\ {-2} & \underline{30} \end{bmatrix}",
    r"\begin{bmatrix} \,1\; & ~0.5 \\ -\,2 & \phantom{0}30\quad \end{bmatrix}",
    r"$W_{Q} = \begin{bmatrix} 1 & 0.5 \\ -2 & 30 \end{bmatrix} \in \mathbb{R}^{2 \times 2}$",
    r"\begin{bmatrix} 1 & -2 \\ 0.5 & 30 \end{bmatrix}^{\top}",
    "1 & 0.5 \\\\\n-2 & 30",
]
LISTS = {
    "python": "[[1, 0.5], [-2, 30]]",
    "json": '[["1", 0.5], [-2, "30"]]',
    "python text": "[['1', '0.5'], ['-2', '30']]",
    "assigned": "X = np.array([[1, 0.5], [-2, 30]])",
    "numpy": "[[1 0.5]\n [-2 30]]",
    "numpy repr": "array([[1, 0.5],\n       [-2, 30]], dtype=float32)",
    "numpy scalars": "[[np.float64(1), np.float64(0.5)], [np.int64(-2), np.int64(30)]]",
    "torch": "tensor([[1, 0.5],\n        [-2, 30]], device='cuda:0', grad_fn=<AddmmBackward0>)",
    "torch dtype": "tensor([[1, 0.5], [-2, 30]], dtype=torch.float64, requires_grad=True)",
    "parameter": "Parameter containing:\ntensor([[1, 0.5],\n        [-2, 30]], requires_grad=True)",
    "sympy": "Matrix([[1, 0.5], [-2, 30]])",
    "matlab": "[1 0.5; -2 30]",
    "matlab with commas": "[1, 0.5; -2, 30;]",
    "rows only": "[1, 0.5]\n[-2, 30]",
    "transposed": "[[1, -2], [0.5, 30]].T",
}
TABLES = {
    "markdown": "| a | b |\n|---|:-:|\n| 1 | 0.5 |\n| -2 | 30 |",
    "markdown without header": "| 1 | 0.5 |\n|---|---|\n| -2 | 30 |",
    "markdown with empty header": "|  |  |\n|--|--|\n| 1 | 0.5 |\n| -2 | 30 |",
    "markdown with row labels": "| | the | cat |\n|--|--|--|\n| the | 1 | 0.5 |\n| cat | -2 | 30 |",
    "markdown with numbered columns": "| | 1 | 2 |\n|-|-|-|\n| the | 1 | 0.5 |\n| cat | -2 | 30 |",
    "markdown without outer bars": "a | b\n--|--\n1 | 0.5\n-2 | 30",
    "markdown with bold": "| **a** | b |\n|---|---|\n| **1** | `0.5` |\n| $-2$ | 30 |",
    "markdown without rule": "| 1 | 0.5 |\n| -2 | 30 |",
    "csv": "1,0.5\n-2,30",
    "csv with spaces": "1, 0.5\n-2, 30\n",
    "csv with header": "a,b\n1,0.5\n-2,30",
    "csv with labels": ",the,cat\nthe,1,0.5\ncat,-2,30",
    "csv with quotes": '"the, cat","b"\n"1","0.5"\n"-2","30"',
    "csv with crlf": "1,0.5\r\n-2,30\r\n",
    "tsv": "1\t0.5\n-2\t30",
    "tsv with labels": "\tthe\tcat\nthe\t1\t0.5\ncat\t-2\t30",
    "semicolons": "1;0.5\n-2;30",
    "spaces": "  1   0.5\n -2  30 \n\n",
    "one line": "1 0.5; -2 30",
    "drawn": "⎡ 1  0.5⎤\n⎢       ⎥\n⎣-2  30 ⎦",
    "drawn parentheses": "⎛ 1  0.5⎞\n⎝-2  30 ⎠",
    "drawn with name": "X = ⎡ 1 0.5⎤\n    ⎣-2 30 ⎦",
    "byte order mark": "\ufeff1,0.5\n-2,30",
}


@pytest.mark.parametrize("form", [*LATEX, *LISTS.values(), *TABLES.values()])
def test_every_form_is_parsed(form: str) -> None:
    assert parse_matrix(form, "X") == PLAIN


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (r"\frac{1}{2}", "1/2"), (r"-\tfrac{1}{2}", "-1/2"), (r"\dfrac{-3}{4}", "-3/4"),
        (r"\frac12", "1/2"), (r"- \frac{1}{ 2 }", "-1/2"), (r"\nicefrac{1}{2}", "1/2"),
        (r"-\infty", "-inf"), (r"- \infty", "-inf"), (r"\infty", "inf"),
        (r"7.9\times10^{-32}", "7.9e-32"), (r"7.9 \times 10^{-32}", "7.9e-32"),
        (r"-2 \cdot 10^3", "-2e3"), (r"10^{-5}", "1e-5"), (r"-10^{-5}", "-1e-5"),
        ("7.9×10⁻³²", "7.9e-32"), (r"0{,}5", "0,5"), (r"12\,345", "12345"), ("–0.5", "-0.5"),
        ("−0.5", "−0.5"), (r"\num{1e-3}", "1e-3"), ("?", "?"), ("", "?"), (r"\dots", "?"),
        (r"\cdots", "?"), (r"\vdots", "?"), ("...", "?"), ("…", "?"), (r"\square", "?"),
        (r"\_\_\_", "?"), (r"\underline{\quad}", "?"), ("+1", "+1"),
    ],
)  # fmt: skip
def test_latex_cells(cell: str, expected: str) -> None:
    assert parse_matrix(rf"\begin{{bmatrix}} 1 & {cell} \end{{bmatrix}}", "X") == [["1", expected]]
    read_number(expected, "X")


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("0,5;1\n2;3,25", [["0,5", "1"], ["2", "3,25"]]),
        ("0,5\t1\n2\t3,25", [["0,5", "1"], ["2", "3,25"]]),
        ("0,5 1,0\n2 3,25", [["0,5", "1,0"], ["2", "3,25"]]),
        ("1,0\n0,2", [["1", "0"], ["0", "2"]]), ("1;2;\n3;;4", [["1", "2", "?"], ["3", "?", "4"]]),
        ("1,,2\n,3,", [["1", "?", "2"], ["?", "3", "?"]]),
        ("| 1 | |\n|---|---|\n| ? | 2 |", [["1", "?"], ["?", "2"]]),
        ("[[1, null], [None, '?']]", [["1", "?"], ["?", "?"]]), ("[1, 2, 3]", [["1", "2", "3"]]),
        ("[1, 2, 3]^T", [["1"], ["2"], ["3"]]), (r"[-0.1 \ 0.1 \; 0.3]", [["-0.1", "0.1", "0.3"]]),
        (r"\left[ \frac{1}{2}, 7 \times 10^{-2} \right]^{\mathsf{T}}", [["1/2"], ["7e-2"]]),
        (r"\left( 1 \quad 2 \right)", [["1", "2"]]), ("(1, 2)", [["1", "2"]]),
        ("[[1.e-09 2.e+00]\n [3.e+00   -inf]]", [["1.e-09", "2.e+00"], ["3.e+00", "-inf"]]),
        ("7", [["7"]]), (r"\begin{bmatrix} 1 \\ \\ 3 \end{bmatrix}", [["1"], ["?"], ["3"]]),
        (r"\begin{bmatrix} 1 & 2 \\ & \\ \end{bmatrix}", [["1", "2"], ["?", "?"]]),
    ],
)  # fmt: skip
def test_separators_blanks_and_vectors(text: str, rows: list[list[str]]) -> None:
    assert parse_matrix(text, "X") == rows


@pytest.mark.parametrize(
    ("text", "message_part"),
    [
        ("", "empty"), (" \n\t", "empty"), ("[]", "empty"), ("[[], []]", "empty"), ("⎡⎤", "empty"),
        (r"\begin{bmatrix}\end{bmatrix} x", "beside"),
        ("hello world", "'hello world' is not a matrix"), ("causal", "not a matrix"),
        ("\x00", "not a matrix"), (r"\begin{bmatrix} \alpha & \beta \end{bmatrix}", "not a matrix"),
        ("[a, b]", "not a matrix"), ("[[True, False]]", "not a matrix"), ("]", "not a matrix"),
        ("{1: 2}", "'1:' is not a number"), (r"\begin{cases} 1 \\ 2 \end{cases}", "not a matrix"),
        ("about 3", "row 1: 'about' is not a number"),
        ("[[1, nan]]", "row 1: 'nan' is not a number"),
        ("[[1, 2], [3, x]]", "row 2: 'x' is not a number"),
        ("__import__('os').getcwd()", "not a matrix"),
        (r"\begin{bmatrix} -0.3 - 0.1 & 2 \end{bmatrix}", "'-0.3 - 0.1' is not a number"),
        (r"\begin{bmatrix} 1\frac{1}{2} & 2 \end{bmatrix}", "'1 1/2' is not a number"),
        (r"\begin{bmatrix} 1/0 & 2 \end{bmatrix}", "divides by zero"),
        ("[[1, 2], [3]]", "row 2 has 1 numbers, row 1 has 2"),
        ("1 2\n3 4 5", "row 2 has 3 numbers, row 1 has 2"),
        ("1,2\n3", "row 2 has 1 numbers, row 1 has 2"), ("| 1 | 2 |\n| 3 |", "row 2 has 1 numbers"),
        (r"\begin{bmatrix} 1 & 2 \\ 3 \end{bmatrix}", "row 2 has 1 numbers, row 1 has 2"),
        ("[[1, 2], []]", "row 2 has 0 numbers, row 1 has 2"),
        ("[[1, 2], [3]].T", "row 2 has 1 numbers, row 1 has 2"),
        (r"\begin{bmatrix} 1 & 2 \\ 3 \end{bmatrix}^T", "row 2 has 1 numbers, row 1 has 2"),
        ("[[[1, 2]]]", "more than two dimensions"),
        ("tensor([[[1.]]])", "more than two dimensions"), ("[1, [2, 3]]", "not one matrix"),
        ("[[1, 2]] [[3, 4]]", "not one matrix"), ("[[1, 2]", "not closed"),
        (r"\frac{1}{2} \begin{bmatrix} 1 \end{bmatrix}", "beside the matrix"),
        (r"\begin{bmatrix} 1 \end{bmatrix} + 1", "beside the matrix"),
        ("[[1, 2]] * 3", "beside the matrix"), ("2 * [[1, 2]]", "not"),
        (r"\begin{matrix} 1 \end{matrix} \begin{matrix} 1 \end{matrix}", "2 matrices"),
        (r"\begin{bmatrix} 1 & 2", r"\begin{bmatrix} has no \end{bmatrix}"),
        (r"\begin{bmatrix} 1 & 2 \end{pmatrix}", r"\begin{bmatrix} has no \end{bmatrix}"),
        (r"\begin{bmatrix} \begin{bmatrix} 2 \end{bmatrix} \end{bmatrix}", "nested in a matrix"),
        ("⎡1⎤ ⎡2⎤", "side by side"),
        ("\x08egin{bmatrix} 1 & 2 \x0crac{1}{2}", "quote LaTeX with '''"),
        (repr(np.ones((2000, 2))), "leaves numbers out"),
        (str(torch.ones(2000, 2)), "leaves numbers out"),
        (str(np.ones((2, 2000))), "leaves numbers out"),
        ("1" * (MAX_TEXT_CHARS + 1), "at most 2000000 are allowed"),
        ("1 " * 1025, "a side of 1025; at most 1024"), ("1\n" * 1025, "at most 1024"),
    ],
    ids=lambda text: text[:20],
)  # fmt: skip
def test_invalid_matrix_is_rejected(text: str, message_part: str) -> None:
    with pytest.raises(UserError) as error:
        parse_matrix(text, "claim.Q")
    message = str(error.value)
    assert message.startswith("claim.Q: ")
    assert message_part in message
    assert "\n" not in message
    assert len(message) < 200


N = 10_000


@pytest.mark.parametrize(
    "text",
    [
        "[" * N, "]" * N, "[" * N + "]" * N, "{" * N, "\\" * N, "\\frac" * N, "\\frac{" * N,
        "\\begin{bmatrix}" * N, "\\end{bmatrix}" * N, " " * N + "x", "-" * N, "|" * N, "|-" * N,
        ",=" * N, "[1]" + " " * N + "x", "[1]" + ", a=b " * N + "!", "np.float64(" * N, '"' * N,
        "'\"" * N, "^T" * N, "[1]" + "^ " * N, "\\\\ " * N, "$" * N, "1 " * N, "1;" * N, "&" * N,
        "⎡" * N, "X" * N + "=", "10^" * N, "\\begin{array}" + "{" * N, "a.b" * N + "([",
        "\n" * N + "1", "\\mathsf " * N,
    ],
    ids=lambda text: text[:20],
)  # fmt: skip
def test_parsing_is_fast_for_any_text(text: str) -> None:
    start = time.process_time()
    try:
        parse_matrix(text, "X")
    except UserError as error:
        assert len(str(error)) < 200  # noqa: PT017
    assert time.process_time() - start < 1.5


CELLS = st.decimals(-9999, 9999, places=4, allow_nan=False) | st.integers(-99, 99).map(Decimal)
MATRICES = st.tuples(st.integers(1, 4), st.integers(1, 9)).flatmap(
    lambda shape: st.lists(
        st.lists(CELLS, min_size=shape[1], max_size=shape[1]), min_size=shape[0], max_size=shape[0]
    )
)


def parse_values(rows: list[list[str]]) -> list[list[float]]:
    read = [[read_number(cell, "X") for cell in row] for row in rows]
    return [[number.value for number in row if number] for row in read]


@settings(max_examples=30)
@given(MATRICES)
def test_formatted_matrices_round_trip(matrix: list[list[Decimal]]) -> None:
    cells = [[format(cell, "f") for cell in row] for row in matrix]
    comma = [[cell.replace(".", ",") for cell in row] for row in cells]

    def lines(rows: list[list[str]], between: str, start: str = "", end: str = "") -> str:
        return "\n".join(start + between.join(row) + end for row in rows)

    head = [[f"w{j}" for j in range(len(cells[0]))]]
    rule = [["---"] * len(cells[0])]
    for name in ("bmatrix", "pmatrix", "matrix", "smallmatrix"):
        text = f"\\begin{{{name}}}\n" + lines(cells, " & ", end=r" \\") + f"\n\\end{{{name}}}"
        assert parse_matrix(text, "X") == cells
    assert parse_matrix(lines(head + rule + cells, " | ", "| ", " |"), "X") == cells
    assert parse_matrix(lines(cells, ", ", "[", "]"), "X") == cells
    assert parse_matrix(json.dumps(cells), "X") == cells
    assert parse_matrix(lines(cells, "\t"), "X") == cells
    assert parse_matrix(lines(cells, "  ", "⎢ ", " ⎥"), "X") == cells
    if len(cells[0]) > 1:
        assert parse_matrix(lines(comma, ";"), "X") == comma
        assert parse_matrix(lines(comma, " "), "X") == comma
        assert parse_matrix(lines(cells, ","), "X") == cells
        assert parse_matrix(lines(head + cells, ","), "X") == cells


@settings(max_examples=40)
@given(MATRICES, st.sampled_from([None, True, False]))
def test_numpy_and_torch_prints_round_trip(
    matrix: list[list[Decimal]], scientific: bool | None
) -> None:
    numbers = [[float(cell) for cell in row] for row in matrix]
    array, tensor = np.array(numbers), torch.tensor(numbers, dtype=torch.float64)
    with np.printoptions(floatmode="unique", threshold=sys.maxsize, suppress=scientific is False):
        for text in (
            str(array),
            repr(array),
            str(array.tolist()),
            str([list(row) for row in array]),
        ):
            assert parse_values(parse_matrix(text, "X")) == numbers
    torch.set_printoptions(profile="full", precision=9, sci_mode=scientific)
    try:
        for text in (
            str(tensor),
            repr(tensor.requires_grad_() * 1),
            str(torch.nn.Parameter(tensor)),
        ):
            assert parse_values(parse_matrix(text, "X")) == numbers
    finally:
        torch.set_printoptions(profile="default")


@given(st.lists(st.lists(st.floats(width=32, allow_nan=False), min_size=3, max_size=3), min_size=1))
def test_scientific_prints_round_trip(numbers: list[list[float]]) -> None:
    with np.printoptions(floatmode="unique", threshold=sys.maxsize):
        assert parse_values(parse_matrix(repr(np.array(numbers)), "X")) == numbers
