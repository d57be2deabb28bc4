"""One family of errors: each class carries its own code, exit code and SQLSTATE.

The first line of a class's docstring is its default message. A message may name tables, columns,
counts and types; it never holds a value of a column.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar


class DbanonError(Exception):
    """Something went wrong."""

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1
    sqlstate: ClassVar[str] = "XX000"

    def __init__(
        self, message: str | None = None, *, detail: str | None = None, hint: str | None = None
    ) -> None:
        self.message = message or (type(self).__doc__ or "error").partition("\n")[0]
        self.detail = detail
        self.hint = hint
        super().__init__(self.message)

    def __str__(self) -> str:
        parts = [self.message]
        if self.detail:
            parts.append(f"Detail: {self.detail}")
        if self.hint:
            parts.append(f"Hint: {self.hint}")
        return "\n".join(parts)

    def to_dict(self) -> dict[str, str | int | None]:
        """The error as plain values, for machines."""
        return {
            "code": self.code,
            "sqlstate": self.sqlstate,
            "exit_code": self.exit_code,
            "message": self.message,
            "detail": self.detail,
            "hint": self.hint,
        }


def nearest_names(wanted: str, known: Iterable[str], limit: int = 3) -> str | None:
    """A hint that lists the known names nearest to ``wanted``, or None when none is near."""
    folded = {name.casefold(): name for name in sorted(known, reverse=True)}
    near = difflib.get_close_matches(wanted.casefold(), list(folded), n=limit, cutoff=0.6)
    if not near:
        return None
    return "Did you mean " + " or ".join(f'"{folded[name]}"' for name in near) + "?"


def error_code(error: BaseException) -> str:
    """The code of an error, for machines; of one that is not ours, what it was."""
    if isinstance(error, DbanonError):
        return error.code
    return "interrupted" if isinstance(error, KeyboardInterrupt) else "unexpected"


def lacks_memory(error: BaseException) -> bool:
    """Whether the process has no room for an object, or for the code of a library it loads."""
    told = str(error).lower() if isinstance(error, ImportError) else ""
    return isinstance(error, MemoryError) or "failed to map" in told or "cannot allocate" in told


class PrivacyWarning(UserWarning):
    """A result tells more than its readers may think."""


class KeptColumnTells(PrivacyWarning):
    """A column that is released as it is tells rows apart, or what a quasi-identifier was."""


class RowsNotAnonymous(PrivacyWarning):
    """The rows of this result are not k-anonymous: its guarantee holds for each attribute alone."""


class CommitConfirmed(UserWarning):
    """The connection was lost or a signal came at COMMIT, and it was committed all the same."""


# --- usage: exit code 2 -------------------------------------------------------------------------


class UsageError(DbanonError):
    """The call is not valid."""

    code = "usage"
    exit_code = 2
    sqlstate = "22023"


class InvalidParameter(UsageError):
    """A parameter has a value that is not allowed."""

    code = "invalid_parameter"


class UnknownMethod(UsageError):
    """No method has this name."""

    code = "unknown_method"


class UnknownOption(UsageError):
    """The method has no such option."""

    code = "unknown_option"


class InvalidName(UsageError):
    """A name cannot be used as an identifier."""

    code = "invalid_name"
    sqlstate = "42602"


class NameTooLong(InvalidName):
    """A name is longer than the database allows."""

    code = "name_too_long"
    sqlstate = "42622"


class TableNotFound(UsageError):
    """The table does not exist."""

    code = "table_not_found"
    sqlstate = "42P01"


class SchemaNotFound(UsageError):
    """The schema does not exist."""

    code = "schema_not_found"
    sqlstate = "3F000"


class ColumnNotFound(UsageError):
    """The column does not exist."""

    code = "column_not_found"
    sqlstate = "42703"


class OutputExists(UsageError):
    """The output exists already."""

    code = "output_exists"
    sqlstate = "42P07"


class OutputNotOurs(UsageError):
    """The output exists and was not made by dbanon, so it is not replaced."""

    code = "output_not_ours"
    sqlstate = "42P07"


class OutputChanged(UsageError):
    """The view has other columns or types than the new release."""

    code = "output_changed"
    sqlstate = "42P16"


class UnsupportedType(UsageError):
    """The column's type cannot be used here."""

    code = "unsupported_type"
    sqlstate = "0A000"


class KeyRequired(UsageError):
    """The relation has no row key of its own: name a unique key."""

    code = "key_required"
    sqlstate = "0A000"


class DuplicateKeys(UsageError):
    """The row key is not unique."""

    code = "duplicate_keys"
    sqlstate = "23505"


class NullInQuasiIdentifier(UsageError):
    """A quasi-identifier holds NULL."""

    code = "null_in_quasi_identifier"
    sqlstate = "22004"


class NullInEntity(UsageError):
    """The entity column holds NULL."""

    code = "null_in_entity"
    sqlstate = "22004"


class NonFiniteValue(UsageError):
    """A quasi-identifier holds NaN or infinity."""

    code = "non_finite_value"
    sqlstate = "22003"


class ValueNotInOrder(UsageError):
    """An ordinal column holds a value that is not in its order."""

    code = "value_not_in_order"


class MixedTypes(UsageError):
    """A column holds values of another type than it declares."""

    code = "mixed_types"
    sqlstate = "22P02"


class ReleaseNotFound(UsageError):
    """The ledger knows no release of this name."""

    code = "release_not_found"
    sqlstate = "42P01"


class HierarchyNotFound(UsageError):
    """No stored hierarchy has this name."""

    code = "hierarchy_not_found"
    sqlstate = "42704"


class HierarchyExists(UsageError):
    """A stored hierarchy has this name already."""

    code = "hierarchy_exists"
    sqlstate = "42710"


class LedgerMissing(UsageError):
    """The ledger is missing, or of another version."""

    code = "ledger_missing"
    sqlstate = "55000"


class InstallRefused(UsageError):
    """The SQL side is not installed in this database."""

    code = "install_refused"
    sqlstate = "55000"


class PythonNotUsable(InstallRefused):
    """The server's Python cannot use dbanon."""

    code = "python_not_usable"


class VersionMismatch(UsageError):
    """SQL functions and Python package are of different versions."""

    code = "version_mismatch"
    sqlstate = "55000"


class NotADatabase(UsageError):
    """This is no database file."""

    code = "not_a_database"


class NotBuilt(UsageError):
    """This is not built yet."""

    code = "not_built"
    sqlstate = "0A000"


class MissingDependency(UsageError):
    """A package that this needs is not installed."""

    code = "missing_dependency"
    sqlstate = "0A000"


# --- privacy: exit code 3 -----------------------------------------------------------------------


class PrivacyRefusal(DbanonError):
    """The wanted guarantee was not reached, and nothing was published."""

    code = "privacy_refusal"
    exit_code = 3
    sqlstate = "ZK002"


class RecountFailed(PrivacyRefusal):
    """The relation failed its recount."""

    code = "recount_failed"
    sqlstate = "ZK001"


class TooFewRecords(PrivacyRefusal):
    """There are fewer records than k."""

    code = "too_few_records"
    sqlstate = "ZK002"


class SuppressionOverBudget(PrivacyRefusal):
    """More records would be suppressed than allowed."""

    code = "suppression_over_budget"
    sqlstate = "ZK003"


class ModelInfeasible(PrivacyRefusal):
    """The table as one class does not keep to the privacy model: no release of it can."""

    code = "model_infeasible"
    sqlstate = "ZK002"


class HierarchyBroken(PrivacyRefusal):
    """A hierarchy is not a tree over the values of its column.

    ``problems`` holds every problem found. The message names lines and counts, never a label: a
    hierarchy often lists the very values that its column holds.
    """

    code = "hierarchy_broken"
    sqlstate = "ZK004"

    def __init__(
        self,
        message: str | None = None,
        *,
        detail: str | None = None,
        hint: str | None = None,
        problems: Iterable[object] = (),
    ) -> None:
        super().__init__(message, detail=detail, hint=hint)
        self.problems = tuple(problems)


class MemoryLimit(PrivacyRefusal):
    """The job needs more memory than allowed."""

    code = "memory_limit"
    sqlstate = "54000"

    @classmethod
    def of_process(cls) -> MemoryLimit:
        """The limit is the machine's, or of its administrator."""
        return cls(
            "The process has no more memory; a run that was not finished is rolled back.",
            hint="Give it more, or anonymize in blocks; a memory limit says so before it begins.",
        )


# --- database: exit code 4, worth a retry -------------------------------------------------------


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


class SourceChanged(DatabaseFailure):
    """The source changed while it was read."""

    code = "source_changed"
    sqlstate = "40001"


class Cancelled(DatabaseFailure):
    """The run was cancelled."""

    code = "cancelled"
    sqlstate = "57014"


# --- neither done nor failed: exit code 10, look before a retry --------------------------------


class OutcomeUnknown(DbanonError):
    """The connection was lost at COMMIT: it is not known whether it was committed."""

    code = "outcome_unknown"
    exit_code = 10
    sqlstate = "08007"


# --- rights: exit code 5; drift and strict: exit code 6 -------------------------------------------


class InsufficientRights(DbanonError):
    """The role lacks a right that this needs."""

    code = "insufficient_rights"
    exit_code = 5
    sqlstate = "42501"


class LedgerNotTrusted(InsufficientRights):
    """The ledger belongs to another role, or code of one hangs on it."""

    code = "ledger_not_trusted"


class ForeignCode(InsufficientRights):
    """Code of another role would run with the rights of this one."""

    code = "foreign_code"


class ReleaseChanged(DbanonError):
    """The published relation changed since it was verified."""

    code = "release_changed"
    exit_code = 6
    sqlstate = "ZK007"


class TellingColumnRefused(DbanonError):
    """A column that is released as it is tells too much, and strict was asked for."""

    code = "telling_column"
    exit_code = 6
    sqlstate = "ZK005"
