"""Beam search against listing everything."""

import importlib.util
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workings.decode.beam import beam_search, find_candidates, penalty_divisor
from workings.errors import UserError

_spec = importlib.util.spec_from_file_location("toy", Path(__file__).with_name("toy.py"))
toy = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(toy)

STOP = 0


def best_of_all(model, first, longest, strength):
    ranked = [
        (log_p / penalty_divisor(length, strength), body)
        for body, length, log_p in model.everything(first, STOP, longest)
    ]
    return sorted(ranked, reverse=True)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    strength=st.sampled_from([0.0, 0.6, 1.0, 2.0, -0.5]),
    longest=st.integers(1, 4),
)
def test_with_enough_beams_it_finds_what_listing_finds(seed, strength, longest):
    model = toy.Toy(seed=seed)
    beams = 3**longest + 3
    found = beam_search(
        model,
        torch.tensor([1, 2, 3]),
        stop=STOP,
        max_length=longest,
        beams=beams,
        length_penalty=strength,
    )
    for first, hypotheses in zip((1, 2, 3), found, strict=True):
        expected = best_of_all(model, first, longest, strength)
        assert hypotheses[0].tokens == expected[0][1]
        scores = [h.score for h in hypotheses]
        assert scores == pytest.approx([score for score, _ in expected[: len(scores)]], abs=1e-4)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), beams=st.integers(1, 4), strength=st.sampled_from([0.0, 1.0]))
def test_it_does_not_stop_early_and_says_true_probabilities(seed, beams, strength):
    model = toy.Toy(seed=seed, vocabulary=5)
    options = {"stop": STOP, "max_length": 6, "length_penalty": strength}
    together = beam_search(model, torch.tensor([1, 4, 2]), beams=beams, **options)
    for first, hypotheses in zip((1, 4, 2), together, strict=True):
        alone = beam_search(model, torch.tensor([first]), beams=beams, **options)[0]
        assert [h.tokens for h in alone] == [h.tokens for h in hypotheses]  # batched or not
        for h in hypotheses:
            tokens = (*h.tokens, STOP) if len(h.tokens) < 6 else h.tokens
            told = model.log_probability(first, tokens)
            assert h.log_probability == pytest.approx(told, abs=1e-4)
        assert hypotheses == sorted(hypotheses, key=lambda h: -h.score)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), strength=st.sampled_from([0.0, 1.0, 3.0, -0.5]))
def test_one_beam_takes_the_likeliest_token_whatever_the_penalty(seed, strength):
    model, found = toy.Toy(seed=seed, vocabulary=5), []
    scores, state = model.start(torch.tensor([1]))
    while len(found) < 6 and (token := int(scores.argmax())) != STOP:
        found.append(token)
        scores, state = model.step(torch.tensor([token]), state)
    options = {"stop": STOP, "max_length": 6, "beams": 1, "length_penalty": strength}
    ((only,),) = beam_search(model, torch.tensor([1]), **options)
    assert only.tokens == tuple(found)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    beams=st.integers(1, 4),
    strength=st.sampled_from([0.0, 1.0, 3.0, -0.5]),
    longest=st.lists(st.integers(1, 7), min_size=3, max_size=3),
)
def test_a_source_with_a_limit_of_its_own_is_searched_as_if_alone(seed, beams, strength, longest):
    model = toy.Toy(seed=seed, vocabulary=5)
    options = {"stop": STOP, "beams": beams, "length_penalty": strength}
    together = beam_search(model, torch.tensor([1, 4, 2]), max_length=longest, **options)
    for first, limit, found in zip((1, 4, 2), longest, together, strict=True):
        (alone,) = beam_search(model, torch.tensor([first]), max_length=limit, **options)
        assert [h.tokens for h in found] == [h.tokens for h in alone]
        assert max(len(h.tokens) for h in found) <= limit


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    beams=st.integers(1, 4),
    best=st.integers(1, 6),
    strength=st.sampled_from([0.0, 1.0, -0.5]),
)
def test_fewer_are_the_best_of_all(seed, beams, best, strength):
    model = toy.Toy(seed=seed, vocabulary=5)
    options = {"stop": STOP, "max_length": 8, "beams": beams, "length_penalty": strength}
    everything = beam_search(model, torch.tensor([1, 4, 2]), **options)
    fewer = beam_search(model, torch.tensor([1, 4, 2]), num_best=best, **options)
    for some, all_of_it in zip(fewer, everything, strict=True):
        expected = [h.score for h in all_of_it[:best]]
        assert [h.score for h in some] == pytest.approx(expected, abs=1e-5)
        assert len({h.tokens for h in some}) == len(some)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    vocabulary=st.integers(1, 70),
    beams=st.integers(1, 3),
    count=st.integers(1, 40),
)
def test_candidates_are_what_sorting_everything_finds(seed, vocabulary, beams, count):
    draw = torch.Generator().manual_seed(seed)
    scores = torch.randn(2 * beams, vocabulary, generator=draw)
    totals = torch.randn(2, beams, generator=draw)
    rows, tokens, values = find_candidates(scores, totals, count)
    grown = torch.log_softmax(scores, -1).view(2, beams, vocabulary) + totals.unsqueeze(-1)
    expected = grown.flatten(1).sort(descending=True).values[:, :count]
    torch.testing.assert_close(values, expected)
    torch.testing.assert_close(grown[torch.arange(2).unsqueeze(1), rows, tokens], values)
    assert all(len(set(pairs)) == len(pairs) for pairs in (rows * vocabulary + tokens).tolist())


def test_one_beam_is_greedy_where_nothing_stops():
    model = toy.Toy(seed=3)
    (best,) = beam_search(model, torch.tensor([2]), stop=None, max_length=5, beams=1)[0]
    scores, state = model.start(torch.tensor([2]))
    greedy = []
    for _ in range(5):
        greedy.append(int(scores.argmax()))
        scores, state = model.step(scores.argmax(-1), state)
    assert list(best.tokens) == greedy


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_one_beam_without_a_penalty_is_greedy_up_to_the_stop(seed):
    """The stop comes second time and again: that ends nothing."""
    model = toy.Toy(seed=seed, vocabulary=6)
    (best,) = beam_search(model, torch.tensor([2]), stop=STOP, max_length=12, beams=1)[0]
    scores, state = model.start(torch.tensor([2]))
    greedy = []
    while len(greedy) < 12 and (token := int(scores.argmax())) != STOP:
        greedy.append(token)
        scores, state = model.step(torch.tensor([token]), state)
    assert list(best.tokens) == greedy


def test_absurd_numbers():
    with pytest.raises(UserError, match="at least 1"):
        beam_search(toy.Toy(), torch.tensor([1]), stop=0, max_length=0)
    with pytest.raises(UserError, match="at least 1"):
        beam_search(toy.Toy(), torch.tensor([1]), stop=0, max_length=5, beams=0)
