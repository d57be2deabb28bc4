"""The Python API for advice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dbanon.advice.request import DEFAULT_KS, AdviceRequest
from dbanon.advice.request import DEFAULT_MAX_SECONDS as DEFAULT_MAX_SECONDS
from dbanon.data.option import build_options, parameters
from dbanon.data.types import KeywordArguments
from dbanon.doors.progress import progress_callback
from dbanon.doors.signature import list_options
from dbanon.errors import InvalidParameter, hints_without_views, name_missing_extras
from dbanon.hierarchy.spec import HierarchySource, parse_all
from dbanon.job.reading import Reading
from dbanon.run.advise import advise as run_advise

if TYPE_CHECKING:
    from typing import Unpack

    from dbanon.advice.answer import Advice
    from dbanon.doors.progress import ProgressOption
    from dbanon.job.options import ReadingOptions
    from dbanon.sessions.base import OnSql


# Options for tables in databases, which ``anonymize_frame`` does not take.
_TABLE_OPTIONS = ("table", "output", "key")


@list_options(parameters(Reading))
def advise(
    data: object,
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
    profile: str | None = None,
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
    methods : methods to try, such as ``mdav``, or ``mdav+fast`` for mdav with the refinement
        ``fast``.
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
    profile : ``hipaa`` to propose a release that keeps the rules of HIPAA Safe Harbor, as far as
        ``anonymize`` checks them: see its option ``profile``.
    key : columns that together identify a row; needed for views.
    hierarchies : by column, a Hierarchy, the path of a file, or a builder such as
        ``{"intervals": [5, 10]}``.
    memory_limit : bytes of memory to use.
    progress : called with the name of a phase and its completed share, 0 to 1. Phases are
        ``profile``, ``read``, ``singling`` (which columns make rows unique) and ``sweep`` (trial
        releases). True for a progress bar in a notebook or on a terminal.
    on_sql : called with the text of each SQL statement before it runs.
    reading : the format of a CSV file, such as ``dates``, ``decimal``, ``encoding`` and
        ``null_words``.

    Raises
    ------
    NoRows, NoQuasiIdentifiers, TooFewRecords, NothingFits : no advice is possible.
    DbanonError : the table cannot be read.
    """
    is_in_memory = is_table_in_memory(data)
    if is_in_memory == (table is not None):
        raise InvalidParameter(
            "A data frame has no table." if is_in_memory else "The table is missing.",
            hint="Give a database with a table, or a data frame alone.",
        )
    request_options = {
        "table": table,
        "quasi_identifiers": quasi_identifiers,
        "sensitive": sensitive,
        "k": k,
        "methods": methods,
        "max_risk": max_risk,
        "max_loss": max_loss,
        "max_seconds": max_seconds,
        "sample": sample,
        "seed": seed,
        "time_limit": time_limit,
        "nulls": nulls,
        "profile": profile,
        "kinds": kinds,
        "key": key,
        # ``files`` allows paths of files, since the caller may read them.
        "hierarchies": parse_all(hierarchies, files=True),
        "memory_limit": memory_limit,
    }
    read_options = build_options(Reading, reading)
    if is_in_memory:
        read_options.require_no_file_options()
        return _advise_frame(data, request_options, progress)
    from dbanon.run.open import open_store
    from dbanon.stores.sql_source import SqlSource

    request = build_options(AdviceRequest, request_options)
    store = open_store(data, on_sql, reading=read_options, table=table, memory=memory_limit)
    # A planning session changes nothing. ``staging`` still allows the temporary tables that reading
    # needs.
    with progress_callback(progress) as callback, store.planning(staging=True) as session:
        advice = run_advise(request, SqlSource(session), callback)
    # ``anonymize`` must read the file as advice did.
    return replace(advice, start={**advice.start, **read_options.to_dict()})


# If pandas is missing, the error names the extra that installs it.
@name_missing_extras()
def _advise_frame(data: object, options: KeywordArguments, progress: ProgressOption) -> Advice:
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
    # Data frames have no views, so hints say "in the data frame" in place of "in a view".
    with progress_callback(progress) as report_progress, hints_without_views(IN_DATA_FRAME):
        advice = run_advise(request, FrameSource(frame), report_progress)
    start = {name: value for name, value in advice.start.items() if name not in _TABLE_OPTIONS}
    return replace(advice, start=start)


def is_table_in_memory(data: object) -> bool:
    """Return True for a table that ``anonymize_frame`` takes, False for a database."""
    package = type(data).__module__.partition(".")[0]
    return isinstance(data, (dict, list)) or package in ("pandas", "polars", "pyarrow")
