"""Move the exported files of a run to their destinations after the commit, or delete them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dbanon.errors import DbanonError, InvalidParameter, OutcomeUnknown
from dbanon.job.job import Job
from dbanon.sessions.thread_connections import thread_connections
from dbanon.stores.interrupts import interruptible_until_commit

if TYPE_CHECKING:
    from dbanon.run.export import Exporter
    from dbanon.sessions.store import Store


def require_destination(job: Job, source: Store, target: Store | None) -> None:
    """Check that the job has a target or an export if its source is a file.

    Raises
    ------
    InvalidParameter : it has neither. A source file is never overwritten.
    """
    if target is None and not source.is_persistent and not job.exports:
        raise InvalidParameter(
            "A file cannot be overwritten: say where the release should go.",
            hint="Name a target, or a file: `exports`.",
        )


@contextmanager
def open_exporter(job: Job, database: Store) -> Iterator[Exporter | None]:
    """Yield the exporter for a job's files; None if the job has no exports.

    Before that, publish or delete the files of earlier runs. When the block ends, the files of this
    run are moved to their destinations. If the block raises, they are deleted; if the outcome of
    the commit is unknown, they are left to the next run.
    """
    if not job.exports:
        yield None
        return
    from dbanon.run.export import Exporter
    from dbanon.stores.shared_clients import keep_clients_open

    exporter = Exporter(job, database)
    with keep_clients_open():
        exporter.finish_earlier_runs()
        try:
            yield exporter
        except BaseException as error:
            # After an interrupt, do not wait for a stalled object store while deleting files:
            # connections of this thread are cut after a short time.
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                thread_connections().request_end()
            # If the outcome is unknown, the next run looks it up in the ledger.
            is_rolled_back = isinstance(error, DbanonError) and not isinstance(
                error, OutcomeUnknown
            )
            if exporter.is_committing and not is_rolled_back:
                exporter.leave_pending()
            else:
                exporter.undo()
            raise
        # The release is committed: finish moving its files before an interrupt takes effect.
        with interruptible_until_commit() as hold_interrupts:
            hold_interrupts()
            exporter.finish()
