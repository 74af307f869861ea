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

from workings.data.lines import lines, name_of, opened
from workings.data.readers import rows, text_of
from workings.data.sets import part_of
from workings.errors import UserError, brief, shown
from workings.files import at_most, check_inside

LARGEST_JSON = 2**30
"""Bytes of a COCO file, which is read as one; the largest that are published have a tenth."""

_TOKEN = re.compile(r"([^\t]+)#\d+\t(.*)")
_BARS = re.compile(r"([^|]+)\|\s*\d+\s*\|?(.*)")  # published with a bar missing in one line
_COLUMNS = {
    "image": ("image", "file"),
    "caption": ("caption", "comment", "sentence", "description", "text"),
    "split": ("split",),
}
"""How the names of a table's columns begin; one that ends in number or id is none of them."""
_FILES = (
    *("captions.jsonl.gz", "captions.jsonl", "captions.txt", "captions.csv"),
    *("*.token.txt", "*.token", "results.csv", "captions_train*.json"),
    *("annotations/captions_train*.json",),
)
_LISTS = {"train": "*trainImages.txt", "validation": "*devImages.txt", "test": "*testImages.txt"}


@dataclass(frozen=True)
class Picture:
    """A picture by its name, and what is said of it."""

    name: str
    captions: tuple[str, ...]


class Said(NamedTuple):
    """One caption of a picture, and the part that the picture is said to be in."""

    name: str
    caption: str
    split: str | None = None


def captions_file(folder: Path) -> Path | None:
    """Find the file of captions in a folder, if it has one that is called like one."""
    found = (place for pattern in _FILES for place in sorted(folder.glob(pattern)))
    for place in found:
        check_inside(place, folder)
        if place.is_file():
            return place
    return None


def caption_parts(path: Path) -> dict[str, list[Picture]]:
    """Read pictures with their captions, by part; all are `train` where nothing tells parts.

    Pictures that are in no part, where there are parts, are in one called "unused".
    """
    parts = _parts(_said(path))
    if len(parts) == 1 and None in parts:
        parts = _listed(parts[None], path.parent)
    named: dict[str, list[Picture]] = {}
    for part, pictures in parts.items():
        named.setdefault(part or "unused", []).extend(pictures)
    beside = path.parent / path.name.replace("train", "val")
    if path.name.startswith("captions_train") and beside.is_file():  # COCO has a file a part
        check_inside(beside, path.parent)
        named["validation"] = _parts(_said(beside))[None]
        if both := {p.name for p in named["validation"]} & {p.name for p in named["train"]}:
            told = f"{brief(min(both))} is in {brief(path.name)}, too"
            raise UserError(f"{brief(str(beside), 300)}: {told}")
    return named


def _parts(said: Iterable[Said]) -> dict[str | None, list[Picture]]:
    """Gather what is said of each picture, in the order in which they come up."""
    captions: dict[str, list[str]] = {}
    splits: dict[str, str | None] = {}
    for name, caption, split in said:
        known = captions.setdefault(name, [])
        if caption:
            known.append(caption)
        if splits.setdefault(name, split) != split:
            both = f"{shown(splits[name])} and {shown(split)}"
            raise UserError(f"{brief(name)}: in two parts, {both}: which one?")
    parts: dict[str | None, list[Picture]] = {}
    for name, some in captions.items():
        parts.setdefault(splits[name], []).append(Picture(name, tuple(some)))
    return parts


def _listed(pictures: list[Picture], folder: Path) -> dict[str | None, list[Picture]]:
    """Take pictures apart by lists of names that lie beside their captions; else all are train."""
    part_by_name: dict[str, str] = {}
    for part, pattern in _LISTS.items():
        for place in sorted(folder.glob(pattern))[:1]:
            check_inside(place, folder)
            part_by_name |= {line.strip(): part for _, line in lines(place)}
    if "train" not in part_by_name.values():
        return {"train": pictures}
    parts: dict[str | None, list[Picture]] = {}
    for picture in pictures:
        parts.setdefault(part_by_name.get(picture.name), []).append(picture)
    return parts


def _said(path: Path) -> Iterator[Said]:
    """Read captions one by one, whatever the file's form is."""
    bare = path.name.lower().removesuffix(".gz")
    some = False
    if bare.endswith((".jsonl", ".ndjson")):
        found = _json_lines(path)
    else:
        found = _coco(path) if bare.endswith(".json") else _table(path)
    for said in found:
        some = True
        yield said
    if not some:
        raise UserError(f"{name_of(path)}: empty: no captions in it")


def _json_lines(path: Path) -> Iterator[Said]:
    for row in rows(path, format="jsonl"):
        name, captions = text_of(row, "image"), row.fields.get("captions")
        part = _part(text_of(row, "split") if row.fields.get("split") is not None else None)
        if not isinstance(captions, list):
            raise UserError(f'{row.where}: expected "captions", a list of texts')
        for caption in captions or [""]:
            yield Said(name, _text(caption, row.where), part)


def _coco(path: Path) -> Iterator[Said]:
    name = name_of(path)
    with opened(path) as stream:
        raw = at_most(stream, LARGEST_JSON, name)
    try:
        table = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{name}: not JSON: {brief(str(error))}") from None
    images, annotations = _list(table, "images", name), _list(table, "annotations", name)
    names: dict[int | str, str] = {}
    for k, image in enumerate(images):
        where = f"{name}, image {k + 1}"
        number = _id(image, "id", where)
        names[number] = _text(image.get("file_name"), where)
    for k, annotation in enumerate(annotations):
        where = f"{name}, annotation {k + 1}"
        number = _id(annotation, "image_id", where)
        if number not in names:
            raise UserError(f"{where}: no image {shown(number)} is listed")
        yield Said(names[number], _text(annotation.get("caption"), where))


def _list(table: Any, key: str, name: str) -> list[Any]:
    found = table.get(key) if isinstance(table, dict) else None
    if not isinstance(found, list):
        told = 'expected COCO\'s form, {"images": [...], "annotations": [...]}'
        raise UserError(f"{name}: {told}: no list {key!r} in it")
    return found


def _id(record: Any, key: str, where: str) -> int | str:
    number = record.get(key) if isinstance(record, dict) else None
    if not isinstance(number, int | str):
        raise UserError(f"{where}: no {key!r} that is a number or a text")
    return number


def _table(path: Path) -> Iterator[Said]:
    form: Callable[[str], Said | None] | None = None
    name = name_of(path)
    for number, line in lines(path):
        bare, where = line.rstrip("\r\n"), f"{name}, line {number}"
        if not bare.strip():
            continue
        if form is None:
            form, header = _form(bare, where)
            if header:
                continue
        found = form(bare)
        if not found:
            raise UserError(f"{where}: not a picture and a caption as in the lines before")
        yield found._replace(caption=_text(found.caption, where))


def _form(first: str, where: str) -> tuple[Callable[[str], Said | None], bool]:
    """Tell how a table's lines are read by its first one, and whether that one is a header."""
    if _TOKEN.fullmatch(first):
        return partial(_matched, _TOKEN), False
    for mark in ("|", "\t", ","):
        names = [name.strip().lower() for name in _fields(first, mark) or ()]
        places = {column: _place(names, begins) for column, begins in _COLUMNS.items()}
        if places["image"] is not None and len(names) > 1 and mark == "|":
            return partial(_matched, _BARS), True
        if places["image"] is not None and places["caption"] is not None:
            return partial(_named, mark, len(names), places), True
    if _BARS.fullmatch(first):
        return partial(_matched, _BARS), False
    raise UserError(
        f"{where}: neither name#0<TAB>caption, nor name|0|caption, nor a header image,caption"
    )


def _place(names: list[str], begins: tuple[str, ...]) -> int | None:
    fits = (n.startswith(begins) and not n.endswith(("number", "id")) for n in names)
    return next((k for k, fit in enumerate(fits) if fit), None)


def _matched(form: re.Pattern[str], line: str) -> Said | None:
    found = form.fullmatch(line)
    return Said(found[1].strip(), found[2]) if found else None


def _named(mark: str, count: int, places: dict[str, int | None], line: str) -> Said | None:
    """Read a line by the places of its columns; a caption at its end may have commas as it is."""
    fields = _fields(line, mark) or []
    if len(fields) > count and places["caption"] == count - 1:
        fields[count - 1 :] = [mark.join(fields[count - 1 :])]
    if len(fields) != count:
        return None
    name, caption, split = (None if k is None else fields[k].strip() for k in places.values())
    return Said(name, caption or "", _part(split)) if name else None


def _fields(line: str, mark: str) -> list[str] | None:
    try:
        return next(csv.reader([line], delimiter=mark))
    except csv.Error:
        return None


def _part(split: str | None) -> str | None:
    """The part that a split's name means; one that is none of ours is not used."""
    part = part_of(split) if split else None
    return part if part in ("train", "validation", "test") else part and "unused"


def _text(value: Any, where: str) -> str:
    """Take a text, on one line."""
    if not isinstance(value, str):
        raise UserError(f"{where}: expected a text, got {shown(value)}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise UserError(f"{where}: half a character in {shown(value)}") from None
    return " ".join(value.split())
