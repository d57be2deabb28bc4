"""Guarantees of every measure of a release, over the entire catalogue."""

import importlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dbanon.data.partition import Partition
from dbanon.data.scales import Scale
from dbanon.errors import Cancelled, InvalidParameter
from dbanon.measures.attributes import Numbers
from dbanon.measures.catalogue import LOSSES, MEASURES, RISKS, evaluate
from dbanon.measures.figure import EvaluationTask, Figure, Parameters
from dbanon.measures.pairs import Pairs
from tests.evaluation_cases import cases, make, pairs
from tests.reference.evaluation import sizes
from tests.reference.evaluation_case import Case, deviation, varies

each_measure = pytest.mark.parametrize("name", MEASURES)


def figures(case, **parameters):
    return evaluate(EvaluationTask(pairs(case), Parameters(**parameters)))


def same(figures: dict[str, Figure], other: dict[str, Figure], rel=1e-9):
    for name, figure in figures.items():
        counterpart = other[name]
        assert (figure.value is None) == (counterpart.value is None), name
        assert figure.note == counterpart.note, name
        for mine, theirs in (
            ({"": figure.value or 0.0}, {"": counterpart.value or 0.0}),
            (figure.columns, counterpart.columns),
            (figure.parts, counterpart.parts),
        ):
            assert mine == pytest.approx(theirs, rel=rel, abs=1e-10 if rel else 0.0), name


# --- the entries ---------------------------------------------------------------------------------


@each_measure
def test_an_entry_is_complete(name):
    measure = MEASURES[name]
    prefix = "risk." if name in RISKS else ""
    module = importlib.import_module(f"dbanon.measures.{prefix}{name}")
    assert module.MEASURE is measure
    assert module.__doc__.startswith(name)
    assert measure.needs in ("counts", "columns", "pairs")
    assert measure.summary
    assert measure.range
    assert measure.cost


@each_measure
def test_the_suffix_tells_the_direction(name):
    if name.endswith("_loss"):
        assert name in LOSSES
    if name.endswith("_risk"):
        assert name in RISKS
    if name.endswith(("_loss", "_risk")):
        assert MEASURES[name].lower_is_better
    if name.endswith("ratio"):
        assert not MEASURES[name].lower_is_better


@each_measure
def test_parts_come_first(name):
    order = list(MEASURES)
    assert all(order.index(part) < order.index(name) for part in MEASURES[name].depends_on)


@each_measure
def test_asked_alone_it_says_the_same(name):
    case = make(np.random.default_rng(5), 20, ("number", "number"))
    task = EvaluationTask(pairs(case))
    single = evaluate(task, [name])
    assert {name, *MEASURES[name].depends_on} <= set(single)
    assert len(single) < len(MEASURES)
    same(single, evaluate(task))


def test_an_unknown_name_is_refused():
    with pytest.raises(InvalidParameter, match="linkage_risk"):
        evaluate(EvaluationTask(pairs(make(np.random.default_rng(5), 5, ("number",)))), ["linkage"])


# --- what holds whatever the release -------------------------------------------------------------


@given(cases())
@settings(max_examples=100)
def test_a_figure_is_a_finite_number_or_none_with_a_reason(case):
    for name, figure in figures(case).items():
        if figure.value is None:
            assert figure.note, name
        else:
            assert np.isfinite(figure.value), name
            assert figure.value >= 0, name
        for value in (*figure.columns.values(), *figure.parts.values()):
            assert np.isfinite(value), name
            assert isinstance(value, float), name
        if name.endswith("_risk"):
            assert figure.value is None or figure.value <= 1, name


@given(cases())
@settings(max_examples=60)
def test_the_same_values_lose_nothing(case):
    """Every record is released unchanged."""
    columns = []
    for column in case.columns:
        interval = column["kind"].endswith("interval")
        y = [(x, x) if interval and x is not None else x for x in column["x"]]
        columns.append({**column, "y": y})
    strata = case.strata
    identity = Case(columns, list(range(case.n)), strata)
    figures_found = figures(identity)
    for name in LOSSES:
        assert figures_found[name].value is None or figures_found[name].value == pytest.approx(
            0, abs=1e-12
        ), name
    # An attacker finds the row, except among others that are equal.
    distinct = len(sizes(identity))
    assert figures_found["linkage_risk"].parts["class_linkage"] == 1
    assert figures_found["linkage_risk"].value == pytest.approx(distinct / case.n)
    assert figures_found["nearest_linkage_risk"].value == 1
    assert figures_found["nearest_linkage_risk"].parts["nearest"] == 1
    if figures_found["interval_risk"].value is not None:
        assert figures_found["interval_risk"].value == 1


@given(st.integers(2, 40), st.integers(1, 4), st.integers(0, 2**32))
@settings(max_examples=60)
def test_one_class_of_means_loses_everything_and_tells_nothing(n, p, seed):
    points = np.random.default_rng(seed).normal(size=(n, p))
    columns = [
        {"name": f"a{j}", "kind": "number", "x": x.tolist(), "y": [float(np.mean(x))]}
        for j, x in enumerate(points.T)
    ]
    figures_found = figures(Case(columns, [0] * n))
    assert figures_found["sse_loss"].value == pytest.approx(1)
    assert figures_found["distance_loss"].value == pytest.approx(1)
    assert figures_found["linkage_risk"].value == pytest.approx(1 / n)
    assert figures_found["class_risk"].value == pytest.approx(1 / n)
    assert figures_found["linkage_risk"].parts["class_linkage"] == 1


@given(cases())
@settings(max_examples=60)
def test_guesses_are_no_better_than_the_classes_are_small(case):
    """At most 1 / size of the smallest class, where rows of a class are released alike."""
    figures_found = figures(case)
    assert figures_found["linkage_risk"].value <= figures_found["class_risk"].value * (1 + 1e-12)


@given(cases(("number",)), st.integers(2, 4))
@settings(max_examples=60)
def test_moments_of_means_are_half_of_the_loss(case, k):
    order = np.argsort(case.columns[0]["x"] if None not in case.columns[0]["x"] else range(case.n))
    labels = np.empty(case.n, int)
    labels[order] = np.minimum(np.arange(case.n) // k, max(case.n // k - 1, 0))
    columns = []
    for column in case.columns:
        x = np.array([0.5 if value is None else value for value in column["x"]])
        means = np.bincount(labels, x) / np.bincount(labels)
        columns.append({**column, "x": x.tolist(), "y": means.tolist()})
        columns[-1] = {key: columns[-1][key] for key in ("name", "kind", "x", "y")}
    assume(all(varies(column) and abs(np.mean(column["x"])) > 0.01 for column in columns))
    assume(all(deviation(column) > 1e-6 for column in columns))
    figures_found = figures(Case(columns, labels.tolist()))
    assert figures_found["moment_loss"].value == pytest.approx(
        figures_found["sse_loss"].value / 2, abs=1e-9
    )


# --- what must change nothing --------------------------------------------------------------------


@given(cases(), st.integers(0, 2**32))
@settings(max_examples=60)
def test_the_order_of_rows_and_the_numbers_of_classes_change_nothing(case, seed):
    rng = np.random.default_rng(seed)
    rows = rng.permutation(case.n)
    classes = rng.permutation(max(case.labels) + 1)
    back = np.argsort(classes)

    def of(values):
        return None if values is None else [values[i] for i in rows]

    # A class belongs to the stratum of its first record, which must not change.
    assume(
        case.strata is None
        or len(set(zip(case.labels, case.strata, strict=True))) == len(set(case.labels))
    )
    columns = [
        {**column, "x": of(column["x"]), "y": [column["y"][at] for at in back]}
        for column in case.columns
    ]
    labels = [int(classes[case.labels[i]]) for i in rows]
    other = Case(columns, labels, of(case.strata), of(case.entities))
    same(figures(case), figures(other))


@given(cases(), st.integers(-30, 30))
@settings(max_examples=60)
def test_the_unit_of_a_column_changes_nothing(case, exponent):
    """Not a bit, where it is a power of two."""
    columns = []
    for column in case.columns:
        if column["kind"] in ("number", "interval"):

            def scaled(value):
                if isinstance(value, tuple):
                    return tuple(scaled(end) for end in value)
                return None if value is None else float(np.ldexp(value, exponent))

            column = {
                **{key: column[key] for key in ("name", "kind", "tree")},
                "x": [scaled(value) for value in column["x"]],
                "y": [scaled(value) for value in column["y"]],
            }
        columns.append(column)
    other = Case(columns, case.labels, case.strata, case.entities)
    same(figures(case), figures(other), rel=0)


@given(cases(), st.integers(0, 2**32))
@settings(max_examples=40)
def test_classes_with_equal_released_values_count_as_one(case, seed):
    """A class cut in two, with the same values: what rows tell is what it was."""
    rng = np.random.default_rng(seed)
    case.strata = None
    label = int(np.argmax(np.bincount(case.labels)))
    members = [i for i in range(case.n) if case.labels[i] == label]
    if len(members) < 2:
        return
    moved = set(rng.permutation(members)[: int(rng.integers(1, len(members)))].tolist())
    labels = [max(case.labels) + 1 if i in moved else case.labels[i] for i in range(case.n)]
    columns = [{**c, "y": [*c["y"], c["y"][label]]} for c in case.columns]
    figures_found = figures(Case(columns, labels, None, case.entities))
    expected = figures(case)
    for figure in (figures_found, expected):
        figure.pop("security_ratio")  # of classes
    same(expected, figures_found)


# --- parameters ----------------------------------------------------------------------------------


def test_weights_are_the_callers():
    case = make(np.random.default_rng(8), 30, ("number", "number"))
    figures_found = figures(case, lambdas=(1.0, 0.0, 0.0), taus=(0.0, 1.0), gammas=(1.0, 0.0))
    assert figures_found["statistics_loss"].value == figures_found["deviation_loss"].value
    assert figures_found["disclosure_risk"].value == figures_found["interval_risk"].value
    assert figures_found["score"].value == figures_found["overall_loss"].value


@pytest.mark.parametrize(
    "wrong",
    [
        {"lambdas": (0.5, 0.5)},
        {"lambdas": (0.5, 0.5, 0.5)},
        {"taus": (1.5, -0.5)},
        {"gammas": (float("nan"), 1.0)},
        {"interval_percents": ()},
        {"interval_percents": (1, 101)},
        {"small": (0,)},
        {"epsilon": -0.1},
        {"epsilon": float("nan")},
        {"sample": 0},
        {"seed": -1},
    ],
    ids=str,
)
def test_wrong_parameters_are_refused(wrong):
    [name] = wrong
    with pytest.raises(InvalidParameter, match=name):
        Parameters(**wrong)


def test_a_part_without_weight_may_have_no_value():
    points = np.array([[-1.0], [1.0], [-2.0], [2.0]])
    columns = [{"name": "a", "kind": "number", "x": points[:, 0].tolist(), "y": [0.0, 0.0]}]
    figures_found = figures(Case(columns, [0, 0, 1, 1]))
    assert figures_found["moment_loss"].value is None
    assert figures_found["moment_loss"].note == "all means are 0"
    assert figures_found["statistics_loss"].value is not None
    assert (
        figures(Case(columns, [0, 0, 1, 1]), lambdas=(0.4, 0.3, 0.3))["statistics_loss"].value
        is None
    )


@pytest.mark.parametrize("kinds", [("number", "number"), ("number", "nominal")])
def test_a_sample_is_near_the_whole_and_says_how_near(kinds):
    case = make(np.random.default_rng(11), 400, kinds)
    complete, part = figures(case), figures(case, sample=200)
    for name in ("linkage_risk", "nearest_linkage_risk"):
        error = part[name].parts["standard_error"]
        assert 0 < error < 0.05
        assert abs(part[name].value - complete[name].value) < 4 * error
        assert part[name].note == "of a sample of 200 records"
        assert "standard_error" not in complete[name].parts
        assert figures(case, sample=200)[name] == part[name]
        assert figures(case, sample=200, seed=1)[name] != part[name]
        assert figures(case, sample=400)[name] == complete[name]


def test_too_much_to_compare_makes_a_sample(monkeypatch):
    monkeypatch.setattr("dbanon.measures.risk.links.MAX_ATTRIBUTE_COMPARISONS", 1000)
    monkeypatch.setattr("dbanon.measures.risk.links.SAMPLE_SIZE", 50)
    # Only records an attacker compares count: with 200 strata no record has another to compare.
    case = make(np.random.default_rng(11), 200, ("number", "nominal"))
    case.labels, case.strata = list(range(200)), list(range(200))
    for column in case.columns:
        column["y"] = column["x"]
    assert figures(case)["linkage_risk"].note == ""
    mixed = figures(make(np.random.default_rng(11), 200, ("number", "nominal")))
    numbers = figures(make(np.random.default_rng(11), 200, ("number", "number")))
    for name in ("linkage_risk", "nearest_linkage_risk"):
        assert mixed[name].note == "of a sample of 50 records"
        assert numbers[name].note == ""


def test_a_tick_that_raises_ends_it():
    points = np.random.default_rng(0).normal(size=(60_000, 12))
    table = Pairs(
        tuple(
            Numbers(name=f"a{j}", original=x, scale=Scale.of(x), released=x + 0.1)
            for j, x in enumerate(points.T)
        ),
        Partition(np.arange(60_000)),
    )
    shares = []

    def tick(share):
        shares.append(share)
        if len(shares) == 5:
            raise Cancelled("enough")

    for name in ("linkage_risk", "nearest_linkage_risk"):
        shares.clear()
        with pytest.raises(Cancelled):
            evaluate(EvaluationTask(table, tick=tick), [name])
        assert all(0 <= share <= 1 for share in shares)


def test_pairs_are_of_released_records():
    table = pairs(make(np.random.default_rng(1), 5, ("number",)))
    labels = table.partition.labels.copy()
    labels[0] = -1
    with pytest.raises(ValueError, match="released"):
        replace(table, partition=Partition(np.unique(labels, return_inverse=True)[1] - 1))
