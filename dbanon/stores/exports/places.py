"""Where files of releases stand: beside their place until the release is committed, then there.

A file is written under a name that says which release it belongs to, and is locked by its writer.
What a crash leaves, the next run finds: the ledger says whether the release is there.
"""

from __future__ import annotations

import fcntl
import glob
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from dbanon.errors import InsufficientRights, InvalidParameter, OutputExists

_NAME = ".dbanon-{tag}-{release}-{place}.tmp"
_OURS = re.compile(r"\.dbanon-[0-9a-f]{12}-([0-9a-f-]{36})-(\d+)\.tmp")


def tag_of(database: str, output: str) -> str:
    """What the names of files begin with that belong to one output of one database."""
    return hashlib.sha256(f"{database}\0{output}".encode()).hexdigest()[:12]


def place_for(path: str, release_id: str) -> Path:
    """The file that a path means."""
    return Path(os.path.abspath(os.path.expanduser(path.replace("{release}", release_id))))


def make_directories(directory: Path) -> None:
    """Make a directory and those above it, for their owner alone.

    Raises
    ------
    InsufficientRights, InvalidParameter : it cannot be made.
    """
    missing = []
    while not directory.exists():
        missing.append(directory)
        directory = directory.parent
    try:
        for one in reversed(missing):
            one.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise _refused(f"The directory {missing[0]} cannot be made.", error) from None


def require_free(place: Path) -> None:
    """Check that nothing has a place; raises OutputExists."""
    if place.exists() or place.is_symlink():
        raise OutputExists(
            f"The file {place} exists already.",
            hint='Choose another name, write {release} in it, or use `if_exists="replace"`.',
        )


@dataclass
class Pending:
    """A file that is written, and not in its place yet.

    Parameters
    ----------
    file : open, locked, under a name of its own.
    """

    file: BinaryIO
    path: Path
    place: Path

    @classmethod
    def begin(cls, place: Path, tag: str, release_id: str, number: int) -> Pending:
        """A new file beside its place, readable by its owner only.

        Raises
        ------
        InsufficientRights, InvalidParameter : it cannot be made.
        """
        make_directories(place.parent)
        path = place.with_name(_NAME.format(tag=tag, release=release_id, place=number))
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        while True:
            try:
                file = os.fdopen(os.open(path, flags, 0o600), "w+b")
            except OSError as error:
                raise _refused(f"No file can be written in {place.parent}.", error) from None
            fcntl.flock(file, fcntl.LOCK_EX)
            # Before it was locked, another run may have taken it for one that was left behind.
            if path.exists() and path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                break
            file.close()
        return cls(file, path, place)

    def written(self) -> tuple[int, str]:
        """Its bytes, once all are on the disk, and their SHA-256."""
        self.file.flush()
        os.fsync(self.file.fileno())
        return self.path.stat().st_size, sha256(self.path)

    def finish(self, *, replace: bool) -> None:
        """Give the file its place; raises OSError where that cannot be."""
        into_place(self.path, self.place, replace=replace)
        self.file.close()

    def undo(self) -> None:
        """Take the file away."""
        self.path.unlink(missing_ok=True)
        self.file.close()


def into_place(path: Path, place: Path, *, replace: bool) -> None:
    """Rename a file, for good; raises OSError, as when ``replace`` is False and one is there."""
    if replace:
        os.replace(path, place)
    else:
        os.link(path, place)
        path.unlink()
    directory = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def left_behind(path: str, tag: str) -> Iterator[tuple[Path, str, int]]:
    """Files that are not in their places, with release, and number in it; see ``held``."""
    directory = str(place_for(path, "{release}").parent)
    pattern = "*".join(glob.escape(part) for part in directory.split("{release}"))
    for name in glob.glob(os.path.join(pattern, f".dbanon-{tag}-*.tmp")):
        found = _OURS.fullmatch(os.path.basename(name))
        if found:
            yield Path(name), found[1], int(found[2])


@contextmanager
def held(path: Path) -> Iterator[bool]:
    """A file for the block, and nobody else's: False where a run holds it, or it is gone."""
    with ExitStack() as stack:
        try:
            file = stack.enter_context(path.open("rb"))
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_left = path.exists()
        except (BlockingIOError, FileNotFoundError, PermissionError):
            is_left = False
        yield is_left


def sha256(path: Path) -> str:
    """The digest of a file's bytes."""
    found: Any = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(2**20):
            found.update(piece)
    return str(found.hexdigest())


def _refused(message: str, error: OSError) -> InsufficientRights | InvalidParameter:
    denied = isinstance(error, PermissionError)
    kind = InsufficientRights if denied else InvalidParameter
    return kind(message, detail=error.strerror)
