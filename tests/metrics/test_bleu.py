"""BLEU and chrF against their definitions, written out once more, and against printed numbers."""

import gzip
import math
import subprocess
import sys
from collections import Counter
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacremoses import MosesTokenizer

from workings.errors import UserError
from workings.metrics.bleu import score_tokenized_bleu, score_translations

WORDS = st.lists(st.sampled_from(["ab", "c", "d"]), max_size=8).map(" ".join)
PAIRS = st.lists(st.tuples(WORDS, st.lists(WORDS, min_size=1, max_size=3)), min_size=1, max_size=6)

# The example of sacreBLEU's README: three sentences, two references each.
SYSTEM = ["The dog bit the man.", "It wasn't surprising.", "The man had just bitten him."]
FIRST = ["The dog bit the man.", "It was not unexpected.", "The man bit him first."]
SECOND = ["The dog had bit the man.", "No one was surprised.", "The man had bitten the dog."]
BOTH = list(zip(FIRST, SECOND, strict=True))


def grams(tokens, n):
    return [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]


def multi_bleu(hypotheses, references):
    """Papineni's formula over what stands between spaces: clipped matches, the closest length."""
    right, made = [0] * 4, [0] * 4
    length = reference_length = 0
    for hypothesis, refs in zip(hypotheses, references, strict=True):
        words, refs = hypothesis.split(), [ref.split() for ref in refs]
        length += len(words)
        reference_length += min((abs(len(ref) - len(words)), len(ref)) for ref in refs)[1]
        for n in range(1, 5):
            made[n - 1] += len(grams(words, n))
            for gram in set(grams(words, n)):
                most = max(grams(ref, n).count(gram) for ref in refs)
                right[n - 1] += min(grams(words, n).count(gram), most)
    if not all(right):
        return 0.0
    brevity = min(1.0, math.exp(1 - reference_length / length))
    return 100 * brevity * math.prod(r / m for r, m in zip(right, made, strict=True)) ** 0.25


def chrf(hypothesis, reference):
    """Popović's F2 over up to six characters, for one sentence that has that many."""
    precisions, recalls = [], []
    for n in range(1, 7):
        ours, theirs = (Counter(grams("".join(t.split()), n)) for t in (hypothesis, reference))
        same = (ours & theirs).total()
        precisions.append(same / ours.total())
        recalls.append(same / theirs.total())
    p, r = sum(precisions) / 6, sum(recalls) / 6
    return 100 * 5 * p * r / (4 * p + r)


@given(PAIRS)
def test_tokenised_bleu_is_multi_bleus(pairs):
    hypotheses, references = zip(*pairs, strict=True)
    found = score_tokenized_bleu(hypotheses, references, language="de")
    assert found.score == pytest.approx(multi_bleu(hypotheses, references))


@given(PAIRS)
def test_bleu_is_multi_bleus_where_nothing_is_smoothed(pairs):
    hypotheses, references = zip(*pairs, strict=True)
    if expected := multi_bleu(hypotheses, references):
        assert score_translations(hypotheses, references).bleu.score == pytest.approx(expected)


def test_the_example_that_sacrebleu_prints():
    scores = score_translations(SYSTEM, BOTH)
    assert round(scores.bleu.score, 2) == 48.53
    assert [round(p, 1) for p in scores.bleu.precisions] == [82.4, 50.0, 45.5, 37.5]
    assert round(scores.bleu.brevity_penalty, 3) == 0.943
    assert (scores.bleu.hypothesis_length, scores.bleu.reference_length) == (17, 18)
    assert round(scores.chrf.score, 2) == 59.73
    assert scores.bleu.signature.startswith("nrefs:2|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert scores.chrf.signature.startswith(
        "nrefs:2|case:mixed|eff:yes|nc:6|nw:0|space:no|version:"
    )


def test_papinenis_words_are_clipped():
    references = [["the cat is on the mat", "there is a cat on the mat"]]
    found = score_translations(["the the the the the the the"], references)
    assert found.bleu.precisions[0] == pytest.approx(100 * 2 / 7)


def test_chrf_is_popovics():
    hypothesis, reference = "the cat sat on the mat", "the cat lay on the mat"
    assert score_translations([hypothesis], [reference]).chrf.score == pytest.approx(
        chrf(hypothesis, reference)
    )


def test_case_counts_unless_told_otherwise():
    upper, lower = ["EIN HUND RENNT SCHNELL."], ["ein Hund rennt schnell."]
    assert score_translations(upper, lower).bleu.score < 50
    loose = score_translations(upper, lower, lowercase=True)
    assert loose.bleu.score == pytest.approx(100)
    assert loose.chrf.score == pytest.approx(100)
    assert "case:lc" in loose.bleu.signature
    assert "case:lc" in loose.chrf.signature


def test_a_model_that_knows_no_capitals_is_cut_as_its_references_are():
    """A sentence within a text ends where a capital follows, says Moses."""
    references = ["Ein Mann am Ende. Er lacht über Dr. Müller."]
    hypotheses = [references[0].lower()]
    loose = score_tokenized_bleu(hypotheses, references, language="de", lowercase=True)
    assert loose.score == pytest.approx(100)
    assert loose.signature.startswith("tokenised BLEU (Moses de, lower case), sacremoses ")
    assert ", nrefs:1|case:lc|eff:no|tok:none|smooth:none|version:" in loose.signature
    strict = score_tokenized_bleu(hypotheses, references, language="de")
    assert strict.score < 50
    assert strict.signature.startswith("tokenised BLEU (Moses de, mixed case), ")


def test_real_sentences_in_words_of_moses(data):
    """Escaped as Moses has it (&quot; for a quote), or as they are: the score is the same."""
    path = data / "multi30k" / "test_2016_flickr.fr.gz"
    if not path.is_file():
        pytest.skip("no Multi30k")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        references = file.read().splitlines()[:300]
    hypotheses = [" ".join(line.split()[i % 4 : 9 + i % 7]) for i, line in enumerate(references)]
    cut = partial(MosesTokenizer("fr").tokenize, escape=True, return_str=True)
    expected = multi_bleu(
        [cut(text.lower()) for text in hypotheses], [[cut(text.lower())] for text in references]
    )
    found = score_tokenized_bleu(hypotheses, references, language="fr", lowercase=True)
    assert found.score == pytest.approx(expected)
    assert 10 < expected < 90


def test_silence_is_worth_nothing():
    assert score_translations([""], ["ein Hund"]).bleu.score == 0
    assert score_translations(["ein Hund"], [""]).bleu.score == 0
    assert score_tokenized_bleu([" "], ["ein Hund"], language="de").score == 0


@pytest.mark.parametrize(
    ("hypotheses", "references", "told"),
    [
        ([], [], "nothing to score"),
        (["a"], ["a", "b"], r"as many references as hypotheses \(1\), got 2"),
        (["a", "b"], [["a", "b"]], r"as many references as hypotheses \(2\), got 1"),
        (["a", "b"], ["a", []], "sentence 2 has no reference"),
        ("ab", ["a", "b"], "a list with a text for each sentence"),
        (["a", None], ["a", "b"], "sentence 2"),
        (["a"], [[3]], "sentence 1"),
        (["a"], [3], "sentence 1"),
    ],
)
def test_what_does_not_fit_together(hypotheses, references, told):
    with pytest.raises(UserError, match=told):
        score_translations(hypotheses, references)
    with pytest.raises(UserError, match=told):
        score_tokenized_bleu(hypotheses, references, language="en")


def test_a_language_that_moses_does_not_know():
    with pytest.raises(UserError, match="no language 'deu': did you mean 'de'"):
        score_tokenized_bleu(["a"], ["a"], language="deu")


def test_scoring_needs_no_torch():
    program = (
        "import sys, workings.metrics.bleu as b; b.score_translations(['a'], ['a']);"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert b"torch" not in done.stdout.split()


def test_what_is_missing_is_named(monkeypatch):
    from workings.errors import install_hint

    for name in ("sacrebleu", "sacrebleu.metrics.chrf"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError) as missing:
        score_translations(["a"], ["a"])
    assert install_hint(missing.value) == 'pip install "workings[translate]"'
