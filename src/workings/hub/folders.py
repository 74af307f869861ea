"""Whole folders: a run to somebody else's format, and somebody else's model to a run."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from workings.config import to_table, to_toml
from workings.data.tokenizer import Tokenizer
from workings.errors import UserError, near
from workings.hub.ctranslate2 import convert
from workings.hub.ctranslate2_translator import convert_translator
from workings.hub.gpt2 import model_table, read_config, read_gpt2, write_gpt2
from workings.hub.gpt2_tokens import read_tokens, unique_names, write_tokens
from workings.hub.marian import NEVER, read_marian, write_marian
from workings.hub.marian_tokens import read_vocabularies, write_languages
from workings.models.language import LanguageModel
from workings.models.translators import PAD, START, Translator
from workings.recipes import (
    LanguageRecipe,
    PairConfig,
    Recipe,
    TextConfig,
    TextTokenizerConfig,
    TranslateRecipe,
)
from workings.storage import (
    file_sums,
    folder_beside,
    table_sum,
    write_json,
    write_tensors,
    write_text,
)
from workings.tasks.translate import ELSEWHERE, Translating
from workings.tasks.translation import Vocabularies
from workings.tasks.writing import stop_of
from workings.train.environment import environment

FORMATS = ("ctranslate2", "gpt2")
TRANSLATOR_FORMATS = ("ctranslate2", "marian")
_UNWRITTEN = "no tokenizer is written: only byte pairs have a form there, not {}"


def export(model: LanguageModel, tokenizer: Tokenizer, to: str, folder: Path) -> list[str]:
    """Write a run's model into a new folder, in another format; return what should be known."""
    if to not in FORMATS:
        raise UserError(f"--to {to}: {near(to, FORMATS)}")
    with _new(folder) as part:
        if to == "gpt2":
            write_gpt2(model, part, start=tokenizer.start, stop=tokenizer.stop)
        else:
            unknown = tokenizer.unknown if tokenizer.unknown >= 0 else None
            names = unique_names(tokenizer)
            convert(model, names, part, start=tokenizer.start, stop=tokenizer.stop, unknown=unknown)
        if write_tokens(tokenizer, part):
            return []
    return [_UNWRITTEN.format(tokenizer.kind)]


def export_translator(
    model: Translator,
    words: Vocabularies,
    to: str,
    folder: Path,
    languages: tuple[str, str] = ("source", "target"),
) -> list[str]:
    """Write a translator into a new folder, in another format; return what should be known."""
    if to not in TRANSLATOR_FORMATS:
        raise UserError(f"--to {to}: of a translator, {near(to, TRANSLATOR_FORMATS)}")
    with _new(folder) as part:
        if to == "marian":
            write_marian(model, part)
        else:
            names = unique_names(words.source), unique_names(words.target)
            stop, unknown = stop_of(words.target), words.target.unknown
            convert_translator(model, names, part, stop=stop, unknown=unknown, adds_stop=True)
        notes = _translators_tokens(words, part)
        if to == "marian":
            write_languages(part, languages)
        return notes


def _translators_tokens(words: Vocabularies, folder: Path) -> list[str]:
    """Write tokenizers: one, if it is both languages', else each in a folder of its own."""
    sides = {"source": words.source, "target": words.target}
    written = []
    if words.source == words.target:
        written.append(write_tokens(words.target, folder, lower=words.lower))
    else:
        for name, tokenizer in sides.items():
            (folder / name).mkdir()
            written.append(write_tokens(tokenizer, folder / name, lower=words.lower))
            if not written[-1]:
                (folder / name).rmdir()
    if all(written):
        return []
    notes = ["texts are read in small letters: give it such"] if words.lower else []
    return [*notes, _UNWRITTEN.format(words.target.kind)]


def adopt(folder: Path, run: Path) -> None:
    """Make a run of a GPT-2 or a Marian in Hugging Face's layout, as if it were trained here."""
    config = read_config(folder)
    if config.get("model_type") == "marian":
        _adopt_translator(folder, config, run)
    else:
        _adopt_language_model(folder, config, run)


def _adopt_translator(folder: Path, config: dict[str, Any], run: Path) -> None:
    vocabularies = read_vocabularies(folder, config)
    marian = read_marian(folder, config, vocabularies.unknown)
    words = vocabularies.words(marian.source, marian.target)
    if marian.renumbered:  # no bias of theirs keeps a search from these
        with torch.no_grad():
            marian.model.head.bias[[PAD, START]] = NEVER
    source, target = vocabularies.languages
    recipe = TranslateRecipe(
        title=folder.resolve().name,
        data=PairConfig(set=ELSEWHERE, source=source, target=target),
        tokenizer=vocabularies.told(words),
        model=marian.table,
    )
    task = Translating(recipe, words, marian.model)
    with _new(run) as part:
        task.save(part)
        _write_run(part, recipe, task.files, marian.model)


def _adopt_language_model(folder: Path, config: dict[str, Any], run: Path) -> None:
    table, rows = model_table(config)
    tokenizer = read_tokens(folder, config, rows)
    model = read_gpt2(folder)
    recipe = LanguageRecipe(
        title=folder.resolve().name,
        data=TextConfig(set=ELSEWHERE, window=table["length"]),
        tokenizer=TextTokenizerConfig(kind="byte-pair", size=rows),
        model=table,
    )
    with _new(run) as part:
        tokenizer.save(part / "tokenizer.json")
        _write_run(part, recipe, ("tokenizer.json",), model)


def _write_run(folder: Path, recipe: Recipe, files: Sequence[str], model: nn.Module) -> None:
    """Write what makes a run of a folder that has its task's files."""
    write_text(folder / "config.toml", to_toml(to_table(recipe)))
    sums = file_sums(folder, ("config.toml", *files))
    told = {"data": {"set": ELSEWHERE}, "processes": 1, "files": sums}
    write_json(folder / "environment.json", {**environment(), **told})
    write_tensors(folder / "model.safetensors", model.state_dict(), table_sum(sums))


def _new(folder: Path) -> AbstractContextManager[Path]:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} is there already: another --out")
    folder.parent.mkdir(parents=True, exist_ok=True)
    return folder_beside(folder)
