"""Every mistake of the catalogue is named, and the ranking is the contract's."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workings import Problem
from workings.problems.mistakes import list_mistakes

ROOT = Path(__file__).parents[2]
Matrix = np.ndarray
Env = dict[str, Matrix]
Way = Callable[[Env], Matrix]


def written(matrix: Matrix) -> list[list[str]]:
    """Write numbers to three decimals, and nought without a sign."""
    texts = [["-inf" if v == -np.inf else f"{v:.3f}" for v in row] for row in matrix]
    return [["0.000" if text == "-0.000" else text for text in row] for row in texts]


def softmax(x: Matrix) -> Matrix:
    top = x.max(1, keepdims=True)
    e = np.exp(x - np.where(np.isfinite(top), top, 0))
    total = e.sum(1, keepdims=True)
    return e / np.where(total == 0, 1, total)


def first_of(**fields: Any) -> dict[str, Any]:
    report = json.loads(Problem(**fields).check().to_json())
    first: dict[str, Any] = report["first"]
    return first


def names(first: dict[str, Any]) -> list[str]:
    return [cause["name"] for cause in first["causes"]]


# -- the catalogue ---------------------------------------------------------------------------------

RNG = np.random.default_rng(11)


def m(rows: int, columns: int) -> Matrix:
    return np.round(RNG.normal(size=(rows, columns)), 1)


class Sheet:
    """An attention problem worked in plain numpy, some steps in another way."""

    def __init__(self, n: int, d: int, k: int, heads: int = 1, context: bool = False) -> None:
        self.given: Env = {"X": m(n, d), **{f"W_{name}": m(d, k) for name in "QKV"}}
        self.given["W_O"] = m(k, k)
        if context:
            self.given["context"] = m(n, d)
        self.k, self.heads, self.asked = k, heads, "context" if context else "X"
        self.mask = np.tril(np.ones((n, n), dtype=bool))

    def ways(self) -> dict[str, Way]:
        asked, part = self.asked, self.k // self.heads
        ways: dict[str, Way] = {
            "Q": lambda e: e["X"] @ e["W_Q"],
            "K": lambda e: e[asked] @ e["W_K"],
            "V": lambda e: e[asked] @ e["W_V"],
        }
        ends = [f".{h + 1}" for h in range(self.heads)] if self.heads > 1 else [""]
        for h, end in enumerate(ends if self.heads > 1 else []):
            for name in "QKV":
                columns = slice(h * part, (h + 1) * part)
                ways[name + end] = lambda e, name=name, c=columns: e[name][:, c]
        for step, way in self.head_ways().items():
            for end in ends:
                ways[step + end] = lambda e, way=way, end=end: way(lambda name: e[name + end])
        if self.heads > 1:
            ways["mixed"] = lambda e: np.hstack([e[f"mixed{end}"] for end in ends])
        ways["output"] = lambda e: e["mixed"] @ e["W_O"]
        return ways

    def head_ways(self) -> dict[str, Callable[[Callable[[str], Matrix]], Matrix]]:
        root = np.sqrt(self.k // self.heads)
        return {
            "scores": lambda at: at("Q") @ at("K").T,
            "scaled": lambda at: at("scores") / root,
            "masked": lambda at: np.where(self.mask, at("scaled"), -np.inf),
            "weights": lambda at: softmax(at("masked")),
            "mixed": lambda at: at("weights") @ at("V"),
        }

    def work(self, **wrong: Way) -> Env:
        env, ways = dict(self.given), self.ways()
        for key, way in ways.items():
            env[key] = wrong.get(key, way)(env)
        return {key: env[key] for key in ways if key[0] not in "QKV" or "." not in key}

    def problem(self, env: Env, only: set[str] | None = None, columns: bool = False) -> Problem:
        claim: dict[str, Any] = {}
        for key, matrix in env.items():
            if only is not None and key not in only:
                continue
            name, _, head = key.partition(".")
            table = claim.setdefault("head", {}).setdefault(head, {}) if head else claim
            table[name] = written(matrix.T if columns else matrix)
        given = {k: v.T if columns else v for k, v in self.given.items()}
        vectors = "columns" if columns else "rows"
        return Problem(**given, heads=self.heads, mask="causal", claim=claim, vectors=vectors)


PLAIN, WIDE = Sheet(3, 3, 3), Sheet(3, 5, 4)
CROSS, HEADS = Sheet(3, 3, 3, context=True), Sheet(3, 4, 4, heads=2)
EYE = np.eye(3, dtype=bool)

# name: the sheet, the step that is done wrong, and how
CATALOGUE: dict[str, tuple[Sheet, str, Way]] = {
    "weight-transposed": (PLAIN, "K", lambda e: e["X"] @ e["W_K"].T),
    "wrong-weight": (PLAIN, "Q", lambda e: e["X"] @ e["W_V"]),
    "not-projected": (CROSS, "V", lambda e: e["context"]),
    "context-mixed-up": (CROSS, "K", lambda e: e["X"] @ e["W_K"]),
    "keys-not-transposed": (PLAIN, "scores", lambda e: e["Q"] @ e["K"]),
    "queries-and-keys-swapped": (PLAIN, "scores", lambda e: e["K"] @ e["Q"].T),
    "not-scaled": (WIDE, "scaled", lambda e: e["scores"]),
    "scaled-by-d_k": (WIDE, "scaled", lambda e: e["scores"] / 4),
    "scaled-by-sqrt-d_model": (WIDE, "scaled", lambda e: e["scores"] / np.sqrt(5)),
    "multiplied-by-scale": (WIDE, "scaled", lambda e: e["scores"] * 2),
    "mask-forgotten": (PLAIN, "masked", lambda e: e["scaled"]),
    "mask-transposed": (
        PLAIN,
        "masked",
        lambda e: np.where(PLAIN.mask.T, e["scaled"], -np.inf),
    ),
    "mask-hides-self": (
        PLAIN,
        "masked",
        lambda e: np.where(PLAIN.mask & ~EYE, e["scaled"], -np.inf),
    ),
    "masked-with-zeros": (PLAIN, "masked", lambda e: np.where(PLAIN.mask, e["scaled"], 0.0)),
    "masked-after-softmax": (PLAIN, "weights", lambda e: softmax(e["scaled"]) * PLAIN.mask),
    "wrong-softmax-axis": (PLAIN, "weights", lambda e: softmax(e["masked"].T).T),
    "sigmoid-for-softmax": (PLAIN, "weights", lambda e: 1 / (1 + np.exp(-e["masked"]))),
    "sum-for-softmax": (
        PLAIN,
        "weights",
        lambda e: (
            (np.where(PLAIN.mask, e["scaled"], 0))
            / np.where(PLAIN.mask, e["scaled"], 0).sum(1, keepdims=True)
        ),
    ),
    "exp-not-normalised": (PLAIN, "weights", lambda e: np.exp(e["masked"])),
    "scaled-after-softmax": (
        PLAIN,
        "weights",
        lambda e: softmax(np.where(PLAIN.mask, e["scores"], -np.inf)) / np.sqrt(3),
    ),
    "weights-transposed": (PLAIN, "mixed", lambda e: e["weights"].T @ e["V"]),
    "keys-used-as-values": (PLAIN, "mixed", lambda e: e["weights"] @ e["K"]),
    "values-not-projected": (CROSS, "mixed", lambda e: e["weights"] @ e["context"]),
    "output-projection-forgotten": (PLAIN, "output", lambda e: e["mixed"]),
    "output-projection-transposed": (PLAIN, "output", lambda e: e["mixed"] @ e["W_O"].T),
    "heads-in-wrong-order": (
        HEADS,
        "mixed",
        lambda e: np.hstack([e["mixed.2"], e["mixed.1"]]),
    ),
}
LATER = {
    "Q": "scores",
    "K": "scores",
    "V": "mixed",
    "scores": "scaled",
    "scaled": "weights",
    "masked": "weights",
    "weights": "mixed",
    "mixed": "output",
    "output": "output",
}


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("name", CATALOGUE)
def test_every_mistake_is_found_and_named(name: str, columns: bool) -> None:
    sheet, key, way = CATALOGUE[name]
    right, wrong = sheet.work(), sheet.work(**{key: way})
    first = sheet.problem(wrong, columns=columns).check().first
    assert first is not None
    assert first.key == key
    differs = np.array(written(wrong[key])) != np.array(written(right[key]))
    places = np.argwhere(differs.T if columns else differs).tolist()
    assert list(first.cell) == places[0]
    top = {cause.name: cause for cause in first.causes}
    assert name in top
    assert top[name].reproduced_share == f"{len(places)}/{len(places)}"
    assert len(top) <= 2  # not-scaled is a copy of the step before, too


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_mistake_in_a_step_that_nobody_wrote_down_shows_in_the_next(name: str) -> None:
    sheet, key, way = CATALOGUE[name]
    wrong = sheet.work(**{key: way})
    first = sheet.problem(wrong, only={"output" if sheet is HEADS else LATER[key]}).check().first
    assert first is not None
    assert name in [cause.name for cause in first.causes]


@pytest.mark.parametrize("sheet", [PLAIN, WIDE, CROSS, HEADS])
@pytest.mark.parametrize("columns", [False, True])
def test_an_honest_solution_has_no_causes(sheet: Sheet, columns: bool) -> None:
    report = sheet.problem(sheet.work(), columns=columns).check()
    assert report.verdict == "right"
    assert report.first is None
    assert report.wrong_cells == []


@pytest.mark.parametrize("name", ["not-scaled", "mask-forgotten", "wrong-softmax-axis"])
def test_a_mistake_made_in_every_head_shows_where_they_meet(name: str) -> None:
    step, way = {
        "not-scaled": ("scaled", lambda e, h: e[f"scores.{h}"]),
        "mask-forgotten": ("masked", lambda e, h: e[f"scaled.{h}"]),
        "wrong-softmax-axis": ("weights", lambda e, h: softmax(e[f"masked.{h}"].T).T),
    }[name]
    ways = {f"{step}.{h}": lambda e, h=h: way(e, h) for h in (1, 2)}
    wrong = HEADS.work(**ways)
    for only in (None, {"mixed", "output"}, {"output"}):
        first = HEADS.problem(wrong, only=only).check().first
        assert first is not None
        assert name in [cause.name for cause in first.causes]


def test_values_not_projected_in_one_head() -> None:
    wrong = HEADS.work(**{"mixed.2": lambda e: e["weights.2"] @ e["X"][:, 2:]})
    first = HEADS.problem(wrong).check().first
    assert first is not None
    assert (first.key, first.head) == ("mixed.2", 2)
    assert [cause.name for cause in first.causes] == ["values-not-projected"]


def test_the_catalogue_is_the_contracts() -> None:
    contract = (ROOT / "docs" / "problem-format.md").read_text(encoding="utf-8")
    section = contract.partition("## Mistakes by name")[2].partition("\n## ")[0]
    known = set(re.findall(r"`([a-z_-]+-[a-z_-]+)`", section))
    assert known == {*CATALOGUE, *(name for _, name in ONE_CELL), "copied-from-another-step"}


def test_every_mistake_that_the_code_knows_is_in_the_catalogue() -> None:
    problems = [Sheet.problem(sheet, {}) for sheet in (PLAIN, WIDE, CROSS, HEADS)]
    made = {found.name for p in problems for found in list_mistakes(p, [s.key for s in p.steps])}
    assert made == set(CATALOGUE)


# -- one cell --------------------------------------------------------------------------------------


def spoiled(text: str, i: int = 1, j: int = 1) -> dict[str, Any]:
    """Claim `2.34 −1.5 0.4 | 12.7 4.68 0.3 | 5.1 −3.2 8.9` with one number spoiled."""
    rows = [["2.34", "-1.50", "0.40"], ["12.70", "4.68", "0.30"], ["5.10", "-3.20", "8.90"]]
    x = [[float(cell) for cell in row] for row in rows]
    rows[i][j] = text
    return first_of(X=x, claim={"Q": rows})


ONE_CELL = [
    ("-4.68", "sign-lost"),
    ("4.86", "digits-swapped"),
    ("6.48", "digits-swapped"),
    ("46.8", "decimal-point-moved"),
    ("0.468", "decimal-point-moved"),
    ("0.47", "decimal-point-moved"),
    ("468", "decimal-point-moved"),
    ("0.30", "copied-from-neighbour"),
    ("12.70", "copied-from-neighbour"),
    ("-1.50", "copied-from-neighbour"),
    ("-3.20", "copied-from-neighbour"),
    ("4.78", "arithmetic-slip"),
    ("2.34", "arithmetic-slip"),  # diagonally: no neighbour
]


@pytest.mark.parametrize(("text", "name"), ONE_CELL)
def test_one_cell(text: str, name: str) -> None:
    first = spoiled(text)
    assert first["cell"] == [1, 1]
    assert names(first) == [name]
    assert first["causes"][0]["reproduces"] == "1/1"


def test_several_numbers_may_lose_their_signs() -> None:
    claim = {"Q": [["-1.1", "2.3"], ["3.7", "-4.9"]]}
    first = first_of(X=[[1.1, -2.3], [3.7, 4.9]], claim=claim)
    assert first["causes"] == [
        {"name": "sign-lost", "reproduces": "3/3", "says": "−1.1 has the sign of 1.1 wrong"}
    ]


def test_a_neighbour_that_is_wrong_itself_was_not_copied() -> None:
    first = first_of(X=[[1, 2, 3]], claim={"Q": [[9, 9, 3]]})
    assert names(first) == ["arithmetic-slip"]
    assert first["causes"][0]["reproduces"] == "1/2"


def test_copied_from_another_step() -> None:
    given = {"X": [[1.2, -0.7], [0.4, 2.1]], "W_K": [[1, 2], [3, 5]], "scale": "none"}
    k = [["-0.9", "-1.1"], ["6.7", "11.3"]]
    v = [["1.2", "-0.7"], ["0.4", "2.1"]]
    one = {"K": k, "V": [[v[0][0], k[0][1]], v[1]]}
    assert names(first_of(**given, claim=one)) == ["copied-from-another-step"]
    row = {"K": k, "V": [v[0], k[1]]}
    first = first_of(**given, claim=row)
    assert names(first) == ["copied-from-another-step"]
    assert first["causes"][0]["reproduces"] == "2/2"
    assert first["causes"][0]["says"] == "this row is row 2 of K"
    first = first_of(**given, claim={"V": k, "K": k})  # the whole of it
    assert first["causes"][0] == {
        "name": "copied-from-another-step",
        "reproduces": "4/4",
        "says": "these are the numbers of K",
    }
    later = {"Q": [["-0.9", "-0.7"], v[1]], "K": k}  # from a step further down
    assert names(first_of(**given, claim=later)) == ["copied-from-another-step"]


def test_what_follows_from_a_slip_was_not_copied_from_there() -> None:
    slip = [["1.5", "7.3"], ["2.1", "4.4"]]
    claim = {"scores": slip, "scaled": slip, "masked": slip}
    x, w = [[1, 0], [0, 1]], [[1.5, 2.1], [2.2, 4.4]]  # scores = X (X W_K)ᵀ = W_Kᵀ
    first = first_of(X=x, W_K=w, scale="none", claim=claim)
    assert (first["cell"], names(first)) == ([0, 1], ["arithmetic-slip"])


# -- ranking ---------------------------------------------------------------------------------------


def test_ties_are_all_listed() -> None:
    x, w = m(3, 4), m(4, 2)  # d_model 4, d_k 2: √4 = 2
    scores = x @ w @ (x @ w).T
    claim = {"scores": written(scores), "scaled": written(scores / 2)}
    first = first_of(X=x, W_Q=w, W_K=w, claim=claim)
    assert names(first) == ["scaled-by-d_k", "scaled-by-sqrt-d_model"]
    forgotten = {**PLAIN.work(output=lambda e: e["mixed"])}
    top = PLAIN.problem(forgotten).check().first
    assert top is not None
    assert [cause.name for cause in top.causes] == [
        "output-projection-forgotten",
        "copied-from-another-step",
    ]


def test_the_mistake_that_explains_more_is_named() -> None:
    wrong = PLAIN.work(K=lambda e: e["X"] @ e["W_K"].T)
    k = written(wrong["K"])
    k[0][0] = written(PLAIN.work()["V"])[0][0]  # one cell is a copy; eight are not
    claim = {"K": k, "V": written(PLAIN.work()["V"])}
    first = first_of(**PLAIN.given, claim=claim)
    assert names(first) == ["copied-from-another-step"]  # the first cell is the copy
    assert first["causes"][0]["reproduces"].endswith("/9")


def test_a_whole_step_must_agree_with_its_other_cells() -> None:
    scores = PLAIN.work()["scores"]
    scaled = scores / np.sqrt(3)
    scaled[0, 0] = scores[0, 0]  # as if one cell had not been scaled
    claim = {"scores": written(scores), "scaled": written(scaled)}
    assert names(first_of(**PLAIN.given, claim=claim)) == ["copied-from-another-step"]


def test_blanks_are_no_objection() -> None:
    first, second, _ = written(PLAIN.work()["scores"])
    claim = {"scaled": [[first[0], "?", first[2]], second, ["?", "?", "?"]]}
    assert names(first_of(**PLAIN.given, claim=claim)) == ["not-scaled"]


def test_a_slip_says_what_the_numbers_come_to() -> None:
    first = Problem.load(ROOT / "lectures" / "L2-self.toml").check().first
    assert first is not None
    assert [cause.description for cause in first.causes] == ["2·2 + 2·3 + 2·1 is 12, not 18"]
