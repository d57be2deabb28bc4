"""Secure-k-Ward: worked examples, the ratio in the released values, and the rule of choice."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbanon
from dbanon.errors import InvalidParameter
from dbanon.recoding.secure import choose_sides, compute_security_ratio, find_secure_value


def test_security_ratio():
    """Among 0 4 5 6, 5 and its two neighbours are closer than 2 to 5."""
    assert compute_security_ratio(np.array([0.0, 4.0, 5.0, 6.0]), 5.0, 2.0) == 0.25


def test_secure_values_worked_example():
    """0 10 11 have the mean 7. With epsilon 2 and gamma0 1 it is secure; with epsilon 4 it is not:
    10 and 11 are nearer. Below, 6 is the largest that is 4 from all; above, 15 the smallest."""
    values = np.array([0.0, 10.0, 11.0])
    assert compute_security_ratio(values, 7.0, 2.0) == 1.0
    assert find_secure_value(values, 7.0, 4.0, 1.0, 0.0, -1) == 6.0
    assert find_secure_value(values, 7.0, 4.0, 1.0, 0.0, 1) == 15.0
    # Two of three are enough at 7 already when 0.6 must be safe from epsilon 3.5: 0 and 11.
    assert compute_security_ratio(values, 7.0, 3.5) == pytest.approx(2 / 3)
    # In steps of 4, values are rounded away from the mean.
    assert find_secure_value(values, 7.0, 4.0, 1.0, 4.0, -1) == 4.0
    assert find_secure_value(values, 7.0, 4.0, 1.0, 4.0, 1) == 16.0


def test_choice_worked_example():
    """-3 or +2: up. Then -4 or +1 from 2: down, to -2. Then -1 or +5: equal, so down."""
    assert choose_sides([-3, -4, -1], [2, 1, 5]) == [True, False, False]


@given(st.lists(st.tuples(st.floats(-9, 0), st.floats(0, 9)), max_size=40))
def test_never_worse_than_the_printed_rule(shifts):
    downwards, upwards = [d for d, _ in shifts], [u for _, u in shifts]
    total = sum(
        u if up else d for (d, u), up in zip(shifts, choose_sides(downwards, upwards), strict=True)
    )
    assert abs(total) <= abs(sum(downwards)) + 1e-9


@given(
    st.lists(st.integers(-50, 50), min_size=2, max_size=9),
    st.floats(0.01, 30),
    st.floats(0, 1),
    st.sampled_from([0.0, 1.0, 0.25]),
)
@settings(max_examples=200)
def test_secure_values_are_secure_and_nearest(values, epsilon, gamma0, step):
    values = np.array(values, float)
    mean = values.mean()
    for side in (-1, 1):
        secure = find_secure_value(values, mean, epsilon, gamma0, step, side)
        assert (
            side * (secure - mean) >= 0 or compute_security_ratio(values, mean, epsilon) >= gamma0
        )
        assert compute_security_ratio(values, secure, epsilon) >= gamma0
        if step:
            assert secure == round(secure / step) * step


@pytest.mark.parametrize("dtype", ["int64", "float64", "float32"])
def test_release(dtype):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(scale=50, size=(200, 2)), columns=["a", "b"]).astype(dtype)
    released, report = dbanon.anonymize_frame(
        frame,
        quasi_identifiers=["a", "b"],
        k=4,
        method="secure_kward",
        options={"epsilon": 0.1, "gamma0": 0.6},
    )
    plain = dbanon.anonymize_frame(frame, quasi_identifiers=["a", "b"], k=4, method="kward")[1]
    assert report.smallest_class >= 4
    assert released.dtypes.tolist() == frame.dtypes.tolist()
    assert report.internal.information_loss > plain.internal.information_loss
    partition = dbanon.partition(frame, 4, method="secure_kward", epsilon=0.1, gamma0=0.6)
    # Every class of the originals keeps the ratio to some released row.
    values = set(map(tuple, released.drop_duplicates().to_numpy()))
    for name in ("a", "b"):
        epsilon = 0.1 * frame[name].std()
        column = ["a", "b"].index(name)
        for label in range(partition.n_classes):
            originals = frame[name].to_numpy(float)[partition.labels == label]
            assert any(
                compute_security_ratio(originals, value[column], epsilon * (1 - 1e-6)) >= 0.6
                for value in values
            )


def test_recoding_belongs_to_the_method():
    with pytest.raises(InvalidParameter, match="belongs"):
        dbanon.Policy(k=3, recoding="secure")
    assert dbanon.Policy(k=3, method="secure_kward").recoding == "secure"
    assert dbanon.Policy(k=3, method="secure_kward", recoding="mean").recoding == "mean"
