"""What several processes under torchrun find wrong, one of them says."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from workings.errors import ErrorOnOtherRank, UserError

TERMINATION_TIMEOUT = 10.0  # seconds; torchrun ends the others as soon as one has failed


@contextmanager
def report_on_local_rank_zero() -> Iterator[None]:
    """Do what goes wrong for all processes alike: the first on each machine tells."""
    try:
        yield
    except (UserError, OSError) as error:
        if _is_local_rank_zero():
            raise
        raise ErrorOnOtherRank(str(error)) from error


def wait_for_termination() -> None:
    """Wait to be ended while another process speaks; come back where none did."""
    if "LOCAL_RANK" in os.environ:
        time.sleep(TERMINATION_TIMEOUT / 2 if _is_local_rank_zero() else TERMINATION_TIMEOUT)


def write_torchelastic_error(text: str) -> None:
    """Have torchrun's summary say what went wrong."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if path is not None:
        extra = {"py_callstack": text, "timestamp": str(int(time.time()))}
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
            json.dump({"message": {"message": text, "extraInfo": extra}}, file)


def _is_local_rank_zero() -> bool:
    return os.environ.get("LOCAL_RANK", "0") == "0"
