"""Build guarantees from their names in options and ledger entries; define the one per attribute.

The *caveats* of a guarantee are sentences about its limits. A *caution* is a warning about one
release, with counts if there are any; the verdict on the release contains it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from dbanon.data.counts import CountRequests, Counts, Recount, describe_rarest_row
from dbanon.data.frozen import dataclass
from dbanon.data.types import JsonMapping
from dbanon.errors import InvalidParameter
from dbanon.job.guarantee import (
    NULL_SUFFIXES,
    PER_ATTRIBUTE,
    ROWS,
    SPLIT_PERSONS,
    WHOLE_PERSONS,
    ChainTableGuarantee,
    Guarantee,
    PersonGuarantee,
    SplitPersonGuarantee,
)
from dbanon.job.sets import ColumnSet
from dbanon.job.verdict import Caution, Verdict
from dbanon.measures.models import CountedModel
from dbanon.methods.registry import MISSING_OPTION, WILDCARD, Method
from dbanon.recoding import Recoding

if TYPE_CHECKING:
    from typing import Unpack

    from dbanon.job.guarantee import GuaranteeFields


@dataclass(frozen=True)
class PerAttributeGuarantee(Guarantee):
    """At least k rows share each value of each attribute; whole rows are not k-anonymous."""

    @property
    def unit(self) -> str:
        """What k counts, in a few words."""
        return "rows, in each column by itself"

    @property
    def has_k_anonymous_rows(self) -> bool:
        """False: a combination of values may occur in a single row."""
        return False

    def _unit_warnings(self) -> tuple[str, ...]:
        """The caveats that follow from what k counts, as sentences; see ``Guarantee.caveats``."""
        return ("Rows are not k-anonymous: nothing is guaranteed for combinations of columns.",)

    def check_policy(self, method: Method, recoding: Recoding) -> None:
        """Check that the method groups each attribute separately, and nothing needs row classes.

        Raises
        ------
        InvalidParameter : the method groups rows, or an option needs classes of rows.
        """
        if method.result_type.has_row_classes:
            raise InvalidParameter(
                f"Method {method.name} groups rows, so that they are k-anonymous.",
                hint="Leave out `guarantee`.",
            )
        if self.models:
            raise InvalidParameter(
                "Privacy models need classes of rows, and guarantee=per_attribute has none.",
                hint="Leave out `models`, or choose a method that groups rows.",
            )
        if self.column_sets:
            raise InvalidParameter(
                "Sets of columns need classes of rows, and guarantee=per_attribute has none.",
                hint="Leave out `also_k`, or choose a method that groups rows.",
            )
        # Recodings of categories release one value per column and class of rows.
        if recoding.takes_categories:
            raise InvalidParameter(
                f"Recoding {recoding.name} releases classes of rows, which guarantee=per_attribute"
                " does not have.",
                hint='Use `recoding="mean"`, `recoding="median"` or `recoding="medoid"`.',
            )

    def check_method(self, method: Method) -> None:
        """Check that k counts rows, not persons.

        This replaces the check for guarantees of rows. ``check_policy`` has checked the method.

        Raises
        ------
        InvalidParameter : there is an entity column.
        """
        if self.entity_columns:
            raise InvalidParameter(
                "With guarantee=per_attribute rows are counted, not persons.",
                hint="Leave out `entity`.",
            )

    def count_requests(
        self,
        columns: Collection[str],
        sensitive: tuple[str, ...] = (),
        hierarchy_columns: frozenset[str] = frozenset(),
    ) -> CountRequests:
        """The counts to make: each quasi-identifier by itself, and all of them together.

        Strata are part of both. ``sensitive`` and ``hierarchy_columns`` are not used, because there
        are no privacy models.
        """
        attributes = [name for name in columns if name not in self.by]
        return CountRequests(
            columns=(*attributes, *self.by),
            attribute_columns=tuple((name, *self.by) for name in attributes),
        )

    def describe(self, columns: Collection[str]) -> str:
        """What a verified release of these quasi-identifiers guarantees, and its limits."""
        stratum_suffix = f" with equal ({', '.join(self.by)})" if self.by else ""
        return (
            f"{self.method_sentence}: every released value of each of ({', '.join(columns)}) by"
            f" itself is shared by at least {self.k} rows of the release{stratum_suffix}; ROWS ARE"
            f" NOT k-ANONYMOUS: a combination of values may occur in a single row"
            f"{NULL_SUFFIXES.get(self.nulls, '')}"
        )

    def summarize_recount(self, recount: Recount) -> str:
        """What a recount of the published release counted."""
        # The verdict is only built for the caution that it contains.
        [caution] = self.verdict(Counts(recount), counted_models=()).cautions
        return f"rows of each attribute by itself; {caution.title}: {caution.reason}"

    def verdict(self, counts: Counts, counted_models: tuple[CountedModel, ...]) -> Verdict:
        """The verdict on the counted rows; there are no privacy models."""
        k_rows = counts.rows.k_rows
        assert k_rows is not None
        row_anonymity = (
            "not k-anonymous" if k_rows < self.k else "k-anonymous by chance: not guaranteed"
        )
        return Verdict(
            k=counts.rows.smallest,
            # Readers can combine all columns, so the rarest combination is one of whole rows. Only
            # this guarantee also sets ``k_rows``, because its ``k`` counts single attributes.
            rarest_combination_size=k_rows,
            models=counted_models,
            k_rows=k_rows,
            ledger_values={"k_rows": k_rows},
            classes_text="classes of each attribute",
            unit_suffix=" (of each attribute by itself)",
            row_anonymity_texts=((f"k = {k_rows:,}", row_anonymity),),
            cautions=(
                Caution(
                    warning="rows are NOT k-anonymous",
                    title="ROWS ARE NOT k-ANONYMOUS",
                    reason=describe_rarest_row(k_rows),
                ),
            ),
        )


def build_guarantee(
    name: str,
    entity: str | None = None,
    person_rows: str = WHOLE_PERSONS,
    *,
    null_agrees: bool = False,
    **fields: Unpack[GuaranteeFields],
) -> Guarantee:
    """Build the guarantee of this name.

    Parameters
    ----------
    name : one of ``GUARANTEES``.
    entity : the column whose distinct values k counts; None to count rows.
    person_rows : one of ``PERSONS_CHOICES``.
    null_agrees : True if k counts rows that agree, where NULL agrees with every value.
    fields : the other fields of ``Guarantee``.
    """
    entity_columns = () if entity is None else (entity,)
    if name == PER_ATTRIBUTE:
        return PerAttributeGuarantee(entity_columns=entity_columns, **fields)
    if null_agrees:
        from dbanon.job.wildcard_guarantee import WildcardGuarantee

        return WildcardGuarantee(entity_columns=entity_columns, **fields)
    if not entity_columns:
        return Guarantee(entity_columns=(), **fields)
    guarantee_class = PersonGuarantee if person_rows == WHOLE_PERSONS else SplitPersonGuarantee
    return guarantee_class(entity_columns=entity_columns, **fields)


def guarantee_from_ledger(k: int, arguments: JsonMapping) -> Guarantee:
    """Rebuild the guarantee of a release from the arguments in its ledger entry."""
    if arguments.get("tables"):
        # A release of a chain with several tables.
        by, entity_columns = tuple(arguments.get("by", ())), (str(arguments["entity"]),)
        return ChainTableGuarantee(k=k, by=by, entity_columns=entity_columns)
    return build_guarantee(
        arguments.get("guarantee", ROWS),
        arguments.get("entity"),
        # Entries only have this key if classes may split the rows of a person.
        WHOLE_PERSONS if arguments.get("person_rows") is None else SPLIT_PERSONS,
        null_agrees=arguments.get("options", {}).get(MISSING_OPTION) == WILDCARD,
        k=k,
        by=tuple(arguments.get("by", ())),
        column_sets=_parse_column_sets(arguments.get("also_k", ())),
    )


def _parse_column_sets(entries: Iterable[JsonMapping]) -> tuple[ColumnSet, ...]:
    """Parse the sets of columns in a ledger entry.

    Any database role that may run jobs can forge such entries, so their form is checked.

    Raises
    ------
    InvalidParameter : the entry is malformed.
    """
    try:
        return tuple(
            ColumnSet.from_plain({"columns": entry["columns"], "k": entry["k"]})
            for entry in entries
        )
    except (TypeError, KeyError):
        raise InvalidParameter(
            "The ledger's entry about the release's sets of columns is broken."
        ) from None
