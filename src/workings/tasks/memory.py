"""Not enough memory, told so that somebody can act on it."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from workings.errors import UserError

_WORDS = ("can't allocate", "not enough memory", "out of memory", "bad allocation", "bad_alloc")


@contextmanager
def memory_told(
    doing: str, helps: str = "shorter texts or a smaller model need less"
) -> Iterator[None]:
    """Say at what the memory was used up, and what would help."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_memory(error):
            raise
        raise UserError(f"out of memory {doing}: {helps}") from None


def is_memory(error: Exception) -> bool:
    """Tell whether there was not enough memory, which torch says in several ways."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and any(words in str(error) for words in _WORDS)
    )
