"""Classifiers: padding, pooling, n-grams and sizes."""

import numpy as np
import pytest
import torch

from workings.errors import UserError
from workings.models.classifiers import NgramClassifier, build_classifier
from workings.models.regions import RegionClassifier
from workings.recipes import (
    CLASSIFIER_KINDS,
    NgramConfig,
    parse_classifier_config,
)

SMALL = {
    "recurrent": {"d_model": 8, "hidden_size": 6, "bidirectional": True},
    "perceptron": {"d_model": 4, "length": 12, "hidden_sizes": [5, 3]},
    "convolution": {"d_model": 8, "channels": [6, 4], "kernel": 3, "stride": 2, "hidden_size": 5},
    "regions": {"regions": [1, 3], "channels": 100},
    "transformer": {"d_model": 8, "heads": 2, "layers": 1, "d_ff": 16},
    "bert": {"d_model": 8, "heads": 2, "layers": 1, "d_ff": 16, "dropout": 0.0},
}


def test_a_kind_without_sizes(monkeypatch):
    class New(NgramConfig):
        kind = "new"
        sizes = {}  # noqa: RUF012

    monkeypatch.setitem(CLASSIFIER_KINDS, "new", New)
    assert isinstance(parse_classifier_config({"kind": "new"}), New)
    with pytest.raises(UserError, match="new has no sizes"):
        parse_classifier_config({"kind": "new", "size": "small"})


@pytest.mark.parametrize("kind", SMALL)
def test_padding_changes_nothing(kind):
    torch.manual_seed(0)
    model = build_classifier({"kind": kind, **SMALL[kind]}, 30, 3).eval()
    ids, lengths = torch.randint(3, 30, (4, 12)), torch.tensor([12, 7, 3, 1])
    changed = torch.where(torch.arange(12) < lengths.unsqueeze(1), ids, 0)
    logits = model(ids, lengths)
    torch.testing.assert_close(logits, model(changed, lengths))
    assert logits.std(0).min() > 1e-4  # logits differ between texts
    if kind in ("recurrent", "regions", "transformer", "bert"):
        alone = model(ids[1:2, :7], lengths[1:2])
        torch.testing.assert_close(alone, logits[1:2])


def test_mean_pooling_ignores_order_and_padding():
    torch.manual_seed(0)
    table = {"kind": "perceptron", "d_model": 4, "pooling": "mean", "hidden_sizes": [5, 3]}
    model = build_classifier(table, 30, 3).eval()
    assert model.fixed_length is None
    ids = torch.randint(3, 30, (1, 12))
    logits = model(ids, torch.tensor([12]))
    torch.testing.assert_close(model(ids.flip(1), torch.tensor([12])), logits)
    padded = torch.cat([ids, torch.zeros(1, 5, dtype=torch.long)], 1)
    torch.testing.assert_close(model(padded, torch.tensor([12])), logits)
    expected = model.embedding(ids)[0].mean(0)
    for layer in model.layers:
        expected = torch.relu(layer(expected))
    torch.testing.assert_close(model.head(expected), logits[0])
    assert not torch.allclose(model(padded[:, 5:], torch.tensor([7])), logits)


def test_regions_are_a_convolution_over_one_hot_words():
    torch.manual_seed(0)
    model = RegionClassifier(9, 2, regions=(3,), channels=4, dropout=0.0).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    ids, lengths = torch.randint(1, 9, (5, 7)), torch.tensor([7, 4, 2, 1, 6])
    ids = torch.where(torch.arange(7) < lengths.unsqueeze(1), ids, 0)
    weights = model.filters[0].weight.detach().view(3, 9, 4).requires_grad_()
    expected = []
    for text, length in zip(ids, lengths.tolist(), strict=True):
        one_hot = torch.nn.functional.one_hot(text[:length], 9).double()
        ends = torch.nn.functional.one_hot(torch.zeros(2, dtype=torch.long), 9).double()
        image = torch.cat((ends, one_hot, ends)).t().unsqueeze(0)  # [1, words, positions]
        sums = torch.nn.functional.conv1d(image, weights.permute(2, 1, 0), model.filters[0].bias)
        expected.append(model.head(torch.relu(sums[0].amax(-1))))
    logits, reference = model(ids, lengths), torch.stack(expected)
    torch.testing.assert_close(logits, reference)
    torch.autograd.backward(logits.square().sum())
    (gradient,) = torch.autograd.grad(reference.square().sum(), weights)
    torch.testing.assert_close(model.filters[0].weight.grad.view(3, 9, 4), gradient)


def test_a_dropped_word_is_zero_at_all_its_positions():
    model = build_classifier({"kind": "perceptron", "embedding_dropout": 0.5}, 30, 2)
    ids = torch.arange(30).repeat(2, 2)
    embedded = model._drop_words(ids, torch.ones(2, 60, 4))
    torch.testing.assert_close(embedded[:, :30], embedded[:, 30:])
    assert set(embedded.unique().tolist()) == {0.0, 2.0}
    assert model.eval()._drop_words(ids, embedded) is embedded


@pytest.mark.parametrize("pooling", ["max", "flatten"])
@pytest.mark.parametrize("shortest", [7, 6])  # two convolutions need 7 positions
def test_a_convolution_gives_padding_no_gradient(pooling, shortest):
    torch.manual_seed(0)
    table = {"kind": "convolution", **SMALL["convolution"], "pooling": pooling, "length": 12}
    model = build_classifier(table, 30, 3)
    assert model.min_length == 7
    ids, lengths = torch.randint(3, 30, (3, 12)), torch.tensor([12, 9, shortest])
    ids = torch.where(torch.arange(12) < lengths.unsqueeze(1), ids, 0)
    model(ids, lengths).square().sum().backward()
    assert not model.embedding.weight.grad[0].any()
    assert model.embedding.weight.grad[ids[2, 0]].any()


@pytest.mark.parametrize("kind", SMALL)
def test_an_empty_text_has_finite_logits(kind):
    model = build_classifier({"kind": kind, **SMALL[kind]}, 30, 3).eval()
    length = model.fixed_length or 1
    logits = model(torch.zeros(2, length, dtype=torch.long), torch.tensor([0, 0]))
    assert logits.isfinite().all()


def test_unknown_kinds_and_keys_suggest_the_closest():
    with pytest.raises(UserError, match=r"model\.kind = 'recurent': did you mean 'recurrent'"):
        build_classifier({"kind": "recurent"}, 10, 2)
    with pytest.raises(
        UserError, match=r"model\.hiden_size: no such key: did you mean 'hidden_size'"
    ):
        build_classifier({"kind": "recurrent", "hiden_size": 3}, 10, 2)


def test_ngram_ratios_are_those_of_naive_bayes():
    texts, labels = [[5, 6], [5, 7], [8, 6], [8, 7]], [0, 0, 1, 1]
    model = NgramClassifier(10, 2, max_n=2, min_count=1)
    model.prepare(texts, labels)
    five, six = model.featurize([5])[0], model.featurize([6])[0]
    # There are 8 n-grams, 6 occurrences in each class, and add-one smoothing.
    assert model.ratios[five, 0].item() == pytest.approx(np.log((3 / 14) / (1 / 14)))
    assert model.ratios[six].tolist() == pytest.approx([0.0, 0.0])
    assert model.ratios[five, 0].item() == pytest.approx(-model.ratios[five, 1].item())
    assert len(model.featurize([5, 6])) == 3  # two tokens and a pair
    assert len(model.featurize([6, 5])) == 2  # this pair is unknown
    assert len(model.featurize([5, 5, 5])) == 1  # repetitions count once


def test_ngrams_are_restored_from_a_state_dict():
    model = NgramClassifier(10, 2, min_count=1)
    model.prepare([[5, 6], [8, 7]], [0, 1])
    torch.nn.init.normal_(model.weights)
    restored = NgramClassifier(10, 2, min_count=1)
    restored.load_state_dict(model.state_dict())
    ids = torch.from_numpy(model.featurize([5, 6])).unsqueeze(0)
    torch.testing.assert_close(restored(ids, torch.tensor([3])), model(ids, torch.tensor([3])))
    with pytest.raises(UserError, match="would not fit"):
        NgramClassifier(10_000, 2, max_n=9)


def test_too_few_texts_for_ngrams_are_refused():
    model = NgramClassifier(10, 2, min_count=2)
    with pytest.raises(UserError, match="too few texts to learn from, 2 with 4 tokens"):
        model.prepare([[5, 6], [8, 7]], [0, 1])


@pytest.mark.parametrize("kind", CLASSIFIER_KINDS)
def test_sizes_grow_and_explicit_settings_win(kind):
    sizes = CLASSIFIER_KINDS[kind].sizes
    small, medium, large = (build_classifier({"kind": kind, "size": size}, 50, 3) for size in sizes)
    if kind not in ("ngrams", "tf-idf"):  # their parameters depend on the data
        counts = [sum(p.numel() for p in m.parameters()) for m in (small, medium, large)]
        assert counts[0] < counts[1] < counts[2]
    key, value = next(iter(sizes["small"].items()))
    config = parse_classifier_config({"kind": kind, "size": "large", key: value})
    assert (
        getattr(config, key)
        == parse_classifier_config({"kind": kind, "size": "small"}).__dict__[key]
    )
    with pytest.raises(UserError, match="size"):
        parse_classifier_config({"kind": kind, "size": "enormous"})
