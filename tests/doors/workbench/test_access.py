"""Access control of a workbench: requests of other hosts, pages, programs and tabs are refused."""

from __future__ import annotations

import hmac
import re
from pathlib import Path
from typing import Any

import pytest

from dbanon.extensions.workbench import access as module
from dbanon.extensions.workbench.access import Access
from dbanon.extensions.workbench.server import CONTENT_SECURITY_POLICY, HEADERS, HttpRequest
from tests.doors.workbench.client import PORT, STEPS, Client, idle, key_of

HOST = f"127.0.0.1:{PORT}"


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return idle(tmp_path)


@pytest.mark.parametrize(
    "hosts",
    [
        [],
        ["rebound.example"],
        [f"rebound.example:{PORT}"],
        ["127.0.0.1"],
        ["127.0.0.1:1"],
        [f"{HOST}.example"],
        [f"user@{HOST}"],
        [HOST, HOST],
        [HOST, "rebound.example"],
        [f"0.0.0.0:{PORT}"],
        [f"[::1]:{PORT}"],
        [f"127.0.0.1:{PORT}/"],
        [""],
    ],
)
def test_a_rebound_name_is_not_this_host(client: Client, hosts: list[str]) -> None:
    """Even with all keys, and before anything else is checked."""
    key = client.access.address.partition("4711")[2]
    for target in (key, f"{client.access.path}/columns", "/"):
        answer = client.ask("GET", target, client.headers | {"host": hosts})
        assert (answer.status, "Set-Cookie" in answer.headers) == (421, False)
    assert client.post("look", {}, host=hosts).status == 421


@pytest.mark.parametrize("host", [HOST, f"localhost:{PORT}", f"LOCALHOST:{PORT}"])
def test_its_own_names(client: Client, host: str) -> None:
    assert client.get("columns", host=[host]).status == 200


def test_the_key_becomes_a_cookie_and_leaves_the_address_at_once(client: Client) -> None:
    target = client.access.address.partition(str(PORT))[2]
    bare = {"host": [HOST]}
    answer = client.ask("GET", target, bare)
    assert answer.status == 303
    assert answer.headers["Location"] == f"{client.access.path}/columns"
    assert client.access.key not in answer.headers["Location"] + answer.body
    cookie = answer.headers["Set-Cookie"]
    assert cookie.split("; ")[1:] == [f"Path={client.access.path}", "HttpOnly", "SameSite=Strict"]
    assert client.access.key not in cookie
    sent = bare | {"cookie": [cookie.partition(";")[0]]}
    assert client.ask("GET", answer.headers["Location"], sent).status == 200
    assert HEADERS["Referrer-Policy"] == "no-referrer"
    for page in (client.get(step) for step in STEPS):
        assert client.access.key not in page.body
        assert client.access.cookie not in page.body


@pytest.mark.parametrize("wrong", ["", "x", "é", "\udcff", None])
def test_without_a_key_nothing_is_revealed(client: Client, wrong: str | None) -> None:
    key = client.access.key[:-1] if wrong is None else wrong
    bare = {"host": [HOST]}
    for target, headers in (
        (f"{client.access.path}/?key={key}", bare),
        (f"{client.access.path}/columns?key={client.access.key}", bare),
        (f"{client.access.path}/columns", bare),
        (f"{client.access.path}/workbench.js", bare),
        (f"{client.access.path}/columns", bare | {"cookie": [f"dbanon={key}"]}),
        (f"{client.access.path}/columns", bare | {"cookie": ["\x00;=;dbanon"]}),
    ):
        answer = client.ask("GET", target, headers)
        assert answer.status == 403
        assert "people" not in answer.body
        assert not answer.headers
    # The response reveals nothing about what listens on the port.
    for target in ("/", "/columns", "//", "/..", client.access.path, "*", "http://x/columns"):
        assert client.ask("GET", target, client.headers).status == 404


def test_keys_are_compared_in_constant_time(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(first: bytes, other: bytes) -> bool:
        compared.append((first, other))
        return hmac.compare_digest(first, other)

    class Spied:
        compare_digest = staticmethod(compare)

    monkeypatch.setattr(module, "hmac", Spied)
    client.ask("GET", f"{client.access.path}/?key=k", {"host": [HOST]})
    client.get("columns", cookie=["dbanon=c"])
    client.post("look", {"form": "f"})
    access = client.access
    assert (b"k", access.key.encode()) in compared
    assert (b"c", access.cookie.encode()) in compared
    assert (b"f", access.form_key.encode()) in compared


def test_all_keys_are_long_and_differ() -> None:
    first, other = Access(1), Access(1)
    keys = [k for a in (first, other) for k in (a.path, a.key, a.cookie, a.form_key)]
    assert len(set(keys)) == 8
    # Characters of 6 bits each.
    assert all(len(key) >= 22 for key in keys)
    assert first.key not in repr(first)
    assert key_of(first.address) == first.key


@pytest.mark.parametrize("site", ["cross-site", "same-site", "anything"])
def test_another_page_gets_nothing(client: Client, site: str) -> None:
    """A page on another port of this host counts as the same site, but is refused."""
    for name in ("columns", "report.css", "workbench.js"):
        assert client.get(name, **{"sec-fetch-site": [site]}).status == 403
    assert client.post("look", {}, **{"sec-fetch-site": [site]}).status == 403
    assert client.routes.bench.tasks.current is None


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": ["http://127.0.0.1:1"]},
        {"origin": ["https://elsewhere.example"]},
        {"origin": [f"https://{HOST}"]},
        {"origin": ["null", "null"]},
        {"content-type": ["text/plain"]},
        {"content-type": ["application/json"]},
        {"content-type": ["multipart/form-data; boundary=x"]},
        {"cookie": []},
    ],
)
def test_another_page_sends_no_form(client: Client, headers: dict[str, Any]) -> None:
    assert client.post("look", {}, **headers).status in (403, 415)
    assert client.routes.bench.tasks.current is None


def test_forms_need_their_key_and_pages_change_nothing(client: Client) -> None:
    for form in ("", "wrong", client.access.cookie, client.access.key):
        assert client.post("look", {"form": form}).status == 403
    for name in ("look", "cancel", "sweep", "run", "choose"):
        assert client.get(name).status in (404, 303, 200)
    assert client.routes.bench.tasks.current is None
    # Headers of browsers without Sec-Fetch-Site for a form of a page without a referrer.
    del client.headers["sec-fetch-site"]
    assert client.post("look", {}).status == 403
    assert client.post("unknown", {}, origin=[f"http://{HOST}"]).status == 404
    assert client.post("unknown", {}, origin=[]).status == 404


def test_a_form_of_another_tab_changes_nothing(client: Client) -> None:
    old = client.keys()
    client.routes.bench.record_decision("columns", "another page")
    answer = client.post("look", old)
    assert answer.status == 409
    assert "another tab" in answer.body
    assert client.routes.bench.tasks.current is None


@pytest.mark.parametrize("body", [b"\xff", b"a", b"a=%ff", b"&".join([b"a=1"] * 6_000)])
def test_a_broken_form_is_refused(client: Client, body: bytes) -> None:
    headers = client.headers | {"content-type": ["application/x-www-form-urlencoded"]}
    answer = client.ask("POST", f"{client.access.path}/look", headers, body)
    assert answer.status in (400, 403)
    assert client.routes.bench.tasks.current is None


@pytest.mark.parametrize(
    "name", ["../state.py", "..%2fstate.py", "workbench.html.j2", "report.css/..", "report", "a/b"]
)
def test_other_files_are_not_reported(client: Client, name: str) -> None:
    assert client.get(name).status == 404


def test_long_and_odd_addresses(client: Client) -> None:
    for more in ("?a=" + "x" * 60_000, "?" + "&".join(["a=1"] * 100), "?%ff=%ff", "?a=\udcff"):
        assert client.get(f"compare{more}").status in (200, 303, 400)


def test_the_policy_has_no_hole() -> None:
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    directives = dict(part.strip().split(" ", 1) for part in CONTENT_SECURITY_POLICY.split(";"))
    assert directives["default-src"] == "'none'"
    assert directives["frame-ancestors"] == directives["base-uri"] == "'none'"
    assert set(directives.values()) <= {"'none'", "'self'"}
    assert HEADERS["X-Frame-Options"] == "DENY"


def test_pages_have_no_script_but_their_own(client: Client) -> None:
    page = client.get("columns").body
    assert re.findall(r"<script[^>]*>", page) == ['<script src="workbench.js" defer>']
    assert not re.search(r"\son\w+=|style=|javascript:|https?:", page)


def test_an_internal_error_reports_only_its_location(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: Any) -> None:
        raise ValueError("zyxomma")

    monkeypatch.setattr(client.routes.__class__, "_handle_get", broken)
    answer = client.routes.answer(
        HttpRequest("GET", f"{client.access.path}/columns", client.headers)
    )
    assert answer.status == 500
    assert "zyxomma" not in answer.body
    assert "ValueError at test_access.py:" in answer.body
