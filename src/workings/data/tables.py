"""Records of columnar tables: Parquet, Arrow, and datasets of Hugging Face, on disk or by name."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workings.errors import UserError, truncate
from workings.io import check_inside, read_json_object

if TYPE_CHECKING:
    import pyarrow as pa

HUGGING_FACE_PREFIX = "hf:"
"""`hf:NAME` is a dataset of the Hugging Face hub, which is downloaded: `hf:ag_news`."""
MAX_TABLE_BYTES = 16 * 2**30
"""Limit of the decompressed size that a Parquet file states."""
MAX_INFO_BYTES = 64 * 2**20
BATCH_ROWS = 1000
_DATASET_INFO, _DATASET_SPLITS = "dataset_info.json", "dataset_dict.json"

Fields = dict[str, Any]


def read_table(path: Path, file_format: str) -> Iterator[tuple[int, Fields]]:
    """Yield the rows of a Parquet or Arrow file, numbered from 1, as fields by name."""
    with _name_file_in_errors(path):
        batches = _read_parquet(path) if file_format == "parquet" else _read_arrow(path)
        number = 0
        names: Mapping[str, list[str]] | None = None
        for batch in batches:
            if names is None:
                names = _class_names(batch.schema)
            for fields in batch.to_pylist():
                number += 1
                yield number, flatten_fields(fields, names)


def is_saved_dataset(folder: Path) -> bool:
    """Return True if a folder was written by `save_to_disk` of Hugging Face's datasets."""
    return (folder / _DATASET_INFO).is_file() or (folder / _DATASET_SPLITS).is_file()


def list_saved_splits(folder: Path) -> dict[str, Path]:
    """Return the folder of each split of a saved dataset; one without splits is all `train`."""
    if (folder / _DATASET_INFO).is_file():
        return {"train": folder}
    splits = read_json_object(folder / _DATASET_SPLITS, MAX_INFO_BYTES).get("splits")
    if not isinstance(splits, list) or not splits or not all(isinstance(s, str) for s in splits):
        raise UserError(f"{folder / _DATASET_SPLITS}: it has no list of splits")
    paths = {split: folder / split for split in splits}
    for path in paths.values():
        check_inside(path, folder)
    return paths


def read_saved_dataset(folder: Path) -> Iterator[tuple[str, Fields]]:
    """Yield the rows of a saved dataset without splits, with their location."""
    files = sorted(folder.glob("*.arrow"))
    if not files:
        raise UserError(f"{folder}: no *.arrow files: not a dataset of save_to_disk")
    for file in files:
        check_inside(file, folder)
        for number, fields in read_table(file, "arrow"):
            yield f"{file}, row {number}", fields


def load_hub_dataset(name: str) -> dict[str, Any]:
    """Download a dataset of the Hugging Face hub; return its splits."""
    import datasets

    hub_name = name.removeprefix(HUGGING_FACE_PREFIX)
    path, _, configuration = hub_name.partition(":")
    try:
        loaded = datasets.load_dataset(path, configuration or None)
    except Exception as error:  # of any of its dependencies
        reason = truncate(f"{type(error).__name__}: {error}", 200)
        raise UserError(f"{name}: the dataset cannot be loaded: {reason}") from None
    return dict(loaded)


def read_hub_split(split: Any) -> Iterator[Fields]:
    """Yield the rows of a split that Hugging Face's datasets loaded."""
    names = _class_names(split.data.schema)
    for fields in split:
        yield flatten_fields(fields, names)


def _read_parquet(path: Path) -> Iterator["pa.RecordBatch"]:
    import pyarrow.parquet

    file = pyarrow.parquet.ParquetFile(path)
    groups = (file.metadata.row_group(k) for k in range(file.metadata.num_row_groups))
    if (size := sum(group.total_byte_size for group in groups)) > MAX_TABLE_BYTES:
        raise UserError(f"{path}: {size:,} bytes of data: the limit is {MAX_TABLE_BYTES:,}")
    yield from file.iter_batches(batch_size=BATCH_ROWS)


def _read_arrow(path: Path) -> Iterator["pa.RecordBatch"]:
    """Yield the batches of an IPC file (also called Feather) or stream."""
    import pyarrow as pa

    with pa.memory_map(str(path)) as source:
        is_file = source.read(6) == b"ARROW1"
        source.seek(0)
        if is_file:
            reader = pa.ipc.open_file(source)
            batches = (reader.get_batch(k) for k in range(reader.num_record_batches))
        else:
            batches = iter(pa.ipc.open_stream(source))
        for batch in batches:
            for first in range(0, batch.num_rows, BATCH_ROWS):
                yield batch.slice(first, BATCH_ROWS)


@contextmanager
def _name_file_in_errors(path: Path) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        reason = truncate(str(error).splitlines()[0] if str(error) else "damaged", 150)
        raise UserError(f"{path}: not a table that pyarrow can read: {reason}") from None


def _class_names(schema: "pa.Schema") -> dict[str, list[str]]:
    """Return the names of the classes of each column that Hugging Face's metadata describes."""
    raw = (schema.metadata or {}).get(b"huggingface", b"{}")
    try:
        features = json.loads(raw)["info"]["features"]
        return {
            name: feature["names"]
            for name, feature in features.items()
            if feature.get("_type") == "ClassLabel"
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def flatten_fields(fields: Fields, class_names: Mapping[str, list[str]]) -> Fields:
    """Return fields with the names of classes; those of a struct are `translation.en`, …

    >>> flatten_fields({"translation": {"en": "wine", "fr": "vin"}}, {})
    {'translation.en': 'wine', 'translation.fr': 'vin'}
    """
    flat: Fields = {}
    for name, value in fields.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{inner}": item for inner, item in value.items()}
        elif name in class_names and isinstance(value, int):
            names = class_names[name]
            flat[name] = names[value] if 0 <= value < len(names) else None  # -1: no label
        else:
            flat[name] = value
    return flat
