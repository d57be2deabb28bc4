"""What can be asked of a table that does not fit into memory."""

from __future__ import annotations

from collections.abc import Sequence

from dbanon.data.scales import MAHALANOBIS
from dbanon.errors import InvalidParameter
from dbanon.job.policy import Policy
from dbanon.recoding import find_recoding


def require_spillable(policy: Policy, persons: Sequence[str]) -> None:
    """Check that no part of a job looks at all of a table's values at once.

    Parameters
    ----------
    persons : the columns that say whose a row is, as ``Guarantee.persons``.

    Raises
    ------
    InvalidParameter : one does.
    """
    _ = policy.records_at_once
    asked = {
        "an entity or a chain": bool(persons),
        "privacy models": bool(policy.models),
        "evaluate": policy.evaluate,
        "a certificate": policy.certificate is not None,
        "Mahalanobis distances": policy.standardize == MAHALANOBIS,
        "an order": bool(policy.orders),
        f"recoding {policy.recoding}": find_recoding(str(policy.recoding)).measure == "gower",
    }
    for what, is_asked in asked.items():
        if is_asked:
            raise InvalidParameter(
                f"With values on a disk there is no room for {what}, which needs all of them.",
                hint="Leave out `spill`, or that.",
            )
