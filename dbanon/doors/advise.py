"""Python's door to advice, and to lower bounds of the information loss."""

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
from dbanon.doors.progress import shown
from dbanon.doors.signature import lists
from dbanon.errors import InvalidParameter, extras_told, hints_without_views
from dbanon.hierarchy.spec import HierarchySource, parse_all
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.job.reading import Reading
from dbanon.run.advise import advise as run_advise
from dbanon.run.bound import bound, bound_table

if TYPE_CHECKING:
    from typing import Unpack

    from dbanon.advice.answer import Advice
    from dbanon.doors.progress import Wanted
    from dbanon.job.options import ReadingOptions
    from dbanon.sessions.base import OnSql


# What ``anonymize_frame`` does not take.
_OF_TABLES = ("table", "output", "key")


@lists(parameters(Reading))
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
    progress: Wanted = None,
    on_sql: OnSql | None = None,
    **reading: Unpack[ReadingOptions],
) -> Advice:
    """Propose column roles, show which columns single rows out, and recommend a first release.

    Roles are proposals, never decisions. Nothing is written, and no value of the data is shown.
    ``anonymize(data, **advice.start)`` makes the release that is recommended; of a frame
    ``anonymize_frame`` does.

    Parameters
    ----------
    data : a URL, a SQLAlchemy engine, a DuckDB connection, or a table as ``anonymize_frame``
        takes it: a data frame of pandas or polars, an Arrow table, a dict of columns, or a list
        of dicts.
    table : its name, as in ``app.people``; None for a data frame.
    quasi_identifiers : columns that together could re-identify a person; proposed if empty.
    sensitive : columns that are sensitive and not quasi-identifiers.
    k : sizes of classes to try.
    methods : methods to try, such as ``mdav`` or ``mdav+fast``.
    max_risk, max_loss : limits for the release that is recommended.
    max_seconds : CPU seconds that finding the classes of all rows may take, by forecast.
    sample : if there are more rows than this, releases are tried on so many.
    seed : of what is drawn.
    time_limit : seconds after which no further release is tried. One is always completed.
    kinds : ``nominal`` or ``numeric`` by quasi-identifier; nominal where it looks like a code.
    nulls : what becomes of NULLs, as in ``anonymize``; what loses least, measured, if None.
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
    given = locals()
    framed = _is_table(data)
    if framed == (table is not None):
        raise InvalidParameter(
            "A data frame has no table." if framed else "The table is missing.",
            hint="Give a database with a table, or a data frame alone.",
        )
    asked = {one.name: given[one.name] for one in parameters(AdviceRequest)}
    asked["hierarchies"] = parse_all(hierarchies, files=True)
    written = make(Reading, reading)
    if framed:
        written.require_none()
        return _advise_frame(data, asked, progress)
    from dbanon.run.open import open_store
    from dbanon.stores.sql_source import SqlSource

    request = make(AdviceRequest, asked)
    store = open_store(data, on_sql, reading=written, table=table, memory=memory_limit)
    with shown(progress) as told, store.planning(staging=True) as session:
        found = run_advise(request, SqlSource(session), told)
    return replace(found, start={**found.start, **written.to_dict()})


@extras_told()
def _advise_frame(data: Any, options: Mapping[str, Any], progress: Wanted) -> Advice:
    """Advise on a table in memory, for ``anonymize_frame``."""
    # Loads pandas, which a database needs not.
    from dbanon.stores.frame.conversion import frame_of
    from dbanon.stores.frame.source import NAME, FrameSource
    from dbanon.stores.ports import IN_FRAME

    frame, _ = frame_of(data)
    request = make(AdviceRequest, {**options, "table": NAME})
    with shown(progress) as report_progress, hints_without_views(IN_FRAME):
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


@lists(parameters(Reading))
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
                "Quasi-identifiers and keys are named of a table.",
                hint="Of an array or a data frame all columns are quasi-identifiers.",
            )
        return bound(microdata_of(data, orders), size, seconds, tick)
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
        return bound_table(job, SqlSource(session), seconds, tick)


def _is_table(data: Any) -> bool:
    """Whether this is no database, but a table as ``anonymize_frame`` takes it."""
    package = type(data).__module__.partition(".")[0]
    return isinstance(data, (dict, list)) or package in ("pandas", "polars", "pyarrow")
