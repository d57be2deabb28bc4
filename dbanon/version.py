"""The version of the installed package."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path


@lru_cache(maxsize=1)
def version() -> str:
    """The installed version, for example ``0.3.0``."""
    # The directory's name contains the version. importlib.metadata would be too slow for the first
    # call of a database connection.
    metadata_directories = list(Path(__file__).parents[1].glob("dbanon-*.dist-info"))
    if len(metadata_directories) == 1:
        return metadata_directories[0].name.removeprefix("dbanon-").removesuffix(".dist-info")
    from importlib import metadata

    return metadata.version("dbanon")


def share_path(name: str) -> Path:
    """Find the installed directory ``sql`` or ``migrations``.

    Raises
    ------
    FileNotFoundError : the installation is incomplete.
    """
    package = Path(__file__).resolve().parent
    for candidate in (package / "share" / name, package.parent / name):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"The directory {name} is missing: install dbanon again.")
