"""Weights files, token names and byte-pair tokenizers in Hugging Face's format."""

import json

import pytest
import torch
from tokenizers import Tokenizer as Engine

from workings.data import BytePairTokenizer, CharacterTokenizer, WordTokenizer
from workings.errors import UserError
from workings.interop.huggingface import (
    get_tensor,
    read_activation,
    read_byte_pairs,
    unique_token_names,
    write_tokenizer,
)

TEXTS = ["low lower lowest, naïve 🙂 <s>"] * 10


@pytest.fixture
def tokenizer():
    return BytePairTokenizer.train(TEXTS, vocab_size=280)


def test_written_tokenizer_encodes_the_same(tokenizer, tmp_path):
    assert write_tokenizer(tokenizer, tmp_path)
    engine = Engine.from_file(str(tmp_path / "tokenizer.json"))
    for text in ("lower low", "naïve 🙂\n two  spaces <s> <pad>", "it's 1234!", "ÿ\u0000"):
        assert engine.encode(text).ids == tokenizer.encode(text)
        assert engine.decode(tokenizer.encode(text)) == text


def test_auto_tokenizer_reads_written_tokenizer(tokenizer, tmp_path):
    transformers = pytest.importorskip("transformers")
    write_tokenizer(tokenizer, tmp_path)
    reread = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in ("lower low", "naïve 🙂\n two  spaces <s> <pad>", "it's 1234!"):
        assert reread(text)["input_ids"] == tokenizer.encode(text)
        assert reread.decode(tokenizer.encode(text)) == text


def test_lowercasing_is_written(tokenizer, tmp_path):
    write_tokenizer(tokenizer, tmp_path, lowercase=True)
    engine = Engine.from_file(str(tmp_path / "tokenizer.json"))
    assert engine.encode("LOWER").ids == tokenizer.encode("lower")


def test_only_byte_pair_tokenizers_are_written(tmp_path):
    for kind in (CharacterTokenizer, WordTokenizer):
        assert not write_tokenizer(kind.train(TEXTS), tmp_path)
    assert not list(tmp_path.iterdir())


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


def test_names_are_unique_if_a_token_is_spelled_like_a_special_one():
    letters = BytePairTokenizer.train([""], vocab_size=259).to_dict()["vocabulary"]
    vocabulary = [*letters, "<s>", "<1>"]
    names = unique_token_names(BytePairTokenizer(vocabulary, merges=[]))
    assert names == ["<pad>", "<<1>>", "<unk>", *vocabulary]


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
