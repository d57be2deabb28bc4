"""Report on persons whose rows may be in different classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dbanon.job.verdict import Caution

# Keys of a report's arguments, and the label of its line.
PERSON_ROWS, JOINT_ROWS, TITLE = "person_rows", "joint_rows", "ROWS OF A PERSON"
_SUBJECT = "Rows of one person may lie in different classes (persons: rows)"


def joint_rows_caution(arguments: Mapping[str, Any]) -> Caution | None:
    """The caution about persons' rows in different classes; None if there are none."""
    counts = arguments.get(JOINT_ROWS)
    # A runner writes entries.
    if not isinstance(counts, Mapping):
        return None
    k, persons, below, of_pairs, pairs_below, in_all = (
        counts.get(name) for name in ("k", "persons", "below", "of_pairs", "pairs_below", "in_all")
    )
    sampled = "" if persons == in_all else f", drawn of {in_all}"
    return Caution(
        _SUBJECT,
        TITLE,
        "k holds for someone who knows one row, but not for someone who knows several rows of a"
        " person. Persons whose rows"
        f" together are shared by fewer than k = {k} persons: {below} of {persons}{sampled}. Of"
        f" persons with two rows or more, whose pair of rows drawn at random is: {pairs_below} of"
        f" {of_pairs}",
    )
