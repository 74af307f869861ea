"""Search for neurons: planted ones are found, and scores match scikit-learn and NumPy."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from workings.config import build
from workings.data import BytePairTokenizer, CharacterTokenizer
from workings.errors import UserError
from workings.interpret import neurons
from workings.interpret.neurons import (
    build_contrast,
    compute_association,
    compute_centered_ranks,
    compute_null_distribution,
    find_neurons,
    normalize_activations,
    search_neurons,
)
from workings.interpret.text_properties import Property, from_pattern, list_properties
from workings.models.language import build_language_model
from workings.recipes import LanguageRecipe

TEXT = 'He said: "Well, prince (so it is)." And the day\nwent on\n\n"Not for us," he cried.\n'
PROSE = list_properties("prose")
QUOTES = PROSE["quotes"]
MODELS = {
    "lstm": {"kind": "recurrent", "cell": "lstm", "d_model": 4, "hidden_size": 6, "layers": 2},
    "gru": {"kind": "recurrent", "cell": "gru", "d_model": 4, "hidden_size": 6},
    "rnn": {"kind": "recurrent", "cell": "rnn", "d_model": 4, "hidden_size": 6},
    "rotary": {"kind": "transformer", "d_model": 8, "layers": 2, "heads": 2, "d_ff": 12},
    "learned": {
        "kind": "transformer",
        "d_model": 8,
        "layers": 1,
        "heads": 2,
        "positions": "learned",
        "max_positions": 20,
    },
}


def random_prose(count):
    words = ["day", "prince", "war", "(so", "it is)", "said,", "he cried.\n", "\n\n"]
    return " ".join(np.random.default_rng(0).choice([*words, '"Well,', 'no"'], count))


def build_model(name, tokenizer):
    torch.manual_seed(0)
    recipe = build(LanguageRecipe, {"model": MODELS[name], "data": {"context_length": 16}})
    return build_language_model(recipe.model, len(tokenizer))


class PlantedActivations:
    """A source of given activations, whatever the text is."""

    warmup_tokens = 0

    def __init__(self, activations):
        self.activations, self.num_neurons = activations, activations.shape[1]

    def neuron_name(self, neuron):
        return f"cell {neuron}"

    def read_activations(self, positions, neurons=None):
        rows = self.activations[positions]
        return (rows if neurons is None else rows[:, neurons]).astype(np.float32)


def search(activations, text, properties, **options):
    spans = [(k, k + 1) for k in range(len(text))]
    return search_neurons(PlantedActivations(activations), text, spans, properties, **options)


def autoregressive(num_positions, num_neurons, seed=0, memory=0.98):
    """Return random activations that change slowly, like those of a model."""
    random = np.random.default_rng(seed)
    values = random.standard_normal((num_positions, num_neurons))
    for k in range(1, num_positions):
        values[k] += memory * values[k - 1]
    return values


# -- searching -----------------------------------------------------------------------------------


def test_planted_neuron_has_an_auc_of_1():
    text = random_prose(900)
    activations = autoregressive(len(text), 40)
    quoted = QUOTES.compute_values(text)
    activations[:, 17] = quoted * 2.0 - 1
    result = search(activations, text, [QUOTES])
    best = result["quotes"].neurons[0]
    assert (best.neuron, best.is_inverted) == ("cell 17", False)
    assert best.score == pytest.approx(1)
    assert best.p_value == 1 / (1 + result.num_shifts)
    assert result["quotes"].chance_level < 1
    scored = np.concatenate(np.array_split(quoted, 10)[1::2])
    assert len(scored) == result.num_scoring_tokens
    assert result["quotes"].prevalence == pytest.approx(scored.mean())


def test_inverted_neuron_is_found_with_a_positive_score():
    text, line = random_prose(900), PROSE["line"]
    activations = autoregressive(len(text), 12)
    values = line.compute_values(text)
    activations[:, 5] = np.random.default_rng(0).normal(size=len(text)) - values
    best = search(activations, text, [line])["line"].neurons[0]
    assert best.neuron == "cell 5"
    assert best.is_inverted
    assert best.score > 0.9
    scored = np.concatenate(np.array_split(np.arange(len(text)), 10)[1::2])
    exact = compute_association(activations[scored, 5:6], values[scored])
    assert best.score == pytest.approx(-exact[0], abs=1e-6)


def test_best_of_many_random_neurons_is_not_significant():
    text = random_prose(700)
    properties = [QUOTES, PROSE["line"]]
    p_values = []
    for seed in range(8):
        activations = autoregressive(len(text), 200, seed, memory=0.9)
        result = search(activations, text, properties, top=1)
        p_values += [result[prop.name].neurons[0].p_value for prop in properties]
    # Of sixteen searches, one in twenty may be significant by chance.
    assert np.median(p_values) > 0.2
    assert sum(p < 0.05 for p in p_values) <= 2


def test_neuron_with_opposite_sign_on_the_scoring_half_scores_below_chance():
    text = random_prose(900)
    parts = np.array_split(np.ones(len(text)), 10)
    signs = np.concatenate([part * (-1) ** k for k, part in enumerate(parts)])
    result = search((QUOTES.compute_values(text) * signs)[:, None], text, [QUOTES])
    assert result["quotes"].neurons[0].selection_score == pytest.approx(1)
    assert result["quotes"].neurons[0].score == pytest.approx(0, abs=1e-9)
    assert result["quotes"].neurons[0].p_value == 1.0


def test_positions_of_a_long_text_are_sampled(monkeypatch):
    monkeypatch.setattr(neurons, "MAX_ACTIVATIONS", 1000)
    text = random_prose(2000)
    activations = autoregressive(len(text), 2)
    activations[:, 1] = QUOTES.compute_values(text)
    result = search(activations, text, [QUOTES])
    assert result["quotes"].neurons[0].neuron == "cell 1"
    assert result["quotes"].neurons[0].score == pytest.approx(1)


def test_preceding_text_affects_the_properties():
    text = ("a" * 30 + '"' + "b" * 30) * 20
    activations = autoregressive(len(text), 2)
    inside = search(activations, text, [QUOTES], preceding_text='"')
    outside = search(activations, text, [QUOTES])
    assert inside["quotes"].prevalence + outside["quotes"].prevalence == pytest.approx(1)
    assert inside["quotes"].excerpt.marked_tokens != outside["quotes"].excerpt.marked_tokens


def test_constant_properties_are_left_out():
    text = random_prose(500)
    properties = [list_properties("c")["comments"], from_pattern("x", "x")]
    result = search(autoregressive(len(text), 3), text, properties)
    assert result.properties == []
    assert result.constant_properties == ["comments", "x"]
    assert "comments, x" in result.text(width=80)


@pytest.mark.parametrize(
    ("text", "names", "top", "message"),
    [
        ("short", ["quotes"], 1, "at least 400"),
        (None, ["quotes", "quotes"], 1, "two properties are called 'quotes'"),
        (None, ["quotes"], 0, "at least 1"),
    ],
)
def test_invalid_search_is_refused(text, names, top, message):
    text = text or random_prose(400)
    with pytest.raises(UserError, match=message):
        search(autoregressive(len(text), 2), text, [PROSE[name] for name in names], top=top)


@pytest.mark.parametrize("name", MODELS)
def test_neurons_of_every_model_are_found(name):
    text = TEXT * 14
    tokenizer = CharacterTokenizer.train([text])
    model = build_model(name, tokenizer).train()
    result = find_neurons(model, tokenizer, text, list(PROSE.values()), window=24)
    assert [prop.name for prop in result.properties] == ["quotes", "brackets", "line"]
    assert model.training
    for prop in result.properties:
        assert len(prop.neurons) == 3
        for neuron in prop.neurons:
            assert 0 <= neuron.p_value <= 1
            assert len(neuron.activations) == len(prop.excerpt.spans)
    assert "prince" not in json.dumps(result.to_dict())  # the text may be confidential
    repeated = find_neurons(model, tokenizer, text, list(PROSE.values()), window=24)
    assert repeated.to_dict() == result.to_dict()


def test_token_has_the_property_of_its_last_character():
    text = (TEXT + "naïve 🙂 ") * 60
    tokenizer = BytePairTokenizer.train([text], vocab_size=280)
    ends_in_e = Property("last", "", lambda t: [c == "e" for c in t])
    result = find_neurons(build_model("lstm", tokenizer), tokenizer, text, [ends_in_e], top=1)
    assert result.unit == "tokens"
    excerpt = result["last"].excerpt
    for k, (start, end) in enumerate(excerpt.spans):
        assert (k in excerpt.marked_tokens) == (excerpt.text[start:end][-1] == "e")
    assert all(a[1] <= b[0] for a, b in zip(excerpt.spans, excerpt.spans[1:], strict=False))
    assert "last character" in result.text(width=100)


def test_model_on_a_text_without_the_property():
    text = "no such thing here. " * 40
    tokenizer = CharacterTokenizer.train([text])
    table = {"kind": "recurrent", "d_model": 4, "hidden_size": 4}
    model = build_language_model(table, len(tokenizer)).eval()
    result = find_neurons(model, tokenizer, text, [from_pattern("x", "zzz")])
    assert result.properties == []
    assert result.constant_properties == ["x"]


# -- scores --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["smooth", "rounded", "relu"])
def test_auc_matches_scikit_learn(kind):
    from sklearn.metrics import roc_auc_score  # here, because the import takes a second

    random = np.random.default_rng(0)
    activations = random.standard_normal((700, 70))
    kinds = {
        "smooth": activations,
        "rounded": activations.round(1),
        "relu": activations.clip(0),
    }
    activations = kinds[kind]
    values = random.random(700) < 0.2 + 0.6 * (activations[:, 3] > 0)
    auc = (1 + compute_association(activations, values)) / 2
    expected = [roc_auc_score(values, neuron) for neuron in activations.T]
    assert auc == pytest.approx(expected, abs=1e-12)
    assert auc[3] > 0.7


def test_correlation_matches_numpy():
    random = np.random.default_rng(1)
    activations, values = random.standard_normal((500, 9)), random.standard_normal(500)
    expected = [np.corrcoef(neuron, values)[0, 1] for neuron in activations.T]
    assert compute_association(activations, values) == pytest.approx(expected, abs=1e-12)


@given(
    activations=arrays(float, (12, 2), elements=st.integers(-2, 2)),
    values=arrays(bool, 12, elements=st.booleans()),
)
def test_auc_counts_pairs_with_ties_as_half(activations, values):
    associations = compute_association(activations, values)
    if not 0 < values.sum() < 12:
        assert (associations == 0).all()
        return
    for neuron, association in zip(activations.T, associations, strict=True):
        pairs = np.sign(neuron[values][:, None] - neuron[~values][None, :])
        assert association == pytest.approx(pairs.mean(), abs=1e-12)


def test_constant_neuron_or_property_has_no_association():
    activations = np.stack([np.ones(50), np.arange(50.0)], 1)
    assert compute_association(activations, np.arange(50) > 30)[0] == 0
    assert compute_association(activations, np.arange(50.0))[0] == 0
    assert (compute_association(activations, np.zeros(50)) == 0).all()


def test_float32_is_precise_enough():
    random = np.random.default_rng(2)
    activations = random.standard_normal((40_000, 3)).astype(np.float32)
    values = random.random(40_000) < 0.3
    single = compute_centered_ranks(activations).T @ build_contrast(values).astype(np.float32)
    double = compute_association(activations.astype(float), values)
    assert single == pytest.approx(double, abs=1e-5)


def test_null_distribution_matches_single_shifts():
    random = np.random.default_rng(3)
    activations, values = random.standard_normal((300, 5)), random.random(300) < 0.4
    positions = np.sort(random.choice(300, 100, replace=False))
    shifts = [20, 77, 201]
    ranks = normalize_activations(activations[positions], use_ranks=True)
    expected = [
        np.abs(compute_association(activations[positions], np.roll(values, n)[positions])).max()
        for n in shifts
    ]
    null_scores = compute_null_distribution(ranks, values, positions, np.array(shifts))
    assert null_scores == pytest.approx(expected)
