"""The work that the tasks of a stage do on the workers: functions of a piece, or of some blocks.

The methods cluster units: records, or all records of a person as one unit if k counts persons. A
sample has the units whose key has a hash up to a limit.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dbanon.data.partition import ClusteringResult, Partition
from dbanon.extensions.spark.arrow import build_released_array, combine_chunks
from dbanon.extensions.spark.facts import gather_facts
from dbanon.extensions.spark.layout import (
    BLOCK,
    CLASS_SIZE,
    CLASSES,
    COORDINATES,
    FACTS,
    KEY,
    LABEL,
    SENSITIVE_COUNTS,
    Layout,
    Packet,
)
from dbanon.extensions.spark.pieces import (
    TableContext,
    TablePiece,
    build_class_guard,
    build_piece,
    prepare_clustering,
)
from dbanon.extensions.spark.tasks import TaskFailure
from dbanon.extensions.spark.trees import Forest, assign_leaves, group_by_stratum, has_hash_up_to
from dbanon.methods import find_method
from dbanon.methods.registry import MethodSpace
from dbanon.partitioning.blocks import compute_class_means, first_keys_of_classes
from dbanon.partitioning.classes import cluster_block, make_space_builder
from dbanon.partitioning.entities import Units
from dbanon.partitioning.protect import make_cost_space_builder, protect_block
from dbanon.partitioning.refine import RefinementStep, max_refined_size, refine_block
from dbanon.release.attribute_disclosure import Originals
from dbanon.release.publication import PublicSums
from dbanon.release.recode import Release, find_lost_columns, recode
from dbanon.sessions.base import random_order, shuffled_classes


@dataclass(frozen=True)
class GatherFacts:
    """Gather the facts of a piece, sample it, and pack its rows.

    Parameters
    ----------
    layout, attributes_with_hierarchy, attributes_with_built_hierarchy : see ``gather_facts``.
    hash_limit : the largest key hash to sample; None for no sample.
    """

    layout: Layout
    attributes_with_hierarchy: Collection[str]
    attributes_with_built_hierarchy: Collection[str]
    hash_limit: int | None = None

    def __call__(self, rows: pa.Table) -> Iterator[object]:
        facts = gather_facts(
            rows, self.layout, self.attributes_with_hierarchy, self.attributes_with_built_hierarchy
        )
        yield facts
        if facts.n_without_key or facts.n_without_entity:
            return
        if self.hash_limit is not None:
            sampled = _select_sampled(rows.select(self.layout.class_inputs), self.hash_limit)
            if sampled.num_rows:
                # Yield batches, which are returned as facts; a table would be returned as rows.
                yield sampled.to_batches()
        yield Packet(rows)


class StratumSample(NamedTuple):
    """Sampled records of a stratum, by which it is cut.

    Parameters
    ----------
    stratum_number : the index of the stratum in its forest.
    keys : int64 (n,), the keys of the records, ascending.
    coordinates : float64 (n, p), the records in the space of the method.
    """

    stratum_number: int
    keys: NDArray[np.int64]
    coordinates: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SampleRecords:
    """Sample records of a piece to choose cuts; yields a ``StratumSample`` for each stratum.

    Parameters
    ----------
    context : the policy, and the statistics of the whole table.
    forest : the strata; their cuts are not used.
    hash_limits : by stratum number, the largest key hash to sample.
    """

    context: TableContext
    forest: Forest
    hash_limits: dict[int, int]

    def __call__(self, rows: pa.Table) -> Iterator[StratumSample]:
        context = self.context
        if not context.layout.has_persons:
            # A person is sampled by the key of the first record, so all records are needed.
            rows = _select_sampled(rows, max(self.hash_limits.values()))
        if not rows.num_rows:
            return
        microdata = build_piece(rows, context.layout, context).microdata
        clustered, _ = prepare_clustering(microdata, context.policy.hierarchies)
        space = make_space_builder(clustered, context.clustered_statistics, context.policy)
        keys = clustered.keys[:, 0]
        for stratum_number, records in group_by_stratum(clustered, context.policy, self.forest):
            if stratum_number in self.hash_limits:
                hash_limit = self.hash_limits[stratum_number]
                sampled = records[has_hash_up_to(keys[records], hash_limit)]
                if len(sampled):
                    yield StratumSample(stratum_number, keys[sampled], space(sampled).coordinates)


@dataclass(frozen=True, eq=False)
class CountLeaves:
    """Count the units of a piece by stratum and leaf; yields a ``Counter``."""

    context: TableContext
    forest: Forest

    def __call__(self, rows: pa.Table) -> Iterator[object]:
        context = self.context
        microdata = build_piece(rows, context.layout, context).microdata
        clustered, _ = prepare_clustering(microdata, context.policy.hierarchies)
        leaf_counts: Counter[tuple[int, int]] = Counter()
        for stratum_number, _, leaves in assign_leaves(clustered, context, self.forest):
            for leaf, count in enumerate(np.bincount(leaves).tolist()):
                if count:
                    leaf_counts[stratum_number, leaf] += count
        yield leaf_counts


@dataclass(frozen=True, eq=False)
class AssignBlocks:
    """Assign the rows of a piece to blocks, and send them to the blocks' tasks."""

    context: TableContext
    forest: Forest

    def __call__(self, rows: pa.Table) -> Iterator[Packet]:
        context = self.context
        piece = build_piece(rows, context.layout, context)
        # ``units`` is None if the units are records.
        clustered, units = prepare_clustering(piece.microdata, context.policy.hierarchies)
        blocks = np.zeros(clustered.n_records, np.int64)
        for stratum_number, records, leaves in assign_leaves(clustered, context, self.forest):
            blocks[records] = self.forest.trees[stratum_number].blocks_of_leaves(leaves)
        if units is not None:
            blocks = blocks[units.unit_of_record]
        yield from pack_by_task(piece.rows, blocks, self.forest)


def pack_by_task(rows: pa.Table, blocks: NDArray[np.int64], forest: Forest) -> Iterator[Packet]:
    """Yield packets of the rows by task, with each row's block, int64 (n,), as a column."""
    if BLOCK in rows.column_names:
        rows = rows.drop_columns([BLOCK])
    rows = rows.append_column(BLOCK, pa.array(blocks.astype(np.int32)))
    tasks = forest.task_of_block[blocks]
    order = _order_of_numbers(tasks)
    rows, tasks = rows.take(pa.array(order)), tasks[order]
    starts = [0, *(np.flatnonzero(np.diff(tasks)) + 1).tolist(), len(tasks)]
    for start, end in itertools.pairwise(starts):
        if end > start:
            yield Packet(rows.slice(start, end - start), int(tasks[start]))


def _order_of_numbers(numbers: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the stable order of numbers of blocks or tasks, which are not negative, int64 (n,)."""
    # numpy sorts integers of 8 or 16 bits by their digits, in a tenth of the time.
    narrow = numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))
    return np.argsort(narrow, kind="stable")


def _select_sampled(rows: pa.Table, hash_limit: int) -> pa.Table:
    """Select the rows whose keys have a hash up to a limit."""
    keys = combine_chunks(rows[KEY]).to_numpy(zero_copy_only=False)
    return rows.filter(pa.array(has_hash_up_to(keys, hash_limit)))


@dataclass
class BlockFacts:
    """What a worker reports about a block.

    The fields from ``losses_before`` on are empty until the last stage, which makes the release.

    Parameters
    ----------
    number, stratum_number : the number of the block, and of its stratum.
    n_classes, n_units : number of its classes, and of its clustered records or persons.
    method_counts : counts that the clustering method reports, by name.
    n_rows : number of its records.
    losses_before, losses_after : for each column, the sum of its losses and the divisor of the sum
        (such as SSE and SST), before and after released values are rounded; see ``Release.sums``.
    public_sums : for each column, the sums for the loss that readers may see.
    suppressed_columns : the quasi-identifiers that are released as the root of their hierarchy, or
        as ``*``, in every row of the block.
    hidden_rows : for each quasi-identifier, number of rows whose original value is not released;
        empty if no column is retained.
    """

    number: int
    stratum_number: int
    n_classes: int
    n_units: int
    method_counts: dict[str, int] = field(default_factory=dict)
    n_rows: int = 0
    losses_before: tuple[tuple[float, float], ...] = ()
    losses_after: tuple[tuple[float, float], ...] = ()
    public_sums: tuple[PublicSums, ...] = ()
    suppressed_columns: tuple[str, ...] = ()
    hidden_rows: tuple[int, ...] = ()


class ReleasedBlock(NamedTuple):
    """The released rows of a block, and their classes, both in the order of the rows' keys."""

    rows: pa.Table
    partition: Partition


@dataclass(frozen=True, eq=False)
class ClusterBlocks:
    """Cluster complete blocks, or refine or merge their classes; in the last stage, release them.

    Parameters
    ----------
    context : the policy, and the statistics of the whole table.
    forest : the blocks of this stage.
    schema : the schema of the released rows; None if another stage follows.
    refinement_step : the step of refinement; None in other stages.
    released_column_indices : the names of the quasi-identifiers' columns in ``schema``, each with
        the index of the released column; None if another stage follows.
    merges_for_models : whether to merge classes until they satisfy privacy models.
    precedes_merge : whether the next stage merges classes for privacy models.
    """

    context: TableContext
    forest: Forest
    schema: pa.Schema | None = None
    refinement_step: RefinementStep | None = None
    released_column_indices: tuple[tuple[str, int], ...] | None = None
    merges_for_models: bool = False
    precedes_merge: bool = False

    def __call__(self, rows: pa.Table) -> Iterator[object]:
        blocks = combine_chunks(rows[BLOCK]).to_numpy(zero_copy_only=False)
        order = _order_of_numbers(blocks)
        released_blocks = []
        for block_rows in np.split(order, np.flatnonzero(np.diff(blocks[order])) + 1):
            number = int(blocks[block_rows[0]])
            try:
                result, facts = self._process_block(rows.take(pa.array(block_rows)), number)
            except Exception as error:
                yield TaskFailure.of(error, f"Block {number}")
                return
            yield facts
            if isinstance(result, ReleasedBlock):
                released_blocks.append(result)
            else:
                yield from result
        if released_blocks:
            yield _shuffle_classes(released_blocks)

    def _process_block(
        self, rows: pa.Table, number: int
    ) -> tuple[ReleasedBlock | list[Packet], BlockFacts]:
        """Return the released rows of a block, or the packets of its rows and classes."""
        context, policy = self.context, self.context.policy
        piece = build_piece(rows, context.layout, context)
        clustered, units = prepare_clustering(piece.microdata, policy.hierarchies)
        stratum_number, index_in_stratum = self.forest.locate_block(number)
        if self.merges_for_models:
            return self._merge_for_models(piece, number, stratum_number)
        # All records of a block are in one stratum.
        [(stratum_of_records, records)] = group_by_stratum(clustered, policy, self.forest)
        assert stratum_of_records == stratum_number
        space = make_space_builder(clustered, context.clustered_statistics, policy)(records)
        keys = clustered.keys[:, 0]
        if self.refinement_step is None:
            # The index chooses the block's random numbers, so that they do not depend on tasks. A
            # stratum that is not cut has no index, and its classes are refined here, too.
            classes = cluster_block(space, keys, policy, index_in_stratum, _ignore_progress)
        else:
            classes = self._refine_classes(piece, space, units, stratum_number, index_in_stratum)
        record_classes = classes if units is None else classes.take(units.unit_of_record)
        facts = BlockFacts(
            number,
            stratum_number,
            n_classes=classes.n_classes,
            n_units=clustered.n_records,
            method_counts=dict(classes.method_counts),
            n_rows=piece.microdata.n_records,
        )
        if self.released_column_indices is not None:
            return self._build_release(piece, record_classes, facts), facts
        if self.precedes_merge:
            # Models apply to records, and the cost of a merge is the loss of the records' labels.
            build_space = make_cost_space_builder(
                piece.microdata, context.record_statistics, policy
            )
            record_space = build_space(np.arange(piece.microdata.n_records))
            return self._pack_classes(
                piece, record_classes, record_classes, record_space, piece.keys
            ), facts
        return self._pack_classes(piece, record_classes, classes, space, keys), facts

    def _merge_for_models(
        self, piece: TablePiece, number: int, stratum_number: int
    ) -> tuple[ReleasedBlock, BlockFacts]:
        """Merge the classes that were moved into this block until each satisfies the models."""
        context, microdata = self.context, piece.microdata
        labels = combine_chunks(piece.rows[LABEL]).to_numpy(zero_copy_only=False)
        classes = Partition(np.unique(labels, return_inverse=True)[1].reshape(-1))
        build_space = make_cost_space_builder(microdata, context.record_statistics, context.policy)
        record_space = build_space(np.arange(microdata.n_records))
        guard = build_class_guard(microdata, classes, context)
        merged_classes = protect_block(
            record_space, classes, guard, context.policy, _ignore_progress
        )
        n = microdata.n_records
        facts = BlockFacts(
            number,
            stratum_number,
            n_classes=merged_classes.n_classes,
            n_units=n,
            method_counts={},
            n_rows=n,
        )
        return self._build_release(piece, merged_classes, facts), facts

    def _refine_classes(
        self,
        piece: TablePiece,
        space: MethodSpace,
        units: Units | None,
        stratum_number: int,
        index_in_stratum: int | None,
    ) -> Partition:
        """Refine the classes that were moved into this block.

        If the stratum is not cut, the first stage has refined them already.
        """
        class_labels = combine_chunks(piece.rows[LABEL]).to_numpy(zero_copy_only=False)
        if units is not None:
            # All records of a unit are in one class.
            first_record_of_unit = np.unique(units.unit_of_record, return_index=True)[1]
            class_labels = class_labels[first_record_of_unit]
        _, labels = np.unique(class_labels, return_inverse=True)
        classes = Partition(labels.reshape(-1))
        # None means that the stratum is not cut.
        if index_in_stratum is None:
            return classes
        policy, refinement_step = self.context.policy, self.refinement_step
        assert refinement_step is not None
        refine = str(find_method(policy.method).refine)
        stratum_size = self.forest.strata[stratum_number].n_units
        refined = refine_block(
            refine,
            space,
            classes,
            policy,
            refinement_step,
            index_in_stratum,
            stratum_size,
            _ignore_progress,
        )
        # Raises RecountFailed if a class is smaller or larger than a refinement may make it.
        return refined.require(int(policy.k), max_refined_size(refine, int(policy.k)))

    def _pack_classes(
        self,
        piece: TablePiece,
        record_classes: Partition,
        classes: Partition,
        space: MethodSpace,
        keys: NDArray[np.int64],
    ) -> list[Packet]:
        """Pack the rows with their classes, and the classes with their coordinates and sizes.

        Parameters
        ----------
        record_classes : the classes of the records.
        classes, space, keys : the classes, the space and the keys (int64) of what the next stage
            moves and counts: clustered units, or records if it merges for models.
        """
        coordinates = compute_class_means(space, classes)
        n_classes, n_axes = coordinates.shape
        columns = {
            BLOCK: pa.array(
                np.full(n_classes, combine_chunks(piece.rows[BLOCK])[0].as_py(), np.int64)
            ),
            LABEL: pa.array(np.arange(n_classes)),
            KEY: pa.array(first_keys_of_classes(classes, keys)),
            CLASS_SIZE: pa.array(classes.sizes.astype(np.int64)),
            COORDINATES: pa.FixedSizeListArray.from_arrays(
                pa.array(coordinates.reshape(-1)), n_axes
            ),
        }
        if self.precedes_merge:
            # The guard knows the sensitive values of the records, and counts them in each class.
            counts = build_class_guard(piece.microdata, classes, self.context).counts(
                classes.labels.astype(np.int64), classes.n_classes
            )
            value_counts = pa.array(counts.reshape(-1))
            columns[SENSITIVE_COUNTS] = pa.FixedSizeListArray.from_arrays(
                value_counts, counts.shape[1]
            )
        rows = piece.rows
        if LABEL in rows.column_names:
            rows = rows.drop_columns([LABEL])
        rows = rows.append_column(LABEL, pa.array(record_classes.labels.astype(np.int64)))
        return [Packet(rows), Packet(pa.table(columns), packet_column=CLASSES)]

    def _build_release(
        self, piece: TablePiece, partition: Partition, facts: BlockFacts
    ) -> ReleasedBlock:
        """Build the released rows, in key order."""
        context = self.context
        # Fill in the fields of ``facts`` that only a release has.
        release = recode_piece(piece, partition, context)
        facts.losses_before, facts.losses_after = release.sums
        facts.public_sums = release.public_sums
        facts.suppressed_columns = find_lost_columns(release.columns, context.policy.hierarchies)
        if context.layout.retained_columns:
            # Compares original and released values, to count the originals that the release hides.
            originals = Originals(piece.microdata, partition, release.columns)
            facts.hidden_rows = tuple(map(originals.hidden_rows, originals.names))
        n = piece.microdata.n_records
        # The columns in the order of the schema.
        arrays: list[pa.Array] = []
        assert self.released_column_indices is not None
        assert self.schema is not None
        column_indices = dict(self.released_column_indices)
        # Intervals can be written as two columns: the lower and the upper bounds.
        columns = [part for column in release.columns for part in column.written_columns]
        for schema_field in self.schema:
            if schema_field.name == FACTS:
                arrays.append(pa.nulls(n, pa.binary()))
            elif (
                schema_field.name in piece.rows.column_names
                and schema_field.name not in column_indices
            ):
                arrays.append(combine_chunks(piece.rows[schema_field.name]))
            else:
                column = columns[column_indices[schema_field.name]]
                arrays.append(build_released_array(column, partition.labels, schema_field.type))
        return ReleasedBlock(pa.Table.from_arrays(arrays, schema=self.schema), partition)


def _shuffle_classes(blocks: Sequence[ReleasedBlock]) -> pa.Table:
    """Return the rows of blocks class by class, with classes and the rows of each in random order.

    Another order would reveal the order of the source. Java counts and writes equal rows faster if
    they follow each other.
    """
    first_labels = np.cumsum([0, *(block.partition.n_classes for block in blocks[:-1])])
    partition = Partition(
        np.concatenate(
            [
                block.partition.labels + first
                for block, first in zip(blocks, first_labels, strict=True)
            ]
        )
    )
    batches = shuffled_classes(partition, random_order(partition.n_classes))
    order = np.concatenate([records for _, records in batches])
    return pa.concat_tables([block.rows for block in blocks]).take(pa.array(order))


def recode_piece(piece: TablePiece, partition: Partition, context: TableContext) -> Release:
    """Recode classes to released values, and compute their losses."""
    return recode(
        piece.microdata,
        ClusteringResult(partition, column_statistics=context.record_statistics),
        context.policy,
        # Sums wide columns, whose numbers float64 cannot represent exactly.
        piece.sum_exactly,
    )


def _ignore_progress(share: float) -> None:
    """Ignore progress, which Spark reports itself."""
