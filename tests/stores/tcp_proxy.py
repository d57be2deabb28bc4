"""A TCP proxy that cuts a connection at a chosen place, or lets it stall there, as networks do.

    with TcpProxy(server.host, server.port, Cut("before", at=COMMIT)) as proxy:
        connect to 127.0.0.1, port ``proxy.port``

A place is a piece of what the client sends, or a number of bytes that it sent. Only the first
connection that gets there is cut, and later ones pass, unless ``down`` says that they are refused.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import Literal

from sqlalchemy import make_url

# The first statement of dbanon's sessions; a connection has transactions before that.
SESSION = b"SET LOCAL idle_in_transaction_session_timeout"
# The end of a query that is COMMIT and nothing more; "ON COMMIT DROP" is another.
COMMIT = b"COMMIT\0"

_PIECE = 1 << 16


@dataclass(frozen=True)
class Cut:
    """Where and how a connection is cut, or stalls.

    Parameters
    ----------
    how : ``before``, the server never gets what the client sent at this place; ``after``, the
        server gets it and answers, and its answer never arrives; ``hold``, the client is cut, and
        the server gets it when ``TcpProxy.forward`` says so; ``stall``, nothing passes any more
        either way, not even that an end was closed; ``stall after``, the same, once the server
        got what the client sent.
    at : a piece of what the client sends, or the number of bytes after which it is cut.
    since : the place counts after this was sent on the same connection.
    answers : the place is so many bytes of what the server sends after ``at``.
    down : later connections are refused, until ``TcpProxy.down`` is False again. Where a connection
        stalls, they stall from their beginning.
    """

    how: Literal["before", "after", "hold", "stall", "stall after"]
    at: bytes | int = COMMIT
    since: bytes = b""
    answers: int | None = None
    down: bool = False


class TcpProxy:
    """Listens on its own port and forwards all data to a server."""

    def __init__(self, host: str, port: int, cut: Cut | None = None) -> None:
        self._server, self.cut = (host, port), cut
        self.down = False
        self.was_cut = threading.Event()
        self._forward = threading.Event()
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> TcpProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # A thread in accept() is woken by shutdown, not by close.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for end in self._open:
                _shut(end)
                end.close()
        # Data that was held back is dropped now.
        self._forward.set()

    def url(self, url: str) -> str:
        """A database URL of the server, by way of the proxy."""
        through = make_url(url).set(host="127.0.0.1", port=self.port)
        return through.render_as_string(hide_password=False)

    def forward(self) -> None:
        """Pass on what a cut ``hold`` kept back."""
        self._forward.set()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                if self.down:
                    if self.stalls:
                        with self._lock:
                            self._open.append(client)
                        continue
                    raise ConnectionRefusedError
                server = socket.create_connection(self._server)
            except OSError:
                client.close()
                continue
            with self._lock:
                self._open += [client, server]
            up = _Upstream(self, client, server)
            for pump in (up.run, _Downstream(up).run):
                threading.Thread(target=pump, daemon=True).start()

    @property
    def stalls(self) -> bool:
        """Whether connections stall, rather than being cut."""
        return self.cut is not None and self.cut.how.startswith("stall")

    def take_cut(self) -> bool:
        """True once: for the connection that is cut."""
        with self._lock:
            first = not self.was_cut.is_set()
            if first and self.cut is not None:
                self.down = self.cut.down
            self.was_cut.set()
            return first

    def wait_for_forward(self) -> None:
        self._forward.wait()


class _Upstream:
    """Data that the client sends."""

    def __init__(self, proxy: TcpProxy, client: socket.socket, server: socket.socket) -> None:
        self.proxy, self.client, self.server = proxy, client, server
        self.sent, self.tail, self.armed = 0, b"", False
        # How many bytes of answers are left before it stalls, once that is so; whether it does.
        self.answers: int | None = None
        self.stalls = False

    def run(self) -> None:
        with contextlib.suppress(OSError):
            while piece := self.client.recv(_PIECE):
                if self.stalls:
                    return
                if self.answers is None and self._reached(piece):
                    if self.proxy.cut is not None and self.proxy.cut.answers is not None:
                        self.answers = self.proxy.cut.answers
                    elif self.proxy.take_cut():
                        self._cut(piece)
                        return
                self.server.sendall(piece)
        if self.stalls:
            return
        _shut(self.client)
        _shut(self.server)

    def _reached(self, piece: bytes) -> bool:
        cut = self.proxy.cut
        if cut is None:
            return False
        self.sent += len(piece)
        if isinstance(cut.at, int):
            return self.sent > cut.at
        # The places may lie across two pieces.
        sent = self.tail + piece
        start = 0
        if not self.armed and cut.since in sent:
            self.armed, start = True, sent.index(cut.since)
        self.tail = sent[-max(len(cut.at), len(cut.since)) + 1 :]
        return self.armed and cut.at in sent[start:]

    def _cut(self, piece: bytes) -> None:
        cut = self.proxy.cut
        assert cut is not None
        if self.proxy.stalls:
            self.stalls = True
            if cut.how == "stall after":
                self.server.sendall(piece)
            return
        if cut.how == "after":
            # The other thread passes answers on to a client that is no longer there.
            _shut(self.client, socket.SHUT_WR)
            self.server.sendall(piece)
            return
        _shut(self.client)
        if cut.how == "hold":
            self.proxy.wait_for_forward()
            with contextlib.suppress(OSError):
                self.server.sendall(piece)
                self.server.shutdown(socket.SHUT_WR)
            return
        _shut(self.server)


class _Downstream:
    """Data that the server answers."""

    def __init__(self, up: _Upstream) -> None:
        self.up = up

    def run(self) -> None:
        up = self.up
        with contextlib.suppress(OSError):
            while piece := up.server.recv(_PIECE):
                if up.answers is not None and not up.stalls:
                    up.answers -= len(piece)
                    if up.answers < 0 and up.proxy.take_cut():
                        up.stalls = up.proxy.stalls
                        if not up.stalls:
                            break
                if up.stalls:
                    return
                up.client.sendall(piece)
        if not up.stalls:
            _shut(up.client)
            _shut(up.server)


def _shut(end: socket.socket, how: int = socket.SHUT_RDWR) -> None:
    """End a connection; a thread that reads it is woken, as close() alone would not do."""
    with contextlib.suppress(OSError):
        end.shutdown(how)
