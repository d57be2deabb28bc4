"""Microaggregation as scikit-learn's estimators are used, held to scikit-learn's own checks."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon.errors import InvalidParameter, UnknownMethod
from tests.prerequisites import import_or_skip


@pytest.fixture(scope="module", autouse=True)
def _sklearn() -> None:
    # Where it is used: each process of tests collects this file, one runs it.
    import_or_skip("sklearn")


def table(n: int = 90) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    return pd.DataFrame({"age": rng.integers(18, 90, n), "income": rng.gamma(4, 900, n)})


@pytest.mark.slow
@pytest.mark.parametrize("method", ["mdav", "vmdav"])
def test_all_checks_of_scikit_learn(method: Any) -> None:
    from sklearn.exceptions import SkipTestWarning
    from sklearn.utils.estimator_checks import check_estimator

    from dbanon.sklearn import EXPECTED_FAILED_CHECKS, Microaggregation

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)
        checks = check_estimator(
            Microaggregation(method=method),
            expected_failed_checks=EXPECTED_FAILED_CHECKS,
            on_fail=None,
        )
    wrong = [check["check_name"] for check in checks if check["status"] not in ("passed", "xfail")]
    # Needs a variable of the environment before scipy is imported.
    assert set(wrong) <= {"check_array_api_input"}
    failed = {check["check_name"] for check in checks if check["status"] == "xfail"}
    assert failed == set(EXPECTED_FAILED_CHECKS), "a reason that is none any more"
    assert sum(check["status"] == "passed" for check in checks) >= 40


def test_labels_are_those_of_partition_and_centroids_are_means() -> None:
    from dbanon.sklearn import Microaggregation

    frame = table()
    fitted = Microaggregation(k=4, method="mdav", refine="fast").fit(frame)
    assert fitted.labels_.tolist() == dbanon.partition(frame, 4, refine="fast").labels.tolist()
    assert np.bincount(fitted.labels_).min() >= 4
    means = frame.groupby(fitted.labels_).mean().to_numpy()
    np.testing.assert_allclose(fitted.centroids_, means, rtol=1e-12)
    assert fitted.n_features_in_ == 2
    assert list(fitted.feature_names_in_) == ["age", "income"]
    assert fitted.fit_predict(frame.to_numpy()).tolist() == fitted.labels_.tolist()
    assert not hasattr(fitted, "feature_names_in_")


def test_in_a_pipeline_with_names_of_columns() -> None:
    from sklearn.base import clone, is_clusterer
    from sklearn.model_selection import ParameterGrid
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from dbanon.sklearn import Microaggregation

    line = make_pipeline(StandardScaler(), Microaggregation(k=6)).set_output(transform="pandas")
    labels = line.fit_predict(table())
    assert list(line[-1].feature_names_in_) == ["age", "income"]
    assert np.bincount(labels).min() >= 6
    assert is_clusterer(line[-1])
    for changed in ParameterGrid({"microaggregation__k": [3, 9]}):
        sizes = np.bincount(clone(line).set_params(**changed).fit_predict(table()))
        assert sizes.min() >= changed["microaggregation__k"]


def test_records_that_come_later_get_no_class() -> None:
    """They would have no k: neither of them is promised anything."""
    from dbanon.sklearn import Microaggregation

    for name in ("predict", "transform", "fit_transform"):
        assert not hasattr(Microaggregation(), name)


def test_what_is_refused() -> None:
    from dbanon.sklearn import Microaggregation

    with pytest.raises(ValueError, match="minimum of 5 is required by Microaggregation"):
        Microaggregation(k=5).fit(table(4))
    with pytest.raises(ValueError, match="NaN"):
        Microaggregation(k=5).fit(table().assign(age=np.nan))
    with pytest.raises(InvalidParameter, match="k must be a whole number, 2 or more"):
        Microaggregation(k=1).fit(table())
    of_columns: Any = "individual_ranking"
    with pytest.raises(InvalidParameter, match="a row has no class"):
        Microaggregation(method=of_columns).fit(table())
    nothing: Any = "mdva"
    with pytest.raises(UnknownMethod, match="no method"):
        Microaggregation(method=nothing).fit(table())


def test_scikit_learn_is_loaded_where_it_is_used_alone() -> None:
    code = (
        "import sys, dbanon, numpy;"
        "dbanon.partition(numpy.arange(12.0).reshape(6, 2), 3);"
        "assert 'sklearn' not in sys.modules;"
        "import dbanon.errors; sys.modules['sklearn'] = None\n"
        "try:\n    import dbanon.sklearn\n"
        "except dbanon.errors.MissingDependency as error:\n    print(error.hint)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'scikit-learn>=1.6'" in done.stdout, done.stderr
