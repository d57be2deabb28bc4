"""Verify an exported file: check that a release in the ledger published exactly these bytes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from dbanon.data.types import JsonObject
from dbanon.errors import (
    DbanonError,
    InsufficientRights,
    ReleaseChanged,
    ReleaseNotFound,
    TableNotFound,
)
from dbanon.ledger.exports import ExportEntry, find_exports
from dbanon.sessions.session import Session
from dbanon.sessions.store import Store
from dbanon.stores.exports.destinations import sha256

_PUBLISHED_TEXT = "yes: the SHA-256 is the one that the ledger recorded when the file was published"


@dataclass(frozen=True)
class VerifiedExport:
    """A file whose bytes are those that a release published.

    Parameters
    ----------
    file : the path at which the file was verified.
    entry : the ledger's record of the file and its release.
    """

    file: str
    entry: ExportEntry

    @property
    def release_id(self) -> str:
        """The id of the release that published the file."""
        return self.entry.release_id

    def to_dict(self) -> JsonObject:
        """Return the verification as plain values, for JSON."""
        return {"file": self.file, "published": True, **asdict(self.entry)}

    def pairs(self) -> list[tuple[str, str]]:
        """Return pairs of label and text, for display."""
        entry = self.entry
        superseded_text = f", superseded at {entry.superseded_at}" if entry.superseded_at else ""
        publisher_text = f" by {entry.published_by}" if entry.published_by else ""
        return [
            ("file", self.file),
            ("release", f"{entry.release_id} of {entry.output}{superseded_text}"),
            ("published", f"{entry.created_at}{publisher_text}, as {entry.path}"),
            ("bytes as published", _PUBLISHED_TEXT),
            ("SHA-256", entry.sha256),
            ("guarantee", entry.guarantee),
        ]


def verify_export(store: Store, path: Path) -> VerifiedExport:
    """Find the release in a ledger that published the bytes of a file, by their SHA-256.

    Raises
    ------
    ReleaseChanged : no release has these bytes, but one published a file of this name.
    ReleaseNotFound : no release has these bytes.
    TableNotFound, InsufficientRights : there is no such file, or it may not be read.
    LedgerNotTrusted, LedgerEntryBroken : the ledger cannot be relied on.
    """
    if not path.is_file():
        raise TableNotFound(f"There is no file {path}.")
    try:
        digest = sha256(path)
        size = path.stat().st_size
    except PermissionError:
        raise InsufficientRights(f"The file {path} may not be read.") from None
    with store.session(write=False) as session:
        # The search finds releases by the digest, but yields all files of each.
        for entry in find_exports(session, digest):
            if entry.sha256 == digest:
                return VerifiedExport(str(path), entry)
        raise _build_unpublished_error(session, path, digest, size)


def _build_unpublished_error(session: Session, path: Path, digest: str, size: int) -> DbanonError:
    """Build the error for a file whose bytes no release published."""
    message = f"No release in the ledger has the bytes of {path}: {size} bytes, SHA-256 {digest}."
    # All exported files that the ledger records, newest first.
    for entry in find_exports(session):
        if PurePosixPath(entry.path).name == path.name:
            return ReleaseChanged(
                message,
                detail=f"Release {entry.release_id} of {entry.output} published a file of this name"
                f" with {entry.bytes} bytes and the SHA-256 {entry.sha256}.",
                hint="Do not pass this file on. Find out who changed it, or export the release"
                " again.",
            )
    return ReleaseNotFound(
        message,
        hint="Name the database that has the release's ledger, the target of its run. dbanon show"
        " prints the SHA-256 of each exported file of a release.",
    )
