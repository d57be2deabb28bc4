"""dp_ranks of text, enumerated types, truths, moments and logarithms: what is public of them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbanon
from dbanon import errors
from dbanon.hierarchy.tree import flat
from dbanon.job.synthesis import Private
from dbanon.synthesis.columns import public_columns
from dbanon.synthesis.dependence import expected, score, two_way
from dbanon.synthesis.leaves import TRUTHS, Leaves, bins_of, with_other
from dbanon.synthesis.lines import Line
from dbanon.synthesis.margins import Listed, counts_of_leaves
from dbanon.synthesis.ranks import dp_ranks
from dbanon.synthesis.shares import GRID, shares
from dbanon.synthesis.table import Table
from tests.reference.synthesis import Recording, Seeded

TREE = dbanon.Hierarchy.from_nested(
    {"*": {"work": ["nurse", "baker", "clerk"], "none": ["child", "retired"], "other": []}}
)
LABELS = ("nurse", "baker", "clerk", "child", "retired")


def synthesize(frame, budget=None, **options):
    given = {"epsilon": 5.0, **options}
    return dbanon.synthesize(
        frame, method="dp_ranks", budget=budget or dbanon.Budget(100.0), **given
    )


def people(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    job = rng.choice(LABELS, n, p=[0.4, 0.3, 0.1, 0.1, 0.1])
    return pd.DataFrame({"job": job, "ill": rng.random(n) < 0.2, "age": rng.uniform(0, 100, n)})


# Sensitivity


def test_counts_of_leaves_move_by_two_at_most_and_reach_it():
    """All columns of four rows over three leaves, and all changes of one of them."""
    worst = 0
    for values in product(range(3), repeat=4):
        before = counts_of_leaves(np.array(values), 3)
        assert before.sum() == 4
        for place, other in product(range(4), range(3)):
            changed = np.array(values)
            changed[place] = other
            worst = max(worst, int(np.abs(counts_of_leaves(changed, 3) - before).sum()))
    assert worst == 2


def test_no_value_adds_a_count():
    assert counts_of_leaves(np.zeros(5, np.int64), 4).tolist() == [5, 0, 0, 0]


@st.composite
def neighbours(draw):
    """Bins of two columns of two tables that differ in a row, and noisy shares of the bins."""
    n, most = draw(st.integers(1, 30)), draw(st.integers(2, 9))
    sizes = draw(st.integers(1, most)), draw(st.integers(1, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    one = np.array([rng.integers(0, size, n) for size in sizes])
    other = one.copy()
    other[:, rng.integers(n)] = [rng.integers(0, size) for size in sizes]
    odds = [rng.dirichlet(np.full(size, 0.3)) for size in sizes]
    return one, other, sizes, odds, most**2


@given(neighbours())
@settings(max_examples=400, deadline=None)
def test_scores_with_products_of_noisy_margins(tables):
    """Whatever the shares are: 2 units, for which the expected counts must be whole numbers."""
    one, other, sizes, odds, unit = tables
    apart = expected(one.shape[1], *odds, unit)
    assert apart.dtype == np.int64
    before, after = (two_way(*table, sizes) for table in (one, other))
    assert np.abs(before - after).sum() <= 2
    assert abs(score(before, apart, unit) - score(after, apart, unit)) <= 2 * unit


@given(st.integers(0, 2**32), st.integers(1, 40))
@settings(max_examples=100, deadline=None)
def test_one_value_changes_one_whole_number(seed, n):
    """Of every kind, so that all that is proved of the grid is true of the table."""
    rng = np.random.default_rng(seed)
    table = people(n, seed)
    table["tail"] = rng.pareto(1.0, n) * 100
    columns = kinds_of(table, bounds={"age": (0, 100), "tail": (1, 1000)}, scale={"tail": "log"})
    other = table.copy()
    other.loc[rng.integers(n)] = ["x", True, np.inf, np.nan]
    for column in columns:
        both = [
            column.to_grid(column.on_line(t[column.name].to_numpy(), None)) for t in (table, other)
        ]
        assert all(part.dtype == np.int64 for part in both)
        assert (both[0] != both[1]).sum() <= 1
        top = GRID if column.tree is None else column.tree.n_leaves - 1
        assert min(part.min() for part in both) >= 0
        assert max(part.max() for part in both) <= top


def kinds_of(frame, labels=None, **options):
    options = {"orders": {"job": LABELS}, **options}
    kinds = [np.dtype(object) if one == frame["job"].dtype else one for one in frame.dtypes]
    table = Table(
        len(frame), tuple(frame), tuple(kinds), (False,) * len(kinds), lambda j: None,
        labels=labels or {},
    )  # fmt: skip
    return public_columns(table, Private(epsilon=1.0, **options))


# Accounting

MIXED = (None, TREE, TRUTHS, flat([str(i) for i in range(300)]))


@pytest.mark.parametrize("trees", [MIXED, (TREE,), (TRUTHS, TRUTHS), (None, TREE)])
@pytest.mark.parametrize("epsilon", [0.1, 1 / 3, 1.0, 7.3])
def test_the_price_is_epsilon_and_never_more(trees, epsilon):
    from dbanon.synthesis.noise import OpenDpNoise

    noise = OpenDpNoise()
    for n in (1012, 19_020, 10**6):
        if 4 * len(trees) / (n * epsilon) > 0.05:
            continue
        divided = shares(n, len(trees), epsilon, trees)
        assert epsilon * (1 - 1e-9) <= divided.price(noise) <= epsilon


@pytest.mark.parametrize("epsilon", [1.0, 20.0])
def test_draws_are_the_same_whatever_the_data_are(epsilon):
    n, rng = 2000, np.random.default_rng(0)
    divided = shares(n, 4, epsilon, MIXED)
    tops = [GRID, *(tree.n_leaves - 1 for tree in MIXED[1:])]
    seen = []
    for grid in (
        np.array([rng.integers(0, top + 1, n) for top in tops]),
        np.zeros((4, n), np.int64),
        np.array([np.full(n, top) for top in tops]),
    ):
        noise = Recording()
        dp_ranks(grid, divided, noise, rng)
        # The tables' sizes follow from which pairs were chosen, by noisy scores; their price not.
        tables = [(kind, scale) for kind, _, scale in noise.drawn[-3:]]
        seen.append((noise.drawn[:-3], tables))
        assert noise.spent(divided) <= epsilon
    assert seen[0] == seen[1] == seen[2]
    assert [m for kind, m, _ in seen[0][0][1:4] if kind == "laplace"] == [6, 2, 300]


# Bins


def test_bins_are_the_deepest_cut_and_then_the_heaviest_values():
    even = np.full(6, 1 / 6)
    assert bins_of(TREE, even, 9).tolist() == [0, 1, 2, 3, 4, 5]
    # Work, none, other.
    assert bins_of(TREE, even, 3).tolist() == [0, 0, 0, 1, 1, 2]
    assert bins_of(TREE, np.array([0.1, 0.5, 0.1, 0.1, 0.1, 0.1]), 4).tolist() == [0, 3, 0, 1, 1, 2]
    assert bins_of(TREE, even, 2).tolist() == [1, 0, 0, 0, 0, 0]
    assert bins_of(TREE, even, 1).tolist() == [0] * 6
    listed = flat([str(i) for i in range(50)])
    assert len(set(bins_of(listed, np.arange(50.0), 8).tolist())) == 8
    assert bins_of(listed, np.arange(50.0), 8)[:43].tolist() == [0] * 43


@given(st.integers(2, 40), st.integers(1, 12), st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_how_many_bins_there_are_is_public(leaves, most, seed):
    rng = np.random.default_rng(seed)
    tree = dbanon.hierarchy.builders.ordered([str(i) for i in range(leaves)])
    for _ in range(3):
        bins = bins_of(tree, rng.dirichlet(np.full(leaves, 0.1)), most)
        assert sorted(set(bins.tolist())) == list(range(min(most, leaves)))


def test_values_are_drawn_by_their_shares_within_a_bin():
    margin = Listed(np.array([0.3, 0.1, 0.6, 0.0, 0.0]), np.array([0, 0, 1, 2, 2]))
    np.testing.assert_allclose(margin.odds, [0.4, 0.6, 0.0])
    inside = (np.arange(1000) + 0.5) / 1000
    drawn = margin.at(np.zeros(1000, np.int64), inside)
    assert np.bincount(drawn.astype(int)).tolist() == [750, 250]
    assert set(margin.at(np.full(10, 2), np.linspace(0, 0.999, 10))) == {3.0, 4.0}
    assert margin.codes(np.array([4, 0, 2])).tolist() == [2, 0, 1]


# What is refused, and what is public


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"orders": {}}, errors.BoundsRequired),
        ({"orders": {"job": LABELS}, "hierarchies": {"job": TREE}}, errors.InvalidParameter),
        ({"orders": {"job": ["nurse", "nurse"]}}, errors.InvalidParameter),
        ({"orders": {"job": []}}, errors.InvalidParameter),
        ({"orders": {"job": "nurse"}}, errors.InvalidParameter),
        ({"orders": {"job": LABELS, "age": ["1"]}}, errors.InvalidParameter),
        ({"orders": {"job": LABELS, "nothing": ["1"]}}, errors.InvalidParameter),
        ({"orders": {}, "hierarchies": {"job": {"mask": True}}}, errors.InvalidParameter),
        ({"orders": {}, "hierarchies": {"job": {"ordered": True}}}, errors.InvalidParameter),
        ({"orders": {}, "hierarchies": {"job": "name:jobs"}}, errors.InvalidParameter),
        ({"orders": {}, "hierarchies": {"job": {"tree": {"*": {"other": ["a", "b"]}}}}},
         errors.InvalidParameter),
        ({"null_as": {}}, errors.InvalidParameter),
        ({"null_as": {"job": "unknown"}}, errors.InvalidParameter),
        ({"null_as": {"job": 3}}, errors.InvalidParameter),
        ({"null_as": {"job": "other", "ill": 0.5}}, errors.InvalidParameter),
        ({"bounds": {"age": (0, 100), "job": (0, 1)}}, errors.InvalidParameter),
        ({"bounds": {"age": (0, 100), "ill": (0, 2)}}, errors.InvalidParameter),
        ({"scale": {"age": "log"}}, errors.InvalidParameter),
        ({"scale": {"job": "log"}}, errors.InvalidParameter),
        ({"scale": {"age": "sqrt"}}, errors.InvalidParameter),
    ],
)  # fmt: skip
def test_refusals_spend_nothing(options, error):
    budget = dbanon.Budget(50.0)
    usual = {
        "orders": {"job": LABELS}, "bounds": {"age": (0, 100)}, "null_as": {"job": "other"}
    }  # fmt: skip
    with pytest.raises(error) as refused:
        synthesize(people(200), budget=budget, **usual | options)
    assert budget.spent == 0.0
    assert "0x" not in str(refused.value)


def test_types_that_cannot_be_listed_are_refused():
    for column in (pd.interval_range(0, 300), [1 + 2j] * 300, pd.Categorical(range(300))):
        with pytest.raises(errors.UnsupportedType):
            synthesize(pd.DataFrame({"strange": column}))


def test_a_type_that_states_its_values_has_no_other():
    """As an enumerated type of a database: its labels are public, and all there can be."""
    frame = people(50)
    usual = {"labels": {"job": LABELS}, "orders": {}, "bounds": {"age": (0, 100)}}
    job = kinds_of(frame, **usual)[0]
    assert isinstance(job, Leaves)
    assert list(job.tree.positions) == list(LABELS)
    halves = dbanon.Hierarchy.from_nested({"*": {"a": LABELS[:2], "b": LABELS[2:]}})
    by_tree = kinds_of(frame, **usual, hierarchies={"job": halves})[0]
    assert by_tree.tree.height == 2
    # A list of the caller's own goes before that of the type.
    own = kinds_of(frame, **usual | {"orders": {"job": LABELS[:3]}})[0]
    assert own.labels == (*LABELS[:3], "other")


def test_other_is_a_leaf_and_only_one():
    assert with_other(TREE) is TREE
    assert list(with_other(flat(["a", "b"])).positions) == ["a", "b", "other"]


# What comes out


def test_what_is_in_no_list_is_other_and_null_is_what_it_is_told():
    frame = people()
    frame.loc[frame.index[:1000], "job"] = [f"secret {i}" for i in range(1000)]
    frame.loc[frame.index[1000:1500], "job"] = None
    found = synthesize(
        frame, orders={"job": LABELS}, bounds={"age": (0, 100)}, null_as={"job": "child"}
    ).columns["job"]
    shares_ = {label: (found == label).mean() for label in (*LABELS, "other")}
    assert set(found.tolist()) <= {*LABELS, "other"}
    assert shares_["other"] == pytest.approx(1 / 3, abs=0.02)
    assert shares_["child"] == pytest.approx(1 / 6 + 0.05, abs=0.02)
    assert shares_["nurse"] == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize(
    "values",
    [
        [None] * 3000,
        [float("nan")] * 3000,
        ["other"] * 3000,
        ["*"] * 3000,
        ["\ud800", [], {}, 3, b"nurse", ""] * 500,
        [object()] * 3000,
    ],
)
def test_no_content_of_a_row_ends_the_run(values):
    frame = pd.DataFrame({"job": pd.Series(values, dtype=object), "ill": [True, False] * 1500})
    found = synthesize(frame, hierarchies={"job": TREE}, null_as={"job": "other"})
    assert set(found.columns["job"].tolist()) <= {*LABELS, "other"}
    assert (found.columns["job"] == "other").mean() > 0.9
    array = np.array(frame[["job"]])
    assert synthesize(
        array, hierarchies={"column 0": TREE}, null_as={"column 0": "other"}
    ).n_rows == 3000  # fmt: skip


def test_types_of_text_and_truths():
    n = 3000
    base = people(n)["job"]
    frame = pd.DataFrame(
        {
            "plain": base.astype(object),
            "string": base.astype("string"),
            "listed": base.astype("category"),
            "truth": base == "nurse",
            "maybe": (base == "nurse").astype("boolean"),
        }
    )
    frame.loc[frame.index[::10], "maybe"] = None
    text = ["plain", "string", "listed"]
    found = synthesize(
        frame, orders=dict.fromkeys(text, LABELS), null_as=dict.fromkeys(text, "other")
        | {"maybe": True}, epsilon=20.0,
    ).columns  # fmt: skip
    for name in text:
        assert found[name].dtype == object
        assert (found[name] == "nurse").mean() == pytest.approx(0.4, abs=0.03)
    assert found["truth"].dtype == found["maybe"].dtype == np.bool_
    assert found["truth"].mean() == pytest.approx(0.4, abs=0.03)
    assert found["maybe"].mean() == pytest.approx(0.46, abs=0.03)
    wide = np.column_stack([base.to_numpy("U")] * 2)
    listed = dict.fromkeys(("column 0", "column 1"), (*LABELS, "a longer one than all"))
    array = synthesize(wide, orders=listed)
    assert array.columns["column 0"].dtype.kind == "U"


def test_moments_with_a_zone_are_released_in_utc():
    moments = pd.Series(pd.date_range("2024-01-01", periods=3000, freq="h", tz="Asia/Tokyo"))
    found = synthesize(
        pd.DataFrame({"at": moments, "day": moments.dt.tz_localize(None).dt.floor("D")}),
        bounds={"at": ("2023-12-31T15", "2024-05-04"), "day": ("2024-01-01", "2024-05-05")},
        null_as={"at": "2024-01-01", "day": "2024-01-01"}, epsilon=50.0,
    ).columns  # fmt: skip
    assert found["at"].dtype.kind == found["day"].dtype.kind == "M"
    middle = np.sort(found["at"])[1500].astype("datetime64[h]").astype(int)
    expected_middle = moments.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()[1500]
    assert abs(middle - expected_middle.astype("datetime64[h]").astype(int)) < 60


def test_dependence_of_text_and_numbers_survives():
    rng = np.random.default_rng(0)
    n = 20_000
    job = rng.integers(0, 6, n)
    grid = np.array([job, (job * 2 + rng.random(n)) / 13 * GRID, rng.integers(0, 2, n), job >= 3])
    divided = shares(n, 4, 2.0, (TREE, None, TRUTHS, TRUTHS))
    found = dp_ranks(grid.astype(np.int64), divided, Seeded(0), rng)
    assert np.corrcoef(found[0], found[1])[0, 1] > 0.9
    assert abs(np.corrcoef(found[1], found[2])[0, 1]) < 0.1
    assert ((found[0] >= 3) == found[3]).mean() > 0.95


def test_logarithms_help_where_there_are_a_few_large_values():
    rng = np.random.default_rng(0)
    values = np.exp(rng.normal(8, 1.5, 5000)).clip(1, 1e7)
    frame = pd.DataFrame({"income": values, "whole": values.astype(np.int64)})
    bounds = {"income": (1, 1e7), "whole": (0, 10**7)}
    wished = {"bounds": bounds, "epsilon": 1.0}
    plain, bent = (
        synthesize(frame, scale=scale, **wished).columns
        for scale in ({}, {"income": "log", "whole": "log"})
    )
    told = np.quantile(values, np.arange(1, 10) / 10)
    for name in bounds:
        apart = [
            np.abs(np.log(np.quantile(part[name], np.arange(1, 10) / 10).clip(1) / told)).mean()
            for part in (bent, plain)
        ]
        assert apart[0] < 0.5
        assert apart[0] < apart[1] / 2
    assert bent["whole"].dtype == np.int64


def test_logarithms_go_there_and_back():
    for column in (
        Line("x", np.dtype(float), 0.01, 1e6, log=True),
        Line("x", np.dtype(np.int64), 0, 10**6, log=True),
        Line("x", np.dtype(np.int64), 5, 10**6, log=True),
    ):
        values = np.array([column.low, 7.0, 123.0, 98_765.0, column.high])
        back = column.of_grid(column.to_grid(column.on_line(values, None)).astype(float))
        np.testing.assert_allclose(back, values, rtol=2e-5)
        assert column.holds(back)
        assert column.to_grid(np.array([column.low, column.high])).tolist() == [0, GRID]


def test_a_person_s_value_is_the_most_frequent():
    column = Leaves("job", np.dtype(object), TREE)
    person = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2])
    values = np.array([4, 1, 4, 3, 2, 5, 5, 0, 0])
    assert column.of_persons(values, person).tolist() == [4, 2, 0]
    rng = np.random.default_rng(0)
    frame = people(2000).assign(person=rng.integers(0, 400, 2000))
    found = synthesize(
        frame, orders={"job": LABELS}, bounds={"age": (0, 100)}, null_as={"job": "other"},
        entity="person", epsilon=20.0,
    )  # fmt: skip
    assert found.n_rows == frame["person"].nunique()
    assert "2000" not in f"{found.guarantee} {found.told}"
