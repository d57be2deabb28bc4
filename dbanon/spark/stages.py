"""The driver's side: it sends work to workers and decides between stages."""

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
from dbanon.partitioning.blocks import make_failure_check
from dbanon.partitioning.classes import make_space_builder
from dbanon.partitioning.cuts import Cuts, sample_positions, sample_size
from dbanon.partitioning.refine import RefinementStep, refinement_steps
from dbanon.spark.class_repartition import (
    CountClasses,
    MoveClasses,
    SampleClasses,
    concatenate_classes,
)
from dbanon.spark.layout import CLASSES, FACTS, ROWS, Layout
from dbanon.spark.pieces import TableContext, empty_microdata, guard_of_table
from dbanon.spark.refusals import infeasible_stratum
from dbanon.spark.tasks import (
    PACKETS,
    DiskCache,
    UnpackPackets,
    collect_facts,
    collect_from,
    mapped,
    shuffle,
)
from dbanon.spark.trees import MAX_HASH, Forest, Stratum, Tree, assign_tasks, hash_limit
from dbanon.spark.workers import AssignBlocks, BlockFacts, ClusterBlocks, CountLeaves, SampleRecords

# Approximate number of blocks per task if there are more than cores.
_BLOCKS_PER_TASK = 4

# Approximate rows per task that are sent together; packets of few rows are costly.
ROWS_SENT = 256

# The stage that makes classes satisfy privacy models.
GUARDS = "guards"


@dataclass
class ClusterStages:
    """The stages of a run.

    Parameters
    ----------
    context : of the table.
    disks : caches that last until the run ends.
    tasks : number of tasks that work on blocks; None for at least as many as the cores.
    """

    context: TableContext
    disks: DiskCache
    tasks: int | None = None

    def __post_init__(self) -> None:
        self._cores = 1

    @property
    def layout(self) -> Layout:
        """The layout of rows."""
        return self.context.layout

    @property
    def policy(self) -> Policy:
        """The policy with its hierarchies."""
        return self.context.policy

    def forest(
        self, rows: DataFrame, strata: Sequence[Stratum], sample_rows: Sequence[pa.Table] = ()
    ) -> Forest:
        """Cut strata into blocks by a sample, and count the blocks on all rows.

        Parameters
        ----------
        rows : packets of them.
        sample_rows : the rows with the smallest hashes: a sample, if they are enough.
        """
        self._cores = max(rows.sparkSession.sparkContext.defaultParallelism, 1)
        sizes = _sizes(self.policy)
        n_parts = {
            number: n_blocks
            for number, stratum in enumerate(strata)
            if (n_blocks := sizes.block_count_for(stratum.size)) is not None
        }
        trees = [Tree() for _ in strata]
        bare = Forest(tuple(strata), tuple(trees), np.empty(0, np.int32))
        if not n_parts:
            return self._finish_forest(bare, Counter())
        sample_sizes = {
            n: min(sample_size(n_blocks), strata[n].size) for n, n_blocks in n_parts.items()
        }
        everything = dict.fromkeys(n_parts, MAX_HASH)
        samples: list[Any] = []
        if sample_rows:
            samples = list(
                SampleRecords(self.context, bare, everything)(pa.concat_tables(sample_rows))
            )
        counts_by_stratum = {number: len(keys) for number, keys, _ in samples}
        undersampled = [n for n in n_parts if counts_by_stratum.get(n, 0) < sample_sizes[n]]
        if undersampled:
            limits = {n: hash_limit(sample_sizes[n], strata[n].size) for n in undersampled}
            samples = [sample for sample in samples if sample[0] not in limits]
            samples += collect_from(
                rows, SampleRecords(self.context, bare, limits), self._at_once, ROWS
            )
        axes = make_space_builder(
            empty_microdata(self.context), self.context.clustered, self.policy
        )(np.empty(0, np.int64)).axes
        for number, n_blocks in n_parts.items():
            stratum_samples = [sample for sample in samples if sample[0] == number]
            keys = np.concatenate([sample[1] for sample in stratum_samples])
            points = np.concatenate([sample[2] for sample in stratum_samples])
            order = np.argsort(keys, kind="stable")
            keys, points = keys[order], points[order]
            sampled_rows = sample_positions(keys, n_blocks)
            trees[number] = Tree(
                cuts=Cuts.fit(points[sampled_rows], n_blocks, 0, keys[sampled_rows], axes)
            )
        bare = replace(bare, trees=tuple(trees))
        counts = _sum_counters(
            collect_from(rows, CountLeaves(self.context, bare), self._at_once, ROWS)
        )
        return self._finish_forest(bare, counts)

    @property
    def _at_once(self) -> int | None:
        """With persons, all records of a person must be processed together."""
        return None if self.layout.persons else AT_ONCE

    def _finish_forest(
        self,
        bare: Forest,
        counts: Mapping[tuple[int, int], int],
        leaf_values: Mapping[tuple[int, int], NDArray[np.int64]] | None = None,
    ) -> Forest:
        """Merge small blocks with others, and assign blocks to tasks.

        Parameters
        ----------
        counts : the records in each leaf, by stratum and leaf.
        leaf_values : the counts of sensitive values in each leaf, if privacy models apply.
        """
        sizes = _sizes(self.policy)
        trees, loads, first = [], [], 0
        for number, (stratum, tree) in enumerate(zip(bare.strata, bare.trees, strict=True)):
            if tree.cuts is None:
                trees.append(Tree(first))
                loads.append(stratum.size)
            else:
                leaf_counts = np.array(
                    [counts.get((number, leaf), 0) for leaf in range(tree.cuts.n_blocks)], np.int64
                )
                block_of_leaf = tree.cuts.join_small(
                    leaf_counts,
                    sizes.min_records,
                    self._violates_models(number, len(leaf_counts), leaf_values),
                )
                trees.append(Tree(first, tree.cuts, block_of_leaf))
                loads += np.bincount(block_of_leaf, leaf_counts).astype(np.int64).tolist()
            first += trees[-1].n_blocks
        return Forest(bare.strata, tuple(trees), assign_tasks(loads, self._tasks(len(loads), bare)))

    def _violates_models(
        self,
        stratum: int,
        n_blocks: int,
        leaf_values: Mapping[tuple[int, int], NDArray[np.int64]] | None,
    ) -> Callable[[list[int]], bool] | None:
        """Return a check whether merged leaves violate the models; None without models."""
        if leaf_values is None:
            return None
        guard = guard_of_table(self.context)
        width = sum(guard.models.widths)
        no_counts = np.zeros(width, np.int64)
        values = np.array([leaf_values.get((stratum, leaf), no_counts) for leaf in range(n_blocks)])
        return make_failure_check(guard.allows, values)

    def _tasks(self, n_blocks: int, forest: Forest) -> int:
        if self.tasks is not None:
            return min(self.tasks, n_blocks)
        most = _BLOCKS_PER_TASK * _sizes(self.policy).size
        rows = sum(stratum.rows for stratum in forest.strata)
        return max(min(n_blocks, max(self._cores, -(-rows // most))), 1)

    def classes(
        self, rows: DataFrame, forest: Forest, released: Callable[[], StructType]
    ) -> tuple[DataFrame, list[BlockFacts], Forest]:
        """Release the rows, cache them on disk, and return their blocks' facts.

        Parameters
        ----------
        rows : packets of them.
        released : returns the internal schema of the release.
        """
        turns = _turns(self.policy, forest)
        at_once = self._at_once and max(self._at_once, ROWS_SENT * forest.n_tasks)
        assigned = mapped(rows, AssignBlocks(self.context, forest), PACKETS, at_once, ROWS)
        class_rows, facts = self._blocks(assigned, forest, turns[0], turns[1:], released)
        for turn_index, turn in enumerate(turns[1:], 1):
            next_forest = self._next_forest(class_rows, forest, facts, turn)
            moved = mapped(
                class_rows,
                UnpackPackets(MoveClasses(forest, next_forest), classes=True),
                PACKETS,
                None,
            )
            forest, previous_facts = next_forest, facts
            class_rows, facts = self._blocks(moved, forest, turn, turns[turn_index + 1 :], released)
            for block in facts:
                block.method_counts = {}
            facts[0].method_counts = dict(_sum_method_counts(previous_facts))
        return class_rows, facts, forest

    def _next_forest(
        self,
        class_rows: DataFrame,
        forest: Forest,
        facts: Sequence[BlockFacts],
        turn: RefinementStep | str | None,
    ) -> Forest:
        """Cut the classes into the blocks of the next round."""
        classes, members = Counter[int](), Counter[int]()
        for block in facts:
            classes[block.stratum] += block.classes
            members[block.stratum] += block.rows if turn == GUARDS else block.size
        sizes = _sizes(self.policy)
        n_parts = {
            number: sizes.block_count_for_classes(classes[number], members[number])
            for number in range(len(forest.strata))
            if sizes.block_count_for(members[number]) is not None
        }
        limits = {
            n: hash_limit(sample_size(n_blocks), classes[n]) for n, n_blocks in n_parts.items()
        }
        samples = collect_from(class_rows, SampleClasses(forest, limits), AT_ONCE, CLASSES)
        trees = [Tree() for _ in forest.trees]
        direction = turn.direction if isinstance(turn, RefinementStep) else 0
        for number, n_blocks in n_parts.items():
            classes_of_stratum = concatenate_classes(
                [sample for stratum_number, sample in samples if stratum_number == number]
            )
            sampled_classes = sample_positions(classes_of_stratum.keys, n_blocks)
            trees[number] = Tree(
                cuts=Cuts.fit(
                    classes_of_stratum.coordinates[sampled_classes],
                    n_blocks,
                    direction,
                    classes_of_stratum.keys[sampled_classes],
                )
            )
        bare = replace(forest, trees=tuple(trees))
        leaf_counts = collect_from(class_rows, CountClasses(forest, bare), AT_ONCE, CLASSES)
        values = None
        if turn == GUARDS:
            values = dict[tuple[int, int], NDArray[np.int64]]()
            for _, block_values in leaf_counts:
                for key, counts in block_values.items():
                    values[key] = values.get(key, 0) + counts
            self._require_feasible(forest, values)
        return self._finish_forest(bare, _sum_counters(counts for counts, _ in leaf_counts), values)

    def _require_feasible(
        self, forest: Forest, values: Mapping[tuple[int, int], NDArray[np.int64]]
    ) -> None:
        """Check that each stratum satisfies the models as one class; raises ModelInfeasible."""
        guard = guard_of_table(self.context)
        for number, stratum in enumerate(forest.strata):
            counts = sum(
                count for (stratum_number, _), count in values.items() if stratum_number == number
            )
            if not guard.allows(np.asarray(counts)):
                raise infeasible_stratum(self.policy, stratum.rows, len(forest.strata))

    def _blocks(
        self,
        assigned: DataFrame,
        forest: Forest,
        turn: RefinementStep | str | None,
        remaining_turns: Sequence[RefinementStep | str | None],
        released: Callable[[], StructType],
    ) -> tuple[DataFrame, list[BlockFacts]]:
        """Process the blocks, cache their rows, and return their facts; raises their errors."""
        names, schema = None, PACKETS
        if not remaining_turns:
            schema = _nullable(released())
            names = tuple(
                (field.name, int(field.name[1:])) for field in schema.fields if field.name[0] == "r"
            )
        # Errors of the previous stage arrive among the rows.
        work = ClusterBlocks(
            self.context,
            forest,
            None if names is None else to_arrow_schema(schema),
            turn if isinstance(turn, RefinementStep) else None,
            names,
            merges_for_models=turn == GUARDS,
            precedes_merge=remaining_turns[:1] == (GUARDS,),
        )
        shuffled = shuffle(assigned, forest.n_tasks)
        block_rows = self.disks.keep(mapped(shuffled, UnpackPackets(work), schema, None))
        facts = collect_facts(block_rows)
        rows = block_rows.where(sql.col(FACTS).isNull())
        return rows, sorted(facts, key=lambda block: block.block)


def sample_limit(policy: Policy, rows: int) -> int | None:
    """The hash limit for a sample that suffices for a single stratum; None if it is not cut."""
    n_blocks = _sizes(policy).block_count_for(rows)
    return None if n_blocks is None else hash_limit(sample_size(n_blocks), rows)


def _nullable(schema: StructType) -> StructType:
    return StructType([StructField(field.name, field.dataType, True) for field in schema.fields])


def _sizes(policy: Policy) -> Sizes:
    sizes = Sizes.of(policy)
    assert sizes is not None
    return sizes


def _turns(policy: Policy, forest: Forest) -> tuple[RefinementStep | str | None, ...]:
    """The rounds: clustering, refinement, then merging for privacy models.

    Refinement needs rounds only if strata are cut; otherwise clustering includes it.
    """
    refine = find_method(policy.method).refine
    turns: tuple[RefinementStep | str | None, ...] = (None,)
    if policy.refine and refine and any(tree.cuts is not None for tree in forest.trees):
        turns += refinement_steps(refine)
    return (*turns, GUARDS) if policy.models else turns


def _sum_counters(parts: Iterable[Counter[tuple[int, int]]]) -> Counter[tuple[int, int]]:
    total: Counter[tuple[int, int]] = Counter()
    for part in parts:
        total.update(part)
    return total


def _sum_method_counts(facts: Sequence[BlockFacts]) -> Counter[str]:
    total: Counter[str] = Counter()
    for block in facts:
        total.update(block.method_counts)
    return total
