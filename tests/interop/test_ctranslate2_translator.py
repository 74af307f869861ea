"""CTranslate2 finds the translations that our own search finds, with their scores."""

import sys

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workings.data.tokenizers.byte_pair import BytePairTokenizer
from workings.data.tokenizers.words import WordTokenizer
from workings.decode.beam import beam_search
from workings.decode.sampling import Sampling
from workings.errors import UserError
from workings.interop.conversion import export_translator
from workings.interop.ctranslate2 import AcceleratedBeamSearch, TranslationEngine
from workings.models.translation import SentenceBatch, build_translator
from workings.recipes import SearchConfig
from workings.tasks.translation import TokenizerPair, translate
from workings.trace import Trace

library = pytest.importorskip("ctranslate2")
pytestmark = pytest.mark.usefixtures("without_shape_checks")  # they take most of the time

STOP, SIZE = 3, 30
MEASURED = ("log_probability", "score")
KINDS = {
    "usual": {},
    "post": {"norm": "post"},
    "two vocabularies": {"share_embeddings": False},
    "untied": {"tie_embeddings": False, "activation": "gelu"},
    "post, two, untied": {"norm": "post", "share_embeddings": False, "tie_embeddings": False},
    "narrow": {"layers": 1, "heads": 1, "activation": "gelu-tanh"},
}


def made(name="usual", seed=0, ending=3.0, size=SIZE):
    """A translator whose weights all matter, and that ends its sentences by itself."""
    torch.manual_seed(seed)
    table = {"d_model": 16, "d_ff": 24, "layers": 2, "heads": 2, **KINDS[name]}
    model = build_translator(table, size - (name.find("two") > 0), size).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
        model.head.weight[STOP, 2:4] += ending  # where slow waves of the positions are
    return model


def sources(*lengths, seed=0):
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(4, SIZE - 1, (len(lengths), max(lengths)), generator=draw)
    lengths = torch.tensor(lengths)
    ids[torch.arange(len(lengths)), lengths - 1] = STOP
    return SentenceBatch(
        ids.masked_fill(torch.arange(ids.shape[1]) >= lengths[:, None], 0), lengths
    )


@pytest.mark.parametrize("name", KINDS)
@torch.no_grad()
def test_scores_are_ours(name):
    model, source = made(name), sources(5, 3, 9)
    targets = [[4, 5, 6, 20, 4], [], list(range(4, 20))]
    found = TranslationEngine(model, STOP).score_targets(source, targets)
    for k, length in enumerate(source.lengths.tolist()):
        alone = SentenceBatch(source.ids[k : k + 1, :length], source.lengths[k : k + 1])
        scores = model(alone, torch.tensor([[1, *targets[k]]])).log_softmax(-1)[0]
        expected = scores[torch.arange(len(targets[k]) + 1), [*targets[k], STOP]]
        torch.testing.assert_close(torch.tensor(found[k]), expected, atol=1e-4, rtol=0)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    name=st.sampled_from(list(KINDS)),
    seed=st.integers(0, 1000),
    ending=st.sampled_from([1.0, 3.0, 6.0]),
    beams=st.integers(1, 6),
    penalty=st.sampled_from([0.0, 0.6, 1.0, 2.0, -0.5]),
    longest=st.sampled_from([1, 2, 11, 25, [25, 2, 11, 25]]),
    data=st.data(),
)
def test_it_finds_what_our_search_finds(name, seed, ending, beams, penalty, longest, data):
    best = data.draw(st.sampled_from([1, beams]))
    model, source = made(name, seed, ending), sources(5, 2, 7, 3, seed=seed)
    how = {"max_length": longest, "beams": beams, "length_penalty": penalty}
    expected = beam_search(model, source, stop=STOP, **how)
    found = TranslationEngine(model, STOP).search(source, num_best=best, **how)
    for ours, theirs in zip(expected, found, strict=True):
        assert [h.tokens for h in theirs] == [h.tokens for h in ours[:best]]
        logs, scores = ([getattr(h, what) for h in ours[:best]] for what in MEASURED)
        assert [h.log_probability for h in theirs] == pytest.approx(logs, abs=1e-3)
        assert [h.score for h in theirs] == pytest.approx(scores, abs=1e-3)


def test_searches_end_by_themselves_go_on_and_are_cut(monkeypatch):
    """What the property above is worth: it has seen each of these."""
    asked, told = [], TranslationEngine._collect_hypotheses

    def followed(engine, some, beams, most):
        asked.append((len(some), most))
        return told(engine, some, beams, most)

    monkeypatch.setattr(TranslationEngine, "_collect_hypotheses", followed)
    lengths = set()
    how = {"max_length": 25, "beams": 4, "length_penalty": 1.0, "num_best": 1}
    for name, seed in (("usual", 2), ("post", 0), ("usual", 7)):
        found = TranslationEngine(made(name, seed), STOP).search(sources(5, 2, 7, 3), **how)
        lengths |= {len(best.tokens) for (best,) in found}
    again = sum(count for count, most in asked if most == 25)
    assert 0 < again < 12
    assert {0, 25} <= lengths
    assert len(lengths) > 3


def test_a_recurrent_model_is_refused():
    model = build_translator({"kind": "recurrent", "d_model": 8, "hidden_size": 8}, SIZE, SIZE)
    with pytest.raises(UserError, match="recurrent"):
        TranslationEngine(model, STOP)


# -- when it is used ---------------------------------------------------------------------------


def test_it_is_used_where_it_finds_the_same(monkeypatch):
    search, source = AcceleratedBeamSearch(made()), sources(5, 3)
    assert search.can_use_engine(source, 20, 5)
    assert not search.can_use_engine(source, 20, SIZE // 2 + 1)  # more than it can keep
    assert not search.can_use_engine(source, 5000, 5)
    assert not search.can_use_engine(sources(5, 1), 20, 5)
    with Trace(search.model, only="*.weights"):
        assert not search.can_use_engine(source, 20, 5)
    recurrent = build_translator({"kind": "recurrent", "d_model": 8, "hidden_size": 8}, SIZE, SIZE)
    assert not AcceleratedBeamSearch(recurrent).can_use_engine(source, 20, 5)
    monkeypatch.setattr("workings.interop.ctranslate2.find_spec", lambda _: None)
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    assert not search.can_use_engine(source, 20, 5)


@pytest.fixture
def words():
    tokenizer = WordTokenizer.train(
        ["a b c d e f g h i j k l m n o p q r s t u v w x y z"], with_eos=True
    )
    return TokenizerPair(tokenizer, tokenizer)


@pytest.mark.parametrize("best", [1, 3])
def test_texts_are_the_same_with_and_without_it(best, words, monkeypatch):
    model, texts = (
        made(size=len(words.target), ending=6.0),
        ["a b c", "", "x", "k l m n o p q r s t", "? a"],
    )
    how, search = SearchConfig(beams=4), AcceleratedBeamSearch(model, best)
    with torch.no_grad():
        ours = [found[:best] for found in translate(model, words, texts, how)]
        engines = list(translate(model, words, texts, how, search_function=search))
        monkeypatch.setattr("workings.interop.ctranslate2.find_spec", lambda _: None)
        without = list(translate(model, words, texts, how, search_function=search))
        drawn = [
            [t.text for (t,) in translate(model, words, texts, how, Sampling(seed=1), by)]
            for by in (None, search)
        ]
    assert without == ours
    assert [[t.text for t in some] for some in engines] == [[t.text for t in o] for o in ours]
    assert drawn[0] == drawn[1]
    assert len({t.text for some in ours for t in some}) > 2


# -- folders -----------------------------------------------------------------------------------


@pytest.mark.parametrize("joint", [True, False])
def test_an_exported_folder_is_read_by_ctranslate2(joint, tmp_path):
    texts = ["low lower lowest naïve 🙂 </s>"] * 20, ["new newer newest"] * 20
    if joint:
        both = BytePairTokenizer.train(texts[0] + texts[1], vocab_size=290, with_eos=True)
        words = TokenizerPair(both, both)
    else:
        words = TokenizerPair(
            *(BytePairTokenizer.train(some, vocab_size=290, with_eos=True) for some in texts), True
        )
    table = {"d_model": 16, "layers": 1, "heads": 2, "share_embeddings": joint}
    torch.manual_seed(0)
    model = build_translator(table, len(words.source), len(words.target)).eval()
    assert export_translator(model, words, "ctranslate2", tmp_path / "out") == []
    text = "lower" if joint else "LOWER"  # of which the file makes small letters
    from tokenizers import Tokenizer

    place = tmp_path / "out" if joint else tmp_path / "out" / "source"
    tokens = Tokenizer.from_file(str(place / "tokenizer.json")).encode(text).tokens
    engine = library.Translator(str(tmp_path / "out"), device="cpu")
    (told,) = engine.translate_batch([tokens], beam_size=3, min_decoding_length=0, length_penalty=0)
    with torch.no_grad():
        ids = torch.tensor([words.encode_source(text)])
        source = SentenceBatch(ids, torch.tensor([ids.shape[1]]))
        (found,) = beam_search(model, source, stop=STOP, max_length=256, beams=3)
    assert told.hypotheses[0] == [words.target.id_to_token(k) for k in found[0].tokens]


def test_what_cannot_be_exported(words, tmp_path):
    with pytest.raises(UserError, match="of a translator"):
        export_translator(made(), words, "gpt2", tmp_path / "out")
    spelt = TokenizerPair(WordTokenizer(["</s>", "a"], with_eos=True), words.target)
    model = build_translator(
        {"d_model": 8, "heads": 1, "share_embeddings": False}, 6, len(words.target)
    )
    with pytest.raises(UserError, match="a mark in one language"):
        export_translator(model, spelt, "ctranslate2", tmp_path / "out")
    assert not (tmp_path / "out").exists()
