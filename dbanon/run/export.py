"""Files of a release: written from the verified relation, read back and counted again.

The publishing transaction writes them under temporary names next to their destinations and records
them in the ledger. They get their final names only after the commit, so no file contains an
unpublished release. The next run finishes or deletes the files that a crash left behind.
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
from typing import Any, TypeAlias

from dbanon.data.counts import CountRequests, Counts
from dbanon.data.schema import Attribute
from dbanon.errors import (
    DatabaseNotFound,
    DbanonError,
    ExportPending,
    OutcomeUnknown,
    OutputExists,
    RecountFailed,
    warn_caller,
)
from dbanon.job.export import PARQUET, Export
from dbanon.job.guarantee import REPORT_IT, Guarantee
from dbanon.job.job import Job
from dbanon.ledger import releases
from dbanon.measures import Model
from dbanon.measures.recount import levels_in_rows
from dbanon.release.report import Report
from dbanon.sessions.session import Session
from dbanon.sessions.store import Store
from dbanon.stores.duckdb.file_counts import counted_file
from dbanon.stores.exports import formats, lake_commit, places, problems
from dbanon.stores.exports.arrow import arrow_schema, batches
from dbanon.stores.exports.lake import IcebergTable, count_older_versions, with_field_ids
from dbanon.stores.interrupts import interruptible
from dbanon.stores.sql_persons import StagedSqlRelease
from dbanon.stores.sql_target import SqlTarget

# Rows in memory at once while a file is written.
_BATCH_ROWS = formats.GROUP_ROWS
# Files of an output's releases, the newest first: release, number in it, what the ledger has.
PublishedExports: TypeAlias = Sequence[tuple[str, int, Mapping[str, Any]]]


class Exporter:
    """The files of one run.

    Parameters
    ----------
    database : the target; its URL is part of the temporary file names.
    """

    def __init__(self, job: Job, database: Store) -> None:
        self._job, self._tag = job, places.tag_of(database.url, job.output)
        self._database = database
        self._pending: list[places.PendingFile | places.PendingObject] = []
        # Status of each destination when it was checked: only that file may be replaced.
        self._found: dict[places.Destination, places.FileStatus] = {}
        self._release_id = ""
        # True from COMMIT on: from then on the ledger decides what happens to the files.
        self.committing = False

    @property
    def _replaces(self) -> bool:
        return self._job.if_exists == "replace"

    def require_places(self, session: Session, *, make: bool = True) -> None:
        """Check that the files can be written to their destinations, before anything is read.

        Parameters
        ----------
        make : also create their directories.

        Raises
        ------
        OutputExists : another file is there.
        InsufficientRights, InvalidParameter : a directory cannot be created.
        """
        claimed: set[places.Destination] = set()
        for export in self._job.exports:
            path = places.resolve_destination(export.path, self._job.run_id)
            if path in claimed:
                raise OutputExists(f"Two exports would have the path {path}.")
            claimed.add(path)
            self._found[path] = places.status_of(path)
            if not self._replaces:
                places.require_free(path)
            elif not is_free(path, self._exports_of(session)):
                kind = places.kind_of(path)
                raise OutputExists(
                    f"The {kind} {path} is not a {kind} that dbanon made from a release, so it was"
                    " not replaced.",
                    hint="Choose another place, or remove it.",
                )
            if make and "{release}" not in export.path:
                places.make_parent(path)

    def _exports_of(self, session: Session) -> list[tuple[str, int, dict[str, Any]]]:
        return releases.list_exports(session, self._job.output)

    def __call__(
        self,
        target: SqlTarget,
        written: StagedSqlRelease,
        questions: CountRequests,
        counts: Counts,
        guarantee: Guarantee,
        report: Report,
    ) -> list[dict[str, Any]]:
        """Write the files and count them again; return the ledger's entries for them.

        Raises
        ------
        RecountFailed : a file has other counts than the relation.
        FormulaInText, UnsupportedType : the format cannot represent a value or type.
        """
        entries = []
        self._release_id = report.release_id
        for number, export in enumerate(self._job.exports):
            path = places.resolve_destination(export.path, report.release_id)
            pending = places.begin(path, self._tag, report.release_id, number)
            self._pending.append(pending)
            attributes, parts = target.released(written, self._job.chunk_rows)
            shared = written.draft.columns
            try:
                formats.write(
                    pending.file,
                    export,
                    with_field_ids(path, arrow_schema(attributes)),
                    batches(attributes, parts, _BATCH_ROWS),
                    quasi_identifiers=shared,
                    metadata=_metadata(report, shared),
                )
                size, digest = pending.flush()
            except OSError as error:
                raise problems.write_error(pending.directory, error) from None
            _require_same(pending.path, export, attributes, questions, counts, guarantee.models)
            try:
                older = count_older_versions(path, self._found.get(path))
                pending.upload()
            except OSError as error:
                raise problems.write_error(path.parent, error) from None
            entries.append(
                {
                    "path": str(path),
                    "format": export.format,
                    "bytes": size,
                    "sha256": digest,
                    "template": export.path,
                    **older,
                }
            )
        return entries

    def finish(self) -> None:
        """Move the files to their destinations, after the commit of the release.

        From here on errors become warnings, except where no database holds the release.

        Raises
        ------
        OutputBusy, DatabaseFailure : a file could not be moved, and no database has the release.
        OutcomeUnknown : a table's commit was not answered, and no database has the release.
        """
        failures: list[tuple[places.Destination, DbanonError | OSError]] = []
        for pending in self._pending:
            try:
                with pending.file, _interruptible_wait(pending.destination):
                    self._finish(pending)
            except (DbanonError, OSError) as raised:
                # The traceback would reference this frame, and the frame the error.
                error = lake_commit.commit_error(
                    pending.staged, pending.destination, raised.with_traceback(None)
                )
                if self._database.is_persistent:
                    _warn_of(pending.staged, pending.destination, error)
                    continue
                # No ledger will settle it. Rows that a table may already show stay there.
                pending.undo()
                failures.append((pending.destination, error))
                del error
        self._pending.clear()
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
                self._drop_old()
        except (DbanonError, OSError, KeyboardInterrupt) as error:
            message = f"Files of earlier releases were not looked at ({type(error).__name__})."
            warn_caller(ExportPending(message))

    def _finish(self, pending: places.PendingFile | places.PendingObject) -> None:
        """Move a file to its destination, or delete it if a later release is there."""
        path, existing = pending.destination, places.status_of(pending.destination)
        if existing is not None and not places.same_file(existing, self._found.get(path)):
            # Another run has written a file there meanwhile.
            with self._database.session(write=False) as session:
                exports = self._exports_of(session)
            if is_current_or_later(path, self._release_id, exports):
                pending.undo()
                return
            existing = existing if is_free(path, exports) else None
        pending.finish(over=existing if self._replaces else None)

    def undo(self) -> None:
        """Delete the files: the release was not published."""
        for pending in self._pending:
            pending.undo()
        self._pending.clear()

    def leave(self) -> None:
        """Leave the files to the next run: it is unknown whether the release was published."""
        for pending in self._pending:
            places.close(pending.file)
        self._pending.clear()

    def settle(self) -> None:
        """Finish or delete the files that earlier runs left behind."""
        left = {
            leftover
            for export in self._job.exports
            for leftover in places.leftover_files(export.path, self._tag)
        }
        with ExitStack() as locks:
            # Query the ledger only with the locks held: before, their runs might still publish.
            ended = [
                leftover
                for leftover in left
                if locks.enter_context(places.lock_leftover(leftover[0]))
            ]
            if ended:
                self._settle(ended)

    def _settle(self, left: Sequence[tuple[places.StagedFile, str, int]]) -> None:
        """Move the files that the ledger has to their destinations; delete the others."""
        exports: list[tuple[str, int, dict[str, Any]]] = []
        with suppress(DatabaseNotFound), self._database.session(write=False) as session:
            exports = self._exports_of(session)
        recorded = {
            (release_id, number): (age, entry)
            for age, (release_id, number, entry) in enumerate(reversed(exports))
        }
        nothing: tuple[int, Mapping[str, Any]] = (-1, {})
        # Oldest first, so that a newer release replaces an older one.
        for path, release_id, number in sorted(
            left, key=lambda entry: (recorded.get(entry[1:], nothing)[0], str(entry[0]))
        ):
            entry = recorded.get((release_id, number), nothing)[1]
            destination: places.Destination | None = None
            try:
                destination = places.resolve_destination(entry["path"], "") if entry else None
                if (
                    destination is None
                    or destination.parent != path.parent
                    or entry["sha256"] != places.sha256(path)
                ):
                    places.delete_leftover(path)
                elif is_current_or_later(destination, release_id, exports):
                    path.unlink(missing_ok=True)
                else:
                    existing = places.status_of(destination)
                    replaces = self._replaces and is_free(destination, exports)
                    places.move_to_destination(
                        path, destination, over=existing if replaces else None
                    )
            except (DbanonError, OSError) as error:
                _warn_of(
                    path, destination or path, lake_commit.commit_error(path, destination, error)
                )

    def _drop_old(self) -> None:
        """Delete unchanged files of earlier releases, except the newest ``keep_last``."""
        for export in self._job.exports:
            if export.keep_last is None:
                continue
            with self._database.session(write=False) as session:
                exports = self._exports_of(session)
            # The first is this run's.
            older = [entry for _, _, entry in exports if entry["template"] == export.path][1:]
            named = [(places.resolve_destination(entry["path"], ""), entry) for entry in older]
            existing = [
                (path, entry) for path, entry in named if places.is_file(places.status_of(path))
            ]
            for path, entry in existing[export.keep_last - 1 :]:
                # A table's path names no release: each release is a snapshot of the table.
                assert not isinstance(path, IcebergTable)
                if places.sha256(path) == entry["sha256"]:
                    path.unlink(missing_ok=True)


@contextmanager
def _interruptible_wait(destination: places.Destination) -> Iterator[None]:
    """Let a signal end the wait for a stalled object store; always wait for a disk.

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


def _warn_of(
    path: places.Destination | places.StagedFile,
    destination: places.Destination | places.StagedFile,
    error: DbanonError | OSError,
) -> None:
    if isinstance(error, OutcomeUnknown):
        message = (
            f"The release was published, but the commit to {destination} was not answered: the next"
            f" run finds out whether it shows the file. It is {path}."
        )
    else:
        why = error.strerror if isinstance(error, OSError) else error.message.rstrip(".")
        message = (
            f"The release was published, but its file could not get the place {destination}"
            f" ({why}): it is {path}."
        )
    warn_caller(ExportPending(message))


def _metadata(report: Report, shared: tuple[str, ...]) -> dict[str, str]:
    """The metadata of a Parquet file, which name neither the publisher nor the source."""
    chain = report.arguments.get("chain")
    # The guarantee contains its name.
    of_chain = (
        {"chain": chain["chain_id"], "chain_sequence": str(chain["sequence"])} if chain else {}
    )
    return {
        **of_chain,
        "release_id": report.release_id,
        "version": report.dbanon_version,
        "k_requested": str(report.k_requested),
        "k_counted": str(report.k_achieved),
        "guarantee": report.guarantee,
        "quasi_identifiers": json.dumps(list(shared)),
        "arguments": json.dumps(
            {
                name: report.arguments.get(name)
                for name in ("guarantee", "by", "models", "also_k")
                if report.arguments.get(name)
            }
        ),
        "created_on": report.created_at[:10],
    }


def _require_same(
    path: Path,
    export: Export,
    attributes: tuple[Attribute, ...],
    questions: CountRequests,
    counts: Counts,
    models: Sequence[Model],
) -> None:
    """Count a file again, as another reader reads it, and compare with the relation's counts."""
    # A file has no person identifiers, so compare rows. Databases spell leaves of hierarchies in
    # their own ways, so leave out columns with a hierarchy.
    texts = tuple(name for name in questions.sensitive if name not in questions.leaves)
    file_counts, sensitive = counted_file(
        path, export, attributes, replace(questions, persons=(), sensitive=texts)
    )
    comparable_models = [model for model in models if model.attribute in texts]
    differing = [] if file_counts.rows == counts.rows else ["rows or class sizes"]
    if file_counts.also != counts.also:
        differing.append("combinations of sets of columns")
    released = {attribute.name: attribute for attribute in attributes}
    if not all(
        isclose(level, before, rel_tol=1e-9)
        for level, before in zip(
            levels_in_rows(comparable_models, sensitive, file_counts),
            levels_in_rows(comparable_models, released, counts),
            strict=True,
        )
    ):
        differing.append("levels of privacy models")
    if differing:
        raise RecountFailed(
            f"The {export.format} file differs from the release: {', '.join(differing)}"
            " differ; nothing was published.",
            hint=REPORT_IT
            if export.format == PARQUET
            else "Export Parquet instead: some of these values may look alike in other formats.",
        )


def is_free(path: places.Destination, exports: PublishedExports) -> bool:
    """True if nothing is there, or a file of a release by its metadata or the ledger's digests."""
    status = places.status_of(path)
    if status is None:
        return True
    # Never replace or follow a link, and never wait for a pipe.
    if not places.is_file(status):
        return False
    try:
        if formats.metadata_of(path).get("release_id"):
            return True
    except (ValueError, OSError):
        pass
    return _has_one_of(path, exports)


def is_current_or_later(
    path: places.Destination, release_id: str, exports: PublishedExports
) -> bool:
    """True if the file at a path is this release or a later one.

    Compares digests with the ledger; does not rely on the file's own metadata.
    """
    if not any(release_id == of for of, _, _ in exports):
        return False
    later = list(takewhile(lambda entry: entry[0] != release_id, exports))
    this_release = [entry for entry in exports if entry[0] == release_id]
    return places.is_file(places.status_of(path)) and _has_one_of(path, [*later, *this_release])


def _has_one_of(path: places.Destination, exports: PublishedExports) -> bool:
    digests = {entry["sha256"] for _, _, entry in exports}
    try:
        return bool(digests) and places.sha256(path) in digests
    except OSError:
        return False
