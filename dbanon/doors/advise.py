"""The Python API for advice, and for lower bounds of the information loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from dbanon.advice.request import DEFAULT_KS, AdviceRequest
from dbanon.advice.request import DEFAULT_MAX_SECONDS as DEFAULT_MAX_SECONDS
from dbanon.bounds.certificate import Certificate
from dbanon.data.option import build_options, find_parameter, parameters
from dbanon.doors.arrays import microdata_of
from dbanon.doors.progress import progress_callback
from dbanon.doors.signature import list_options
from dbanon.errors import InvalidParameter, hints_without_views, name_missing_extras
from dbanon.hierarchy.spec import HierarchySource, parse_all
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.job.reading import Reading
from dbanon.run.advise import advise as run_advise
from dbanon.run.bound import compute_bound, compute_table_bound

if TYPE_CHECKING:
    from typing import Unpack

    import pandas as pd

    from dbanon.advice.answer import Advice
    from dbanon.doors.progress import ProgressOption
    from dbanon.job.options import ReadingOptions
    from dbanon.sessions.base import OnSql


# Time limit for the search for a lower bound.
DEFAULT_BOUND_SECONDS = 60.0

# Options for tables in databases, which ``anonymize_frame`` does not take.
_TABLE_OPTIONS = ("table", "output", "key")


@list_options(parameters(Reading))
def advise(
    data: Any,
    table: str | None = None,
    *,
    quasi_identifiers: Sequence[str] = (),
    sensitive: Sequence[str] = (),
    k: Sequence[int] = DEFAULT_KS,
    methods: Sequence[str] = (),
    max_risk: float | None = None,
    max_loss: float | None = None,
    max_seconds: float = DEFAULT_MAX_SECONDS,
    sample: int = 2_000,
    seed: int = 0,
    time_limit: float = 20.0,
    nulls: str | None = None,
    kinds: Mapping[str, str] | None = None,
    key: Sequence[str] = (),
    hierarchies: Mapping[str, HierarchySource] | None = None,
    memory_limit: int | None = None,
    progress: ProgressOption = None,
    on_sql: OnSql | None = None,
    **reading: Unpack[ReadingOptions],
) -> Advice:
    """Propose column roles, show which columns make rows unique, and recommend a first release.

    Roles are proposals, never decisions. Nothing is written, and no value of the data is shown.
    ``anonymize(data, **advice.start)`` makes the recommended release; for a data frame call
    ``anonymize_frame``.

    Parameters
    ----------
    data : a URL, a SQLAlchemy engine, a DuckDB connection, or a table as ``anonymize_frame``
        takes it: a data frame of pandas or polars, an Arrow table, a dict of columns, or a list
        of dicts.
    table : name of the table in the database, such as ``app.people``; None for a data frame.
    quasi_identifiers : columns that together could re-identify a person; proposed if empty.
    sensitive : columns that are sensitive and not quasi-identifiers.
    k : class sizes to try.
    methods : methods to try, such as ``mdav`` or ``mdav+fast``.
    max_risk, max_loss : highest linkage risk (0 to 1) and highest loss of the recommended release;
        None for no limit.
    max_seconds : skip methods that are forecast to need more CPU seconds than this to find the
        classes of all rows.
    sample : maximum number of rows on which releases are tried.
    seed : random seed of the sample.
    time_limit : seconds after which no further release is tried. At least one is completed.
    kinds : by quasi-identifier, ``nominal`` or ``numeric``; a column that probably holds codes is
        nominal by default.
    nulls : treatment of NULLs, as in ``anonymize``; if None, the one with the least loss.
    key : columns that are unique for each row, for views.
    hierarchies : by column, a Hierarchy, the path of a file, or a builder such as
        ``{"intervals": [5, 10]}``.
    memory_limit : bytes of memory to use.
    progress : called with the name of a phase (``profile``, ``read``, ``singling``, ``sweep``) and
        its completed share, 0 to 1; True for a progress bar in a notebook or on a terminal.
    on_sql : called with the text of each SQL statement before it runs.
    reading : the format of a CSV file, such as ``dates``, ``decimal``, ``encoding`` and
        ``null_words``.

    Raises
    ------
    NoRows, NoQuasiIdentifiers, TooFewRecords, NothingFits : no advice is possible.
    DbanonError : the table cannot be read.
    """
    arguments = locals()
    is_in_memory = _is_table_in_memory(data)
    if is_in_memory == (table is not None):
        raise InvalidParameter(
            "A data frame has no table." if is_in_memory else "The table is missing.",
            hint="Give a database with a table, or a data frame alone.",
        )
    request_options = {option.name: arguments[option.name] for option in parameters(AdviceRequest)}
    request_options["hierarchies"] = parse_all(hierarchies, files=True)
    read_options = build_options(Reading, reading)
    if is_in_memory:
        read_options.require_no_file_options()
        return _advise_frame(data, request_options, progress)
    from dbanon.run.open import open_store
    from dbanon.stores.sql_source import SqlSource

    request = build_options(AdviceRequest, request_options)
    store = open_store(data, on_sql, reading=read_options, table=table, memory=memory_limit)
    with progress_callback(progress) as callback, store.planning(staging=True) as session:
        advice = run_advise(request, SqlSource(session), callback)
    return replace(advice, start={**advice.start, **read_options.to_dict()})


@name_missing_extras()
def _advise_frame(data: Any, options: Mapping[str, Any], progress: ProgressOption) -> Advice:
    """Advise on how to release a table in memory with ``anonymize_frame``.

    Parameters
    ----------
    options : values of ``AdviceRequest`` by name, without the table.
    """
    # Imports pandas, which databases do not need.
    from dbanon.stores.frame.conversion import frame_of
    from dbanon.stores.frame.source import FRAME_NAME, FrameSource
    from dbanon.stores.ports import IN_DATA_FRAME

    frame, _ = frame_of(data)
    request = build_options(AdviceRequest, {**options, "table": FRAME_NAME})
    with progress_callback(progress) as report_progress, hints_without_views(IN_DATA_FRAME):
        advice = run_advise(request, FrameSource(frame), report_progress)
    start = {name: value for name, value in advice.start.items() if name not in _TABLE_OPTIONS}
    return replace(advice, start=start)


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


@list_options(parameters(Reading))
def certificate(
    data: Any,
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
    class_size = int(find_parameter(Policy, "k").check(k))
    seconds_value: Any = seconds
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
            "output": "",
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
    with store.planning(staging=True) as session:
        return compute_table_bound(job, SqlSource(session), seconds, report_progress)


def _is_table_in_memory(data: Any) -> bool:
    """Return True for a table that ``anonymize_frame`` takes, False for a database."""
    package = type(data).__module__.partition(".")[0]
    return isinstance(data, (dict, list)) or package in ("pandas", "polars", "pyarrow")
