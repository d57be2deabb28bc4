"""Withheld rows influence nothing that is released of a data frame."""

import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbanon
from dbanon.data.partition import AttributePartition
from dbanon.errors import RowsNotAnonymous
from dbanon.measures import Model
from dbanon.methods import METHODS
from tests.conftest import CAMPAIGN

GRADES = ["none", "low", "middle", "high"]
N = 48


@cache
def those(n):
    """n persons whom nothing withholds."""
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 60, n).astype(float),
            "pay": rng.normal(3000, 500, n).round(2),
            "place": rng.choice(["Ulm", "Bonn", "Kiel"], n),
            "grade": rng.choice(["none", "low", "high"], n),
            "born": pd.Timestamp("1960-01-01") + pd.to_timedelta(rng.integers(0, 9000, n), "D"),
            "site": rng.choice(["a", "b"], n),
            "ill": rng.choice(["flu", "cough", "gout"], n),
            "cost": rng.integers(0, 5, n),
            "who": np.arange(n) // 2 + 1,
        }
    )


def people(withheld, n=N):
    """n persons, and among them those to be withheld, each a row of the same columns."""
    frame = those(n).copy()
    more = pd.DataFrame(withheld, columns=list(frame.columns)).astype(
        {"place": frame.place.dtype, "born": frame.born.dtype, "cost": "int64", "who": "int64"}
    )
    # Here and there, so that the record order is changed, too.
    frame["place_of_row"] = np.arange(n) * 1.0
    more["place_of_row"] = np.linspace(-0.5, n, len(more))
    both = pd.concat([frame, more]).sort_values("place_of_row").reset_index(drop=True)
    both["grade"] = pd.Categorical(both.grade, [g for g in GRADES if g in set(both.grade)], True)
    return both.drop(columns="place_of_row")


@st.composite
def missing(draw):
    """A record that is withheld, with a NULL in one column or more, and anything in the others."""
    row = {
        "age": draw(st.floats(-1e9, 1e12)),
        "pay": draw(st.sampled_from([0.0, 1e-9, -1e15, 1e18, float("inf"), 2999.5])),
        "place": draw(st.sampled_from(["Ulm", "Aachen", "Zwickau", "a longer name than others"])),
        "grade": draw(st.sampled_from(GRADES)),
        "born": draw(st.sampled_from([pd.Timestamp("1700-01-01"), pd.Timestamp("2200-01-01")])),
        "site": draw(st.sampled_from(["a", "b"])),
        "ill": draw(st.sampled_from(["flu", "plague"])),
        "cost": draw(st.sampled_from([0, 77, -9])),
        "who": draw(st.integers(0, 40)),
    }
    nothing = {"age": np.nan, "pay": np.nan, "place": None, "grade": None, "born": pd.NaT}
    for name in draw(st.sets(st.sampled_from(sorted(nothing)), min_size=1)):
        row[name] = nothing[name]
    return row


# One record whose values are like those of others, against which all others are compared.
PLAIN = {
    "age": 30.0,
    "pay": 3000.0,
    "place": None,
    "grade": "low",
    "born": pd.Timestamp("1970-01-01"),
    "site": "a",
    "ill": "flu",
    "cost": 1,
    "who": 1,
}


def released(frame, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RowsNotAnonymous)
        out, report = dbanon.anonymize_frame(
            frame, k=3, nulls="suppress", max_suppression=1.0, **options
        )
    by_place = {}
    for name, column in out.items():
        dtype = column.dtype
        by_place[name] = list(dtype.categories) if hasattr(dtype, "categories") else str(dtype)
    # As text, because NaN differs from NaN.
    rows = sorted(map(repr, out.astype(object).itertuples(index=False, name=None)))
    report_json = report.to_dict()
    for name in ("release_id", "created_at", "seconds"):
        report_json.pop(name)
    return by_place, rows, report_json


NUMBERS = ["age", "pay", "born", "grade"]
CASES = {
    **{name: {"method": name} for name in METHODS},
    "range": {"method": "mdav", "standardize": "range"},
    "mahalanobis": {"method": "mdav", "standardize": "mahalanobis"},
    "median": {"method": "mdav", "recoding": "median"},
    "medoid": {"method": "mdav", "recoding": "medoid", "refine": "fast"},
    "generalized": {"method": "mdav", "recoding": "generalization"},
    "own ranges": {"method": "gaa_cp", "local_range": True},
    "midpoint": {"method": "gaa_cp", "intervals": "midpoint"},
    "bounds": {"method": "kmember", "intervals": "bounds", "steps": {"age": 10}},
    "refined": {"method": "gaa_cp", "refine": "fast"},
    "weights": {"method": "mondrian", "weights": {"age": 3.0}},
    "strata": {"method": "gaa_cp", "by": ["site"]},
    "persons": {"method": "gaa_cp", "entity": "who"},
    "persons of points": {"method": "mdav", "entity": "who"},
    "builders": {
        "method": "gaa_cp",
        "hierarchies": {"age": {"intervals": [5, 20]}, "place": {"mask": True}},
    },
    "own order": {
        "method": "gaa_cp",
        "hierarchies": {"place": {"ordered": True}},
        "local_range": True,
    },
    "models": {
        "method": "gaa_cp",
        "sensitive": ["ill", "cost"],
        "models": [
            Model("t_closeness", "ill", 0.4),
            Model("t_closeness", "cost", 0.4, distance="ordered"),
            Model("beta_likeness", "ill", 2.0),
        ],
    },
    "blocks": {"method": "gaa_cp", "block_size": 12},
}


def columns_for(case):
    method = METHODS[CASES[case]["method"]]
    if method.max_attributes == 1:
        return ["age"]
    columns = NUMBERS if method.name != "secure_kward" else ["age", "pay"]
    if method.name == "full_domain":
        columns = ["age", "grade"]
    return [*columns, "place"] if method.takes_categories else columns


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
# Enough to form a class.
@given(rows=st.lists(missing(), min_size=3, max_size=3))
@settings(max_examples=3 if CAMPAIGN else 2, deadline=None, derandomize=True)
def test_a_withheld_record_changes_nothing(case, rows):
    names = columns_for(case)
    # Withheld they are whichever columns are quasi-identifiers.
    for row in rows:
        row[names[0]] = np.nan
    first = released_beside_plain(case)
    second = released(people(rows), **options_of(case))
    assert first[0] == second[0]
    assert first[1] == second[1]
    assert first[2] == second[2]


def options_of(case):
    options, names = dict(CASES[case]), columns_for(case)
    if METHODS[options["method"]].result_type is AttributePartition:
        options["guarantee"] = "per_attribute"
    options = {"sensitive": ["ill"], "keep": ["cost"], **options, "quasi_identifiers": names}
    if "cost" in options["sensitive"]:
        options["keep"] = []
    return options


@cache
def released_beside_plain(case):
    plain = {**PLAIN, columns_for(case)[0]: np.nan, "place": "Ulm"}
    return released(people([plain] * 3), **options_of(case))


@pytest.mark.slow
@pytest.mark.parametrize("method", [name for name in METHODS if name != "individual_ranking"])
def test_labels_do_not_depend_on_withheld_rows(method):
    names = columns_for(method)
    frames = [
        people([{**PLAIN, names[0]: np.nan, **more}])[names]
        for more in ({"place": "Ulm"}, {"place": "Aachen", "pay": 1e18, "grade": "middle"})
    ]
    partitions = [
        dbanon.partition(frame, 3, method=method, nulls="suppress", max_suppression=1.0)
        for frame in frames
    ]
    assert partitions[0].labels.tolist() == partitions[1].labels.tolist()
    assert len(partitions[0].labels) == N + 1
    assert np.flatnonzero(partitions[0].labels < 0).tolist() == [
        int(np.flatnonzero(frames[0].age.isna())[0])
    ]


def test_a_withheld_record_is_counted_and_not_looked_at():
    rows = [{**PLAIN, "age": np.nan, "place": "Ulm", "pay": np.inf}] * 3
    out, report = dbanon.anonymize_frame(
        people(rows), quasi_identifiers=["age", "pay"], k=3, nulls="suppress", max_suppression=0.1
    )
    assert (report.rows_in, report.rows_out, report.suppressed) == (N + 3, N, 3)
    assert len(out) == N


@pytest.mark.parametrize("far", [100.0, 1e6, -1e12])
@pytest.mark.parametrize("entity", [None, "who"])
def test_levels_are_those_of_a_table_that_never_had_what_they_withhold(far, entity):
    frame = people([])[["age", "pay", "ill", "who"]].astype({"pay": float})
    frame["place"] = np.where(np.arange(N) < N // 2, "2320", "2321")
    isolated_rows = pd.DataFrame(
        {"age": [far] * 2, "pay": [far] * 2, "ill": "plague", "who": 99, "place": "9"}
    )
    options = {
        "method": "full_domain",
        "quasi_identifiers": ["age", "place"],
        "sensitive": ["ill"],
        "hierarchies": {"place": {"mask": True}},
        "entity": entity,
    }
    both = pd.concat([frame, isolated_rows]).reset_index(drop=True)
    some = released(both, options={"suppression": 0.05}, **options)
    none = released(frame, **options)
    assert some[2]["suppressed"] == 2
    assert some[:2] == none[:2]
    for name in ("information_loss", "information_loss_before_rounding", "column_losses", "levels"):
        assert some[2][name] == none[2][name]


@pytest.mark.parametrize("far", [1000, 10**6, -(10**9)])
def test_classes_withheld_for_a_model_give_no_border_label_or_share(far):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(20, 80, 60), "pay": rng.integers(0, 9, 60)})
    far_off = pd.DataFrame({"age": [far, far + 1, far + 2], "pay": [9, 9, 9]})
    out, report = dbanon.anonymize_frame(
        pd.concat([frame, far_off]).reset_index(drop=True),
        quasi_identifiers=["age"],
        sensitive=["pay"],
        k=3,
        method="gaa_cp",
        models=[Model("distinct_l", "pay", 2)],
        withhold_failing=True,
        max_suppression=0.05,
    )
    assert report.suppressed == 3
    # The grid is that of ages from 20 to 79: borders every 2, 5 or 10 years.
    assert {int(x) % 2 * (int(x) % 5) for label in out.age for x in label[1:-1].split(", ")} == {0}
    assert out.age.str.len().max() <= len("[20, 100)")
    assert report.internal.information_loss < 1
