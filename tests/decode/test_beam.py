"""Beam search against an exhaustive search."""

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


def rank_all(model, first, max_length, strength):
    ranked = [
        (log_p / penalty_divisor(length, strength), body)
        for body, length, log_p in model.all_sequences(first, STOP, max_length)
    ]
    return sorted(ranked, reverse=True)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    strength=st.sampled_from([0.0, 0.6, 1.0, 2.0, -0.5]),
    max_length=st.integers(1, 4),
)
def test_with_enough_beams_it_equals_exhaustive_search(seed, strength, max_length):
    model = toy.Toy(seed=seed)
    beams = 3**max_length + 3
    hypotheses_by_source = beam_search(
        model,
        torch.tensor([1, 2, 3]),
        stop=STOP,
        max_length=max_length,
        beams=beams,
        length_penalty=strength,
    )
    for first, hypotheses in zip((1, 2, 3), hypotheses_by_source, strict=True):
        expected = rank_all(model, first, max_length, strength)
        assert hypotheses[0].tokens == expected[0][1]
        scores = [h.score for h in hypotheses]
        assert scores == pytest.approx([score for score, _ in expected[: len(scores)]], abs=1e-4)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), beams=st.integers(1, 4), strength=st.sampled_from([0.0, 1.0]))
def test_batches_equal_single_sources_and_probabilities_are_right(seed, beams, strength):
    model = toy.Toy(seed=seed, vocabulary=5)
    options = {"stop": STOP, "max_length": 6, "length_penalty": strength}
    batched = beam_search(model, torch.tensor([1, 4, 2]), beams=beams, **options)
    for first, hypotheses in zip((1, 4, 2), batched, strict=True):
        alone = beam_search(model, torch.tensor([first]), beams=beams, **options)[0]
        assert [h.tokens for h in alone] == [h.tokens for h in hypotheses]
        for h in hypotheses:
            tokens = (*h.tokens, STOP) if len(h.tokens) < 6 else h.tokens
            expected = model.log_probability(first, tokens)
            assert h.log_probability == pytest.approx(expected, abs=1e-4)
        assert hypotheses == sorted(hypotheses, key=lambda h: -h.score)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), strength=st.sampled_from([0.0, 1.0, 3.0, -0.5]))
def test_one_beam_is_greedy_with_any_length_penalty(seed, strength):
    model, greedy = toy.Toy(seed=seed, vocabulary=5), []
    logits, state = model.start(torch.tensor([1]))
    while len(greedy) < 6 and (token := int(logits.argmax())) != STOP:
        greedy.append(token)
        logits, state = model.step(torch.tensor([token]), state)
    options = {"stop": STOP, "max_length": 6, "beams": 1, "length_penalty": strength}
    ((only,),) = beam_search(model, torch.tensor([1]), **options)
    assert only.tokens == tuple(greedy)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    beams=st.integers(1, 4),
    strength=st.sampled_from([0.0, 1.0, 3.0, -0.5]),
    max_length=st.lists(st.integers(1, 7), min_size=3, max_size=3),
)
def test_a_limit_per_source_gives_the_same_as_alone(seed, beams, strength, max_length):
    model = toy.Toy(seed=seed, vocabulary=5)
    options = {"stop": STOP, "beams": beams, "length_penalty": strength}
    batched = beam_search(model, torch.tensor([1, 4, 2]), max_length=max_length, **options)
    for first, limit, hypotheses in zip((1, 4, 2), max_length, batched, strict=True):
        (alone,) = beam_search(model, torch.tensor([first]), max_length=limit, **options)
        assert [h.tokens for h in hypotheses] == [h.tokens for h in alone]
        assert max(len(h.tokens) for h in hypotheses) <= limit


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    beams=st.integers(1, 4),
    num_best=st.integers(1, 6),
    strength=st.sampled_from([0.0, 1.0, -0.5]),
)
def test_num_best_returns_the_first_of_all(seed, beams, num_best, strength):
    model = toy.Toy(seed=seed, vocabulary=5)
    options = {"stop": STOP, "max_length": 8, "beams": beams, "length_penalty": strength}
    everything = beam_search(model, torch.tensor([1, 4, 2]), **options)
    fewer = beam_search(model, torch.tensor([1, 4, 2]), num_best=num_best, **options)
    for best, hypotheses in zip(fewer, everything, strict=True):
        expected = [h.score for h in hypotheses[:num_best]]
        assert [h.score for h in best] == pytest.approx(expected, abs=1e-5)
        assert len({h.tokens for h in best}) == len(best)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    vocabulary=st.integers(1, 70),
    beams=st.integers(1, 3),
    count=st.integers(1, 40),
)
def test_find_candidates_equals_sorting_all_tokens(seed, vocabulary, beams, count):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(2 * beams, vocabulary, generator=generator)
    totals = torch.randn(2, beams, generator=generator)
    rows, tokens, values = find_candidates(logits, totals, count)
    candidates = torch.log_softmax(logits, -1).view(2, beams, vocabulary) + totals.unsqueeze(-1)
    expected = candidates.flatten(1).sort(descending=True).values[:, :count]
    torch.testing.assert_close(values, expected)
    torch.testing.assert_close(candidates[torch.arange(2).unsqueeze(1), rows, tokens], values)
    assert all(len(set(pairs)) == len(pairs) for pairs in (rows * vocabulary + tokens).tolist())


def test_one_beam_is_greedy_without_a_stop_token():
    model = toy.Toy(seed=3)
    (best,) = beam_search(model, torch.tensor([2]), stop=None, max_length=5, beams=1)[0]
    logits, state = model.start(torch.tensor([2]))
    greedy = []
    for _ in range(5):
        greedy.append(int(logits.argmax()))
        logits, state = model.step(logits.argmax(-1), state)
    assert list(best.tokens) == greedy


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_one_beam_does_not_end_where_the_stop_is_second_best(seed):
    model = toy.Toy(seed=seed, vocabulary=6)
    (best,) = beam_search(model, torch.tensor([2]), stop=STOP, max_length=12, beams=1)[0]
    logits, state = model.start(torch.tensor([2]))
    greedy = []
    while len(greedy) < 12 and (token := int(logits.argmax())) != STOP:
        greedy.append(token)
        logits, state = model.step(torch.tensor([token]), state)
    assert list(best.tokens) == greedy


def test_invalid_numbers_are_refused():
    with pytest.raises(UserError, match="must be at least 1"):
        beam_search(toy.Toy(), torch.tensor([1]), stop=0, max_length=0)
    with pytest.raises(UserError, match="must be at least 1"):
        beam_search(toy.Toy(), torch.tensor([1]), stop=0, max_length=5, beams=0)
