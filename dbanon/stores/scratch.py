"""Scratch directories on disk: private to a run, and removed when it ends.

Files are unlinked as soon as they are open, so a crash cannot leave them behind. A killed run
leaves only an empty directory and files that a database wrote there. The next run with the same
directory removes them, and so does ``clear_leftovers``.

Java opens its files by name, so the driver of a cluster gets a separate directory in a shared one.
It is locked while its process lives; ``clear_killed`` removes unlocked ones. Workers write a
release to a directory next to its destination, which ``clear_staged_in`` clears.
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
from dbanon.stores.interrupts import defer_signals, interruptible_until_commit

_RUN_NAME = re.compile(r"dbanon-[0-9a-f]{32}")
# Locked itself; for a run's directory, its parent is locked instead.
_LOCKED_NAME = re.compile(r"dbanon-spark-[0-9a-f]{32}")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Scratch:
    """A run's private directory below the one that the user named.

    Parameters
    ----------
    path : for databases that open files by name.
    files : closes the files that are still open.
    """

    path: Path
    files: ExitStack

    def file(self) -> BinaryIO:
        """Create an empty, unlinked file that only its owner can access.

        Raises
        ------
        DatabaseFailure : the file cannot be created.
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
        """The error for a file that cannot be written."""
        if DiskFull.caused_by(error):
            return DiskFull.in_directory(self.path.parent, error)
        return DatabaseFailure(
            f"A file in {self.path.parent} cannot be written; nothing was published.",
            detail=error.strerror,
        )


def _close(file: BinaryIO) -> None:
    # Unwritten data does not matter any more.
    with suppress(OSError):
        file.close()


@contextmanager
def scratch_in(directory: str) -> Iterator[Scratch]:
    """Create a run's directory in this one, which is created if missing; removed afterwards.

    Raises
    ------
    InvalidParameter : the directory is a link or a file, or contains other files.
    InsufficientRights : it is another account's, accessible to others, or cannot be created.
    JobRunning : another run uses it.
    """
    path = Path(os.path.abspath(os.path.expanduser(directory)))
    run_name = f"dbanon-{secrets.token_hex(16)}"
    with ExitStack() as afterwards:
        with defer_signals():
            is_new = _create_directory(path)
            descriptor = _open_locked(path)
            afterwards.callback(os.close, descriptor)
            leftovers = _remove_leftovers(path, descriptor)
            # A directory that existed and was empty belongs to the user and stays.
            if is_new or leftovers:
                afterwards.callback(_remove_if_empty, path)
            try:
                os.mkdir(run_name, 0o700, dir_fd=descriptor)
            except OSError as error:
                raise _creation_error(path, error) from None
            # By descriptor: the name might lead elsewhere by then.
            inside = Path(f"/dev/fd/{descriptor}")
            afterwards.callback(shutil.rmtree, inside / run_name, ignore_errors=True)
            files = afterwards.enter_context(ExitStack())
        yield Scratch(path / run_name, files)
        # Do not report a committed run as interrupted while cleaning up.
        with interruptible_until_commit() as hold:
            hold()
            afterwards.close()


def clear_leftovers(directory: str) -> list[str]:
    """Remove what killed runs left in a directory, and the directory; returns the removed paths.

    A missing directory has no leftovers.

    Raises
    ------
    InvalidParameter : the directory is a link or a file, or contains other files.
    InsufficientRights : it is another account's, or accessible to others.
    JobRunning : a run uses it.
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
    """Create a private, locked directory below a shared one; it is removed at exit.

    Raises
    ------
    InvalidParameter, InsufficientRights : it cannot be created.
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
        # A cleaner may have locked and removed it before the lock was taken here.
        if _try_lock(descriptor) and path.exists():
            break
        os.close(descriptor)
    atexit.register(_remove_at_exit, path, descriptor, os.getpid())
    return path


def _remove_at_exit(path: Path, descriptor: int, process: int) -> None:
    # A forked child inherits the exit handlers, but does not own the directory.
    if os.getpid() == process:
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    """Lock a directory for this process; False if another one holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def clear_killed(directory: str) -> list[str]:
    """Remove what killed processes left below a shared directory; returns the removed paths.

    Only private, unlocked directories of this account with such a name are removed.

    Raises
    ------
    InvalidParameter : the path is not a directory.
    InsufficientRights : the directory cannot be read or changed.
    """
    path = Path(os.path.abspath(os.path.expanduser(directory)))
    if not os.path.lexists(path):
        return []
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except NotADirectoryError:
        raise InvalidParameter(f"{path} is not a directory.") from None
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
        f"The directory {path} cannot be read and changed.", detail=error.strerror
    )


def _remove_if_abandoned(parent: int, name: str) -> bool:
    """Remove a private directory whose process has ended; returns whether it was removed."""
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
        # Another process is removing it.
        return False
    finally:
        os.close(descriptor)


def _is_private(status: os.stat_result) -> bool:
    """Whether a directory is this account's and inaccessible to others."""
    return status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077


def _remove_leftovers(path: Path, descriptor: int) -> list[str]:
    """Remove what killed runs left in a private directory; returns the removed names."""
    leftovers = _require_own(path, descriptor)
    for name in leftovers:
        shutil.rmtree(Path(f"/dev/fd/{descriptor}") / name)
    return leftovers


def _create_directory(path: Path) -> bool:
    """Create a private directory; False if the name is taken."""
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
    """Open and lock a directory, not a link; the caller closes the descriptor."""
    try:
        descriptor = os.open(path, _DIRECTORY)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise InvalidParameter(
                f"The directory to spill to, {path}, is a link or not a directory.",
                hint="Name a directory that does not exist yet (`spill`): the run creates and"
                " removes it.",
            ) from None
        raise _creation_error(path, error) from None
    if not _try_lock(descriptor):
        os.close(descriptor)
        raise JobRunning(
            f"Another run is using the directory to spill to, {path}.",
            hint="Name another directory (`spill`), or wait until that run has ended.",
        ) from None
    return descriptor


def _require_own(path: Path, descriptor: int) -> list[str]:
    """Check that a directory is private; returns the names that killed runs left in it."""
    if not _is_private(os.fstat(descriptor)):
        raise InsufficientRights(
            f"The directory to spill to, {path}, belongs to another account, or is open to others.",
            hint="Name a directory that does not exist yet (`spill`): the run creates and removes"
            " it.",
        )
    names = os.listdir(descriptor)
    if not all(map(_RUN_NAME.fullmatch, names)):
        raise InvalidParameter(
            f"The directory to spill to, {path}, is not empty.",
            hint="Name a directory that does not exist yet (`spill`): the run creates and removes"
            " it.",
        )
    return names


def _creation_error(path: Path, error: OSError) -> DbanonError:
    if DiskFull.caused_by(error):
        return DiskFull.in_directory(path, error)
    kind = InsufficientRights if isinstance(error, PermissionError) else InvalidParameter
    return kind(f"The directory {path} cannot be made.", detail=error.strerror)


# Seconds without a change after which a staged directory counts as abandoned.
OLD = 86_400

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_STAGED_NAME = re.compile(r"\..+\.[0-9a-f]{12}\.dbanon", re.S)


def staged_name(name: str, release_id: str) -> str:
    """The staging name of a directory; hidden, so that readers skip it."""
    return f".{name}.{release_id.replace('-', '')[:12]}.dbanon"


def clear_staged_in(directory: str) -> list[str]:
    """Remove directories that drivers abandoned more than a day ago; returns the removed paths.

    Only staged directories of this account on this machine's disks are considered.

    Raises
    ------
    InvalidParameter : the path is not a directory, or not on this machine.
    InsufficientRights : the directory cannot be read, or its contents not be removed.
    """
    if _SCHEME.match(directory):
        raise InvalidParameter(
            "Only directories on a local disk are cleared.",
            hint=(
                "Give a path without a scheme, on the machine that has the directory. In an object"
                " store, remove directories whose names begin with a dot and end in .dbanon."
            ),
        )
    path = Path(os.path.abspath(os.path.expanduser(directory)))
    if not os.path.lexists(path):
        return []
    if not path.is_dir():
        raise InvalidParameter(
            f"{path} is not a directory.",
            hint="Name the directory that releases were written into.",
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
            # A driver is still writing there.
            continue
        except PermissionError:
            raise InsufficientRights(
                f"Files in {entry} belong to another account.",
                hint="Run the command as that account, or as root.",
            ) from None
        cleared.append(str(entry))
    return cleared
