"""GPT-2 in Hugging Face's format, against Hugging Face's own code if it is installed."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from workings.data import load_tokenizer
from workings.data.tokenizers.byte_pair import GPT2Tokenizer
from workings.decode import generate
from workings.errors import UserError
from workings.interop.gpt2 import read_gpt2_tokenizer
from workings.interop.huggingface import read_config
from workings.interop.language_models import read_language_model, write_language_model
from workings.interop.tokenizer_files import write_tokenizer
from workings.models.language import build_language_model

SMALL = {"d_model": 32, "layers": 2, "heads": 4, "positions": "learned", "max_positions": 24}
IDS = torch.randint(0, 50, (3, 20), generator=torch.Generator().manual_seed(0))


def perturb(model):
    """Add noise to all weights: biases and norms have no effect when initialized."""
    rng = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn(weight.shape, generator=rng))
    return model.eval()


def make_model(vocab_size=50, **changes):
    torch.manual_seed(0)
    return perturb(build_language_model(SMALL | changes, vocab_size))


def compute_logits(model):
    with torch.no_grad():
        return model(IDS)[0]


@pytest.fixture
def folder(tmp_path):
    """A folder with a small GPT-2."""
    write_gpt2(make_model(), tmp_path, bos_id=1)
    return tmp_path


def read_gpt2(folder):
    return read_language_model(folder, read_config(folder))


def write_gpt2(model, folder, **ids):
    write_language_model(model, folder, "gpt2", **ids)


def edit_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def edit_tensors(folder, change):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file({name: t.contiguous() for name, t in tensors.items()}, path)


# -- against Hugging Face --------------------------------------------------------------------------


def make_hf_model(**changes):
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 50, "n_positions": 24, "n_embd": 32, "n_layer": 2, "n_head": 4}
    torch.manual_seed(0)
    return perturb(transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes | changes)))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"activation_function": "gelu"},
        {"activation_function": "relu", "n_inner": 48},
        {"tie_word_embeddings": False, "layer_norm_epsilon": 0.01},
    ],
)
def test_model_of_hugging_face_is_read(changes, tmp_path):
    model = make_hf_model(**changes)
    model.save_pretrained(tmp_path)
    imported = read_gpt2(tmp_path)
    with torch.no_grad():
        expected = model(IDS).logits
    torch.testing.assert_close(compute_logits(imported), expected, atol=1e-5, rtol=0)
    assert expected.std() > 0.1
    is_tied = imported.head.weight is imported.embedding.weight
    assert is_tied == changes.get("tie_word_embeddings", True)
    assert all(p.requires_grad for p in imported.parameters())


@pytest.mark.parametrize("activation", ["gelu", "gelu-tanh", "relu"])
@pytest.mark.parametrize("d_ff", [None, 48])
def test_hugging_face_reads_our_model(activation, d_ff, tmp_path):
    transformers = pytest.importorskip("transformers")
    model = make_model(activation=activation, d_ff=d_ff)
    write_gpt2(model, tmp_path)
    reread, info = transformers.GPT2LMHeadModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info.values()), info
    with torch.no_grad():
        logits = reread.eval()(IDS).logits
    torch.testing.assert_close(logits, compute_logits(model), atol=1e-5, rtol=0)


def test_greedy_generation_equals_hugging_faces(tmp_path):
    model = make_hf_model(eos_token_id=None, bos_token_id=None)
    model.save_pretrained(tmp_path)
    prompt = IDS[:1, :5]
    expected = model.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=15, do_sample=False
    )
    tokens = [int(token) for token, _ in generate(read_gpt2(tmp_path), prompt, 15)]
    assert tokens == expected[0, 5:].tolist()


# -- model -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_tied", [True, False])
def test_written_model_is_read_unchanged(is_tied, tmp_path):
    model = make_model(tie_embeddings=is_tied)
    if not is_tied:
        torch.nn.init.zeros_(model.head.bias)
    write_gpt2(model, tmp_path)
    reread = read_gpt2(tmp_path)
    assert {n: t.shape for n, t in reread.state_dict().items()} == {
        n: t.shape for n, t in model.state_dict().items()
    }
    assert torch.equal(compute_logits(reread), compute_logits(model))


def test_missing_settings_have_gpt2s_defaults(folder):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    keys = ("vocab_size", "n_positions", "n_embd", "n_layer", "n_head")
    path.write_text(json.dumps({key: config[key] for key in keys} | {"n_inner": None}))
    model = read_gpt2(folder)
    assert model.blocks[0].feed_forward.inner.out_features == 128
    assert model.blocks[0].feed_forward.activation == "gelu-tanh"


def test_older_files_without_prefix_and_with_masks(folder):
    def make_older(tensors):
        for name in list(tensors):
            tensors[name.removeprefix("transformer.")] = tensors.pop(name)
        for k in range(2):
            tensors[f"h.{k}.attn.bias"] = torch.ones(1, 1, 24, 24).tril()
            tensors[f"h.{k}.attn.masked_bias"] = torch.tensor(-1e4)

    edit_tensors(folder, make_older)
    assert torch.equal(compute_logits(read_gpt2(folder)), compute_logits(make_model()))


def test_half_precision_is_read_as_single(folder):
    edit_tensors(folder, lambda tensors: tensors.update({n: t.half() for n, t in tensors.items()}))
    torch.testing.assert_close(
        compute_logits(read_gpt2(folder)), compute_logits(make_model()), atol=0.05, rtol=0
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"positions": "rotary"}, 'model.positions = "learned"'),
        ({"positions": "sinusoidal"}, 'model.positions = "learned"'),
        ({"norm": "post"}, 'model.norm = "pre"'),
        ({"kv_heads": 2}, "model.kv_heads = none, not 2"),
        ({"norm_kind": "rms"}, 'model.norm_kind = "layer", not "rms"'),
        ({"gated": True}, "model.gated = false"),
        ({"bias": False}, "model.bias = true"),
        ({"parallel_residual": True}, "model.parallel_residual = false"),
        ({"tie_embeddings": False}, "no bias"),
    ],
)
def test_models_that_are_not_gpt2_are_rejected(changes, message, tmp_path):
    with pytest.raises(UserError, match=message):
        write_gpt2(make_model(**changes), tmp_path)


def test_recurrent_model_is_rejected(tmp_path):
    model = build_language_model({"kind": "recurrent", "d_model": 8, "hidden_size": 8}, 20)
    with pytest.raises(UserError, match="recurrent"):
        write_gpt2(model, tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "gptj"}, "model_type = 'gptj' is not supported"),
        ({"layer_norm_epsilon": 0}, "layer_norm_epsilon = 0: expected a positive number"),
        ({"layer_norm_epsilon": True}, "layer_norm_epsilon"),
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx"),
        ({"activation_function": "gelu_nwe"}, "did you mean 'gelu_new'"),
        ({"activation_function": ["gelu"]}, "activation_function"),
        ({"n_layer": "two"}, "n_layer = 'two': expected a positive integer"),
        ({"n_layer": 0}, "n_layer = 0"),
        ({"n_layer": 3}, "fewer than the 3 layers"),
        ({"n_layer": 1}, "is not a tensor of a GPT-2"),
        ({"n_head": 5}, "heads = 5: must divide"),
        ({"n_embd": 64}, r"wte.weight is of shape \(50, 32\)"),
        ({"n_inner": "wide"}, "n_inner = 'wide'"),
        ({"n_inner": -1}, "n_inner = -1"),
        ({"vocab_size": 2**40}, "vocab_size"),
    ],
)
def test_invalid_configs_are_rejected(changes, message, folder):
    edit_config(folder, **changes)
    with pytest.raises(UserError, match=message):
        read_gpt2(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("transformer.ln_f.bias"), "ln_f.bias is missing"),
        (lambda t: t.update(extra=torch.ones(1)), "extra is not a tensor of a GPT-2"),
        (
            lambda t: t.update({"transformer.wpe.weight": torch.ones(24, 32, dtype=torch.int64)}),
            "wpe.weight is of shape .* and int64",
        ),
        (
            lambda t: t.update({"transformer.h.0.mlp.c_fc.weight": torch.ones(128, 32)}),
            r"c_fc.weight is of shape \(128, 32\) .* expected \(32, 128\)",
        ),
    ],
)
def test_invalid_tensors_are_rejected(change, message, folder):
    edit_tensors(folder, change)
    with pytest.raises(UserError, match=message):
        read_gpt2(folder)


def test_damaged_and_missing_files_are_reported(folder):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    with pytest.raises(UserError, match="not a safetensors file"):
        read_gpt2(folder)
    weights.unlink()
    with pytest.raises(UserError, match=r"expected model\.safetensors"):
        read_gpt2(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(UserError, match="not JSON"):
        read_gpt2(folder)
    (folder / "config.json").unlink()
    with pytest.raises(UserError, match="No such file"):
        read_gpt2(folder)


# -- tokenizer -------------------------------------------------------------------------------------


def test_tokenizer_keeps_ids(gpt2_tokens):
    folder, byte_pairs = gpt2_tokens
    vocab_size = len(byte_pairs) - 3 + 1
    tokenizer = read_gpt2_tokenizer(folder, {}, vocab_size)
    assert len(tokenizer) == vocab_size
    text = "lower naïve lowest 🙂 <|endoftext|>"
    assert tokenizer.encode(text) == [k - 3 for k in byte_pairs.encode(text)]
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.encode_batch([text]) == [tokenizer.encode(text)]
    assert tokenizer.bos_id == tokenizer.eos_id == tokenizer.pad_id == vocab_size - 1
    assert tokenizer.decode([tokenizer.bos_id, *tokenizer.encode("low")]) == "low"
    tokenizer.save(folder / "saved.json")
    loaded = load_tokenizer(folder / "saved.json")
    assert isinstance(loaded, GPT2Tokenizer)
    assert loaded == tokenizer
    assert loaded.bos_id == tokenizer.bos_id


def test_tokenizer_json_equals_vocabulary_and_merges(gpt2_tokens):
    folder, byte_pairs = gpt2_tokens
    vocab_size = len(byte_pairs) - 3 + 1
    tokenizer = read_gpt2_tokenizer(folder, {}, vocab_size)
    write_tokenizer(tokenizer, folder)
    (folder / "vocab.json").unlink()
    assert read_gpt2_tokenizer(folder, {}, vocab_size) == tokenizer


def test_embeddings_without_tokens_are_named(gpt2_tokens):
    folder, _ = gpt2_tokens
    assert len(read_gpt2_tokenizer(folder, {}, 320)) == 320
    with pytest.raises(UserError, match="but the model has 100 embeddings"):
        read_gpt2_tokenizer(folder, {}, 100)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("vocab.json", '{"a": 0, "b": 2}', "expected the ids 0 to"),
        ("vocab.json", '{"a": "x"}', "expected the ids 0 to"),
        ("vocab.json", "[]", "expected a JSON object"),
        ("merges.txt", "#version: 0.2\na b c\n", "is not a merge of two tokens"),
        ("merges.txt", "q q\n", "merges do not fit"),
        ("merges.txt", "a <|endoftext|>\n", "merges do not fit"),
        ("tokenizer.json", "{}", "expected GPT-2's byte-level BPE"),
    ],
)
def test_invalid_tokenizers_are_rejected(name, content, message, gpt2_tokens):
    folder, byte_pairs = gpt2_tokens
    (folder / name).write_text(content)
    with pytest.raises(UserError, match=message):
        read_gpt2_tokenizer(folder, {}, len(byte_pairs) - 2)
