"""Who could change the code that a server imports from a directory.

Whoever can write to one of its files, to its directory or to any directory on the way there can run
code as the server's account. So all of them must belong to root, to that account or to an owner
that the administrator names, and nobody else may write to them: what sshd asks of the way to
``authorized_keys``. Runs in the server's Python, by its text: only the standard library is used.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Collection, Sequence

# As many symbolic links as Linux follows.
_LINKS = 40


class UnsafeError(Exception):
    """Somebody else could change what is imported; the arguments are message and hint."""


def require_safe(paths: Sequence[str], owners: Sequence[str] = ()) -> None:
    """Check directories that are put on the import path, the ways there and all that is in them.

    Parameters
    ----------
    owners : names (or numbers) of accounts that are trusted beside root and the own one.

    Raises
    ------
    UnsafeError : something is another's, or can be written by others.
    """
    check = _Check({0, os.geteuid(), *map(_number, owners)})
    for path in paths:
        if not os.path.isabs(path):
            raise UnsafeError(
                f"{path} is no absolute path.", "Name the directory from the root: /usr/local/…"
            )
        check.tree(check.way(path))


class _Check:
    """Looks at each place once."""

    def __init__(self, trusted: Collection[int]) -> None:
        self.trusted = trusted
        self._seen: set[tuple[str, bool]] = set()

    def way(self, path: str, links: int = 0) -> str:
        """Check every directory from the root to a path, with both sides of each link; its end."""
        if links > _LINKS:
            raise UnsafeError(f"{path} has too many symbolic links.", "Name the directory itself.")
        parts = [part for part in path.split("/") if part not in ("", ".")]
        here = "/"
        self._require(here, is_end=not parts)
        for place, part in enumerate(parts):
            if part == "..":
                here = os.path.dirname(here)
                continue
            there = os.path.join(here, part)
            found = self._require(there, is_end=place == len(parts) - 1)
            if stat.S_ISLNK(found.st_mode):
                rest = "/".join(parts[place + 1 :])
                target = os.path.join(here, os.readlink(there), rest)
                return self.way(target, links + 1)
            here = there
        return here

    def tree(self, folder: str) -> None:
        """Check all that is below a directory, or behind a link in it."""
        if not os.path.isdir(folder) or (folder, True) in self._seen:
            return
        self._seen.add((folder, True))
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries)
        for name in names:
            path = os.path.join(folder, name)
            found = self._require(path, is_end=True)
            if stat.S_ISLNK(found.st_mode):
                # What a link without an end means, its owner alone decides, who is trusted.
                if os.path.exists(path):
                    self.tree(self.way(path))
            elif stat.S_ISDIR(found.st_mode):
                self.tree(path)

    def _require(self, path: str, *, is_end: bool) -> os.stat_result:
        """Check one place; ``is_end`` False where something trusted is looked for in it."""
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            raise UnsafeError(f"There is no {path}.", "Name a directory that is there.") from None
        if found.st_uid not in self.trusted:
            owner = _name(found.st_uid)
            raise UnsafeError(
                f"{path} belongs to {owner}: that account could run code as the server's account.",
                f"Install the package as root (chown -R root), or, where {owner} may do all that a"
                f" superuser of this server may, say --trust-owner {owner}.",
            )
        if stat.S_ISLNK(found.st_mode) or not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return found
        # In a directory like /tmp nobody can take the place of what belongs to another.
        if found.st_mode & stat.S_ISVTX and stat.S_ISDIR(found.st_mode) and not is_end:
            return found
        who = "Everybody" if found.st_mode & stat.S_IWOTH else "A group"
        raise UnsafeError(
            f"{who} may write to {path}, and could so run code as the server's account.",
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
