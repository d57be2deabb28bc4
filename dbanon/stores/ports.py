"""The two interfaces of a run: the source that it reads, and the target that it writes.

Databases implement them in ``sql_source`` and ``sql_target``, data frames in ``frame``. Sources and
targets keep no state of a run: each step passes its results to the next one as values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dbanon.advice.profile import Profile
from dbanon.data.bands import CopyCoding
from dbanon.data.counts import CodedCounts, CountRequests, Counts, JointHistories
from dbanon.data.date_range import DateRange
from dbanon.data.frozen import dataclass
from dbanon.data.microdata import ColumnRoles, Microdata
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute
from dbanon.data.types import JsonMapping, JsonObject, SqlRow
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

# Replaces "in a view" in hints about data frames, which have no views.
IN_DATA_FRAME = "in the data frame"
# Called with the completed share of a step, from 0 to 1.
Progress = Callable[[float], None]


@dataclass(frozen=True, eq=False)
class PreparedRelease:
    """A release that is computed but not written yet, with its inputs.

    Variables of this class are named ``draft``.

    Parameters
    ----------
    output : where the release will be written.
    relation : the source.
    roles : the columns that were read from the source, by role.
    microdata : the records that were read.
    release : the classes of these records, with their released values.
    fingerprint : hash of the source rows and of the options; None if it was not computed.
    source_state : the result of ``Source.describe_state`` before the rows were read.
    pseudonym_key : the key for columns released as pseudonyms; None if there are none.
    copy_codings : how the numbers of copied columns are coded, by column.
    date_offsets : int32 (n,), by how many days the dates of each record are shifted; None if none
        are.
    source_counts : the numbers of ``rows`` and of ``persons`` of the source, as in
        ``SourceCounts.totals``; they are recorded for the next run of the job. Empty unless the
        job expects counts.
    """

    job: Job
    output: Output
    relation: Relation
    roles: ColumnRoles
    microdata: Microdata
    release: Release
    fingerprint: str | None = None
    source_state: JsonMapping = field(default_factory=dict)
    pseudonym_key: PseudonymKey | None = None
    source_counts: Mapping[str, int] = field(default_factory=dict)
    date_offsets: NDArray[np.int32] | None = None
    copy_codings: Mapping[str, CopyCoding] = field(default_factory=dict)

    @property
    def class_columns(self) -> tuple[str, ...]:
        """The columns whose values the rows of a class share: quasi-identifiers and strata."""
        return (*(column.attribute.name for column in self.release.columns), *self.job.by)

    @property
    def originals(self) -> Originals:
        """The original values of the released rows, with their classes and released values."""
        return Originals(self.microdata, self.release.partition, self.release.columns)


def build_request(draft: PreparedRelease) -> JsonObject:
    """Build the request to record with a release, with the resolved name of its source."""
    job = replace(draft.job, table=str(draft.relation.name))
    return request.build_request(job, draft.source_state)


@dataclass(frozen=True, eq=False)
class StagedRelease:
    """A release that is written but not yet visible; each store adds its own fields."""

    draft: PreparedRelease


@dataclass(frozen=True)
class SourceCounts:
    """The rows, persons and NULLs of a source, including rows that a release withholds.

    Parameters
    ----------
    totals : the numbers of ``rows`` and of ``persons``; a key is missing if it was not counted.
    nulls : the number of rows with NULL, by column.
    """

    totals: Mapping[str, int]
    nulls: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class LastCounts:
    """The source counts that a job's last release recorded."""

    release_id: str
    counts: SourceCounts


class Source(Protocol):
    """The relation that a run reads, in one snapshot of the data."""

    @property
    def copied_rows_summary(self) -> Mapping[str, object]:
        """How many rows were copied from another system into this process, and how.

        Empty if the source is read directly.
        """

    def describe(self, job: Job) -> Relation:
        """Look up the relation of a job, with the types of all columns that the job names.

        Raises
        ------
        TableNotFound, ColumnNotFound : the relation or a column does not exist.
        """

    def with_row_locator(self, relation: Relation, job: Job, names: Sequence[str]) -> Relation:
        """Check rights and row key, and return the relation with its row locator.

        The row locator is SQL that identifies a row, such as its key columns.

        Parameters
        ----------
        names : the columns that are read or copied.

        Raises
        ------
        KeyRequired, InsufficientRights, UnsupportedType : the rows cannot be read or addressed.
        """

    def describe_state(self, relation: Relation) -> JsonMapping:
        """Return column types and write counters, if available, of the relation.

        A later run compares them to recognize an unchanged source. Call this before reading.
        """

    def pin(self, relation: Relation, names: Sequence[str]) -> Relation:
        """Return the relation with these columns fixed in one snapshot until the run ends."""

    def complete_attributes_from_values(
        self, relation: Relation, attributes: Sequence[Attribute]
    ) -> tuple[Attribute, ...]:
        """Complete the attributes by looking at values, for example an undeclared decimal scale."""

    def load_hierarchy(self, column: str, spec: HierarchySpec, pulse: Pulse) -> Hierarchy:
        """Load a column's hierarchy from a table, or one that is stored by name.

        Parameters
        ----------
        pulse : called repeatedly while loading; an exception that it raises stops the load.

        Raises
        ------
        DbanonError : it cannot be read; each cause has a subclass.
        """

    def count_zip_populations(self, table: str) -> Mapping[str, float]:
        """Sum the people of all ZIP codes with the same first three digits, by these digits.

        Parameters
        ----------
        table : a table with the columns ``zip`` (or ``zip3``) and ``population``.

        Raises
        ------
        DbanonError : it cannot be read, or is not of this form.
        """

    def require_leaves(self, attribute: Attribute) -> None:
        """Check that a sensitive column's values can be leaves of a hierarchy.

        Raises
        ------
        InvalidParameter : their text differs between databases.
        """

    def list_distinct_values(self, relation: Relation, attribute: Attribute) -> list[str]:
        """List the distinct non-NULL values of a column as leaf labels, in the column's order."""

    def count(self, relation: Relation) -> int:
        """Count the rows."""

    def count_totals(
        self, relation: Relation, person_columns: Sequence[Attribute], columns: Sequence[str]
    ) -> SourceCounts:
        """Count the rows, the persons, and the NULLs by column.

        Parameters
        ----------
        person_columns : the person column as the only element; empty if the job has none.
        columns : the columns in which to count NULLs.
        """

    def digest(
        self, relation: Relation, names: Sequence[str], salt: int
    ) -> tuple[str | int, ...] | None:
        """Hash the rows over these columns; returns None if the source cannot compute digests.

        Parameters
        ----------
        salt : a random number that is hashed with each row, so that only hashes with the same salt
            can be compared.
        """

    def profile(self, relation: Relation) -> Profile:
        """Profile all columns by counts, without reading a value."""

    def find_identifier_columns(self, relation: Relation) -> Mapping[str, str]:
        """Find columns that look like person identifiers, with a reason to show users for each."""

    def find_direct_identifiers(
        self, relation: Relation, names: Sequence[str]
    ) -> Mapping[str, str]:
        """Find the columns among these that look like direct identifiers, such as names.

        The result has a reason for each column: a key of ``advice.roles.REASONS``.
        """

    def count_spellings(self, relation: Relation, person: Attribute) -> Mapping[str, int]:
        """Count the distinct person identifiers, as they are and after each normalization.

        The result has a count for each normalization: "" for none, ``person.normalize``, which is
        the job's, and ``CASEFOLD``, which ignores case.
        """

    def read(
        self, relation: Relation, roles: ColumnRoles, job: Job, progress: Progress
    ) -> Microdata:
        """Read only the columns with a role, in ascending order of row keys.

        The result fits within the job's memory limit.
        """

    def exact_totals(
        self,
        relation: Relation,
        microdata: Microdata,
        partition: Partition,
        attributes: Sequence[Attribute],
    ) -> Mapping[str, NDArray[np.object_]]:
        """Sum each attribute exactly within each class, by attribute name.

        The sums are Python integers (n_classes,), in units of the attribute's last decimal place,
        10**-scale.
        """

    def read_retained_rows(
        self, relation: Relation, names: Sequence[str], chunk_rows: int
    ) -> Iterator[tuple[NDArray[np.int64], list[SqlRow]]]:
        """Yield batches: row keys, int64 (n_rows, n_key_columns), and rows of these columns."""

    def read_quantile(self, relation: Relation, attribute: Attribute, share: float) -> float | None:
        """Return the smallest value that at least a share of a column's values do not exceed.

        None if all values are NULL.

        Parameters
        ----------
        share : 0 to 1.
        """

    def measure_dates(self, relation: Relation, attribute: Attribute) -> DateRange:
        """Measure the range of the dates in a column."""

    def read_person_tags(
        self, relation: Relation, roles: ColumnRoles, person: Attribute, key: PseudonymKey
    ) -> Iterator[tuple[int, bytes]]:
        """Yield the code of each person in the microdata, and the keyed hash of its identifier.

        A code is yielded once for each text that its person has.

        Raises
        ------
        PseudonymsNotHere : the source cannot compute keyed hashes.
        """

    def group_by_day(
        self, draft: PreparedRelease, name: str, columns: Sequence[str]
    ) -> ValueGroups:
        """Group the released rows by the original day in a column of dates or timestamps.

        Parameters
        ----------
        columns : retained columns; the result says how many groups have a single value of each.
        """

    def has_padding(self, attribute: Attribute) -> bool:
        """Whether ``read_retained_rows`` pads the column's values with spaces.

        The spaces are insignificant: the database drops them if it casts such a value to text.
        """

    def group_by_value(self, draft: PreparedRelease, name: str) -> ValueGroups:
        """Group the released rows by their value in a retained column."""

    def group_by_original(
        self, draft: PreparedRelease, name: str, columns: Sequence[str]
    ) -> ValueGroups:
        """Group the released rows by their original value in a quasi-identifier.

        Parameters
        ----------
        columns : retained columns; the result says how many groups have a single value of each.
        """

    def count_distinct(self, draft: PreparedRelease, name: str) -> tuple[int, int]:
        """Count the released rows with a value in a column, and the distinct texts of values."""

    def count_classes_below_k(
        self, draft: PreparedRelease, partition: Partition, name: str
    ) -> tuple[int, int]:
        """Count the classes, and those with fewer than k distinct values of a column.

        Parameters
        ----------
        partition : the classes as readers see them: classes with equal released values are merged.
        """


# W, for "written": each store has its own class of staged releases.
W = TypeVar("W", bound=StagedRelease)


class Target(Protocol[W]):
    """The destination of a release; nothing is visible there before ``publish`` returns."""

    def plan(self, job: Job, release_id: str) -> Output:
        """Plan the output after all checks that need no rows; changes nothing.

        Raises
        ------
        OutputExists, OutputNotOurs, InsufficientRights, LedgerNotTrusted : it cannot be created.
        """

    def find_earlier_releases(
        self, source: Source, relation: Relation, source_state: JsonMapping
    ) -> SourceHistory:
        """Find the earlier releases of a relation in the ledger of this target.

        Parameters
        ----------
        source_state : the result of ``Source.describe_state``.
        """

    def last_types(self, job: Job, source: RelationName) -> Mapping[str, str]:
        """The source's column types at the job's last release; empty if there is none."""

    def last_counts(
        self, job: Job, source: RelationName, output: RelationName
    ) -> LastCounts | None:
        """The counts of the job's last release of this source and output; None if there is none."""

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
        """Check that the client can copy these columns from the source without parsing values.

        Raises
        ------
        InvalidParameter : the target does not support it, or is not the source database.
        UnsupportedType : a column's type does not support it.
        """

    def write(self, draft: PreparedRelease, source: Source, progress: Progress) -> W:
        """Write a release in random row order to a table that readers do not see yet.

        Raises
        ------
        InvalidParameter, NameTooLong : column names would repeat, or be too long.
        """

    def count(self, staged_release: W, requests: CountRequests) -> Counts:
        """Count in the written rows what ``requests`` ask for."""

    def require_pseudonyms(self, source: Source) -> None:
        """Check that the target can compute keyed hashes without logging or keeping the key.

        Raises
        ------
        InvalidParameter : it cannot.
        """

    def count_distinct(self, staged_release: W, name: str) -> tuple[int, int]:
        """Count the written rows with a non-NULL value in a column, and the distinct values."""

    def count_coded(self, staged_release: W, name: str, coding: CopyCoding) -> CodedCounts:
        """Count the written values of a coded copy, and the persons or rows of its tails."""

    def count_wrong_dates(self, staged_release: W, source: Source) -> int:
        """Count the shifted dates, or combinations of them, that are not as they should be.

        They should be the originals plus the offset of their row.
        """

    def count_values(self, staged_release: W, name: str) -> dict[str | None, int]:
        """Count the written rows by their value in a column of labels; None for NULL."""

    def find_unique_columns_in_sample(
        self, staged_release: W, names: Sequence[str]
    ) -> Mapping[str, DisclosiveColumn]:
        """Find retained columns that a sample of written rows proves to be nearly unique."""

    def count_profiles(
        self, staged_release: W, columns: Sequence[str], name: str
    ) -> tuple[int, int]:
        """Count the values of a column that several written rows share, and the unique ones.

        A value is unique if no other value has the same profile: the multiset of combinations that
        its rows have in ``columns``.
        """

    def count_homogeneous_classes(
        self, staged_release: W, columns: Sequence[str], name: str
    ) -> ClassHomogeneity:
        """Count the classes in which all written rows have the same value of a column, or all NULL.

        Parameters
        ----------
        columns : the columns whose combinations of values are classes.
        """

    def joint_histories(
        self, staged_release: W, earlier: Sequence[EarlierRelease], k: int
    ) -> JointHistories | None:
        """Count persons by their classes in this release and in earlier ones of the same source.

        A person's joint history is the person's class, or absence, in each of these releases.
        Returns None if the target does not record which persons a release contains.

        Parameters
        ----------
        earlier : the earlier releases, with the same entity column.
        k : histories that fewer than k persons share are counted as below k.
        """

    def digest(self, staged_release: W) -> str | None:
        """Compute the digest of the written rows; None if the target cannot compute digests."""

    def publish(self, staged_release: W, report: Report, counts: Counts, elapsed: float) -> str:
        """Publish the release, and record it and the run in the ledger.

        Returns the release's time in the ledger, as text.

        Parameters
        ----------
        elapsed : seconds since the run began.

        Raises
        ------
        OutputExists, SourceChanged : another session has created a relation with the output's
            name in the meantime.
        """
