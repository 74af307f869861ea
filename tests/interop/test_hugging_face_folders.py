"""Folders as openai-community/gpt2 has them: every command opens them, as it opens runs.

The slow test does it with a model of GPT-2 small's size.
"""

import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file

from workings.cli import main
from workings.data import BytePairTokenizer
from workings.decode import generate
from workings.errors import UserError
from workings.tasks.translation import Translation
from workings.training.run_folder import read_run_recipe
from workings.training.runs import load

TEXT = "low lower lowest"
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJK"
GPT2_CONFIG = {  # what openai-community/gpt2 has, besides sizes
    "activation_function": "gelu_new",
    "architectures": ["GPT2LMHeadModel"],
    "attn_pdrop": 0.1,
    "embd_pdrop": 0.1,
    "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05,
    "model_type": "gpt2",
    "resid_pdrop": 0.1,
    "summary_activation": None,
    "summary_first_dropout": 0.1,
    "summary_proj_to_labels": True,
    "summary_type": "cls_index",
    "summary_use_proj": True,
    "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
}
SMALL_CONFIG = {"n_positions": 48, "n_ctx": 48, "n_embd": 32, "n_layer": 2, "n_head": 4}
MAX_GIGABYTES = 2.0


def write_original(folder, vocab_size, *, as_bin, **sizes):
    """Write a random GPT-2 in the form of the first checkpoints.

    No prefix, attention masks beside the weights, no output layer.
    """
    config = GPT2_CONFIG | {"vocab_size": vocab_size} | sizes
    config |= dict.fromkeys(("bos_token_id", "eos_token_id"), vocab_size - 1)
    (folder / "config.json").write_text(json.dumps(config))
    width, length = sizes["n_embd"], sizes["n_positions"]
    torch.manual_seed(0)
    shapes = {"wte.weight": (vocab_size, width), "wpe.weight": (length, width)}
    shapes |= {"ln_f.weight": (width,), "ln_f.bias": (width,)}
    for k in range(sizes["n_layer"]):
        for name, shape in {
            "attn.c_attn": (width, 3 * width),
            "attn.c_proj": (width, width),
            "mlp.c_fc": (width, 4 * width),
            "mlp.c_proj": (4 * width, width),
        }.items():
            shapes[f"h.{k}.{name}.weight"], shapes[f"h.{k}.{name}.bias"] = shape, shape[1:]
        for name in ("ln_1", "ln_2"):
            shapes |= {f"h.{k}.{name}.weight": (width,), f"h.{k}.{name}.bias": (width,)}
    tensors = {name: 0.1 * torch.randn(shape) for name, shape in shapes.items()}
    for name in tensors:
        if ".ln_" in f".{name}" and name.endswith("weight"):
            tensors[name] += 1
    mask = torch.ones(length, length).tril().view(1, 1, length, length)
    for k in range(sizes["n_layer"]):
        tensors[f"h.{k}.attn.bias"] = mask.clone()
    if as_bin:
        torch.save(tensors, folder / "pytorch_model.bin")
    else:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.fixture(params=["safetensors", "bin"])
def gpt2(request, gpt2_tokens):
    """A folder with vocab.json, merges.txt, config.json and weights in the original form."""
    folder, byte_pairs = gpt2_tokens
    vocab_size = len(byte_pairs.to_dict()["vocabulary"]) + 1
    write_original(folder, vocab_size, as_bin=request.param == "bin", **SMALL_CONFIG)
    return folder


def run(*arguments):
    return main([*map(str, arguments), "--threads", "1"])


def test_commands_open_a_folder_as_they_open_its_run(gpt2, tmp_path, capsys):
    assert run("import", gpt2, "--out", tmp_path / "run") == 0
    assert "imported" in capsys.readouterr().out
    (tmp_path / "text.txt").write_text(TEXT * 20)
    for name, *options in (
        ("complete", TEXT, "--temperature", "0", "--tokens", "40"),
        ("complete", TEXT, "--seed", "3", "--tokens", "5"),
        ("attention", TEXT, "--layer", "2", "--head", "3", "--format", "json"),
        ("head", TEXT, "--layer", "2", "--head", "3", "--format", "json"),
        ("head", TEXT, "--layer", "2", "--head", "3", "--cell", "weights,3,2"),
        ("evaluate", "--data", tmp_path / "text.txt"),
    ):
        outputs = []
        for folder in (gpt2, tmp_path / "run"):
            assert run(name, folder, *options) == 0
            outputs.append(capsys.readouterr().out)
        assert outputs[0] == outputs[1] != ""


def move_to_cache(folder, cache):
    """Move the files of a folder to a cache as Hugging Face's has it: links to blobs."""
    model = cache / "models--someone--gpt2"
    snapshot = model / "snapshots" / "0123abcd"
    snapshot.mkdir(parents=True)
    (model / "blobs").mkdir()
    for k, path in enumerate(sorted(folder.iterdir())):
        path.rename(model / "blobs" / f"{k:064x}")
        (snapshot / path.name).symlink_to(f"../../blobs/{k:064x}")
    return snapshot


def test_links_of_the_cache_are_followed(gpt2, tmp_path, capsys):
    options = (TEXT, "--temperature", "0", "--tokens", "5")
    assert run("complete", gpt2, *options) == 0
    expected = capsys.readouterr().out
    snapshot = move_to_cache(gpt2, tmp_path / "hub")
    assert run("complete", snapshot, *options) == 0
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize("name", ["config.json", "vocab.json"])
@pytest.mark.parametrize("through_blob", [False, True])
def test_links_out_of_the_cache_are_refused(name, through_blob, gpt2, tmp_path, capsys):
    snapshot, private = move_to_cache(gpt2, tmp_path / "hub"), tmp_path / "private.json"
    link = (snapshot / name).resolve() if through_blob else snapshot / name
    private.write_bytes(link.read_bytes())
    link.unlink()
    link.symlink_to(private)
    assert run("complete", snapshot, TEXT) == 2
    assert "a symbolic link: expected a regular file (cp -L" in capsys.readouterr().err


def test_summary_of_a_folder_has_its_own_sizes(gpt2, tmp_path, capsys):
    assert run("import", gpt2, "--out", tmp_path / "run") == 0
    capsys.readouterr()
    parameters = sum(p.numel() for p in load(gpt2).model.parameters())
    for folder in (gpt2, tmp_path / "run"):
        assert run("summary", folder) == 0
        assert f"{parameters:,}" in capsys.readouterr().out
    assert run("summary", gpt2, "--model.layers", "3") == 2
    assert "its settings cannot be changed" in capsys.readouterr().err


def assert_equal_to_transformers(folder, transformers, texts, num_tokens, tolerance):
    """Compare ids, logits and greedy continuations with those of transformers."""
    theirs, ours = transformers.GPT2LMHeadModel.from_pretrained(folder).eval(), load(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    for text in texts:
        ids = torch.tensor([tokenizer(text)["input_ids"]])
        assert ids[0].tolist() == ours.tokenizer.encode(text)
        with torch.no_grad():
            logits = ours.model(ids)[0]
            torch.testing.assert_close(logits, theirs(ids).logits, atol=tolerance, rtol=1e-5)
        expected = theirs.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=num_tokens,
            min_new_tokens=num_tokens,
            do_sample=False,
            suppress_tokens=[],
        )
        tokens = [int(token) for token, _ in generate(ours.model, ids, num_tokens)]
        assert tokens == expected[0, ids.shape[1] :].tolist()


def test_logits_and_greedy_texts_equal_those_of_transformers(gpt2, transformers):
    assert_equal_to_transformers(gpt2, transformers, (TEXT, "naïve 🙂", " low\n\nlow"), 20, 1e-5)


def test_other_commands_say_how_to_import_it(gpt2, capsys):
    for command in ("resume", "serve"):
        assert run(command, gpt2) == 2
        error = capsys.readouterr().err
        assert f"not a run: make one with workings import {gpt2} --out RUN" in error
    with pytest.raises(UserError, match="Hugging Face's format"):
        read_run_recipe(gpt2)
    with pytest.raises(UserError, match=r"a model of the task 'language'.*'translate'"):
        load(gpt2, Translation)
    assert run("evaluate", gpt2) == 2
    assert "an imported model has no test data of its own: --data FILE" in capsys.readouterr().err


# -- GPT-2 small's size ----------------------------------------------------------------------------

MEASURE = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def measure_gigabytes(*arguments):
    """Run a command; return the peak of its resident memory."""
    command = [sys.executable, "-c", MEASURE, sys.executable, "-m", "workings"]
    result = subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, check=True
    )
    code, peak = map(int, result.stdout.split())
    assert code == 0, result.stderr
    return peak / (2**30 if sys.platform == "darwin" else 2**20)


@pytest.fixture(scope="module", params=["safetensors", "bin"])
def gpt2_small(request, tmp_path_factory):
    """A folder of GPT-2 small's shape: 124 million random weights, 50,257 tokens."""
    folder = tmp_path_factory.mktemp("small")
    words = (a + b + c for a in LETTERS for b in LETTERS for c in LETTERS)
    pairs, vocabulary = (
        [],
        list(BytePairTokenizer.train(["a"], vocab_size=259).to_dict()["vocabulary"]),
    )
    seen = set(vocabulary)
    for word in words:
        for first, second in ((word[0], word[1]), (word[:2], word[2])):
            if first + second not in seen and len(vocabulary) < 50256:
                seen.add(first + second)
                vocabulary.append(first + second)
                pairs.append((first, second))
    vocabulary += ["<|endoftext|>"]
    assert len(vocabulary) == 50257
    (folder / "vocab.json").write_text(json.dumps({t: k for k, t in enumerate(vocabulary)}))
    merges = "\n".join(" ".join(pair) for pair in pairs)
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}\n", encoding="utf-8")
    sizes = {"n_positions": 1024, "n_ctx": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12}
    write_original(folder, len(vocabulary), as_bin=request.param == "bin", **sizes)
    return folder


@pytest.mark.slow
def test_gpt2_small_is_opened_in_two_gigabytes(gpt2_small, tmp_path, transformers):
    text, run_folder = "The cat sat on the mat", tmp_path / "run"
    assert measure_gigabytes("import", gpt2_small, "--out", run_folder) < MAX_GIGABYTES
    for folder in (gpt2_small, run_folder):
        options = [folder, text, "--layer", "5", "--head", "2"]
        assert measure_gigabytes("attention", *options) < MAX_GIGABYTES
        assert measure_gigabytes("head", *options) < MAX_GIGABYTES
        for temperature in ("0", "0.8"):
            options = [folder, text, "--tokens", "40", "--temperature", temperature]
            assert measure_gigabytes("complete", *options) < MAX_GIGABYTES
    assert_equal_to_transformers(gpt2_small, transformers, (text, "naïve 🙂", "a\n\nb"), 40, 1e-4)


@pytest.mark.parametrize("name", ["whisper", ["gpt2"], 7])
def test_other_models_are_refused_with_those_that_can_be_read(name, tmp_path, capsys):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": name}))
    assert main(["import", str(tmp_path), "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "is not supported: " in error
    assert name != "whisper" or "gpt_neox, llama, bert, distilbert, marian, pegasus" in error
