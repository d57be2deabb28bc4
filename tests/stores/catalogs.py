"""Catalogs of Iceberg that tests open, closed when the test is over."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

_opened: list[Any] = []


def load_catalog(name: str) -> Any:
    """Open the named catalog; ``close_catalogs`` closes it."""
    from pyiceberg import catalog

    _opened.append(catalog.load_catalog(name))
    return _opened[-1]


def close_catalogs() -> None:
    """Close all catalogs that ``load_catalog`` opened."""
    while _opened:
        _opened.pop().close()


def open_files(path: Path) -> list[str]:
    """The descriptors of this process that a file has."""
    descriptors = []
    for name in os.listdir("/dev/fd"):
        try:
            if os.path.samefile(f"/dev/fd/{name}", path):
                descriptors.append(name)
        except OSError:
            # The one that the folder is listed with, or one without a file.
            continue
    return descriptors
