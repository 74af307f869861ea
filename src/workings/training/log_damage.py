"""Damage to the log of a run: lines that are no records, and differences from its checkpoints.

Each checkpoint has the length and the SHA-256 that the log had when it was written. Imports no
torch.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from workings.errors import UserError
from workings.io import read_bytes
from workings.json_files import read_json
from workings.training.logging import MAX_LOG_BYTES, parse_records

_MAX_LINES = 5  # line numbers that a message lists


def describe_log_damage(run: Path) -> str:
    """Return what is damaged in the log of a run, as one line that names the file; "" if nothing.

    A run without a log, such as an imported one, has none that could be damaged.
    """
    path, states = run / "log.jsonl", read_checkpoint_states(run)  # before the log, which grows
    try:
        raw = read_bytes(path, MAX_LOG_BYTES)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{path}: {error.strerror or error}"
    damage = find_damage(raw, states)
    return f"{path}: {damage}: its curves are not those of the training" if damage else ""


def read_checkpoint_states(run: Path) -> list[dict[str, Any]]:
    """Return the states of a run's checkpoints; those that cannot be read are left out."""
    states = []
    for path in (run / "checkpoints").glob("step-*[0-9]/state.json"):
        with suppress(UserError, OSError):  # damaged, or just dropped by the training
            states.append(read_json(path))
    return states


def find_damage(raw: bytes, states: Sequence[Mapping[str, Any]]) -> str:
    """Describe what is damaged in the bytes of a log, given the states of its checkpoints."""
    marks = sorted(
        (offset, str(state.get("log_sha256", "")))
        for state in states
        if isinstance(offset := state.get("log_offset"), int)
    )
    damages = [describe_damaged_lines(raw), describe_missing_end(len(raw), states)]
    if not any(damages) and any(_differs(raw, marks)):
        damages.append("changed since a checkpoint was written")
    return "; ".join(filter(None, damages))


def describe_missing_end(size: int, states: Iterable[Mapping[str, Any]]) -> str:
    """Say how much a log of a size is shorter than it was at a checkpoint; "" if it is not.

    >>> describe_missing_end(70, [{"log_offset": 50}, {"log_offset": 100}])
    '30 bytes shorter than at a checkpoint'
    """
    offsets = (offset for s in states if isinstance(offset := s.get("log_offset"), int))
    missing = max(offsets, default=0) - size
    return f"{missing:,} bytes shorter than at a checkpoint" if missing > 0 else ""


def _differs(raw: bytes, marks: Iterable[tuple[int, str]]) -> Iterable[bool]:
    """Yield for each checkpoint whether the log up to it has another checksum."""
    digest, end = hashlib.sha256(), 0
    for offset, expected in marks:
        digest.update(memoryview(raw)[end:offset])
        end = offset
        yield bool(expected) and digest.hexdigest() != expected


def describe_damaged_lines(raw: bytes) -> str:
    r"""Name the lines of a log that are not records; an incomplete last line is no damage.

    >>> describe_damaged_lines(b'{"kind": "test"}\n{"ki\n{"kind": "test"}\n{"ki')
    'line 2 is not a record'
    """
    complete = raw.split(b"\n")[:-1]
    return list_damaged_lines([n for n, line in enumerate(complete, 1) if not is_record(line)])


def list_damaged_lines(numbers: list[int]) -> str:
    """Return a message about the lines of a log with these numbers; "" if there are none.

    >>> list_damaged_lines([2, 3, 5, 8, 13, 21])
    'lines 2, 3, 5, 8, 13, … are no records'
    """
    if not numbers:
        return ""
    listed = ", ".join(map(str, numbers[:_MAX_LINES])) + ", …" * (len(numbers) > _MAX_LINES)
    return (
        f"line {listed} is not a record" if len(numbers) == 1 else f"lines {listed} are no records"
    )


def is_record(line: bytes) -> bool:
    """Return True if a line of a log is a record."""
    try:
        line.decode("utf-8", "surrogatepass")  # as it is written; `parse_records` replaces bytes
    except UnicodeDecodeError:
        return False
    return bool(parse_records(line))
