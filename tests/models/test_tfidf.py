"""The TF-IDF classifier against scikit-learn's vectorizers, and its properties."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workings import UserError
from workings.data.tokenizers.characters import CharacterTokenizer
from workings.models import TfidfClassifier
from workings.models.tfidf import SMOOTHING

TEXTS = ["The cat sat.", "the  dog sat on a log", "A cat, a dog", "天气 很好 today", "x"]


def make_model(texts, labels=None, **settings):
    """Return a model that has counted the n-grams of texts, and its tokenizer."""
    tokenizer = CharacterTokenizer.train(texts)
    model = TfidfClassifier(len(tokenizer), 2, **{"min_count": 1, **settings})
    model.read_vocabulary([tokenizer.id_to_token(k) for k in range(len(tokenizer))])
    model.prepare([tokenizer.encode(text) for text in texts], labels or [0] * len(texts))
    return model, tokenizer


def vectors(model, tokenizer, texts):
    """Return the TF-IDF values of each text: words, then characters, each sorted by size."""
    rows = []
    for text in texts:
        ids = torch.from_numpy(model.featurize(tokenizer.encode(text))).long()
        values = model.compute_tfidf(ids[None])[0]
        is_word = ids <= model.num_words
        rows.append([sorted(values[is_word].tolist()), sorted(values[~is_word].tolist())])
    return rows


def test_vectors_are_those_of_scikit_learn():
    text = pytest.importorskip("sklearn.feature_extraction.text")
    texts = [t for t in TEXTS if t.isascii()]
    model, tokenizer = make_model(texts, max_words=2, max_characters=4)
    options = ({"token_pattern": r"\w+", "ngram_range": (1, 2)},
               {"analyzer": "char_wb", "ngram_range": (2, 4)})  # fmt: skip
    for part, option in enumerate(options):
        matrix = text.TfidfVectorizer(binary=True, **option).fit_transform(texts)
        for row, ours in zip(matrix, vectors(model, tokenizer, texts), strict=True):
            np.testing.assert_allclose(sorted(row.data), ours[part], rtol=1e-5)


def reference_ratios(texts, labels):
    """Return the log-ratios of naive Bayes over scikit-learn's vectors: each column sorted."""
    text = pytest.importorskip("sklearn.feature_extraction.text")
    options = ({"token_pattern": r"\w+", "ngram_range": (1, 2)},
               {"analyzer": "char_wb", "ngram_range": (2, 5)})  # fmt: skip
    x = np.hstack(
        [text.TfidfVectorizer(binary=True, **o).fit_transform(texts).toarray() for o in options]
    )
    ratios = []
    for column in np.asarray(labels).T:
        inside, outside = (x[column == value].sum(0) + SMOOTHING for value in (1, 0))
        ratios.append(sorted(np.log(inside / inside.sum()) - np.log(outside / outside.sum())))
    return np.array(ratios)


@pytest.mark.parametrize("labels", [[0, 1, 1, 0], [[1, 0], [1, 1], [0, 0], [0, 1]]])
def test_ratios_are_those_of_naive_bayes(labels):
    texts = ["The cat sat.", "the dog sat on a log", "A cat, a dog", "x"]
    model, _ = make_model(texts, labels)
    rows = np.eye(2)[labels] if np.ndim(labels) == 1 else labels
    ours = np.sort(model.ratios[1:].numpy().T, axis=1)
    np.testing.assert_allclose(ours, reference_ratios(texts, rows), atol=1e-5)
    assert not model.ratios[0].any()


def test_factors_of_one_are_naive_bayes():
    texts = ["good fine film", "fine day", "bad film", "awful bad day"]
    model, tokenizer = make_model(texts, [0, 0, 1, 1])
    with torch.no_grad():
        model.weights.fill_(1.0)
    for text, expected in (("fine", 0), ("bad", 1), ("a good one", 0)):
        ids = torch.from_numpy(model.featurize(tokenizer.encode(text))).long()
        assert int(model(ids[None], torch.tensor([len(ids)])).argmax()) == expected


@settings(deadline=None, max_examples=40)
@given(st.lists(st.text("ab C.天 é\n", max_size=12), min_size=1, max_size=6))
def test_texts_in_a_batch_have_the_features_that_they_have_alone(texts):
    model, tokenizer = make_model(["ab C. 天é", *texts])
    encoded = [tokenizer.encode(text) for text in texts]
    for batch, alone in zip(
        model.featurize_batch(encoded), map(model.featurize, encoded), strict=True
    ):
        assert batch.tolist() == alone.tolist()


def test_case_and_repeated_spaces_do_not_count():
    model, tokenizer = make_model(["The cat", "the CAT sat"])
    first, second = (
        model.featurize(tokenizer.encode(t)).tolist() for t in ("the cat", "The   CAT ")
    )
    assert first == second


def test_characters_of_unspaced_scripts_are_words():
    model, tokenizer = make_model(["天气很好", "很好"], max_characters=0)
    assert model.num_words == 4 + 3  # four characters and three pairs
    assert len(model.featurize(tokenizer.encode("很好"))) == 3


def test_the_most_frequent_ngrams_are_kept():
    model, _ = make_model(["a b", "a c", "a d"], max_features=4, max_characters=0)
    assert model.num_words == 1  # "a": of the others, which are equally frequent, none
    with pytest.raises(UserError, match="no n-gram is in 3 of them"):
        make_model(["a", "b"], min_count=3)


def test_unknown_characters_and_empty_texts():
    model, tokenizer = make_model(["ab", "cd"])
    assert model.featurize(tokenizer.encode("zz zz")).tolist() == []
    assert model.featurize([]).tolist() == []
    logits = model(torch.zeros(2, 1, dtype=torch.long), torch.ones(2, dtype=torch.long))
    assert torch.isfinite(logits).all()


def test_weights_are_loaded_into_a_new_model():
    model, _ = make_model(TEXTS)
    with torch.no_grad():
        model.weights.normal_()
    other = TfidfClassifier(model.vocab_size, 2)
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.weights, model.weights)
    assert other.num_words == model.num_words
    broken = {**model.state_dict(), "idf": torch.zeros(3)}
    with pytest.raises(RuntimeError, match="idf: expected the shape"):
        TfidfClassifier(model.vocab_size, 2).load_state_dict(broken)
