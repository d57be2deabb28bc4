"""The caution in a report about persons whose rows may be in different classes."""

from __future__ import annotations

from collections.abc import Mapping

from dbanon.data.types import JsonMapping
from dbanon.job.verdict import Caution

# Keys in a report's arguments: whether a person's rows may be in different classes, and how many
# persons have rows that, taken together, fewer than k persons share.
PERSON_ROWS, JOINT_ROWS = "person_rows", "joint_rows"
# The label of the line with the counts in the report.
TITLE = "ROWS OF A PERSON"
_WARNING = "Rows of one person may lie in different classes (persons: rows)"


def joint_rows_caution(arguments: JsonMapping) -> Caution | None:
    """Return the caution about persons' rows in different classes; None if there are no counts."""
    counts = arguments.get(JOINT_ROWS)
    # dbanon only writes mappings; ignore anything else.
    if not isinstance(counts, Mapping):
        return None
    # Of all persons (in_all), a sample was counted (persons). Those with two rows or more gave one
    # random pair of rows each (of_pairs).
    k, n_sampled, n_below, n_pairs, pairs_below, n_persons = (
        counts.get(name) for name in ("k", "persons", "below", "of_pairs", "pairs_below", "in_all")
    )
    sample_text = "" if n_sampled == n_persons else f" (a random sample of {n_persons})"
    return Caution(
        warning=_WARNING,
        title=TITLE,
        reason="k holds for someone who knows one row, but not for someone who knows several"
        f" rows of a person. The rows of {n_below} of {n_sampled} persons{sample_text}, taken"
        f" together, are shared by fewer than k = {k} persons. For persons with two rows or more,"
        f" this is true of a random pair of rows in {pairs_below} of {n_pairs} cases",
    )
