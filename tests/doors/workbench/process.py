"""A workbench as users start it: a process, and HTTP on the loopback."""

from __future__ import annotations

import http.client
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit


class Process:
    """The process, its address, and an HTTP client."""

    def __init__(self, started: subprocess.Popen[str]) -> None:
        self.started = started
        assert started.stdout is not None
        self.address = started.stdout.readline().strip()
        parts = urlsplit(self.address)
        self.host, self.path = parts.netloc, parts.path.rstrip("/")
        self.cookie = ""
        if parts.netloc:
            sent = self.ask("GET", f"{parts.path}?{parts.query}")
            self.cookie = str(sent.getheader("Set-Cookie")).partition(";")[0]

    def ask(self, method: str, target: str, body: str = "") -> http.client.HTTPResponse:
        line = http.client.HTTPConnection(self.host, timeout=30)
        headers = {"Cookie": self.cookie, "Content-Type": "application/x-www-form-urlencoded"}
        line.request(method, target, body, headers)
        return line.getresponse()

    def page(self, name: str) -> str:
        return self.ask("GET", f"{self.path}/{name}").read().decode()

    def settled_page(self, name: str, seconds: float = 60.0) -> str:
        """The page once no task runs; for the columns page, once they were inspected."""
        end = time.monotonic() + seconds
        while 'action="cancel"' in (page := self.page(name)) or (
            # The first inspection starts just after the first page is available.
            name == "columns" and not re.search('action="columns"|role="alert"', page)
        ):
            assert time.monotonic() < end
            time.sleep(0.1)
        return page

    def post(self, name: str, fields: Mapping[str, Any], page: str = "columns") -> int:
        content = self.page(page)
        keys = {
            key: unescape(re.findall(rf'name="{key}" value="([^"]*)"', content)[0])
            for key in ("form", "revision", "page")
        }
        return self.ask("POST", f"{self.path}/{name}", urlencode({**keys, **fields})).status

    def wait_for_end(self) -> tuple[int, str]:
        """The exit code and output on stderr."""
        _, output = self.started.communicate(timeout=30)
        return self.started.returncode, output


@contextmanager
def process(directory: Path, *words: str, **environment: str) -> Iterator[Process]:
    """A separate workbench that is removed afterwards."""
    code = "from dbanon.doors.cli.start import start; start()"
    started = subprocess.Popen(
        [sys.executable, "-c", code, "workbench", *words],
        cwd=directory,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Process(started)
    finally:
        if started.poll() is None:
            started.kill()
        started.communicate()
