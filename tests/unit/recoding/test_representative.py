"""Representatives: the mean, median, plurality or medoid of a class, by the kind of the column."""

from __future__ import annotations

import datetime
from collections import Counter

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon.errors import UnsupportedType

GRADES = ["none", "school", "degree"]
PLACES = {
    "*": {
        "north": {"coast": ["Kiel", "Emden"], "heath": ["Celle"]},
        "south": {"lake": ["Lindau"], "alps": ["Oberstdorf", "Garmisch"]},
    }
}
PARENTS = {
    child: parent
    for parent, children in {
        "*": ["north", "south"],
        "north": ["coast", "heath"],
        "south": ["lake", "alps"],
        "coast": ["Kiel", "Emden"],
        "heath": ["Celle"],
        "lake": ["Lindau"],
        "alps": ["Oberstdorf", "Garmisch"],
    }.items()
    for child in children
}
CITIES = ["Kiel", "Emden", "Celle", "Lindau", "Oberstdorf", "Garmisch"]


def path_to_root(region: str) -> list[str]:
    return [region, *path_to_root(PARENTS[region])] if region != "*" else ["*"]


def tree_distance(first: str, second: str) -> int:
    """Steps up from the first value to a region that contains the second."""
    return next(
        step for step, region in enumerate(path_to_root(first)) if region in path_to_root(second)
    )


def frame_of(n: int = 90) -> pd.DataFrame:
    rng = np.random.default_rng(8)
    return pd.DataFrame(
        {
            "row": np.arange(n),
            "age": rng.integers(18, 90, n),
            "size": rng.normal(size=n),
            "day": [
                datetime.date(2020, 1, 1) + datetime.timedelta(int(d))
                for d in rng.integers(0, 900, n)
            ],
            "grade": pd.Categorical.from_codes(rng.integers(0, 3, n), GRADES, ordered=True),
            "job": rng.choice(["baker", "cook", "smith", "tailor"], n, p=[0.4, 0.3, 0.2, 0.1]),
            "place": rng.choice(CITIES, n),
        }
    )


QI = ["age", "size", "day", "grade", "job", "place"]


def released(frame: pd.DataFrame, k: int = 5, **options: object) -> tuple[pd.DataFrame, object]:
    from dbanon.hierarchy.tree import Hierarchy

    options = {"hierarchies": {"place": Hierarchy.from_nested(PLACES)}, **options}
    names = [name for name in QI if name in frame]
    options["hierarchies"] = {a: t for a, t in options["hierarchies"].items() if a in names}
    release, report = dbanon.anonymize_frame(
        frame, quasi_identifiers=names, k=k, recoding="representative", keep=["row"], **options
    )
    return release.sort_values("row", ignore_index=True), report


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::dbanon.errors.KeptColumnTells")
@pytest.mark.parametrize("method", ["mdav", "cbfs", "kward", "gaa_cp", "mondrian"])
@pytest.mark.parametrize("refine", [None, "fast"])
def test_each_class_by_the_definitions(method: str, refine: str | None) -> None:
    """Recompute each class's representatives in plain Python, grouping by released values."""
    frame = frame_of()
    release, report = released(frame, method=method, refine=refine)
    assert release.dtypes.tolist() == frame.dtypes.tolist()
    groups = release.groupby(QI, observed=True).groups
    assert min(map(len, groups.values())) == report.k_achieved >= 5
    total_loss = 0.0
    for rows in groups.values():
        members, value = frame.loc[rows], release.loc[rows[0]]
        mean = members["age"].sum() / len(members)
        assert abs(value["age"] - mean) <= 0.5
        assert value["size"] == pytest.approx(members["size"].mean())
        days = [day.toordinal() for day in members["day"]]
        assert abs(value["day"].toordinal() - sum(days) / len(days)) <= 0.5
        ranks = sorted(GRADES.index(grade) for grade in members["grade"])
        assert value["grade"] == GRADES[ranks[(len(ranks) - 1) // 2]]
        jobs = Counter(members["job"])
        assert value["job"] == min(job for job in jobs if jobs[job] == max(jobs.values()))
        costs = {
            city: sum(tree_distance(member_city, city) for member_city in members["place"])
            for city in members["place"]
        }
        find_medoids = [city for city in CITIES if costs.get(city) == min(costs.values())]
        assert value["place"] == find_medoids[0]
        ages = np.ptp(frame["age"])
        total_loss += sum(abs(age - value["age"]) / ages for age in members["age"])
        total_loss += sum(abs(x - value["size"]) / np.ptp(frame["size"]) for x in members["size"])
        day_range = (frame["day"].max() - frame["day"].min()).days
        total_loss += sum(abs(day - value["day"].toordinal()) / day_range for day in days)
        total_loss += sum(abs(rank - GRADES.index(value["grade"])) / 3 for rank in ranks)
        total_loss += sum(job != value["job"] for job in members["job"])
        total_loss += sum(
            tree_distance(member_city, value["place"]) / 3 for member_city in members["place"]
        )
    assert report.loss_measure == "gower"
    assert report.internal.information_loss == pytest.approx(total_loss / frame[QI].size)


@pytest.mark.filterwarnings("ignore::dbanon.errors.KeptColumnTells")
def test_the_report_and_the_evaluation_say_the_same() -> None:
    _, report = released(frame_of(), evaluate=True)
    losses, parts = report.internal.evaluation["losses"], report.internal.evaluation["parts"]
    assert losses["direct_loss"] == report.internal.information_loss
    assert parts["direct_loss"]["zil"] == pytest.approx(report.internal.information_loss * 90 * 6)
    assert 0 < losses["sse_loss"] < 1
    assert "Gower" in str(report)
    assert report.internal.information_loss_before_rounding != report.internal.information_loss
    assert len(report.loss.columns) == 6


@pytest.mark.filterwarnings("ignore::dbanon.errors.KeptColumnTells")
def test_a_number_and_an_order_with_a_hierarchy() -> None:
    """The release has values of the class, in the column's type."""
    frame = frame_of()[["row", "age", "grade"]]
    ages = [str(age) for age in range(18, 90)]
    trees = {
        "age": dbanon.Hierarchy.from_nested({"*": {"low": ages[:30], "high": ages[30:]}}),
        "grade": dbanon.Hierarchy.from_nested({"*": {"any": ["none", "school"], "d": ["degree"]}}),
    }
    release, report = released(frame, hierarchies=trees)
    assert release.dtypes.tolist() == frame.dtypes.tolist()
    for rows in release.groupby(["age", "grade"], observed=True).groups.values():
        assert set(release.loc[rows, "age"]) <= set(frame.loc[rows, "age"])
        assert set(release.loc[rows, "grade"]) <= set(frame.loc[rows, "grade"])
    assert 0 < report.internal.information_loss < 1


@pytest.mark.filterwarnings("ignore::dbanon.errors.KeptColumnTells")
def test_nulls_have_classes_of_their_own() -> None:
    frame = frame_of()
    frame.loc[:19, "job"] = None
    frame.loc[10:29, "place"] = None
    release, _ = released(frame, nulls="category")
    for name in QI:
        assert release[name].isna().tolist() == frame[name].isna().tolist()


@pytest.mark.filterwarnings("ignore::dbanon.errors.KeptColumnTells")
def test_a_withheld_record_shapes_nothing() -> None:
    """Withholding records with NULL gives the same release as deleting them."""
    frame = frame_of()
    odd = frame.iloc[:2].assign(
        row=[90, 91], age=[500, 600], job="astronaut", place=[None, None], size=99.0
    )
    both = pd.concat([frame, odd], ignore_index=True)
    with_them, _ = released(both, nulls="suppress", max_suppression=0.1)
    without, _ = released(frame)
    pd.testing.assert_frame_equal(with_them, without, check_dtype=False)


@pytest.mark.filterwarnings("ignore::dbanon.errors.KeptColumnTells")
def test_persons_of_many_records() -> None:
    frame = frame_of().assign(person=np.arange(90) // 3)
    release, report = released(frame, k=3, entity="person")
    assert report.k_achieved >= 3
    assert release.groupby(QI, observed=True).size().min() >= 9


def test_truth_values_of_a_frame_stay_what_they_are() -> None:
    frame = pd.DataFrame({"smokes": [True] * 4 + [False] * 4, "age": range(8)})
    release, _ = dbanon.anonymize_frame(
        frame, quasi_identifiers=["smokes", "age"], k=4, recoding="representative"
    )
    assert release["smokes"].dtype == bool
    assert set(release["smokes"]) == {False, True}


def test_wide_numbers_have_means_and_no_medoids() -> None:
    frame = pd.DataFrame({"a": [2**60, 2**60 + 2, 2**60 + 4, 2**60 + 6], "b": list("xxyy")})
    release, _ = dbanon.anonymize_frame(
        frame, quasi_identifiers=["a", "b"], k=2, recoding="representative"
    )
    assert sorted(set(release["a"])) == [2**60 + 1, 2**60 + 5]
    tree = dbanon.Hierarchy.from_nested({"*": [str(value) for value in frame["a"]]})
    with pytest.raises(UnsupportedType, match="representative"):
        dbanon.anonymize_frame(
            frame,
            quasi_identifiers=["a", "b"],
            k=2,
            recoding="representative",
            hierarchies={"a": tree},
        )
