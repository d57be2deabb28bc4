"""Privacy models: reached by merging, counted on the written rows, refused when out of reach."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbanon
from dbanon.errors import InvalidParameter, ModelInfeasible, RecountFailed
from dbanon.hierarchy.tree import Hierarchy
from dbanon.measures import Model
from dbanon.measures.recount import require_models
from tests.reference import worst_class

ILLS = Hierarchy.from_levels(
    [["flu", "lungs", "*"], ["cough", "lungs", "*"], ["gastritis", "belly", "*"]]
)
MODELS = {
    "distinct": Model("distinct_l", "ill", 2),
    "entropy": Model("entropy_l", "ill", 1.8),
    "recursive": Model("recursive_cl", "ill", 3.0, l=2),
    "equal": Model("t_closeness", "ill", 0.35),
    "ordered": Model("t_closeness", "ill", 0.3, distance="ordered"),
    "hierarchical": Model("t_closeness", "ill", 0.3, distance=ILLS),
    "alpha": Model("alpha_k", "ill", 0.7),
    "beta": Model("beta_likeness", "ill", 1.5),
    "delta": Model("delta_disclosure", "ill", 1.0),
}


def people(seed, n, nulls=False):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(20, 60, n),
            "sex": rng.choice(["f", "m"], n),
            "ill": rng.choice(["flu", "cough", "gastritis"], n, p=[0.5, 0.3, 0.2]),
        }
    )
    if nulls:
        frame["sex"] = frame["sex"].astype(object).where(rng.random(n) < 0.5, None)
    return frame


def release(frame, *models, **more):
    return dbanon.anonymize_frame(
        frame,
        quasi_identifiers=["age", "sex"],
        sensitive=["ill"],
        k=3,
        method="gaa_cp",
        models=models,
        **more,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@given(seed=st.integers(0, 10**6), n=st.integers(60, 120))
@settings(max_examples=8)
def test_models_are_reached(name, seed, n):
    frame = people(seed, n)
    model = MODELS[name]
    out, report = release(frame, model)
    assert report.rows_out == n
    assert model.describe() in report.guarantee
    order = ["flu", "cough", "gastritis"] if name == "hierarchical" else sorted(set(frame.ill))
    counts = pd.crosstab([out.age, out.sex], out.ill).reindex(columns=order, fill_value=0)
    counts = counts.to_numpy()
    assert counts.sum(axis=1).min() >= 3
    of = {"l": model.l, "distance": model.distance}
    for level in worst_class.levels(model.kind, counts, **of):
        if name == "recursive":
            assert level < model.level
        elif name in ("distinct", "entropy"):
            assert level >= model.level - 1e-9
        else:
            assert level <= model.level + 1e-9


def test_worked_example():
    """{20, 21} both have flu; merging with {30, 31} adds 4 * 11 - 2 * 1, with {50, 51} more."""
    frame = pd.DataFrame(
        {"age": [20, 21, 30, 31, 50, 51], "ill": ["flu", "flu", "flu", "cough", "cough", "flu"]}
    )
    out, _ = dbanon.anonymize_frame(
        frame,
        quasi_identifiers=["age"],
        sensitive=["ill"],
        k=2,
        method="gaa_cp",
        local_range=True,
        models=[Model("distinct_l", "ill", 2)],
    )
    assert out.age.value_counts().to_dict() == {"[20, 31]": 4, "[50, 51]": 2}


def test_patterns_of_nulls_stay_apart():
    out, report = release(people(1, 200, nulls=True), MODELS["distinct"], nulls="category")
    assert report.null_rows == out.sex.isna().sum() > 0
    counts = pd.crosstab([out.age, out.sex.fillna("?")], out.ill).to_numpy()
    assert worst_class.worst("distinct_l", counts) >= 2


def test_null_is_a_value():
    frame = pd.DataFrame({"age": [1, 2, 3, 4], "sex": list("ffmm"), "ill": ["flu", None] * 2})
    out, _ = release(pd.concat([frame] * 3), MODELS["distinct"])
    assert len(out) == 12


def test_null_is_a_leaf_of_its_own():
    frame = people(5, 120)
    frame["ill"] = frame["ill"].where(frame["ill"] != "gastritis", None)
    _, report = release(frame, MODELS["hierarchical"])
    assert report.models[0].achieved <= 0.3
    frame["cost"] = np.where(np.arange(120) % 3 == 0, np.nan, np.arange(120) % 3)
    tree = Hierarchy.from_levels([["1", "*"], ["2", "*"], ["3", "*"]])
    _, report = dbanon.anonymize_frame(
        frame,
        quasi_identifiers=["age"],
        sensitive=["cost"],
        k=3,
        method="gaa_cp",
        models=[Model("t_closeness", "cost", 0.2, distance=tree)],
    )
    assert report.models[0].achieved <= 0.2


def test_strata_are_counted():
    out, report = release(
        people(6, 200).assign(site=["a", "b"] * 100), MODELS["distinct"], by=["site"]
    )
    counts = pd.crosstab([out.age, out.sex, out.site], out.ill).to_numpy()
    assert report.models[0].achieved == worst_class.worst("distinct_l", counts) >= 2


def test_two_orders_of_one_column_are_refused():
    with pytest.raises(InvalidParameter, match="two different ways"):
        release(people(7, 60), MODELS["ordered"], MODELS["hierarchical"])


def test_out_of_reach():
    frame = people(2, 80)
    with pytest.raises(ModelInfeasible, match="distinct_l 4") as caught:
        release(frame, Model("distinct_l", "ill", 4), MODELS["alpha"])
    assert "3 distinct values" in str(caught.value)
    assert "alpha" not in caught.value.message
    assert (caught.value.exit_code, caught.value.sqlstate) == (3, "ZK002")
    frame.loc[frame.index[:4], "sex"] = None
    frame.loc[frame.index[:4], "ill"] = "flu"
    with pytest.raises(ModelInfeasible, match="pattern of NULLs"):
        release(frame, MODELS["distinct"], nulls="category")


def test_refusals():
    for arguments in (
        ("l_diversity", "ill", 2),
        ("distinct_l", "ill", 0),
        ("alpha_k", "ill", np.nan),
    ):
        with pytest.raises(InvalidParameter):
            Model(*arguments)
    with pytest.raises(InvalidParameter):
        Model("recursive_cl", "ill", 2, l=0)
    with pytest.raises(InvalidParameter):
        Model("t_closeness", "ill", 0.1, distance="far")
    with pytest.raises(InvalidParameter, match='"name"'):
        release(people(3, 60), Model("distinct_l", "name", 2))
    with pytest.raises(RecountFailed, match="1 of 2 counted classes"):
        require_models([MODELS["distinct"]], {"ill": np.array([[1, 1], [2, 0]])})


def homogeneous(share):
    """People of two sites; at site b all have flu, so that no class there can have two values."""
    n = 200
    frame = people(3, n).assign(site=np.where(np.arange(n) < share * n, "b", "a"))
    frame.loc[frame.site == "b", "ill"] = "flu"
    return frame


def test_failing_classes_can_be_withheld():
    frame = homogeneous(0.05)
    with pytest.raises(ModelInfeasible):
        release(frame, MODELS["distinct"], by=["site"])
    with pytest.raises(ModelInfeasible):
        release(frame, MODELS["distinct"], by=["site"], max_suppression=0.5)
    options = {"by": ["site"], "withhold_failing": True}
    with pytest.raises(ModelInfeasible):
        release(frame, MODELS["distinct"], max_suppression=0.049, **options)
    out, report = release(frame, MODELS["distinct"], max_suppression=0.05, **options)
    assert (report.suppressed, report.rows_out) == (10, 190)
    assert set(out.site) == {"a"}
    assert "classes that failed may have been withheld" in report.guarantee
    assert report.arguments["withhold_failing"] is True


def test_what_is_withheld_is_no_part_of_the_table_that_classes_are_compared_with():
    frame = homogeneous(0.2)
    model = Model("t_closeness", "ill", 0.2)
    out, report = release(frame, model, by=["site"], withhold_failing=True, max_suppression=0.2)
    assert report.suppressed == 40
    counts = pd.crosstab([out.age, out.sex, out.site], out.ill).to_numpy()
    assert worst_class.worst("t_closeness", counts) == pytest.approx(report.models[0].achieved)
    assert report.models[0].achieved <= 0.2


@pytest.mark.parametrize("extra_pay", [0, 50, 100])
def test_the_order_of_values_is_that_of_the_released_ones(extra_pay):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(size=60), "pay": rng.choice([1, 2, 98, 99], 60)})
    frame.loc[0] = [np.nan, extra_pay]
    options = {"quasi_identifiers": ["age"], "sensitive": ["pay"], "k": 3, "method": "gaa_cp"}
    model = Model("t_closeness", "pay", 0.15, distance="ordered")
    out, report = dbanon.anonymize_frame(
        frame, nulls="suppress", max_suppression=1, models=[model], **options
    )
    counts = pd.crosstab(out.age, out.pay).to_numpy()
    assert counts.shape[1] == 4
    assert report.models[0].achieved == pytest.approx(
        worst_class.worst("t_closeness", counts, distance="ordered")
    )
    assert report.models[0].achieved <= 0.15


@pytest.mark.parametrize(("seed", "level"), [(7, 0.15), (7, 0.2), (9, 0.1)])
def test_values_that_are_withheld_have_no_place_in_the_order(seed, level):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": [*rng.normal(size=50), 1000, 1001, 1002],
            "pay": [*rng.integers(0, 4, 50), 9, 9, 9],
        }
    )
    out, report = dbanon.anonymize_frame(
        frame,
        quasi_identifiers=["age"],
        sensitive=["pay"],
        k=3,
        method="gaa_cp",
        models=[Model("t_closeness", "pay", level, distance="ordered")],
        withhold_failing=True,
        max_suppression=0.2,
    )
    assert report.suppressed == 3
    counts = pd.crosstab(out.age, out.pay).to_numpy()
    assert report.models[0].achieved == pytest.approx(
        worst_class.worst("t_closeness", counts, distance="ordered")
    )


def test_not_all_records_are_withheld():
    frame = people(1, 60).assign(ill="flu", site=[1, 2] * 30)
    options = {"withhold_failing": True, "max_suppression": 1.0}
    with pytest.raises(ModelInfeasible, match="feasible up to 1"):
        release(frame, MODELS["distinct"], **options)
    with pytest.raises(ModelInfeasible) as refusal:
        release(frame, MODELS["distinct"], by=["site"], **options)
    assert "withhold_failing" not in str(refusal.value)


@given(seed=st.integers(0, 10**6), name=st.sampled_from(sorted(MODELS)))
@settings(max_examples=40, deadline=None)
def test_withholding_keeps_to_the_budget(seed, name):
    frame = people(seed, 80)
    _, report = release(frame, MODELS[name], withhold_failing=True, max_suppression=0.2)
    assert report.suppressed <= 16
    assert report.k_achieved >= 3
    assert report.rows_out + report.suppressed == 80


def test_withholding_needs_a_budget_and_models():
    frame = people(1, 60)
    for budget in ({}, {"max_suppression": 0.0}):
        with pytest.raises(InvalidParameter, match="withhold_failing"):
            release(frame, MODELS["distinct"], withhold_failing=True, **budget)
    with pytest.raises(InvalidParameter, match="withhold_failing"):
        release(frame, withhold_failing=True, max_suppression=0.1)


@pytest.mark.parametrize("name", MODELS)
def test_refinement_keeps_to_models_and_loses_less(name):
    frame = people(7, 400)
    _, merged = release(frame, MODELS[name])
    out, refined = release(frame, MODELS[name], refine="fast")
    assert (
        refined.internal.information_loss_before_rounding
        < merged.internal.information_loss_before_rounding
    )
    assert out.groupby(["age", "sex"]).size().min() >= 3
    assert refined.models[0].model == MODELS[name].describe()


def test_the_reported_share_is_sufficient():
    frame = homogeneous(0.13)
    options = {"by": ["site"], "withhold_failing": True}
    with pytest.raises(ModelInfeasible, match=r"max_suppression=0\.13 or more"):
        release(frame, MODELS["alpha"], max_suppression=0.1, **options)
    _, report = release(frame, MODELS["alpha"], max_suppression=0.13, **options)
    assert report.suppressed == 26


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("refine", [None, "fast"])
def test_blocks_keep_to_models_too(name, refine):
    frame = people(8, 300)
    out, report = release(frame, MODELS[name], block_size=60, refine=refine)
    assert report.rows_out == 300
    assert out.groupby(["age", "sex"]).size().min() >= 3
    again, _ = release(frame, MODELS[name], block_size=60, refine=refine)
    columns = list(out.columns)
    assert again.sort_values(columns).values.tolist() == out.sort_values(columns).values.tolist()
    without_blocks = release(frame, MODELS[name], refine=refine)[1]
    assert report.internal.information_loss <= 2 * without_blocks.internal.information_loss + 0.1
