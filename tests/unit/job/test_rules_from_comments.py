"""Rules in comments on columns."""

from __future__ import annotations

import pytest

from dbanon.errors import InvalidParameter
from dbanon.job.rules import rules_from_comments


@pytest.mark.parametrize(
    ("comment", "statement"),
    [
        ("dbanon: drop\ndbanon: keep", "states 2 rules"),
        ('dbanon: {"role":', "states no valid rule"),
    ],
)
def test_a_comment_states_exactly_one_rule(comment: str, statement: str) -> None:
    with pytest.raises(InvalidParameter, match=f'"ward" {statement}'):
        rules_from_comments({"age": "years", "ward": comment})
