"""Where the SQL and migration files lie: inside the wheel, or beside the package in a checkout."""

from __future__ import annotations

from pathlib import Path


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
