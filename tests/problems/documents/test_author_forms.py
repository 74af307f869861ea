"""Small documents as authors write them; each form is one that was once misread."""

import json

import pytest

from workings.problems.documents.reading import read_document, read_problem
from workings.problems.documents.reports import ExampleReport

QKV = "Q = [[1, 0], [0, 2]], K = [[1, 1], [0, 1]], V = [[10, 0], [0, 10]]\n\n"
NO_SCALE = "We do not scale the scores.\n\n"


def read_examples(text: str, name: str = "notes.md") -> list[ExampleReport]:
    return read_document(text.encode(), name).examples


def describe(example: ExampleReport) -> tuple[str, str, str | None]:
    first = example.report.first if example.report else None
    return example.kind, example.verdict, first.step if first else None


def list_roles(example: ExampleReport) -> set[str]:
    return {entry.role for entry in example.entries}


def test_vectors_in_parentheses_with_decimal_commas() -> None:
    text = (
        "Anfragen q_1 = (1; 0), q_2 = (0; 2), Schlüssel k_1 = (1; 1), k_2 = (0; 1) und Werte "
        "v_1 = (1,5; 0), v_2 = (0; 1).\n\nOhne Skalierung.\n\n"
        "q_1·k_1 = 1, q_1·k_2 = 0\nq_2·k_1 = 2, q_2·k_2 = 2\n\n"
        "z_1 = (1,097; 0,269), z_2 = (0,75; 0,5)\n"
    )
    (example,) = read_examples(text, "blatt.txt")
    assert describe(example) == ("attention", "right", None)
    assert {"Q", "K", "V", "scores", "mixed"} <= list_roles(example)


def test_apostrophe_inside_a_word_is_no_prime() -> None:
    table = "<table><caption>Poids d'attention</caption><tr><td>0,5</td><td>0,5</td></tr>"
    text = f"<p>{QKV}</p><p>QK^T = [[1, 0], [2, 2]], sans facteur</p>{table}"
    text += "<tr><td>0,5</td><td>0,5</td></tr></table>"
    (example,) = read_examples(text, "cours.html")
    assert describe(example) == ("attention", "wrong", "weights")


def test_letters_of_prose_beside_mathml_are_no_factors() -> None:
    rows = "<mtr><mtd>1</mtd><mtd>0</mtd></mtr><mtr><mtd>0</mtd><mtd>2</mtd></mtr>"
    grid = f"<mo>(</mo><mtable>{rows}</mtable><mo>)</mo>"
    math = "".join(
        f"{word} <math><mi>{name}</mi><mo>=</mo>{grid}</math>"
        for word, name in (("Sean", "Q"), (",", "K"), ("y", "V"))
    )
    product = "<math><mi>Q</mi><msup><mi>K</mi><mi>T</mi></msup><mo>=</mo>"
    text = f"<p>{math}.</p><p>{product}{grid.replace('>2<', '>4<')}</math></p>"
    (example,) = read_examples(text, "pagina.html")
    assert describe(example) == ("attention", "right", None)


def test_softmax_in_a_sentence_names_the_weights_not_the_masked_scores() -> None:
    text = f"{QKV}{NO_SCALE}With a causal mask.\n\n"
    text += "softmax of the masked scores: [[1.00, 0.00], [0.50, 0.50]]\n"
    (example,) = read_examples(text)
    assert describe(example) == ("attention", "right", None)
    assert "weights" in list_roles(example)


def test_first_column_of_positions_is_no_encoding() -> None:
    text = (
        "# Position encodings\n\nd_model = 4\n\n| pos | sin | cos | sin | cos |\n|--|--|--|--|--|\n"
    )
    text += "| 0 | 0 | 1 | 0 | 1 |\n| 1 | 0.8415 | 0.5403 | 0.0100 | 1.0000 |\n"
    (example,) = read_examples(text)
    assert describe(example) == ("positions", "right", None)


def test_frames_with_words_as_index_and_scores_divided_in_code() -> None:
    def frame(name: str, rows: tuple[tuple[float, float], ...]) -> dict:
        lines = [
            "         0    1",
            *(f"{w}  {a:5}{b:5}" for w, (a, b) in zip(("tea", "cup"), rows, strict=True)),
        ]
        data = {"text/plain": "\n".join(lines)}
        outputs = [{"output_type": "execute_result", "data": data}]
        return {"cell_type": "code", "source": name, "outputs": outputs}

    cells = [
        frame("Q", ((1, 0), (0, 2))),
        frame("K", ((1, 1), (0, 1))),
        frame("V", ((10, 0), (0, 10))),
        frame("scores = Q @ K.T / np.sqrt(2)\nscores", ((0.71, 0.0), (1.41, 1.41))),
    ]
    (example,) = read_examples(json.dumps({"nbformat": 4, "cells": cells}), "frames.ipynb")
    assert describe(example) == ("attention", "right", None)
    assert {"Q", "K", "V", "scaled"} <= list_roles(example)


def test_octave_session() -> None:
    text = (
        "Q =\n\n   1   0\n   0   2\n\nK =\n\n   1   1\n   0   1\n\nV =\n\n   3   0\n   0   3\n\n"
        ">> S = Q*K'/sqrt(2)\n\nS =\n\n   0.7071   0.0000\n   1.4142   1.4142\n"
    )
    (example,) = read_examples(text, "session.txt")
    assert describe(example) == ("attention", "right", None)
    assert "scaled" in list_roles(example)


def test_numbers_of_other_subjects_are_no_example() -> None:
    text = (
        "# Week 3\n\nThe rotation is R = [[0, -1], [1, 0]].\n\n```python\n"
        "weights = [0.1, 0.2, 0.7]\n```\n\nA = [[2, 1], [1, 2]] has the eigenvalues 1 and 3.\n"
    )
    assert read_examples(text) == []


def test_name_on_the_line_above_a_matrix() -> None:
    grids = "Q\n\n[[1, 0], [0, 2]]\n\nK\n\n[[1, 1], [0, 1]]\n\nV\n\n[[3, 0], [0, 3]]\n\n"
    (example,) = read_examples(f"{grids}QK^T\n\n[[1, 0], [2, 3]]\n")
    assert describe(example) == ("attention", "wrong", "scores")


@pytest.mark.parametrize("last", ["O", "Y"])
def test_letter_o_is_the_output_only_if_no_other_is(last: str) -> None:
    text = f"{QKV}{NO_SCALE}A = [[0.73, 0.27], [0.50, 0.50]]\n\n"
    text += "O = [[7.3, 2.7], [5, 5]]\n\n" if last == "Y" else ""
    text += f"W_O = [[1, 1], [0, 1]]\n\n{last} = [[7.3, 10.0], [5, 10]]\n"
    (example,) = read_examples(text)
    assert describe(example) == ("attention", "right", None)
    assert {"output", *({"mixed"} if last == "Y" else ())} <= list_roles(example)


def test_marked_letters_of_scores() -> None:
    text = f"{QKV}Divided by √2.\n\nE = [[1, 0], [2, 2]]\n\nE_s = [[0.71, 0.00], [1.41, 1.51]]\n\n"
    (example,) = read_examples(text)
    assert describe(example) == ("attention", "wrong", "scaled")


def test_matrix_without_a_name_follows_from_a_mistake() -> None:
    text = f"{QKV}{NO_SCALE}A = [[0.27, 0.73], [0.50, 0.50]]\n\nJ = [[2.7, 7.3], [5.0, 5.0]]\n"
    (example,) = read_examples(text)
    assert describe(example) == ("attention", "wrong", "weights")
    assert "mixed" in list_roles(example)


NORM = "# Layer normalization\n\nX = [[4, 3, 1], [2, -1, 0], [4, -3, -1]]\n\n"


def test_two_readings_that_differ_are_both_told() -> None:
    text = NORM + "σ^2 = [[0.889], [6.222], [0.667]]\n\n"  # of the columns
    (example,) = read_examples(text)
    data = example.to_dict()
    assert (example.verdict, data["verdict"]) == ("not judged", "not judged")
    assert {reading["verdict"] for reading in data["readings"]} == {"right", "wrong"}
    assert "columns" in example.summarize()
    assert "normalized-over-batch" in example.summarize()


def test_a_declared_convention_leaves_no_second_reading() -> None:
    text = NORM + "One row per token: vectors are rows.\n\nσ^2 = [[0.889], [6.222], [0.667]]\n\n"
    (example,) = read_examples(text)
    assert describe(example) == ("layer_norm", "wrong", "variance")


def test_a_table_with_counted_columns_and_words_beside_its_rows() -> None:
    def table(name: str, rows: tuple[str, str]) -> str:
        lines = [f"| **{word}** | {row} |" for word, row in zip(("tea", "cup"), rows, strict=True)]
        return f"{name}:\n\n|  | 1 | 2 |\n|---|---|---|\n" + "\n".join(lines) + "\n\n"

    text = table("Q", ("1 | 0", "0 | 2")) + table("K", ("1 | 1", "0 | 1"))
    text += table("V", ("3 | 0", "0 | 3")) + table("QK^T", ("1 | 0", "2 | 2"))
    (example,) = read_examples(text)
    assert describe(example) == ("attention", "right", None)


def test_a_weighted_sum_of_values_is_the_mixture() -> None:
    text = (
        "q = [1, 2], k_1 = [1, 1], k_2 = [0, 1], v_1 = [1, 0], v_2 = [0, 1]\n\n"
        "q.k_1 = 3, q.k_2 = 2\n\nWithout scaling the weights are [0.73, 0.27].\n\n"
        "We end with 0.73*[1, 0] + 0.27*[0, 1] = [0.73, {}]\n"
    )
    for number, verdict in (("0.27", "right"), ("0.72", "wrong")):
        (example,) = read_examples(text.format(number))
        assert (example.verdict, "mixed" in list_roles(example)) == (verdict, True)


@pytest.mark.parametrize(("number", "verdict"), [("9", "right"), ("11", "wrong")])
def test_a_bare_dot_product_of_two_vectors(number: str, verdict: str) -> None:
    text = (
        "# Similarity\n\n- Word vec1: [1, 3, 2]<sup>T</sup> Word vec2: [4, 1, 1]<sup>T</sup>\n"
        f"- Dot-product = 1\\*4 + 3\\*1 + 2\\*1 = {number}\n\n# Next\n\nX = [[1, 0], [0, 1]], "
        "W_Q = [[1, 0], [0, 1]]\n\nQ = X W_Q = [[1, 0], [0, 1]]\n"
    )
    first, second = read_examples(text)
    assert (first.verdict, second.verdict) == (verdict, "right")


def test_text_after_a_matrix_is_no_name_of_the_next_one() -> None:
    # A handwritten × that the extraction set as X, between the factors of a product.
    text = (
        "X = [[1, 0], [0, 2]], W_V = [[1, 1], [0, 1]]\n\nV = X W_V = [[1, 1], [0, 2]]\n\n"
        "A = softmax(XX^T) = [[0.73, 0.27], [0.02, 0.98]]\n\nOutput = A × V\n\n"
        "Output = [[0.73, 0.27], [0.02, 0.98]] X\n\n[[1, 1], [0, 2]]\n\n"
        "Output = [[0.73, 1.27], [0.02, 1.98]]\n"
    )
    (example,) = read_examples(text)
    assert describe(example) == ("attention", "right", None)


def test_steps_after_a_projection_without_numbers_are_not_judged_wrong() -> None:
    text = (
        "X = [[1, 0], [0, 2]]\n\nWe project: Q = X W_Q, K = X W_K and V = X W_V.\n\n"
        "A = softmax(QK^T/√2) = [[0.5, 0.5], [0.1, 0.9]]\n"
    )
    assert all(example.verdict == "not judged" for example in read_examples(text))


X = "X = [[1, 0], [0, 2]]\n"


def test_matrices_inside_a_softmax() -> None:
    chain = (
        "$$A = softmax(QK^T/√d) V = softmax([[0.7, 0], [0, 2.8]]) [[1, 0], [0, 2]]$$ "
        "$$= [[0.7, 0.3], [0.1, 0.9]] [[1, 0], [0, 2]] = [[0.7, 0.6], [0.1, 1.8]]$$"
    )
    keys = {claim.key for claim in read_problem(X + chain).claims}
    assert {"scaled", "weights", "mixed"} <= keys
    mask = r"\begin{bmatrix} 0 & -\infty \\ 0 & 0 \end{bmatrix}"
    problem = read_problem(
        f"{X}$$A = B = softmax([[0.7, 0], [0, 2.8]] + {mask}) [[1, 0], [0, 2]]$$"
    )
    assert problem.setting.mask is not None or problem.setting.causal
    assert "scaled" in {claim.key for claim in problem.claims}


def test_interactive_session_with_prompts() -> None:
    problem = read_problem(
        ">>> X = np.array([[1, 0],\n...               [0, 2]])\n>>> Q = X @ W_Q\n>>> Q\n"
        "array([[1., 0.],\n       [0., 2.]])\nIn [7]: print(scores)\n[[1. 0.]\n [0. 4.]]\n"
        "In [8]: A\n\nOut[8]: tensor([[0.6, 0.4],\n        [0.1, 0.9]])\n"
    )
    assert [claim.key for claim in problem.claims] == ["scores", "weights"]
    assert problem.unjudged == {"Q": "W_Q is not given"}


def test_what_depends_on_an_ignored_weight_is_not_judged() -> None:
    text = X + "W_V^1 = [[1, 1], [0, 1]]\nscores = [[1, 0], [0, 4]]\nZ = [[9, 9], [9, 9]]\n"
    (example,) = read_document(text.encode(), "n.md", ignore=["W_V^1"]).examples
    assert example.verdict == "right"
    assert "mixed is not judged" in example.summarize()


def test_softmax_of_scores_that_are_nowhere_printed_is_not_judged() -> None:
    weights = "A = softmax(S) = [[0.60, 0.40], [0.30, 0.70]]\n\nZ = A X = [[0.6, 0.8], [0.3, 1.4]]"
    (example,) = read_examples(f"X = [[1, 0], [0, 2]]\n\nThe scores are S.\n\n{weights}\n")
    assert example.verdict == "not judged"
    assert "S is not printed" in example.summarize()
    (example,) = read_examples(f"X = [[1, 0], [0, 2]]\n\nS = X X^T\n\n{weights}\n")
    assert describe(example) == ("attention", "wrong", "weights")


def test_prints_of_r() -> None:
    text = "```r\n> print(W_V)\n     [,1] [,2]\n[1,]  0.5    1\n[2,]   -2    3\n```\n"
    document = read_document(f"X = [[1, 2]]\n\n{text}\n\nV = [[-3.5, 7]]\n".encode(), "notes.md")
    assert [grid.rows for grid in document.source.grids][-1] == [["0.5", "1"], ["-2", "3"]]
    assert "W_V" in list_roles(document.examples[0])


def test_name_in_dollars_before_a_table_and_rows_in_parentheses() -> None:
    text = (
        "Gegeben ist $X$:\n\n| | |\n|---|---|\n| 0 | 0,5 |\n| 1 | -1,5 |\n\n"
        "Gegeben ist **W_V** = [(2; 0); (0; 2)].\n\n"
        "Daraus ergibt sich $V = X W_V$:\n\n| | |\n|---|---|\n| 0 | 1 |\n| 2 | -3 |\n"
    )
    (example,) = read_examples(text)
    assert example.verdict == "right"
    assert {"X", "W_V", "V"} <= list_roles(example)


def test_frame_of_a_notebook_has_the_name_of_its_variable() -> None:
    def print_frame(name: str, lines: str) -> dict[str, object]:
        output = {"output_type": "execute_result", "data": {"text/plain": lines}}
        source = f"pd.DataFrame({name}, index=tokens).round(2)"
        return {"cell_type": "code", "source": source, "outputs": [output]}

    cells = [
        print_frame("X", "      0  1\nich   1  2\nmag   0  1"),
        print_frame("W_V", "   0  1\n0  1  0\n1  0  2"),
        print_frame("V", "      0  1\nich   1  4\nmag   0  3"),
    ]
    (example,) = read_examples(json.dumps({"nbformat": 4, "cells": cells}), "book.ipynb")
    assert describe(example) == ("attention", "wrong", "V")


def test_a_step_that_cannot_be_read_is_no_clean_bill() -> None:
    text = f"{QKV}{NO_SCALE}S = [[1, 0], [2, 2]]\n\nA = softmax(S) = [[0.7, 0.3], [0.5, x.y]]\n"
    (example,) = read_examples(text)
    assert example.verdict == "not judged"
    assert "weights could not be read" in example.why


@pytest.mark.parametrize(
    ("frame", "rows"),
    [
        ("        0       1\n0  0.0000  1.0000\n1  0.8415  0.5403",
         [["0.0000", "1.0000"], ["0.8415", "0.5403"]]),
        ("   0  1\n0  2  3", [["2", "3"]]),
        ("   0\n0  2\n1  3", [["2"], ["3"]]),
    ],
)  # fmt: skip
def test_counted_rows_and_columns_of_a_frame_are_no_numbers(
    frame: str, rows: list[list[str]]
) -> None:
    document = read_document(f"# Encoding\n\nPE =\n{frame}\n".encode(), "notes.txt")
    assert [grid.rows for grid in document.source.grids] == [rows]
