"""dp_marginals: sensitivity, prices, refusals and releases."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbanon
from dbanon import errors
from dbanon.extensions.synthesis import marginals, ranks
from dbanon.extensions.synthesis.domains import BOOLEAN_HIERARCHY, add_other_leaf
from dbanon.extensions.synthesis.marginals import divide_amount, dp_marginals
from dbanon.extensions.synthesis.noise import OpenDpNoise
from dbanon.extensions.synthesis.shares import GRID
from dbanon.hierarchy.tree import flat_hierarchy
from dbanon.job.concentrated import Cost, delta_of, epsilon_of, rho_of, rho_of_pure
from tests.prerequisites import import_or_skip
from tests.reference.transcripts import Transcript, privacy_loss
from tests.unit.synthesis.test_audits import NEVER, bound

import_or_skip("opendp")

LISTED = flat_hierarchy([str(i) for i in range(6)])
TREE = add_other_leaf(LISTED)
TREES = (TREE, BOOLEAN_HIERARCHY, None, None)
VALUES = (0, 0, 0, 5)
AMOUNTS = {"pure": 3.0, "zcdp": rho_of(3.0, 1e-9)}


def rows(n: int, seed: int = 0) -> np.ndarray:
    """Four columns of all kinds that depend on each other, int64 (4, n)."""
    rng = np.random.default_rng(seed)
    of_six = rng.choice(6, n, p=[0.4, 0.2, 0.2, 0.1, 0.05, 0.05])
    line = (of_six * GRID // 6 + rng.integers(0, GRID // 6, n)).astype(np.int64)
    steps = ((of_six + rng.integers(0, 2, n)) % 5) * GRID // 4
    return np.array([of_six, (of_six > 2) ^ (rng.random(n) < 0.1), line, steps], np.int64)


@st.composite
def neighbours(draw):
    """Two tables of as many rows that differ in one, of values of any kind."""
    table = rows(draw(st.integers(500, 900)), draw(st.integers(0, 2**32)))
    other = table.copy()
    row = draw(st.integers(0, table.shape[1] - 1))
    other[:, row] = [
        draw(st.integers(0, 6)),
        draw(st.integers(0, 1)),
        draw(st.integers(0, GRID)),
        draw(st.integers(0, 4)) * GRID // 4,
    ]
    return table, other


# Sensitivity and accounting


def check_transcripts(accounting, tables, seed):
    table, other = tables
    divided = divide_amount(table.shape[1], AMOUNTS[accounting], accounting, TREES, VALUES)
    assert divided.rounds
    first = Transcript(seed)
    dp_marginals(table, divided, first, np.random.default_rng(seed))
    second = Transcript(recorded_answers=first.answers)
    dp_marginals(other, divided, second, np.random.default_rng(seed))
    assert privacy_loss(first, second) <= divided.amount
    assert divided.price(first) <= divided.amount


@pytest.mark.slow
@pytest.mark.parametrize("accounting", AMOUNTS)
@given(tables=neighbours(), seed=st.integers(0, 99))
@settings(max_examples=6, deadline=None)
def test_no_transcript_tells_more_than_the_amount(accounting, tables, seed):
    """The answers for two neighbours differ by at most the price."""
    check_transcripts(accounting, tables, seed)


@pytest.mark.campaign
@pytest.mark.parametrize("accounting", AMOUNTS)
@given(tables=neighbours(), seed=st.integers(0, 2**32))
@settings(max_examples=750, deadline=None)
def test_none_of_many_transcripts_tells_more_than_the_amount(accounting, tables, seed):
    """`make audit`: 1,500 pairs, half of them with either accounting."""
    check_transcripts(accounting, tables, seed)


@pytest.mark.parametrize("accounting", AMOUNTS)
def test_half_of_the_noise_tells_more_than_the_amount(accounting):
    """A row that moves in all columns uses most of the price; with half of the noise, more."""
    table = rows(600)
    table[:, 0] = 5, 1, GRID, GRID
    other = table.copy()
    other[:, 0] = 0, 0, 0, 0
    divided = divide_amount(600, AMOUNTS[accounting], accounting, TREES, VALUES)
    first = Transcript(1)
    dp_marginals(table, divided, first, np.random.default_rng(1))
    second = Transcript(recorded_answers=first.answers)
    dp_marginals(other, divided, second, np.random.default_rng(1))
    assert 0.5 * divided.amount < privacy_loss(first, second) <= divided.amount
    assert privacy_loss(first, second, share=0.5) > divided.amount


@pytest.mark.parametrize("accounting", AMOUNTS)
def test_draws_are_the_same_whatever_the_rows_are(accounting):
    """Those of margins, and with Laplace noise of rounds. A histogram may end at two levels."""
    n = 600
    divided = divide_amount(n, AMOUNTS[accounting], accounting, TREES, VALUES)
    n_margin_draws = sum(
        1 if divided.counts_values(j) else divided.histogram_shares[j].depth for j in range(4)
    )
    seen = []
    ends = np.array([[6], [1], [GRID], [GRID]])
    for table in (rows(n), np.zeros((4, n), np.int64), np.tile(ends, n)):
        transcript = Transcript()
        released = dp_marginals(table, divided, transcript, np.random.default_rng(0))
        assert ((released >= 0) & (released <= ends)).all()
        # How many pairs there are to choose from follows earlier choices alone.
        kinds = [(kind, scale) for kind, _, scale in transcript.queries]
        if accounting == "pure":
            # Column 2 alone has a histogram.
            histogram = divided.histogram_shares[2]
            n_levels = len(kinds) - 3 - 2 * divided.rounds
            assert n_levels in (histogram.min_depth, histogram.depth)
            seen.append(kinds[:2] + kinds[2 + n_levels :])
        else:
            seen.append(kinds[:n_margin_draws])
    assert seen[0] == seen[1] == seen[2]


def price_of(transcript: Transcript) -> float:
    """What the draws of a transcript cost, by their scales alone."""
    prices = {
        "laplace": lambda scale: transcript.laplace_price(scale, 2),
        "gaussian": lambda scale: transcript.gaussian_price(scale, 2**0.5),
        "choice": lambda scale: transcript.choice_price(scale, 32),
        "concentrated": lambda scale: transcript.concentrated_choice_price(scale, 32),
    }
    return sum(prices[kind](scale) for kind, _, scale in transcript.queries)


@pytest.mark.parametrize("accounting", AMOUNTS)
@pytest.mark.parametrize("dependent", [True, False])
def test_idle_rounds_make_later_ones_larger_and_cost_no_more_together(accounting, dependent):
    """With columns that are independent, rounds tell nothing new: there are fewer of them."""
    n, p, rng = 3000, 8, np.random.default_rng(3)
    table = rng.integers(0, 6, (p, n))
    if dependent:
        table[1:] = (table[0] + rng.integers(0, 2, (p - 1, n))) % 6
    divided = divide_amount(n, AMOUNTS[accounting], accounting, [LISTED] * p, [0] * p)
    transcript = Transcript(2)
    dp_marginals(table, divided, transcript, rng)
    amount = divided.amount
    assert 0.999 * amount < price_of(transcript) <= amount
    n_rounds = sum(kind in ("choice", "concentrated") for kind, _, _ in transcript.queries)
    if accounting == "pure":
        assert n_rounds == divided.rounds
    else:
        # All columns follow the first one: seven pairs tell this.
        assert 7 <= n_rounds < divided.rounds if dependent else n_rounds < 12, n_rounds


@given(
    n=st.integers(4, 10**6),
    p=st.integers(1, 32),
    epsilon=st.floats(0.01, 100),
    accounting=st.sampled_from(list(AMOUNTS)),
)
@settings(max_examples=60, deadline=None)
def test_all_draws_cost_the_amount_at_most(n, p, epsilon, accounting):
    amount = epsilon if accounting == "pure" else rho_of(epsilon, 1e-9)
    trees = [(TREE, BOOLEAN_HIERARCHY, None, None)[j % 4] for j in range(p)]
    try:
        divided = divide_amount(
            n, amount, accounting, trees, [(0, 0, 0, 7)[j % 4] for j in range(p)]
        )
    except errors.NoiseTooLarge:
        return
    price = divided.price(OPENDP)
    assert amount * (1 - 1e-9) <= price <= amount


OPENDP = OpenDpNoise()


@pytest.mark.parametrize(
    ("accounting", "epsilon", "p"), [("pure", 0.2, 1), ("zcdp", 1.0, 1), ("pure", 0.6, 4)]
)
def test_one_bin_has_all_rows_and_pays_for_no_count_of_them(accounting, epsilon, p):
    """All is paid for histograms; and a row tells no more than is paid."""
    amount = epsilon if accounting == "pure" else rho_of(epsilon, 1e-9)
    divided = divide_amount(600, amount, accounting, [None] * p, [0] * p)
    assert (divided.max_bins, divided.rounds) == (1, 0)
    other = np.zeros((p, 600), np.int64)
    modified = other.copy()
    modified[:, 0] = GRID
    first = Transcript(1)
    assert dp_marginals(modified, divided, first, np.random.default_rng(1)).shape == (p, 600)
    assert len(first.queries) == divided.histogram_shares[0].depth * p
    second = Transcript(recorded_answers=first.answers)
    dp_marginals(other, divided, second, np.random.default_rng(1))
    assert 0.9 * amount < privacy_loss(first, second) <= amount
    assert privacy_loss(first, second, share=0.5) > amount


def test_rho_means_what_opendp_says():
    from opendp import combinators, domains, measurements, metrics

    integer_vectors = domains.vector_domain(domains.atom_domain(T="i64"))
    for rho in (1e-4, 0.015, 0.5, 8.0):
        noise = measurements.make_gaussian(
            integer_vectors, metrics.l2_distance(T="f64"), (1 / (2 * rho)) ** 0.5
        )
        profile = combinators.make_zCDP_to_approxDP(noise).map(1.0)
        for delta in (1e-5, 1e-9):
            epsilon = epsilon_of(rho, delta)
            assert epsilon == pytest.approx(profile.epsilon(delta), rel=1e-4)
            assert delta_of(rho, epsilon) <= delta
            assert rho_of(epsilon, delta) == pytest.approx(rho, rel=1e-6)
            assert delta_of(rho_of(1.0, delta), 1.0) <= delta
    assert 2.0 <= rho_of_pure(2.0) <= 2.0 * (1 + 1e-6)


# Audits. Of draws alone: a thousand releases of the whole do not tell half of its noise from all of
# it, and what its draws tell together, transcripts above say exactly.


@pytest.mark.slow
def test_gaussian_counts_keep_their_claim_and_half_their_noise_is_caught():
    """One count is one less, one is one more; at a delta that draws can see.

    What happens, both moved further than the other table has them, is said before: so 3,000 draws
    have half of the noise four deviations above the claim.
    """
    account, rho, delta = marginals.ACCOUNTINGS["zcdp"], 0.5, 0.05
    first, other = np.array([3, 5, 8]), np.array([4, 5, 7])
    moved = other - first

    def audit(scale: float) -> float:
        noisy = [
            OPENDP.gaussian(np.tile(of, 3000), scale).reshape(3000, -1) for of in (other, first)
        ]
        return bound(*(rows @ moved > other @ moved for rows in noisy), wrong=NEVER, delta=delta)

    scale = account.count_scale(rho)
    assert account.count_price(OPENDP, scale) == pytest.approx(rho)
    assert 0.5 < audit(scale) <= epsilon_of(rho, delta) < audit(scale / 2)


@pytest.mark.slow
@pytest.mark.parametrize("accounting", AMOUNTS)
def test_choices_keep_their_claim_and_half_their_noise_is_caught(accounting):
    """One score falls by the sensitivity, and all others rise by it."""
    account, sensitivity = marginals.ACCOUNTINGS[accounting], 32
    share = 1.0 if accounting == "pure" else 1 / 8
    first, other = np.zeros(6, np.int64), np.full(6, sensitivity)
    first[0], other[0] = sensitivity, 0

    def audit(scale: float) -> float:
        choices = [
            np.array([account.choose(OPENDP, of, scale) == 0 for _ in range(2600)])
            for of in (first, other)
        ]
        # The event is fixed in advance: no draw is needed to choose it.
        return bound(*choices, wrong=NEVER)

    scale = account.choice_scale(share, sensitivity)
    assert account.choice_price(OPENDP, scale, sensitivity) == pytest.approx(share)
    assert 0.2 < audit(scale) <= 1.0 < audit(scale / 2)


@pytest.mark.slow
def test_gaussian_noise_is_discrete_and_never_the_same():
    zeros = np.zeros(10_000, np.int64)
    noise_values = OPENDP.gaussian(zeros, 7.0)
    assert np.std(noise_values) == pytest.approx(7.0, rel=0.04)
    assert abs(noise_values.mean()) < 0.3
    assert not np.array_equal(noise_values[:100], OPENDP.gaussian(zeros[:100], 7.0))


# Refusals before anything is spent


PEOPLE = pd.DataFrame(
    {"job": np.repeat(["nurse", "baker", "clerk"], [600, 300, 100]), "ill": [True, False] * 500}
)
OPTIONS = {
    "method": "dp_marginals",
    "types": {"job": "text", "ill": "boolean"},
    "orders": {"job": ["nurse", "baker", "clerk"]},
    "null_as": {"job": "other"},
    "epsilon": 2.0,
}
ZCDP = {"accounting": "zcdp", "delta": 1e-9}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"margins": "quantiles"}, "margins is an option of method dp_ranks"),
        ({"accounting": "zcdp"}, "epsilon and a delta"),
        ({"delta": 1e-9}, "epsilon and a delta"),
        ({"accounting": "zcdp", "delta": 0.0}, "delta must be"),
        ({"accounting": "zcdp", "delta": float("nan")}, "delta must be"),
        ({"accounting": "renyi"}, "accounting must be"),
        ({"epsilon": 0.001}, "Noise for 2 columns"),
        ({"method": "dp_ranks", **ZCDP}, "accounting is an option of method dp_marginals"),
        ({**ZCDP, "epsilon": 1e-300}, "must be 1e-9 or more"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_spent(more, words):
    budget = dbanon.Budget(9.0, delta=1e-9)
    with pytest.raises(errors.DbanonError, match=words):
        dbanon.synthesize(PEOPLE, budget=budget, **{**OPTIONS, **more})
    assert budget.spent == 0.0


def test_delta_is_below_one_in_the_rows():
    table = pd.concat([PEOPLE] * 101)
    budget = dbanon.Budget(9.0, delta=1e-5)
    with pytest.raises(errors.InvalidParameter, match="below 1 in the 101000 rows"):
        dbanon.synthesize(table, budget=budget, **OPTIONS, accounting="zcdp", delta=1e-5)
    assert budget.spent == 0.0


@pytest.mark.parametrize(
    ("method", "divided"),
    [("dp_marginals", marginals.AmountShares), ("dp_ranks", ranks.EpsilonShares)],
)
def test_what_all_draws_cost_is_asked_before_anything_is_spent(monkeypatch, method, divided):
    monkeypatch.setattr(divided, "price", lambda division, noise: 9.0)
    budget = dbanon.Budget(9.0)
    with pytest.raises(AssertionError, match="all draws cost"):
        dbanon.synthesize(PEOPLE, budget=budget, **OPTIONS | {"method": method})
    assert budget.spent == 0.0


def test_more_columns_than_a_model_takes():
    with pytest.raises(errors.InvalidParameter, match="1 to 32 columns, not 33"):
        divide_amount(10**6, 10.0, "pure", [BOOLEAN_HIERARCHY] * 33, [0] * 33)


# Budgets


def test_a_budget_of_rho_adds_up_both():
    budget = dbanon.Budget(2.0, "people", delta=1e-9)
    assert budget.total == pytest.approx(rho_of(2.0, 1e-9))
    first_release = dbanon.synthesize(PEOPLE, budget=budget, **{**OPTIONS, "epsilon": 1.0}, **ZCDP)
    assert budget.spent == rho_of(1.0, 1e-9)
    assert "(ε, δ)-differential privacy with ε = 1 and δ = 1e-09" in first_release.guarantee
    assert (
        "of which rho = 0.0149731, which is epsilon = 1 at delta = 1e-09 is spent"
        in first_release.guarantee
    )
    dbanon.synthesize(PEOPLE, budget=budget, **{**OPTIONS, "epsilon": 0.2})
    assert budget.spent == pytest.approx(rho_of(1.0, 1e-9) + 0.02)
    with pytest.raises(errors.BudgetExhausted, match="less than rho"):
        dbanon.synthesize(PEOPLE, budget=budget, **OPTIONS, **ZCDP)


def test_a_budget_of_epsilon_takes_no_delta():
    budget = dbanon.Budget(9.0)
    with pytest.raises(errors.InvalidParameter, match="has an epsilon but no delta"):
        dbanon.synthesize(PEOPLE, budget=budget, **OPTIONS, **ZCDP)
    assert budget.spent == 0.0
    with pytest.raises(errors.InvalidParameter):
        Cost(1.0, 1e-9).charge(None)


# Releases


@pytest.mark.parametrize("more", [{}, ZCDP], ids=["pure", "zcdp"])
def test_dependence_is_released(more):
    table = pd.DataFrame({"job": PEOPLE["job"], "ill": PEOPLE["job"] == "nurse"})
    budget = dbanon.Budget(99.0, delta=1e-9 if more else None)
    synthetic = dbanon.synthesize(table, budget=budget, **{**OPTIONS, "epsilon": 10.0}, **more)
    assert (synthetic.method, synthetic.n_rows) == ("dp_marginals", 1000)
    assert ((synthetic.columns["job"] == "nurse") == synthetic.columns["ill"]).mean() > 0.95
    assert "graphical model of up to 1 two-way counts" in synthetic.method_notes[1]


@pytest.mark.parametrize("accounting", AMOUNTS)
def test_rows_are_unlisted_if_noise_does_not_explain_them(accounting):
    """Noise on an empty count is above its deviation in one of six runs, and above 0 in half."""
    n, rng = 1200, np.random.default_rng(7)
    listed = rng.integers(0, 6, (2, n))
    unlisted = np.where(rng.random((2, n)) < 0.2, 6, listed)
    divided = divide_amount(n, AMOUNTS[accounting], accounting, [TREE] * 2, [0] * 2)

    def shares_of_unlisted(table):
        return [
            (dp_marginals(table, divided, Transcript(seed), np.random.default_rng(seed)) == 6).mean(
                axis=1
            )
            for seed in range(15)
        ]

    assert 0.6 < np.mean(np.equal(shares_of_unlisted(listed), 0)) < 1
    assert np.mean(shares_of_unlisted(unlisted)) == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize("accounting", AMOUNTS)
def test_bins_are_where_the_rows_are_however_wide_the_bounds(accounting):
    """Nearly all values lie in a hundredth of the range, and their deciles are still matched."""
    n, rng = 20_000, np.random.default_rng(0)
    heavy = np.minimum(rng.exponential(GRID / 400, n), GRID).astype(np.int64)
    table = np.array([heavy, (heavy * 3 + rng.integers(0, GRID // 200, n)).clip(0, GRID)])
    amount = 2.0 if accounting == "pure" else rho_of(2.0, 1e-9)
    divided = divide_amount(n, amount, accounting, [None, None], [0, 0])
    released = dp_marginals(table, divided, OPENDP, rng)
    for real, to_synthetic_column in zip(table, released, strict=True):
        deciles = np.quantile(real, np.arange(1, 10) / 10)
        shares = (
            np.bincount(np.searchsorted(deciles, to_synthetic_column, side="right"), minlength=10)
            / n
        )
        assert np.abs(shares - 0.1).sum() / 2 < 0.06
    low = table < np.median(table, axis=1, keepdims=True)
    again = released < np.median(table, axis=1, keepdims=True)
    assert (again[0] == again[1]).mean() == pytest.approx((low[0] == low[1]).mean(), abs=0.05)


def test_too_little_for_dependence_leaves_columns_independent():
    divided = divide_amount(600, 0.6, "pure", TREES, VALUES)
    assert divided.rounds == 0
    assert "independent" in divided.description[0]
    released = dp_marginals(rows(600), divided, Transcript(), np.random.default_rng(0))
    assert released.shape == (4, 600)


def test_large_noise_is_described_and_larger_noise_refused():
    """Thirteen numbers of 972 rows: 9 %, 17 % and 21 % of the range."""

    def divide(epsilon):
        return divide_amount(972, rho_of(epsilon, 1e-9), "zcdp", [None] * 13, [0] * 13)

    assert divide(1.0).rounds
    assert "Noise" not in " ".join(divide(1.0).description)
    assert divide(0.5).rounds == 0
    assert divide(0.5).description[1].startswith("Noise is large, 17% of the range")
    with pytest.raises(errors.NoiseTooLarge, match="at most 20%"):
        divide(0.4)


def test_the_description_has_the_levels_of_histograms():
    """The column of two values, which has less of the budget, would have one level.

    Columns whose rows are spread have two.
    """
    divided = divide_amount(500, 3.0, "pure", [BOOLEAN_HIERARCHY, None, None], [0, 0, 0])
    assert [shares.depth for shares in divided.histogram_shares] == [1, 3, 3]
    assert divided.description[:2] == (
        "Margins of 1 column: counts of all values.",
        "Margins of 2 columns: counts of ranges, finer where rows are, at 2 to 3 levels.",
    )


@pytest.mark.parametrize("accounting", AMOUNTS)
def test_columns_of_more_values_get_a_larger_share(accounting):
    divided = divide_amount(60_000, AMOUNTS[accounting], accounting, TREES, VALUES)
    of_six, of_two, of_line, of_five = divided.leaf_scales
    assert of_line < of_six < of_five < of_two


@pytest.mark.parametrize("accounting", AMOUNTS)
def test_whole_numbers_are_released_as_such(accounting):
    """More values than can be counted: ranges of them, with the first value as full as others."""
    n, n_values = 8_000, 401
    values = np.random.default_rng(0).integers(0, n_values, n)
    column = np.rint(values * GRID / (n_values - 1)).astype(np.int64)
    amount = 0.5 if accounting == "pure" else rho_of(0.5, 1e-9)
    divided = divide_amount(n, amount, accounting, [None], [n_values])
    assert not divided.counts_values(0)
    [released] = dp_marginals(np.array([column]), divided, OPENDP, np.random.default_rng(0))
    assert ((released >= 0) & (released <= GRID)).all()
    rounded = np.rint(released * (n_values - 1) / GRID).astype(int)
    ends = np.bincount(rounded, minlength=n_values)[[0, -1]] * n_values / n
    assert (np.abs(ends - 1) < 0.7).all()
    assert np.abs(rounded.mean() - values.mean()) < 12
