"""The report on a differentially private release; it has only public figures."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

from dbanon.data.frozen import dataclass
from dbanon.data.types import JsonMapping, JsonObject
from dbanon.data.words import LabelledText, also_under_former_key, json_text

EARLIER_RELEASES = (
    "other releases of the source: only those that draw on the same budget are counted in it"
)
NO_SEED = "noise: OpenDP's, without a seed; row order: random, unrelated to the source's rows"


@dataclass(frozen=True, repr=False)
class PrivateReport(LabelledText):
    """Report on a differentially private release and how it was made.

    Everything in it is public or follows from the release. It contains no source values, and no
    figures that depend on source values.

    Parameters
    ----------
    created_at : the time of the release, in ISO 8601 and UTC.
    source : the name of the table or file that was read.
    output, output_kind : the relation for readers, and its kind, ``table`` or ``view``.
    relation : the table that holds the rows.
    arguments : the options as JSON values, as in the ledger.
    quasi_identifiers, not_copied : the released columns, and those that are left out.
    epsilon, delta : the guarantee; delta is None for pure epsilon.
    rho : the amount charged to the budget; None if the budget counts epsilon.
    neighbours : the unit of protection: ``row`` or ``person``.
    budget : the name of the budget that the release is charged to.
    spent, total : the spent part of the budget and the whole budget, in epsilon or rho; None if the
        budget cannot be read. A report from a run has the values right after this release, a report
        from the ledger those of now.
    rows_in, rows_out : number of rows or persons in the source, and of written rows. The two are
        equal.
    guarantee : the guarantee as text.
    method_notes : texts about how the release was made.
    digest : the digest of the written rows.
    seed_policy, earlier_releases : texts that say what a seed reproduces, and which other releases
        the budget counts.
    verified : always True, as in ``Report``.
    """

    release_id: str
    created_at: str
    dbanon_version: str
    source: str
    output: str
    output_kind: str
    relation: str
    method: str
    arguments: JsonMapping
    quasi_identifiers: tuple[str, ...]
    not_copied: tuple[str, ...]
    epsilon: float
    delta: float | None
    rho: float | None
    neighbours: str
    budget: str
    spent: float | None
    total: float | None
    rows_in: int
    rows_out: int
    guarantee: str
    method_notes: tuple[str, ...]
    digest: str | None = None
    seed_policy: str = NO_SEED
    earlier_releases: str = EARLIER_RELEASES
    verified: bool = True

    @property
    def told(self) -> tuple[str, ...]:
        """The former name of ``method_notes``, until version 1.0."""
        return self.method_notes

    def with_provenance(self, *, created_at: str) -> PrivateReport:
        """Return a copy of the report with the time at which the ledger recorded it."""
        return replace(self, created_at=created_at)

    def to_dict(self) -> JsonObject:
        """Return the report as JSON values."""
        return asdict(self) | also_under_former_key("method_notes", self.method_notes)

    def budget_words(self) -> str:
        """Describe how much of the budget is spent."""
        if self.spent is None or self.total is None:
            return "not known here"
        return f"{'' if self.rho is None else 'rho, '}{self.spent:g} of {self.total:g} are spent"

    def ledger_row(self) -> JsonObject:
        """Return the ledger row of this report, without names of relations.

        JSON values are texts.
        """
        return {
            "release_id": self.release_id,
            "created_at": self.created_at,
            "dbanon_version": self.dbanon_version,
            "source": self.source,
            "output_kind": self.output_kind,
            "method": self.method,
            "arguments": json_text(self.arguments, sort_keys=True),
            "rows_in": self.rows_in,
            "rows_out": self.rows_out,
            "suppressed": 0,
            "null_rows": 0,
            # Durations are omitted, because they may depend on the rows.
            "seconds": json.dumps({}),
            "guarantee": self.guarantee,
            "seed_policy": self.seed_policy,
            "earlier_releases": self.earlier_releases,
            "digest": self.digest,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "rho": self.rho,
            "neighbours": self.neighbours,
            "budget": self.budget,
        }

    def rows(self) -> list[tuple[str, str]]:
        """Return the same as ``pairs``."""
        return self.pairs()

    def pairs(self) -> list[tuple[str, str]]:
        """Return the report as pairs of label and text, for display."""
        pairs = [
            ("release", self.release_id),
            ("source", self.source),
            ("output", f"{self.output} ({self.output_kind})"),
            ("method", f"{self.method}, dbanon {self.dbanon_version}"),
            ("columns", ", ".join(self.quasi_identifiers)),
            ("not copied", ", ".join(self.not_copied) or "none"),
            (
                "epsilon",
                f"{self.epsilon:g}{f', delta {self.delta:g}' if self.delta else ''} for one"
                f" {self.neighbours}",
            ),
            (f"budget {self.budget}", self.budget_words()),
            (f"{self.neighbours}s in / rows out", f"{self.rows_in} / {self.rows_out}"),
            *(("how", text) for text in self.method_notes),
            ("seed policy", self.seed_policy),
            ("guarantee", self.guarantee),
            ("earlier releases", self.earlier_releases),
        ]
        if self.relation != self.output:
            # After the release, its source and its output.
            pairs.insert(3, ("released table", self.relation))
        return pairs
