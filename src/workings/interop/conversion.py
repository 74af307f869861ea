"""Export of runs to folders in other formats, and import of such folders as runs."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import nn

from workings.config import to_table, to_toml
from workings.data.tokenizers.base import Tokenizer, TokenizerPair, get_stop_id
from workings.data.tokenizers.multilingual import MultilingualTokenizer
from workings.data.tokenizers.words import WordTokenizer
from workings.errors import UserError, did_you_mean, safe_repr
from workings.interop.bert import LAYOUTS as BERT_LAYOUTS
from workings.interop.bert import write_bert
from workings.interop.ctranslate2 import convert_language_model, convert_translator
from workings.interop.huggingface import CONFIG_FILE, read_config
from workings.interop.language_models import (
    DEFAULT_MAX_POSITIONS,
    MODEL_TYPES,
    write_language_model,
)
from workings.interop.language_models import LAYOUTS as LANGUAGE_LAYOUTS
from workings.interop.marian import (
    EOS_ID,
    HF_MAX_POSITIONS,
    IMPORT_LAYOUTS,
    LAYOUTS,
    MULTILINGUAL_EXPORT_REFUSAL,
    SUPPRESSED_LOGIT_BIAS,
    get_layout,
    read_translator,
    write_translator,
)
from workings.interop.model_card import RunRecord, write_generation_config, write_model_card
from workings.interop.onnx_folder import OnnxFolder
from workings.interop.pretrained import (
    finetuning_settings,
    read_classification_task,
    read_classifier_body,
    read_language_task,
)
from workings.interop.tokenizer_files import PaddingSide, unique_token_names, write_tokenizer
from workings.interop.vocabularies import read_vocabularies, write_languages
from workings.io import atomic_folder, write_text
from workings.models.captioning import Captioner
from workings.models.classifier_base import TextClassifier
from workings.models.language import LanguageModel
from workings.models.translation import PAD, START, Translator
from workings.modules import unique_state_dict
from workings.recipes import (
    LanguageRecipe,
    SearchConfig,
    TranslationDataConfig,
    TranslationRecipe,
    TranslationTrainConfig,
    parse_translator_config,
)
from workings.storage import (
    file_checksums,
    table_checksum,
    write_json,
    write_tensors,
)
from workings.tasks.base import IMPORTED, RowFormat, Task
from workings.tasks.captioning import CAPTIONER_EXPORT_REFUSAL
from workings.tasks.classification import MULTI_LABEL_EXPORT_REFUSAL
from workings.tasks.translation import Translation
from workings.training.environment import collect_environment

Languages: TypeAlias = tuple[str | None, str | None]

EXPORT_FORMATS = ("ctranslate2", "onnx", *LANGUAGE_LAYOUTS)
TRANSLATOR_EXPORT_FORMATS = ("ctranslate2", "onnx", *LAYOUTS)
MAX_TARGET_TOKENS = 512
"""The longest translation that an exported model generates; ours depends on the source."""
_NO_TOKENIZER_NOTE = "no tokenizer is written: the format has none like {}"
CLASSIFIER_EXPORT_FORMATS = ("onnx", *BERT_LAYOUTS)
_LOWERCASE_NOTE = "the model was trained on lower-case texts: lowercase them"
_SEPARATE_NOTE = (
    "two vocabularies: load the tokenizers from source/ and target/, AutoTokenizer has one for both"
)
_SEARCH_NOTE = (
    "transformers has another length penalty: `generate` searches without one, "
    "as `workings translate --length-penalty 0` does"
)
_CONTEXT_NOTE = "it was trained on texts of {:,} tokens; longer ones it has never seen"
_UNKNOWN_NOTE = "unknown words are left out; `workings translate` copies them from the source"
_TRANSLATOR_USAGE = """\
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{folder}")
model = AutoModelForSeq2SeqLM.from_pretrained("{folder}")
batch = tokenizer(["a sentence"], return_tensors="pt", padding=True)
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))"""
_LANGUAGE_USAGE = """\
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{folder}")
model = AutoModelForCausalLM.from_pretrained("{folder}")
batch = tokenizer(["a text"], return_tensors="pt", padding=True)
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))"""
_CLASSIFIER_USAGE = """\
from transformers import pipeline

classify = pipeline("text-classification", "{folder}")
print(classify(["a text"]))"""
_SEPARATE_USAGE = """\
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

source = AutoTokenizer.from_pretrained("{folder}/source")
target = AutoTokenizer.from_pretrained("{folder}/target")
model = AutoModelForSeq2SeqLM.from_pretrained("{folder}")
batch = source(["a sentence"], return_tensors="pt", padding=True)
print(target.batch_decode(model.generate(**batch), skip_special_tokens=True))"""


@dataclass(frozen=True)
class FolderExporter:
    """Writes models into a new folder in another format, for `Task.export`."""

    target_format: str
    folder: Path
    record: RunRecord | None = None
    """The run, for the model card and the search that its recipe has."""

    def export_language_model(self, model: LanguageModel, tokenizer: Tokenizer) -> list[str]:
        return export_language_model(model, tokenizer, self.target_format, self.folder, self.record)

    def export_translator(self, model: Translator, tokenizers: TokenizerPair) -> list[str]:
        return export_translator(model, tokenizers, self.target_format, self.folder, self.record)

    def export_classifier(
        self,
        model: TextClassifier,
        tokenizer: Tokenizer,
        labels: Sequence[str],
        row_format: RowFormat,
        threshold: float | None,
    ) -> list[str]:
        return export_classifier(
            model,
            tokenizer,
            labels,
            row_format,
            threshold,
            self.target_format,
            self.folder,
            self.record,
        )

    def export_captioner(
        self, model: Captioner, tokenizer: Tokenizer, image_size: int
    ) -> list[str]:
        if self.target_format != "onnx":
            raise UserError(CAPTIONER_EXPORT_REFUSAL)
        with _create_folder(self.folder) as part:
            return OnnxFolder(part, self.folder.name).write_captioner(model, tokenizer, image_size)


def export_classifier(
    model: TextClassifier,
    tokenizer: Tokenizer,
    labels: Sequence[str],
    row_format: RowFormat,
    threshold: float | None,
    target_format: str,
    folder: Path,
    record: RunRecord | None = None,
) -> list[str]:
    """Write a classifier into a new folder in another format; return notes for the user.

    A text has each label whose probability reaches the `threshold`, or one label if that is None.
    """
    _check_format(target_format, CLASSIFIER_EXPORT_FORMATS, "classifier")
    if threshold is not None and target_format != "onnx":
        raise UserError(MULTI_LABEL_EXPORT_REFUSAL)
    with _create_folder(folder) as part:
        if target_format == "onnx":
            onnx_folder = OnnxFolder(part, folder.name)
            return onnx_folder.write_classifier(model, tokenizer, labels, row_format, threshold)
        write_bert(model, labels, part, target_format, pad_id=tokenizer.pad_id)
        notes = _write_single_tokenizer(tokenizer, part)
        if record is not None:
            write_model_card(
                part,
                record,
                description=f"A classifier of texts ({', '.join(labels)}), {_describe_size(model)}",
                pipeline_tag="text-classification",
                usage=_CLASSIFIER_USAGE.format(folder=folder.name),
                notes=notes,
            )
    return notes


def export_language_model(
    model: LanguageModel,
    tokenizer: Tokenizer,
    target_format: str,
    folder: Path,
    record: RunRecord | None = None,
) -> list[str]:
    """Write a language model into a new folder in another format; return notes for the user."""
    recipe = record.recipe if record else None
    assert recipe is None or isinstance(recipe, LanguageRecipe)
    context_length = recipe.data.context_length if recipe else DEFAULT_MAX_POSITIONS
    _check_format(target_format, EXPORT_FORMATS, "language model")
    with _create_folder(folder) as part:
        if target_format == "onnx":
            return OnnxFolder(part, folder.name).write_language_model(model, tokenizer)
        if target_format in LANGUAGE_LAYOUTS:
            write_language_model(
                model,
                part,
                target_format,
                max_positions=context_length,
                bos_id=tokenizer.bos_id,
                eos_id=tokenizer.eos_id,
            )
        else:
            convert_language_model(
                model,
                unique_token_names(tokenizer),
                part,
                bos_id=tokenizer.bos_id,
                eos_id=tokenizer.eos_id,
                unk_id=tokenizer.unk_id if tokenizer.unk_id >= 0 else None,
            )
        # Padding on the right would be between a prompt and its continuation.
        notes = _write_single_tokenizer(tokenizer, part, padding_side="left")
        if record is not None and target_format in LANGUAGE_LAYOUTS:
            settings = {
                "max_length": context_length,
                "pad_token_id": tokenizer.pad_id,
                "bos_token_id": tokenizer.bos_id,
                "eos_token_id": tokenizer.eos_id,
            }
            write_generation_config(part, settings)
            write_model_card(
                part,
                record,
                description=f"A language model, {_describe_size(model)}",
                pipeline_tag="text-generation",
                usage=_LANGUAGE_USAGE.format(folder=folder.name),
                notes=[_CONTEXT_NOTE.format(context_length), *notes],
            )
    return notes


def export_translator(
    model: Translator,
    tokenizers: TokenizerPair,
    target_format: str,
    folder: Path,
    record: RunRecord | None = None,
) -> list[str]:
    """Write a translator into a new folder in another format; return notes for the user."""
    _check_format(target_format, TRANSLATOR_EXPORT_FORMATS, "translator")
    if isinstance(tokenizers.target, MultilingualTokenizer):
        raise UserError(MULTILINGUAL_EXPORT_REFUSAL)
    is_hugging_face = target_format in LAYOUTS
    with _create_folder(folder) as part:
        if target_format == "onnx":
            return OnnxFolder(part, folder.name).write_translator(model, tokenizers)
        if is_hugging_face:
            write_translator(model, part, target_format)
        else:
            names = unique_token_names(tokenizers.source), unique_token_names(tokenizers.target)
            eos_id, unk_id = get_stop_id(tokenizers.target), tokenizers.target.unk_id
            convert_translator(
                model, names, part, eos_id=eos_id, unk_id=unk_id, add_source_eos=True
            )
        # CTranslate2 appends the end token itself.
        notes = _write_translator_tokenizers(tokenizers, part, add_eos=is_hugging_face)
        if is_hugging_face:
            recipe = record.recipe if record else None
            assert recipe is None or isinstance(recipe, TranslationRecipe)
            search = recipe.search if recipe else SearchConfig()
            write_generation_config(part, _build_generation_settings(search))
            notes += [_SEARCH_NOTE] if search.beams > 1 and search.length_penalty else []
            if recipe is not None and record is not None:
                write_languages(part, (recipe.data.source, recipe.data.target))
                _write_translator_card(part, folder.name, model, tokenizers, record, notes)
        return notes


def _build_generation_settings(search: SearchConfig) -> dict[str, Any]:
    """Return the settings with which `generate` finds what our beam search finds.

    Hugging Face divides log probabilities by a power of the length, we by Wu et al.'s penalty:
    searches agree without a penalty, and if no search ends before its best hypothesis is certain.
    """
    longest = MAX_TARGET_TOKENS if search.max_length is None else search.max_length + 2
    settings: dict[str, Any] = {
        "max_length": min(longest, MAX_TARGET_TOKENS),  # with the start token and the end token
        "num_beams": search.beams,
        "pad_token_id": PAD,
        "bos_token_id": START,
        "decoder_start_token_id": START,
        "eos_token_id": EOS_ID,
        "forced_eos_token_id": EOS_ID,
    }
    if search.beams > 1:
        settings |= {"length_penalty": 0.0, "early_stopping": "never"}
    return settings


def _write_translator_card(
    folder: Path,
    name: str,
    model: Translator,
    tokenizers: TokenizerPair,
    record: RunRecord,
    notes: Sequence[str],
) -> None:
    recipe = record.recipe
    assert isinstance(recipe, TranslationRecipe)
    is_shared = tokenizers.source == tokenizers.target
    write_model_card(
        folder,
        record,
        description=f"A translator from {recipe.data.source} to {recipe.data.target}, "
        f"{_describe_size(model)}",
        pipeline_tag="translation",
        usage=(_TRANSLATOR_USAGE if is_shared else _SEPARATE_USAGE).format(folder=name),
        languages=(recipe.data.source, recipe.data.target),
        notes=notes,
    )


def _describe_size(model: nn.Module) -> str:
    parameters = sum(p.numel() for p in model.parameters())
    return f"a Transformer of {parameters:,} parameters, trained with workings."


def _write_single_tokenizer(
    tokenizer: Tokenizer, folder: Path, padding_side: PaddingSide = "right"
) -> list[str]:
    """Write the tokenizer of a model; return a note if the format has none like it."""
    if write_tokenizer(tokenizer, folder, padding_side=padding_side):
        return []
    return [_NO_TOKENIZER_NOTE.format(tokenizer.kind)]


def _write_translator_tokenizers(
    tokenizers: TokenizerPair, folder: Path, *, add_eos: bool
) -> list[str]:
    """Write a shared tokenizer into the folder, or two into `source` and `target` in it."""
    is_shared = tokenizers.source == tokenizers.target
    folders = (folder,) if is_shared else (folder / "source", folder / "target")
    is_supported = True
    for path, tokenizer in zip(folders, (tokenizers.source, tokenizers.target)):  # noqa: B905 - a shared one is written once
        path.mkdir(exist_ok=True)
        if not write_tokenizer(
            tokenizer,
            path,
            lowercase=tokenizers.lower,
            add_eos=add_eos,
            max_length=HF_MAX_POSITIONS if add_eos else None,
        ):
            is_supported = False
            if path != folder:
                path.rmdir()
    if not is_supported:
        note = _NO_TOKENIZER_NOTE.format(tokenizers.target.kind)
        return [_LOWERCASE_NOTE, note] if tokenizers.lower else [note]
    notes = [] if is_shared else [_SEPARATE_NOTE]
    return [*notes, _UNKNOWN_NOTE] if isinstance(tokenizers.target, WordTokenizer) else notes


def import_model(folder: Path, run_folder: Path, languages: Languages = (None, None)) -> None:
    """Make a run of a model in Hugging Face's format, as if it were trained here.

    `languages` are source and target of a translator: a choice, if it has many.
    """
    task = read_model(folder, languages)
    with _create_folder(run_folder) as part:
        task.save(part)
        _write_run(part, task)


def read_model(folder: Path, languages: Languages = (None, None)) -> Task:
    """Read a model in Hugging Face's format: a language model, a classifier or a translator."""
    config = read_config(folder)
    model_type = str(config.get("model_type", "gpt2"))
    if model_type not in (known := (*MODEL_TYPES, *BERT_LAYOUTS, *IMPORT_LAYOUTS)):
        raise UserError(
            f"{CONFIG_FILE}: model_type = {safe_repr(model_type)} is not supported: "
            f"{did_you_mean(model_type, known)}"
        )
    if model_type in IMPORT_LAYOUTS:
        return _read_translator(folder, config, languages)
    if any(languages):
        raise UserError(f"{folder}: --source and --target are for translators")
    if model_type in BERT_LAYOUTS:
        return read_classification_task(folder, config)
    return read_language_task(folder, config)


def read_model_to_train(folder: Path) -> tuple[Task, tuple[str, ...]]:
    """Read a model for fine-tuning, and the names of its layers that have new weights.

    As `read_model`, but a BERT need not be a classifier.
    """
    config = read_config(folder)
    if config.get("model_type") in BERT_LAYOUTS:
        return read_classifier_body(folder, config)
    return read_model(folder), ()


def _read_translator(folder: Path, config: dict[str, Any], languages: Languages) -> Translation:
    vocabularies = read_vocabularies(folder, config, languages)
    marian = read_translator(folder, config, vocabularies.unk_id)
    tokenizers = vocabularies.build_tokenizers(marian.source_order, marian.target_order)
    if marian.is_renumbered:  # Marian's own bias does not suppress our special tokens
        with torch.no_grad():
            marian.model.head.bias[list(get_layout(config).suppressed_ids)] = SUPPRESSED_LOGIT_BIAS
    source, target = vocabularies.languages
    recipe = TranslationRecipe(
        title=folder.resolve().name,
        data=TranslationDataConfig(set=IMPORTED, source=source, target=target),
        tokenizer=vocabularies.to_tokenizer_config(tokenizers),
        model=parse_translator_config(marian.model_table),
        train=TranslationTrainConfig(**finetuning_settings(marian.model_table)),
    )
    return Translation(recipe, tokenizers, marian.model)


def _write_run(folder: Path, task: Task) -> None:
    """Add config, environment and weights to a folder that has the task's files."""
    write_text(folder / "config.toml", to_toml(to_table(task.recipe)))
    checksums = file_checksums(folder, ("config.toml", *task.files))
    run = {"data": {"set": IMPORTED}, "processes": 1, "files": checksums}
    write_json(folder / "environment.json", {**collect_environment(), **run})
    weights = unique_state_dict(task.model)
    write_tensors(folder / "model.safetensors", weights, table_checksum(checksums))


def _check_format(target_format: str, choices: Sequence[str], noun: str) -> None:
    """Raise UserError if a model of this kind has no such format."""
    if target_format not in choices:
        suggestion = did_you_mean(target_format, choices)
        raise UserError(f"--to {target_format}: for a {noun}, {suggestion}")


def _create_folder(folder: Path) -> AbstractContextManager[Path]:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists already: give another --out")
    return atomic_folder(folder)
