"""What a release guarantees, in words."""

from __future__ import annotations

from collections.abc import Sequence

from dbanon.job.policy import Policy
from dbanon.methods import find_method


def guarantee(
    policy: Policy, names: list[str], by: Sequence[str] = (), entity: str | None = None
) -> str:
    """What a verified release guarantees, in words; ``entity`` is the column that k counts."""
    if policy.per_attribute:
        within = f" with equal ({', '.join(by)})" if by else ""
        text = (
            f"{find_method(policy.method).guarantee}: every released value of each of"
            f" ({', '.join(names)}) by itself is shared by at least {policy.k} rows of the release"
            f"{within}; ROWS ARE NOT k-ANONYMOUS: a combination of values may be one row's alone"
        )
        return text + _about_nulls(policy)
    names = [*names, *by]
    counted = "rows" if entity is None else f'persons (distinct values of "{entity}")'
    text = (
        f"{find_method(policy.method).guarantee}: every combination of released values of"
        f" ({', '.join(names)}) is shared by at least {policy.k} {counted} of the release"
    )
    return (
        text
        + _about_nulls(policy)
        + "".join(f"; {model.describe()} in each class" for model in policy.models)
        + ("; classes that failed may have been withheld" if policy.withhold_failing else "")
    )


def _about_nulls(policy: Policy) -> str:
    return {
        "category": ", NULL counted as a value",
        "suppress": "; records with a NULL were withheld",
    }.get(policy.nulls, "")
