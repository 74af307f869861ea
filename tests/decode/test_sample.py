"""Sampling against what its filters promise."""

import importlib.util
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workings.decode.sampling import GREEDY, Sampling, filter_probabilities, generate
from workings.errors import UserError

_spec = importlib.util.spec_from_file_location("toy", Path(__file__).with_name("toy.py"))
toy = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(toy)

SCORES = st.lists(st.floats(-8, 8), min_size=2, max_size=12).map(lambda s: torch.tensor([s]))


@settings(deadline=None)
@given(SCORES, st.integers(1, 12), st.floats(0.01, 1), st.floats(0, 1), st.floats(0.3, 5))
def test_filters_keep_the_likeliest_and_only_those(scores, k, p, least, temperature):
    full = torch.softmax(scores / temperature, -1)[0]
    ranked = full.sort(descending=True).values
    kept = filter_probabilities(scores, Sampling(temperature=temperature, top_k=k))[0] > 0
    assert kept.sum() >= min(k, len(full))
    assert full[kept].min() >= ranked[min(k, len(full)) - 1] - 1e-7
    kept = filter_probabilities(scores, Sampling(temperature=temperature, top_p=p))[0] > 0
    assert full[kept].sum() >= min(p, 1) - 1e-5
    assert full[kept].sum() - full[kept].min() <= p + 1e-5  # not one more than needed
    kept = filter_probabilities(scores, Sampling(temperature=temperature, min_p=least))[0] > 0
    assert bool((full[kept] >= least * full.max() - 1e-6).all())
    assert bool(kept[full.argmax()])


@settings(deadline=None)
@given(SCORES)
def test_probabilities_are_probabilities(scores):
    how = Sampling(temperature=0.7, top_k=5, top_p=0.8, min_p=0.05, repetition_penalty=1.3)
    chances = filter_probabilities(scores, how, torch.tensor([[0, 1]]))
    assert chances.sum() == pytest.approx(1, abs=1e-5)
    assert (filter_probabilities(scores, GREEDY)[0] > 0).sum() == 1


@pytest.mark.parametrize("temperature", [1e-3, 1e-30, 1e-40, 5e-324])
def test_however_cold_it_is_the_likeliest_is_drawn(temperature):
    scores = torch.tensor([[2.0, 1.0, 60.0, -1e30]])
    chances = filter_probabilities(scores, Sampling(temperature=temperature))
    assert chances.tolist() == [[0.0, 0.0, 1.0, 0.0]]


def test_a_seed_that_no_generator_takes_is_told():
    with pytest.raises(UserError, match="seed"):
        Sampling(seed=2**70)


def test_a_repeated_token_is_less_likely():
    scores = torch.tensor([[1.0, 1.0, -1.0, -1.0]])
    chances = filter_probabilities(
        scores, Sampling(repetition_penalty=2.0), torch.tensor([[0, 2]])
    )[0]
    assert chances[0] < chances[1]
    assert chances[2] < chances[3]


def test_the_seed_settles_everything_and_draws_follow_the_scores():
    model = toy.Toy(seed=1)
    condition = torch.full((4000,), 2)

    def texts(seed):
        how = Sampling(seed=seed)
        return torch.stack([token for token, _ in generate(model, condition, 3, how)], 1)

    assert torch.equal(texts(5), texts(5))
    assert not torch.equal(texts(5), texts(6))
    counts = torch.bincount(texts(5)[:, 0], minlength=4) / 4000
    torch.testing.assert_close(counts, torch.softmax(model.table[0, 2], -1), atol=0.03, rtol=0)


def test_greedy_takes_the_likeliest_and_stops_when_told():
    model = toy.Toy(seed=2)
    stream = generate(model, torch.tensor([1]), 100)
    token, scores = next(stream)
    assert int(token) == int(scores.argmax())
    assert len(list(stream)) == 99


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -1},
        {"top_k": -1},
        {"top_p": 0},
        {"top_p": 1.5},
        {"min_p": 2},
        {"repetition_penalty": 0},
    ],
)
def test_absurd_settings(wrong):
    with pytest.raises(UserError, match=next(iter(wrong))):
        Sampling(**wrong)
