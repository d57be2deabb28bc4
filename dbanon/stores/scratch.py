"""A directory for what a run puts on a disk: named by whoever runs it, nobody else's, gone with it.

Files in it lose their names as soon as they are open, so that no way out leaves them behind. What a
run that was killed leaves is an empty directory, and what a database wrote there: the next run with
the same directory takes it away, and so does ``clear_left``.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dbanon.errors import DatabaseFailure, InsufficientRights, InvalidParameter, JobRunning
from dbanon.stores.interrupts import held, held_once_committed

_OWN = re.compile(r"dbanon-[0-9a-f]{32}")


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
        """The error of a file that cannot be written: a full disk may have room later."""
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
        opened = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise InvalidParameter(
                f"The directory to spill to, {place}, is a link or no directory.",
                hint="Name a directory that is not there yet.",
            ) from None
        raise _refused(place, error) from None
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(opened)
        raise JobRunning(
            f"Another run has the directory to spill to, {place}.", hint="Name another one."
        ) from None
    return opened


def _require_own(place: Path, opened: int) -> list[str]:
    """What a killed run left in a directory, after a check that it is ours alone."""
    found = os.fstat(opened)
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
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


def _refused(place: Path, error: OSError) -> InsufficientRights | InvalidParameter:
    kind = InsufficientRights if isinstance(error, PermissionError) else InvalidParameter
    return kind(f"The directory to spill to, {place}, cannot be made.", detail=error.strerror)
