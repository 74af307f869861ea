"""What several processes under torchrun find wrong, one of them says."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from workings.errors import ToldElsewhere, UserError

PATIENCE = 10.0  # seconds; torchrun ends the others as soon as one has failed


@contextmanager
def told_by_one() -> Iterator[None]:
    """Do what goes wrong for all processes alike: the first on each machine tells."""
    try:
        yield
    except (UserError, OSError) as error:
        if _is_first():
            raise
        raise ToldElsewhere(str(error)) from error


def give_way() -> None:
    """Wait to be ended while another process speaks; come back where none did."""
    if "LOCAL_RANK" in os.environ:
        time.sleep(PATIENCE / 2 if _is_first() else PATIENCE)


def leave_word(text: str) -> None:
    """Have torchrun's summary say what went wrong."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if path is not None:
        extra = {"py_callstack": text, "timestamp": str(int(time.time()))}
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
            json.dump({"message": {"message": text, "extraInfo": extra}}, file)


def _is_first() -> bool:
    return os.environ.get("LOCAL_RANK", "0") == "0"
