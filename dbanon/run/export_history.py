"""Decides from a file and the ledger whether an export may replace the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, TypeAlias

from dbanon.stores.exports import formats, places

# Files of an output's releases, the newest first: release, number in it, what the ledger has.
PublishedExports: TypeAlias = Sequence[tuple[str, int, Mapping[str, Any]]]


def is_free(path: places.Destination, exports: PublishedExports) -> bool:
    """True if nothing is there, or a file of a release by its metadata or the ledger's digests."""
    status = places.status_of(path)
    if status is None:
        return True
    # Never replace or follow a link, and never wait for a pipe.
    if not places.is_file(status):
        return False
    try:
        if formats.metadata_of(path).get("release_id"):
            return True
    except (ValueError, OSError):
        pass
    return _has_one_of(path, exports)


def is_current_or_later(
    path: places.Destination, release_id: str, exports: PublishedExports
) -> bool:
    """True if the file at a path is this release or a later one.

    Compares digests with the ledger; does not rely on the file's own metadata.
    """
    if not any(release_id == of for of, _, _ in exports):
        return False
    later = list(takewhile(lambda entry: entry[0] != release_id, exports))
    this_release = [entry for entry in exports if entry[0] == release_id]
    return places.is_file(places.status_of(path)) and _has_one_of(path, [*later, *this_release])


def _has_one_of(path: places.Destination, exports: PublishedExports) -> bool:
    digests = {entry["sha256"] for _, _, entry in exports}
    try:
        return bool(digests) and places.sha256(path) in digests
    except OSError:
        return False
