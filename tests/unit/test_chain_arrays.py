"""Persons of chains as arrays: the same results as looking up tags one by one."""

from __future__ import annotations

import numpy as np
import pytest

from dbanon.extensions.chains.arrays import FetchedPersons, argsort_tags, find_members, sum_codes


def _tags(rng: np.random.Generator, n: int, leading: int) -> np.ndarray:
    """Distinct tags whose first halves have few values."""
    halves = rng.integers(0, 2**64, (4 * n, 2), np.uint64)
    halves[:, 0] %= np.uint64(leading)
    unique_tags = np.unique(halves, axis=0)
    return rng.permutation(unique_tags)[:n]


@pytest.mark.parametrize("leading", [3, 2**63])
@pytest.mark.parametrize("n", [0, 1, 60])
def test_tags_are_found(n: int, leading: int) -> None:
    rng = np.random.default_rng(n)
    tags = _tags(rng, 2 * n, leading)
    members, queries = tags[:n], rng.permutation(tags)
    index_of = {tuple(tag): at for at, tag in enumerate(members.tolist())}
    expected = [index_of.get(tuple(tag), -1) for tag in queries.tolist()]
    assert find_members(members, queries, argsort_tags(queries)).tolist() == expected
    assert find_members(queries, members, argsort_tags(members)).min(initial=0) >= 0


@pytest.mark.parametrize("leading", [3, 2**63])
def test_the_order_is_that_of_bytes(leading: int) -> None:
    tags = _tags(np.random.default_rng(1), 80, leading)
    byte_strings = [tag.astype(">u8").tobytes() for tag in tags]
    assert [byte_strings[at] for at in argsort_tags(tags)] == sorted(byte_strings)


def test_codes_are_added_up_exactly() -> None:
    rng = np.random.default_rng(2)
    codes = rng.integers(-(2**63), 2**63, 500, np.int64)
    codes[:100] = -1
    cells = rng.integers(0, 7, 500)
    expected = [sum(codes[cells == cell].tolist()) % 2**64 for cell in range(9)]
    assert sum_codes(cells, codes, 9).tolist() == expected


@pytest.mark.parametrize("left_out", [0, 5])
def test_rows_have_the_tags_of_their_keys(left_out: int) -> None:
    rng = np.random.default_rng(3)
    keys, tags = np.arange(40)[:, None] * 3, _tags(rng, 40, 2**63)
    persons = FetchedPersons(keys, tags, argsort_tags(tags), ())
    some = keys[left_out:]
    order = persons.order_by_tag(some)
    assert np.array_equal(some[order], keys[[at for at in argsort_tags(tags) if at >= left_out]])
    assert np.array_equal(persons.tags_by_key(some[order]), tags[left_out:][order])
