"""The version of the installed package."""

from __future__ import annotations

from functools import lru_cache
from importlib import metadata


@lru_cache(maxsize=1)
def version() -> str:
    """The version, as the installation knows it."""
    return metadata.version("dbanon")
