"""Pieces on all cores: the same as one after the other, errors too, and no signal arrives there."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from dbanon.data.measures import ColumnStatistics
from dbanon.data.memory import limit_threads, worker_threads
from dbanon.data.partition import SUPPRESSED, Partition, combine_partitions
from dbanon.data.pieces import on_all_cores, read_column, release_pages, split_records
from dbanon.doors.arrays import microdata_of


@pytest.fixture
def small(monkeypatch):
    """Pieces of seven."""
    monkeypatch.setattr("dbanon.data.pieces.PIECE_RECORDS", 7)
    monkeypatch.setattr("dbanon.doors.arrays.PIECE_RECORDS", 7)


@pytest.mark.parametrize("n", [0, 1, 6, 7, 8, 14, 100])
def test_pieces_are_all_in_order(n, small) -> None:
    indices = [i for piece in split_records(n) for i in range(n)[piece]]
    assert indices == list(range(n))
    assert all(piece.stop - piece.start <= 7 for piece in split_records(n))


@pytest.fixture
def two_threads():
    limit_threads(2)
    yield
    limit_threads(None)


def test_items_are_found_in_their_order_by_threads_without_signals(two_threads) -> None:
    def work(item):
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        return item, signal.SIGINT in mask, threading.current_thread() is threading.main_thread()

    assert on_all_cores(work, range(20)) == [(i, True, False) for i in range(20)]
    # One alone needs no thread.
    assert on_all_cores(work, [3]) == [(3, False, True)]
    assert on_all_cores(work, []) == []


def test_a_worker_thread_starts_no_others(two_threads) -> None:
    def work(item):
        inner = on_all_cores(lambda i: threading.get_ident(), range(3))
        return worker_threads(), set(inner) == {threading.get_ident()}

    assert on_all_cores(work, range(4)) == [(1, True)] * 4
    assert worker_threads() == 2


def test_an_error_of_one_is_raised_and_others_do_not_begin() -> None:
    started = []

    def work(item):
        started.append(item)
        if item == 1:
            raise KeyError(item)
        # The waiting caller sees the error long before all others could have started.
        time.sleep(0.001)

    with pytest.raises(KeyError):
        on_all_cores(work, range(10_000))
    assert len(started) < 10_000


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint8])
def test_arrays_in_pieces_have_the_same_copies_and_measures(dtype, small) -> None:
    rng = np.random.default_rng(2)
    original = (rng.normal(size=(60, 3)) * 50 + 100).astype(dtype)
    for data in (original, original.T.copy().T, original[::-2]):
        microdata = microdata_of(data)
        np.testing.assert_array_equal(microdata.numbers, data.astype(np.float64))
        assert microdata.numbers.flags.c_contiguous
        assert not np.shares_memory(microdata.numbers, data)
        on_one_core, all_cores = (
            ColumnStatistics.of(microdata),
            ColumnStatistics.of(microdata, parallel_map=on_all_cores),
        )
        assert dict(on_one_core.scales) == dict(all_cores.scales)


@pytest.mark.parametrize("each", [map, on_all_cores])
def test_parts_are_put_together_by_all_cores_as_by_one(each) -> None:
    rng = np.random.default_rng(3)
    parts = []
    order = rng.permutation(90)
    expected = np.full(100, SUPPRESSED)
    first = 0
    for records in np.split(order, 6):
        labels = np.unique(rng.integers(0, 4, 15), return_inverse=True)[1]
        labels[rng.integers(0, 15, 2)] = SUPPRESSED
        is_member = labels >= 0
        labels[is_member] = np.unique(labels[is_member], return_inverse=True)[1]
        expected[records[is_member]] = labels[is_member] + first
        first += labels.max() + 1
        parts.append((records, Partition(labels, {"turns": 2})))
    combined = combine_partitions(parts, 100, each)
    np.testing.assert_array_equal(combined.labels, expected)
    assert combined.method_counts == {"turns": 12}
    assert combined.n_suppressed == int((expected < 0).sum())
    # For all records in order there is nothing to rearrange.
    single_part = combine_partitions([(np.arange(100), combined)], 100)
    assert single_part.labels is combined.labels
    turned = combine_partitions([(np.arange(100)[::-1], combined)], 100)
    np.testing.assert_array_equal(turned.labels, expected[::-1])


def test_labels_that_are_owned_are_checked_as_others_are() -> None:
    with pytest.raises(ValueError, match="no gaps"):
        Partition.without_copy(np.array([0, 2], np.int32))
    with pytest.raises(ValueError, match="-1 or more"):
        Partition.without_copy(np.array([0, -2], np.int32))
    assert not Partition.without_copy(np.array([0, 1], np.int32)).labels.flags.writeable


def test_a_column_on_disk_is_read_without_keeping_the_table_in_memory(tmp_path, small) -> None:
    path = tmp_path / "table"
    table = np.arange(9000.0).reshape(-1, 3)
    table.tofile(path)
    mapped = np.asarray(np.memmap(path, np.float64, "r", shape=table.shape))
    assert np.shares_memory(read_column(table, 1), table)
    for index in range(3):
        np.testing.assert_array_equal(read_column(mapped, index), table[:, index])
        assert resident_kib(path) == 0
    assert mapped.sum() == table.sum()
    assert resident_kib(path) > 0
    release_pages(mapped[5:, 1:])
    assert resident_kib(path) == 0
    # Released values can be read again.
    np.testing.assert_array_equal(mapped, table)


def resident_kib(path: Path) -> int:
    """The part of a mapped file that counts as memory of this process."""
    mappings = Path("/proc/self/smaps").read_text().split(str(path))[1:]
    return sum(int(mapping.split("Rss:")[1].split()[0]) for mapping in mappings)
