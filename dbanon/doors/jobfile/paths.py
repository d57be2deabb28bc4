"""Paths of files that a job writes."""

from __future__ import annotations

import os
from pathlib import Path

from dbanon.errors import InsufficientRights, InvalidParameter


def place_of(path: str, job: str, release_id: str) -> Path:
    """The file that a path with ``{job}`` and ``{release}`` means; directories are made, 0700.

    Raises
    ------
    InsufficientRights, InvalidParameter : a directory cannot be made.
    """
    place = Path(os.path.expanduser(path.replace("{job}", job).replace("{release}", release_id)))
    make_directories(place.parent)
    return place


def make_directories(directory: Path) -> None:
    """Make a directory and those above it, for their owner alone; raises as ``place_of``."""
    missing = []
    while not directory.exists():
        missing.append(directory)
        directory = directory.parent
    try:
        for one in reversed(missing):
            one.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        denied = isinstance(error, PermissionError)
        raise (InsufficientRights if denied else InvalidParameter)(
            f"The directory {missing[0]} cannot be made.", detail=error.strerror
        ) from None
