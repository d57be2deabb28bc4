"""The decisions and results of a workbench, which are kept in memory only.

A sweep makes trial releases; a ``Point`` is one of them, with its loss and risk. Its curve is the
method with its refinement, such as ``mdav+fast``. A tree is the hierarchy of a column.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from dbanon.advice.request import DEFAULT_KS, DEFAULT_MAX_SECONDS
from dbanon.advice.roles import IDENTIFIER, QUASI_IDENTIFIER, SENSITIVE
from dbanon.data.types import JsonMapping, JsonObject
from dbanon.doors.jobfile.init import TABLE, VIEW
from dbanon.extensions.workbench.tasks import BackgroundTasks
from dbanon.job.policy import Policy
from dbanon.job.reading import DEFAULT_READING, Reading
from dbanon.job.rules import WEIGHT
from dbanon.release.distribution import least_displayed_rows
from dbanon.run.open import open_store, supports_view_releases
from dbanon.stores.schemes import is_row_file_url

if TYPE_CHECKING:
    from dbanon.advice.answer import Advice
    from dbanon.advice.recommend import Point
    from dbanon.doors.jobfile.file import FileJob
    from dbanon.hierarchy.spec import HierarchySpec
    from dbanon.hierarchy.tree import Hierarchy
    from dbanon.ledger.releases import Listed
    from dbanon.release.private_report import PrivateReport
    from dbanon.release.report import Report
    from dbanon.run.advise import ProposedRoles
    from dbanon.run.inspect_release import ReleaseInspection
    from dbanon.run.tree_counts import TreeCounts

# Writes the report of a release to the path that its job names.
SaveReport: TypeAlias = "Callable[[FileJob, Report | PrivateReport], None]"
# Roles of columns that are released unchanged, or not at all.
KEEP, DROP = "keep", "drop"
ROLES = (QUASI_IDENTIFIER, SENSITIVE, IDENTIFIER, KEEP, WEIGHT, DROP)
# Kinds of hierarchy that a page offers. All but ``suggest`` are also kinds in job files: calendar
# steps, intervals, masked codes, a hierarchy stored in the database, a file. The suggested tree
# becomes a file next to the job file.
TREE_KINDS = ("dates", "intervals", "mask", "suggest", "name", "file")
DATE_STEPS = ("month", "year", "decade")
# The keys of ``risk`` in job files that name a column.
RISK_COLUMNS = ("weight", "household")


@dataclass(frozen=True)
class JobDecisions:
    """The content of a job file, as values of the forms.

    Parameters
    ----------
    choice : the job's names, formats and schedule.
    roles, trees : from column name to its role, or to its hierarchy.
    reasons : from the name of a column of role ``keep`` to the reason for that role.
    options : options of the release, except ``k``.
    text : the content of the file.
    """

    choice: JobChoice
    roles: Mapping[str, str]
    reasons: Mapping[str, str]
    trees: Mapping[str, TreeChoice]
    options: JsonMapping
    k: int
    text: str


@dataclass(frozen=True)
class WorkbenchArguments:
    """The arguments of ``dbanon workbench``.

    Parameters
    ----------
    url : the URL of the table's database.
    table : the name of the table.
    save_report : writes the report of a job to the path that the job names, as ``dbanon run`` does.
    key : columns whose values identify a row; needed if the source is a view.
    reading : how to read a file of rows, such as the format of a CSV file.
    target : URL of the database for releases; None for the source's.
    directory : the directory of the job file.
    memory_bytes : memory limit of trial releases.
    opened_decisions : the content of the job file that the workbench continues with, if any.
    """

    url: str
    table: str
    save_report: SaveReport
    key: tuple[str, ...] = ()
    reading: Reading = DEFAULT_READING
    target: str | None = None
    directory: Path = field(default_factory=Path.cwd)
    memory_bytes: int | None = None
    opened_decisions: JobDecisions | None = None

    @property
    def output_kinds(self) -> tuple[str, ...]:
        """The kinds of relation that a release may be, the default first."""
        return (VIEW, TABLE) if supports_view_releases(self.target or self.url) else (TABLE,)

    @property
    def needs_database_file(self) -> bool:
        """Whether releases need a DuckDB file, because the source is a file of rows."""
        return self.target is None and is_row_file_url(self.url)


@dataclass(frozen=True)
class TreeChoice:
    """How a column is generalized.

    Parameters
    ----------
    kind : one of ``TREE_KINDS``.
    argument : the widths of intervals, or the name of a stored tree or file.
    """

    kind: str
    argument: str = ""

    def to_job_file(self, suggested_file: str) -> JsonObject:
        """Return the hierarchy in the form of job files.

        Parameters
        ----------
        suggested_file : the name of the file for a suggested tree.
        """
        arguments: JsonObject = {
            "dates": list(DATE_STEPS),
            "mask": True,
            "suggest": suggested_file,
        }
        if self.kind == "intervals":
            return {"intervals": self.parse_widths()}
        name = "file" if self.kind == "suggest" else self.kind
        return {name: arguments.get(self.kind, self.argument)}

    def parse_widths(self) -> list[int | float]:
        """Return the widths of intervals; raises ValueError if one is not a number."""
        widths = [float(width) for width in self.argument.split(",")]
        return [int(width) if width == int(width) else width for width in widths]


@dataclass(frozen=True)
class ColumnTree:
    """The hierarchy of a column.

    Parameters
    ----------
    trial_hierarchy : the hierarchy for trial releases: a specification, from which the tree of the
        sampled rows is built, or the tree itself.
    tree : the tree over the table's current values.
    counts : the rows below each node of the tree.
    reason : why a suggested tree was suggested; empty for others.
    """

    choice: TreeChoice
    trial_hierarchy: Hierarchy | HierarchySpec
    tree: Hierarchy
    counts: TreeCounts
    reason: str = ""

    def is_outgrown(self, k: int) -> bool:
        """Whether the counts are for a smaller k, and may show labels with too few rows."""
        # ``bound`` is the smallest count that the tree shows. A larger k needs a larger bound.
        return self.counts.bound < least_displayed_rows(k)


@dataclass(frozen=True)
class SweepChoice:
    """Which trial releases to make; the fields are options of ``AdviceRequest``.

    Parameters
    ----------
    k : the values of k to try.
    methods : empty for the usual ones.
    sample : maximum number of rows to sample.
    time_limit : seconds after which no further release is tried.
    max_seconds : CPU seconds; methods that are forecast to need more for all rows are not tried.
    nulls : the treatment of NULLs; None for the one with the least loss.
    """

    k: tuple[int, ...] = tuple(k for k in DEFAULT_KS if k <= 10)
    methods: tuple[str, ...] = ()
    sample: int = 2_000
    seed: int = 0
    time_limit: float = 60.0
    max_seconds: float = DEFAULT_MAX_SECONDS
    nulls: str | None = None


@dataclass
class SweepResult:
    """Trial releases of a sweep, as they are made, and the advice at its end.

    Parameters
    ----------
    policies : from k to the policy of its releases, without method, refinement and recoding.
    advice : None until the end, and if the sweep was cancelled.
    """

    choice: SweepChoice
    points: list[Point] = field(default_factory=list)
    policies: dict[int, Policy] = field(default_factory=dict)
    advice: Advice | None = None

    def add(self, point: Point, policy: Policy) -> None:
        """Add a trial release."""
        self.policies[point.k] = policy
        self.points.append(point)


@dataclass(frozen=True)
class RiskChoice:
    """What a job measures of the disclosure risk; the fields are keys of ``risk`` in job files.

    A field is the text in the form, empty for a key that the file leaves out.

    Parameters
    ----------
    weight, household : names of columns.
    sampling_fraction, threshold, max_individual, max_global : numbers above 0, at most 1.
    """

    weight: str = ""
    household: str = ""
    sampling_fraction: str = ""
    threshold: str = ""
    max_individual: str = ""
    max_global: str = ""


@dataclass(frozen=True)
class JobChoice:
    """The values of the form of the job file.

    Parameters
    ----------
    file : the name of the job file.
    name, output : the names of the job and of its output.
    kind : ``view``, which keeps earlier releases, or ``table``.
    database_file : the DuckDB file for releases, if the source is a file of rows.
    export : ``csv``, ``parquet`` or empty.
    report : whether to write an HTML report of each release.
    schedule : five fields of cron, or empty.
    risk : what to measure of the disclosure risk; None to measure nothing.
    """

    file: str
    name: str
    output: str
    kind: str
    database_file: str = "released.duckdb"
    export: str = ""
    report: bool = True
    schedule: str = ""
    risk: RiskChoice | None = None


@dataclass
class SavedJobFile:
    """A job file that the workbench wrote.

    Parameters
    ----------
    choice : the values of the form from which the file was written.
    text : the content of the file.
    decision_revision : the revision of the decisions in the file; see ``Workbench``.
    tree_files : the names of the files with suggested trees.
    plan : pairs of label and text that describe a run; None until it was planned.
    """

    choice: JobChoice
    text: str
    decision_revision: int
    tree_files: tuple[str, ...] = ()
    plan: Sequence[tuple[str, str]] | None = None


@dataclass(frozen=True)
class PublishedRelease:
    """A release that this workbench published.

    Parameters
    ----------
    headline : tuples of label, value, unit or detail, and meaning.
    report_html : the report as an HTML page; empty if there is none. It is for readers, and has no
        disclosure risk.
    disclosure : what the page shows of the disclosure risk; None if the job does not measure it.
    """

    output: str
    release_id: str
    headline: Sequence[tuple[str, str, str, str]]
    report_html: str
    warnings: Sequence[str] = ()
    disclosure: Mapping[str, object] | None = None


class Workbench:
    """A table, the decisions on it, and the tasks that read it.

    Parameters
    ----------
    history : pairs of a changed section and the id of the page whose form changed it. A section is
        a part of the state, such as ``columns``, ``trees`` or ``saved`` (the job file). A form
        contains the length that the history had when its page was rendered.
    decision_revision : number of decisions so far that affect a job file; a file with a smaller
        number is outdated.
    stored_hierarchies : the names of the hierarchies that are stored in the database.
    roles, trees : from column name to its role, or to its hierarchy.
    reasons : from the name of a column of role ``keep`` to the reason for that role.
    sweeps : from ``build_sweep_key`` to the trial releases of a sweep.
    listed_releases : the current releases; None until they are read.
    inspections : from the name of a release's table or view to the data for comparing it.
    """

    def __init__(self, arguments: WorkbenchArguments) -> None:
        self.arguments = arguments
        # The URL of the source without a password, for pages.
        self.shown_url = open_store(
            arguments.url, reading=arguments.reading, table=arguments.table
        ).url
        self.lock = threading.RLock()
        self.tasks = BackgroundTasks()
        self.decision_revision = 0
        self.history: list[tuple[str, str]] = []
        self.role_proposals: ProposedRoles | None = None
        self.stored_hierarchies: tuple[str, ...] = ()
        # The name to propose for releases; None for the table's name.
        self.free_output_name: str | None = None
        self.roles: dict[str, str] = {}
        self.reasons: dict[str, str] = {}
        self.trees: dict[str, ColumnTree] = {}
        self.sweeps: dict[tuple[object, ...], SweepResult] = {}
        self.sweep_choice = SweepChoice()
        self.chosen_trial: Point | None = None
        # The options of the opened job file apply until the next decision.
        self.opened_decisions: JobDecisions | None = None
        self.listed_releases: list[Listed] | None = None
        self.inspections: dict[str, ReleaseInspection] = {}
        self.job_choice: JobChoice | None = None
        self.saved_file: SavedJobFile | None = None
        self.published_release: PublishedRelease | None = None
        # Digests of the files that this workbench wrote. Other files are replaced only if the form
        # says so.
        self.file_digests: dict[Path, str] = {}

    @property
    def revision(self) -> int:
        """The number of changes so far."""
        return len(self.history)

    def record_change(self, section: str, page_id: str = "") -> None:
        """Record that the form of a page changed a section."""
        with self.lock:
            self.history.append((section, page_id))

    def record_decision(self, section: str, page_id: str = "") -> None:
        """Record a decision that affects the job file."""
        with self.lock:
            self.opened_decisions = None
            self.decision_revision += 1
            self.record_change(section, page_id)

    def is_changed_elsewhere(self, section: str, since_revision: int, page_id: str) -> bool:
        """Whether a page with another id changed a section since a revision.

        Changes by the page itself, to which the user may have gone back, are no conflict.
        """
        with self.lock:
            return any(
                changed_section == section and changing_page_id != page_id
                for changed_section, changing_page_id in self.history[since_revision:]
            )

    @property
    def k(self) -> int:
        """The k of the chosen release; if none is chosen, that of the opened job file, or 5."""
        if self.chosen_trial is None:
            return 5 if self.opened_decisions is None else self.opened_decisions.k
        return self.chosen_trial.k

    @property
    def quasi_identifiers(self) -> tuple[str, ...]:
        """The quasi-identifiers in the order of the table."""
        return self._columns_of_role(QUASI_IDENTIFIER)

    @property
    def sensitive(self) -> tuple[str, ...]:
        """The sensitive columns in the order of the table."""
        return self._columns_of_role(SENSITIVE)

    def _columns_of_role(self, role: str) -> tuple[str, ...]:
        return tuple(name for name, column_role in self.roles.items() if column_role == role)

    @property
    def design_weight(self) -> str | None:
        """The column that says for how many persons a row stands; None without one."""
        return next(iter(self._columns_of_role(WEIGHT)), None)

    @property
    def entity(self) -> str | None:
        """The column that identifies the person a row belongs to, if it is not released."""
        name = None if self.role_proposals is None else self.role_proposals.entity
        return name if name is not None and self.roles.get(name) == IDENTIFIER else None

    @property
    def hierarchies(self) -> Mapping[str, Hierarchy | HierarchySpec]:
        """The hierarchies of quasi-identifiers, for trial releases."""
        return {
            name: tree.trial_hierarchy
            for name, tree in self.trees.items()
            if name in self.quasi_identifiers
        }

    @property
    def current_sweep(self) -> SweepResult | None:
        """The sweep for the current decisions; None if there is none yet."""
        return self.sweeps.get(self.build_sweep_key(self.sweep_choice))

    def compute_sweep_digest(self, choice: SweepChoice) -> str:
        """Return a digest that identifies a sweep in forms that choose one of its releases."""
        return hashlib.sha256(repr(self.build_sweep_key(choice)).encode()).hexdigest()

    def choose_release(self, digest: str, name: str, page_id: str) -> bool:
        """Choose a release of the sweep that a page showed; False if it has none with this name.

        Parameters
        ----------
        digest : the digest of the sweep, which must have the current columns; empty for the current
            sweep.
        name : the release's method and k, as in ``mdav/5``.
        page_id : the id of the page.
        """
        with self.lock:
            choices = [self.sweep_choice, *(sweep.choice for sweep in self.sweeps.values())]
            for choice in choices if digest else choices[:1]:
                sweep = self.sweeps.get(self.build_sweep_key(choice))
                if sweep is None or (digest and self.compute_sweep_digest(choice) != digest):
                    continue
                for point in sweep.points:
                    if f"{point.curve}/{point.k}" == name:
                        self.sweep_choice, self.chosen_trial = choice, point
                        self.record_decision("sweep", page_id)
                        return True
            return False

    @property
    def trees_to_recount(self) -> tuple[str, ...]:
        """The quasi-identifiers whose trees must be recounted for the chosen k."""
        return tuple(name for name in self.hierarchies if self.trees[name].is_outgrown(self.k))

    def build_sweep_key(self, choice: SweepChoice) -> tuple[object, ...]:
        """Return everything that a sweep depends on, except the rows of the table."""
        trees = [
            (name, self.trees[name].tree.sha256, self.trees[name].choice)
            for name in self.hierarchies
        ]
        return (self.quasi_identifiers, self.sensitive, tuple(trees), choice)
