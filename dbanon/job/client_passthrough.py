"""What can be asked of a job whose kept columns travel through the client."""

from __future__ import annotations

from dbanon.errors import InvalidParameter

# Where kept columns are on their way from the source to the release.
SERVER, CLIENT = KEPT_COLUMNS = ("server", "client")


def require_carried(*, persons: bool, chain: bool, spill: bool) -> None:
    """Check that a job whose kept columns travel asks for nothing that needs them at their place.

    Parameters
    ----------
    persons : True where rows are somebody's, so that persons are counted in the database.
    chain : True where it is the next release of a chain.
    spill : True where values wait on a disk: those of kept columns would be in memory all the same.

    Raises
    ------
    InvalidParameter : it does.
    """
    asked = {"a chain": chain, "an entity": persons, "values on a disk (`spill`)": spill}
    for what, is_asked in asked.items():
        if is_asked:
            raise InvalidParameter(
                f"Kept columns do not travel through the client with {what}.",
                hint="Leave out `kept_columns`, or that.",
            )
