"""Pretrained models in Hugging Face's format as tasks: language models and classifiers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workings.automatic.choices import finetuning_rate
from workings.data.tokenizers.base import Tokenizer
from workings.data.tokenizers.pretrained import PretrainedTokenizer
from workings.interop.bert import convert_bert_config, read_bert, read_bert_body, read_labels
from workings.interop.gpt2 import read_gpt2_tokenizer
from workings.interop.language_models import find_layout, read_language_model
from workings.interop.pretrained_tokenizers import read_tokenizer
from workings.models.classifiers import BertClassifier
from workings.recipes import (
    ClassificationDataConfig,
    ClassificationRecipe,
    ClassificationTrainConfig,
    LanguageDataConfig,
    LanguageRecipe,
    LanguageTokenizerConfig,
    TokenizerConfig,
    TrainConfig,
    parse_classifier_config,
    parse_language_model_config,
)
from workings.tasks.base import IMPORTED
from workings.tasks.classification import Classification
from workings.tasks.language_modeling import LanguageModeling


def finetuning_settings(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return keys of `[train]` with which a pretrained model is trained further, for its config."""
    rate = finetuning_rate(table["d_model"])
    return {"epochs": 3, "learning_rate": rate, "schedule": "linear", "warmup": 0.1}


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
        train=TrainConfig(**finetuning_settings(table)),
    )
    return LanguageModeling(recipe, tokenizer, model)


def read_classification_task(folder: Path, config: Mapping[str, Any]) -> Classification:
    """Return a BERT or DistilBERT classifier with its tokenizer as a task."""
    return _make_classification_task(folder, config, read_bert(folder, config))


def read_classifier_body(
    folder: Path, config: Mapping[str, Any]
) -> tuple[Classification, tuple[str, ...]]:
    """Return a BERT or DistilBERT for fine-tuning, and the names of its layers with new weights."""
    model, new_layers = read_bert_body(folder, config)
    return _make_classification_task(folder, config, model), new_layers


def _make_classification_task(
    folder: Path, config: Mapping[str, Any], model: BertClassifier
) -> Classification:
    table, vocab_size = convert_bert_config(config)
    tokenizer = read_tokenizer(folder, config, vocab_size)
    num_specials = len(tokenizer.prefix_ids) + len(tokenizer.suffix_ids)
    recipe = ClassificationRecipe(
        title=folder.resolve().name,
        data=ClassificationDataConfig(
            set=IMPORTED, max_length=max(table["max_positions"] - num_specials, 1)
        ),
        tokenizer=TokenizerConfig(kind="pretrained", vocab_size=vocab_size),
        model=parse_classifier_config(table),
        train=ClassificationTrainConfig(**finetuning_settings(table)),
    )
    return Classification(recipe, tokenizer, read_labels(config), model)
