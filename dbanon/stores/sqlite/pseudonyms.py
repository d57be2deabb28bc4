"""What SQLite does for chains: it has no SHA-256, and not always a logarithm."""

from __future__ import annotations

import hashlib
import math
import sqlite3

from dbanon.sessions.base import OnSql
from dbanon.stores.file_session import FileSession

# The function that tags persons, for as long as a key is staged.
_TAG = "dbanon_keyed_tag"
_LOGARITHM = "dbanon_ln"


class SqliteKeyed(FileSession):
    """The part of a session that chains ask for."""

    def __init__(self, driver: sqlite3.Connection, on_sql: OnSql | None = None) -> None:
        super().__init__(on_sql)
        self._driver = driver
        self._tags = False

    def stage_key(self, inner: bytes, outer: bytes) -> None:
        def tag(text: str | None) -> bytes | None:
            if text is None:
                return None
            inside = hashlib.sha256(inner + text.encode()).digest()
            return hashlib.sha256(outer + inside).digest()[:16]

        self._driver.create_function(_TAG, 1, tag, deterministic=True)
        self._tags = True

    def drop_staging(self) -> None:
        super().drop_staging()
        if self._tags:
            # A connection that the caller keeps would keep the key.
            self._driver.create_function(_TAG, 1, None)

    def stage_other_key(self, inner: bytes, outer: bytes) -> None:
        self.stage_key(inner, outer)

    def logarithm(self, number: str) -> str:
        # Not every SQLite is built with one.
        self._driver.create_function(_LOGARITHM, 1, math.log, deterministic=True)
        return f"{_LOGARITHM}({number})"

    def keyed_tag(self, text: str) -> str:
        return f"{_TAG}({text})"

    def shuffled(self, alias: str) -> str:
        return "randomblob(16)"
