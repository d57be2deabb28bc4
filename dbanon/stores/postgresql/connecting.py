"""How connections to PostgreSQL are made, and ended where their network does not answer.

Nothing here lasts longer than a transaction on the server: behind a pooler that gives each
transaction another connection, what a session leaves would be found by somebody else's.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from dbanon.sessions.ending import ending
from dbanon.stores.postgresql.settings import CALLER_PATH, PINNED

if TYPE_CHECKING:
    from sqlalchemy import URL


# Of the client's socket, as libpq knows them, and of the server's. A peer that is gone is noticed
# after a minute. The server waits longer: a client that is busy with rows does not read more.
_CLIENT = {
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
_SERVER = {
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "120000",
}
# What the driver says of a connection that is given up may hold text of the server. Who has loggers
# of their own gets it; it is not printed where nobody asked.
logging.getLogger("psycopg").addHandler(logging.NullHandler())
# Seconds that a request to cancel a statement may take.
_CANCEL = 1.0

_FOUND = f"""
{PINNED};
SELECT pg_backend_pid(), (SELECT backend_start::text FROM pg_stat_get_activity(pg_backend_pid())),
    ARRAY(SELECT name FROM pg_settings WHERE source = 'default' AND name IN ({
    ", ".join(f"'{name}'" for name in _SERVER)
}))"""
_END = (
    "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_get_activity(%s)"
    " WHERE backend_start::text = %s"
)


class Backend(NamedTuple):
    """What a new connection leads to.

    Parameters
    ----------
    path : the search path that it was opened with.
    pid, since : the server's process and when it began; None behind a pooler.
    unset : settings of the server's socket that nobody made.
    """

    path: list[str]
    pid: int | None
    since: str | None
    unset: Sequence[str]

    def settings(self) -> str:
        """SQL that makes those settings for a transaction; nothing reads a table for it."""
        return "; ".join(f"SET LOCAL {name} = {_SERVER[name]}" for name in self.unset)


def arguments_of(url: URL) -> Mapping[str, Any]:
    """What is said to the driver beside a URL: nothing that the URL, or its service, says."""
    # At the connect, over what environment, role and database say: the very first answers are
    # read as text. Statements without names: behind a pooler another connection has them.
    said: dict[str, Any] = {"client_encoding": "UTF8", "prepare_threshold": None}
    if "service" not in url.query:
        said |= {name: value for name, value in _CLIENT.items() if name not in url.query}
    return said


def backend_of(driver: Any) -> Backend:
    """What a connection leads to; its transaction stays open, with a search path of its own."""
    with driver.cursor() as cursor:
        [(path,)] = cursor.execute(CALLER_PATH).fetchall()
        cursor.execute(_FOUND)
        cursor.nextset()
        [(pid, since, unset)] = cursor.fetchall()
    # A pooler tells clients a number that it made up.
    if pid != driver.info.backend_pid:
        pid = since = None
    return Backend(path, pid, since, unset)


def watch(driver: Any) -> None:
    """Let a connection be cut when its run is told to end, and be cancelled in bounded time."""
    ending().note(driver)
    if "cancel_safe" not in vars(driver) and hasattr(driver, "cancel_safe"):
        driver.cancel_safe = _bounded(driver.cancel_safe)


def unwatch(driver: Any) -> bool:
    """Whether it had to be cut; before a connection is closed, or handed back to its owner."""
    vars(driver).pop("cancel_safe", None)
    return ending().forget(driver)


def _bounded(cancel: Callable[..., None]) -> Callable[..., None]:
    """What cancels, and gives up in time: it has a connection of its own, which may stall, too."""

    def try_to(timeout: float) -> None:
        with contextlib.suppress(Exception):
            cancel(timeout=timeout)

    def cancel_safe(*, timeout: float = _CANCEL) -> None:
        # The driver cancels what a signal interrupts while it waits.
        if isinstance(sys.exc_info()[1], (KeyboardInterrupt, SystemExit)):
            ending().tell()
        at_most = min(timeout, _CANCEL)
        thread = threading.Thread(target=try_to, args=(at_most,), daemon=True)
        thread.start()
        thread.join(at_most)

    return cancel_safe


def end(driver: Any, backend: Backend) -> None:
    """End another session of the same role, which would hold its locks until it notices."""
    with driver.cursor() as cursor:
        cursor.execute(PINNED)
        cursor.execute(_END, (backend.pid, backend.since))
