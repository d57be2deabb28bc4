"""Row files named by a single path, a folder or a pattern, and columns from folder names.

A folder ``year=2025`` is a column of all files below it, as in Hive. Names that begin with a dot or
an underscore are skipped, as lake readers do. Any other file that does not hold rows is an error,
so that no rows are left out silently.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO, TypeAlias
from urllib.parse import unquote

from dbanon.data.files import LINKS, REFUSE, is_link_refused, opened
from dbanon.data.frozen import dataclass
from dbanon.errors import (
    DatabaseNotFound,
    DatabaseUnreachable,
    FileMalformed,
    ForeignFile,
    InsufficientRights,
    InvalidParameter,
    MemoryLimit,
    SourceChanged,
)
from dbanon.stores.objects import ObjectPath, ObjectStat, is_object

FILE = "file:"
CSV, PARQUET, XLSX = "csv", "parquet", "xlsx"
ENDINGS = {".csv": CSV, ".tsv": CSV, ".txt": CSV, ".xlsx": XLSX, ".parquet": PARQUET}
# Read only when named explicitly; a .txt file in a folder is taken for a note.
_NOTE = ".txt"
_KINDS = {CSV: "CSV files", PARQUET: "Parquet files", XLSX: "spreadsheets"}
GZIP, ZSTD = PACKED = (".gz", ".zst")
_NULL = "__HIVE_DEFAULT_PARTITION__"
_LAKES = {"_delta_log": "Delta", "metadata": "Iceberg"}
_READ = {"Delta": "delta:DIRECTORY", "Iceberg": "iceberg:CATALOG"}

FileLocation: TypeAlias = "Path | ObjectPath"


def is_of_files(url: str) -> bool:
    """Whether a URL names row files, on this machine or in an object store."""
    return url.startswith(FILE) or is_object(url)


def location_of(url: str) -> FileLocation:
    """Parse a URL of row files; raises InvalidParameter."""
    if is_object(url):
        return ObjectPath.of(url)
    path = Path(url.removeprefix(FILE)).expanduser()
    if url == FILE or str(path).startswith("//"):
        raise InvalidParameter("Write file:/data/people.csv, without more slashes.")
    return path


def url_of(location: FileLocation) -> str:
    """The URL of a location."""
    return str(location) if isinstance(location, ObjectPath) else f"{FILE}{location}"


def is_pattern(location: FileLocation) -> bool:
    """Whether a path contains wildcards."""
    return glob.has_magic(location.key if isinstance(location, ObjectPath) else str(location))


def root_of(location: FileLocation) -> FileLocation:
    """The folder above the first wildcard; a path without wildcards itself."""
    while is_pattern(location):
        location = location.parent
    return location


@dataclass(frozen=True)
class SourceFile:
    """A row file.

    Parameters
    ----------
    state : changes whenever the file does.
    parts : columns from folder names, with their texts; None for NULL.
    root : the folder that the user named; None if the user named the file.
    policy : whether links and other accounts' files are allowed, see ``dbanon.data.files``.
    """

    path: FileLocation
    state: tuple[object, ...]
    parts: tuple[tuple[str, str | None], ...]
    root: FileLocation | None = None
    policy: str = REFUSE

    @contextmanager
    def opened(self, memory: int) -> Iterator[BinaryIO]:
        """Open the file with a file descriptor; an object is downloaded into memory.

        Parameters
        ----------
        memory : the memory limit of a download, in bytes.

        Raises
        ------
        DatabaseNotFound, InsufficientRights, DatabaseUnreachable : the file cannot be opened.
        ForeignFile : the file now belongs to another account, or is a link.
        SourceChanged : the file changed since it was listed.
        MemoryLimit : the object is larger than the limit.
        """
        with ExitStack() as stack:
            with translate_file_errors(self.path):
                path = self.path
                if isinstance(path, ObjectPath):
                    require_room(path.lstat().st_size, memory, path)
                    file = stack.enter_context(path.download())
                else:
                    file = stack.enter_context(_opened(path, self.root, self.policy))
                    if _state_of_status(os.fstat(file.fileno())) != self.state:
                        raise files_changed(path)
            yield file


@contextmanager
def translate_file_errors(location: FileLocation) -> Iterator[None]:
    """Translate errors of a disk or an object store into dbanon's own."""
    try:
        yield
    except FileNotFoundError:
        raise DatabaseNotFound(f"There is no file {location}.") from None
    except PermissionError as error:
        raise InsufficientRights(
            f"The file {location} may not be read.", detail=error.strerror
        ) from None
    except OSError as error:
        raise DatabaseUnreachable(f"{location} cannot be read.", detail=error.strerror) from None


def require_room(needed: int, memory: int, path: FileLocation) -> None:
    """Check that a file fits into memory; raises MemoryLimit."""
    if needed > memory:
        raise MemoryLimit.exceeded(
            f"The file {path} is read from memory, and needs",
            memory,
            hint="Raise the limit (`memory_limit`), or write it as Parquet files on this machine.",
        )


def files_changed(location: FileLocation) -> SourceChanged:
    """The error for files that changed while they were read."""
    return SourceChanged(
        f"Files of {location} changed while they were read; nothing was published.",
        hint="Run it again when no program writes to these files any more.",
    )


def list_source_files(location: FileLocation, policy: str = REFUSE) -> tuple[SourceFile, ...]:
    """List the files at a location in name order; all must be of one kind.

    Parameters
    ----------
    policy : whether links and other accounts' files are allowed, see ``dbanon.data.files``.

    Raises
    ------
    DatabaseNotFound : the location has no row files.
    FileMalformed : other files are among them, or folders name different columns.
    InsufficientRights, DatabaseUnreachable : the location cannot be listed.
    ForeignFile : a file belongs to another account, or is a link.
    """
    with translate_file_errors(location):
        paths = _list_paths(location, policy)
        root = location if paths == [location] else root_of(location)
        folder = None if paths == [location] else root
        if folder is not None:
            paths = _select_row_files(root, paths, str(location).endswith(_NOTE))
            _require_no_lake(root)
        source_files = tuple(
            SourceFile(
                path,
                _state_of_path(path, folder, policy),
                _folder_values(root, path),
                folder,
                policy,
            )
            for path in paths
        )
    if not source_files:
        raise DatabaseNotFound(
            f"There is no file of rows at {location}.",
            hint="A folder, or a pattern as in file:data/*.parquet, needs one .csv or .parquet file"
            " or more; names that begin with a dot or an underscore are skipped.",
        )
    kinds = sorted({ending_of(source_file.path) for source_file in source_files})
    if len(kinds) > 1:
        raise InvalidParameter(
            f"{location} holds {' and '.join(_KINDS[kind] for kind in kinds)}.",
            hint="Read one kind: file:data/**/*.parquet.",
        )
    _require_same_folder_columns(source_files)
    return source_files


def ending_of(path: FileLocation) -> str:
    """The kind of a file, from its name: ``csv``, ``xlsx``, ``parquet``, or empty."""
    name = PurePosixPath(path.name.lower())
    if name.suffix not in PACKED:
        return ENDINGS.get(name.suffix, "")
    inner = ENDINGS.get(PurePosixPath(name.stem).suffix, "")
    return inner if inner == CSV else ""


def _list_paths(location: FileLocation, policy: str) -> list[FileLocation]:
    """List the paths at a location; a file of exactly this name takes precedence over a pattern."""
    if isinstance(location, ObjectPath):
        try:
            location.lstat()
        except FileNotFoundError:
            return [*(location.matching() if is_pattern(location) else location.below())]
        return [location]
    if location.is_file():
        return [location]
    if location.is_dir():
        return [*_walk(location, policy)]
    if not is_pattern(location):
        raise FileNotFoundError
    names = sorted(glob.glob(str(location), recursive=True))
    return [Path(name) for name in names if not os.path.isdir(name)]


def _walk(folder: Path, policy: str) -> Iterator[Path]:
    """All files below a folder except in hidden folders; a link to a folder is an error."""
    visited = {os.path.realpath(folder)}
    follow = policy == LINKS
    for directory, folders, names in os.walk(folder, onerror=_raise, followlinks=follow):
        folders[:] = sorted(name for name in folders if not _is_hidden(name))
        for below in [Path(directory) / name for name in folders]:
            if is_link_refused(below, policy):
                raise ForeignFile(
                    f"{below} is a link to a folder, which is not followed.",
                    hint="Put the folder itself there, or remove the link. If links are meant to be"
                    ' followed: `foreign_files="links"`.',
                )
            # Links may form a cycle.
            if follow and (real := os.path.realpath(below)) in visited:
                folders.remove(below.name)
            elif follow:
                visited.add(real)
        yield from (Path(directory) / name for name in sorted(names))


def _is_hidden(name: str) -> bool:
    return name[:1] in (".", "_") and "=" not in name


def _raise(error: OSError) -> None:
    try:
        raise error
    finally:
        del error


@contextmanager
def _opened(path: Path, root: FileLocation | None, policy: str) -> Iterator[BinaryIO]:
    assert root is None or isinstance(root, Path)
    with opened(path, root, policy) as file:
        yield file


def _below(root: FileLocation, path: FileLocation) -> list[str]:
    """The names of the folders below the root, and the file name."""
    if isinstance(path, ObjectPath):
        assert isinstance(root, ObjectPath)
        return path.key[len(root.key) :].strip("/").split("/")
    assert isinstance(root, Path)
    return [*path.relative_to(root).parts]


def _select_row_files(
    root: FileLocation, paths: Sequence[FileLocation], notes: bool
) -> list[FileLocation]:
    """Select the row files; raises FileMalformed for any other file that is not hidden.

    Parameters
    ----------
    notes : whether text files are row files.
    """
    rows = []
    for path in paths:
        below = _below(root, path)
        if any(map(_is_hidden, below)):
            continue
        if not ending_of(path) or (path.name.lower().endswith(_NOTE) and not notes):
            raise FileMalformed(
                f"{path} is among the files to read, but is neither a .csv nor a .parquet file.",
                hint="Read a pattern, which leaves it out: file:data/**/*.parquet.",
            )
        rows.append(path)
    return rows


def _require_no_lake(root: FileLocation) -> None:
    """Refuse the files of a lake table: some of them hold deleted rows."""
    folder = root
    while len(str(folder)) > 1 and folder != folder.parent and folder.name:
        for name, lake in _LAKES.items():
            inside: FileLocation = (
                folder / name
                if isinstance(folder, Path)
                else folder.with_name(f"{folder.name}/{name}")
            )
            if _is_log(inside, lake):
                raise InvalidParameter(
                    f"{folder} is a table of {lake}, whose files also contain deleted rows.",
                    hint=f"Name the source {_READ[lake]}, and let its rows travel through this"
                    f" program:"
                    ' `kept_columns="client"`.',
                )
        folder = folder.parent


def _is_log(inside: FileLocation, lake: str) -> bool:
    pattern = "*.metadata.json" if lake == "Iceberg" else "*"
    if isinstance(inside, Path):
        return inside.is_dir() and any(inside.glob(pattern))
    return bool(ObjectPath(inside.scheme, f"{inside.key}/{pattern}").matching())


def _state_of_path(
    path: FileLocation, root: FileLocation | None, policy: str
) -> tuple[object, ...]:
    if isinstance(path, ObjectPath):
        return _state_of_status(path.lstat())
    with _opened(path, root, policy) as file:
        return _state_of_status(os.fstat(file.fileno()))


def _state_of_status(status: os.stat_result | ObjectStat) -> tuple[object, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _folder_values(root: FileLocation, path: FileLocation) -> tuple[tuple[str, str | None], ...]:
    if root == path:
        return ()
    parts = []
    for name in _below(root, path)[:-1]:
        column, separator, text = name.partition("=")
        if separator:
            parts.append((unquote(column), None if text == _NULL else unquote(text)))
    return tuple(parts)


def _require_same_folder_columns(source_files: Sequence[SourceFile]) -> None:
    first = source_files[0]
    names = [name for name, _ in first.parts]
    if len({name.lower() for name in names}) < len(names):
        raise FileMalformed(f"The folders of {first.path} name a column twice.")
    for source_file in source_files:
        differing = {*names} ^ {name for name, _ in source_file.parts}
        if differing:
            raise FileMalformed(
                f"The folders of {source_file.path} and those of {first.path} do not both name"
                f' column "{min(differing)}".',
                hint="All files of a table lie equally deep, in folders of the same names.",
            )
