"""Evaluations of releases as the package makes them: every recoding, every kind of column."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from dbanon.data.partition import AttributePartition, ClusteringResult, Levels, Partition
from dbanon.data.scales import Scale
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import InvalidParameter, RowsNotAnonymous
from dbanon.hierarchy import Hierarchy
from dbanon.job.policy import Policy
from dbanon.measures.attributes import Intervals, Nodes, Numbers
from dbanon.measures.figure import Parameters
from dbanon.partitioning.classes import find_attribute_classes, find_classes
from dbanon.release.evaluation import evaluation_of, find_nodes, pairs_of, parse_intervals
from dbanon.release.recode import recode
from dbanon.stores.frame.microdata import microdata_from_frame

CITIES = Hierarchy.from_nested(
    {"*": {"north": {"coast": ["Kiel", "Bremen"], "inland": ["Celle"]}, "south": ["Ulm", "Passau"]}}
)
SIZES = ["small", "medium, so to say", "large"]


def frame(n=60, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "income": np.round(np.exp(rng.normal(8, 1, n)), 2),
            "born": pd.Timestamp("1950-01-01") + pd.to_timedelta(rng.integers(0, 20000, n), "D"),
            "city": rng.choice(["Kiel", "Bremen", "Celle", "Ulm", "Passau"], n),
            "colour": rng.choice(["red", "green", "blue"], n),
            "size": rng.choice(SIZES, n),
        }
    )


def released(table, columns, **policy):
    """Microdata, classes as they are released, and the recoded values."""
    orders = {"size": SIZES} if "size" in columns else {}
    trees = {"city": CITIES} if "city" in columns else {}
    complete_policy = Policy(orders=orders, hierarchies=trees, **policy)
    microdata = microdata_from_frame(table, list(columns), orders=orders)
    if complete_policy.guarantee == "per_attribute":
        classes = find_attribute_classes(microdata, complete_policy)
    else:
        classes = find_classes(microdata, complete_policy)
    levels = classes if isinstance(classes, Levels) else None
    release = recode(microdata, ClusteringResult(classes, levels), complete_policy, _no_totals)
    return microdata, release, trees


def _no_totals(partition, attributes):
    raise AssertionError("no column is wide")


def evaluated(table, columns, **policy):
    microdata, release, trees = released(table, columns, **policy)
    pairs = pairs_of(microdata, release.partition, release.columns, trees)
    return release, pairs, evaluation_of(pairs)


NUMBERS = ("age", "income", "born")


@pytest.mark.parametrize(
    "policy",
    [
        {"method": "mdav"},
        {"method": "mdav", "recoding": "median"},
        {"method": "mdav", "recoding": "medoid"},
        {"method": "secure_kward", "options": {"epsilon": 0.3, "gamma0": 0.6}},
    ],
    ids=["mean", "median", "medoid", "secure"],
)
def test_numbers(policy):
    release, pairs, evaluation = evaluated(frame(), NUMBERS, k=4, **policy)
    assert [type(column) for column in pairs.columns] == [Numbers] * 3
    assert pairs.is_all_numeric
    # The loss of the written values, rounded to the columns' types.
    assert evaluation.losses["sse_loss"] == pytest.approx(release.loss, rel=1e-12)
    for column in release.losses:
        assert evaluation.columns[column.name]["sse_loss"] == pytest.approx(column.released)
    assert evaluation.losses["label_loss"] is None
    assert evaluation.losses["entropy_loss"] is None
    assert evaluation.risks["class_risk"] == pytest.approx(1 / release.partition.sizes.min())
    assert evaluation.risks["linkage_risk"] <= 1 / 4
    if policy["method"] == "secure_kward":
        microdata, release, trees = released(frame(), NUMBERS, k=4, **policy)
        pairs = pairs_of(microdata, release.partition, release.columns, trees)
        safe = evaluation_of(pairs, Parameters(epsilon=0.3))
        assert safe.risks["security_ratio"] >= 0.6


def test_ranks():
    release, pairs, evaluation = evaluated(frame(), ("age", "size"), k=4)
    assert [column.is_ordinal for column in pairs.columns] == [False, True]
    assert isinstance(pairs.columns[1], Numbers)
    assert not pairs.is_all_numeric
    assert evaluation.losses["sse_loss"] == pytest.approx(release.loss, rel=1e-12)
    assert evaluation.losses["entropy_loss"] is not None
    assert evaluation.risks["interval_risk"] is None
    assert "age" in evaluation.notes["score"] or "numbers" in evaluation.notes["score"]
    assert set(evaluation.columns["size"]) >= {"direct_loss", "entropy_loss", "entropy_change"}
    assert "interval_risk" in evaluation.columns["age"]


MIXED = ("age", "born", "city", "colour", "size")


@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize("how", ["text", "bounds", "midpoint"])
def test_labels(how, local):
    release, pairs, evaluation = evaluated(
        frame(), MIXED, k=4, method="gaa_cp", intervals=how, local_range=local
    )
    age, born, city, colour, size = pairs.columns
    assert isinstance(city, Nodes)
    assert isinstance(colour, Nodes)
    # A label covers all its leaves.
    for column in (city, colour):
        assert evaluation.columns[column.name]["direct_loss"] == 0
    if how == "midpoint":
        assert [type(column) for column in (age, born, size)] == [Numbers] * 3
        return
    assert [type(column) for column in (age, born, size)] == [Intervals] * 3
    assert [column.is_ordinal for column in (age, born, size)] == [False, False, True]
    assert evaluation.losses["direct_loss"] == 0
    assert evaluation.losses["label_loss"] == pytest.approx(release.loss, rel=1e-6)
    assert evaluation.losses["overall_loss"] is None
    assert evaluation.losses["sse_loss"] is None
    assert 0 < evaluation.losses["entropy_loss"] < 1
    # Every class covers its own members, so the own class is always among the nearest.
    assert evaluation.parts["linkage_risk"]["class_linkage"] == 1
    assert evaluation.risks["linkage_risk"] <= 1 / 4


def test_labels_of_a_full_domain():
    release, pairs, evaluation = evaluated(
        frame(), ("city", "colour"), k=4, method="full_domain", max_suppression=0.2
    )
    assert evaluation.suppressed == release.partition.n_suppressed
    assert evaluation.rows == 60 - evaluation.suppressed
    assert evaluation.losses["label_loss"] == pytest.approx(release.loss)
    assert pairs.n == evaluation.rows


def test_attributes_by_themselves():
    with pytest.warns(RowsNotAnonymous):
        release, pairs, evaluation = evaluated(
            frame(), NUMBERS, k=5, method="individual_ranking", guarantee="per_attribute"
        )
    assert not isinstance(release.partition, AttributePartition)
    assert evaluation.losses["sse_loss"] == pytest.approx(release.loss, rel=1e-12)
    # Rows are not classes: what an attacker finds is far above 1/k.
    assert evaluation.risks["linkage_risk"] > 0.8
    assert evaluation.risks["class_risk"] == 1
    assert pairs.n_classes > 40


def test_nulls_make_groups():
    table = frame(80)
    table["age"] = table["age"].astype("Int64")
    table.loc[::3, "age"] = pd.NA
    table.loc[::4, "income"] = np.nan
    release, pairs, evaluation = evaluated(table, ("age", "income"), k=4, nulls="category")
    assert pairs.groups is not None
    assert len(np.unique(pairs.groups[0])) == 4
    assert evaluation.losses["sse_loss"] == pytest.approx(release.loss, rel=1e-12)
    assert evaluation.risks["linkage_risk"] <= 1 / 4
    # A person with neither value is one of the rows without any.
    assert pairs.sizes.min() >= 4


def test_strata_are_not_compared():
    table = frame(60)
    microdata, release, _ = released(table, ("age",), k=30)
    halves = (np.arange(60) % 2).astype(np.int32)
    single_class = evaluation_of(
        pairs_of(microdata, Partition(np.zeros(60, int)), _only(release, 1))
    )
    parts = evaluation_of(
        pairs_of(replace(microdata, strata=halves), Partition(halves), _only(release, 2))
    )
    assert single_class.risks["linkage_risk"] == pytest.approx(1 / 60)
    assert parts.risks["linkage_risk"] == pytest.approx(1 / 30)


def _only(release, classes):
    """The column with one value for all classes."""
    [column] = release.columns
    value = column.values[:1]
    return [replace(column, values=np.repeat(value, classes), missing=None)]


def test_persons():
    table = frame(60)
    microdata, release, _ = released(table, ("age", "income"), k=6)
    nobody = np.zeros(60, np.int32)
    one_person = pairs_of(replace(microdata, entities=nobody), release.partition, release.columns)
    assert evaluation_of(one_person).risks["class_risk"] == 1
    people = (np.arange(60) // 2).astype(np.int32)
    pairs = pairs_of(replace(microdata, entities=people), release.partition, release.columns)
    counted = [len(set(people[release.partition.labels == c])) for c in range(pairs.n_classes)]
    assert sorted(pairs.sizes.tolist()) == sorted(counted)
    assert evaluation_of(pairs).risks["class_risk"] == pytest.approx(1 / min(counted))


def test_withheld_records_are_in_no_figure():
    """Figures of the released rows are those of a table that never had the others."""
    table = frame(60)
    microdata, release, trees = released(table, ("age", "city"), k=4, method="gaa_cp")
    is_withheld = release.partition.labels == 0
    labels = np.where(is_withheld, -1, release.partition.labels - 1)
    columns = [replace(c, values=c.values[1:], missing=None, losses=None) for c in release.columns]
    some = evaluation_of(pairs_of(microdata, Partition(labels), columns, trees))
    fewer = microdata_from_frame(table[~is_withheld], ["age", "city"])
    never = evaluation_of(pairs_of(fewer, Partition(labels[~is_withheld]), columns, trees))
    assert some.suppressed == is_withheld.sum()
    assert some.to_dict() == {**never.to_dict(), "suppressed": int(is_withheld.sum())}


def test_records_withheld_before_are_counted():
    microdata, release, trees = released(frame(), ("age",), k=4)
    pairs = pairs_of(replace(microdata, n_withheld=7), release.partition, release.columns, trees)
    assert evaluation_of(pairs).suppressed == 7


def test_numbers_with_a_hierarchy():
    table = frame(60)
    tree = Hierarchy.from_levels(
        [[str(age), f"{age // 10}x", "young" if age < 40 else "old", "*"] for age in range(18, 90)]
    )
    policy = Policy(k=4, method="gaa_cp", hierarchies={"age": tree})
    microdata = microdata_from_frame(table, ["age"])
    release = recode(
        microdata, ClusteringResult(find_classes(microdata, policy)), policy, _no_totals
    )
    pairs = pairs_of(microdata, release.partition, release.columns, {"age": tree})
    assert isinstance(pairs.columns[0], Nodes)
    evaluation = evaluation_of(pairs)
    assert evaluation.losses["label_loss"] == pytest.approx(release.loss)
    assert evaluation.losses["direct_loss"] == 0


def test_classes_of_other_records_are_refused():
    microdata, release, trees = released(frame(), ("age",), k=4)
    with pytest.raises(InvalidParameter, match="61 records, the data 60"):
        pairs_of(microdata, Partition(np.zeros(61, int)), release.columns, trees)


def test_everything_withheld():
    microdata, release, trees = released(frame(), NUMBERS, k=4)
    columns = [replace(c, values=c.values[:0], missing=None) for c in release.columns]
    evaluation = evaluation_of(pairs_of(microdata, Partition(np.full(60, -1)), columns, trees))
    assert evaluation.rows == 0
    assert evaluation.suppressed == 60
    assert set(evaluation.losses.values()) | set(evaluation.risks.values()) == {None}
    assert set(evaluation.notes) == {*evaluation.losses, *evaluation.risks}


def test_as_plain_values():
    _, _, evaluation = evaluated(frame(), NUMBERS, k=4)
    plain = json.loads(json.dumps(evaluation.to_dict()))
    assert plain == evaluation.to_dict()
    assert plain["em4adom"]["IL_h"] == evaluation.losses["distance_loss"]
    assert plain["em4adom"]["ZIL"] == evaluation.parts["direct_loss"]["zil"]
    assert plain["parameters"]["lambdas"] == [0.5, 0.0, 0.5]
    with pytest.raises(TypeError):
        evaluation.losses["sse_loss"] = 0.0


def test_no_value_of_a_record_is_in_it():
    table = frame(60)
    table["income"] = 12345.678 + np.arange(60) / 7
    table["city"] = [f"secretville{i}" for i in range(60)]
    table["colour"] = ["rareword"] * 60
    for columns, method in ((("age", "income"), "mdav"), (("age", "colour"), "gaa_cp")):
        _, _, evaluation = evaluated(table, columns, k=4, method=method)
        text = json.dumps(evaluation.to_dict())
        assert "rareword" not in text
        assert "secretville" not in text
        assert "12345.6" not in text


# --- labels --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attribute", "label", "ends"),
    [
        (Attribute("a", Kind.INTEGER), "[30, 40)", (30, 39)),
        (Attribute("a", Kind.INTEGER), "[30, 40[", (30, 39)),
        (Attribute("a", Kind.INTEGER), "30", (30, 30)),
        (Attribute("a", Kind.INTEGER), "*", (-7, 99)),
        (Attribute("a", Kind.DECIMAL, scale=2), "[-0.50, 1.25]", (-0.5, 1.25)),
        (Attribute("a", Kind.DECIMAL, scale=2), "[-0.50, 1.25)", (-0.5, 1.25 - 0.01)),
        (Attribute("a", Kind.FLOAT), "[1e-07, 2.5)", (1e-7, 2.5)),
        (Attribute("a", Kind.DATE), "[1970-01-02, 1970-02-01)", (1, 30)),
        (Attribute("a", Kind.TIMESTAMP), "1970-01-01 00:00:01", (1e6, 1e6)),
        (
            Attribute("a", Kind.TIMESTAMP, has_time_zone=True),
            "[1970-01-01 00:00:00+00:00, 1970-01-01 00:00:01+00:00)",
            (0, 1e6 - 1),
        ),
        (Attribute("a", Kind.ORDINAL, order=("x", "y, z", "y")), "[x, y, z]", (0, 1)),
        (Attribute("a", Kind.ORDINAL, order=("x", "y, z", "y")), "y, z", (1, 1)),
    ],
)
def test_intervals_are_read_back(attribute, label, ends):
    low, high = parse_intervals([label, label], attribute, Scale(2, -7.0, 99.0, is_integral=False))
    assert low.tolist() == [ends[0]] * 2
    assert high.tolist() == [ends[1]] * 2


@pytest.mark.parametrize("label", ["secret", "[1, secret)", "[1 2)", "(1, 2)", "[1, 2", "nan", ""])
def test_what_is_no_interval_is_counted_not_told(label):
    with pytest.raises(InvalidParameter, match="holds 1 labels") as error:
        parse_intervals([label, "3"], Attribute("a", Kind.INTEGER), Scale(2, 0.0, 1.0))
    assert "secret" not in str(error.value)


def test_nodes_are_read_back():
    assert find_nodes(["Kiel", "north", "*"], CITIES, "city").tolist() == [
        CITIES.node("Kiel"),
        CITIES.node("north"),
        0,
    ]
    named = Hierarchy.from_nested({"anywhere": ["a", "b"]})
    assert find_nodes(["*", "b"], named, "city").tolist() == [0, named.node("b")]
    with pytest.raises(InvalidParameter, match="holds 2 labels") as error:
        find_nodes(["secret", "hidden", "Kiel"], CITIES, "city")
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("label", "ends"),
    [
        ("18-29", (18, 29)),
        ("-10 to -6", (-10, -6)),
        ("-5 to 4", (-5, 4)),
        ("65+", (65, 99)),
        ("<18", (-20, 17)),
        ("120+", (120, 120)),
        ("30-18", None),
        ("a-b", None),
        ("+", None),
        ("<", None),
    ],
)
def test_labels_of_bands_are_read_as_numbers(label: str, ends: tuple[float, float] | None) -> None:
    attribute, scale = Attribute("age", Kind.INTEGER), Scale.of(np.array([-20.0, 30.0, 99.0]))
    if ends is None:
        with pytest.raises(InvalidParameter, match="neither a value nor an interval"):
            parse_intervals([label], attribute, scale)
        return
    low, high = parse_intervals([label], attribute, scale)
    assert (low[0], high[0]) == ends
