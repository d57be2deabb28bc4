"""Every measure of a release against its formula in plain loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbanon.measures.catalogue import MEASURES, evaluate
from dbanon.measures.figure import EvaluationTask, ignore_progress
from dbanon.measures.risk import links
from tests.evaluation_cases import KINDS, cases, make, pairs
from tests.reference import evaluation as reference
from tests.reference.evaluation_case import Case

PLAIN = (
    "sse_loss",
    "distance_loss",
    "deviation_loss",
    "moment_loss",
    "structure_loss",
    "covariance_loss",
    "correlation_loss",
    "direct_loss",
    "entropy_change",
    "entropy_loss",
    "class_risk",
    "interval_risk",
    "security_ratio",
)


def check(case, rel=1e-9):
    figures = evaluate(EvaluationTask(pairs(case)))
    for name in PLAIN:
        expected = getattr(reference, name)(case)
        value = figures[name].value
        assert (value is None) == (expected is None), (name, value, expected, figures[name].note)
        if value is None:
            assert figures[name].note, name
        else:
            assert value == pytest.approx(expected, rel=rel, abs=1e-10), name
    named, right = reference.linkage_risk(case)
    assert figures["linkage_risk"].value == pytest.approx(named, rel=rel)
    assert figures["linkage_risk"].parts["class_linkage"] == pytest.approx(right, rel=rel)
    linked, first = reference.nearest_linkage_risk(case)
    assert figures["nearest_linkage_risk"].value == pytest.approx(linked, rel=rel)
    assert figures["nearest_linkage_risk"].parts["nearest"] == pytest.approx(first, rel=rel)
    zil = figures["direct_loss"].parts.get("zil", 0.0)
    assert zil == pytest.approx(reference.zil(case), rel=rel, abs=1e-10)
    return figures


@given(cases(("number",)))
@settings(max_examples=150)
def test_tables_of_numbers(case):
    check(case)


@given(cases())
@settings(max_examples=150)
def test_mixed_tables(case):
    check(case)


@given(cases(KINDS[1:]))
@settings(max_examples=60)
def test_tables_without_numbers(case):
    figures = check(case)
    for name in ("distance_loss", "overall_loss", "interval_risk", "score", "security_ratio"):
        assert figures[name].value is None
    assert figures["disclosure_risk"].value == figures["nearest_linkage_risk"].value


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_larger_tables(seed):
    """Hundreds of records: chunks, many groups and many ties."""
    rng = np.random.default_rng(seed)
    kinds = ("number",) * 3 if seed % 2 else ("number", "nominal", "ordinal")
    nulls = ("none", "patterns", "any")[seed % 3]
    check(make(rng, 110, kinds, nulls=nulls, strata=seed > 2, entities=seed > 3))


@given(cases(), st.booleans())
@settings(max_examples=100)
def test_nearest_of_a_group_as_distances_of_its_pairs_say(case, released):
    """Equal to the last bit."""
    case_pairs = pairs(case)
    for group in links.comparison_groups(case_pairs):
        questions, points = group.records, group.row_classes
        if not released:
            questions, points = points, questions
        if not len(questions) or not len(points):
            continue
        answer = links.nearest_by_sum(
            case_pairs,
            questions,
            points,
            ignore_progress,
            points_are_released=released,
            needs_second=True,
        )
        for position, question in enumerate(questions):
            each = np.full(len(points), question)
            both = (each, points) if released else (points, each)
            distances = sum(
                (c.distances_ignoring_nulls(*both) for c in case_pairs.columns),
                np.zeros(len(points)),
            )
            first = distances.min()
            ties = distances <= first * links.TIE_FACTOR
            second = distances[~ties].min(initial=np.inf)
            assert answer.distances[position] == first
            assert answer.second_distances[position] == (second if np.isfinite(second) else first)
            assert answer.weights[position] == ties.sum()


@given(cases(), st.integers(1, 40))
@settings(max_examples=40)
def test_pieces_change_nothing(case, chunk):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dbanon.measures.pairs.CHUNK_RECORDS", chunk)
        patch.setattr("dbanon.measures.covariances._CHUNK_RECORDS", chunk)
        check(case)


def test_what_is_made_of_others():
    case = make(np.random.default_rng(3), 30, ("number", "number"))
    figures = {name: figure.value for name, figure in evaluate(EvaluationTask(pairs(case))).items()}
    inner = 0.5 * figures["deviation_loss"] + 0.5 * figures["structure_loss"]
    assert figures["statistics_loss"] == pytest.approx(inner)
    assert figures["overall_loss"] == pytest.approx((figures["distance_loss"] + inner) / 2)
    risk = (figures["nearest_linkage_risk"] + figures["interval_risk"]) / 2
    assert figures["disclosure_risk"] == pytest.approx(risk)
    assert figures["score"] == pytest.approx((figures["overall_loss"] + risk) / 2)


def test_notes_lead_to_the_part_that_is_missing():
    case = make(np.random.default_rng(3), 9, ("number",))
    case.columns[0]["x"] = [1.0] * 9
    case.columns[0]["y"] = [1.0] * len(case.columns[0]["y"])
    figures = evaluate(EvaluationTask(pairs(case)))
    assert figures["score"].value is None
    assert figures["score"].note.startswith("overall_loss: distance_loss: no column of numbers")
    assert set(figures) == set(MEASURES)


def test_constant_columns_do_not_thin_out_a_loss():
    """Two columns that vary lose no less because 27 others are constant."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=50)
    columns = [
        {"name": f"a{j}", "kind": "number", "x": (x * j + rng.normal(size=50)).tolist()}
        for j in range(2)
    ]
    columns += [{"name": f"c{j}", "kind": "number", "x": [1.0] * 50} for j in range(27)]
    columns = [column | {"y": np.repeat(column["x"][::5], 1).tolist()} for column in columns]
    labels = np.repeat(np.arange(10), 5).tolist()
    without_constants, with_constants = (
        evaluate(EvaluationTask(pairs(Case(some, labels)))) for some in (columns[:2], columns)
    )
    for name in ("correlation_loss", "structure_loss"):
        assert with_constants[name].value == pytest.approx(without_constants[name].value)
        assert with_constants[name].value > 0.001
        assert (without_constants[name].note, with_constants[name].note) == (
            "",
            "27 columns are constant, and left out",
        )
    nothing = evaluate(EvaluationTask(pairs(Case(columns[1:3], labels))))["correlation_loss"]
    assert (nothing.value, nothing.note) == (None, "there is one column of numbers that varies")


@pytest.mark.parametrize("seed", range(8))
def test_columns_that_became_constant_have_no_correlation(seed):
    """Rounding must not pass for a spread."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(100, 3)) @ rng.normal(size=(3, 3))
    columns = [
        {"name": f"a{j}", "kind": "number", "x": x.tolist(), "y": [float(rng.normal())]}
        for j, x in enumerate(points.T)
    ]
    figures = evaluate(EvaluationTask(pairs(Case(columns, [0] * 100))))
    together = np.abs(np.corrcoef(points.T)[np.triu_indices(3, 1)])
    assert figures["correlation_loss"].value == pytest.approx(together.mean())
