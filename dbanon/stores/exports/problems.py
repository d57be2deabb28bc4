"""What goes wrong with files of releases, as errors: of a store's answer no more than its class."""

from __future__ import annotations

import errno

from dbanon.errors import (
    DatabaseFailure,
    DatabaseUnreachable,
    DbanonError,
    DiskFull,
    InsufficientRights,
    InvalidParameter,
)


def not_written(directory: object, error: OSError) -> DatabaseFailure:
    """The error of a file that was begun."""
    if DiskFull.caused_by(error):
        return DiskFull.in_directory(directory, error)
    return DatabaseFailure(
        f"A file in {directory} cannot be written; nothing was published.", detail=error.strerror
    )


def not_placed(place: object, error: OSError) -> DatabaseFailure:
    """The error of a file that alone would have had the release."""
    kind = DiskFull if DiskFull.caused_by(error) else DatabaseFailure
    return kind(
        f"The release could not get the place {place}, and no database has it.",
        detail=error.strerror,
    )


def refused(message: str, error: OSError) -> DbanonError:
    """The error of a place that cannot be had."""
    if DiskFull.caused_by(error):
        return DiskFull(
            f"{message} The disk is full, or a quota is reached.",
            detail=error.strerror,
            hint="Make room there, or name a place on another disk, and run it again.",
        )
    if error.errno == errno.EIO:
        return DatabaseUnreachable(message, detail=error.strerror)
    denied = isinstance(error, PermissionError)
    kind = InsufficientRights if denied else InvalidParameter
    return kind(message, detail=error.strerror)
