"""Python's door to advice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dbanon.advice.request import KS, AdviceRequest
from dbanon.data.option import make, parameters
from dbanon.doors.signature import lists
from dbanon.errors import InvalidParameter
from dbanon.hierarchy.spec import Given, parse_all
from dbanon.job.reading import Reading
from dbanon.run.advise import AdviceProgress
from dbanon.run.advise import advise as run_advise

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from dbanon.advice.answer import Advice
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
    sample: int = 2_000,
    seed: int = 0,
    time_limit: float = 20.0,
    key: Sequence[str] = (),
    hierarchies: Mapping[str, Given] | None = None,
    memory_limit: int | None = None,
    progress: AdviceProgress | None = None,
    on_sql: OnSql | None = None,
    **reading: Unpack[ReadingOptions],
) -> Advice:
    """Say what columns may be, what singles rows out, and which release to start from.

    Roles are proposals, never decisions. Nothing is written, and no value of the data is told.
    ``anonymize(data, **advice.start)`` makes the release that is recommended; of a frame
    ``anonymize_frame`` does.

    Parameters
    ----------
    data : a URL, a SQLAlchemy engine, a DuckDB connection, or a pandas data frame.
    table : its name, as in ``app.people``; None for a data frame.
    quasi_identifiers : that together could re-identify a person; proposed where none is named.
    sensitive : columns that are sensitive and no quasi-identifiers.
    k : sizes of classes to try.
    methods : methods to try, such as ``mdav`` or ``mdav+fast``.
    max_risk, max_loss : what is allowed: the least loss, or risk, within it is recommended.
    sample : releases are tried on so many rows, drawn by ``seed``, where there are more.
    time_limit : seconds after which no further release is tried; one always is.
    key, hierarchies, memory_limit : as in ``anonymize``.
    progress : called with a part (``profile``, ``read``, ``singling``, ``sweep``) and a share.
    on_sql : called with the text of each SQL statement before it runs.
    reading : how a CSV file is written: ``dates``, ``decimal``, ``encoding``, ``null_words`` as in
        ``anonymize``.

    Raises
    ------
    NoRows, NoQuasiIdentifiers, TooFewRecords, NothingFits : there is nothing to advise.
    DbanonError : what reading the table raises.
    """
    given = locals()
    from dbanon.stores.frame.source import NAME, FrameSource

    framed = type(data).__module__.partition(".")[0] == "pandas"
    if framed == (table is not None):
        raise InvalidParameter(
            "A data frame has no table." if framed else "The table is missing.",
            hint="Give a database with a table, or a data frame alone.",
        )
    asked = {one.name: given[one.name] for one in parameters(AdviceRequest)}
    asked |= {
        "table": NAME if table is None else table,
        "hierarchies": parse_all(hierarchies, files=True),
    }
    wishes = make(AdviceRequest, asked)
    written = make(Reading, reading)
    if framed:
        written.require_none()
        found = run_advise(wishes, FrameSource(data), progress)
        start = {name: value for name, value in found.start.items() if name not in _OF_TABLES}
        return replace(found, start=start)
    from dbanon.run.open import open_store
    from dbanon.stores.sql_source import SqlSource

    store = open_store(data, on_sql, reading=written, table=table)
    with store.planning(staging=True) as session:
        found = run_advise(wishes, SqlSource(session), progress)
    return replace(found, start={**found.start, **written.to_dict()})
