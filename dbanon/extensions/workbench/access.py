"""Access control: only a browser on this machine that has the key may use the workbench.

Other pages, programs and accounts can reach loopback ports, too. So a request must name
this host and port (against DNS rebinding), come from one of the workbench's own pages
(``Sec-Fetch-Site``, ``Origin``) and carry the cookie. A request that changes something also needs
a key that only those pages have.

Browsers send a cookie of 127.0.0.1 to all of its ports. The cookie of the workbench is limited to a
path that cannot be guessed, so that no other server receives it.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie

COOKIE_NAME = "dbanon"
# Names of parameters: the key in the printed address, and the key of each form.
KEY_PARAMETER, FORM_KEY_PARAMETER = "key", "form"


@dataclass(frozen=True)
class Refusal:
    """The refusal of a request.

    Parameters
    ----------
    status : the HTTP status.
    reason : the text of the response, without any part of the request.
    """

    status: int
    reason: str


def _create_secret() -> str:
    return secrets.token_urlsafe(32)


@dataclass(frozen=True)
class Access:
    """The secrets of one workbench, and the checks of requests to it.

    Parameters
    ----------
    port : the port that the workbench listens on.
    path : the prefix of all pages; it cannot be guessed.
    key : the key in the printed address; a browser that sends it gets the cookie.
    cookie : the value of the cookie.
    form_key : the key that each form contains.
    """

    port: int
    path: str = field(default_factory=lambda: f"/{secrets.token_urlsafe(16)}")
    key: str = field(default_factory=_create_secret, repr=False)
    cookie: str = field(default_factory=_create_secret, repr=False)
    form_key: str = field(default_factory=_create_secret, repr=False)

    @property
    def hosts(self) -> tuple[str, str]:
        """The values of the ``Host`` header that a browser may send."""
        return f"127.0.0.1:{self.port}", f"localhost:{self.port}"

    @property
    def address(self) -> str:
        """The address that the command prints."""
        return f"http://{self.hosts[0]}{self.path}/?{KEY_PARAMETER}={self.key}"

    @property
    def set_cookie_header(self) -> str:
        """The value of the ``Set-Cookie`` header."""
        return f"{COOKIE_NAME}={self.cookie}; Path={self.path}; HttpOnly; SameSite=Strict"

    def is_address_key(self, key: str) -> bool:
        """Whether this is the key in the printed address."""
        return _are_equal(key, self.key)

    def find_refusal(self, headers: Mapping[str, Sequence[str]], path: str) -> Refusal | None:
        """Return why to refuse a request before its cookie is checked; None to accept it so far.

        Parameters
        ----------
        headers : from lower-case name to all values.
        path : the path without its query.
        """
        hosts = headers.get("host", ())
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            return Refusal(421, "Another host was requested.")
        if any(site not in ("same-origin", "none") for site in headers.get("sec-fetch-site", ())):
            return Refusal(403, "This page was requested by another page.")
        if not path.startswith(f"{self.path}/"):
            return Refusal(404, "There is no such page.")
        return None

    def has_cookie(self, headers: Mapping[str, Sequence[str]]) -> bool:
        """Whether the request contains the right cookie."""
        cookies: SimpleCookie = SimpleCookie()
        try:
            cookies.load("; ".join(headers.get("cookie", ())))
        except CookieError:
            return False
        return COOKIE_NAME in cookies and _are_equal(cookies[COOKIE_NAME].value, self.cookie)

    def find_form_refusal(
        self, headers: Mapping[str, Sequence[str]], sent_key: str
    ) -> Refusal | None:
        """Return why to refuse a form from a browser that has the cookie; None to accept it.

        Parameters
        ----------
        headers : from lower-case name to all values.
        sent_key : the key that the form contains.
        """
        origins = headers.get("origin", ())
        allowed_origins = {f"http://{host}" for host in headers.get("host", ())}
        if "sec-fetch-site" in headers:
            # Pages without a referrer send their forms with the origin "null".
            allowed_origins.add("null")
        if len(origins) > 1 or any(origin not in allowed_origins for origin in origins):
            return Refusal(403, "This form was sent by another page.")
        if not _are_equal(sent_key, self.form_key):
            return Refusal(403, "This form belongs to another workbench, or to an earlier one.")
        return None


def _are_equal(key: str, expected: str) -> bool:
    """Compare two keys in a time that does not depend on where they differ."""
    return hmac.compare_digest(key.encode("utf-8", "surrogatepass"), expected.encode())
