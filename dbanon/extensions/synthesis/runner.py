"""Makes differentially private releases, and recounts them."""

from __future__ import annotations

from dataclasses import replace

from dbanon.extensions.synthesis.run import run_private
from dbanon.extensions.synthesis.synthetic_rows import ColumnDomain, recount
from dbanon.ledger.tables import LedgerEntry
from dbanon.run.job_runner import PrivateRunner
from dbanon.sessions.base import Relation
from dbanon.sessions.session import Session


class PrivateReleases:
    """Makes and recounts releases; see ``dbanon.run.job_runner.PrivateRunner``."""

    run = staticmethod(run_private)

    def recount(self, session: Session, relation: Relation, entry: LedgerEntry) -> tuple[int, int]:
        """Count the rows of a release, and those with a NULL or a value outside its domain."""
        domains = []
        for name in entry.quasi_identifiers:
            attribute = relation.attribute(name)
            # Do not rely on the types in the entry: the publisher wrote it. An unknown scale is
            # negative.
            sql_type = session.dialect.type_of(replace(attribute, scale=max(attribute.scale, 0)))
            # ``between`` has bounds by column, and ``listed`` the values of columns with a list.
            # Booleans and columns with a list have no bounds.
            low, high = entry.between.get(name) or ("", "")
            allowed_values = tuple(entry.listed.get(name, ()))
            domains.append(
                ColumnDomain(replace(attribute, sql_type=sql_type), low, high, allowed_values)
            )
        return recount(session, relation.name, domains)


RUNNER: PrivateRunner = PrivateReleases()
