"""Publish releases on MariaDB in five steps: plan, stage, count, swap, record.

DDL statements commit implicitly on MariaDB, so publishing a release and writing its ledger entry
cannot share a transaction. First a ledger table records the plan. The release is staged, that is,
written under another name, and recounted. Then ``RENAME TABLE``, an atomic statement, replaces the
old table by the staged one. The ledger entry is written last. If a run is interrupted in between,
the next run that writes checks which tables exist, and corrects the ledger.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any

from dbanon.errors import (
    DatabaseBusy,
    OutputBusy,
    OutputChanged,
    OutputExists,
    OutputNotOurs,
    SourceChanged,
    sql_for_hint,
)
from dbanon.extensions.mariadb.catalog import MariadbStatementSession
from dbanon.extensions.mariadb.dialect import quote_dotted, quote_name
from dbanon.extensions.mariadb.ledger import PUBLICATION_TABLE
from dbanon.ledger import entries
from dbanon.ledger.tables import INTERNAL_TABLE
from dbanon.release.words import now
from dbanon.sessions.base import MARK, ExistingRelation, Output
from dbanon.sessions.names import RelationName

# States of a release in the ledger table of publications: its run goes on or was interrupted; it
# was published; it was not published and never will be.
PLANNED, PUBLISHED, REFUSED = "planned", "published", "refused"
# Time limits of successive attempts to swap tables; the last one applies to all further attempts.
# They are short, since a waiting RENAME blocks all new readers.
ATTEMPT_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8)
# Pause between two attempts.
PAUSE_SECONDS = 0.25


@dataclass
class UnpublishedRelease:
    """A release that is written but not published yet.

    Parameters
    ----------
    entry : what the ledger will record: the release (``row``), its ``columns``, and the ``run``;
        None until the release has been counted.
    """

    output: Output
    entry: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def replaced_name(self) -> RelationName:
        """The name that the replaced table gets until it is dropped."""
        return _replaced_name(self.output.release_id)


def plan(session: MariadbStatementSession, output: Output) -> UnpublishedRelease:
    """Lock the output and record the plan; raises OutputBusy if another run is writing it."""
    _lock(session, output.name)
    session.insert_rows(
        session.ledger.table(PUBLICATION_TABLE),
        ["release_id", "output_schema", "output_name", "state", "planned_at"],
        [(output.release_id, output.name.schema, output.name.name, PLANNED, now())],
    )
    session.run("COMMIT")
    return UnpublishedRelease(output)


def output_lock_name(session: MariadbStatementSession, name: RelationName) -> str:
    """Return the name of the lock that a run holds while it writes an output."""
    return session.lock_name("output", name.quoted)


def _lock(session: MariadbStatementSession, name: RelationName) -> None:
    """Lock an output for this connection; raises OutputBusy if another run holds the lock."""
    if session.rows("SELECT get_lock(?, 0)", (output_lock_name(session, name),)) != [(1,)]:
        raise OutputBusy(
            f"Another run is writing {name}.", hint="Wait until it has ended, then run it again."
        )


def publish(session: MariadbStatementSession, unpublished_release: UnpublishedRelease) -> None:
    """Publish a counted release under the output's name, and write its ledger entry.

    The comment on a released table, its *mark*, names the release.

    Raises
    ------
    OutputBusy : readers used the output until the timeout.
    SourceChanged : another session has replaced the output just before the swap. This error invites
        another attempt, unlike ``OutputChanged``, after which users must change something first.
    OutputExists : another session has created or replaced a table of this name.
    """
    output, publications = unpublished_release.output, session.ledger.table(PUBLICATION_TABLE)
    session.run(
        f"UPDATE {publications.quoted} SET entry = ? WHERE release_id = ?",
        (json.dumps(unpublished_release.entry), output.release_id),
    )
    session.run("COMMIT")
    session.make_database(output.name)
    existing = session.catalog.find_existing(output.name)
    _require_replaceable(session, output, existing)
    renames = [(output.staging_name, output.name)]
    if existing is not None:
        renames.insert(0, (output.name, unpublished_release.replaced_name))
    _swap(session, output, renames)
    replaced_table = (
        None
        if existing is None
        else session.catalog.find_existing(unpublished_release.replaced_name)
    )
    if replaced_table is not None and replaced_table.mark != (existing and existing.mark):
        # The mark names another release, so another session replaced the table just before the
        # swap. Undo the swap.
        reverse_renames = [
            (output.name, output.staging_name),
            (unpublished_release.replaced_name, output.name),
        ]
        _swap(session, output, reverse_renames)
        raise SourceChanged(
            f"Another session replaced {output.name} in the meantime; nothing was published.",
            hint=f"Run SHOW CREATE TABLE {sql_for_hint(quote_dotted(output.name))} to see what it"
            " is now, then run it again.",
        )
    record_published(session, output.release_id, unpublished_release.entry)
    session.run(f"DROP TABLE IF EXISTS {unpublished_release.replaced_name.quoted}")


def _require_replaceable(
    session: MariadbStatementSession, output: Output, existing: ExistingRelation | None
) -> None:
    """Check again that the output's name is unused, or names a release that may be replaced.

    Raises
    ------
    OutputExists, OutputNotOurs : another session has created or replaced a table of this name.
    OutputChanged : the table has a trigger, or a foreign key refers to it.
    """
    if existing is None:
        return
    if output.replaced_kind is None:
        raise OutputExists(
            f"Another session created {output.name} in the meantime; nothing was published."
        )
    if entries.release_id_of(session, output.name, existing) is None:
        raise OutputNotOurs(
            f"Another session replaced {output.name} in the meantime; nothing was published."
        )
    output_table = (output.name.schema, output.name.name)
    for schema, trigger in session.rows(
        "SELECT trigger_schema, trigger_name FROM information_schema.triggers"
        " WHERE event_object_schema = ? AND BINARY event_object_table = ? LIMIT 1",
        output_table,
    ):
        raise _obstacle_error(
            output, "a trigger", f"DROP TRIGGER {quote_dotted(RelationName(schema, trigger))}"
        )
    for schema, table, key in session.rows(
        "SELECT table_schema, table_name, constraint_name FROM information_schema.key_column_usage"
        " WHERE referenced_table_schema = ? AND BINARY referenced_table_name = ? LIMIT 1",
        output_table,
    ):
        statement = f"ALTER TABLE {quote_dotted(RelationName(schema, table))} DROP FOREIGN KEY"
        raise _obstacle_error(
            output, "a foreign key that refers to it", f"{statement} {quote_name(key)}"
        )


def _obstacle_error(output: Output, obstacle: str, statement: str) -> OutputChanged:
    """Build the error for an output that cannot be replaced; ``statement`` removes the obstacle."""
    return OutputChanged(
        f"The output {output.name} has {obstacle}, so it cannot be replaced.",
        hint=f"Run {sql_for_hint(statement)}, then run it again.",
    )


def _swap(
    session: MariadbStatementSession,
    output: Output,
    renames: list[tuple[RelationName, RelationName]],
) -> None:
    """Rename tables in short attempts, since a waiting RENAME blocks all later readers.

    Parameters
    ----------
    renames : pairs of old and new name; either all are renamed or none.
    """
    pairs = ", ".join(f"{old.quoted} TO {new.quoted}" for old, new in renames)
    last_old_name, _ = renames[-1]
    deadline = time.monotonic() + session.swap_seconds
    timeouts, timeout = iter(ATTEMPT_SECONDS), ATTEMPT_SECONDS[0]
    while True:
        # After the last time limit, keep it.
        timeout = next(timeouts, timeout)
        try:
            session.run(f"SET STATEMENT max_statement_time = {timeout} FOR RENAME TABLE {pairs}")
        except DatabaseBusy:
            # The rename may have succeeded just before the timeout. Then no table has the old name
            # of the last pair: no other pair gives this name to its table.
            if session.catalog.find_existing(last_old_name) is None:
                return
            if time.monotonic() >= deadline:
                raise OutputBusy(
                    f"Readers held locks on {output.name} for {session.swap_seconds:g} s, so the"
                    " release could not replace it; nothing was published.",
                    hint="End their transactions (SHOW PROCESSLIST lists sessions, KILL ends"
                    " one), or wait longer: `swap_timeout`.",
                ) from None
            time.sleep(PAUSE_SECONDS)
        else:
            return


def record_published(
    session: MariadbStatementSession, release_id: str, entry: dict[str, Any] | None
) -> None:
    """Write a published release's ledger entry, and the state of its plan, in one transaction."""
    assert entry is not None
    run_fields, row = dict(entry["run"]), dict(entry["row"])
    run = entries.Run(
        run_fields["door"],
        row["method"],
        row["source"],
        RelationName(row["output_schema"], row["output_name"]),
        run_fields["elapsed"],
        run_fields["run_id"],
        job=run_fields.get("job"),
        source_types=run_fields.get("source_types"),
        source_counts=run_fields.get("source_counts"),
        fingerprint=run_fields.get("fingerprint"),
    )
    session.run("START TRANSACTION")
    entries.insert_release(session, row, entry["columns"], run)
    _set_state(session, release_id, PUBLISHED)
    session.run("COMMIT")


def refuse(session: MariadbStatementSession, release_id: str) -> None:
    """Record that a planned release was not published, and remove its staged table.

    This also removes its exact figures (``INTERNAL_TABLE``).
    """
    _set_state(session, release_id, REFUSED)
    figures_table = session.ledger.table(INTERNAL_TABLE).quoted
    session.run(f"DELETE FROM {figures_table} WHERE release_id = ?", (release_id,))
    session.run("COMMIT")
    session.run(f"DROP TABLE IF EXISTS {_staging_name(release_id).quoted}")


def _set_state(session: MariadbStatementSession, release_id: str, state: str) -> None:
    """Record the outcome of a planned release; its ``entry`` is no longer needed."""
    table = session.ledger.table(PUBLICATION_TABLE)
    session.run(
        f"UPDATE {table.quoted} SET state = ?, settled_at = ?, entry = NULL WHERE release_id = ?",
        (state, now(), release_id),
    )


def resolve_interrupted_publications(session: MariadbStatementSession) -> None:
    """Find out whether the releases of interrupted runs were published, and correct the ledger.

    Releases that were not published are dropped. Runs in progress, which hold the locks of their
    outputs, are skipped.
    """
    table = session.ledger.table(PUBLICATION_TABLE)
    if session.catalog.find_existing(table) is None:
        return
    planned_releases = session.rows(
        f"SELECT release_id, output_schema, output_name FROM {table.quoted} WHERE state = ?",
        (PLANNED,),
    )
    if planned_releases:
        # Ledgers of earlier versions lack the secret for lock names.
        session.ledger.ensure_current()
    for release_id, schema, name in planned_releases:
        output = RelationName(schema, name)
        try:
            _lock(session, output)
        except OutputBusy:
            continue
        try:
            _resolve_publication(session, release_id)
        finally:
            session.rows("SELECT release_lock(?)", (output_lock_name(session, output),))
    _drop_leftovers(session)


def _resolve_publication(session: MariadbStatementSession, release_id: str) -> None:
    """Record whether a planned release was published; the caller holds the output's lock."""
    table = session.ledger.table(PUBLICATION_TABLE)
    [(state, entry)] = session.rows(
        f"SELECT state, entry FROM {table.quoted} WHERE release_id = ?", (release_id,)
    )
    if state != PLANNED:
        return
    # Once a release has been counted, its plan has an entry. If the staging table is missing after
    # that, it was renamed to the output, so the release was published.
    if entry is None or session.catalog.find_existing(_staging_name(release_id)) is not None:
        refuse(session, release_id)
    else:
        record_published(session, release_id, json.loads(entry))
        session.run(f"DROP TABLE IF EXISTS {_replaced_name(release_id).quoted}")


def _drop_leftovers(session: MariadbStatementSession) -> None:
    """Drop tables that interrupted runs have left behind and no plan refers to any longer."""
    table = session.ledger.table(PUBLICATION_TABLE)
    rows = session.rows(
        "SELECT t.table_name FROM information_schema.tables AS t"
        f" JOIN {table.quoted} AS p ON p.state <> '{PLANNED}' AND t.table_name IN"
        " (concat('r_', replace(p.release_id, '-', '')),"
        " concat('old_', replace(p.release_id, '-', ''))) WHERE t.table_schema = ?"
        f" AND t.table_comment LIKE '{MARK}%'",
        (table.schema,),
    )
    for (name,) in rows:
        session.run(f"DROP TABLE IF EXISTS {table.sibling(name).quoted}")


def _staging_name(release_id: str) -> RelationName:
    """Return the name under which a release is written before it is published."""
    return RelationName("dbanon", f"r_{release_id.replace('-', '')}")


def _replaced_name(release_id: str) -> RelationName:
    """Return the name that the table replaced by this release gets until it is dropped."""
    return RelationName("dbanon", f"old_{release_id.replace('-', '')}")


def is_published(session: MariadbStatementSession, unpublished_release: UnpublishedRelease) -> bool:
    """Return True if the ledger records the release as published."""
    [(state,)] = session.rows(
        f"SELECT state FROM {session.ledger.table(PUBLICATION_TABLE).quoted} WHERE release_id = ?",
        (unpublished_release.output.release_id,),
    )
    return bool(state == PUBLISHED)
