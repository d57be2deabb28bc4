"""Handlers of signals, for the length of a test."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def handler(number: int, how: Any) -> Iterator[None]:
    """Handle a signal in this way while the block runs."""
    before = signal.signal(number, how)
    try:
        yield
    finally:
        signal.signal(number, before)
