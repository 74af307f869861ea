"""GPT-NeoX and Llama in Hugging Face's format, against Hugging Face's own code."""

import json

import pytest
import torch

from workings.cli import main
from workings.data import BytePairTokenizer
from workings.decode import generate
from workings.errors import UserError
from workings.interop.conversion import export_language_model
from workings.interop.huggingface import read_config
from workings.interop.language_models import (
    read_language_model,
    read_settings,
    write_language_model,
)
from workings.interpret.attention import collect
from workings.interpret.heads import read_head
from workings.models.language import build_language_model
from workings.training.runs import load

transformers = pytest.importorskip("transformers")
IDS = torch.randint(0, 50, (3, 20), generator=torch.Generator().manual_seed(0))
TEXTS = ["the cat sees two dogs", "two cats", "naïve 🙂 <s> dogs"]
SIZES = {
    "vocab_size": 50,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
}
OURS = {"d_model": 32, "layers": 2, "heads": 4, "d_ff": 40}
LLAMA = {"norm_kind": "rms", "activation": "silu", "gated": True, "bias": False}


def perturb(model):
    """Add noise to all weights: biases and norms have no effect when initialized."""
    rng = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn(weight.shape, generator=rng))
    return model.eval()


def make_hf_model(kind, **changes):
    config_class, model_class = {
        "gpt-neox": (transformers.GPTNeoXConfig, transformers.GPTNeoXForCausalLM),
        "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
    }[kind]
    torch.manual_seed(0)
    return perturb(model_class(config_class(**SIZES | changes)))


def make_model(vocab_size=50, **changes):
    torch.manual_seed(0)
    return perturb(build_language_model(OURS | changes, vocab_size))


@torch.no_grad()
def compute_logits(model):
    output = model(IDS)
    return output[0] if isinstance(output, tuple) else output.logits


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("gpt-neox", {}),
        ("gpt-neox", {"use_parallel_residual": False, "tie_word_embeddings": True}),
        ("gpt-neox", {"layer_norm_eps": 0.01, "hidden_act": "gelu_new"}),
        (
            "gpt-neox",
            {"rope_parameters": {"rope_theta": 500.0, "partial_rotary_factor": 1.0}},
        ),
        ("llama", {}),
        ("llama", {"num_key_value_heads": 2, "rms_norm_eps": 1e-5}),
        ("llama", {"num_key_value_heads": 1, "tie_word_embeddings": True}),
        ("llama", {"attention_bias": True, "mlp_bias": True}),
        ("llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}),
    ],
)
def test_model_of_hugging_face_is_read(kind, changes, tmp_path):
    model = make_hf_model(kind, **changes)
    model.save_pretrained(tmp_path)
    imported = read_language_model(tmp_path, read_config(tmp_path))
    expected = compute_logits(model)
    torch.testing.assert_close(compute_logits(imported), expected, atol=1e-5, rtol=0)
    assert expected.std() > 0.1


@pytest.mark.parametrize("kind", ["gpt-neox", "llama"])
def test_greedy_generation_equals_hugging_faces(kind, tmp_path):
    model = make_hf_model(kind, eos_token_id=None, bos_token_id=None)
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    assert (tmp_path / "model.safetensors.index.json").exists()
    prompt = IDS[:1, :5]
    expected = model.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=15, do_sample=False
    )
    imported = read_language_model(tmp_path, read_config(tmp_path))
    tokens = [int(token) for token, _ in generate(imported, prompt, 15)]
    assert tokens == expected[0, 5:].tolist()


@pytest.mark.parametrize(
    ("layout", "changes"),
    [
        ("gpt-neox", {}),
        ("gpt-neox", {"rotary_fraction": 0.5, "rotary_base": 500.0, "norm_eps": 0.01}),
        ("gpt-neox", {"parallel_residual": True, "activation": "relu"}),
        ("llama", LLAMA),
        ("llama", LLAMA | {"kv_heads": 2, "rotary_base": 500.0, "bias": True}),
    ],
)
def test_hugging_face_and_we_read_our_model(layout, changes, tmp_path):
    model = make_model(**changes)
    write_language_model(model, tmp_path, layout)
    theirs, info = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert not any(info.values()), info
    expected = compute_logits(model)
    torch.testing.assert_close(compute_logits(theirs.eval()), expected, atol=1e-5, rtol=0)
    again = read_language_model(tmp_path, read_config(tmp_path))
    assert torch.equal(compute_logits(again), expected)
    assert read_settings(again) == read_settings(model)


@pytest.mark.parametrize(
    ("layout", "changes", "message"),
    [
        ("gpt-neox", {"positions": "sinusoidal"}, 'model.positions = "rotary", not "sinusoidal"'),
        ("gpt-neox", {"kv_heads": 2}, "model.kv_heads = none, not 2"),
        ("gpt-neox", {"gated": True}, "model.gated = false, not true"),
        ("gpt-neox", {"bias": False}, "model.bias = true, not false"),
        ("gpt-neox", {"tie_embeddings": False}, "no bias"),
        ("llama", {}, 'model.norm_kind = "rms", not "layer"'),
        ("llama", LLAMA | {"rotary_fraction": 0.5}, "model.rotary_fraction = 1.0, not 0.5"),
        ("llama", LLAMA | {"parallel_residual": True}, "model.parallel_residual = false"),
        ("llama", LLAMA | {"norm": "post"}, 'model.norm = "pre"'),
    ],
)
def test_models_that_do_not_fit_are_refused(layout, changes, message, tmp_path):
    with pytest.raises(UserError, match=message):
        write_language_model(make_model(**changes), tmp_path, layout)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("llama", {"rope_parameters": {"rope_type": "llama3"}}, "rope_type = 'llama3'"),
        ("llama", {"rope_parameters": [1]}, "rope_parameters: expected a table"),
        ("llama", {"rope_parameters": {"rope_theta": -1}}, "rope_theta = -1: expected a positive"),
        ("llama", {"head_dim": 16}, "head_dim: expected hidden_size / num_attention_heads"),
        ("llama", {"mlp_bias": True}, "attention_bias and mlp_bias: expected the same value"),
        ("llama", {"num_key_value_heads": 3}, "kv_heads = 3: must divide"),
        ("llama", {"hidden_act": "quick_gelu"}, "hidden_act = 'quick_gelu'"),
        ("llama", {"num_hidden_layers": 3}, "fewer than the 3 layers"),
        ("gpt-neox", {"attention_bias": False}, "attention_bias = False is not supported"),
        ("gpt-neox", {"rope_parameters": {"partial_rotary_factor": 2}}, "expected at most 1"),
        ("gpt-neox", {"num_attention_heads": 8}, "even width per head, not 1"),
        ("gpt-neox", {"hidden_size": 64}, r"embed_in.weight is of shape \(50, 32\)"),
    ],
)
def test_invalid_configs_are_refused(kind, changes, message, tmp_path):
    make_hf_model(kind).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(UserError, match=message):
        read_language_model(tmp_path, read_config(tmp_path))


# -- folders and runs ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A rotary model with its byte pairs, exported as a GPT-NeoX."""
    tokenizer = BytePairTokenizer.train(TEXTS * 5, vocab_size=300)
    model = make_model(len(tokenizer))
    folder = tmp_path_factory.mktemp("exported") / "neox"
    assert export_language_model(model, tokenizer, "gpt-neox", folder) == []
    return model, tokenizer, folder


def test_auto_classes_generate_the_same_texts(exported):
    model, tokenizer, folder = exported
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    their_tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    for text in TEXTS:
        ids = tokenizer.encode(text)
        batch = their_tokenizer(text, return_tensors="pt")
        assert batch.input_ids[0].tolist() == ids
        output = theirs.generate(**batch, max_new_tokens=12, do_sample=False)
        own = [int(token) for token, _ in generate(model, torch.tensor([ids]), 12)]
        assert output[0, len(ids) :].tolist() == own
        assert their_tokenizer.decode(own) == tokenizer.decode(own)


def test_exported_model_is_imported_again(exported, tmp_path):
    model, tokenizer, folder = exported
    assert main(["import", str(folder), "--out", str(tmp_path / "run")]) == 0
    task = load(tmp_path / "run")
    for text in TEXTS:
        ids = tokenizer.encode(text)
        assert task.tokenizer.encode(text) == ids
        assert task.tokenizer.decode(ids) == tokenizer.decode(ids)
        with torch.no_grad():
            expected = model(torch.tensor([ids]))[0]
            assert torch.equal(task.model(torch.tensor([ids]))[0], expected)
    assert main(["complete", str(tmp_path / "run"), "two cats", "--tokens", "5"]) == 0


def test_attention_and_heads_of_an_imported_llama(tmp_path):
    """The weights are Hugging Face's; the head is a problem that starts with <s>."""
    from tokenizers import Tokenizer, decoders, models, normalizers, processors

    pieces = ["<unk>", "<s>", "</s>", "▁", *"abcdefghijklmnopqrstuvwxyz"]
    engine = Tokenizer(
        models.BPE(
            {piece: k for k, piece in enumerate(pieces)},
            [],
            unk_token="<unk>",  # noqa: S106
        )
    )
    engine.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    engine.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    engine.add_special_tokens(["<unk>", "<s>", "</s>"])
    engine.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    engine.save(str(tmp_path / "tokenizer.json"))
    model = make_hf_model("llama", num_key_value_heads=2)
    model.config._attn_implementation = "eager"
    model.save_pretrained(tmp_path)
    assert main(["import", str(tmp_path), "--out", str(tmp_path / "run")]) == 0
    task = load(tmp_path / "run")
    text = "a cat </s>"
    ids, _, _ = task.encode_with_spans(text)
    assert ids[:2] == [1, 3]
    assert 2 not in ids  # a text is never read as a special token
    with torch.no_grad():
        expected = model(torch.tensor([ids]), output_attentions=True)
    (stack,) = collect(task, text)
    assert stack.query_tokens[0] == "<s>"
    for layer, weights in zip(stack.weights, expected.attentions, strict=True):
        torch.testing.assert_close(torch.from_numpy(layer), weights[0], atol=1e-5, rtol=0)
    head = read_head(task, text, 2, 3)
    assert max(head.max_differences().values()) < 1e-5
    own = task.complete("a cat", 6)
    batch = torch.tensor([task.encode_with_spans("a cat")[0]])
    output = model.generate(
        batch, attention_mask=torch.ones_like(batch), max_new_tokens=6, do_sample=False
    )
    assert own == engine.decode(output[0].tolist(), skip_special_tokens=True)
