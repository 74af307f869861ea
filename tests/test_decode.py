"""Decoding: sampling filters and seeds, and beam search against an exhaustive search."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workings.decode import (
    GREEDY,
    Sampling,
    beam_search,
    filter_probabilities,
    find_candidates,
    generate,
    penalty_divisor,
)
from workings.errors import UserError

STOP = 0
LOGITS = st.lists(st.floats(-8, 8), min_size=2, max_size=12).map(lambda s: torch.tensor([s]))


class ToyState:
    """The last two tokens of each row."""

    def __init__(self, last):
        self.last = last

    def select(self, rows):
        return ToyState(self.last[rows])


class Toy:
    """Random logits by the last two tokens; a source is the first token of its sequence."""

    def __init__(self, vocabulary=4, seed=0, scale=1.5):
        generator = torch.Generator().manual_seed(seed)
        shape = (vocabulary, vocabulary, vocabulary)
        self.table = scale * torch.randn(shape, generator=generator)
        self.vocabulary = vocabulary

    def start(self, source):
        last = torch.stack((torch.zeros_like(source), source), 1)
        return self.table[last[:, 0], last[:, 1]], ToyState(last)

    def step(self, tokens, state):
        last = torch.stack((state.last[:, 1], tokens), 1)
        return self.table[last[:, 0], last[:, 1]], ToyState(last)

    def log_probability(self, first, tokens):
        before, last, total = 0, first, 0.0
        for token in tokens:
            total += float(torch.log_softmax(self.table[before, last], -1)[token])
            before, last = last, token
        return total

    def all_sequences(self, first, stop, max_length):
        """Yield all sequences up to `max_length`: tokens without stop, length, log probability."""
        others = [t for t in range(self.vocabulary) if t != stop]
        for length in range(1, max_length + 1):
            for body in itertools.product(others, repeat=length - 1):
                tokens = (*body, stop)
                yield body, length, self.log_probability(first, tokens)
        for body in itertools.product(others, repeat=max_length):
            yield body, max_length, self.log_probability(first, body)


# -- sampling --------------------------------------------------------------------------------------


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
    model = Toy(seed=1)
    source = torch.full((4000,), 2)

    def sample(seed):
        sampling = Sampling(seed=seed)
        return torch.stack([token for token, _ in generate(model, source, 3, sampling)], 1)

    assert torch.equal(sample(5), sample(5))
    assert not torch.equal(sample(5), sample(6))
    counts = torch.bincount(sample(5)[:, 0], minlength=4) / 4000
    torch.testing.assert_close(counts, torch.softmax(model.table[0, 2], -1), atol=0.03, rtol=0)


def test_greedy_takes_the_likeliest_token():
    model = Toy(seed=2)
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


# -- beam search -----------------------------------------------------------------------------------


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
    model = Toy(seed=seed)
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
    model = Toy(seed=seed, vocabulary=5)
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
    model, greedy = Toy(seed=seed, vocabulary=5), []
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
    model = Toy(seed=seed, vocabulary=5)
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
    model = Toy(seed=seed, vocabulary=5)
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
    model = Toy(seed=3)
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
    model = Toy(seed=seed, vocabulary=6)
    (best,) = beam_search(model, torch.tensor([2]), stop=STOP, max_length=12, beams=1)[0]
    logits, state = model.start(torch.tensor([2]))
    greedy = []
    while len(greedy) < 12 and (token := int(logits.argmax())) != STOP:
        greedy.append(token)
        logits, state = model.step(torch.tensor([token]), state)
    assert list(best.tokens) == greedy


def test_invalid_numbers_are_refused():
    with pytest.raises(UserError, match="must be at least 1"):
        beam_search(Toy(), torch.tensor([1]), stop=0, max_length=0)
    with pytest.raises(UserError, match="must be at least 1"):
        beam_search(Toy(), torch.tensor([1]), stop=0, max_length=5, beams=0)
