"""The decisions and results of a workbench, in memory only."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbanon.advice.request import KS, SECONDS
from dbanon.advice.roles import IDENTIFIER, QUASI_IDENTIFIER, SENSITIVE
from dbanon.doors.jobfile.init import TABLE, VIEW
from dbanon.doors.workbench.tasks import BackgroundTasks
from dbanon.job.policy import Policy
from dbanon.job.reading import USUAL, Reading
from dbanon.release.distribution import least_displayed_rows
from dbanon.run.open import open_store, releases_views
from dbanon.stores.folders import is_of_files

if TYPE_CHECKING:
    from dbanon.advice.answer import Advice
    from dbanon.advice.recommend import Point
    from dbanon.doors.jobfile.file import FileJob, JobFile
    from dbanon.hierarchy.spec import HierarchySpec
    from dbanon.hierarchy.tree import Hierarchy
    from dbanon.ledger.releases import Listed
    from dbanon.release.private_report import PrivateReport
    from dbanon.release.report import Report
    from dbanon.run.advise import ProposedRoles
    from dbanon.run.inspect_release import ReleaseInspection
    from dbanon.run.tree_counts import TreeCounts

KEEP, DROP = "keep", "drop"
ROLES = (QUASI_IDENTIFIER, SENSITIVE, IDENTIFIER, KEEP, DROP)
# Ways to a tree, as job files have them; ``suggest`` becomes a file next to the job file.
TREES = ("dates", "intervals", "mask", "suggest", "name", "file")
DATE_STEPS = ("month", "year", "decade")


@dataclass(frozen=True)
class JobFileCommands:
    """The command line's own functions on a job file, so that the workbench does the same.

    Parameters
    ----------
    opened : opens a job file that is ready to run.
    save : writes the report to the path that its job names.
    """

    opened: Callable[[Path], JobFile]
    save: Callable[[FileJob, Report | PrivateReport], None]


@dataclass(frozen=True)
class JobDecisions:
    """The content of a job file, as the forms have it.

    Parameters
    ----------
    choice : how the file is written.
    roles, reasons, trees : by column.
    options : of the release, ``k`` aside.
    text : of the file.
    """

    choice: JobChoice
    roles: Mapping[str, str]
    reasons: Mapping[str, str]
    trees: Mapping[str, TreeChoice]
    options: Mapping[str, Any]
    k: int
    text: str


@dataclass(frozen=True)
class Start:
    """The arguments of ``dbanon workbench``.

    Parameters
    ----------
    url, table, key, reading : as for ``dbanon init``.
    target : URL of the database that is written to; None for the source's.
    directory : of the job file.
    memory : limit of trials, in bytes.
    opened : the job file that the workbench opens.
    """

    url: str
    table: str
    commands: JobFileCommands
    key: tuple[str, ...] = ()
    reading: Reading = USUAL
    target: str | None = None
    directory: Path = field(default_factory=Path.cwd)
    memory: int | None = None
    opened: JobDecisions | None = None

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of relation that a release may be, the usual one first."""
        return (VIEW, TABLE) if releases_views(self.target or self.url) else (TABLE,)

    @property
    def needs_place(self) -> bool:
        """Whether releases need a database of their own, because the source is a file."""
        return self.target is None and is_of_files(self.url)


@dataclass(frozen=True)
class TreeChoice:
    """How a column is generalized.

    Parameters
    ----------
    kind : one of ``TREES``.
    more : the widths of intervals, or the name of a stored tree or file.
    """

    kind: str
    more: str = ""

    def plain(self, suggested: str) -> dict[str, Any]:
        """As a job file has it.

        Parameters
        ----------
        suggested : name of the file that a suggested tree is kept in.
        """
        values: dict[str, Any] = {
            "dates": list(DATE_STEPS),
            "mask": True,
            "suggest": suggested,
        }
        if self.kind == "intervals":
            return {"intervals": self.widths()}
        name = "file" if self.kind == "suggest" else self.kind
        return {name: values.get(self.kind, self.more)}

    def widths(self) -> list[int | float]:
        """The widths of intervals; raises ValueError if one is not a number."""
        widths = [float(part) for part in self.more.split(",")]
        return [int(width) if width == int(width) else width for width in widths]


@dataclass(frozen=True)
class ColumnTree:
    """A tree of a column.

    Parameters
    ----------
    trial : the builder for trials, or the tree itself.
    why : the reason for a suggested tree.
    """

    choice: TreeChoice
    trial: Hierarchy | HierarchySpec
    tree: Hierarchy
    counts: TreeCounts
    why: str = ""

    def is_outgrown(self, k: int) -> bool:
        """Whether it was counted for a smaller k, and so shows labels of too few rows."""
        return self.counts.bound < least_displayed_rows(k)


@dataclass(frozen=True)
class SweepChoice:
    """Which releases are tried."""

    k: tuple[int, ...] = tuple(k for k in KS if k <= 10)
    methods: tuple[str, ...] = ()
    sample: int = 2_000
    seed: int = 0
    time_limit: float = 60.0
    max_seconds: float = SECONDS
    nulls: str | None = None


@dataclass
class SweepResult:
    """A sweep: its releases as they come, and the advice once it is over.

    Parameters
    ----------
    policies : by k, those of its releases, apart from method, refinement and recoding.
    advice : None until the end, and if it was cancelled.
    """

    choice: SweepChoice
    points: list[Point] = field(default_factory=list)
    policies: dict[int, Policy] = field(default_factory=dict)
    advice: Advice | None = None

    def add(self, point: Point, policy: Policy) -> None:
        """A release that was tried."""
        self.policies[point.k] = policy
        self.points.append(point)


@dataclass(frozen=True)
class JobChoice:
    """How a job file is written.

    Parameters
    ----------
    file : its name.
    name, output : of the job, and of what it makes.
    kind : ``view``, whose earlier releases stay, or ``table``.
    place : name of the DuckDB file that releases of a file of rows go into.
    export : ``csv``, ``parquet`` or nothing.
    report : whether each release has its report beside it, as a page.
    schedule : five fields as cron has them, or nothing.
    """

    file: str
    name: str
    output: str
    kind: str
    place: str = "released.duckdb"
    export: str = ""
    report: bool = True
    schedule: str = ""


@dataclass
class SavedJobFile:
    """A job file that was written.

    Parameters
    ----------
    text : its content.
    decided : the revision of the decisions that it was made from.
    plan : the plan of a run, in pairs; None until there is one.
    """

    choice: JobChoice
    text: str
    decided: int
    trees: tuple[str, ...] = ()
    plan: Sequence[tuple[str, str]] | None = None


@dataclass(frozen=True)
class PublishedRelease:
    """A release that this workbench published.

    Parameters
    ----------
    headline : figures with label, of what, and what each means.
    page : its report; empty for none.
    """

    output: str
    release_id: str
    headline: Sequence[tuple[str, str, str, str]]
    page: str
    warned: Sequence[str] = ()


class Workbench:
    """A table, the decisions on it, and the tasks that read it.

    Parameters
    ----------
    history : each change since the start: the part of the pages that it changed, and the page whose
        form made it. A form carries the length of the history that its page was made from.
    decided : counts the decisions that a job file is made from.
    """

    def __init__(self, start: Start) -> None:
        self.start = start
        # Without a password: the pages show it.
        self.shown_url = open_store(start.url, reading=start.reading, table=start.table).url
        self.lock = threading.RLock()
        self.tasks = BackgroundTasks()
        self.decided = 0
        self.history: list[tuple[str, str]] = []
        self.proposed: ProposedRoles | None = None
        self.stored: tuple[str, ...] = ()
        # The name to propose for releases; None for that of the table.
        self.free_output_name: str | None = None
        self.roles: dict[str, str] = {}
        self.reasons: dict[str, str] = {}
        self.trees: dict[str, ColumnTree] = {}
        self.sweeps: dict[tuple[Any, ...], SweepResult] = {}
        self.sweep_choice = SweepChoice()
        self.chosen: Point | None = None
        # Its options apply until the next decision.
        self.opened: JobDecisions | None = None
        self.listed: list[Listed] | None = None
        self.inspections: dict[str, ReleaseInspection] = {}
        self.job: JobChoice | None = None
        self.saved: SavedJobFile | None = None
        self.made: PublishedRelease | None = None
        # Digests of the files written here: no other file is replaced unless the form says so.
        self.files: dict[Path, str] = {}

    @property
    def revision(self) -> int:
        """The number of changes."""
        return len(self.history)

    def record_change(self, part: str, page: str = "") -> None:
        """Record that the form of a page changed a part."""
        with self.lock:
            self.history.append((part, page))

    def decide(self, part: str, page: str = "") -> None:
        """Record a decision that a job file is made from."""
        with self.lock:
            self.opened = None
            self.decided += 1
            self.record_change(part, page)

    def is_changed_elsewhere(self, part: str, since: int, page: str) -> bool:
        """Whether a part was changed by another page than this one since a revision.

        A page's own changes are no conflict for someone who goes back to it.
        """
        with self.lock:
            return any(name == part and by != page for name, by in self.history[since:])

    @property
    def k(self) -> int:
        """The k of the chosen release; until then that of the opened job file, or 5."""
        if self.chosen is None:
            return 5 if self.opened is None else self.opened.k
        return self.chosen.k

    @property
    def quasi_identifiers(self) -> tuple[str, ...]:
        """In the table's order."""
        return self._of(QUASI_IDENTIFIER)

    @property
    def sensitive(self) -> tuple[str, ...]:
        """In the table's order."""
        return self._of(SENSITIVE)

    def _of(self, role: str) -> tuple[str, ...]:
        return tuple(name for name, of_column in self.roles.items() if of_column == role)

    @property
    def entity(self) -> str | None:
        """The column that identifies the person a row belongs to, if it is not released."""
        name = None if self.proposed is None else self.proposed.entity
        return name if name is not None and self.roles.get(name) == IDENTIFIER else None

    @property
    def hierarchies(self) -> Mapping[str, Hierarchy | HierarchySpec]:
        """Of quasi-identifiers, for trials."""
        return {
            name: tree.trial for name, tree in self.trees.items() if name in self.quasi_identifiers
        }

    @property
    def current_sweep(self) -> SweepResult | None:
        """The sweep for the current decisions; None if there is none yet."""
        return self.sweeps.get(self.key_of(self.sweep_choice))

    def sweep_digest(self, choice: SweepChoice) -> str:
        """An identifier of a sweep, for forms that choose one of its releases."""
        return hashlib.sha256(repr(self.key_of(choice)).encode()).hexdigest()

    def choose(self, digest: str, name: str, page: str) -> bool:
        """Choose a release of the sweep that a page showed; False if it has none of this name.

        Parameters
        ----------
        digest : of the sweep; empty for the current one. A sweep of other columns is not found.
        name : method and k.
        """
        with self.lock:
            choices = [self.sweep_choice, *(sweep.choice for sweep in self.sweeps.values())]
            for choice in choices if digest else choices[:1]:
                swept = self.sweeps.get(self.key_of(choice))
                if swept is None or (digest and self.sweep_digest(choice) != digest):
                    continue
                for point in swept.points:
                    if f"{point.curve}/{point.k}" == name:
                        self.sweep_choice, self.chosen = choice, point
                        self.decide("sweep", page)
                        return True
            return False

    @property
    def trees_to_recount(self) -> tuple[str, ...]:
        """The quasi-identifiers whose trees are to be counted again for the k that was chosen."""
        return tuple(name for name in self.hierarchies if self.trees[name].is_outgrown(self.k))

    def key_of(self, choice: SweepChoice) -> tuple[Any, ...]:
        """Everything that a sweep depends on, except the rows of the table."""
        trees = [
            (name, self.trees[name].tree.sha256, self.trees[name].choice)
            for name in self.hierarchies
        ]
        return (self.quasi_identifiers, self.sensitive, tuple(trees), choice)
