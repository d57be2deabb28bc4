"""The two ports of a run: what is read from, and what is written to.

A database answers through ``sql_source`` and ``sql_target``, a data frame through ``frame``.
Neither keeps anything of a run: what one step found is handed to the next as plain values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dbanon.advice.profile import Profile
from dbanon.data.counts import Counts, JointHistories, Questions
from dbanon.data.frozen import dataclass
from dbanon.data.microdata import ColumnRoles, Microdata
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute
from dbanon.hierarchy.edges import Pulse
from dbanon.hierarchy.spec import HierarchySpec
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job import request
from dbanon.job.job import Job
from dbanon.job.pseudonym import PseudonymKey
from dbanon.ledger.source_history import EarlierRelease, SourceHistory
from dbanon.release.attribute_disclosure import Originals, TellingColumn, ValueGroups
from dbanon.release.homogeneity import ClassHomogeneity
from dbanon.release.recode import Release
from dbanon.release.report import Report
from dbanon.sessions.base import Output, Relation
from dbanon.sessions.names import RelationName

# Called with the share of a step that is done.
# What hints about data frames say in place of "in a view".
IN_FRAME = "in the data frame"
Progress = Callable[[float], None]


@dataclass(frozen=True, eq=False)
class Draft:
    """A release that is not written yet, with all that it was made of.

    Parameters
    ----------
    wanted : the columns that were read of the relation.
    microdata : the records that were read.
    release : their classes and released values.
    fingerprint : of what was read, and how; None where none was taken.
    state : what was known of the source before it was read, by which it is known again.
    pseudonym_key : of the columns that are released as pseudonyms; None where none is.
    """

    job: Job
    output: Output
    relation: Relation
    wanted: ColumnRoles
    microdata: Microdata
    release: Release
    fingerprint: str | None = None
    state: Mapping[str, Any] = field(default_factory=dict)
    pseudonym_key: PseudonymKey | None = None
    source_counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """The released quasi-identifiers and the strata: what the rows of a class share."""
        return (*(column.attribute.name for column in self.release.columns), *self.job.by)

    @property
    def originals(self) -> Originals:
        """What the released rows were, and how far the release hides it."""
        return Originals(self.microdata, self.release.partition, self.release.columns)


def request_of(draft: Draft) -> dict[str, Any]:
    """What a release was asked for, its source by the name that it was found under."""
    job = replace(draft.job, table=str(draft.relation.name))
    return request.request_of(job, draft.state)


@dataclass(frozen=True, eq=False)
class Written:
    """A release that is written, and not visible yet. Each store adds what it needs to know."""

    draft: Draft


@dataclass(frozen=True)
class SourceCounts:
    """How many rows, persons and NULLs a source has, with rows that a release withholds.

    Parameters
    ----------
    totals : of ``rows`` and ``persons`` those that were counted.
    nulls : rows without a value, by column.
    """

    totals: Mapping[str, int]
    nulls: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class LastCounts:
    """The counts of a job's last release."""

    release_id: str
    counts: SourceCounts


class Source(Protocol):
    """What is read, as one snapshot has it."""

    @property
    def drawn(self) -> Mapping[str, Any]:
        """How many rows came from elsewhere into this process, and how; nothing where none did."""

    def describe(self, job: Job) -> Relation:
        """The relation of a job, with the types of all columns that the job names.

        Raises
        ------
        TableNotFound, ColumnNotFound : it is not there.
        """

    def locate(self, relation: Relation, job: Job, names: Sequence[str]) -> Relation:
        """The relation with the way to find its rows again, after all checks of rights and key.

        Parameters
        ----------
        names : the columns that are read or copied.

        Raises
        ------
        KeyRequired, InsufficientRights, UnsupportedType : the rows cannot be read, or not be found.
        """

    def state(self, relation: Relation) -> Mapping[str, Any]:
        """What is known of it before it is read, by which it is known again; plain values."""

    def pin(self, relation: Relation, names: Sequence[str]) -> Relation:
        """The relation as one snapshot has it until the run ends, with these columns."""

    def inspect(self, relation: Relation, attributes: Sequence[Attribute]) -> tuple[Attribute, ...]:
        """The attributes with what only their values tell, such as an undeclared scale."""

    def hierarchy(self, column: str, spec: HierarchySpec, pulse: Pulse) -> Hierarchy:
        """A hierarchy that a table holds, or that is stored by name.

        Raises
        ------
        DbanonError : of the class that says why it cannot be read.
        """

    def require_leaves(self, attribute: Attribute) -> None:
        """Check that a sensitive column's values may be leaves of a hierarchy.

        Raises
        ------
        InvalidParameter : databases spell them differently.
        """

    def distinct(self, relation: Relation, attribute: Attribute) -> list[str]:
        """The values of a column but for NULL, as leaves spell them, in the column's order."""

    def count(self, relation: Relation) -> int:
        """The number of its rows."""

    def totals(
        self, relation: Relation, persons: Sequence[Attribute], columns: Sequence[str]
    ) -> SourceCounts:
        """Its rows, its persons by their column, and the NULLs in columns.

        Parameters
        ----------
        persons : one column, or none.
        """

    def digest(
        self, relation: Relation, names: Sequence[str], salt: int
    ) -> tuple[str | int, ...] | None:
        """What tells its rows, by these columns, from others; None where nothing does."""

    def profile(self, relation: Relation) -> Profile:
        """What counts tell of all columns; no value of any is read."""

    def numbers_of_persons(self, relation: Relation) -> Mapping[str, str]:
        """The columns that look like numbers of persons, and why, as ``advice.persons`` says it."""

    def identifiers(self, relation: Relation, names: Sequence[str]) -> Mapping[str, str]:
        """Those of these columns that look like identifiers, and why: a code of ``REASONS``."""

    def spellings(self, relation: Relation, person: Attribute) -> Mapping[str, int]:
        """How many persons an identifier of texts tells, by how it is normalized.

        Not at all, which is empty, as ``person`` is, and ``CASEFOLD``.
        """

    def read(
        self, relation: Relation, wanted: ColumnRoles, job: Job, progress: Progress
    ) -> Microdata:
        """The wanted columns and nothing else, in record order, within the job's memory limit."""

    def exact_totals(
        self,
        relation: Relation,
        microdata: Microdata,
        partition: Partition,
        attributes: Sequence[Attribute],
    ) -> Mapping[str, NDArray[np.object_]]:
        """Sums in each class, (n_classes,) of Python integers, in units of 10**-scale."""

    def kept_rows(
        self, relation: Relation, names: Sequence[str], chunk_rows: int
    ) -> Iterator[tuple[NDArray[np.int64], list[tuple[Any, ...]]]]:
        """Keys, int64 (c, m), and the values of these columns, row by row, in pieces."""

    def pads(self, attribute: Attribute) -> bool:
        """Whether ``kept_rows`` has the column's values with spaces behind them that do not count.

        Its database leaves them out where it makes text of such a value.
        """

    def groups(self, draft: Draft, name: str) -> ValueGroups:
        """The released rows by their value of a column that is released as it is."""

    def originals(self, draft: Draft, name: str, columns: Sequence[str]) -> ValueGroups:
        """The released rows by their original value of a quasi-identifier.

        Parameters
        ----------
        columns : columns that are released as they are, whose values the groups compare.
        """

    def different(self, draft: Draft, name: str) -> tuple[int, int]:
        """The released rows that have a value in a column, and how many texts these have."""

    def classes_below(self, draft: Draft, partition: Partition, name: str) -> tuple[int, int]:
        """How many classes there are, and how many hold fewer than k values of a column.

        Parameters
        ----------
        partition : the classes as readers see them: of those that are released alike one.
        """


W = TypeVar("W", bound=Written)


class Target(Protocol[W]):
    """Where a release is written. Nothing of it is visible before ``publish`` has ended."""

    def plan(self, job: Job, release_id: str) -> Output:
        """The output's place, after all checks that need no row; nothing is changed.

        Raises
        ------
        OutputExists, OutputNotOurs, InsufficientRights, LedgerNotTrusted : it may not be made.
        """

    def earlier(
        self, source: Source, relation: Relation, state: Mapping[str, Any]
    ) -> SourceHistory:
        """The releases of a relation that were made before, as far as ledgers here have them.

        Parameters
        ----------
        state : as of ``Source.state``.
        """

    def last_types(self, job: Job, source: RelationName) -> Mapping[str, str]:
        """The types of the source's columns at the job's last release, where there is one."""

    def last_counts(
        self, job: Job, source: RelationName, output: RelationName
    ) -> LastCounts | None:
        """The counts of the job's last release of this source and output; None without one."""

    def require_ranges(self, attribute: Attribute) -> None:
        """Check that ranges of a column's values have a type here.

        Raises
        ------
        UnsupportedType, InvalidParameter : they have none.
        """

    def copies_from(self, source: Source) -> bool:
        """True where kept columns have to travel: source and target are not one."""

    def require_type(self, attribute: Attribute) -> None:
        """Check that a column from elsewhere has a type here.

        Raises
        ------
        UnsupportedType : it has none.
        """

    def require_passthrough(
        self, source: Source, relation: Relation, columns: Sequence[Attribute]
    ) -> None:
        """Check that these columns can travel from the source to here with the client, unread.

        Raises
        ------
        InvalidParameter : here none can, or they travel in another way.
        UnsupportedType : one cannot for its type.
        """

    def write(self, draft: Draft, source: Source, progress: Progress) -> W:
        """Write a release, in random row order, where nobody sees it.

        Raises
        ------
        InvalidParameter, NameTooLong : two columns would have one name, or one that does not fit.
        """

    def count(self, written: W, questions: Questions) -> Counts:
        """The answers, counted on what was written."""

    def require_pseudonyms(self, source: Source) -> None:
        """Check that keyed hashes of values can be made here, without a trace of their key.

        Raises
        ------
        InvalidParameter : they cannot.
        """

    def different(self, written: W, name: str) -> tuple[int, int]:
        """The written rows that have a value in a column, and how many different ones they have."""

    def sampled(self, written: W, names: Sequence[str]) -> Mapping[str, TellingColumn]:
        """Kept columns of which a sample of what was written proves that they tell rows apart."""

    def profiles(self, written: W, columns: Sequence[str], name: str) -> tuple[int, int]:
        """The values of a column that several written rows share, and how many of them no other
        value has the profiles of: what its rows show in ``columns``.
        """

    def homogeneity(self, written: W, columns: Sequence[str], name: str) -> ClassHomogeneity:
        """The classes in which all written rows share one value of a column; NULL is a value.

        Parameters
        ----------
        columns : the columns whose combinations of values are classes.
        """

    def joint_histories(
        self, written: W, earlier: Sequence[EarlierRelease], k: int
    ) -> JointHistories | None:
        """The joint histories over what was written and earlier releases of its source and entity.

        None where no record of persons is kept.
        """

    def digest(self, written: W) -> str | None:
        """The digest of the rows that were written; None where there is none."""

    def publish(self, written: W, report: Report, counts: Counts, elapsed: float) -> str:
        """Give the release its place, and note it with its run; the time that it was noted with.

        Parameters
        ----------
        elapsed : seconds since the run began.

        Raises
        ------
        OutputExists, SourceChanged : something else has its place now.
        """
