"""Readers of imported models: configuration, weights and tokenizers of GPT-2 and Marian."""

import json
from functools import cache
from io import BytesIO
from pathlib import Path

import torch

from readers import JSON, TEXTS, Reader, work_folder
from workings.data import BytePairTokenizer
from workings.data.tokenizers.byte_pair import GPT2Tokenizer
from workings.data.tokenizers.pretrained import PretrainedTokenizer, define_word_piece
from workings.interop.gpt2 import read_gpt2_tokenizer
from workings.interop.huggingface import read_config
from workings.interop.language_models import read_language_model, write_language_model
from workings.interop.marian import read_translator, write_translator
from workings.interop.tokenizer_files import write_tokenizer
from workings.interop.vocabularies import read_vocabularies
from workings.interop.weights import read_weights
from workings.io import parse_json_object
from workings.models.language import build_language_model
from workings.models.translation import SentenceBatch, build_translator

FILES = ("config.json", "model.safetensors", "tokenizer.json", "vocab.json", "merges.txt")
VOCAB_SIZE = 300


@cache
def gpt2_files() -> dict[str, bytes]:
    """Return the files of a small GPT-2 by name."""
    torch.set_num_threads(1)
    folder = work_folder() / "gpt2"
    folder.mkdir()
    table = {"d_model": 2, "layers": 1, "heads": 1, "positions": "learned", "max_positions": 4}
    write_language_model(build_language_model(table, VOCAB_SIZE), folder, "gpt2")
    pairs = BytePairTokenizer.train(TEXTS * 3, vocab_size=VOCAB_SIZE - 10)
    vocabulary = [*pairs.to_dict()["vocabulary"], "<|endoftext|>"]
    tokens = GPT2Tokenizer(vocabulary, merges=pairs.merges, end_of_text_id=len(vocabulary) - 1)
    write_tokenizer(tokens, folder)
    (folder / "vocab.json").write_text(json.dumps({t: k for k, t in enumerate(vocabulary)}))
    merges = "\n".join(" ".join(pair) for pair in pairs.merges)
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}\n", encoding="utf-8")
    return {name: (folder / name).read_bytes() for name in FILES}


def _write_gpt2_files(data: bytes) -> tuple[Path, str]:
    """Write the files; the first byte of the data chooses which of them the rest replaces."""
    changed = FILES[data[0] % len(FILES)] if data else FILES[0]
    folder = work_folder() / "gpt2"
    for name, content in gpt2_files().items():
        (folder / name).write_bytes(data[1:] if name == changed else content)
    return folder, changed


def _gpt2(data: bytes) -> None:
    folder, changed = _write_gpt2_files(data)
    if changed in FILES[:2]:
        model = read_language_model(folder, read_config(folder))
        with torch.no_grad():
            model(torch.zeros(1, 1, dtype=torch.long))
        return
    if changed != "tokenizer.json":
        (folder / "tokenizer.json").unlink()
    tokens = read_gpt2_tokenizer(folder, {}, VOCAB_SIZE)
    assert len(tokens) == VOCAB_SIZE
    assert all(0 <= k < VOCAB_SIZE for text in TEXTS for k in tokens.encode(text))


MARIAN_FILES = ("config.json", "model.safetensors", "vocab.json", "source.spm")


@cache
def marian_files() -> dict[str, bytes]:
    """Return the files of a small Marian by name; its SentencePiece models have three pieces."""
    torch.set_num_threads(1)
    folder = work_folder() / "marian"
    folder.mkdir()
    table = {"d_model": 2, "d_ff": 2, "layers": 1, "heads": 1, "norm": "post"}
    write_translator(build_translator(table, 8, 8), folder)
    names = ["<pad>", "<s>", "<unk>", "</s>", "\u2581", "a", "b"]
    (folder / "vocab.json").write_text(json.dumps({t: k for k, t in enumerate(names)}))
    pieces = b"".join(
        b"\x0a" + bytes([len(name) + 9, 0x0A, len(name)]) + name + b"\x15\0\0\x80\xc0\x18\x01"
        for name in ("\u2581".encode(), b"a", b"b")
    )
    # A normalizer that maps "b" to "a": a trie of one key, and the texts of its values.
    units = [0x400, *[0] * 98, 0x462 | 0x100, 0x80000000]
    trie = b"".join(unit.to_bytes(4, "little") for unit in units)
    normalizer = len(trie).to_bytes(4, "little") + trie + b"a\0"
    size = len(normalizer)
    settings = b"\x12" + bytes([size & 127 | 128, size >> 7]) + normalizer
    size = len(settings)
    model = pieces + b"\x1a" + bytes([size & 127 | 128, size >> 7]) + settings
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes(model)
    return {name: (folder / name).read_bytes() for name in MARIAN_FILES}


def _marian(data: bytes) -> None:
    files = marian_files()
    changed = MARIAN_FILES[data[0] % len(MARIAN_FILES)] if data else MARIAN_FILES[0]
    folder = work_folder() / "marian"
    for name, content in files.items():
        (folder / name).write_bytes(data[1:] if name == changed else content)
    config = read_config(folder)
    vocabularies = read_vocabularies(folder, config)
    marian = read_translator(folder, config, vocabularies.unk_id)
    tokenizers = vocabularies.build_tokenizers(marian.source_order, marian.target_order)
    for text in TEXTS:
        ids = torch.tensor([tokenizers.encode_source(text)])
        assert int(ids.max()) < len(tokenizers.source)
        tokenizers.source.find_spans(text)
    with torch.no_grad():
        marian.model(SentenceBatch(ids, torch.tensor([ids.shape[1]])), ids[:, :1])


@cache
def _bin_files() -> list[bytes]:
    """Return weights as torch writes them: in its current and in its first format."""
    files = []
    for is_current in (True, False):
        file = BytesIO()
        tensors = {"a": torch.ones(2, 3), "b": torch.ones(2, dtype=torch.bfloat16)}
        torch.save(tensors, file, _use_new_zipfile_serialization=is_current)
        files.append(file.getvalue())
    return files


def _bin(data: bytes) -> None:
    path = work_folder() / "pytorch_model.bin"
    path.write_bytes(data)
    assert all(tensor.isfinite().all() for tensor in read_weights(path).values())


@cache
def _tokenizer_files() -> list[bytes]:
    """Return definitions of a byte-level tokenizer and of BERT's."""
    vocabulary = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3, "##b": 4}
    bert = json.dumps(define_word_piece(vocabulary, lowercase=True)).encode()
    return [gpt2_files()["tokenizer.json"], bert]


def _tokenizer(data: bytes) -> None:
    tokenizer = PretrainedTokenizer(parse_json_object(data, "tokenizer.json"))
    for text in TEXTS:
        ids = tokenizer.encode(text)
        assert all(0 <= k < len(tokenizer) for k in ids)
        assert len(tokenizer.find_spans(text)) == len(ids)
        tokenizer.decode(ids)


INTEROP_READERS = {
    "bin": Reader(_bin, _bin_files, ("_rebuild_tensor_v2", "FloatStorage", "PK", "storage")),
    "tokenizer": Reader(
        _tokenizer, _tokenizer_files, (*JSON, '"type"', '"BPE"', '"WordPiece"', '"Sequence"')
    ),
    "marian": Reader(
        _marian,
        lambda: [bytes([k]) + marian_files()[name] for k, name in enumerate(MARIAN_FILES)],
        (*JSON, '"d_model"', '"eos_token_id"', '"F32"', "lm_head.weight", "\u2581", "<unk>"),
    ),
    "gpt2": Reader(
        _gpt2,
        lambda: [bytes([k]) + gpt2_files()[name] for k, name in enumerate(FILES)],
        (*JSON, '"n_layer"', '"F32"', '"I64"', "c_attn", "lm_head.weight", "Ġ", "<|endoftext|>"),
    ),
}
