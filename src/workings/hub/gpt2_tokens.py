"""GPT-2's tokens, as its files spell them, read and written."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workings.data.borrowed import Borrowed
from workings.data.byte_pair import BytePair
from workings.data.tokenizer import Tokenizer
from workings.errors import UserError, brief, shown
from workings.files import read_bytes
from workings.hub.gpt2 import LARGEST_JSON, read_table
from workings.storage import write_text

TOKENIZER, VOCABULARY, MERGES = "tokenizer.json", "vocab.json", "merges.txt"
SMALL_LETTERS = {"type": "Lowercase"}
"""What a `tokenizer.json` says if it makes small letters of capitals."""
_PARTING = "<|endoftext|>"


def read_tokens(folder: Path, config: Mapping[str, Any], rows: int) -> Borrowed:
    """Read the tokenizer that lies beside a model with so many rows in its embedding."""
    if (folder / TOKENIZER).exists():
        path = folder / TOKENIZER
        ids, merges = byte_pairs(path)
    elif (folder / VOCABULARY).exists():
        path = folder / VOCABULARY
        ids, merges = read_table(path), _merges_of(folder / MERGES)
    else:
        raise UserError(f"{folder}: no tokenizer: {TOKENIZER}, or {VOCABULARY} and {MERGES}")
    numbers = list(ids.values())
    if any(type(n) is not int for n in numbers) or sorted(numbers) != list(range(len(ids))):
        raise UserError(f"{path}: its {len(ids):,} tokens are not numbered from 0, one by one")
    if len(ids) > rows:
        raise UserError(f"{path}: {len(ids):,} tokens, but the model has {rows:,}")
    vocabulary = sorted(ids, key=ids.__getitem__)
    vocabulary += [f"<|unused{k}|>" for k in range(len(ids), rows)]  # rows that fill up a block
    parting = config.get("eos_token_id", 50256)
    if parting is None:  # a model that was trained without one: texts only begin
        parting = config.get("bos_token_id")
    if type(parting) is not int or not 0 <= parting < rows:
        if _PARTING not in ids:
            raise UserError(f"{path}: no token parts texts: neither eos_token_id nor {_PARTING}")
        parting = ids[_PARTING]
    try:
        return Borrowed(vocabulary, merges=merges, parting=parting)
    except UserError as error:
        raise UserError(f"{path}: {brief(str(error), 150)}") from None


def write_tokens(tokenizer: Tokenizer, folder: Path, *, lower: bool = False) -> bool:
    """Write a tokenizer as Hugging Face's are; say whether it could be: only byte pairs can.

    `lower`: it is to make small letters of capitals.
    """
    if not isinstance(tokenizer, BytePair):
        return False
    from tokenizers import Tokenizer as Engine
    from tokenizers import decoders, models, normalizers, pre_tokenizers

    names = unique_names(tokenizer)
    ids = {name: number for number, name in enumerate(names)}
    engine = Engine(models.BPE(vocab=ids, merges=list(tokenizer.merges)))
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    if lower:
        engine.normalizer = normalizers.Lowercase()
    settings = {"tokenizer_class": "PreTrainedTokenizerFast"}
    if isinstance(tokenizer, Borrowed):  # theirs find such a token in texts that spell it
        settings |= dict.fromkeys(("bos_token", "eos_token"), names[tokenizer.start])
    write_text(folder / TOKENIZER, engine.to_str(pretty=True) + "\n")
    write_text(folder / "tokenizer_config.json", json.dumps(settings, indent=2) + "\n")
    return True


def unique_names(tokenizer: Tokenizer) -> list[str]:
    r"""Name each id, no two alike and all of whole characters.

    A special that is spelt like a token of the text, or half a character, goes by its number.

    >>> from workings.data.characters import Characters
    >>> unique_names(Characters.train(["aab\udc80"]))
    ['<pad>', '<s>', '<unk>', 'a', 'b', '<5>']
    """
    found: dict[str, int] = {}
    for number in reversed(range(len(tokenizer))):  # the specials last: they can have other names
        name = tokenizer.token(number)
        if name in found or name != name.encode("utf-8", "replace").decode():
            name = f"<{number}>"
        while name in found:
            name = f"<{name}>"
        found[name] = number
    return list(reversed(found))


def byte_pairs(path: Path) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Read the numbers of a `tokenizer.json`'s tokens, and its merges."""
    table = read_table(path)
    model, splits = table.get("model"), table.get("pre_tokenizer")
    if not isinstance(model, dict) or model.get("type") != "BPE" or not _by_bytes(splits):
        raise UserError(f"{path}: not byte pairs as GPT-2 has them, which are all that can be read")
    ids, merges, added = model.get("vocab"), model.get("merges"), table.get("added_tokens", [])
    if not isinstance(ids, dict) or not isinstance(merges, list) or not isinstance(added, list):
        raise UserError(f"{path}: its vocabulary or its merges are missing")
    more = {str(t.get("content")): t.get("id") for t in added if isinstance(t, dict)}
    return ids | more, [_pair(merge, path) for merge in merges]


def _by_bytes(splits: object) -> bool:
    """Whether texts are split into bytes by GPT-2's own pattern."""
    return (
        isinstance(splits, dict)
        and splits.get("type") == "ByteLevel"
        and not splits.get("add_prefix_space", True)
        and bool(splits.get("use_regex", True))
    )


def _merges_of(path: Path) -> list[tuple[str, str]]:
    try:
        text = read_bytes(path, LARGEST_JSON).decode("utf-8")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not a text") from None
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[0].startswith("#version"):
        del lines[0]
    return [_pair(line, path) for line in lines if line]


def _pair(merge: str | Sequence[Any], path: Path) -> tuple[str, str]:
    """Read a merge, which files have as one string with a space or as two strings."""
    parts = merge.split(" ") if isinstance(merge, str) else merge
    if not isinstance(parts, list) or len(parts) != 2 or not all(isinstance(p, str) for p in parts):
        raise UserError(f"{path}: {brief(shown(merge))} is no merge of two tokens")
    return parts[0], parts[1]
