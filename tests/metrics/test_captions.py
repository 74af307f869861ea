"""Caption metrics against values of the COCO caption evaluation, and their bounds."""

import random
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workings.errors import UserError
from workings.metrics.bootstrap import compare_systems
from workings.metrics.captions import (
    PUNCTUATION,
    caption_bleu_metric,
    cider_metric,
    exact_match_metric,
    rouge_metric,
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


def make_captions(images, seed):
    """Return captions with errors, and references in which some words are frequent."""
    draw = random.Random(seed).random  # noqa: S311 - the same in every version of Python

    def word():
        return WORDS[int(len(WORDS) * draw() ** 3)]

    hypotheses, references = [], []
    for _ in range(images):
        count = 1 + int(5 * draw())
        words = [word() for _ in range(2 + int(14 * draw()))]
        refs = [
            " ".join(w if draw() < 0.7 else word() for w in words[: 1 + int(len(words) * draw())])
            for _ in range(count)
        ]
        corrupted = [w if draw() < 0.6 else word() for w in words]
        hypotheses.append(refs[0] if draw() < 0.1 else " ".join(corrupted))
        references.append(refs)
    return hypotheses, references


def make_captions_without_matches():
    _, references = make_captions(50, 9)
    return ["w39 w39"] * 50, references


# BLEU-1 to BLEU-4, CIDEr-D and ROUGE-L by the scorers Bleu, Cider and Rouge of pycocoevalcap 1.2,
# applied to these words without its tokenizer.
COCO_SCORES = [
    (
        (HYPOTHESES, REFERENCES),
        [0.8367346938604748, 0.7512053279120668, 0.6499241876296373, 0.5734616475643177],
        3.05890915465118,
        0.7362592576048268,
    ),
    (
        make_captions(200, 7),
        [0.5742331288340036, 0.41311462348343553, 0.30351242635672415, 0.23065323760406556],
        1.5331173741564936,
        0.6189180873920961,
    ),
    (
        make_captions(60, 8),
        [0.5374015748020917, 0.3825519109432266, 0.2810354165821472, 0.20372903387143956],
        1.3439078773364903,
        0.5631922555377908,
    ),
    (
        make_captions_without_matches(),
        [0.005168513344813628, 2.3114294363120582e-10, 3.022564940084993e-09, 1.0930074971057e-08],
        0.007592547236903438,
        0.002975609756097561,
    ),
]


@pytest.mark.parametrize(("texts", "bleu", "cider", "rouge"), COCO_SCORES)
def test_scores_equal_coco_evaluation(texts, bleu, cider, rouge):
    scores = score_captions(*texts)
    assert [score / 100 for score in scores.bleu] == pytest.approx(bleu, rel=1e-9)
    assert scores.cider / 100 == pytest.approx(cider, rel=1e-12)
    assert scores.rouge / 100 == pytest.approx(rouge, rel=1e-12)


@pytest.mark.parametrize(("texts", "bleu", "cider", "rouge"), COCO_SCORES)
def test_single_metrics_equal_score_captions(texts, bleu, cider, rouge):
    scores = score_captions(*texts)
    for n in range(1, 5):
        assert caption_bleu_metric(n).collect_statistics(*texts).score().score == scores.bleu[n - 1]
    assert cider_metric().collect_statistics(*texts).score().score == pytest.approx(scores.cider)
    assert rouge_metric().collect_statistics(*texts).score().score == pytest.approx(scores.rouge)
    assert exact_match_metric().collect_statistics(*texts).score().score == pytest.approx(
        scores.exact_match
    )


SENTENCES = st.lists(st.sampled_from(["a", "b", "c", "d's"]), max_size=8).map(" ".join)
IMAGES = st.lists(
    st.tuples(SENTENCES, st.lists(SENTENCES, min_size=1, max_size=4)), min_size=2, max_size=6
)


def compute_scores(images):
    scores = score_captions(*zip(*images, strict=True))
    return np.array([*scores.bleu, scores.cider, scores.rouge, scores.exact_match])


@given(IMAGES, st.randoms())
def test_scores_stay_in_bounds_and_ignore_order(images, rng):
    scores = compute_scores(images)
    assert (scores >= 0).all()
    assert (scores <= np.array([100, 100, 100, 100, 1000, 100, 100]) * (1 + 1e-12)).all()
    shuffled = [(text, rng.sample(refs, len(refs))) for text, refs in images]
    rng.shuffle(shuffled)
    assert compute_scores(shuffled) == pytest.approx(scores)


@given(st.integers(2, 6), st.integers(4, 9))
def test_caption_equal_to_reference_is_perfect(images, length):
    texts = [" ".join(f"w{i}x{j}" for j in range(length)) for i in range(images)]
    expected = [100, 100, 100, 100, 1000, 100, 100]
    assert compute_scores([(text, [text]) for text in texts]) == pytest.approx(expected)


@given(IMAGES)
def test_additional_reference_never_lowers_rouge_or_exact_match(images):
    """BLEU's brevity penalty and CIDEr's mean may get worse; these two take the best reference."""
    more = [(text, [*refs, text]) for text, refs in images]
    assert (compute_scores(more)[-2:] >= compute_scores(images)[-2:]).all()


def test_empty_captions_score_zero():
    scores = score_captions(["", "..."], [["a dog"], ["a cat", "the cat"]])
    assert max(scores.bleu) < 1e-3
    assert (scores.cider, scores.rouge, scores.exact_match) == (0, 0, 0)
    assert score_captions(["a dog", "a cat"], ["", ""]).rouge == 0


def test_single_image_has_no_cider():
    scores = score_captions(["a dog"], [["A dog!"]])
    assert scores.cider is None
    assert scores.exact_match == 100
    with pytest.raises(UserError, match="at least two images"):
        cider_metric().collect_statistics(["a dog"], [["a dog"]])


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
def test_tokenize_caption(text, words):
    assert tokenize_caption(text) == words.split()


@given(st.text())
def test_tokenize_caption_is_idempotent(text):
    words = tokenize_caption(text)
    assert tokenize_caption(" ".join(words)) == words
    assert not PUNCTUATION & set(words)


def test_signature_states_references_and_tokenization():
    scores = score_captions(HYPOTHESES, [refs[:1] for refs in REFERENCES])
    assert scores.signature.startswith(
        "nrefs:1|case:lc|tok:words,clitics-apart,no-punctuation|len:"
    )
    statistics = caption_bleu_metric(2).collect_statistics(HYPOTHESES, REFERENCES)
    assert statistics.signature.startswith("BLEU-2, nrefs:var|")


@pytest.mark.parametrize(
    "metric",
    [
        caption_bleu_metric(1),
        caption_bleu_metric(),
        rouge_metric(),
        exact_match_metric(),
    ],
)
def test_resampled_scores_equal_scores_of_resampled_captions(metric):
    worse, references = make_captions(12, 3)
    better = [references[k][0] if k % 2 else text for k, text in enumerate(worse)]
    result = compare_systems(worse, better, references, metric=metric, resamples=40, seed=3)
    rng = np.random.default_rng(3)
    scores = []
    for _ in range(40):
        sample = rng.integers(12, size=12)
        statistics = metric.collect_statistics(
            [better[i] for i in sample], [references[i] for i in sample]
        )
        scores.append(statistics.score().score)
    assert [result.system.low, result.system.high] == pytest.approx(sorted(scores)[1:-1:37])
    assert result.difference.value > 0


def test_bleu_order_above_4_is_rejected():
    with pytest.raises(UserError, match="order 1 to 4, got 5"):
        caption_bleu_metric(5)


def test_scoring_a_test_set_takes_seconds():
    hypotheses, references = make_captions(1000, 1)
    references = [[*refs, *refs, *refs, *refs, *refs][:5] for refs in references]
    start = time.process_time()
    score_captions(hypotheses, references)
    assert time.process_time() - start < 10  # about one second on an idle machine
