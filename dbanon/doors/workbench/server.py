"""HTTP on the loopback for one user: few connections, small requests, a timeout for each.

The standard library's server, with a thread per connection and one request on each. ``answer``
makes the pages.
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
# A browser opens six at most; the rest is for other programs that connect.
MOST_CONNECTIONS = 32
MOST_BYTES = 64 * 1024
# Seconds for a whole request, and for a whole response.
RECEIVED, SENT = 10.0, 30.0

# Of every response. Styles and scripts come from this server only.
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
class HttpRequest:
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
class HttpResponse:
    """A response.

    Parameters
    ----------
    headers : in addition to, or in place of, those of every response.
    """

    status: int
    body: str = ""
    kind: str = "text/plain"
    headers: Mapping[str, str] = field(default_factory=dict)


RequestHandler = Callable[[HttpRequest], HttpResponse]


class _DeadlineSocket(io.RawIOBase):
    """The bytes that a socket receives before a deadline, however slowly they arrive."""

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
    # A long backlog: connections over the limit are closed at once, not left waiting.
    request_queue_size = 2 * MOST_CONNECTIONS

    def __init__(self, port: int = 0) -> None:
        super().__init__((HOST, port), _Handler)
        self.answer: RequestHandler = lambda request: HttpResponse(503, "Not ready yet.")
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
        """Answer in a new thread, or close the connection if there are too many."""
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
        """Answer, then free the slot of the connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore broken connections: nothing of a request is printed."""


class _Handler(BaseHTTPRequestHandler):
    """One request of one connection."""

    server: Server

    def setup(self) -> None:
        super().setup()
        self.rfile = io.BufferedReader(_DeadlineSocket(self.connection, RECEIVED))

    def version_string(self) -> str:
        return "dbanon"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Log nothing: addresses contain keys."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what http.server cannot parse, without any part of the request."""
        # For an unknown version http.server would send a body without headers.
        self.request_version = "HTTP/1.0"
        self._send(HttpResponse(int(code), "The request could not be read."))

    def do_GET(self) -> None:
        self._send(self.server.answer(self._request()))

    do_HEAD = do_GET  # noqa: N815

    def do_POST(self) -> None:
        size = self._size()
        if isinstance(size, HttpResponse):
            self._send(size)
            return
        body = self.rfile.read(size)
        if len(body) == size:
            self._send(self.server.answer(self._request(body)))

    def _size(self) -> int | HttpResponse:
        """The length of the body, or the response that refuses it."""
        lengths = self.headers.get_all("Content-Length", [])
        if self.headers.get_all("Transfer-Encoding") or len(lengths) != 1:
            return HttpResponse(411, "The length is missing.")
        if not (lengths[0].isascii() and lengths[0].isdigit()):
            return HttpResponse(400, "The length is not a number.")
        if len(lengths[0]) > 9 or int(lengths[0]) > MOST_BYTES:
            return HttpResponse(413, "The request is too long.")
        return int(lengths[0])

    def _request(self, body: bytes = b"") -> HttpRequest:
        headers: dict[str, list[str]] = {}
        for name, value in self.headers.items():
            headers.setdefault(name.lower(), []).append(value)
        return HttpRequest(self.command, self.path, headers, body)

    def _send(self, answer: HttpResponse) -> None:
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
