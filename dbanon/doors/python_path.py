"""Checks which accounts could change the code that a server imports from a directory.

An account that can write to an imported file, or to any directory above it, can run code as the
server's account. All of these must therefore belong to root, to the server's account or to an owner
named by the administrator, and other accounts must not have write access, as sshd requires for
``authorized_keys``. The source of this module is run by the server's Python, so it only uses the
standard library.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Collection, Sequence

# The number of symbolic links that Linux follows.
_LINKS = 40


class UnsafeError(Exception):
    """Another account could change imported code; the arguments are message and hint."""


def require_safe(paths: Sequence[str], owners: Sequence[str] = ()) -> None:
    """Check directories of the import path, their parents and everything below them.

    Parameters
    ----------
    owners : names or numbers of trusted accounts, besides root and the current one.

    Raises
    ------
    UnsafeError : a path belongs to another account, or others may write to it.
    """
    check = _Check({0, os.geteuid(), *map(_number, owners)})
    for path in paths:
        if not os.path.isabs(path):
            raise UnsafeError(
                f"{path} is not an absolute path.", "Name the directory from the root: /usr/local/…"
            )
        check.tree(check.require_safe(path))


class _Check:
    """Checks each path once."""

    def __init__(self, trusted: Collection[int]) -> None:
        self.trusted = trusted
        self._seen: set[tuple[str, bool]] = set()

    def require_safe(self, path: str, links: int = 0) -> str:
        """Check every directory from the root to a path, following links; return the real path."""
        if links > _LINKS:
            raise UnsafeError(f"{path} has too many symbolic links.", "Name the directory itself.")
        parts = [part for part in path.split("/") if part not in ("", ".")]
        directory = "/"
        self._require(directory, is_end=not parts)
        for index, part in enumerate(parts):
            if part == "..":
                directory = os.path.dirname(directory)
                continue
            entry = os.path.join(directory, part)
            status = self._require(entry, is_end=index == len(parts) - 1)
            if stat.S_ISLNK(status.st_mode):
                remainder = "/".join(parts[index + 1 :])
                target = os.path.join(directory, os.readlink(entry), remainder)
                return self.require_safe(target, links + 1)
            directory = entry
        return directory

    def tree(self, folder: str) -> None:
        """Check everything below a directory, including the targets of links."""
        if not os.path.isdir(folder) or (folder, True) in self._seen:
            return
        self._seen.add((folder, True))
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries)
        for name in names:
            path = os.path.join(folder, name)
            status = self._require(path, is_end=True)
            if stat.S_ISLNK(status.st_mode):
                # Only its trusted owner can give a dangling link a target.
                if os.path.exists(path):
                    self.tree(self.require_safe(path))
            elif stat.S_ISDIR(status.st_mode):
                self.tree(path)

    def _require(self, path: str, *, is_end: bool) -> os.stat_result:
        """Check a path; with ``is_end=False`` it is only a parent of trusted paths."""
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            raise UnsafeError(f"There is no {path}.", "Name a directory that is there.") from None
        if status.st_uid not in self.trusted:
            owner = _name(status.st_uid)
            raise UnsafeError(
                f"{path} belongs to {owner}: that account could run code as the server's account.",
                f"Install the package as root (chown -R root), or, where {owner} may do all that a"
                f" superuser of this server may, say --trust-owner {owner}.",
            )
        if stat.S_ISLNK(status.st_mode) or not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return status
        # In a sticky directory like /tmp, accounts cannot replace each other's files.
        if status.st_mode & stat.S_ISVTX and stat.S_ISDIR(status.st_mode) and not is_end:
            return status
        who = "Everybody" if status.st_mode & stat.S_IWOTH else "A group"
        raise UnsafeError(
            f"{who} may write to {path}, and could thus run code as the server's account.",
            "Take that right away: chmod go-w",
        )


def _name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _number(owner: str) -> int:
    try:
        return int(owner) if owner.isdecimal() else pwd.getpwnam(owner).pw_uid
    except KeyError:
        raise UnsafeError(
            f"The server's machine has no account {owner}.", "Name one that it has."
        ) from None
