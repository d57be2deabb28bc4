"""Iceberg catalogs, which stay open while a block uses them.

A catalog has connections to a database or a server. The garbage collector would close them at an
arbitrary time, and Python 3.13 warns about each of them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from dbanon.errors import InvalidParameter
from dbanon.stores.objects import import_iceberg

_lock = threading.Lock()
_n_open_blocks = 0
_catalogs: dict[str, Any] = {}


@contextmanager
def open_catalogs() -> Iterator[None]:
    """Keep catalogs open until the last of all overlapping blocks ends, and close them then.

    Threads share the catalogs, because an attempt to connect runs in a separate thread.
    """
    global _n_open_blocks
    with _lock:
        _n_open_blocks += 1
    try:
        yield
    finally:
        with _lock:
            _n_open_blocks -= 1
            catalogs_to_close = [] if _n_open_blocks else list(_catalogs.values())
            if catalogs_to_close:
                _catalogs.clear()
        for catalog in catalogs_to_close:
            _close(catalog)


def get_catalog(name: str) -> Any:
    """Return the open catalog of this name; call this only in a block of ``open_catalogs``.

    Parameters
    ----------
    name : the name of the catalog in the settings of pyiceberg.

    Raises
    ------
    InvalidParameter : the settings have no catalog of this name.
    """
    assert _n_open_blocks, "get_catalog must be called in a block of open_catalogs"
    with _lock:
        catalog = _catalogs.get(name)
    if catalog is not None:
        return catalog
    _require_settings(name)
    new_catalog = import_iceberg("catalog").load_catalog(name)
    # Another thread may have opened it, as the lock is not held while waiting for a server.
    with _lock:
        catalog = _catalogs.setdefault(name, new_catalog)
    if catalog is not new_catalog:
        _close(new_catalog)
    return catalog


def _require_settings(name: str) -> None:
    """Check that pyiceberg has settings for a catalog; raises InvalidParameter."""
    if not import_iceberg("utils.config").Config().get_catalog_config(name):
        raise InvalidParameter(
            f'There are no settings for an Iceberg catalog "{name}".',
            hint=f"Set the environment variable PYICEBERG_CATALOG__{name.upper()}__URI, or add the"
            " catalog to .pyiceberg.yaml in your home directory.",
        )


def _close(catalog: Any) -> None:
    # Ignore errors: nothing depends on the catalog any more, and their texts may contain
    # credentials.
    with suppress(Exception):
        catalog.close()
