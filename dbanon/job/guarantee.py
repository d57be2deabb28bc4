"""Guarantees: what a release promises, which counts prove it, and the limits of that proof.

A guarantee requests counts of the written release. The store that wrote it counts, and the
guarantee returns a verdict on these counts. Other modules do not depend on the class of a
guarantee.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from dbanon.data.counts import CountRequests, Counts, Recount
from dbanon.data.frozen import dataclass
from dbanon.errors import InvalidParameter, RecountFailed, SourceChanged, pluralize
from dbanon.job.nulls import RELEASED_NULLS
from dbanon.job.sets import ColumnSet
from dbanon.job.verdict import ExpectedRelease, Verdict
from dbanon.measures import Model
from dbanon.measures.models import CountedModel
from dbanon.measures.recount import require_levels
from dbanon.methods.registry import ROW_GUARANTEE, Method
from dbanon.recoding import Recoding

# Values of ``Policy.guarantee``: k rows share each combination of values, or only each value of a
# single attribute.
ROWS, PER_ATTRIBUTE = "rows", "per_attribute"
GUARANTEES = (ROWS, PER_ATTRIBUTE)
# Values of ``Job.persons``: a class holds all rows of its persons, or classes may split them.
WHOLE_PERSONS, SPLIT_PERSONS = PERSONS_CHOICES = ("whole", "rows")
# What privacy models count, as recorded in the ledger.
PERSONS = "persons"

REPORT_IT = "This is an error in dbanon: please report it."
SEVERAL_TABLES_WARNING = (
    "k counts persons over all tables of the chain. The release shows how many persons of a class"
    " have rows in this table: fewer than k rows may share a combination here, and someone who"
    " knows which persons have rows can narrow it down."
)
# By treatment of NULLs: what a guarantee says about it.
NULL_SUFFIXES = {
    "category": ", NULL counted as a value",
    "merge": ", NULL counted as a value; values of rare patterns of NULLs may be released as NULL",
    "suppress": "; records with a NULL were withheld",
}


if TYPE_CHECKING:
    from typing import Required, TypedDict

    class GuaranteeFields(TypedDict, total=False):
        """The fields of ``Guarantee`` that do not depend on what k counts, as keyword arguments."""

        k: Required[int]
        by: tuple[str, ...]
        models: tuple[Model, ...]
        column_sets: tuple[ColumnSet, ...]
        nulls: str
        suppresses_cells: bool
        withhold_failing: bool
        method_sentence: str


@dataclass(frozen=True)
class Guarantee:
    """At least k rows share every combination of released values.

    Parameters
    ----------
    k : the smallest number of rows or persons that share released values.
    by : columns of strata; k also applies within each stratum.
    entity_columns : the entity column as the only element; it is read to count persons and is not
        released. Empty if k counts rows.
    models : privacy models that every class satisfies in addition to k.
    column_sets : sets of columns, each with a k for its combinations. For a written release and in
        the ledger, columns have their released names.
    nulls : how NULLs in quasi-identifiers are treated, one of ``NULL_POLICIES``.
    suppresses_cells : True if values are released as NULL where a class has no common value.
    withhold_failing : True if classes that fail a privacy model may be withheld.
    method_sentence : a description of the classes that the method builds: ``Method.sentence``.
    """

    k: int
    by: tuple[str, ...] = ()
    entity_columns: tuple[str, ...] = ()
    models: tuple[Model, ...] = ()
    column_sets: tuple[ColumnSet, ...] = ()
    nulls: str = "error"
    suppresses_cells: bool = False
    withhold_failing: bool = False
    method_sentence: str = ROW_GUARANTEE

    @property
    def counted_columns(self) -> tuple[str, ...]:
        """Columns that are needed for counting and not released."""
        return self.entity_columns

    @property
    def unit_description(self) -> str:
        """What k counts, with the column whose values identify persons."""
        return "rows"

    @property
    def models_unit_suffix(self) -> str:
        """What privacy models count, as a suffix to their description; empty for rows."""
        return ""

    @property
    def unit(self) -> str:
        """What k counts, in a word or two."""
        return "rows"

    @property
    def has_k_anonymous_rows(self) -> bool:
        """True if at least k rows share each combination of released values."""
        return True

    @property
    def classes_have_k_rows(self) -> bool:
        """True if each class in a recount has at least k rows.

        For a guarantee per attribute, these are the classes of single attributes.
        """
        return True

    @property
    def k_meaning(self) -> str:
        """What k is, for a page: a sentence."""
        return f"{self.unit.capitalize()} in the smallest class."

    def counted_k(self, recount: Recount) -> int:
        """The k that a recount of rows shows."""
        return recount.smallest

    def describe_k(self, where: str, counted: int) -> str:
        """Describe a k that was counted, as the first part of a sentence.

        Parameters
        ----------
        where : the rows that were counted, such as "of people".
        """
        return f"The smallest class {where} holds {pluralize(counted, 'row')}"

    def caveats(self, earlier_releases: str, has_models: bool) -> tuple[str, ...]:
        """The limits of the guarantee: what a reader may assume although it is not guaranteed.

        Parameters
        ----------
        earlier_releases : a text that says how earlier releases were taken into account.
        has_models : True if the release also satisfies privacy models.
        """
        return (
            "Nothing is guaranteed for columns that are copied as they are"
            + (", except by the privacy models named." if has_models else "."),
            "Someone who knows more about a person than these quasi-identifiers may find the row: a"
            " copied column that others know is in fact a quasi-identifier.",
            "A privacy model holds for its own column, at its level, and for nothing else."
            if has_models
            else "A class whose rows all have one sensitive value reveals that value.",
            f"Other releases of the same persons: {earlier_releases}. Two releases can each be"
            " k-anonymous while what they share is not.",
            "It is not differential privacy.",
            *self._unit_warnings(),
        )

    def _unit_warnings(self) -> tuple[str, ...]:
        """The limits that follow from what k counts; see ``caveats``."""
        return (
            "k counts rows. If a person has several rows, a class may have fewer than k persons.",
        )

    def check_policy(self, method: Method, recoding: Recoding) -> None:
        """Check that the method and the recoding can give this guarantee.

        A guarantee that counts rows or persons of classes accepts all of them here;
        ``check_method`` refuses methods without classes of rows.

        Raises
        ------
        InvalidParameter : they cannot give it.
        """

    def check_method(self, method: Method) -> None:
        """Check that the method can give this guarantee, before any data is read.

        Raises
        ------
        InvalidParameter : it groups each attribute separately, so rows would not be k-anonymous,
            or it cannot count persons.
        """
        if self.entity_columns and method.suppresses_cells and method.result_type.sees_all_strata:
            raise InvalidParameter(
                f"Method {method.name} counts rows, not persons.",
                hint='Leave out `entity`, or choose `method="local_suppression"`.',
            )
        if not method.result_type.has_row_classes:
            raise InvalidParameter(
                f"Method {method.name} gives {method.sentence}: such a release would fail the"
                " recount of its rows.",
                hint="Choose a method that groups rows. A release whose rows are not k-anonymous"
                ' needs `guarantee="per_attribute"`.',
            )

    def count_requests(
        self,
        columns: Collection[str],
        sensitive: tuple[str, ...] = (),
        hierarchy_columns: frozenset[str] = frozenset(),
    ) -> CountRequests:
        """The counts to make of the written release.

        Parameters
        ----------
        columns : the released quasi-identifiers; strata may be among them.
        sensitive : sensitive columns whose values are counted in each class.
        hierarchy_columns : sensitive columns whose values are leaves of a hierarchy, so that their
            order does not matter.
        """
        return CountRequests(
            columns=tuple(dict.fromkeys([*columns, *self.by])),
            entity_columns=self.entity_columns,
            sensitive=sensitive,
            hierarchy_columns=hierarchy_columns,
            further_sets=tuple(column_set.columns for column_set in self.column_sets),
        )

    def describe(self, columns: Collection[str]) -> str:
        """What a verified release of these quasi-identifiers guarantees."""
        return (
            f"{self.method_sentence}: every combination of released values of"
            f" ({', '.join([*columns, *self.by])}) is shared by at least"
            f" {self.k} {self.unit_description} of the release{self._null_suffix}"
            + "".join(
                f"; {model.describe()} in each class{self.models_unit_suffix}"
                for model in self.models
            )
            + "".join(
                f"; every combination {column_set.describe(self.unit_description)}, too"
                for column_set in self.column_sets
            )
            + ("; classes that failed may have been withheld" if self.withhold_failing else "")
        )

    @property
    def _null_suffix(self) -> str:
        """How NULL is counted, as a suffix of the guarantee; empty if there is none."""
        if not self.suppresses_cells:
            return NULL_SUFFIXES.get(self.nulls, "")
        return f", NULL counted as a value{self._suppression_suffix}"

    @property
    def _suppression_suffix(self) -> str:
        """Which values may be NULL, and which records were withheld."""
        withheld = NULL_SUFFIXES["suppress"] if self.nulls == "suppress" else ""
        return f"; values may be released as NULL{withheld}"

    def summarize_recount(self, recount: Recount) -> str:
        """What a recount of the published release counted; the release itself holds rows only."""
        return "rows"

    def check(self, counts: Counts, expected: ExpectedRelease) -> Verdict:
        """Check the counts before the release becomes visible, and return the verdict.

        Raises
        ------
        SourceChanged : the number of rows differs from the number of records.
        RecountFailed : a class is too small, has too few persons or violates a model, or a column
            has unexpected NULLs.
        """
        self._require_rows(counts.rows, expected)
        verdict = self.verdict(counts, self._require_models(counts, expected))
        if not self.column_sets:
            return verdict
        return replace(verdict, rarest_in_sets=self.require_sets(counts))

    def require_sets(self, counts: Counts, hint: str = REPORT_IT) -> tuple[int, ...]:
        """Check the sets of columns; return how many rows share the rarest combination of each.

        Counts persons instead of rows if k counts persons.

        Raises
        ------
        RecountFailed : fewer rows or persons share a combination than the k of its set.
        """
        rarest_in_sets = self._count_rarest_in_sets(counts)
        for column_set, smallest in zip(self.column_sets, rarest_in_sets, strict=True):
            # A release without rows has no combinations. ``counts.rows`` is the recount of rows.
            if counts.rows.rows and smallest < int(column_set.k or self.k):
                raise RecountFailed(
                    f"A combination of values of ({', '.join(column_set.columns)}) is shared by"
                    f" {smallest} {self.unit}, fewer than k = {column_set.k}.",
                    hint=hint,
                )
        return rarest_in_sets

    def _count_rarest_in_sets(self, counts: Counts) -> tuple[int, ...]:
        """The number of rows or persons that share the rarest combination, for each set."""
        return tuple(map(self.counted_k, counts.further_sets))

    def _require_models(
        self, counts: Counts, expected: ExpectedRelease
    ) -> tuple[CountedModel, ...]:
        """The privacy models with the levels that all classes reach; raises RecountFailed.

        The level of a model is its parameter, such as the l of l-diversity.
        """
        return require_levels(self.models, expected.sensitive, counts)

    def verdict(self, counts: Counts, counted_models: tuple[CountedModel, ...]) -> Verdict:
        """Check the counts of rows and persons, and return the verdict.

        Parameters
        ----------
        counted_models : the privacy models with the levels that all classes reach.

        Raises
        ------
        RecountFailed : a class has too few persons.
        """
        smallest = counts.rows.smallest
        return Verdict(k=smallest, rarest_combination_size=smallest, models=counted_models)

    def _require_rows(self, recount: Recount, expected: ExpectedRelease) -> None:
        """Check the numbers of rows, of rows per class and of rows with NULL."""
        if recount.rows != expected.n_rows:
            raise SourceChanged(
                f"{expected.n_rows} records were read, but {recount.rows} rows were written.",
                hint=(
                    "The source gives different rows each time it is read. Anonymize a table, or"
                    ' name columns that are unique for each row: `key=["…"]`.'
                ),
            )
        counted = self.counted_k(recount)
        if self.classes_have_k_rows and counted < self.k:
            raise RecountFailed(
                f"{self.describe_k('counted in the database', counted)}, fewer than k = {self.k};"
                " nothing was published.",
                hint=REPORT_IT,
            )
        releases_nulls = self.suppresses_cells or self.nulls in RELEASED_NULLS
        null_rows = expected.null_rows if releases_nulls else 0
        # Columns of strata keep their NULLs, and the recount includes these. So the number to
        # expect is only known without strata.
        if not self.by and recount.null_rows != null_rows:
            raise RecountFailed(
                f"{pluralize(recount.null_rows, 'row')} with a NULL written, {null_rows} expected;"
                " nothing was published.",
                hint=REPORT_IT,
            )


@dataclass(frozen=True)
class PersonGuarantee(Guarantee):
    """At least k persons share every combination of released values.

    ``entity_columns`` has the column that identifies them.
    """

    @property
    def entity(self) -> str:
        """The entity column, whose values identify persons."""
        [entity] = self.entity_columns
        return entity

    @property
    def unit_description(self) -> str:
        """What k counts, with the column whose values identify persons."""
        return f'persons (distinct values of "{self.entity}")'

    @property
    def models_unit_suffix(self) -> str:
        """What privacy models count, as a suffix to their description."""
        return f", counted in {PERSONS}"

    @property
    def unit(self) -> str:
        """What k counts, in a word or two."""
        return "persons"

    def _unit_warnings(self) -> tuple[str, ...]:
        return (f'k counts persons, by the values of "{self.entity}", which are not released.',)

    def summarize_recount(self, recount: Recount) -> str:
        """What a recount of the published release counted; the release itself holds rows only."""
        return f'rows; the release counted persons by "{self.entity}", which it does not hold'

    def _require_models(
        self, counts: Counts, expected: ExpectedRelease
    ) -> tuple[CountedModel, ...]:
        person_counts = counts.persons[self.entity]
        counted_models = require_levels(self.models, expected.sensitive, counts, person_counts)
        return tuple(
            replace(counted_model, model=f"{counted_model.model}{self.models_unit_suffix}")
            for counted_model in counted_models
        )

    def _count_rarest_in_sets(self, counts: Counts) -> tuple[int, ...]:
        # ``further_sets`` are the recounts of the column sets, in their order.
        person_recounts = counts.persons[self.entity].further_sets if counts.persons else ()
        # Both counts group the same rows, so the sizes of the combinations must agree.
        if person_recounts and [recount.histogram for recount in person_recounts] != [
            recount.histogram for recount in counts.further_sets
        ]:
            raise RecountFailed(
                "The combinations of a set of columns in the written table differ from those of"
                " the rows whose persons were counted; nothing was published.",
                hint=REPORT_IT,
            )
        # A recount of a published release has no counts of persons, so use those of rows.
        return tuple(recount.smallest for recount in person_recounts or counts.further_sets)

    def verdict(self, counts: Counts, counted_models: tuple[CountedModel, ...]) -> Verdict:
        """Check the counts of rows and persons, and return the verdict."""
        # Class sizes in persons. They were counted with the entity column, which the written table
        # does not have.
        recount = counts.persons[self.entity]
        if recount.histogram != counts.rows.histogram:
            raise RecountFailed(
                "The class sizes of the written table differ from those of the rows whose persons"
                " were counted; nothing was published.",
                hint=REPORT_IT,
            )
        if recount.smallest < self.k:
            raise RecountFailed(
                f"The class with the fewest persons has {recount.smallest} distinct values of"
                f' "{self.entity}", fewer than k = {self.k}; nothing was published.',
                hint=REPORT_IT,
            )
        return Verdict(
            k=recount.smallest,
            rarest_combination_size=recount.smallest,
            models=counted_models,
            persons=recount.persons,
            ledger_values={"entity": self.entity, "persons": recount.persons},
            model_ledger_values={"counted_in": PERSONS},
            unit_suffix=f' (persons: distinct values of "{self.entity}", {recount.persons} in all)',
        )


@dataclass(frozen=True)
class SplitPersonGuarantee(PersonGuarantee):
    """Like ``PersonGuarantee``, but rows of a person may lie in different classes."""

    def describe(self, columns: Collection[str]) -> str:
        """What a verified release of these quasi-identifiers guarantees, and its limits."""
        return (
            f"{super().describe(columns)}; ROWS OF ONE PERSON MAY LIE IN DIFFERENT CLASSES: this"
            " holds for each row by itself, and not for someone who knows several rows of a person"
        )

    def _unit_warnings(self) -> tuple[str, ...]:
        return (
            *super()._unit_warnings(),
            "Someone who knows several rows of a person can join the classes of these rows, which"
            " fewer than k persons may share.",
        )

    def summarize_recount(self, recount: Recount) -> str:
        """What a recount of the published release counted; the release itself holds rows only."""
        return (
            f"{super().summarize_recount(recount)}; rows of one person may lie in different classes"
        )

    def _require_models(
        self, counts: Counts, expected: ExpectedRelease
    ) -> tuple[CountedModel, ...]:
        try:
            return super()._require_models(counts, expected)
        except RecountFailed as error:
            # Classes with the same released values form one class, in which a person counts once
            # per sensitive value.
            raise RecountFailed(
                error.message,
                hint="Classes with the same released values form one class, and a person with rows"
                " in several of them counts once. Relax the level of the model, or use"
                ' `persons="whole"`.',
            ) from None


@dataclass(frozen=True)
class ChainTableGuarantee(PersonGuarantee):
    """A release of one table of a chain, in which k counts persons with rows in any table."""

    @property
    def has_k_anonymous_rows(self) -> bool:
        """False: only one of k persons may have a row in this table."""
        return False

    @property
    def classes_have_k_rows(self) -> bool:
        """False: a class may have fewer rows than persons in this table."""
        return False

    def summarize_recount(self, recount: Recount) -> str:
        """What a recount of the published release counted; the release itself holds rows only."""
        return (
            "rows of one table; the chain counted persons over all of its tables, and fewer than k"
            " rows may share a combination here"
        )
