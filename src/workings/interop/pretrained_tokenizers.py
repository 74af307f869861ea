"""Tokenizers beside models in Hugging Face's format, read with the same ids."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workings.data.tokenizers.pretrained import PretrainedTokenizer, define_word_piece
from workings.errors import UserError, truncate
from workings.interop.huggingface import (
    MAX_JSON_BYTES,
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
)
from workings.io import read_bytes, read_json_object

VOCABULARY_FILE = "vocab.txt"


def read_tokenizer(folder: Path, config: Mapping[str, Any], vocab_size: int) -> PretrainedTokenizer:
    """Read the tokenizer beside a model with `vocab_size` embeddings.

    It is a `tokenizer.json`, or the `vocab.txt` of a BERT.
    """
    path = folder / TOKENIZER_FILE
    if path.exists():
        definition = read_json_object(path, MAX_JSON_BYTES)
    elif (folder / VOCABULARY_FILE).exists():
        definition, path = _read_word_piece(folder), folder / VOCABULARY_FILE
    else:
        raise UserError(
            f"{folder}: no {TOKENIZER_FILE}: "
            "write it with AutoTokenizer.from_pretrained(folder).save_pretrained(folder)"
        )
    try:
        tokenizer = PretrainedTokenizer(definition, vocab_size=vocab_size)
        special_ids = {
            f"{name}_id": _find_special_id(folder, config, tokenizer, f"{name}_token")
            for name in ("bos", "eos", "pad")
        }
        return PretrainedTokenizer(definition, vocab_size=vocab_size, **special_ids)
    except UserError as error:
        raise UserError(f"{path}: {truncate(str(error), 200)}") from None


def _find_special_id(
    folder: Path, config: Mapping[str, Any], tokenizer: PretrainedTokenizer, key: str
) -> int | None:
    """Return the id of a special token by a model's config, or else by its tokenizer's."""
    token_id = config.get(f"{key}_id")
    if isinstance(token_id, list) and token_id:  # several tokens may end a text
        token_id = token_id[0]
    if type(token_id) is int:
        return token_id
    token = _read_tokenizer_config(folder).get(key)
    if isinstance(token, dict):
        token = token.get("content")
    return tokenizer.token_to_id(token) if isinstance(token, str) else None


def _read_word_piece(folder: Path) -> dict[str, Any]:
    """Return the definition of BERT's tokenizer, by its `vocab.txt`."""
    path = folder / VOCABULARY_FILE
    try:
        text = read_bytes(path, MAX_JSON_BYTES).decode("utf-8")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not UTF-8 text") from None
    tokens = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    vocabulary = {token: k for k, token in enumerate(tokens)}
    if missing := [name for name in ("[UNK]", "[CLS]", "[SEP]") if name not in vocabulary]:
        raise UserError(f"{path}: {missing[0]} is missing")
    lowercase = _read_tokenizer_config(folder).get("do_lower_case", True) is True
    return define_word_piece(vocabulary, lowercase=lowercase)


def _read_tokenizer_config(folder: Path) -> dict[str, Any]:
    path = folder / TOKENIZER_CONFIG_FILE
    return read_json_object(path, MAX_JSON_BYTES) if path.exists() else {}
