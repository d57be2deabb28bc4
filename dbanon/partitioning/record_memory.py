"""The memory that the records of a job need: plans and runs count it here, and in the same way.

Half of a job's memory limit is for the databases that run in this process, such as a DuckDB file.
The other half is for the records. Without such a database the records may take the whole limit,
unless their values are spilled to disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from dbanon.data.frozen import dataclass
from dbanon.data.memory import worker_threads
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import MemoryLimit
from dbanon.job.job import Job
from dbanon.job.nulls import RELEASED_NULLS
from dbanon.recoding import find_recoding

# Number of copies of a numeric column while a method runs: the values, the standardized points, the
# copy in the compiled core, and its search index.
_COPIES_OF_NUMBERS = 4
# The same for a coded column, which also needs positions in hierarchies and in search indexes.
_COPIES_OF_CODES = 8
# If there are coded columns, equal rows are processed as one. Then only this many copies have an
# entry for each row; the others have one for each distinct row.
_COPIES_PER_ROW = 2
# Bytes per record besides the copies of columns: the key and the class.
_BYTES_PER_RECORD = 64

# Bytes per record of retained columns that pass through this process, besides their values: the key
# and the end of the values.
_BYTES_PER_PASSED_RECORD = 16

# Limits that are named in hints are multiples of this many bytes, unless they are smaller.
_LIMIT_STEP = 2**20

# Bytes per record on disk besides its key and the values of its class, measured as the largest
# amount at a time: its class, its place among the members, and two numbers of one column.
_BYTES_PER_SPILLED_RECORD = 28
# Additional bytes if classes are refined in blocks: the members before and after.
_BYTES_PER_REFINED_RECORD = 8
# Additional bytes of a job with strata: the stratum, and a position in it.
_BYTES_PER_STRATIFIED_RECORD = 8
# Additional bytes if labels are released: the node that each record is released as, and for each
# column a code.
_BYTES_PER_LABELLED_RECORD, _BYTES_PER_CODE = 8, 4
# Additional bytes per column if NULLs are released: the values of each column without its NULLs.
_BYTES_PER_NULLABLE_VALUE = 8
# Bytes per class: its size, where its members begin, and its number.
_BYTES_PER_CLASS = 24
# Bytes per class and column: the released mean of doubles; of other numbers also before rounding.
_BYTES_PER_DOUBLE, _BYTES_PER_NUMBER = 8, 16
# The same for the label of a generalized value, with its losses.
_BYTES_PER_LABEL = 120


def bytes_per_record(n_columns: int, n_coded: int = 0, distinct_share: float = 1.0) -> int:
    """Approximate bytes per record while a method runs.

    Parameters
    ----------
    n_columns : number of columns to read.
    n_coded : number of columns that are not numeric.
    distinct_share : number of distinct records as a share of all records; only used if there are
        coded columns.
    """
    # ``n_held`` numbers are held for each distinct record. Of these, ``n_held_per_record`` are held
    # for every record, even if records are equal.
    n_held = _COPIES_OF_NUMBERS * (n_columns - n_coded) + _COPIES_OF_CODES * n_coded
    n_held_per_record = _COPIES_PER_ROW * n_columns if n_coded else n_held
    return _BYTES_PER_RECORD + round(
        8 * (n_held_per_record + distinct_share * (n_held - n_held_per_record))
    )


def _bytes_per_spilled_record(job: Job, columns: Sequence[Attribute], key_width: int) -> int:
    """Approximate bytes in memory per record if its values are spilled to disk."""
    policy = job.policy
    record_bytes = 8 * key_width + _BYTES_PER_SPILLED_RECORD
    if policy.refine is not None:
        record_bytes += _BYTES_PER_REFINED_RECORD
    if policy.nulls in RELEASED_NULLS:
        record_bytes += _BYTES_PER_NULLABLE_VALUE * len(columns)
    if job.by:
        record_bytes += _BYTES_PER_STRATIFIED_RECORD
    if find_recoding(str(policy.recoding)).measure == "iloss":
        record_bytes += _BYTES_PER_LABELLED_RECORD + _BYTES_PER_CODE * len(columns)
        value_bytes = _BYTES_PER_LABEL * len(columns)
    else:
        value_bytes = sum(
            _BYTES_PER_DOUBLE
            if column.kind is Kind.FLOAT and policy.recoding == "mean"
            else _BYTES_PER_NUMBER
            for column in columns
        )
    # There are at most n / k classes.
    return record_bytes + ceil((_BYTES_PER_CLASS + value_bytes) / int(policy.k))


@dataclass(frozen=True)
class SpilledBytes:
    """What a record takes in memory if its values are on disk.

    Parameters
    ----------
    per_record : bytes for each record of the table.
    per_record_in_progress : bytes for each record that a thread works on.
    block_size : the number of records per block.
    """

    per_record: int
    per_record_in_progress: int
    block_size: int

    def needed_bytes(self, n_records: int) -> int:
        """The bytes for n records of which some are in progress."""
        from dbanon.partitioning.cuts import sample_size

        # The borders of blocks are found on a sample, before threads work on blocks.
        n_sampled = sample_size(-(-n_records // self.block_size))
        n_in_progress = min(n_records, max(worker_threads() * self.block_size, n_sampled))
        return n_records * self.per_record + n_in_progress * self.per_record_in_progress


@dataclass(frozen=True)
class RecordMemory:
    """The memory that the records of a job need, and the limit that the job sets.

    Parameters
    ----------
    limit : the memory limit of the job, in bytes; None for no limit.
    n_columns, n_coded : the number of columns to read, and how many of them are not numeric.
    spilled : what records take if values are spilled to disk; None if values are in memory.
    n_databases : the number of databases that run in this process for the job.
    """

    limit: int | None
    n_columns: int
    n_coded: int
    spilled: SpilledBytes | None = None
    n_databases: int = 0

    @classmethod
    def of(
        cls,
        job: Job,
        columns: Sequence[Attribute],
        *,
        spills: bool,
        key_width: int = 1,
        n_databases: int = 0,
    ) -> RecordMemory:
        """Return the memory of a job.

        Parameters
        ----------
        columns : the columns to read.
        spills : True if values are spilled to disk.
        key_width : the number of columns of the row key.
        n_databases : the number of databases that run in this process for the job.
        """
        n_coded = sum(column.kind.is_coded for column in columns)
        spilled = None
        if spills:
            spilled = SpilledBytes(
                _bytes_per_spilled_record(job, columns, key_width),
                bytes_per_record(len(columns), n_coded),
                job.policy.records_at_once,
            )
        return cls(job.memory_limit, len(columns), n_coded, spilled, n_databases)

    def needed_limit(
        self, n_records: int, distinct_share: float = 1.0, retained_bytes: int | None = None
    ) -> int:
        """The smallest memory limit under which n records may be read, in bytes.

        Parameters
        ----------
        retained_bytes : what the values of retained columns that pass through this process take,
            of all records; None if none do.
        distinct_share : the number of distinct records as a share of all records; 1 gives the
            limit that runs enforce. Not used if values are spilled.
        """
        if self.spilled is not None:
            # The other half is for the databases.
            return 2 * self.spilled.needed_bytes(n_records)
        record_bytes = bytes_per_record(self.n_columns, self.n_coded, distinct_share)
        if retained_bytes is not None:
            record_bytes += _BYTES_PER_PASSED_RECORD
        needed = n_records * record_bytes + (retained_bytes or 0)
        return 2 * needed if self.n_databases else needed

    def require(self, n_records: int, retained_bytes: int | None = None) -> None:
        """Check that all records of a table are within the limit.

        Parameters
        ----------
        retained_bytes : as for ``needed_limit``.

        Raises
        ------
        MemoryLimit : they are not; the hint names the limit that would do.
        """
        needed = self.needed_limit(n_records, retained_bytes=retained_bytes)
        if self.limit is None or needed <= self.limit:
            return
        sufficient = needed if needed < _LIMIT_STEP else -(-needed // _LIMIT_STEP) * _LIMIT_STEP
        raise self._exceeded(
            n_records,
            "would be read",
            hint=f"Use `memory_limit={sufficient}` or more, or fewer quasi-identifiers.",
        )

    def require_so_far(self, n_records: int) -> None:
        """Check the same while records are read, when their number is not known yet."""
        if self.limit is not None and self.needed_limit(n_records) > self.limit:
            raise self._exceeded(
                n_records,
                "were read so far",
                hint="Raise the limit (`memory_limit`), or use fewer quasi-identifiers.",
            )

    def _exceeded(self, n_records: int, read_phrase: str, hint: str) -> MemoryLimit:
        """Build the error; ``read_phrase`` is the predicate for the records."""
        assert self.limit is not None
        record_bytes = bytes_per_record(self.n_columns, self.n_coded)
        note = ""
        if self.spilled is not None:
            record_bytes = self.spilled.per_record
            note = " beside their values on disk"
        if self.spilled is not None or self.n_databases:
            note += "; half of the limit is for databases"
        return MemoryLimit.exceeded(
            "The job needs",
            self.limit,
            detail=f"{n_records} records {read_phrase}, at about {record_bytes} bytes each{note}.",
            hint=hint,
        )
