import pytest
import torch

from workings.experiments.pretraining import (
    LANGUAGES,
    SYMBOLS,
    NextSymbol,
    SentenceClassifier,
    make_languages,
    measure,
    sample_sentences,
)


def test_only_the_order_of_symbols_tells_the_languages_apart():
    tables = make_languages(1)
    torch.testing.assert_close(tables.sum(-1), torch.ones(LANGUAGES, SYMBOLS))
    torch.testing.assert_close(tables.sum(-2), torch.ones(LANGUAGES, SYMBOLS))  # equally frequent
    assert (tables[0] - tables[1]).abs().max() > 0.2
    generator = torch.Generator().manual_seed(0)
    sentences = sample_sentences(tables, torch.zeros(4000, dtype=torch.long), generator)
    pairs = sentences[:, :-1] * SYMBOLS + sentences[:, 1:]
    counts = torch.bincount(pairs.flatten(), minlength=SYMBOLS**2).view(SYMBOLS, SYMBOLS)
    torch.testing.assert_close(counts / counts.sum(1, keepdim=True), tables[0], atol=0.02, rtol=0)


def test_a_classifier_starts_from_the_body_of_the_language_model():
    model = NextSymbol()
    classifier = SentenceClassifier(model).classifier
    own = classifier.body.state_dict()
    assert own
    for name, tensor in own.items():
        assert torch.equal(tensor, model.language_model.state_dict()[name])
    new = SentenceClassifier(None).classifier.body.state_dict()
    assert any(not torch.equal(tensor, new[name]) for name, tensor in own.items())


@pytest.mark.slow
def test_pretraining_replaces_most_labels():
    measured = measure(2, labels=(2, 64), draws=2)
    (_, few), (_, many) = measured.new
    (_, few_pretrained), (_, many_pretrained) = measured.pretrained
    assert few < 0.5 < 0.8 < few_pretrained
    assert min(many, many_pretrained) > 0.9
    assert measured.losses[-1][1] < measured.losses[0][1] - 0.3
    assert measured.by_steps[-1][1] > measured.by_steps[0][1] + 0.3
