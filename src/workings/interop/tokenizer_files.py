"""Tokenizers as Hugging Face stores them: `tokenizer.json` and `tokenizer_config.json`.

The written files do what ours do: `AutoTokenizer` returns the same ids, with the end token that a
translator was trained with, and the same texts. A text that spells a special token is a text there,
too.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from workings.data.tokenizers.base import UNK_TOKEN, Tokenizer
from workings.data.tokenizers.byte_pair import BytePairTokenizer
from workings.data.tokenizers.characters import CharacterTokenizer
from workings.data.tokenizers.pretrained import PretrainedTokenizer
from workings.data.tokenizers.words import CONTRACTION_ENDINGS, REPLACEMENTS, WordTokenizer
from workings.errors import UserError, truncate
from workings.interop.huggingface import (
    MAX_JSON_BYTES,
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
    read_byte_pairs,
    write_json,
)
from workings.io import read_json_object, write_text
from workings.plain_text import find_surrogate

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Engine

PaddingSide = Literal["left", "right"]
NUM_SPECIALS = 4
"""Special tokens of a translator's tokenizer: padding, start, unknown and end."""

# Python's `str.lower` writes a sigma at the end of a word as ς; the engine lowercases each letter
# on its own. (A sigma beside a full stop or an apostrophe is left to the engine.)
_FINAL_SIGMA = r"(?<=\p{L})Σ(?!\p{L})"
_LOWERCASE_ONLY = {"type": "Lowercase"}  # the normalizer that earlier versions wrote
_SEPARATORS = "\x1c-\x1f"  # whitespace for Python, and not for the engine
_WHITESPACE = rf"[\s{_SEPARATORS}]"
_NO_PREFIX = "\x00"  # no token begins with it: the engine then puts a space before every token


def write_tokenizer(
    tokenizer: Tokenizer,
    folder: Path,
    *,
    lowercase: bool = False,
    add_eos: bool = False,
    padding_side: PaddingSide = "right",
    max_length: int | None = None,
) -> bool:
    """Write a tokenizer as `AutoTokenizer` reads it; return False if the format has none like it.

    With `lowercase`, the written tokenizer lowercases texts. With `add_eos`, it is a translator's:
    it appends the end token to texts and strips what it decodes. A decoder that continues texts
    needs its padding on the left. `max_length` is where the caller's `truncation=True` cuts a text.
    """
    engine = _build_engine(tokenizer, lowercase=lowercase)
    if engine is None:
        return False
    names = unique_token_names(tokenizer)
    special_tokens = _name_special_tokens(tokenizer, names)
    engine.add_special_tokens(list(dict.fromkeys(special_tokens.values())))
    if add_eos:
        _append_eos(engine, special_tokens["eos_token"])
        _strip_decoded(engine)
    settings: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **special_tokens,
        # Without it, a text that spells a special token would be encoded as that token.
        "split_special_tokens": True,
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
        "padding_side": padding_side,
    }
    if max_length is not None:
        settings["model_max_length"] = max_length
    write_text(folder / TOKENIZER_FILE, engine.to_str(pretty=True) + "\n")
    write_json(folder / TOKENIZER_CONFIG_FILE, settings)
    return True


def _name_special_tokens(tokenizer: Tokenizer, names: Sequence[str]) -> dict[str, str]:
    """Return the special tokens by Hugging Face's keys; GPT-2's only one is padding, too."""
    special_ids = {
        "pad_token": tokenizer.pad_id,
        "bos_token": tokenizer.bos_id,
        "eos_token": tokenizer.eos_id,
        "unk_token": tokenizer.unk_id if tokenizer.unk_id >= 0 else None,
    }
    return {key: names[k] for key, k in special_ids.items() if k is not None}


def _append_eos(engine: "Engine", eos_token: str) -> None:
    from tokenizers import processors

    engine.post_processor = processors.TemplateProcessing(
        single=["$A", eos_token],
        pair=["$A", eos_token, "$B", eos_token],
        special_tokens=[(eos_token, engine.token_to_id(eos_token))],
    )


def _strip_decoded(engine: "Engine") -> None:
    """Remove the spaces around a decoded text, as `detokenize` does for translations."""
    from tokenizers import Regex, decoders

    pattern = Regex(rf"\A{_WHITESPACE}+|{_WHITESPACE}+\z")
    steps = [engine.decoder, decoders.Fuse(), decoders.Replace(pattern, "")]
    engine.decoder = decoders.Sequence(steps)


def _build_engine(tokenizer: Tokenizer, *, lowercase: bool) -> "Engine | None":
    """Return the engine that splits and joins texts as a tokenizer does."""
    if isinstance(tokenizer, BytePairTokenizer):
        return _build_byte_pair_engine(tokenizer, lowercase=lowercase)
    if isinstance(tokenizer, WordTokenizer):
        return _build_word_engine(tokenizer)
    if isinstance(tokenizer, CharacterTokenizer):
        return _build_character_engine(tokenizer, lowercase=lowercase)
    if isinstance(tokenizer, PretrainedTokenizer):
        from tokenizers import Tokenizer as Engine

        return Engine.from_str(json.dumps(tokenizer.definition))
    return None


def _build_byte_pair_engine(tokenizer: BytePairTokenizer, *, lowercase: bool) -> "Engine":
    from tokenizers import Tokenizer as Engine
    from tokenizers import decoders, models, pre_tokenizers

    ids = {name: i for i, name in enumerate(unique_token_names(tokenizer))}
    engine = Engine(models.BPE(vocab=ids, merges=list(tokenizer.merges)))
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    if lowercase:
        engine.normalizer = _build_lowercasing()
    return engine


def _build_character_engine(tokenizer: CharacterTokenizer, *, lowercase: bool) -> "Engine":
    from tokenizers import Regex, decoders, pre_tokenizers

    engine = _build_word_level_engine(unique_token_names(tokenizer))
    engine.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    engine.decoder = decoders.Fuse()
    if lowercase:
        engine.normalizer = _build_lowercasing()
    return engine


def _build_word_engine(tokenizer: WordTokenizer) -> "Engine":
    """Return an engine that splits texts as `basic_english` does, and joins words as `join`."""
    from tokenizers import Regex, decoders, normalizers, pre_tokenizers

    names = unique_token_names(tokenizer)
    vocabulary = tokenizer.to_dict()["vocabulary"]
    # A word that spells the name of a special token is unknown.
    reserved = "|".join(re.escape(name) for name in names if name not in set(vocabulary))
    engine = _build_word_level_engine(names)
    engine.normalizer = normalizers.Sequence(
        [
            _build_lowercasing(),
            *(normalizers.Replace(old, new) for old, new in REPLACEMENTS),
            normalizers.Replace(Regex(f"[{_SEPARATORS}]"), " "),
            normalizers.Replace(Regex(rf"(?<!\S)(?:{reserved})(?!\S)"), UNK_TOKEN),
        ]
    )
    engine.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    endings = "|".join(sorted(CONTRACTION_ENDINGS))
    removed_spaces = (
        r"(?<= \S '|\A\S '| \S\S '|\A\S\S ') (?=\S)",  # l'eau
        rf"(?<=\S ') (?=(?:{endings})(?: |\z))",  # don't
        r" (?=[.,!?)'])",
        r"(?<=\() ",
    )
    engine.decoder = decoders.Sequence(
        [
            decoders.WordPiece(prefix=_NO_PREFIX, cleanup=False),
            decoders.Fuse(),
            *(decoders.Replace(Regex(pattern), "") for pattern in removed_spaces),
        ]
    )
    return engine


def _build_word_level_engine(names: Sequence[str]) -> "Engine":
    from tokenizers import Tokenizer as Engine
    from tokenizers import models

    ids = {name: i for i, name in enumerate(names)}
    return Engine(models.WordLevel(ids, unk_token=names[Tokenizer.unk_id]))


def _build_lowercasing() -> Any:
    from tokenizers import Regex, normalizers

    return normalizers.Sequence(
        [normalizers.Replace(Regex(_FINAL_SIGMA), "ς"), normalizers.Lowercase()]
    )


def read_tokenizer(path: Path) -> tuple[Tokenizer, bool]:
    """Read a translator's tokenizer that `write_tokenizer` wrote, and whether it lowercases texts.

    The special tokens have the first ids, as in all our tokenizers for translation.
    """
    table = read_json_object(path, MAX_JSON_BYTES)
    model, pre_tokenizer = (_as_table(table.get(key)) for key in ("model", "pre_tokenizer"))
    is_byte_pair = model.get("type") != "WordLevel"
    ids, merges = read_byte_pairs(path) if is_byte_pair else (_as_table(model.get("vocab")), [])
    are_integers = all(type(token_id) is int for token_id in ids.values())
    if not are_integers or sorted(ids.values()) != list(range(len(ids))):
        raise _not_written_here(path)
    vocabulary = sorted(ids, key=ids.__getitem__)[NUM_SPECIALS:]
    is_lower = table.get("normalizer") is not None
    tokenizer: Tokenizer
    try:
        if is_byte_pair:
            tokenizer = BytePairTokenizer(vocabulary, merges=merges, with_eos=True)
        elif pre_tokenizer.get("type") == "WhitespaceSplit":
            tokenizer = WordTokenizer(vocabulary, with_eos=True)
        else:
            tokenizer = CharacterTokenizer(vocabulary, with_eos=True)
    except UserError as error:
        raise UserError(f"{path}: {truncate(str(error), 150)}") from None
    engine = _build_engine(tokenizer, lowercase=is_lower)
    assert engine is not None
    expected = json.loads(engine.to_str())
    normalizers = [expected["normalizer"], *([_LOWERCASE_ONLY] if is_byte_pair else [])]
    if is_lower and table["normalizer"] not in normalizers:
        raise UserError(f"{path}: its normalizer is not supported: expected one that lowercases")
    if not is_byte_pair and table.get("pre_tokenizer") != expected["pre_tokenizer"]:
        raise _not_written_here(path)
    return tokenizer, is_lower


def _as_table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _not_written_here(path: Path) -> UserError:
    return UserError(f"{path}: only tokenizers that `workings export` writes can be read")


def unique_token_names(tokenizer: Tokenizer) -> list[str]:
    r"""Return a name for each id, without duplicates and unpaired surrogates.

    A special token that is spelled like another token, or a surrogate, is named by its id.

    >>> unique_token_names(CharacterTokenizer.train(["aab\udc80"]))
    ['<pad>', '<s>', '<unk>', 'a', 'b', '<5>']
    """
    names: dict[str, int] = {}
    for token_id in reversed(range(len(tokenizer))):  # specials last: they are the ones renamed
        name = tokenizer.id_to_token(token_id)
        if name in names or find_surrogate(name):
            name = f"<{token_id}>"
        while name in names:
            name = f"<{name}>"
        names[name] = token_id
    return list(reversed(names))
