"""Access control: one browser of this machine that has the key, from the workbench's own pages.

Other pages, programs and accounts can reach a port of the loopback, too. So a request must name
this host and port (DNS rebinding), come from one of its own pages (``Sec-Fetch-Site``, ``Origin``)
and carry the cookie. A request that changes something also needs a key that only those pages have.

Browsers send a cookie of 127.0.0.1 to all of its ports. The cookie of the workbench is limited to a
path that cannot be guessed, so that no other server receives it.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie

COOKIE = "dbanon"
# Names of parameters: the key in the printed address, and the key of each form.
KEY, FORM_KEY = "key", "form"


@dataclass(frozen=True)
class RefusedRequest:
    """A refused request.

    Parameters
    ----------
    status : of HTTP.
    why : the reason, without any part of the request.
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
    port : the port that it listens on.
    path : the prefix of all pages; it cannot be guessed.
    key : in the printed address; a browser that sends it gets the cookie.
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
        """The names that a browser may use for this host."""
        return f"127.0.0.1:{self.port}", f"localhost:{self.port}"

    @property
    def address(self) -> str:
        """The address to open."""
        return f"http://{self.hosts[0]}{self.path}/?{KEY}={self.key}"

    @property
    def set_cookie(self) -> str:
        """The header that gives a browser its cookie."""
        return f"{COOKIE}={self.cookie}; Path={self.path}; HttpOnly; SameSite=Strict"

    def opens(self, key: str) -> bool:
        """Whether this is the key of the address."""
        return _same(key, self.key)

    def refused(self, headers: Mapping[str, Sequence[str]], path: str) -> RefusedRequest | None:
        """The reason to refuse a request, whoever sends it; None if there is none.

        Parameters
        ----------
        headers : by lower-case name, all values of each.
        path : without its query.
        """
        hosts = headers.get("host", ())
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            return RefusedRequest(421, "Another host was requested.")
        if any(site not in ("same-origin", "none") for site in headers.get("sec-fetch-site", ())):
            return RefusedRequest(403, "This page was requested by another page.")
        if not path.startswith(f"{self.path}/"):
            return RefusedRequest(404, "There is no such page.")
        return None

    def has_cookie(self, headers: Mapping[str, Sequence[str]]) -> bool:
        """Whether the request brings the cookie."""
        sent: SimpleCookie = SimpleCookie()
        try:
            sent.load("; ".join(headers.get("cookie", ())))
        except CookieError:
            return False
        return COOKIE in sent and _same(sent[COOKIE].value, self.cookie)

    def refused_form(
        self, headers: Mapping[str, Sequence[str]], form_key: str
    ) -> RefusedRequest | None:
        """The reason to refuse a form of a browser that has the cookie; None if there is none."""
        origins = headers.get("origin", ())
        allowed = {f"http://{host}" for host in headers.get("host", ())}
        if "sec-fetch-site" in headers:
            # Pages without a referrer send their forms with the origin "null".
            allowed.add("null")
        if len(origins) > 1 or any(origin not in allowed for origin in origins):
            return RefusedRequest(403, "This form was sent by another page.")
        if not _same(form_key, self.form):
            return RefusedRequest(
                403, "This form belongs to another workbench, or to an earlier one."
            )
        return None


def _same(key: str, expected: str) -> bool:
    """Compare two keys in a time that does not depend on where they differ."""
    return hmac.compare_digest(key.encode("utf-8", "surrogatepass"), expected.encode())
