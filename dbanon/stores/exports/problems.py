"""Errors about writing release files and moving them to their destination."""

from __future__ import annotations

import errno

from dbanon.errors import (
    DatabaseFailure,
    DatabaseUnreachable,
    DbanonError,
    DiskFull,
    InsufficientRights,
    InvalidParameter,
    OutcomeUnknown,
)


def write_error(directory: object, error: OSError) -> DatabaseFailure:
    """Return the error for a file that could not be written."""
    if DiskFull.caused_by(error):
        return DiskFull.in_directory(directory, error)
    return DatabaseFailure(
        f"A file in {directory} cannot be written; nothing was published.", detail=error.strerror
    )


def publication_error(destination: object, error: OSError) -> DatabaseFailure:
    """Return the error for a file that could not be moved to its destination.

    It is for releases that consist of files only. No ledger records them, so a later run cannot
    move the file.
    """
    error_class = DiskFull if DiskFull.caused_by(error) else DatabaseFailure
    return error_class(
        f"The release could not be moved to {destination}, and is not stored anywhere else.",
        detail=error.strerror,
    )


def access_error(message: str, error: OSError) -> DbanonError:
    """Return the error for a destination that cannot be accessed."""
    if DiskFull.caused_by(error):
        return DiskFull(
            f"{message} The disk is full, or a quota has been reached.",
            detail=error.strerror,
            hint="Make room there, or name a directory on another disk, and run it again. df -h and"
            " ulimit -f show the limits.",
        )
    # Errors of object stores and catalogs have EIO, unless they are about rights or missing files.
    if error.errno == errno.EIO:
        return DatabaseUnreachable(message, detail=error.strerror)
    is_denied = isinstance(error, PermissionError)
    error_class = InsufficientRights if is_denied else InvalidParameter
    return error_class(message, detail=error.strerror)


def unknown_outcome(table: object, error: BaseException) -> OutcomeUnknown:
    """Return the error for a commit that the catalog did not confirm."""
    return OutcomeUnknown(
        f"The commit to {table} was not confirmed, so it is unknown whether the table shows the"
        " release. The release's file was kept.",
        detail=type(error).__name__,
        hint="Before you run the job again, check whether the table's newest snapshot names the"
        " file.",
    )


def commit_error(
    file: object, table: object, error: DbanonError | OSError
) -> DbanonError | OSError:
    """Return the error to raise if a file could not be published.

    An OSError becomes OutcomeUnknown if the file's commit may have succeeded.

    Parameters
    ----------
    file : the staged file.
    table : the destination, for the message.
    error : the error of moving or committing the file.
    """
    # Only files of tables are committed, and have this attribute.
    if getattr(file, "commit_pending", False) and isinstance(error, OSError):
        return unknown_outcome(table, error)
    return error
