"""Sweep: simulates releases of a table to measure their loss and risk; writes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dbanon.advice.answer import SkippedMethod, Sweep
from dbanon.advice.profile import Count
from dbanon.advice.recommend import KNEES, Point, next_refinement, with_frontier
from dbanon.advice.request import AdviceRequest, are_numbers, curve, default_methods
from dbanon.data.microdata import Microdata
from dbanon.data.partition import ClusteringResult
from dbanon.errors import DbanonError, TimeLimit, TooFewRecords
from dbanon.hierarchy.leaves import take_records
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

# Linkage risk is measured on at most this many random records, unless all columns are numbers.
MAX_LINKED = 2_500
# CPU seconds after which no releases are tried that are unlikely to be recommended.
OPTIONAL_SECONDS = 4.0
# A table with at least this many rows per person is regarded as a table of events.
ROWS_PER_PERSON_OF_EVENTS = 3

Tick = Callable[[float], None]
OnTried = Callable[[Point, Policy], None]


class _TimeUp(Exception):
    """The time limit has passed. Never leaves this module."""


def sweep(
    request: AdviceRequest,
    planned: Plan,
    microdata: Microdata,
    small: int,
    report_progress: Tick,
    tried: OnTried = lambda point, policy: None,
) -> Sweep:
    """Try releases with every requested method and k, the cheapest first.

    Methods without refinement come before those with refinement, large classes before small ones,
    and values of k where a knee is searched before others (for refinements: ``_Todo``). The first
    release is always completed.

    Parameters
    ----------
    microdata : all records, including those with a NULL, which the plan's policy treats.
    small : the smallest count of withheld rows that is reported exactly.
    report_progress : called with the share done; its exceptions end the sweep.
    tried : called with each release, before its frontier is known, and the shared policy.

    Raises
    ------
    TooFewRecords : there are fewer records than the smallest k.
    DbanonError : no release could be tried; the error of the first method.
    """
    records = _RecordsByK(planned, microdata, request, lambda: report_progress(0.0))
    ks = records.feasible()
    numeric = are_numbers(microdata.attributes, records.trees(ks[0]))
    trial = _Trial(planned, records, ks[0], numeric, small, request)
    names = dict.fromkeys(request.methods or trial.default_methods())
    points: dict[tuple[str, int], Point] = {}
    left_out: dict[str, DbanonError] = {}
    todo = _Todo(request, names, ks)
    deadline, untried, listener_failed = time.monotonic() + request.time_limit, 0, False

    def tick(share: float) -> None:
        nonlocal listener_failed
        try:
            report_progress(todo.share(share))
        except BaseException:
            # Do not mistake a DbanonError of the listener for an error of the method.
            listener_failed = True
            raise
        if points and time.monotonic() > deadline:
            raise _TimeUp

    while (release := todo.next(list(points.values()))) is not None:
        try:
            tick(0.0)
            if point := trial.run(*release, tick):
                points[release] = point
                tried(point, trial.planned_policy(release[1]))
        except _TimeUp:
            untried = 1 + len(todo.left)
            break
        except DbanonError as error:
            if listener_failed:
                raise
            left_out[release[0]] = error.with_traceback(None)  # It would hold this frame.
            todo.leave_out(release[0])
    if not points:
        raise _refusal(left_out)
    ordered = [points[at] for at in ((n, k) for n in names for k in ks) if at in points]
    return Sweep(
        trial.measure,
        tuple(with_frontier(ordered)),
        trial.microdata.n_records,
        trial.total,
        MAX_LINKED if not numeric and trial.microdata.n_records > MAX_LINKED else None,
        untried,
        0 if untried else len(todo.left),
        tuple(SkippedMethod(name, e.code, e.message) for name, e in left_out.items()),
    )


def parted_loss(
    request: AdviceRequest, planned: Plan, microdata: Microdata, point: Point, tick: Tick
) -> float | None:
    """The loss of a tried release if its classes could separate the rows of a person.

    None if persons have few rows, which makes little difference, or if no such release is possible.
    """
    persons = microdata.entities
    if persons is None or len(persons) < ROWS_PER_PERSON_OF_EVENTS * len(np.unique(persons)):
        return None
    records = _RecordsByK(planned, microdata, request, lambda: tick(0.0))
    numeric = are_numbers(microdata.attributes, records.trees(point.k))
    trial = _Trial(planned, records, point.k, numeric, 0, request)
    with suppress(DbanonError):
        layered = with_layers(records.of(point.k), point.k)
        return trial.release(layered, trial.policy(point.curve, point.k), tick)[1].loss
    return None


def _refusal(left_out: dict[str, DbanonError]) -> DbanonError:
    """The error of the first method, removed from the dictionary in the caller's frame."""
    if not left_out:
        return TooFewRecords("All rows would be suppressed.")
    return left_out.pop(next(iter(left_out)))


class _RecordsByK:
    """The records that releases of each k are tried on, and the hierarchies of all of them.

    Parameters
    ----------
    pulse : called repeatedly while hierarchies are built; its exceptions end that.
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
        self._samples: dict[int, tuple[Microdata, Mapping[str, Any], int]] = {}

    def feasible(self) -> list[int]:
        """The values of k that have enough records; raises as ``records_to_release``."""
        sizes = []
        for k in self._request.k:
            with suppress(TooFewRecords):
                self.of(k)
                sizes.append(k)
        if not sizes and self._request.k:
            # Raises the refusal from above again.
            self.of(self._request.k[0])
        return sizes

    def of(self, k: int) -> Microdata:
        """The records of a sample, or all."""
        return self._sample_of(k)[0]

    def trees(self, k: int) -> Mapping[str, Any]:
        """The hierarchies of the records that the sample was taken from."""
        return self._sample_of(k)[1]

    def total(self, k: int) -> int:
        """The number of records that the sample was taken from."""
        return self._sample_of(k)[2]

    def _sample_of(self, k: int) -> tuple[Microdata, Mapping[str, Any], int]:
        if k not in self._samples:
            all_records = self._microdata
            released = records_to_release(all_records, self._planned.policy.nulls, k)
            earlier_sample = next(iter(self._samples.values()), None)
            if all_records.valid is None and earlier_sample is not None:
                # Without NULLs, all records are released for every k.
                self._samples[k] = earlier_sample
            else:
                trees = self._planned.trees(released, self._pulse)
                self._samples[k] = (
                    sample_records(released, self._request.sample, self._request.seed, k),
                    trees,
                    released.n_records,
                )
        return self._samples[k]


class _Todo:
    """The queue of releases to try.

    Among refinements, those that earlier results may recommend come first. Unless methods are
    named, the others are tried only if they take little time.
    """

    def __init__(self, request: AdviceRequest, names: Iterable[str], ks: Sequence[int]) -> None:
        self._request = request
        by_cost = sorted(names, key=_is_refined)
        self.left = [(name, k) for name in by_cost for k in _in_order(ks)]
        self._n_releases = len(self.left)

    def next(self, points: Sequence[Point]) -> tuple[str, int] | None:
        """Take the next release out of ``left``; None if the others would take too much time.

        Parameters
        ----------
        points : results so far.
        """
        if not self.left:
            return None
        release: tuple[str, int] | None = self.left[0]
        if points and _is_refined(self.left[0][0]) and not self._request.methods:
            limits = self._request.max_risk, self._request.max_loss
            release = next_refinement(points, self.left, *limits) or self._first_if_cheap(points)
        if release is not None:
            self.left.remove(release)
        return release

    def _first_if_cheap(self, points: Sequence[Point]) -> tuple[str, int] | None:
        """The first release, unless it is expected to exceed the time for optional releases.

        Expects it to take as long as the longest of its kind so far.
        """
        spent = sum(point.seconds for point in points)
        longest = max((p.seconds for p in points if p.curve == self.left[0][0]), default=0.0)
        return self.left[0] if spent + longest < OPTIONAL_SECONDS else None

    def leave_out(self, name: str) -> None:
        """Try no other release of this method."""
        self.left = [release for release in self.left if release[0] != name]

    def share(self, share: float) -> float:
        """Convert the share done of the current release into the share done of the sweep."""
        return (self._n_releases - len(self.left) - 1 + share) / self._n_releases


def _is_refined(name: str) -> bool:
    return curve(name)[1] is not None


def _in_order(ks: Sequence[int]) -> list[int]:
    """The values of k, those where a knee is searched first, each group in descending order."""
    return sorted(ks, key=lambda k: (k not in KNEES, -k))


@dataclass(frozen=True, eq=False)
class _Trial:
    """Runs trial releases with shared settings."""

    planned: Plan
    records: _RecordsByK
    smallest_k: int
    numeric: bool
    small: int
    request: AdviceRequest

    @property
    def microdata(self) -> Microdata:
        """The records that most releases are tried on: those of the smallest k."""
        return self.records.of(self.smallest_k)

    @property
    def total(self) -> int:
        """The number of records that these were taken from."""
        return self.records.total(self.smallest_k)

    @property
    def measure(self) -> str:
        return "sse_loss" if self.numeric else "iloss"

    def run(self, name: str, k: int, tick: Tick) -> Point | None:
        """Find classes, recode and measure them; None if all rows would be withheld.

        Raises
        ------
        TimeLimit : the forecast for all rows exceeds the allowed seconds.
        """
        started = time.process_time()
        policy, microdata = self.policy(name, k), self.records.of(k)
        foreseen = self._foreseen(policy)
        policy.guarantee_for().require(find_method(policy.method))
        require_kinds(policy, microdata.attributes)
        clustering, release = self.release(microdata, policy, lambda s: tick(0.6 * s))
        hierarchies = policy.hierarchies
        if release.partition.n_suppressed:
            released = np.flatnonzero(release.partition.labels >= 0)
            hierarchies = self.planned.trees(take_records(microdata, released))
        pairs = pairs_of(
            microdata, release.partition, release.columns, hierarchies, clustering.measures
        )
        figures = evaluation_of(
            pairs,
            Parameters(sample=None if self.numeric else MAX_LINKED, seed=self.request.seed),
            names=["linkage_risk", "class_risk"],
            tick=lambda s: tick(0.6 + 0.4 * s),
        )
        method, refine = curve(name)
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
            suppressed=Count(figures.suppressed, microdata.n_read, self.small),
            classes=release.partition.n_classes,
            seconds=round(time.process_time() - started, 3),
            estimate=self._estimate(release.loss),
            forecast=None if foreseen is None else foreseen.to_dict()["seconds"],
            recoding=None if policy.recoding == find_method(method).recoding else policy.recoding,
        )

    def release(
        self, microdata: Microdata, policy: Policy, tick: Tick
    ) -> tuple[ClusteringResult, Release]:
        """The classes of records and their released values."""
        clustering = partition_for(microdata, policy, trees=self.planned.trees, tick=tick)
        totals = exact_totals_of(microdata)
        return clustering, recode(microdata, clustering, policy, totals, self.planned.trees)

    def default_methods(self) -> tuple[str, ...]:
        """The methods to try if none is named; only one if these would take too long."""
        usual = default_methods(self.numeric)
        first = fastest_method(
            usual[:1], self.total, self._shape, self.request.max_seconds, self._share_distinct
        )
        return usual if first in usual else (first,)

    @property
    def _shape(self) -> Shape:
        return Shape.of(self.microdata.attributes, self.records.trees(self.smallest_k))

    @cached_property
    def _share_distinct(self) -> float:
        """The share of distinct rows among the quasi-identifiers of the tried rows."""
        if self.numeric or not self.microdata.n_records:
            return 1.0
        rows = np.column_stack([self.microdata.numbers, self.microdata.codes])
        return len(np.unique(rows, axis=0)) / len(rows)

    def _foreseen(self, policy: Policy) -> ClusteringSeconds | None:
        """The forecast for all rows; raises TimeLimit if it exceeds the allowed seconds."""
        foreseen = forecast(policy, self.total, self._shape, self._share_distinct)
        if foreseen is not None and foreseen.seconds > self.request.max_seconds:
            raise TimeLimit(
                f"The classes of all {self.total} rows would take about {foreseen}, more than"
                f" {self.request.max_seconds:g}.",
                hint="Raise `max_seconds`.",
            )
        return foreseen

    def policy(self, name: str, k: int) -> Policy:
        """The policy of a release of the sweep."""
        method, refine = curve(name)
        options: dict[str, Any] = {}
        if self.numeric and find_method(method).takes_categories:
            # Other methods release numbers, so release and measure numbers here as well.
            options["recoding"] = "mean"
        return replace(
            Policy(k=k, method=method, refine=refine, **options),
            nulls=self.planned.policy.nulls,
            kinds=self.planned.policy.kinds,
            max_suppression=self.planned_policy(k).max_suppression,
            hierarchies=dict(self.records.trees(k)),
        )

    def planned_policy(self, k: int) -> Policy:
        """The policy shared by releases of this k, with the share of records they withhold."""
        withheld = share_withheld(self.records.of(k))
        return replace(self.planned.policy, max_suppression=withheld)

    def _estimate(self, loss: float) -> float | None:
        """The estimated loss of all rows for smooth data; None if unknown."""
        m, p = self.microdata.n_records, len(self.microdata.numeric)
        if m == self.total or not self.numeric:
            return None
        return float(loss * (m / self.total) ** (2 / p))
