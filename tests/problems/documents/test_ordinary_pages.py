"""Ordinary pages of a blog, a lecture and an answer in a forum: read wholly, one number changed."""

import pytest

from workings.problems.documents.reading import read_document

# name, text, count of matrices, and a number to change: what it becomes, and the step it belongs to
PAGES = {
    "product-over-lines": (
        r"""
Given $$Q = \begin{bmatrix} 1 & 0 \\ 0 & 2 \end{bmatrix}, \quad
K = \begin{bmatrix} 1 & 1 \\ 0 & 1 \end{bmatrix}, \quad
V = \begin{bmatrix} 1 & 2 \\ 3 & 4 \end{bmatrix}$$ we get
$$
\operatorname{softmax}\left(\frac{1}{\sqrt 2}\begin{bmatrix} 1 & 0 \\ 2 & 2 \end{bmatrix}\right)
\approx \begin{bmatrix} 0.67 & 0.33 \\ 0.50 & 0.50 \end{bmatrix}
$$
so that
$$
\mathrm{Attention}(Q, K, V) \approx \begin{bmatrix} 0.67 & 0.33 \\ 0.50 & 0.50 \end{bmatrix}
\begin{bmatrix} 1 & 2 \\ 3 & 4 \end{bmatrix}
= \begin{bmatrix} 1.66 & 2.66 \\ 2.00 & 3.00 \end{bmatrix}.
$$""",
        ("2.66", "2.96", "mixed"),
    ),
    "transposed-tuples": (
        r"""
Let $x_1=(1,0)^\top$, $x_2=\left(0,1\right)^T$, $x_3=(1, 1)^{\top}$ and $W_Q=W_K=I$,
$W_V=\begin{pmatrix}2&0\\0&1\end{pmatrix}$. The scores, divided by $\sqrt{2}$, are
\[ S=\frac{QK^\top}{\sqrt{d_k}}\approx
\begin{pmatrix}0.71&0&0.71\\0&0.71&0.71\\0.71&0.71&1.41\end{pmatrix}. \]
\[ A\approx\begin{pmatrix}0.40&0.20&0.40\\0.20&0.40&0.40\\0.25&0.25&0.50\end{pmatrix} \]
\[ Z=AV\approx\begin{pmatrix}1.60&0.60\\1.20&0.80\\1.50&0.75\end{pmatrix}. \]""",
        ("1.20&", "1.50&", "mixed"),
    ),
    "trace-without-brackets": (
        """
h_t = tanh(W_h h_{t-1} + W_x x_t + b)
W_x = 0.5, W_h = 0.8, b = 0.1, h_0 = 0
inputs: 1.0, 2.0, -1.0

t=1: h_1 = tanh(0.5*1.0 + 0.8*0 + 0.1) = tanh(0.6) = 0.537
t=2: h_2 = tanh(0.5*2.0 + 0.8*0.537 + 0.1) = tanh(1.530) = 0.910
t=3: h_3 = tanh(0.5*(-1.0) + 0.8*0.910 + 0.1) = tanh(0.328) = 0.317""",
        ("0.317", "0.332", "h"),
    ),
    "states": (
        """
The encoder's states are h₁ = [1, 0], h₂ = [0, 1] and h₃ = [1, 1]. The decoder's is s = [2, 1].
Scores (dot product): e₁ = 2, e₂ = 1, e₃ = 3.
Softmax: α₁ = 0.245, α₂ = 0.090, α₃ = 0.665.
Context vector: c = 0.245·[1, 0] + 0.090·[0, 1] + 0.665·[1, 1] = [0.910, 0.755].""",
        ("0.755]", "0.795]", "mixed"),
    ),
    "decimal-commas-in-lists": (
        """
Q = [[1, 0], [1, 1]], K = [[1, 1], [0, 1]], V = [[10, 0], [0, 10]].
Les scores QKᵀ valent [[1, 0], [2, 1]]. On divise par √2 : [[0,71 ; 0], [1,41 ; 0,71]].
Avec le masque causal : [[0,71 ; −∞], [1,41 ; 0,71]].
Après le softmax : [[1 ; 0], [0,67 ; 0,33]].
La sortie est donc [[10 ; 0], [6,7 ; 3,3]].""",
        ("0,67 ; 0,33", "0,76 ; 0,24", "weights"),
    ),
    "scores-only": (
        """
The first score is q1 · k1 = 112, the second q1 · k2 = 96.
Divide by 8 (the square root of the dimension 64): 14 and 12.
Softmax: 0.88 and 0.12.""",
        ("0.88 and 0.12", "0.78 and 0.22", "weights"),
    ),
    "table-with-positions": (
        """
Sinusoidal encoding for d_model = 4:

| pos | i=0 (sin) | i=0 (cos) | i=1 (sin) | i=1 (cos) |
|---|---|---|---|---|
| 0 | 0 | 1 | 0 | 1 |
| 1 | 0.8415 | 0.5403 | 0.0100 | 0.9999 |
| 2 | 0.9093 | -0.4161 | 0.0200 | 0.9998 |""",
        ("-0.4161", "0.4161", "encoding"),
    ),
    "rows-in-a-line": (
        """
- token 1 ("the"): q = [1, 0], k = [1, 1], v = [1, 0]
- token 2 ("cat"): q = [0, 1], k = [0, 1], v = [0, 1]

Scores for token 1: [1, 0]
Scores for token 2: [1, 1]

After dividing by sqrt(2): [0.71, 0] and [0.71, 0.71]

Softmax: [0.67, 0.33] and [0.5, 0.5]

Outputs: [0.67, 0.33] and [0.5, 0.5]""",
        ("[0.71, 0] and [0.71, 0.71]", "[0.71, 0] and [0.71, 0.17]", "scaled"),
    ),
    "numbers-after-captions": (
        """
K = [[1, 1], [0, 1]], Q = [[1, 0], [1, 1]], V = [[1, 0], [0, 2]], without scaling

### Word 1

Scores: 1, 0
Softmax: 0.73, 0.27
Output: 0.73, 0.54

### Word 2

Scores: 2, 1
Softmax: 0.73, 0.27
Output: 0.73, 0.54.""",
        ("Scores: 2, 1", "Scores: 2, 2", "scores"),
    ),
    "embedded-words": (
        """
Each word is embedded in 4 dimensions:

| word | d1 | d2 | d3 | d4 |
|------|----|----|----|----|
| I    | 1  | 0  | 1  | 0  |
| love | 0  | 2  | 0  | 2  |

W_key = [[0, 0, 1], [1, 1, 0], [0, 1, 0], [1, 1, 0]]
W_query = [[1, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 1]]

Multiply to get keys

```
[0, 1, 1]
[4, 4, 0]
```""",
        ("[4, 4, 0]", "[4, 3, 0]", "K"),
    ),
}


@pytest.mark.parametrize("name", PAGES)
def test_page_is_read_and_its_changed_number_is_found(name: str) -> None:
    text, (old, new, step) = PAGES[name]
    assert text.count(old) == 1
    right = read_document(text.encode(), "page.md")
    assert [example.verdict for example in right.examples] == ["right"]
    assert right.unread == []
    (wrong,) = read_document(text.replace(old, new).encode(), "page.md").examples
    assert wrong.report is not None
    assert wrong.report.first is not None
    assert wrong.report.first.step == step


def test_gradient_is_not_read_as_its_variable() -> None:
    lines = (
        "z = [2.0, 1.0, 0.1]",
        "p = softmax(z) = [0.659, 0.242, 0.099]",
        "∂L/∂z = p - y = [-0.341, 0.242, 0.099]",
    )
    text = "\n\n".join(lines)
    document = read_document(text.encode(), "page.md")
    assert [example.verdict for example in document.examples] == ["right"]
    assert [unread.place for unread in document.unread] == [5]


OTHER_PAGES = {
    "kalman": "A Kalman filter, one step for our sensor:\n\n"
    "x = [0, 1], P = [[1, 0], [0, 1]], F = [[1, 1], [0, 1]], Q = [[0.1, 0], [0, 0.1]]\n\n"
    "K = P H^T S^{-1} = [[0.808, 0.1], [0.385, 0.2]]",
    "decomposition": "The singular value decomposition of a matrix\n\n"
    "A = [[3, 0], [4, 5]]\n\nU = [[0.316, -0.949], [0.949, 0.316]],"
    " S = [[6.708, 0], [0, 2.236]], V = [[0.707, -0.707], [0.707, 0.707]]",
    "statistics": "The data are x = [2, 4, 4, 4, 5, 5, 7, 9].\n\nmean = 5, variance = 4.571\n\n"
    "z = [-1.403, -0.468, -0.468, -0.468, 0, 0, 0.935, 1.871]",
    "components": "Principal components of three points are eigenvectors\n\n"
    "X = [[2, 0], [0, 1], [-2, -1]]\n\nV = [[0.957, -0.290], [0.290, 0.957]]\n\n"
    "Scores: Z = X V = [[1.914, -0.580], [0.290, 0.957], [-2.204, -0.377]]",
    "arrays": "A product of arrays in NumPy, step after step:\n\n"
    ">>> x = np.array([[1, 2], [3, 4]])\n>>> y = x.T\n>>> y\n"
    "array([[1, 3],\n       [2, 4]])\n"
    ">>> out = x @ y\n>>> out\narray([[ 5, 11],\n       [11, 25]])",
    "arrays-beside-attention": "Before we speak of attention: x = [1, 2, 3], y = [2, 4, 6.5]",
}


@pytest.mark.parametrize("name", OTHER_PAGES)
def test_other_pages_with_matrices_have_no_example(name: str) -> None:
    document = read_document(OTHER_PAGES[name].encode(), "page.md")
    assert document.examples == []
    assert document.num_judged == 0
