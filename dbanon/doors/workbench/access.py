"""Who may ask: one browser of this machine that was given the key, from the workbench's own pages.

Other pages, other programs and other accounts can reach a port of the loopback, too. So a request
must name this host and port (DNS rebinding), come from a page of its own (``Sec-Fetch-Site``,
``Origin``), bring the cookie, and with what changes something a key that only those pages hold.

A cookie of 127.0.0.1 goes to every port of it. That of the workbench has a path that nobody can
guess, so that a browser sends it nowhere else.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie

COOKIE = "dbanon"
# Names of what is sent: the key in the address that is printed, that of each form.
KEY, FORM_KEY = "key", "form"


@dataclass(frozen=True)
class Refusal:
    """A request that is not answered.

    Parameters
    ----------
    status : of HTTP.
    why : in words, without anything of the request.
    """

    status: int
    why: str


def _secret() -> str:
    return secrets.token_urlsafe(32)


@dataclass(frozen=True)
class Access:
    """The keys of one workbench.

    Parameters
    ----------
    port : that it listens on.
    path : that all its pages lie below; it is no key, and nobody can guess it.
    key : in the address that is printed; whoever brings it gets the cookie.
    cookie : of the browser.
    form : of its forms.
    """

    port: int
    path: str = field(default_factory=lambda: f"/{secrets.token_urlsafe(16)}")
    key: str = field(default_factory=_secret, repr=False)
    cookie: str = field(default_factory=_secret, repr=False)
    form: str = field(default_factory=_secret, repr=False)

    @property
    def hosts(self) -> tuple[str, str]:
        """What a browser may call this host."""
        return f"127.0.0.1:{self.port}", f"localhost:{self.port}"

    @property
    def address(self) -> str:
        """What a person opens."""
        return f"http://{self.hosts[0]}{self.path}/?{KEY}={self.key}"

    @property
    def set_cookie(self) -> str:
        """The header that gives a browser its cookie."""
        return f"{COOKIE}={self.cookie}; Path={self.path}; HttpOnly; SameSite=Strict"

    def opens(self, key: str) -> bool:
        """Whether this is the key of the address."""
        return _same(key, self.key)

    def refused(self, headers: Mapping[str, Sequence[str]], path: str) -> Refusal | None:
        """Why a request is not looked at any further, whoever sends it.

        Parameters
        ----------
        headers : by lower-case name, all values of each.
        path : without its query.
        """
        hosts = headers.get("host", ())
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            return Refusal(421, "Another host was asked for.")
        if any(site not in ("same-origin", "none") for site in headers.get("sec-fetch-site", ())):
            return Refusal(403, "Another page asked for this one.")
        if not path.startswith(f"{self.path}/"):
            return Refusal(404, "There is no such page.")
        return None

    def knows(self, headers: Mapping[str, Sequence[str]]) -> bool:
        """Whether the request brings the cookie."""
        sent: SimpleCookie = SimpleCookie()
        try:
            sent.load("; ".join(headers.get("cookie", ())))
        except CookieError:
            return False
        return COOKIE in sent and _same(sent[COOKIE].value, self.cookie)

    def refused_form(self, headers: Mapping[str, Sequence[str]], form_key: str) -> Refusal | None:
        """Why a form is not taken, of a browser that has the cookie."""
        origins = headers.get("origin", ())
        own = {f"http://{host}" for host in headers.get("host", ())}
        if "sec-fetch-site" in headers:
            # Pages without a referrer send their forms with the origin "null".
            own.add("null")
        if len(origins) > 1 or any(origin not in own for origin in origins):
            return Refusal(403, "Another page sent this form.")
        if not _same(form_key, self.form):
            return Refusal(403, "This form is not of this workbench, or of an earlier one.")
        return None


def _same(one: str, other: str) -> bool:
    """Whether two keys are the same, in a time that does not tell where they differ."""
    return hmac.compare_digest(one.encode("utf-8", "surrogatepass"), other.encode())
