"""Directories that a cluster's workers write a release to, before it gets its place beside them."""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path

from dbanon.errors import InsufficientRights, InvalidParameter

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
            hint="Give its path there, without a scheme; elsewhere remove directories whose names"
            " begin with a dot and end in .dbanon.",
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
