"""A release as the ledger remembers it: its report again, and what only the ledger knows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from dbanon.data.counts import Counts, EntityCount, Recount
from dbanon.data.schema import Role
from dbanon.measures.models import CountedModel
from dbanon.recoding import find_recoding
from dbanon.release.recode import ColumnLoss
from dbanon.release.report import Counted, Lost, MadeBy, Report, Request, TellingColumn
from dbanon.stores import ledger
from dbanon.stores.ledger_tables import RELEASE_COLUMNS, LedgerEntry
from dbanon.stores.names import RelationName, quote
from dbanon.stores.sql import Session

# Of a release of version 0.1.0, as the ledger may lack it.
_UNKNOWN = "not recorded"


@dataclass(frozen=True)
class RecordedColumn:
    """A column of a release: its name there, its role and its type; ``not_copied`` is a role."""

    name: str
    role: str
    sql_type: str


@dataclass(frozen=True)
class Recorded:
    """What the ledger has of a release.

    Parameters
    ----------
    report : as its run gave it, but for what ``missing`` names.
    columns : of the relation, and those that were not copied.
    published_by : the role, where there are roles.
    superseded_at : when another release took its place; None while it is the current one.
    evaluation : the figures of ``Evaluation.to_dict()``, where the ledger has them.
    missing : what a report of the run may have, and the ledger has not.
    """

    report: Report
    columns: tuple[RecordedColumn, ...]
    published_by: str | None
    superseded_at: str | None
    evaluation: Mapping[str, Any] | None
    missing: tuple[str, ...]


def read(session: Session, entry: LedgerEntry) -> Recorded:
    """The release of an entry."""
    row = _row(session, entry.release_id)
    found = session.rows(
        "SELECT name, role, sql_type, information_loss, information_loss_before_rounding"
        f" FROM {session.ledger_name('release_column').quoted}"
        " WHERE CAST(release_id AS VARCHAR(36)) = ? ORDER BY position",
        (entry.release_id,),
    )
    columns = tuple(RecordedColumn(name, role, kind) for name, role, kind, _, _ in found)
    losses = {
        name: ColumnLoss(name, float(before), float(loss))
        for name, _, _, loss, before in found
        if loss is not None and before is not None
    }
    arguments: Mapping[str, Any] = row["arguments"]
    # Of ledgers that have a column for it.
    evaluation: Mapping[str, Any] | None = row.get("evaluation")
    missing = ["the seconds of the commit", "which columns were lost completely"]
    if evaluation is None:
        missing.append("an evaluation")
    if row["digest"] is None:
        missing.append("the digest of the rows, which version 0.1.0 did not take")
    made = MadeBy(
        release_id=entry.release_id,
        created_at=_time(row["created_at"]) or _UNKNOWN,
        dbanon_version=str(row["dbanon_version"]),
        relation=str(RelationName(row["output_schema"], row["relation_name"])),
        seconds=row["seconds"],
        digest=row["digest"],
        seed_policy=str(row["seed_policy"]),
        earlier_releases=str(row["earlier_releases"]),
    )
    report = Report(
        _request(row, columns, entry),
        _counted(row, entry),
        Lost(
            float(row["information_loss"]),
            float(row["information_loss_before_rounding"]),
            losses,
            find_recoding(str(arguments.get("recoding", "mean"))).measure,
            arguments.get("levels"),
        ),
        made,
    )
    published_by = None if row["published_by"] is None else str(row["published_by"])
    superseded_at = _time(row["superseded_at"])
    return Recorded(report, columns, published_by, superseded_at, evaluation, tuple(missing))


def _row(session: Session, release_id: str) -> dict[str, Any]:
    """The ledger's row, by column; None for those that it has not yet."""
    table = session.ledger_name("release")
    known = {name for name, _ in session.columns_of(table)}
    kinds = {name: kind for name, kind, _ in RELEASE_COLUMNS if kind not in ("uuid", "bytes")}
    names = [name for name in kinds if name in known]
    # Times as text: not every client has a type for those with a zone.
    parts = [
        f"CAST({quote(name)} AS VARCHAR(40))" if kinds[name] == "timestamp" else quote(name)
        for name in names
    ]
    values = session.rows(
        f"SELECT {', '.join(parts)} FROM {table.quoted} WHERE CAST(release_id AS VARCHAR(36)) = ?",
        (release_id,),
    )[-1]
    row = dict.fromkeys(kinds) | dict(zip(names, values, strict=True))
    for name in names:
        if kinds[name] == "json":
            row[name] = ledger.parsed(row[name])
    return row


def _request(
    row: Mapping[str, Any], columns: Sequence[RecordedColumn], entry: LedgerEntry
) -> Request:
    arguments = row["arguments"]

    def of_role(role: str) -> tuple[str, ...]:
        return tuple(column.name for column in columns if column.role == role)

    strata = arguments.get("by", ())
    made = of_role(Role.QUASI_IDENTIFIER.value)
    return Request(
        source=str(row["source"]),
        output=str(entry.name),
        output_kind=str(row["output_kind"]),
        method=str(row["method"]),
        arguments=arguments,
        quasi_identifiers=tuple(name for name in made if name not in strata),
        sensitive=of_role(Role.SENSITIVE.value),
        kept=of_role(Role.INSENSITIVE.value),
        not_copied=of_role(ledger.NOT_COPIED),
        k=entry.k_requested,
        entity=entry.entity,
        guarantee=entry.sentence,
    )


def _counted(row: Mapping[str, Any], entry: LedgerEntry) -> Counted:
    arguments = row["arguments"]
    histogram = {int(size): int(count) for size, count in entry.histogram.items()}
    rows = Recount(int(row["rows_out"]), histogram, int(row["null_rows"]), arguments.get("k_rows"))
    persons = {
        name: EntityCount(int(arguments.get("persons", 0)), int(row["k_achieved"]), histogram)
        for name in entry.guarantee.persons
    }
    levels = tuple(
        CountedModel(str(model["model"]), float(model["counted"])) for model in entry.models
    )
    return Counted(
        rows_in=int(row["rows_in"]),
        suppressed=int(row["suppressed"]),
        rows=rows,
        verdict=entry.guarantee.verdict(Counts(rows, persons), levels),
        telling=tuple(TellingColumn(**found) for found in arguments.get("telling", ())),
    )


def _time(value: Any) -> str | None:
    """A time of the ledger in UTC, as a report has it; as it is where it cannot be read."""
    if value is None:
        return None
    # PostgreSQL and DuckDB drop zeros at the end, and minutes of a zone; Python 3.10 wants all.
    text = re.sub(r"\.(\d{1,6})", lambda found: f".{found[1]:0<6}", str(value))
    text = re.sub(r"([+-]\d\d)$", r"\1:00", text) if ":" in text else text
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return text
    if found.tzinfo is None:
        found = found.replace(tzinfo=timezone.utc)
    return found.astimezone(timezone.utc).isoformat(timespec="microseconds")
