"""Export a release to files: write each file from the verified relation, then recount its rows.

The transaction that publishes the release writes the files under temporary names next to their
destinations, and records them in the ledger. The files get their final names only after the commit,
so no file with a final name contains an unpublished release. If a run crashes, the next run moves
the files that it left to their destinations, or deletes them.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import takewhile
from math import isclose
from pathlib import Path
from typing import TypeAlias

from dbanon.data.counts import CountRequests, Counts
from dbanon.data.schema import Attribute
from dbanon.data.types import JsonMapping, JsonObject
from dbanon.errors import (
    DatabaseNotFound,
    DbanonError,
    ExportPending,
    OutcomeUnknown,
    OutputExists,
    RecountFailed,
    warn_caller,
)
from dbanon.job.export import OF_SOURCE, PARQUET, Export
from dbanon.job.guarantee import REPORT_IT, Guarantee
from dbanon.job.job import Job
from dbanon.job.weight import WEIGHT_RECORD
from dbanon.ledger import releases
from dbanon.measures import Model
from dbanon.measures.recount import row_levels
from dbanon.release.report import Report
from dbanon.sessions.session import Session
from dbanon.sessions.store import Store
from dbanon.stores.duckdb.file_counts import count_file
from dbanon.stores.exports import destinations, formats, problems
from dbanon.stores.exports.arrow import arrow_schema, regroup_batches
from dbanon.stores.interrupts import interruptible
from dbanon.stores.objects import ObjectPath
from dbanon.stores.sql_persons import StagedSqlRelease
from dbanon.stores.sql_target import SqlTarget

# Number of rows that are in memory at once while a file is written.
_BATCH_ROWS = formats.GROUP_ROWS
# Files of an output's releases, newest first: release id, index of the export in its job, and the
# ledger's entry for the file.
PublishedExports: TypeAlias = Sequence[tuple[str, int, JsonMapping]]


class Exporter:
    """Writes, recounts and publishes the files of one run.

    Parameters
    ----------
    job : the job of the run, which lists the exports.
    database : the store that the release is written to. A hash of its URL is part of the temporary
        file names.
    """

    def __init__(self, job: Job, database: Store) -> None:
        # A hash of database and output, by which a later run finds the files of this output again.
        self._job, self._name_tag = job, destinations.tag_of(database.url, job.output)
        self._database = database
        # Files that are not at their ``destination`` yet. A file is read back from its ``path``,
        # and published from its ``staged_file``. For files on disk, both are the same path. For
        # others, ``staged_file`` is the object, or the data file of a table, to upload to.
        self._pending_files: list[destinations.PendingFile | destinations.PendingObject] = []
        # The status of the file at each destination when it was checked. Only that file may be
        # replaced.
        self._checked_status: dict[destinations.Destination, destinations.FileStatus] = {}
        self._release_id = ""
        # Set by the caller just before the commit begins. From then on, the ledger decides whether
        # the files are published.
        self.is_committing = False
        # The numbers of labels in the source's files, by column and label; set by the caller.
        self.label_codes: Mapping[str, Mapping[str, int]] = {}

    @property
    def _may_replace(self) -> bool:
        """True if the job may replace files of earlier releases."""
        return self._job.if_exists == "replace"

    def require_destinations(self, session: Session, *, create_directories: bool = True) -> None:
        """Check that the files can be written to their destinations, before anything is read.

        Parameters
        ----------
        create_directories : whether to create missing directories.

        Raises
        ------
        OutputExists : a file exists that may not be replaced.
        InsufficientRights, InvalidParameter : a directory cannot be created.
        MissingDependency : the package that writes a format is not installed.
        """
        claimed_paths: set[destinations.Destination] = set()
        for export in self._job.exports:
            formats.require_writer(export)
            path = destinations.resolve_destination(export.path, self._job.run_id)
            if path in claimed_paths:
                raise OutputExists(f"Two exports would have the path {path}.")
            claimed_paths.add(path)
            self._checked_status[path] = destinations.status_of(path)
            if not self._may_replace:
                destinations.require_free(path)
            elif not may_be_replaced(path, self._recorded_exports(session)):
                kind = destinations.kind_of(path)
                raise OutputExists(
                    f"The {kind} {path} is not a {kind} that dbanon made from a release, so it was"
                    " not replaced.",
                    hint="Choose another place, or remove it.",
                )
            if create_directories and "{release}" not in export.path:
                destinations.make_parent(path)

    def _recorded_exports(self, session: Session) -> list[tuple[str, int, JsonObject]]:
        """Read the output's ``PublishedExports`` from the ledger."""
        return releases.list_exports(session, self._job.output)

    def __call__(
        self,
        target: SqlTarget,
        staged_release: StagedSqlRelease,
        count_requests: CountRequests,
        counts: Counts,
        guarantee: Guarantee,
        report: Report,
    ) -> list[JsonObject]:
        """Write the files and count their rows again; return the files' entries for the ledger.

        Parameters
        ----------
        count_requests : the counts of the relation that are repeated for the files.
        counts : the counts of the relation.

        Raises
        ------
        RecountFailed : a file has other counts than the relation.
        FormulaInText, UnsupportedType : the format cannot represent a value or type.
        """
        entries = []
        self._release_id = report.release_id
        for index, export in enumerate(self._job.exports):
            path = destinations.resolve_destination(export.path, report.release_id)
            pending = destinations.begin(path, self._name_tag, report.release_id, index)
            self._pending_files.append(pending)
            attributes, row_batches = target.read_released(staged_release, self._job.chunk_rows)
            # The released quasi-identifiers and the strata.
            class_columns = staged_release.draft.class_columns
            try:
                file_schema = arrow_schema(attributes)
                # A table of a catalog, such as Iceberg, has an id for each field.
                if destinations.is_table(path):
                    file_schema = path.add_field_ids(file_schema)
                formats.write(
                    pending.file,
                    export,
                    file_schema,
                    regroup_batches(attributes, row_batches, _BATCH_ROWS),
                    quasi_identifiers=class_columns,
                    metadata=_build_metadata(report, class_columns),
                    label_codes=self.label_codes if export.codes == OF_SOURCE else {},
                )
                size, digest = pending.flush()
            except OSError as error:
                raise problems.write_error(pending.directory, error) from None
            _require_same_counts(
                pending.path, export, attributes, count_requests, counts, guarantee.models
            )
            try:
                # A table of a catalog keeps earlier versions, with the rows of earlier releases.
                older_versions = (
                    {"older_versions": path.count_older_versions(self._checked_status.get(path))}
                    if destinations.is_table(path)
                    else {}
                )
                # Files on disk need no upload; this call then does nothing.
                pending.upload()
            except OSError as error:
                raise problems.write_error(path.parent, error) from None
            entries.append(
                {
                    "path": str(path),
                    "format": export.format,
                    "bytes": size,
                    "sha256": digest,
                    # The path before ``{release}`` was replaced. The files of an export share it.
                    "template": export.path,
                    **older_versions,
                }
            )
        return entries

    def finish(self) -> None:
        """Move the files to their destinations, after the commit of the release.

        The release is published already, so errors become warnings. They are raised if the database
        is not persistent, because then only the files contain the release.

        Raises
        ------
        OutputBusy, DatabaseFailure : a file could not be moved, and the database is not persistent.
        OutcomeUnknown : a catalog did not answer a commit, and the database is not persistent.
        """
        failures: list[tuple[destinations.Destination, DbanonError | OSError]] = []
        for pending in self._pending_files:
            try:
                # Closing the file also releases its lock.
                with pending.file, _interruptible_wait(pending.destination):
                    self._publish_file(pending)
            except (DbanonError, OSError) as raised:
                # Drop the traceback: it would make a reference cycle of this frame and the error.
                # If a catalog may have committed the file, the error becomes OutcomeUnknown.
                error = problems.commit_error(
                    pending.staged_file, pending.destination, raised.with_traceback(None)
                )
                if self._database.is_persistent:
                    _warn_pending(pending.staged_file, pending.destination, error)
                    continue
                # No ledger records the file, so delete it. Rows already visible in a table stay.
                pending.undo()
                failures.append((pending.destination, error))
                del error
        self._pending_files.clear()
        if failures:
            path, failure = failures[0]
            failures.clear()
            try:
                raise (
                    failure
                    if isinstance(failure, DbanonError)
                    else problems.publication_error(path, failure)
                )
            finally:
                del failure
        try:
            with interruptible():
                self._delete_old_files()
        except (DbanonError, OSError, KeyboardInterrupt) as error:
            message = (
                "Old files of earlier releases could not be found or deleted"
                f" ({type(error).__name__})."
            )
            warn_caller(ExportPending(message))

    def _publish_file(self, pending: destinations.PendingFile | destinations.PendingObject) -> None:
        """Move a file to its destination, or delete it if this or a later release is there."""
        path, existing_status = pending.destination, destinations.status_of(pending.destination)
        if existing_status is not None and not destinations.same_file(
            existing_status, self._checked_status.get(path)
        ):
            # Another run has written a file there since this run checked the destination.
            with self._database.session(write=False) as session:
                exports = self._recorded_exports(session)
            if is_current_or_later(path, self._release_id, exports):
                pending.undo()
                return
            existing_status = existing_status if may_be_replaced(path, exports) else None
        pending.finish(replaceable_status=existing_status if self._may_replace else None)

    def undo(self) -> None:
        """Delete the files, because the release was not published."""
        for pending in self._pending_files:
            pending.undo()
        self._pending_files.clear()

    def leave_pending(self) -> None:
        """Leave the files to the next run, because the outcome of the commit is unknown."""
        for pending in self._pending_files:
            destinations.close(pending.file)
        self._pending_files.clear()

    def finish_earlier_runs(self) -> None:
        """Publish or delete the files that earlier runs left behind."""
        leftovers = {
            leftover
            for export in self._job.exports
            for leftover in destinations.leftover_files(export.path, self._name_tag)
        }
        with ExitStack() as locks:
            # Query the ledger only while holding the locks: until then these runs might publish.
            acquired_leftovers = [
                leftover
                for leftover in leftovers
                # False if a run that still works on the file holds its lock.
                if locks.enter_context(destinations.lock_leftover(leftover[0]))
            ]
            if acquired_leftovers:
                self._finish_leftovers(acquired_leftovers)

    def _finish_leftovers(
        self, leftovers: Sequence[tuple[destinations.StagedFile, str, int]]
    ) -> None:
        """Move the files that the ledger records to their destinations, and delete the others.

        Parameters
        ----------
        leftovers : for each file, its path, release id and the index of its export in the job.
        """
        exports: list[tuple[str, int, JsonObject]] = []
        # A database file that does not exist yet has no ledger, so it records no exports.
        with suppress(DatabaseNotFound), self._database.session(write=False) as session:
            exports = self._recorded_exports(session)
        # Positions count from the oldest release, so that they order releases by age.
        position_and_entry = {
            (release_id, index): (position, entry)
            for position, (release_id, index, entry) in enumerate(reversed(exports))
        }
        # For files that the ledger does not record; they come first.
        no_entry: tuple[int, JsonMapping] = (-1, {})

        def publication_order(
            leftover: tuple[destinations.StagedFile, str, int],
        ) -> tuple[int, str]:
            path, release_id, index = leftover
            position, _ = position_and_entry.get((release_id, index), no_entry)
            return position, str(path)

        # Oldest first, so that a newer release replaces an older one.
        for path, release_id, index in sorted(leftovers, key=publication_order):
            _, entry = position_and_entry.get((release_id, index), no_entry)
            # A file is staged next to its destination, so an entry with another folder is not its
            # entry.
            destination: destinations.Destination | None = None
            try:
                destination = (
                    destinations.resolve_destination(entry["path"], release_id="")
                    if entry
                    else None
                )
                if (
                    destination is None
                    or destination.parent != path.parent
                    or entry["sha256"] != destinations.sha256(path)
                ):
                    # Object stores have no locks, so this keeps objects younger than a day: the run
                    # that wrote them may not have ended.
                    destinations.delete_leftover(path)
                elif is_current_or_later(destination, release_id, exports):
                    path.unlink(missing_ok=True)
                else:
                    existing_status = destinations.status_of(destination)
                    may_replace = self._may_replace and may_be_replaced(destination, exports)
                    destinations.move_to_destination(
                        path,
                        destination,
                        replaceable_status=existing_status if may_replace else None,
                    )
            except (DbanonError, OSError) as error:
                _warn_pending(
                    path, destination or path, problems.commit_error(path, destination, error)
                )

    def _delete_old_files(self) -> None:
        """Delete unchanged files of earlier releases, except the newest ``keep_last``."""
        for export in self._job.exports:
            if export.keep_last is None:
                continue
            with self._database.session(write=False) as session:
                exports = self._recorded_exports(session)
            entries = [entry for _, _, entry in exports if entry["template"] == export.path]
            # The newest is the file of this run.
            older_entries = entries[1:]
            older_files = [
                (destinations.resolve_destination(entry["path"], release_id=""), entry)
                for entry in older_entries
            ]
            existing_files = [
                (path, entry)
                for path, entry in older_files
                if destinations.is_file(destinations.status_of(path))
            ]
            # The file of this run counts as one of those to keep.
            for path, entry in existing_files[export.keep_last - 1 :]:
                # ``keep_last`` is refused for tables, whose snapshots are the releases.
                assert isinstance(path, (Path, ObjectPath))
                if destinations.sha256(path) == entry["sha256"]:
                    path.unlink(missing_ok=True)


@contextmanager
def _interruptible_wait(destination: destinations.Destination) -> Iterator[None]:
    """Let a signal interrupt the block while it waits for an object store, but not for a disk.

    Raises
    ------
    OSError : a signal arrived.
    """
    if isinstance(destination, Path):
        yield
        return
    try:
        with interruptible():
            yield
    except KeyboardInterrupt:
        raise InterruptedError(errno.EINTR, "it was interrupted") from None


def _warn_pending(
    path: destinations.Destination | destinations.StagedFile,
    destination: destinations.Destination | destinations.StagedFile,
    error: DbanonError | OSError,
) -> None:
    """Warn that a file of a published release did not reach its destination."""
    if isinstance(error, OutcomeUnknown):
        message = (
            f"The release was published, but the commit to {destination} was not confirmed. The"
            f" next run checks whether it contains the file {path}."
        )
    else:
        reason = (
            error.strerror or type(error).__name__
            if isinstance(error, OSError)
            else error.message.rstrip(".")
        )
        message = (
            f"The release was published, but its file {path} could not be moved to {destination}"
            f" ({reason})."
        )
    warn_caller(ExportPending(message))


def _build_metadata(report: Report, class_columns: tuple[str, ...]) -> dict[str, str]:
    """Build the metadata of a Parquet file, without the names of publisher and source."""
    chain = report.arguments.get("chain")
    # The chain's name is part of the guarantee.
    chain_metadata = (
        {"chain": chain["chain_id"], "chain_sequence": str(chain["sequence"])} if chain else {}
    )
    # Where NULL agrees with every value, a recount of the file needs to know that.
    agreement_keys = ("options", "agreeing_rows") if report.null_agrees else ()
    return {
        **chain_metadata,
        "release_id": report.release_id,
        "version": report.dbanon_version,
        "k_requested": str(report.k_requested),
        "k_counted": str(report.k_achieved),
        "guarantee": report.guarantee,
        "quasi_identifiers": json.dumps(list(class_columns)),
        "arguments": json.dumps(
            {
                name: report.arguments.get(name)
                for name in (
                    *("guarantee", "by", "models", "also_k", WEIGHT_RECORD),
                    *agreement_keys,
                )
                if report.arguments.get(name)
            }
        ),
        "created_on": report.created_at[:10],
    }


def _require_same_counts(
    path: Path,
    export: Export,
    attributes: tuple[Attribute, ...],
    requests: CountRequests,
    counts: Counts,
    models: Sequence[Model],
) -> None:
    """Count the rows of a file as a reader would, and compare with the relation's counts."""
    # A file has no person identifiers, so compare counts of rows. Leave out models of columns with
    # a hierarchy: a file may spell values in other ways than the database, whose spelling the
    # leaves have.
    model_columns = tuple(
        name for name in requests.sensitive if name not in requests.hierarchy_columns
    )
    file_counts, file_attributes = count_file(
        path, export, attributes, replace(requests, entity_columns=(), sensitive=model_columns)
    )
    comparable_models = [model for model in models if model.attribute in model_columns]
    differences = [] if file_counts.rows == counts.rows else ["rows or class sizes"]
    # The counts of the sets in ``also_k``, in addition to the classes.
    if file_counts.further_sets != counts.further_sets:
        differences.append("combinations of values of the sets in also_k")
    released_attributes = {attribute.name: attribute for attribute in attributes}
    if not all(
        isclose(file_level, release_level, rel_tol=1e-9)
        for file_level, release_level in zip(
            row_levels(comparable_models, file_attributes, file_counts),
            row_levels(comparable_models, released_attributes, counts),
            strict=True,
        )
    ):
        differences.append("levels of privacy models")
    if differences:
        raise RecountFailed(
            f"The {export.format} file differs from the release: {', '.join(differences)}"
            " differ; nothing was published.",
            hint=REPORT_IT
            if export.format == PARQUET
            else "Export Parquet instead: some of these values may look alike in other formats.",
        )


def may_be_replaced(path: destinations.Destination, exports: PublishedExports) -> bool:
    """Return True if there is no file at a path, or a file that contains a release.

    A file contains a release if its own metadata says so, or if its digest is among those of
    ``exports``.
    """
    status = destinations.status_of(path)
    if status is None:
        return True
    # Never replace or follow a link, and never wait for a pipe.
    if not destinations.is_file(status):
        return False
    try:
        if formats.metadata_of(path).get("release_id"):
            return True
    except (ValueError, OSError):
        pass
    return _has_recorded_digest(path, exports)


def is_current_or_later(
    path: destinations.Destination, release_id: str, exports: PublishedExports
) -> bool:
    """Return True if the file at a path belongs to this release or to a later one.

    The file's digest decides; the file's own metadata is not trusted.
    """
    if not any(release_id == recorded_id for recorded_id, _, _ in exports):
        return False
    # ``exports`` begins with the newest release.
    later_files = list(takewhile(lambda file: file[0] != release_id, exports))
    release_files = [file for file in exports if file[0] == release_id]
    return destinations.is_file(destinations.status_of(path)) and _has_recorded_digest(
        path, [*later_files, *release_files]
    )


def _has_recorded_digest(path: destinations.Destination, exports: PublishedExports) -> bool:
    """Return True if the file's SHA-256 is that of one of these exports."""
    digests = {entry["sha256"] for _, _, entry in exports}
    try:
        return bool(digests) and destinations.sha256(path) in digests
    except OSError:
        return False
