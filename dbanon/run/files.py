"""The files of a run: they get their places once the release is committed, or go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dbanon.errors import DbanonError, InvalidParameter, OutcomeUnknown
from dbanon.job.job import Job
from dbanon.sessions.store import Store
from dbanon.sessions.thread_connections import thread_connections
from dbanon.stores.interrupts import interruptible_until_commit

if TYPE_CHECKING:
    from dbanon.run.export import Exporter


def require_place(job: Job, source: Store, target: Store | None) -> None:
    """Check that a release of a file has a place: it is not written into its source.

    Raises
    ------
    InvalidParameter : it has none.
    """
    if target is None and not source.is_persistent and not job.exports:
        raise InvalidParameter(
            "A file cannot be overwritten: say where the release should go.",
            hint="Name a target, or a file: `exports`.",
        )


@contextmanager
def files_of(job: Job, database: Store) -> Iterator[Exporter | None]:
    """What writes a job's files; they get their places when the block ends, and go when it raises.

    What earlier runs left behind is settled before.
    """
    if not job.exports:
        yield None
        return
    from dbanon.run.export import Exporter
    from dbanon.stores.lake_catalog import open_catalogs

    exporter = Exporter(job, database)
    with open_catalogs():
        exporter.settle()
        try:
            yield exporter
        except BaseException as error:
            # Nor does taking away wait for a store that stalls.
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                thread_connections().request_end()
            # If the outcome is unknown, the next run looks it up in the ledger.
            refused = isinstance(error, DbanonError) and not isinstance(error, OutcomeUnknown)
            if exporter.committing and not refused:
                exporter.leave()
            else:
                exporter.undo()
            raise
        # Do not report a committed release as interrupted: move its files first.
        with interruptible_until_commit() as hold:
            hold()
            exporter.finish()
