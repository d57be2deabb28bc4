"""Check database files, create them, remove new ones after failed runs, and parse database URLs.

If a file is not a database, a database client may open an empty database in memory instead. A
release that is written there would pass its recount and then be lost, so the file is checked first.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dbanon.data.files import STATISTICS_ENDINGS
from dbanon.errors import (
    DatabaseNotFound,
    DatabaseUnreachable,
    DbanonError,
    DiskFull,
    InsufficientRights,
    InvalidParameter,
    NotADatabase,
)

if TYPE_CHECKING:
    from sqlalchemy.engine import URL


DUCKDB, SQLITE = "duckdb", "sqlite"

# The endings that hints suggest for a new database.
_NEW_FILE_ENDINGS = {DUCKDB: "duckdb", SQLITE: "db"}
# The number of bytes at the start of a file that show whether it is a database.
_HEADER_BYTES = 16
# Whether os.access can check the rights of the effective user, instead of the real one.
_CHECKS_EFFECTIVE_USER = os.access in os.supports_effective_ids
# Files that DuckDB and SQLite write next to a database file.
_COMPANION_ENDINGS = (".wal", "-wal", "-journal", "-shm")
# Row files that DuckDB can load.
_LOADABLE_ENDINGS = frozenset((".csv", ".tsv", ".parquet", ".json", ".jsonl", ".ndjson"))
# All row files; a new database must not have such an ending.
_ROW_FILE_ENDINGS = _LOADABLE_ENDINGS | {".txt", ".xlsx", ".arrow", ".feather", *STATISTICS_ENDINGS}
_COMPRESSED_ENDINGS = frozenset((".gz", ".zst", ".bz2", ".xz", ".zip"))
# For a path that begins with md:, s3: or postgres:, DuckDB would load an extension. A single letter
# before the colon is a Windows drive.
_URL_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9_+-]+:")


@contextmanager
def ensure_database_file(
    path: Path | None, kind: str, *, write: bool, create: bool
) -> Iterator[None]:
    """Require a database file, or create a missing one, which is removed if the block raises.

    Parameters
    ----------
    path : the file; None for a database in memory.
    kind : ``duckdb`` or ``sqlite``.
    write : the file will be written.
    create : create a missing file.

    Raises
    ------
    NotADatabase : the file is not a database, or the name is that of a row file.
    InsufficientRights : the file may not be read, or not be written.
    DatabaseNotFound : the file or its directory is missing.
    DatabaseUnreachable, DiskFull : a missing file cannot be created.
    """
    if path is None:
        yield
        return
    _require_local(path, kind)
    if path.exists():
        require_database(path, kind)
        if write and not os.access(path, os.W_OK, effective_ids=_CHECKS_EFFECTIVE_USER):
            raise InsufficientRights(f"The database file {path} may not be written.")
        yield
        return
    if not create:
        raise DatabaseNotFound(f"There is no file {path}.")
    _require_creatable(path, kind)
    companions = [path.with_name(path.name + ending) for ending in _COMPANION_ENDINGS]
    new_companions = [companion for companion in companions if not companion.exists()]
    if not _create_empty(path, kind):
        # Another process created the file first and owns it.
        require_database(path, kind)
        yield
        return
    inode = path.stat().st_ino
    try:
        yield
    except BaseException:
        # Remove only the file that was created here, not one that has replaced it.
        if path.exists() and path.stat().st_ino == inode:
            for new_file in (path, *new_companions):
                new_file.unlink(missing_ok=True)
        raise


def will_be_created(path: Path | None, kind: str) -> bool:
    """Whether a database file is missing, so that a run will create it.

    Raises
    ------
    NotADatabase, InsufficientRights, DatabaseNotFound : the missing file cannot be created.
    """
    if path is None or path.exists():
        return False
    _require_local(path, kind)
    _require_creatable(path, kind)
    if not os.access(path.resolve().parent, os.W_OK, effective_ids=_CHECKS_EFFECTIVE_USER):
        raise InsufficientRights(f"The database file {path} cannot be created.")
    return True


def _require_local(path: Path, kind: str) -> None:
    """Refuse file names that DuckDB would take for URLs; raises NotADatabase."""
    if kind == DUCKDB and _URL_PREFIX.match(str(path)):
        raise NotADatabase(
            "A DuckDB URL must name a file on this machine.",
            hint="Write duckdb:///file.duckdb, or the absolute path if the name has a colon,"
            " as in duckdb:////data/a:b.",
        )


def _require_creatable(path: Path, kind: str) -> None:
    """Check that a database may be created under this name, and that its directory exists."""
    if _is_row_file_name(path):
        raise NotADatabase(
            f"{path} would be a database file with the extension of another kind of file.",
            hint=f"Name a database file, as in {kind}:///{path.stem}.{_NEW_FILE_ENDINGS[kind]}."
            " To write CSV or Parquet files along with a release, use `exports`.",
        )
    if not path.resolve().parent.is_dir():
        raise DatabaseNotFound(f"There is no directory for {path}.")


def _create_empty(path: Path, kind: str) -> bool:
    """Create an empty database; return False if the file exists already."""
    if kind == SQLITE:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        except FileExistsError:
            return False
        except OSError as error:
            raise _create_error(path, error) from None
        return True
    import duckdb

    # DuckDB rejects an empty file, and would open a file that another process has just created. So
    # create the database under a temporary name, and link it to its path: this fails if the path
    # exists.
    temporary_path = path.with_name(f".{path.name[:100]}-{uuid.uuid4().hex[:12]}")
    try:
        duckdb.connect(str(temporary_path)).close()
        os.link(temporary_path, path)
    except FileExistsError:
        return False
    except (OSError, duckdb.Error) as error:
        raise _create_error(path, error) from None
    finally:
        temporary_path.unlink(missing_ok=True)
    return True


def _create_error(path: Path, error: Exception) -> DbanonError:
    """The error for a database file that could not be created."""
    if DiskFull.caused_by(error):
        return DiskFull(
            f"The database file {path} cannot be created: the disk is full, or a limit on file"
            " sizes is reached; nothing was published.",
            detail=type(error).__name__,
            hint="Make room there, or write to a database on another disk, and run it again. df -h"
            " and ulimit -f show the limits.",
        )
    # DuckDB often gives no reason. If the directory is writable, a retry may succeed.
    is_denied = not os.access(path.resolve().parent, os.W_OK, effective_ids=_CHECKS_EFFECTIVE_USER)
    error_class = InsufficientRights if is_denied else DatabaseUnreachable
    return error_class(f"The database file {path} cannot be created.", detail=type(error).__name__)


def require_database(path: Path, kind: str) -> None:
    """Check the first bytes of an existing file for a database of this kind.

    Raises
    ------
    NotADatabase : the file is something else; the hint says how to read it.
    InsufficientRights : the file may not be read.
    """
    if not path.is_file():
        raise NotADatabase(f"{path} is not a file.", hint="Name a database file.")
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except PermissionError:
        raise InsufficientRights(f"The database file {path} may not be read.") from None
    actual_kind = _kind_of(header)
    # SQLite takes an empty file for an empty database.
    if actual_kind == kind or (kind == SQLITE and not header):
        return
    if actual_kind is not None:
        raise NotADatabase(
            f"{path} is a database file of another kind.", hint=f"Write {actual_kind}:///{path}."
        )
    if not header:
        raise NotADatabase(
            f"{path} is empty: it is not a database file.",
            hint="Remove it, so that a database can be created there, or name another file.",
        )
    raise NotADatabase(f"{path} is not a database file.", hint=_hint_to_load(path))


def _kind_of(header: bytes) -> str | None:
    """The kind of a database file by its first ``_HEADER_BYTES`` bytes; None for other files."""
    if header[8:12] == b"DUCK":
        return DUCKDB
    return SQLITE if header == b"SQLite format 3\0" else None


def _is_row_file_name(path: Path, endings: frozenset[str] = _ROW_FILE_ENDINGS) -> bool:
    """Whether the name has one of these endings, possibly followed by one for compression."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED_ENDINGS:
        suffixes.pop()
    return bool(suffixes) and suffixes[-1] in endings


def _hint_to_load(path: Path) -> str:
    """The hint for a file that is not a database: how to load its rows, if DuckDB can read them."""
    if not _is_row_file_name(path, _LOADABLE_ENDINGS) or not re.fullmatch(r"[\w./-]+", str(path)):
        return "Name a file that DuckDB or SQLite created."
    stem = path.name.partition(".")[0]
    table = stem if re.fullmatch(r"[A-Za-z]\w*", stem) else "people"
    load = f"import duckdb; duckdb.connect('{table}.duckdb')"
    load += rf".sql(\"CREATE TABLE {table} AS FROM '{path}'\")"
    return (
        f"CSV and Parquet files are read as file:{path}; or load it first:\n"
        f'  python -c "{load}"\n'
        f"  dbanon anonymize duckdb:///{table}.duckdb --table {table} …"
    )


def _refuse_second_at_sign(url: URL) -> None:
    """Refuse a second @ after a password: messages would show the end of the password as the host.

    Raises InvalidParameter.
    """
    # The parts of the URL that follow the password.
    later_parts = (url.host, url.database, *url.query, *map(str, url.query.values()))
    if url.password is not None and any("@" in str(part) for part in later_parts):
        raise InvalidParameter(
            "The database URL contains a password followed by another @.",
            hint="Write %40 for each @ in a password, or keep it in ~/.pgpass, a service file or"
            " PGPASSWORD. If the database or a setting has an @, use a URL without a password.",
        )


def hint_for_path(path_text: object) -> str | None:
    """A hint with the URL of an existing database, row file or folder; None for anything else."""
    path = Path(path_text).expanduser() if isinstance(path_text, str) and path_text else None
    try:
        if path is None or not path.exists():
            return None
        if path.is_dir() or _is_row_file_name(path):
            return f"Write file:{path_text}."
        with path.open("rb") as file:
            kind = _kind_of(file.read(_HEADER_BYTES))
    except (OSError, ValueError):
        return None
    return f"Write {kind}:///{path_text}." if kind else None


_DIALECT_ALIASES = {"postgres": "postgresql"}
_FILE_DATABASES = (DUCKDB, SQLITE)


def parse_duckdb_path(url: str) -> str | None:
    """Return the path in a simple DuckDB URL; None if SQLAlchemy has to parse the URL.

    This avoids importing SQLAlchemy, which takes longer than a small release.
    """
    scheme, _, path = url.partition(":///")
    # A question mark begins arguments, and a percent sign begins an escaped character.
    is_simple = scheme == DUCKDB and not set("?%") & set(path)
    return os.path.expanduser(path) if is_simple else None


def read_url(url_text: object) -> URL:
    """Parse a database URL; accepts ``postgres://``, and ``~`` in file names.

    Raises
    ------
    InvalidParameter : the URL cannot be parsed.
    """
    from sqlalchemy import URL, make_url
    from sqlalchemy.exc import ArgumentError

    try:
        if not isinstance(url_text, (URL, str)):
            raise ArgumentError
        url = make_url(url_text)
    except (ArgumentError, ValueError):
        raise InvalidParameter(
            "The database URL cannot be read.",
            hint=hint_for_path(url_text)
            or "Write postgresql://user@host/name, duckdb:///file.duckdb or sqlite:///file.db; or"
            " file:people.csv, to read a file of rows.",
        ) from None
    _refuse_second_at_sign(url)
    name, plus, driver = url.drivername.partition("+")
    url = url.set(drivername=f"{_DIALECT_ALIASES.get(name, name)}{plus}{driver}")
    if name in _FILE_DATABASES and url.database:
        url = url.set(database=os.path.expanduser(url.database))
    return url
