"""The stages of a run, as the driver starts them on the workers.

A stratum is cut by a tree of cuts, which are chosen from a sample. Small leaves of the tree are
joined to blocks. Each stage clusters, refines or merges within its blocks; the next stage cuts the
strata differently and moves complete classes to its own blocks. A forest has the trees of all
strata. Records and classes reach the workers in packets: many rows in one binary value
(``layout``). A guard tells whether counts of sensitive values satisfy the privacy models.

A sample consists of the records or classes whose keys have the smallest hashes, so it does not
depend on how rows are distributed over tasks. A hash limit is the largest hash in the sample.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from dbanon.data.pieces import PIECE_RECORDS
from dbanon.extensions.spark.class_repartition import (
    CountClasses,
    MoveClasses,
    SampleClasses,
    concatenate_classes,
)
from dbanon.extensions.spark.layout import CLASSES, FACTS, ROWS, Layout
from dbanon.extensions.spark.pieces import TableContext, build_empty_microdata, build_table_guard
from dbanon.extensions.spark.refusals import infeasible_stratum
from dbanon.extensions.spark.tasks import (
    PACKETS,
    DiskCache,
    UnpackPackets,
    apply_to_pieces,
    collect_facts,
    collect_from,
    shuffle,
)
from dbanon.extensions.spark.trees import MAX_HASH, Forest, Stratum, Tree, assign_tasks, hash_limit
from dbanon.extensions.spark.workers import (
    AssignBlocks,
    BlockFacts,
    ClusterBlocks,
    CountLeaves,
    SampleRecords,
    StratumSample,
)
from dbanon.job.policy import Policy
from dbanon.methods import find_method
from dbanon.partitioning.blocks import Blocks as BlockSizes
from dbanon.partitioning.blocks import make_violation_check
from dbanon.partitioning.classes import make_space_builder
from dbanon.partitioning.cuts import Cuts, sample_positions, sample_size
from dbanon.partitioning.refine import RefinementStep, refinement_steps

# Approximate number of blocks per task if there are more blocks than cores.
_BLOCKS_PER_TASK = 4

# Approximate number of rows that a piece sends to each task, in a packet of its own. Packets of few
# rows are costly.
ROWS_SENT_PER_TASK = 256

# A sample shows that a leaf is large enough if a smaller leaf would have so many sampled records
# with a probability of at most exp(-_CERTAINTY). The margin is wide, since the same sample has
# decided where leaves are cut. A leaf that is too small costs loss, not privacy: every release is
# counted again.
_CERTAINTY = 50.0

# The name of the stage that merges classes until they satisfy privacy models.
MERGE_FOR_MODELS = "merge_for_models"


@dataclass
class ClusterStages:
    """Runs the stages that cut, cluster, refine and release a table.

    Parameters
    ----------
    context : what workers need to know about the whole table.
    disk_cache : keeps the rows between stages, until the run ends.
    n_tasks : number of tasks that work on blocks; None for at least one per core.
    """

    context: TableContext
    disk_cache: DiskCache
    n_tasks: int | None = None

    def __post_init__(self) -> None:
        # ``cut_strata`` sets the actual number.
        self._cores = 1

    @property
    def layout(self) -> Layout:
        """The columns of the rows."""
        return self.context.layout

    @property
    def policy(self) -> Policy:
        """The policy with its hierarchies."""
        return self.context.policy

    def cut_strata(
        self, rows: DataFrame, strata: Sequence[Stratum], sample_rows: Sequence[pa.Table] = ()
    ) -> Forest:
        """Cut strata into blocks by a sample of records, and count the records of the blocks.

        The rows are not read if the sample has all of them, or shows that no leaf is too small.
        Then the counts only tell how to distribute blocks over tasks, and estimates suffice.

        Parameters
        ----------
        rows : packets of all rows.
        sample_rows : the rows with the smallest hashes, which are used if they are enough.
        """
        self._cores = max(rows.sparkSession.sparkContext.defaultParallelism, 1)
        # Strata and blocks are measured in clustered units: persons if k counts persons, or rows.
        block_sizes = _require_block_sizes(self.policy)
        n_blocks_by_stratum = {
            number: n_blocks
            for number, stratum in enumerate(strata)
            # None for a stratum that is so small that it is not cut.
            if (n_blocks := block_sizes.block_count_for(stratum.n_units)) is not None
        }
        # Without cuts, each tree is one block.
        trees = [Tree() for _ in strata]
        uncut_forest = Forest(tuple(strata), tuple(trees), np.empty(0, np.int32))
        if not n_blocks_by_stratum:
            return self._finish_forest(uncut_forest, Counter())
        samples = self._sample_strata(rows, uncut_forest, n_blocks_by_stratum, sample_rows)
        # The axes describe the coordinates: the hierarchy of each, if any, and its width.
        # They do not depend on records, so a space without records has them.
        axes = make_space_builder(
            build_empty_microdata(self.context), self.context.clustered_statistics, self.policy
        )(np.empty(0, np.int64)).axes
        leaf_counts, are_large = Counter[tuple[int, int]](), True
        for number, n_blocks in n_blocks_by_stratum.items():
            stratum_samples = [sample for sample in samples if sample.stratum_number == number]
            keys = np.concatenate([sample.keys for sample in stratum_samples])
            points = np.concatenate([sample.coordinates for sample in stratum_samples])
            order = np.argsort(keys, kind="stable")
            keys, points = keys[order], points[order]
            sampled_rows = sample_positions(keys, n_blocks)
            cuts = Cuts.fit(
                points[sampled_rows],
                n_blocks,
                # Across the direction with the largest variance.
                direction=0,
                keys=keys[sampled_rows],
                axes=axes,
            )
            trees[number] = Tree(cuts=cuts)
            sample_counts = np.bincount(cuts.assign(points, keys), minlength=n_blocks)
            n_units = strata[number].n_units
            for leaf, count in enumerate(sample_counts.tolist()):
                leaf_counts[number, leaf] = count * n_units // len(keys)
            are_large &= len(keys) == n_units or _shows_large(
                sample_counts, n_units, block_sizes.min_records
            )
        cut_forest = replace(uncut_forest, trees=tuple(trees))
        if not are_large:
            leaf_counts = _sum_counters(
                collect_from(
                    rows, CountLeaves(self.context, cut_forest), self._rows_per_piece, ROWS
                )
            )
        return self._finish_forest(cut_forest, leaf_counts)

    def _sample_strata(
        self,
        rows: DataFrame,
        forest: Forest,
        n_blocks_by_stratum: Mapping[int, int],
        sample_rows: Sequence[pa.Table],
    ) -> list[StratumSample]:
        """Return a sample of each stratum to cut; see ``cut_strata`` for its rows.

        Parameters
        ----------
        forest : the strata, without cuts.
        """
        sample_sizes = {
            n: min(sample_size(n_blocks), forest.strata[n].n_units)
            for n, n_blocks in n_blocks_by_stratum.items()
        }
        no_hash_limits = dict.fromkeys(n_blocks_by_stratum, MAX_HASH)
        samples: list[StratumSample] = []
        if sample_rows:
            samples = list(
                SampleRecords(self.context, forest, no_hash_limits)(pa.concat_tables(sample_rows))
            )
        counts_by_stratum = {sample.stratum_number: len(sample.keys) for sample in samples}
        undersampled_strata = [
            n for n in n_blocks_by_stratum if counts_by_stratum.get(n, 0) < sample_sizes[n]
        ]
        if undersampled_strata:
            hash_limits = {
                n: hash_limit(sample_sizes[n], forest.strata[n].n_units)
                for n in undersampled_strata
            }
            samples = [sample for sample in samples if sample.stratum_number not in hash_limits]
            samples += collect_from(
                rows,
                SampleRecords(self.context, forest, hash_limits),
                self._rows_per_piece,
                ROWS,
            )
        return samples

    @property
    def _rows_per_piece(self) -> int | None:
        """Rows to process together; None, for whole partitions, if persons have several rows."""
        return None if self.layout.has_persons else PIECE_RECORDS

    def _finish_forest(
        self,
        cut_forest: Forest,
        leaf_counts: Mapping[tuple[int, int], int],
        sensitive_counts: Mapping[tuple[int, int], NDArray[np.int64]] | None = None,
    ) -> Forest:
        """Merge small leaves into blocks that are large enough, and assign blocks to tasks.

        Parameters
        ----------
        cut_forest : the cuts of each stratum.
        leaf_counts : the number of units (records or persons) by stratum number and leaf; if
            classes are merged for privacy models, the number of records.
        sensitive_counts : the counts of sensitive values, int64 (s,), by stratum number and leaf;
            None if no privacy models apply.
        """
        block_sizes = _require_block_sizes(self.policy)
        trees, block_loads, first_block = [], [], 0
        for number, (stratum, tree) in enumerate(
            zip(cut_forest.strata, cut_forest.trees, strict=True)
        ):
            if tree.cuts is None:
                trees.append(Tree(first_block))
                block_loads.append(stratum.n_units)
            else:
                counts = np.array(
                    [leaf_counts.get((number, leaf), 0) for leaf in range(tree.cuts.n_blocks)],
                    np.int64,
                )
                block_of_leaf = tree.cuts.join_small(
                    counts,
                    block_sizes.min_records,
                    self._make_violation_check(number, len(counts), sensitive_counts),
                )
                trees.append(Tree(first_block, tree.cuts, block_of_leaf))
                block_loads += np.bincount(block_of_leaf, counts).astype(np.int64).tolist()
            first_block += trees[-1].n_blocks
        n_tasks = self._choose_task_count(len(block_loads), cut_forest)
        return Forest(cut_forest.strata, tuple(trees), assign_tasks(block_loads, n_tasks))

    def _make_violation_check(
        self,
        stratum_number: int,
        n_leaves: int,
        sensitive_counts: Mapping[tuple[int, int], NDArray[np.int64]] | None,
    ) -> Callable[[list[int]], bool] | None:
        """Return a function that tells whether leaves, once merged, violate the privacy models.

        The result is None if no models apply. The parameters are as in ``_finish_forest``.
        """
        if sensitive_counts is None:
            return None
        guard = build_table_guard(self.context)
        # ``widths`` has the number of values of each sensitive column.
        no_counts = np.zeros(sum(guard.models.widths), np.int64)
        # A leaf without an entry has no class.
        counts = np.array(
            [sensitive_counts.get((stratum_number, leaf), no_counts) for leaf in range(n_leaves)]
        )
        return make_violation_check(guard.allows, counts)

    def _choose_task_count(self, n_blocks: int, forest: Forest) -> int:
        """Return how many tasks work on blocks: as requested, or at least one per core."""
        if self.n_tasks is not None:
            return min(self.n_tasks, n_blocks)
        max_rows_per_task = _BLOCKS_PER_TASK * _require_block_sizes(self.policy).size
        n_rows = sum(stratum.n_rows for stratum in forest.strata)
        return max(min(n_blocks, max(self._cores, -(-n_rows // max_rows_per_task))), 1)

    def cluster_and_release(
        self, rows: DataFrame, forest: Forest, release_schema: Callable[[], StructType]
    ) -> tuple[DataFrame, list[BlockFacts], Forest]:
        """Return the released rows, cached on disk, the facts of the blocks, and the last forest.

        Parameters
        ----------
        rows : packets of the source rows.
        release_schema : returns the internal schema of the release.
        """
        stages = _list_stages(self.policy, forest)
        rows_per_piece = self._rows_per_piece and max(
            self._rows_per_piece, ROWS_SENT_PER_TASK * forest.n_tasks
        )
        assigned_packets = apply_to_pieces(
            rows, AssignBlocks(self.context, forest), PACKETS, rows_per_piece, ROWS
        )
        rows, block_facts = self._process_blocks(
            assigned_packets, forest, stages[0], stages[1:], release_schema
        )
        # The first stage clusters; the others refine or merge the classes.
        for stage_number, stage in enumerate(stages[1:], 1):
            next_forest = self._cut_for_stage(rows, forest, block_facts, stage)
            moved_packets = apply_to_pieces(
                rows,
                UnpackPackets(MoveClasses(forest, next_forest), has_classes=True),
                PACKETS,
                rows_per_piece=None,
            )
            forest, previous_facts = next_forest, block_facts
            rows, block_facts = self._process_blocks(
                moved_packets, forest, stage, stages[stage_number + 1 :], release_schema
            )
            # The method's counts are those of clustering, as on one machine. The first block takes
            # the sum, because the counts of all blocks are added up later.
            for block in block_facts:
                block.method_counts = {}
            block_facts[0].method_counts = dict(_sum_method_counts(previous_facts))
        return rows, block_facts, forest

    def _cut_for_stage(
        self,
        class_rows: DataFrame,
        forest: Forest,
        block_facts: Sequence[BlockFacts],
        stage: RefinementStep | str | None,
    ) -> Forest:
        """Cut the strata into the blocks of the next stage, which contain complete classes.

        Parameters
        ----------
        class_rows : packets of the classes that the previous stage made.
        forest, block_facts : the blocks of the previous stage, and its reports about them.
        stage : the next stage: a step of refinement, or ``MERGE_FOR_MODELS``.
        """
        # By stratum number.
        n_classes, n_members = Counter[int](), Counter[int]()
        for block in block_facts:
            n_classes[block.stratum_number] += block.n_classes
            # Privacy models apply to records; k may count persons.
            n_members[block.stratum_number] += (
                block.n_rows if stage == MERGE_FOR_MODELS else block.n_units
            )
        block_sizes = _require_block_sizes(self.policy)
        n_blocks_by_stratum = {
            number: block_sizes.block_count_for_classes(n_classes[number], n_members[number])
            for number in range(len(forest.strata))
            if block_sizes.block_count_for(n_members[number]) is not None
        }
        hash_limits = {
            n: hash_limit(sample_size(n_blocks), n_classes[n])
            for n, n_blocks in n_blocks_by_stratum.items()
        }
        samples = collect_from(
            class_rows, SampleClasses(forest, hash_limits), PIECE_RECORDS, CLASSES
        )
        trees = [Tree() for _ in forest.trees]
        direction = stage.direction if isinstance(stage, RefinementStep) else 0
        # Classes are cut by their means, so hierarchies play no part here.
        for number, n_blocks in n_blocks_by_stratum.items():
            classes_of_stratum = concatenate_classes(
                [sample for stratum_number, sample in samples if stratum_number == number]
            )
            sampled_classes = sample_positions(classes_of_stratum.keys, n_blocks)
            trees[number] = Tree(
                cuts=Cuts.fit(
                    classes_of_stratum.coordinates[sampled_classes],
                    n_blocks,
                    direction=direction,
                    keys=classes_of_stratum.keys[sampled_classes],
                )
            )
        cut_forest = replace(forest, trees=tuple(trees))
        leaf_counts = collect_from(
            class_rows, CountClasses(forest, cut_forest), PIECE_RECORDS, CLASSES
        )
        sensitive_counts = None
        if stage == MERGE_FOR_MODELS:
            sensitive_counts = dict[tuple[int, int], NDArray[np.int64]]()
            for _, task_counts in leaf_counts:
                for leaf, counts in task_counts.items():
                    sensitive_counts[leaf] = sensitive_counts.get(leaf, 0) + counts
            self._require_feasible(forest, sensitive_counts)
        return self._finish_forest(
            cut_forest, _sum_counters(sizes for sizes, _ in leaf_counts), sensitive_counts
        )

    def _require_feasible(
        self, forest: Forest, sensitive_counts: Mapping[tuple[int, int], NDArray[np.int64]]
    ) -> None:
        """Check that each stratum satisfies the models as one class; raises ModelInfeasible."""
        guard = build_table_guard(self.context)
        for number, stratum in enumerate(forest.strata):
            counts = sum(
                leaf_counts
                for (stratum_number, _), leaf_counts in sensitive_counts.items()
                if stratum_number == number
            )
            if not guard.allows(np.asarray(counts)):
                raise infeasible_stratum(self.policy, stratum.n_rows, len(forest.strata))

    def _process_blocks(
        self,
        packets: DataFrame,
        forest: Forest,
        stage: RefinementStep | str | None,
        remaining_stages: Sequence[RefinementStep | str | None],
        release_schema: Callable[[], StructType],
    ) -> tuple[DataFrame, list[BlockFacts]]:
        """Run a stage: process the blocks, and return their rows, cached on disk, and their facts.

        Parameters
        ----------
        packets : packets of the rows, each with the task that works on its blocks.
        stage : the step of refinement, ``MERGE_FOR_MODELS``, or None to cluster.
        remaining_stages : the later stages; if there is none, this one releases the rows.
        release_schema : see ``cluster_and_release``.

        Raises
        ------
        DbanonError : a block cannot be processed.
        """
        released_column_indices, schema = None, PACKETS
        if not remaining_stages:
            schema = _make_nullable(release_schema())
            # Columns r0, r1, … are those of the quasi-identifiers.
            released_column_indices = tuple(
                (field.name, int(field.name[1:])) for field in schema.fields if field.name[0] == "r"
            )
        work = ClusterBlocks(
            self.context,
            forest,
            schema=None if released_column_indices is None else to_arrow_schema(schema),
            refinement_step=stage if isinstance(stage, RefinementStep) else None,
            released_column_indices=released_column_indices,
            merges_for_models=stage == MERGE_FOR_MODELS,
            precedes_merge=remaining_stages[:1] == (MERGE_FOR_MODELS,),
        )
        shuffled_packets = shuffle(packets, forest.n_tasks)
        rows_and_facts = self.disk_cache.keep(
            apply_to_pieces(shuffled_packets, UnpackPackets(work), schema, rows_per_piece=None)
        )
        block_facts = collect_facts(rows_and_facts)
        # Facts are rows of their own, in which all other columns are NULL.
        rows = rows_and_facts.where(sql.col(FACTS).isNull())
        return rows, sorted(block_facts, key=lambda block: block.number)


def sample_hash_limit(policy: Policy, n_rows: int) -> int | None:
    """Return the largest key hash of a sample that suffices to cut a table of a single stratum.

    None if a single stratum would not be cut.
    """
    n_blocks = _require_block_sizes(policy).block_count_for(n_rows)
    return None if n_blocks is None else hash_limit(sample_size(n_blocks), n_rows)


def _shows_large(sample_counts: NDArray[np.int64], n_units: int, min_units: int) -> bool:
    """Return whether a sample shows that each leaf has at least ``min_units`` units.

    By Chernoff's bound for the upper tail of a binomial distribution, as if the leaves had not
    been cut by this sample.

    Parameters
    ----------
    sample_counts : int64 (n_leaves,), the number of sampled units in each leaf.
    n_units : number of units in the stratum.
    """
    # The expected number of sampled units in a leaf of minimum size.
    mean = min_units * sample_counts.sum() / n_units
    if sample_counts.min() <= mean:
        return False
    exponents = sample_counts * np.log(sample_counts / mean) - sample_counts + mean
    return bool(exponents.min() >= _CERTAINTY)


def _make_nullable(schema: StructType) -> StructType:
    """Allow NULL in all columns, because rows with facts have no other value."""
    return StructType([StructField(field.name, field.dataType, True) for field in schema.fields])


def _require_block_sizes(policy: Policy) -> BlockSizes:
    """Return the block sizes of a policy; ``check_job`` refuses policies without blocks."""
    block_sizes = BlockSizes.of(policy)
    assert block_sizes is not None
    return block_sizes


def _list_stages(policy: Policy, forest: Forest) -> tuple[RefinementStep | str | None, ...]:
    """List the stages: None for clustering, the steps of refinement, ``MERGE_FOR_MODELS``.

    Refinement needs stages only if strata are cut; otherwise clustering includes it.
    """
    refine = find_method(policy.method).refine
    stages: tuple[RefinementStep | str | None, ...] = (None,)
    if policy.refine and refine and any(tree.cuts is not None for tree in forest.trees):
        stages += refinement_steps(refine)
    return (*stages, MERGE_FOR_MODELS) if policy.models else stages


def _sum_counters(counters: Iterable[Counter[tuple[int, int]]]) -> Counter[tuple[int, int]]:
    total: Counter[tuple[int, int]] = Counter()
    for counter in counters:
        total.update(counter)
    return total


def _sum_method_counts(facts: Sequence[BlockFacts]) -> Counter[str]:
    total: Counter[str] = Counter()
    for block in facts:
        total.update(block.method_counts)
    return total
