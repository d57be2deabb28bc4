"""Rebuild the report of a release from its ledger entry, with details that only the ledger has."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timezone

from dbanon.data.counts import Counts, EntityCount, Recount
from dbanon.data.frozen import dataclass
from dbanon.data.schema import Role
from dbanon.data.types import JsonMapping, SqlRow
from dbanon.data.words import read_key_or_former_key
from dbanon.errors import DbanonError, InvalidParameter
from dbanon.ledger import budgets, entries
from dbanon.ledger.entry_checks import reading_entry
from dbanon.ledger.tables import (
    LONG_TEXT,
    RELEASE_COLUMNS,
    TABLES,
    TEXT_CASTS,
    LedgerEntry,
    LedgerRow,
)
from dbanon.measures.models import CountedModel
from dbanon.recoding import find_recoding
from dbanon.release.attribute_disclosure import (
    DisclosiveColumn,
    FewPersons,
    PersonSpellings,
    RetainedIdentifier,
)
from dbanon.release.homogeneity import ClassHomogeneity
from dbanon.release.linkage import LinkingColumn
from dbanon.release.private_report import PrivateReport
from dbanon.release.recode import ColumnLoss
from dbanon.release.report import (
    EvaluationOutcome,
    Provenance,
    RecountResult,
    ReleaseLoss,
    Report,
    Request,
)
from dbanon.release.words import time_text
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.session import Session

# SQL types to which columns are cast when read, by abstract type: amounts are read as numbers.
_CASTS = TEXT_CASTS | {"amount": "DOUBLE PRECISION"}


def rows_of_release(session: Session, table: str, release_id: str) -> list[LedgerRow]:
    """Return the rows of a ledger table that belong to a release, in order, as dicts by column.

    Ledgers of version 0.1.0 lack some columns and tables.
    """
    relation = session.ledger.table(table)
    if session.catalog.find_existing(relation) is None:
        return []
    existing = {name for name, _ in session.catalog.list_columns(relation)}
    columns, _primary_key = TABLES[table]
    recorded_columns = [(name, kind) for name, kind, _ in columns if name in existing]
    expressions = ", ".join(
        f"CAST({quote(name)} AS {_CASTS[kind]})" if kind in _CASTS else quote(name)
        for name, kind in recorded_columns
    )
    order = " ORDER BY position" if "position" in existing else ""
    rows = session.rows(
        f"SELECT {expressions} FROM {relation.quoted}"
        f" WHERE CAST(release_id AS VARCHAR(36)) = ?{order}",
        (release_id,),
    )
    with reading_entry(f"release {release_id}"):
        return [
            {
                name: entries.parse_json(value) if kind == "json" else value
                for (name, kind), value in zip(recorded_columns, row, strict=True)
            }
            for row in rows
        ]


def recorded_request(session: Session, release_id: str) -> SqlRow:
    """Return five recorded values of a release.

    These are its request and its arguments, both as JSON text, the version of dbanon, the
    publisher, and epsilon; None for a value that is not recorded.
    """
    # Cast to text: a backend returns rows as JSON, which would lose the order of keys.
    [row] = session.rows(
        f"SELECT CAST({entries.optional_column(session, 'request')} AS {LONG_TEXT}),"
        f" CAST(arguments AS {LONG_TEXT}), dbanon_version, published_by,"
        f" {entries.optional_column(session, 'epsilon')}"
        f" FROM {session.ledger.table('release').quoted}"
        " WHERE CAST(release_id AS VARCHAR(36)) = ?",
        (release_id,),
    )
    return row


def require_classes(entry: LedgerEntry) -> None:
    """Check that a release has classes.

    Raises
    ------
    InvalidParameter : its rows are synthetic.
    """
    if entry.epsilon is not None:
        raise InvalidParameter(
            f"The rows of {entry.name} are synthetic. They belong to no person and have no"
            " classes.",
            hint="Check them with dbanon verify, which needs no classes. What readers compute from"
            " them is compared by dbanon evaluate, given the original and a file of analyses.",
        )


def released_columns(session: Session, release_id: str) -> list[tuple[str, str]]:
    """Return the names and SQL types of a release's columns.

    They are in the order of the table, except for releases of version 0.1.0, which have no digest.
    """
    return [
        (name, sql_type)
        for name, sql_type in session.rows(
            f"SELECT name, sql_type FROM {session.ledger.table('release_column').quoted}"
            " WHERE CAST(release_id AS VARCHAR(36)) = ? AND role <> ? ORDER BY position",
            (release_id, entries.NOT_COPIED),
        )
    ]


def recorded_digest(session: Session, release_id: str) -> str | None:
    """Return the digest of a release's rows; None for releases of version 0.1.0."""
    [(digest,)] = session.rows(
        f"SELECT {entries.optional_column(session, 'digest')}"
        f" FROM {session.ledger.table('release').quoted}"
        " WHERE CAST(release_id AS VARCHAR(36)) = ?",
        (release_id,),
    )
    return None if digest is None else str(digest)


# Replaces values that the ledger lacks, such as those of releases of version 0.1.0.
_NOT_RECORDED = "not recorded"


@dataclass(frozen=True)
class RecordedColumn:
    """A column of a release: name, role (which may be ``not_copied``) and type."""

    name: str
    role: str
    sql_type: str


@dataclass(frozen=True)
class RecordedRelease:
    """A release, as the ledger records it.

    Parameters
    ----------
    report : the report of its run, without the parts named in ``missing``.
    columns : the released columns, and those of the source that were not copied.
    published_by : the role that published it; None if the database has no roles.
    superseded_at : when another release replaced it; None if it is current.
    missing : the parts of the report that the ledger lacks, as phrases for a message.
    """

    report: Report
    columns: tuple[RecordedColumn, ...]
    published_by: str | None
    superseded_at: str | None
    missing: tuple[str, ...]


def read(session: Session, entry: LedgerEntry) -> RecordedRelease:
    """Read the release of an entry, with its report.

    Raises
    ------
    LedgerEntryBroken : the entry is malformed.
    """
    with reading_entry(entry.name):
        return _read(session, entry)


def _read(session: Session, entry: LedgerEntry) -> RecordedRelease:
    """Read the release of an entry; raises any of ``MALFORMED_ERRORS`` if it is malformed."""
    # Ledgers of version 0.1.0 lack some columns.
    [recorded_row] = rows_of_release(session, "release", entry.release_id)
    null_row: LedgerRow = {name: None for name, _, _ in RELEASE_COLUMNS}
    row = null_row | recorded_row
    column_rows = rows_of_release(session, "release_column", entry.release_id)
    columns = tuple(
        RecordedColumn(column["name"], column["role"], column["sql_type"]) for column in column_rows
    )
    losses = {
        column["name"]: ColumnLoss(
            column["name"],
            float(column["information_loss_before_rounding"]),
            float(column["information_loss"]),
        )
        for column in column_rows
        if column["information_loss"] is not None
        and column["information_loss_before_rounding"] is not None
    }
    arguments: JsonMapping = row["arguments"]
    evaluation = row["evaluation"]
    # The ledger never has these two. (A column is lost completely if all rows are released with the
    # same label.)
    missing = ["the seconds of the commit", "which columns were lost completely"]
    if evaluation is None:
        missing.append("an evaluation")
    if row["digest"] is None:
        missing.append("the digest of the rows, which version 0.1.0 did not compute")
    provenance = Provenance(
        release_id=entry.release_id,
        created_at=ledger_time(row["created_at"]) or _NOT_RECORDED,
        dbanon_version=str(row["dbanon_version"]),
        relation=str(RelationName(row["output_schema"], row["relation_name"])),
        seconds=row["seconds"],
        digest=row["digest"],
        seed_policy=str(row["seed_policy"]),
        earlier_releases=str(row["earlier_releases"]),
    )
    report = Report(
        _build_request(row, columns, entry),
        _build_recount_result(row, entry),
        # The recoding determines the measure of the loss. ``levels`` are recorded for full-domain
        # generalization only.
        ReleaseLoss(
            float(row["information_loss"]),
            float(row["information_loss_before_rounding"]),
            losses,
            find_recoding(str(arguments.get("recoding", "mean"))).measure,
            arguments.get("levels"),
        ),
        provenance,
        EvaluationOutcome(evaluation),
    )
    published_by = None if row["published_by"] is None else str(row["published_by"])
    superseded_at = ledger_time(row["superseded_at"])
    return RecordedRelease(report, columns, published_by, superseded_at, tuple(missing))


def _build_request(
    row: LedgerRow, columns: Sequence[RecordedColumn], entry: LedgerEntry
) -> Request:
    """Rebuild the request of a release.

    Parameters
    ----------
    row : the ledger row of the release, by column name.
    columns : the columns of the release.
    entry : the checked entry, which is built from the same row.
    """
    arguments = row["arguments"]

    def names_with_role(role: str) -> tuple[str, ...]:
        return tuple(column.name for column in columns if column.role == role)

    strata = arguments.get("by", ())
    released_names = names_with_role(Role.QUASI_IDENTIFIER.value)
    return Request(
        source=str(row["source"]),
        output=str(entry.name),
        output_kind=str(row["output_kind"]),
        method=str(row["method"]),
        arguments=arguments,
        quasi_identifiers=tuple(name for name in released_names if name not in strata),
        sensitive=names_with_role(Role.SENSITIVE.value),
        kept=names_with_role(Role.INSENSITIVE.value),
        not_copied=names_with_role(entries.NOT_COPIED),
        k=entry.k_requested,
        entity=entry.entity,
        guarantee=entry.sentence,
    )


def _build_recount_result(row: LedgerRow, entry: LedgerEntry) -> RecountResult:
    """Rebuild the result of a release's recount.

    Parameters
    ----------
    row : the ledger row of the release, by column name.
    entry : the checked entry, which is built from the same row.
    """
    arguments = row["arguments"]
    histogram = {int(size): int(count) for size, count in entry.histogram.items()}
    # ``k_rows`` is recorded only if the classes of each attribute were counted by themselves: the
    # number of rows with the rarest combination of all attributes.
    # ``agreeing_rows`` is recorded only where NULL agrees with every value.
    rows = Recount(
        int(row["rows_out"]),
        histogram,
        int(row["null_rows"]),
        arguments.get("k_rows"),
        arguments.get("agreeing_rows"),
    )
    # If k counts persons, so does ``k_achieved``. A histogram always has class sizes in rows, also
    # that of an ``EntityCount``.
    entity_counts = {
        name: EntityCount(int(arguments.get("persons", 0)), int(row["k_achieved"]), histogram)
        for name in entry.guarantee.entity_columns
    }
    counted_models = tuple(
        CountedModel(str(model["model"]), float(model["counted"])) for model in entry.models
    )
    return RecountResult(
        rows_in=int(row["rows_in"]),
        suppressed=int(row["suppressed"]),
        rows=rows,
        verdict=entry.guarantee.verdict(Counts(rows, entity_counts), counted_models),
        # Earlier versions recorded this under another key.
        disclosive_columns=tuple(
            DisclosiveColumn(**fields)
            for fields in read_key_or_former_key(arguments, "disclosive_columns") or ()
        ),
        # Both kinds are findings on columns that look like person identifiers.
        few_persons=(
            *(FewPersons(**fields) for fields in arguments.get("few_persons", ())),
            *(PersonSpellings(**fields) for fields in arguments.get("entity_spellings", ())),
        ),
        homogeneity=tuple(
            ClassHomogeneity(**fields) for fields in arguments.get("homogeneity", ())
        ),
        linking=tuple(LinkingColumn(**fields) for fields in arguments.get("linking", ())),
        identifiers=tuple(
            RetainedIdentifier(**fields) for fields in arguments.get("kept_identifiers", ())
        ),
    )


def read_private(session: Session, entry: LedgerEntry) -> PrivateReport:
    """Rebuild the report of a differentially private release. This spends nothing.

    The report has the total and the spent amount that the budget has now, which may differ from
    those at the time of the release.

    Raises
    ------
    LedgerEntryBroken : the entry is malformed.
    """
    with reading_entry(entry.name):
        [recorded_row] = rows_of_release(session, "release", entry.release_id)
        null_row: LedgerRow = {name: None for name, _, _ in RELEASE_COLUMNS}
        row = null_row | recorded_row
        column_rows = rows_of_release(session, "release_column", entry.release_id)
        spent = total = None
        with suppress(DbanonError):
            budget = budgets.find(session, str(row["budget"]))
            spent, total = float(budget.spent), float(budget.total)
        return PrivateReport(
            release_id=entry.release_id,
            created_at=ledger_time(row["created_at"]) or _NOT_RECORDED,
            dbanon_version=str(row["dbanon_version"]),
            source=str(row["source"]),
            output=str(entry.name),
            output_kind=str(row["output_kind"]),
            relation=str(RelationName(row["output_schema"], row["relation_name"])),
            method=str(row["method"]),
            arguments=row["arguments"],
            quasi_identifiers=entry.quasi_identifiers,
            not_copied=tuple(
                column["name"] for column in column_rows if column["role"] == entries.NOT_COPIED
            ),
            epsilon=float(row["epsilon"]),
            delta=None if row["delta"] is None else float(row["delta"]),
            rho=None if row["rho"] is None else float(row["rho"]),
            neighbours=str(row["neighbours"]),
            budget=str(row["budget"]),
            spent=spent,
            total=total,
            rows_in=int(row["rows_in"]),
            rows_out=int(row["rows_out"]),
            guarantee=entry.sentence,
            method_notes=tuple(read_key_or_former_key(row["arguments"], "method_notes", ())),
            digest=row["digest"],
            seed_policy=str(row["seed_policy"]),
            earlier_releases=str(row["earlier_releases"]),
        )


def ledger_time(value: object) -> str | None:
    """Write a time of the ledger in UTC, as reports do; other text is returned unchanged."""
    if value is None:
        return None
    text = str(value)
    try:
        timestamp = datetime.fromisoformat(text)
    except ValueError:
        return text
    if timestamp.tzinfo is None:
        timestamp = timestamp.replace(tzinfo=timezone.utc)
    return time_text(timestamp.astimezone(timezone.utc))
