"""GPT-2 to and from Hugging Face's layout, against Hugging Face's own code where it is there."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from workings.data.tokenizers.byte_pair import BytePairTokenizer, GPT2Tokenizer
from workings.data.tokenizers.characters import CharacterTokenizer
from workings.data.tokenizers.registry import load_tokenizer
from workings.decode.sampling import generate
from workings.errors import UserError
from workings.interop.conversion import export_language_model, import_model
from workings.interop.gpt2 import (
    read_gpt2,
    read_gpt2_tokenizer,
    unique_token_names,
    write_gpt2,
    write_tokenizer,
)
from workings.models.language import build_language_model
from workings.storage import read_tensors
from workings.training.runs import load

SMALL = {"d_model": 32, "layers": 2, "heads": 4, "positions": "learned", "max_positions": 24}
IDS = torch.randint(0, 50, (3, 20), generator=torch.Generator().manual_seed(0))


def stirred(model):
    """Give every weight, biases and norms too, a value that matters."""
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn(weight.shape, generator=draw))
    return model.eval()


def made(vocabulary=50, **changes):
    torch.manual_seed(0)
    return stirred(build_language_model(SMALL | changes, vocabulary))


def scores(model):
    with torch.no_grad():
        return model(IDS)[0]


@pytest.fixture
def saved(tmp_path):
    """A folder with a model of ours in their layout."""
    write_gpt2(made(), tmp_path, bos_id=1)
    return tmp_path


def edit(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def edit_tensors(folder, change):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file({name: t.contiguous() for name, t in tensors.items()}, path)


# -- against Hugging Face ----------------------------------------------------------------------


def theirs(**changes):
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 50, "n_positions": 24, "n_embd": 32, "n_layer": 2, "n_head": 4}
    torch.manual_seed(0)
    return stirred(transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes | changes)))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"activation_function": "gelu"},
        {"activation_function": "relu", "n_inner": 48},
        {"tie_word_embeddings": False},
    ],
)
def test_their_model_becomes_ours(changes, tmp_path):
    model = theirs(**changes)
    model.save_pretrained(tmp_path)
    ours = read_gpt2(tmp_path)
    with torch.no_grad():
        expected = model(IDS).logits
    torch.testing.assert_close(scores(ours), expected, atol=1e-5, rtol=0)
    assert expected.std() > 0.1
    assert (ours.head.weight is ours.embedding.weight) == changes.get("tie_word_embeddings", True)
    assert all(p.requires_grad for p in ours.parameters())


@pytest.mark.parametrize("activation", ["gelu", "gelu-tanh", "relu"])
@pytest.mark.parametrize("hidden", [None, 48])
def test_our_model_becomes_theirs(activation, hidden, tmp_path):
    transformers = pytest.importorskip("transformers")
    model = made(activation=activation, d_ff=hidden)
    write_gpt2(model, tmp_path)
    reread, told = transformers.GPT2LMHeadModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(told.values()), told
    with torch.no_grad():
        found = reread.eval()(IDS).logits
    torch.testing.assert_close(found, scores(model), atol=1e-5, rtol=0)


def test_their_greedy_text_is_ours(tmp_path):
    model = theirs(eos_token_id=None, bos_token_id=None)
    model.save_pretrained(tmp_path)
    prompt = IDS[:1, :5]
    expected = model.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=15, do_sample=False
    )
    found = [int(token) for token, _ in generate(read_gpt2(tmp_path), prompt, 15)]
    assert found == expected[0, 5:].tolist()


def test_their_tokenizer_reads_ours(tmp_path):
    transformers = pytest.importorskip("transformers")
    tokenizer = BytePairTokenizer.train(["low lower lowest, naïve 🙂 <s>"] * 10, vocab_size=280)
    write_gpt2(made(len(tokenizer)), tmp_path, bos_id=tokenizer.bos_id)
    assert write_tokenizer(tokenizer, tmp_path)
    reread = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in ("lower low", "naïve 🙂\n two  spaces <s> <pad>", "it's 1234!"):
        assert reread(text)["input_ids"] == tokenizer.encode(text)
        assert reread.decode(tokenizer.encode(text)) == text


# -- by itself ---------------------------------------------------------------------------------


@pytest.mark.parametrize("tied", [True, False])
def test_there_and_back(tied, tmp_path):
    model = made(tie_embeddings=tied)
    if not tied:
        torch.nn.init.zeros_(model.head.bias)
    write_gpt2(model, tmp_path)
    back = read_gpt2(tmp_path)
    assert {n: t.shape for n, t in back.state_dict().items()} == {
        n: t.shape for n, t in model.state_dict().items()
    }
    assert torch.equal(scores(back), scores(model))


def test_a_run_of_ours_there_and_back(tmp_path):
    """Its byte pairs know a start and no stop."""
    tokenizer = BytePairTokenizer.train(["low lower lowest"] * 10, vocab_size=270)
    model = made(len(tokenizer))
    export_language_model(model, tokenizer, "gpt2", tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "run")
    back = load(tmp_path / "run")
    assert torch.equal(scores(back.model), scores(model))
    assert back.tokenizer.encode("lower low") == tokenizer.encode("lower low")


def test_settings_that_are_not_said_are_gpt_2s(saved):
    path = saved / "config.json"
    said = json.loads(path.read_text())
    kept = ("vocab_size", "n_positions", "n_embd", "n_layer", "n_head")
    path.write_text(json.dumps({key: said[key] for key in kept} | {"n_inner": None}))
    model = read_gpt2(saved)
    assert model.blocks[0].feed_forward.inner.out_features == 128
    assert model.blocks[0].feed_forward.activation == "gelu-tanh"


def test_older_files_have_no_prefix_but_masks(saved):
    def older(tensors):
        for name in list(tensors):
            tensors[name.removeprefix("transformer.")] = tensors.pop(name)
        for k in range(2):
            tensors[f"h.{k}.attn.bias"] = torch.ones(1, 1, 24, 24).tril()
            tensors[f"h.{k}.attn.masked_bias"] = torch.tensor(-1e4)

    edit_tensors(saved, older)
    assert torch.equal(scores(read_gpt2(saved)), scores(made()))


def test_half_precision_is_read_as_whole(saved):
    edit_tensors(saved, lambda tensors: tensors.update({n: t.half() for n, t in tensors.items()}))
    torch.testing.assert_close(scores(read_gpt2(saved)), scores(made()), atol=0.05, rtol=0)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"positions": "rotary"}, 'model.positions = "learned"'),
        ({"positions": "sinusoidal"}, 'model.positions = "learned"'),
        ({"norm": "post"}, 'model.norm = "pre"'),
        ({"kv_heads": 2}, "kv_heads"),
        ({"tie_embeddings": False}, "no bias"),
    ],
)
def test_what_is_no_gpt_2(changes, told, tmp_path):
    with pytest.raises(UserError, match=told):
        write_gpt2(made(**changes), tmp_path)


def test_a_recurrent_model_is_no_gpt_2(tmp_path):
    model = build_language_model({"kind": "recurrent", "d_model": 8, "hidden_size": 8}, 20)
    with pytest.raises(UserError, match="recurrent"):
        write_gpt2(model, tmp_path)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"model_type": "bert"}, "model_type = 'bert'"),
        ({"layer_norm_epsilon": 1e-6}, "layer_norm_epsilon"),
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx"),
        ({"activation_function": "gelu_nwe"}, "did you mean 'gelu_new'"),
        ({"activation_function": ["gelu"]}, "activation_function"),
        ({"n_layer": "two"}, "n_layer = 'two': expected a whole number"),
        ({"n_layer": 0}, "n_layer = 0"),
        ({"n_layer": 3}, "not the 3 layers"),
        ({"n_layer": 1}, "no part of a GPT-2"),
        ({"n_head": 5}, "heads = 5: must divide"),
        ({"n_embd": 64}, r"wte.weight is of shape \(50, 32\)"),
        ({"n_inner": "wide"}, "n_inner = 'wide'"),
        ({"n_inner": -1}, "n_inner = -1"),
        ({"vocab_size": 2**40}, "vocab_size"),
    ],
)
def test_configs_that_do_not_fit(changes, told, saved):
    edit(saved, **changes)
    with pytest.raises(UserError, match=told):
        read_gpt2(saved)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda t: t.pop("transformer.ln_f.bias"), "ln_f.bias is missing"),
        (lambda t: t.update(extra=torch.ones(1)), "extra is no part of a GPT-2"),
        (
            lambda t: t.update({"transformer.wpe.weight": torch.ones(24, 32, dtype=torch.int64)}),
            "wpe.weight is of shape .* and int64",
        ),
        (
            lambda t: t.update({"transformer.h.0.mlp.c_fc.weight": torch.ones(128, 32)}),
            r"c_fc.weight is of shape \(128, 32\) .* promises \(32, 128\)",
        ),
    ],
)
def test_tensors_that_do_not_fit(change, told, saved):
    edit_tensors(saved, change)
    with pytest.raises(UserError, match=told):
        read_gpt2(saved)


def test_files_that_are_not_there_or_something_else(saved):
    weights = saved / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    with pytest.raises(UserError, match="not a safetensors file"):
        read_gpt2(saved)
    weights.unlink()
    with pytest.raises(UserError, match=r"no model\.safetensors"):
        read_gpt2(saved)
    (saved / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(UserError, match="several files"):
        read_gpt2(saved)
    torch.save({"wte.weight": torch.ones(2)}, saved / "pytorch_model.bin")
    with pytest.raises(UserError, match="can run anything: save them as safetensors"):
        read_gpt2(saved)
    (saved / "config.json").write_text("{")
    with pytest.raises(UserError, match="not JSON"):
        read_gpt2(saved)
    (saved / "config.json").unlink()
    with pytest.raises(UserError, match="No such file"):
        read_gpt2(saved)


# -- tokens ------------------------------------------------------------------------------------


@pytest.fixture
def foreign(tmp_path):
    """A folder with tokens as GPT-2 has them, in two files, and the byte pairs they are."""
    pairs = BytePairTokenizer.train(["low lower lowest, naïve 🙂"] * 10, vocab_size=290)
    vocabulary = pairs.to_dict()["vocabulary"]
    ids = {token: k for k, token in enumerate([*vocabulary, "<|endoftext|>"])}
    (tmp_path / "vocab.json").write_text(json.dumps(ids))
    merges = "\n".join(" ".join(pair) for pair in pairs.merges)
    (tmp_path / "merges.txt").write_text(f"#version: 0.2\n{merges}\n", encoding="utf-8")
    return tmp_path, pairs


def test_borrowed_tokens_keep_their_numbers(foreign):
    folder, pairs = foreign
    count = len(pairs) - 3 + 1
    tokens = read_gpt2_tokenizer(folder, {}, count)
    assert len(tokens) == count
    text = "lower naïve lowest 🙂 <|endoftext|>"
    assert tokens.encode(text) == [k - 3 for k in pairs.encode(text)]
    assert tokens.decode(tokens.encode(text)) == text
    assert tokens.encode_batch([text]) == [tokens.encode(text)]
    assert tokens.bos_id == tokens.eos_id == tokens.pad_id == count - 1
    assert tokens.decode([tokens.bos_id, *tokens.encode("low")]) == "low"
    tokens.save(folder / "saved.json")
    again = load_tokenizer(folder / "saved.json")
    assert isinstance(again, GPT2Tokenizer)
    assert again == tokens
    assert again.bos_id == tokens.bos_id


def test_one_file_says_what_two_say(foreign):
    folder, pairs = foreign
    count = len(pairs) - 3 + 1
    tokens = read_gpt2_tokenizer(folder, {}, count)
    write_tokenizer(tokens, folder)
    (folder / "vocab.json").unlink()
    assert read_gpt2_tokenizer(folder, {}, count) == tokens


def test_tokens_against_the_library_itself(foreign):
    from tokenizers import Tokenizer

    folder, pairs = foreign
    tokens = read_gpt2_tokenizer(folder, {}, len(pairs) - 2)
    write_tokenizer(tokens, folder)
    engine = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for text in ("low lower", "naïve 🙂 don't\n\n  stop", "ÿ\u0000"):
        assert engine.encode(text).ids == tokens.encode(text)


def test_rows_that_no_token_has(foreign):
    folder, _ = foreign
    tokens = read_gpt2_tokenizer(folder, {}, 320)
    assert len(tokens) == 320
    with pytest.raises(UserError, match="but the model has 100"):
        read_gpt2_tokenizer(folder, {}, 100)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("vocab.json", '{"a": 0, "b": 2}', "not numbered from 0"),
        ("vocab.json", '{"a": "x"}', "not numbered from 0"),
        ("vocab.json", "[]", "not a table"),
        ("merges.txt", "#version: 0.2\na b c\n", "no merge of two tokens"),
        ("merges.txt", "q q\n", "merges do not fit"),
        ("merges.txt", "a <|endoftext|>\n", "merges do not fit"),
        ("tokenizer.json", "{}", "not byte pairs as GPT-2"),
        (
            "tokenizer.json",
            '{"model": {"type": "BPE"}, "pre_tokenizer": '
            '{"type": "ByteLevel", "add_prefix_space": false}}',
            "merges are missing",
        ),
    ],
)
def test_tokens_that_make_no_sense(name, content, told, foreign):
    folder, pairs = foreign
    (folder / name).write_text(content)
    with pytest.raises(UserError, match=told):
        read_gpt2_tokenizer(folder, {}, len(pairs) - 2)


def test_names_are_unlike_even_where_a_token_is_spelt_like_a_special():
    letters = BytePairTokenizer.train([""], vocab_size=259).to_dict()["vocabulary"]
    spelt = [*letters, "<s>", "<1>"]
    names = unique_token_names(BytePairTokenizer(spelt, merges=[]))
    assert names == ["<pad>", "<<1>>", "<unk>", *spelt]


# -- folders -----------------------------------------------------------------------------------


def test_a_folder_becomes_a_run(foreign, tmp_path):
    folder, pairs = foreign
    count = len(pairs) - 2
    model = made(count)
    write_gpt2(model, folder, bos_id=count - 1, eos_id=count - 1)
    run = tmp_path / "runs" / "adopted"
    import_model(folder, run)
    assert {p.name for p in run.iterdir()} == {
        "config.toml",
        "environment.json",
        "model.safetensors",
        "tokenizer.json",
    }
    assert load_tokenizer(run / "tokenizer.json") == read_gpt2_tokenizer(folder, {}, count)
    weights = read_tensors(run / "model.safetensors")
    assert {n: t.tolist() for n, t in weights.items()} == {
        n: t.tolist() for n, t in model.state_dict().items()
    }
    with pytest.raises(UserError, match="there already"):
        import_model(folder, run)
    shutil.rmtree(run)
    (folder / "vocab.json").unlink()
    with pytest.raises(UserError, match="no tokenizer"):
        import_model(folder, run)
    assert not run.exists()


def test_a_run_becomes_a_folder(tmp_path):
    tokenizer = CharacterTokenizer.train(["abcdef"])
    model = made(len(tokenizer))
    notes = export_language_model(model, tokenizer, "gpt2", tmp_path / "a" / "b")
    assert "only byte pairs" in notes[0]
    config = json.loads((tmp_path / "a" / "b" / "config.json").read_text())
    assert (config["bos_token_id"], config["eos_token_id"]) == (1, None)
    with pytest.raises(UserError, match="did you mean 'gpt2'"):
        export_language_model(model, tokenizer, "gpt-2", tmp_path / "c")
    assert not (tmp_path / "c").exists()
