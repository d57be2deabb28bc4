"""Roles as a statistician would propose them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbanon.advice.profile import ColumnProfile, Profile
from dbanon.advice.roles import REASONS, ROLES, RoleProposal, propose_column_roles
from dbanon.data.schema import Attribute, Kind

ROWS = 10_000


def column(name: str, kind: str, distinct: int, **more: object) -> ColumnProfile:
    sql_type = str(more.pop("sql_type", kind))
    return ColumnProfile(Attribute(name, Kind(kind), sql_type=sql_type), ROWS, distinct, **more)  # type: ignore[arg-type]


# Name, kind, values, what more was counted; role, reason and second role.
PROPOSALS = [
    (column("person_id", "integer", ROWS, is_unique_key=True), "identifier", "key", ""),
    (column("PatientID", "integer", ROWS), "identifier", "name", ""),
    (column("patient_id", "integer", 6_000), "identifier", "name", ""),
    (column("hospital_id", "integer", 12), "quasi_identifier", "values", ""),
    (column("token", "other", ROWS, sql_type="uuid"), "identifier", "type", ""),
    (column("scan", "other", 300, sql_type="bytea"), "identifier", "type", ""),
    (column("properties", "other", 300, sql_type="jsonb"), "not_copied", "type", ""),
    (
        column("full_name", "category", 4_000, mean_length=14.0, multiword_share=1.0),
        "identifier",
        "name",
        "",
    ),
    (column("Nachname", "category", 900), "identifier", "name", ""),
    (column("Prénom", "category", 400), "identifier", "name", ""),
    (column("email", "category", ROWS), "identifier", "name", ""),
    (column("telefoonnummer", "category", ROWS), "identifier", "name", ""),
    (column("label", "category", ROWS), "identifier", "all_different", ""),
    (column("note", "category", 2_000, mean_length=60.0), "not_copied", "long_text", ""),
    (
        column("remark", "category", 4_000, mean_length=25.0, multiword_share=0.9),
        "not_copied",
        "worded_text",
        "",
    ),
    (column("created_at", "timestamp", 9_000), "not_copied", "moment", ""),
    (column("birth_date", "date", 8_000), "quasi_identifier", "values", ""),
    (column("birth_date", "date", ROWS), "quasi_identifier", "different_number", ""),
    (column("amount", "decimal", ROWS), "quasi_identifier", "different_number", ""),
    (column("TOTSALES", "integer", 9_900), "quasi_identifier", "values", ""),
    (column("AFNLWGT", "integer", ROWS), "undecided", "all_different_number", ""),
    (column("diagnosis", "category", 10), "sensitive", "name", ""),
    (column("Hauptdiagnose", "category", 10), "quasi_identifier", "values", ""),
    (column("haupt_diagnose", "category", 10), "sensitive", "name", ""),
    (column("religion", "category", 6), "sensitive", "name", ""),
    (column("lab_result", "float", 5_000), "quasi_identifier", "known", "sensitive"),
    (column("race", "category", 5), "quasi_identifier", "known", "sensitive"),
    (column("salary-class", "category", 2), "quasi_identifier", "known", "sensitive"),
    (column("income", "integer", 9_000), "quasi_identifier", "known", "sensitive"),
    (column("fnlwgt", "integer", 900), "not_copied", "design_weight", ""),
    (column("wgt_date", "date", 900), "quasi_identifier", "values", ""),
    (column("sex", "category", 2), "quasi_identifier", "values", ""),
    (column("country", "category", 1), "constant", "constant", ""),
    (column("empty", "category", 0), "constant", "constant", ""),
]


@pytest.mark.parametrize(
    ("given_column", "role", "reason", "alternative"), PROPOSALS, ids=[p[0].name for p in PROPOSALS]
)
def test_what_a_statistician_would_say(
    given_column: ColumnProfile, role: str, reason: str, alternative: str
) -> None:
    role_found = propose_column_roles(Profile(ROWS, (given_column,)))[given_column.name]
    assert role_found == RoleProposal(role, reason, alternative)
    assert role in ROLES
    assert REASONS[reason] in str(role_found)


counts = st.integers(0, 200)
columns = st.builds(
    lambda name, kind, present, distinct, key, length, multiword_share: ColumnProfile(
        Attribute(name, kind), present, min(distinct, present), key, length, multiword_share
    ),
    st.text(max_size=12),
    st.sampled_from(Kind),
    counts,
    counts,
    st.booleans(),
    st.floats(0, 100),
    st.floats(0, 1),
)


@given(st.lists(columns, min_size=1, max_size=6, unique_by=lambda column: column.name))
def test_the_role_of_a_column_does_not_depend_on_other_columns(
    profile_columns: list[ColumnProfile],
) -> None:
    together = propose_column_roles(Profile(200, tuple(profile_columns)))
    assert list(together) == [column.name for column in profile_columns]
    for column in profile_columns:
        assert together[column.name] == propose_column_roles(Profile(200, (column,)))[column.name]
        # A column that outsiders may know is protected even if it is sensitive, too.
        assert together[column.name].alternative in ("", "sensitive")
        if together[column.name].alternative:
            assert together[column.name].role == "quasi_identifier"
