"""Byte pairs that fall apart by chance: the same texts, by the paper's odds, repeatably."""

from collections import Counter

import numpy as np
import pytest
from tokenizers import Tokenizer as Engine
from tokenizers import models

from workings.config import build
from workings.data.tokenizers.bpe_dropout import BPEDropout
from workings.data.tokenizers.byte_pair import BytePairTokenizer
from workings.errors import UserError
from workings.recipes import TranslationRecipe

TEXTS = ["low lower lowest", "", "naïve 🙂 it's lower,  slowly\n", "lower"]


@pytest.fixture(scope="module")
def pieces():
    return BytePairTokenizer.train(TEXTS * 10, vocab_size=290)


def drawn(pieces, texts, share, seed=0, epoch=0):
    return [ids.tolist() for ids in BPEDropout(pieces, texts, share, f"{seed}").sample_epoch(epoch)]


def test_with_nothing_left_out_they_are_the_usual_ones(pieces):
    assert drawn(pieces, TEXTS, 0.0) == [pieces.encode(text) for text in TEXTS]


def test_with_all_but_everything_left_out_they_are_bytes(pieces):
    found = drawn(pieces, TEXTS, 1 - 1e-12)
    assert [len(ids) for ids in found] == [len(text.encode()) for text in TEXTS]


@pytest.mark.parametrize("share", [0.05, 0.3, 0.8])
def test_the_texts_stay(pieces, share):
    for epoch in range(5):
        found = drawn(pieces, TEXTS, share, epoch=epoch)
        assert [pieces.decode(ids) for ids in found] == TEXTS


def test_an_epoch_is_always_the_same_and_no_other_is(pieces):
    texts = ["lower lowest slowly"] * 30
    first = drawn(pieces, texts, 0.3)
    assert first == drawn(pieces, texts, 0.3)
    assert first != drawn(pieces, texts, 0.3, epoch=1)
    assert first != drawn(pieces, texts, 0.3, seed=1)
    assert len(set(map(tuple, first))) > 5  # of one word, not always the same


def test_without_texts_there_is_nothing(pieces):
    assert drawn(pieces, ["", ""], 0.1) == [[], []]
    assert drawn(pieces, [], 0.1) == []


@pytest.mark.parametrize("word", ["lower", "banana"])
def test_words_fall_apart_as_often_as_by_another_program(word):
    """The engine has the same draw, but nothing to seed it with."""
    pieces = BytePairTokenizer.train([word] * 5 + ["low", "er", "an", "nan"] * 9, vocab_size=275)
    vocabulary = {pieces.id_to_token(i): i for i in range(len(pieces))}
    theirs = Engine(models.BPE(vocab=vocabulary, merges=list(pieces.merges), dropout=0.3))
    count = 2000
    other = Counter(tuple(theirs.encode(word).ids) for _ in range(count))

    def apart(share):
        loose = BPEDropout(pieces, [word], share, "odds")
        ours = Counter(tuple(loose.sample_epoch(epoch)[0].tolist()) for epoch in range(count))
        return sum(abs(ours[ids] - other[ids]) for ids in {*ours, *other}) / (2 * count)

    assert len(other) > 5
    assert apart(0.3) < 0.08  # two samples of the engine's differ by 0.03 or so
    assert apart(0.2) > 0.1


def test_every_epoch_is_drawn_anew(pieces):
    """No word that can fall apart is spared for good, however often it is read."""
    loose = BPEDropout(pieces, ["low " * 100], 0.05, "0")
    found = [loose.sample_epoch(epoch)[0].tolist() for epoch in range(60)]
    usual = pieces.encode("low " * 100)
    assert sum(ids != usual for ids in found) / len(found) > 0.5


def test_a_sentence_without_spaces_stays_as_it_is(pieces):
    text = "一" * 400
    assert drawn(pieces, [text], 0.5) == [pieces.encode(text)]


def test_each_word_is_drawn_on_its_own(pieces):
    """Of many words of one text some fall apart and some do not, whatever their neighbours do."""
    ids = np.array(drawn(pieces, ["lower " * 300], 0.1)[0])
    usual = pieces.encode(" lower")
    whole = sum(ids[k : k + len(usual)].tolist() == usual for k in range(len(ids)))
    assert 30 < whole < 270


def test_only_byte_pairs_fall_apart():
    told = r"^tokenizer\.dropout = 0\.1: only byte-pair merges anything; with words, 0$"
    with pytest.raises(UserError, match=told):
        build(TranslationRecipe, {"tokenizer": {"kind": "words", "dropout": 0.1}})
    with pytest.raises(UserError, match=r"^tokenizer\.dropout = 1\.5: from 0 to below 1$"):
        build(TranslationRecipe, {"tokenizer": {"dropout": 1.5}})
