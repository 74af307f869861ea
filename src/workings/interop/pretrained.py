"""Pretrained models in Hugging Face's format as tasks: language models and classifiers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workings.data.tokenizers.base import Tokenizer
from workings.data.tokenizers.pretrained import PretrainedTokenizer
from workings.interop.bert import convert_bert_config, read_bert, read_labels
from workings.interop.gpt2 import read_gpt2_tokenizer
from workings.interop.language_models import find_layout, read_language_model
from workings.interop.pretrained_tokenizers import read_tokenizer
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
from workings.tasks.base import IMPORTED
from workings.tasks.classification import Classification
from workings.tasks.language_modeling import LanguageModeling


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
