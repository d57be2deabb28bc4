"""The version of the installed package."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path


@lru_cache(maxsize=1)
def version() -> str:
    """The version, as the installation knows it."""
    # The name of the directory tells it, too: importlib.metadata costs a backend's first call more
    # than reading the table does.
    described = list(Path(__file__).parents[1].glob("dbanon-*.dist-info"))
    if len(described) == 1:
        return described[0].name.removeprefix("dbanon-").removesuffix(".dist-info")
    from importlib import metadata

    return metadata.version("dbanon")


def share_path(name: str) -> Path:
    """The directory ``sql`` or ``migrations``.

    Raises
    ------
    FileNotFoundError : the installation is not complete.
    """
    package = Path(__file__).resolve().parent
    for candidate in (package / "share" / name, package.parent / name):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"The directory {name} is missing: install dbanon again.")
