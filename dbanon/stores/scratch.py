"""A directory for what a run puts on a disk: named by whoever runs it, nobody else's, gone with it.

Files in it lose their names as soon as they are open, so that no way out leaves them behind. What a
run that was killed leaves is an empty directory, and what a database wrote there: the next run with
the same directory takes it away, and so does ``clear_left``.

Java opens its files by name. So the driver of a cluster has a directory of its own among others'
files, locked as long as its process lives; ``clear_killed`` takes away those that nobody holds.
Its workers write a release to a directory beside its place, which ``clear_staged_in`` clears.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dbanon.errors import (
    DatabaseFailure,
    DbanonError,
    DiskFull,
    InsufficientRights,
    InvalidParameter,
    JobRunning,
)
from dbanon.stores.interrupts import held, held_once_committed

_OWN = re.compile(r"dbanon-[0-9a-f]{32}")
# One that is locked itself, where of the others it is the directory around it.
_HELD = re.compile(r"dbanon-spark-[0-9a-f]{32}")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Scratch:
    """A run's own directory below the one that was named.

    Parameters
    ----------
    path : where it is, for databases that open files by name.
    files : closes those that are still open.
    """

    path: Path
    files: ExitStack

    def file(self) -> BinaryIO:
        """A new file, empty, for its owner alone, without a name.

        Raises
        ------
        DatabaseFailure : the disk takes no more.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        place = self.path / secrets.token_hex(16)
        try:
            opened = os.open(place, flags, 0o600)
            os.unlink(place)
        except OSError as error:
            raise self.failed(error) from None
        file = os.fdopen(opened, "w+b")
        self.files.callback(_close, file)
        return file

    def failed(self, error: OSError) -> DatabaseFailure:
        """The error of a file that cannot be written."""
        if DiskFull.caused_by(error):
            return DiskFull.in_directory(self.path.parent, error)
        return DatabaseFailure(
            f"A file in {self.path.parent} cannot be written; nothing was published.",
            detail=error.strerror,
        )


def _close(file: BinaryIO) -> None:
    # What it could not write is no matter any more.
    with suppress(OSError):
        file.close()


@contextmanager
def scratch_in(directory: str) -> Iterator[Scratch]:
    """A run's own directory in one that is made where it is missing, and is gone afterwards.

    Raises
    ------
    InvalidParameter : it is a link or no directory, or holds files of somebody's.
    InsufficientRights : it is another account's, others may look into it, or it cannot be made.
    JobRunning : another run has it.
    """
    place = Path(os.path.abspath(os.path.expanduser(directory)))
    own = f"dbanon-{secrets.token_hex(16)}"
    with ExitStack() as afterwards:
        with held():
            made = _make(place)
            opened = _opened(place)
            afterwards.callback(os.close, opened)
            left = _taken_away(place, opened)
            # One that was there, and empty, stays: it is somebody's.
            if made or left:
                afterwards.callback(_remove_if_empty, place)
            try:
                os.mkdir(own, 0o700, dir_fd=opened)
            except OSError as error:
                raise _refused(place, error) from None
            # By number: a name might lead elsewhere meanwhile.
            inside = Path(f"/dev/fd/{opened}")
            afterwards.callback(shutil.rmtree, inside / own, ignore_errors=True)
            files = afterwards.enter_context(ExitStack())
        yield Scratch(place / own, files)
        # What is committed is not told as interrupted.
        with held_once_committed() as hold:
            hold()
            afterwards.close()


def clear_left(directory: str) -> list[str]:
    """Take away what killed runs left in a directory, and the directory with it; what that was.

    Where nothing has the name nothing is left.

    Raises
    ------
    InvalidParameter : it is a link or no directory, or holds files of somebody's.
    InsufficientRights : it is another account's, or others may look into it.
    JobRunning : a run has it.
    """
    place = Path(os.path.abspath(os.path.expanduser(directory)))
    if not os.path.lexists(place):
        return []
    opened = _opened(place)
    try:
        left = _taken_away(place, opened)
        if left:
            _remove_if_empty(place)
    finally:
        os.close(opened)
    return [str(place / name) for name in left]


def held_among_others(directory: str) -> Path:
    """A new directory, for its owner alone, below one that others use, too; it goes at exit.

    Raises
    ------
    InvalidParameter, InsufficientRights : it cannot be made.
    """
    around = Path(os.path.abspath(directory))
    while True:
        place = around / f"dbanon-spark-{secrets.token_hex(16)}"
        try:
            around.mkdir(parents=True, exist_ok=True)
            place.mkdir(0o700)
            opened = os.open(place, _DIRECTORY)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and around.is_dir():
                continue
            raise _refused(place, error) from None
        # Whoever cleared it in between had the lock, and it has no name any more.
        if _locked(opened) and place.exists():
            break
        os.close(opened)
    atexit.register(_leave, place, opened, os.getpid())
    return place


def _leave(place: Path, opened: int, process: int) -> None:
    # A child that was forked has the same list of what to do, and not the directory.
    if os.getpid() == process:
        shutil.rmtree(place, ignore_errors=True)
        os.close(opened)


def _locked(opened: int) -> bool:
    """Whether nobody held a directory; it is this process's from now on."""
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def clear_killed(directory: str) -> list[str]:
    """Take away what killed processes left below a directory that others use, too; what that was.

    Directories alone of such a name, of this account and closed to others, which nobody holds.

    Raises
    ------
    InvalidParameter : it is no directory.
    InsufficientRights : it may not be looked into, or not be changed.
    """
    place = Path(os.path.abspath(os.path.expanduser(directory)))
    if not os.path.lexists(place):
        return []
    try:
        around = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except NotADirectoryError:
        raise InvalidParameter(f"{place} is no directory.") from None
    except OSError as error:
        raise _unreadable(place, error) from None
    try:
        names = sorted(filter(_HELD.fullmatch, os.listdir(around)))
        return [str(place / name) for name in names if _gone(around, name)]
    except PermissionError as error:
        raise _unreadable(place, error) from None
    finally:
        os.close(around)


def _unreadable(place: Path, error: OSError) -> InsufficientRights:
    return InsufficientRights(
        f"The directory {place} may not be read and changed.", detail=error.strerror
    )


def _gone(around: int, name: str) -> bool:
    """Take a directory away, if it is ours alone and its process is gone; whether that was so."""
    try:
        opened = os.open(name, _DIRECTORY, dir_fd=around)
    except OSError:
        # A link, a file, or another account's.
        return False
    try:
        if not _closed(os.fstat(opened)) or not _locked(opened):
            return False
        shutil.rmtree(Path(f"/dev/fd/{around}") / name)
        return True
    except FileNotFoundError:
        # Another takes it away at this moment.
        return False
    finally:
        os.close(opened)


def _closed(found: os.stat_result) -> bool:
    """Whether what was found is this account's, and closed to others."""
    return found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o077


def _taken_away(place: Path, opened: int) -> list[str]:
    """The names of what killed runs left in a directory of ours; it is gone then."""
    left = _require_own(place, opened)
    for name in left:
        shutil.rmtree(Path(f"/dev/fd/{opened}") / name)
    return left


def _make(place: Path) -> bool:
    """Make the directory for its owner alone; False where something has the name."""
    try:
        place.mkdir(mode=0o700)
    except FileExistsError:
        return False
    except OSError as error:
        raise _refused(place, error) from None
    return True


def _remove_if_empty(place: Path) -> None:
    with suppress(OSError):
        place.rmdir()


def _opened(place: Path) -> int:
    """The directory itself, open, locked and no link; for ``os.close``."""
    try:
        opened = os.open(place, _DIRECTORY)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise InvalidParameter(
                f"The directory to spill to, {place}, is a link or no directory.",
                hint="Name a directory that is not there yet.",
            ) from None
        raise _refused(place, error) from None
    if not _locked(opened):
        os.close(opened)
        raise JobRunning(
            f"Another run has the directory to spill to, {place}.", hint="Name another one."
        ) from None
    return opened


def _require_own(place: Path, opened: int) -> list[str]:
    """What a killed run left in a directory, after a check that it is ours alone."""
    if not _closed(os.fstat(opened)):
        raise InsufficientRights(
            f"The directory to spill to, {place}, is another account's, or open to others.",
            hint="Name a directory that is not there yet: it is made for its owner alone.",
        )
    names = os.listdir(opened)
    if not all(map(_OWN.fullmatch, names)):
        raise InvalidParameter(
            f"The directory to spill to, {place}, is not empty.",
            hint="Name a directory that is not there yet: it is taken away after the run.",
        )
    return names


def _refused(place: Path, error: OSError) -> DbanonError:
    if DiskFull.caused_by(error):
        return DiskFull.in_directory(place, error)
    kind = InsufficientRights if isinstance(error, PermissionError) else InvalidParameter
    return kind(f"The directory {place} cannot be made.", detail=error.strerror)


# Seconds after the last change in it that one is taken for a dead driver's.
OLD = 86_400

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_NAME = re.compile(r"\..+\.[0-9a-f]{12}\.dbanon", re.S)


def staged_name(name: str, release_id: str) -> str:
    """The name of what becomes a directory of this name; hidden, so that readers pass it over."""
    return f".{name}.{release_id.replace('-', '')[:12]}.dbanon"


def clear_staged_in(directory: str) -> list[str]:
    """Take away what drivers staged in a directory and left, more than a day ago; what that was.

    Of a disk of this machine. Only directories of such a name and of this account are looked at.

    Raises
    ------
    InvalidParameter : it is no directory, or none of this machine.
    InsufficientRights : it may not be looked into, or not be taken away.
    """
    if _SCHEME.match(directory):
        raise InvalidParameter(
            "Only directories on a disk of this machine are cleared.",
            hint=(
                "Give its path there, without a scheme. Elsewhere remove directories whose names"
                " begin with a dot and end in .dbanon."
            ),
        )
    place = Path(os.path.abspath(os.path.expanduser(directory)))
    if not os.path.lexists(place):
        return []
    if not place.is_dir():
        raise InvalidParameter(
            f"{place} is no directory.", hint="Name the one that releases were written into."
        )
    try:
        found = sorted(path for path in place.iterdir() if _NAME.fullmatch(path.name))
    except PermissionError:
        raise InsufficientRights(f"The directory {place} may not be read.") from None
    now, cleared = time.time(), []
    for path in found:
        if path.is_symlink() or not path.is_dir() or path.stat().st_uid != os.geteuid():
            continue
        try:
            times = [part.lstat().st_mtime for part in (path, *path.rglob("*"))]
            if now - max(times) < OLD:
                continue
            shutil.rmtree(path)
        except FileNotFoundError:
            # Somebody is at work there.
            continue
        except PermissionError:
            raise InsufficientRights(
                f"What lies in {path} belongs to another account.", hint="Run it as that account."
            ) from None
        cleared.append(str(path))
    return cleared
