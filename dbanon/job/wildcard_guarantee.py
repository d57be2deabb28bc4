"""The guarantee of local suppression where NULL agrees with every value."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from dbanon.data.counts import CountRequests, Counts, Recount
from dbanon.data.frozen import dataclass
from dbanon.errors import pluralize
from dbanon.job.guarantee import Guarantee
from dbanon.job.verdict import Caution, Verdict
from dbanon.measures.models import CountedModel

_RARE_ROWS = (
    "someone who knows that a person is in the table, and all of these values, may find a single"
    " row that agrees"
)


@dataclass(frozen=True)
class WildcardGuarantee(Guarantee):
    """Each row agrees with at least k rows, itself included, where NULL agrees with every value."""

    @property
    def has_k_anonymous_rows(self) -> bool:
        """False: a combination of values and NULLs may occur in a single row."""
        return False

    @property
    def k_meaning(self) -> str:
        """What k is, for a page: a sentence."""
        return "Smallest number of rows that agree with a row. NULL agrees with every value."

    def counted_k(self, recount: Recount) -> int:
        """The smallest number of rows that agree with a row."""
        assert recount.agreeing_rows is not None
        return recount.agreeing_rows

    def describe_k(self, where: str, counted: int) -> str:
        """Describe a k that was counted; see ``Guarantee.describe_k``."""
        return f"A row {where} agrees with {pluralize(counted, 'row')}, itself included"

    def _unit_warnings(self) -> tuple[str, ...]:
        """The caveats that follow from what k counts, as sentences; see ``Guarantee.caveats``."""
        return (
            f"Rows may be unique, NULLs included: {_RARE_ROWS}. k limits what a row of the release"
            " alone tells about whose it is.",
            *super()._unit_warnings(),
        )

    def count_requests(
        self,
        columns: Collection[str],
        sensitive: tuple[str, ...] = (),
        hierarchy_columns: frozenset[str] = frozenset(),
    ) -> CountRequests:
        """The counts to make of the written release, with those of the rows that agree."""
        requests = super().count_requests(columns, sensitive, hierarchy_columns)
        return replace(requests, null_agrees=True)

    def describe(self, columns: Collection[str]) -> str:
        """What a verified release of these quasi-identifiers guarantees, and its limits."""
        return (
            f"each row of the release agrees with at least {self.k} rows of the release, itself"
            f" included, in all of ({', '.join(columns)}), where NULL AGREES WITH EVERY VALUE"
            + "".join(
                f"; in ({', '.join(column_set.columns)}) with at least {column_set.k}"
                for column_set in self.column_sets
            )
            + f"; ROWS MAY BE UNIQUE: {_RARE_ROWS}{self._suppression_suffix}"
        )

    def summarize_recount(self, recount: Recount) -> str:
        """What a recount of the published release counted."""
        return (
            "rows; NULL agrees with every value, so that each row agrees with at least"
            f" {pluralize(self.counted_k(recount), 'row')}"
        )

    def verdict(self, counts: Counts, counted_models: tuple[CountedModel, ...]) -> Verdict:
        """The verdict on the counted rows; there are no privacy models."""
        agreeing_rows = self.counted_k(counts.rows)
        return Verdict(
            k=agreeing_rows,
            rarest_combination_size=counts.rows.smallest,
            models=counted_models,
            ledger_values={"agreeing_rows": agreeing_rows},
            unit_suffix=" (rows that agree; NULL agrees with every value)",
            cautions=(
                Caution(
                    warning="rows may be unique: NULL agrees with every value",
                    title="ROWS MAY BE UNIQUE",
                    reason=f"NULL agrees with every value (missing=wildcard): {_RARE_ROWS}",
                ),
            ),
        )
