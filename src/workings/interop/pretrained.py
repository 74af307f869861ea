"""Pretrained models in Hugging Face's format as tasks: language models and classifiers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workings.data.tokenizers.base import Tokenizer
from workings.data.tokenizers.pretrained import PretrainedTokenizer
from workings.errors import UserError, truncate
from workings.interop.bert import (
    VOCABULARY_FILE,
    convert_bert_config,
    read_bert,
    read_labels,
    read_word_piece,
)
from workings.interop.gpt2 import read_gpt2_tokenizer
from workings.interop.huggingface import (
    MAX_JSON_BYTES,
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
)
from workings.interop.language_models import find_layout, read_language_model
from workings.io import read_json_object
from workings.recipes import (
    ClassificationDataConfig,
    ClassificationRecipe,
    LanguageDataConfig,
    LanguageRecipe,
    LanguageTokenizerConfig,
    TokenizerConfig,
    parse_classifier_config,
    parse_language_model_config,
)
from workings.tasks.classification import Classification
from workings.tasks.language_modeling import LanguageModeling
from workings.tasks.translation import IMPORTED


def read_language_task(folder: Path, config: Mapping[str, Any]) -> LanguageModeling:
    """Return a GPT-2, GPT-NeoX or Llama with its tokenizer as a task."""
    table, vocab_size = find_layout(config).convert_config(config)
    model = read_language_model(folder, config)  # first: it verifies the size of the vocabulary
    tokenizer: Tokenizer
    if config.get("model_type", "gpt2") == "gpt2":
        tokenizer = read_gpt2_tokenizer(folder, config, vocab_size)
    else:
        tokenizer = read_tokenizer(folder, config, vocab_size)
    recipe = LanguageRecipe(
        title=folder.resolve().name,
        data=LanguageDataConfig(set=IMPORTED, context_length=table["max_positions"]),
        tokenizer=LanguageTokenizerConfig(
            kind="pretrained" if isinstance(tokenizer, PretrainedTokenizer) else "byte-pair",
            vocab_size=vocab_size,
        ),
        model=parse_language_model_config(table),
    )
    return LanguageModeling(recipe, tokenizer, model)


def read_classification_task(folder: Path, config: Mapping[str, Any]) -> Classification:
    """Return a BERT or DistilBERT classifier with its tokenizer as a task."""
    model, (table, vocab_size) = read_bert(folder, config), convert_bert_config(config)
    tokenizer = read_tokenizer(folder, config, vocab_size)
    num_specials = len(tokenizer.prefix_ids) + len(tokenizer.suffix_ids)
    recipe = ClassificationRecipe(
        title=folder.resolve().name,
        data=ClassificationDataConfig(
            set=IMPORTED, max_length=max(table["max_positions"] - num_specials, 1)
        ),
        tokenizer=TokenizerConfig(kind="pretrained", vocab_size=vocab_size),
        model=parse_classifier_config(table),
    )
    return Classification(recipe, tokenizer, read_labels(config), model)


def read_tokenizer(folder: Path, config: Mapping[str, Any], vocab_size: int) -> PretrainedTokenizer:
    """Read the tokenizer beside a model with `vocab_size` embeddings.

    It is a `tokenizer.json`, or the `vocab.txt` of a BERT.
    """
    path = folder / TOKENIZER_FILE
    if path.exists():
        definition = read_json_object(path, MAX_JSON_BYTES)
    elif (folder / VOCABULARY_FILE).exists():
        definition, path = read_word_piece(folder), folder / VOCABULARY_FILE
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
    path = folder / TOKENIZER_CONFIG_FILE
    settings = read_json_object(path, MAX_JSON_BYTES) if path.exists() else {}
    token = settings.get(key)
    if isinstance(token, dict):
        token = token.get("content")
    return tokenizer.token_to_id(token) if isinstance(token, str) else None
