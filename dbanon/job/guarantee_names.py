"""Which guarantee a name means, and that of releases in which each attribute stands alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from dbanon.data.counts import Counts, Questions, Recount, rarest_row
from dbanon.data.frozen import dataclass
from dbanon.errors import InvalidParameter
from dbanon.job.guarantee import (
    ABOUT_NULLS,
    PARTED,
    PER_ATTRIBUTE,
    ROWS,
    WHOLE,
    Guarantee,
    InTables,
    OfPartedPersons,
    OfPersons,
)
from dbanon.job.sets import ColumnSet
from dbanon.job.verdict import Caution, Verdict
from dbanon.measures.models import CountedModel
from dbanon.methods.registry import Method
from dbanon.recoding import Recoding


@dataclass(frozen=True)
class PerAttribute(Guarantee):
    """Every released value of each attribute by itself is shared by k rows; its rows are not."""

    @property
    def unit(self) -> str:
        """What k counts, in one word or few."""
        return "rows, in each column by itself"

    @property
    def bounds_rows(self) -> bool:
        """False: a combination may be one row's alone."""
        return False

    def _of_what(self) -> tuple[str, ...]:
        return ("Rows are not k-anonymous: nothing holds of several columns together.",)

    def check_policy(self, method: Method, recoding: Recoding) -> None:
        """Check that attributes are grouped by themselves, without what needs classes of rows.

        Raises
        ------
        InvalidParameter : they are not.
        """
        if method.gives.of_rows:
            raise InvalidParameter(
                f"Method {method.name} groups rows, so that they are k-anonymous.",
                hint="Leave out `guarantee`.",
            )
        if self.models:
            raise InvalidParameter(
                "Privacy models need classes of rows, and guarantee=per_attribute has none.",
                hint="Leave out `models`, or choose a method that groups rows.",
            )
        if self.also:
            raise InvalidParameter(
                "Sets of columns need classes of rows, and guarantee=per_attribute has none.",
                hint="Leave out `also_k`, or choose a method that groups rows.",
            )
        if recoding.takes_categories:
            raise InvalidParameter(
                f"Recoding {recoding.name} releases classes of rows, which guarantee=per_attribute"
                " has not.",
                hint='Use `recoding="mean"`, `recoding="median"` or `recoding="medoid"`.',
            )

    def require(self, method: Method) -> None:
        """Check that rows are counted; raises InvalidParameter."""
        if self.persons:
            raise InvalidParameter(
                "With guarantee=per_attribute rows are counted, not persons.",
                hint="Leave out `entity`.",
            )

    def questions(
        self,
        columns: Collection[str],
        sensitive: tuple[str, ...] = (),
        leaves: frozenset[str] = frozenset(),
    ) -> Questions:
        """What has to be counted: each quasi-identifier in its stratum, and their combinations."""
        alone = [name for name in columns if name not in self.by]
        return Questions((*alone, *self.by), tuple((name, *self.by) for name in alone))

    def sentence(self, columns: Collection[str]) -> str:
        """What a verified release of these quasi-identifiers guarantees, and what it does not."""
        within = f" with equal ({', '.join(self.by)})" if self.by else ""
        return (
            f"{self.method}: every released value of each of ({', '.join(columns)}) by itself is"
            f" shared by at least {self.k} rows of the release{within}; ROWS ARE NOT k-ANONYMOUS:"
            f" a combination of values may be one row's alone{ABOUT_NULLS.get(self.nulls, '')}"
        )

    def told_of(self, recount: Recount) -> str:
        """What was counted when a published release was looked at again."""
        [caution] = self.verdict(Counts(recount), ()).cautions
        return f"rows of each attribute by itself; {caution.title}: {caution.why}"

    def verdict(self, counts: Counts, levels: tuple[CountedModel, ...]) -> Verdict:
        """The verdict on rows that were counted, with the levels of the models."""
        k_rows = counts.rows.k_rows
        assert k_rows is not None
        worth = "not k-anonymous" if k_rows < self.k else "k-anonymous by chance: not guaranteed"
        return Verdict(
            counts.rows.smallest,
            k_rows,
            levels,
            k_rows=k_rows,
            noted={"k_rows": k_rows},
            classes="classes of each attribute",
            counted=" (of each attribute by itself)",
            of_rows=((f"k = {k_rows:,}", worth),),
            cautions=(
                Caution("rows are NOT k-anonymous", "ROWS ARE NOT k-ANONYMOUS", rarest_row(k_rows)),
            ),
        )


def guarantee(
    name: str, entity: str | None = None, person_rows: str = WHOLE, **told: Any
) -> Guarantee:
    """The guarantee of this name.

    Parameters
    ----------
    name : one of ``GUARANTEES``.
    entity : the column whose values k counts; None for rows.
    person_rows : one of ``PERSON_ROWS``.
    told : the other fields of ``Guarantee``.
    """
    persons = () if entity is None else (entity,)
    if name == PER_ATTRIBUTE:
        return PerAttribute(persons=persons, **told)
    if not persons:
        return Guarantee(persons=(), **told)
    return (OfPersons if person_rows == WHOLE else OfPartedPersons)(persons=persons, **told)


def recorded(k: int, arguments: Mapping[str, Any]) -> Guarantee:
    """The guarantee of a release as the arguments in its ledger tell it."""
    if arguments.get("tables"):
        by, persons = tuple(arguments.get("by", ())), (str(arguments["entity"]),)
        return InTables(k=k, by=by, persons=persons)
    return guarantee(
        arguments.get("guarantee", ROWS),
        arguments.get("entity"),
        WHOLE if arguments.get("person_rows") is None else PARTED,
        k=k,
        by=tuple(arguments.get("by", ())),
        also=_sets(arguments.get("also_k", ())),
    )


def _sets(told: Any) -> tuple[ColumnSet, ...]:
    """The sets of columns of a release as its entry has them, which a runner wrote.

    Raises
    ------
    InvalidParameter : they are none.
    """
    try:
        return tuple(ColumnSet.of_plain({"columns": one["columns"], "k": one["k"]}) for one in told)
    except (TypeError, KeyError):
        raise InvalidParameter(
            "The ledger's entry about the release's sets of columns is broken.",
            hint="Release it again.",
        ) from None
