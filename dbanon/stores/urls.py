"""URLs of databases, as people write them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dbanon.errors import InvalidParameter

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

_OTHER_NAMES = {"postgres": "postgresql"}
_FILES = ("duckdb", "sqlite")


def read_url(given: object) -> URL:
    """The URL: ``postgres://`` is PostgreSQL, too, and ``~`` in a file's name the home directory.

    Raises
    ------
    InvalidParameter : it is none.
    """
    from sqlalchemy import URL, make_url
    from sqlalchemy.exc import ArgumentError

    try:
        if not isinstance(given, (URL, str)):
            raise ArgumentError
        url = make_url(given)
    except (ArgumentError, ValueError):
        raise InvalidParameter(
            "The database URL cannot be read.",
            hint="Write postgresql://user@host/name, duckdb:///file.duckdb or sqlite:///file.db.",
        ) from None
    name, plus, driver = url.drivername.partition("+")
    url = url.set(drivername=f"{_OTHER_NAMES.get(name, name)}{plus}{driver}")
    if name in _FILES and url.database:
        url = url.set(database=os.path.expanduser(url.database))
    return url
