"""The notes' classifiers to the digit, and what the better forms promise."""

from pathlib import Path

import numpy as np
import pytest
import torch

from workings.errors import UserError
from workings.models.classifiers import CLASSIFIERS, NgramClassifier, build_classifier
from workings.models.summary import summarize
from workings.recipes import (
    CLASSIFIER_KINDS,
    NgramConfig,
    parse_classifier_config,
    read_recipe,
)

RECIPES = Path(__file__).parents[2] / "recipes"

# Parameters, and mult-adds in millions where the notes print them.
NOTES = {
    "rnn": (2_572_546, None),
    "lstm": (2_758_786, None),
    "perceptron": (68_228_482, 68.23),
    "conv": (4_641_538, 35.38),
    "conv-max": (2_806_402, 27.58),
}


@pytest.mark.parametrize("name", NOTES)
def test_the_notes_layer_tables(name):
    recipe = read_recipe(RECIPES / f"imdb-{name}-notes.toml")
    model = build_classifier(recipe.model, recipe.tokenizer.vocab_size, 2)
    table = summarize(model, 500)
    parameters, mult_adds = NOTES[name]
    assert table.parameters == sum(row.parameters for row in table.rows) == parameters
    if mult_adds is not None:
        assert round(table.mult_adds / 1e6, 2) == mult_adds
    if name == "conv-max":
        shapes = {row.kind: row.shape for row in table.rows}
        assert shapes["Conv1d"] == (-1, 128, 53)
        sizes = (table.input_mb, table.activations_mb, table.parameters_mb, table.total_mb)
        assert [round(mb, 2) for mb in sizes] == [0.12, 0.70, 10.71, 11.53]


SMALL = {
    "recurrent": {"d_model": 8, "hidden_size": 6, "bidirectional": True},
    "perceptron": {"d_model": 4, "length": 12, "hidden_sizes": [5, 3]},
    "convolution": {"d_model": 8, "channels": [6, 4], "kernel": 3, "stride": 2, "hidden_size": 5},
    "transformer": {"d_model": 8, "heads": 2, "layers": 1, "d_ff": 16},
}


def test_a_kind_needs_no_sizes(monkeypatch):
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
    scores = model(ids, lengths)
    torch.testing.assert_close(scores, model(changed, lengths))
    assert scores.std(0).min() > 1e-4  # texts are told apart at all
    if kind in ("recurrent", "transformer"):
        alone = model(ids[1:2, :7], lengths[1:2])
        torch.testing.assert_close(alone, scores[1:2])


def test_a_mean_knows_neither_places_nor_padding():
    torch.manual_seed(0)
    table = {"kind": "perceptron", "d_model": 4, "pooling": "mean", "hidden_sizes": [5, 3]}
    model = build_classifier(table, 30, 3).eval()
    assert model.fixed_length is None
    ids = torch.randint(3, 30, (1, 12))
    scores = model(ids, torch.tensor([12]))
    torch.testing.assert_close(model(ids.flip(1), torch.tensor([12])), scores)
    padded = torch.cat([ids, torch.zeros(1, 5, dtype=torch.long)], 1)
    torch.testing.assert_close(model(padded, torch.tensor([12])), scores)
    by_hand = model.embedding(ids)[0].mean(0)
    for layer in model.layers:
        by_hand = torch.relu(layer(by_hand))
    torch.testing.assert_close(model.head(by_hand), scores[0])
    assert not torch.allclose(model(padded[:, 5:], torch.tensor([7])), scores)


@pytest.mark.parametrize("pooling", ["max", "flatten"])
@pytest.mark.parametrize("shortest", [7, 6])  # 7 is what two convolutions see at the least
def test_a_convolution_reads_no_padding_however_long_the_texts(pooling, shortest):
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
def test_a_text_of_nothing_has_scores(kind):
    model = build_classifier({"kind": kind, **SMALL[kind]}, 30, 3).eval()
    length = model.fixed_length or 1
    scores = model(torch.zeros(2, length, dtype=torch.long), torch.tensor([0, 0]))
    assert scores.isfinite().all()


def test_every_kind_has_a_configuration_and_a_class():
    assert set(CLASSIFIER_KINDS) == set(CLASSIFIERS)
    with pytest.raises(UserError, match=r"model\.kind = 'recurent': did you mean 'recurrent'"):
        build_classifier({"kind": "recurent"}, 10, 2)
    with pytest.raises(
        UserError, match=r"model\.hiden_size: no such key: did you mean 'hidden_size'"
    ):
        build_classifier({"kind": "recurrent", "hiden_size": 3}, 10, 2)


def test_ngrams_lean_as_naive_bayes_counts_them():
    texts, labels = [[5, 6], [5, 7], [8, 6], [8, 7]], [0, 0, 1, 1]
    model = NgramClassifier(10, 2, max_n=2, min_count=1)
    model.prepare(texts, labels)
    five, six = model.featurize([5])[0], model.featurize([6])[0]
    # Of 8 kinds of n-gram, each class has 6 with a count; one is added to each count.
    assert model.ratios[five, 0].item() == pytest.approx(np.log((3 / 14) / (1 / 14)))
    assert model.ratios[six].tolist() == pytest.approx([0.0, 0.0])
    assert model.ratios[five, 0].item() == pytest.approx(-model.ratios[five, 1].item())
    assert len(model.featurize([5, 6])) == 3  # two words and a pair
    assert len(model.featurize([6, 5])) == 2  # this pair was never counted
    assert len(model.featurize([5, 5, 5])) == 1  # however often


def test_ngrams_come_back_from_a_file():
    model = NgramClassifier(10, 2, min_count=1)
    model.prepare([[5, 6], [8, 7]], [0, 1])
    torch.nn.init.normal_(model.weights)
    again = NgramClassifier(10, 2, min_count=1)
    again.load_state_dict(model.state_dict())
    ids = torch.from_numpy(model.featurize([5, 6])).unsqueeze(0)
    torch.testing.assert_close(again(ids, torch.tensor([3])), model(ids, torch.tensor([3])))
    with pytest.raises(UserError, match="would not fit"):
        NgramClassifier(10_000, 2, max_n=9)


def test_too_few_texts_for_ngrams_are_told_by_their_number():
    model = NgramClassifier(10, 2, min_count=2)
    with pytest.raises(UserError, match="too few texts to learn from, 2 with 4 tokens"):
        model.prepare([[5, 6], [8, 7]], [0, 1])


@pytest.mark.parametrize("kind", CLASSIFIER_KINDS)
def test_the_dial_makes_a_model_larger_and_gives_way_to_what_is_said(kind):
    sizes = CLASSIFIER_KINDS[kind].sizes
    small, medium, large = (build_classifier({"kind": kind, "size": size}, 50, 3) for size in sizes)
    if kind != "ngrams":  # whose parameters come with its data
        counts = [sum(p.numel() for p in m.parameters()) for m in (small, medium, large)]
        assert counts[0] < counts[1] < counts[2]
    key, value = next(iter(sizes["small"].items()))
    said = parse_classifier_config({"kind": kind, "size": "large", key: value})
    assert (
        getattr(said, key) == parse_classifier_config({"kind": kind, "size": "small"}).__dict__[key]
    )
    with pytest.raises(UserError, match="size"):
        parse_classifier_config({"kind": kind, "size": "enormous"})
