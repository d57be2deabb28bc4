"""The Python API for lower bounds of the information loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from dbanon.data.option import build_options, find_parameter, parameters
from dbanon.doors.arrays import microdata_of
from dbanon.doors.signature import list_options
from dbanon.errors import InvalidParameter
from dbanon.extensions.bounds.certificate import Certificate
from dbanon.extensions.bounds.compute import compute_bound, compute_table_bound
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.job.reading import Reading

if TYPE_CHECKING:
    from typing import Unpack

    import pandas as pd

    from dbanon.job.options import ReadingOptions
    from dbanon.sessions.base import OnSql

# Time limit for the search for a lower bound.
DEFAULT_BOUND_SECONDS = 60.0


def lower_bound(
    data: ArrayLike | pd.DataFrame,
    k: int,
    *,
    orders: Mapping[str, Sequence[str]] | None = None,
    seconds: float = DEFAULT_BOUND_SECONDS,
) -> float:
    """Compute a lower bound on the loss of any partition into classes of k or more records.

    The loss is SSE/SST on z-scores, as in ``information_loss``, which is never below the bound of
    the same data.

    Parameters
    ----------
    data : (n, p) numbers, or a DataFrame of numbers and ordinal columns, without NULLs.
    orders : for text columns, by name: their values from the lowest to the highest.
    k : smallest number of records in a class.
    seconds : limit in wall time; the best bound found by then is returned. The nearest-neighbour
        bound, which is quick and weak, is always computed. For up to 10,000 records the bound
        comes from linear programs, which need the extra ``bound``. With more records, or without
        the extra, it is computed without a solver.

    Raises
    ------
    TooFewRecords : fewer than k records.
    NullInQuasiIdentifier : NULL in a frame.
    UnsupportedType : a column is neither numeric nor ordinal.
    """
    return certificate(data, k, orders=orders, seconds=seconds).share


# The signature lists the options of ``Reading``, the format of CSV files, for ``**reading``.
@list_options(parameters(Reading))
def certificate(
    data: object,
    k: int,
    *,
    table: str | None = None,
    quasi_identifiers: Sequence[str] = (),
    key: Sequence[str] = (),
    orders: Mapping[str, Sequence[str]] | None = None,
    memory_limit: int | None = None,
    seconds: float = DEFAULT_BOUND_SECONDS,
    progress: Callable[[float], None] | None = None,
    on_sql: OnSql | None = None,
    **reading: Unpack[ReadingOptions],
) -> Certificate:
    """Compute the same bound as ``lower_bound``, with its proof: a price for each record.

    The returned ``prices``, float64 (n,), are shares of SST that add up to the bound. Every class
    of k or more records loses at least the sum of its records' prices; a class that loses less
    would disprove the bound. See docs/bounds.md.

    Parameters
    ----------
    data : an array or a data frame, as in ``lower_bound``; or a database, given by its URL, a
        SQLAlchemy engine or a DuckDB connection.
    k : smallest number of records in a class.
    table, quasi_identifiers, key : for a database: the name of the table, the columns to use, and
        columns that are unique for each row, for views.
    orders : for text columns, by name: their values from the lowest to the highest.
    seconds : limit in wall time; the best bound found by then is returned.
    memory_limit : for a database: bytes of memory to use.
    on_sql : called with the text of each SQL statement before it runs.
    progress : called with the completed share, 0 to 1; an error that it raises ends the search.
    reading : the format of a CSV file, such as ``dates``, ``decimal``, ``encoding`` and
        ``null_words``.

    Raises
    ------
    DbanonError : as ``lower_bound``, or the table cannot be read.
    """
    # Refuses values of k that an anonymization would refuse.
    class_size = int(find_parameter(Policy, "k").check(k))
    seconds_value: object = seconds
    if (
        isinstance(seconds_value, bool)
        or not isinstance(seconds_value, (int, float))
        or not seconds_value > 0
    ):
        raise InvalidParameter("seconds must be a number above 0.")
    report_progress = progress or (lambda share: None)
    if table is None:
        build_options(Reading, reading).require_no_file_options()
        if len(quasi_identifiers) or len(key):
            raise InvalidParameter(
                "Quasi-identifiers and keys can only be named for a table.",
                hint="Leave out `quasi_identifiers` and `key`: all columns of an array or a data"
                " frame are quasi-identifiers.",
            )
        return compute_bound(microdata_of(data, orders), class_size, seconds, report_progress)
    job = build_options(
        Job,
        {
            "table": table,
            "output": "",  # Nothing is written.
            "quasi_identifiers": quasi_identifiers,
            "key": key,
            "memory_limit": memory_limit,
            "k": class_size,
            "orders": orders or {},
            **reading,
        },
    )
    from dbanon.run.open import open_store
    from dbanon.stores.sql_source import SqlSource

    store = open_store(data, on_sql, reading=job.reading, table=table, memory=memory_limit)
    # A session that changes nothing; reading may need temporary tables.
    with store.planning(staging=True) as session:
        return compute_table_bound(job, SqlSource(session), seconds, report_progress)
