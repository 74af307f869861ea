"""Readers of caption files: the captions of each image, and its split if the file states it.

Formats: JSON lines (`{"image": ..., "captions": [...], "split": ...}`), COCO's JSON, Flickr8k's
`name.jpg#0<TAB>caption`, Flickr30k's `name.jpg| 0| caption`, and tables with a header
(`image,caption` or `image,caption,split`, separated by commas or tabs). JSON is recognized by the
suffix, the other formats by the first line.
"""

import csv
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from workings.data.datasets import SPLITS, normalize_split_name
from workings.data.readers import get_text, open_maybe_gzip, read_lines, read_records, source_name
from workings.errors import UserError, safe_repr, truncate
from workings.io import check_inside, parse_json_object, read_limited
from workings.plain_text import find_surrogate

MAX_JSON_BYTES = 2**30
"""Limit of a COCO file, which is parsed as one. The largest published ones have a tenth of it."""

_FLICKR8K_LINE = re.compile(r"([^\t]+)#\d+\t(.*)")
_FLICKR30K_LINE = re.compile(r"([^|]+)\|\s*\d+\s*\|?(.*)")  # one published line lacks the second |
_COLUMN_PREFIXES = {
    "image": ("image", "file"),
    "caption": ("caption", "comment", "sentence", "description", "text"),
    "split": ("split",),
}
"""How the names of columns begin; names that end with "number" or "id" are other columns."""
_CAPTION_FILE_PATTERNS = (
    *("captions.jsonl.gz", "captions.jsonl", "captions.txt", "captions.csv"),
    *("*.token.txt", "*.token", "results.csv", "captions_train*.json"),
    *("annotations/captions_train*.json",),
)
_SPLIT_LIST_PATTERNS = {
    "train": "*trainImages.txt",
    "validation": "*devImages.txt",
    "test": "*testImages.txt",
}


@dataclass(frozen=True)
class CaptionedImage:
    """The name of an image, and its captions."""

    name: str
    captions: tuple[str, ...]


class CaptionRecord(NamedTuple):
    """One caption of an image, and the image's split if the file states it."""

    name: str
    caption: str
    split: str | None = None


def find_captions_file(folder: Path) -> Path | None:
    """Return the caption file of a folder by its usual names, or None."""
    paths = (path for pattern in _CAPTION_FILE_PATTERNS for path in sorted(folder.glob(pattern)))
    for path in paths:
        check_inside(path, folder)
        if path.is_file():
            return path
    return None


def read_caption_splits(path: Path) -> dict[str, list[CaptionedImage]]:
    """Read images with their captions, by split; all are `train` if there are no splits.

    Images without a split, if others have one, are in the split "unused".
    """
    groups = _group_by_split(_read_captions(path))
    if len(groups) == 1 and None in groups:
        groups = _split_by_lists(groups[None], path.parent)
    splits: dict[str, list[CaptionedImage]] = {}
    for split, images in groups.items():
        splits.setdefault(split or "unused", []).extend(images)
    validation_path = path.parent / path.name.replace("train", "val")
    if path.name.startswith("captions_train") and validation_path.is_file():  # COCO's two files
        check_inside(validation_path, path.parent)
        splits["validation"] = _group_by_split(_read_captions(validation_path))[None]
        both = {p.name for p in splits["validation"]} & {p.name for p in splits["train"]}
        if both:
            raise UserError(
                f"{truncate(str(validation_path), 300)}: "
                f"{truncate(min(both))} is in {truncate(path.name)}, too"
            )
    return splits


def _group_by_split(records: Iterable[CaptionRecord]) -> dict[str | None, list[CaptionedImage]]:
    """Collect the captions of each image, and group the images by split, in their order."""
    captions: dict[str, list[str]] = {}
    split_of: dict[str, str | None] = {}
    for name, caption, split in records:
        image_captions = captions.setdefault(name, [])
        if caption:
            image_captions.append(caption)
        if split_of.setdefault(name, split) != split:
            both = f"{safe_repr(split_of[name])} and {safe_repr(split)}"
            raise UserError(f"{truncate(name)} is in two splits, {both}: expected one")
    groups: dict[str | None, list[CaptionedImage]] = {}
    for name, image_captions in captions.items():
        groups.setdefault(split_of[name], []).append(CaptionedImage(name, tuple(image_captions)))
    return groups


def _split_by_lists(
    images: list[CaptionedImage], folder: Path
) -> dict[str | None, list[CaptionedImage]]:
    """Group images by Flickr8k's lists of names in the folder; all are train without such lists."""
    split_of: dict[str, str] = {}
    for split, pattern in _SPLIT_LIST_PATTERNS.items():
        for path in sorted(folder.glob(pattern))[:1]:
            check_inside(path, folder)
            split_of |= {line.strip(): split for _, line in read_lines(path)}
    if "train" not in split_of.values():
        return {"train": images}
    groups: dict[str | None, list[CaptionedImage]] = {}
    for image in images:
        groups.setdefault(split_of.get(image.name), []).append(image)
    return groups


def _read_captions(path: Path) -> Iterator[CaptionRecord]:
    """Read the captions of a file of any format; raise UserError if there is none."""
    name = path.name.lower().removesuffix(".gz")
    if name.endswith((".jsonl", ".ndjson")):
        records = _read_jsonl(path)
    elif name.endswith(".json"):
        records = _read_coco(path)
    else:
        records = _read_table(path)
    record = None
    for record in records:
        yield record
    if record is None:
        raise UserError(f"{source_name(path)}: empty: no captions")


def _read_jsonl(path: Path) -> Iterator[CaptionRecord]:
    for record in read_records(path, format="jsonl"):
        name, captions = get_text(record, "image"), record.fields.get("captions")
        has_split = record.fields.get("split") is not None
        split = _normalize_split(get_text(record, "split") if has_split else None)
        if not isinstance(captions, list):
            raise UserError(f'{record.location}: expected "captions", a list of texts')
        for caption in captions or [""]:
            yield CaptionRecord(name, _clean_text(caption, record.location), split)


def _read_coco(path: Path) -> Iterator[CaptionRecord]:
    name = source_name(path)
    with open_maybe_gzip(path) as stream:
        table = parse_json_object(read_limited(stream, MAX_JSON_BYTES, name), name)
    images, annotations = _get_list(table, "images", name), _get_list(table, "annotations", name)
    names: dict[int | str, str] = {}
    for k, image in enumerate(images, 1):
        location = f"{name}, image {k}"
        image_id = _get_id(image, "id", location)
        names[image_id] = _clean_text(image.get("file_name"), location)
    for k, annotation in enumerate(annotations, 1):
        location = f"{name}, annotation {k}"
        image_id = _get_id(annotation, "image_id", location)
        if image_id not in names:
            raise UserError(f"{location}: image {safe_repr(image_id)} is not in the list of images")
        yield CaptionRecord(names[image_id], _clean_text(annotation.get("caption"), location))


def _get_list(table: dict[str, Any], key: str, name: str) -> list[Any]:
    value = table.get(key)
    if not isinstance(value, list):
        raise UserError(
            f"{name}: no list {key!r}: expected COCO's format, "
            '{"images": [...], "annotations": [...]}'
        )
    return value


def _get_id(record: Any, key: str, location: str) -> int | str:
    value = record.get(key) if isinstance(record, dict) else None
    if not isinstance(value, int | str):
        raise UserError(f"{location}: expected {key!r}, a number or a text")
    return value


def _read_table(path: Path) -> Iterator[CaptionRecord]:
    parse_line: Callable[[str], CaptionRecord | None] | None = None
    name = source_name(path)
    for number, line in read_lines(path):
        line, location = line.rstrip("\r\n"), f"{name}, line {number}"
        if not line.strip():
            continue
        if parse_line is None:
            parse_line, is_header = _detect_line_parser(line, location)
            if is_header:
                continue
        record = parse_line(line)
        if record is None:
            raise UserError(f"{location}: expected an image and a caption as in the lines before")
        yield record._replace(caption=_clean_text(record.caption, location))


def _detect_line_parser(
    first_line: str, location: str
) -> tuple[Callable[[str], CaptionRecord | None], bool]:
    """Return a parser for a table's lines, and whether its first line is a header."""
    if _FLICKR8K_LINE.fullmatch(first_line):
        return partial(_parse_by_pattern, _FLICKR8K_LINE), False
    for delimiter in ("|", "\t", ","):
        names = [name.strip().lower() for name in _split_fields(first_line, delimiter) or ()]
        indices = {
            column: _find_column(names, prefixes) for column, prefixes in _COLUMN_PREFIXES.items()
        }
        if indices["image"] is not None and len(names) > 1 and delimiter == "|":
            return partial(_parse_by_pattern, _FLICKR30K_LINE), True
        if indices["image"] is not None and indices["caption"] is not None:
            return partial(_parse_by_columns, delimiter, len(names), indices), True
    if _FLICKR30K_LINE.fullmatch(first_line):
        return partial(_parse_by_pattern, _FLICKR30K_LINE), False
    raise UserError(
        f"{location}: expected name#0<TAB>caption, name|0|caption, or a header image,caption"
    )


def _find_column(names: list[str], prefixes: tuple[str, ...]) -> int | None:
    matches = (n.startswith(prefixes) and not n.endswith(("number", "id")) for n in names)
    return next((k for k, is_match in enumerate(matches) if is_match), None)


def _parse_by_pattern(pattern: re.Pattern[str], line: str) -> CaptionRecord | None:
    match = pattern.fullmatch(line)
    return CaptionRecord(match[1].strip(), match[2]) if match else None


def _parse_by_columns(
    delimiter: str, num_columns: int, column_indices: dict[str, int | None], line: str
) -> CaptionRecord | None:
    """Parse a line by its columns; a caption in the last column may have unquoted delimiters."""
    fields = _split_fields(line, delimiter) or []
    if len(fields) > num_columns and column_indices["caption"] == num_columns - 1:
        fields[num_columns - 1 :] = [delimiter.join(fields[num_columns - 1 :])]
    if len(fields) != num_columns:
        return None
    name, caption, split = (
        None if k is None else fields[k].strip() for k in column_indices.values()
    )
    return CaptionRecord(name, caption or "", _normalize_split(split)) if name else None


def _split_fields(line: str, delimiter: str) -> list[str] | None:
    try:
        return next(csv.reader([line], delimiter=delimiter))
    except csv.Error:
        return None


def _normalize_split(name: str | None) -> str | None:
    """Return the split of a name; names of other splits are "unused"."""
    if not name:
        return None
    split = normalize_split_name(name)
    return split if split in SPLITS else "unused"


def _clean_text(value: Any, location: str) -> str:
    """Return a text with single spaces; raise UserError if the value is something else."""
    if not isinstance(value, str):
        raise UserError(f"{location}: expected a text, got {safe_repr(value)}")
    if surrogate := find_surrogate(value):
        raise UserError(f"{location}: unpaired surrogate {surrogate} in {safe_repr(value)}")
    return " ".join(value.split())
