"""Guarantees: what a release promises, what is counted for it, and what the counts must be.

A guarantee is a value. A store answers its questions on what was written, and the guarantee gives
its verdict on the answers; no other file asks which one it is.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from dbanon.data.counts import Counts, Questions, Recount
from dbanon.data.frozen import dataclass
from dbanon.errors import InvalidParameter, RecountFailed, SourceChanged, counted
from dbanon.job.nulls import RELEASED_NULLS
from dbanon.job.sets import ColumnSet
from dbanon.job.verdict import Expected, Verdict
from dbanon.measures import Model
from dbanon.measures.models import CountedModel
from dbanon.measures.recount import levels_reached
from dbanon.methods.registry import ROW_GUARANTEE, Method
from dbanon.recoding import Recoding

ROWS, PER_ATTRIBUTE = "rows", "per_attribute"
# Whether a class holds all rows of its persons, or classes may part them.
WHOLE, PARTED = PERSON_ROWS = ("whole", "rows")
# What privacy models count, as the ledger notes it.
PERSONS = "persons"
GUARANTEES = (ROWS, PER_ATTRIBUTE)

REPORT_IT = "This is an error in dbanon: please report it."
OF_TABLES = (
    "k counts persons over all tables of the chain. Which persons of a class have rows in this"
    " table is a kept value: a combination may be in fewer than k rows here, and someone who knows"
    " which persons have one knows more."
)
ABOUT_NULLS = {
    "category": ", NULL counted as a value",
    "merge": ", NULL counted as a value; values of rare patterns of NULLs may be released as NULL",
    "suppress": "; records with a NULL were withheld",
}


@dataclass(frozen=True)
class Guarantee:
    """Every combination of released values is shared by k rows.

    Parameters
    ----------
    k : the fewest that may share released values.
    by : columns of strata, within which it holds, too.
    persons : columns that are read so that their values can be counted, and not released.
    models : what every class keeps to beside k.
    also : sets of columns whose combinations are shared by a k of their own; of a release that is
        written, or in the ledger, by the names that it has there.
    nulls, withhold_failing : as in ``Policy``.
    method : what the method's classes are, in words.
    """

    k: int
    by: tuple[str, ...] = ()
    persons: tuple[str, ...] = ()
    models: tuple[Model, ...] = ()
    also: tuple[ColumnSet, ...] = ()
    nulls: str = "error"
    withhold_failing: bool = False
    method: str = ROW_GUARANTEE

    @property
    def looked_at(self) -> tuple[str, ...]:
        """Columns that are not released, and needed to count."""
        return self.persons

    @property
    def what(self) -> str:
        """What k counts."""
        return "rows"

    @property
    def models_count(self) -> str:
        """What privacy models count, in words behind them, where that is not rows."""
        return ""

    @property
    def unit(self) -> str:
        """What k counts, in one word or few."""
        return "rows"

    @property
    def bounds_rows(self) -> bool:
        """True when no combination of released values is shared by fewer than k."""
        return True

    @property
    def k_in_rows(self) -> bool:
        """True where each class that is counted on a release holds k of its rows."""
        return True

    def says_not(self, earlier_releases: str, models: bool) -> tuple[str, ...]:
        """What a reader may believe, and is not guaranteed.

        Parameters
        ----------
        earlier_releases : what was done about them, in words.
        models : True where privacy models hold, too.
        """
        return (
            "Nothing is guaranteed for columns that are copied as they are"
            + (", except by the privacy models named." if models else "."),
            "Someone who knows more about a person than these quasi-identifiers may find the row: a"
            " copied column that others know is in fact a quasi-identifier.",
            "A privacy model holds for its own column, at its level, and for nothing else."
            if models
            else "A class whose rows all have one sensitive value reveals that value.",
            f"Other releases of the same persons: {earlier_releases}. Two releases can each be"
            " k-anonymous while what they share is not.",
            "It is not differential privacy.",
            *self._of_what(),
        )

    def _of_what(self) -> tuple[str, ...]:
        return ("k counts rows. Where a person has several, fewer persons than k may share them.",)

    def check_policy(self, method: Method, recoding: Recoding) -> None:
        """Check that it can be wished for with this method and recoding.

        Raises
        ------
        InvalidParameter : it cannot.
        """

    def require(self, method: Method) -> None:
        """Check that the method gives what the release guarantees, before anything is read.

        Raises
        ------
        InvalidParameter : it groups attributes by themselves, and rows would not be k-anonymous.
        """
        if not method.gives.of_rows:
            raise InvalidParameter(
                f"Method {method.name} gives {method.sentence}: a release of it would fail the"
                " recount of its rows.",
                hint="Choose a method that groups rows. A release whose rows are not k-anonymous"
                ' needs `guarantee="per_attribute"`.',
            )

    def questions(
        self,
        columns: Collection[str],
        sensitive: tuple[str, ...] = (),
        leaves: frozenset[str] = frozenset(),
    ) -> Questions:
        """What has to be counted on what was written.

        Parameters
        ----------
        columns : the released quasi-identifiers; strata may be among them.
        sensitive, leaves : as in ``Questions``.
        """
        shared = tuple(dict.fromkeys([*columns, *self.by]))
        also = tuple(one.columns for one in self.also)
        return Questions(
            shared, persons=self.persons, sensitive=sensitive, leaves=leaves, also=also
        )

    def sentence(self, columns: Collection[str]) -> str:
        """What a verified release of these quasi-identifiers guarantees."""
        return (
            f"{self.method}: every combination of released values of"
            f" ({', '.join([*columns, *self.by])}) is shared by at least {self.k} {self.what} of"
            f" the release{ABOUT_NULLS.get(self.nulls, '')}"
            + "".join(
                f"; {model.describe()} in each class{self.models_count}" for model in self.models
            )
            + "".join(f"; every combination {one.describe(self.what)}, too" for one in self.also)
            + ("; classes that failed may have been withheld" if self.withhold_failing else "")
        )

    def told_of(self, recount: Recount) -> str:
        """What was counted when a published release was looked at again: rows are all it has."""
        return "rows"

    def check(self, counts: Counts, expected: Expected) -> Verdict:
        """The verdict on what was counted, before anyone can see what was written.

        Raises
        ------
        SourceChanged : there are more or fewer rows than records.
        RecountFailed : a class is too small, holds too few persons or breaks a model, or NULLs are
            where none may be.
        """
        self._require_rows(counts.rows, expected)
        found = self.verdict(counts, self._levels(counts, expected))
        return replace(found, also=self.require_sets(counts)) if self.also else found

    def require_sets(self, counts: Counts, hint: str = REPORT_IT) -> tuple[int, ...]:
        """The rows, or persons, that share the rarest combination of each set.

        Raises
        ------
        RecountFailed : they are fewer than the set's k.
        """
        found = self._of_sets(counts)
        for one, smallest in zip(self.also, found, strict=True):
            if counts.rows.rows and smallest < int(one.k or self.k):
                raise RecountFailed(
                    f"A combination of values of ({', '.join(one.columns)}) is shared by {smallest}"
                    f" {self.unit}, fewer than k = {one.k}.",
                    hint=hint,
                )
        return found

    def _of_sets(self, counts: Counts) -> tuple[int, ...]:
        return tuple(one.smallest for one in counts.also)

    def _levels(self, counts: Counts, expected: Expected) -> tuple[CountedModel, ...]:
        return levels_reached(self.models, expected.sensitive, counts)

    def verdict(self, counts: Counts, levels: tuple[CountedModel, ...]) -> Verdict:
        """The verdict on rows and persons that were counted, with the levels of the models.

        Raises
        ------
        RecountFailed : a class holds too few persons.
        """
        return Verdict(counts.rows.smallest, counts.rows.smallest, levels)

    def _require_rows(self, recount: Recount, expected: Expected) -> None:
        if recount.rows != expected.rows:
            raise SourceChanged(
                f"{expected.rows} records were read, but {recount.rows} rows were written.",
                hint=(
                    "The source gives different rows each time it is read. Anonymize a table, or"
                    ' name columns that are unique for each row: `key=["…"]`.'
                ),
            )
        if self.k_in_rows and recount.smallest < self.k:
            raise RecountFailed(
                "The smallest class counted in the database holds"
                f" {counted(recount.smallest, 'row')}, fewer than k = {self.k}; nothing was"
                " published.",
                hint=REPORT_IT,
            )
        null_rows = expected.null_rows if self.nulls in RELEASED_NULLS else 0
        # Strata keep their NULLs.
        if not self.by and recount.null_rows != null_rows:
            raise RecountFailed(
                f"{counted(recount.null_rows, 'row')} with a NULL written, {null_rows} expected;"
                " nothing was published.",
                hint=REPORT_IT,
            )


@dataclass(frozen=True)
class OfPersons(Guarantee):
    """Every combination of released values is shared by k persons, the values of one column."""

    @property
    def entity(self) -> str:
        """The column."""
        [entity] = self.persons
        return entity

    @property
    def what(self) -> str:
        """What k counts."""
        return f'persons (distinct values of "{self.entity}")'

    @property
    def models_count(self) -> str:
        """What privacy models count, in words behind them."""
        return f", counted in {PERSONS}"

    @property
    def unit(self) -> str:
        """What k counts, in one word or few."""
        return "persons"

    def _of_what(self) -> tuple[str, ...]:
        return (f'k counts persons, by the values of "{self.entity}", which are not released.',)

    def told_of(self, recount: Recount) -> str:
        """What was counted when a published release was looked at again: rows are all it has."""
        return f'rows; the release counted persons by "{self.entity}", which it does not hold'

    def _levels(self, counts: Counts, expected: Expected) -> tuple[CountedModel, ...]:
        persons = counts.persons[self.entity]
        levels = levels_reached(self.models, expected.sensitive, counts, persons)
        return tuple(replace(level, model=f"{level.model}{self.models_count}") for level in levels)

    def _of_sets(self, counts: Counts) -> tuple[int, ...]:
        persons = counts.persons[self.entity].also if counts.persons else ()
        if persons and [one.histogram for one in persons] != [one.histogram for one in counts.also]:
            raise RecountFailed(
                "The combinations of a set of columns in the written relation are not those of the"
                " rows whose persons were counted; nothing was published.",
                hint=REPORT_IT,
            )
        # What is looked at again has rows alone.
        return tuple(one.smallest for one in persons or counts.also)

    def verdict(self, counts: Counts, levels: tuple[CountedModel, ...]) -> Verdict:
        """The verdict on rows and persons that were counted, with the levels of the models."""
        found = counts.persons[self.entity]
        if found.histogram != counts.rows.histogram:
            raise RecountFailed(
                "The class sizes of the written relation are not those of the rows whose persons"
                " were counted; nothing was published.",
                hint=REPORT_IT,
            )
        if found.smallest < self.k:
            raise RecountFailed(
                f"The class of fewest persons holds {found.smallest} distinct values of"
                f' "{self.entity}", fewer than k = {self.k}; nothing was published.',
                hint=REPORT_IT,
            )
        return Verdict(
            found.smallest,
            found.smallest,
            levels,
            persons=found.persons,
            noted={"entity": self.entity, "persons": found.persons},
            of_models={"counted_in": PERSONS},
            counted=f' (persons: distinct values of "{self.entity}", {found.persons} in all)',
        )


@dataclass(frozen=True)
class OfPartedPersons(OfPersons):
    """The same where rows of one person may lie in different classes."""

    def sentence(self, columns: Collection[str]) -> str:
        """What a verified release of these quasi-identifiers guarantees, and what it does not."""
        return (
            f"{super().sentence(columns)}; ROWS OF ONE PERSON MAY LIE IN DIFFERENT CLASSES: this"
            " holds for each row by itself, and not for someone who knows several rows of a person"
        )

    def _of_what(self) -> tuple[str, ...]:
        return (
            *super()._of_what(),
            "Someone who knows several rows of a person can join the classes of these rows, which"
            " fewer than k persons may share.",
        )

    def told_of(self, recount: Recount) -> str:
        """What was counted when a published release was looked at again: rows are all it has."""
        return f"{super().told_of(recount)}; rows of one person may lie in different classes"

    def _levels(self, counts: Counts, expected: Expected) -> tuple[CountedModel, ...]:
        try:
            return super()._levels(counts, expected)
        except RecountFailed as error:
            # The classes of two layers that are released alike are one, in which a person with
            # one value in both counts once.
            raise RecountFailed(
                error.message,
                hint="Classes that are released alike are one class, which may keep to less where a"
                " person has rows in several of them. Ask for less of the model, for distinct_l, or"
                ' for `persons="whole"`.',
            ) from None


@dataclass(frozen=True)
class InTables(OfPersons):
    """The same of persons who have rows in any of the tables of a chain: this is one of them."""

    @property
    def bounds_rows(self) -> bool:
        """False: of k persons one may have a row in this table."""
        return False

    @property
    def k_in_rows(self) -> bool:
        """False, as ``bounds_rows``."""
        return False

    def told_of(self, recount: Recount) -> str:
        """What was counted when a published release was looked at again: rows are all it has."""
        return (
            "rows of one table; the chain counted persons over all of its tables, and fewer than k"
            " rows may share a combination here"
        )
