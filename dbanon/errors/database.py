"""Database errors: failures (exit code 4, can be retried), rights (5), unknown outcomes (10)."""

from __future__ import annotations

import errno
import os

from dbanon.errors.base import DbanonError

# The errors for a full disk, an exhausted quota, and a limit on file sizes (ulimit -f).
_DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DISK_FULL_TEXTS = tuple(os.strerror(number) for number in _DISK_FULL_ERRNOS)


class DatabaseFailure(DbanonError):
    """The database failed."""

    code = "database_failure"
    exit_code = 4
    sqlstate = "58000"


class DatabaseUnreachable(DatabaseFailure):
    """The database cannot be reached."""

    code = "database_unreachable"
    sqlstate = "08001"


class ConnectionLost(DatabaseFailure):
    """The connection to the database was lost; nothing was published."""

    code = "connection_lost"
    sqlstate = "08006"


class DatabaseBusy(DatabaseFailure):
    """The database is locked by another session, or a time limit was reached."""

    code = "database_busy"
    sqlstate = "55P03"


class OutputBusy(DatabaseBusy):
    """Other sessions keep the output open, so the release cannot replace it."""

    code = "output_busy"


class DiskFull(DatabaseFailure):
    """A disk is full, or a quota or a limit on file sizes is reached."""

    code = "disk_full"
    sqlstate = "53100"

    @classmethod
    def caused_by(cls, error: BaseException) -> bool:
        """Return whether an error of the operating system or of a library means a full disk."""
        if isinstance(error, OSError) and error.errno is not None:
            return error.errno in _DISK_FULL_ERRNOS
        return any(text in str(error) for text in _DISK_FULL_TEXTS)

    @classmethod
    def in_directory(
        cls, directory: object, error: OSError, consequence: str = " Nothing was published."
    ) -> DiskFull:
        """Build the error for a file that could not be written in a directory.

        Parameters
        ----------
        directory : the path of the directory, for the message.
        error : the failure of the operating system.
        consequence : a sentence on what this means for the run, after a space; may be empty.
        """
        return cls(
            f"A file in {directory} cannot be written: the disk is full, or a quota or a limit of"
            f" file sizes is reached.{consequence}",
            detail=error.strerror,
            hint="Make room there, or name a directory on another disk, and run it again."
            " df -h and ulimit -f show the limits.",
        )


class SourceChanged(DatabaseFailure):
    """The source changed while it was read."""

    code = "source_changed"
    sqlstate = "40001"


class Cancelled(DatabaseFailure):
    """The run was cancelled."""

    code = "cancelled"
    sqlstate = "57014"


class SparkFailed(DatabaseFailure):
    """Spark failed; nothing was published."""

    code = "spark_failed"


class InsufficientRights(DbanonError):
    """The role lacks a right that this needs."""

    code = "insufficient_rights"
    exit_code = 5
    sqlstate = "42501"


class ForeignFile(InsufficientRights):
    """A file is reached by a link, or belongs to another account, so it is not read."""

    code = "foreign_file"


class AccessRefused(InsufficientRights):
    """The server refuses connections of this role."""

    code = "access_refused"
    sqlstate = "28000"


class LedgerNotTrusted(InsufficientRights):
    """The ledger belongs to another role, or code of another role is attached to it."""

    code = "ledger_not_trusted"


class RulesNotTrusted(InsufficientRights):
    """Rules of the table were not declared by its present owner, so they do not count.

    A rule says how releases treat a column: its role, hierarchy and so on.
    """

    code = "rules_not_trusted"


class LedgerQuota(InsufficientRights):
    """The role has written as many ledger entries as it may in a day."""

    code = "ledger_quota"
    sqlstate = "53400"


class ForeignCode(InsufficientRights):
    """Code of another role would run with the rights of this one.

    Reading a relation can run code, such as functions in views and indexes, casts, and the code of
    types.
    """

    code = "foreign_code"


class OutcomeUnknown(DbanonError):
    """The connection was lost at COMMIT, so it is unknown whether the transaction was committed."""

    code = "outcome_unknown"
    exit_code = 10
    sqlstate = "08007"
