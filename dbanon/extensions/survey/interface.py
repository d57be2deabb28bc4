"""The Python API for the disclosure risk of samples."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, overload

from dbanon.data.option import build_options, parameters
from dbanon.doors.advise import is_table_in_memory
from dbanon.doors.progress import progress_callback
from dbanon.doors.signature import list_options
from dbanon.errors import InvalidParameter, hints_without_views, name_missing_extras
from dbanon.extensions.survey.assess import RecordRisks, assess_sample
from dbanon.extensions.survey.attacker_risk import DEFAULT_THRESHOLD
from dbanon.extensions.survey.private_file import open_private_file, require_new_file
from dbanon.extensions.survey.read_sample import (
    SampleTable,
    code_sample,
    read_population,
    read_released,
    read_table,
)
from dbanon.extensions.survey.record_list import (
    require_row_key,
    require_unique_keys,
    write_record_list,
)
from dbanon.extensions.survey.request import DEFAULT_SUDA_SECONDS, RiskRequest
from dbanon.extensions.survey.risk_comparison import RiskComparison, compare_samples
from dbanon.extensions.survey.sample_risk import SampleRisk
from dbanon.job.reading import Reading
from dbanon.measures.figure import Tick

if TYPE_CHECKING:
    from typing import Unpack

    from dbanon.doors.progress import ProgressOption
    from dbanon.job.options import ReadingOptions
    from dbanon.sessions.base import OnSql

    class _RiskOptions(ReadingOptions, total=False):
        """The options of ``disclosure_risk`` with and without a release."""

        weight: str | None
        household: str | None
        key: Sequence[str]
        population: object
        population_count: str | None
        sampling_fraction: float | None
        threshold: float
        missing: str
        risk_method: str
        log_linear: str
        suda: bool
        suda_size: int | None
        suda_seconds: float
        dis_fraction: float
        records: str | os.PathLike[str] | None
        report: str | os.PathLike[str] | None
        memory_limit: int | None
        progress: ProgressOption
        on_sql: OnSql | None


# Stands for the names of tables in memory.
_IN_MEMORY = "data frame"


@dataclass(frozen=True, eq=False)
class _Tables:
    """The tables of a measurement as they were read; the release with the request for it."""

    sample: SampleTable
    population: SampleTable | None = None
    released: tuple[SampleTable, RiskRequest] | None = None


@overload
def disclosure_risk(
    data: object,
    table: str | None = None,
    *,
    quasi_identifiers: Sequence[str],
    released: None = None,
    **options: Unpack[_RiskOptions],
) -> SampleRisk: ...


@overload
def disclosure_risk(
    data: object,
    table: str | None = None,
    *,
    quasi_identifiers: Sequence[str],
    released: object,
    **options: Unpack[_RiskOptions],
) -> RiskComparison: ...


@list_options((*parameters(RiskRequest), *parameters(Reading)))
def disclosure_risk(
    data: object,
    table: str | None = None,
    *,
    quasi_identifiers: Sequence[str],
    weight: str | None = None,
    household: str | None = None,
    key: Sequence[str] = (),
    population: object = None,
    population_count: str | None = None,
    released: object = None,
    sampling_fraction: float | None = None,
    threshold: float = DEFAULT_THRESHOLD,
    missing: str = "category",
    risk_method: str = "exact",
    log_linear: str = "main_effects",
    suda: bool = False,
    suda_size: int | None = None,
    suda_seconds: float = DEFAULT_SUDA_SECONDS,
    dis_fraction: float = 0.01,
    records: str | os.PathLike[str] | None = None,
    report: str | os.PathLike[str] | None = None,
    memory_limit: int | None = None,
    progress: ProgressOption = None,
    on_sql: OnSql | None = None,
    **reading: Unpack[ReadingOptions],
) -> SampleRisk | RiskComparison:
    """Measure the disclosure risk of a sample: how likely its records lead to their persons.

    The figures are for the controller of the data, not for publication. Nothing is written but the
    list of records and the report, if you name files for them. No value of the data is shown.

    Without a weight, a sampling fraction or a population, the records are taken as the entire
    population: the risk is that from someone who knows that a person is in the file.

    Parameters
    ----------
    data : a URL, a SQLAlchemy engine, a DuckDB connection, or a table as ``anonymize_frame``
        takes it: a data frame of pandas or polars, an Arrow table, a dict of columns, or a list
        of dicts.
    table : name of the table in the database, such as ``app.people``; None for a data frame.
    quasi_identifiers : columns that others may know about a person.
    weight : the column with the design weight: how many persons a record stands for.
    household : the column that identifies the household of a record; NULL for none.
    population : a table of all persons of the population, with the same columns: the name of a
        table in the same database, or a data frame if ``data`` is one.
    population_count : the column of that table with the number of persons that a row stands for;
        None if each row is a person.
    released : a release of the table, to measure it likewise: the name of a table in the same
        database, or a data frame. The result then is a ``RiskComparison`` with the figures
        ``before`` and ``after``. Released values, such as intervals, labels and NULL, are values of
        their own. The release's weights and households are those of its columns of the same names;
        without such weights, the risk after is by the sampling fraction.
    records : the path of a new file for a private list: each record with its row key, its risks and
        the columns that cause them. Only its owner can read it, and it is not for publication.
    report : the path of a new .html file for the figures and pictures, as one page. Only its owner
        can read it, and it is not for publication.
    progress : called with the name of a phase and its completed share, 0 to 1. Phases are ``read``
        and ``measure``. True for a progress bar in a notebook or on a terminal.
    on_sql : called with the text of each SQL statement before it runs.
    reading : the format of a CSV file, such as ``dates``, ``decimal``, ``encoding`` and
        ``null_words``.

    Raises
    ------
    TooFewRecords : the table has no rows.
    OutputExists : the file for the list of records or for the report exists.
    DuplicateKeys : the key does not identify each row of the list of records.
    DbanonError : an option is not allowed, or the table cannot be read.
    """
    is_in_memory = is_table_in_memory(data)
    _require_tables(table, population, released, is_in_memory=is_in_memory)
    request = build_options(
        RiskRequest,
        {
            "table": _IN_MEMORY if table is None else table,
            "quasi_identifiers": quasi_identifiers,
            "weight": weight,
            "household": household,
            "key": key,
            "population": _IN_MEMORY if is_in_memory and population is not None else population,
            "population_count": population_count,
            "released": released if released is None or isinstance(released, str) else _IN_MEMORY,
            "sampling_fraction": sampling_fraction,
            "threshold": threshold,
            "missing": missing,
            "risk_method": risk_method,
            "log_linear": log_linear,
            "suda": suda,
            "suda_size": suda_size,
            "suda_seconds": suda_seconds,
            "dis_fraction": dis_fraction,
            "memory_limit": memory_limit,
        },
    )
    read_options = build_options(Reading, reading)
    list_path = None if records is None else require_new_file(records, "records")
    report_path = None if report is None else _require_report_file(report, list_path)
    with progress_callback(progress) as callback:
        report_progress = callback or (lambda phase, share: None)

        if is_in_memory:
            read_options.require_no_file_options()
            tables = _read_frames(data, population, request)
        else:
            tables = _read_database(
                data,
                request,
                read_options,
                on_sql,
                lambda share: report_progress("read", share),
                needs_positions=list_path is not None and not request.key,
                has_released_table=isinstance(released, str),
            )
        result, record_risks = _measure(
            _with_released_frame(tables, released, request),
            request,
            with_records=list_path is not None,
            tick=lambda share: report_progress("measure", share),
        )
    _write_files(result, record_risks, tables.sample, request, report_path, list_path)
    return result


def _write_files(
    result: SampleRisk | RiskComparison,
    record_risks: RecordRisks,
    sample: SampleTable,
    request: RiskRequest,
    report_path: Path | None,
    list_path: Path | None,
) -> None:
    """Write the report and the list of records; neither if one of them cannot be written.

    Parameters
    ----------
    report_path, list_path : the new files; None to write none.
    """
    with ExitStack() as files:
        if report_path is not None:
            from dbanon.extensions.survey.risk_page import render_risk_page

            page = render_risk_page(result.view())
            files.enter_context(open_private_file(report_path, "report")).write(page)
        if list_path is not None:
            write_record_list(list_path, sample, request.quasi_identifiers, record_risks)


def _measure(
    tables: _Tables, request: RiskRequest, *, with_records: bool, tick: Tick
) -> tuple[SampleRisk | RiskComparison, RecordRisks]:
    """Measure the risk of a sample, next to that of its release if there is one.

    Parameters
    ----------
    with_records : whether to measure what the list of records shows, whose key must be unique.
    """
    if with_records:
        require_unique_keys(tables.sample)
    sample = code_sample(tables.sample, tables.population)
    if tables.released is None:
        return assess_sample(sample, request, with_records=with_records, tick=tick)
    released_table, released_request = tables.released
    return compare_samples(
        sample,
        code_sample(released_table),
        request,
        released_request,
        with_records=with_records,
        tick=tick,
    )


def _require_report_file(report: str | os.PathLike[str], list_path: Path | None) -> Path:
    """Check that the page can be rendered, and that its file is a new one.

    Raises
    ------
    InvalidParameter : the file has another ending, or is that of the list of records.
    OutputExists, InsufficientRights : as ``require_new_file``.
    MissingDependency : the extra for reports is not installed.
    """
    report_path = Path(report)
    if report_path.suffix != ".html":
        raise InvalidParameter(
            "The report of the disclosure risk is an HTML page.",
            hint="Name a new file that ends in .html: `report`.",
        )
    new_path = require_new_file(report_path, "report")
    if list_path is not None and new_path.absolute() == list_path.absolute():
        raise InvalidParameter(
            "The report and the list of records cannot be one file.",
            hint="Name two new files: `report` and `records`.",
        )
    with name_missing_extras():
        import_module("dbanon.extensions.survey.risk_page")
    return new_path


def _require_tables(
    table: str | None, population: object, released: object, *, is_in_memory: bool
) -> None:
    """Check that sample and population are both in a database, or both in memory.

    A release of a table in a database may be in memory.

    Raises
    ------
    InvalidParameter : they are not, or the name of the table is missing.
    """
    if is_in_memory == (table is not None):
        raise InvalidParameter(
            "A data frame has no table." if is_in_memory else "The table is missing.",
            hint="Give a database with a table, or a data frame alone.",
        )
    if not is_in_memory and not isinstance(population, (str, NoneType)):
        raise InvalidParameter(
            "The population of a table must be a table of the same database.",
            hint="Give its name, or give both tables as data frames.",
        )
    is_name = isinstance(released, str)
    if is_in_memory and is_name:
        raise InvalidParameter(
            "The release of a data frame must be a data frame.",
            hint="Give both as data frames, or a database with the names of both tables.",
        )
    if not (released is None or is_name or is_table_in_memory(released)):
        raise InvalidParameter(
            "released is neither a table in memory nor the name of a table.",
            hint="Give a data frame, or the name of a table in the same database.",
        )


# If pandas is missing, the error names the extra that installs it.
@name_missing_extras()
def _read_frames(data: object, population: object, request: RiskRequest) -> _Tables:
    """Read a sample in memory, and the population if there is a table of it."""
    # Imports pandas, which databases do not need.
    from dbanon.stores.frame.conversion import frame_of
    from dbanon.stores.frame.source import FRAME_NAME, FrameSource
    from dbanon.stores.ports import IN_DATA_FRAME

    # Data frames have no views, so hints say "in the data frame" in place of "in a view".
    with hints_without_views(IN_DATA_FRAME):
        sample = read_table(request, FrameSource(frame_of(data)[0]))
        if population is None:
            return _Tables(sample)
        population_source = FrameSource(frame_of(population)[0])
        return _Tables(sample, read_table(request.for_population(FRAME_NAME), population_source))


@name_missing_extras()
def _with_released_frame(tables: _Tables, released: object, request: RiskRequest) -> _Tables:
    """Read the release if it is in memory, and request the same figures of it."""
    if not is_table_in_memory(released):
        return tables
    from dbanon.stores.frame.conversion import frame_of
    from dbanon.stores.frame.source import FrameSource
    from dbanon.stores.ports import IN_DATA_FRAME

    with hints_without_views(IN_DATA_FRAME):
        released_table = read_released(request, FrameSource(frame_of(released)[0]))
    return replace(tables, released=released_table)


def _read_database(
    database: object,
    request: RiskRequest,
    reading: Reading,
    on_sql: OnSql | None,
    tick: Tick,
    *,
    needs_positions: bool,
    has_released_table: bool,
) -> _Tables:
    """Read a sample of a database, and the population and the release that the request names.

    Parameters
    ----------
    needs_positions : whether rows are to be identified by their position.
    has_released_table : whether the release is a table of the database.
    """
    from dbanon.run.open import open_store
    from dbanon.stores.sql_source import SqlSource

    store = open_store(
        database, on_sql, reading=reading, table=request.table, memory=request.memory_limit
    )
    # A planning session changes nothing. ``staging`` still allows the temporary tables that reading
    # needs; they are those of one table.
    with store.planning(staging=True) as session:
        require_row_key(has_key=not needs_positions or session.file_url is not None)
        sample = read_table(request, SqlSource(session), tick)
    tables = _Tables(sample)
    if request.population is not None:
        with store.planning(staging=True) as session:
            tables = replace(tables, population=read_population(request, SqlSource(session), tick))
    if has_released_table:
        with store.planning(staging=True) as session:
            tables = replace(tables, released=read_released(request, SqlSource(session), tick))
    return tables
