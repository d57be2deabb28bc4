"""Layers: a person is in each at most once, and k persons are in each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata
from dbanon.data.schema import Attribute, Kind
from dbanon.job.policy import Policy
from dbanon.partitioning import person_rows
from dbanon.partitioning.partition_for import partition_for, partition_of
from dbanon.partitioning.person_rows import with_layers

K = 3


def table(persons: list[int], seed: int = 0) -> Microdata:
    """The first number is the person's, the second is the row's."""
    rng = np.random.default_rng(seed)
    person_values = rng.random(max(persons) + 1)
    numbers = np.column_stack((person_values[persons], rng.random(len(persons))))
    return Microdata(
        (Attribute("born", Kind.FLOAT), Attribute("day", Kind.FLOAT)),
        np.arange(len(persons), dtype=np.int64)[:, None],
        numbers,
        np.empty((len(persons), 0), np.int32),
        entities=np.array(persons, np.int32),
    )


def layers_of(microdata: Microdata) -> NDArray[np.int32]:
    layers = with_layers(microdata, K).layers
    assert layers is not None
    return layers


@given(st.lists(st.integers(0, 12), min_size=1, max_size=120), st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_each_layer_holds_k_persons(persons: list[int], seed: int) -> None:
    microdata = table(persons, seed)
    layers, person_of_row = layers_of(microdata), np.array(persons)
    in_all = len(set(persons))
    for layer in np.unique(layers):
        assert len(set(person_of_row[layers == layer].tolist())) >= min(K, in_all)
    rows = np.bincount(person_of_row)
    for person in set(persons):
        used = len(np.unique(layers[person_of_row == person]))
        assert used == min(rows[person], layers.max() + 1)


@pytest.mark.parametrize("method", ["mdav", "gaa_cp", "mondrian", "vmdav"])
def test_classes_hold_k_persons(method: str) -> None:
    persons = np.random.default_rng(2).integers(0, 30, 300).tolist()
    microdata = with_layers(table(persons), K)
    partition = partition_of(partition_for(microdata, Policy(k=K, method=method)))
    person_of_row = np.array(persons)
    persons_by_class = [
        set(person_of_row[partition.labels == c].tolist()) for c in range(partition.n_classes)
    ]
    assert min(map(len, persons_by_class)) >= K
    assert partition.n_classes > 30


def test_rows_are_in_order_of_what_differs_within_persons() -> None:
    microdata = table([0, 0, 0, 1, 1, 1, 2, 2, 2])
    layers, days = layers_of(microdata), microdata.numbers[:, 1]
    for person in range(3):
        rows_of_person = slice(3 * person, 3 * person + 3)
        assert (
            np.argsort(days[rows_of_person]).tolist() == np.argsort(layers[rows_of_person]).tolist()
        )


def test_there_are_no_more_layers_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(person_rows, "MAX_LAYERS", 4)
    assert layers_of(table([0, 1, 2] * 10)).max() == 3


def test_without_entities_nothing_changes() -> None:
    microdata = replace(table([0, 1, 2]), entities=None)
    assert with_layers(microdata, K) is microdata
