"""Notifications about how a job ended: a command without a shell, an https webhook;
failures warn.
"""

from __future__ import annotations

import http.server
import json
import shutil
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dbanon.doors.jobfile import outcome as outcomes
from dbanon.doors.jobfile.outcome import Notice, Outcome, notify
from dbanon.errors import NotTold, TooFewRecords
from tests.prerequisites import skip_or_fail

RELEASE = "7d2b1a3e-0f61-4a5f-9b6c-7d3c2f1a9e11"
SKIPPED = Outcome.skipped("people", RELEASE)
FAILED = Outcome.failed("people", TooFewRecords("There are 3 rows."))
WRITE = "import json, sys; json.dump(sys.argv[2:], open(sys.argv[1], 'w'))"


def test_an_outcome_reveals_only_its_fields() -> None:
    assert (FAILED.event, SKIPPED.event) == ("failure", "skipped")
    assert FAILED.fields == {
        "job": "people",
        "code": "too_few_records",
        "exit": "3",
        "release": "",
    }
    assert SKIPPED.fields == {"job": "people", "code": "", "exit": "99", "release": RELEASE}
    odd = Outcome.failed("people", RuntimeError("quotes a value"))
    assert (odd.event, odd.exit_code, odd.code) == ("failure", 1, "unexpected")


def test_a_command_gets_its_arguments_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "it's $(touch no); told.json"
    words = ["{job}", "x{code}y", "{exit}", "{release}", "$HOME; `id` | cat > {job}", "a b"]
    command = (sys.executable, "-c", WRITE, str(file), *words)
    notify((Notice(("failure",), command),), FAILED)
    assert json.loads(file.read_text()) == [
        "people",
        "xtoo_few_recordsy",
        "3",
        "",
        "$HOME; `id` | cat > people",
        "a b",
    ]
    # Other events send no notification.
    file.unlink()
    notify((Notice(("success", "skipped"), command),), FAILED)
    assert not file.exists()


def test_a_commands_output_is_not_ours(capfd: pytest.CaptureFixture[str]) -> None:
    chatty = (sys.executable, "-c", "import sys; print('out'); print('err', file=sys.stderr)")
    notify((Notice(("failure",), chatty),), FAILED)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "command", [("/no/such/program",), (sys.executable, "-c", "raise SystemExit(3)")]
)
def test_a_command_that_fails_is_a_warning(command: tuple[str, ...]) -> None:
    with pytest.warns(NotTold, match="command of job people"):
        notify((Notice(("failure",), command),), FAILED)


@pytest.mark.slow
def test_a_command_has_a_time_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert outcomes._TIMEOUT_SECONDS == 10
    monkeypatch.setattr(outcomes, "_TIMEOUT_SECONDS", 0.5)
    late = tmp_path / "late"
    # A grandchild process, which survives if only the command is killed.
    slow = ("/bin/sh", "-c", f"(sleep 2; touch {late}) & wait")
    with pytest.warns(NotTold, match="TimeoutExpired"):
        notify((Notice(("failure",), slow),), FAILED)
    assert not late.exists(), "nobody waits for the child"
    time.sleep(2.5)
    assert not late.exists()


@contextmanager
def https(
    folder: Path, monkeypatch: pytest.MonkeyPatch, answer: int = 200
) -> Iterator[tuple[str, list[Any]]]:
    """A local server with a certificate that this process trusts, and the requests it received."""
    requests: list[Any] = []

    class Hook(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            requests.append((self.path, self.headers["Content-Type"], json.loads(body)))
            self.send_response(answer)
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def do_GET(self) -> None:
            requests.append(("GET", self.path))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Silence the log."""

    openssl = shutil.which("openssl")
    if openssl is None:
        skip_or_fail("no openssl to make a certificate with")
    key, certificate = folder / "key.pem", folder / "cert.pem"
    subprocess.run(
        [
            openssl,
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-keyout",
            str(key),
            "-out",
            str(certificate),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = http.server.HTTPServer(("127.0.0.1", 0), Hook)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_port}/hook?token=hush-hush-7311", requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_webhook_is_sent_the_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with https(tmp_path, monkeypatch) as (url, requests):
        notify((Notice(("failure",), webhook=url),), FAILED)
    assert requests == [("/hook?token=hush-hush-7311", "application/json", FAILED.fields)]


@pytest.mark.slow
@pytest.mark.parametrize("answer", [302, 307, 404, 500])
def test_a_webhook_that_fails_is_a_warning_without_its_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: int
) -> None:
    with (
        https(tmp_path, monkeypatch, answer) as (url, requests),
        pytest.warns(NotTold) as warned,
    ):
        notify((Notice(("failure",), webhook=url),), FAILED)
    assert len(requests) == 1, "a redirect is not followed"
    assert "hush-hush" not in str(warned[0].message)


@pytest.mark.parametrize("url", ["http://localhost/hush-hush", "file:///etc/passwd", "https://"])
def test_no_other_url_is_opened(url: str) -> None:
    with pytest.warns(NotTold) as warned:
        notify((Notice(("failure",), webhook=url),), FAILED)
    assert "hush-hush" not in str(warned[0].message)


def test_an_untrusted_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with https(tmp_path, monkeypatch) as (url, requests):
        monkeypatch.delenv("SSL_CERT_FILE")
        with pytest.warns(NotTold, match="webhook"):
            notify((Notice(("failure",), webhook=url),), FAILED)
    assert requests == []
