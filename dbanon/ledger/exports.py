"""Find exported files in the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dbanon.data.frozen import dataclass
from dbanon.data.types import JsonMapping
from dbanon.ledger import entries
from dbanon.ledger.entry_checks import reading_entry
from dbanon.ledger.recorded_report import ledger_time
from dbanon.ledger.tables import LONG_TEXT, as_text
from dbanon.sessions.names import RelationName
from dbanon.sessions.session import Session


@dataclass(frozen=True)
class ExportEntry:
    """An exported file of a release, as the ledger records it.

    Parameters
    ----------
    release_id, output, created_at : the id, output name and time of the release.
    published_by : the role that published the release; None if the database has no roles.
    superseded_at : when another release replaced the release; None if it is current.
    guarantee : the guarantee of the release, as a sentence.
    path, format, bytes, sha256 : the file as it was published; ``bytes`` is its size.
    """

    release_id: str
    output: str
    created_at: str
    published_by: str | None
    superseded_at: str | None
    guarantee: str
    path: str
    format: str
    bytes: int
    sha256: str


# A text to search for by default: the recorded arguments of every release with exported files
# contain it.
_TEXT_OF_EXPORTS = '"sha256"'


def find_exports(session: Session, text: str = _TEXT_OF_EXPORTS) -> Iterator[ExportEntry]:
    """Yield the exported files of all releases whose arguments contain a text, newest first.

    Parameters
    ----------
    text : a string without ``%`` and ``_``, such as a SHA-256 in hexadecimal digits. By default,
        one that the arguments of all releases with exported files contain.

    Raises
    ------
    LedgerNotTrusted : reading the ledger would be unsafe.
    LedgerEntryBroken : an entry is malformed.
    """
    if not entries.has_trusted_ledger(session):
        return
    columns = ("release_id", "created_at", "superseded_at", "published_by", "guarantee")
    rows = session.rows(
        f"SELECT output_schema, output_name, {as_text('release', columns)},"
        f" CAST(arguments AS {LONG_TEXT}) FROM {session.ledger.table('release').quoted}"
        f" WHERE CAST(arguments AS {LONG_TEXT}) LIKE ? ORDER BY created_at DESC, release_id",
        (f"%{text}%",),
    )
    for (
        schema,
        output,
        release_id,
        created_at,
        superseded_at,
        published_by,
        guarantee,
        arguments,
    ) in rows:
        name = RelationName(schema, output)
        with reading_entry(name):
            exports: Iterable[JsonMapping] = entries.parse_json(arguments).get("exports", ())
            export_entries = [
                ExportEntry(
                    release_id=str(release_id),
                    output=str(name),
                    created_at=ledger_time(created_at) or "",
                    published_by=None if published_by is None else str(published_by),
                    superseded_at=ledger_time(superseded_at),
                    guarantee=str(guarantee),
                    path=str(export["path"]),
                    format=str(export["format"]),
                    bytes=int(export["bytes"]),
                    sha256=str(export["sha256"]),
                )
                for export in exports
            ]
        yield from export_entries
