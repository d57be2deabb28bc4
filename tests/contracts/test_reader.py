"""A reader recovers no original better from all that is published than from the rows alone.

``tests/reference/reader.py`` is the reader. Each test fails where exact figures are published.
"""

from __future__ import annotations

import copy
import json
import pickle
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon.errors import RowsNotAnonymous
from dbanon.measures.catalogue import MEASURES, evaluate
from dbanon.measures.figure import EvaluationTask, Parameters
from dbanon.methods import METHODS
from dbanon.recoding import RECODINGS
from dbanon.release.evaluation import evaluation_of_figures
from dbanon.release.figures import publish_figures
from dbanon.release.publication import choose_rounding_step, compute_published_loss, round_to_steps
from tests.reference import reader

RICHEST = 9_754_321
N = 120

pytestmark = pytest.mark.filterwarnings(f"ignore::{RowsNotAnonymous.__module__}.RowsNotAnonymous")
each_method = pytest.mark.parametrize("method", list(METHODS))
each_sign = pytest.mark.parametrize("sign", [1, -1], ids=["largest", "smallest"])


def people(sign: int = 1, *, clumps: bool = False) -> pd.DataFrame:
    """Incomes of which one is far from all others, in random order."""
    rng = np.random.default_rng(7)
    values = np.sort(np.rint(np.exp(rng.normal(10.3, 0.5, N))))
    if clumps:
        values = np.repeat(np.arange(20_000.0, 20_000 + N // 5 * 1000, 1000), 5)
    values[-5:] = [300_000, 310_000, 340_000, 390_000, RICHEST]
    return pd.DataFrame({"income": sign * rng.permutation(values).astype(np.int64)})


def released(frame: pd.DataFrame, method: str = "mdav", **policy):
    if method == "individual_ranking":
        policy["guarantee"] = "per_attribute"
    return dbanon.anonymize_frame(
        frame, quasi_identifiers=["income"], k=5, method=method, evaluate=True, **policy
    )


def ends(labels: pd.Series) -> np.ndarray:
    """The borders of labels, float64 (n, 2)."""
    texts = labels.astype(str)
    return np.array(
        [[float(x) for x in text.strip("[])").split(", ")] for text in texts], np.float64
    )[:, [0, -1]]


def errors(frame: pd.DataFrame, released_frame: pd.DataFrame, plain: dict) -> tuple[float, dict]:
    """How far the reader is from the truth by the rows alone, and by each figure."""
    figures = reader.flat(plain["evaluation"] or {}) | {
        "information_loss": plain["information_loss"],
        "before_rounding": plain["information_loss_before_rounding"],
    }
    values = frame["income"].to_numpy(np.float64)
    if not pd.api.types.is_numeric_dtype(released_frame["income"]):
        # A cell that is NULL loses 1, which readers subtract.
        labels = released_frame["income"].dropna()
        n_null = N - len(labels)
        low, high = ends(labels).T
        width, hull = np.ptp(values), high.max() - low.min() - 1
        guesses = {
            name: reader.width_by_labels(low, high, (value * N - n_null) / len(labels))
            for name, value in figures.items()
            if name.split(".")[-1] in ("information_loss", "before_rounding", "label_loss")
        }
        return abs(hull - width) / width, {
            name: abs(guess - width) / width for name, guess in guesses.items() if guess is not None
        }
    sign = 1 if values.max() == RICHEST else -1
    rows = sign * released_frame["income"].to_numpy(np.float64)
    from_range = min(abs(end - RICHEST) for end in reader.range_of_rows(rows)) / RICHEST
    by_figure = {
        name: max(abs(low - RICHEST), abs(high - RICHEST)) / RICHEST
        for name, (low, high) in reader.solve(figures, rows, points=30).items()
        if name.split(".")[0] not in ("risks",)
    }
    income_figures = plain["evaluation"]["columns"]["income"]
    guesses = {
        "squares": reader.top_by_squares(rows, income_figures["sse_loss"]),
        "range": reader.top_by_deviations(
            rows,
            income_figures["sse_loss"],
            income_figures["deviation_loss"],
            income_figures["direct_loss"],
        ),
    }
    by_figure |= {
        name: abs(guess - RICHEST) / RICHEST for name, guess in guesses.items() if guess is not None
    }
    return from_range, by_figure


def readable(report) -> dict:
    """All numbers of a report, except its times and seeds."""
    plain = report.to_dict()
    for name in ("seconds", "release_id", "created_at"):
        del plain[name]
    return reader.flat(plain)


def twins(frame: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Tables whose extreme record has another value, and whose released rows may be the same."""
    for less, more in ((400_000, 100_000), (400_000, 0), (1000, 0), (40, 10), (1, 0)):
        values = frame["income"].to_numpy().copy()
        sign = 1 if values.max() == RICHEST else -1
        order = np.argsort(sign * values)
        # The others of the class gain what one loses, so the mean stays.
        values[order[-1]] -= sign * less
        values[order[-5:-1]] += sign * more
        yield pd.DataFrame({"income": values})


def require_no_trace(frame: pd.DataFrame, **policy) -> None:
    """Check that all readable figures are equal for two tables with the same released rows."""
    released_frame, report = released(frame, **policy)
    assert report.evaluation_failed is None
    for table in twins(frame):
        other, of_other = released(table, **policy)
        if Counter(other["income"]) == Counter(released_frame["income"]):
            break
    else:
        pytest.fail("the classes are others for every other value of the extreme record")
    # Where one label covers all there is nothing to find.
    exact = report.internal.column_losses
    assert exact != of_other.internal.column_losses or exact["income"].released == 1
    first, second = readable(report), readable(of_other)
    differing = {name for name in first | second if first.get(name) != second.get(name)}
    assert not differing
    if not pd.api.types.is_numeric_dtype(released_frame["income"]):
        from_range, by_figure = errors(frame, released_frame, report.to_dict())
        assert min(by_figure.values(), default=from_range) >= from_range * (1 - 1e-9)


@each_sign
@each_method
def test_no_method_lets_readers_find_the_extreme(method, sign):
    require_no_trace(people(sign), method=method)


@pytest.mark.parametrize(
    "policy",
    [
        *({"recoding": name} for name in RECODINGS if RECODINGS[name].method is None),
        {"recoding": "generalization", "intervals": "midpoint"},
    ],
    ids=str,
)
@each_sign
def test_no_recoding_lets_readers_find_the_extreme(policy, sign):
    require_no_trace(people(sign, clumps=True), **policy)


def shown_of(pairs) -> dict[str, float]:
    """The published figures of a world that a reader imagines."""
    exact = evaluate(EvaluationTask(pairs))
    sums = [reader.squares_of(pairs)]
    loss = compute_published_loss(sums, "sse")
    losses = "sse", {"income": float(loss.columns[0])}, loss.total
    figures = publish_figures(pairs, exact, Parameters(), losses)
    return reader.flat(evaluation_of_figures(pairs, figures, Parameters()).to_dict())


@pytest.mark.parametrize("measure", list(MEASURES))
def test_a_reader_who_knows_the_rules_cannot_tell_worlds_apart(measure, worlds):
    """All others are known to him exactly: one record's value alone is not."""
    for path in worlds[0]:
        if measure in path.split("."):
            assert {world[path] for world in worlds} == {worlds[0][path]}, path


@pytest.fixture(scope="module")
def worlds():
    released_frame, _ = released(people(clumps=True))
    rows = released_frame["income"].to_numpy(np.float64)
    low, high = reader.range_of_rows(rows)
    return [shown_of(reader.world(rows, top)) for top in np.linspace(low, high, 12)[1:]]


def test_the_exact_figures_stay_in_the_run():
    frame = people()
    _, report = released(frame, certificate=1)
    exact = report.internal
    assert exact is not None
    assert exact.information_loss != report.information_loss
    numbers = {
        exact.information_loss,
        exact.information_loss_before_rounding,
        exact.column_losses["income"].released,
        exact.certificate["lower_bound"],
        *(value for value in exact.evaluation["losses"].values() if value not in (None, 0, 1)),
    }
    texts = [
        json.dumps(report.to_dict()),
        str(report),
        repr(report),
        report.page(),
        report._repr_html_(),
        json.dumps(asdict(report), default=str),
    ]
    for number in numbers:
        assert not [text for text in texts if f"{number:.5g}" in text], number
    for other in (pickle.loads(pickle.dumps(report)), copy.deepcopy(report)):
        assert other.internal is None
        assert other.to_dict() == report.to_dict()
    assert repr(exact) == "<internal: contains the extremes of the originals>"


@pytest.mark.parametrize(
    ("largest", "n", "step"), [(5, 1000, 0.005), (5, 1080, 0.005), (9, 1000, 0.01), (3, 3, 1.0)]
)
def test_steps_are_shares_of_a_class(largest, n, step):
    assert choose_rounding_step(largest, n) == step
    assert round_to_steps(0.0, step) == step
    assert round_to_steps(1.4 * step, step, 2.2 * step) == pytest.approx(3 * step)
