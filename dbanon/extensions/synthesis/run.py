"""Make differentially private releases: check, spend, read, draw noise, recount, publish.

A run uses three transactions. The first performs all checks and reads only public metadata. The
second spends from the budget and commits. The third verifies that the amount was spent, and then
reads values and draws noise. The amount stays spent even if the third transaction fails.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.array_types import AnyArray
from dbanon.data.partition import Synthesis
from dbanon.data.words import also_under_former_key
from dbanon.errors import SourceChanged
from dbanon.extensions.synthesis.budgets import require_database
from dbanon.extensions.synthesis.columns import TypedTable
from dbanon.extensions.synthesis.enumerated_column import ListedColumn
from dbanon.extensions.synthesis.noise import Noise, OpenDpNoise
from dbanon.extensions.synthesis.plan import PrivatePlan, describe_table, plan_private
from dbanon.extensions.synthesis.private import synthesize_privately
from dbanon.extensions.synthesis.synthetic_rows import (
    ColumnDomain,
    numpy_dtype,
    read_numbers,
    require_recount,
    write_rows,
)
from dbanon.job.concentrated import Cost
from dbanon.job.private import PrivateJob
from dbanon.ledger import budgets, entries
from dbanon.ledger.budgets import RecordedBudget
from dbanon.ledger.outputs import plan_output
from dbanon.release.private_report import PrivateReport
from dbanon.release.words import now
from dbanon.run.run import PhaseProgress
from dbanon.run.run_with_ledger import recording_failures
from dbanon.sessions.base import Output
from dbanon.sessions.names import parse_relation
from dbanon.sessions.session import Session
from dbanon.sessions.store import Store
from dbanon.sessions.thread_connections import thread_connections
from dbanon.stores import digest
from dbanon.stores.sql_target import build_run_record
from dbanon.version import version

# Maximum number of attempts to spend while other sessions spend from the same budget.
MAX_SPEND_ATTEMPTS = 20


@dataclass(eq=False)
class Spender:
    """Spends from a budget for one release, and then reads the rows in another transaction.

    Parameters
    ----------
    private_plan : the planned release, which has passed all checks.
    spend_and_begin : spends and commits; returns the budget and the session of a new transaction.
    budget, session : the results of ``spend_and_begin``; None before ``spend``.
    _cached_columns : the result of ``_read_all_columns``; None until the rows are read.
    """

    private_plan: PrivatePlan
    spend_and_begin: Callable[[PrivatePlan], tuple[RecordedBudget, Session]]
    budget: RecordedBudget | None = None
    session: Session | None = None
    _cached_columns: tuple[NDArray[np.float64], NDArray[np.int64] | None] | None = field(
        default=None, repr=False
    )

    @property
    def description(self) -> str:
        """A description of the spending."""
        assert self.budget is not None
        return self.budget.description

    def spend(self, cost: Cost) -> None:
        """Spend from the budget, and verify the spending in another transaction."""
        self.budget, self.session = self.spend_and_begin(self.private_plan)
        budgets.require_spent(self.session, self.private_plan.release_id)
        relation = self.private_plan.relation
        if self.session.catalog.find_source(relation.name).schema != relation.schema:
            raise SourceChanged(
                f"The columns of {relation.name} have changed since epsilon was spent; nothing was"
                " published, and the epsilon stays spent.",
                hint="Release it again while nobody changes the table. That spends again.",
            )

    def build_table(self) -> TypedTable:
        """Build the table whose columns are read in the transaction that verified the spending."""
        private_plan = self.private_plan
        metadata_table = describe_table(private_plan.job, private_plan.relation, private_plan.n)
        return replace(
            metadata_table,
            read=self._read_column,
            read_persons=self._read_persons if private_plan.job.entity_columns else None,
        )

    def _read_all_columns(self) -> tuple[NDArray[np.float64], NDArray[np.int64] | None]:
        """Read all columns, float64 (p, n), and person numbers, int64 (n,) or None, at once.

        Raises
        ------
        SourceChanged : the number of rows, or persons, has changed.
        """
        if self._cached_columns is None:
            assert self.session is not None
            private_plan, job = self.private_plan, self.private_plan.job
            numbers, persons = read_numbers(
                self.session,
                private_plan.relation,
                private_plan.columns,
                job.entity_columns,
                job.chunk_rows,
            )
            # ``private_plan.n`` counts persons if the job names an entity, else rows. Persons are
            # numbered from 1, so the largest number is the number of persons.
            n_units = numbers.shape[1] if persons is None else int(persons.max(initial=0))
            if n_units != private_plan.n:
                raise SourceChanged(
                    f"There were {private_plan.n} {job.unit}s before epsilon was spent, and there"
                    f" are {n_units} now; nothing was published, and the epsilon stays spent.",
                    hint="Release it again while nobody changes the table. That spends again.",
                )
            self._cached_columns = numbers, persons
        return self._cached_columns

    def _read_column(self, column_index: int) -> tuple[AnyArray, NDArray[np.bool_]]:
        """Return the values of a column, (n,), and which of them are NULL, bool (n,)."""
        numbers, _ = self._read_all_columns()
        column = numbers[column_index]
        is_null = np.isnan(column)
        column_definition = self.private_plan.columns[column_index]
        if isinstance(column_definition, ListedColumn):
            # The values of a column with a list were read as indexes into the list.
            return column_definition.values(column), is_null
        dtype = numpy_dtype(column_definition.source)
        # Dates and timestamps were read as counts of their unit.
        if dtype.kind == "M":
            return np.where(is_null, 0, column).astype(np.int64).astype(dtype), is_null
        return column, is_null

    def _read_persons(self) -> NDArray[np.int64]:
        """Return the number of each row's person, from 1, int64 (n,)."""
        _, persons = self._read_all_columns()
        assert persons is not None
        return persons


def release(spender: Spender, new_noise: Callable[[], Noise] = OpenDpNoise) -> PrivateReport:
    """Spend from the budget, draw noise, write, recount and publish; the caller commits.

    The synthesis spends through ``spender.spend`` before it draws noise.

    Parameters
    ----------
    spender : spends from the budget, and gives access to the rows.
    new_noise : creates the source of random noise.

    Raises
    ------
    DbanonError : its class says what went wrong.
    """
    started = time.perf_counter()
    private_plan = spender.private_plan
    synthesis = synthesize_privately(
        spender.build_table(), private_plan.settings, spender, new_noise, private_plan.job.method
    )
    session = spender.session
    assert session is not None
    # Plan again: another session may have created the output since.
    output = plan_output(
        session,
        parse_relation(private_plan.job.output),
        private_plan.job.output_kind,
        private_plan.job.if_exists,
        private_plan.release_id,
    )
    write_rows(session, output, private_plan.columns, synthesis.columns)
    require_recount(
        session,
        output.staging_name,
        [ColumnDomain.of(column) for column in private_plan.columns],
        private_plan.n,
    )
    report = _build_report(
        spender, output, synthesis, digest.digest_relation(session, output.staging_name)
    )
    return _publish_rows(session, private_plan, output, report, time.perf_counter() - started)


def _build_report(
    spender: Spender, output: Output, synthesis: Synthesis, written_digest: str | None
) -> PrivateReport:
    """Build the report of a release whose rows are written and recounted.

    ``written_digest`` is the digest of the written rows.
    """
    private_plan, budget = spender.private_plan, spender.budget
    assert budget is not None
    assert synthesis.epsilon is not None
    job = private_plan.job
    names = [attribute.name for attribute in private_plan.relation.schema.attributes]
    rho = (
        None
        if budget.delta is None
        else float(budgets.compute_charge(job.private_options.cost, budget.delta))
    )
    return PrivateReport(
        release_id=private_plan.release_id,
        created_at=now(),
        dbanon_version=version(),
        source=str(private_plan.relation.name),
        output=str(output.name),
        output_kind=output.kind,
        relation=str(output.relation),
        method=synthesis.method,
        # What the ledger records of the run; ``between`` and ``listed`` serve a later recount.
        arguments={
            **job.arguments(),
            "budget": job.budget,
            "hierarchies": dict(private_plan.hierarchies),
            "between": {column.attribute.name: column.bounds for column in private_plan.columns},
            "listed": {
                column.attribute.name: list(column.labels)
                for column in private_plan.columns
                if isinstance(column, ListedColumn)
            },
            # Earlier versions read the notes under another key.
            **also_under_former_key("method_notes", list(synthesis.method_notes)),
        },
        quasi_identifiers=job.quasi_identifiers,
        not_copied=tuple(name for name in names if name not in job.quasi_identifiers),
        epsilon=synthesis.epsilon,
        delta=job.private_options.delta,
        rho=rho,
        # Tables are neighbors if they differ in one unit, a row or a person.
        neighbours=job.unit,
        budget=job.budget,
        spent=float(budget.spent),
        total=float(budget.total),
        # One synthetic row is drawn per unit.
        rows_in=private_plan.n,
        rows_out=private_plan.n,
        guarantee=synthesis.guarantee,
        method_notes=synthesis.method_notes,
        digest=written_digest,
    )


def _publish_rows(
    session: Session,
    private_plan: PrivatePlan,
    output: Output,
    report: PrivateReport,
    elapsed_seconds: float,
) -> PrivateReport:
    """Publish the table, and record it with its spending in the ledger."""
    released_types = dict(session.catalog.list_columns(output.staging_name))
    session.publication.publish(output, [column.attribute.name for column in private_plan.columns])
    ledger_row = report.ledger_row() | {
        "output_schema": output.name.schema,
        "output_name": output.name.name,
        "relation_name": output.relation.name,
    }
    source_types = {a.name: a.sql_type for a in private_plan.relation.schema.attributes}
    column_rows = [
        {
            "release_id": private_plan.release_id,
            "position": position,
            "name": name,
            "role": "quasi_identifier" if name in released_types else entries.NOT_COPIED,
            "sql_type": released_types.get(name, source_types.get(name)),
            # Synthetic rows have no originals to which they could be compared.
            "information_loss": None,
            "information_loss_before_rounding": None,
        }
        for position, name in enumerate([*released_types, *report.not_copied])
    ]
    run_record = build_run_record(
        private_plan.job, elapsed_seconds, source_attributes=private_plan.relation.schema.attributes
    )
    recorded_at = entries.record_row(session, ledger_row, column_rows, output, run_record)
    # If the database has a function that writes the ledger as its owner, ``record_row`` has called
    # it, and the function has recorded the publication, too.
    if session.ledger.must_write_directly():
        budgets.record_publication(session, private_plan.release_id)
    return report.with_provenance(created_at=recorded_at)


def run_private(
    job: PrivateJob, store: Store, progress: PhaseProgress | None = None
) -> PrivateReport:
    """Run a job from a client, and record a failed run in the ledger.

    What a failed run has spent stays spent.

    Raises
    ------
    DbanonError : its class says what went wrong.
    """
    require_database(store)
    with recording_failures(job, store, progress) as timed_progress:
        return _run(job, store, timed_progress)


def _run(job: PrivateJob, store: Store, progress: PhaseProgress | None) -> PrivateReport:
    """Plan, spend and release in three transactions; see the docstring of the module."""
    report_progress = progress or (lambda phase, share: None)
    report_progress("read", 0.0)
    # A session that only checks, and needs no temporary tables.
    with store.planning(staging=False) as session:
        private_plan = plan_private(job, session, str(uuid.uuid4()))
    with ExitStack() as stack:

        def spend_and_begin(private_plan: PrivatePlan) -> tuple[RecordedBudget, Session]:
            budget = _spend_with_retries(store, private_plan)
            report_progress("read", 0.5)
            return budget, stack.enter_context(store.session(write=True))

        report = release(Spender(private_plan, spend_and_begin))
        # Report no progress after the commit: an exception from it would make a published release
        # look as if it had failed.
        report_progress("write", 1.0)
        report_progress("verify", 1.0)
    return report


def spend(session: Session, private_plan: PrivatePlan) -> RecordedBudget:
    """Spend from the budget; the caller must commit this transaction before it reads any row."""
    job = private_plan.job
    return budgets.spend(session, job.budget, job.private_options.cost, private_plan.release_id)


def _spend_with_retries(store: Store, private_plan: PrivatePlan) -> RecordedBudget:
    """Spend in a separate transaction; retry if another session spent at the same moment."""
    for attempt in range(MAX_SPEND_ATTEMPTS):
        try:
            with (
                # This commit publishes nothing, so the time limit and interrupts stay in force.
                thread_connections().preliminary_commits(),
                store.session(write=True) as session,
            ):
                return spend(session, private_plan)
        except SourceChanged:
            if attempt + 1 == MAX_SPEND_ATTEMPTS:
                raise
            time.sleep(0.01 * 2 ** min(attempt, 6))
    raise AssertionError("the last attempt returns or raises")
