"""GPT-2 in Hugging Face's layout, `config.json` and `model.safetensors`, read and written.

The two models are the same function; only names differ, and that Hugging Face keeps the matrices of
its linear layers turned over. One table of names serves both ways.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from workings.data.tokenizers.base import Tokenizer
from workings.data.tokenizers.byte_pair import BytePairTokenizer, GPT2Tokenizer
from workings.errors import UserError, did_you_mean, safe_repr, truncate
from workings.io import read_bytes, write_text
from workings.layers.positions import LearnedPositions
from workings.layers.transformer import EncoderBlock, LayerNorm
from workings.models.language import LanguageModel, TransformerLM, build_language_model
from workings.storage import export_tensors, import_tensors

WEIGHTS_FILE, CONFIG_FILE = "model.safetensors", "config.json"
MAX_JSON_BYTES = 256 * 2**20  # a tokenizer's, with room to spare
_EPSILON = 1e-5
_ACTIVATION_FROM_HF = {
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu": "gelu",
    "relu": "relu",
}
_ACTIVATION_TO_HF = {"gelu-tanh": "gelu_new", "gelu": "gelu", "relu": "relu"}
# What GPT-2 is when its config.json does not say; other values would be another function.
_REQUIRED_SETTINGS = {
    "model_type": "gpt2",
    "layer_norm_epsilon": _EPSILON,
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
}
_DEFAULT_SIZES = {
    "vocab_size": 50257,
    "n_positions": 1024,
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
}


def read_gpt2(folder: Path) -> TransformerLM:
    """Read a model that Hugging Face's `GPT2LMHeadModel.save_pretrained` wrote."""
    table, vocabulary = convert_gpt2_config(read_config(folder))
    given = _strip_prefix(import_tensors(find_weights_file(folder)))
    if not table["tie_embeddings"]:
        given.setdefault("lm_head.bias", torch.zeros(vocabulary))  # they have none
    else:
        given.pop("lm_head.weight", None)  # the embedding once more
    layers = table["layers"]
    if f"h.{layers - 1}.ln_1.weight" not in given:
        raise UserError(
            f"{folder / WEIGHTS_FILE}: it has not the {layers:,} layers of {CONFIG_FILE}"
        )
    with torch.device("meta"):  # shapes without numbers: nothing is made before all fits
        model = build_language_model(table, vocabulary)
    assert isinstance(model, TransformerLM)
    names = dict(_map_tensor_names(layers, tied=table["tie_embeddings"]))
    if strange := sorted(given.keys() - {theirs for theirs, _ in names.values()}):
        raise UserError(f"{folder / WEIGHTS_FILE}: {truncate(strange[0])} is no part of a GPT-2")
    weights = {}
    for ours, expected in model.state_dict().items():
        if ours == "head.weight" and table["tie_embeddings"]:
            continue
        theirs, turned = names[ours]
        weights[ours] = _take_parameter(given, theirs, turned, expected, folder / WEIGHTS_FILE)
    if table["tie_embeddings"]:
        weights["head.weight"] = weights["embedding.weight"]
    model.load_state_dict(weights, assign=True)
    return model.eval()


def write_gpt2(
    model: LanguageModel, folder: Path, *, bos_id: int | None = None, eos_id: int | None = None
) -> None:
    """Write a model into a folder as `GPT2LMHeadModel.from_pretrained` reads it.

    `start` and `stop` are the ids that begin and end a text, where there are such.
    """
    config = _build_config(model)
    held = model.state_dict()
    tied = config["tie_word_embeddings"]
    tensors = {
        theirs if theirs.startswith("lm_head.") else f"transformer.{theirs}": (
            held[ours].T if turned else held[ours]
        )
        for ours, (theirs, turned) in _map_tensor_names(config["n_layer"], tied=tied)
        if theirs != "lm_head.bias"  # nothing but zeros
    }
    export_tensors(folder / WEIGHTS_FILE, tensors)
    ends = {"bos_token_id": bos_id, "eos_token_id": eos_id}
    write_text(folder / CONFIG_FILE, json.dumps(config | ends, indent=2) + "\n")


def read_config(folder: Path) -> dict[str, Any]:
    """Read a model's `config.json`."""
    return read_json_object(folder / CONFIG_FILE)


def read_json_object(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds a table."""
    try:
        table = json.loads(read_bytes(path, MAX_JSON_BYTES).decode("utf-8"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    except UserError:
        raise
    except (ValueError, RecursionError):
        raise UserError(f"{path}: not JSON") from None
    if not isinstance(table, dict):
        raise UserError(f"{path}: not a table of settings")
    return table


def convert_gpt2_config(config: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """Say a GPT-2's config as a recipe's `[model]` section says it, and how many tokens there are.

    >>> table, vocabulary = convert_gpt2_config({"n_embd": 64, "n_head": 2, "n_layer": 1})
    >>> table["d_model"], table["activation"], vocabulary
    (64, 'gelu-tanh', 50257)
    """
    for key, needed in _REQUIRED_SETTINGS.items():
        if config.get(key, needed) != needed:
            raise UserError(
                f"{CONFIG_FILE}: {key} = {safe_repr(config[key])}: only {needed!r} can be read"
            )
    sizes = {key: config.get(key, usual) for key, usual in _DEFAULT_SIZES.items()}
    if config.get("n_inner") is not None:
        sizes["n_inner"] = config["n_inner"]
    for key, size in sizes.items():
        if type(size) is not int or not 0 < size < 2**31:
            raise UserError(f"{CONFIG_FILE}: {key} = {safe_repr(size)}: expected a whole number")
    activation = config.get("activation_function", "gelu_new")
    if not isinstance(activation, str) or activation not in _ACTIVATION_FROM_HF:
        raise UserError(
            f"{CONFIG_FILE}: activation_function = {safe_repr(activation)}: {did_you_mean(str(activation), _ACTIVATION_FROM_HF)}"
        )
    table = {
        "kind": "transformer",
        "d_model": sizes["n_embd"],
        "layers": sizes["n_layer"],
        "heads": sizes["n_head"],
        "d_ff": sizes.get("n_inner", 4 * sizes["n_embd"]),
        "positions": "learned",
        "max_positions": sizes["n_positions"],
        "norm": "pre",
        "activation": _ACTIVATION_FROM_HF[activation],
        "tie_embeddings": bool(config.get("tie_word_embeddings", True)),
    }
    return table, sizes["vocab_size"]


def _build_config(model: LanguageModel) -> dict[str, Any]:
    """Say what a GPT-2 of this shape is configured as, if it is one."""
    if not isinstance(model, TransformerLM):
        raise UserError("GPT-2 is a Transformer: a recurrent language model cannot be saved as one")
    block = model.blocks[0]
    assert isinstance(block, EncoderBlock)
    attention, feed_forward = block.attention, block.feed_forward
    if not isinstance(model.positions, LearnedPositions):
        raise UserError('GPT-2 has learned positions: only model.positions = "learned" fits')
    if not isinstance(model.norm, LayerNorm):
        raise UserError('GPT-2 has its norms before its layers: only model.norm = "pre" fits')
    if attention.kv_heads != attention.heads:
        raise UserError("GPT-2 has keys and values for every head: model.kv_heads does not fit")
    tied = model.head.weight is model.embedding.weight
    if not tied and bool(model.head.bias.any()):
        raise UserError(
            "GPT-2's head has no bias: only model.tie_embeddings = true fits a trained model"
        )
    return {
        "architectures": ["GPT2LMHeadModel"],
        **_REQUIRED_SETTINGS,
        "vocab_size": model.embedding.num_embeddings,
        "n_positions": len(model.positions.table),
        "n_embd": model.embedding.embedding_dim,
        "n_layer": len(model.blocks),
        "n_head": attention.heads,
        "n_inner": feed_forward.inner.out_features,
        "activation_function": _ACTIVATION_TO_HF[feed_forward.activation],
        "tie_word_embeddings": tied,
    }


def _map_tensor_names(layers: int, *, tied: bool) -> Iterator[tuple[str, tuple[str, bool]]]:
    """Our name of each tensor, theirs, and whether theirs is turned over."""
    yield "embedding.weight", ("wte.weight", False)
    yield "positions.table", ("wpe.weight", False)
    for k in range(layers):
        ours, theirs = f"blocks.{k}", f"h.{k}"
        yield from _map_norm(f"{ours}.attention_residual.norm", f"{theirs}.ln_1")
        yield from _map_linear(f"{ours}.attention.qkv", f"{theirs}.attn.c_attn")
        yield from _map_linear(f"{ours}.attention.output", f"{theirs}.attn.c_proj")
        yield from _map_norm(f"{ours}.feed_forward_residual.norm", f"{theirs}.ln_2")
        yield from _map_linear(f"{ours}.feed_forward.inner", f"{theirs}.mlp.c_fc")
        yield from _map_linear(f"{ours}.feed_forward.outer", f"{theirs}.mlp.c_proj")
    yield from _map_norm("norm", "ln_f")
    if not tied:
        yield "head.weight", ("lm_head.weight", False)
        yield "head.bias", ("lm_head.bias", False)


def _map_linear(name: str, hf_name: str) -> Iterator[tuple[str, tuple[str, bool]]]:
    yield f"{name}.weight", (f"{hf_name}.weight", True)
    yield f"{name}.bias", (f"{hf_name}.bias", False)


def _map_norm(name: str, hf_name: str) -> Iterator[tuple[str, tuple[str, bool]]]:
    yield f"{name}.gamma", (f"{hf_name}.weight", False)
    yield f"{name}.beta", (f"{hf_name}.bias", False)


def _strip_prefix(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Leave out the prefix, which older files lack, and the masks that some of those have."""
    named = {name.removeprefix("transformer."): t for name, t in tensors.items()}
    masks = (".attn.bias", ".attn.masked_bias")
    return {name: t for name, t in named.items() if not name.endswith(masks)}


def _take_parameter(
    tensors: Mapping[str, Tensor], name: str, transposed: bool, expected: Tensor, path: Path
) -> nn.Parameter:
    """Take a tensor, the right way up and in the shape that is expected."""
    if name not in tensors:
        raise UserError(f"{path}: {name} is missing")
    found = tensors[name]
    shape = tuple(expected.T.shape if transposed else expected.shape)
    if tuple(found.shape) != shape or not found.is_floating_point():
        kind = str(found.dtype).removeprefix("torch.")
        raise UserError(
            f"{path}: {name} is of shape {tuple(found.shape)} and {kind}: "
            f"{CONFIG_FILE} promises {shape} and floats"
        )
    return nn.Parameter((found.T if transposed else found).float().contiguous())


def find_weights_file(folder: Path) -> Path:
    """Find the weights of a model in Hugging Face's layout: one file, of tensors alone."""
    if (folder / WEIGHTS_FILE).exists():
        return folder / WEIGHTS_FILE
    if any(folder.glob("*.bin")):
        raise UserError(
            f"{folder}: its weights are a .bin file, and reading one can run anything: save them "
            "as safetensors, model.save_pretrained(folder, safe_serialization=True)"
        )
    if (folder / f"{WEIGHTS_FILE}.index.json").exists():
        raise UserError(
            f"{folder}: its weights are in several files: save them in one, "
            'model.save_pretrained(folder, max_shard_size="100GB")'
        )
    raise UserError(f"{folder}: it has no {WEIGHTS_FILE}")


TOKENIZER_FILE, VOCABULARY_FILE, MERGES_FILE = "tokenizer.json", "vocab.json", "merges.txt"
LOWERCASE_NORMALIZER = {"type": "Lowercase"}
"""What a `tokenizer.json` says if it makes small letters of capitals."""
_END_OF_TEXT = "<|endoftext|>"


def read_gpt2_tokenizer(folder: Path, config: Mapping[str, Any], vocab_size: int) -> GPT2Tokenizer:
    """Read the tokenizer that lies beside a model with so many rows in its embedding."""
    if (folder / TOKENIZER_FILE).exists():
        path = folder / TOKENIZER_FILE
        ids, merges = read_byte_pairs(path)
    elif (folder / VOCABULARY_FILE).exists():
        path = folder / VOCABULARY_FILE
        ids, merges = read_json_object(path), _read_merges(folder / MERGES_FILE)
    else:
        raise UserError(
            f"{folder}: no tokenizer: {TOKENIZER_FILE}, or {VOCABULARY_FILE} and {MERGES_FILE}"
        )
    numbers = list(ids.values())
    if any(type(n) is not int for n in numbers) or sorted(numbers) != list(range(len(ids))):
        raise UserError(f"{path}: its {len(ids):,} tokens are not numbered from 0, one by one")
    if len(ids) > vocab_size:
        raise UserError(f"{path}: {len(ids):,} tokens, but the model has {vocab_size:,}")
    vocabulary = sorted(ids, key=ids.__getitem__)
    vocabulary += [
        f"<|unused{k}|>" for k in range(len(ids), vocab_size)
    ]  # rows that fill up a block
    parting = config.get("eos_token_id", 50256)
    if parting is None:  # a model that was trained without one: texts only begin
        parting = config.get("bos_token_id")
    if type(parting) is not int or not 0 <= parting < vocab_size:
        if _END_OF_TEXT not in ids:
            raise UserError(
                f"{path}: no token parts texts: neither eos_token_id nor {_END_OF_TEXT}"
            )
        parting = ids[_END_OF_TEXT]
    try:
        return GPT2Tokenizer(vocabulary, merges=merges, end_of_text_id=parting)
    except UserError as error:
        raise UserError(f"{path}: {truncate(str(error), 150)}") from None


def write_tokenizer(tokenizer: Tokenizer, folder: Path, *, lowercase: bool = False) -> bool:
    """Write a tokenizer as Hugging Face's are; say whether it could be: only byte pairs can.

    `lower`: it is to make small letters of capitals.
    """
    if not isinstance(tokenizer, BytePairTokenizer):
        return False
    from tokenizers import Tokenizer as Engine
    from tokenizers import decoders, models, normalizers, pre_tokenizers

    names = unique_token_names(tokenizer)
    ids = {name: number for number, name in enumerate(names)}
    engine = Engine(models.BPE(vocab=ids, merges=list(tokenizer.merges)))
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    if lowercase:
        engine.normalizer = normalizers.Lowercase()
    settings = {"tokenizer_class": "PreTrainedTokenizerFast"}
    if isinstance(tokenizer, GPT2Tokenizer):  # theirs find such a token in texts that spell it
        settings |= dict.fromkeys(("bos_token", "eos_token"), names[tokenizer.bos_id])
    write_text(folder / TOKENIZER_FILE, engine.to_str(pretty=True) + "\n")
    write_text(folder / "tokenizer_config.json", json.dumps(settings, indent=2) + "\n")
    return True


def unique_token_names(tokenizer: Tokenizer) -> list[str]:
    r"""Name each id, no two alike and all of whole characters.

    A special that is spelt like a token of the text, or half a character, goes by its number.

    >>> from workings.data.tokenizers.characters import CharacterTokenizer
    >>> unique_token_names(CharacterTokenizer.train(["aab\udc80"]))
    ['<pad>', '<s>', '<unk>', 'a', 'b', '<5>']
    """
    found: dict[str, int] = {}
    for number in reversed(range(len(tokenizer))):  # the specials last: they can have other names
        name = tokenizer.id_to_token(number)
        if name in found or name != name.encode("utf-8", "replace").decode():
            name = f"<{number}>"
        while name in found:
            name = f"<{name}>"
        found[name] = number
    return list(reversed(found))


def read_byte_pairs(path: Path) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Read the numbers of a `tokenizer.json`'s tokens, and its merges."""
    table = read_json_object(path)
    model, splits = table.get("model"), table.get("pre_tokenizer")
    if not isinstance(model, dict) or model.get("type") != "BPE" or not _is_byte_level(splits):
        raise UserError(f"{path}: not byte pairs as GPT-2 has them, which are all that can be read")
    ids, merges, added = model.get("vocab"), model.get("merges"), table.get("added_tokens", [])
    if not isinstance(ids, dict) or not isinstance(merges, list) or not isinstance(added, list):
        raise UserError(f"{path}: its vocabulary or its merges are missing")
    more = {str(t.get("content")): t.get("id") for t in added if isinstance(t, dict)}
    return ids | more, [_parse_merge(merge, path) for merge in merges]


def _is_byte_level(pre_tokenizer: object) -> bool:
    """Whether texts are split into bytes by GPT-2's own pattern."""
    return (
        isinstance(pre_tokenizer, dict)
        and pre_tokenizer.get("type") == "ByteLevel"
        and not pre_tokenizer.get("add_prefix_space", True)
        and bool(pre_tokenizer.get("use_regex", True))
    )


def _read_merges(path: Path) -> list[tuple[str, str]]:
    try:
        text = read_bytes(path, MAX_JSON_BYTES).decode("utf-8")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not a text") from None
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[0].startswith("#version"):
        del lines[0]
    return [_parse_merge(line, path) for line in lines if line]


def _parse_merge(merge: str | Sequence[Any], path: Path) -> tuple[str, str]:
    """Read a merge, which files have as one string with a space or as two strings."""
    parts = merge.split(" ") if isinstance(merge, str) else merge
    if not isinstance(parts, list) or len(parts) != 2 or not all(isinstance(p, str) for p in parts):
        raise UserError(f"{path}: {truncate(safe_repr(merge))} is no merge of two tokens")
    return parts[0], parts[1]
