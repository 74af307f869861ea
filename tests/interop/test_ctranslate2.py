"""CTranslate2 computes what our models compute, and writes what they write."""

import sys

import pytest
import torch

from workings.data.tokenizers.byte_pair import BytePairTokenizer
from workings.data.tokenizers.characters import CharacterTokenizer
from workings.decode.sampling import GREEDY, Sampling, generate
from workings.errors import UserError
from workings.interop import ctranslate2 as converter
from workings.interop import ctranslate2 as layers
from workings.interop.conversion import export_language_model
from workings.interop.ctranslate2 import AcceleratedGenerator, GenerationEngine
from workings.interop.gpt2 import unique_token_names
from workings.models.language import build_language_model
from workings.trace import Trace

library = pytest.importorskip("ctranslate2")
pytestmark = pytest.mark.usefixtures("without_shape_checks")  # they take most of the time

VOCABULARY = 60
KINDS = {
    "rotary": {},
    "learned": {"positions": "learned", "max_positions": 200},
    "sinusoidal": {"positions": "sinusoidal"},
    "shared": {"kv_heads": 2},
    "one shared": {"kv_heads": 1},
    "learned and shared": {"positions": "learned", "max_positions": 200, "kv_heads": 2},
    "untied": {"tie_embeddings": False},
    "post": {"norm": "post", "tie_embeddings": False},
    "post and tied": {"norm": "post"},
    "relu": {"activation": "relu", "d_ff": 40},
    "tanh": {"activation": "gelu-tanh"},
    "one layer, one head": {"layers": 1, "heads": 1},
}


@pytest.fixture(params=["in bursts", "as it is found"])
def told(request, monkeypatch):
    """Both ways in which a text comes: small models write a burst, large ones a token."""
    if request.param == "as it is found":
        monkeypatch.setattr(layers, "_SMALL_MODEL_PARAMETERS", 0)


def made(name="rotary", **changes):
    torch.manual_seed(0)
    table = {"d_model": 32, "layers": 3, "heads": 4, **KINDS[name], **changes}
    model = build_language_model(table, VOCABULARY).eval()
    with torch.no_grad():  # biases and norms matter, and no token repeats itself for ever
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    return model


def ids(*shape):
    return torch.randint(0, VOCABULARY, shape, generator=torch.Generator().manual_seed(0))


def text(stream):
    return [int(token) for token, _ in stream]


@pytest.mark.parametrize("name", KINDS)
def test_scores_are_ours(name):
    model, given = made(name), ids(2, 150)
    with torch.no_grad():
        expected, _ = model(given)
    found = GenerationEngine(model).compute_logits(given)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)
    assert expected.std() > 0.3
    assert (expected[:, 1:] - expected[:, :-1]).abs().max() > 1


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize("name", KINDS)
def test_the_likeliest_text_is_ours_with_its_scores(name):
    model, prompt = made(name), ids(1, 7)
    expected = list(generate(model, prompt, 40, GREEDY))
    found = list(GenerationEngine(model).generate(prompt, 40))
    assert text(found) == text(expected)
    assert len(set(text(found))) > 2
    for (_, ours), (_, theirs) in zip(expected, found, strict=True):
        torch.testing.assert_close(theirs, ours, atol=1e-4, rtol=0)


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize("start", [1, 9, 10, 11, 30])
def test_beyond_the_last_position_it_goes_on_as_ours_does(start):
    model, prompt = made("learned", max_positions=10), ids(1, start)
    assert text(GenerationEngine(model).generate(prompt, 45)) == text(
        generate(model, prompt, 45, GREEDY)
    )


@pytest.mark.usefixtures("told")
def test_a_single_position():
    model, prompt = made("learned", max_positions=1), ids(1, 3)
    assert text(GenerationEngine(model).generate(prompt, 5)) == text(
        generate(model, prompt, 5, GREEDY)
    )


@pytest.mark.usefixtures("told")
def test_pieces_in_which_scores_are_kept_do_not_show(monkeypatch):
    monkeypatch.setattr(converter, "_MAX_KEPT_LOGITS", 7 * VOCABULARY)
    monkeypatch.setattr(converter, "_CHUNK_TOKENS", 5)
    model, prompt = made("learned", max_positions=30), ids(1, 4)
    assert text(GenerationEngine(model).generate(prompt, 70)) == text(
        generate(model, prompt, 70, GREEDY)
    )


@pytest.mark.usefixtures("told")
def test_no_token_ends_a_text():
    """Not even the one that CTranslate2 takes for the end by itself."""
    model = made()
    torch.nn.init.zeros_(model.head.weight)
    assert text(GenerationEngine(model).generate(ids(1, 3), 20)) == [0] * 20


@pytest.mark.usefixtures("told")
def test_a_consumer_may_leave_and_come_back():
    engine, prompt = GenerationEngine(made()), ids(1, 5)
    stream = engine.generate(prompt, 10_000)
    first = [int(next(stream)[0]) for _ in range(3)]
    stream.close()
    assert text(engine.generate(prompt, 3)) == first


@pytest.mark.usefixtures("told")
def test_what_goes_wrong_in_the_engine_is_raised():
    engine = GenerationEngine(made("learned"))
    engine.max_positions = None  # it will ask for positions that are not there
    with pytest.raises(Exception, match="position"):
        list(engine.generate(ids(1, 100), 150))


def test_the_model_stays_as_it_was():
    model = made()
    before = {name: t.clone() for name, t in model.state_dict().items()}
    GenerationEngine(model)
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())


def test_a_recurrent_model_is_refused():
    model = build_language_model({"kind": "recurrent", "d_model": 8, "hidden_size": 8}, 20)
    with pytest.raises(UserError, match="recurrent"):
        GenerationEngine(model)


# -- when it is used ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "prompt", "kind", "expected"),
    [
        (GREEDY, (1, 3), "rotary", True),
        (Sampling(temperature=0.0, top_k=3, seed=5), (1, 3), "rotary", True),
        (Sampling(temperature=0.8), (1, 3), "rotary", False),
        (Sampling(temperature=0.0, repetition_penalty=1.2), (1, 3), "rotary", False),
        (GREEDY, (2, 3), "rotary", False),
        (GREEDY, (1, 3), "sinusoidal", True),
        (GREEDY, (1, 4090), "sinusoidal", False),
        (GREEDY, (1, 4090), "rotary", True),
    ],
)
def test_it_is_used_where_the_text_is_the_same(how, prompt, kind, expected):
    assert AcceleratedGenerator(made(kind)).can_use_engine(ids(*prompt), 20, how) == expected


def test_both_ways_write_the_same():
    model, prompt = made(), ids(1, 6)
    fastest = AcceleratedGenerator(model)
    for how in (GREEDY, Sampling(seed=3)):
        assert text(fastest(prompt, 30, how)) == text(generate(model, prompt, 30, how))
    with Trace(model, only="*.weights") as trace:
        traced = text(fastest(prompt, 30, GREEDY))
    assert traced == text(generate(model, prompt, 30, GREEDY))
    assert len(trace) == 3  # of each block: it went through our own model


def test_it_does_without_what_is_not_installed(monkeypatch):
    monkeypatch.setattr("workings.interop.ctranslate2.find_spec", lambda _: None)
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    fastest = AcceleratedGenerator(made())
    assert not fastest.can_use_engine(ids(1, 3), 5, GREEDY)
    assert len(text(fastest(ids(1, 3), 5, GREEDY))) == 5


def test_recurrent_models_are_left_alone():
    model = build_language_model({"kind": "recurrent", "d_model": 8, "hidden_size": 8}, VOCABULARY)
    assert not AcceleratedGenerator(model).can_use_engine(ids(1, 3), 5, GREEDY)


# -- folders -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [CharacterTokenizer, BytePairTokenizer])
def test_an_exported_folder_is_read_by_ctranslate2(kind, tmp_path):
    tokenizer = kind.train(["<s>low lower lowest naïve 🙂\udc80</s>"] * 20, vocab_size=300)
    torch.manual_seed(0)
    model = build_language_model({"d_model": 16, "layers": 2, "heads": 2}, len(tokenizer)).eval()
    notes = export_language_model(model, tokenizer, "ctranslate2", tmp_path / "out")
    assert len(notes) == (kind is CharacterTokenizer)
    prompt = torch.tensor([tokenizer.encode("lower")])
    names = unique_token_names(tokenizer)
    generator = library.Generator(str(tmp_path / "out"), device="cpu")
    (found,) = generator.generate_batch(
        [[names[k] for k in prompt[0]]], max_length=20, include_prompt_in_result=False, end_token=[]
    )
    assert found.sequences_ids[0] == text(generate(model, prompt, 20, GREEDY))
    assert found.sequences[0] == [names[k] for k in found.sequences_ids[0]]
