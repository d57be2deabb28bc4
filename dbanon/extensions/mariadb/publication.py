"""Publish releases on MariaDB in five steps: plan, stage, count, swap, record.

DDL statements commit implicitly on MariaDB, so publishing a release and writing its ledger entry
cannot share a transaction. First a ledger table records the plan. The release is staged, that is,
written under another name, and recounted. Then ``RENAME TABLE``, an atomic statement, replaces the
old table by the staged one. The ledger entry is written last. If a run is interrupted in between,
the next run that writes checks which tables exist, and corrects the ledger.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from dbanon.errors import (
    DatabaseBusy,
    OutputBusy,
    OutputChanged,
    OutputExists,
    OutputNotOurs,
    ReadOnly,
    SchemaCreated,
    SourceChanged,
    ViewsNotHere,
    sql_for_hint,
    warn_caller,
)
from dbanon.extensions.mariadb import dialect as mariadb_dialect
from dbanon.extensions.mariadb.catalog import MariadbCatalog
from dbanon.extensions.mariadb.dialect import quote_dotted, quote_name
from dbanon.extensions.mariadb.errors import READ_ONLY_HINT
from dbanon.extensions.mariadb.ledger import PUBLICATION_TABLE, SECRET_TABLE, UnpublishedEntry
from dbanon.ledger import entries
from dbanon.ledger.tables import INTERNAL_TABLE
from dbanon.release.words import now
from dbanon.sessions.base import MARK, ExistingRelation, Output
from dbanon.sessions.connection import Connection
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.publication import Publication
from dbanon.sessions.session import Session

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
    entry : what the ledger will record; None until the release has been counted.
    """

    output: Output
    entry: UnpublishedEntry | None = field(default=None, repr=False)

    @property
    def replaced_name(self) -> RelationName:
        """The name that the replaced table gets until it is dropped."""
        return _replaced_name(self.output.release_id)


class MariadbPublication(Publication):
    """Writes and publishes releases on MariaDB.

    Parameters
    ----------
    session : records releases in its ledger, after the swap.
    catalog : the catalog of the session.
    """

    mode = "swap"

    def __init__(self, session: Session, connection: Connection, catalog: MariadbCatalog) -> None:
        super().__init__(connection)
        self._session, self._catalog = session, catalog
        # The release to publish when the session ends.
        self.unpublished_release: UnpublishedRelease | None = None
        # The seconds that the swap waits for readers of the replaced table.
        self._swap_seconds = 60.0

    def lock(self, name: RelationName) -> None:
        # ``create_table`` takes the lock. Here only check that the session may write.
        [(server_setting, is_transaction_read_only)] = self._connection.rows(
            "SELECT CAST(@@read_only AS CHAR), @@tx_read_only"
        )
        is_server_read_only = str(server_setting) not in ("0", "OFF")
        # Accounts with this right may write even on a read-only server. It is granted for the whole
        # server; the empty name stands for no schema.
        is_exempt = bool(
            {"READ_ONLY ADMIN", "READ ONLY ADMIN"} & self._catalog.find_granted_rights("")
        )
        if is_transaction_read_only or (is_server_read_only and not is_exempt):
            raise ReadOnly(hint=READ_ONLY_HINT)

    def ensure_schema(self, name: RelationName) -> None:
        # Only warn here, since creating a schema cannot be rolled back; ``complete`` creates it.
        if not self._catalog.has_schema(str(name.schema)):
            warn_caller(
                SchemaCreated(f'There is no schema "{name.schema}": the release creates it.')
            )

    def ensure_database(self, name: RelationName) -> None:
        """Create the database (schema) of a relation, unless it exists."""
        if not self._catalog.has_schema(str(name.schema)):
            self._connection.run(f"CREATE DATABASE IF NOT EXISTS {quote(str(name.schema))}")

    def lock_name(self, kind: str, name: str) -> str:
        """Return the name of a server lock; only accounts with access to the ledger can compute it.

        The name is a digest, since the server limits lock names to 64 characters and ignores case.

        Parameters
        ----------
        kind, name : what the lock protects, e.g. ``job`` and the job's name.
        """
        table = self._session.ledger.table(SECRET_TABLE).quoted
        query = f"SELECT secret FROM {table}"
        if not self._connection.rows(query):
            # IGNORE: if two first runs race, both use the secret that was inserted first. The
            # server generates it, since a secret sent by a client would appear in the general log.
            self._connection.run(f"INSERT IGNORE INTO {table} SELECT 1, hex(random_bytes(32))")
            # Show it to other connections before this one takes a lock.
            self._connection.run("COMMIT")
        [(secret,)] = self._connection.rows(query)
        digest = hashlib.sha256(f"{secret} {kind} {name}".encode()).hexdigest()
        return f"dbanon {digest[:48]}"

    def staging_name(self, name: RelationName, kind: str, release_id: str) -> RelationName:
        """Return the staging table's name, in a schema that readers have no rights on."""
        if kind == "view":
            raise ViewsNotHere(hint='Release a table: `output_kind="table"`.')
        return _staging_name(release_id)

    def create_table(
        self, output: Output, columns: Sequence[tuple[str, str]], release_id: str
    ) -> None:
        self._session.ledger.ensure_current()
        self.unpublished_release = self._plan(output)
        body = ", ".join(
            f"{quote(name)} {mariadb_dialect.declare_type(sql_type)}" for name, sql_type in columns
        )
        self._connection.run(
            f"CREATE TABLE {output.staging_name.quoted} ({body}) ENGINE=InnoDB"
            f" {mariadb_dialect.TEXT_OPTIONS}"
            f" COMMENT='{MARK}{release_id}'"
        )

    def publish(self, output: Output, columns: Sequence[str]) -> None:
        """Check that the release can be published; ``complete`` does that when the session ends."""
        assert self.unpublished_release is not None
        if output.replaced_kind is None and self._catalog.find_existing(output.name) is not None:
            raise OutputExists(f"The output {output.name} already exists.")
        self._session.ledger.require_trusted()

    def keep_entry(self, entry: UnpublishedEntry) -> None:
        """Keep the ledger entry of the unpublished release."""
        assert self.unpublished_release is not None
        self.unpublished_release.entry = entry

    def set_swap_timeout(self, seconds: float) -> None:
        self._swap_seconds = seconds

    def _plan(self, output: Output) -> UnpublishedRelease:
        """Lock the output and record the plan; raises OutputBusy if another run is writing it."""
        self._take_lock(output.name)
        self._connection.insert_rows(
            self._session.ledger.table(PUBLICATION_TABLE),
            ["release_id", "output_schema", "output_name", "state", "planned_at"],
            [(output.release_id, output.name.schema, output.name.name, PLANNED, now())],
        )
        self._connection.run("COMMIT")
        return UnpublishedRelease(output)

    def output_lock_name(self, name: RelationName) -> str:
        """Return the name of the lock that a run holds while it writes an output."""
        return self.lock_name("output", name.quoted)

    def _take_lock(self, name: RelationName) -> None:
        """Lock an output for this connection; raises OutputBusy if another run holds the lock."""
        if self._connection.rows("SELECT get_lock(?, 0)", (self.output_lock_name(name),)) != [(1,)]:
            raise OutputBusy(
                f"Another run is writing {name}.",
                hint="Wait until it has ended, then run it again.",
            )

    def complete(self, unpublished_release: UnpublishedRelease) -> None:
        """Publish a counted release under the output's name, and write its ledger entry.

        The comment on a released table, its *mark*, names the release.

        Raises
        ------
        OutputBusy : readers used the output until the timeout.
        SourceChanged : another session has replaced the output just before the swap. This error
            invites another attempt, unlike ``OutputChanged``, after which users must change
            something first.
        OutputExists : another session has created or replaced a table of this name.
        """
        output, publications = (
            unpublished_release.output,
            self._session.ledger.table(PUBLICATION_TABLE),
        )
        self._connection.run(
            f"UPDATE {publications.quoted} SET entry = ? WHERE release_id = ?",
            (json.dumps(unpublished_release.entry), output.release_id),
        )
        self._connection.run("COMMIT")
        self.ensure_database(output.name)
        existing = self._catalog.find_existing(output.name)
        self._require_replaceable(output, existing)
        renames = [(output.staging_name, output.name)]
        if existing is not None:
            renames.insert(0, (output.name, unpublished_release.replaced_name))
        self._swap(output, renames)
        replaced_table = (
            None
            if existing is None
            else self._catalog.find_existing(unpublished_release.replaced_name)
        )
        if replaced_table is not None and replaced_table.mark != (existing and existing.mark):
            # The mark names another release, so another session replaced the table just before the
            # swap. Undo the swap.
            reverse_renames = [
                (output.name, output.staging_name),
                (unpublished_release.replaced_name, output.name),
            ]
            self._swap(output, reverse_renames)
            raise SourceChanged(
                f"Another session replaced {output.name} in the meantime; nothing was published.",
                hint=f"Run SHOW CREATE TABLE {sql_for_hint(quote_dotted(output.name))} to see what"
                " it is now, then run it again.",
            )
        self._record_published(output.release_id, unpublished_release.entry)
        self._connection.run(f"DROP TABLE IF EXISTS {unpublished_release.replaced_name.quoted}")

    def _require_replaceable(self, output: Output, existing: ExistingRelation | None) -> None:
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
        if entries.release_id_of(self._session, output.name, existing) is None:
            raise OutputNotOurs(
                f"Another session replaced {output.name} in the meantime; nothing was published."
            )
        output_table = (output.name.schema, output.name.name)
        for schema, trigger in self._connection.rows(
            "SELECT trigger_schema, trigger_name FROM information_schema.triggers"
            " WHERE event_object_schema = ? AND BINARY event_object_table = ? LIMIT 1",
            output_table,
        ):
            raise _obstacle_error(
                output, "a trigger", f"DROP TRIGGER {quote_dotted(RelationName(schema, trigger))}"
            )
        for schema, table, key in self._connection.rows(
            "SELECT table_schema, table_name, constraint_name"
            " FROM information_schema.key_column_usage"
            " WHERE referenced_table_schema = ? AND BINARY referenced_table_name = ? LIMIT 1",
            output_table,
        ):
            statement = f"ALTER TABLE {quote_dotted(RelationName(schema, table))} DROP FOREIGN KEY"
            raise _obstacle_error(
                output, "a foreign key that refers to it", f"{statement} {quote_name(key)}"
            )

    def _swap(self, output: Output, renames: list[tuple[RelationName, RelationName]]) -> None:
        """Rename tables in short attempts, since a waiting RENAME blocks all later readers.

        Parameters
        ----------
        renames : pairs of old and new name; either all are renamed or none.
        """
        pairs = ", ".join(f"{old.quoted} TO {new.quoted}" for old, new in renames)
        last_old_name, _ = renames[-1]
        deadline = time.monotonic() + self._swap_seconds
        timeouts, timeout = iter(ATTEMPT_SECONDS), ATTEMPT_SECONDS[0]
        while True:
            # After the last time limit, keep it.
            timeout = next(timeouts, timeout)
            try:
                self._connection.run(
                    f"SET STATEMENT max_statement_time = {timeout} FOR RENAME TABLE {pairs}"
                )
            except DatabaseBusy:
                # The rename may have succeeded just before the timeout. Then no table has the old
                # name of the last pair: no other pair gives this name to its table.
                if self._catalog.find_existing(last_old_name) is None:
                    return
                if time.monotonic() >= deadline:
                    raise OutputBusy(
                        f"Readers held locks on {output.name} for {self._swap_seconds:g} s, so the"
                        " release could not replace it; nothing was published.",
                        hint="End their transactions (SHOW PROCESSLIST lists sessions, KILL ends"
                        " one), or wait longer: `swap_timeout`.",
                    ) from None
                time.sleep(PAUSE_SECONDS)
            else:
                return

    def _record_published(self, release_id: str, entry: UnpublishedEntry | None) -> None:
        """Write a published release's ledger entry, and its plan's state, in one transaction."""
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
        self._connection.run("START TRANSACTION")
        entries.insert_release(self._session, row, entry["columns"], run)
        self._set_state(release_id, PUBLISHED)
        self._connection.run("COMMIT")

    def _refuse(self, release_id: str) -> None:
        """Record that a planned release was not published, and remove its staged table.

        This also removes its exact figures (``INTERNAL_TABLE``).
        """
        self._set_state(release_id, REFUSED)
        figures_table = self._session.ledger.table(INTERNAL_TABLE).quoted
        self._connection.run(f"DELETE FROM {figures_table} WHERE release_id = ?", (release_id,))
        self._connection.run("COMMIT")
        self._connection.run(f"DROP TABLE IF EXISTS {_staging_name(release_id).quoted}")

    def _set_state(self, release_id: str, state: str) -> None:
        """Record the outcome of a planned release; its ``entry`` is no longer needed."""
        table = self._session.ledger.table(PUBLICATION_TABLE)
        self._connection.run(
            f"UPDATE {table.quoted} SET state = ?, settled_at = ?, entry = NULL"
            " WHERE release_id = ?",
            (state, now(), release_id),
        )

    def resolve_interrupted(self) -> None:
        """Find out whether the releases of interrupted runs were published, and correct the ledger.

        Releases that were not published are dropped. Runs in progress, which hold the locks of
        their outputs, are skipped.
        """
        table = self._session.ledger.table(PUBLICATION_TABLE)
        if self._catalog.find_existing(table) is None:
            return
        planned_releases = self._connection.rows(
            f"SELECT release_id, output_schema, output_name FROM {table.quoted} WHERE state = ?",
            (PLANNED,),
        )
        if planned_releases:
            # Ledgers of earlier versions lack the secret for lock names.
            self._session.ledger.ensure_current()
        for release_id, schema, name in planned_releases:
            output = RelationName(schema, name)
            try:
                self._take_lock(output)
            except OutputBusy:
                continue
            try:
                self._resolve_publication(release_id)
            finally:
                self._connection.rows("SELECT release_lock(?)", (self.output_lock_name(output),))
        self._drop_leftovers()

    def _resolve_publication(self, release_id: str) -> None:
        """Record whether a planned release was published; the caller holds the output's lock."""
        table = self._session.ledger.table(PUBLICATION_TABLE)
        [(state, entry)] = self._connection.rows(
            f"SELECT state, entry FROM {table.quoted} WHERE release_id = ?", (release_id,)
        )
        if state != PLANNED:
            return
        # Once a release has been counted, its plan has an entry. If the staging table is missing
        # after that, it was renamed to the output, so the release was published.
        if entry is None or self._catalog.find_existing(_staging_name(release_id)) is not None:
            self._refuse(release_id)
        else:
            self._record_published(release_id, json.loads(entry))
            self._connection.run(f"DROP TABLE IF EXISTS {_replaced_name(release_id).quoted}")

    def _drop_leftovers(self) -> None:
        """Drop tables that interrupted runs have left behind and no plan refers to any longer."""
        table = self._session.ledger.table(PUBLICATION_TABLE)
        rows = self._connection.rows(
            "SELECT t.table_name FROM information_schema.tables AS t"
            f" JOIN {table.quoted} AS p ON p.state <> '{PLANNED}' AND t.table_name IN"
            " (concat('r_', replace(p.release_id, '-', '')),"
            " concat('old_', replace(p.release_id, '-', ''))) WHERE t.table_schema = ?"
            f" AND t.table_comment LIKE '{MARK}%'",
            (table.schema,),
        )
        for (name,) in rows:
            self._connection.run(f"DROP TABLE IF EXISTS {table.sibling(name).quoted}")

    def is_published(self, unpublished_release: UnpublishedRelease) -> bool:
        """Return True if the ledger records the release as published."""
        table = self._session.ledger.table(PUBLICATION_TABLE)
        [(state,)] = self._connection.rows(
            f"SELECT state FROM {table.quoted} WHERE release_id = ?",
            (unpublished_release.output.release_id,),
        )
        return bool(state == PUBLISHED)


def _obstacle_error(output: Output, obstacle: str, statement: str) -> OutputChanged:
    """Build the error for an output that cannot be replaced; ``statement`` removes the obstacle."""
    return OutputChanged(
        f"The output {output.name} has {obstacle}, so it cannot be replaced.",
        hint=f"Run {sql_for_hint(statement)}, then run it again.",
    )


def _staging_name(release_id: str) -> RelationName:
    """Return the name under which a release is written before it is published."""
    return RelationName("dbanon", f"r_{release_id.replace('-', '')}")


def _replaced_name(release_id: str) -> RelationName:
    """Return the name that the table replaced by this release gets until it is dropped."""
    return RelationName("dbanon", f"old_{release_id.replace('-', '')}")
