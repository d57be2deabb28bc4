"""HTTP on the loopback, for one person: few connections, small requests, and nobody waits for ever.

The standard library's server, one thread and one request a connection. It knows nothing of pages:
``answer`` makes them.
"""

from __future__ import annotations

import contextlib
import io
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

HOST = "127.0.0.1"
# Of one person's browser, which opens six at most, and of whoever knocks beside it.
MOST_CONNECTIONS = 32
MOST_BYTES = 64 * 1024
# Seconds for a whole request, and for a whole answer.
RECEIVED, SENT = 10.0, 30.0

# What every answer says. Styles and scripts come from here, and nothing comes from elsewhere.
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class Asked:
    """A request.

    Parameters
    ----------
    headers : by lower-case name, all values of each.
    body : of a form; empty for others.
    """

    method: str
    target: str
    headers: Mapping[str, Sequence[str]]
    body: bytes = b""


@dataclass(frozen=True)
class Answer:
    """What is sent back.

    Parameters
    ----------
    headers : beside those of every answer, or in place of one of these.
    """

    status: int
    body: str = ""
    kind: str = "text/plain"
    headers: Mapping[str, str] = field(default_factory=dict)


Answers = Callable[[Asked], Answer]


class _Within(io.RawIOBase):
    """What a socket sends, until so many seconds are over, however slowly it comes."""

    def __init__(self, sent: socket.socket, seconds: float) -> None:
        self._socket, self._end = sent, time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)
        return self._socket.recv_into(buffer)


class Server(ThreadingHTTPServer):
    """A server of the loopback that gives each request to ``answer``."""

    daemon_threads = True
    # Those that wait to be accepted: what is hung up on is so at once.
    request_queue_size = 2 * MOST_CONNECTIONS

    def __init__(self, port: int = 0) -> None:
        super().__init__((HOST, port), _Handler)
        self.answer: Answers = lambda asked: Answer(503, "Not ready yet.")
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.server_address[1])

    def server_bind(self) -> None:
        """Bind without looking a name up, as HTTPServer would."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.port

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own, or hang up where there are too many."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:
            # No thread could be started.
            self._free.release()
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer; the place is free afterwards."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke is nobody's business; nothing of a request is printed."""


class _Handler(BaseHTTPRequestHandler):
    """One request of one connection."""

    server: Server

    def setup(self) -> None:
        super().setup()
        self.rfile = io.BufferedReader(_Within(self.connection, RECEIVED))

    def version_string(self) -> str:
        return "dbanon"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Nothing: addresses hold keys."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What http.server itself refuses, without a word of the request."""
        # Of a version that is none it would send a body alone.
        self.request_version = "HTTP/1.0"
        self._send(Answer(int(code), "The request was not understood."))

    def do_GET(self) -> None:
        self._send(self.server.answer(self._asked()))

    do_HEAD = do_GET  # noqa: N815

    def do_POST(self) -> None:
        size = self._size()
        if isinstance(size, Answer):
            self._send(size)
            return
        body = self.rfile.read(size)
        if len(body) == size:
            self._send(self.server.answer(self._asked(body)))

    def _size(self) -> int | Answer:
        """How long the body is, or why it is not read."""
        lengths = self.headers.get_all("Content-Length", [])
        if self.headers.get_all("Transfer-Encoding") or len(lengths) != 1:
            return Answer(411, "The length is missing.")
        if not (lengths[0].isascii() and lengths[0].isdigit()):
            return Answer(400, "The length is no number.")
        if len(lengths[0]) > 9 or int(lengths[0]) > MOST_BYTES:
            return Answer(413, "This is too long.")
        return int(lengths[0])

    def _asked(self, body: bytes = b"") -> Asked:
        headers: dict[str, list[str]] = {}
        for name, value in self.headers.items():
            headers.setdefault(name.lower(), []).append(value)
        return Asked(self.command, self.path, headers, body)

    def _send(self, answer: Answer) -> None:
        content = answer.body.encode("utf-8", "backslashreplace")
        self.connection.settimeout(SENT)
        self.close_connection = True
        self.send_response(answer.status)
        headers = HEADERS | {
            "Content-Type": f"{answer.kind}; charset=utf-8",
            "Content-Length": str(len(content)),
            "Connection": "close",
        }
        for name, value in (headers | dict(answer.headers)).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            with contextlib.suppress(OSError):
                self.wfile.write(content)
