"""Sweep: releases of a table that are tried, and made nowhere, for what they lose and risk."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.advice.answer import LeftOut, Sweep
from dbanon.advice.profile import Count
from dbanon.advice.recommend import BENDS, Point, promising, with_frontier
from dbanon.advice.request import AdviceRequest, are_numbers, curve, usual_methods
from dbanon.data.microdata import Microdata
from dbanon.errors import DbanonError, TimeLimit, TooFewRecords, counted
from dbanon.hierarchy.leaves import only
from dbanon.job.policy import Policy
from dbanon.job.requirements import require_kinds
from dbanon.measures.figure import Parameters
from dbanon.methods import find_method
from dbanon.methods.forecast import Shape
from dbanon.partitioning.forecast import Foreseen, forecast, quickest
from dbanon.partitioning.partition_for import partition_for
from dbanon.release.evaluation import evaluation_of, pairs_of
from dbanon.release.recode import recode
from dbanon.run.plan import Plan
from dbanon.run.totals import totals_of

# Records that are linked where columns are not all numbers; of more a draw.
LINKED = 2_500
# CPU seconds after which nothing is tried that will not be recommended as far as can be foreseen.
SPENT = 4.0

Tick = Callable[[float], None]
Tried = Callable[[Point, Policy], None]


class _TimeUp(Exception):
    """The time that there was is over. Never leaves this module."""


def sweep(
    request: AdviceRequest,
    planned: Plan,
    microdata: Microdata,
    small: int,
    told: Tick,
    tried: Tried = lambda point, policy: None,
) -> Sweep:
    """Try releases with every method and k that is wished for, the cheapest first.

    Methods without refinement come before those with, large classes before small ones, and those
    that bends are looked for in before others (for refinements: ``_Todo``). The first release is
    always tried to its end.

    Parameters
    ----------
    small : the first count of withheld rows that is told as it is.
    told : called with the share done; what it raises ends the sweep.
    tried : called with each release, its frontier not known yet, and the policy that all share.

    Raises
    ------
    TooFewRecords : there are fewer records than the smallest k.
    DbanonError : no release could be tried; the error of the first method.
    """
    attributes, total = microdata.attributes, microdata.n_records
    trees = planned.trees(microdata, lambda: told(0.0))
    microdata = _sampled(microdata, request)
    ks = [k for k in request.k if k <= microdata.n_records]
    if not ks:
        raise TooFewRecords(
            f"The table has {counted(total, 'row')}, fewer than k = {request.k[0]}.",
            hint="Choose a smaller k.",
        )
    numeric = are_numbers(attributes, trees)
    trial = _Trial(planned, microdata, numeric, small, total, trees, request)
    names = dict.fromkeys(request.methods or trial.usual_methods())
    points: dict[tuple[str, int], Point] = {}
    left_out: dict[str, DbanonError] = {}
    todo = _Todo(request, names, ks)
    end, untried, ended = time.monotonic() + request.time_limit, 0, False

    def tick(share: float) -> None:
        nonlocal ended
        try:
            told(todo.share(share))
        except BaseException:
            # One of ours would else be taken for a method's.
            ended = True
            raise
        if points and time.monotonic() > end:
            raise _TimeUp

    while (release := todo.next(list(points.values()))) is not None:
        try:
            tick(0.0)
            if point := trial.run(*release, tick):
                points[release] = point
                tried(point, planned.policy)
        except _TimeUp:
            untried = 1 + len(todo.left)
            break
        except DbanonError as error:
            if ended:
                raise
            left_out[release[0]] = error.with_traceback(None)  # It would hold this frame.
            todo.leave_out(release[0])
    if not points:
        raise _refusal(left_out)
    ordered = [points[at] for at in ((n, k) for n in names for k in ks) if at in points]
    return Sweep(
        trial.measure,
        tuple(with_frontier(ordered)),
        microdata.n_records,
        total,
        LINKED if not numeric and microdata.n_records > LINKED else None,
        untried,
        0 if untried else len(todo.left),
        tuple(LeftOut(name, e.code, e.message) for name, e in left_out.items()),
    )


def _refusal(left_out: dict[str, DbanonError]) -> DbanonError:
    """The error of the first method, removed from those that the caller's frame holds."""
    if not left_out:
        return TooFewRecords("All rows would be withheld.")
    return left_out.pop(next(iter(left_out)))


def _sampled(microdata: Microdata, request: AdviceRequest) -> Microdata:
    """The records that releases are tried on."""
    total = microdata.n_records
    if total <= request.sample:
        return microdata
    sample = only(microdata, _drawn(microdata, request))
    # As many withheld beside these as beside all.
    return replace(sample, withheld=microdata.withheld * sample.n_records // total)


def _drawn(microdata: Microdata, request: AdviceRequest) -> NDArray[np.int64]:
    """The records of a sample, int64 in their order; where persons have several, whole persons."""
    rng = np.random.default_rng(request.seed)
    persons = microdata.entities
    if persons is None:
        drawn = rng.choice(microdata.n_records, request.sample, replace=False)
        return np.sort(drawn).astype(np.int64)
    each = np.bincount(persons)
    order = rng.permutation(np.flatnonzero(each))
    chosen = order[np.cumsum(each[order]) <= request.sample]
    return np.flatnonzero(np.isin(persons, chosen)).astype(np.int64)


class _Todo:
    """What is to be tried, one after the other.

    Of refinements those come first that may be recommended by what was tried before; unless methods
    are named, the others are tried only where that takes little time.
    """

    def __init__(self, request: AdviceRequest, names: Iterable[str], ks: Sequence[int]) -> None:
        self._wishes = request
        by_cost = sorted(names, key=_is_refined)
        self.left = [(name, k) for name in by_cost for k in _in_order(ks)]
        self._all = len(self.left)

    def next(self, points: Sequence[Point]) -> tuple[str, int] | None:
        """Taken out of ``left``; None where the others are not worth their time.

        Parameters
        ----------
        points : what was tried so far.
        """
        if not self.left:
            return None
        release: tuple[str, int] | None = self.left[0]
        if points and _is_refined(self.left[0][0]) and not self._wishes.methods:
            limits = self._wishes.max_risk, self._wishes.max_loss
            release = promising(points, self.left, *limits) or self._cheap(points)
        if release is not None:
            self.left.remove(release)
        return release

    def _cheap(self, points: Sequence[Point]) -> tuple[str, int] | None:
        """The first, unless it is foreseen to take more time than is left for what is not needed.

        As long as the longest of its kind so far.
        """
        spent = sum(point.seconds for point in points)
        longest = max((p.seconds for p in points if p.curve == self.left[0][0]), default=0.0)
        return self.left[0] if spent + longest < SPENT else None

    def leave_out(self, name: str) -> None:
        """Try no other release of this method."""
        self.left = [one for one in self.left if one[0] != name]

    def share(self, share: float) -> float:
        """What is done of all, when of the release that was taken last this share is."""
        return (self._all - len(self.left) - 1 + share) / self._all


def _is_refined(name: str) -> bool:
    return curve(name)[1] is not None


def _in_order(ks: Sequence[int]) -> list[int]:
    """Those that bends are looked for in first, of these the largest."""
    return sorted(ks, key=lambda k: (k not in BENDS, -k))


@dataclass(frozen=True, eq=False)
class _Trial:
    """What all tried releases share."""

    planned: Plan
    microdata: Microdata
    numeric: bool
    small: int
    total: int
    trees: Mapping[str, Any]
    request: AdviceRequest

    @property
    def measure(self) -> str:
        return "sse_loss" if self.numeric else "iloss"

    def run(self, name: str, k: int, tick: Tick) -> Point | None:
        """Find classes, recode and measure them; None where all rows would be withheld.

        Raises
        ------
        TimeLimit : by forecast all rows would take more seconds than may be.
        """
        started = time.process_time()
        policy = self._policy(name, k)
        foreseen = self._foreseen(policy)
        policy.guaranteed().require(find_method(policy.method))
        require_kinds(policy, self.microdata.attributes)
        found = partition_for(
            self.microdata, policy, trees=self.planned.trees, tick=lambda s: tick(0.6 * s)
        )
        totals = totals_of(self.microdata)
        release = recode(self.microdata, found, policy, totals, self.planned.trees)
        hierarchies = policy.hierarchies
        if release.partition.n_suppressed:
            released = np.flatnonzero(release.partition.labels >= 0)
            hierarchies = self.planned.trees(only(self.microdata, released))
        pairs = pairs_of(
            self.microdata, release.partition, release.columns, hierarchies, found.measures
        )
        figures = evaluation_of(
            pairs,
            Parameters(sample=None if self.numeric else LINKED, seed=self.request.seed),
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
            suppressed=Count(figures.suppressed, self.microdata.n_read, self.small),
            classes=release.partition.n_classes,
            seconds=round(time.process_time() - started, 3),
            estimate=self._estimate(release.loss),
            forecast=None if foreseen is None else foreseen.to_dict()["seconds"],
            recoding=None if policy.recoding == find_method(method).recoding else policy.recoding,
        )

    def usual_methods(self) -> tuple[str, ...]:
        """The methods to try where none is named; one alone where these would take too long."""
        usual = usual_methods(self.numeric)
        first = quickest(
            usual[:1], self.total, self._shape, self.request.max_seconds, self._different
        )
        return usual if first in usual else (first,)

    @property
    def _shape(self) -> Shape:
        return Shape.of(self.microdata.attributes, self.trees)

    @cached_property
    def _different(self) -> float:
        """The share of the rows that are tried whose quasi-identifiers no row before has."""
        if self.numeric or not self.microdata.n_records:
            return 1.0
        rows = np.column_stack([self.microdata.numbers, self.microdata.codes])
        return len(np.unique(rows, axis=0)) / len(rows)

    def _foreseen(self, policy: Policy) -> Foreseen | None:
        """What all rows would take, where that is no more than they may."""
        found = forecast(policy, self.total, self._shape, self._different)
        if found is not None and found.seconds > self.request.max_seconds:
            raise TimeLimit(
                f"The classes of all {self.total} rows would take about {found}, more than"
                f" {self.request.max_seconds:g}.",
                hint="Raise `max_seconds`.",
            )
        return found

    def _policy(self, name: str, k: int) -> Policy:
        method, refine = curve(name)
        options: dict[str, Any] = {}
        if self.numeric and find_method(method).takes_categories:
            # Beside the others: what is released as numbers is measured as numbers.
            options["recoding"] = "mean"
        return replace(
            Policy(k=k, method=method, refine=refine, **options),
            nulls=self.planned.policy.nulls,
            max_suppression=self.planned.policy.max_suppression,
            hierarchies=dict(self.trees),
        )

    def _estimate(self, loss: float) -> float | None:
        """About what all rows would lose, of smooth data; None where it is not known."""
        m, p = self.microdata.n_records, len(self.microdata.numeric)
        if m == self.total or not self.numeric:
            return None
        return float(loss * (m / self.total) ** (2 / p))
