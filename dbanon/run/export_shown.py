"""What stands at the place of a file of a release, as it and the ledger say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, TypeAlias

from dbanon.stores.exports import formats, places

# Files of an output's releases, the newest first: release, number in it, what the ledger has.
Known: TypeAlias = Sequence[tuple[str, int, Mapping[str, Any]]]


def is_free(place: places.Destination, known: Known) -> bool:
    """True where nothing is, or a file of a release, as it or the ledger's digests say."""
    found = places.status_of(place)
    if found is None:
        return True
    # No link is replaced, nor followed, and no pipe waited for.
    if not places.is_file(found):
        return False
    try:
        if formats.metadata_of(place).get("release_id"):
            return True
    except (ValueError, OSError):
        pass
    return _has_one_of(place, known)


def has_passed(place: places.Destination, release_id: str, known: Known) -> bool:
    """True where a place has a later release than one of the ledger's, or that one already.

    It is found by the digest that the ledger has of it, not by what the file says of itself.
    """
    if not any(release_id == of for of, _, _ in known):
        return False
    later = list(takewhile(lambda one: one[0] != release_id, known))
    own = [one for one in known if one[0] == release_id]
    return places.is_file(places.status_of(place)) and _has_one_of(place, [*later, *own])


def _has_one_of(place: places.Destination, known: Known) -> bool:
    digests = {one["sha256"] for _, _, one in known}
    try:
        return bool(digests) and places.sha256(place) in digests
    except OSError:
        return False
