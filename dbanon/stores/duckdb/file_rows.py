"""Files of rows, one or many, as one table of DuckDB: read by number, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import BinaryIO

import duckdb

from dbanon.errors import FileMalformed, InvalidParameter, nearest_names
from dbanon.job.reading import UTF_8, Reading
from dbanon.sessions.names import RelationName, quote
from dbanon.stores.duckdb.csv_files import (
    MAX_COLUMNS,
    Head,
    as_utf8,
    broken,
    head_of,
    header_again,
)
from dbanon.stores.duckdb.csv_problems import LoadedFile, Refusal, refusals_of
from dbanon.stores.duckdb.csv_reading import (
    has_blanks,
    has_quotes,
    is_header,
    known_texts,
    read_arguments,
    require_header,
    with_skip_hint,
    without_blanks,
)
from dbanon.stores.duckdb.csv_types import (
    ColumnTypes,
    InferredType,
)
from dbanon.stores.duckdb.dialect import literal
from dbanon.stores.duckdb.errors import translated
from dbanon.stores.duckdb.file_formats import TooLarge, plain_csv
from dbanon.stores.folders import PARQUET, XLSX, Piece, Place, require_room

_RAW = quote("dbanon_raw")
_PARTS = quote("dbanon_parts")


class FileRows:
    """The table of some files; after it was loaded, with errors of columns that have no type yet.

    Parameters
    ----------
    name : what it is called.
    reading : how CSV files are written.
    memory : bytes that a file may use which has to be in memory to be read.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        name: RelationName,
        reading: Reading,
        memory: int,
    ) -> None:
        self._connection, self._name, self._reading = connection, name, reading
        self._memory = memory
        self.refusals: Mapping[str, Refusal] = {}

    def load(self, pieces: Sequence[Piece], kind: str) -> dict[str, InferredType]:
        """Load all rows; what columns were read as whose files say no types.

        Raises
        ------
        FileMalformed : one cannot be read, or has other columns than the first.
        """
        if self._name.schema is not None:
            self._connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quote(self._name.schema)}")
        if kind == PARQUET:
            return self._load_parquet(pieces)
        if kind == XLSX:
            # What is made of a sheet is.
            self._reading = replace(self._reading, encoding=UTF_8)
        return self._load_csv(pieces)

    # -- Parquet ----------------------------------------------------------------------------------

    def _load_parquet(self, pieces: Sequence[Piece]) -> dict[str, InferredType]:
        parted = self._parts_of(pieces)
        columns: dict[str, str] = {}
        for piece in pieces:
            with piece.opened(self._memory) as file, _read(piece.path):
                # By number: what stands in a name might be taken for a pattern.
                rows = f"read_parquet('/dev/fd/{file.fileno()}', hive_partitioning = false)"
                self._require_few(piece.path, file.fileno())
                asked = f"SELECT * FROM (DESCRIBE SELECT * FROM {rows})"
                told = self._connection.execute(asked).fetchall()
                found = {name: kind for name, kind, *_ in told}
                _require_same(piece, found, pieces[0], columns or found)
                first, columns = not columns, columns or found
                names = ", ".join(f"f.{quote(name)}" for name in columns)
                query = f"SELECT {names} FROM {rows} AS f"
                if piece.parts:
                    texts = ", ".join(_as_column(*part) for part in piece.parts)
                    values = ", ".join(f"{t.value} AS {quote(n)}" for n, t in parted.items())
                    query = (
                        f"SELECT {names}, p.* FROM {rows} AS f,"
                        f" (SELECT {values} FROM (SELECT {texts})) AS p"
                    )
                self._add(self._name.quoted, query, first)
        return {}

    def _require_few(self, path: Place, number: int) -> None:
        [(columns,)] = self._connection.execute(
            f"SELECT coalesce(max(num_children), 0) FROM parquet_schema('/dev/fd/{number}')"
        ).fetchall()
        if columns > MAX_COLUMNS:
            raise FileMalformed(
                f"The file {path} has {columns} columns, more than {MAX_COLUMNS}.",
                hint="Leave out columns that you do not need.",
            )

    def _parts_of(self, pieces: Sequence[Piece]) -> Mapping[str, InferredType]:
        """What the columns of folders are read as, by all of them."""
        names = [name for name, _ in pieces[0].parts]
        if not names:
            return {}
        columns = ", ".join(f"{quote(name)} VARCHAR" for name in names)
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {_PARTS} ({columns})")
        marks = ", ".join("?" for _ in names)
        texts = {tuple(dict(piece.parts)[name] for name in names) for piece in pieces}
        self._connection.executemany(
            f"INSERT INTO {_PARTS} VALUES ({marks})", [list(row) for row in texts]
        )
        found = ColumnTypes(self._connection, _PARTS, is_plain=True).of(names)
        self._connection.execute(f"DROP TABLE {_PARTS}")
        return dict(zip(names, found, strict=True))

    def _add(self, table: str, query: str, first: bool, temporary: str = "") -> None:
        begin = f"CREATE {temporary}TABLE {table} AS" if first else f"INSERT INTO {table} BY NAME"
        self._connection.execute(f"{begin} {query}")

    # -- CSV --------------------------------------------------------------------------------------

    @contextmanager
    def _opened(self, piece: Piece) -> Iterator[BinaryIO]:
        """A file as plain CSV, with a number; raises as ``Piece.opened`` and ``plain_csv``."""
        try:
            with (
                piece.opened(self._memory) as file,
                plain_csv(file, str(piece.path), self._reading.sheet, self._memory) as plain,
            ):
                yield plain
        except TooLarge as error:
            require_room(error.needed, self._memory, piece.path)
            raise

    def _load_csv(self, pieces: Sequence[Piece]) -> dict[str, InferredType]:
        """Texts first, then types that all values of a column have.

        A number with a leading zero is a code, and stays text.
        """
        heads: list[Head] = []
        files: list[LoadedFile] = []
        for piece in pieces:
            with self._opened(piece) as file, _read(piece.path):
                head = head_of(file, piece.path, self._reading)
                heads.append(head)
                _require_same(
                    piece, dict.fromkeys(head.names, ""), pieces[0],
                    dict.fromkeys(heads[0].names, ""),
                )  # fmt: skip
                more = "".join(f", {_as_column(*part)}" for part in piece.parts)
                with as_utf8(file, piece.path, self._reading, head, self._memory) as number:
                    if self._reading.header is None:
                        require_header(self._connection, number, piece.path, head)
                    try:
                        self._add_texts(number, piece, head, more, is_first=len(heads) == 1)
                    except duckdb.InvalidInputException:
                        error = broken(file, piece.path, self._reading, head)
                        raise with_skip_hint(self._connection, number, head, error) from None
                [(count,)] = self._connection.execute(f"SELECT count(*) FROM {_RAW}").fetchall()
                files.append(LoadedFile(piece.path, head, count, partial(self._opened, piece)))
        self._require_one_header(pieces, heads)
        names = [*heads[0].names, *(name for name, _ in pieces[0].parts)]
        self._require_stated(names, pieces[0].path)
        with _read(pieces[0].path):
            found = ColumnTypes(self._connection, _RAW, self._reading).of(names)
            self.refusals = refusals_of(
                self._connection, _RAW, dict(zip(names, found, strict=True)), files,
                self._reading,
            )  # fmt: skip
            cast = ", ".join(
                f"{typed.value} AS {quote(name)}" for name, typed in zip(names, found, strict=True)
            )
            self._add(self._name.quoted, f"SELECT {cast} FROM {_RAW}", True)
        self._connection.execute(f"DROP TABLE {_RAW}")
        return dict(zip(names, found, strict=True))

    def _require_stated(self, names: Sequence[str], path: Place) -> None:
        """Check that each column whose type is stated is there; raises InvalidParameter."""
        for name in self._reading.types:
            if name not in names:
                raise InvalidParameter(
                    f'The file {path} has no column "{name}", whose type is stated.',
                    hint=nearest_names(name, names) or "Take it out of `types`.",
                )

    def _add_texts(
        self, number: int, piece: Piece, head: Head, more: str, *, is_first: bool
    ) -> None:
        """Add the rows of a file in UTF-8 to the table of texts, without blanks around fields.

        What has quotes is looked at field by field, as blanks within them stay; once there are any.
        """
        add = partial(self._add_fields, head=head, more=more, is_first=is_first)
        if not self._reading.trim:
            add(number)
            return
        table = f"read_csv('/dev/fd/{number}', {read_arguments(head)})"
        try:
            if is_first:
                # Most files have none, and are read once.
                add(number)
                table = _RAW
            [(blanks,)] = self._connection.execute(
                f"SELECT {has_blanks(head)} FROM {table}"
            ).fetchall()
        except duckdb.InvalidInputException:
            # A blank before a quote hides it.
            blanks = True
        if blanks and has_quotes(number):
            with without_blanks(number, piece.path, head, self._memory) as trimmed:
                add(trimmed)
        elif blanks or not is_first:
            add(number, trim=bool(blanks))

    def _add_fields(
        self, number: int, *, head: Head, more: str, is_first: bool, trim: bool = False
    ) -> None:
        query = (
            f"SELECT {known_texts(head, self._reading, trim=trim)}{more}"
            f" FROM read_csv('/dev/fd/{number}', {read_arguments(head)})"
        )
        self._add(_RAW, query, is_first, "OR REPLACE TEMP ")

    def _require_one_header(self, pieces: Sequence[Piece], heads: Sequence[Head]) -> None:
        if not heads[0].has_header:
            return
        # One column may hold its own name.
        again = f"SELECT 1 FROM {_RAW} WHERE {is_header(heads[0])} LIMIT 1"
        if len(heads[0].names) == 1 or not self._connection.execute(again).fetchall():
            return
        last = len(pieces) - 1
        for place, (piece, head) in enumerate(zip(pieces, heads, strict=True)):
            with self._opened(piece) as file:
                error, found = header_again(file, piece.path, self._reading, head)
            if found or place == last:
                try:
                    raise error
                finally:
                    del error


def _as_column(name: str, text: str | None) -> str:
    """What a folder says, as a column of text."""
    return f"CAST({'NULL' if text is None else literal(text)} AS VARCHAR) AS {quote(name)}"


@contextmanager
def _read(path: Place) -> Iterator[None]:
    """Raise DuckDB's errors as those of a file."""
    refused = f"The file {path} cannot be read as what its name says."
    with translated(refused):
        try:
            yield
        except duckdb.InvalidInputException:
            # Not a failure of a database, which would be tried again.
            raise FileMalformed(refused) from None


def _require_same(
    piece: Piece, found: Mapping[str, str], first: Piece, wanted: Mapping[str, str]
) -> None:
    """Check that a file has the columns of the first one, and none that its folders have, too.

    Raises
    ------
    FileMalformed : it does not; the first column that differs is named.
    """
    lower = {name.lower() for name in found}
    for name, _ in piece.parts:
        if name.lower() in lower:
            raise FileMalformed(
                f'Column "{name}" is in the file {piece.path} and in the names of its folders.',
                hint="Rename one of them, or read the folders one by one.",
            )
    hint = "All files of a table have the same columns: write them anew, or read a pattern."
    for name in (*wanted, *found):
        if name not in found:
            raise FileMalformed(
                f'The file {piece.path} has no column "{name}", which {first.path} has.', hint=hint
            )
        if name not in wanted:
            raise FileMalformed(
                f'The file {piece.path} has a column "{name}", which {first.path} has not.',
                hint=hint,
            )
        if found[name] != wanted[name]:
            raise FileMalformed(
                f'Column "{name}" is {found[name]} in the file {piece.path}, and {wanted[name]} in'
                f" {first.path}.",
                hint=hint,
            )
