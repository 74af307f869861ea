"""BLEU, ROUGE-L and edit distance: equal to sacreBLEU and brute force, mistakes named."""

from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hand_solutions import Rng, assert_honest_is_right, assert_mistakes_are_named
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU

from workings import Problem
from workings.errors import UserError
from workings.metrics.captions import rouge_l

FEW = settings(max_examples=12)
WORDS = st.lists(st.sampled_from("abcd"), min_size=1, max_size=7)
LONG = st.lists(st.sampled_from("abcd"), min_size=4, max_size=9)


def solve(key: str, **fields: Any) -> np.ndarray:
    return Problem(**fields).solve()[key]


@FEW
@given(candidate=LONG, references=st.lists(LONG, min_size=1, max_size=3), smooth=st.booleans())
def test_bleu_equals_sacrebleu(
    candidate: list[str], references: list[list[str]], smooth: bool
) -> None:
    method = {"smooth_method": "add-k", "smooth_value": 1} if smooth else {"smooth_method": "none"}
    metric = BLEU(tokenize="none", force=True, **method)
    texts = [" ".join(words) for words in references]
    expected = metric.corpus_score([" ".join(candidate)], [[text] for text in texts])
    solution = Problem(
        kind="bleu",
        candidate=" ".join(candidate),
        references=texts,
        smoothing="add-one" if smooth else "none",
    ).solve()
    if not smooth:  # otherwise sacreBLEU reports the smoothed counts
        assert solution["matches"][0].tolist() == expected.counts
        assert solution["totals"][0].tolist() == expected.totals
    assert solution["lengths"][0].tolist() == [expected.sys_len, expected.ref_len]
    assert solution["brevity_penalty"][0, 0] == pytest.approx(expected.bp, rel=1e-12)
    assert 100 * solution["bleu"][0, 0] == pytest.approx(expected.score, rel=1e-12, abs=1e-12)


@FEW
@given(candidate=WORDS, reference=WORDS)
def test_rouge_equals_the_caption_metric(candidate: list[str], reference: list[str]) -> None:
    texts = {"candidate": candidate, "reference": reference}
    solution = Problem(kind="rouge_l", **texts, beta=1.2).solve()
    longest = max(
        length
        for length in range(len(candidate) + 1)
        for chosen in combinations(candidate, length)
        if chosen in set(combinations(reference, length))
    )
    assert solution["lcs"][0, 0] == longest
    (expected,) = rouge_l([candidate], [[reference]])
    assert 100 * solution["f"][0, 0] == pytest.approx(expected, rel=1e-12)


@FEW
@given(reference=WORDS, hypothesis=WORDS, cost=st.sampled_from([1.0, 2.0, 0.5]))
def test_edit_distance_equals_brute_force(
    reference: list[str], hypothesis: list[str], cost: float
) -> None:
    @cache
    def distance(i: int, j: int) -> float:
        if i == len(reference) or j == len(hypothesis):
            return len(reference) - i + len(hypothesis) - j
        same = 0 if reference[i] == hypothesis[j] else cost
        return min(distance(i + 1, j) + 1, distance(i, j + 1) + 1, distance(i + 1, j + 1) + same)

    fields = {"reference": reference, "hypothesis": hypothesis, "substitution": cost}
    solution = Problem(kind="edit_distance", **fields).solve()
    assert solution["distance"][0, 0] == distance(0, 0)
    assert solution["wer"][0, 0] == pytest.approx(distance(0, 0) / len(reference), rel=1e-12)


EDIT = {"kind": "edit_distance", "reference": "the cat lay on a mat", "hypothesis": "the cat sat"}


@pytest.mark.parametrize(
    ("texts", "unit", "distance"),
    [
        (("kitten", "sitting"), None, 3),
        (("kitten", "sitting"), "words", 1),
        (("the cat", "the cut"), None, 1),
        (("the cat", "a cut"), "letters", 4),
    ],
)
def test_edit_distance_of_words_or_letters(
    texts: tuple[str, str], unit: str | None, distance: int
) -> None:
    given = {"reference": texts[0], "hypothesis": texts[1]} | ({"unit": unit} if unit else {})
    assert Problem(kind="edit_distance", given=given).solve()["distance"] == distance


def test_a_slip_in_the_table_is_placed_and_carried_on() -> None:
    table = solve("table", **EDIT).astype(int)
    table[3, 2] += 1  # right: 1
    for i in range(3, 7):  # continue from the wrong number
        for j in range(1, 4):
            if (i, j) > (3, 2):
                same = EDIT["reference"].split()[i - 1] == EDIT["hypothesis"].split()[j - 1]
                moves = (table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + (not same))
                table[i, j] = min(moves)
    report = Problem(**EDIT, claim={"table": table.tolist()}).check()
    assert report.first is not None
    assert report.first.cell == (3, 2)
    assert report.counts["wrong"] == 1
    assert report.counts["follows"] > 0


@pytest.mark.parametrize(
    ("name", "fields", "claim"),
    [
        ("not-clipped", {"candidate": "a a a a b"}, {"n": {1: {"clipped": [4, 1]}}}),
        ("counted-once", {"candidate": "a a a a b"}, {"n": {1: {"clipped": [1, 1]}}}),
        ("length-for-totals", {"candidate": "a b c d e"}, {"totals": [5, 5]}),
        ("recall-for-precision", {"candidate": "a b c d e"}, {"totals": [6, 5]}),
        ("brevity-penalty-forgotten", {"candidate": "a b c d e"}, {"brevity_penalty": "1.00"}),
        ("brevity-ratio-inverted", {"candidate": "a b c d e"}, {"brevity_penalty": "1.181"}),
        ("brevity-without-exponential", {"candidate": "a b c d e"}, {"brevity_penalty": "0.833"}),
        ("arithmetic-for-geometric-mean", {"candidate": "a b c d e"}, {"mean": "0.525"}),
        ("root-forgotten", {"candidate": "a b d c e"}, {"mean": "0.4"}),
    ],
)
def test_mistakes_in_bleu(name: str, fields: dict[str, Any], claim: dict[str, Any]) -> None:
    fields = {"kind": "bleu", "references": "a a b x d c", "max_order": 2, **fields}
    report = Problem(**fields, claim=claim).check()
    assert report.first is not None
    assert name in [cause.name for cause in report.first.causes]


@pytest.mark.parametrize(
    ("name", "claim"),
    [
        ("divided-by-hypothesis", {"wer": "1.333"}),
        ("divided-by-both", {"wer": "0.444"}),
        ("not-divided", {"wer": 4}),
        ("border-of-zeros", {"table": [[0] * 4, *[[0] * 4] * 6]}),
        ("wrong-cell", {"distance": 3}),
    ],
)
def test_mistakes_in_the_edit_distance(name: str, claim: dict[str, Any]) -> None:
    if name == "border-of-zeros":
        words = (EDIT["reference"].split(), EDIT["hypothesis"].split())
        table = np.zeros((7, 4), dtype=int)
        for i in range(1, 7):
            for j in range(1, 4):
                cost = words[0][i - 1] != words[1][j - 1]
                moves = (table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + cost)
                table[i, j] = min(moves)
        claim = {"table": table.tolist()}
    report = Problem(**EDIT, claim=claim).check()
    assert report.first is not None
    assert name in [cause.name for cause in report.first.causes]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "bleu", "candidate": "a b"}, "given.references is missing: kind bleu needs it"),
        ({"kind": "bleu", "candidate": "a", "references": "a"}, "max_order must be at most 1"),
        ({"kind": "bleu", "candidate": 3, "references": "a"}, "candidate must be a text"),
        ({"kind": "bleu", "candidate": "", "references": "a"}, "candidate has 0 words"),
        ({"kind": "bleu", "candidate": "a", "references": []}, "references must be a text or"),
        ({"kind": "rouge_l", "candidate": "a"}, "given.reference is missing"),
        ({"kind": "rouge_l", "candidate": "a", "reference": "a", "beta": 0}, "beta = 0: it must"),
        ({"kind": "edit_distance", "reference": "a", "hypothesis": ["b", 1]}, "must be a text"),
        ({**EDIT, "substitution": -1}, "substitution = -1: it must be from 0 to 10"),
        ({**EDIT, "hypothesis": "a " * 300}, "hypothesis has 300 words"),
    ],
)
def test_bad_texts_are_rejected(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        Problem(**fields)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


VOCABULARY = ["the", "a", "cat", "dog", "sat", "lay", "on", "mat", "under"]


def draw_text(rng: Rng, low: int, high: int) -> str:
    return " ".join(rng.choice(VOCABULARY[: rng.integers(3, 9)], rng.integers(low, high)))


def draw_bleu(rng: Rng) -> dict[str, Any]:
    references = [draw_text(rng, 4, 10) for _ in range(rng.integers(1, 4))]
    words = references[0].split()
    for k in rng.choice(len(words), 2):
        words[k] = str(rng.choice(VOCABULARY))
    return {
        "kind": "bleu",
        "candidate": " ".join([*words, words[0]][: rng.integers(4, len(words) + 2)]),
        "references": references,
        "max_order": int(rng.integers(2, 4)),
        "smoothing": str(rng.choice(["none", "add-one"])),
    }


def draw_rouge(rng: Rng) -> dict[str, Any]:
    texts = {name: draw_text(rng, 3, 8) for name in ("candidate", "reference")}
    return {"kind": "rouge_l", **texts, "beta": float(rng.choice([1.0, 1.2, 2.0]))}


def draw_edit(rng: Rng) -> dict[str, Any]:
    texts = {name: draw_text(rng, 3, 7) for name in ("reference", "hypothesis")}
    return {"kind": "edit_distance", **texts, "substitution": float(rng.choice([1.0, 2.0]))}


DRAWS = [draw_bleu, draw_rouge, draw_edit]


@pytest.mark.parametrize("draw", DRAWS)
def test_rounded_solutions_are_right(draw: Any) -> None:
    assert_honest_is_right(draw, 12, 1)


@pytest.mark.parametrize("draw", DRAWS)
def test_planted_mistakes_are_named(draw: Any) -> None:
    assert_mistakes_are_named(draw, 2, 2)


@pytest.mark.slow
@pytest.mark.parametrize("draw", DRAWS)
def test_many_solutions(draw: Any) -> None:
    assert_honest_is_right(draw, 2_000, 3)
    assert_mistakes_are_named(draw, 150, 4)
