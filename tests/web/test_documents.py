"""A document beside its reading: matrices with names and verdicts, and a corrected name."""

import base64
import json

import pytest

from workings.web.problem_answers import answer

TEXT = (
    "# Attention\n\nQ = [[1, 0], [0, 2]], K = [[1, 1], [0, 1]], V = [[3, 0], [0, 3]]\n\n"
    "We do not scale.\n\nJ = [[1, 0], [2, 3]]\n\nThe picture is [[8, 8, 8]].\n"
)


def post(**body: object) -> tuple[int, dict]:
    result = answer("/api/document", json.dumps(body))
    return result.status, json.loads(result.body)


def list_matrices(view: dict) -> dict[int, dict]:
    parts = [part for line in view["lines"] for part in line["parts"]]
    return {part["index"]: part for part in parts if isinstance(part, dict)}


@pytest.mark.parametrize("is_base64", [False, True])
def test_every_matrix_has_its_place_and_name(is_base64: bool) -> None:
    content = base64.b64encode(TEXT.encode()).decode() if is_base64 else TEXT
    status, view = post(content=content, is_base64=is_base64, file="notes.md")
    assert status == 200
    matrices = list_matrices(view)
    assert [matrices[k]["name"] for k in range(3)] == ["Q", "K", "V"]
    assert matrices[4]["name"] == ""
    (example,) = view["examples"]
    assert example["place"] == "line 3"


def test_a_corrected_name_reads_the_document_again() -> None:
    status, view = post(content=TEXT, names={"3": "scores"})
    assert status == 200
    (example,) = view["examples"]
    assert example["verdict"] == "wrong"
    scores = list_matrices(view)[3]
    assert scores["name"] == "scores"
    assert scores["verdicts"] == [["right", "right"], ["right", "wrong first"]]
    assert example["table"]["claims"][0]["key"] == "scores"
    _, view = post(content=TEXT, names={"3": ""})
    assert list_matrices(view)[3]["name"] == ""
    assert all(example["verdict"] != "wrong" for example in view["examples"])


@pytest.mark.parametrize(
    "body", [{"content": "?", "is_base64": True}, {"content": "", "names": {"x": "Q"}}]
)
def test_damaged_requests_are_one_line(body: dict) -> None:
    status, error = post(**body)
    assert status == 422
    assert "\n" not in error["error"]


def test_a_matrix_inside_a_product_has_the_name_of_its_place() -> None:
    product = "Q = X W_Q = [[1, 0], [2, 1]] [[1, 0], [0, 2]] = [[1, 0], [2, 2]]"
    text = f"X = [[1, 0], [2, 1]], W_Q = [[1, 0], [0, 2]]\n\n{product}\n"
    _, view = post(content=text)
    factors = [m for m in list_matrices(view).values() if m["is_factor"]]
    assert [m["name"] for m in factors] == ["X", "W_Q"]
    assert all(matrix["name"] for matrix in list_matrices(view).values())


def test_two_readings_stand_side_by_side() -> None:
    text = "# Layer normalization\n\nX = [[4, 3, 1], [2, -1, 0], [4, -3, -1]]\n\n"
    _, view = post(content=text + "σ^2 = [[0.889], [6.222], [0.667]]\n")
    (example,) = view["examples"]
    columns, rows = example["readings"]
    assert (columns["verdict"], rows["verdict"]) == ("right", "wrong")
    assert "columns" in columns["read_as"]
    assert "rows" in rows["read_as"]
    assert example["summary"] == ["not judged: two readings differ in their verdicts"]
    _, view = post(content=TEXT)
    assert view["examples"][0]["readings"] == []
