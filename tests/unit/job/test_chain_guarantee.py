"""What a chain's counts are refused for."""

from __future__ import annotations

import pytest

from dbanon.data.counts import ChainCounts
from dbanon.errors import TraceTooSmall
from dbanon.job.chain_guarantee import ChainGuarantee


@pytest.mark.parametrize(
    ("rarest_history", "rarest_combination"), [(4, None), (4, 7), (7, 4)], ids=str
)
def test_the_smaller_count_is_named(rarest_history: int, rarest_combination: int | None) -> None:
    """A history is refused with the count that is below k, also with several rows per person."""
    counts = ChainCounts(
        sequence=2,
        persons=20,
        persons_so_far=20,
        rarest_history_persons=rarest_history,
        rarest_combination_persons=rarest_combination,
    )
    guarantee = ChainGuarantee(k=5, entity="id", chain="patients")
    with pytest.raises(TraceTooSmall, match="shared by 4 persons, fewer than k = 5"):
        guarantee.require_chain_counts(counts)
