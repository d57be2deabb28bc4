"""Attacks: rates by hand, against a plain reference, and what they say of known releases."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon.errors import ColumnNotFound, InvalidParameter, TooFewRecords
from dbanon.extensions.attacks.catalogue import ATTACKS
from dbanon.extensions.attacks.membership import membership_rate
from dbanon.extensions.attacks.rates import AttackResult, Rate
from dbanon.hierarchy.tree import Hierarchy
from tests.prerequisites import import_or_skip
from tests.reference import attacks as reference

NAMES = ["a", "b", "c", "d"]


def people(seed: int, n: int = 400) -> pd.DataFrame:
    """Columns that depend on one another; almost all rows differ."""
    rng = np.random.default_rng(seed)
    attack = rng.normal(size=n)
    return pd.DataFrame(
        {
            "a": attack,
            "b": 0.7 * attack + rng.normal(size=n),
            "c": rng.normal(size=n),
            "d": rng.choice(list("uvwxyz"), n),
        }
    )


@pytest.mark.parametrize(("right", "guesses"), [(0, 10), (10, 10), (3, 10), (1, 400), (250, 400)])
@pytest.mark.parametrize("z", [1.959963984540054, 2.241402727604947])
def test_the_interval_is_wilsons(right: int, guesses: int, z: float) -> None:
    assert Rate(right, guesses).interval(z) == pytest.approx(
        reference.wilson(right, guesses, z), abs=1e-9
    )


def test_the_risk_by_hand() -> None:
    result = AttackResult(Rate(60, 100), Rate(10, 100), Rate(20, 100))
    assert result.risk == pytest.approx((0.6 - 0.2) / 0.8)
    assert AttackResult(Rate(60, 100), Rate(10, 100)).risk == pytest.approx(0.5 / 0.9)
    low, high = result.interval or (0, 0)
    attack, control = (reference.wilson(right, 100, 2.241402727604947) for right in (60, 20))
    assert low == pytest.approx((attack[0] - control[1]) / (1 - control[1]), abs=1e-8)
    assert high == pytest.approx((attack[1] - control[0]) / (1 - control[0]), abs=1e-8)
    everybody = AttackResult(Rate(50, 50), Rate(50, 50), Rate(50, 50))
    assert everybody.risk == 0
    assert everybody.interval is not None
    assert everybody.interval[0] <= 0 <= everybody.interval[1]
    assert AttackResult(Rate(0, 0), Rate(0, 0)).risk is None


def test_the_interval_holds_the_risk_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    n_covered = 0
    for _ in range(400):
        attack, other = rng.binomial(200, 0.3), rng.binomial(200, 0.1)
        low, high = AttackResult(Rate(attack, 200), Rate(0, 1), Rate(other, 200)).interval or (1, 0)
        n_covered += low <= 0.2 / 0.9 <= high
    assert n_covered / 400 >= 0.95


def test_the_table_itself_gives_all_away_and_membership_too() -> None:
    original, control = people(1, 150), people(2, 150)
    result = dbanon.attack(
        original,
        original.sample(frac=1, random_state=3),
        control=control,
        make=lambda rows: rows,
        targets=1,
        releases=16,
    )
    assert set(result.risks) == {*ATTACKS, "membership"}
    for name, attack in result.found.items():
        assert attack.risk == pytest.approx(1, abs=0.02), name
        assert attack.interval is not None
        assert attack.interval[1] == 1


@pytest.mark.slow
def test_rows_of_others_give_nothing_away() -> None:
    """0 is in the interval 19 times of 20: of twelve independent tables in ten at least."""
    n_covered: dict[str, int] = {}
    for seed in range(0, 36, 3):
        result = dbanon.attack(
            people(seed, 150), people(seed + 1, 150), control=people(seed + 2, 150)
        )
        for name, attack in result.found.items():
            assert attack.interval is not None
            n_covered[name] = n_covered.get(name, 0) + (
                attack.interval[0] <= 0 <= attack.interval[1]
            )
    assert min(n_covered.values()) >= 10, n_covered
    others = iter(range(100, 300))
    result = dbanon.attack(
        people(1, 100),
        people(3, 100),
        make=lambda rows: people(next(others), len(rows)),
        targets=1,
        releases=16,
    )
    low, high = result.found["membership"].interval or (1, 1)
    assert low <= 0 <= high


def test_classes_are_linked_no_more_than_one_in_k_times() -> None:
    original = people(1)
    released, _ = dbanon.anonymize_frame(
        original, quasi_identifiers=NAMES, k=5, recoding="representative"
    )
    result = dbanon.attack(original, released, control=people(2)).found["linkability"]
    assert result.attack.interval()[0] <= 1 / 5


def test_two_records_by_hand() -> None:
    """Each part of a record is nearest to its own row; a constant column tells nothing."""
    original = pd.DataFrame({"x": [0.0, 10.0], "y": [0.0, 10.0]})
    released = pd.DataFrame({"x": [1.0, 9.0], "y": [2.0, 7.0]})
    result = dbanon.attack(original, released)
    assert result.found["linkability"].attack == Rate(2, 2)
    # y differs by 2 and 3, x by 1 twice: the tolerance is 5 % of what lies between 0.5 and 9.5.
    assert result.found["attribute_inference"].attack == Rate(0, 4)
    near = dbanon.attack(original, pd.DataFrame({"x": [0.4, 9.6], "y": [0.3, 7.0]}))
    assert near.found["attribute_inference"].columns["x"].attack == Rate(2, 2)
    assert near.found["attribute_inference"].columns["y"].attack == Rate(1, 2)
    # One original each satisfies x >= 9, y >= 7, x <= 1 and y <= 2.
    single = result.found["singling_out"].attack
    assert single.right == single.guesses > 0


def test_a_label_that_covers_the_value_is_right_and_one_that_covers_all_is_no_risk() -> None:
    ages = [21, 22, 23, 34, 35, 36]
    jobs = ["nurse", "nurse", "cook", "cook", "baker", "baker"]
    original = pd.DataFrame({"age": ages, "job": jobs})
    tree = {
        "job": Hierarchy.from_levels(
            [["nurse", "care", "*"], ["cook", "food", "*"], ["baker", "food", "*"]]
        )
    }
    released = pd.DataFrame({"age": ["[20, 30)"] * 3 + ["[30, 40)"] * 3, "job": ["*"] * 6})
    result = dbanon.attack(original, released, hierarchies=tree).found["attribute_inference"]
    assert result.columns["job"].attack == result.columns["job"].random == Rate(6, 6)
    assert result.columns["job"].risk == 0
    food = released.assign(job=["care", "care", "food", "food", "food", "food"])
    features = dbanon.attack(original, food, hierarchies=tree).found["attribute_inference"]
    # Two of three rows aged 20 to 29 say care; a random draw picks one of them.
    assert features.columns["job"].attack.right >= 3
    # The cooks aged 23 and 34 each have a row of their decade that says food.
    assert features.columns["age"].attack.right >= 2


@pytest.mark.parametrize("seed", range(4))
def test_linking_and_inferring_are_the_references(seed: int) -> None:
    """Without ties each guess is certain, and the rates match the definitions."""
    original, released = people(seed, 60), people(seed + 10, 45)
    originals = original.to_numpy(object).tolist()
    rows = released.to_numpy(object).tolist()
    spans = [
        float(original[name].max() - original[name].min()) if name != "d" else 1.0 for name in NAMES
    ]
    result = dbanon.attack(original, released, linked=[["a", "b"], ["c"]]).found
    linked = [reference.linkable(attack, rows, spans, (0, 1), (2,)) for attack in originals]
    assert result["linkability"].attack == Rate(int(sum(linked)), 60)
    for at, name in enumerate(NAMES):
        width = (
            0.05 * float(np.subtract(*np.quantile(original[name], [0.95, 0.05])))
            if name != "d"
            else 0.0
        )
        right = [reference.inferable(attack, rows, spans, at, width) for attack in originals]
        assert result["attribute_inference"].columns[name].attack == Rate(int(sum(right)), 60)


def test_nulls_are_values_of_their_own() -> None:
    original = pd.DataFrame({"x": [1.0, None, 3.0, 4.0], "y": ["p", "q", None, "r"]})
    result = dbanon.attack(original, original)
    assert result.found["attribute_inference"].attack == Rate(8, 8)
    assert result.found["linkability"].attack == Rate(4, 4)


def test_what_tells_in_training_is_tried_on_other_releases() -> None:
    rng = np.random.default_rng(2)
    noise = rng.normal(size=(2, 40, 6))
    assert membership_rate(noise[0], noise[1]).value == pytest.approx(0.5, abs=0.25)
    noise[0, :, 3] += 100
    assert membership_rate(noise[0], noise[1]) == Rate(40, 40)
    assert membership_rate(noise[1], noise[0]) == Rate(40, 40)


def test_a_synthesis_is_attacked_as_it_comes() -> None:
    import_or_skip("opendp")
    original = people(1)[["a", "b", "c"]]
    releases = dbanon.synthesize(
        original,
        method="dp_ranks",
        epsilon=3.0,
        bounds=dict.fromkeys("abc", (-5, 5)),
        types="number",
        budget=dbanon.Budget(3.0),
    )
    result = dbanon.attack(original, releases, control=people(2)[["a", "b", "c"]])
    risk = result.found["attribute_inference"].interval
    assert risk is not None
    assert risk[0] <= 0.02
    assert result.released == 400


def test_figures_hold_no_value_of_a_person() -> None:
    original = people(1, 60)
    original.loc[7, "a"] = 12345.678
    original["d"] = [f"word{i}" for i in range(60)]
    result = dbanon.attack(original, original, control=people(2, 60).assign(d="none"))
    for text in (json.dumps(result.to_dict()), repr(result), str(result.pairs())):
        assert "12345" not in text
        assert "word" not in text


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"guesses": 0}, InvalidParameter),
        ({"guesses": True}, InvalidParameter),
        ({"releases": 5}, InvalidParameter),
        ({"targets": 0}, InvalidParameter),
        ({"seed": -1}, InvalidParameter),
        ({"linked": [["a"], ["a"]]}, InvalidParameter),
        ({"linked": [["a"], []]}, InvalidParameter),
        ({"linked": "ab"}, InvalidParameter),
        ({"linked": 5}, InvalidParameter),
        ({"linked": [["a"], [["b"]]]}, InvalidParameter),
        ({"linked": [["a"], ["b"], 3]}, InvalidParameter),
        ({"linked": [["a"], ["zip"]]}, InvalidParameter),
        ({"quasi_identifiers": ["zip"]}, ColumnNotFound),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        dbanon.attack(people(1, 20), people(2, 20), **options)


def test_nothing_to_attack_is_refused() -> None:
    with pytest.raises(TooFewRecords):
        dbanon.attack(people(1, 20), people(2, 20)[:0])


def test_a_small_control_group_says_nothing_of_singling_out() -> None:
    result = dbanon.attack(people(1), people(3), control=people(2, 50)).found
    assert result["singling_out"].control is None
    assert "fewer records" in result["singling_out"].note
    assert result["linkability"].control == Rate(result["linkability"].control.right, 50)  # type: ignore[union-attr]
