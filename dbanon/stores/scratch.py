"""Scratch directories on disk: private to a run, and removed when it ends.

Files are unlinked as soon as they are open, so a crash cannot leave them behind. A killed run
leaves only an empty directory and files that a database wrote there. The next run with the same
directory removes them, and so does ``clear_leftovers``.

Java opens its files by name, so the driver of a Spark cluster gets a private directory below a
shared one. The directory is locked while the driver runs, so ``clear_abandoned_directories`` can
remove directories without a lock. Spark workers write a release to a directory next to its
destination; ``clear_staged_directories`` removes such directories if they were abandoned.
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

_RUN_DIRECTORY_NAME = re.compile(r"dbanon-[0-9a-f]{32}")
# The names of directories that ``create_locked_directory`` locks. A run does not lock its own
# directory, but the directory above, which the user named.
_LOCKED_DIRECTORY_NAME = re.compile(r"dbanon-spark-[0-9a-f]{32}")
_OPEN_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Scratch:
    """A run's private directory below the directory that the user named.

    Parameters
    ----------
    path : the directory; databases open files there by name.
    open_files : closes the files that are still open when the run ends.
    """

    path: Path
    open_files: ExitStack

    def create_file(self) -> BinaryIO:
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
            raise self.write_failure(error) from None
        file = os.fdopen(descriptor, "w+b")
        self.open_files.callback(_close, file)
        return file

    def write_failure(self, error: OSError) -> DatabaseFailure:
        """The error for a file that cannot be written."""
        if DiskFull.caused_by(error):
            return DiskFull.in_directory(self.path.parent, error)
        return DatabaseFailure(
            f"A file in {self.path.parent} cannot be written; nothing was published.",
            detail=error.strerror,
        )


def _close(file: BinaryIO) -> None:
    # A failed write does not matter any more, as the file is about to disappear.
    with suppress(OSError):
        file.close()


@contextmanager
def open_scratch(directory: str) -> Iterator[Scratch]:
    """Create a private directory for a run below ``directory``, and remove it afterwards.

    A missing ``directory`` is created, and removed afterwards as well.

    Raises
    ------
    InvalidParameter : the directory is a link or a file, or contains other files.
    InsufficientRights : it is another account's, accessible to others, or cannot be created.
    JobRunning : another run uses it.
    """
    path = Path(os.path.abspath(os.path.expanduser(directory)))
    run_name = f"dbanon-{secrets.token_hex(16)}"
    with ExitStack() as cleanup:
        with defer_signals():
            is_new = _create_directory(path)
            descriptor = _open_locked(path)
            cleanup.callback(os.close, descriptor)
            leftovers = _remove_leftovers(path, descriptor)
            # Leftovers suggest that a killed run created the directory. An empty directory that
            # existed before belongs to the user, and is not removed.
            if is_new or leftovers:
                cleanup.callback(_remove_if_empty, path)
            try:
                os.mkdir(run_name, 0o700, dir_fd=descriptor)
            except OSError as error:
                raise _creation_error(path, error) from None
            # Remove it by its parent's descriptor: the parent's path may lead elsewhere by then.
            parent_by_descriptor = Path(f"/dev/fd/{descriptor}")
            cleanup.callback(shutil.rmtree, parent_by_descriptor / run_name, ignore_errors=True)
            open_files = cleanup.enter_context(ExitStack())
        yield Scratch(path / run_name, open_files)
        # Do not report a committed run as interrupted while cleaning up: defer signals, as if the
        # cleanup were a commit.
        with interruptible_until_commit() as hold_interrupts:
            hold_interrupts()
            cleanup.close()


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
            descriptor = os.open(path, _OPEN_DIRECTORY_FLAGS)
        except OSError as error:
            # ``clear_abandoned_directories`` may have removed it before it was opened.
            if isinstance(error, FileNotFoundError) and parent.is_dir():
                continue
            raise _creation_error(path, error) from None
        # ``clear_abandoned_directories`` may have removed the directory before it was locked here.
        if _try_lock(descriptor) and path.exists():
            break
        os.close(descriptor)
    atexit.register(_remove_at_exit, path, descriptor, os.getpid())
    return path


def _remove_at_exit(path: Path, descriptor: int, owner_pid: int) -> None:
    # A forked child inherits the exit handlers, and must not remove its parent's directory.
    if os.getpid() == owner_pid:
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    """Lock a directory for this process; False if another one holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def clear_abandoned_directories(directory: str) -> list[str]:
    """Remove what killed processes left below a shared directory; returns the removed paths.

    Only unlocked directories of ``create_locked_directory`` that belong to this account are
    removed.

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
        names = sorted(filter(_LOCKED_DIRECTORY_NAME.fullmatch, os.listdir(descriptor)))
        return [str(path / name) for name in names if _remove_if_abandoned(descriptor, name)]
    except PermissionError as error:
        raise _unreadable_error(path, error) from None
    finally:
        os.close(descriptor)


def _unreadable_error(path: Path, error: OSError) -> InsufficientRights:
    return InsufficientRights(
        f"The directory {path} cannot be read or cannot be changed.", detail=error.strerror
    )


def _remove_if_abandoned(parent_descriptor: int, name: str) -> bool:
    """Remove a private directory whose process has ended; returns whether it was removed."""
    try:
        descriptor = os.open(name, _OPEN_DIRECTORY_FLAGS, dir_fd=parent_descriptor)
    except OSError:
        # It is a link or a file, or belongs to another account.
        return False
    try:
        if not _is_private(os.fstat(descriptor)) or not _try_lock(descriptor):
            return False
        shutil.rmtree(Path(f"/dev/fd/{parent_descriptor}") / name)
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
    """Remove what killed runs left in a directory, if it is private; returns the removed names.

    Raises
    ------
    InsufficientRights, InvalidParameter : see ``_require_private``.
    """
    # The caller holds the directory's lock, so no run is using the directories in it.
    leftovers = _require_private(path, descriptor)
    for name in leftovers:
        shutil.rmtree(Path(f"/dev/fd/{descriptor}") / name)
    return leftovers


def _create_directory(path: Path) -> bool:
    """Create a private directory; returns False if the path exists."""
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
    """Open and lock a directory, and return its descriptor, which the caller closes.

    Raises
    ------
    InvalidParameter : it is a link or not a directory.
    InsufficientRights : it may not be opened.
    JobRunning : another process has locked it.
    """
    try:
        descriptor = os.open(path, _OPEN_DIRECTORY_FLAGS)
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


def _require_private(path: Path, descriptor: int) -> list[str]:
    """Check that a directory is private and only holds directories of runs; returns their names.

    Raises
    ------
    InsufficientRights : it belongs to another account, or is open to others.
    InvalidParameter : it has other contents.
    """
    if not _is_private(os.fstat(descriptor)):
        raise InsufficientRights(
            f"The directory to spill to, {path}, belongs to another account, or is open to others.",
            hint="Name a directory that does not exist yet (`spill`): the run creates and removes"
            " it.",
        )
    names = os.listdir(descriptor)
    if not all(map(_RUN_DIRECTORY_NAME.fullmatch, names)):
        raise InvalidParameter(
            f"The directory to spill to, {path}, is not empty.",
            hint="Name a directory that does not exist yet (`spill`): the run creates and removes"
            " it.",
        )
    return names


def _creation_error(path: Path, error: OSError) -> DbanonError:
    """The error for a directory that cannot be created or opened."""
    if DiskFull.caused_by(error):
        return DiskFull.in_directory(path, error)
    error_class = InsufficientRights if isinstance(error, PermissionError) else InvalidParameter
    return error_class(f"The directory {path} cannot be created or opened.", detail=error.strerror)


# A staged directory counts as abandoned after this many seconds without a change.
ABANDONED_AFTER_SECONDS = 86_400

_URL_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_STAGED_DIRECTORY_NAME = re.compile(r"\..+\.[0-9a-f]{12}\.dbanon", re.S)


def staged_name(name: str, release_id: str) -> str:
    """The name of a directory while workers write to it; its leading dot makes readers skip it."""
    return f".{name}.{release_id.replace('-', '')[:12]}.dbanon"


def clear_staged_directories(directory: str) -> list[str]:
    """Remove staged directories that have not changed for a day; returns the removed paths.

    Only directories of this account on local disks are considered.

    Raises
    ------
    InvalidParameter : the path is not a directory, or not on this machine.
    InsufficientRights : the directory cannot be read, or its contents cannot be removed.
    """
    if _URL_SCHEME.match(directory):
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
        staged_directories = sorted(
            entry for entry in path.iterdir() if _STAGED_DIRECTORY_NAME.fullmatch(entry.name)
        )
    except PermissionError:
        raise InsufficientRights(f"The directory {path} may not be read.") from None
    now = time.time()
    removed_paths = []
    for entry in staged_directories:
        if entry.is_symlink() or not entry.is_dir() or entry.stat().st_uid != os.geteuid():
            continue
        try:
            modification_times = [
                descendant.lstat().st_mtime for descendant in (entry, *entry.rglob("*"))
            ]
            if now - max(modification_times) < ABANDONED_AFTER_SECONDS:
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
        removed_paths.append(str(entry))
    return removed_paths
