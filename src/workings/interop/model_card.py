"""What an exported folder states beside its weights: generation settings and a model card."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workings.config import to_table, to_toml
from workings.interop.huggingface import write_json
from workings.io import write_text
from workings.recipes import Recipe
from workings.storage import read_json
from workings.training.run_folder import read_run_recipe

GENERATION_CONFIG_FILE, CARD_FILE = "generation_config.json", "README.md"
_LANGUAGE_CODE = re.compile(r"[a-z]{2,3}")
_FENCE = "````"  # longer than any in a recipe


@dataclass(frozen=True)
class RunRecord:
    """The recipe of a run, its data, and its scores, if it has any."""

    recipe: Recipe
    data_info: Mapping[str, Any] = field(default_factory=dict)
    result: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> "RunRecord":
        """Read the record of a run; an imported model has no result."""
        data_info = read_json(folder / "environment.json").get("data")
        path = folder / "result.json"
        return cls(
            read_run_recipe(folder),
            data_info if isinstance(data_info, dict) else {},
            read_json(path) if path.is_file() else {},
        )


def write_generation_config(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write the settings that `generate` has by default; one that is None is left out."""
    table = {key: value for key, value in settings.items() if value is not None}
    write_json(folder / GENERATION_CONFIG_FILE, table)


def write_model_card(
    folder: Path,
    record: RunRecord,
    *,
    description: str,
    pipeline_tag: str,
    usage: str,
    languages: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> None:
    """Write a README with the metadata of Hugging Face's model cards.

    `usage` is Python code that loads the model; `notes` are what its user should know.
    """
    recipe = to_table(record.recipe)
    for key in ("set", "images"):  # a card is published: it names files, not folders
        if isinstance(recipe["data"].get(key), str):
            recipe["data"][key] = _file_name(recipe["data"][key])
    data = {k: _file_name(v) if k == "set" else v for k, v in record.data_info.items()}
    sections = [
        ("How to load", _fence("python", usage)),
        ("Good to know", "\n".join(f"- {note}" for note in notes)),
        ("Data", _format_table(data)),
        ("Scores", _format_scores(record.result)),
        ("Recipe", _fence("toml", to_toml(recipe))),
    ]
    parts = [
        _format_metadata(pipeline_tag, languages),
        f"# {_on_one_line(record.recipe.title)}",
        description,
        *(f"## {title}\n\n{body}" for title, body in sections if body),
    ]
    write_text(folder / CARD_FILE, "\n\n".join(parts) + "\n")


def _format_metadata(pipeline_tag: str, languages: Iterable[str]) -> str:
    codes = [code for code in dict.fromkeys(languages) if _LANGUAGE_CODE.fullmatch(code)]
    lines = ["library_name: transformers", f"pipeline_tag: {pipeline_tag}", "tags:", "- workings"]
    if codes:
        lines += ["language:", *(f"- {code}" for code in codes)]
    return "\n".join(("---", *lines, "---"))


def _format_scores(result: Mapping[str, Any]) -> str:
    from workings.training.report_text import format_result, list_signatures

    return _format_table(dict(format_result(dict(result)) + list_signatures(dict(result))))


def _format_table(rows: Mapping[str, Any]) -> str:
    """Return a Markdown table of names and values; "" if there are none."""
    lines = [f"| {key} | {_format_cell(value)} |" for key, value in rows.items()]
    return "\n".join(("| | |", "|---|---|", *lines)) if lines else ""


def _format_cell(value: object) -> str:
    text = f"{value:,}" if isinstance(value, int) else _on_one_line(str(value))
    return text.replace("|", "\\|")


def _fence(language: str, text: str) -> str:
    return f"{_FENCE}{language}\n{text.rstrip()}\n{_FENCE}"


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def _file_name(path: object) -> str:
    """Return the last part of a path; the name of a built-in data set is unchanged.

    >>> _file_name("/home/me/pairs.tsv"), _file_name("emoji-names")
    ('pairs.tsv', 'emoji-names')
    """
    return Path(str(path)).name
