"""The Python API for the disclosure risk of samples."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import NoneType
from typing import TYPE_CHECKING

from dbanon.data.option import build_options, parameters
from dbanon.doors.advise import is_table_in_memory
from dbanon.doors.progress import progress_callback
from dbanon.doors.signature import list_options
from dbanon.errors import InvalidParameter, hints_without_views, name_missing_extras
from dbanon.extensions.survey.assess import assess_sample
from dbanon.extensions.survey.attacker_risk import DEFAULT_THRESHOLD
from dbanon.extensions.survey.read_sample import (
    SampleTable,
    code_sample,
    read_population,
    read_table,
)
from dbanon.extensions.survey.record_list import (
    require_new_file,
    require_row_key,
    write_record_list,
)
from dbanon.extensions.survey.request import DEFAULT_SUDA_SECONDS, RiskRequest
from dbanon.extensions.survey.sample_risk import SampleRisk
from dbanon.job.reading import Reading
from dbanon.measures.figure import Tick

if TYPE_CHECKING:
    from typing import Unpack

    from dbanon.doors.progress import ProgressOption
    from dbanon.job.options import ReadingOptions
    from dbanon.sessions.base import OnSql

# Stands for the names of tables in memory.
_IN_MEMORY = "data frame"


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
    memory_limit: int | None = None,
    progress: ProgressOption = None,
    on_sql: OnSql | None = None,
    **reading: Unpack[ReadingOptions],
) -> SampleRisk:
    """Measure the disclosure risk of a sample: how likely its records lead to their persons.

    The figures are for the controller of the data, not for publication. Nothing is written but the
    list of records, if you name a file for it. No value of the data is shown.

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
    records : the path of a new file for a private list: each record with its row key, its risks and
        the columns that cause them. Only its owner can read it, and it is not for publication.
    progress : called with the name of a phase and its completed share, 0 to 1. Phases are ``read``
        and ``measure``. True for a progress bar in a notebook or on a terminal.
    on_sql : called with the text of each SQL statement before it runs.
    reading : the format of a CSV file, such as ``dates``, ``decimal``, ``encoding`` and
        ``null_words``.

    Raises
    ------
    TooFewRecords : the table has no rows.
    OutputExists : the file for the list of records exists.
    DbanonError : an option is not allowed, or the table cannot be read.
    """
    is_in_memory = is_table_in_memory(data)
    _require_tables(table, population, is_in_memory=is_in_memory)
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
    list_path = None if records is None else require_new_file(records)
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
            )
        result, record_risks = assess_sample(
            code_sample(*tables),
            request,
            with_records=list_path is not None,
            tick=lambda share: report_progress("measure", share),
        )
    if list_path is not None:
        write_record_list(list_path, tables[0], request.quasi_identifiers, record_risks)
    return result


def _require_tables(table: str | None, population: object, *, is_in_memory: bool) -> None:
    """Check that sample and population are both in a database, or both in memory.

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


# If pandas is missing, the error names the extra that installs it.
@name_missing_extras()
def _read_frames(
    data: object, population: object, request: RiskRequest
) -> tuple[SampleTable, SampleTable | None]:
    """Read a sample in memory, and the population; None if there is no table of it."""
    # Imports pandas, which databases do not need.
    from dbanon.stores.frame.conversion import frame_of
    from dbanon.stores.frame.source import FRAME_NAME, FrameSource
    from dbanon.stores.ports import IN_DATA_FRAME

    # Data frames have no views, so hints say "in the data frame" in place of "in a view".
    with hints_without_views(IN_DATA_FRAME):
        sample = read_table(request, FrameSource(frame_of(data)[0]))
        if population is None:
            return sample, None
        population_source = FrameSource(frame_of(population)[0])
        return sample, read_table(request.for_population(FRAME_NAME), population_source)


def _read_database(
    database: object,
    request: RiskRequest,
    reading: Reading,
    on_sql: OnSql | None,
    tick: Tick,
    *,
    needs_positions: bool,
) -> tuple[SampleTable, SampleTable | None]:
    """Read a sample of a database, and the population; None if the request names no table of it.

    Parameters
    ----------
    needs_positions : whether rows are to be identified by their position.
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
    if request.population is None:
        return sample, None
    with store.planning(staging=True) as session:
        return sample, read_population(request, SqlSource(session), tick)
