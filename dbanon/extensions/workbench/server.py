"""An HTTP server for one user on this machine; it limits connections, request sizes and times.

It is the standard library's server, with one thread and one request per connection. The function
``Server.answer`` handles the requests.
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
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

HOST = "127.0.0.1"
# A browser opens at most six connections to a server. The rest are for other programs.
MAX_CONNECTIONS = 32
MAX_BODY_BYTES = 64 * 1024
# Time limits for a whole request and for a whole response.
RECEIVE_SECONDS, SEND_SECONDS = 10.0, 30.0

# Sent with every response. Styles and scripts may come from this server only.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class HttpRequest:
    """An HTTP request.

    Parameters
    ----------
    target : the path and query.
    headers : from lower-case name to all values.
    body : the fields of a form; empty without one.
    """

    method: str
    target: str
    headers: Mapping[str, Sequence[str]]
    body: bytes = b""


@dataclass(frozen=True)
class HttpResponse:
    """An HTTP response.

    Parameters
    ----------
    headers : added to ``HEADERS``, or replacing some of them.
    """

    status: int
    body: str = ""
    content_type: str = "text/plain"
    headers: Mapping[str, str] = field(default_factory=dict)


RequestHandler = Callable[[HttpRequest], HttpResponse]


class _DeadlineSocket(io.RawIOBase):
    """Reads from a socket until a deadline, even if bytes keep arriving slowly."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._socket, self._deadline = connection, time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        remaining_seconds = self._deadline - time.monotonic()
        if remaining_seconds <= 0:
            raise TimeoutError
        self._socket.settimeout(remaining_seconds)
        return self._socket.recv_into(buffer)


# What a server accepts: a connection, or a datagram with its socket.
_Connection: TypeAlias = "socket.socket | tuple[bytes, socket.socket]"


class Server(ThreadingHTTPServer):
    """A server on the loopback interface that passes each request to ``answer``."""

    daemon_threads = True
    # A long backlog: connections over the limit are closed at once, not left waiting.
    request_queue_size = 2 * MAX_CONNECTIONS

    def __init__(self, port: int = 0) -> None:
        super().__init__((HOST, port), _Handler)
        self.answer: RequestHandler = lambda request: HttpResponse(503, "Not ready yet.")
        self._free_slots = threading.BoundedSemaphore(MAX_CONNECTIONS)

    @property
    def port(self) -> int:
        """The port that the server listens on."""
        return int(self.server_address[1])

    def server_bind(self) -> None:
        """Bind without looking a name up, as HTTPServer would."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.port

    def process_request(self, request: _Connection, client_address: object) -> None:
        """Answer in a new thread, or close the connection if there are too many."""
        if not self._free_slots.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:
            # No thread could be started.
            self._free_slots.release()
            self.shutdown_request(request)

    def process_request_thread(self, request: _Connection, client_address: object) -> None:
        """Answer, then free the slot of the connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free_slots.release()

    def handle_error(self, request: _Connection, client_address: object) -> None:
        """Print nothing about a broken connection, because its request may contain keys."""


class _Handler(BaseHTTPRequestHandler):
    """Handles the one request of a connection."""

    server: Server

    def setup(self) -> None:
        super().setup()
        self.rfile = io.BufferedReader(_DeadlineSocket(self.connection, RECEIVE_SECONDS))

    def version_string(self) -> str:
        return "dbanon"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing: addresses contain keys."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what http.server cannot parse; the response quotes no part of the request."""
        # For an unknown version http.server would send a body without headers.
        self.request_version = "HTTP/1.0"
        self._send(HttpResponse(int(code), "The request could not be read."))

    def do_GET(self) -> None:
        self._send(self.server.answer(self._build_request()))

    do_HEAD = do_GET  # noqa: N815

    def do_POST(self) -> None:
        n_bytes = self._read_length()
        if isinstance(n_bytes, HttpResponse):
            self._send(n_bytes)
            return
        body = self.rfile.read(n_bytes)
        if len(body) == n_bytes:
            self._send(self.server.answer(self._build_request(body)))

    def _read_length(self) -> int | HttpResponse:
        """Return the length of the body in bytes, or the response that refuses it."""
        lengths = self.headers.get_all("Content-Length", [])
        if self.headers.get_all("Transfer-Encoding") or len(lengths) != 1:
            return HttpResponse(411, "The length is missing.")
        if not (lengths[0].isascii() and lengths[0].isdigit()):
            return HttpResponse(400, "The length is not a number.")
        if len(lengths[0]) > 9 or int(lengths[0]) > MAX_BODY_BYTES:
            return HttpResponse(413, "The request is too long.")
        return int(lengths[0])

    def _build_request(self, body: bytes = b"") -> HttpRequest:
        headers: dict[str, list[str]] = {}
        for name, value in self.headers.items():
            headers.setdefault(name.lower(), []).append(value)
        return HttpRequest(self.command, self.path, headers, body)

    def _send(self, response: HttpResponse) -> None:
        content = response.body.encode("utf-8", "backslashreplace")
        self.connection.settimeout(SEND_SECONDS)
        self.close_connection = True
        self.send_response(response.status)
        headers = HEADERS | {
            "Content-Type": f"{response.content_type}; charset=utf-8",
            "Content-Length": str(len(content)),
            "Connection": "close",
        }
        for name, value in (headers | dict(response.headers)).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            with contextlib.suppress(OSError):
                self.wfile.write(content)
