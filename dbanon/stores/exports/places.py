"""Where files of releases stand: beside their place until the release is committed, then there.

A file is written under a name that says which release it belongs to, and is locked by its writer.
What a crash leaves, the next run finds: the ledger says whether the release is there.

A file of an object store is counted on this machine's disk, where it has no name. Then it is
uploaded, once, under such a name, and copied within the store once the release is committed. So is
a table's file of a lake, which a commit of its catalog's shows.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import hashlib
import os
import re
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from dbanon.errors import DatabaseUnreachable, InvalidParameter, OutputExists
from dbanon.job.export import is_table
from dbanon.sessions.ending import ending
from dbanon.stores.exports.lake import TableFile, TablePlace
from dbanon.stores.exports.problems import not_written, refused
from dbanon.stores.objects import ObjectPath, ObjectStat, is_object
from dbanon.stores.scratch import OLD

Away: TypeAlias = "ObjectPath | TablePlace"
Place: TypeAlias = "Path | Away"
# What is there before it has its place.
Staged: TypeAlias = "Path | ObjectPath | TableFile"
Found: TypeAlias = "os.stat_result | ObjectStat | None"

_NAME = ".dbanon-{tag}-{release}-{place}.tmp"
# What disks say that know no links of files.
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_OURS = re.compile(r"\.dbanon-[0-9a-f]{12}-([0-9a-f-]{36})-(\d+)\.tmp")


def tag_of(database: str, output: str) -> str:
    """What the names of files begin with that belong to one output of one database."""
    return hashlib.sha256(f"{database}\0{output}".encode()).hexdigest()[:12]


def place_for(path: str, release_id: str) -> Place:
    """The file, object or table that a path means; raises InvalidParameter."""
    if is_table(path):
        return TablePlace.of(path)
    path = path.replace("{release}", release_id)
    return (
        ObjectPath.of(path) if is_object(path) else Path(os.path.abspath(os.path.expanduser(path)))
    )


def file_for(path: str, release_id: str) -> Path:
    """The file of this machine that a path means; raises InvalidParameter."""
    place = place_for(path, release_id)
    if not isinstance(place, Path):
        raise InvalidParameter(
            f"{place} is no file of this machine.",
            hint="Only releases can be exported to object stores and to Iceberg. Write a report to"
            " a disk.",
        )
    return place


def what(place: Place) -> str:
    """What stands at a place, in a word."""
    return "table" if isinstance(place, TablePlace) else "file"


def make_above(place: Place) -> None:
    """Make what a place is in; raises as ``make_directories``, DatabaseUnreachable."""
    if isinstance(place, Path):
        make_directories(place.parent)
        return
    try:
        place.make_above()
    except OSError as error:
        raise refused(f"No namespace can be made for {place}.", error) from None


def make_directories(directory: Path) -> None:
    """Make a directory and those above it, for their owner alone.

    Raises
    ------
    InsufficientRights, InvalidParameter : it cannot be made.
    """
    wanted, missing = directory, []
    try:
        while not directory.exists():
            missing.append(directory)
            directory = directory.parent
        for one in reversed(missing):
            one.mkdir(mode=0o700, exist_ok=True)
            sync_directory(one.parent)
    except OSError as error:
        raise refused(f"The directory {wanted} cannot be made.", error) from None


def found_at(place: Place) -> Found:
    """What has a place, a link itself and not what it leads to; None where nothing has it.

    Raises
    ------
    InsufficientRights, InvalidParameter : nobody can tell.
    """
    try:
        return place.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise refused(f"No file can have the place {place}.", error) from None


def is_file(found: Found) -> bool:
    """True for a plain file: no link, no pipe, no directory, and something that is there."""
    return found is not None and stat.S_ISREG(found.st_mode)


def same_file(one: Found, other: Found) -> bool:
    """True where a place still has what it had."""
    if one is None or other is None:
        return one is other
    return all(
        getattr(one, name) == getattr(other, name)
        for name in ("st_dev", "st_ino", "st_size", "st_mtime_ns")
    )


def require_free(place: Place) -> None:
    """Check that nothing has a place; raises OutputExists."""
    if found_at(place) is not None:
        raise OutputExists(
            f"The {what(place)} {place} exists already.",
            hint='Choose another name, write {release} in it, or use `if_exists="replace"`.',
        )


@dataclass
class Pending:
    """A file that is written, and not in its place yet.

    Parameters
    ----------
    file : open, locked, under a name of its own.
    """

    file: BinaryIO
    path: Path
    place: Path

    @property
    def shown(self) -> Staged:
        """Where it can be found until it has its place."""
        return self.path

    @property
    def directory(self) -> Path:
        """Whose disk its bytes are on."""
        return self.path.parent

    @classmethod
    def begin(cls, place: Path, tag: str, release_id: str, number: int) -> Pending:
        """A new file beside its place, readable by its owner only.

        Raises
        ------
        InsufficientRights, InvalidParameter : it cannot be made.
        """
        make_directories(place.parent)
        path = place.with_name(_NAME.format(tag=tag, release=release_id, place=number))
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        while True:
            try:
                file = os.fdopen(os.open(path, flags, 0o600), "w+b")
            except OSError as error:
                raise refused(f"No file can be written in {place.parent}.", error) from None
            fcntl.flock(file, fcntl.LOCK_EX)
            # Before it was locked, another run may have taken it for one that was left behind.
            if path.exists() and path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                break
            file.close()
        return cls(file, path, place)

    def written(self) -> tuple[int, str]:
        """Its bytes, once they and its name are on the disk, and their SHA-256."""
        self.file.flush()
        os.fsync(self.file.fileno())
        sync_directory(self.path.parent)
        return self.path.stat().st_size, sha256(self.path)

    def counted(self) -> None:
        """Take note that the file holds what was released: it is where it has to be."""

    def finish(self, *, over: Found) -> None:
        """Give the file its place; raises OSError where that cannot be."""
        into_place(self.path, self.place, over=over)

    def undo(self) -> None:
        """Take the file away."""
        self.path.unlink(missing_ok=True)
        close(self.file)


@dataclass
class PendingObject:
    """A file that is written on this machine, to become an object, or a table's file.

    Parameters
    ----------
    file : open, without a name.
    path : leads to it while it is open.
    staged : the object that it is uploaded as.
    """

    file: BinaryIO
    path: Path
    staged: ObjectPath | TableFile
    place: Away
    uploaded: bool = False

    @property
    def shown(self) -> Staged:
        """Where it can be found until it has its place."""
        return self.staged

    @property
    def directory(self) -> Path:
        """Whose disk its bytes are on until they are uploaded."""
        return Path(tempfile.gettempdir())

    @classmethod
    def begin(cls, place: Away, tag: str, release_id: str, number: int) -> PendingObject:
        """A new file of this machine, without a name; raises DatabaseFailure."""
        try:
            file: Any = tempfile.TemporaryFile()  # noqa: SIM115
        except OSError as error:
            raise not_written(Path(tempfile.gettempdir()), error) from None
        if isinstance(place, TablePlace):
            try:
                staged: Any = place.staged(tag, release_id, number)
            except OSError as error:
                raise not_written(place, error) from None
        else:
            staged = place.with_name(_NAME.format(tag=tag, release=release_id, place=number))
        return cls(file, Path(f"/dev/fd/{file.fileno()}"), staged, place)

    def written(self) -> tuple[int, str]:
        """Its bytes, and their SHA-256."""
        self.file.flush()
        return os.fstat(self.file.fileno()).st_size, sha256(self.path)

    def counted(self) -> None:
        """Upload the file under a name that nobody reads; raises OSError."""
        self.uploaded = True
        self.staged.put(self.file, os.fstat(self.file.fileno()).st_size)

    def finish(self, *, over: Found) -> None:
        """Give the object its place; raises OSError where that cannot be."""
        into_place(self.staged, self.place, over=over)

    def undo(self) -> None:
        """Take away what was uploaded, as far as the store can be reached."""
        close(self.file)
        if self.uploaded:
            # A run that was told to end does not wait for a store that stalls.
            with suppress(OSError, DatabaseUnreachable):
                ending().connected(
                    lambda: self.staged.unlink(missing_ok=True), lambda nothing: None
                )


def close(file: BinaryIO) -> None:
    """Close a file of which nothing more is needed.

    On a full disk, closing fails once more: what could not be written is written again.
    """
    with suppress(OSError):
        file.close()


def begin(place: Place, tag: str, release_id: str, number: int) -> Pending | PendingObject:
    """A file that is to get a place; raises as ``Pending.begin``."""
    if isinstance(place, Path):
        return Pending.begin(place, tag, release_id, number)
    return PendingObject.begin(place, tag, release_id, number)


def into_place(path: Staged, place: Place, *, over: Found) -> None:
    """Rename a file, for good; raises OSError, as when another is there.

    Parameters
    ----------
    over : what may be replaced; None where nothing may.
    """
    if isinstance(place, TablePlace):
        assert isinstance(path, TableFile)
        place.commit(path, over=over)
        return
    if isinstance(place, ObjectPath):
        assert isinstance(path, ObjectPath)
        # What appears right now is lost: object stores know no copy into a free place.
        if over is None:
            require_free(place)
        path.copy_to(place)
        with suppress(OSError):
            path.unlink(missing_ok=True)
        return
    assert isinstance(path, Path)
    assert isinstance(place, Path)
    found = found_at(place)
    if isinstance(found, os.stat_result) and os.path.samestat(found, path.lstat()):
        # A run ended between link and unlink; a rename would leave both names.
        path.unlink()
    elif over is not None:
        os.replace(path, place)
    else:
        _into_free_place(path, place)
    sync_directory(place.parent)


def _into_free_place(path: Path, place: Path) -> None:
    """Rename a file where nothing has the name: a link fails then, as a rename does not."""
    try:
        os.link(path, place)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # A disk without links: what appears right now is lost.
        require_free(place)
        os.rename(path, place)
        return
    path.unlink()


def sync_directory(directory: Path) -> None:
    """Put the names of a directory on the disk; raises OSError."""
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def left_behind(path: str, tag: str) -> Iterator[tuple[Staged, str, int]]:
    """Files that are not in their places, with release, and number in it; see ``held``."""
    parent = place_for(path, "{release}").parent
    if isinstance(parent, TablePlace):
        with suppress(OSError):
            yield from parent.left(tag)
        return
    directory = parent.key if isinstance(parent, ObjectPath) else str(parent)
    pattern = "*".join(glob.escape(part) for part in directory.split("{release}"))
    pattern = os.path.join(pattern, f".dbanon-{tag}-*.tmp")
    names: Iterable[Path | ObjectPath] = map(Path, glob.glob(pattern))
    if isinstance(parent, ObjectPath):
        with suppress(OSError):
            names = ObjectPath(parent.scheme, pattern).matching()
    for name in names:
        found = _OURS.fullmatch(name.name)
        if found:
            yield name, found[1], int(found[2])


def drop_left(path: Staged) -> None:
    """Take away what was left behind; raises OSError.

    Of an object nobody knows whether its run has ended: one of the last day stays.
    """
    if isinstance(path, Path) or path.age(time.time()) > OLD:
        path.unlink(missing_ok=True)


@contextmanager
def held(path: Staged) -> Iterator[bool]:
    """A file for the block, and nobody else's: False where a run holds it, or it is gone.

    No link is followed, and no pipe waited for: in a directory of many, anybody may make them.
    Objects have no locks.
    """
    if not isinstance(path, Path):
        yield True
        return
    with ExitStack() as stack:
        try:
            opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            file = stack.enter_context(os.fdopen(opened, "rb"))
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found = os.fstat(file.fileno())
            is_left = is_file(found) and os.path.samestat(found, path.lstat())
        except OSError:
            is_left = False
        yield is_left


def sha256(path: Place | Staged) -> str:
    """The digest of a file's bytes."""
    found: Any = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(2**20):
            found.update(piece)
    return str(found.hexdigest())
