"""HTTP on the loopback: requests that are too long, slow, many or malformed end by themselves."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from dbanon.extensions.workbench import server as module
from dbanon.extensions.workbench.server import (
    HEADERS,
    HOST,
    MAX_BODY_BYTES,
    HttpRequest,
    HttpResponse,
    Server,
)

OK = b"HTTP/1.0 200"


@pytest.fixture
def requests() -> list[HttpRequest]:
    return []


@pytest.fixture
def server(requests: list[HttpRequest], monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(module, "RECEIVE_SECONDS", 0.4)
    monkeypatch.setattr(module, "SEND_SECONDS", 0.4)
    running = Server()

    def answer(request: HttpRequest) -> HttpResponse:
        requests.append(request)
        return HttpResponse(200, "told " * (2_000_000 if request.target == "/long" else 1))

    running.answer = answer
    thread = threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield running
    running.shutdown()
    running.server_close()
    thread.join()


def connect(server: Server) -> socket.socket:
    return socket.create_connection((HOST, server.port), timeout=10)


def response_to(server: Server, request: bytes) -> bytes:
    """The response until the server closes the connection; empty if it closes while receiving."""
    with connect(server) as line:
        line.sendall(request)
        response = b""
        try:
            while part := line.recv(65_536):
                response += part
        except ConnectionResetError:
            pass
        return response


def test_it_listens_on_the_loopback_alone(server: Server) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert server.port > 0


def test_every_response_has_all_headers(server: Server, requests: list[HttpRequest]) -> None:
    for request in (
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\na=",
        b"POST / HTTP/1.1\r\n\r\n",
        b"PUT / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n",
    ):
        head, _, body = response_to(server, request).partition(b"\r\n\r\n")
        for name, value in HEADERS.items():
            assert f"{name}: {value}".encode() in head
        assert b"Python" not in head
        assert (body == b"") == request.startswith(b"HEAD")
    assert [(request.method, request.body) for request in requests] == [
        ("GET", b""),
        ("HEAD", b""),
        ("POST", b"a="),
    ]


@pytest.mark.parametrize(
    ("more", "status"),
    [
        (b"Content-Length: %d\r\n" % (MAX_BODY_BYTES + 1), 413),
        (b"Content-Length: 99999999999999999999\r\n", 413),
        (b"Content-Length: -1\r\n", 400),
        (b"Content-Length: 1e3\r\n", 400),
        (b"Content-Length: 2\r\nContent-Length: 5\r\n", 411),
        (b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", 411),
        (b"Transfer-Encoding: chunked\r\n", 411),
        (b"", 411),
    ],
)
def test_no_body_of_an_unknown_or_large_size(
    server: Server, requests: list[HttpRequest], more: bytes, status: int
) -> None:
    answer = response_to(server, b"POST / HTTP/1.1\r\n" + more + b"\r\n")
    assert answer.startswith(b"HTTP/1.0 %d" % status)
    assert requests == []


@pytest.mark.parametrize(
    "request_", [b"\x00\xff\r\n\r\n", b"\r\n\r\n", b"GET\r\n\r\n", b"A" * 70_000 + b"\r\n\r\n"]
)
def test_malformed_requests(server: Server, requests: list[HttpRequest], request_: bytes) -> None:
    assert OK not in response_to(server, request_)
    assert requests == []
    assert response_to(server, b"GET / HTTP/1.1\r\n\r\n").startswith(OK)


def test_a_request_in_drops_ends_in_time(server: Server, requests: list[HttpRequest]) -> None:
    """Each byte arrives soon after the previous one, but the request as a whole is too slow."""
    for begin in (b"", b"POST / HTTP/1.1\r\nContent-Length: 60000\r\n\r\n"):
        with connect(server) as line:
            line.sendall(begin)
            dropped = partial(line.sendall, b"a")
            until(lambda dropped=dropped: hung_up(dropped), 3)  # type: ignore[misc]
    assert requests == []


def test_a_reader_that_stops_blocks_nothing(server: Server, requests: list[HttpRequest]) -> None:
    with connect(server) as line:
        line.sendall(b"GET /long HTTP/1.1\r\n\r\n")
        time.sleep(0.1)
        assert response_to(server, b"GET / HTTP/1.1\r\n\r\n").startswith(OK)
    assert len(requests) == 2


def test_too_many_connections_are_hung_up_on(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RECEIVE_SECONDS", 3.0)
    lines = [connect(server) for _ in range(module.MAX_CONNECTIONS)]
    try:
        until(lambda: response_to(server, b"GET / HTTP/1.1\r\n\r\n") == b"")
        # Silent connections are closed soon, which makes room again.
        until(lambda: response_to(server, b"GET / HTTP/1.1\r\n\r\n").startswith(OK))
    finally:
        for line in lines:
            line.close()


def hung_up(send: Callable[[], object]) -> bool:
    """Whether the server has closed the connection."""
    try:
        send()
    except (BrokenPipeError, ConnectionResetError):
        return True
    return False


def until(seen: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not seen():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_repeated_headers_are_passed_as_a_list(server: Server, requests: list[HttpRequest]) -> None:
    response_to(server, b"GET / HTTP/1.1\r\nHost: a\r\nHOST: b\r\n\r\n")
    assert requests[0].headers["host"] == ["a", "b"]
