"""Behavior common to translators and captioners: decoder inputs, sampled texts, cross-attention."""

import pytest
import torch

from workings.decode.sampling import Sampling
from workings.models.seq2seq import PAD, START
from workings.tasks.seq2seq import collect_cross_attention, sample_texts, shift_right
from workings.tasks.translation import collate_sources
from workings.training.runs import load


def test_decoder_inputs_are_the_targets_shifted_right():
    inputs, targets = shift_right([[5, 6], [7]], 3, torch.device("cpu"))
    assert inputs.tolist() == [[START, 5, 6], [START, 7, PAD]]
    assert targets.tolist() == [[5, 6, 3], [7, 3, PAD]]


@pytest.fixture
def translator(pairs_run):
    return load(pairs_run)


def test_special_tokens_are_never_sampled(translator):
    hot = Sampling(temperature=1e6, seed=1)
    texts = ["one two ten cat dog"] * 20
    found = [t for ranked in translator.translate(texts, sampling=hot) for t in ranked]
    assert not {PAD, START} & {token for t in found for token in t.tokens}


def test_sampled_texts_have_their_own_length_limits(translator):
    encoded = [translator.tokenizers.encode_source(text) for text in ("one two", "ten cat")]
    source = collate_sources(encoded, translator.model)
    hot = Sampling(temperature=1e6, seed=1)
    with torch.no_grad():
        (first,), (second,) = sample_texts(translator.model, source, -1, hot, [2, 5])
    assert (len(first.tokens), len(second.tokens)) == (2, 5)
    assert first.log_probability == first.score < 0


def test_cross_attention_weights_sum_to_one(translator):
    source = collate_sources([translator.tokenizers.encode_source("one cat")], translator.model)
    (weights,) = collect_cross_attention(translator.model, source, torch.tensor([[START, 5]]))
    assert weights.shape == (1, 1, 2, 3)
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 1, 2))
