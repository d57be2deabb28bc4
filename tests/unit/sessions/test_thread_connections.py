"""Connections of a thread are cut at the earliest time that anything asked for."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from dbanon.sessions import thread_connections
from dbanon.sessions.thread_connections import _CuttableSocket


@pytest.fixture
def wire() -> Iterator[socket.socket]:
    wire, peer = socket.socketpair()
    with wire, peer:
        yield wire


def test_the_earlier_time_wins(wire: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(thread_connections, "MIN_SECONDS", 0.0)
    monkeypatch.setattr(
        threading.Timer,
        "start",
        lambda timer: waits.append(timer.interval),  # Nothing is cut.
    )
    cuttable = _CuttableSocket(wire)  # type: ignore[arg-type]
    for seconds in (300.0, 5.0, 60.0):
        cuttable.cut_after(seconds)
    cuttable.close()
    assert waits == pytest.approx([300.0, 5.0], abs=1.0)


def test_a_cut_ends_a_read(wire: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_connections, "MIN_SECONDS", 0.0)
    cuttable = _CuttableSocket(wire)  # type: ignore[arg-type]
    cuttable.cut_after(time.monotonic() + 1e6)
    cuttable.cut_after(0.0)
    assert wire.recv(1) == b""
    assert cuttable.was_cut
    cuttable.close()
