"""Errors under torchrun: one process per machine prints what all of them raise."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from workings.errors import ErrorOnOtherRank, UserError

TERMINATION_TIMEOUT = 10.0  # seconds; torchrun ends the other processes when one fails


@contextmanager
def report_on_local_rank_zero() -> Iterator[None]:
    """Turn errors that all processes raise into `ErrorOnOtherRank`, except on local rank 0."""
    try:
        yield
    except (UserError, OSError) as error:
        if _is_local_rank_zero():
            raise
        raise ErrorOnOtherRank(str(error)) from error


def wait_for_termination() -> None:
    """Wait until torchrun ends this process; return after a timeout if it does not."""
    if "LOCAL_RANK" in os.environ:
        time.sleep(TERMINATION_TIMEOUT / 2 if _is_local_rank_zero() else TERMINATION_TIMEOUT)


def write_torchelastic_error(text: str) -> None:
    """Write the error file from which torchrun prints its summary."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if path is not None:
        extra = {"py_callstack": text, "timestamp": str(int(time.time()))}
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
            json.dump({"message": {"message": text, "extraInfo": extra}}, file)


def _is_local_rank_zero() -> bool:
    return os.environ.get("LOCAL_RANK", "0") == "0"
