"""Diagnosis: every named mistake is found, and causes are ranked as the contract defines."""

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
StepFunction = Callable[[Env], Matrix]


def format_cells(matrix: Matrix) -> list[list[str]]:
    """Format numbers with three decimals; zero has no sign."""
    texts = [["-inf" if v == -np.inf else f"{v:.3f}" for v in row] for row in matrix]
    return [["0.000" if text == "-0.000" else text for text in row] for row in texts]


def softmax(x: Matrix) -> Matrix:
    top = x.max(1, keepdims=True)
    e = np.exp(x - np.where(np.isfinite(top), top, 0))
    total = e.sum(1, keepdims=True)
    return e / np.where(total == 0, 1, total)


# A convention that is not declared is not a mistake.
DECLARED = {"vectors": "rows", "scale": "sqrt(d_k)", "mask": "none", "normalizer": "softmax"}


def check_first(**fields: Any) -> dict[str, Any]:
    has_attention = fields.get("kind", "attention") in ("attention", "block")
    report = json.loads(Problem(**(DECLARED if has_attention else {}) | fields).check().to_json())
    first: dict[str, Any] = report["first"]
    return first


def cause_names(first: dict[str, Any]) -> list[str]:
    return [cause["name"] for cause in first["causes"]]


# -- the catalog -----------------------------------------------------------------------------------

RNG = np.random.default_rng(11)


def m(rows: int, columns: int) -> Matrix:
    return np.round(RNG.normal(size=(rows, columns)), 1)


class Sheet:
    """An attention problem solved in plain numpy; steps may have other functions."""

    def __init__(self, n: int, d: int, k: int, heads: int = 1, context: bool = False) -> None:
        self.given: Env = {"X": m(n, d), **{f"W_{name}": m(d, k) for name in "QKV"}}
        self.given["W_O"] = m(k, k)
        if context:
            self.given["context"] = m(n, d)
        self.k, self.heads, self.key_source = k, heads, "context" if context else "X"
        self.mask = np.tril(np.ones((n, n), dtype=bool))

    def step_functions(self) -> dict[str, StepFunction]:
        source, part = self.key_source, self.k // self.heads
        step_functions: dict[str, StepFunction] = {
            "Q": lambda e: e["X"] @ e["W_Q"],
            "K": lambda e: e[source] @ e["W_K"],
            "V": lambda e: e[source] @ e["W_V"],
        }
        ends = [f".{h + 1}" for h in range(self.heads)] if self.heads > 1 else [""]
        for h, end in enumerate(ends if self.heads > 1 else []):
            for name in "QKV":
                columns = slice(h * part, (h + 1) * part)
                step_functions[name + end] = lambda e, name=name, c=columns: e[name][:, c]
        for step, function in self.head_functions().items():
            for end in ends:
                step_functions[step + end] = lambda e, f=function, end=end: f(
                    lambda name: e[name + end]
                )
        if self.heads > 1:
            step_functions["mixed"] = lambda e: np.hstack([e[f"mixed{end}"] for end in ends])
        step_functions["output"] = lambda e: e["mixed"] @ e["W_O"]
        return step_functions

    def head_functions(self) -> dict[str, Callable[[Callable[[str], Matrix]], Matrix]]:
        root = np.sqrt(self.k // self.heads)
        return {
            "scores": lambda at: at("Q") @ at("K").T,
            "scaled": lambda at: at("scores") / root,
            "masked": lambda at: np.where(self.mask, at("scaled"), -np.inf),
            "weights": lambda at: softmax(at("masked")),
            "mixed": lambda at: at("weights") @ at("V"),
        }

    def solve(self, **wrong: StepFunction) -> Env:
        env, step_functions = dict(self.given), self.step_functions()
        for key, function in step_functions.items():
            env[key] = wrong.get(key, function)(env)
        return {key: env[key] for key in step_functions if key[0] not in "QKV" or "." not in key}

    def make_problem(
        self, env: Env, only: set[str] | None = None, columns: bool = False
    ) -> Problem:
        claim: dict[str, Any] = {}
        for key, matrix in env.items():
            if only is not None and key not in only:
                continue
            name, _, head = key.partition(".")
            table = claim.setdefault("head", {}).setdefault(head, {}) if head else claim
            table[name] = format_cells(matrix.T if columns else matrix)
        given = {k: v.T if columns else v for k, v in self.given.items()}
        settings = DECLARED | {"mask": "causal", "vectors": "columns" if columns else "rows"}
        return Problem(**given, **settings, heads=self.heads, claim=claim)


PLAIN, WIDE = Sheet(3, 3, 3), Sheet(3, 5, 4)
CROSS, HEADS = Sheet(3, 3, 3, context=True), Sheet(3, 4, 4, heads=2)
EYE = np.eye(3, dtype=bool)

# name: the sheet, the wrong step and its wrong function
CATALOG: dict[str, tuple[Sheet, str, StepFunction]] = {
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
@pytest.mark.parametrize("name", CATALOG)
def test_mistake_is_found_and_named(name: str, columns: bool) -> None:
    sheet, key, function = CATALOG[name]
    right, wrong = sheet.solve(), sheet.solve(**{key: function})
    first = sheet.make_problem(wrong, columns=columns).check().first
    assert first is not None
    assert first.key == key
    differs = np.array(format_cells(wrong[key])) != np.array(format_cells(right[key]))
    places = np.argwhere(differs.T if columns else differs).tolist()
    assert list(first.cell) == places[0]
    top = {cause.name: cause for cause in first.causes}
    assert name in top
    assert top[name].reproduced_share == f"{len(places)}/{len(places)}"
    assert len(top) <= 2  # not-scaled is also a copy of the step before


@pytest.mark.parametrize("name", CATALOG)
def test_mistake_in_unclaimed_step_is_named_in_later_step(name: str) -> None:
    sheet, key, function = CATALOG[name]
    wrong = sheet.solve(**{key: function})
    first = (
        sheet.make_problem(wrong, only={"output" if sheet is HEADS else LATER[key]}).check().first
    )
    assert first is not None
    assert name in [cause.name for cause in first.causes]


@pytest.mark.parametrize("sheet", [PLAIN, WIDE, CROSS, HEADS])
@pytest.mark.parametrize("columns", [False, True])
def test_correct_solution_has_no_causes(sheet: Sheet, columns: bool) -> None:
    report = sheet.make_problem(sheet.solve(), columns=columns).check()
    assert report.verdict == "right"
    assert report.first is None
    assert report.wrong_cells == []


@pytest.mark.parametrize("name", ["not-scaled", "mask-forgotten", "wrong-softmax-axis"])
def test_mistake_in_every_head_is_named_after_concatenation(name: str) -> None:
    step, function = {
        "not-scaled": ("scaled", lambda e, h: e[f"scores.{h}"]),
        "mask-forgotten": ("masked", lambda e, h: e[f"scaled.{h}"]),
        "wrong-softmax-axis": ("weights", lambda e, h: softmax(e[f"masked.{h}"].T).T),
    }[name]
    step_functions = {f"{step}.{h}": lambda e, h=h: function(e, h) for h in (1, 2)}
    wrong = HEADS.solve(**step_functions)
    for only in (None, {"mixed", "output"}, {"output"}):
        first = HEADS.make_problem(wrong, only=only).check().first
        assert first is not None
        assert name in [cause.name for cause in first.causes]


def test_values_not_projected_in_one_head() -> None:
    wrong = HEADS.solve(**{"mixed.2": lambda e: e["weights.2"] @ e["X"][:, 2:]})
    first = HEADS.make_problem(wrong).check().first
    assert first is not None
    assert (first.key, first.head) == ("mixed.2", 2)
    assert [cause.name for cause in first.causes] == ["values-not-projected"]


def test_catalog_equals_the_contract() -> None:
    contract = (ROOT / "docs" / "problem-format.md").read_text(encoding="utf-8")
    section = contract.partition("## Mistakes by name")[2].partition("\n## ")[0]
    known = set(re.findall(r"`([a-z_-]+-[a-z_-]+)`", section))
    assert known == {*CATALOG, *(name for _, name in ONE_CELL), "copied-from-another-step"}


def test_catalog_equals_the_mistakes_in_code() -> None:
    problems = [sheet.make_problem({}) for sheet in (PLAIN, WIDE, CROSS, HEADS)]
    known = {
        mistake.name for p in problems for mistake in list_mistakes(p, [s.key for s in p.steps])
    }
    assert known == set(CATALOG)


# -- one cell --------------------------------------------------------------------------------------


def check_corrupted_cell(text: str, i: int = 1, j: int = 1) -> dict[str, Any]:
    """Check `2.34 −1.5 0.4 | 12.7 4.68 0.3 | 5.1 −3.2 8.9` with one number replaced."""
    rows = [["2.34", "-1.50", "0.40"], ["12.70", "4.68", "0.30"], ["5.10", "-3.20", "8.90"]]
    x = [[float(cell) for cell in row] for row in rows]
    rows[i][j] = text
    return check_first(X=x, claim={"Q": rows})


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
    ("2.34", "arithmetic-slip"),  # diagonal cells do not count as adjacent
]


@pytest.mark.parametrize(("text", "name"), ONE_CELL)
def test_slip_in_one_cell(text: str, name: str) -> None:
    first = check_corrupted_cell(text)
    assert first["cell"] == [1, 1]
    assert cause_names(first) == [name]
    assert first["causes"][0]["reproduces"] == "1/1"


def test_several_signs_lost() -> None:
    claim = {"Q": [["-1.1", "2.3"], ["3.7", "-4.9"]]}
    first = check_first(X=[[1.1, -2.3], [3.7, 4.9]], claim=claim)
    assert first["causes"] == [
        {"name": "sign-lost", "reproduces": "3/3", "says": "−1.1 has the sign of 1.1 wrong"}
    ]


def test_wrong_neighbor_is_not_copied() -> None:
    first = check_first(X=[[1, 2, 3]], claim={"Q": [[9, 9, 3]]})
    assert cause_names(first) == ["arithmetic-slip"]
    assert first["causes"][0]["reproduces"] == "1/2"


def test_copied_from_another_step() -> None:
    given = {"X": [[1.2, -0.7], [0.4, 2.1]], "W_K": [[1, 2], [3, 5]], "scale": "none"}
    k = [["-0.9", "-1.1"], ["6.7", "11.3"]]
    v = [["1.2", "-0.7"], ["0.4", "2.1"]]
    one = {"K": k, "V": [[v[0][0], k[0][1]], v[1]]}
    assert cause_names(check_first(**given, claim=one)) == ["copied-from-another-step"]
    row = {"K": k, "V": [v[0], k[1]]}
    first = check_first(**given, claim=row)
    assert cause_names(first) == ["copied-from-another-step"]
    assert first["causes"][0]["reproduces"] == "2/2"
    assert first["causes"][0]["says"] == "this row is row 2 of K"
    first = check_first(**given, claim={"V": k, "K": k})  # the entire step
    assert first["causes"][0] == {
        "name": "copied-from-another-step",
        "reproduces": "4/4",
        "says": "these are the numbers of K",
    }
    later = {"Q": [["-0.9", "-0.7"], v[1]], "K": k}  # from a later step
    assert cause_names(check_first(**given, claim=later)) == ["copied-from-another-step"]


def test_cell_that_follows_from_a_slip_is_not_copied() -> None:
    slip = [["1.5", "7.3"], ["2.1", "4.4"]]
    claim = {"scores": slip, "scaled": slip, "masked": slip}
    x, w = [[1, 0], [0, 1]], [[1.5, 2.1], [2.2, 4.4]]  # scores = X (X W_K)ᵀ = W_Kᵀ
    first = check_first(X=x, W_K=w, scale="none", claim=claim)
    assert (first["cell"], cause_names(first)) == ([0, 1], ["arithmetic-slip"])


# -- ranking ---------------------------------------------------------------------------------------


def test_ties_are_all_listed() -> None:
    x, w = m(3, 4), m(4, 2)  # d_model 4, d_k 2: √4 = 2
    scores = x @ w @ (x @ w).T
    claim = {"scores": format_cells(scores), "scaled": format_cells(scores / 2)}
    first = check_first(X=x, W_Q=w, W_K=w, claim=claim)
    assert cause_names(first) == ["scaled-by-d_k", "scaled-by-sqrt-d_model"]
    forgotten = {**PLAIN.solve(output=lambda e: e["mixed"])}
    top = PLAIN.make_problem(forgotten).check().first
    assert top is not None
    assert [cause.name for cause in top.causes] == [
        "output-projection-forgotten",
        "copied-from-another-step",
    ]


def test_cause_must_explain_the_first_cell() -> None:
    wrong = PLAIN.solve(K=lambda e: e["X"] @ e["W_K"].T)
    k = format_cells(wrong["K"])
    k[0][0] = format_cells(PLAIN.solve()["V"])[0][0]  # one cell is a copy, eight are not
    claim = {"K": k, "V": format_cells(PLAIN.solve()["V"])}
    first = check_first(**PLAIN.given, claim=claim)
    assert cause_names(first) == ["copied-from-another-step"]  # the first cell is the copy
    assert first["causes"][0]["reproduces"].endswith("/9")


def test_mistake_of_step_must_agree_with_all_cells() -> None:
    scores = PLAIN.solve()["scores"]
    scaled = scores / np.sqrt(3)
    scaled[0, 0] = scores[0, 0]  # only one cell is not scaled
    claim = {"scores": format_cells(scores), "scaled": format_cells(scaled)}
    assert cause_names(check_first(**PLAIN.given, claim=claim)) == ["copied-from-another-step"]


def test_blank_cells_agree_with_every_mistake() -> None:
    first, second, _ = format_cells(PLAIN.solve()["scores"])
    claim = {"scaled": [[first[0], "?", first[2]], second, ["?", "?", "?"]]}
    assert cause_names(check_first(**PLAIN.given, claim=claim)) == ["not-scaled"]


def test_arithmetic_slip_states_correct_arithmetic() -> None:
    first = Problem.load(ROOT / "lectures" / "L2-self.toml").check().first
    assert first is not None
    assert [cause.description for cause in first.causes] == ["2·2 + 2·3 + 2·1 is 12, not 18"]
