"""Tables that others released, record beside record."""

import csv
import gzip

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon.data.partition import Partition
from dbanon.errors import InvalidParameter
from dbanon.hierarchy import Hierarchy
from dbanon.measures.attributes import Intervals, Nodes, Numbers
from dbanon.release.evaluation import evaluation_of
from dbanon.stores.frame.microdata import microdata_from_frame
from tests.prerequisites import require_reference
from tests.reference import methods
from tests.reference.tables import pairs_of_tables
from tests.synthetic_data import census_like, class_means, standardized


def microdata(orders=None, **columns):
    frame = pd.DataFrame(columns)
    return microdata_from_frame(frame, list(frame.columns), orders=orders)


def texts(*values):
    return np.array(values, object)


AGES = [20, 25, 31, 38, 44, 59]


def test_numbers_become_classes_where_they_are_equal():
    pairs = pairs_of_tables(
        microdata(age=AGES), {"age": np.array([22.5, 22.5, 34.5, 34.5, 50, 50])}
    )
    assert pairs.partition.labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert isinstance(pairs.columns[0], Numbers)
    assert evaluation_of(pairs).risks["linkage_risk"] == pytest.approx(1 / 2)


def test_noise_is_a_class_of_its_own_for_every_record():
    pairs = pairs_of_tables(microdata(age=AGES), {"age": np.array(AGES) + 0.5})
    assert pairs.n_classes == 6
    evaluation = evaluation_of(pairs)
    assert evaluation.risks["linkage_risk"] == 1
    assert evaluation.losses["sse_loss"] < 0.01


def test_records_of_any_value_are_suppressed():
    table = microdata(age=AGES, city=list("aabbcc"))
    released = {
        "age": texts("[20, 30[", "[20, 30[", "*", "*", "44", "59"),
        "city": texts("a", "a", "*", "b", "c", "z"),
    }
    pairs = pairs_of_tables(table, released)
    assert (pairs.n, pairs.n_suppressed) == (5, 1)
    age, city = pairs.columns
    assert isinstance(age, Intervals)
    assert isinstance(city, Nodes)
    evaluation = evaluation_of(pairs)
    # "z" came from elsewhere; everything else covers.
    assert evaluation.columns["city"]["direct_loss"] == pytest.approx(1 / 5)
    assert evaluation.columns["age"]["direct_loss"] == 0


def test_labels_of_a_hierarchy():
    tree = Hierarchy.from_nested({"*": {"warm": ["red", "yellow"], "cold": ["blue"]}})
    table = microdata(colour=["red", "yellow", "blue", "red"])
    released = {"colour": texts("warm", "warm", "cold", "blue")}
    evaluation = evaluation_of(pairs_of_tables(table, released, {"colour": tree}))
    assert evaluation.columns["colour"]["label_loss"] == pytest.approx(1.5 / 4)
    # From red to blue the path climbs to the root, two edges above blue.
    assert evaluation.columns["colour"]["direct_loss"] == pytest.approx(1 / 4)


def test_orders():
    table = microdata({"size": ["s", "m", "l"]}, size=["s", "s", "m", "l"])
    pairs = pairs_of_tables(table, {"size": texts("s", "m", "m", "m")})
    assert pairs.columns[0].is_ordinal
    assert evaluation_of(pairs).losses["direct_loss"] == pytest.approx((1 / 3 + 1 / 3) / 4)


def test_nulls():
    table = microdata(age=[20.0, np.nan, 30.0, np.nan], city=["a", "b", None, "a"])
    released = {"age": np.array([21, np.nan, 30, np.nan]), "city": texts("a", "b", None, "b")}
    pairs = pairs_of_tables(table, released)
    assert pairs.n_classes == 3
    assert len(np.unique(pairs.groups[0])) == 3
    # The two without an age, "b" and "a", are both released as "b".
    assert evaluation_of(pairs).losses["direct_loss"] == pytest.approx((0.1 + 1) / (2 + 3))


def test_classes_of_the_caller():
    table = microdata(age=AGES)
    released = {"age": np.array([22.5, 22.5, 34.5, 34.5, 50, 51])}
    pairs = pairs_of_tables(table, released, classes=Partition([0, 0, -1, 1, 2, 2]))
    assert pairs.n_suppressed == 1
    # Records of the last class are not released alike.
    assert pairs.n_classes == 4
    assert evaluation_of(pairs).risks["class_risk"] == 1


def test_what_does_not_fit_is_refused():
    table = microdata(age=AGES)
    with pytest.raises(InvalidParameter, match='no column "age"'):
        pairs_of_tables(table, {})
    with pytest.raises(InvalidParameter, match="5 released values, not 6"):
        pairs_of_tables(table, {"age": np.zeros(5)})
    with pytest.raises(InvalidParameter, match="7 records, not 6"):
        pairs_of_tables(table, {"age": np.zeros(6)}, classes=Partition([0] * 7))
    with pytest.raises(InvalidParameter, match="1 labels") as error:
        pairs_of_tables(table, {"age": texts("1", "2", "3", "4", "5", "secret")})
    assert "secret" not in str(error.value)


# --- releases of plain programs ------------------------------------------------------------------


def consecutive(order, k):
    """Classes of k records each along an order; the last has the rest, too."""
    labels = np.empty(len(order), int)
    labels[order] = np.minimum(np.arange(len(order)) // k, len(order) // k - 1)
    return labels


def principal(points):
    """The records' order along the first principal component."""
    return (points @ np.linalg.svd(points, full_matrices=False)[2][0]).argsort(kind="stable")


PLAIN = {
    "mdav": lambda points, k: methods.mdav(points, k),
    "pca": lambda points, k: consecutive(principal(points), k),
    "single": lambda points, k: consecutive(points[:, 0].argsort(kind="stable"), k),
}


@pytest.fixture(scope="module")
def plainly():
    """By method and k, the rows of a plain program, and their evaluation."""
    original = census_like(180, 3)
    points, names = standardized(original), ("expend", "income", "savings")
    table = microdata(**dict(zip(names, original.T, strict=True)))
    releases = {}
    for method in (*PLAIN, "onedims"):
        for k in (3, 6, 12):
            if method == "onedims":
                orders = [column.argsort(kind="stable") for column in original.T]
                released = np.column_stack(
                    [
                        class_means(column[:, None], consecutive(order, k))[:, 0]
                        for column, order in zip(original.T, orders, strict=True)
                    ]
                )
            else:
                released = class_means(original, PLAIN[method](points, k))
            columns = dict(zip(names, np.ascontiguousarray(released.T), strict=True))
            releases[method, k] = released, evaluation_of(pairs_of_tables(table, columns))
    return original, releases


def test_plain_releases_are_k_anonymous_but_for_those_of_single_columns(plainly):
    _, releases = plainly
    for (method, k), (released, evaluation) in releases.items():
        smallest = np.unique(released, axis=0, return_counts=True)[1].min()
        assert evaluation.risks["class_risk"] == pytest.approx(1 / smallest)
        assert bool(smallest >= k) is (method != "onedims")
        assert (evaluation.risks["linkage_risk"] <= 1 / k) is (method != "onedims")


def test_losses_of_plain_releases_are_their_squares(plainly):
    original, releases = plainly
    points = standardized(original)
    for released, evaluation in releases.values():
        z = (released - original.mean(axis=0)) / original.std(axis=0, ddof=1)
        assert evaluation.losses["sse_loss"] == pytest.approx(
            np.square(z - points).sum() / np.square(points).sum(), rel=1e-9
        )


@pytest.mark.parametrize("k", [3, 6, 12])
def test_mdav_is_the_plain_one_s_in_loss_and_risk(plainly, k):
    original, releases = plainly
    released, theirs = releases["mdav", k]
    means = class_means(original, dbanon.partition(original, k).labels)
    np.testing.assert_allclose(means, released, rtol=1e-12)
    ours = dbanon.evaluate(original, means)
    assert ours.losses["sse_loss"] == pytest.approx(theirs.losses["sse_loss"], rel=1e-9)
    assert ours.risks["linkage_risk"] == pytest.approx(theirs.risks["linkage_risk"], rel=1e-9)


@pytest.mark.parametrize("method", ["pca", "single", "onedims"])
def test_of_classes_within_classes_loss_grows_and_risk_falls(plainly, method):
    """Those of 6 are made of two of 3 each: their means lose more, whatever the table."""
    _, releases = plainly
    evaluations = [releases[method, k][1] for k in (3, 6, 12)]
    losses = [each.losses["sse_loss"] for each in evaluations]
    risks = [each.risks["linkage_risk"] for each in evaluations]
    assert losses == sorted(losses)
    assert risks == sorted(risks, reverse=True)


# --- tables of sdcMicro --------------------------------------------------------------------------

METHODS = ("mdav", "rmd", "pca", "clustpca", "influence", "single", "onedims")


def read(path):
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    return header, np.array(rows, float)


@pytest.fixture(scope="module")
def evaluated():
    """By method and k, the evaluation of sdcMicro's release of its own test data."""
    releases = [f"testdata_{method}_k{k}.csv.gz" for method in METHODS for k in (3, 5, 10)]
    files = [f"sdcmicro/{name}" for name in ("testdata.csv", *releases)]
    folder = require_reference(*files) / "sdcmicro"
    header, original = read(folder / "testdata.csv")
    table = microdata(**dict(zip(header, original.T, strict=True)))
    evaluations = {}
    for method in METHODS:
        for k in (3, 5, 10):
            names, released = read(folder / f"testdata_{method}_k{k}.csv.gz")
            assert names == header
            columns = dict(zip(header, np.ascontiguousarray(released.T), strict=True))
            evaluations[method, k] = evaluation_of(pairs_of_tables(table, columns))
    return original, evaluations


def test_sdcmicro_releases_rows_that_are_k_anonymous_but_for_one_method(evaluated):
    _, evaluations = evaluated
    for (method, k), evaluation in evaluations.items():
        risks = evaluation.risks
        assert evaluation.rows == 4580
        if method == "onedims":
            # Each column by itself: what a method does that gives no k-anonymous rows.
            assert risks["class_risk"] == 1
            assert risks["linkage_risk"] > 2 / k
        else:
            assert risks["class_risk"] <= 1 / k
            assert risks["linkage_risk"] <= 1 / k


@pytest.mark.parametrize("k", [3, 5, 10])
def test_mdav_of_both_is_the_same_loss_and_risk(evaluated, k):
    original, evaluations = evaluated
    classes = dbanon.partition(original, k)
    means = np.add.reduceat(original[classes.members], classes.starts) / classes.sizes[:, None]
    released = means[classes.labels]
    names = ("expend", "income", "savings")
    table = microdata(**dict(zip(names, original.T, strict=True)))
    ours = evaluation_of(
        pairs_of_tables(table, dict(zip(names, np.ascontiguousarray(released.T), strict=True)))
    )
    theirs = evaluations["mdav", k]
    assert ours.losses["sse_loss"] == pytest.approx(theirs.losses["sse_loss"], rel=0.02)
    assert ours.risks["linkage_risk"] == pytest.approx(theirs.risks["linkage_risk"], rel=0.05)


@pytest.mark.parametrize("method", METHODS)
def test_loss_grows_and_risk_falls_with_k(evaluated, method):
    _, evaluations = evaluated
    for name, rises in (("sse_loss", True), ("linkage_risk", False)):
        values = [
            {**evaluations[method, k].losses, **evaluations[method, k].risks}[name]
            for k in (3, 5, 10)
        ]
        assert values == sorted(values, reverse=not rises)
