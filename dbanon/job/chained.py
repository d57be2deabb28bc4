"""What can be asked of a job that is the next release of a chain."""

from __future__ import annotations

from dbanon.errors import ChainModel, InvalidParameter
from dbanon.job.policy import Policy


def require_chained(policy: Policy, entity: str | None) -> None:
    """Check what a release of a chain must and must not ask for.

    Raises
    ------
    InvalidParameter : it has no entity, or an option that looks at the release alone.
    ChainModel : it has a privacy model that compares classes with the whole table.
    """
    if not entity:
        raise InvalidParameter(
            "A chain follows persons: it needs the column that says whose a row is.",
            hint="Name it: `entity`.",
        )
    if policy.guarantee != "rows":
        raise InvalidParameter(
            f"A chain keeps histories of rows, which guarantee={policy.guarantee} has not.",
            hint="Leave out `guarantee`.",
        )
    if policy.evaluate:
        raise InvalidParameter(
            "A release of a chain is not evaluated: most of its classes are of earlier releases.",
            hint="Leave out `evaluate`.",
        )
    if policy.certificate is not None:
        raise InvalidParameter(
            "A release of a chain has no certificate: its classes keep to earlier releases.",
            hint="Leave out `certificate`.",
        )
    with_table = [model.describe() for model in policy.models if model.compares_with_table]
    if with_table:
        raise ChainModel(
            "A chain keeps no model that compares classes with the whole table, which is another"
            f" one at each release: {'; '.join(with_table)}.",
            hint="Use distinct_l, entropy_l, recursive_cl or alpha_k, or release without a chain.",
        )
    if policy.models and policy.refine is not None:
        raise InvalidParameter(
            "In a chain with privacy models classes are not refined: records would move by their"
            " sensitive values.",
            hint="Leave out `refine`.",
        )
    if policy.options.get("suppression"):
        raise InvalidParameter(
            "In a chain nobody is withheld for others' sake: newcomers wait, or join a class.",
            hint="Leave out what withholds records.",
        )
