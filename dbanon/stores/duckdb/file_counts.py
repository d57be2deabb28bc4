"""Recounts of exported files: DuckDB reads the files, which a different library (Arrow) wrote."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import BinaryIO

from pyarrow import parquet

from dbanon.data.counts import CountRequests, Counts
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import RecountFailed
from dbanon.job.export import CSV, KEEP, PARQUET, SEPARATORS, STATISTICS_FORMATS, Export
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName, quote
from dbanon.stores.duckdb.dialect import literal
from dbanon.stores.duckdb.session import DuckdbSession
from dbanon.stores.duckdb.store import connect_in_memory
from dbanon.stores.exports.arrow import arrow_schema
from dbanon.stores.exports.formulas import UNESCAPED_FORMULA
from dbanon.stores.sql_counts import count_class_values, count_classes, count_sets

# The view through which the file is read.
_VIEW = RelationName(None, "released")


@contextmanager
def open_file_session(
    path: Path, kind: str, attributes: Sequence[Attribute] = (), export: Export | None = None
) -> Iterator[tuple[DuckdbSession, Relation]]:
    """Open a database whose only relation is a file; yields its session and the relation.

    Parameters
    ----------
    kind : the format of the file, as ``Export.format`` names it.
    attributes : the columns of a CSV file, which does not contain their types.
    export : the options with which a CSV file was written; None for the default options.

    Raises
    ------
    DbanonError : the file cannot be read in this format.
    """
    with ExitStack() as stack:
        connection = stack.enter_context(closing(connect_in_memory()))
        file: BinaryIO = stack.enter_context(path.open("rb"))
        if kind in STATISTICS_FORMATS:
            from dbanon.stores.duckdb.statistics_files import open_as_parquet

            file = stack.enter_context(open_as_parquet(file, f"release.{kind}"))
        session = DuckdbSession(connection)
        # Open by descriptor, as DuckDB could take a file name for a pattern.
        name = f"'/dev/fd/{file.fileno()}'"
        if kind == PARQUET or kind in STATISTICS_FORMATS:
            from_item = f"read_parquet({name})"
        else:
            types = ", ".join(
                f"{literal(attribute.name)}: {literal(_csv_type(session, attribute))}"
                for attribute in attributes
            )
            separator = literal(SEPARATORS[export.separator if export else ","])
            decimal = literal(export.decimal if export else ".")
            from_item = (
                f"read_csv({name}, auto_detect = false, header = true, delim = {separator},"
                f" decimal_separator = {decimal}, quote = '\"',"
                f" escape = '\"', nullstr = '', allow_quoted_nulls = false, columns = {{{types}}})"
            )
        session.run(f"CREATE VIEW {_VIEW.quoted} AS SELECT * FROM {from_item}")
        yield session, session.catalog.find_source(_VIEW)


def count_file(
    path: Path,
    export: Export,
    attributes: Sequence[Attribute],
    requests: CountRequests,
) -> tuple[Counts, dict[str, Attribute]]:
    """Count the rows of a file as requested.

    Returns the counts, and the sensitive columns by name as DuckDB describes them.

    A CSV file must not contain texts that spreadsheets run as formulas, unless the options allow
    them.

    Raises
    ------
    RecountFailed : the file has other columns or types, or texts that it must not contain.
    DbanonError : the file cannot be read.
    """
    kind = export.format
    # DuckDB does not distinguish names that differ only in case.
    if len({a.name.lower() for a in attributes}) < len(attributes):
        raise _columns_error()
    if kind == PARQUET and not parquet.read_schema(os.fspath(path)).equals(
        arrow_schema(attributes)
    ):
        raise _columns_error()
    with open_file_session(path, kind, attributes, export) as (session, relation):
        if [a.name for a in relation.schema.attributes] != [a.name for a in attributes]:
            raise _columns_error()
        if kind == CSV and export.formulas != KEEP:
            _require_no_formulas(session, relation)
        counts = Counts(
            count_classes(session, relation.name, requests),
            value_counts=count_class_values(session, relation, relation.name, requests),
            further_sets=count_sets(session, relation.name, requests),
        )
        return counts, {name: relation.attribute(name) for name in requests.sensitive}


def _require_no_formulas(session: DuckdbSession, relation: Relation) -> None:
    """Check that spreadsheets run no text as a formula; raises RecountFailed."""
    for column in relation.schema.attributes:
        if column.sql_type == "VARCHAR" and session.rows(
            f"SELECT 1 FROM {relation.name.quoted}"
            f" WHERE regexp_matches({quote(column.name)}, {literal(UNESCAPED_FORMULA)}) LIMIT 1"
        ):
            raise RecountFailed(
                f'Column "{column.name}" of the file contains texts that spreadsheets run'
                " as formulas; nothing was published.",
                hint="Export to a .parquet file.",
            )


def _csv_type(session: DuckdbSession, attribute: Attribute) -> str:
    """The DuckDB type with which to read a CSV column."""
    is_text = attribute.kind in (Kind.CATEGORY, Kind.ORDINAL, Kind.OTHER)
    return "VARCHAR" if is_text else session.dialect.type_of(attribute)


def _columns_error() -> RecountFailed:
    """The error for a file whose columns differ from those of the release."""
    return RecountFailed(
        "The file has other columns than the release. Nothing was published.",
        hint="If names of columns differ only in case, rename them in a view, and anonymize the"
        " view.",
    )
