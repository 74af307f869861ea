"""Diagnosis: every named mistake is found, and causes are ranked as the contract defines."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples.catalog import FORWARD_EXAMPLES
from examples.numpy_problems import KINDS, PLANTERS, Style, make_problem, solve
from workings import Problem
from workings.problems.mistakes import list_mistakes

ROOT = Path(__file__).parents[2]
PLANTED = {name for _, name in PLANTERS} | {
    name for _, names in FORWARD_EXAMPLES.values() for name in names
}
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
    known = set(re.findall(r"`([a-z_0-9-]+)`", section))
    slips = {*(name for _, name in ONE_CELL), "arithmetic-slip", "copied-from-another-step"}
    assert known == {*CATALOG, *PLANTED, *slips}


def test_catalog_equals_the_mistakes_in_code() -> None:
    problems = [sheet.make_problem({}) for sheet in (PLAIN, WIDE, CROSS, HEADS)]
    rng = np.random.default_rng(1)
    problems += [make_problem(make_example(rng), {}) for make_example in KINDS.values()]
    problems += [
        make_problem(make(rng), {}) for make, _ in FORWARD_EXAMPLES.values() for _ in range(8)
    ]
    known = {
        mistake.name for p in problems for mistake in list_mistakes(p, [s.key for s in p.steps])
    }
    assert known == {*CATALOG, *PLANTED}


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
    ("4.78", "arithmetic-slip"),  # one wrong digit
    ("4.91", "unknown"),
    ("2.34", "unknown"),  # diagonal cells do not count as adjacent
]


@pytest.mark.parametrize(("text", "name"), ONE_CELL)
def test_slip_in_one_cell(text: str, name: str) -> None:
    first = check_corrupted_cell(text)
    assert first["cell"] == [1, 1]
    assert cause_names(first) == [name]
    assert first["causes"][0]["reproduces"] == ("0/1" if name == "unknown" else "1/1")


def test_several_signs_lost() -> None:
    claim = {"Q": [["-1.1", "2.3"], ["3.7", "-4.9"]]}
    first = check_first(X=[[1.1, -2.3], [3.7, 4.9]], claim=claim)
    assert first["causes"] == [
        {"name": "sign-lost", "reproduces": "3/3", "says": "−1.1 has the sign of 1.1 wrong"}
    ]


def test_wrong_neighbor_is_not_copied() -> None:
    first = check_first(X=[[1, 2, 3]], claim={"Q": [[9, 9, 3]]})
    assert cause_names(first) == ["unknown"]
    assert first["causes"][0]["reproduces"] == "0/2"
    assert first["causes"][0]["says"] == "no known mistake explains this: it is 1, not 9"


def test_small_numbers_are_not_copied_by_chance() -> None:
    x = [[0, 1, 2], [1, 1, 0], [2, 0, 1]]  # also Q, K and V
    for i, j in np.ndindex(3, 3):
        for number in {0, 1, 2} - {x[i][j]}:
            q = [list(row) for row in x]
            q[i][j] = number
            k = [[1, 2, 0], [0, 2, 1], [1, 1, 2]]
            names = cause_names(check_first(X=x, K=k, V=x, claim={"Q": q, "scores": k}))
            assert not {"copied-from-neighbour", "copied-from-another-step"} & set(names)


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


def test_wrong_later_and_equal_steps_are_not_copied() -> None:
    given = {"X": [[1.24, -0.73], [0.41, 2.16]], "W_K": [[1, 2], [3, 5]], "scale": "none"}
    v = [["1.24", "-0.73"], ["0.41", "2.16"]]
    k = [["-0.95", "-1.17"], ["6.89", "11.62"]]
    later = {"Q": [["-0.95", "-0.73"], v[1]], "K": k}  # one number of a later step
    assert cause_names(check_first(**given, claim=later)) == ["unknown"]
    misprint = {"Q": [k[0], v[1]], "K": k}  # a row of a later step that is right
    assert cause_names(check_first(**given, claim=misprint)) == ["copied-from-another-step"]
    wrong = [["5.55", "7.77"], ["9.12", "3.33"]]
    circular = Problem(**given, claim={"K": wrong, "scores": wrong}).check().wrong_cells
    assert [[c.name for c in cell.causes] for cell in circular] == [["unknown"], ["unknown"]]
    equal = [["5.55", "-0.73"], v[1]]  # Q and V are both X
    assert cause_names(check_first(**given, claim={"Q": v, "V": equal})) == ["unknown"]


def test_cell_that_follows_from_a_slip_is_not_copied() -> None:
    slip = [["1.5", "7.3"], ["2.1", "4.4"]]
    claim = {"scores": slip, "scaled": slip, "masked": slip}
    x, w = [[1, 0], [0, 1]], [[1.5, 2.1], [2.2, 4.4]]  # scores = X (X W_K)ᵀ = W_Kᵀ
    first = check_first(X=x, W_K=w, scale="none", claim=claim)
    assert (first["cell"], cause_names(first)) == ([0, 1], ["unknown"])


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


@pytest.mark.parametrize("columns", [False, True])
def test_slips_on_top_of_a_mistake(columns: bool) -> None:
    wrong = PLAIN.solve(K=lambda e: e["X"] @ e["W_K"].T)
    wrong["K"][0, 0] += 7.7  # the first wrong cell is not explained
    wrong["K"][1, 2] -= 3.3
    first = PLAIN.make_problem(wrong, only={"K"}, columns=columns).check().first
    assert first is not None
    (cause,) = first.causes
    assert (cause.name, cause.reproduced_share) == ("weight-transposed", "7/9")
    assert cause.unexplained_cells == ((0, 0), (2, 1) if columns else (1, 2))
    place = "row 3, column 2" if columns else "row 2, column 3"
    slips = f"in 7 of 9 cells, and two more slips at row 1, column 1 and at {place}"
    assert cause.description.endswith(slips)
    (data,) = first.to_dict()["causes"]
    assert data["unexplained"] == [[0, 0], [2, 1] if columns else [1, 2]]
    wrong["K"][2, 0] += 1.1  # three slips are no slips
    first = PLAIN.make_problem(wrong, only={"K"}, columns=columns).check().first
    assert first is not None
    assert [cause.name for cause in first.causes] == ["unknown"]


def test_two_mistakes_in_one_step() -> None:
    rng = np.random.default_rng(2)
    example = KINDS["rnn"](rng)

    def wrong_sum(e: Env) -> Matrix:
        return e["X"][[0]] @ e["W_xh"].T + e["h0"] @ e["W_hh"]

    texts = solve(example, Style(3, True), {"sum.1": wrong_sum})
    report = make_problem(example, texts).check()
    first = report.first
    assert first is not None
    assert [(c.name, c.partner) for c in first.causes] == [
        ("weight-transposed", "bias-forgotten"),
        ("bias-forgotten", "weight-transposed"),
    ]
    assert [c["with"] for c in first.to_dict()["causes"]] == ["bias-forgotten", "weight-transposed"]
    assert "weight-transposed and bias-forgotten\n" in report.summarize()


def test_two_mistakes_in_a_step_and_an_unclaimed_one_before_it() -> None:
    wrong = PLAIN.solve(scaled=lambda e: e["scores"], weights=lambda e: softmax(e["masked"].T).T)
    only = {"Q", "K", "scores", "weights"}
    first = PLAIN.make_problem(wrong, only=only).check().first
    assert first is not None
    assert {cause.name for cause in first.causes} == {"not-scaled", "wrong-softmax-axis"}


def test_every_wrong_step_has_its_cause() -> None:
    wrong = WIDE.solve(K=lambda e: e["X"] @ e["W_V"], scaled=lambda e: e["scores"] / 4)
    report = WIDE.make_problem(wrong).check()
    names = [[cause.name for cause in cell.causes] for cell in report.wrong_cells]
    assert names[0][0] == "wrong-weight"
    assert names[1] == ["scaled-by-d_k"]
    mistakes = json.loads(report.to_json())["mistakes"]
    assert [mistake["step"] for mistake in mistakes] == ["K", "scaled"]
    second = report.summarize().splitlines()[1]
    assert second.startswith("  second mistake: scaled, row 1, column 1: ")
    assert second.endswith(": scaled-by-d_k, 9 of 9")


def test_wide_ranges_do_not_make_a_cause() -> None:
    # 0.7, 0.8 and 0.9 by their sum are 0.29, 0.33 and 0.38: 0.25 and 0.42 are hardly nearer to
    # them than to the softmax, even if the scores are rounded.
    claim = {"weights": [["0.25", "0.33", "0.42"]]}
    for k in ([[0.7], [0.8], [0.9]], [[0.71], [0.8], [0.89]]):
        for scores in ({}, {"scores": [["0.7", "0.8", "0.9"]]}):
            given = {"Q": [[1]], "K": k, "V": [[1], [2], [3]], "scale": "none"}
            report = Problem(**given, normalizer="softmax", claim={**scores, **claim}).check()
            names = [cause.name for cell in report.wrong_cells for cause in cell.causes]
            assert set(names) <= {"unknown"}


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


TERM_SLIPS = [
    ("11", "2·3 taken as 5"),
    ("14", "2·2 taken as 6"),
    ("15", "2·3 taken as 9"),
    ("10", "2·2 taken as 2"),
    ("0", "2·3 taken as −6"),
    ("6", "2·3 left out"),
    ("18", "2·3 counted twice"),
]


@pytest.mark.parametrize(("text", "slip"), TERM_SLIPS)
def test_arithmetic_slip_writes_out_the_wrong_term(text: str, slip: str) -> None:
    first = check_first(Q=[[2, 2, 2]], K=[[2, 3, 1]], V=[[1]], claim={"scores": [[text]]})
    assert cause_names(first) == ["arithmetic-slip"]
    assert first["causes"][0]["says"] == f"{slip}: 2·2 + 2·3 + 2·1 is 12, not {text}"


def test_other_numbers_are_no_arithmetic_slip() -> None:
    for text in ("7", "17", "19", "25", "-3"):
        first = check_first(Q=[[2, 2, 2]], K=[[2, 3, 1]], V=[[1]], claim={"scores": [[text]]})
        assert cause_names(first) == ["unknown"]


def test_one_wrong_digit_is_an_arithmetic_slip_where_no_sum_shows_a_term() -> None:
    hidden = {"X": [[1]], "W_xh": [["0.0224"]], "W_hh": [[0]]}
    first = check_first(kind="rnn", **hidden, claim={"t": {"1": {"h": [["0.0424"]]}}})
    assert cause_names(first) == ["arithmetic-slip"]
    assert first["causes"][0]["says"].startswith("0.0424 has one wrong digit: tanh(")
    pair = {"Q": [[2, 4]], "K": [[1, 0], [0, 1]], "V": [[1], [0]], "scale": "none"}
    first = check_first(**pair, claim={"weights": [["0.149", "0.851"]]})
    assert (cause_names(first), first["causes"][0]["reproduces"]) == (["arithmetic-slip"], "2/2")
    first = check_first(**pair, claim={"weights": [["0.187", "0.813"]]})
    assert cause_names(first) == ["unknown"]


def test_arithmetic_slip_before_an_activation() -> None:
    given = {"X": [[1, 2]], "W_xh": [[0.5, 0.2], [0.3, -0.4]], "W_hh": [[0, 0], [0, 0]]}
    h = np.tanh([0.5 + 0.9, 0.2 - 0.8])  # 2·0.3 taken as 0.9 would need a wrong factor
    claim = {"t": {"1": {"h": [[f"{value:.4f}" for value in h]]}}}
    first = check_first(kind="rnn", **given, claim=claim)
    assert cause_names(first) == ["unknown"]  # h itself is not a sum
    gates = {"X": [[1, 2]], "W_x": np.tile([[0.5], [0.3]], 4), "W_h": [[0.0] * 4]}
    i = 1 / (1 + np.exp(-(0.5 - 0.6)))  # 2·0.3 taken as −0.6
    first = check_first(kind="lstm", **gates, claim={"t": {"1": {"i": [[f"{i:.4f}"]]}}})
    assert cause_names(first) == ["arithmetic-slip"]
    assert first["causes"][0]["says"].startswith("2·0.3 taken as −0.6: sigmoid(")
