"""Checks that no other account could change the code that a server imports from a directory.

An account that can write to an imported file, or to any directory above it, can run code as the
server's account. All these files and directories must therefore belong to root, to the server's
account or to an owner named by the administrator, and other accounts must not have write access, as
sshd requires for ``authorized_keys``. The server's Python runs the source of this module, so it
only uses the standard library.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Collection, Sequence

# Maximum number of symbolic links that Linux follows in a path.
_MAX_LINKS = 40


class UnsafeError(Exception):
    """Another account could change imported code; its arguments are a message and a hint."""


def require_safe(paths: Sequence[str], owners: Sequence[str] = ()) -> None:
    """Check directories of the import path, their parents and everything below them.

    Parameters
    ----------
    owners : names or numbers of trusted accounts, besides root and the current one.

    Raises
    ------
    UnsafeError : a path belongs to another account, or others may write to it.
    """
    checker = _PathChecker({0, os.geteuid(), *map(_account_id, owners)})
    for path in paths:
        if not os.path.isabs(path):
            raise UnsafeError(
                f"{path} is not an absolute path.", "Name the directory from the root: /usr/local/…"
            )
        checker.require_safe_tree(checker.require_safe_parents(path))


class _PathChecker:
    """Checks that paths belong to trusted accounts; visits each directory only once.

    Parameters
    ----------
    trusted_ids : numbers of accounts (uid).
    """

    def __init__(self, trusted_ids: Collection[int]) -> None:
        self.trusted_ids = trusted_ids
        self._checked_directories: set[str] = set()

    def require_safe_parents(
        self, path: str, n_links: int = 0, *, may_be_missing: bool = False
    ) -> str:
        """Check every directory from the root to a path, following links; return the real path.

        Parameters
        ----------
        n_links : number of links that were followed to this path.
        may_be_missing : True to accept a path that does not exist, if no other account can create
            it. The last directory that exists is then returned.
        """
        if n_links > _MAX_LINKS:
            raise UnsafeError(f"{path} has too many symbolic links.", "Name the directory itself.")
        components = [component for component in path.split("/") if component not in ("", ".")]
        directory = "/"
        self._check_path(directory, is_end=not components)
        for index, component in enumerate(components):
            if component == "..":
                directory = os.path.dirname(directory)
                continue
            entry = os.path.join(directory, component)
            if may_be_missing and not os.path.lexists(entry):
                self._check_path(directory, is_end=True)
                return directory
            status = self._check_path(entry, is_end=index == len(components) - 1)
            if stat.S_ISLNK(status.st_mode):
                remainder = "/".join(components[index + 1 :])
                target = os.path.join(directory, os.readlink(entry), remainder)
                return self.require_safe_parents(target, n_links + 1, may_be_missing=may_be_missing)
            directory = entry
        return directory

    def require_safe_tree(self, directory: str) -> None:
        """Check everything below a directory, including the targets of links."""
        if not os.path.isdir(directory) or directory in self._checked_directories:
            return
        self._checked_directories.add(directory)
        with os.scandir(directory) as entries:
            names = sorted(entry.name for entry in entries)
        for name in names:
            path = os.path.join(directory, name)
            status = self._check_path(path, is_end=True)
            if stat.S_ISLNK(status.st_mode):
                if os.path.exists(path):
                    self.require_safe_tree(self.require_safe_parents(path))
                else:
                    self._require_nobody_can_create(path)
            elif stat.S_ISDIR(status.st_mode):
                self.require_safe_tree(path)

    def _require_nobody_can_create(self, link: str) -> None:
        """Check that no other account could create the missing target of a link."""
        try:
            self.require_safe_parents(link, may_be_missing=True)
        except UnsafeError:
            raise UnsafeError(
                f"{link} is a link to a file that does not exist, and another account could create"
                " that file.",
                "Remove the link.",
            ) from None

    def _check_path(self, path: str, *, is_end: bool) -> os.stat_result:
        """Check owner and permissions of a path.

        Parameters
        ----------
        is_end : False for a directory that is only passed through on the way to another path.
        """
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            raise UnsafeError(f"{path} does not exist.", "Name an existing directory.") from None
        if status.st_uid not in self.trusted_ids:
            owner = _account_name(status.st_uid)
            raise UnsafeError(
                f"{path} belongs to {owner}: that account could run code as the server's account.",
                f"Install the package as root (chown -R root). If {owner} may do everything that a"
                f" superuser of this server may, use --trust-owner {owner} instead.",
            )
        if stat.S_ISLNK(status.st_mode) or not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return status
        # In a sticky directory like /tmp, accounts cannot replace each other's files.
        if status.st_mode & stat.S_ISVTX and stat.S_ISDIR(status.st_mode) and not is_end:
            return status
        writers = "Everyone" if status.st_mode & stat.S_IWOTH else "A group"
        raise UnsafeError(
            f"{writers} may write to {path}, and could thus run code as the server's account.",
            "Remove this right: chmod go-w",
        )


def _account_name(account_id: int) -> str:
    """Return the name of an account, or its number if it has no name."""
    try:
        return pwd.getpwuid(account_id).pw_name
    except KeyError:
        return str(account_id)


def _account_id(owner: str) -> int:
    """Return the number (uid) of an account; ``owner`` is its name, or already the number."""
    try:
        return int(owner) if owner.isdecimal() else pwd.getpwnam(owner).pw_uid
    except KeyError:
        raise UnsafeError(
            f"The server's machine has no account {owner}.", "Name an existing account."
        ) from None
