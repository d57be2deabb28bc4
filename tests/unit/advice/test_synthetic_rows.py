"""Cells of columns, and the texts about the error of synthetic rows."""

from __future__ import annotations

import numpy as np

from dbanon.advice.profile import ColumnProfile, Profile
from dbanon.advice.synthetic_rows import (
    MAX_CELLS,
    N_CELLS,
    ErrorForecast,
    Remedies,
    SyntheticForecast,
    build_listed_column,
    build_number_column,
    encode_cells,
    format_error,
)
from dbanon.data.microdata import Microdata
from dbanon.data.schema import Attribute, Kind


def test_numbers_are_in_cells_of_about_equally_many_rows() -> None:
    values = np.random.default_rng(0).lognormal(size=5_000)
    column = build_number_column(values, 0)
    assert len(column.shares) == N_CELLS
    np.testing.assert_allclose(column.shares, 1 / N_CELLS, atol=0.001)
    # Cells are ordered as the numbers are.
    assert (np.diff(column.codes[np.argsort(values)]) >= 0).all()


def test_equal_numbers_are_in_one_cell_and_no_cell_is_empty() -> None:
    column = build_number_column(np.array([0.0] * 95 + [1.0, 2.0, 3.0, 4.0, 5.0]), 6)
    assert (column.shares > 0).all()
    assert len(set(column.codes[:95].tolist())) == 1
    constant = build_number_column(np.zeros(50), 1)
    assert constant.shares.tolist() == [1.0]


def test_listed_values_are_ordered_by_rows_and_rare_ones_share_a_cell() -> None:
    column = build_listed_column(np.array(list("abbccc")), 5)
    assert column.codes.tolist() == [2, 1, 1, 0, 0, 0]
    np.testing.assert_allclose(column.shares, [3 / 6, 2 / 6, 1 / 6])
    assert column.n_values == 5
    long = build_listed_column(np.arange(500), 500)
    assert int(long.codes.max()) == MAX_CELLS - 1
    assert len(long.shares) == 500


def test_a_person_is_one_unit_and_null_is_a_cell_of_its_own() -> None:
    attributes = (
        Attribute("age", Kind.INTEGER),
        Attribute("income", Kind.FLOAT),
        Attribute("job", Kind.CATEGORY),
    )
    entities = np.array([0, 0, 1, 2, 2, 3], np.int32)
    valid = np.ones((6, 3), np.bool_)
    # The first row of person 2 has no age and no job, the second has both.
    valid[3, 0] = valid[3, 2] = False
    microdata = Microdata(
        attributes=attributes,
        keys=np.arange(6, dtype=np.int64).reshape(-1, 1),
        numbers=np.array([[30, 1.5], [31, 1.5], [40, 2.5], [0, 3.5], [50, 3.5], [60, 4.5]]),
        codes=np.array([[0], [1], [0], [-1], [1], [1]], np.int32),
        categories=(("baker", "nurse"),),
        valid=valid,
        entities=entities,
    )
    profile = Profile(6, tuple(ColumnProfile(a, 6, 5) for a in attributes))
    n, columns = encode_cells(microdata, profile)
    assert n == 4
    assert [column.codes.tolist() for column in columns] == [
        [1, 2, 0, 3],
        [0, 1, 2, 3],
        [0, 0, 1, 2],
    ]
    # Floating-point numbers have no list of values.
    assert [column.n_values for column in columns] == [5, 0, 5]
    assert [column.is_listed for column in columns] == [False, False, True]


def test_errors_are_told_in_percent_with_two_digits() -> None:
    assert [format_error(error) for error in (0.0342, 0.391, 0.00751, None)] == [
        "3.4 %",
        "39 %",
        "0.75 %",
        "-",
    ]


def _forecast(two_way: float | None, remedies: Remedies | None) -> SyntheticForecast:
    best = ErrorForecast("dp_marginals", {}, 1.0, None, 0.01, two_way)
    other = ErrorForecast("dp_ranks", {"margins": "quantiles"}, 1.0, None, 0.02, 0.3)
    refused = ErrorForecast("dp_ranks", {}, 1.0, None, refusal="noise_too_large")
    later = ErrorForecast("dp_marginals", {}, 3.0, None, 0.01, 0.02)
    return SyntheticForecast(4, (other, refused, best, later), 0.08, best, remedies)


def test_the_choice_is_explained_with_the_other_methods() -> None:
    texts = dict(_forecast(0.05, None).pairs())
    assert texts == {
        "synthetic rows": "for differential privacy instead of k: dp_marginals, because its table"
        " of two columns is forecast to be nearest at epsilon 1: about 5 % of the rows in wrong"
        " cells; dp_ranks with margins quantiles 30 %",
        "error of synthetic rows": "at epsilon 1 about 5 % of the rows in wrong cells of a table of"
        " two columns, within 3.1 % to 8 %; 2 % at epsilon 3",
    }


def test_remedies_are_named_with_numbers_or_it_is_said_that_there_is_none() -> None:
    text = dict(_forecast(0.2, Remedies(4.0, 3, 6)).pairs())["too small an epsilon"]
    assert text.startswith("epsilon 1 is too small for these rows and columns, if more than 10 %")
    assert (
        "epsilon 4, or 3 columns (those with the fewest values), or at most 6 values a column"
        " would do" in text
    )
    assert "would have 8 %" in text
    text = dict(_forecast(0.2, Remedies(None, None, None)).pairs())["too small an epsilon"]
    assert "neither more epsilon nor fewer or coarser columns alone would do" in text


def test_plain_values_have_two_digits_and_a_range() -> None:
    plain = _forecast(0.05123, None).to_dict()
    assert plain["best"] == {
        "method": "dp_marginals",
        "options": {},
        "epsilon": 1.0,
        "delta": None,
        "one_way": 0.01,
        "two_way": 0.051,
        "low": 0.032,
        "high": 0.082,
        "refusal": None,
    }
