"""The persons who share the classes of a person's rows, compared with the rule in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbanon.measures import joint_rows as measured
from dbanon.measures.joint_rows import JointRows, joint_rows, sample_pairs

ROWS = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 5)), min_size=1, max_size=40)


def plainly(rows: list[tuple[int, int]], k: int, seed: int) -> JointRows:
    """Check every set of rows separately for persons with a row in each of its classes."""
    order = list(dict.fromkeys(person for person, _ in rows))
    person_of_row = np.array([order.index(person) for person, _ in rows], np.int64)
    classes_of = {p: {c for q, c in rows if q == p} for p in order}

    def is_below(classes: set[int]) -> bool:
        return sum(classes <= member_classes for member_classes in classes_of.values()) < k

    sampled = sample_pairs(person_of_row, len(order), seed)
    pairs = [{rows[index][1] for index in pair} for pair in sampled.values() if pair is not None]
    return JointRows(
        k,
        len(sampled),
        sum(is_below(classes_of[order[person]]) for person in sampled),
        len(pairs),
        sum(map(is_below, pairs)),
        len(order),
    )


@given(ROWS, st.integers(2, 4), st.integers(0, 3))
@settings(max_examples=30, deadline=None)
def test_it_equals_the_rule(rows: list[tuple[int, int]], k: int, seed: int) -> None:
    persons, classes = map(np.array, zip(*rows, strict=True))
    assert joint_rows(persons, classes, k, seed) == plainly(rows, k, seed)


def test_a_pair_is_of_two_rows_of_the_person() -> None:
    person_of_row = np.array([0, 1, 0, 2, 1, 0])
    sampled = sample_pairs(person_of_row, 3)
    assert sampled[2] is None
    for person in (0, 1):
        pair = sampled[person]
        assert pair is not None
        assert pair[0] != pair[1]
        assert [person_of_row[row] for row in pair] == [person, person]


def test_of_very_many_persons_some_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "MAX_PERSONS", 10)
    persons = np.repeat(np.arange(40), 2)
    exposure = joint_rows(persons, persons // 10, 10)
    assert (exposure.persons, exposure.in_all, exposure.of_pairs) == (10, 40, 10)
    assert (exposure.below, exposure.pairs_below) == (0, 0)
