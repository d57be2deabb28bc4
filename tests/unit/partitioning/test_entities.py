"""Persons of many records: k counts persons, by whatever method."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbanon
from dbanon.data.partition import AttributePartition, Partition
from dbanon.errors import (
    InvalidParameter,
    NullInEntity,
    NullInQuasiIdentifier,
    SuppressionOverBudget,
    TooFewRecords,
    UnsupportedType,
)
from dbanon.job.policy import Policy
from dbanon.methods import METHODS
from dbanon.partitioning.classes import find_classes
from dbanon.partitioning.entities import build_units
from dbanon.stores.frame.microdata import microdata_from_frame


def people(seed=1, n=90, persons=30, nulls=0.0):
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 60, n).astype(float)
    age[rng.random(n) < nulls] = np.nan
    return pd.DataFrame(
        {
            "row": np.arange(n),
            "who": rng.integers(0, persons, n) * 7 - 3,
            "age": age,
            "sex": rng.choice(["f", "m"], n),
            "site": rng.choice(["a", "b"], n),
            "ill": rng.choice(["flu", "cough", "gastritis"], n),
        }
    )


def release(frame, **overrides):
    arguments = {"quasi_identifiers": ["age", "sex"], "k": 4, "method": "gaa_cp", "entity": "who"}
    return dbanon.anonymize_frame(frame, keep=["row"], **{**arguments, **overrides})


def persons_of(released, frame, columns):
    """The persons of each class, looked up by the kept row number."""
    who = dict(zip(frame["row"], frame["who"], strict=True))
    classes = defaultdict(set)
    for values in released[[*columns, "row"]].itertuples(index=False, name=None):
        released_values = tuple(
            "NULL" if value is None or value != value else value for value in values[:-1]
        )
        classes[released_values].add(who[values[-1]])
    return list(classes.values())


def test_worked_example():
    """Means 21, 30 and 41 of persons 1 to 3; 5 and 4 of "f" and "m"; each person is one unit."""
    frame = pd.DataFrame(
        {
            "age": [30, 20, 22, 40, 41, 42],
            "sex": ["m", "f", "m", "m", "f", "f"],
        }
    )
    microdata = microdata_from_frame(frame, ["age", "sex"])
    object.__setattr__(microdata, "entities", np.array([2, 1, 1, 3, 3, 3], np.int32))
    units = build_units(microdata)
    assert units.unit_of_record.tolist() == [0, 1, 1, 2, 2, 2]
    assert units.microdata.numbers[:, 0].tolist() == [30, 21, 41]
    # f and m are equally frequent for person 1: the first in order.
    assert units.microdata.codes[:, 0].tolist() == [1, 0, 0]
    assert units.microdata.keys[:, 0].tolist() == [0, 1, 3]
    assert Partition([0, 1, 1]).take(units.unit_of_record).labels.tolist() == [0, 1, 1, 1, 1, 1]


def test_the_mean_of_equal_values_is_exact():
    frame = pd.DataFrame({"age": [0.1] * 3 + [1e308, -1e308, 1e308]})
    microdata = microdata_from_frame(frame, ["age"])
    object.__setattr__(microdata, "entities", np.array([0, 0, 0, 1, 1, 1], np.int32))
    numbers = build_units(microdata).microdata.numbers[:, 0]
    assert numbers[0] == 0.1
    assert numbers[1] == pytest.approx(1e308 / 3)


OF_ROWS = [method for method in METHODS.values() if method.result_type is not AttributePartition]


@pytest.mark.parametrize("method", OF_ROWS, ids=lambda method: method.name)
def test_one_record_a_person_changes_nothing(method):
    frame = people(n=60).assign(weight=np.random.default_rng(3).normal(size=60))
    names = ["age", "sex"] if method.takes_categories else ["age", "weight"]
    names = names[: method.max_attributes]
    microdata = microdata_from_frame(frame, names, by=["site"])
    policy = Policy(k=3, method=method.name, seed=5)
    single_records = find_classes(microdata, policy)
    object.__setattr__(microdata, "entities", np.random.default_rng(1).permutation(60))
    assert np.array_equal(find_classes(microdata, policy).labels, single_records.labels)


@pytest.mark.parametrize(
    "method",
    # It counts rows, and refuses an entity.
    [method for method in OF_ROWS if method.name != "global_recoding"],
    ids=lambda method: method.name,
)
@given(seed=st.integers(0, 10**6), persons=st.integers(5, 40), k=st.integers(2, 5))
@settings(max_examples=4, deadline=None)
def test_every_class_holds_k_persons(method, seed, persons, k):
    frame = people(seed, 80, persons).drop(columns="sex")
    frame["size"] = np.random.default_rng(seed).normal(size=80).round(1)
    names = ["age", "size"][: method.max_attributes]
    if frame.who.nunique() < k:
        return
    out, report = release(frame, quasi_identifiers=names, method=method.name, k=k)
    persons_by_class = persons_of(out, frame, names)
    assert min(map(len, persons_by_class)) == report.k_achieved >= k
    assert report.persons == frame.who.nunique()
    assert not any(a & b for a, b in combinations(persons_by_class, 2)), (
        "a person is in two classes"
    )
    assert report.smallest_class == out.groupby(names, dropna=False).size().min()


@given(seed=st.integers(0, 10**6), how=st.sampled_from(["refine", "blocks", "by", "models"]))
@settings(max_examples=40, deadline=None)
def test_persons_stay_together_with_other_options(seed, how):
    frame = people(seed, 150, 60)
    more = {
        "refine": {"refine": "fast", "refine_iterations": 200},
        "blocks": {"block_size": 12},
        "by": {"by": ["site"]},
        "models": {"sensitive": ["ill"], "models": [dbanon.Model("distinct_l", "ill", 2)]},
    }[how]
    out, report = release(frame, **more)
    columns = ["age", "sex", *more.get("by", [])]
    persons_by_class = persons_of(out, frame, columns)
    assert min(map(len, persons_by_class)) == report.k_achieved >= 4
    if how != "by":
        assert not any(a & b for a, b in combinations(persons_by_class, 2))
    if how == "models":
        groups = out.merge(frame[["row", "who"]], on="row").groupby(columns)
        who_has = groups.apply(lambda rows: rows.groupby("ill").who.nunique().max())
        assert (who_has < groups.who.nunique()).all(), "a value that all persons of a class have"


@pytest.mark.parametrize("nulls", ["suppress", "category"])
def test_nulls(nulls):
    frame = people(2, 200, 50, nulls=0.3)
    out, report = release(frame, nulls=nulls, max_suppression=1)
    assert min(map(len, persons_of(out, frame, ["age", "sex"]))) == report.k_achieved >= 4
    assert report.suppressed == (frame.age.isna().sum() if nulls == "suppress" else 0)
    with pytest.raises(NullInQuasiIdentifier, match=f"in {frame.age.isna().sum()} rows"):
        release(frame)
    share = frame.age.isna().mean()
    release(frame, nulls="suppress", max_suppression=share)
    with pytest.raises(SuppressionOverBudget):
        release(frame, nulls="suppress", max_suppression=share - 0.001)


def test_a_number_with_a_hierarchy_stays_one_of_its_leaves():
    frame = people()
    tree = dbanon.Hierarchy.from_levels([[f"{age}", f"{age // 10}x", "*"] for age in range(20, 60)])
    out, report = release(frame.astype({"age": int}), hierarchies={"age": tree})
    assert min(map(len, persons_of(out, frame, ["age", "sex"]))) == report.k_achieved >= 4


def test_what_is_said():
    frame = people()
    out, report = release(frame)
    assert "who" not in out.columns
    assert 'shared by at least 4 persons (distinct values of "who") of the release' in (
        report.guarantee
    )
    assert (report.arguments["entity"], report.arguments["persons"]) == ("who", report.persons)
    counted = (
        f'4 / {report.k_achieved} (persons: distinct values of "who", {report.persons} in all)'
    )
    assert dict(report.rows())["k requested / counted"] == counted
    assert report.to_dict()["entity"] == "who"
    assert release(frame, entity=None)[1].persons is None


def test_too_few_persons():
    frame = people(persons=3)
    with pytest.raises(TooFewRecords, match="There are 3 persons, fewer than k = 4") as caught:
        release(frame)
    assert caught.value.hint == "Choose k=3 or less."
    frame["who"] = np.where(frame.site == "a", frame.who, np.arange(len(frame)))
    with pytest.raises(TooFewRecords, match="A stratum holds only 3 persons"):
        release(frame, by=["site"])


def test_refusals():
    frame = people()
    for role in ("quasi_identifiers", "keep", "sensitive", "by"):
        with pytest.raises(InvalidParameter, match='entity column "who"'):
            dbanon.anonymize_frame(
                frame, **{"quasi_identifiers": ["age"], "k": 3, "entity": "who", role: ["who"]}
            )
    with pytest.raises(NullInEntity, match='"who" holds NULL in 2 of 90 rows'):
        release(frame.assign(who=frame.who.where(frame.row > 1)))
    with pytest.raises(UnsupportedType, match="entity column"):
        release(frame.assign(who=pd.to_timedelta(frame.who, unit="D")))
    with pytest.raises(dbanon.DbanonError, match='no column "whom"'):
        release(frame, entity="whom")
