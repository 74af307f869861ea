"""Caption measures against the figures that the COCO caption evaluation gives, and their bounds."""

import random
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workings.errors import UserError
from workings.metrics import captions
from workings.metrics.bootstrap import compare_systems
from workings.metrics.captions import (
    PUNCTUATION,
    caption_bleu_metric,
    score_captions,
    tokenize_caption,
)

HYPOTHESES = [
    "a dog runs through the snow",
    "a man in a red shirt rides a bike down a hill",
    "two children play in the the the sand",
    "a woman",
    "a black dog and a white dog are fighting over a stick in the green grass near a tree",
    "people sit",
]
REFERENCES = [
    ["a brown dog runs through deep snow", "the dog is running in the snow", "a dog in snow"],
    ["a man in a red shirt rides a bike down a hill"],
    ["two kids play in the sand", "two children are digging in the sand on the beach"],
    ["a woman in a blue dress stands by a car", "a woman", "woman smiling at the camera"],
    ["a black dog and a white dog fight over a stick", "two dogs fight in the grass"],
    ["some people are sitting on a bench", "a group sits outside", "men", "a b c d e f g h"],
]
WORDS = [f"w{k}" for k in range(40)]


def made_up(images, seed):
    """Sentences of which some words are frequent, and captions that are one of them spoilt."""
    dice = random.Random(seed).random  # noqa: S311 - the same in every version of Python

    def word():
        return WORDS[int(len(WORDS) * dice() ** 3)]

    hypotheses, references = [], []
    for _ in range(images):
        count = 1 + int(5 * dice())
        about = [word() for _ in range(2 + int(14 * dice()))]
        refs = [
            " ".join(w if dice() < 0.7 else word() for w in about[: 1 + int(len(about) * dice())])
            for _ in range(count)
        ]
        spoilt = [w if dice() < 0.6 else word() for w in about]
        hypotheses.append(refs[0] if dice() < 0.1 else " ".join(spoilt))
        references.append(refs)
    return hypotheses, references


def nothing_in_common():
    _, references = made_up(50, 9)
    return ["w39 w39"] * 50, references


# BLEU-1 to BLEU-4, CIDEr-D and ROUGE-L by pycocoevalcap 1.2: by its scorers Bleu, Cider and Rouge,
# given these words as they are, without its tokenizer.
KNOWN = [
    (
        (HYPOTHESES, REFERENCES),
        [0.8367346938604748, 0.7512053279120668, 0.6499241876296373, 0.5734616475643177],
        3.05890915465118,
        0.7362592576048268,
    ),
    (
        made_up(200, 7),
        [0.5742331288340036, 0.41311462348343553, 0.30351242635672415, 0.23065323760406556],
        1.5331173741564936,
        0.6189180873920961,
    ),
    (
        made_up(60, 8),
        [0.5374015748020917, 0.3825519109432266, 0.2810354165821472, 0.20372903387143956],
        1.3439078773364903,
        0.5631922555377908,
    ),
    (
        nothing_in_common(),
        [0.005168513344813628, 2.3114294363120582e-10, 3.022564940084993e-09, 1.0930074971057e-08],
        0.007592547236903438,
        0.002975609756097561,
    ),
]


@pytest.mark.parametrize(("texts", "bleu", "cider", "rouge"), KNOWN)
def test_figures_are_those_of_the_coco_evaluation(texts, bleu, cider, rouge):
    found = score_captions(*texts)
    assert [figure / 100 for figure in found.bleu] == pytest.approx(bleu, rel=1e-9)
    assert found.cider / 100 == pytest.approx(cider, rel=1e-12)
    assert found.rouge / 100 == pytest.approx(rouge, rel=1e-12)


@pytest.mark.parametrize(("texts", "bleu", "cider", "rouge"), KNOWN)
def test_a_measure_by_itself_is_that_of_the_set(texts, bleu, cider, rouge):
    found = score_captions(*texts)
    for n in range(1, 5):
        assert caption_bleu_metric(n).collect_statistics(*texts).score().score == found.bleu[n - 1]
    assert captions.cider_metric().collect_statistics(*texts).score().score == pytest.approx(
        found.cider
    )
    assert captions.rouge_metric().collect_statistics(*texts).score().score == pytest.approx(
        found.rouge
    )
    assert captions.exact_match_metric().collect_statistics(*texts).score().score == pytest.approx(
        found.exact_match
    )


SENTENCES = st.lists(st.sampled_from(["a", "b", "c", "d's"]), max_size=8).map(" ".join)
IMAGES = st.lists(
    st.tuples(SENTENCES, st.lists(SENTENCES, min_size=1, max_size=4)), min_size=2, max_size=6
)


def figures(images):
    found = score_captions(*zip(*images, strict=True))
    return np.array([*found.bleu, found.cider, found.rouge, found.exact_match])


@given(IMAGES, st.randoms())
def test_figures_keep_their_bounds_whatever_the_order(images, dice):
    found = figures(images)
    assert (found >= 0).all()
    assert (found <= np.array([100, 100, 100, 100, 1000, 100, 100]) * (1 + 1e-12)).all()
    shuffled = [(text, dice.sample(refs, len(refs))) for text, refs in images]
    dice.shuffle(shuffled)
    assert figures(shuffled) == pytest.approx(found)


@given(st.integers(2, 6), st.integers(4, 9))
def test_what_a_reference_says_is_perfect(images, length):
    texts = [" ".join(f"w{i}x{j}" for j in range(length)) for i in range(images)]
    expected = [100, 100, 100, 100, 1000, 100, 100]
    assert figures([(text, [text]) for text in texts]) == pytest.approx(expected)


@given(IMAGES)
def test_another_reference_is_never_worse_for_the_words_found(images):
    """BLEU's brevity and CIDEr's mean may suffer; ROUGE-L and exact match take the best."""
    more = [(text, [*refs, text]) for text, refs in images]
    assert (figures(more)[-2:] >= figures(images)[-2:]).all()


def test_silence_is_worth_nothing():
    found = score_captions(["", "..."], [["a dog"], ["a cat", "the cat"]])
    assert max(found.bleu) < 1e-3
    assert (found.cider, found.rouge, found.exact_match) == (0, 0, 0)
    assert score_captions(["a dog", "a cat"], ["", ""]).rouge == 0


def test_one_image_has_no_cider():
    found = score_captions(["a dog"], [["A dog!"]])
    assert found.cider is None
    assert found.exact_match == 100
    with pytest.raises(UserError, match="two images or more"):
        captions.cider_metric().collect_statistics(["a dog"], [["a dog"]])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A man (with a T-shirt) - smiling ...", "a man with a t-shirt smiling"),
        ('the dogs\' bowl, the dog’s "bone"', "the dogs bowl the dog 's bone"),
        ("They can't; we'll see - it's 1,000.5 m!", "they ca n't we 'll see it 's 1,000.5 m"),
        ("R&B at 50 %", "r & b at 50 %"),
        ("Ein Mädchen läuft", "ein mädchen läuft"),
        ("cafe\u0301", "café"),
        (" \n\t", ""),
    ],
)
def test_words(text, words):
    assert tokenize_caption(text) == words.split()


@given(st.text())
def test_words_cut_once_are_cut(text):
    words = tokenize_caption(text)
    assert tokenize_caption(" ".join(words)) == words
    assert not PUNCTUATION & set(words)


def test_the_signature_tells_how():
    found = score_captions(HYPOTHESES, [refs[:1] for refs in REFERENCES])
    assert found.signature.startswith("nrefs:1|case:lc|tok:words,clitics-apart,no-punctuation|len:")
    measured = caption_bleu_metric(2).collect_statistics(HYPOTHESES, REFERENCES)
    assert measured.signature.startswith("BLEU-2, nrefs:var|")


@pytest.mark.parametrize(
    "measure",
    [
        caption_bleu_metric(1),
        caption_bleu_metric(),
        captions.rouge_metric(),
        captions.exact_match_metric(),
    ],
)
def test_resampled_counts_are_captions_scored_again(measure):
    worse, references = made_up(12, 3)
    better = [references[k][0] if k % 2 else text for k, text in enumerate(worse)]
    found = compare_systems(worse, better, references, metric=measure, resamples=40, seed=3)
    dice = np.random.default_rng(3)
    scores = []
    for _ in range(40):
        drawn = dice.integers(12, size=12)
        again = measure.collect_statistics(
            [better[i] for i in drawn], [references[i] for i in drawn]
        )
        scores.append(again.score().score)
    assert [found.system.low, found.system.high] == pytest.approx(sorted(scores)[1:-1:37])
    assert found.difference.value > 0


def test_bleu_of_five_words_is_not_asked_for():
    with pytest.raises(UserError, match="1 to 4 words in a row, got 5"):
        caption_bleu_metric(5)


def test_a_test_set_is_scored_while_one_waits():
    hypotheses, references = made_up(1000, 1)
    references = [[*refs, *refs, *refs, *refs, *refs][:5] for refs in references]
    start = time.process_time()
    score_captions(hypotheses, references)
    assert time.process_time() - start < 10  # a second, on a machine that is not busy
