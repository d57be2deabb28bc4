"""Recounts of exported files by an independent reader, DuckDB in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from pyarrow import parquet

from dbanon.data.counts import CountRequests, Counts
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import RecountFailed
from dbanon.job.export import CSV, KEEP, PARQUET, SEPARATORS, Export
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName, quote
from dbanon.stores.duckdb.dialect import literal
from dbanon.stores.duckdb.session import DuckdbSession
from dbanon.stores.duckdb.store import in_memory
from dbanon.stores.exports.arrow import arrow_schema
from dbanon.stores.exports.formulas import UNESCAPED
from dbanon.stores.sql_counts import count_class_values, count_classes, count_sets

_VIEW = RelationName(None, "released")


@contextmanager
def file_session(
    path: Path, kind: str, attributes: Sequence[Attribute] = (), export: Export | None = None
) -> Iterator[tuple[DuckdbSession, Relation]]:
    """Open a database whose only relation is a file; yields its session and the relation.

    Parameters
    ----------
    kind : its format.
    attributes, export : the columns of a CSV file, and the options it was written with.

    Raises
    ------
    DbanonError : the file cannot be read in this format.
    """
    with closing(in_memory()) as connection, path.open("rb") as file:
        session = DuckdbSession(connection)
        # By descriptor: a file name could be taken for a pattern.
        name = f"'/dev/fd/{file.fileno()}'"
        if kind == PARQUET:
            read = f"read_parquet({name})"
        else:
            types = ", ".join(
                f"{literal(a.name)}: {literal(_type_of(session, a))}" for a in attributes
            )
            separator = literal(SEPARATORS[export.separator if export else ","])
            decimal = literal(export.decimal if export else ".")
            read = (
                f"read_csv({name}, auto_detect = false, header = true, delim = {separator},"
                f" decimal_separator = {decimal}, quote = '\"',"
                f" escape = '\"', nullstr = '', allow_quoted_nulls = false, columns = {{{types}}})"
            )
        session.run(f"CREATE VIEW {_VIEW.quoted} AS SELECT * FROM {read}")
        yield session, session.find_source(_VIEW)


def counted_file(
    path: Path,
    export: Export,
    attributes: Sequence[Attribute],
    questions: CountRequests,
) -> tuple[Counts, dict[str, Attribute]]:
    """The answers, counted on a file, and the sensitive columns that were asked for.

    In CSV no text may be one that spreadsheets run, unless the export says otherwise.

    Raises
    ------
    RecountFailed : it has other columns or types, or a text that must not be there.
    DbanonError : it cannot be read.
    """
    kind = export.format
    if len({a.name.lower() for a in attributes}) < len(attributes):
        raise _other_columns()
    if kind == PARQUET and not parquet.read_schema(os.fspath(path)).equals(
        arrow_schema(attributes)
    ):
        raise _other_columns()
    with file_session(path, kind, attributes, export) as (session, relation):
        if [a.name for a in relation.schema.attributes] != [a.name for a in attributes]:
            raise _other_columns()
        if kind == CSV and export.formulas != KEEP:
            _require_harmless(session, relation)
        counts = Counts(
            count_classes(session, relation.name, questions),
            cells=count_class_values(session, relation, relation.name, questions),
            also=count_sets(session, relation.name, questions),
        )
        return counts, {name: relation.attribute(name) for name in questions.sensitive}


def _require_harmless(session: DuckdbSession, relation: Relation) -> None:
    """Check that no text is a formula to spreadsheets; raises RecountFailed."""
    for column in relation.schema.attributes:
        if column.sql_type == "VARCHAR" and session.rows(
            f"SELECT 1 FROM {relation.name.quoted}"
            f" WHERE regexp_matches({quote(column.name)}, {literal(UNESCAPED)}) LIMIT 1"
        ):
            raise RecountFailed(
                f'Column "{column.name}" of the file contains texts that spreadsheets run'
                " as formulas; nothing was published.",
                hint="Export to a .parquet file.",
            )


def _type_of(session: DuckdbSession, attribute: Attribute) -> str:
    """The type that a CSV column is read as."""
    is_text = attribute.kind in (Kind.CATEGORY, Kind.ORDINAL, Kind.OTHER)
    return "VARCHAR" if is_text else session.type_of(attribute)


def _other_columns() -> RecountFailed:
    return RecountFailed(
        "The file has other columns than the release. Nothing was published.",
        hint="If names of columns differ only in case, rename them in a view, and anonymize the"
        " view.",
    )
