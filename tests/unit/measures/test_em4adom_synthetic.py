"""EM4ADOM on synthetic tables: each figure is that of its formula in plain loops.

Partner of test_em4adom.py, whose figures are of tables that no public clone has.
"""

import numpy as np
import pytest

import dbanon
from dbanon.advice.recommend import knee_index
from dbanon.data.chunks import encode_texts
from dbanon.data.partition import Partition
from dbanon.measures.catalogue import evaluate
from dbanon.measures.figure import EvaluationTask
from dbanon.measures.pairs import Pairs
from tests.reference import evaluation as formulas
from tests.reference import methods as reference
from tests.reference.evaluation_case import Case
from tests.synthetic_data import adult_like, census_like
from tests.unit.measures.test_em4adom import (
    EDUCATION,
    adult_columns,
    adult_points,
    of_means,
)

SIZES = range(3, 11)
NAMES = (
    "sse_loss",
    "distance_loss",
    "deviation_loss",
    "moment_loss",
    "structure_loss",
    "interval_risk",
)


def case_of(originals, kinds, classes):
    """Columns released with a class's mean, lower median or most frequent value, in plain loops."""
    columns = []
    for name, values in originals.items():
        released = []
        for label in range(classes.n_classes):
            members = [
                value
                for value, column_loss in zip(values, classes.labels, strict=True)
                if column_loss == label
            ]
            if kinds[name] == "number":
                released.append(sum(members) / len(members))
            elif kinds[name] == "ordinal":
                released.append(sorted(members)[(len(members) - 1) // 2])
            else:
                released.append(min(set(members), key=lambda v: (-members.count(v), v)))
        columns.append({"name": name, "kind": kinds[name], "x": [*values], "y": released})
    return Case(columns, classes.labels.tolist())


@pytest.fixture(scope="module")
def measured():
    """By k, MDAV's classes and the figures of all measures, for a table like Census."""
    points = census_like(150, 4)
    classes = {k: Partition(dbanon.partition(points, k).labels) for k in SIZES}
    return points, {
        k: (each, evaluate(EvaluationTask(of_means(points, each)))) for k, each in classes.items()
    }


@pytest.mark.parametrize("k", [3, 5, 10])
def test_figures_are_those_of_the_formulas(measured, k):
    points, by_k = measured
    classes, figures = by_k[k]
    names = [f"a{j}" for j in range(points.shape[1])]
    originals = dict(zip(names, points.T.tolist(), strict=True))
    case = case_of(originals, dict.fromkeys(names, "number"), classes)
    expected = {name: getattr(formulas, name)(case) for name in NAMES}
    assert {name: figures[name].value for name in NAMES} == pytest.approx(expected, rel=1e-9)
    linked, _ = formulas.nearest_linkage_risk(case)
    assert figures["nearest_linkage_risk"].value == pytest.approx(linked, rel=1e-9)
    assert figures["linkage_risk"].value == pytest.approx(formulas.linkage_risk(case)[0], rel=1e-9)
    # Moments of z-scores lose half of SSE/SST.
    assert expected["moment_loss"] == pytest.approx(expected["sse_loss"] / 2, abs=1e-12)
    loss = expected["distance_loss"] / 2
    loss += (expected["deviation_loss"] + expected["structure_loss"]) / 4
    risk = (linked + expected["interval_risk"]) / 2
    assert figures["overall_loss"].value == pytest.approx(loss, rel=1e-9)
    assert figures["disclosure_risk"].value == pytest.approx(risk, rel=1e-9)
    assert figures["score"].value == pytest.approx((loss + risk) / 2, rel=1e-9)


def test_pairs_of_columns_with_a_weak_correlation_are_counted():
    """One of three columns is orthogonal to the others, up to rounding."""
    turns = np.arange(120) * 2 * np.pi / 120
    points = np.column_stack((np.sin(turns), np.sin(turns) + turns / 100, np.cos(turns)))
    classes = Partition(dbanon.partition(points, 3).labels)
    figures = evaluate(EvaluationTask(of_means(points, classes)))["structure_loss"]
    weak = np.abs(np.corrcoef(points.T)[np.triu_indices(3, 1)]) < 0.01
    assert figures.parts["pairs near 0"] == weak.sum() > 0


def test_risk_falls_and_loss_grows_with_k(measured):
    """The source's claims about all tables; single steps may go the other way."""
    _, by_k = measured
    for name in ("disclosure_risk", "nearest_linkage_risk", "linkage_risk"):
        risks = [by_k[k][1][name].value for k in SIZES]
        assert risks[-1] < risks[len(risks) // 2] < risks[0]
    losses = [by_k[k][1]["overall_loss"].value for k in SIZES]
    assert losses[0] < losses[len(losses) // 2] < losses[-1]
    assert all(by_k[k][1]["linkage_risk"].value <= 1 / k for k in SIZES)


@pytest.mark.parametrize("seed", range(3))
def test_the_bend_is_the_point_farthest_from_the_chord(seed):
    """By the distance of a point from a line, on axes from 0 to 1."""
    points = census_like(150, 4, seed)
    risks, losses = [], []
    for k in SIZES:
        classes = Partition(dbanon.partition(points, k).labels)
        figures = evaluate(
            EvaluationTask(of_means(points, classes)), ["disclosure_risk", "overall_loss"]
        )
        risks.append(figures["disclosure_risk"].value)
        losses.append(figures["overall_loss"].value)
    x, y = ((np.array(v) - min(v)) / (max(v) - min(v)) for v in (risks, losses))

    def area(x_of_point, y_of_point):
        """The area of the triangle with the chord, signed by the side of the chord."""
        return (x[-1] - x[0]) * (y_of_point - y[0]) - (y[-1] - y[0]) * (x_of_point - x[0])

    # Below the chord is the side of the origin.
    depths = [area(*point) * np.sign(area(0, 0)) for point in zip(x, y, strict=True)]
    assert max(depths) > 0.1
    assert knee_index(risks, losses) == int(np.argmax(depths))


@pytest.fixture(scope="module")
def adult(tmp_path_factory):
    return adult_like(120, tmp_path_factory.mktemp("adult") / "adult", seed=1)


def require_figures_of_formulas(frame, classes):
    """Check that the figures of a mixed table are those of the formulas."""
    kinds = dict.fromkeys(frame, "nominal") | {"age": "number", "education": "ordinal"}
    originals = {name: encode_texts(frame[name])[0].tolist() for name in frame}
    originals["age"] = [float(age) for age in frame["age"]]
    originals["education"] = [float(EDUCATION.index(name)) for name in frame["education"]]
    case = case_of(originals, kinds, classes)
    figures = evaluate(
        EvaluationTask(Pairs(tuple(adult_columns(frame, classes)), Partition(classes.labels)))
    )
    assert figures["direct_loss"].parts["zil"] == pytest.approx(formulas.zil(case), rel=1e-9)
    for name in ("direct_loss", "entropy_change", "entropy_loss"):
        assert figures[name].value == pytest.approx(getattr(formulas, name)(case), rel=1e-9), name
    linked, _ = formulas.nearest_linkage_risk(case)
    assert figures["nearest_linkage_risk"].value == pytest.approx(linked, rel=1e-9)
    # Without a loss for numbers alone, the risk is that of linkage.
    assert figures["disclosure_risk"].value == figures["nearest_linkage_risk"].value
    assert figures["linkage_risk"].value == pytest.approx(formulas.linkage_risk(case)[0], rel=1e-9)
    return figures["direct_loss"].parts["zil"]


@pytest.mark.parametrize("k", [3, 6])
def test_figures_of_a_mixed_table(adult, k):
    """Classes of GAA-CP, and of mixed microaggregation, which are those of a plain MDAV."""
    frame = adult.quasi_identifiers
    generalized = dbanon.partition(frame, k, method="gaa_cp", hierarchies=adult.files)
    options = {"recoding": "representative", "orders": {"education": list(EDUCATION)}}
    classes = dbanon.partition(frame, k, **options)
    np.testing.assert_array_equal(classes.labels, reference.mdav(adult_points(frame), k))
    loss = [require_figures_of_formulas(frame, each) for each in (generalized, classes)]
    assert loss[1] < loss[0]
    # Less again after refinement.
    refined = dbanon.partition(frame, k, refine="fast", **options)
    assert require_figures_of_formulas(frame, refined) < loss[1]
    # The release equals the measured values, except that ages are rounded.
    _, report = dbanon.anonymize_frame(
        frame, quasi_identifiers=list(frame.columns), k=k, evaluate=True, **options
    )
    assert report.internal.information_loss == pytest.approx(loss[1] / frame.size, rel=5e-3)
