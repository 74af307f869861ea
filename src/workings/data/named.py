"""The sets that have a name: where they come from, what they are made of, how they are laid out."""

import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.data.archives import members
from workings.data.download import Mirror
from workings.data.lines import decoded
from workings.errors import UserError

Prepare = Callable[[Path, Path], None]
_SENTIMENT = {"0": "negative", "1": "positive"}


@dataclass(frozen=True)
class NamedSet:
    """A published set: its home, its archive there, and its files once they are prepared."""

    name: str
    about: str
    home: str
    parts: tuple[str, ...]
    archive: str
    mirrors: tuple[Mirror, ...]
    prepare: Prepare
    """Writes the parts into a folder, `PART.jsonl.gz` each, from the archive."""
    labels: Mapping[str, str]
    """The names of the labels, by how the files write them."""


def _prepare_imdb(archive: Path, folder: Path) -> None:
    reviews: dict[str, dict[tuple[str, int], dict[str, Any]]] = {"train": {}, "test": {}}
    for member in members(archive):
        found = re.fullmatch(r"aclImdb/(train|test)/(neg|pos)/(\d+)_(\d+)\.txt", member.name)
        if found:
            part, side, number, rating = found.groups()
            text = decoded(member.read(), f"{archive}: {member.name}")
            reviews[part][side, int(number)] = {
                "id": f"{side}/{number}_{rating}",
                "label": int(side == "pos"),
                "rating": int(rating),
                "text": text,
            }
    for part, records in reviews.items():
        _write(folder / f"{part}.jsonl.gz", (records[key] for key in sorted(records)), archive)


def _prepare_rt_polarity(archive: Path, folder: Path) -> None:
    sides = {}
    for member in members(archive):
        side = member.name.rpartition(".")[2]
        if member.name.rpartition("/")[2] in ("rt-polarity.pos", "rt-polarity.neg"):
            sides[side] = member.read().decode("cp1252", "replace").splitlines()
    records = (
        {"label": int(side == "pos"), "text": line.strip()}
        for side in ("pos", "neg")
        for line in sides.get(side, ())
        if line.strip()
    )
    _write(folder / "mr.jsonl.gz", records, archive)


def _write(path: Path, records: Iterable[dict[str, Any]], archive: Path) -> None:
    """Write JSON lines, gzip'd, the same bytes whenever it is done."""
    part = path.with_name(f"{path.name}.part")
    count = 0
    with part.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        for line in _json_lines(records):
            packed.write(line)
            count += 1
    if not count:
        part.unlink()
        raise UserError(f"{archive}: holds nothing for {path.name}")
    part.replace(path)


def _json_lines(records: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    for record in records:
        yield json.dumps(record, ensure_ascii=False).encode() + b"\n"


NAMED = {
    s.name: s
    for s in (
        NamedSet(
            name="imdb",
            about="50,000 film reviews, positive or negative, half of them for the test",
            home="https://ai.stanford.edu/~amaas/data/sentiment/",
            parts=("train", "test"),
            archive="aclImdb_v1.tar.gz",
            mirrors=(
                # The home publishes no digest; two widely used libraries state this one.
                Mirror(
                    "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
                    size=84_125_825,
                    digest="sha256:c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
                ),
            ),
            prepare=_prepare_imdb,
            labels=_SENTIMENT,
        ),
        NamedSet(
            name="rt-polarity",
            about="10,662 sentences of film reviews, positive or negative",
            home="https://www.cs.cornell.edu/people/pabo/movie-review-data/",
            parts=("mr",),
            archive="rt-polaritydata.tar.gz",
            mirrors=(
                # The archive's home publishes no digest: these are the ones that users of the two
                # copies have published, an MD5 of the first and a SHA-256 of the second.
                Mirror(
                    "https://www.cs.cornell.edu/people/pabo/movie-review-data/rt-polaritydata.tar.gz",
                    size=487_770,
                    digest="md5:50c1c2c047b4225e148e97aa7708c34e",
                ),
                Mirror(
                    "https://storage.googleapis.com/seldon-datasets/sentence_polarity_v1/rt-polaritydata.tar.gz",
                    size=487_770,
                    digest="sha256:a05befe52aafda71d458d188a1c54506a998b1308613ba76bbda2e5029409ce9",
                ),
            ),
            prepare=_prepare_rt_polarity,
            labels=_SENTIMENT,
        ),
    )
}
