"""Write release files next to their destination, and move them there once the release is committed.

A file's temporary name contains the id of its release, and a tag: a hash of the output and its
database, by which a run finds the files of its output. The run that writes the file locks it. After
a crash, the next run finds such files and looks up in the ledger whether the release was committed.

A file for an object store is first verified as an unnamed file on the local disk. It is then
uploaded under a temporary key and, once the release is committed, copied within the store. A file
for a table, such as one of Iceberg, is uploaded, too; a commit to the table makes it visible.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import hashlib
import os
import re
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TypeAlias, TypeGuard

from dbanon.data.extension import find_table_format, load
from dbanon.errors import DatabaseUnreachable, InvalidParameter, OutputExists
from dbanon.sessions.thread_connections import thread_connections
from dbanon.stores.exports.problems import access_error, write_error
from dbanon.stores.objects import ObjectPath, ObjectStat
from dbanon.stores.schemes import is_object
from dbanon.stores.scratch import ABANDONED_AFTER_SECONDS

if TYPE_CHECKING:
    import pyarrow as pa


class UncommittedFile(Protocol):
    """A data file of a ``TableDestination``, which readers see once it is committed.

    All methods may raise OSError.
    """

    @property
    def name(self) -> str:
        """The name of the file without its directory."""
        ...

    @property
    def parent(self) -> TableDestination:
        """The table that the file belongs to."""
        ...

    @property
    def commit_pending(self) -> bool:
        """True if a commit has begun and may have succeeded, so that the file must be kept."""
        ...

    def open(self, mode: str = "rb") -> BinaryIO:
        """Open the file for reading."""
        ...

    def put(self, file: BinaryIO, size: int) -> None:
        """Upload the ``size`` bytes of a file."""
        ...

    def age(self, now: float) -> float:
        """Return the age of the file in seconds at ``now``, a time in seconds since 1970."""
        ...

    def unlink(self, missing_ok: bool = False) -> None:
        """Delete the file, unless the table refers to it or may do so."""
        ...


class TableDestination(Protocol):
    """A table outside of databases, as destination: a release is one file, committed to it.

    Equal tables have equal hashes. All methods may raise OSError or InvalidParameter.
    """

    @property
    def name(self) -> str:
        """The name of the table, for messages."""
        ...

    @property
    def parent(self) -> TableDestination:
        """The table itself: a table has no directory, but callers ask destinations for it."""
        ...

    def make_parent(self) -> None:
        """Create the namespace of the table, and check that the location of its files is known."""
        ...

    def lstat(self) -> ObjectStat:
        """Return a status that changes with every commit; raises FileNotFoundError."""
        ...

    def open(self, mode: str = "rb") -> BinaryIO:
        """Open the table's only data file."""
        ...

    def add_field_ids(self, schema: pa.Schema) -> pa.Schema:
        """Return an Arrow schema with the metadata that the table's files need."""
        ...

    def staging_file(self, tag: str, release_id: str, export_number: int) -> UncommittedFile:
        """Return a data file that is still to be written; see ``begin`` for the parameters."""
        ...

    def leftover_files(self, tag: str) -> Iterable[tuple[UncommittedFile, str, int]]:
        """List the unpublished files of an output, each with release id and number of the export.

        Parameters
        ----------
        tag : the tag of the output; see ``tag_of``.
        """
        ...

    def count_older_versions(self, planned_status: FileStatus) -> int:
        """Count the versions that stay readable after the next commit.

        Parameters
        ----------
        planned_status : the table's status when the run was planned; None if it did not exist.

        Raises
        ------
        OutputBusy : another commit was made after the run was planned.
        """
        ...

    def commit(self, file: Any, *, replaceable_status: FileStatus) -> None:
        """Replace the table's rows by those of one of its files, unless that was published already.

        Parameters
        ----------
        file : the file, as ``staging_file`` or ``leftover_files`` returned it.
        replaceable_status : the status of the table whose rows may be replaced; None if none may
            be.

        Raises
        ------
        OutputExists : the table exists and is not a release, or must not be replaced.
        OutputBusy : another commit came first; the file is kept.
        OutcomeUnknown : the commit was not confirmed; the file is kept.
        """
        ...


RemoteDestination: TypeAlias = "ObjectPath | TableDestination"
Destination: TypeAlias = "Path | RemoteDestination"
# A file before it is moved to its destination.
StagedFile: TypeAlias = "Path | ObjectPath | UncommittedFile"
FileStatus: TypeAlias = "os.stat_result | ObjectStat | None"

# The number is the index of the export among those of the job.
_STAGED_FILE_NAME = ".dbanon-{tag}-{release}-{number}.tmp"
# Error numbers by which a file system reports that it has no hard links.
_NO_HARD_LINK_ERRORS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_STAGED_FILE_PATTERN = re.compile(r"\.dbanon-[0-9a-f]{12}-([0-9a-f-]{36})-(\d+)\.tmp")


def is_table(destination: Destination) -> TypeGuard[TableDestination]:
    """Return True for a table, False for a local path or an object."""
    return not isinstance(destination, (Path, ObjectPath))


def tag_of(database: str, output: str) -> str:
    """Return a hash that identifies an output and its database, for the names of staged files."""
    return hashlib.sha256(f"{database}\0{output}".encode()).hexdigest()[:12]


def resolve_destination(path: str, release_id: str) -> Destination:
    """Parse the path of a file, object or table; raises InvalidParameter.

    Parameters
    ----------
    release_id : replaces ``{release}`` in the path.
    """
    table_format = find_table_format(path, writable_only=True)
    if table_format is not None:
        table: TableDestination = load(table_format.parse_destination)(
            path.removeprefix(table_format.prefix)
        )
        return table
    path = path.replace("{release}", release_id)
    if is_object(path):
        return ObjectPath.parse(path)
    return Path(os.path.abspath(os.path.expanduser(path)))


def file_for(path: str, release_id: str) -> Path:
    """Parse the path of a local file; raises InvalidParameter for objects and tables."""
    destination = resolve_destination(path, release_id)
    if not isinstance(destination, Path):
        raise InvalidParameter(f"{destination} is not a file on this machine.")
    return destination


def kind_of(destination: Destination) -> str:
    """Return ``table`` or ``file``, for messages."""
    return "table" if is_table(destination) else "file"


def make_parent(destination: Destination) -> None:
    """Create the directory or namespace of a destination.

    Raises the errors of ``make_directories``, and DatabaseUnreachable.
    """
    if isinstance(destination, Path):
        make_directories(destination.parent)
        return
    try:
        destination.make_parent()
    except OSError as error:
        raise access_error(f"The namespace of {destination} cannot be created.", error) from None


def make_directories(directory: Path) -> None:
    """Create a directory and its parents, accessible to their owner only.

    Raises
    ------
    InsufficientRights, InvalidParameter : the directory cannot be created.
    """
    ancestor, missing_directories = directory, []
    try:
        while not ancestor.exists():
            missing_directories.append(ancestor)
            ancestor = ancestor.parent
        for path in reversed(missing_directories):
            path.mkdir(mode=0o700, exist_ok=True)
            sync_directory(path.parent)
    except OSError as error:
        raise access_error(f"The directory {directory} cannot be created.", error) from None


def status_of(destination: Destination) -> FileStatus:
    """Return the status of a destination, without following links; None if nothing is there.

    Raises
    ------
    InsufficientRights, InvalidParameter : the status cannot be read.
    """
    try:
        return destination.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise access_error(f"No file can be written to {destination}.", error) from None


def is_file(status: FileStatus) -> bool:
    """Return True for an existing regular file, False for a link, pipe or directory."""
    return status is not None and stat.S_ISREG(status.st_mode)


def same_file(status: FileStatus, earlier_status: FileStatus) -> bool:
    """Return True if both describe the same unchanged file, or both are None."""
    if status is None or earlier_status is None:
        return status is earlier_status
    return all(
        getattr(status, name) == getattr(earlier_status, name)
        for name in ("st_dev", "st_ino", "st_size", "st_mtime_ns")
    )


def require_free(destination: Destination) -> None:
    """Raise OutputExists if anything exists at a destination."""
    if status_of(destination) is not None:
        raise OutputExists(
            f"The {kind_of(destination)} {destination} already exists.",
            hint='Choose another name, write {release} in it, or use `if_exists="replace"`.',
        )


@dataclass
class PendingFile:
    """A file that is written under a temporary name but not at its destination yet.

    Parameters
    ----------
    file : the file, open and locked.
    path : the file's temporary path.
    """

    file: BinaryIO
    path: Path
    destination: Path

    @property
    def staged_file(self) -> StagedFile:
        """The temporary path; corresponds to ``PendingObject.staged_file``."""
        return self.path

    @property
    def directory(self) -> Path:
        """The directory that contains the file."""
        return self.path.parent

    @classmethod
    def begin(cls, destination: Path, tag: str, release_id: str, export_number: int) -> PendingFile:
        """Create a file next to its destination, readable only by its owner.

        Raises
        ------
        InsufficientRights, InvalidParameter : the file cannot be created.
        """
        make_directories(destination.parent)
        path = destination.with_name(
            _STAGED_FILE_NAME.format(tag=tag, release=release_id, number=export_number)
        )
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        while True:
            try:
                file = os.fdopen(os.open(path, flags, 0o600), "w+b")
            except OSError as error:
                raise access_error(
                    f"No file can be written in {destination.parent}.", error
                ) from None
            fcntl.flock(file, fcntl.LOCK_EX)
            # Another run may have deleted the file as a leftover before it was locked.
            if path.exists() and path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                break
            file.close()
        return cls(file, path, destination)

    def flush(self) -> tuple[int, str]:
        """Flush the file and its directory entry to disk; return its size in bytes and SHA-256."""
        self.file.flush()
        os.fsync(self.file.fileno())
        sync_directory(self.path.parent)
        return self.path.stat().st_size, sha256(self.path)

    def upload(self) -> None:
        """Do nothing: the file needs no upload."""

    def finish(self, *, replaceable_status: FileStatus) -> None:
        """Move the file to its destination; see ``move_to_destination``."""
        move_to_destination(self.path, self.destination, replaceable_status=replaceable_status)

    def undo(self) -> None:
        """Delete the file."""
        self.path.unlink(missing_ok=True)
        close(self.file)


@dataclass
class PendingObject:
    """A local file that is uploaded as an object or as a file of a table.

    Parameters
    ----------
    file : the open local file; it has no name in any directory.
    path : a path that refers to ``file`` while it is open.
    staged_file : where the file is uploaded: a temporary object, or a data file of the table.
    """

    file: BinaryIO
    path: Path
    staged_file: ObjectPath | UncommittedFile
    destination: RemoteDestination
    is_uploaded: bool = False

    @property
    def directory(self) -> Path:
        """The directory for temporary files; its disk holds the file until it is uploaded."""
        return Path(tempfile.gettempdir())

    @classmethod
    def begin(
        cls, destination: RemoteDestination, tag: str, release_id: str, export_number: int
    ) -> PendingObject:
        """Create an unnamed local file; raises DatabaseFailure."""
        try:
            file: Any = tempfile.TemporaryFile()  # noqa: SIM115
        except OSError as error:
            raise write_error(Path(tempfile.gettempdir()), error) from None
        staged_file: ObjectPath | UncommittedFile
        if isinstance(destination, ObjectPath):
            staged_file = destination.with_name(
                _STAGED_FILE_NAME.format(tag=tag, release=release_id, number=export_number)
            )
        else:
            try:
                staged_file = destination.staging_file(tag, release_id, export_number)
            except OSError as error:
                raise write_error(destination, error) from None
        return cls(file, Path(f"/dev/fd/{file.fileno()}"), staged_file, destination)

    def flush(self) -> tuple[int, str]:
        """Flush the file; return its size in bytes and its SHA-256."""
        self.file.flush()
        return os.fstat(self.file.fileno()).st_size, sha256(self.path)

    def upload(self) -> None:
        """Upload the file under its temporary name; raises OSError."""
        self.is_uploaded = True
        self.staged_file.put(self.file, os.fstat(self.file.fileno()).st_size)

    def finish(self, *, replaceable_status: FileStatus) -> None:
        """Move the object to its destination; see ``move_to_destination``."""
        move_to_destination(
            self.staged_file, self.destination, replaceable_status=replaceable_status
        )

    def undo(self) -> None:
        """Delete the uploaded file if the store is reachable."""
        close(self.file)
        if self.is_uploaded:
            # An interrupted run must not wait for a stalled store. ``connect_in_time`` also limits
            # the time of calls that do not connect, such as this one, which has nothing to close.
            with suppress(OSError, DatabaseUnreachable):
                thread_connections().connect_in_time(
                    lambda: self.staged_file.unlink(missing_ok=True), close=lambda result: None
                )


def close(file: BinaryIO) -> None:
    """Close a file that is no longer needed; errors are ignored.

    On a full disk closing fails, since Python then tries again to write its buffer.
    """
    with suppress(OSError):
        file.close()


def begin(
    destination: Destination, tag: str, release_id: str, export_number: int
) -> PendingFile | PendingObject:
    """Create a file for a destination.

    Parameters
    ----------
    tag : the tag of the output; see ``tag_of``.
    export_number : the index of the export among those of the job.

    Raises the same errors as ``PendingFile.begin``, ``PendingObject.begin``.
    """
    if isinstance(destination, Path):
        return PendingFile.begin(destination, tag, release_id, export_number)
    return PendingObject.begin(destination, tag, release_id, export_number)


def move_to_destination(
    staged_file: StagedFile, destination: Destination, *, replaceable_status: FileStatus
) -> None:
    """Move a file to its destination, and flush the directory to disk.

    Parameters
    ----------
    replaceable_status : the status of the file that may be replaced; None if none may be.

    Raises
    ------
    OSError : the file cannot be moved, or another file exists at the destination.
    OutputExists : something that must not be replaced exists at the destination.
    OutputBusy, OutcomeUnknown : a table could not be changed; see ``TableDestination.commit``.
    """
    if is_table(destination):
        destination.commit(staged_file, replaceable_status=replaceable_status)
        return
    if isinstance(destination, ObjectPath):
        assert isinstance(staged_file, ObjectPath)
        # Copying in an object store never fails because the key exists. So an object that another
        # process creates right after this check would be overwritten.
        if replaceable_status is None:
            require_free(destination)
        staged_file.copy_to(destination)
        with suppress(OSError):
            staged_file.unlink(missing_ok=True)
        return
    assert isinstance(staged_file, Path)
    assert isinstance(destination, Path)
    status = status_of(destination)
    # A local path has the status ``os.stat_result``, or None.
    if isinstance(status, os.stat_result) and os.path.samestat(status, staged_file.lstat()):
        # Both names refer to the same file: an earlier run ended between link and unlink. A rename
        # would do nothing.
        staged_file.unlink()
    elif replaceable_status is not None:
        os.replace(staged_file, destination)
    else:
        _link_or_rename(staged_file, destination)
    sync_directory(destination.parent)


def _link_or_rename(path: Path, destination: Path) -> None:
    """Move a file to an unused name by a link, which fails if the name exists, unlike a rename."""
    try:
        os.link(path, destination)
    except OSError as error:
        if error.errno not in _NO_HARD_LINK_ERRORS:
            raise
        # This file system has no hard links, so a file that another process creates right after
        # this check would be overwritten.
        require_free(destination)
        os.rename(path, destination)
        return
    path.unlink()


def sync_directory(directory: Path) -> None:
    """Flush a directory's entries to disk; raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def leftover_files(path: str, tag: str) -> Iterator[tuple[StagedFile, str, int]]:
    """Yield the staged files of an output, each with its release id and the number of the export.

    A run that has not ended may still use them; see ``lock_leftover``.

    Parameters
    ----------
    path : the path of the export, as the job has it.
    tag : the tag of the output; see ``tag_of``.
    """
    # Replace the placeholder by itself: the pattern below has an asterisk in its place, to find the
    # files of all releases. A table is its own parent.
    parent = resolve_destination(path, "{release}").parent
    if is_table(parent):
        with suppress(OSError):
            yield from parent.leftover_files(tag)
        return
    directory = parent.key if isinstance(parent, ObjectPath) else str(parent)
    directory_pattern = "*".join(glob.escape(part) for part in directory.split("{release}"))
    pattern = os.path.join(directory_pattern, f".dbanon-{tag}-*.tmp")
    candidates: Iterable[Path | ObjectPath] = map(Path, glob.glob(pattern))
    if isinstance(parent, ObjectPath):
        with suppress(OSError):
            candidates = ObjectPath(parent.scheme, pattern).list_matching()
    for candidate in candidates:
        match = _STAGED_FILE_PATTERN.fullmatch(candidate.name)
        if match:
            release_id, export_number = match.groups()
            yield candidate, release_id, int(export_number)


def delete_leftover(path: StagedFile) -> None:
    """Delete a leftover file; raises OSError.

    Objects younger than a day are kept, since the run that wrote them may not have ended.
    """
    if isinstance(path, Path) or path.age(time.time()) > ABANDONED_AFTER_SECONDS:
        path.unlink(missing_ok=True)


@contextmanager
def lock_leftover(path: StagedFile) -> Iterator[bool]:
    """Lock a leftover file while the block runs; yield False if a run uses it or it was deleted.

    Links are not followed, and opening a pipe does not block: in a shared directory anyone could
    create one. Objects are not locked, since stores have no locks.
    """
    if not isinstance(path, Path):
        yield True
        return
    with ExitStack() as stack:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            file = stack.enter_context(os.fdopen(descriptor, "rb"))
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            status = os.fstat(file.fileno())
            is_leftover = is_file(status) and os.path.samestat(status, path.lstat())
        except OSError:
            is_leftover = False
        yield is_leftover


def sha256(path: Destination | StagedFile) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(2**20):
            digest.update(chunk)
    return str(digest.hexdigest())
