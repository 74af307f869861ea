"""Readers of other people's models: a GPT-2's config, weights and tokens."""

import json
from functools import cache
from pathlib import Path

import torch

from readers import JSON, TEXTS, Reader, desk
from workings.data import BytePair
from workings.data.borrowed import Borrowed
from workings.hub.gpt2 import read_gpt2, write_gpt2
from workings.hub.gpt2_tokens import read_tokens, write_tokens
from workings.models.language import build_language_model

FILES = ("config.json", "model.safetensors", "tokenizer.json", "vocab.json", "merges.txt")
ROWS = 300


@cache
def made() -> dict[str, bytes]:
    """The files of a small GPT-2."""
    torch.set_num_threads(1)
    folder = desk() / "gpt2"
    folder.mkdir()
    table = {"embedding": 2, "layers": 1, "heads": 1, "positions": "learned", "length": 4}
    write_gpt2(build_language_model(table, ROWS), folder)
    pairs = BytePair.train(TEXTS * 3, size=ROWS - 10)
    vocabulary = [*pairs.to_table()["vocabulary"], "<|endoftext|>"]
    tokens = Borrowed(vocabulary, merges=pairs.merges, parting=len(vocabulary) - 1)
    write_tokens(tokens, folder)
    (folder / "vocab.json").write_text(json.dumps({t: k for k, t in enumerate(vocabulary)}))
    merges = "\n".join(" ".join(pair) for pair in pairs.merges)
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}\n", encoding="utf-8")
    return {name: (folder / name).read_bytes() for name in FILES}


def _fresh(data: bytes) -> tuple[Path, str]:
    """The first byte says which file the rest is; the others are as they were."""
    changed = FILES[data[0] % len(FILES)] if data else FILES[0]
    folder = desk() / "gpt2"
    for name, whole in made().items():
        (folder / name).write_bytes(data[1:] if name == changed else whole)
    return folder, changed


def _gpt2(data: bytes) -> None:
    folder, changed = _fresh(data)
    if changed in FILES[:2]:
        model = read_gpt2(folder)
        with torch.no_grad():
            model(torch.zeros(1, 1, dtype=torch.long))
        return
    if changed != "tokenizer.json":
        (folder / "tokenizer.json").unlink()
    tokens = read_tokens(folder, {}, ROWS)
    assert len(tokens) == ROWS
    assert all(0 <= k < ROWS for text in TEXTS for k in tokens.encode(text))


HUB_READERS = {
    "gpt2": Reader(
        _gpt2,
        lambda: [bytes([k]) + made()[name] for k, name in enumerate(FILES)],
        (*JSON, '"n_layer"', '"F32"', '"I64"', "c_attn", "lm_head.weight", "Ġ", "<|endoftext|>"),
    ),
}
