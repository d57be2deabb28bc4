"""The two ports of a run: the source that it reads, and the target that it writes.

Databases implement them in ``sql_source`` and ``sql_target``, data frames in ``frame``. Neither
keeps any state of a run: each step passes its results to the next one as plain values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dbanon.advice.profile import Profile
from dbanon.data.counts import CountRequests, Counts, JointHistories
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
from dbanon.release.attribute_disclosure import DisclosiveColumn, Originals, ValueGroups
from dbanon.release.homogeneity import ClassHomogeneity
from dbanon.release.recode import Release
from dbanon.release.report import Report
from dbanon.sessions.base import Output, Relation
from dbanon.sessions.names import RelationName

# What hints about data frames say in place of "in a view".
PLACE_OF_FRAMES = "in the data frame"
# Called with the completed share of a step.
Progress = Callable[[float], None]


@dataclass(frozen=True, eq=False)
class PreparedRelease:
    """A release that is not written yet, with everything it was made from.

    Parameters
    ----------
    roles : the columns that were read from the relation, by role.
    microdata : the records that were read.
    release : their classes and released values.
    fingerprint : identifies the rows and options that were read; None if none was taken.
    state : facts recorded about the source before reading, by which a later run recognizes it.
    pseudonym_key : the key of columns released as pseudonyms; None if there are none.
    """

    job: Job
    output: Output
    relation: Relation
    roles: ColumnRoles
    microdata: Microdata
    release: Release
    fingerprint: str | None = None
    state: Mapping[str, Any] = field(default_factory=dict)
    pseudonym_key: PseudonymKey | None = None
    source_counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns whose values the rows of a class share: quasi-identifiers and strata."""
        return (*(column.attribute.name for column in self.release.columns), *self.job.by)

    @property
    def originals(self) -> Originals:
        """The original values of the released rows, with their classes and released values."""
        return Originals(self.microdata, self.release.partition, self.release.columns)


def request_of(draft: PreparedRelease) -> dict[str, Any]:
    """The request of a release, with the resolved name of its source."""
    job = replace(draft.job, table=str(draft.relation.name))
    return request.request_of(job, draft.state)


@dataclass(frozen=True, eq=False)
class StagedRelease:
    """A release that is written but not yet visible; each store adds its own fields."""

    draft: PreparedRelease


@dataclass(frozen=True)
class SourceCounts:
    """The rows, persons and NULLs of a source, including rows that a release withholds.

    Parameters
    ----------
    totals : the counts of ``rows`` and ``persons``, as far as they were counted.
    nulls : the rows without a value, by column.
    """

    totals: Mapping[str, int]
    nulls: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class LastCounts:
    """The counts of a job's last release."""

    release_id: str
    counts: SourceCounts


class Source(Protocol):
    """The relation that a run reads, in one snapshot."""

    @property
    def drawn(self) -> Mapping[str, Any]:
        """How many rows were drawn into this process, and how; empty if none were."""

    def describe(self, job: Job) -> Relation:
        """Look up the relation of a job, with the types of all columns that the job names.

        Raises
        ------
        TableNotFound, ColumnNotFound : the relation or a column does not exist.
        """

    def locate(self, relation: Relation, job: Job, names: Sequence[str]) -> Relation:
        """Check rights and key, and add to the relation how its rows can be addressed.

        Parameters
        ----------
        names : the columns that are read or copied.

        Raises
        ------
        KeyRequired, InsufficientRights, UnsupportedType : the rows cannot be read or addressed.
        """

    def state(self, relation: Relation) -> Mapping[str, Any]:
        """Plain facts about the relation, recorded before reading, to recognize it later."""

    def pin(self, relation: Relation, names: Sequence[str]) -> Relation:
        """Pin these columns of the relation to one snapshot until the run ends."""

    def inspect(self, relation: Relation, attributes: Sequence[Attribute]) -> tuple[Attribute, ...]:
        """Complete the attributes from their values, for example with an undeclared scale."""

    def hierarchy(self, column: str, spec: HierarchySpec, pulse: Pulse) -> Hierarchy:
        """Load a hierarchy from a table, or one that is stored by name.

        Raises
        ------
        DbanonError : it cannot be read; the class says why.
        """

    def require_leaves(self, attribute: Attribute) -> None:
        """Check that a sensitive column's values can be leaves of a hierarchy.

        Raises
        ------
        InvalidParameter : their text differs between databases.
        """

    def distinct(self, relation: Relation, attribute: Attribute) -> list[str]:
        """The distinct values of a column except NULL, as leaf labels, in the column's order."""

    def count(self, relation: Relation) -> int:
        """Count the rows."""

    def totals(
        self, relation: Relation, persons: Sequence[Attribute], columns: Sequence[str]
    ) -> SourceCounts:
        """Count the rows, the persons, and the NULLs by column.

        Parameters
        ----------
        persons : the person column, if any.
        """

    def digest(
        self, relation: Relation, names: Sequence[str], salt: int
    ) -> tuple[str | int, ...] | None:
        """Fingerprint the rows over these columns; None if the source has no digest."""

    def profile(self, relation: Relation) -> Profile:
        """Profile all columns by counts, without reading a value."""

    def find_identifier_columns(self, relation: Relation) -> Mapping[str, str]:
        """The columns that look like person identifiers, and why, as in ``advice.persons``."""

    def identifiers(self, relation: Relation, names: Sequence[str]) -> Mapping[str, str]:
        """Which of these columns look like identifiers, and why: a code of ``REASONS``."""

    def spellings(self, relation: Relation, person: Attribute) -> Mapping[str, int]:
        """Count the persons that a text identifier distinguishes, by normalization.

        The normalizations are none (empty), that of ``person``, and ``CASEFOLD``.
        """

    def read(
        self, relation: Relation, roles: ColumnRoles, job: Job, progress: Progress
    ) -> Microdata:
        """Read only these columns, in record order, within the job's memory limit."""

    def exact_totals(
        self,
        relation: Relation,
        microdata: Microdata,
        partition: Partition,
        attributes: Sequence[Attribute],
    ) -> Mapping[str, NDArray[np.object_]]:
        """Sum each class exactly: (n_classes,) of Python integers, in units of 10**-scale."""

    def kept_rows(
        self, relation: Relation, names: Sequence[str], chunk_rows: int
    ) -> Iterator[tuple[NDArray[np.int64], list[tuple[Any, ...]]]]:
        """Yield keys, int64 (c, m), and the values of these columns, row by row, in batches."""

    def has_padding(self, attribute: Attribute) -> bool:
        """Whether ``kept_rows`` pads the column's values with insignificant spaces.

        The database itself drops them when it converts such a value to text.
        """

    def groups(self, draft: PreparedRelease, name: str) -> ValueGroups:
        """Group the released rows by their value of a retained column."""

    def originals(self, draft: PreparedRelease, name: str, columns: Sequence[str]) -> ValueGroups:
        """Group the released rows by their original value of a quasi-identifier.

        Parameters
        ----------
        columns : retained columns whose values the groups compare.
        """

    def different(self, draft: PreparedRelease, name: str) -> tuple[int, int]:
        """Count the released rows with a value in a column, and its distinct texts."""

    def classes_below(
        self, draft: PreparedRelease, partition: Partition, name: str
    ) -> tuple[int, int]:
        """Count the classes, and those with fewer than k distinct values of a column.

        Parameters
        ----------
        partition : the classes as readers see them: classes with equal released values are merged.
        """


W = TypeVar("W", bound=StagedRelease)


class Target(Protocol[W]):
    """The place that a release is written to; nothing is visible before ``publish`` returns."""

    def plan(self, job: Job, release_id: str) -> Output:
        """Plan the output after all checks that need no rows; changes nothing.

        Raises
        ------
        OutputExists, OutputNotOurs, InsufficientRights, LedgerNotTrusted : it cannot be created.
        """

    def earlier(
        self, source: Source, relation: Relation, state: Mapping[str, Any]
    ) -> SourceHistory:
        """The earlier releases of a relation that the ledger of this target records.

        Parameters
        ----------
        state : from ``Source.state``.
        """

    def last_types(self, job: Job, source: RelationName) -> Mapping[str, str]:
        """The source's column types at the job's last release; empty without one."""

    def last_counts(
        self, job: Job, source: RelationName, output: RelationName
    ) -> LastCounts | None:
        """The counts of the job's last release of this source and output; None without one."""

    def require_ranges(self, attribute: Attribute) -> None:
        """Check that the target has a range type for a column's values.

        Raises
        ------
        UnsupportedType, InvalidParameter : it has none.
        """

    def copies_from(self, source: Source) -> bool:
        """Whether retained columns must be copied: source and target are not the same database."""

    def require_type(self, attribute: Attribute) -> None:
        """Check that the target has a type for a copied column.

        Raises
        ------
        UnsupportedType : it has none.
        """

    def require_passthrough(
        self, source: Source, relation: Relation, columns: Sequence[Attribute]
    ) -> None:
        """Check that the client can pass these columns through from the source without parsing.

        Raises
        ------
        InvalidParameter : the target supports no passthrough, or copies the columns otherwise.
        UnsupportedType : a column's type cannot be passed through.
        """

    def write(self, draft: PreparedRelease, source: Source, progress: Progress) -> W:
        """Write a release in random row order to a hidden table.

        Raises
        ------
        InvalidParameter, NameTooLong : column names would repeat, or be too long.
        """

    def count(self, written: W, questions: CountRequests) -> Counts:
        """Answer the questions by counting the written rows."""

    def require_pseudonyms(self, source: Source) -> None:
        """Check that the target can compute keyed hashes without leaving a trace of the key.

        Raises
        ------
        InvalidParameter : it cannot.
        """

    def different(self, written: W, name: str) -> tuple[int, int]:
        """Count the written rows with a value in a column, and its distinct values."""

    def sampled(self, written: W, names: Sequence[str]) -> Mapping[str, DisclosiveColumn]:
        """Retained columns that a sample of the written rows proves to make rows unique."""

    def profiles(self, written: W, columns: Sequence[str], name: str) -> tuple[int, int]:
        """Count values of a column that several written rows share, and those with unique profiles.

        The profile of a value is what its rows show in ``columns``.
        """

    def homogeneity(self, written: W, columns: Sequence[str], name: str) -> ClassHomogeneity:
        """Count the classes in which all written rows share one value of a column, or NULL.

        Parameters
        ----------
        columns : the columns whose combinations of values are classes.
        """

    def joint_histories(
        self, written: W, earlier: Sequence[EarlierRelease], k: int
    ) -> JointHistories | None:
        """Count joint histories over this release and earlier ones of its source and entity.

        None if no record of persons is kept.
        """

    def digest(self, written: W) -> str | None:
        """Compute the digest of the written rows; None if the target has no digest."""

    def publish(self, written: W, report: Report, counts: Counts, elapsed: float) -> str:
        """Publish the release and record it with its run; returns the recorded time.

        Parameters
        ----------
        elapsed : seconds since the run began.

        Raises
        ------
        OutputExists, SourceChanged : the output's name has been taken meanwhile.
        """
