"""CTranslate2's engines compute what our models compute, and generate what they generate."""

import sys

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workings.data import WordTokenizer
from workings.data.tokenizers.base import TokenizerPair
from workings.decode import GREEDY, Sampling, beam_search, generate
from workings.errors import UserError
from workings.interop import ctranslate2
from workings.interop.ctranslate2 import (
    AcceleratedBeamSearch,
    AcceleratedGenerator,
    GenerationEngine,
    TranslationEngine,
)
from workings.models.language import build_language_model
from workings.models.translation import SentenceBatch, build_translator
from workings.recipes import SearchConfig
from workings.tasks.translation import translate
from workings.trace import Trace

pytest.importorskip("ctranslate2")
pytestmark = pytest.mark.usefixtures("without_shape_checks")  # they would take most of the time

RECURRENT = {"kind": "recurrent", "d_model": 8, "hidden_size": 8}


# -- language models -------------------------------------------------------------------------------

LM_VOCAB_SIZE = 60
LANGUAGE_MODELS = {
    "rotary": {},
    "learned": {"positions": "learned", "max_positions": 200},
    "sinusoidal": {"positions": "sinusoidal"},
    "grouped queries": {"kv_heads": 2},
    "multi-query": {"kv_heads": 1},
    "learned, grouped queries": {"positions": "learned", "max_positions": 200, "kv_heads": 2},
    "untied": {"tie_embeddings": False},
    "post-norm": {"norm": "post", "tie_embeddings": False},
    "post-norm, tied": {"norm": "post"},
    "relu": {"activation": "relu", "d_ff": 40},
    "gelu-tanh": {"activation": "gelu-tanh"},
    "llama": {
        "norm_kind": "rms",
        "activation": "silu",
        "gated": True,
        "bias": False,
        "kv_heads": 2,
    },
    "gpt-neox": {"rotary_fraction": 0.5, "parallel_residual": True, "rotary_base": 500.0},
    "gated gelu, larger epsilon": {"activation": "gelu", "gated": True, "norm_eps": 0.1},
    "one layer, one head": {"layers": 1, "heads": 1},
}


@pytest.fixture(params=["chunks", "stream"])
def both_modes(request, monkeypatch):
    """Small models generate chunks of tokens, and large ones a stream."""
    if request.param == "stream":
        monkeypatch.setattr(ctranslate2, "_SMALL_MODEL_PARAMETERS", 0)


def make_language_model(name="rotary", **changes):
    torch.manual_seed(0)
    table = {"d_model": 32, "layers": 3, "heads": 4, **LANGUAGE_MODELS[name], **changes}
    model = build_language_model(table, LM_VOCAB_SIZE).eval()
    with torch.no_grad():  # biases and norms have an effect, and no token repeats forever
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    return model


def sample_ids(*shape):
    return torch.randint(0, LM_VOCAB_SIZE, shape, generator=torch.Generator().manual_seed(0))


def to_tokens(stream):
    return [int(token) for token, _ in stream]


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_logits_equal_ours(name):
    model, ids = make_language_model(name), sample_ids(2, 150)
    with torch.no_grad():
        expected, _ = model(ids)
    logits = GenerationEngine(model).compute_logits(ids)
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=0)
    assert expected.std() > 0.3
    assert (expected[:, 1:] - expected[:, :-1]).abs().max() > 1


@pytest.mark.usefixtures("both_modes")
@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_greedy_tokens_and_logits_equal_ours(name):
    model, prompt = make_language_model(name), sample_ids(1, 7)
    expected = list(generate(model, prompt, 40, GREEDY))
    generated = list(GenerationEngine(model).generate(prompt, 40))
    assert to_tokens(generated) == to_tokens(expected)
    assert len(set(to_tokens(generated))) > 2
    for (_, ours), (_, theirs) in zip(expected, generated, strict=True):
        torch.testing.assert_close(theirs, ours, atol=1e-4, rtol=0)


@pytest.mark.usefixtures("both_modes")
@pytest.mark.parametrize(
    ("max_positions", "prompt_length", "count"),
    [(10, 1, 45), (10, 9, 45), (10, 10, 45), (10, 11, 45), (10, 30, 45), (1, 3, 5)],
)
def test_generation_continues_beyond_the_last_position(max_positions, prompt_length, count):
    model = make_language_model("learned", max_positions=max_positions)
    prompt = sample_ids(1, prompt_length)
    expected = to_tokens(generate(model, prompt, count, GREEDY))
    assert to_tokens(GenerationEngine(model).generate(prompt, count)) == expected


@pytest.mark.usefixtures("both_modes")
def test_chunk_size_does_not_change_the_text(monkeypatch):
    monkeypatch.setattr(ctranslate2, "_MAX_KEPT_LOGITS", 7 * LM_VOCAB_SIZE)
    monkeypatch.setattr(ctranslate2, "_CHUNK_TOKENS", 5)
    model, prompt = make_language_model("learned", max_positions=30), sample_ids(1, 4)
    expected = to_tokens(generate(model, prompt, 70, GREEDY))
    assert to_tokens(GenerationEngine(model).generate(prompt, 70)) == expected


@pytest.mark.usefixtures("both_modes")
def test_no_token_ends_the_text():
    """CTranslate2 has a default token that would."""
    model = make_language_model()
    torch.nn.init.zeros_(model.head.weight)
    assert to_tokens(GenerationEngine(model).generate(sample_ids(1, 3), 20)) == [0] * 20


@pytest.mark.usefixtures("both_modes")
def test_stream_can_be_closed_early():
    engine, prompt = GenerationEngine(make_language_model()), sample_ids(1, 5)
    stream = engine.generate(prompt, 10_000)
    first = [int(next(stream)[0]) for _ in range(3)]
    stream.close()
    assert to_tokens(engine.generate(prompt, 3)) == first


@pytest.mark.usefixtures("both_modes")
def test_errors_of_the_engine_are_raised():
    engine = GenerationEngine(make_language_model("learned"))
    engine.max_positions = None  # so that it exceeds the model's positions
    with pytest.raises(Exception, match="position"):
        list(engine.generate(sample_ids(1, 100), 150))


def test_conversion_does_not_change_the_model():
    model = make_language_model()
    before = {name: t.clone() for name, t in model.state_dict().items()}
    GenerationEngine(model)
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())


def test_recurrent_language_model_is_rejected():
    model = build_language_model(RECURRENT, 20)
    with pytest.raises(UserError, match="recurrent"):
        GenerationEngine(model)


def test_parallel_residual_with_rms_norm_is_not_converted():
    model = make_language_model("gpt-neox", norm_kind="rms")
    with pytest.raises(UserError, match='expected norm_kind = "layer"'):
        GenerationEngine(model)
    assert not AcceleratedGenerator(model).can_use_engine(sample_ids(1, 3), 20, GREEDY)


@pytest.mark.parametrize(
    ("sampling", "shape", "name", "expected"),
    [
        (GREEDY, (1, 3), "rotary", True),
        (Sampling(temperature=0.0, top_k=3, seed=5), (1, 3), "rotary", True),
        (Sampling(temperature=0.8), (1, 3), "rotary", False),
        (Sampling(temperature=0.0, repetition_penalty=1.2), (1, 3), "rotary", False),
        (GREEDY, (2, 3), "rotary", False),
        (GREEDY, (1, 3), "sinusoidal", True),
        (GREEDY, (1, 4090), "sinusoidal", False),
        (GREEDY, (1, 4090), "rotary", True),
        (GREEDY, (1, 3), "gpt-neox", True),
    ],
)
def test_engine_is_used_for_the_same_text(sampling, shape, name, expected):
    generator = AcceleratedGenerator(make_language_model(name))
    assert generator.can_use_engine(sample_ids(*shape), 20, sampling) == expected


def test_large_models_are_not_converted_for_few_tokens(monkeypatch):
    generator = AcceleratedGenerator(make_language_model())
    monkeypatch.setattr(ctranslate2, "_PARAMETERS_PER_TOKEN", 1000)
    prompt, count = sample_ids(1, 3), sum(p.numel() for p in generator.model.parameters())
    few, many = count // 1000, count // 1000 + 1
    assert not generator.can_use_engine(prompt, few, GREEDY)
    assert generator.can_use_engine(prompt, many, GREEDY)
    assert len(to_tokens(generator(prompt, many, GREEDY))) == many
    assert generator.can_use_engine(prompt, few, GREEDY)  # it is converted already


def test_accelerated_generation_equals_ours():
    model, prompt = make_language_model(), sample_ids(1, 6)
    accelerated = AcceleratedGenerator(model)
    for sampling in (GREEDY, Sampling(seed=3)):
        expected = to_tokens(generate(model, prompt, 30, sampling))
        assert to_tokens(accelerated(prompt, 30, sampling)) == expected
    with Trace(model, only="*.weights") as trace:
        traced = to_tokens(accelerated(prompt, 30, GREEDY))
    assert traced == to_tokens(generate(model, prompt, 30, GREEDY))
    assert len(trace) == 3  # one per block: the text is our model's


def test_generation_works_without_ctranslate2(monkeypatch):
    monkeypatch.setattr(ctranslate2, "find_spec", lambda _: None)
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    accelerated = AcceleratedGenerator(make_language_model())
    assert not accelerated.can_use_engine(sample_ids(1, 3), 5, GREEDY)
    assert len(to_tokens(accelerated(sample_ids(1, 3), 5, GREEDY))) == 5


def test_engine_is_not_used_for_recurrent_models():
    model = build_language_model(RECURRENT, LM_VOCAB_SIZE)
    assert not AcceleratedGenerator(model).can_use_engine(sample_ids(1, 3), 5, GREEDY)


# -- translators -----------------------------------------------------------------------------------

STOP, VOCAB_SIZE = 3, 30
TRANSLATORS = {
    "default": {},
    "post-norm": {"norm": "post"},
    "two vocabularies": {"share_embeddings": False},
    "untied": {"tie_embeddings": False, "activation": "gelu"},
    "post-norm, untied": {"norm": "post", "share_embeddings": False, "tie_embeddings": False},
    "one layer, one head": {"layers": 1, "heads": 1, "activation": "gelu-tanh"},
}


def make_translator(name="default", seed=0, ending=3.0, size=VOCAB_SIZE):
    """Return a translator whose weights all have an effect, and that ends its sentences."""
    torch.manual_seed(seed)
    table = {"d_model": 16, "d_ff": 24, "layers": 2, "heads": 2, **TRANSLATORS[name]}
    source_size = size - 1 if name == "two vocabularies" else size
    model = build_translator(table, source_size, size).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
        # Features of a low frequency, which change slowly along the sentence.
        model.head.weight[STOP, 2:4] += ending
    return model


def make_sources(*lengths, seed=0):
    rng = torch.Generator().manual_seed(seed)
    ids = torch.randint(4, VOCAB_SIZE - 1, (len(lengths), max(lengths)), generator=rng)
    lengths = torch.tensor(lengths)
    ids[torch.arange(len(lengths)), lengths - 1] = STOP
    is_padding = torch.arange(ids.shape[1]) >= lengths[:, None]
    return SentenceBatch(ids.masked_fill(is_padding, 0), lengths)


@pytest.mark.parametrize("name", TRANSLATORS)
@torch.no_grad()
def test_scores_of_translations_equal_ours(name):
    model, source = make_translator(name), make_sources(5, 3, 9)
    targets = [[4, 5, 6, 20, 4], [], list(range(4, 20))]
    scores = TranslationEngine(model, STOP).score_targets(source, targets)
    for k, length in enumerate(source.lengths.tolist()):
        sentence = SentenceBatch(source.ids[k : k + 1, :length], source.lengths[k : k + 1])
        log_probs = model(sentence, torch.tensor([[1, *targets[k]]])).log_softmax(-1)[0]
        expected = log_probs[torch.arange(len(targets[k]) + 1), [*targets[k], STOP]]
        torch.testing.assert_close(torch.tensor(scores[k]), expected, atol=1e-4, rtol=0)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    name=st.sampled_from(list(TRANSLATORS)),
    seed=st.integers(0, 1000),
    ending=st.sampled_from([1.0, 3.0, 6.0]),
    beams=st.integers(1, 6),
    length_penalty=st.sampled_from([0.0, 0.6, 1.0, 2.0, -0.5]),
    max_length=st.sampled_from([1, 2, 11, 25, [25, 2, 11, 25]]),
    data=st.data(),
)
def test_search_equals_ours(name, seed, ending, beams, length_penalty, max_length, data):
    num_best = data.draw(st.sampled_from([1, beams]))
    model, source = make_translator(name, seed, ending), make_sources(5, 2, 7, 3, seed=seed)
    options = {"max_length": max_length, "beams": beams, "length_penalty": length_penalty}
    expected = beam_search(model, source, stop=STOP, **options)
    results = TranslationEngine(model, STOP).search(source, num_best=num_best, **options)
    for ours, theirs in zip(expected, results, strict=True):
        ours = ours[:num_best]
        assert [h.tokens for h in theirs] == [h.tokens for h in ours]
        for field in ("log_probability", "score"):
            values = [getattr(h, field) for h in ours]
            assert [getattr(h, field) for h in theirs] == pytest.approx(values, abs=1e-3)


def test_searches_are_extended_and_truncated(monkeypatch):
    """The property above covers early ends, repetitions with more tokens, and the limit."""
    calls, collect = [], TranslationEngine._collect_hypotheses

    def collect_and_count(engine, sources, beams, length_limit):
        calls.append((len(sources), length_limit))
        return collect(engine, sources, beams, length_limit)

    monkeypatch.setattr(TranslationEngine, "_collect_hypotheses", collect_and_count)
    lengths = set()
    options = {"max_length": 25, "beams": 4, "length_penalty": 1.0, "num_best": 1}
    for name, seed in (("default", 2), ("post-norm", 0), ("default", 7)):
        engine = TranslationEngine(make_translator(name, seed), STOP)
        results = engine.search(make_sources(5, 2, 7, 3), **options)
        lengths |= {len(best.tokens) for (best,) in results}
    num_extended = sum(count for count, length_limit in calls if length_limit == 25)
    assert 0 < num_extended < 12
    assert {0, 25} <= lengths
    assert len(lengths) > 3


def test_recurrent_translator_is_rejected():
    model = build_translator(RECURRENT, VOCAB_SIZE, VOCAB_SIZE)
    with pytest.raises(UserError, match="recurrent"):
        TranslationEngine(model, STOP)


def test_engine_is_used_for_the_same_translations(monkeypatch):
    search, source = AcceleratedBeamSearch(make_translator()), make_sources(5, 3)
    assert search.can_use_engine(source, 20, 5)
    assert not search.can_use_engine(source, 20, VOCAB_SIZE // 2 + 1)  # too many beams
    assert not search.can_use_engine(source, 5000, 5)  # too many positions
    assert not search.can_use_engine(make_sources(5, 1), 20, 5)  # an empty source
    with Trace(search.model, only="*.weights"):
        assert not search.can_use_engine(source, 20, 5)
    recurrent = build_translator(RECURRENT, VOCAB_SIZE, VOCAB_SIZE)
    assert not AcceleratedBeamSearch(recurrent).can_use_engine(source, 20, 5)
    monkeypatch.setattr(ctranslate2, "find_spec", lambda _: None)
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    assert not search.can_use_engine(source, 20, 5)


@pytest.mark.parametrize("num_best", [1, 3])
def test_accelerated_translations_equal_ours(num_best, monkeypatch):
    words = WordTokenizer.train([" ".join("abcdefghijklmnopqrstuvwxyz")], with_eos=True)
    tokenizers = TokenizerPair(words, words)
    model = make_translator(size=len(words), ending=6.0)
    texts = ["a b c", "", "x", "k l m n o p q r s t", "? a"]
    config, search = SearchConfig(beams=4), AcceleratedBeamSearch(model, num_best)
    with torch.no_grad():
        ours = [best[:num_best] for best in translate(model, tokenizers, texts, config)]
        engines = list(translate(model, tokenizers, texts, config, search_function=search))
        monkeypatch.setattr(ctranslate2, "find_spec", lambda _: None)
        without = list(translate(model, tokenizers, texts, config, search_function=search))
        sampled = [
            [t.text for (t,) in translate(model, tokenizers, texts, config, Sampling(seed=1), by)]
            for by in (None, search)
        ]
    assert without == ours
    assert [[t.text for t in best] for best in engines] == [[t.text for t in best] for best in ours]
    assert sampled[0] == sampled[1]
    assert len({t.text for best in ours for t in best}) > 2
