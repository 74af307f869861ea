"""Splits in several files, as on Hugging Face's hub: `train-00000-of-00003.parquet` and so on."""

import re
from pathlib import Path

from workings.errors import UserError, truncate

_SHARD = re.compile(r"(?P<stem>.+)-(?P<index>\d{5})-of-(?P<count>\d{5})(?P<suffix>\..+)")


def unsharded_name(name: str) -> str | None:
    """Return the name of a file without the number of its shard; None for all but the first shard.

    >>> unsharded_name("train-00000-of-00003.parquet"), unsharded_name("train.csv")
    ('train.parquet', 'train.csv')
    >>> unsharded_name("train-00001-of-00003.parquet") is None
    True
    """
    match = _SHARD.fullmatch(name)
    if match is None:
        return name
    return match["stem"] + match["suffix"] if int(match["index"]) == 0 else None


def list_shards(path: Path) -> list[Path]:
    """Return all shards of the file of which one is given, in order; or the file alone."""
    match = _SHARD.fullmatch(path.name)
    if match is None:
        return [path]
    count, suffix = int(match["count"]), match["suffix"]
    names = {f"{match['stem']}-{k:05}-of-{count:05}{suffix}" for k in range(count)}
    if missing := sorted(names - {file.name for file in path.parent.iterdir()}):
        raise UserError(
            f"{truncate(str(path), 300)}: one of {count:,} files: {truncate(missing[0])} is missing"
        )
    return [path.with_name(name) for name in sorted(names)]
