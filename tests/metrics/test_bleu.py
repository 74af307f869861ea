"""BLEU and chrF against independent implementations and published values."""

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


def ngrams(tokens, n):
    return [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]


def multi_bleu(hypotheses, references):
    """Papineni's formula over words split at spaces: clipped matches, closest length."""
    matches, totals = [0] * 4, [0] * 4
    length = reference_length = 0
    for hypothesis, refs in zip(hypotheses, references, strict=True):
        words, refs = hypothesis.split(), [ref.split() for ref in refs]
        length += len(words)
        reference_length += min((abs(len(ref) - len(words)), len(ref)) for ref in refs)[1]
        for n in range(1, 5):
            totals[n - 1] += len(ngrams(words, n))
            for ngram in set(ngrams(words, n)):
                max_count = max(ngrams(ref, n).count(ngram) for ref in refs)
                matches[n - 1] += min(ngrams(words, n).count(ngram), max_count)
    if not all(matches):
        return 0.0
    brevity_penalty = min(1.0, math.exp(1 - reference_length / length))
    precisions = [m / t for m, t in zip(matches, totals, strict=True)]
    return 100 * brevity_penalty * math.prod(precisions) ** 0.25


def chrf(hypothesis, reference):
    """Popović's F2 over character n-grams up to 6, for a sentence of at least six characters."""
    precisions, recalls = [], []
    for n in range(1, 7):
        ours, theirs = (Counter(ngrams("".join(t.split()), n)) for t in (hypothesis, reference))
        matches = (ours & theirs).total()
        precisions.append(matches / ours.total())
        recalls.append(matches / theirs.total())
    p, r = sum(precisions) / 6, sum(recalls) / 6
    return 100 * 5 * p * r / (4 * p + r)


@given(PAIRS)
def test_tokenized_bleu_equals_multi_bleu(pairs):
    hypotheses, references = zip(*pairs, strict=True)
    result = score_tokenized_bleu(hypotheses, references, language="de")
    assert result.score == pytest.approx(multi_bleu(hypotheses, references))


@given(PAIRS)
def test_bleu_equals_multi_bleu_without_smoothing(pairs):
    hypotheses, references = zip(*pairs, strict=True)
    if expected := multi_bleu(hypotheses, references):
        assert score_translations(hypotheses, references).bleu.score == pytest.approx(expected)


def test_example_of_sacrebleu_readme():
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


def test_repeated_words_are_clipped():
    references = [["the cat is on the mat", "there is a cat on the mat"]]
    result = score_translations(["the the the the the the the"], references)
    assert result.bleu.precisions[0] == pytest.approx(100 * 2 / 7)


def test_chrf_equals_definition():
    hypothesis, reference = "the cat sat on the mat", "the cat lay on the mat"
    assert score_translations([hypothesis], [reference]).chrf.score == pytest.approx(
        chrf(hypothesis, reference)
    )


def test_scores_are_case_sensitive_unless_lowercased():
    upper, lower = ["EIN HUND RENNT SCHNELL."], ["ein Hund rennt schnell."]
    assert score_translations(upper, lower).bleu.score < 50
    lowercased = score_translations(upper, lower, lowercase=True)
    assert lowercased.bleu.score == pytest.approx(100)
    assert lowercased.chrf.score == pytest.approx(100)
    assert "case:lc" in lowercased.bleu.signature
    assert "case:lc" in lowercased.chrf.signature


def test_lowercasing_precedes_moses_tokenization():
    """Moses detects the end of a sentence inside a text by the capital letter after it."""
    references = ["Ein Mann am Ende. Er lacht über Dr. Müller."]
    hypotheses = [references[0].lower()]
    lowercased = score_tokenized_bleu(hypotheses, references, language="de", lowercase=True)
    assert lowercased.score == pytest.approx(100)
    assert lowercased.signature.startswith("tokenized BLEU (Moses de, lower case), sacremoses ")
    assert ", nrefs:1|case:lc|eff:no|tok:none|smooth:none|version:" in lowercased.signature
    strict = score_tokenized_bleu(hypotheses, references, language="de")
    assert strict.score < 50
    assert strict.signature.startswith("tokenized BLEU (Moses de, mixed case), ")


def test_tokenized_bleu_of_real_sentences(data):
    """Moses's escaping (&quot; for a quote) does not change the score."""
    path = data / "multi30k" / "test_2016_flickr.fr.gz"
    if not path.is_file():
        pytest.skip("no Multi30k")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        references = file.read().splitlines()[:300]
    hypotheses = [" ".join(line.split()[i % 4 : 9 + i % 7]) for i, line in enumerate(references)]
    tokenize = partial(MosesTokenizer("fr").tokenize, escape=True, return_str=True)
    expected = multi_bleu(
        [tokenize(text.lower()) for text in hypotheses],
        [[tokenize(text.lower())] for text in references],
    )
    result = score_tokenized_bleu(hypotheses, references, language="fr", lowercase=True)
    assert result.score == pytest.approx(expected)
    assert 10 < expected < 90


def test_empty_texts_score_zero():
    assert score_translations([""], ["ein Hund"]).bleu.score == 0
    assert score_translations(["ein Hund"], [""]).bleu.score == 0
    assert score_tokenized_bleu([" "], ["ein Hund"], language="de").score == 0


@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        ([], [], "nothing to score"),
        (["a"], ["a", "b"], r"as many references as hypotheses \(1\), got 2"),
        (["a", "b"], [["a", "b"]], r"as many references as hypotheses \(2\), got 1"),
        (["a", "b"], ["a", []], "sentence 2 has no reference"),
        ("ab", ["a", "b"], "a list with one text per sentence"),
        (["a", None], ["a", "b"], "sentence 2: expected texts, got NoneType"),
        (["a"], [[3]], "sentence 1: expected texts, got int"),
        (["a"], [3], "sentence 1: expected texts, got int"),
    ],
)
def test_inputs_that_do_not_match_are_rejected(hypotheses, references, message):
    with pytest.raises(UserError, match=message):
        score_translations(hypotheses, references)
    with pytest.raises(UserError, match=message):
        score_tokenized_bleu(hypotheses, references, language="en")


def test_unknown_language_is_rejected():
    with pytest.raises(UserError, match="no rules for language 'deu': did you mean 'de'"):
        score_tokenized_bleu(["a"], ["a"], language="deu")


def test_scoring_needs_no_torch():
    program = (
        "import sys, workings.metrics.bleu as b; b.score_translations(['a'], ['a']);"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert b"torch" not in done.stdout.split()


def test_missing_package_has_install_hint(monkeypatch):
    from workings.errors import install_command, install_hint

    for name in ("sacrebleu", "sacrebleu.metrics.chrf"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError) as missing:
        score_translations(["a"], ["a"])
    assert install_hint(missing.value) == install_command("translate")
