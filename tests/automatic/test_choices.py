"""Choices of models: valid recipes for any statistics, and the expected kinds for some."""

from hypothesis import given, settings
from hypothesis import strategies as st

from workings.automatic.choices import (
    MAX_NGRAM_WEIGHTS,
    choose_captioner,
    choose_classifiers,
    choose_language_model,
    choose_translator,
)
from workings.automatic.statistics import (
    CorpusStatistics,
    LabeledStatistics,
    PairStatistics,
    describe_examples,
)
from workings.data.readers import Example
from workings.recipes import build_recipe

FLOPS = 4e10


def labeled(rows=3000, mean=100.0, classes=2, unspaced=0.0):
    counts = tuple([max(rows // classes, 1)] * classes)
    return LabeledStatistics(rows, mean, int(mean * 5), unspaced, counts)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(2, 2_000_000),
    st.floats(1, 20_000),
    st.integers(2, 200),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.floats(0.01, 600),
)
def test_every_classifier_is_a_valid_recipe(rows, mean, classes, unspaced, minutes):
    choices = choose_classifiers(labeled(rows, mean, classes, unspaced), minutes)
    assert choices
    for choice in choices:
        model = build_recipe({"task": "classify", **choice.table}).model
        if choice.table["model"]["kind"] == "tf-idf":
            assert model.max_features * classes <= max(MAX_NGRAM_WEIGHTS, 500_000 * 16)


def kinds(statistics, minutes=5.0):
    return [choice.table["model"]["kind"] for choice in choose_classifiers(statistics, minutes)]


def test_kinds_of_classifiers():
    assert kinds(labeled()) == ["tf-idf", "tf-idf", "ngrams"]
    assert kinds(labeled(rows=20)) == ["tf-idf"]  # too few to compare
    assert kinds(labeled(unspaced=0.9)) == ["tf-idf", "tf-idf"]  # no words
    assert kinds(labeled(classes=50)) == ["tf-idf", "tf-idf"]  # weights for every class
    assert kinds(labeled(rows=1_000_000)) == ["ngrams"]  # too much for characters
    assert kinds(labeled(rows=1_000_000, classes=50)) == ["perceptron"]


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 10**9), st.integers(2, 20_000), st.floats(0.01, 600))
def test_every_language_model_is_a_valid_recipe(characters, alphabet, minutes):
    choice = choose_language_model(CorpusStatistics(characters, alphabet), minutes, FLOPS)
    recipe = build_recipe({"task": "language", **choice.table})
    assert recipe.data.context_length <= max(characters // 20, 2)
    # Measuring the held-out text after ten epochs takes less time than training.
    model, held_out = recipe.model, recipe.data.validation * characters
    weights = 12 * model.d_model**2 * model.layers + model.d_model * alphabet
    assert held_out <= 20_000 * 1.1 or 2 * held_out * weights <= 0.011 * 60 * minutes * FLOPS


def test_more_time_gives_larger_language_models_and_more_epochs_of_translation():
    corpus = CorpusStatistics(1_000_000, 65)
    widths = [
        choose_language_model(corpus, minutes, FLOPS).table["model"]["d_model"]
        for minutes in (0.1, 5, 120)
    ]
    assert widths == sorted(widths)
    assert widths[0] < widths[-1]
    pairs = PairStatistics(20_000, 7.0, 30.0, 0.0)
    epochs = [
        choose_translator(pairs, minutes, FLOPS).table["train"]["epochs"] for minutes in (1, 5)
    ]
    assert epochs[0] < epochs[1]


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 10**7), st.floats(0.1, 200), st.floats(0.01, 600))
def test_every_translator_and_captioner_is_a_valid_recipe(count, words, minutes):
    choice = choose_translator(PairStatistics(count, words, 3 * words, 0.0), minutes, FLOPS)
    recipe = build_recipe({"task": "translate", **choice.table})
    assert recipe.search.length_penalty == 0  # as transformers searches
    assert count * recipe.data.test < 1100  # sentences to translate at the end
    build_recipe({"task": "caption", **choose_captioner(count, minutes).table})


def test_statistics_of_examples():
    examples = [Example("天气很好", "a"), Example("abcd", "b"), Example("efgh", "b")]
    statistics = describe_examples(examples)
    assert (statistics.rows, statistics.characters, statistics.longest_characters) == (3, 12, 4)
    assert statistics.label_counts == (2, 1)
    assert round(statistics.unspaced, 3) == round(1 / 3, 3)
