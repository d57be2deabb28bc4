"""Embeddings of text and hierarchies have the distances that evaluation uses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon.data.chunks import Chunk, microdata_from_chunks
from dbanon.data.measures import ColumnStatistics
from dbanon.data.microdata import Microdata
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import InvalidParameter, MemoryLimit
from dbanon.hierarchy.leaves import encode_leaves
from dbanon.hierarchy.tree import Hierarchy
from dbanon.kernels import Mdav, MixedMdav
from dbanon.measures.attributes import Categories, Nodes
from dbanon.spaces import numeric
from dbanon.spaces.numeric import numeric_space
from tests.reference import code_space as plain

# Uneven depths, a chain of single children, and a leaf that does not occur.
TREE = Hierarchy.from_nested(
    {
        "*": {
            "a": {"a1": ["x", "y"], "a2": ["z"]},
            "b": ["u", "v", "nobody"],
            "c": {"c1": {"c2": ["w"]}},
        }
    }
)
LEAVES = ("u", "v", "w", "x", "y", "z")


def table(n: int = 60) -> Microdata:
    rng = np.random.default_rng(4)
    codes = np.column_stack([rng.integers(0, 6, n), rng.integers(0, 9, n)]).astype(np.int32)
    attributes = [
        Attribute("place", Kind.CATEGORY),
        Attribute("age", Kind.INTEGER),
        Attribute("text", Kind.CATEGORY),
    ]
    keys = np.arange(n, dtype=np.int64).reshape(-1, 1)
    ages = rng.integers(0, 90, (n, 1)).astype(float)
    texts = [f"text {i}" for i in range(9)]
    return microdata_from_chunks(attributes, [Chunk(keys, ages, codes)], categories=[LEAVES, texts])


def points(data: Microdata, how: str = "range", trees: object = None, **weights: float) -> object:
    hierarchies = {"place": TREE} if trees is None else trees
    records = np.arange(data.n_records)
    space = numeric_space(
        data, ColumnStatistics.of(data), standardize=how, weights=weights, hierarchies=hierarchies
    )
    return space(records)


def squares(points: np.ndarray) -> np.ndarray:
    return np.square(points[:, None] - points[None]).sum(axis=2)


def evaluation_distances(data: Microdata) -> dict[str, np.ndarray]:
    """The distances that evaluation computes between all pairs of records, by attribute."""
    records = np.arange(data.n_records)
    leaves = encode_leaves(data, data.attributes[0], TREE)
    place_nodes = Nodes(name="place", original=leaves, released=TREE.leaves[leaves], tree=TREE)
    text_categories = Categories(name="text", original=data.codes[:, 1], released=data.codes[:, 1])
    ages = data.numbers[:, 0]
    return {
        "place": place_nodes.distances(records[:, None], records[None]),
        "text": text_categories.distances(records[:, None], records[None]),
        "age": np.abs(ages[:, None] - ages[None]) / np.ptp(ages),
    }


def test_squared_distances_are_the_sums_of_those_of_evaluation() -> None:
    data = table()
    expected = evaluation_distances(data)
    assert len(np.unique(expected["place"])) > 3
    total = sum(np.square(distances) for distances in expected.values())
    np.testing.assert_allclose(squares(points(data).points), total, atol=1e-12)
    weighted = 4 * np.square(expected["place"]) + np.square(expected["text"])
    coordinates = points(data, place=4.0, age=0.0).points
    np.testing.assert_allclose(squares(coordinates), weighted, atol=1e-12)


def test_without_a_hierarchy_a_value_has_one_coordinate() -> None:
    data = table().select_attributes(["text"])
    coordinates = points(data, trees={}).points
    np.testing.assert_array_equal(coordinates, np.eye(9)[data.codes[:, 0]] * 0.5**0.5)


def test_numbers_are_as_without_text() -> None:
    data = table()
    for how in ("zscore", "range", "none"):
        numbers_only = points(data.select_attributes(["age"]), how, {})
        with_text = points(data, how)
        np.testing.assert_array_equal(with_text.points[:, 0], numbers_only.points[:, 0])
        assert with_text.names[0] == "age"
        assert set(with_text.names[1:]) == {""}


def test_a_number_with_a_hierarchy_is_measured_by_it() -> None:
    data = table().select_attributes(["age"])
    tree = Hierarchy.from_nested(
        {"*": {"young": [str(i) for i in range(40)], "old": [str(i) for i in range(40, 90)]}}
    )
    distances = squares(points(data, trees={"age": tree}).points)
    old = data.numbers[:, 0] >= 40
    apart = np.where(old[:, None] == old[None], 0.25, 1.0)
    apart[data.numbers[:, 0][:, None] == data.numbers[:, 0][None]] = 0.0
    np.testing.assert_allclose(distances, apart, atol=1e-12)


def test_values_that_are_all_the_same_have_no_coordinate() -> None:
    data = table().select_attributes(["age", "text"])
    same = microdata_from_chunks(
        data.attributes,
        [Chunk(data.keys, data.numbers, np.zeros((60, 1), np.int32))],
        categories=[["one", "two"]],
    )
    assert points(same, trees={}).points.shape == (60, 1)


def test_too_many_coordinates_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = table()
    width = points(data).points.shape[1]
    monkeypatch.setattr(numeric, "MAX_COORDINATES", 60 * width)
    assert points(data).points.shape == (60, width)
    with monkeypatch.context() as narrow:
        narrow.setattr(numeric, "MAX_COORDINATES_PER_RECORD", width)
        assert points(data).points.shape == (60, width)
        narrow.setattr(numeric, "MAX_COORDINATES_PER_RECORD", width - 1)
        with pytest.raises(MemoryLimit, match=f"more than {width - 1} for each, which"):
            assert points(data).points is None
    monkeypatch.setattr(numeric, "MAX_COORDINATES", 60 * width - 1)
    space = points(data)
    with pytest.raises(MemoryLimit, match="coordinates") as refused:
        assert space.points is None
    assert '"place"' in str(refused.value.detail)
    # A block needs fewer coordinates.
    assert len(space.take(np.arange(30)).points) == 30
    # Methods on codes do not compute them.
    kernel = space.kernel(Mdav, MixedMdav)(5)
    while not kernel.step():
        pass
    assert np.bincount(kernel.labels()).tolist() == [5] * 12


@pytest.mark.parametrize("how", ["range", "zscore", "none"])
def test_distances_without_coordinates_are_those_of_points(how: str) -> None:
    data = table()
    for weights in ({}, {"place": 4.0, "age": 0.25}, {"text": 0.0}, {"age": 1e-9}):
        space = points(data, how, None, **weights)
        distances = plain.squared(space.codes, space.metric).astype(float)
        expected = squares(space.points)
        # Distances use close to 62 bits; attributes with tiny weights have fewer digits.
        assert 2.0**56 < distances.max() < 2.0**62
        scale = expected.max() / distances.max()
        np.testing.assert_allclose(distances * scale, expected, atol=1e-6 * expected.max())


def test_equal_distances_stay_equal_without_coordinates() -> None:
    """Integer ages and exact shares of heights give identical integers for equal distances."""
    data = table(200)
    space = points(data)
    distances = plain.squared(space.codes, space.metric)
    expected = evaluation_distances(data)
    ages = np.round(np.ptp(data.numbers) * expected["age"]).astype(int)
    # The trees have heights 3 and 1.
    heights = np.round(9 * (np.square(expected["place"]) + expected["text"])).astype(int)
    _, kind = np.unique(ages * 100 + heights, return_inverse=True)
    assert len(np.unique(kind)) > 500
    least, most = np.full(kind.max() + 1, 1 << 62), np.zeros(kind.max() + 1, np.int64)
    np.minimum.at(least, kind.reshape(-1), distances.reshape(-1))
    np.maximum.at(most, kind.reshape(-1), distances.reshape(-1))
    np.testing.assert_array_equal(least, most)


def test_a_part_is_measured_as_the_table_and_nulls_are_at_no_distance() -> None:
    data = table()
    valid = np.ones((60, 3), bool)
    valid[:20, :] = False
    missing = replace(data, valid=valid)
    space = points(missing)
    assert not space.codes[:20].any()
    np.testing.assert_array_equal(space.codes[20:, [0, 2]], points(data).codes[20:, [0, 2]])
    part = space.take(np.arange(10, 40))
    np.testing.assert_array_equal(part.codes, space.codes[10:40])
    np.testing.assert_array_equal(part.points, space.points[10:40])
    assert part.metric is space.metric


def test_mahalanobis_is_of_numbers() -> None:
    with pytest.raises(InvalidParameter, match="Mahalanobis"):
        points(table(), "mahalanobis")


def test_more_coordinates_than_kernels_take_are_refused() -> None:
    n = 4200
    frame = pd.DataFrame({"age": np.arange(n), "code": [f"c{i}" for i in range(n)]})
    with pytest.raises(MemoryLimit, match="more than 4096 for each") as refused:
        dbanon.partition(frame, 5, method="dcm", recoding="representative")
    assert '"code"' in str(refused.value.detail)
