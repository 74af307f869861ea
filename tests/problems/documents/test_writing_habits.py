"""Habits of authors: words before vectors, prints of Julia and NumPy, conventions in sentences."""

import pytest

from workings.problems.documents.reading import read_document
from workings.problems.documents.reports import ExampleReport

GIVENS = """
X = [[1, 0], [0, 2]]
W_Q = [[1, 1], [0, 1]]
W_K = [[1, 0], [1, 1]]
W_V = [[2, 0], [0, 1]]
Q = X W_Q = [[1, 1], [0, 2]]
K = X W_K = [[1, 0], [2, 2]]
V = X W_V = [[2, 0], [0, 2]]
QK^T = [[1, 4], [0, 4]]
"""
# softmax of these scores: divided by √2, as they are, and divided with a causal mask
SCALED = "A = [[0.107, 0.893], [0.056, 0.944]]"
UNSCALED = "A = [[0.047, 0.953], [0.018, 0.982]]"
MASKED = "A = [[1.000, 0.000], [0.056, 0.944]]"


def read(text: str, name: str = "notes.md") -> ExampleReport:
    (example,) = read_document(text.encode(), name).examples
    return example


@pytest.mark.parametrize(
    ("sentence", "weights", "verdict", "cause"),
    [
        ("We divide the scores by √2 and take the softmax:", SCALED, "right", None),
        ("We divide the scores by √2 and take the softmax:", UNSCALED, "wrong", "not-scaled"),
        ("Dividimos los productos escalares por √2:", UNSCALED, "wrong", "not-scaled"),
        ("除以 $\\sqrt{d_k} = \\sqrt{2}$，得到权重：", UNSCALED, "wrong", "not-scaled"),
        ("Take the softmax of each row:", UNSCALED, "right", None),
        ("Scaling comes first:", UNSCALED, "not judged", None),
        ("The weights, softmax(S / d_k**0.5):", UNSCALED, "wrong", "not-scaled"),
        ("With a causal mask, divided by √2:", MASKED, "right", None),
        ("Future positions are masked out. We divide by √2.", SCALED, "wrong", "mask-forgotten"),
        ("Máscara causal: no se ven los futuros. Dividido por √2.", SCALED, "wrong", None),
        ("We divide by √2; the decoder would use a causal mask.", SCALED, "right", None),
        ("We divide by √2. No causal mask is used here.", SCALED, "right", None),
        ("After the mask, divided by √2:", SCALED, "not judged", None),
    ],
)
def test_conventions_in_sentences(
    sentence: str, weights: str, verdict: str, cause: str | None
) -> None:
    example = read(f"{GIVENS}\n{sentence}\n\n{weights}\n")
    assert example.verdict == verdict
    if cause is not None:
        assert example.report is not None
        assert example.report.first is not None
        assert example.report.first.causes[0].name == cause


@pytest.mark.parametrize(("number", "verdict"), [("2.000", "right"), ("1.000", "wrong")])
def test_vectors_under_their_words(number: str, verdict: str) -> None:
    example = read(f"""
The embeddings:

cat → [1, 0]
sat → [0, 2]

W_q = [[1, 1], [0, 1]], W_k = [[1, 0], [1, 1]], W_v = [[2, 0], [0, 1]]

## Query vectors

- **cat**: [1, 0] · W_q = [1, 1]
- **sat**: [0, 2] · W_q = [0, 2]

## Key vectors

- cat: [1, 0] · W_k = [1, 0]
- sat: [0, 2] · W_k = [2, 2]

## Value vectors

cat: [1, 0] · W_v = [2, 0]
sat: [0, 2] · W_v = [0, {number[0]}]

## Divide by √2, then softmax

cat: softmax → [0.107, 0.893]
sat: softmax → [0.056, 0.944]
""")
    assert example.verdict == verdict


def test_a_dot_product_of_unnumbered_vectors_is_checked() -> None:
    givens = GIVENS.partition("QK^T")[0]
    text = givens + "\nscore(cat, sat) = [1, 1] · [2, 2] = 5\n\nA = softmax(QK^T / √2)\n" + SCALED
    example = read(text)
    assert example.verdict == "not judged"
    assert "not the product" in example.why


def test_session_of_julia() -> None:
    example = read("""
julia> X = [1 0; 0 2]
2×2 Matrix{Int64}:
 1  0
 0  2

julia> WQ = [1 1; 0 1]; WK = [1 0; 1 1]; WV = [2 0; 0 1];

julia> Q = X * WQ
2×2 Matrix{Int64}:
 1  1
 0  2

julia> K = X * WK
2×2 Matrix{Int64}:
 1  0
 2  2

julia> V = X * WV
2×2 Matrix{Int64}:
 2  0
 0  2

julia> A = softmax(Q * K' ./ sqrt(2); dims=2)
2×2 Matrix{Float64}:
 0.047  0.953
 0.018  0.982
""")
    assert example.verdict == "wrong"
    assert example.report is not None
    assert example.report.first is not None
    assert example.report.first.causes[0].name == "not-scaled"


def test_output_of_a_program_with_dot_and_scaled_scores() -> None:
    example = read(f"""
```python
X = np.array([[1, 0], [0, 2]])
W_q = np.array([[1, 1], [0, 1]])
W_k = np.array([[1, 0], [1, 1]])
W_v = np.array([[2, 0], [0, 1]])
scores = np.dot(X @ W_q, K.T)
scaled = np.matmul(Q, K.transpose(0, 1)) / K.shape[-1] ** 0.5
```

Output:

QK^T =
[[1 4]
 [0 4]]

Scaled QK^T =
[[0.707 2.828]
 [0.000 2.828]]

Attention Weights:
{SCALED.removeprefix("A = ")}
""")
    assert example.verdict == "right"
    assert {step.step.name for step in example.report.steps} >= {"scores", "scaled", "weights"}  # type: ignore[union-attr]


def test_an_unnamed_matrix_that_may_be_a_step_is_no_clean_bill() -> None:
    example = read(GIVENS + "\nThe picture shows\n\n[[0.3, 0.7], [0.6, 0.4]]\n")
    assert example.verdict == "not judged"


def test_a_matrix_that_its_numbers_alone_name_is_never_accused() -> None:
    echo = "[[0.7, 2.8], [1.0, 2.8]]"  # three of four are those of the scaled scores
    example = read(f"{GIVENS}\n{echo}\n\nA = softmax(QK^T/√2)\n{SCALED}\n")
    assert example.verdict != "wrong"


def test_an_activation_written_as_a_formula_is_not_renamed() -> None:
    example = read("""
# Feed-forward layer
X = [[1, 2]], W_1 = [[1, 0], [0, -1]], b_1 = [[0.5, 0.5]]
A = tanh(H) = [[1.5, -1.5]]
""")
    assert example.verdict != "right"


def test_a_and_h_of_a_recurrent_network_are_two_steps() -> None:
    example = read("""
# A vanilla RNN
w_x = 0.5, w_h = -0.7, b = 0.4, h_0 = 0, x_1 = -0.6, x_2 = 0.9
a_1 = 0.5 * -0.6 - 0.7 * 0 + 0.4 = 0.1000
h_1 = tanh(0.1000) = 0.0997
a_2 = 0.5 * 0.9 - 0.7 * 0.0997 + 0.4 = 0.7802
h_2 = tanh(0.7802) = 0.6528
""")
    assert example.verdict == "right"


def test_candidate_and_state_of_an_lstm_in_one_section() -> None:
    weights = " ".join(f"W_{g} = 0.5, U_{g} = 0.1, b_{g} = 0," for g in "fioc")
    example = read(rf"""
\section{{Long short-term memory}}
{weights} $x_1 = 1$, $h_0 = 0$, $c_0 = 0$.
\begin{{align*}}
f_1 &= \sigma(0.5) = 0.622 \\ i_1 &= \sigma(0.5) = 0.622 \\ o_1 &= \sigma(0.5) = 0.622 \\
\tilde{{c}}_1 &= \tanh(0.5) = 0.462 \\
c_1 &= 0.622 \cdot 0 + 0.622 \cdot 0.462 = 0.287 \\
h_1 &= 0.622 \cdot \tanh(0.287) = 0.174
\end{{align*}}
""")
    assert (example.kind, example.verdict) == ("lstm", "right")


def test_no_number_is_lost_where_a_second_layout_is_tried() -> None:
    example = read(
        """Eingabe X
1,2;-0,5;-0,4
-0,4;-0,1;-0,3

W_Q
0,3;0,8
-0,1;0,2
0,2;-0,3

W_K
0,8;1,0
1,6;0,7
0,9;1,5

W_V
1,3;0,9
0,9;0,3
1,3;0,3

Q
0,33;0,98
-0,17;-0,25

K
-0,20;0,25
-0,75;-0,92

V
0,59;0,81
-1,00;-0,48

Skalarprodukte
0,1790;1,1491
-0,0285;0,3575

Gewichte (Softmax, kausale Maske)
1,000;0,000
0,432;0,568
""",
        "blatt.csv",
    )
    assert example.verdict == "wrong"
    assert example.report is not None
    assert example.report.first is not None
    assert (example.report.first.step, example.report.first.cell) == ("scores", (0, 1))


def test_rows_between_bars_and_a_corner_that_names_the_table() -> None:
    rows = "\n".join(
        f"{name}\n    | {a}  {b} |\n    | {c}  {d} |\n"
        for name, a, b, c, d in (
            ("X:", 1, 0, 0, 2), ("W_Q:", 1, 1, 0, 1), ("W_K:", 1, 0, 1, 1), ("W_V:", 2, 0, 0, 1),
        )
    )  # fmt: skip
    table = "| Weights | cat | sat |\n|---|---|---|\n| cat | 0.11 | 0.89 |\n| sat | 0.06 | 0.94 |\n"
    assert read(f"{rows}\n{table}").verdict == "right"
    wrong = read(f"{rows}\n{table.replace('0.06', '0.16')}")
    assert wrong.verdict == "wrong"


def test_a_formula_that_adds_a_mask_is_no_clean_bill_without_it() -> None:
    example = read(f"{GIVENS}\n{SCALED.replace('A =', 'A = softmax(QK^T/√2 + M) =')}")
    assert example.verdict == "not judged"
    assert example.other is not None
