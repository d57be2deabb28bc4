"""Paths of files that a job writes."""

from __future__ import annotations

from pathlib import Path

from dbanon.stores.exports.places import make_directories, place_for


def place_of(path: str, job: str, release_id: str) -> Path:
    """The file that a path with ``{job}`` and ``{release}`` means; directories are made, 0700.

    Raises
    ------
    InsufficientRights, InvalidParameter : a directory cannot be made.
    """
    place = place_for(path.replace("{job}", job), release_id)
    make_directories(place.parent)
    return place
