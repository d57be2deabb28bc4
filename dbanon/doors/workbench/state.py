"""What was decided on in a workbench, and what was found: kept in memory, and gone with it."""

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
from dbanon.doors.workbench.tasks import Tasks
from dbanon.job.policy import Policy
from dbanon.job.reading import USUAL, Reading
from dbanon.release.distribution import bound_of
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
    from dbanon.run.advise import Proposed
    from dbanon.run.inspect_release import Look
    from dbanon.run.tree_counts import TreeCounts

KEEP, DROP = "keep", "drop"
ROLES = (QUASI_IDENTIFIER, SENSITIVE, IDENTIFIER, KEEP, DROP)
# Ways to a tree, as job files have them; ``suggest`` becomes a file beside the job file.
TREES = ("dates", "intervals", "mask", "suggest", "name", "file")
DATE_STEPS = ("month", "year", "decade")


@dataclass(frozen=True)
class Commands:
    """What the command line does with a job file, for the workbench to do the same.

    Parameters
    ----------
    opened : a job file, ready to be run.
    save : writes the report where its job says.
    """

    opened: Callable[[Path], JobFile]
    save: Callable[[FileJob, Report | PrivateReport], None]


@dataclass(frozen=True)
class JobDecisions:
    """What a job file says, as the forms have it.

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
    """What a workbench is started with.

    Parameters
    ----------
    url, table, key, reading : as for ``dbanon init``.
    target : URL of the database that is written to; None for the source's.
    directory : where the job file goes.
    memory : that trials may take, in bytes.
    opened : what a job file says that the workbench begins with.
    """

    url: str
    table: str
    commands: Commands
    key: tuple[str, ...] = ()
    reading: Reading = USUAL
    target: str | None = None
    directory: Path = field(default_factory=Path.cwd)
    memory: int | None = None
    opened: JobDecisions | None = None

    @property
    def kinds(self) -> tuple[str, ...]:
        """What a release may be made as, the usual first."""
        return (VIEW, TABLE) if releases_views(self.target or self.url) else (TABLE,)

    @property
    def needs_place(self) -> bool:
        """Whether releases need a database of their own: nothing is written into a file of rows."""
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
        whole: dict[str, Any] = {
            "dates": list(DATE_STEPS),
            "mask": True,
            "suggest": suggested,
        }
        if self.kind == "intervals":
            return {"intervals": self.widths()}
        name = "file" if self.kind == "suggest" else self.kind
        return {name: whole.get(self.kind, self.more)}

    def widths(self) -> list[int | float]:
        """The widths of intervals; raises ValueError where one is no number."""
        found = [float(part) for part in self.more.split(",")]
        return [int(one) if one == int(one) else one for one in found]


@dataclass(frozen=True)
class Grown:
    """A tree of a column.

    Parameters
    ----------
    given : what trials are made with: a builder, or the tree itself.
    why : of a suggested one.
    """

    choice: TreeChoice
    given: Hierarchy | HierarchySpec
    tree: Hierarchy
    counts: TreeCounts
    why: str = ""

    def is_outgrown(self, k: int) -> bool:
        """Whether it was counted before this larger k was chosen: it shows labels of too few."""
        return self.counts.bound < bound_of(k)


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
class Swept:
    """A sweep: its releases as they come, and the advice once it is over.

    Parameters
    ----------
    policies : by k, of all its releases but for method, refinement and recoding.
    advice : None until the end, and where it was cancelled.
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
class Saved:
    """A job file that was written.

    Parameters
    ----------
    text : as it was written.
    decided : which decisions it was made of.
    plan : what a run would do, in pairs; None until it was asked.
    """

    choice: JobChoice
    text: str
    decided: int
    trees: tuple[str, ...] = ()
    plan: Sequence[tuple[str, str]] | None = None


@dataclass(frozen=True)
class Made:
    """A release that was made here.

    Parameters
    ----------
    headline : figures with label, of what, and what each means.
    page : its report; empty where there is none.
    """

    output: str
    release_id: str
    headline: Sequence[tuple[str, str, str, str]]
    page: str
    warned: Sequence[str] = ()


class Workbench:
    """A table, what was decided on it, and the tasks that look at it.

    Parameters
    ----------
    history : each change since the start: which part of the pages it changed, and the page whose
        form asked for it. A form says how much of it its page knew.
    decided : changes with each decision that a job file is made of.
    """

    def __init__(self, start: Start) -> None:
        self.start = start
        # The pages show it.
        self.shown_url = open_store(start.url, reading=start.reading, table=start.table).url
        self.lock = threading.RLock()
        self.tasks = Tasks()
        self.decided = 0
        self.history: list[tuple[str, str]] = []
        self.proposed: Proposed | None = None
        self.stored: tuple[str, ...] = ()
        self.roles: dict[str, str] = {}
        self.reasons: dict[str, str] = {}
        self.trees: dict[str, Grown] = {}
        self.sweeps: dict[tuple[Any, ...], Swept] = {}
        self.sweep_choice = SweepChoice()
        self.chosen: Point | None = None
        # Whose options hold until something else is decided.
        self.opened: JobDecisions | None = None
        self.listed: list[Listed] | None = None
        self.looks: dict[str, Look] = {}
        self.job: JobChoice | None = None
        self.saved: Saved | None = None
        self.made: Made | None = None
        # Digests of what was written here: no other file is replaced without a word.
        self.files: dict[Path, str] = {}

    @property
    def revision(self) -> int:
        """How many changes there were."""
        return len(self.history)

    def changed(self, part: str, page: str = "") -> None:
        """Note that a part was changed by the form of a page."""
        with self.lock:
            self.history.append((part, page))

    def decide(self, part: str, page: str = "") -> None:
        """Note that something was decided that a job file is made of."""
        with self.lock:
            self.opened = None
            self.decided += 1
            self.changed(part, page)

    def is_changed_elsewhere(self, part: str, since: int, page: str) -> bool:
        """Whether a part was changed by another page than this one since a revision.

        What a page changed itself is known to whoever goes back to it.
        """
        with self.lock:
            return any(one == part and by != page for one, by in self.history[since:])

    @property
    def k(self) -> int:
        """Of the release that was chosen; until then of the job file that was opened, or 5."""
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
        return tuple(name for name, own in self.roles.items() if own == role)

    @property
    def entity(self) -> str | None:
        """The column that says whose a row is, when it is not released."""
        found = None if self.proposed is None else self.proposed.entity
        return found if found is not None and self.roles.get(found) == IDENTIFIER else None

    @property
    def hierarchies(self) -> Mapping[str, Hierarchy | HierarchySpec]:
        """Of quasi-identifiers, for trials."""
        return {name: g.given for name, g in self.trees.items() if name in self.quasi_identifiers}

    @property
    def swept(self) -> Swept | None:
        """The sweep of what is decided now; None where there is none yet."""
        return self.sweeps.get(self.key_of(self.sweep_choice))

    def sweep_digest(self, choice: SweepChoice) -> str:
        """What tells a sweep from others, for a form: its releases are chosen by their names."""
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
    def outgrown(self) -> tuple[str, ...]:
        """The quasi-identifiers whose trees are to be counted again for the k that was chosen."""
        return tuple(name for name in self.hierarchies if self.trees[name].is_outgrown(self.k))

    def key_of(self, choice: SweepChoice) -> tuple[Any, ...]:
        """What a sweep depends on, the rows of the table aside."""
        grown = self.trees
        trees = [(name, grown[name].tree.sha256, grown[name].choice) for name in self.hierarchies]
        return (self.quasi_identifiers, self.sensitive, tuple(trees), choice)
