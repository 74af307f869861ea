"""Weights files, settings and byte pairs in Hugging Face's format."""

import json

import pytest
import torch

from workings.data import BytePairTokenizer
from workings.errors import UserError
from workings.interop.huggingface import (
    get_tensor,
    read_activation,
    read_byte_pairs,
)
from workings.interop.tokenizer_files import unique_token_names, write_tokenizer

TEXTS = ["low lower lowest, naïve 🙂 <s>"] * 10


@pytest.fixture
def tokenizer():
    return BytePairTokenizer.train(TEXTS, vocab_size=280)


def test_written_vocabulary_and_merges_are_read(tokenizer, tmp_path):
    write_tokenizer(tokenizer, tmp_path)
    ids, merges = read_byte_pairs(tmp_path / "tokenizer.json")
    assert ids == {name: i for i, name in enumerate(unique_token_names(tokenizer))}
    assert merges == list(tokenizer.merges)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": None}, "expected GPT-2's byte-level BPE"),
        ({"model": {"type": "WordPiece"}}, "expected GPT-2's byte-level BPE"),
        ({"pre_tokenizer": {"type": "Whitespace"}}, "expected GPT-2's byte-level BPE"),
        ({"model": {"type": "BPE"}}, "expected a vocabulary and merges"),
        ({"model": {"type": "BPE", "vocab": {}, "merges": [["a"]]}}, "not a merge of two tokens"),
    ],
)
def test_other_tokenizers_are_rejected(tokenizer, change, message, tmp_path):
    write_tokenizer(tokenizer, tmp_path)
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(UserError, match=message):
        read_byte_pairs(path)


def test_tensors_are_checked(tmp_path):
    tensors = {"a": torch.ones(2, 3), "b": torch.ones(2, 3, dtype=torch.int64)}
    assert get_tensor(tensors, "a", (2, 3), tmp_path) is tensors["a"]
    with pytest.raises(UserError, match=r"a is of shape \(2, 3\) .* expected \(3, 2\) and floats"):
        get_tensor(tensors, "a", (3, 2), tmp_path)
    with pytest.raises(UserError, match=r"b is of shape \(2, 3\) and int64"):
        get_tensor(tensors, "b", (2, 3), tmp_path)
    with pytest.raises(UserError, match="c is missing"):
        get_tensor(tensors, "c", (2, 3), tmp_path)


def test_activations():
    assert read_activation({}, "gelu_new", ["gelu-tanh"]) == "gelu-tanh"
    assert read_activation({"activation_function": "swish"}, "gelu", ["silu", "gelu"]) == "silu"
    with pytest.raises(UserError, match="did you mean 'gelu'"):
        read_activation({"activation_function": "gleu"}, "gelu", ["gelu", "relu"])
    with pytest.raises(UserError, match="activation_function = 'swish'"):
        read_activation({"activation_function": "swish"}, "gelu", ["gelu", "relu"])
    with pytest.raises(UserError, match="activation_function"):
        read_activation({"activation_function": ["gelu"]}, "gelu", ["gelu"])
