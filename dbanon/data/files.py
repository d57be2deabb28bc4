"""Safe opening of files that users name, so that other accounts cannot substitute them.

An account that may write to a folder could place a link there to a file that only the account of
the run may read, and would see its rows in the release. Files are therefore opened directory by
directory, and checks use the open descriptor, not the name: nothing can be swapped between a check
and its use.
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

REFUSE, ALLOW, LINKS = "refuse", "allow", "links"
FOREIGN_FILES = (REFUSE, ALLOW, LINKS)

# Directories on the path need no permission to be listed.
_LOOK = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_CLOEXEC | os.O_NOFOLLOW
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
_MOST_LINKS = 40
_HINT_LINKS = (
    'Put the file itself there. If links are meant to be followed: `foreign_files="links"`.'
)
_HINT_OWNER = (
    'Let this account own the file, or allow files of other accounts: `foreign_files="allow"`.'
)


@contextmanager
def opened(path: Path, root: Path | None = None, policy: str = REFUSE) -> Iterator[BinaryIO]:
    """Open the regular file with this name for reading.

    Links in the path that the user named are followed only if this account or root owns them.

    Parameters
    ----------
    root : the folder that the user named, which contains the file; None if the user named the file.
        Below it, links are not followed and files of other accounts are refused.
    policy : ``allow`` permits files of other accounts below the folder, ``links`` also links.

    Raises
    ------
    ForeignFile : the path has a link, or the file belongs to another account.
    FileNotFoundError, PermissionError, OSError : it cannot be opened.
    """
    base = path if root is None else root
    below = () if root is None else _below(root, path)
    number = _open(base, below, policy, path)
    with os.fdopen(number, "rb") as file:
        yield file


def _below(root: Path, path: Path) -> tuple[str, ...]:
    """The path components from a folder to a file below it; raises ForeignFile."""
    if not path.is_relative_to(root) or ".." in path.relative_to(root).parts:
        raise ForeignFile(f"{path} is not below {root}.", hint=_HINT_LINKS)
    return path.relative_to(root).parts


def is_trusted(state: os.stat_result) -> bool:
    """Whether a file belongs to the account of this process, or to root."""
    return state.st_uid in (os.geteuid(), 0)


def is_link_refused(path: Path, policy: str) -> bool:
    """Whether a path is a link that is not followed below a folder."""
    return policy != LINKS and path.is_symlink()


def _open(base: Path, below: tuple[str, ...], policy: str, path: Path) -> int:
    start = Path(os.getcwd()) / base
    steps = deque((name, False) for name in start.parts[1:])
    steps.extend((name, True) for name in below)
    links = 0
    directory = os.open(start.anchor, _LOOK | os.O_DIRECTORY)
    try:
        while steps:
            name, is_below = steps.popleft()
            state, target = _look(name, directory)
            if target is not None:
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                _require_link(state, path, is_below, policy)
                steps.extendleft((part, is_below) for part in reversed(Path(target).parts))
                if target.startswith("/"):
                    steps.popleft()
                    directory = _change(directory, "/")
            elif steps:
                directory = _change(directory, name)
            else:
                return _open_last(directory, name, path, is_below, policy)
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    finally:
        os.close(directory)


def _look(name: str, directory: int) -> tuple[os.stat_result, str | None]:
    """The state of a directory entry, and its target if it is a link."""
    if not hasattr(os, "O_PATH"):
        state = os.stat(name, dir_fd=directory, follow_symlinks=False)
        is_link = stat.S_ISLNK(state.st_mode)
        return state, os.readlink(name, dir_fd=directory) if is_link else None
    number = os.open(name, _LOOK, dir_fd=directory)
    try:
        state = os.fstat(number)
        is_link = stat.S_ISLNK(state.st_mode)
        # Reads the link that was opened, even if its name was replaced meanwhile.
        return state, os.readlink("", dir_fd=number) if is_link else None
    finally:
        os.close(number)


def _change(directory: int, name: str) -> int:
    """Open another directory, close this one, and return the new descriptor."""
    other = os.open(name, _LOOK | os.O_DIRECTORY, dir_fd=directory)
    os.close(directory)
    return other


def _require_link(state: os.stat_result, path: Path, is_below: bool, policy: str) -> None:
    if policy == LINKS or (not is_below and is_trusted(state)):
        return
    raise _link_error(path)


def _link_error(path: Path) -> ForeignFile:
    return ForeignFile(f"{path} is behind a link, which is not followed.", hint=_HINT_LINKS)


def _open_last(directory: int, name: str, path: Path, is_below: bool, policy: str) -> int:
    try:
        number = os.open(name, _READ, dir_fd=directory)
    except OSError as error:
        if error.errno == errno.ELOOP:
            # It was replaced by a link after the check.
            raise _link_error(path) from None
        raise
    try:
        state = os.fstat(number)
        if not stat.S_ISREG(state.st_mode):
            raise ForeignFile(f"{path} is not a regular file.", hint="Move it out of the folder.")
        if is_below and policy == REFUSE and not is_trusted(state):
            raise ForeignFile(f"The file {path} belongs to another account.", hint=_HINT_OWNER)
        if state.st_nlink > 1 and policy != LINKS and _is_shared(os.stat(".", dir_fd=directory)):
            raise ForeignFile(
                f"The file {path} has other names (hard links), and others may write to its"
                " directory.",
                detail="One of them may be the name of a file that was not meant to be read.",
                hint=_HINT_LINKS,
            )
        return number
    except BaseException:
        os.close(number)
        raise


def _is_shared(directory: os.stat_result) -> bool:
    """Whether other accounts may put files into a directory."""
    return not is_trusted(directory) or bool(directory.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
