"""A client of the workbench without a browser: cookie, form keys, and the text of pages."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from dbanon.doors.cli.run import write_job_report
from dbanon.extensions.workbench.access import Access
from dbanon.extensions.workbench.routes import Routes
from dbanon.extensions.workbench.server import HttpRequest, HttpResponse
from dbanon.extensions.workbench.state import Workbench, WorkbenchArguments

PORT = 4711
STEPS = ("columns", "trees", "sweep", "compare", "job", "run")


class Client:
    """Requests pages of a workbench, and submits its forms.

    ``answers`` holds all responses.
    """

    def __init__(self, routes: Routes) -> None:
        self.routes, self.access = routes, routes.access
        self.answers: list[HttpResponse] = []
        self.headers: dict[str, list[str]] = {
            "host": [f"127.0.0.1:{self.access.port}"],
            "cookie": [f"dbanon={self.access.cookie}"],
            "sec-fetch-site": ["same-origin"],
        }

    def ask(
        self, method: str, target: str, headers: Mapping[str, list[str]], body: bytes = b""
    ) -> HttpResponse:
        answer = self.routes.answer(HttpRequest(method, target, headers, body))
        self.answers.append(answer)
        return answer

    def get(self, name: str, **more: list[str]) -> HttpResponse:
        return self.ask("GET", f"{self.access.path}/{name}", self.headers | more)

    def page(self, name: str) -> str:
        """A page, once all tasks have ended."""
        self.wait()
        answer = self.get(name)
        # A page that starts a task is loaded again when the task ends.
        while "data-live" in answer.body:
            self.wait()
            answer = self.get(name)
        assert answer.status == 200, (name, answer)
        return answer.body

    def wait(self, seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while self.routes.bench.tasks.is_busy:
            assert time.monotonic() < end
            time.sleep(0.02)

    def keys(self) -> dict[str, str]:
        revision = str(self.routes.bench.revision)
        return {"form": self.access.form_key, "revision": revision, "page": "tests"}

    def post(self, name: str, fields: Mapping[str, Any], **more: list[str]) -> HttpResponse:
        headers = self.headers | {
            "content-type": ["application/x-www-form-urlencoded"],
            "origin": ["null"],
        }
        body = urlencode({**self.keys(), **fields}, doseq=True).encode()
        return self.ask("POST", f"{self.access.path}/{name}", headers | more, body)

    def sent(self, name: str, fields: Mapping[str, Any]) -> str:
        """Submit a form that must be accepted; return the next page, once all tasks have ended."""
        answer = self.post(name, fields)
        assert answer.status == 303, text_of(answer.body)
        return self.page(answer.headers["Location"].rpartition("/")[2])

    def done(self, name: str, fields: Mapping[str, Any]) -> str:
        """Like ``sent``, for a form whose task must succeed."""
        page = self.sent(name, fields)
        task = self.routes.bench.tasks.current
        assert task is not None
        assert (task.state, task.error) == ("done", None), text_of(page)
        return page

    def form(self, page: str, action: str) -> dict[str, str]:
        """The fields of a form as a browser would send them unchanged."""
        text = re.search(rf'<form method="post" action="{action}".*?</form>', page, re.S)
        assert text is not None, action
        fields: dict[str, str] = {}
        for tag in re.findall(r"<input [^>]*>", text[0]):
            attributes = {k: unescape(v) for k, v in re.findall(r'([\w-]+)="([^"]*)"', tag)}
            if attributes.get("type") not in ("checkbox", "radio") or " checked" in tag:
                fields[attributes["name"]] = attributes.get("value", "")
        for name, options in re.findall(
            r'<select [^>]*name="([^"]*)"[^>]*>(.*?)</select>', text[0], re.S
        ):
            chosen = re.search(r'<option value="([^"]*)" selected', options)
            fields[name] = unescape(chosen[1]) if chosen else ""
        # Every form includes the current keys.
        return {name: value for name, value in fields.items() if name not in self.keys()}


def text_of(page: str) -> str:
    """The text of a page, without tags."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", page)))


@contextmanager
def workbench(url: str, table: str, directory: Path, **more: Any) -> Iterator[Client]:
    """A workbench whose tasks run in the test's thread."""
    bench = Workbench(WorkbenchArguments(url, table, write_job_report, directory=directory, **more))
    routes = Routes(bench, Access(PORT))
    threading.Thread(target=bench.tasks.run, daemon=True).start()
    client = Client(routes)
    routes.begin_profiling()
    client.wait()
    yield client
    client.wait()


def idle(directory: Path) -> Client:
    """A workbench without a database, to test who has access."""
    bench = Workbench(WorkbenchArguments("sqlite:///none.db", "people", _none, directory=directory))
    return Client(Routes(bench, Access(PORT)))


def key_of(address: str) -> str:
    return parse_qs(urlsplit(address).query)["key"][0]


_none: Callable[..., Any] = lambda *arguments: None  # noqa: E731
