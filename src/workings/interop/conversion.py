"""Export of runs to folders in other formats, and import of such folders as runs."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from workings.config import to_table, to_toml
from workings.data.tokenizers.base import Tokenizer, TokenizerPair, get_stop_id
from workings.errors import UserError, did_you_mean
from workings.interop.ctranslate2 import convert_language_model, convert_translator
from workings.interop.huggingface import read_config, unique_token_names, write_tokenizer
from workings.interop.language_models import LAYOUTS as LANGUAGE_LAYOUTS
from workings.interop.language_models import write_language_model
from workings.interop.marian import (
    SUPPRESSED_LOGIT_BIAS,
    read_marian,
    read_vocabularies,
    write_languages,
    write_marian,
)
from workings.interop.pretrained import read_language_task
from workings.io import atomic_folder, write_text
from workings.models.language import LanguageModel
from workings.models.translation import PAD, START, Translator
from workings.modules import unique_state_dict
from workings.recipes import (
    Recipe,
    TranslationDataConfig,
    TranslationRecipe,
    parse_translator_config,
)
from workings.storage import (
    file_checksums,
    table_checksum,
    write_json,
    write_tensors,
)
from workings.tasks.translation import IMPORTED, Translation
from workings.training.environment import collect_environment

EXPORT_FORMATS = ("ctranslate2", *LANGUAGE_LAYOUTS)
TRANSLATOR_EXPORT_FORMATS = ("ctranslate2", "marian")
_NO_TOKENIZER_NOTE = "no tokenizer is written: the format has byte-pair tokenizers, not {}"
_LOWERCASE_NOTE = "the model was trained on lower-case texts: lowercase them"


@dataclass(frozen=True)
class FolderExporter:
    """Writes models into a new folder in another format, for `Task.export`."""

    target_format: str
    folder: Path

    def export_language_model(self, model: LanguageModel, tokenizer: Tokenizer) -> list[str]:
        return export_language_model(model, tokenizer, self.target_format, self.folder)

    def export_translator(
        self, model: Translator, tokenizers: TokenizerPair, languages: tuple[str, str]
    ) -> list[str]:
        return export_translator(model, tokenizers, self.target_format, self.folder, languages)


def export_language_model(
    model: LanguageModel, tokenizer: Tokenizer, target_format: str, folder: Path
) -> list[str]:
    """Write a language model into a new folder in another format; return notes for the user."""
    if target_format not in EXPORT_FORMATS:
        raise UserError(f"--to {target_format}: {did_you_mean(target_format, EXPORT_FORMATS)}")
    with _create_folder(folder) as part:
        if target_format in LANGUAGE_LAYOUTS:
            write_language_model(
                model, part, target_format, bos_id=tokenizer.bos_id, eos_id=tokenizer.eos_id
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
        if write_tokenizer(tokenizer, part):
            return []
    return [_NO_TOKENIZER_NOTE.format(tokenizer.kind)]


def export_translator(
    model: Translator,
    tokenizers: TokenizerPair,
    target_format: str,
    folder: Path,
    languages: tuple[str, str] = ("source", "target"),
) -> list[str]:
    """Write a translator into a new folder in another format; return notes for the user."""
    if target_format not in TRANSLATOR_EXPORT_FORMATS:
        suggestion = did_you_mean(target_format, TRANSLATOR_EXPORT_FORMATS)
        raise UserError(f"--to {target_format}: for a translator, {suggestion}")
    with _create_folder(folder) as part:
        if target_format == "marian":
            write_marian(model, part)
        else:
            names = unique_token_names(tokenizers.source), unique_token_names(tokenizers.target)
            eos_id, unk_id = get_stop_id(tokenizers.target), tokenizers.target.unk_id
            convert_translator(
                model, names, part, eos_id=eos_id, unk_id=unk_id, add_source_eos=True
            )
        notes = _write_translator_tokenizers(tokenizers, part)
        if target_format == "marian":
            write_languages(part, languages)
        return notes


def _write_translator_tokenizers(tokenizers: TokenizerPair, folder: Path) -> list[str]:
    """Write a shared tokenizer into the folder, or two into `source` and `target` in it."""
    if tokenizers.source == tokenizers.target:
        is_written = write_tokenizer(tokenizers.target, folder, lowercase=tokenizers.lower)
    else:
        is_written = True
        for name, tokenizer in (("source", tokenizers.source), ("target", tokenizers.target)):
            (folder / name).mkdir()
            if not write_tokenizer(tokenizer, folder / name, lowercase=tokenizers.lower):
                (folder / name).rmdir()
                is_written = False
    if is_written:
        return []
    note = _NO_TOKENIZER_NOTE.format(tokenizers.target.kind)
    return [_LOWERCASE_NOTE, note] if tokenizers.lower else [note]


def import_model(folder: Path, run_folder: Path) -> None:
    """Make a run of a GPT-2 or a Marian in Hugging Face's format, as if it were trained here."""
    config = read_config(folder)
    if config.get("model_type") == "marian":
        _import_translator(folder, config, run_folder)
    else:
        _import_language_model(folder, config, run_folder)


def _import_translator(folder: Path, config: dict[str, Any], run_folder: Path) -> None:
    vocabularies = read_vocabularies(folder, config)
    marian = read_marian(folder, config, vocabularies.unk_id)
    tokenizers = vocabularies.build_tokenizers(marian.source_order, marian.target_order)
    if marian.is_renumbered:  # Marian's own bias does not suppress our special tokens
        with torch.no_grad():
            marian.model.head.bias[[PAD, START]] = SUPPRESSED_LOGIT_BIAS
    source, target = vocabularies.languages
    recipe = TranslationRecipe(
        title=folder.resolve().name,
        data=TranslationDataConfig(set=IMPORTED, source=source, target=target),
        tokenizer=vocabularies.to_tokenizer_config(tokenizers),
        model=parse_translator_config(marian.model_table),
    )
    task = Translation(recipe, tokenizers, marian.model)
    with _create_folder(run_folder) as part:
        task.save(part)
        _write_run(part, recipe, task.files, marian.model)


def _import_language_model(folder: Path, config: dict[str, Any], run_folder: Path) -> None:
    task = read_language_task(folder, config)
    with _create_folder(run_folder) as part:
        task.save(part)
        _write_run(part, task.recipe, task.files, task.model)


def _write_run(folder: Path, recipe: Recipe, files: Sequence[str], model: nn.Module) -> None:
    """Add config, environment and weights to a folder that has the task's files."""
    write_text(folder / "config.toml", to_toml(to_table(recipe)))
    checksums = file_checksums(folder, ("config.toml", *files))
    run = {"data": {"set": IMPORTED}, "processes": 1, "files": checksums}
    write_json(folder / "environment.json", {**collect_environment(), **run})
    write_tensors(folder / "model.safetensors", unique_state_dict(model), table_checksum(checksums))


def _create_folder(folder: Path) -> AbstractContextManager[Path]:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists already: give another --out")
    return atomic_folder(folder)
