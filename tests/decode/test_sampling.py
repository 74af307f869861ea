"""Sampling: its filters, seeds and invalid settings."""

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

LOGITS = st.lists(st.floats(-8, 8), min_size=2, max_size=12).map(lambda s: torch.tensor([s]))


@settings(deadline=None)
@given(LOGITS, st.integers(1, 12), st.floats(0.01, 1), st.floats(0, 1), st.floats(0.3, 5))
def test_filters_keep_the_likeliest_tokens(logits, k, p, min_p, temperature):
    full = torch.softmax(logits / temperature, -1)[0]
    ranked = full.sort(descending=True).values
    kept = filter_probabilities(logits, Sampling(temperature=temperature, top_k=k))[0] > 0
    assert kept.sum() >= min(k, len(full))
    assert full[kept].min() >= ranked[min(k, len(full)) - 1] - 1e-7
    kept = filter_probabilities(logits, Sampling(temperature=temperature, top_p=p))[0] > 0
    assert full[kept].sum() >= min(p, 1) - 1e-5
    assert full[kept].sum() - full[kept].min() <= p + 1e-5  # and no token more
    kept = filter_probabilities(logits, Sampling(temperature=temperature, min_p=min_p))[0] > 0
    assert bool((full[kept] >= min_p * full.max() - 1e-6).all())
    assert bool(kept[full.argmax()])


@settings(deadline=None)
@given(LOGITS)
def test_probabilities_add_up_to_one(logits):
    sampling = Sampling(temperature=0.7, top_k=5, top_p=0.8, min_p=0.05, repetition_penalty=1.3)
    probabilities = filter_probabilities(logits, sampling, torch.tensor([[0, 1]]))
    assert probabilities.sum() == pytest.approx(1, abs=1e-5)
    assert (filter_probabilities(logits, GREEDY)[0] > 0).sum() == 1


@pytest.mark.parametrize("temperature", [1e-3, 1e-30, 1e-40, 5e-324])
def test_a_tiny_temperature_does_not_overflow(temperature):
    logits = torch.tensor([[2.0, 1.0, 60.0, -1e30]])
    probabilities = filter_probabilities(logits, Sampling(temperature=temperature))
    assert probabilities.tolist() == [[0.0, 0.0, 1.0, 0.0]]


def test_a_seed_beyond_64_bits_is_refused():
    with pytest.raises(UserError, match="seed"):
        Sampling(seed=2**70)


def test_a_repeated_token_is_less_likely():
    logits = torch.tensor([[1.0, 1.0, -1.0, -1.0]])
    probabilities = filter_probabilities(
        logits, Sampling(repetition_penalty=2.0), torch.tensor([[0, 2]])
    )[0]
    assert probabilities[0] < probabilities[1]
    assert probabilities[2] < probabilities[3]


def test_the_seed_determines_the_tokens_and_frequencies_follow_the_logits():
    model = toy.Toy(seed=1)
    source = torch.full((4000,), 2)

    def sample(seed):
        sampling = Sampling(seed=seed)
        return torch.stack([token for token, _ in generate(model, source, 3, sampling)], 1)

    assert torch.equal(sample(5), sample(5))
    assert not torch.equal(sample(5), sample(6))
    counts = torch.bincount(sample(5)[:, 0], minlength=4) / 4000
    torch.testing.assert_close(counts, torch.softmax(model.table[0, 2], -1), atol=0.03, rtol=0)


def test_greedy_takes_the_likeliest_token():
    model = toy.Toy(seed=2)
    stream = generate(model, torch.tensor([1]), 100)
    token, logits = next(stream)
    assert int(token) == int(logits.argmax())
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
def test_invalid_settings_are_refused(wrong):
    with pytest.raises(UserError, match=next(iter(wrong))):
        Sampling(**wrong)
