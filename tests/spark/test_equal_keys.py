"""Key bitmaps: bitmaps of pieces agree with a set of all keys."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.prerequisites import import_or_skip

import_or_skip("pyspark")

from dbanon.extensions.spark.facts import KeySet  # noqa: E402

WIDE = st.integers(-(2**63), 2**63 - 1)
NEAR = st.integers(-70_000, 70_000)


@given(st.lists(NEAR | WIDE, max_size=40), st.integers(0, 40))
@settings(max_examples=200, deadline=None)
def test_twice_or_not_or_unknown(keys, cut):
    key_set = KeySet()
    for piece in (keys[:cut], keys[cut:]):
        key_set.add(KeySet.of(np.sort(np.array(piece, np.int64))))
    if not key_set.is_sparse:
        assert key_set.has_duplicates == (len(set(keys)) < len(keys))
    n_bits = sum(int(np.unpackbits(page).sum()) for page in key_set.pages.values())
    assert key_set.has_duplicates or key_set.is_sparse or n_bits == len(keys)


def test_keys_far_apart_are_for_somebody_else():
    keys = np.arange(300, dtype=np.int64) << 40
    assert KeySet.of(keys).is_sparse
    assert not KeySet.of(keys).pages
