"""Folders in the formats of GPT-2 and OPUS-MT."""

import json

import pytest
import torch
from sentencepiece_files import PIECES, make_sentencepiece_model
from torchvision_check import hide_broken_torchvision

from workings.data import BytePairTokenizer
from workings.interop.marian import write_translator
from workings.models.translation import build_translator

hide_broken_torchvision()


@pytest.fixture(scope="session")
def transformers():
    """Hugging Face's package."""
    return pytest.importorskip("transformers")


@pytest.fixture
def gpt2_tokens(tmp_path):
    """A folder with GPT-2's two tokenizer files, and the byte-pair tokenizer they are made of."""
    folder = tmp_path / "gpt2"
    folder.mkdir()
    byte_pairs = BytePairTokenizer.train(["low lower lowest, naïve 🙂"] * 10, vocab_size=290)
    vocabulary = byte_pairs.to_dict()["vocabulary"]
    ids = {token: k for k, token in enumerate([*vocabulary, "<|endoftext|>"])}
    (folder / "vocab.json").write_text(json.dumps(ids))
    merges = "\n".join(" ".join(pair) for pair in byte_pairs.merges)
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}\n", encoding="utf-8")
    return folder, byte_pairs


@pytest.fixture
def opus(tmp_path):
    """A folder like those of OPUS-MT, with random weights."""
    folder = tmp_path / "opus"
    folder.mkdir()
    tokens = ["</s>", "<unk>", *PIECES, ">>fr<<", "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({token: k for k, token in enumerate(tokens)}))
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes(make_sentencepiece_model())
    (folder / "tokenizer_config.json").write_text('{"source_lang": "en", "target_lang": "fr"}')
    size = len(tokens)
    torch.manual_seed(0)
    table = {"d_model": 16, "d_ff": 24, "layers": 2, "heads": 2, "norm": "post"}
    model = build_translator(table | {"output_bias": True}, size, size)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    write_translator(model, folder)
    path = folder / "config.json"
    ids = {"eos_token_id": 0, "pad_token_id": size - 1, "decoder_start_token_id": size - 1}
    path.write_text(json.dumps(json.loads(path.read_text()) | ids))
    return folder
