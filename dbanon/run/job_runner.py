"""The port by which extensions plan and run jobs that set one of their options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from dbanon.data.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from dbanon.data.option import Parameter
    from dbanon.data.schema import Attribute
    from dbanon.data.types import JsonMapping, KeywordArguments
    from dbanon.job.job import Job
    from dbanon.job.private import PrivateJob
    from dbanon.ledger.tables import LedgerEntry
    from dbanon.release.private_report import PrivateReport
    from dbanon.release.report import Report
    from dbanon.release.risk_figures import RiskFigures
    from dbanon.run.plan import Plan
    from dbanon.run.run import PhaseProgress
    from dbanon.sessions.base import Relation
    from dbanon.sessions.session import Session
    from dbanon.sessions.store import Store
    from dbanon.stores.ports import Source
    from dbanon.stores.sql_source import SqlSource


class Section(Protocol):
    """Lines that an extension adds to the description of a dry run, such as those on a chain."""

    def pairs(self) -> list[tuple[str, str]]:
        """Return pairs of label and text, for display."""


class JobRunner(Protocol):
    """Plans and runs the jobs that set an option of ``Job``, such as ``chain``.

    All methods raise DbanonError.
    """

    def run(
        self, job: Job, source: Store, target: Store | None, progress: PhaseProgress | None
    ) -> Report:
        """Run a job.

        Parameters
        ----------
        target : the database for the release; None for the source's.
        progress : called with a phase and its completed share, 0 to 1.
        """
        ...

    def open_source(self, job: Job, job_source: SqlSource, session: Session) -> SqlSource:
        """Return the source that the run of a job reads, to plan it.

        Parameters
        ----------
        job_source : the source of the job. If it is files, their rows are staged in ``session``.
        session : a session on the database that the release goes to.
        """
        ...

    def plan_release(self, job: Job, planned: Plan, session: Session) -> Section:
        """Describe the release that a job would make; run all checks that need no clustering.

        Parameters
        ----------
        session : a session that allows temporary tables.
        """
        ...

    def plan_preparation(self, job: Job, source: Store, target: Store | None) -> Section | None:
        """Describe what ``prepare`` would create; None if it would create nothing."""
        ...

    def prepare(self, job: Job, source: Store, target: Store | None) -> None:
        """Create what the first run of a job needs, such as its chain, if the job allows that."""
        ...


class PrivateRunner(Protocol):
    """Makes differentially private releases, and recounts them.

    All methods raise DbanonError.
    """

    def run(self, job: PrivateJob, store: Store, progress: PhaseProgress | None) -> PrivateReport:
        """Run a job, which draws on a privacy budget; what a failed run has spent stays spent.

        Parameters
        ----------
        progress : called with a phase and its completed share, 0 to 1.
        """
        ...

    def recount(self, session: Session, relation: Relation, entry: LedgerEntry) -> tuple[int, int]:
        """Count the rows of a release, and those with a NULL or a value outside its domain.

        Parameters
        ----------
        relation : the released relation.
        entry : its entry in the ledger, with the bounds and lists of its columns.
        """
        ...


@dataclass(frozen=True, eq=False)
class TableRows:
    """The rows of a table, to be read once.

    Parameters
    ----------
    name : the name of the table.
    attributes : its columns, in the order of the values.
    batches : lists of rows, or Arrow record batches.
    """

    name: str
    attributes: tuple[Attribute, ...]
    batches: Iterable[Any]


class RiskRunner(Protocol):
    """Measures the disclosure risk of samples, for the SQL function and for jobs.

    The methods raise DbanonError.

    Attributes
    ----------
    options : the options of a measurement, with the names of the table and its columns.
    """

    options: tuple[Parameter, ...]

    def measure(
        self, options: KeywordArguments, source: Source, progress: Callable[[str, float], None]
    ) -> list[tuple[str, str | None, float | None, str | None]]:
        """Measure the risk of a table; return rows of measure, column, figure and note.

        Parameters
        ----------
        options : values by name.
        progress : called with a phase and its completed share, 0 to 1.
        """
        ...

    def sum_risks(self, class_sizes: NDArray[np.int64], persons: NDArray[np.float64]) -> float:
        """Add up the individual risks of all records.

        Parameters
        ----------
        class_sizes : int64 (c,), the number of records with each combination of values.
        persons : float64 (c,), the number of persons that they stand for.
        """
        ...

    def require_options(self, options: KeywordArguments) -> None:
        """Check options of a measurement without a table.

        Parameters
        ----------
        options : values by name.
        """
        ...

    def compare(
        self,
        options: KeywordArguments,
        sample: TableRows,
        released: TableRows,
        tick: Callable[[float], None],
    ) -> RiskFigures:
        """Measure the risk of a table and of its release.

        Parameters
        ----------
        options : values by name.
        sample : the columns that the options name, in this order.
        released : all columns of the release.
        tick : called with the share of the work that is done, 0 to 1.
        """
        ...

    def write(self, figures: RiskFigures, release_id: str, file: Path) -> None:
        """Write figures to a new file that only its owner can read: ``.html``, ``.json``, ``.txt``.

        Parameters
        ----------
        figures : a result of ``compare``.
        release_id : the release that they are about; JSON has it.
        """
        ...

    def read(self, file: Path) -> tuple[RiskFigures, str | None]:
        """Read figures from a JSON file, and the id of their release; None if it has none."""
        ...

    def describe_for_page(self, figures: RiskFigures) -> JsonMapping:
        """Return what the owner's page of a release shows: figures, pictures, and what they mean.

        Parameters
        ----------
        figures : a result of ``compare`` or ``read``.
        """
        ...
