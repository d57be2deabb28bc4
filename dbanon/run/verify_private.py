"""Looking at a differentially private release again: what can be counted of it, is."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from dbanon.errors import RecountFailed
from dbanon.ledger.tables import LedgerEntry
from dbanon.run.comparison import Comparison
from dbanon.sessions.session import Session
from dbanon.stores import digest
from dbanon.stores.synthetic import Kept, recount

NOT_COUNTED = "rows, NULLs, bounds and lists; differential privacy cannot be counted"
_AGAIN = "Withdraw the relation, and release it again: it spends again."


@dataclass(frozen=True)
class PrivateVerification:
    """What a recount of a differentially private release found.

    Parameters
    ----------
    rows : counted now, all of them without NULL, within the bounds and of the lists.
    release_id, guarantee, epsilon : of the ledger's entry.
    unchanged, digest : as of ``Verification``.
    counted : what was counted, in words, and what cannot be.
    """

    relation: str
    columns: tuple[str, ...]
    rows: int
    release_id: str
    epsilon: float
    guarantee: str
    unchanged: bool | None
    digest: str | None
    counted: str = NOT_COUNTED

    def to_dict(self) -> dict[str, Any]:
        """The verification as plain values, for JSON."""
        return asdict(self)

    def pairs(self) -> list[tuple[str, str]]:
        """Pairs of label and text, for people."""
        same = "yes: columns, types, rows, bounds"
        if not self.unchanged:
            same = f"columns and bounds, yes; rows not compared: digest {self.digest}"
        return [
            ("relation", self.relation),
            ("release", self.release_id),
            ("columns", ", ".join(self.columns)),
            ("rows", str(self.rows)),
            ("counted", self.counted),
            ("guarantee", self.guarantee),
            ("as released", same),
        ]


def verify_private(session: Session, entry: LedgerEntry) -> PrivateVerification:
    """Recount a release whose rows are synthetic.

    Raises
    ------
    RecountFailed : there are other rows, a NULL, or a value outside of its bounds.
    ReleaseChanged : it is not as it was released; the message says in what.
    """
    assert entry.epsilon is not None
    # Looked at as a source is: its owner may have made a view of it.
    relation = session.find_source(entry.name)
    comparison = Comparison(session, entry.name, entry)
    comparison.require_columns(entry.quasi_identifiers)
    if not comparison.columns_differ:
        kept = []
        for name in entry.quasi_identifiers:
            attribute = relation.attribute(name)
            # Never by what the entry says of types: who published wrote it.
            own = session.type_of(replace(attribute, scale=max(attribute.scale, 0)))
            low, high = entry.between.get(name) or ("", "")
            listed = tuple(entry.listed.get(name, ()))
            kept.append(Kept(replace(attribute, sql_type=own), low, high, listed))
        rows, wrong = recount(session, entry.name, kept)
        if rows != entry.rows or wrong:
            raise RecountFailed(
                f"{entry.name} has {rows} rows and was released with {entry.rows}; {wrong} of them"
                " have a NULL, or a value outside of its bounds or list.",
                hint=_AGAIN,
            )
    comparison.compare_rows()
    return PrivateVerification(
        str(entry.name),
        entry.quasi_identifiers,
        entry.rows,
        entry.release_id,
        entry.epsilon,
        entry.sentence,
        unchanged=True if comparison.digest == digest.UNCHANGED else None,
        digest=comparison.digest,
    )
