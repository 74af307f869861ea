"""Sampling, sentence probabilities and beam search: equal to decode.py and exhaustive search."""

import math
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
import torch
from hand_solutions import Rng, assert_honest_is_right, assert_mistakes_are_named, transpose
from hypothesis import given, settings
from hypothesis import strategies as st

from workings import Problem
from workings.decode import Sampling, beam_search, filter_probabilities, penalty_divisor
from workings.errors import UserError

FEW = settings(max_examples=12)
SEEDS = st.integers(0, 2**32 - 1)
TOKENS = ["the", "cat", "sat", "</s>"]


def draw_model(rng: Rng, n: int) -> dict[str, np.ndarray]:
    """Draw a Markov model; no two probabilities of a row are equal."""
    return {"P": draw_rows(rng, n, n), "start": draw_rows(rng, 1, n)}


def draw_rows(rng: Rng, rows: int, n: int) -> np.ndarray:
    """Draw distributions in hundredths."""
    table = []
    for _ in range(rows):
        while True:
            row = rng.multinomial(100, rng.dirichlet(np.ones(n) * 2))
            if len(set(row)) == n and row.min() > 0:
                break
        table.append(row / 100)
    return np.array(table)


class Markov:
    """A Markov model with the protocol of `workings.decode`."""

    def __init__(self, fields: dict[str, np.ndarray]) -> None:
        self.logits = torch.from_numpy(np.log(fields["P"]))
        self.first = torch.from_numpy(np.log(fields["start"]))

    def select(self, rows: torch.Tensor) -> "Markov":  # noqa: ARG002
        return self

    def start(self, source: Any) -> tuple[torch.Tensor, "Markov"]:  # noqa: ARG002
        return self.first, self

    def step(self, tokens: torch.Tensor, state: Any) -> tuple[torch.Tensor, "Markov"]:
        return self.logits[tokens], state


@FEW
@given(seed=SEEDS, k=st.integers(1, 5), p=st.sampled_from([0.3, 0.62, 0.9, 1.0]))
def test_sampling_equals_decode(seed: int, k: int, p: float) -> None:
    logits = np.random.default_rng(seed).normal(size=(1, 5)).round(2)
    problem = Problem(kind="sampling", logits=logits, temperature=0.7, top_k=k, top_p=p)
    sampling = Sampling(temperature=0.7, top_k=k, top_p=p)
    expected = filter_probabilities(torch.from_numpy(logits), sampling)
    solution = problem.solve()
    np.testing.assert_allclose(solution["top_p.renormalized"], expected, atol=1e-6)
    assert solution["chosen"][0, 0] == logits.argmax() + 1


@FEW
@given(seed=SEEDS, n=st.integers(2, 4), times=st.integers(1, 4), beams=st.integers(1, 4))
def test_beam_search_equals_decode_without_stop(seed: int, n: int, times: int, beams: int) -> None:
    fields = draw_model(np.random.default_rng(seed), n)
    problem = Problem(kind="beam_search", **fields, beams=beams, length=times)
    (hypotheses,) = beam_search(Markov(fields), None, stop=None, max_length=times, beams=beams)
    solution = problem.solve()
    totals = solution["totals", times][:, 0]
    expected = [h.log_probability for h in hypotheses]
    np.testing.assert_allclose(
        totals[: len(expected)], expected, atol=1e-6
    )  # decode has single precision
    best = tuple(int(token) - 1 for token in solution["best"][0])
    if len(totals) == 1 or totals[0] - totals[1] > 1e-5:
        assert best == hypotheses[0].tokens


@FEW
@given(seed=SEEDS, alpha=st.sampled_from([0.0, 0.6, 1.0]), form=st.sampled_from(["gnmt", "power"]))
def test_a_wide_beam_is_exhaustive(seed: int, alpha: float, form: str) -> None:
    rng, n, times, stop = np.random.default_rng(seed), 2, 3, 1
    fields = draw_model(rng, n)
    sequences = {}
    for tokens in product(range(n), repeat=times):
        end = tokens.index(stop) + 1 if stop in tokens else times
        probabilities = [fields["start"][0, tokens[0]]]
        probabilities += [fields["P"][tokens[t - 1], tokens[t]] for t in range(1, end)]
        total = sum(math.log(p) for p in probabilities)
        divisor = penalty_divisor(end, alpha) if form == "gnmt" else end**alpha
        sequences[tokens[:end] + (stop,) * (times - end)] = total / divisor
    options = {"length_penalty": alpha, "penalty": form, "stop": 2}
    problem = Problem(kind="beam_search", **fields, beams=8, length=times, **options)
    solution = problem.solve()
    key = "penalized" if alpha else ("totals", times)
    finite = solution[key][:, 0][np.isfinite(solution[key][:, 0])]
    np.testing.assert_allclose(sorted(finite), sorted(sequences.values()), rtol=1e-12)
    best = tuple(int(token) - 1 for token in solution["best"][0])
    assert sequences[best] == pytest.approx(max(sequences.values()), rel=1e-12)


@FEW
@given(seed=SEEDS, columns=st.booleans(), base=st.sampled_from(["e", "2", "10"]))
def test_sentence_equals_the_product(seed: int, columns: bool, base: str) -> None:
    rng = np.random.default_rng(seed)
    fields: dict[str, Any] = {"kind": "sentence", **draw_model(rng, 4), "tokens": TOKENS}
    tokens = rng.integers(0, 4, 4).tolist()
    sentence = " ".join(TOKENS[t] for t in tokens)
    problem = Problem(**(transpose(fields) if columns else fields), sentence=sentence, base=base)
    solution = problem.solve()
    chain = [fields["start"][0, tokens[0]]]
    chain += [fields["P"][a, b] for a, b in pairwise(tokens)]
    assert solution["probability"][0, 0] == pytest.approx(math.prod(chain), rel=1e-12)
    total = math.log(math.prod(chain)) / math.log({"e": math.e, "2": 2, "10": 10}[base])
    assert solution["log_probability"][0, 0] == pytest.approx(total, rel=1e-12)
    perplexity = math.prod(chain) ** (-1 / 4)
    assert solution["perplexity"][0, 0] == pytest.approx(perplexity, rel=1e-12)


SEARCH = {
    "kind": "beam_search",
    "tokens": TOKENS,
    "P": [[0.1, 0.5, 0.3, 0.1], [0.1, 0.1, 0.5, 0.3], [0.3, 0.1, 0.1, 0.5], [0.25] * 4],
    "start": [0.6, 0.3, 0.05, 0.05],
    "beams": 2,
    "length": 2,
    "scores": "probability",
}
RIGHT = [["the", "cat"], ["the", "sat"]]


@pytest.mark.parametrize(
    "beams",
    [RIGHT, ["the cat", "the sat"], ["The cat", "the SAT"], [[1, 2], [1, 3]],
     [[1, "cat"], ["the", 3]], [["the", "?"], ["the", "3"]]],
)  # fmt: skip
def test_tokens_are_words_or_numbers(beams: Any) -> None:
    report = Problem(**SEARCH, claim={"t": {2: {"beams": beams}}}).check()
    assert report.verdict == "right", report.summarize()
    columns = {"P": np.array(SEARCH["P"]).T, "start": SEARCH["start"], "vectors": "columns"}
    is_text = isinstance(beams[0], str)
    written = beams if is_text else [list(column) for column in zip(*beams, strict=True)]
    report = Problem(**{**SEARCH, **columns}, claim={"t": {2: {"beams": written}}}).check()
    assert report.verdict == "right", report.summarize()


def test_a_word_outranks_a_number() -> None:
    fields = {"kind": "sampling", "p": [0.2, 0.7, 0.1], "tokens": ["2", "1", "3"]}
    assert Problem(**fields, claim={"chosen": 1}).check().verdict == "right"
    report = Problem(**fields, claim={"chosen": "2"}).check()
    assert report.verdict == "wrong"
    assert report.to_dict()["first"]["expected"] == "1"


@pytest.mark.parametrize(
    ("name", "claim"),
    [
        ("best-of-each-hypothesis", {2: {"beams": ["the cat", "cat sat"]}}),
        ("smallest-chosen", {1: {"beams": [3, 4]}}),
        ("score-before-forgotten", {2: {"scores": [[0.1, 0.5, 0.3, 0.1], [0.1, 0.1, 0.5, 0.3]]}}),
        ("probabilities-added", {2: {"scores": [[0.7, 1.1, 0.9, 0.7], [0.4, 0.4, 0.8, 0.6]]}}),
        (
            "conditional-reversed",
            {2: {"scores": [[0.06, 0.06, 0.18, 0.15], [0.15, 0.03, 0.03, 0.075]]}},
        ),
    ],
)
def test_mistakes_in_a_search(name: str, claim: dict[int, Any]) -> None:
    first = Problem(**SEARCH, claim={"t": claim}).check().first
    assert first is not None
    assert name in [cause.name for cause in first.causes]


def test_a_search_goes_on_from_a_wrong_choice() -> None:
    claim = {
        1: {"beams": ["the", "sat"], "totals": ["0.60", "0.05"]},
        2: {"scores": [[0.06, 0.30, 0.18, 0.06], [0.015, 0.005, 0.005, 0.025]]},
    }
    report = Problem(**SEARCH, claim={"t": claim}).check()
    assert report.first is not None
    assert (report.first.key, report.first.cell) == ("beams.1", (1, 0))
    assert report.counts["wrong"] == 1
    assert report["scores.2"][1] == ["follows"] * 4


@pytest.mark.parametrize(
    ("name", "claim"),
    [
        ("off-by-one", {"top_k": {"kept": [0.4, 0.3, 0.2, 0]}}),
        ("smallest-kept", {"top_k": {"kept": [0, 0, 0.2, 0.1]}}),
        ("not-renormalized", {"top_k": {"renormalized": [0.4, 0.3, 0, 0]}}),
        ("divided-by-count", {"top_k": {"renormalized": [0.2, 0.15, 0, 0]}}),
        ("softmax-for-division", {"top_k": {"renormalized": [0.525, 0.475, 0, 0]}}),
        ("dropped-tokens-kept", {"top_k": {"renormalized": [0.571, 0.429, 0.286, 0.143]}}),
    ],
)
def test_mistakes_in_sampling(name: str, claim: dict[str, Any]) -> None:
    problem = Problem(kind="sampling", p=[0.4, 0.3, 0.2, 0.1], top_k=2, claim=claim)
    first = problem.check().first
    assert first is not None
    assert name in [cause.name for cause in first.causes]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "sampling"}, "given needs either p, the probabilities, or logits"),
        ({"kind": "sampling", "p": [0.5, 0.6]}, "the probabilities of vector 1 add up to 1.1"),
        ({"kind": "sampling", "p": [1.5, -0.5]}, "given.p: a probability must not be negative"),
        ({"kind": "sampling", "p": [0.5, 0.5], "top_k": 3}, "top_k = 3, but there are 2 tokens"),
        ({"kind": "sampling", "p": [0.5, 0.5], "temperature": 2}, "temperature divides logits"),
        ({"kind": "sampling", "p": [0.5, 0.5], "top_p": 0}, "top_p = 0: it must be from"),
        ({**SEARCH, "tokens": ["a", "a", "b", "c"]}, "two tokens have the same name"),
        ({**SEARCH, "stop": "end"}, "stop: 'end' is not a token"),
        ({**SEARCH, "stop": [1]}, "stop must be a token"),
        ({**SEARCH, "length": None, "beams": 0}, "beams = 0: it must be a whole number"),
        ({**SEARCH, "length_penalty": 1}, "length_penalty divides log probabilities"),
        ({**SEARCH, "table": [[0.5, 0.5, 0, 0]]}, "given has both table and a Markov model"),
        ({**SEARCH, "claim": {"t": {1: {"beams": ["teh", "cat"]}}}}, "beams: 'teh' is not a"),
        ({**SEARCH, "claim": {"t": {1: {"beams": [5, 1]}}}}, "claim.t.1.beams: 5 is not a token"),
        ({**SEARCH, "claim": {"t": {1: {"beams": [0.5, 1]}}}}, "0.5 is not a token"),
        ({**SEARCH, "claim": {"t": {1: {"beams": [True, 1]}}}}, "True is not a token"),
        ({"kind": "sentence", "sentence": "1 2"}, "given needs a table of probabilities, or P"),
        ({"kind": "sentence", "sentence": "1 2", "table": [[0.5, 0.5]]}, "sentence has 2 words"),
        ({"kind": "sentence", "sentence": "1 ?", "table": [[0.5, 0.5]]}, "'?' is not a token"),
        (
            {"kind": "sentence", "sentence": "1", "table": [[0, 1]]},
            "logs cannot be computed: vector 1 of it takes the logarithm of zero",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_rejected(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        Problem(**{key: value for key, value in fields.items() if value is not None})
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_token_without_probability_stays_out() -> None:
    fields = {"P": [[0.5, 0.5], [1, 0]], "start": [1, 0], "beams": 2, "length": 2}
    claim = {"t": {1: {"scores": [[0, "-inf"]]}}}
    problem = Problem(kind="beam_search", **fields, claim=claim)
    assert problem.check().verdict == "right"
    assert problem.solve()["best"].tolist() == [[1, 1]]


def test_a_dead_hypothesis_has_no_penalty() -> None:
    fields = {"P": [[0.5, 0.5], [1, 0]], "start": [1, 0], "beams": 3, "length": 2, "stop": 2}
    penalized = ["-0.6", "-0.7", "-inf"]  # the second is wrong: rounding inside is tried
    problem = Problem(
        kind="beam_search", **fields, length_penalty=1, claim={"penalized": penalized}
    )
    first = problem.check().first
    assert first is None or first.key == "penalized"


def draw_sampling(rng: Rng) -> dict[str, Any]:
    n = int(rng.integers(4, 7))
    given: dict[str, Any] = {"p": draw_rows(rng, 1, n)}
    if rng.random() < 0.5:
        temperature = float(rng.choice([0.5, 2.0]))
        given = {"logits": rng.permutation(8)[None, :n] / 2.0, "temperature": temperature}
    if rng.random() < 0.7:
        given["top_k"] = int(rng.integers(2, n))
    if rng.random() < 0.7:
        given["top_p"] = float(rng.choice([0.55, 0.75, 0.9]))
    return {"kind": "sampling", **given}


def draw_sentence(rng: Rng) -> dict[str, Any]:
    words = " ".join(rng.choice(TOKENS, rng.integers(2, 6)))
    model = draw_model(rng, 4) if rng.random() < 0.6 else {"table": draw_rows(rng, 6, 4)}
    fields = {"kind": "sentence", **model, "sentence": words, "tokens": TOKENS}
    fields["base"] = str(rng.choice(["e", "2"]))
    return transpose(fields) if rng.random() < 0.5 else fields


def draw_search(rng: Rng) -> dict[str, Any]:
    times = int(rng.integers(2, 4))
    model = draw_model(rng, 4) if rng.random() < 0.7 else {"table": draw_rows(rng, times, 4)}
    fields = {"kind": "beam_search", **model, "length": times, "tokens": TOKENS}
    fields |= {"beams": int(rng.integers(1, 4)), "scores": str(rng.choice(["log", "probability"]))}
    if rng.random() < 0.5:
        fields["stop"] = "</s>"
    if fields["scores"] == "log" and rng.random() < 0.7:
        fields |= {"length_penalty": float(rng.choice([0.6, 1.0]))}
        fields["penalty"] = str(rng.choice(["gnmt", "power"]))
    return transpose(fields) if rng.random() < 0.3 else fields


DRAWS = [draw_sampling, draw_sentence, draw_search]


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
