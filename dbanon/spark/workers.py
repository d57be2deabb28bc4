"""The functions that workers run, each on one piece or one block."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dbanon.data.partition import ClusteringResult, Partition
from dbanon.methods import find_method
from dbanon.partitioning.blocks import compute_class_means, first_keys_of_classes
from dbanon.partitioning.classes import cluster_block, make_space_builder
from dbanon.partitioning.protect import make_cost_space_builder, protect_block
from dbanon.partitioning.refine import RefinementStep, max_refined_size, refine_block
from dbanon.release.attribute_disclosure import Originals
from dbanon.release.publication import PublicSums
from dbanon.release.recode import Release, find_lost_columns, recode
from dbanon.sessions.base import random_order
from dbanon.spark.arrow import combine_chunks, released_array
from dbanon.spark.facts import facts_of
from dbanon.spark.layout import (
    BLOCK,
    CLASSES,
    FACTS,
    KEY,
    LABEL,
    POINT,
    SIZE,
    VALUES,
    Layout,
    Packet,
)
from dbanon.spark.pieces import TableContext, TablePiece, clustered_of, guard_on, piece_of
from dbanon.spark.tasks import TaskFailure
from dbanon.spark.trees import Forest, groups_of, hashes_up_to, leaves_of


@dataclass(frozen=True)
class GatherFacts:
    """Gather the facts of a piece, and pack it; parameters as of ``facts.facts_of``.

    Parameters
    ----------
    limit : the largest key hash to sample; None for no sample.
    """

    layout: Layout
    with_trees: Collection[str]
    built_from_values: Collection[str]
    limit: int | None = None

    def __call__(self, rows: pa.Table) -> Iterator[Any]:
        facts = facts_of(rows, self.layout, self.with_trees, self.built_from_values)
        yield facts
        if facts.no_key or facts.no_entity:
            return
        if self.limit is not None:
            sampled = _rows_up_to(rows.select(self.layout.class_inputs), self.limit)
            if sampled.num_rows:
                # Yield batches; a table would be passed on to the next stage.
                yield sampled.to_batches()
        yield Packet(rows)


@dataclass(frozen=True, eq=False)
class SampleRecords:
    """Sample the records of a piece that determine borders, with their coordinates.

    Parameters
    ----------
    hash_limits : by stratum, the largest key hash to sample.
    """

    context: TableContext
    forest: Forest
    hash_limits: dict[int, int]

    def __call__(self, rows: pa.Table) -> Iterator[Any]:
        context = self.context
        if not context.layout.persons:
            # A person is sampled by the key of the first record, so all records are needed.
            rows = _rows_up_to(rows, max(self.hash_limits.values()))
        if not rows.num_rows:
            return
        microdata = piece_of(rows, context.layout, context).microdata
        clustered, _ = clustered_of(microdata, context.policy.hierarchies)
        space = make_space_builder(clustered, context.clustered, context.policy)
        keys = clustered.keys[:, 0]
        for number, records in groups_of(clustered, context.policy, self.forest):
            if number in self.hash_limits:
                sampled = records[hashes_up_to(keys[records], self.hash_limits[number])]
                if len(sampled):
                    yield number, keys[sampled], space(sampled).coordinates


@dataclass(frozen=True, eq=False)
class CountLeaves:
    """Count the records of a piece in each leaf of the cuts."""

    context: TableContext
    forest: Forest

    def __call__(self, rows: pa.Table) -> Iterator[Any]:
        context = self.context
        microdata = piece_of(rows, context.layout, context).microdata
        clustered, _ = clustered_of(microdata, context.policy.hierarchies)
        leaf_counts: Counter[tuple[int, int]] = Counter()
        for number, _, leaves in leaves_of(clustered, context, self.forest):
            for leaf, count in enumerate(np.bincount(leaves).tolist()):
                if count:
                    leaf_counts[number, leaf] += count
        yield leaf_counts


@dataclass(frozen=True, eq=False)
class AssignBlocks:
    """Assign the rows of a piece to blocks, and send them to the blocks' tasks."""

    context: TableContext
    forest: Forest

    def __call__(self, rows: pa.Table) -> Iterator[Any]:
        context = self.context
        piece = piece_of(rows, context.layout, context)
        clustered, units = clustered_of(piece.microdata, context.policy.hierarchies)
        blocks = np.zeros(clustered.n_records, np.int64)
        for number, records, leaves in leaves_of(clustered, context, self.forest):
            blocks[records] = self.forest.trees[number].blocks(leaves)
        if units is not None:
            blocks = blocks[units.unit_of_record]
        yield from by_task(piece.rows, blocks, self.forest)


def by_task(rows: pa.Table, blocks: NDArray[np.int64], forest: Forest) -> Iterator[Packet]:
    """Yield rows with their blocks, int64 (n,), packed by task."""
    if BLOCK in rows.column_names:
        rows = rows.drop_columns([BLOCK])
    rows = rows.append_column(BLOCK, pa.array(blocks.astype(np.int32)))
    tasks = forest.tasks[blocks]
    order = np.argsort(tasks, kind="stable")
    rows, tasks = rows.take(pa.array(order)), tasks[order]
    starts = [0, *(np.flatnonzero(np.diff(tasks)) + 1).tolist(), len(tasks)]
    for first, last in itertools.pairwise(starts):
        if last > first:
            yield Packet(rows.slice(first, last - first), int(tasks[first]))


def _rows_up_to(rows: pa.Table, limit: int) -> pa.Table:
    """Select the rows whose keys have a hash up to a limit."""
    keys = combine_chunks(rows[KEY]).to_numpy(zero_copy_only=False)
    return rows.filter(pa.array(hashes_up_to(keys, limit)))


@dataclass
class BlockFacts:
    """The facts about a block.

    Parameters
    ----------
    block, stratum : its number, and that of its stratum.
    classes, size : number of its classes, and of its clustered units.
    method_counts : what the method counted.
    rows : number of its records.
    before, after : the losses, as ``Release.sums``; empty before the release.
    public : see ``Release``; empty before the release.
    suppressed : quasi-identifiers of which every class has the same label.
    hidden : for each quasi-identifier, the rows whose own value is not released; empty if no column
        is retained.
    """

    block: int
    stratum: int
    classes: int
    size: int
    method_counts: dict[str, int] = field(default_factory=dict)
    rows: int = 0
    before: tuple[tuple[float, float], ...] = ()
    after: tuple[tuple[float, float], ...] = ()
    public: tuple[PublicSums, ...] = ()
    suppressed: tuple[str, ...] = ()
    hidden: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class ClusterBlocks:
    """Compute the classes of complete blocks, or refine them in a ``turn``, and release the last.

    Parameters
    ----------
    schema : of the released rows; None if another round follows.
    turn : the round of refinement; None to cluster.
    names : the released columns in ``schema``, each with the number of its release column or the
        index of the retained one; None if another round follows.
    merges_for_models : whether to merge classes until they satisfy privacy models.
    precedes_merge : whether the next stage does so.
    """

    context: TableContext
    forest: Forest
    schema: pa.Schema | None = None
    turn: RefinementStep | None = None
    names: tuple[tuple[str, int], ...] | None = None
    merges_for_models: bool = False
    precedes_merge: bool = False

    def __call__(self, rows: pa.Table) -> Iterator[Any]:
        blocks = combine_chunks(rows[BLOCK]).to_numpy(zero_copy_only=False)
        order = np.argsort(blocks, kind="stable")
        tables = []
        for positions in np.split(order, np.flatnonzero(np.diff(blocks[order])) + 1):
            number = int(blocks[positions[0]])
            try:
                result, facts = self._process_block(rows.take(pa.array(positions)), number)
            except Exception as error:
                yield TaskFailure.of(error, f"Block {number}")
                return
            yield facts
            if isinstance(result, pa.Table):
                tables.append(result)
            else:
                yield from result
        if tables:
            # Shuffle, because rows adjacent in the file would be adjacent in the source.
            table = pa.concat_tables(tables)
            yield table.take(pa.array(random_order(table.num_rows)))

    def _process_block(
        self, rows: pa.Table, number: int
    ) -> tuple[pa.Table | list[Packet], BlockFacts]:
        """Return the released rows of a block, or the packets of its rows and classes."""
        context, policy = self.context, self.context.policy
        piece = piece_of(rows, context.layout, context)
        clustered, units = clustered_of(piece.microdata, policy.hierarchies)
        stratum, index_in_stratum = self.forest.locate(number)
        if self.merges_for_models:
            return self._merge_for_models(piece, number, stratum)
        [(number_of_stratum, records)] = groups_of(clustered, policy, self.forest)
        assert number_of_stratum == stratum
        space = make_space_builder(clustered, context.clustered, policy)(records)
        keys = clustered.keys[:, 0]
        if self.turn is None:
            classes = cluster_block(space, keys, policy, index_in_stratum, _ignore_progress)
        else:
            classes = self._refine(piece, space, units, stratum, index_in_stratum)
        record_classes = classes if units is None else classes.of(units.unit_of_record)
        facts = BlockFacts(
            number,
            stratum,
            classes.n_classes,
            clustered.n_records,
            dict(classes.method_counts),
            piece.microdata.n_records,
        )
        if self.names is not None:
            return self._release(piece, record_classes, facts), facts
        if self.precedes_merge:
            # Models apply to records, and merging costs what the records' labels lose.
            space = make_cost_space_builder(piece.microdata, context.released, policy)
            positions = space(np.arange(piece.microdata.n_records))
            return self._pack(piece, record_classes, record_classes, positions, piece.keys), facts
        return self._pack(piece, record_classes, classes, space, keys), facts

    def _merge_for_models(
        self, piece: TablePiece, number: int, stratum: int
    ) -> tuple[pa.Table, BlockFacts]:
        """Merge the classes that moved here until each satisfies the models."""
        context, microdata = self.context, piece.microdata
        labels = combine_chunks(piece.rows[LABEL]).to_numpy(zero_copy_only=False)
        classes = Partition(np.unique(labels, return_inverse=True)[1].reshape(-1))
        space = make_cost_space_builder(microdata, context.released, context.policy)
        positions = space(np.arange(microdata.n_records))
        guard = guard_on(microdata, classes, context)
        merged = protect_block(positions, classes, guard, context.policy, _ignore_progress)
        n = microdata.n_records
        facts = BlockFacts(number, stratum, merged.n_classes, n, {}, n)
        return self._release(piece, merged, facts), facts

    def _refine(
        self, piece: TablePiece, space: Any, units: Any, stratum: int, index_in_stratum: int | None
    ) -> Partition:
        """Refine the classes that moved here; unchanged if their stratum is not cut."""
        class_labels = combine_chunks(piece.rows[LABEL]).to_numpy(zero_copy_only=False)
        if units is not None:
            first = np.unique(units.unit_of_record, return_index=True)[1]
            class_labels = class_labels[first]
        _, labels = np.unique(class_labels, return_inverse=True)
        classes = Partition(labels.reshape(-1))
        if index_in_stratum is None:
            return classes
        policy, turn = self.context.policy, self.turn
        assert turn is not None
        refine = str(find_method(policy.method).refine)
        size = self.forest.strata[stratum].size
        refined = refine_block(
            refine, space, classes, policy, turn, index_in_stratum, size, _ignore_progress
        )
        return refined.require(int(policy.k), max_refined_size(refine, int(policy.k)))

    def _pack(
        self,
        piece: TablePiece,
        record_classes: Partition,
        classes: Partition,
        space: Any,
        keys: NDArray[np.int64],
    ) -> list[Packet]:
        """Pack the rows with their classes, and each class with its coordinates and size."""
        coordinates = compute_class_means(space, classes)
        count, width = coordinates.shape
        columns = {
            BLOCK: pa.array(np.full(count, combine_chunks(piece.rows[BLOCK])[0].as_py(), np.int64)),
            LABEL: pa.array(np.arange(count)),
            KEY: pa.array(first_keys_of_classes(classes, keys)),
            SIZE: pa.array(classes.sizes.astype(np.int64)),
            POINT: pa.FixedSizeListArray.from_arrays(pa.array(coordinates.reshape(-1)), width),
        }
        if self.precedes_merge:
            counts = guard_on(piece.microdata, classes, self.context).counts(
                classes.labels.astype(np.int64), classes.n_classes
            )
            value_counts = pa.array(counts.reshape(-1))
            columns[VALUES] = pa.FixedSizeListArray.from_arrays(value_counts, counts.shape[1])
        rows = piece.rows
        if LABEL in rows.column_names:
            rows = rows.drop_columns([LABEL])
        rows = rows.append_column(LABEL, pa.array(record_classes.labels.astype(np.int64)))
        return [Packet(rows), Packet(pa.table(columns), column=CLASSES)]

    def _release(self, piece: TablePiece, partition: Partition, facts: BlockFacts) -> pa.Table:
        """Build the released rows, in key order."""
        context = self.context
        release = release_piece(piece, partition, context)
        facts.before, facts.after = release.sums
        facts.public = release.public
        facts.suppressed = find_lost_columns(release.columns, context.policy.hierarchies)
        if context.layout.retained:
            originals = Originals(piece.microdata, partition, release.columns)
            facts.hidden = tuple(map(originals.hidden_rows, originals.names))
        n = piece.microdata.n_records
        arrays: list[Any] = []
        assert self.names is not None
        assert self.schema is not None
        column_indices = dict(self.names)
        columns = [part for column in release.columns for part in column.parts]
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
                arrays.append(released_array(column, partition.labels, schema_field.type))
        return pa.Table.from_arrays(arrays, schema=self.schema)


def release_piece(piece: TablePiece, partition: Partition, context: TableContext) -> Release:
    """Recode classes to released values, and compute their losses."""
    return recode(
        piece.microdata,
        ClusteringResult(partition, measures=context.released),
        context.policy,
        piece.exact_totals,
    )


def _ignore_progress(share: float) -> None:
    """Ignore progress, which Spark reports itself."""
