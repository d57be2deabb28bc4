"""Iceberg catalogs: open while a block uses them, and closed at its end.

A catalog holds connections to a database or a server. The garbage collector would close them at an
arbitrary time, and Python 3.13 warns about each.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from dbanon.errors import InvalidParameter
from dbanon.stores.objects import import_iceberg

_lock = threading.Lock()
_blocks = 0
_catalogs: dict[str, Any] = {}


@contextmanager
def open_catalogs() -> Iterator[None]:
    """Keep the catalogs that a block opens until it ends, with all blocks around or beside it.

    Blocks of different threads share them: a connection attempt runs in a thread of its own.
    """
    global _blocks
    with _lock:
        _blocks += 1
    try:
        yield
    finally:
        with _lock:
            _blocks -= 1
            last = [] if _blocks else list(_catalogs.values())
            if last:
                _catalogs.clear()
        for catalog in last:
            _close(catalog)


def get_catalog(name: str) -> Any:
    """A catalog by the name that pyiceberg's settings have for it; called in a block.

    Raises
    ------
    InvalidParameter : the settings have none of this name.
    """
    assert _blocks, "a catalog is opened in a block that closes it"
    with _lock:
        catalog = _catalogs.get(name)
    if catalog is not None:
        return catalog
    _require_settings(name)
    opened = import_iceberg("catalog").load_catalog(name)
    # The lock is not held while a server is waited for.
    with _lock:
        catalog = _catalogs.setdefault(name, opened)
    if catalog is not opened:
        _close(opened)
    return catalog


def _require_settings(name: str) -> None:
    if not import_iceberg("utils.config").Config().get_catalog_config(name):
        raise InvalidParameter(
            f'There are no settings for an Iceberg catalog "{name}".',
            hint=f"Set the environment variable PYICEBERG_CATALOG__{name.upper()}__URI, or add the"
            " catalog to .pyiceberg.yaml in your home directory.",
        )


def _close(catalog: Any) -> None:
    # Nothing depends on it any more, and its errors may hold credentials.
    with suppress(Exception):
        catalog.close()
