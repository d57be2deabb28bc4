"""List and open row files: one at a path, all in a folder, or those that match a pattern.

As in Hive, a folder ``year=2025`` adds a column ``year`` to all files below it. Names that begin
with a dot or an underscore are skipped, as readers of data lakes do. Any other file that is not a
row file is an error, so that no rows are left out silently.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO, TypeAlias
from urllib.parse import unquote

from dbanon.data.files import (
    CSV,
    LINKS,
    PARQUET,
    REFUSE,
    STATISTICS,
    STATISTICS_ENDINGS,
    XLSX,
    is_link_refused,
    open_regular_file,
)
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
from dbanon.stores.objects import ObjectPath, ObjectStat
from dbanon.stores.schemes import FILE, is_object

ENDINGS = {
    ".csv": CSV,
    ".tsv": CSV,
    ".txt": CSV,
    ".xlsx": XLSX,
    ".parquet": PARQUET,
    **dict.fromkeys(STATISTICS_ENDINGS, STATISTICS),
}
# In a folder, a .txt file is probably a note, so it is only read if the user names it.
_TEXT_ENDING = ".txt"
# Descriptions for error messages.
_KIND_NAMES = {
    CSV: "CSV files",
    PARQUET: "Parquet files",
    XLSX: "spreadsheets",
    STATISTICS: "files of SPSS, Stata or SAS",
}
GZIP, ZSTD = COMPRESSED_ENDINGS = (".gz", ".zst")
# The value in the name of a folder, year=…, that stands for NULL.
_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
# Lake tables, such as those of Delta, consist of data files and metadata about them. This is the
# format of a lake table by the name of its folder of metadata.
_LAKE_OF_FOLDER = {"_delta_log": "Delta", "metadata": "Iceberg"}
# The URLs to read such tables by.
_LAKE_URLS = {"Delta": "delta:DIRECTORY", "Iceberg": "iceberg:CATALOG"}

FileLocation: TypeAlias = "Path | ObjectPath"


def parse_location(url: str) -> FileLocation:
    """Parse a URL of row files; raises InvalidParameter."""
    if is_object(url):
        return ObjectPath.parse(url)
    path = Path(url.removeprefix(FILE)).expanduser()
    if url == FILE or str(path).startswith("//"):
        raise InvalidParameter("Write file:/data/people.csv, without more slashes.")
    return path


def url_of_location(location: FileLocation) -> str:
    """The URL of a location, as users write it."""
    return str(location) if isinstance(location, ObjectPath) else f"{FILE}{location}"


def is_pattern(location: FileLocation) -> bool:
    """Whether a path contains wildcards."""
    return glob.has_magic(location.key if isinstance(location, ObjectPath) else str(location))


def find_root(location: FileLocation) -> FileLocation:
    """Return the folder above the first wildcard, or a path without wildcards unchanged."""
    while is_pattern(location):
        location = location.parent
    return location


@dataclass(frozen=True)
class SourceFile:
    """A row file.

    Parameters
    ----------
    state : device, inode, size in bytes and modification time in nanoseconds, as in
        ``os.stat_result``; for an object, those of ``ObjectStat``.
    folder_columns : the columns that the names of its folders define, as pairs of the column's name
        and its value as text, None for NULL.
    root : the folder that the user named; None if the user named the file.
    foreign_files : the option of that name: ``REFUSE``; ``ALLOW`` to permit other accounts' files
        below the root; or ``LINKS`` to permit links, too.
    """

    path: FileLocation
    state: tuple[object, ...]
    folder_columns: tuple[tuple[str, str | None], ...]
    root: FileLocation | None = None
    foreign_files: str = REFUSE

    @contextmanager
    def open(self, memory_bytes: int) -> Iterator[BinaryIO]:
        """Open the file for reading; an object is downloaded into memory.

        Parameters
        ----------
        memory_bytes : the memory limit of a download.

        Raises
        ------
        DatabaseNotFound, InsufficientRights, DatabaseUnreachable : the file cannot be opened.
        ForeignFile : the file now belongs to another account, or is a link.
        SourceChanged : a file on this machine changed since it was listed.
        MemoryLimit : the object is larger than the limit.
        """
        with ExitStack() as stack:
            # Translate the errors of opening only, not those of the caller's block.
            with translate_file_errors(self.path):
                path = self.path
                if isinstance(path, ObjectPath):
                    require_memory(path.lstat().st_size, memory_bytes, path)
                    file = stack.enter_context(path.download())
                else:
                    file = stack.enter_context(_open_file(path, self.root, self.foreign_files))
                    if _status_state(os.fstat(file.fileno())) != self.state:
                        raise changed_files_error(path)
            yield file


@contextmanager
def translate_file_errors(location: FileLocation) -> Iterator[None]:
    """Translate OSError from a disk or an object store into DbanonError."""
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


def require_memory(needed_bytes: int, memory_bytes: int, path: FileLocation) -> None:
    """Check that a file that must be held in memory is within the limit; raises MemoryLimit."""
    if needed_bytes > memory_bytes:
        raise MemoryLimit.exceeded(
            f"The file {path} is read into memory, and needs",
            memory_bytes,
            hint="Raise the limit (`memory_limit`), or write it as Parquet files on this machine.",
        )


def changed_files_error(location: FileLocation) -> SourceChanged:
    """The error for files that changed while they were read."""
    return SourceChanged(
        f"Files of {location} changed while they were read; nothing was published.",
        hint="Run it again once no program is writing to these files.",
    )


def list_source_files(
    location: FileLocation, foreign_files: str = REFUSE
) -> tuple[SourceFile, ...]:
    """List the files at a location in name order; all must be of one kind.

    Parameters
    ----------
    foreign_files : as in ``SourceFile``.

    Raises
    ------
    DatabaseNotFound : the location has no row files.
    FileMalformed : other files are among them, or folders name different columns.
    InvalidParameter : the files are of several kinds, or belong to a Delta or Iceberg table.
    InsufficientRights, DatabaseUnreachable : the location cannot be listed.
    ForeignFile : a file belongs to another account, or is a link.
    """
    with translate_file_errors(location):
        paths = _list_paths(location, foreign_files)
        is_single_file = paths == [location]
        # Folders between this path and a file define columns; none do if the user named the file.
        root = location if is_single_file else find_root(location)
        named_folder = None if is_single_file else root
        if named_folder is not None:
            # A pattern such as *.txt names text files.
            paths = _select_row_files(root, paths, str(location).endswith(_TEXT_ENDING))
            _require_no_lake(root)
        source_files = tuple(
            SourceFile(
                path,
                _path_state(path, named_folder, foreign_files),
                _folder_values(root, path),
                named_folder,
                foreign_files,
            )
            for path in paths
        )
    if not source_files:
        raise DatabaseNotFound(
            f"There is no file of rows at {location}.",
            hint="A folder, or a pattern such as file:data/*.parquet, must contain at least one"
            " .csv, .parquet or other file of rows; names that begin with a dot or an underscore"
            " are skipped.",
        )
    kinds = sorted({find_file_kind(source_file.path) for source_file in source_files})
    if len(kinds) > 1:
        raise InvalidParameter(
            f"{location} holds {' and '.join(_KIND_NAMES[kind] for kind in kinds)}.",
            hint="Read one kind: file:data/**/*.parquet.",
        )
    _require_same_folder_columns(source_files)
    return source_files


def find_file_kind(path: FileLocation) -> str:
    """The kind of a file, from its name: a value of ``ENDINGS``, or empty."""
    name = PurePosixPath(path.name.lower())
    if name.suffix not in COMPRESSED_ENDINGS:
        return ENDINGS.get(name.suffix, "")
    # Of compressed files, only CSV files are read.
    compressed_kind = ENDINGS.get(PurePosixPath(name.stem).suffix, "")
    return compressed_kind if compressed_kind == CSV else ""


def _list_paths(location: FileLocation, foreign_files: str) -> list[FileLocation]:
    """List the paths at a location.

    If a file has exactly this name, the name is not taken for a pattern.
    """
    if isinstance(location, ObjectPath):
        try:
            location.lstat()
        except FileNotFoundError:
            return [*(location.list_matching() if is_pattern(location) else location.list_below())]
        return [location]
    if location.is_file():
        return [location]
    if location.is_dir():
        return [*_walk(location, foreign_files)]
    if not is_pattern(location):
        raise FileNotFoundError
    names = sorted(glob.glob(str(location), recursive=True))
    return [Path(name) for name in names if not os.path.isdir(name)]


def _walk(folder: Path, foreign_files: str) -> Iterator[Path]:
    """Yield all files below a folder, except in hidden folders.

    Raises
    ------
    ForeignFile : there is a link to a folder, and links are not allowed.
    """
    visited = {os.path.realpath(folder)}
    follows_links = foreign_files == LINKS
    for directory, folders, names in os.walk(
        folder, onerror=_raise_error, followlinks=follows_links
    ):
        folders[:] = sorted(name for name in folders if not _is_hidden(name))
        for subfolder in [Path(directory) / name for name in folders]:
            if is_link_refused(subfolder, foreign_files):
                raise ForeignFile(
                    f"{subfolder} is a link to a folder, which is not followed.",
                    hint="Put the folder itself there, or remove the link. If links are meant to be"
                    ' followed: `foreign_files="links"`.',
                )
            # Links may form a cycle.
            if follows_links and (real_path := os.path.realpath(subfolder)) in visited:
                folders.remove(subfolder.name)
            elif follows_links:
                visited.add(real_path)
        yield from (Path(directory) / name for name in sorted(names))


def _is_hidden(name: str) -> bool:
    """Whether readers of data lakes skip a file or folder of this name.

    They skip names that begin with a dot or an underscore, but read folders such as ``_x=1``.
    """
    return name[:1] in (".", "_") and "=" not in name


def _raise_error(error: OSError) -> None:
    """Raise an error that ``os.walk`` would otherwise ignore."""
    # The traceback refers to this frame. Without ``del`` the frame would refer to the error, and
    # the cycle would stay in memory until the next garbage collection.
    try:
        raise error
    finally:
        del error


@contextmanager
def _open_file(path: Path, root: FileLocation | None, foreign_files: str) -> Iterator[BinaryIO]:
    """Open a file on this machine; raises ForeignFile if it is not allowed."""
    assert root is None or isinstance(root, Path)
    with open_regular_file(path, root, foreign_files) as file:
        yield file


def _relative_names(root: FileLocation, path: FileLocation) -> list[str]:
    """The names of the folders between the root and a file, and the file name."""
    if isinstance(path, ObjectPath):
        assert isinstance(root, ObjectPath)
        return path.key[len(root.key) :].strip("/").split("/")
    assert isinstance(root, Path)
    return [*path.relative_to(root).parts]


def _select_row_files(
    root: FileLocation, paths: Sequence[FileLocation], includes_text_files: bool
) -> list[FileLocation]:
    """Select the row files among paths below ``root``.

    Parameters
    ----------
    includes_text_files : whether .txt files are row files, because the user's pattern names them.

    Raises
    ------
    FileMalformed : another file is among them that is not hidden.
    """
    row_files = []
    for path in paths:
        if any(map(_is_hidden, _relative_names(root, path))):
            continue
        if not find_file_kind(path) or (
            path.name.lower().endswith(_TEXT_ENDING) and not includes_text_files
        ):
            raise FileMalformed(
                f"{path} is among the files to read, but is not a .csv, .tsv, .xlsx or .parquet"
                " file, nor one of SPSS, Stata or SAS.",
                hint="Read a pattern, which leaves it out: file:data/**/*.parquet.",
            )
        row_files.append(path)
    return row_files


def _require_no_lake(root: FileLocation) -> None:
    """Refuse files in the folder of a Delta or Iceberg table, as some may contain deleted rows.

    Raises InvalidParameter.
    """
    # Any folder above may be the table, also that of a relative path.
    folder = Path(os.path.abspath(root)) if isinstance(root, Path) else root
    while len(str(folder)) > 1 and folder != folder.parent and folder.name:
        for metadata_name, lake in _LAKE_OF_FOLDER.items():
            metadata_folder: FileLocation = (
                folder / metadata_name
                if isinstance(folder, Path)
                else folder.with_name(f"{folder.name}/{metadata_name}")
            )
            if _has_lake_metadata(metadata_folder, lake):
                raise InvalidParameter(
                    f"{folder} is a table of {lake}, whose files also contain deleted rows.",
                    hint=f"Name the source {_LAKE_URLS[lake]}, and let this program transfer the"
                    ' rows: `kept_columns="client"`.',
                )
        folder = folder.parent


def _has_lake_metadata(metadata_folder: FileLocation, lake: str) -> bool:
    """Whether a folder contains the metadata of a lake table."""
    pattern = "*.metadata.json" if lake == "Iceberg" else "*"
    if isinstance(metadata_folder, Path):
        return metadata_folder.is_dir() and any(metadata_folder.glob(pattern))
    return bool(
        ObjectPath(metadata_folder.scheme, f"{metadata_folder.key}/{pattern}").list_matching()
    )


def _path_state(
    path: FileLocation, root: FileLocation | None, foreign_files: str
) -> tuple[object, ...]:
    """The ``SourceFile.state`` of the file at a path; ``root`` is ``SourceFile.root``."""
    if isinstance(path, ObjectPath):
        return _status_state(path.lstat())
    with _open_file(path, root, foreign_files) as file:
        return _status_state(os.fstat(file.fileno()))


def _status_state(status: os.stat_result | ObjectStat) -> tuple[object, ...]:
    """The ``SourceFile.state`` of a file with this status."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _folder_values(root: FileLocation, path: FileLocation) -> tuple[tuple[str, str | None], ...]:
    """The ``SourceFile.folder_columns``, from the names of the folders between root and file."""
    if root == path:
        return ()
    folder_columns = []
    for name in _relative_names(root, path)[:-1]:
        column, separator, text = name.partition("=")
        if separator:
            folder_columns.append(
                (unquote(column), None if text == _NULL_FOLDER else unquote(text))
            )
    return tuple(folder_columns)


def _require_same_folder_columns(source_files: Sequence[SourceFile]) -> None:
    """Check that the folders of all files name the same columns, each once."""
    reference = source_files[0]
    names = [name for name, _ in reference.folder_columns]
    if len({name.lower() for name in names}) < len(names):
        raise FileMalformed(f"The folders of {reference.path} name a column twice.")
    for source_file in source_files:
        differing_names = {*names} ^ {name for name, _ in source_file.folder_columns}
        if differing_names:
            raise FileMalformed(
                f"The folders of {source_file.path} and those of {reference.path} do not both name"
                f' column "{min(differing_names)}".',
                hint="All files must be at the same depth, in folders that name the same columns.",
            )
