"""Other ways to write a document, and pages on other subjects, which nothing may accuse."""

import pytest

from workings.problems.documents.reading import read_document

QKV = "Q = [[1, 0], [0, 2]], K = [[1, 1], [0, 1]], V = [[10, 0], [0, 10]]\n\n"
GRIDS = {"Q": "1 0 0 2", "K": "1 1 0 1", "V": "10 0 0 10", "QK^T": "1 0 2 VALUE"}


def write_tables(table: str) -> str:
    """Return Q, K, V and their scores, each as `table` says with its name and four numbers."""
    return "\n".join(table.format(name, *cells.split()) for name, cells in GRIDS.items())


ORG = "* Attention\n" + write_tables("#+NAME: {}\n| {} | {} |\n| {} | {} |\n")
ASCIIDOC = "== Attention\n" + write_tables(".{}\n|===\n|{} |{}\n|{} |{}\n|===\n")
DRAWN = write_tables("{}\n+---+---+\n| {} | {} |\n+---+---+\n| {} | {} |\n+---+---+\n")
TYPST = write_tables("$ {} = mat({}, {}; {}, {}) $")
MATHEMATICA = """In[1]:= Q = {{1, 0}, {0, 2}}; K = {{1, 1}, {0, 1}}; V = {{10, 0}, {0, 10}};
In[2]:= S = Q.Transpose[K]
Out[2]= {{1, 0}, {2, VALUE}}
In[3]:= A = softmax /@ (S/Sqrt[2.])
Out[3]= {{0.670, 0.330}, {0.500, 0.500}}
"""
MACROS = r"""\newcommand{\mat}[1]{\begin{bmatrix}#1\end{bmatrix}}
\begin{document}
""" + write_tables(r"\[ {} = \mat{{{} & {} \\ {} & {}}} \]").replace("VALUE", "VALUE ")
TENSORFLOW = """```pycon
>>> q, k, v = [[1, 0], [0, 2]], [[1, 1], [0, 1]], [[10, 0], [0, 10]]
>>> qk = tf.matmul(q, k, transpose_b=True)
>>> qk
<tf.Tensor: shape=(2, 2), dtype=float32, numpy=
array([[1., 0.],
       [2., VALUE.]], dtype=float32)>
```
"""
WORDS = """| | q | k | v |
|--|--|--|--|
| tea | [1, 0] | [1, 1] | [10, 0] |
| cup | [0, 2] | [0, 1] | [0, 10] |

QK^T = [[1, 0], [2, VALUE]]
"""
TEMPERATURE = (
    f"{QKV}At temperature T = 0.5: A = softmax(QK^T / T) = [[0.88, 0.12], [0.50, 0.VALUE0]]\n"
)
BY_TOKEN = f"""{QKV}## Token 1

Dividing by √2: (0.71, 0.00)

## Token 2

Dividing by √2: (1.41, VALUE)
"""
RMS = """# RMSNorm

x = [1, 5, 1, 3], so the mean of the squares is 9 and

rms = 3

x̂ = [0.333, 1.667, 0.333, VALUE]
"""
NOTATIONS = {
    "Org": ("notes.org", ORG, "2", "3", "scores"),
    "AsciiDoc": ("notes.adoc", ASCIIDOC, "2", "3", "scores"),
    "drawn tables": ("notes.txt", DRAWN, "2", "3", "scores"),
    "Typst": ("notes.typ", TYPST, "2", "3", "scores"),
    "Mathematica": ("session.txt", MATHEMATICA, "2", "3", "scores"),
    "macros": ("notes.tex", MACROS, "2", "3", "scores"),
    "TensorFlow": ("notes.md", TENSORFLOW, "2", "3", "scores"),
    "vectors by word": ("notes.md", WORDS, "2", "3", "scores"),
    "temperature": ("notes.md", TEMPERATURE, "5", "8", "weights"),
    "token by token": ("notes.md", BY_TOKEN, "1.41", "2.41", "scaled"),
    "RMSNorm": ("notes.md", RMS, "1.000", "1.400", "normalised"),
}


@pytest.mark.parametrize("notation", NOTATIONS)
def test_notation(notation: str) -> None:
    name, text, right, wrong, step = NOTATIONS[notation]
    for value, expected in ((right, ("right", None)), (wrong, ("wrong", step))):
        (example,) = read_document(text.replace("VALUE", value).encode(), name).examples
        first = example.report.first if example.report else None
        assert (example.verdict, first.step if first else None) == expected


NINE = "[[2, 0, 1], [0, 1, 1], [1, 2, 0]]"
THREE = f"Q = {NINE}, K = {NINE}, V = {NINE}\n\n"
OTHERS = {
    "cosines": THREE + "We use the cosine of the angle between query and key:\n\n"
    "S = [[1.000, 0.316, 0.400], [0.316, 1.000, 0.632], [0.400, 0.632, 1.000]]\n",
    "a feature map": QKV + "φ(x) = ReLU(x) + 1\n\nφ(Q) φ(K)ᵀ = [[6, 4], [8, 7]]\n",
    "principal components": "X = [[1, 0], [-1, 1], [0, -1], [0, 0]]\n\n"
    "V = [[0.707, 0.707], [0.707, -0.707]]\n\n"
    "Z = X V = [[0.707, 0.707], [0.000, -1.414], [-0.707, 0.707], [0, 0]]\n",
    "dropout": f"{QKV}A = softmax(QK^T/√2) = [[0.67, 0.33], [0.50, 0.50]]\n\n"
    "Dropout sets half of the weights to zero and doubles the others:\n\n"
    "[[1.34, 0.00], [0.00, 1.00]]\n\nAV = [[13.4, 0.0], [0.0, 10.0]]\n",
    "a variance on purpose": "# Normalization\n\nWe use the sample variance, dividing by n − 1.\n\n"
    "x = [2, 4, 4, 6, 9]\n\nmean = 5.0\n\nvariance = 7.00\n",
    "sines before cosines": "# Position encodings\n\nFor d_model = 4, sines come first:\n\n"
    "[[0.0000, 0.0000, 1.0000, 1.0000],\n [0.8415, 0.0100, 0.5403, 1.0000],\n"
    " [0.9093, 0.0200, -0.4161, 0.9998]]\n",
    "no scaling by a phrase": f"{QKV}Forget about the 1/sqrt(d).\n\n"
    "After softmax: [[0.73, 0.27], [0.50, 0.50]]\n",
    "an earlier x": "Check the inequality for x = (1, 2) and y = (3, -1). [4 pts]\n\n"
    f"{QKV}QK^T = [[1, 0], [2, 2]]\n",
}


@pytest.mark.parametrize("subject", OTHERS)
def test_no_false_accusation(subject: str) -> None:
    examples = read_document(OTHERS[subject].encode(), "notes.md").examples
    assert [example.verdict for example in examples if example.verdict == "wrong"] == []


def test_what_follows_a_withdrawn_number_is_not_accused() -> None:
    text = "$Q = [[1, 0], [0, 2]]$, $K = [[1, 1], [0, 1]]$, $V = [[10, 0], [0, 10]]$\n\n"
    text += "The picture:\n\n[[0.67, 0.33], [0.75, 0.25]]\n\n$AV = [[6.7, 3.3], [7.5, 2.5]]$\n"
    assert all(e.verdict != "wrong" for e in read_document(text.encode(), "notes.md").examples)


def test_a_macro_that_grows_without_end_stays_as_it_is() -> None:
    bomb = r"\newcommand{\a}{\a\a\a\a\a\a\a\a\a\a} \newcommand{\b}[1]{#1#1#1#1} $\a \b{\b{\b{x}}}$"
    assert read_document((bomb * 50).encode(), "notes.tex").examples == []


def test_an_input_after_another_kind_is_of_the_example_that_follows() -> None:
    text = "# Position codes\n\nd_model = 2\n\nPE(0) = [0.000, 1.000]\n\nPE(1) = [0.841, 0.540]\n\n"
    text += "# Two words\n\nX = [[1, 0], [0, 2]]\n\n## Steps\n\nW_V = [[1, 1], [0, 1]]\n\n"
    text += "V = X W_V = [[1, 1], [0, 2]]\n"
    examples = read_document(text.encode(), "notes.md").examples
    assert [(e.kind, e.verdict) for e in examples] == [
        ("positions", "right"),
        ("attention", "right"),
    ]


def test_a_heading_with_a_number_below_a_single_word_is_no_frame() -> None:
    source = read_document("完成。\nExample 2\n".encode(), "notes.md").source
    assert source is not None
    assert [line.level for line in source.lines if line.text == "Example 2"] == [4]
