"""What an answer reveals about columns: few rows without a value are reported as a range."""

from __future__ import annotations

from dbanon.advice.answer import ColumnAdvice
from dbanon.advice.profile import ColumnProfile
from dbanon.advice.roles import IDENTIFIER, RoleProposal
from dbanon.data.schema import Attribute, Kind


def test_different_values_do_not_tell_how_many_rows_have_none() -> None:
    for present, distinct in ((998, 500), (998, 998), (997, 3)):
        column = ColumnProfile(Attribute("id", Kind.INTEGER), present, distinct)
        advice = ColumnAdvice(column, RoleProposal(IDENTIFIER, "given"), rows=1000, small=5)
        assert advice.nulls.to_dict() == {"rows": "1..4", "share": None}
        distinct_json = advice.distinct.to_dict()
        assert str(present) not in distinct_json["rows"]
        assert distinct_json["share"] in (None, distinct / 1000)
