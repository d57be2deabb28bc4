"""Guarantees of every recoding, over the entire registry."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbanon
from dbanon.errors import KeptColumnTells
from dbanon.recoding import RECODINGS
from tests.conftest import CAMPAIGN

# Of each recoding.
EXAMPLES = 15 if CAMPAIGN else 8

pytestmark = pytest.mark.filterwarnings(f"ignore::{KeptColumnTells.__module__}.KeptColumnTells")

each_recoding = pytest.mark.parametrize("recoding", RECODINGS.values(), ids=list(RECODINGS))


@st.composite
def frames(draw):
    """Small tables of integers, floats and dates, some with NULLs, and a k."""
    k = draw(st.integers(2, 5))
    n = draw(st.integers(k, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    spread = draw(st.sampled_from([1, 3, 1000]))
    frame = pd.DataFrame(
        {
            "count": rng.integers(0, spread, n),
            "size": rng.normal(size=n).round(draw(st.sampled_from([0, 8]))),
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, spread, n), "D"),
        }
    )
    if draw(st.booleans()):
        # Enough of them to form a class.
        frame.loc[: max(k, n // 3) - 1, "size"] = np.nan
        frame = frame.iloc[: n if n >= 2 * k else k]
    return frame, k


def released(frame, k, recoding, **policy):
    names = [str(name) for name in frame.columns if name != "row"]
    method = recoding.method or "mdav"
    return dbanon.anonymize_frame(
        frame,
        quasi_identifiers=names,
        k=k,
        method=method,
        recoding=recoding.name,
        nulls="category",
        **policy,
    )


@each_recoding
@given(table=frames())
@settings(max_examples=EXAMPLES, deadline=None)
def test_contract(recoding, table):
    frame, k = table
    frame = frame.assign(row=np.arange(len(frame)))
    before = frame.copy()
    released_frame, report = released(frame, k, recoding, keep=["row"])
    pd.testing.assert_frame_equal(frame, before)
    released_frame = released_frame.sort_values("row", ignore_index=True)
    assert released_frame["row"].tolist() == list(range(len(frame)))
    values = released_frame.drop(columns="row")
    # One value for all of a class, and NULL for none but those that were. 0.0 and -0.0 are two.
    sizes = values.astype(str).groupby(list(values.columns), dropna=False).size()
    assert sizes.min() == report.k_achieved >= k
    suppresses_cells = recoding.name == "common"
    if suppresses_cells:
        assert values["size"].isna()[frame["size"].isna()].all()
        assert sum(report.suppressed_cells.values()) == (
            values.isna().sum().sum() - frame.isna().sum().sum()
        )
    else:
        assert values["size"].isna().tolist() == frame["size"].isna().tolist()
    # Values that are no means, rounded ones among them, may lose more than one class's mean does.
    assert report.internal.information_loss >= 0.0
    if recoding.name == "mean":
        assert report.internal.information_loss_before_rounding <= 1.0 + 1e-9
    # The same classes and values again.
    again, second = released(frame, k, recoding, keep=["row"])
    again = again.sort_values("row", ignore_index=True)
    pd.testing.assert_frame_equal(again, released_frame)
    assert second.internal.information_loss == report.internal.information_loss
    if recoding.name not in ("secure", "generalization"):
        # A number of the column's own type, inside its range. (Secure moves means on purpose.)
        for name in ("count", "size", "day"):
            # Integers of numpy have no NULL.
            assert values[name].dtype == frame[name].dtype or suppresses_cells
            non_null = values[name].dropna()
            if len(non_null):
                assert frame[name].min() <= non_null.min() <= non_null.max() <= frame[name].max()


@each_recoding
def test_equal_records_lose_nothing(recoding):
    frame = pd.DataFrame({"count": [7] * 9, "size": [0.1] * 9})
    released_frame, report = released(frame, 3, recoding)
    assert report.internal.information_loss == 0.0
    assert len(released_frame.drop_duplicates()) == 1
    if recoding.name != "generalization":
        pd.testing.assert_frame_equal(released_frame, frame)
