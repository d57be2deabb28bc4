"""Errors of invalid calls: exit code 2."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from dbanon.errors.base import DbanonError


class UsageError(DbanonError):
    """The call is not valid."""

    code = "usage"
    exit_code = 2
    sqlstate = "22023"


class InvalidParameter(UsageError):
    """A parameter has a value that is not allowed."""

    code = "invalid_parameter"


class ExtensionInvalid(UsageError):
    """An installed extension of dbanon cannot be used."""

    code = "extension_invalid"
    sqlstate = "55000"


class RowsNotAligned(UsageError):
    """Original and released rows at the same position do not belong together."""

    code = "rows_not_aligned"


class BoundsRequired(UsageError):
    """A column has no public bounds, or no public list of values.

    Differentially private releases need them from the caller: taken from the rows, they would
    reveal values.
    """

    code = "bounds_required"


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


class DatabaseNotFound(UsageError):
    """There is no such database, host or file."""

    code = "database_not_found"
    sqlstate = "3D000"


class PoolerUnsuitable(UsageError):
    """The pooler in front of the database does not support what a run needs."""

    code = "pooler_unsuitable"
    sqlstate = "08P01"


class TlsFailed(UsageError):
    """The connection could not be encrypted as requested."""

    code = "tls_failed"
    sqlstate = "08004"


class TableNotFound(UsageError):
    """The table does not exist."""

    code = "table_not_found"
    sqlstate = "42P01"


class RulesNotFound(UsageError):
    """No rules are declared for the table.

    A rule says how releases treat a column: its role, hierarchy and so on.
    """

    code = "rules_not_found"
    sqlstate = "42704"


class SchemaNotFound(UsageError):
    """The schema does not exist."""

    code = "schema_not_found"
    sqlstate = "3F000"


class ColumnNotFound(UsageError):
    """The column does not exist."""

    code = "column_not_found"
    sqlstate = "42703"


class OutputExists(UsageError):
    """The output already exists."""

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


def invalid_text_error(column: str) -> UnsupportedType:
    """Build the error for a column with an unpaired surrogate, which is not valid text."""
    return UnsupportedType(
        f'Column "{column}" has a value that is not valid text in Unicode (it has half of a'
        " surrogate pair).",
        hint="Correct such values, or leave out their rows.",
    )


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


class RangeUnsuitable(UsageError):
    """The values of a column are too large, too far apart or too close for intervals."""

    code = "range_unsuitable"
    sqlstate = "22003"


class _ErrorWithProblems(UsageError):
    """An error in a text that the user wrote.

    Attributes
    ----------
    problems : all problems of the text; each can be converted to a message by ``str``.
    """

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


class HierarchyBroken(_ErrorWithProblems):
    """A hierarchy is not a tree over the values of its column.

    ``problems`` lists all problems. The message names lines and counts but no labels, because a
    hierarchy often contains values of its column.
    """

    code = "hierarchy_broken"
    sqlstate = "ZK004"


class ValueNotInOrder(UsageError):
    """An ordinal column holds a value that is not in its order."""

    code = "value_not_in_order"


class MixedTypes(UsageError):
    """A column holds values of another type than its declared one."""

    code = "mixed_types"
    sqlstate = "22P02"


class ReleaseNotFound(UsageError):
    """The ledger has no release of this name."""

    code = "release_not_found"
    sqlstate = "42P01"


class HierarchyNotFound(UsageError):
    """No stored hierarchy has this name."""

    code = "hierarchy_not_found"
    sqlstate = "42704"


class HierarchyExists(UsageError):
    """A stored hierarchy already has this name."""

    code = "hierarchy_exists"
    sqlstate = "42710"


class LedgerMissing(UsageError):
    """The ledger is missing, or of another version."""

    code = "ledger_missing"
    sqlstate = "55000"


class InstallRefused(UsageError):
    """dbanon's SQL functions are not installed in this database."""

    code = "install_refused"
    sqlstate = "55000"


class PythonNotUsable(InstallRefused):
    """The server's Python cannot use dbanon."""

    code = "python_not_usable"
    # The checkout that dbanon is installed from, if the installation is editable.
    checkout: str | None = None


class VersionMismatch(UsageError):
    """SQL functions and Python package are of different versions."""

    code = "version_mismatch"
    sqlstate = "55000"


class NoRows(UsageError):
    """The table has no rows, so there is no advice."""

    code = "no_rows"


class NoQuasiIdentifiers(UsageError):
    """No column is proposed as a quasi-identifier: there is nothing to advise on."""

    code = "no_quasi_identifiers"


class NothingFits(UsageError):
    """None of the trial releases is within the limits."""

    code = "nothing_fits"


class JobFileInvalid(_ErrorWithProblems):
    """A job file is not valid.

    Attributes
    ----------
    problems : all problems of the file; ``str`` converts each to a line with its place in the file.
    subject : what the file is, in messages.
    docs_hint : where its keys are documented.
    """

    code = "job_file"
    subject = "job file"
    docs_hint = (
        "See docs/jobs.md. dbanon schema prints the JSON Schema that editors use to check a job"
        " file."
    )

    @classmethod
    def of(cls, file: object, problems: Iterable[object]) -> Self:
        """Build the error for a file with these problems."""
        all_problems = tuple(problems)
        count_text = "1 problem" if len(all_problems) == 1 else f"{len(all_problems)} problems"
        return cls(
            f"The {cls.subject} {file} has {count_text}.",
            detail="\n".join(map(str, all_problems)),
            hint=cls.docs_hint,
            problems=all_problems,
        )


class AnalysesInvalid(JobFileInvalid):
    """A file of analyses is not valid."""

    code = "analyses_invalid"
    subject = "file of analyses"
    docs_hint = "See docs/evaluation.md#what-readers-will-compute for the keys of each analysis."


class FormulaInText(UsageError):
    """A spreadsheet would run a text in the CSV file as a formula."""

    code = "formula_in_text"


class NotADatabase(UsageError):
    """This is not a database file."""

    code = "not_a_database"


class NotBuilt(UsageError):
    """This is not available yet.

    It is not implemented yet, or not in this interface.
    """

    code = "not_built"
    sqlstate = "0A000"


class ReadOnly(UsageError):
    """The transaction may only read, and this writes."""

    code = "read_only"
    sqlstate = "25006"


class EngineUnsuitable(UsageError):
    """A table's storage engine has no snapshots, or the server's binary log repeats statements.

    Only for MariaDB. Without snapshots, rows can change while they are read. A log of statements
    would show which row is in which class, and replicas would not get the same release.
    """

    code = "engine_unsuitable"
    sqlstate = "0A000"


class ViewsNotHere(UsageError):
    """Views cannot be released here: this database cannot replace a view in one step."""

    code = "views_not_here"
    sqlstate = "0A000"


class ChainsNotHere(UsageError):
    """Chains cannot be kept here: a release and the chain's state cannot share a transaction."""

    code = "chains_not_here"
    sqlstate = "0A000"


class BudgetsNotHere(UsageError):
    """Privacy budgets cannot be kept here, so dbanon makes no synthetic rows in this database."""

    code = "budgets_not_here"
    sqlstate = "0A000"


class WorkersDiffer(UsageError):
    """Workers of the cluster have other versions than the driver."""

    code = "workers_differ"
    sqlstate = "55000"


class TransactionOpen(UsageError):
    """A transaction is open, which could be rolled back after someone has seen the release."""

    code = "transaction_open"
    sqlstate = "25001"
