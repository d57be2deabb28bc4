"""Open files that users name, so that other accounts cannot substitute them.

Another account that may write to a folder could put a link there to a file that only the account of
this process may read, and then read the rows of that file in the release. Files are therefore
opened directory by directory, and checks use the open descriptor instead of the name, so that
nothing can be swapped between a check and the use of the file.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from dbanon.errors import ForeignFile

# Values of the option ``foreign_files``: below a folder that the user named, refuse links and files
# of other accounts; allow files of other accounts there; or also follow every link, wherever it is.
REFUSE, ALLOW, LINKS = "refuse", "allow", "links"
FOREIGN_FILES = (REFUSE, ALLOW, LINKS)

# Kinds of files of rows. ``STATISTICS`` is a file of SPSS, Stata or SAS.
CSV, PARQUET, XLSX, STATISTICS = "csv", "parquet", "xlsx", "statistics"
# The endings of files of SPSS (three), Stata and SAS (two).
STATISTICS_ENDINGS = (".sav", ".zsav", ".por", ".dta", ".sas7bdat", ".xpt")

# With O_PATH, directories on the path can be opened even if they are not readable.
_LOOK_UP_FLAGS = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_CLOEXEC | os.O_NOFOLLOW
_READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
# As many links in one path as Linux follows.
_MAX_LINKS = 40
_LINK_HINT = (
    'Put the file itself there. If links are meant to be followed: `foreign_files="links"`.'
)
_OWNER_HINT = (
    'Let this account own the file, or allow files of other accounts: `foreign_files="allow"`.'
)


@contextmanager
def open_regular_file(
    path: Path, named_folder: Path | None = None, foreign_files: str = REFUSE
) -> Iterator[BinaryIO]:
    """Open the regular file with this name for reading.

    Links in the path that the user named are followed only if they belong to this account or to
    the account root.

    Parameters
    ----------
    named_folder : the folder that the user named, which contains the file; None if the user named
        the file itself. Below the folder, links are not followed, and files of other accounts are
        refused.
    foreign_files : ``refuse`` for these rules; ``allow`` to permit files of other accounts below
        the folder; ``links`` to also follow every link, whoever owns it.

    Raises
    ------
    ForeignFile : the path has a link, or the file belongs to another account.
    FileNotFoundError, PermissionError, OSError : the file cannot be opened.
    """
    named_path = path if named_folder is None else named_folder
    components_below = () if named_folder is None else _components_below(named_folder, path)
    descriptor = _open_step_by_step(named_path, components_below, foreign_files, path)
    with os.fdopen(descriptor, "rb") as file:
        yield file


def _components_below(folder: Path, path: Path) -> tuple[str, ...]:
    """Return the path components from a folder to a file below it; otherwise raise ForeignFile."""
    if not path.is_relative_to(folder) or ".." in path.relative_to(folder).parts:
        raise ForeignFile(f"{path} is not below {folder}.", hint=_LINK_HINT)
    return path.relative_to(folder).parts


def is_trusted(status: os.stat_result) -> bool:
    """Whether a file belongs to the account of this process, or to the account root."""
    return status.st_uid in (os.geteuid(), 0)


def is_link_refused(path: Path, foreign_files: str) -> bool:
    """True if a path below a folder is a link that ``foreign_files`` does not allow to follow."""
    return foreign_files != LINKS and path.is_symlink()


def _open_step_by_step(
    named_path: Path, components_below: tuple[str, ...], foreign_files: str, path: Path
) -> int:
    """Open a file directory by directory, and return its descriptor.

    Parameters
    ----------
    named_path : the path that the user named.
    components_below : the path components from there to the file; empty if the user named the
        file.
    path : the path of the file, for messages.
    """
    absolute_path = Path(os.getcwd()) / named_path
    # Pairs of a path component to open, and whether it is below the folder that the user named.
    components = deque((name, False) for name in absolute_path.parts[1:])
    components.extend((name, True) for name in components_below)
    n_links = 0
    directory = os.open(absolute_path.anchor, _LOOK_UP_FLAGS | os.O_DIRECTORY)
    try:
        while components:
            name, is_below = components.popleft()
            status, target = _look_up(name, directory)
            if target is not None:
                n_links += 1
                if n_links > _MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                _require_link_may_be_followed(status, path, is_below, foreign_files)
                components.extendleft((name, is_below) for name in reversed(Path(target).parts))
                if target.startswith("/"):
                    # The link is absolute: remove its first component, and go on from "/".
                    components.popleft()
                    directory = _change_directory(directory, "/")
            elif components:
                directory = _change_directory(directory, name)
            else:
                return _open_file(directory, name, path, is_below, foreign_files)
        # Nothing is left to open: the path is "/", or ends with a link to "/" or to ".".
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    finally:
        os.close(directory)


def _look_up(name: str, directory: int) -> tuple[os.stat_result, str | None]:
    """The status of a directory entry, and its target if it is a link."""
    if not hasattr(os, "O_PATH"):
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        is_link = stat.S_ISLNK(status.st_mode)
        return status, os.readlink(name, dir_fd=directory) if is_link else None
    descriptor = os.open(name, _LOOK_UP_FLAGS, dir_fd=directory)
    try:
        status = os.fstat(descriptor)
        is_link = stat.S_ISLNK(status.st_mode)
        # Read the link that was opened, even if another file has taken its name since.
        return status, os.readlink("", dir_fd=descriptor) if is_link else None
    finally:
        os.close(descriptor)


def _change_directory(directory: int, name: str) -> int:
    """Open another directory, close this one, and return the new descriptor."""
    next_directory = os.open(name, _LOOK_UP_FLAGS | os.O_DIRECTORY, dir_fd=directory)
    os.close(directory)
    return next_directory


def _require_link_may_be_followed(
    status: os.stat_result, path: Path, is_below: bool, foreign_files: str
) -> None:
    """Check that a link may be followed; raises ForeignFile."""
    if foreign_files == LINKS or (not is_below and is_trusted(status)):
        return
    raise _link_error(path)


def _link_error(path: Path) -> ForeignFile:
    return ForeignFile(f"{path} is behind a link, which is not followed.", hint=_LINK_HINT)


def _open_file(directory: int, name: str, path: Path, is_below: bool, foreign_files: str) -> int:
    """Open a regular file in a directory, and return its descriptor; raises ForeignFile."""
    try:
        descriptor = os.open(name, _READ_FLAGS, dir_fd=directory)
    except OSError as error:
        if error.errno == errno.ELOOP:
            # After the check, the file was replaced by a link.
            raise _link_error(path) from None
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ForeignFile(f"{path} is not a regular file.", hint="Move it out of the folder.")
        if is_below and foreign_files == REFUSE and not is_trusted(status):
            raise ForeignFile(f"The file {path} belongs to another account.", hint=_OWNER_HINT)
        if (
            status.st_nlink > 1
            and foreign_files != LINKS
            and _is_shared(os.stat(".", dir_fd=directory))
        ):
            raise ForeignFile(
                f"The file {path} has other names (hard links), and others may write to its"
                " directory.",
                detail="One of them may be the name of a file that was not meant to be read.",
                hint=_LINK_HINT,
            )
        return descriptor
    except BaseException:
        os.close(descriptor)
        raise


def _is_shared(directory: os.stat_result) -> bool:
    """Whether other accounts may put files into a directory, given its status."""
    return not is_trusted(directory) or bool(directory.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
