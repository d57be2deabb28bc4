"""Dates to shift in databases: their range, and the keyed hashes of persons."""

from __future__ import annotations

from collections.abc import Iterator

from dbanon.data.date_range import DateRange, units_per_day
from dbanon.data.microdata import ColumnRoles
from dbanon.data.schema import Attribute
from dbanon.job.pseudonym import PseudonymKey
from dbanon.sessions import statements
from dbanon.sessions.base import Relation
from dbanon.sessions.names import quote
from dbanon.sessions.session import Session


def measure_dates(session: Session, relation: Relation, attribute: Attribute) -> DateRange:
    """Measure the range of the dates in a column of the source."""
    limits = session.dialect.date_limits(attribute)
    number = session.dialect.bounded_number(attribute, *limits)
    [(n_values, n_dates, first, last)] = session.rows(
        f"SELECT count(s.{quote(attribute.name)}), count({number}), min({number}), max({number})"
        f" FROM {relation.relation_to_read.quoted} AS s"
    )
    unit = units_per_day(attribute)
    first_day, last_day = float(first or 0) / unit, float(last or 0) / unit
    return DateRange(int(n_values), int(n_dates), first_day, last_day, limits)


def read_person_tags(
    session: Session, relation: Relation, roles: ColumnRoles, person: Attribute, key: PseudonymKey
) -> Iterator[tuple[int, bytes]]:
    """Yield the code of each person, and the keyed hash of the person's identifier.

    The database computes the hashes; identifiers do not leave it.

    Raises
    ------
    PseudonymsNotHere : the database cannot compute keyed hashes.
    """
    session.require_capability("pseudonyms")
    # The dictionary that was staged when the column was read.
    position = [column.name for column in roles.columns].index(person.name)
    text = session.dialect.normalized_sql(person, session.dialect.text_of(person))
    joins = statements.join_values(position, session.dialect.value_of(person))
    session.tags.stage_key(*key.offset_hmac_blocks())
    rows = session.rows(
        f"SELECT DISTINCT {statements.code_column(position)}, {session.tags.of_text(text)}"
        f" FROM {relation.from_clause}{joins}{relation.where_clause}"
    )
    session.tags.unstage_key()
    for code, tag in rows:
        yield int(code), bytes(tag)
