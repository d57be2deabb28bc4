"""Folders, patterns and single files of rows: which files they are, and what their folders say.

A folder ``year=2025`` is a column of all files below it, as Hive has it. Names that begin with a
dot or a low line are passed over, as readers of lakes do; anything else that is no file of rows is
refused, so that no row is left out without a word.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypeAlias
from urllib.parse import unquote

from dbanon.data.frozen import dataclass
from dbanon.errors import (
    DatabaseNotFound,
    DatabaseUnreachable,
    FileMalformed,
    InsufficientRights,
    InvalidParameter,
)
from dbanon.stores.objects import ObjectPath, is_object

FILE = "file:"
ENDINGS = {".csv": "csv", ".parquet": "parquet"}
_NULL = "__HIVE_DEFAULT_PARTITION__"
_LAKES = {"_delta_log": "Delta", "metadata": "Iceberg"}
_READ = {"Delta": "delta:DIRECTORY", "Iceberg": "iceberg:CATALOG"}

Place: TypeAlias = "Path | ObjectPath"


def is_of_files(url: str) -> bool:
    """True for a URL of files of rows, here or in an object store."""
    return url.startswith(FILE) or is_object(url)


def place_of(url: str) -> Place:
    """What a URL of files names; raises InvalidParameter."""
    if is_object(url):
        return ObjectPath.of(url)
    path = Path(url.removeprefix(FILE)).expanduser()
    if url == FILE or str(path).startswith("//"):
        raise InvalidParameter("Write file:/data/people.csv, without more slashes.")
    return path


def url_of(place: Place) -> str:
    """The URL of a place."""
    return str(place) if isinstance(place, ObjectPath) else f"{FILE}{place}"


def is_pattern(place: Place) -> bool:
    """True where a name may stand for several."""
    return glob.has_magic(place.key if isinstance(place, ObjectPath) else str(place))


def root_of(place: Place) -> Place:
    """The folder that a pattern begins in; a file or folder itself."""
    while is_pattern(place):
        place = place.parent
    return place


@dataclass(frozen=True)
class Piece:
    """A file of rows.

    Parameters
    ----------
    state : tells whether it is as it was.
    parts : what its folders say: names of columns, and their texts; None for NULL.
    """

    path: Place
    state: tuple[object, ...]
    parts: tuple[tuple[str, str | None], ...]

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """The file with a number; one of an object store is in memory.

        Raises
        ------
        DatabaseNotFound, InsufficientRights, DatabaseUnreachable : it cannot be had.
        """
        with translated(self.path):
            path = self.path
            file = path.fetched() if isinstance(path, ObjectPath) else path.open("rb")
        with file:
            yield file


@contextmanager
def translated(place: Place) -> Iterator[None]:
    """Raise what a disk or an object store raises as dbanon's own."""
    try:
        yield
    except FileNotFoundError:
        raise DatabaseNotFound(f"There is no file {place}.") from None
    except PermissionError as error:
        raise InsufficientRights(
            f"The file {place} may not be read.", detail=error.strerror
        ) from None
    except OSError as error:
        raise DatabaseUnreachable(f"{place} cannot be read.", detail=error.strerror) from None


def pieces_of(place: Place) -> tuple[Piece, ...]:
    """The files that a name stands for, in the order of their names, all of one ending.

    Raises
    ------
    DatabaseNotFound : there is none.
    FileMalformed : there is something else, too, or folders name different columns.
    InsufficientRights, DatabaseUnreachable : nobody can tell.
    """
    with translated(place):
        found = _found(place)
        root = place if found == [place] else root_of(place)
        if root != place or found != [place]:
            found = _rows_of(root, found)
            _require_no_lake(root)
        pieces = tuple(Piece(path, _state(path), _parts(root, path)) for path in found)
    if not pieces:
        raise DatabaseNotFound(
            f"No file of rows is at {place}.",
            hint="A folder, or a pattern as in file:data/*.parquet, needs one .csv or .parquet file"
            " or more; names that begin with a dot or an underscore are skipped.",
        )
    kinds = sorted({ending_of(piece.path) for piece in pieces})
    if len(kinds) > 1:
        raise InvalidParameter(
            f"{place} holds CSV files and Parquet files.",
            hint="Read one kind: file:data/**/*.parquet.",
        )
    _require_same_parts(pieces)
    return pieces


def ending_of(path: Place) -> str:
    """``csv``, ``parquet``, or nothing."""
    return ENDINGS.get(path.suffix.lower(), "")


def _found(place: Place) -> list[Place]:
    """What a name stands for; a file of just this name is meant before any pattern."""
    if isinstance(place, ObjectPath):
        try:
            place.lstat()
        except FileNotFoundError:
            return [*(place.matching() if is_pattern(place) else place.below())]
        return [place]
    if place.is_file():
        return [place]
    if place.is_dir():
        return [
            Path(folder) / name
            for folder, _, names in sorted(os.walk(place, onerror=_raise))
            for name in sorted(names)
        ]
    if not is_pattern(place):
        raise FileNotFoundError
    names = sorted(glob.glob(str(place), recursive=True))
    return [Path(name) for name in names if not os.path.isdir(name)]


def _raise(error: OSError) -> None:
    try:
        raise error
    finally:
        del error


def _below(root: Place, path: Place) -> list[str]:
    """The names of the folders below the root, and the file's."""
    if isinstance(path, ObjectPath):
        assert isinstance(root, ObjectPath)
        return path.key[len(root.key) :].strip("/").split("/")
    assert isinstance(root, Path)
    return [*path.relative_to(root).parts]


def _rows_of(root: Place, found: Sequence[Place]) -> list[Place]:
    """The files of rows; raises FileMalformed where something else is there that is not hidden."""
    rows = []
    for path in found:
        below = _below(root, path)
        if any(name[:1] in (".", "_") and "=" not in name for name in below):
            continue
        if not ending_of(path):
            raise FileMalformed(
                f"{path} is neither a .csv nor a .parquet file, and is among the files to read.",
                hint="Read a pattern, which leaves it out: file:data/**/*.parquet.",
            )
        rows.append(path)
    return rows


def _require_no_lake(root: Place) -> None:
    """Refuse the files of a table that a log is kept of: some hold rows that were deleted."""
    folder = root
    while len(str(folder)) > 1 and folder != folder.parent and folder.name:
        for name, lake in _LAKES.items():
            inside: Place = folder / name if isinstance(folder, Path) else folder.with_name(
                f"{folder.name}/{name}"
            )  # fmt: skip
            if _is_log(inside, lake):
                raise InvalidParameter(
                    f"{folder} is a table of {lake}, whose files also hold rows that were deleted.",
                    hint=f"Write {_READ[lake]} in place of it, and allow that its rows are drawn:"
                    " docs/warehouse.md.",
                )
        folder = folder.parent


def _is_log(inside: Place, lake: str) -> bool:
    pattern = "*.metadata.json" if lake == "Iceberg" else "*"
    if isinstance(inside, Path):
        return inside.is_dir() and any(inside.glob(pattern))
    return bool(ObjectPath(inside.scheme, f"{inside.key}/{pattern}").matching())


def _state(path: Place) -> tuple[object, ...]:
    found = path.lstat() if isinstance(path, ObjectPath) else path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _parts(root: Place, path: Place) -> tuple[tuple[str, str | None], ...]:
    if root == path:
        return ()
    parts = []
    for name in _below(root, path)[:-1]:
        column, found, text = name.partition("=")
        if found:
            parts.append((unquote(column), None if text == _NULL else unquote(text)))
    return tuple(parts)


def _require_same_parts(pieces: Sequence[Piece]) -> None:
    first = pieces[0]
    wanted = [name for name, _ in first.parts]
    if len({name.lower() for name in wanted}) < len(wanted):
        raise FileMalformed(f"The folders of {first.path} name a column twice.")
    for piece in pieces:
        differing = {*wanted} ^ {name for name, _ in piece.parts}
        if differing:
            raise FileMalformed(
                f"The folders of {piece.path} and those of {first.path} do not both name column"
                f' "{min(differing)}".',
                hint="All files of a table lie equally deep, in folders of the same names.",
            )
