"""What stands at the place of a file of a release, as it and the ledger say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, TypeAlias

from dbanon.stores.exports import formats, places

# Files of an output's releases, the newest first: release, number in it, what the ledger has.
Known: TypeAlias = Sequence[tuple[str, int, Mapping[str, Any]]]


def is_free(path: places.Destination, exports: Known) -> bool:
    """True where nothing is, or a file of a release, as it or the ledger's digests say."""
    status = places.status_of(path)
    if status is None:
        return True
    # No link is replaced, nor followed, and no pipe waited for.
    if not places.is_file(status):
        return False
    try:
        if formats.metadata_of(path).get("release_id"):
            return True
    except (ValueError, OSError):
        pass
    return _has_one_of(path, exports)


def has_passed(path: places.Destination, release_id: str, exports: Known) -> bool:
    """True where a place has a later release than one of the ledger's, or that one already.

    It is found by the digest that the ledger has of it, not by what the file says of itself.
    """
    if not any(release_id == of for of, _, _ in exports):
        return False
    later = list(takewhile(lambda entry: entry[0] != release_id, exports))
    this_release = [entry for entry in exports if entry[0] == release_id]
    return places.is_file(places.status_of(path)) and _has_one_of(path, [*later, *this_release])


def _has_one_of(path: places.Destination, exports: Known) -> bool:
    digests = {entry["sha256"] for _, _, entry in exports}
    try:
        return bool(digests) and places.sha256(path) in digests
    except OSError:
        return False
