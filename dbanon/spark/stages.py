"""The driver's side: what is asked of workers, and what is decided between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from dbanon.data.pieces import AT_ONCE
from dbanon.job.policy import Policy
from dbanon.methods import find_method
from dbanon.partitioning.blocks import Blocks as Sizes
from dbanon.partitioning.blocks import failing
from dbanon.partitioning.classes import space_of
from dbanon.partitioning.cuts import Cuts, sample_size, sampled
from dbanon.partitioning.refine import Turn, turns_of
from dbanon.spark.class_repartition import CountClasses, Move, SampleClasses, joined
from dbanon.spark.layout import CLASSES, FACTS, ROWS, Layout
from dbanon.spark.pieces import TableContext, guard_of_table, nobody
from dbanon.spark.refusals import infeasible_stratum
from dbanon.spark.tasks import PACKETS, Disks, Through, collect_facts, collect_from, mapped, shuffle
from dbanon.spark.trees import EVERYTHING, Forest, Stratum, Tree, packed, threshold
from dbanon.spark.workers import Assign, Blocks, Count, OfBlock, Sample

# Of blocks that a task works on, about, where there are more than cores.
_BLOCKS_A_TASK = 4

# Rows that are sent on together hold about so many for each task: packets of few rows are costly.
ROWS_SENT = 256

# The stage after which classes keep to privacy models.
GUARDS = "guards"


@dataclass
class Stages:
    """The stages of a run.

    Parameters
    ----------
    known : of the table.
    disks : what is kept of them until the run ends.
    tasks : how many work on blocks; None for as many as the cores, or more.
    """

    known: TableContext
    disks: Disks
    tasks: int | None = None

    def __post_init__(self) -> None:
        self._cores = 1

    @property
    def layout(self) -> Layout:
        """How rows stand."""
        return self.known.layout

    @property
    def policy(self) -> Policy:
        """The policy with its hierarchies."""
        return self.known.policy

    def forest(
        self, rows: DataFrame, strata: Sequence[Stratum], known: Sequence[pa.Table] = ()
    ) -> Forest:
        """How strata are cut into blocks: found on a sample, counted on all rows.

        Parameters
        ----------
        rows : packets of them.
        known : rows of the smallest hashes, all up to some hash: a sample, where they are enough.
        """
        self._cores = max(rows.sparkSession.sparkContext.defaultParallelism, 1)
        sizes = _sizes(self.policy)
        parts = {
            number: cut
            for number, one in enumerate(strata)
            if (cut := sizes.cut_at(one.size)) is not None
        }
        trees = [Tree() for _ in strata]
        bare = Forest(tuple(strata), tuple(trees), np.empty(0, np.int32))
        if not parts:
            return self._finished(bare, Counter())
        wanted = {n: min(sample_size(cut), strata[n].size) for n, cut in parts.items()}
        everything = dict.fromkeys(parts, EVERYTHING)
        found: list[Any] = []
        if known:
            found = list(Sample(self.known, bare, everything)(pa.concat_tables(known)))
        have = {number: len(keys) for number, keys, _ in found}
        lacking = [n for n in parts if have.get(n, 0) < wanted[n]]
        if lacking:
            limits = {n: threshold(wanted[n], strata[n].size) for n in lacking}
            found = [one for one in found if one[0] not in limits]
            found += collect_from(rows, Sample(self.known, bare, limits), self._at_once, ROWS)
        axes = space_of(nobody(self.known), self.known.clustered, self.policy)(
            np.empty(0, np.int64)
        ).axes
        for number, cut in parts.items():
            own = [one for one in found if one[0] == number]
            keys = np.concatenate([one[1] for one in own])
            points = np.concatenate([one[2] for one in own])
            order = np.argsort(keys, kind="stable")
            keys, points = keys[order], points[order]
            chosen = sampled(keys, cut)
            trees[number] = Tree(cuts=Cuts.fit(points[chosen], cut, 0, keys[chosen], axes))
        bare = replace(bare, trees=tuple(trees))
        counts = _added(collect_from(rows, Count(self.known, bare), self._at_once, ROWS))
        return self._finished(bare, counts)

    @property
    def _at_once(self) -> int | None:
        """All records of a person are looked at together."""
        return None if self.layout.persons else AT_ONCE

    def _finished(
        self,
        bare: Forest,
        counts: Mapping[tuple[int, int], int],
        held: Mapping[tuple[int, int], NDArray[np.int64]] | None = None,
    ) -> Forest:
        """The trees with small blocks joined to others, and the tasks of all.

        Parameters
        ----------
        counts : what lies in each part of the cuts, by stratum and part.
        held : where privacy models are to be kept to, the counts of sensitive values there.
        """
        sizes = _sizes(self.policy)
        trees, loads, first = [], [], 0
        for number, (stratum, tree) in enumerate(zip(bare.strata, bare.trees, strict=True)):
            if tree.cuts is None:
                trees.append(Tree(first))
                loads.append(stratum.size)
            else:
                own = np.array(
                    [counts.get((number, leaf), 0) for leaf in range(tree.cuts.n_blocks)], np.int64
                )
                owner = tree.cuts.joined(own, sizes.least, self._failing(number, len(own), held))
                trees.append(Tree(first, tree.cuts, owner))
                loads += np.bincount(owner, own).astype(np.int64).tolist()
            first += trees[-1].n_blocks
        return Forest(bare.strata, tuple(trees), packed(loads, self._tasks(len(loads), bare)))

    def _failing(
        self,
        stratum: int,
        n_blocks: int,
        held: Mapping[tuple[int, int], NDArray[np.int64]] | None,
    ) -> Callable[[list[int]], bool] | None:
        """Whether parts of a stratum together do not keep to the models; None where none are."""
        if held is None:
            return None
        guard = guard_of_table(self.known)
        width = sum(guard.models.widths)
        nothing = np.zeros(width, np.int64)
        values = np.array([held.get((stratum, leaf), nothing) for leaf in range(n_blocks)])
        return failing(guard.allows, values)

    def _tasks(self, n_blocks: int, forest: Forest) -> int:
        if self.tasks is not None:
            return min(self.tasks, n_blocks)
        most = _BLOCKS_A_TASK * _sizes(self.policy).size
        rows = sum(one.rows for one in forest.strata)
        return max(min(n_blocks, max(self._cores, -(-rows // most))), 1)

    def classes(
        self, rows: DataFrame, forest: Forest, released: Callable[[], StructType]
    ) -> tuple[DataFrame, list[OfBlock], Forest]:
        """The released rows, kept on disks, and what their blocks tell.

        Parameters
        ----------
        rows : packets of them.
        released : the columns of the release as they stand.
        """
        turns = _turns(self.policy, forest)
        at_once = self._at_once and max(self._at_once, ROWS_SENT * forest.n_tasks)
        assigned = mapped(rows, Assign(self.known, forest), PACKETS, at_once, ROWS)
        held, facts = self._blocks(assigned, forest, turns[0], turns[1:], released)
        for place, turn in enumerate(turns[1:], 1):
            following = self._moved(held, forest, facts, turn)
            moved = mapped(held, Through(Move(forest, following), classes=True), PACKETS, None)
            forest, before = following, facts
            held, facts = self._blocks(moved, forest, turn, turns[place + 1 :], released)
            for one in facts:
                one.told = {}
            facts[0].told = dict(_count_facts(before))
        return held, facts, forest

    def _moved(
        self, held: DataFrame, forest: Forest, facts: Sequence[OfBlock], turn: Turn | str | None
    ) -> Forest:
        """Where the blocks of a turn are."""
        classes, members = Counter[int](), Counter[int]()
        for one in facts:
            classes[one.stratum] += one.classes
            members[one.stratum] += one.rows if turn == GUARDS else one.size
        sizes = _sizes(self.policy)
        parts = {
            number: sizes.parts_of_classes(classes[number], members[number])
            for number in range(len(forest.strata))
            if sizes.cut_at(members[number]) is not None
        }
        limits = {n: threshold(sample_size(cut), classes[n]) for n, cut in parts.items()}
        told = collect_from(held, SampleClasses(forest, limits), AT_ONCE, CLASSES)
        trees = [Tree() for _ in forest.trees]
        across = turn.direction if isinstance(turn, Turn) else 0
        for number, cut in parts.items():
            own = joined([found for which, found in told if which == number])
            chosen = sampled(own.keys, cut)
            trees[number] = Tree(cuts=Cuts.fit(own.places[chosen], cut, across, own.keys[chosen]))
        bare = replace(forest, trees=tuple(trees))
        found = collect_from(held, CountClasses(forest, bare), AT_ONCE, CLASSES)
        values = None
        if turn == GUARDS:
            values = dict[tuple[int, int], NDArray[np.int64]]()
            for _, own_values in found:
                for key, counts in own_values.items():
                    values[key] = values.get(key, 0) + counts
            self._require_feasible(forest, values)
        return self._finished(bare, _added(counts for counts, _ in found), values)

    def _require_feasible(
        self, forest: Forest, values: Mapping[tuple[int, int], NDArray[np.int64]]
    ) -> None:
        """Check that each stratum as one class keeps to the models; raises ModelInfeasible."""
        guard = guard_of_table(self.known)
        for number, stratum in enumerate(forest.strata):
            counts = sum(count for (own, _), count in values.items() if own == number)
            if not guard.allows(np.asarray(counts)):
                raise infeasible_stratum(self.policy, stratum.rows, len(forest.strata))

    def _blocks(
        self,
        assigned: DataFrame,
        forest: Forest,
        turn: Turn | str | None,
        following: Sequence[Turn | str | None],
        released: Callable[[], StructType],
    ) -> tuple[DataFrame, list[OfBlock]]:
        """What blocks give, kept on disks, and what they tell; errors are raised."""
        names, schema = None, PACKETS
        if not following:
            schema = _nullable(released())
            names = tuple(
                (one.name, int(one.name[1:])) for one in schema.fields if one.name[0] == "r"
            )
        # An error of the stage before travels on among the rows.
        work = Blocks(
            self.known,
            forest,
            None if names is None else to_arrow_schema(schema),
            turn if isinstance(turn, Turn) else None,
            names,
            guards=turn == GUARDS,
            guarded=following[:1] == (GUARDS,),
        )
        shuffled = shuffle(assigned, forest.n_tasks)
        kept = self.disks.keep(mapped(shuffled, Through(work), schema, None))
        facts = collect_facts(kept)
        rows = kept.where(sql.col(FACTS).isNull())
        return rows, sorted(facts, key=lambda one: one.block)


def sample_limit(policy: Policy, rows: int) -> int | None:
    """The hash up to which rows are enough for one stratum of all; None where none is cut."""
    parts = _sizes(policy).cut_at(rows)
    return None if parts is None else threshold(sample_size(parts), rows)


def _nullable(schema: StructType) -> StructType:
    return StructType([StructField(one.name, one.dataType, True) for one in schema.fields])


def _sizes(policy: Policy) -> Sizes:
    sizes = Sizes.of(policy)
    assert sizes is not None
    return sizes


def _turns(policy: Policy, forest: Forest) -> tuple[Turn | str | None, ...]:
    """What is done to blocks: classes are found, then refined, then kept to models.

    They are refined where strata are cut; others were at once.
    """
    refine = find_method(policy.method).refine
    turns: tuple[Turn | str | None, ...] = (None,)
    if policy.refine and refine and any(one.cuts is not None for one in forest.trees):
        turns += turns_of(refine)
    return (*turns, GUARDS) if policy.models else turns


def _added(parts: Iterable[Counter[tuple[int, int]]]) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for part in parts:
        found.update(part)
    return found


def _count_facts(facts: Sequence[OfBlock]) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in facts:
        found.update(one.told)
    return found
