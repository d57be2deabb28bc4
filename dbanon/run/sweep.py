"""Sweep: make trial releases with several methods and values of k, and measure loss and risk.

Nothing is written. A *point* is a trial release with its loss and risk. A *curve* is a method, with
or without refinement, at several values of k; its *knee* is the point with the best trade-off. The
*frontier* has the Pareto-optimal points: every point with less loss has more risk, and every point
with less risk has more loss. Curves are named by their method and refinement, such as
``mdav+fast``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dbanon.advice.answer import SkippedMethod, Sweep
from dbanon.advice.profile import Count
from dbanon.advice.recommend import KNEE_RANGE, Point, mark_frontier, next_refinement
from dbanon.advice.request import (
    AdviceRequest,
    are_numbers,
    default_methods,
    parse_method_and_refinement,
)
from dbanon.data.microdata import Microdata
from dbanon.data.partition import ClusteringResult
from dbanon.errors import DbanonError, TimeLimit, TooFewRecords
from dbanon.hierarchy.leaves import Hierarchies, take_records
from dbanon.job.policy import Policy
from dbanon.job.requirements import require_kinds
from dbanon.measures.figure import Parameters
from dbanon.methods import find_method
from dbanon.methods.forecast import Shape
from dbanon.partitioning.forecast import ClusteringSeconds, fastest_method, forecast
from dbanon.partitioning.partition_for import partition_for
from dbanon.partitioning.person_rows import with_layers
from dbanon.release.evaluation import evaluation_of, pairs_of
from dbanon.release.recode import Release, recode
from dbanon.run.nulls import records_to_release, sample_records, share_withheld
from dbanon.run.plan import Plan
from dbanon.run.totals import exact_totals_of

# Linkage risk is measured on at most this many random records, unless all columns are numeric.
MAX_LINKED_RECORDS = 2_500
# After this many CPU seconds, skip releases that are unlikely to be recommended.
OPTIONAL_SECONDS = 4.0
# A table with at least this many rows per person is regarded as a table of events.
ROWS_PER_PERSON_OF_EVENTS = 3

# Called with the share done, 0 to 1.
Tick = Callable[[float], None]
# Called with a point and the policy of its k; see ``_TrialRunner.shared_policy``.
OnTrial = Callable[[Point, Policy], None]


class _SweepTimeLimit(Exception):
    """The time limit of the sweep has passed. Never leaves this module."""


def sweep(
    request: AdviceRequest,
    planned: Plan,
    microdata: Microdata,
    rare_below: int,
    report_progress: Tick,
    on_trial: OnTrial = lambda point, policy: None,
) -> Sweep:
    """Try releases with every requested method and k, the cheapest first.

    Methods without refinement come first, values of k in ``KNEE_RANGE`` before others, and large
    values of k before small ones. The first release is always completed.

    Parameters
    ----------
    microdata : all records, including those with a NULL; the plan's policy says how to treat NULLs.
    rare_below : counts of withheld rows below this are not reported exactly.
    report_progress : called with the share done, 0 to 1; an exception ends the sweep.
    on_trial : called with each point, which does not show yet whether it is on the frontier, and
        with the policy of its k.

    Raises
    ------
    TooFewRecords : there are fewer records than the smallest k.
    DbanonError : no release could be tried; the error of the first method.
    """
    records = _RecordsByK(planned, microdata, request, lambda: report_progress(0.0))
    ks = records.list_feasible_k()
    is_numeric = are_numbers(microdata.attributes, records.trees_for(ks[0]))
    runner = _TrialRunner(
        planned,
        records,
        smallest_k=ks[0],
        is_numeric=is_numeric,
        rare_below=rare_below,
        request=request,
    )
    methods = dict.fromkeys(request.methods or runner.default_methods())
    # By name of the method, with its refinement, and k.
    points: dict[tuple[str, int], Point] = {}
    errors_by_method: dict[str, DbanonError] = {}
    queue = _TrialQueue(request, methods, ks)
    deadline, untried, callback_failed = time.monotonic() + request.time_limit, 0, False

    def tick(share: float) -> None:
        nonlocal callback_failed
        try:
            report_progress(queue.total_share(share))
        except BaseException:
            # Do not mistake a DbanonError of the callback for an error of the method.
            callback_failed = True
            raise
        if points and time.monotonic() > deadline:
            raise _SweepTimeLimit

    while (candidate := queue.take_next(list(points.values()))) is not None:
        method, k = candidate
        try:
            tick(0.0)
            if point := runner.run(method, k, tick):
                points[candidate] = point
                on_trial(point, runner.shared_policy(k))
        except _SweepTimeLimit:
            untried = 1 + len(queue.pending)
            break
        except DbanonError as error:
            if callback_failed:
                raise
            # Drop the traceback to avoid a reference cycle with this frame.
            errors_by_method[method] = error.with_traceback(None)
            # Its other releases would most likely fail, too.
            queue.drop_method(method)
    if not points:
        raise _pop_first_error(errors_by_method)
    ordered_points = [points[method, k] for method in methods for k in ks if (method, k) in points]
    return Sweep(
        measure=runner.measure,
        points=tuple(mark_frontier(ordered_points)),
        # For the smallest k, trials used ``rows`` of the ``of`` records to release, and measured
        # linkage on ``linked`` of these, or on all if it is None.
        rows=runner.microdata.n_records,
        of=runner.n_total,
        linked=MAX_LINKED_RECORDS
        if not is_numeric and runner.microdata.n_records > MAX_LINKED_RECORDS
        else None,
        untried=untried,
        # Without a timeout, releases stay in the queue only if none of them is worth its time.
        passed_over=0 if untried else len(queue.pending),
        left_out=tuple(
            SkippedMethod(name, error.code, error.message)
            for name, error in errors_by_method.items()
        ),
    )


def measure_split_person_loss(
    request: AdviceRequest, planned: Plan, microdata: Microdata, point: Point, tick: Tick
) -> float | None:
    """Return the loss of a trial release whose classes may split the rows of a person.

    None if persons have so few rows that splitting makes little difference, or if no such release
    is possible.

    Parameters
    ----------
    point : a trial release with whole persons; its k, method and refinement are tried again.
    """
    persons = microdata.entities
    if persons is None or len(persons) < ROWS_PER_PERSON_OF_EVENTS * len(np.unique(persons)):
        return None
    records = _RecordsByK(planned, microdata, request, lambda: tick(0.0))
    is_numeric = are_numbers(microdata.attributes, records.trees_for(point.k))
    runner = _TrialRunner(
        planned,
        records,
        smallest_k=point.k,
        is_numeric=is_numeric,
        rare_below=0,
        request=request,
    )
    with suppress(DbanonError):
        # Spread the rows of each person over layers. Each layer has its own classes, and a person
        # counts once in each layer.
        layered_records = with_layers(records.records_for(point.k), point.k)
        _, release = runner.make_release(
            layered_records, runner.build_policy(point.curve, point.k), tick
        )
        return release.loss
    return None


def _pop_first_error(errors_by_method: dict[str, DbanonError]) -> DbanonError:
    """Remove and return the error of the first method.

    Removing it avoids a reference cycle between the dictionary and the error's traceback.
    """
    if not errors_by_method:
        return TooFewRecords("All rows would be suppressed.")
    return errors_by_method.pop(next(iter(errors_by_method)))


class _Sample(NamedTuple):
    """A sample of records, with the hierarchies and the number of the records it was taken from."""

    records: Microdata
    trees: Hierarchies
    n_total: int


class _RecordsByK:
    """The records for trial releases of each k, with the hierarchies of all records.

    Parameters
    ----------
    pulse : called regularly while hierarchies are built; an exception ends the sweep.
    """

    def __init__(
        self,
        planned: Plan,
        microdata: Microdata,
        request: AdviceRequest,
        pulse: Callable[[], None],
    ) -> None:
        self._planned, self._microdata = planned, microdata
        self._request, self._pulse = request, pulse
        self._sample_by_k: dict[int, _Sample] = {}

    def list_feasible_k(self) -> list[int]:
        """Return the values of k for which there are enough records.

        Raises
        ------
        TooFewRecords : there are enough records for no k.
        """
        feasible_ks = []
        for k in self._request.k:
            with suppress(TooFewRecords):
                self.records_for(k)
                feasible_ks.append(k)
        if not feasible_ks and self._request.k:
            # No k is feasible: raise that error again.
            self.records_for(self._request.k[0])
        return feasible_ks

    def records_for(self, k: int) -> Microdata:
        """Return the records for trial releases of this k: all of them, or a sample."""
        return self._sample_of(k).records

    def trees_for(self, k: int) -> Hierarchies:
        """Return the hierarchies of the records that the sample was taken from."""
        return self._sample_of(k).trees

    def n_total_for(self, k: int) -> int:
        """Return the number of records that the sample was taken from."""
        return self._sample_of(k).n_total

    def _sample_of(self, k: int) -> _Sample:
        """Draw the sample for this k on the first call; later calls return the same one."""
        if k not in self._sample_by_k:
            all_records = self._microdata
            released_records = records_to_release(all_records, self._planned.policy.nulls, k)
            earlier_sample = next(iter(self._sample_by_k.values()), None)
            if all_records.valid is None and earlier_sample is not None:
                # Without NULLs, all records are released for every k, so the same sample serves.
                self._sample_by_k[k] = earlier_sample
            else:
                trees = self._planned.build_trees(released_records, self._pulse)
                self._sample_by_k[k] = _Sample(
                    sample_records(released_records, self._request.sample, self._request.seed, k),
                    trees,
                    released_records.n_records,
                )
        return self._sample_by_k[k]


class _TrialQueue:
    """The queue of releases to try.

    Methods without refinement come first. Then follow the refined methods that may be recommended,
    judging by earlier results. Unless the request names methods, other refined methods are tried
    only if they take little time.
    """

    def __init__(self, request: AdviceRequest, methods: Iterable[str], ks: Sequence[int]) -> None:
        self._request = request
        methods_by_cost = sorted(methods, key=_is_refined)
        self.pending = [(name, k) for name in methods_by_cost for k in _sort_in_trial_order(ks)]
        self._n_releases = len(self.pending)

    def take_next(self, points: Sequence[Point]) -> tuple[str, int] | None:
        """Take the next release from ``pending``; None if the others would take too much time.

        Parameters
        ----------
        points : results so far.
        """
        if not self.pending:
            return None
        release: tuple[str, int] | None = self.pending[0]
        if points and _is_refined(self.pending[0][0]) and not self._request.methods:
            limits = self._request.max_risk, self._request.max_loss
            # The refined release that is predicted to be recommended, if there is one.
            release = next_refinement(points, self.pending, *limits) or self._first_if_cheap(points)
        if release is not None:
            self.pending.remove(release)
        return release

    def _first_if_cheap(self, points: Sequence[Point]) -> tuple[str, int] | None:
        """Return the first pending release; None if it is expected to exceed ``OPTIONAL_SECONDS``.

        The longest release of the same method so far serves as forecast.
        """
        seconds_used = sum(point.seconds for point in points)
        longest = max(
            (point.seconds for point in points if point.curve == self.pending[0][0]), default=0.0
        )
        return self.pending[0] if seconds_used + longest < OPTIONAL_SECONDS else None

    def drop_method(self, name: str) -> None:
        """Remove all releases of this method."""
        self.pending = [(method, k) for method, k in self.pending if method != name]

    def total_share(self, release_share: float) -> float:
        """Convert the share done of the current release into the share done of the sweep.

        The current release is no longer in ``pending``.
        """
        return (self._n_releases - len(self.pending) - 1 + release_share) / self._n_releases


def _is_refined(name: str) -> bool:
    """Return True for a method with refinement, such as ``mdav+fast``."""
    _, refinement = parse_method_and_refinement(name)
    return refinement is not None


def _sort_in_trial_order(ks: Sequence[int]) -> list[int]:
    """Sort values of k in descending order: first those in ``KNEE_RANGE``, then the others."""
    return sorted(ks, key=lambda k: (k not in KNEE_RANGE, -k))


@dataclass(frozen=True, eq=False)
class _TrialRunner:
    """Runs trial releases with shared settings.

    Parameters
    ----------
    records : the records to release, by k.
    smallest_k : the smallest k of the sweep; its records stand for those of all k in forecasts.
    is_numeric : True if all quasi-identifiers are numbers. Then the linkage risk is measured on all
        records, and the loss is SSE/SST.
    rare_below : counts of withheld rows below this are not reported exactly.
    request : the limits and options of the sweep, as the user set them.
    """

    planned: Plan
    records: _RecordsByK
    smallest_k: int
    is_numeric: bool
    rare_below: int
    request: AdviceRequest

    @property
    def microdata(self) -> Microdata:
        """The records for trial releases of the smallest k."""
        return self.records.records_for(self.smallest_k)

    @property
    def n_total(self) -> int:
        """The number of records that ``microdata`` is a sample of."""
        return self.records.n_total_for(self.smallest_k)

    @property
    def measure(self) -> str:
        """The name of the loss measure."""
        return "sse_loss" if self.is_numeric else "iloss"

    def run(self, name: str, k: int, tick: Tick) -> Point | None:
        """Run one trial release and measure it; None if all rows would be withheld.

        ``name`` is that of a method with or without refinement, such as ``mdav+fast``.

        Raises
        ------
        TimeLimit : the forecast for all rows exceeds the allowed seconds.
        """
        started = time.process_time()
        policy, microdata = self.build_policy(name, k), self.records.records_for(k)
        seconds_forecast = self._forecast(policy)
        policy.guarantee_for().check_method(find_method(policy.method))
        require_kinds(policy, microdata.attributes)
        # For progress, count the release as 60 % of the work, and its evaluation as the rest.
        clustering, release = self.make_release(microdata, policy, lambda share: tick(0.6 * share))
        hierarchies = policy.hierarchies
        if release.partition.n_suppressed:
            # Withheld records have no part in the hierarchies of a release.
            released_indices = np.flatnonzero(release.partition.labels >= 0)
            hierarchies = self.planned.build_trees(take_records(microdata, released_indices))
        pairs = pairs_of(
            microdata, release.partition, release.columns, hierarchies, clustering.column_statistics
        )
        figures = evaluation_of(
            pairs,
            Parameters(
                sample=None if self.is_numeric else MAX_LINKED_RECORDS, seed=self.request.seed
            ),
            names=["linkage_risk", "class_risk"],
            tick=lambda share: tick(0.6 + 0.4 * share),
        )
        method, refine = parse_method_and_refinement(name)
        risk = figures.risks["linkage_risk"]
        if risk is None:
            return None
        return Point(
            method=method,
            refine=refine,
            k=k,
            loss=release.loss,
            risk=risk,
            class_risk=float(figures.risks["class_risk"] or 0.0),
            suppressed=Count(
                count=figures.suppressed, total=microdata.n_read, small=self.rare_below
            ),
            classes=release.partition.n_classes,
            seconds=round(time.process_time() - started, 3),
            # For all rows, if these are a sample.
            estimate=self._extrapolate_loss(release.loss),
            forecast=None if seconds_forecast is None else seconds_forecast.to_dict()["seconds"],
            # Only named if it is not the default of the method.
            recoding=None if policy.recoding == find_method(method).recoding else policy.recoding,
        )

    def make_release(
        self, microdata: Microdata, policy: Policy, tick: Tick
    ) -> tuple[ClusteringResult, Release]:
        """Find the classes of records and compute their released values."""
        clustering = partition_for(microdata, policy, trees=self.planned.build_trees, tick=tick)
        totals = exact_totals_of(microdata)
        return clustering, recode(microdata, clustering, policy, totals, self.planned.build_trees)

    def default_methods(self) -> tuple[str, ...]:
        """Return the methods to try if the request names none; only one if time is short."""
        usual_methods = default_methods(self.is_numeric)
        # The first usual method, if it is fast enough; otherwise the fastest of all methods.
        fastest = fastest_method(
            usual_methods[:1],
            self.n_total,
            self._shape,
            self.request.max_seconds,
            self._distinct_share,
        )
        return usual_methods if fastest in usual_methods else (fastest,)

    @property
    def _shape(self) -> Shape:
        """The number of quasi-identifiers of each kind, on which forecasts depend."""
        return Shape.of(self.microdata.attributes, self.records.trees_for(self.smallest_k))

    @cached_property
    def _distinct_share(self) -> float:
        """The number of distinct combinations of quasi-identifiers per sampled row, 0 to 1."""
        if self.is_numeric or not self.microdata.n_records:
            return 1.0
        rows = np.column_stack([self.microdata.numbers, self.microdata.codes])
        return len(np.unique(rows, axis=0)) / len(rows)

    def _forecast(self, policy: Policy) -> ClusteringSeconds | None:
        """Forecast the seconds for all rows; raise TimeLimit if they exceed the allowed seconds."""
        seconds_forecast = forecast(policy, self.n_total, self._shape, self._distinct_share)
        if seconds_forecast is not None and seconds_forecast.seconds > self.request.max_seconds:
            raise TimeLimit(
                f"The classes of all {self.n_total} rows would take about {seconds_forecast}, more"
                f" than {self.request.max_seconds:g}.",
                hint="Raise `max_seconds`.",
            )
        return seconds_forecast

    def build_policy(self, name: str, k: int) -> Policy:
        """Build the policy of a trial release.

        ``name`` is that of a method with or without refinement, such as ``mdav+fast``.
        """
        method, refine = parse_method_and_refinement(name)
        # Other methods release numbers, so release and measure numbers here as well.
        suppresses_cells = find_method(method).suppresses_cells
        as_numbers = (
            self.is_numeric and find_method(method).takes_categories and not suppresses_cells
        )
        return replace(
            Policy(k=k, method=method, refine=refine, recoding="mean" if as_numbers else None),
            nulls=self.planned.policy.nulls,
            kinds=self.planned.policy.kinds,
            max_suppression=self.shared_policy(k).max_suppression,
            hierarchies={} if suppresses_cells else dict(self.records.trees_for(k)),
        )

    def shared_policy(self, k: int) -> Policy:
        """Build the policy that all releases with this k share.

        Its ``max_suppression`` is the share of withheld records.
        """
        withheld = share_withheld(self.records.records_for(k))
        return replace(self.planned.policy, max_suppression=withheld)

    def _extrapolate_loss(self, loss: float) -> float | None:
        """Extrapolate the loss from the sample to all rows, for smooth data; None if unknown.

        If m of n records in p columns are sampled, the loss of all rows is (m / n)^(2 / p) times
        the loss of the sample.
        """
        m, p = self.microdata.n_records, len(self.microdata.numeric)
        if m == self.n_total or not self.is_numeric:
            return None
        return float(loss * (m / self.n_total) ** (2 / p))
