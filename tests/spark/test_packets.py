"""Packets of rows are unpacked unchanged, for all types and sizes."""

from __future__ import annotations

import datetime
import decimal

import pyarrow as pa
import pytest

from dbanon.extensions.spark import layout
from dbanon.extensions.spark.layout import (
    CLASSES,
    PACKET_SCHEMA,
    ROWS,
    TASK,
    Packet,
    unpack,
    unpack_column,
)

TABLE = pa.table(
    {
        "numbers": pa.array([1.5, None, -0.0, float("inf")] * 50),
        "texts": pa.array(["a", None, "", "ü\0"] * 50),
        "days": pa.array([datetime.date(2020, 2, 29), None] * 100),
        "money": pa.array([decimal.Decimal("1.25"), None] * 100, pa.decimal128(30, 2)),
        "instants": pa.array(range(200), pa.timestamp("us", "UTC")),
        "lists": pa.array([[1, 2], [], None, [3]] * 50, pa.list_(pa.int64())),
        "truths": pa.array([True, False, None, True] * 50),
    }
)


@pytest.mark.parametrize("most", [1 << 22, 4000, 1])
def test_rows_go_through_packets(most, monkeypatch):
    monkeypatch.setattr(layout, "MAX_PACKET_BYTES", most)
    # A part of a table contains no other rows.
    part = TABLE.slice(3, 150)
    batches = list(Packet(part, 7).batches())
    assert len(batches) == {1 << 22: 1, 1: 150}.get(most, len(batches))
    assert all(batch.schema == PACKET_SCHEMA for batch in batches)
    assert {batch.column(TASK)[0].as_py() for batch in batches} == {7}
    assert all(batch.column(CLASSES).null_count == 1 for batch in batches)
    unpacked_rows = pa.Table.from_batches(unpack_column(batches, ROWS))
    assert unpacked_rows.equals(part)
    together = pa.Table.from_batches(batches).combine_chunks()
    assert pa.Table.from_batches(unpack(together[ROWS])).equals(part)


def test_no_rows_are_no_packet():
    assert list(Packet(TABLE.slice(0, 0)).batches()) == []


def test_a_packet_that_lies_anywhere():
    """Arrow needs alignment to eight bytes, which a packet after another value may lack."""
    [batch] = Packet(TABLE, packet_column=CLASSES).batches()
    packets = pa.array([b"abc", batch.column(CLASSES)[0].as_py(), None], pa.binary())
    assert pa.Table.from_batches(unpack(packets[1:])).equals(TABLE)
