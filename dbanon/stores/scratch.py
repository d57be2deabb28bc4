"""A directory for what a run puts on a disk: named by whoever runs it, nobody else's, gone with it.

Files in it lose their names as soon as they are open, so that no way out leaves them behind. What a
run that was killed leaves is an empty directory, and what a database wrote there: the next run with
the same directory takes it away, and so does ``clear_leftovers``.

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

_RUN_NAME = re.compile(r"dbanon-[0-9a-f]{32}")
# One that is locked itself, where of the others it is the directory around it.
_LOCKED_NAME = re.compile(r"dbanon-spark-[0-9a-f]{32}")
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
        path = self.path / secrets.token_hex(16)
        try:
            descriptor = os.open(path, flags, 0o600)
            os.unlink(path)
        except OSError as error:
            raise self.failed(error) from None
        file = os.fdopen(descriptor, "w+b")
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
    path = Path(os.path.abspath(os.path.expanduser(directory)))
    run_name = f"dbanon-{secrets.token_hex(16)}"
    with ExitStack() as afterwards:
        with held():
            is_new = _create_directory(path)
            descriptor = _open_locked(path)
            afterwards.callback(os.close, descriptor)
            leftovers = _remove_leftovers(path, descriptor)
            # One that was there, and empty, stays: it is somebody's.
            if is_new or leftovers:
                afterwards.callback(_remove_if_empty, path)
            try:
                os.mkdir(run_name, 0o700, dir_fd=descriptor)
            except OSError as error:
                raise _creation_error(path, error) from None
            # By number: a name might lead elsewhere meanwhile.
            inside = Path(f"/dev/fd/{descriptor}")
            afterwards.callback(shutil.rmtree, inside / run_name, ignore_errors=True)
            files = afterwards.enter_context(ExitStack())
        yield Scratch(path / run_name, files)
        # What is committed is not told as interrupted.
        with held_once_committed() as hold:
            hold()
            afterwards.close()


def clear_leftovers(directory: str) -> list[str]:
    """Take away what killed runs left in a directory, and the directory with it; what that was.

    Where nothing has the name nothing is left.

    Raises
    ------
    InvalidParameter : it is a link or no directory, or holds files of somebody's.
    InsufficientRights : it is another account's, or others may look into it.
    JobRunning : a run has it.
    """
    path = Path(os.path.abspath(os.path.expanduser(directory)))
    if not os.path.lexists(path):
        return []
    descriptor = _open_locked(path)
    try:
        leftovers = _remove_leftovers(path, descriptor)
        if leftovers:
            _remove_if_empty(path)
    finally:
        os.close(descriptor)
    return [str(path / name) for name in leftovers]


def create_locked_directory(directory: str) -> Path:
    """A new directory, for its owner alone, below one that others use, too; it goes at exit.

    Raises
    ------
    InvalidParameter, InsufficientRights : it cannot be made.
    """
    parent = Path(os.path.abspath(directory))
    while True:
        path = parent / f"dbanon-spark-{secrets.token_hex(16)}"
        try:
            parent.mkdir(parents=True, exist_ok=True)
            path.mkdir(0o700)
            descriptor = os.open(path, _DIRECTORY)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and parent.is_dir():
                continue
            raise _creation_error(path, error) from None
        # Whoever cleared it in between had the lock, and it has no name any more.
        if _try_lock(descriptor) and path.exists():
            break
        os.close(descriptor)
    atexit.register(_remove_at_exit, path, descriptor, os.getpid())
    return path


def _remove_at_exit(path: Path, descriptor: int, process: int) -> None:
    # A child that was forked has the same list of what to do, and not the directory.
    if os.getpid() == process:
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    """Whether nobody held a directory; it is this process's from now on."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
    path = Path(os.path.abspath(os.path.expanduser(directory)))
    if not os.path.lexists(path):
        return []
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except NotADirectoryError:
        raise InvalidParameter(f"{path} is no directory.") from None
    except OSError as error:
        raise _unreadable_error(path, error) from None
    try:
        names = sorted(filter(_LOCKED_NAME.fullmatch, os.listdir(descriptor)))
        return [str(path / name) for name in names if _remove_if_abandoned(descriptor, name)]
    except PermissionError as error:
        raise _unreadable_error(path, error) from None
    finally:
        os.close(descriptor)


def _unreadable_error(path: Path, error: OSError) -> InsufficientRights:
    return InsufficientRights(
        f"The directory {path} may not be read and changed.", detail=error.strerror
    )


def _remove_if_abandoned(parent: int, name: str) -> bool:
    """Take a directory away, if it is ours alone and its process is gone; whether that was so."""
    try:
        descriptor = os.open(name, _DIRECTORY, dir_fd=parent)
    except OSError:
        # A link, a file, or another account's.
        return False
    try:
        if not _is_private(os.fstat(descriptor)) or not _try_lock(descriptor):
            return False
        shutil.rmtree(Path(f"/dev/fd/{parent}") / name)
        return True
    except FileNotFoundError:
        # Another takes it away at this moment.
        return False
    finally:
        os.close(descriptor)


def _is_private(status: os.stat_result) -> bool:
    """Whether what was found is this account's, and closed to others."""
    return status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077


def _remove_leftovers(path: Path, descriptor: int) -> list[str]:
    """The names of what killed runs left in a directory of ours; it is gone then."""
    leftovers = _require_own(path, descriptor)
    for name in leftovers:
        shutil.rmtree(Path(f"/dev/fd/{descriptor}") / name)
    return leftovers


def _create_directory(path: Path) -> bool:
    """Make the directory for its owner alone; False where something has the name."""
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return False
    except OSError as error:
        raise _creation_error(path, error) from None
    return True


def _remove_if_empty(path: Path) -> None:
    with suppress(OSError):
        path.rmdir()


def _open_locked(path: Path) -> int:
    """The directory itself, open, locked and no link; for ``os.close``."""
    try:
        descriptor = os.open(path, _DIRECTORY)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise InvalidParameter(
                f"The directory to spill to, {path}, is a link or no directory.",
                hint="Name a directory that is not there yet.",
            ) from None
        raise _creation_error(path, error) from None
    if not _try_lock(descriptor):
        os.close(descriptor)
        raise JobRunning(
            f"Another run has the directory to spill to, {path}.", hint="Name another one."
        ) from None
    return descriptor


def _require_own(path: Path, descriptor: int) -> list[str]:
    """What a killed run left in a directory, after a check that it is ours alone."""
    if not _is_private(os.fstat(descriptor)):
        raise InsufficientRights(
            f"The directory to spill to, {path}, is another account's, or open to others.",
            hint="Name a directory that is not there yet: it is made for its owner alone.",
        )
    names = os.listdir(descriptor)
    if not all(map(_RUN_NAME.fullmatch, names)):
        raise InvalidParameter(
            f"The directory to spill to, {path}, is not empty.",
            hint="Name a directory that is not there yet: it is taken away after the run.",
        )
    return names


def _creation_error(path: Path, error: OSError) -> DbanonError:
    if DiskFull.caused_by(error):
        return DiskFull.in_directory(path, error)
    kind = InsufficientRights if isinstance(error, PermissionError) else InvalidParameter
    return kind(f"The directory {path} cannot be made.", detail=error.strerror)


# Seconds after the last change in it that one is taken for a dead driver's.
OLD = 86_400

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_STAGED_NAME = re.compile(r"\..+\.[0-9a-f]{12}\.dbanon", re.S)


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
    path = Path(os.path.abspath(os.path.expanduser(directory)))
    if not os.path.lexists(path):
        return []
    if not path.is_dir():
        raise InvalidParameter(
            f"{path} is no directory.", hint="Name the one that releases were written into."
        )
    try:
        staged = sorted(entry for entry in path.iterdir() if _STAGED_NAME.fullmatch(entry.name))
    except PermissionError:
        raise InsufficientRights(f"The directory {path} may not be read.") from None
    now, cleared = time.time(), []
    for entry in staged:
        if entry.is_symlink() or not entry.is_dir() or entry.stat().st_uid != os.geteuid():
            continue
        try:
            times = [part.lstat().st_mtime for part in (entry, *entry.rglob("*"))]
            if now - max(times) < OLD:
                continue
            shutil.rmtree(entry)
        except FileNotFoundError:
            # Somebody is at work there.
            continue
        except PermissionError:
            raise InsufficientRights(
                f"What lies in {entry} belongs to another account.", hint="Run it as that account."
            ) from None
        cleared.append(str(entry))
    return cleared
