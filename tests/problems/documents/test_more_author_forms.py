"""More documents as authors write them: each is right with one number, and wrong with another."""

import json

import pytest

from workings.problems.documents.reading import read_document
from workings.problems.documents.reports import ExampleReport
from workings.problems.documents.sources.programs import find_prints

QKV = "$Q = [[1, 0], [0, 2]]$, $K = [[1, 1], [0, 1]]$, $V = [[10, 0], [0, 10]]$\n\n"
XW = "W_Q = np.array([[1, 0], [0, 1]])\nW_K = np.array([[1, 0], [1, 1]])\n"
XW += "W_V = np.array([[10, 0], [0, 10]])\n"
FENCE = "```"

SESSION = f"""{FENCE}python
X = np.array([[1, 0], [0, 2]])
{XW}q = X @ W_Q
k = X @ W_K
v = X @ W_V
print(q.round(2)); print(k, v)
{FENCE}
which prints
{FENCE}
[[1 0]
 [0 2]]
[[1 0]
 [2 2]] [[10  0]
 [ 0 20]]
{FENCE}
{FENCE}pycon
>>> att = q @ k.T; att
array([[1, 2],
       [0, VALUE]])
{FENCE}
"""
COMMENTS = f"""{FENCE}python
Q, K, V = np.array([[1, 0], [0, 2]]), np.array([[1, 1], [0, 1]]), np.array([[10, 0], [0, 10]])
sim = Q @ K.T
print(sim)
# [[1 0]
#  [2 VALUE]]
{FENCE}
"""
MY_SOFTMAX = """>> Q = [1 0; 0 2];
>> K = [1 1; 0 1];
>> V = [10 0; 0 10];
>> A = softmax_rows(Q*K'/sqrt(2))
A =

   0.6698   0.3302
   VALUE   0.5000
"""
KATEX = (
    "<p>{}</p><p><span class='katex'><span class='katex-mathml'><math><mi>Q</mi><msup><mi>K</mi>"
    "<mi>T</mi></msup><mo>=</mo><mo>[</mo><mtable><mtr><mtd>1</mtd><mtd>0</mtd></mtr><mtr>"
    "<mtd>2</mtd><mtd>VALUE</mtd></mtr></mtable><mo>]</mo></math></span><span class='katex-html'>"
    "QKT=[1 2 0 <br>VALUE]</span></span></p>"
).format(QKV.replace("$", " "))
CROSS = (
    "Decoder: $Y = [[1, 0]]$. Encoder output: $H = [[1, 1], [0, 2]]$. $W_Q = [[1, 0], [0, 1]]$, "
    "$W_K = [[1, 0], [0, 1]]$, $W_V = [[1, 0], [0, 1]]$.\n\n$Q = Y W_Q = [[1, 0]]$\n\n"
    "$K = H W_K = [[1, 1], [0, VALUE]]$\n\n$V = H W_V = [[1, 1], [0, 2]]$\n"
)
GERMAN = (
    f"{QKV}QK^T = [[1, 0], [2, 2]]\n\nDie Werte werden durch √2 ≈ 1,414 geteilt.\n\n"
    "Gewichte: [[0.67, 0.33], [VALUE, 0.50]]\n"
)
HIDDEN = (
    f"{QKV}Kein Wort darf in die Zukunft sehen.\n\n$A = softmax(QK^T/√2) = $\n\n"
    "$[[1.00, 0.00], [VALUE, 0.50]]$\n"
)
CAPTION_BELOW = (
    "\\[ Q = \\begin{pmatrix}1&0\\\\0&2\\end{pmatrix}, "
    "K = \\begin{pmatrix}1&1\\\\0&1\\end{pmatrix},"
    " V = \\begin{pmatrix}10&0\\\\0&10\\end{pmatrix} \\]\n\\begin{table}[ht]\\centering\n"
    "\\begin{tabular}{lrr}\n & 1 & 2 \\\\\ncat & 1 & 0 \\\\\nsat & 2 & VALUE \\\\\n\\end{tabular}\n"
    "\\caption{Scores of $QK^T$.}\n\\end{table}\n"
)
VALUE_BELOW = (
    f"{QKV}$$QK^T = [[1, 0], [2, 2]]$$\n\n"
    "$$A = softmax(QK^T)$$\n$$[[0.73, 0.27], [VALUE, 0.50]]$$\n"
)
BRACKETED_ROWS = "<p>{}</p><pre>scores =\n[ 1  0 ]\n[ 2  VALUE ]</pre>".format(
    QKV.replace("$", " ")
)
FACTOR = (
    f"{QKV}$$\\frac{{1}}{{\\sqrt{{2}}}} QK^T = \\frac{{1}}{{\\sqrt{{2}}}} [[1, 0], [2, VALUE]] = "
    "[[0.71, 0.00], [1.41, 1.41]]$$\n"
)
SENTENCE = f"{QKV}q_1 • k_1 = 1, q_1 • k_2 = 0, q_2 • k_1 = 2 and q_2 • k_2 = VALUE.\n"
SO = f"{QKV}No scaling. The softmax is α_1 = [0.73, 0.27], so z_1 = [7.31, VALUE].\n"
POSITIONS = (
    "\\section{Positional encodings}\n\\begin{align*}\nPE_{0} &= (\\sin 0, \\cos 0) = (0, 1) \\\\\n"
    "PE_{1} &= (\\sin 1, \\cos 1) = (0.8415, VALUE)\n\\end{align*}"
)
TRACE = (
    "w_x = 1, w_h = 0.5, b = 0\n\n| t | x_t | h_(t-1) | h_t |\n|--|--|--|--|\n"
    "| 1 | 1 | 0 | 0.762 |\n| 2 | 0 | 0.762 | VALUE |\n"
)
GRU = (
    "A GRU: W_z = 1, U_z = 0, W_r = 1, U_r = 0, W_n = 1, U_n = 1, h_0 = 1, x_1 = 0.5\n\n"
    "z_1 = 0.622\nr_1 = 0.622\nn_1 = 0.808\nh_1 = (1 - z_1) h_0 + z_1 n_1 = VALUE\n"
)
GAMMA = """Layer norm of one token, $$x = [1, 3, 2, 6]$$
gamma = [2, 1, 1, 1]
beta  = [0, 1, 0, 0]

mean = 3
variance = 3.5
x_hat = (x - mean) / sqrt(variance) = [-1.069, 0.000, -0.535, 1.604]
y = gamma * x_hat + beta = [-2.138, VALUE, -0.535, 1.604]
"""
LOG = """Q:
[[1. 0.]
 [0. 2.]]
K:
[[1. 1.]
 [0. 8.]]
V:
[[1. 0.]
 [0. 1.]]
Attention weights (softmax of scores / sqrt(d_k), row = query):
[[6.698e-01 3.302e-01]
 [1.000e-04 VALUE]]
Row sums: [1. 1.]
"""
TRIMMED = f"{QKV}```\n>>> softmax(Q @ K.T / np.sqrt(2))\n[[0.67 0.33]\n [0.5  VALUE]]\n```\n"
TABLES = f"""{QKV}Scores:

| | $k_1$ | $k_2$ |
|--|--|--|
| $q_1$ | 1 | 0 |
| $q_2$ | 2 | 2 |

Exponentials after the division by √2:

| | $e^{{s_1}}$ | $e^{{s_2}}$ | sum |
|--|--|--|--|
| $q_1$ | 2.03 | 1.00 | 3.03 |
| $q_2$ | 4.11 | 4.11 | VALUE |
"""
LETTERS = """An Elman network: $h_t = \\tanh(W x_t + U h_{t-1} + c)$

$W = 1$, $U = 0.5$, $c = 0$

$h_0 = 0$, $x_1 = 1$, $x_2 = 0$, $h_1 = 0.762$, $h_2 = VALUE$
"""
NUMBERS = """A recurrent network with u = 0.5, w = 1, b = 0 and x1 = 2, x2 = 1, h0 = 0:
h1 = tanh(0.5·2 + 1·0 + 0) = 0.762
h2 = tanh(0.5·1 + 1·0.762 + 0) = VALUE
"""
GRU_NUMBERS = GRU.replace("(1 - z_1) h_0 + z_1 n_1", "(1 - 0.622) · 1 + 0.622 · 0.808")
RUSSIAN = (
    f"{QKV}Делим на √2, применяем каузальную маску и softmax.\n\n"
    "$A = [[1.00, 0.00], [0.50, VALUE]]$\n"
)
SPOKEN = f"{QKV}No scaling. The softmax of the first row gives 0.73 and VALUE.\n"
ASIDE = f"{QKV}No scaling.\n\nsoftmax (row-wise) = [[0.73, 0.27], [0.5, VALUE]]\n"
FFN = """W1 = [[1, -1]], b1 = [[0, 1]], W2 = [[2], [1]], b2 = [[1]], x = [[3]]

xW1 + b1 = [[3, -2]]
max(0, xW1 + b1) = [[3, 0]]
FFN(x) = [[VALUE]]
"""
HEADS = f"""{FENCE}python
X = np.array([[1, 0], [0, 2]])
W_V = [np.array([[1], [0]]), np.array([[0], [3]])]
for i in range(2):
    print(f'--- head {{i + 1}} ---'); print('V:'); print(X @ W_V[i])
{FENCE}
{FENCE}
--- head 1 ---
V:
[[1]
 [0]]
--- head 2 ---
V:
[[0]
 [VALUE]]
{FENCE}
"""
VECTORS = """A recurrent network: W_xh = [[1, 0], [0, 1]], W_hh = [[0, 0], [0, 0]], h_0 = [0, 0]

| t | x_t | h_t |
|--|--|--|
| 1 | [1, 0] | [0.76, 0.00] |
| 2 | [0, 1] | [0.00, VALUE] |
"""
MULTIPLIED = (
    f"{QKV}No scaling.\n\nNow multiply every query with every key (the dot product):\n\n"
    "| | a | b |\n|--|--|--|\n| a | 1 | 0 |\n| b | 2 | VALUE |\n"
)
FORMS = {
    "lists of matrices": ("notes.md", HEADS, "6", "7", "V"),
    "vectors in a table over time": ("notes.md", VECTORS, "0.76", "0.46", "h"),
    "queries with keys": ("notes.md", MULTIPLIED, "2", "3", "scores"),
    "weights in a sentence": ("notes.md", SPOKEN, "0.27", "0.37", "weights"),
    "a remark before the equals sign": ("notes.md", ASIDE, "0.5", "0.8", "weights"),
    "a function as a name": ("notes.md", FFN, "7", "8", "output"),
    "gamma and beta below each other": ("notes.txt", GAMMA, "1.000", "1.300", "output"),
    "rounded numbers with exponents": ("run.log", LOG, "9.999e-01", "9.499e-01", "weights"),
    "zeros that NumPy drops": ("notes.md", TRIMMED, "0.5 ", "0.6 ", "weights"),
    "tables of queries and keys": ("notes.md", TABLES, "8.23", "9.23", "sums"),
    "letters of weights by formula": ("notes.md", LETTERS, "0.363", "0.463", "h"),
    "letters of weights by numbers": ("notes.txt", NUMBERS, "0.852", "0.752", "h"),
    "convention of a gate in numbers": ("notes.md", GRU_NUMBERS, "0.881", "0.927", "h"),
    "root and mask in Russian": ("notes.md", RUSSIAN, "0.50", "0.80", "weights"),
    "output of code": ("notes.md", SESSION, "4", "5", "scores"),
    "output in comments": ("notes.md", COMMENTS, "2", "3", "scores"),
    "a softmax of the author's": ("log.txt", MY_SOFTMAX, "0.5000", "0.9000", "weights"),
    "KaTeX": ("page.html", KATEX, "2", "3", "scores"),
    "cross-attention": ("notes.md", CROSS, "2", "3", "K"),
    "division in German": ("notes.md", GERMAN, "0.50", "0.80", "weights"),
    "mask in German": ("notes.md", HIDDEN, "0.50", "0.80", "weights"),
    "caption below a table": ("paper.tex", CAPTION_BELOW, "2", "3", "scores"),
    "matrix below its formula": ("notes.md", VALUE_BELOW, "0.50", "0.80", "weights"),
    "rows in brackets": ("page.html", BRACKETED_ROWS, "2", "3", "scores"),
    "a factor before a matrix": ("notes.md", FACTOR, "2", "3", "scores"),
    "a bullet as product": ("notes.md", SENTENCE, "2", "3", "scores"),
    "two vectors in a sentence": ("notes.md", SO, "2.69", "2.99", "mixed"),
    "sines of numbers": ("notes.tex", POSITIONS, "0.5403", "0.9403", "encoding"),
    "the state before": ("notes.md", TRACE, "0.363", "0.463", "h"),
    "convention of a gate": ("notes.md", GRU, "0.881", "0.927", "h"),
}


def describe(example: ExampleReport) -> tuple[str, str | None]:
    first = example.report.first if example.report else None
    return example.verdict, first.step if first else None


@pytest.mark.parametrize("form", FORMS)
def test_form(form: str) -> None:
    name, text, right, wrong, step = FORMS[form]
    for value, expected in ((right, ("right", None)), (wrong, ("wrong", step))):
        (example,) = read_document(text.replace("VALUE", value).encode(), name).examples
        assert describe(example) == expected


def make_notebook(*cells: tuple[str, str]) -> bytes:
    """Return a notebook of code cells with the value of their last line as output."""
    return json.dumps(
        {
            "cells": [
                {
                    "cell_type": "code",
                    "source": code,
                    "outputs": [{"output_type": "execute_result", "data": {"text/plain": output}}],
                }
                for code, output in cells
            ]
        }
    ).encode()


@pytest.mark.parametrize(("value", "expected"), [("0.50", None), ("0.80", "weights")])
def test_notebook_with_variables_of_its_own(value: str, expected: str | None) -> None:
    given = "(array([[1, 0],\n       [0, 2]]),\n array([[1, 1],\n       [0, 1]]))"
    hidden = "tensor([[0.7071,   -inf],\n        [1.4142, 1.4142]], grad_fn=<F>)"
    mask = "wei = wei.masked_fill(torch.tril(torch.ones(2, 2)) == 0, float('-inf'))"
    content = make_notebook(
        ("q, k", given),
        (f"wei = q @ k.T / 2**0.5\n{mask}\nwei", hidden),
        ("p = F.softmax(wei, dim=-1)\np", f"tensor([[1.00, 0.00],\n        [{value}, 0.50]])"),
    )
    (example,) = read_document(content, "cells.ipynb").examples
    assert describe(example) == (("wrong", expected) if expected else ("right", None))
    assert {"Q", "K", "masked", "weights"} <= {entry.role for entry in example.entries}


def test_unknown_function_names_no_step() -> None:
    text = f"{QKV}```\nA = normalize(Q @ K.T / np.sqrt(2))\nA = [[0.67, 0.33], [0.50, 0.50]]\n```\n"
    (example,) = read_document(text.encode(), "notes.md").examples
    assert example.verdict != "wrong"


def test_unread_matrix_leaves_an_unexplained_number_in_doubt() -> None:
    text = GAMMA.replace("gamma =", "$\\omega$ =").replace("VALUE", "1.000")
    (example,) = read_document(text.encode(), "notes.md").examples
    assert example.verdict == "not judged"


def test_letter_without_a_time_is_no_other_step() -> None:
    givens = "LSTM\n\nW_i = 1, W_f = 1, W_o = 1, W_c = 1, U_i = 1, U_f = 1, U_o = 1, U_c = 1\n\n"
    text = f"{givens}x_1 = 1, h_0 = 0, c_0 = 0\n\ni_1 = 0.731\n\nh = [[0.731]]\n"
    (example,) = read_document(text.encode(), "notes.md").examples
    assert example.verdict == "not judged"


def test_number_that_fits_nowhere_is_said() -> None:
    text = f"{QKV}$QK^T = [[1, 0], [2, 2]]$\n\nα_1 = [0.67, 0.33]\n\nα_2 = [0.5, 0.3, 0.2]\n"
    report = read_document(text.encode(), "notes.md")
    assert [example.verdict for example in report.examples] == ["not judged"]
    assert report.unread


def test_weights_repeated_under_a_mask_are_another_example() -> None:
    weights = "$A = softmax(QK^T / √2) = [[0.67, 0.33], [0.50, 0.50]]$\n\n"
    text = f"# Encoder\n\n{QKV}{weights}# Decoder\n\nNow we mask the future tokens.\n\n{weights}"
    examples = read_document(text.encode(), "notes.md").examples
    assert [describe(e) for e in examples] == [("right", None), ("wrong", "weights")]


@pytest.mark.parametrize(
    ("code", "printed", "last"),
    [
        ("print(Q.shape)\nprint(Q)", ["Q"], []),
        ("print('Q', Q, '', K)", ["K"], []),
        ("np.round(w @ v, 3)", [], ["w @ v"]),
        ("w.sum(axis=1)", [], [""]),
        ("%time\nq.detach().numpy(), k", [], ["q", "k"]),
        ("for t in range(3):\n    print(h)", [], []),
        ("not ) python", [], []),
    ],
)
def test_prints_of_code(code: str, printed: list[str], last: list[str]) -> None:
    prints = find_prints(code)
    assert (prints.printed, prints.last) == (printed, last)
