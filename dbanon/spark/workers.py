"""What workers run: each function takes one piece or one block, and knows of no other."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dbanon.data.partition import Found, Partition
from dbanon.methods import find_method
from dbanon.partitioning.blocks import first_keys, places_of_classes
from dbanon.partitioning.classes import cluster_block, space_of
from dbanon.partitioning.protect import protect_block, space_of_costs
from dbanon.partitioning.refine import Turn, max_refined_size, refine_block
from dbanon.release.attribute_disclosure import Originals
from dbanon.release.publication import PublicSums
from dbanon.release.recode import Release, lost_completely, recode
from dbanon.sessions.base import random_order
from dbanon.spark.arrow import one_array, released_array
from dbanon.spark.facts import facts_of
from dbanon.spark.layout import (
    BLOCK,
    CLASSES,
    FACTS,
    KEY,
    LABEL,
    PLACE,
    SIZE,
    VALUES,
    Layout,
    Packet,
)
from dbanon.spark.pieces import Piece, TableContext, clustered_of, guard_on, piece_of
from dbanon.spark.tasks import Failed
from dbanon.spark.trees import Forest, groups_of, hashes_up_to, leaves_of


@dataclass(frozen=True)
class GatherFacts:
    """Gather the facts of a piece, and pack it; arguments as of ``facts.facts_of``.

    Parameters
    ----------
    limit : the hash below which rows are taken; None where none are.
    """

    layout: Layout
    with_trees: Collection[str]
    made: Collection[str]
    limit: int | None = None

    def __call__(self, rows: pa.Table) -> Iterator[Any]:
        facts = facts_of(rows, self.layout, self.with_trees, self.made)
        yield facts
        if facts.no_key or facts.no_entity:
            return
        if self.limit is not None:
            taken = _below(rows.select(self.layout.looked_at), self.limit)
            if taken.num_rows:
                # As batches they are told: a table would be rows that go on.
                yield taken.to_batches()
        yield Packet(rows)


@dataclass(frozen=True, eq=False)
class Sample:
    """The records of a piece on which borders are found, and where they lie.

    Parameters
    ----------
    limits : by stratum, the largest hash of a key that is taken.
    """

    known: TableContext
    forest: Forest
    limits: dict[int, int]

    def __call__(self, rows: pa.Table) -> Iterator[Any]:
        known = self.known
        if not known.layout.persons:
            # Of a person the key of the first record counts, which all of them tell.
            rows = _below(rows, max(self.limits.values()))
        if not rows.num_rows:
            return
        microdata = piece_of(rows, known.layout, known).microdata
        clustered, _ = clustered_of(microdata, known.policy.hierarchies)
        space = space_of(clustered, known.clustered, known.policy)
        keys = clustered.keys[:, 0]
        for number, records in groups_of(clustered, known.policy, self.forest):
            if number in self.limits:
                taken = records[hashes_up_to(keys[records], self.limits[number])]
                if len(taken):
                    yield number, keys[taken], space(taken).coordinates


@dataclass(frozen=True, eq=False)
class Count:
    """How much of a piece lies in each part of the cuts."""

    known: TableContext
    forest: Forest

    def __call__(self, rows: pa.Table) -> Iterator[Any]:
        known = self.known
        microdata = piece_of(rows, known.layout, known).microdata
        clustered, _ = clustered_of(microdata, known.policy.hierarchies)
        found: Counter[tuple[int, int]] = Counter()
        for number, _, leaves in leaves_of(clustered, known, self.forest):
            for leaf, count in enumerate(np.bincount(leaves).tolist()):
                if count:
                    found[number, leaf] += count
        yield found


@dataclass(frozen=True, eq=False)
class Assign:
    """The rows of a piece with their blocks, and who works on these."""

    known: TableContext
    forest: Forest

    def __call__(self, rows: pa.Table) -> Iterator[Any]:
        known = self.known
        piece = piece_of(rows, known.layout, known)
        clustered, units = clustered_of(piece.microdata, known.policy.hierarchies)
        blocks = np.zeros(clustered.n_records, np.int64)
        for number, records, leaves in leaves_of(clustered, known, self.forest):
            blocks[records] = self.forest.trees[number].blocks(leaves)
        if units is not None:
            blocks = blocks[units.of_record]
        yield from by_task(piece.rows, blocks, self.forest)


def by_task(rows: pa.Table, blocks: NDArray[np.int64], forest: Forest) -> Iterator[Packet]:
    """Rows with their blocks, int64 (n,), packed for the tasks of these."""
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


def _below(rows: pa.Table, limit: int) -> pa.Table:
    """The rows whose keys have a hash up to this."""
    keys = one_array(rows[KEY]).to_numpy(zero_copy_only=False)
    return rows.filter(pa.array(hashes_up_to(keys, limit)))


@dataclass
class OfBlock:
    """What a block tells.

    Parameters
    ----------
    block, stratum : which it is.
    classes, size : how many it has, and of how much of what is clustered.
    told : what the method counted.
    rows : its records.
    before, after : what they lose, as ``Release.sums``; empty where they are not released yet.
    public : as of ``Release``; empty as well.
    lost : whether every class has one label, by quasi-identifier.
    hidden : of each quasi-identifier, the rows whose own value the release does not show; empty
        where no column is kept.
    """

    block: int
    stratum: int
    classes: int
    size: int
    told: dict[str, int] = field(default_factory=dict)
    rows: int = 0
    before: tuple[tuple[float, float], ...] = ()
    after: tuple[tuple[float, float], ...] = ()
    public: tuple[PublicSums, ...] = ()
    lost: tuple[str, ...] = ()
    hidden: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Blocks:
    """The classes of whole blocks: found, or with ``turn`` refined; released where that ends it.

    Parameters
    ----------
    schema : of the released rows; None where another turn follows.
    turn : None where classes are to be found.
    names : of the released columns in ``schema``, each with the number of the column of the release
        or the place of what is kept; None where another turn follows.
    guards : whether classes are merged until they keep to privacy models.
    guarded : whether they are in the stage that follows.
    """

    known: TableContext
    forest: Forest
    schema: pa.Schema | None = None
    turn: Turn | None = None
    names: tuple[tuple[str, int], ...] | None = None
    guards: bool = False
    guarded: bool = False

    def __call__(self, rows: pa.Table) -> Iterator[Any]:
        blocks = one_array(rows[BLOCK]).to_numpy(zero_copy_only=False)
        order = np.argsort(blocks, kind="stable")
        made = []
        for places in np.split(order, np.flatnonzero(np.diff(blocks[order])) + 1):
            number = int(blocks[places[0]])
            try:
                found, facts = self._one(rows.take(pa.array(places)), number)
            except Exception as error:
                yield Failed.of(error, f"Block {number}")
                return
            yield facts
            if isinstance(found, pa.Table):
                made.append(found)
            else:
                yield from found
        if made:
            # Neighbours in a file would be neighbours in what was read.
            table = pa.concat_tables(made)
            yield table.take(pa.array(random_order(table.num_rows)))

    def _one(self, rows: pa.Table, number: int) -> tuple[pa.Table | list[Packet], OfBlock]:
        """The released rows of a block, or the packets of its rows and classes."""
        known, policy = self.known, self.known.policy
        piece = piece_of(rows, known.layout, known)
        clustered, units = clustered_of(piece.microdata, policy.hierarchies)
        stratum, in_stratum = self.forest.place(number)
        if self.guards:
            return self._guarded(piece, number, stratum)
        [(found, records)] = groups_of(clustered, policy, self.forest)
        assert found == stratum
        space = space_of(clustered, known.clustered, policy)(records)
        keys = clustered.keys[:, 0]
        if self.turn is None:
            part = cluster_block(space, keys, policy, in_stratum, _silent)
        else:
            part = self._refined(piece, space, units, stratum, in_stratum)
        of_rows = part if units is None else part.of(units.of_record)
        facts = OfBlock(number, stratum, part.n_classes, clustered.n_records, dict(part.told),
                        piece.microdata.n_records)  # fmt: skip
        if self.names is not None:
            return self._released(piece, of_rows, facts), facts
        if self.guarded:
            # Models look at records, and merging them costs what their labels lose.
            space = space_of_costs(piece.microdata, known.released, policy)
            own = space(np.arange(piece.microdata.n_records))
            return self._placed(piece, of_rows, of_rows, own, piece.keys), facts
        return self._placed(piece, of_rows, part, space, keys), facts

    def _guarded(self, piece: Piece, number: int, stratum: int) -> tuple[pa.Table, OfBlock]:
        """The classes that moved here, merged until each keeps to the models."""
        known, microdata = self.known, piece.microdata
        before = one_array(piece.rows[LABEL]).to_numpy(zero_copy_only=False)
        part = Partition(np.unique(before, return_inverse=True)[1].reshape(-1))
        space = space_of_costs(microdata, known.released, known.policy)
        own = space(np.arange(microdata.n_records))
        guard = guard_on(microdata, part, known)
        found = protect_block(own, part, guard, known.policy, _silent)
        n = microdata.n_records
        facts = OfBlock(number, stratum, found.n_classes, n, {}, n)
        return self._released(piece, found, facts), facts

    def _refined(
        self, piece: Piece, space: Any, units: Any, stratum: int, in_stratum: int | None
    ) -> Partition:
        """The classes that moved here, refined; as they are where their stratum is not cut."""
        before = one_array(piece.rows[LABEL]).to_numpy(zero_copy_only=False)
        if units is not None:
            first = np.unique(units.of_record, return_index=True)[1]
            before = before[first]
        _, labels = np.unique(before, return_inverse=True)
        part = Partition(labels.reshape(-1))
        if in_stratum is None:
            return part
        policy, turn = self.known.policy, self.turn
        assert turn is not None
        refine = str(find_method(policy.method).refine)
        size = self.forest.strata[stratum].size
        found = refine_block(refine, space, part, policy, turn, in_stratum, size, _silent)
        return found.require(int(policy.k), max_refined_size(refine, int(policy.k)))

    def _placed(
        self,
        piece: Piece,
        of_rows: Partition,
        part: Partition,
        space: Any,
        keys: NDArray[np.int64],
    ) -> list[Packet]:
        """The rows with their classes; and of each class where it stands, and its size."""
        places = places_of_classes(space, part)
        count, width = places.shape
        columns = {
            BLOCK: pa.array(np.full(count, one_array(piece.rows[BLOCK])[0].as_py(), np.int64)),
            LABEL: pa.array(np.arange(count)),
            KEY: pa.array(first_keys(part, keys)),
            SIZE: pa.array(part.sizes.astype(np.int64)),
            PLACE: pa.FixedSizeListArray.from_arrays(pa.array(places.reshape(-1)), width),
        }
        if self.guarded:
            counts = guard_on(piece.microdata, part, self.known).counts(
                part.labels.astype(np.int64), part.n_classes
            )
            held = pa.array(counts.reshape(-1))
            columns[VALUES] = pa.FixedSizeListArray.from_arrays(held, counts.shape[1])
        rows = piece.rows
        if LABEL in rows.column_names:
            rows = rows.drop_columns([LABEL])
        rows = rows.append_column(LABEL, pa.array(of_rows.labels.astype(np.int64)))
        return [Packet(rows), Packet(pa.table(columns), column=CLASSES)]

    def _released(self, piece: Piece, partition: Partition, facts: OfBlock) -> pa.Table:
        """The released rows, in the order of their keys."""
        known = self.known
        release = released_of(piece, partition, known)
        facts.before, facts.after = release.sums
        facts.public = release.public
        facts.lost = lost_completely(release.columns, known.policy.hierarchies)
        if known.layout.kept:
            originals = Originals(piece.microdata, partition, release.columns)
            facts.hidden = tuple(map(originals.hidden_rows, originals.names))
        n = piece.microdata.n_records
        arrays: list[Any] = []
        assert self.names is not None
        assert self.schema is not None
        given = dict(self.names)
        columns = [part for column in release.columns for part in column.parts]
        for one in self.schema:
            if one.name == FACTS:
                arrays.append(pa.nulls(n, pa.binary()))
            elif one.name in piece.rows.column_names and one.name not in given:
                arrays.append(one_array(piece.rows[one.name]))
            else:
                column = columns[given[one.name]]
                arrays.append(released_array(column, partition.labels, one.type))
        return pa.Table.from_arrays(arrays, schema=self.schema)


def released_of(piece: Piece, partition: Partition, known: TableContext) -> Release:
    """The released values of classes, and what they lose."""
    return recode(
        piece.microdata,
        Found(partition, measures=known.released),
        known.policy,
        piece.exact_totals,
    )


def _silent(share: float) -> None:
    """A tick for tasks, which Spark watches."""
