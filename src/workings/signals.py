"""Signal handlers for a part of a program."""

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import TypeAlias

Handler: TypeAlias = Callable[[int, FrameType | None], object] | signal.Handlers


@contextmanager
def handle_signals(handlers: Mapping[signal.Signals, Handler]) -> Iterator[None]:
    """Install handlers in the main thread; other threads receive no signals.

    Signals that are ignored, for instance under nohup, stay so.
    """
    if not is_main_thread():
        yield
        return
    before = {
        number: signal.signal(number, handler)
        for number, handler in handlers.items()
        if signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def is_main_thread() -> bool:
    """Return True in the thread that receives signals."""
    return threading.current_thread() is threading.main_thread()
