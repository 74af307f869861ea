"""Lecture notes as extraction leaves them: lost separators, struck lines, sums as cells, garbage.

The notes themselves are read where they are; the texts here imitate their forms.
"""

# ruff: noqa: E501 - formulas as extraction leaves them

import os
from pathlib import Path

import pytest

from workings.problems.documents.reading import read_document

NOTES = Path(
    os.environ.get("WORKINGS_DATA", Path(__file__).parents[4] / "shared" / "data")
).with_name("lectures")
EXPECTED = {  # place, verdict, step and cell of the first wrong number
    "000": [
        (473, "wrong", "output", (0, 0)),
        (505, "wrong", "V", (1, 0)),
        (626, "wrong", "V", (1, 0)),
        (683, "wrong", "K", (0, 0)),
    ],
    "001": [],
    "002": [
        (9, "wrong", "scores", (1, 2)),
        (88, "not judged", None, None),
        (154, "right", None, None),
    ],
    "003": [
        (97, "right", None, None),
        (207, "wrong", "Q", (1, 0)),
        (288, "wrong", "encoding", (0, 1)),
    ],
    "004": [],
}

LOST_SEPARATORS = r"""
#### **Example 1**

$$W_Q = \begin{bmatrix} 0.3 & -0.4 \\ 0.2 & 0.6 \end{bmatrix}$$

$$W_Q = \begin{bmatrix} 0.3 & -0.4 \\ 0.2 & 0.6 \end{bmatrix} \qquad W_V = \begin{bmatrix} 0.7 & 0.2 \\ -0.1 & 0.5 \end{bmatrix}$$

$$W_K = \begin{bmatrix} -0.5 & 0.1 \\ 0.4 & 0.3 \end{bmatrix}$$

$$X = \begin{bmatrix} 0.5 & -0.2 \\ 0.1 & 0.4 \end{bmatrix}$$

$$Q = XW_Q = \begin{bmatrix} 0.5 & -0.2 \\ 0.1 & 0.4 \end{bmatrix} \begin{bmatrix} 0.3 & -0.4 \\ 0.2 & 0.6 \end{bmatrix}$$

$$= \begin{bmatrix} 0.11 - 0.32 \\ 0.11 & 0.20 \end{bmatrix}$$

$$K = XW_K = \begin{bmatrix} -0.33 & -0.01 \\ 0.11 & 0.13 \end{bmatrix} \quad \checkmark$$

$$V = XW_V = \begin{bmatrix} VALUE & 0.00 \\ 0.03 & 0.22 \end{bmatrix}$$

#### **\*** Example 1

approximately

$$A = \operatorname{softmax} \left( \frac{QK^T}{\sqrt{d}} \right) V$$

$$= \begin{bmatrix} 0.50 & 0.50 \\ 0.49 & 0.51 \end{bmatrix} \begin{bmatrix} VALUE & 0.00 \\ 0.03 & 0.22 \end{bmatrix}$$
"""

HANDWRITING = r"""
Step 1

Date _____

$$Q = XW^Q$$

$$\begin{bmatrix} 1 & 0 \\ 2 & 1 \end{bmatrix} \times \begin{bmatrix} 1 & 1 \\ 0 & 1 \end{bmatrix}$$

2×2 2×2

$$Q = \begin{bmatrix} 1 & 1 \\ 2 & 3 \end{bmatrix} \quad \checkmark$$

$$K = \begin{bmatrix} 1 & 0 \\ 2 & 1 \end{bmatrix} \times \begin{bmatrix} 1 & 0 \\ 1 & 1 \end{bmatrix}$$

$$K = \begin{bmatrix} 1 & 0 \\ 3 & 1 \end{bmatrix}$$

$$V = \begin{bmatrix} 0 & 2 \\ 1 & 5 \end{bmatrix}$$

Step 2

$$E = \begin{bmatrix} 1 & 4 \\ 2 & SCORE \end{bmatrix}$$

Step 3

$$A = \text{softmax}(E)$$

\Rightarrow ~~e^1, e^5~~

$$\left[\frac{e^1}{e^1 + e^4}, \frac{e^4}{e^1 + e^4} \right]$$

$$= [0.047, 0.953] \rightarrow \text{Input}_1$$

\therefore

$$A = \begin{bmatrix} 0.047 & 0.953 \\ 0.001 & 0.999 \end{bmatrix}$$
"""

COLUMNS = r"""
#### Calculation demo

- Each x is a column vector
- $x1 = [1, 2]^T$
- $x2 = [3, 1]^T$

• q1 = Wq\*x1 =
$$\begin{bmatrix} 2 & 1 \\ 0 & 3 \end{bmatrix} \begin{bmatrix} 1 \\ 2 \end{bmatrix} = \begin{bmatrix} 2*1+1*2 \\ 3*2 \end{bmatrix} = \begin{bmatrix} 4 \\ QUERY \end{bmatrix}$$

• k2 = Wk\*x2 =
$$\begin{bmatrix} 1 & 1 \\ 2 & 0 \end{bmatrix} \begin{bmatrix} 3 \\ 1 \end{bmatrix} = \begin{bmatrix} 4 \\ 6 \end{bmatrix}$$
"""

NO_NUMBERS = """
            self.rnn = nn.RNN(emb_dim, hidden_dim, num_layers = num_layers)
10
11
        def forward(self, x):
12
\tq1•k1\t-∞\t-∞\tN
\tq2•k1\tq2•k2\t-∞\t-8

What is the typical value of N? 4096 tokens
"""


@pytest.mark.skipif(not NOTES.exists(), reason=f"no lecture notes at {NOTES}")
@pytest.mark.parametrize("number", [*EXPECTED])
def test_notes(number: str) -> None:
    (path,) = NOTES.glob(f"{number}*.txt")
    actual = []
    for example in read_document(path.read_bytes(), path.name).examples:
        first = example.report.first if example.report is not None else None
        actual.append((example.place, example.verdict, first and first.step, first and first.cell))
    assert actual == EXPECTED[number]


@pytest.mark.parametrize(
    ("text", "placeholder", "right", "wrong", "step", "cell"),
    [
        (LOST_SEPARATORS, "VALUE", "0.37", "-0.37", "V", (0, 0)),
        (HANDWRITING, "SCORE", "9", "12", "scores", (1, 1)),
        (COLUMNS, "QUERY", "6", "8", "Q", (1, 0)),
    ],
)
def test_forms_of_notes(
    text: str, placeholder: str, right: str, wrong: str, step: str, cell: tuple[int, int]
) -> None:
    (example,) = read_document(text.replace(placeholder, right).encode(), "notes.txt").examples
    assert example.verdict == "right"
    (example,) = read_document(text.replace(placeholder, wrong).encode(), "notes.txt").examples
    assert example.report is not None
    assert example.report.first is not None
    assert (example.report.first.step, example.report.first.cell) == (step, cell)


def test_notes_without_numbers_hold_no_example() -> None:
    assert read_document(NO_NUMBERS.encode(), "notes.txt").examples == []
