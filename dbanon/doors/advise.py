"""The Python API for advice, and for lower bounds of the information loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from dbanon.advice.request import KS, AdviceRequest
from dbanon.advice.request import SECONDS as SLOWEST
from dbanon.bounds.certificate import Certificate
from dbanon.data.option import make, parameter, parameters
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

    from dbanon.advice.answer import Advice
    from dbanon.doors.progress import ProgressOption
    from dbanon.job.options import ReadingOptions
    from dbanon.sessions.base import OnSql


# Options that ``anonymize_frame`` does not take.
_OF_TABLES = ("table", "output", "key")


@list_options(parameters(Reading))
def advise(
    data: Any,
    table: str | None = None,
    *,
    quasi_identifiers: Sequence[str] = (),
    sensitive: Sequence[str] = (),
    k: Sequence[int] = KS,
    methods: Sequence[str] = (),
    max_risk: float | None = None,
    max_loss: float | None = None,
    max_seconds: float = SLOWEST,
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
    table : its name, as in ``app.people``; None for a data frame.
    quasi_identifiers : columns that together could re-identify a person; proposed if empty.
    sensitive : columns that are sensitive and not quasi-identifiers.
    k : class sizes to try.
    methods : methods to try, such as ``mdav`` or ``mdav+fast``.
    max_risk, max_loss : limits for the recommended release.
    max_seconds : maximum forecast of CPU seconds for finding the classes of all rows.
    sample : maximum number of rows on which releases are tried.
    seed : of the sample.
    time_limit : seconds after which no further release is tried. At least one is completed.
    kinds : ``nominal`` or ``numeric`` by quasi-identifier; by default nominal for likely codes.
    nulls : treatment of NULLs, as in ``anonymize``; if None, the one with the least loss.
    key, hierarchies, memory_limit : as in ``anonymize``.
    progress : called with a part (``profile``, ``read``, ``singling``, ``sweep``) and a share; True
        for a bar, in a notebook or on a terminal.
    on_sql : called with the text of each SQL statement before it runs.
    reading : how a CSV file is written: ``dates``, ``decimal``, ``encoding``, ``null_words`` as in
        ``anonymize``.

    Raises
    ------
    NoRows, NoQuasiIdentifiers, TooFewRecords, NothingFits : there is nothing to advise.
    DbanonError : what reading the table raises.
    """
    arguments = locals()
    framed = _is_table(data)
    if framed == (table is not None):
        raise InvalidParameter(
            "A data frame has no table." if framed else "The table is missing.",
            hint="Give a database with a table, or a data frame alone.",
        )
    requested = {option.name: arguments[option.name] for option in parameters(AdviceRequest)}
    requested["hierarchies"] = parse_all(hierarchies, files=True)
    read_options = make(Reading, reading)
    if framed:
        read_options.require_none()
        return _advise_frame(data, requested, progress)
    from dbanon.run.open import open_store
    from dbanon.stores.sql_source import SqlSource

    request = make(AdviceRequest, requested)
    store = open_store(data, on_sql, reading=read_options, table=table, memory=memory_limit)
    with progress_callback(progress) as callback, store.planning(staging=True) as session:
        advice = run_advise(request, SqlSource(session), callback)
    return replace(advice, start={**advice.start, **read_options.to_dict()})


@name_missing_extras()
def _advise_frame(data: Any, options: Mapping[str, Any], progress: ProgressOption) -> Advice:
    """Advise on a table in memory, for ``anonymize_frame``."""
    # Imports pandas, which databases do not need.
    from dbanon.stores.frame.conversion import frame_of
    from dbanon.stores.frame.source import NAME, FrameSource
    from dbanon.stores.ports import PLACE_OF_FRAMES

    frame, _ = frame_of(data)
    request = make(AdviceRequest, {**options, "table": NAME})
    with progress_callback(progress) as report_progress, hints_without_views(PLACE_OF_FRAMES):
        advice = run_advise(request, FrameSource(frame), report_progress)
    start = {name: value for name, value in advice.start.items() if name not in _OF_TABLES}
    return replace(advice, start=start)


if TYPE_CHECKING:
    from typing import Unpack

    import pandas as pd

    from dbanon.job.options import ReadingOptions
    from dbanon.sessions.base import OnSql

SECONDS = 60.0


def lower_bound(
    data: ArrayLike | pd.DataFrame,
    k: int,
    *,
    orders: Mapping[str, Sequence[str]] | None = None,
    seconds: float = SECONDS,
) -> float:
    """The least that any partition into classes of k or more loses: SSE/SST on z-scores, a bound.

    As a share of SST it compares with ``information_loss`` of the same data, which is never less.

    Parameters
    ----------
    data, orders : as in ``information_loss``, without NULLs.
    k : smallest number of records in a class.
    seconds : a limit in wall time for all but the bound of nearest neighbours, which is quick and
        weak; the best bound until then is given. Up to 10,000 records linear programs give it,
        which need the extra ``bound``; without it, and of more records, ``fitting`` does.

    Raises
    ------
    TooFewRecords : fewer than k records.
    NullInQuasiIdentifier : NULL in a frame.
    UnsupportedType : a column is neither of numbers nor ordinal.
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
    seconds: float = SECONDS,
    progress: Callable[[float], None] | None = None,
    on_sql: OnSql | None = None,
    **reading: Unpack[ReadingOptions],
) -> Certificate:
    """The lower bound of ``lower_bound`` with what proves it: a price for each record.

    ``certificate.prices``, shares of SST, add up to the bound, and no class of k or more records
    loses less than its prices. To refute the bound, find such a class. See docs/bounds.md.

    Parameters
    ----------
    data : as in ``lower_bound``, or a database as in ``anonymize``.
    table, quasi_identifiers, key, memory_limit, on_sql : as in ``anonymize``, of a database.
    progress : called with a share now and then; an error that it raises ends the search.
    reading : how a CSV file is written: ``dates``, ``decimal``, ``encoding``, ``null_words`` as in
        ``anonymize``.

    Raises
    ------
    DbanonError : as ``lower_bound``, and what reading the table raises.
    """
    size = int(parameter(Policy, "k").check(k))
    limit: Any = seconds
    if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not limit > 0:
        raise InvalidParameter("seconds must be a number above 0.")
    tick = progress or (lambda share: None)
    if table is None:
        make(Reading, reading).require_none()
        if len(quasi_identifiers) or len(key):
            raise InvalidParameter(
                "Quasi-identifiers and keys can only be named for a table.",
                hint="Leave out `quasi_identifiers` and `key`: all columns of an array or a data"
                " frame are quasi-identifiers.",
            )
        return compute_bound(microdata_of(data, orders), size, seconds, tick)
    job = make(
        Job,
        {
            "table": table,
            "output": "",
            "quasi_identifiers": quasi_identifiers,
            "key": key,
            "memory_limit": memory_limit,
            "k": size,
            "orders": orders or {},
            **reading,
        },
    )
    from dbanon.run.open import open_store
    from dbanon.stores.sql_source import SqlSource

    store = open_store(data, on_sql, reading=job.reading, table=table, memory=memory_limit)
    with store.planning(staging=True) as session:
        return compute_table_bound(job, SqlSource(session), seconds, tick)


def _is_table(data: Any) -> bool:
    """True for a table that ``anonymize_frame`` takes, False for a database."""
    package = type(data).__module__.partition(".")[0]
    return isinstance(data, (dict, list)) or package in ("pandas", "polars", "pyarrow")
