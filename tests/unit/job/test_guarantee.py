"""Guarantees: what they ask, what they say, and their verdict on counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dbanon.data.counts import ClassValueCounts, CountRequests, Counts, EntityCount, Recount
from dbanon.data.microdata import CodedColumn
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import InvalidParameter, RecountFailed, SourceChanged
from dbanon.job.guarantee import Guarantee, PersonGuarantee
from dbanon.job.guarantee_names import PerAttributeGuarantee, guarantee_from_ledger
from dbanon.job.policy import Policy
from dbanon.job.sets import ColumnSet
from dbanon.job.verdict import ExpectedRelease
from dbanon.measures import Model
from dbanon.methods import METHODS

POLICY = Policy(k=3)
EACH = Policy(k=3, method="individual_ranking", guarantee="per_attribute")
# Two classes of 3 and one of 4.
ROWS = Recount(10, {3: 2, 4: 1})
NEEDED = ExpectedRelease(10, 0, {})


def counted(rows: Recount = ROWS, **more: Any) -> Counts:
    return Counts(rows, **more)


def test_a_policy_says_which_guarantee_it_is() -> None:
    assert type(POLICY.guarantee_for()) is Guarantee
    assert type(POLICY.guarantee_for(entity="who")) is PersonGuarantee
    assert type(EACH.guarantee_for(["site"])) is PerAttributeGuarantee


def test_questions() -> None:
    rows = POLICY.guarantee_for(["site"]).count_requests(
        ["age", "height"], ("ill",), frozenset({"ill"})
    )
    assert rows == CountRequests(
        ("age", "height", "site"), sensitive=("ill",), hierarchy_columns=frozenset({"ill"})
    )
    assert rows.classes == (("age", "height", "site"),)
    persons = POLICY.guarantee_for(entity="who").count_requests(["age"])
    assert persons == CountRequests(("age",), entity_columns=("who",))
    each = EACH.guarantee_for(["site"]).count_requests(["age", "height"])
    assert each.columns == ("age", "height", "site")
    assert each.classes == (("age", "site"), ("height", "site"))
    # A published release tells its strata among its quasi-identifiers.
    assert EACH.guarantee_for(["site"]).count_requests(["age", "site", "height"]) == each


def test_sets_by_the_names_of_the_release() -> None:
    """The bounds of a range replace only the requested quasi-identifier."""
    quasi_identifiers = ("age", "x_low", "x_high")
    released = ("age_low", "age_high", "x_low", "x_high")
    assert ColumnSet(("age", "ill"), 5).with_released_names(
        quasi_identifiers, released
    ).columns == (
        "age_low",
        "age_high",
        "ill",
    )
    assert ColumnSet(("x", "x_low")).with_released_names(quasi_identifiers, released).columns == (
        "x",
        "x_low",
    )
    # The ledger's column sets use released names already.
    recorded_guarantee = guarantee_from_ledger(3, {"also_k": [{"columns": ["x"], "k": 4}]})
    assert recorded_guarantee.count_requests(released).further_sets == (("x",),)


def test_sentences() -> None:
    assert POLICY.guarantee_for(["site"]).describe(["age"]) == (
        "row-wise k-anonymity: every combination of released values of (age, site) is shared by at"
        " least 3 rows of the release"
    )
    persons = Policy(k=3, nulls="category", models=(Model("distinct_l", "ill", 2),))
    assert (
        persons.guarantee_for(entity="who")
        .describe(["age"])
        .endswith(
            'at least 3 persons (distinct values of "who") of the release, NULL counted as a value;'
            ' distinct_l 2 of "ill" in each class, counted in persons'
        )
    )
    assert EACH.guarantee_for(["site"]).describe(["age", "height"]) == (
        "k-anonymity per attribute only, not of rows: every released value of each of (age, height)"
        " by itself is shared by at least 3 rows of the release with equal (site); ROWS ARE NOT"
        " k-ANONYMOUS: a combination of values may occur in a single row"
    )


def test_rows_that_hold() -> None:
    verdict = POLICY.guarantee_for().check(counted(), NEEDED)
    assert (verdict.k, verdict.rarest_combination_size, verdict.persons, verdict.k_rows) == (
        3,
        3,
        None,
        None,
    )
    assert (verdict.ledger_values, verdict.cautions, verdict.unit_suffix) == ({}, (), "")


@pytest.mark.parametrize(
    ("rows", "error", "text"),
    [
        (Recount(9, {3: 3}), SourceChanged, "10 records were read, but 9 rows"),
        (Recount(10, {2: 1, 8: 1}), RecountFailed, "holds 2 rows, fewer than k = 3"),
        (Recount(10, {5: 2}, 1), RecountFailed, "1 row with a NULL written, 0 expected"),
    ],
)
def test_rows_that_do_not_hold(rows: Recount, error: type[Exception], text: str) -> None:
    for policy in (POLICY, EACH):
        with pytest.raises(error, match=text):
            policy.guarantee_for().check(counted(rows), NEEDED)


def test_nulls_are_counted_where_they_are_released_and_no_stratum_has_its_own() -> None:
    holes = Recount(10, {5: 2}, 5)
    category = Policy(k=3, nulls="category")
    assert category.guarantee_for().check(counted(holes), ExpectedRelease(10, 5, {})).k == 5
    with pytest.raises(RecountFailed, match="5 rows with a NULL written, 4 expected"):
        category.guarantee_for().check(counted(holes), ExpectedRelease(10, 4, {}))
    assert POLICY.guarantee_for(["site"]).check(counted(holes), NEEDED).k == 5


def test_persons() -> None:
    guarantee = POLICY.guarantee_for(entity="who")

    def check(**changes: Any) -> Any:
        counts = {"persons": 7, "smallest": 3, "histogram": dict(ROWS.histogram)} | changes
        return guarantee.check(counted(persons={"who": EntityCount(**counts)}), NEEDED)

    assert check().ledger_values == {"entity": "who", "persons": 7}
    assert (check(smallest=4).k, check(smallest=4).persons) == (4, 7)
    with pytest.raises(RecountFailed, match='has 2 distinct values of "who", fewer than k = 3'):
        check(smallest=2)
    with pytest.raises(
        RecountFailed, match="differ from those of the rows whose persons were counted"
    ):
        check(histogram={10: 1})


def test_each_attribute() -> None:
    rows = Recount(10, {5: 4}, k_rows=1)
    verdict = EACH.guarantee_for().check(counted(rows), NEEDED)
    assert (verdict.k, verdict.rarest_combination_size, verdict.k_rows, verdict.ledger_values) == (
        5,
        1,
        1,
        {"k_rows": 1},
    )
    [caution] = verdict.cautions
    assert (caution.title, caution.reason[-18:]) == (
        "ROWS ARE NOT k-ANONYMOUS",
        "shared by 1 row(s)",
    )
    assert "NOT k-ANONYMOUS" in EACH.guarantee_for().summarize_recount(rows)


def test_models_are_part_of_the_verdict() -> None:
    guarantee = Policy(k=3, models=(Model("distinct_l", "ill", 2),)).guarantee_for()
    needed = ExpectedRelease(6, 0, {"ill": Attribute("ill", Kind.CATEGORY)})
    rows = Recount(6, {3: 2})

    def check(values: list[int]) -> Any:
        column = CodedColumn(np.array(values, np.int32), ("a", "b"))
        cells = ClassValueCounts(np.repeat(np.arange(2), 3), column, np.ones(6, np.int64))
        return guarantee.check(counted(rows, value_counts={"ill": cells}), needed)

    [level] = check([0, 1, 1, 0, 0, 1]).models
    assert level.achieved == 2
    with pytest.raises(RecountFailed, match="1 of 2 counted classes violate distinct_l 2"):
        check([0, 1, 1, 0, 0, 0])


def test_what_a_method_does_not_give_is_refused() -> None:
    POLICY.guarantee_for().check_method(METHODS["mdav"])
    with pytest.raises(InvalidParameter, match="k-anonymity per attribute only"):
        POLICY.guarantee_for().check_method(METHODS["individual_ranking"])
    EACH.guarantee_for().check_method(METHODS["individual_ranking"])
    with pytest.raises(InvalidParameter, match="rows are counted, not persons"):
        EACH.guarantee_for(entity="who").check_method(METHODS["individual_ranking"])
    with pytest.raises(InvalidParameter, match="Method mdav groups rows"):
        Policy(k=3, guarantee="per_attribute")


@pytest.mark.parametrize(
    ("policy", "entity"), [(POLICY, None), (POLICY, "who"), (EACH, None)], ids=str
)
def test_a_ledger_tells_it_again(policy: Policy, entity: str | None) -> None:
    guarantee = policy.guarantee_for(["site"], entity)
    again = guarantee_from_ledger(3, {**policy.arguments(), "by": ["site"], "entity": entity})
    assert type(again) is type(guarantee)
    assert again.count_requests(["age"]) == guarantee.count_requests(["age"])


def test_entries_of_0_1_0_count_rows() -> None:
    assert guarantee_from_ledger(5, {}) == Guarantee(5)
