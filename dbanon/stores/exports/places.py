"""Where files of releases stand: beside their place until the release is committed, then there.

A file is written under a name that says which release it belongs to, and is locked by its writer.
What a crash leaves, the next run finds: the ledger says whether the release is there.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from dbanon.errors import DatabaseFailure, InsufficientRights, InvalidParameter, OutputExists

_NAME = ".dbanon-{tag}-{release}-{place}.tmp"
# What disks say that know no links of files.
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_OURS = re.compile(r"\.dbanon-[0-9a-f]{12}-([0-9a-f-]{36})-(\d+)\.tmp")


def tag_of(database: str, output: str) -> str:
    """What the names of files begin with that belong to one output of one database."""
    return hashlib.sha256(f"{database}\0{output}".encode()).hexdigest()[:12]


def place_for(path: str, release_id: str) -> Path:
    """The file that a path means."""
    return Path(os.path.abspath(os.path.expanduser(path.replace("{release}", release_id))))


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
        raise _refused(f"The directory {wanted} cannot be made.", error) from None


def found_at(place: Path) -> os.stat_result | None:
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
        raise _refused(f"No file can have the place {place}.", error) from None


def is_file(found: os.stat_result | None) -> bool:
    """True for a plain file: no link, no pipe, no directory, and something that is there."""
    return found is not None and stat.S_ISREG(found.st_mode)


def same_file(one: os.stat_result | None, other: os.stat_result | None) -> bool:
    """True where a place still has what it had."""
    if one is None or other is None:
        return one is other
    return all(
        getattr(one, name) == getattr(other, name)
        for name in ("st_dev", "st_ino", "st_size", "st_mtime_ns")
    )


def require_free(place: Path) -> None:
    """Check that nothing has a place; raises OutputExists."""
    if found_at(place) is not None:
        raise OutputExists(
            f"The file {place} exists already.",
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
                raise _refused(f"No file can be written in {place.parent}.", error) from None
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

    def finish(self, *, replace: bool) -> None:
        """Give the file its place; raises OSError where that cannot be."""
        into_place(self.path, self.place, replace=replace)

    def undo(self) -> None:
        """Take the file away."""
        self.path.unlink(missing_ok=True)
        self.file.close()


def into_place(path: Path, place: Path, *, replace: bool) -> None:
    """Rename a file, for good; raises OSError, as when ``replace`` is False and one is there."""
    found = found_at(place)
    if found is not None and os.path.samestat(found, path.lstat()):
        # A run ended between link and unlink; a rename would leave both names.
        path.unlink()
    elif replace:
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


def left_behind(path: str, tag: str) -> Iterator[tuple[Path, str, int]]:
    """Files that are not in their places, with release, and number in it; see ``held``."""
    directory = str(place_for(path, "{release}").parent)
    pattern = "*".join(glob.escape(part) for part in directory.split("{release}"))
    for name in glob.glob(os.path.join(pattern, f".dbanon-{tag}-*.tmp")):
        found = _OURS.fullmatch(os.path.basename(name))
        if found:
            yield Path(name), found[1], int(found[2])


@contextmanager
def held(path: Path) -> Iterator[bool]:
    """A file for the block, and nobody else's: False where a run holds it, or it is gone.

    No link is followed, and no pipe waited for: in a directory of many, anybody may make them.
    """
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


def sha256(path: Path) -> str:
    """The digest of a file's bytes."""
    found: Any = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(2**20):
            found.update(piece)
    return str(found.hexdigest())


def not_written(directory: Path, error: OSError) -> DatabaseFailure:
    """The error of a file that was begun: a full disk may have room later."""
    return DatabaseFailure(
        f"A file in {directory} cannot be written; nothing was published.", detail=error.strerror
    )


def _refused(message: str, error: OSError) -> InsufficientRights | InvalidParameter:
    denied = isinstance(error, PermissionError)
    kind = InsufficientRights if denied else InvalidParameter
    return kind(message, detail=error.strerror)
