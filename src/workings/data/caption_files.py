"""Captions out of files: what is said of each picture, and which part it is in, if that is told.

JSON lines (`{"image": ..., "captions": [...], "split": ...}`), COCO's JSON, Flickr8k's
`name.jpg#0<TAB>caption`, Flickr30k's `name.jpg| 0| caption`, and tables whose first line names the
columns (`image,caption` or `image,caption,split`, with commas or tabs). The text tells which it is,
and of JSON its ending.
"""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from workings.data.datasets import normalize_split_name
from workings.data.readers import get_text, open_maybe_gzip, read_lines, read_records, source_name
from workings.errors import UserError, safe_repr, truncate
from workings.io import check_inside, read_limited

MAX_JSON_BYTES = 2**30
"""Bytes of a COCO file, which is read as one; the largest that are published have a tenth."""

_FLICKR8K_LINE = re.compile(r"([^\t]+)#\d+\t(.*)")
_FLICKR30K_LINE = re.compile(
    r"([^|]+)\|\s*\d+\s*\|?(.*)"
)  # published with a bar missing in one line
_COLUMN_PREFIXES = {
    "image": ("image", "file"),
    "caption": ("caption", "comment", "sentence", "description", "text"),
    "split": ("split",),
}
"""How the names of a table's columns begin; one that ends in number or id is none of them."""
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
    """A picture by its name, and what is said of it."""

    name: str
    captions: tuple[str, ...]


class CaptionRecord(NamedTuple):
    """One caption of a picture, and the part that the picture is said to be in."""

    name: str
    caption: str
    split: str | None = None


def find_captions_file(folder: Path) -> Path | None:
    """Find the file of captions in a folder, if it has one that is called like one."""
    found = (place for pattern in _CAPTION_FILE_PATTERNS for place in sorted(folder.glob(pattern)))
    for place in found:
        check_inside(place, folder)
        if place.is_file():
            return place
    return None


def read_caption_splits(path: Path) -> dict[str, list[CaptionedImage]]:
    """Read pictures with their captions, by part; all are `train` where nothing tells parts.

    Pictures that are in no part, where there are parts, are in one called "unused".
    """
    parts = _group_by_split(_read_captions(path))
    if len(parts) == 1 and None in parts:
        parts = _split_by_lists(parts[None], path.parent)
    named: dict[str, list[CaptionedImage]] = {}
    for part, pictures in parts.items():
        named.setdefault(part or "unused", []).extend(pictures)
    beside = path.parent / path.name.replace("train", "val")
    if path.name.startswith("captions_train") and beside.is_file():  # COCO has a file a part
        check_inside(beside, path.parent)
        named["validation"] = _group_by_split(_read_captions(beside))[None]
        if both := {p.name for p in named["validation"]} & {p.name for p in named["train"]}:
            told = f"{truncate(min(both))} is in {truncate(path.name)}, too"
            raise UserError(f"{truncate(str(beside), 300)}: {told}")
    return named


def _group_by_split(records: Iterable[CaptionRecord]) -> dict[str | None, list[CaptionedImage]]:
    """Gather what is said of each picture, in the order in which they come up."""
    captions: dict[str, list[str]] = {}
    splits: dict[str, str | None] = {}
    for name, caption, split in records:
        known = captions.setdefault(name, [])
        if caption:
            known.append(caption)
        if splits.setdefault(name, split) != split:
            both = f"{safe_repr(splits[name])} and {safe_repr(split)}"
            raise UserError(f"{truncate(name)}: in two parts, {both}: which one?")
    parts: dict[str | None, list[CaptionedImage]] = {}
    for name, some in captions.items():
        parts.setdefault(splits[name], []).append(CaptionedImage(name, tuple(some)))
    return parts


def _split_by_lists(
    images: list[CaptionedImage], folder: Path
) -> dict[str | None, list[CaptionedImage]]:
    """Take pictures apart by lists of names that lie beside their captions; else all are train."""
    part_by_name: dict[str, str] = {}
    for part, pattern in _SPLIT_LIST_PATTERNS.items():
        for place in sorted(folder.glob(pattern))[:1]:
            check_inside(place, folder)
            part_by_name |= {line.strip(): part for _, line in read_lines(place)}
    if "train" not in part_by_name.values():
        return {"train": images}
    parts: dict[str | None, list[CaptionedImage]] = {}
    for picture in images:
        parts.setdefault(part_by_name.get(picture.name), []).append(picture)
    return parts


def _read_captions(path: Path) -> Iterator[CaptionRecord]:
    """Read captions one by one, whatever the file's form is."""
    bare = path.name.lower().removesuffix(".gz")
    some = False
    if bare.endswith((".jsonl", ".ndjson")):
        found = _read_jsonl(path)
    else:
        found = _read_coco(path) if bare.endswith(".json") else _read_table(path)
    for said in found:
        some = True
        yield said
    if not some:
        raise UserError(f"{source_name(path)}: empty: no captions in it")


def _read_jsonl(path: Path) -> Iterator[CaptionRecord]:
    for row in read_records(path, format="jsonl"):
        name, captions = get_text(row, "image"), row.fields.get("captions")
        part = _normalize_split(
            get_text(row, "split") if row.fields.get("split") is not None else None
        )
        if not isinstance(captions, list):
            raise UserError(f'{row.location}: expected "captions", a list of texts')
        for caption in captions or [""]:
            yield CaptionRecord(name, _clean_text(caption, row.location), part)


def _read_coco(path: Path) -> Iterator[CaptionRecord]:
    name = source_name(path)
    with open_maybe_gzip(path) as stream:
        raw = read_limited(stream, MAX_JSON_BYTES, name)
    try:
        table = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{name}: not JSON: {truncate(str(error))}") from None
    images, annotations = _get_list(table, "images", name), _get_list(table, "annotations", name)
    names: dict[int | str, str] = {}
    for k, image in enumerate(images):
        where = f"{name}, image {k + 1}"
        number = _get_id(image, "id", where)
        names[number] = _clean_text(image.get("file_name"), where)
    for k, annotation in enumerate(annotations):
        where = f"{name}, annotation {k + 1}"
        number = _get_id(annotation, "image_id", where)
        if number not in names:
            raise UserError(f"{where}: no image {safe_repr(number)} is listed")
        yield CaptionRecord(names[number], _clean_text(annotation.get("caption"), where))


def _get_list(table: Any, key: str, name: str) -> list[Any]:
    found = table.get(key) if isinstance(table, dict) else None
    if not isinstance(found, list):
        told = 'expected COCO\'s form, {"images": [...], "annotations": [...]}'
        raise UserError(f"{name}: {told}: no list {key!r} in it")
    return found


def _get_id(record: Any, key: str, location: str) -> int | str:
    number = record.get(key) if isinstance(record, dict) else None
    if not isinstance(number, int | str):
        raise UserError(f"{location}: no {key!r} that is a number or a text")
    return number


def _read_table(path: Path) -> Iterator[CaptionRecord]:
    form: Callable[[str], CaptionRecord | None] | None = None
    name = source_name(path)
    for number, line in read_lines(path):
        bare, where = line.rstrip("\r\n"), f"{name}, line {number}"
        if not bare.strip():
            continue
        if form is None:
            form, header = _detect_line_parser(bare, where)
            if header:
                continue
        found = form(bare)
        if not found:
            raise UserError(f"{where}: not a picture and a caption as in the lines before")
        yield found._replace(caption=_clean_text(found.caption, where))


def _detect_line_parser(
    first_line: str, location: str
) -> tuple[Callable[[str], CaptionRecord | None], bool]:
    """Tell how a table's lines are read by its first one, and whether that one is a header."""
    if _FLICKR8K_LINE.fullmatch(first_line):
        return partial(_parse_by_pattern, _FLICKR8K_LINE), False
    for mark in ("|", "\t", ","):
        names = [name.strip().lower() for name in _split_fields(first_line, mark) or ()]
        places = {
            column: _find_column(names, begins) for column, begins in _COLUMN_PREFIXES.items()
        }
        if places["image"] is not None and len(names) > 1 and mark == "|":
            return partial(_parse_by_pattern, _FLICKR30K_LINE), True
        if places["image"] is not None and places["caption"] is not None:
            return partial(_parse_by_columns, mark, len(names), places), True
    if _FLICKR30K_LINE.fullmatch(first_line):
        return partial(_parse_by_pattern, _FLICKR30K_LINE), False
    raise UserError(
        f"{location}: neither name#0<TAB>caption, nor name|0|caption, nor a header image,caption"
    )


def _find_column(names: list[str], prefixes: tuple[str, ...]) -> int | None:
    fits = (n.startswith(prefixes) and not n.endswith(("number", "id")) for n in names)
    return next((k for k, fit in enumerate(fits) if fit), None)


def _parse_by_pattern(pattern: re.Pattern[str], line: str) -> CaptionRecord | None:
    found = pattern.fullmatch(line)
    return CaptionRecord(found[1].strip(), found[2]) if found else None


def _parse_by_columns(
    delimiter: str, num_columns: int, column_indices: dict[str, int | None], line: str
) -> CaptionRecord | None:
    """Read a line by the places of its columns; a caption at its end may have commas as it is."""
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


def _normalize_split(split: str | None) -> str | None:
    """The part that a split's name means; one that is none of ours is not used."""
    part = normalize_split_name(split) if split else None
    return part if part in ("train", "validation", "test") else part and "unused"


def _clean_text(value: Any, location: str) -> str:
    """Take a text, on one line."""
    if not isinstance(value, str):
        raise UserError(f"{location}: expected a text, got {safe_repr(value)}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise UserError(f"{location}: half a character in {safe_repr(value)}") from None
    return " ".join(value.split())
