from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from dbanon.data.number_levels import NumberLevels
from dbanon.data.partition import Levels, Partition, combine_partitions
from dbanon.data.scales import Scale
from dbanon.data.schema import Attribute, Kind
from dbanon.doors.arrays import partition
from dbanon.errors import RecountFailed
from dbanon.partitioning.sets import CoarsenedPartition


def test_sizes_and_members() -> None:
    partition = Partition([1, 0, -1, 1, 0, 1])
    assert partition.sizes.tolist() == [2, 3]
    assert (partition.n_classes, partition.n_suppressed) == (2, 1)
    assert partition.members.tolist() == [1, 4, 0, 3, 5]
    assert partition.starts.tolist() == [0, 2]
    with pytest.raises(ValueError, match="read-only"):
        partition.labels[0] = 0


@pytest.mark.parametrize("labels", [[0, 2], [1, 1], [-2, 0], [[0, 0]]])
def test_no_partitions(labels: list[int]) -> None:
    with pytest.raises(ValueError, match="labels must"):
        Partition(labels)


def test_empty_and_all_suppressed() -> None:
    assert Partition([]).n_classes == 0
    assert Partition([-1, -1]).n_suppressed == 2
    assert Partition([-1, -1]).require(5).n_classes == 0


def test_what_is_required() -> None:
    partition = Partition([0, 0, 1, 1, 1])
    assert partition.require(2, 3) is partition
    with pytest.raises(RecountFailed, match="2 records, fewer than k = 3"):
        partition.require(3)
    with pytest.raises(RecountFailed, match="3 records, more than 2"):
        partition.require(2, 2)


def test_partitions_are_pickled_and_copied() -> None:
    # With one stratum, this is the partition that the method itself returns.
    result = partition(np.arange(12.0)[:, None], 3)
    assert isinstance(result, Partition)
    for copied in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
        assert copied.labels.tolist() == result.labels.tolist()
        assert copied.method_counts == {}


def test_levels_and_coarsened_partitions_are_pickled_and_copied() -> None:
    levels = partition(np.arange(12.0)[:, None], 3, method="full_domain")
    assert isinstance(levels, Levels)
    for copied in (pickle.loads(pickle.dumps(levels)), copy.deepcopy(levels)):
        assert copied.labels.tolist() == levels.labels.tolist()
        assert (copied.levels, copied.number_levels) == (levels.levels, levels.number_levels)
    coarsened = CoarsenedPartition([0, 0, 1, 1], {"age": np.zeros(2, np.int32)})
    for again in (pickle.loads(pickle.dumps(coarsened)), copy.deepcopy(coarsened)):
        assert again.coarser_classes["age"].tolist() == [0, 0]


def test_parts_are_combined() -> None:
    parts = [
        (np.array([4, 0]), Partition([0, 0])),
        (np.array([1, 2, 5]), Partition([1, -1, 0])),
    ]
    assert combine_partitions(parts, 6).labels.tolist() == [0, 2, -1, -1, 0, 1]


def test_levels_of_some_records_have_no_gaps() -> None:
    """Classes that are withheld whole for a model leave none (a campaign's finding)."""
    ages = NumberLevels.of(Attribute("age", Kind.INTEGER), Scale.of(np.arange(60.0)), None)
    levels = Levels([0, 0, 1, 1, 2, -1], {"age": 1}, {"age": ages})
    some = levels.take(np.array([5, 4, 0, 1, -1]))
    assert some.labels.tolist() == [-1, 1, 0, 0, -1]
    assert (some.levels, some.number_levels) == ({"age": 1}, {"age": ages})
