"""What a run would change: made, replaced and dropped relations, and files. Nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass

from dbanon.job.job import Job
from dbanon.ledger import releases
from dbanon.run.export import Exporter
from dbanon.sessions.base import Output
from dbanon.sessions.session import Session
from dbanon.sessions.store import Store
from dbanon.stores.exports import places

LEDGER = "ledger"


@dataclass(frozen=True)
class PlannedFile:
    """A file that would be written.

    Parameters
    ----------
    path : its place, with ``{release}`` for the id that the release gets.
    replaces : True where a file of an earlier release has the place.
    keep_last : how many files of earlier releases stay; None for all.
    """

    path: str
    format: str
    replaces: bool
    keep_last: int | None


@dataclass(frozen=True)
class Changes:
    """What a run would change.

    Parameters
    ----------
    creates : relations, and the ledger where there is none.
    drops : tables of earlier releases of the view.
    files : that would be written.
    """

    creates: tuple[str, ...]
    drops: tuple[str, ...]
    files: tuple[PlannedFile, ...]


def changes(
    job: Job, output: Output, session: Session, target: Store, keep_last: int | None
) -> Changes:
    """What a run would change, after the checks that it would make of places of files.

    Parameters
    ----------
    session, target : of the database that would be written to.
    keep_last : replaced releases of the view that stay; None for all.

    Raises
    ------
    OutputExists, InsufficientRights, InvalidParameter : a file cannot have its place.
    """
    made = [] if session.has_ledger() else [LEDGER]
    if output.replaces is None:
        made.append(f"{output.kind} {output.name}")
    if output.relation != output.name:
        made.append(f"a table for {output.kind} {output.name}")
    if job.exports:
        Exporter(job, target).require_places(session, make=False)
    return Changes(tuple(made), _drops(session, output, keep_last), tuple(_files(job)))


def _drops(session: Session, output: Output, keep_last: int | None) -> tuple[str, ...]:
    """Tables that the view shows no longer once it is replaced, and that are not kept."""
    if keep_last is None or output.kind != "view" or output.replaces is None:
        return ()
    # The one that it shows now is then the newest of those that were replaced.
    before = releases.superseded_tables(session, max(keep_last - 1, 0), output.name)
    shown = [] if keep_last else releases.shown_table(session, output.name)
    return tuple(str(name) for name in (*shown, *before))


def _files(job: Job) -> list[PlannedFile]:
    return [
        PlannedFile(
            str(places.place_for(one.path, "{release}")),
            one.format,
            "{release}" not in one.path
            and places.found_at(places.place_for(one.path, "")) is not None,
            one.keep_last,
        )
        for one in job.exports
    ]
