"""Signals that arrive while a transaction is committed wait until that is over."""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from dbanon.errors import CommitConfirmed

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)


@contextmanager
def held_once_committed() -> Iterator[Callable[[], None]]:
    """Let signals end the block until it calls the function that it is given; then no more.

    What is committed cannot be taken back: who is told "interrupted" would take it for undone, and
    a scheduler would run it again. Who only reads never calls it. So a signal that arrives
    afterwards becomes a warning, or is raised after all when the block fails. Python runs handlers
    in the main thread only, and a signal without a handler of Python's ends the process or does
    nothing: neither is changed.

    Raises
    ------
    KeyboardInterrupt : or what else the handler raises, when the block failed.
    """
    arrived: list[tuple[int, FrameType | None]] = []
    before: dict[int, Any] = {}

    def keep(number: int, frame: FrameType | None) -> None:
        arrived.append((number, frame))

    def hold() -> None:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                handler = signal.getsignal(number)
                # The system's own (end the process, ignore) are numbers.
                if callable(handler) and not isinstance(handler, int):
                    before[number] = signal.signal(number, keep)

    try:
        yield hold
    except BaseException:
        _restore(before)
        for number, frame in arrived:
            before[number](number, frame)
        raise
    # A limit on the run's time is none on what follows the commit.
    for handler in before.values():
        getattr(handler, "over", lambda: None)()
    arrived = [one for one in arrived if one[0] != signal.SIGALRM]
    _restore(before)
    if arrived:
        warnings.warn(
            "The interrupt came when the transaction was being committed: it was committed, and"
            " all is as it should be.",
            CommitConfirmed,
            stacklevel=4,
        )


def _restore(handlers: dict[int, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
