"""Publish releases on MariaDB: plan, stage, count, swap, record.

DDL commits implicitly here, so a release and its entry cannot share a transaction. A ledger table
records the plan; then ``RENAME TABLE``, one atomic statement, swaps the staged table for the old
one; only then is the entry written. If a run is interrupted in between, the next run that writes
checks which tables exist and corrects the ledger.
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
from dbanon.ledger import entries
from dbanon.ledger.tables import INTERNAL_TABLE
from dbanon.release.words import now
from dbanon.sessions.base import MARK, Output
from dbanon.sessions.names import RelationName
from dbanon.stores.mariadb.catalog import TABLE, MariadbCatalog
from dbanon.stores.mariadb.dialect import quote_dotted, quote_name

PLANNED, PUBLISHED, REFUSED = "planned", "published", "refused"
# A waiting swap blocks new readers. So each try is short: seconds of each try, and of the pauses.
TRIES, PAUSE = (0.05, 0.1, 0.2, 0.4, 0.8), 0.25


@dataclass
class UnpublishedRelease:
    """A release that is written but not published yet.

    Parameters
    ----------
    entry : the ledger rows of release, columns and run; None until the release is counted.
    """

    output: Output
    entry: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def old(self) -> RelationName:
        """The name that the replaced table is moved to."""
        return _old(self.output.release_id)


def plan(session: MariadbCatalog, output: Output) -> UnpublishedRelease:
    """Lock the output and record the plan; raises OutputBusy if another run writes it."""
    _lock(session, output.name)
    session.insert_rows(
        session.ledger_name(TABLE),
        ["release_id", "output_schema", "output_name", "state", "planned_at"],
        [(output.release_id, output.name.schema, output.name.name, PLANNED, now())],
    )
    session.run("COMMIT")
    return UnpublishedRelease(output)


def output_lock(session: MariadbCatalog, name: RelationName) -> str:
    """Return the name of the lock that a run holds while it writes an output."""
    return session.lock_name("output", name.quoted)


def _lock(session: MariadbCatalog, name: RelationName) -> None:
    if session.rows("SELECT get_lock(?, 0)", (output_lock(session, name),)) != [(1,)]:
        raise OutputBusy(
            f"Another run writes {name} now.", hint="Wait until it has ended, then run it again."
        )


def show(session: MariadbCatalog, pending: UnpublishedRelease) -> None:
    """Publish a counted release under the output's name, and write its entry.

    Raises
    ------
    OutputBusy : readers used the output for longer than the session waits.
    SourceChanged, OutputExists : another relation has the name.
    """
    output, table = pending.output, session.ledger_name(TABLE)
    session.run(
        f"UPDATE {table.quoted} SET entry = ? WHERE release_id = ?",
        (json.dumps(pending.entry), output.release_id),
    )
    session.run("COMMIT")
    session.make_database(output.name)
    before = session.find_existing(output.name)
    _require_free(session, output, before)
    moves = [(output.written, output.name)]
    if before is not None:
        moves.insert(0, (output.name, pending.old))
    _swap(session, output, moves)
    replaced = None if before is None else session.find_existing(pending.old)
    if replaced is not None and replaced.mark != (before and before.mark):
        # Another session replaced the table just before the swap: undo it.
        back = [(output.name, output.written), (pending.old, output.name)]
        _swap(session, output, back)
        raise SourceChanged(
            f"Another session replaced {output.name} meanwhile; nothing was published.",
            hint=f"Run SHOW CREATE TABLE {sql_for_hint(quote_dotted(output.name))} to see what it"
            " is now, then run it again.",
        )
    record_shown(session, output.release_id, pending.entry)
    session.run(f"DROP TABLE IF EXISTS {pending.old.quoted}")


def _require_free(session: MariadbCatalog, output: Output, before: Any) -> None:
    """Check again that the name is free, or still that of a release that may be replaced."""
    if before is None:
        return
    if output.replaces is None:
        raise OutputExists(f"Another session made {output.name} meanwhile; nothing was published.")
    if entries.release_id_of(session, output.name, before) is None:
        raise OutputNotOurs(
            f"Another session replaced {output.name} meanwhile; nothing was published."
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
    """Return the error for an output that cannot be replaced; ``statement`` removes the reason."""
    return OutputChanged(
        f"The output {output.name} has {obstacle}, so it cannot be replaced.",
        hint=f"Run {sql_for_hint(statement)}, then run it again.",
    )


def _swap(
    session: MariadbCatalog, output: Output, moves: list[tuple[RelationName, RelationName]]
) -> None:
    """Rename in short tries, since a waiting RENAME blocks all later readers."""
    rename = "RENAME TABLE " + ", ".join(f"{a.quoted} TO {b.quoted}" for a, b in moves)
    until, tries = time.monotonic() + session.swap_seconds, iter(TRIES)
    longest = TRIES[0]
    while True:
        longest = next(tries, longest)
        try:
            session.run(f"SET STATEMENT max_statement_time = {longest} FOR {rename}")
        except DatabaseBusy:
            # The rename may have succeeded at the moment of the timeout.
            if session.find_existing(moves[-1][0]) is None:
                return
            if time.monotonic() >= until:
                raise OutputBusy(
                    f"Readers held {output.name} for {session.swap_seconds:g} s, so the release"
                    " could not replace it; nothing was published.",
                    hint="End their transactions (SHOW PROCESSLIST lists sessions, KILL ends"
                    " one), or"
                    " wait longer: `swap_timeout`.",
                ) from None
            time.sleep(PAUSE)
        else:
            return


def record_shown(session: MariadbCatalog, release_id: str, entry: dict[str, Any] | None) -> None:
    """Record a published release and its state in one transaction of the ledger."""
    assert entry is not None
    run, row = dict(entry["run"]), dict(entry["row"])
    of = entries.Run(
        run["door"],
        row["method"],
        row["source"],
        RelationName(row["output_schema"], row["output_name"]),
        run["elapsed"],
        run["run_id"],
        job=run.get("job"),
        source_types=run.get("source_types"),
        source_counts=run.get("source_counts"),
        fingerprint=run.get("fingerprint"),
    )
    session.run("START TRANSACTION")
    entries.insert_release(session, row, entry["columns"], of)
    _set_state(session, release_id, PUBLISHED)
    session.run("COMMIT")


def refuse(session: MariadbCatalog, release_id: str) -> None:
    """Record that a planned release was not published, and remove its table and figures."""
    _set_state(session, release_id, REFUSED)
    internal = session.ledger_name(INTERNAL_TABLE).quoted
    session.run(f"DELETE FROM {internal} WHERE release_id = ?", (release_id,))
    session.run("COMMIT")
    session.run(f"DROP TABLE IF EXISTS {_staged(release_id).quoted}")


def _set_state(session: MariadbCatalog, release_id: str, state: str) -> None:
    table = session.ledger_name(TABLE)
    session.run(
        f"UPDATE {table.quoted} SET state = ?, settled_at = ?, entry = NULL WHERE release_id = ?",
        (state, now(), release_id),
    )


def settle(session: MariadbCatalog) -> None:
    """Settle the plans of interrupted runs, except those of runs still in progress."""
    table = session.ledger_name(TABLE)
    if session.find_existing(table) is None:
        return
    planned = session.rows(
        f"SELECT release_id, output_schema, output_name FROM {table.quoted} WHERE state = ?",
        (PLANNED,),
    )
    if planned:
        # Ledgers of earlier versions lack the secret for lock names.
        session.ensure_ledger()
    for release_id, schema, name in planned:
        output = RelationName(schema, name)
        try:
            _lock(session, output)
        except OutputBusy:
            continue
        try:
            _settle(session, release_id)
        finally:
            session.rows("SELECT release_lock(?)", (output_lock(session, output),))
    _clear(session)


def _settle(session: MariadbCatalog, release_id: str) -> None:
    table = session.ledger_name(TABLE)
    [(state, entry)] = session.rows(
        f"SELECT state, entry FROM {table.quoted} WHERE release_id = ?", (release_id,)
    )
    if state != PLANNED:
        return
    # Without a refusal, only the swap removes the staged table of a counted release.
    if entry is None or session.find_existing(_staged(release_id)) is not None:
        refuse(session, release_id)
    else:
        record_shown(session, release_id, json.loads(entry))
        session.run(f"DROP TABLE IF EXISTS {_old(release_id).quoted}")


def _clear(session: MariadbCatalog) -> None:
    """Drop tables left behind by runs that were interrupted before dropping them."""
    table = session.ledger_name(TABLE)
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


def _staged(release_id: str) -> RelationName:
    return RelationName("dbanon", f"r_{release_id.replace('-', '')}")


def _old(release_id: str) -> RelationName:
    return RelationName("dbanon", f"old_{release_id.replace('-', '')}")


def is_shown(session: MariadbCatalog, pending: UnpublishedRelease) -> bool:
    """Return True if the ledger records the release as published."""
    [(state,)] = session.rows(
        f"SELECT state FROM {session.ledger_name(TABLE).quoted} WHERE release_id = ?",
        (pending.output.release_id,),
    )
    return bool(state == PUBLISHED)
