"""Detection of value forms by counting in SQL, without reading values.

Patterns are counted first, and check digits only for columns whose values match the pattern.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dbanon.advice.forms import (
    MAX_EXAMINED_VALUES,
    SEPARATORS,
    Check,
    IdentifierForm,
    can_hold_identifiers,
    form_of,
    forms,
)
from dbanon.data.schema import Attribute
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.session import Session

# SQLite allows 500 queries in one statement.
_QUERIES_PER_STATEMENT = 100
# Nested calls that the parsers of all SQLite versions accept.
_MAX_NESTED_CALLS = 9
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def forms_of(
    session: Session, relation: RelationName, attributes: Sequence[Attribute]
) -> dict[str, str]:
    """Detect the form of each column's values; empty if they have none.

    Decided on the first non-NULL values, each counted once.
    """
    candidates = [a for a in attributes if can_hold_identifiers(a)]
    form_by_name = {}
    for start in range(0, len(candidates), _QUERIES_PER_STATEMENT):
        part = candidates[start : start + _QUERIES_PER_STATEMENT]
        queries = [_patterns(session, index, relation, a) for index, a in enumerate(part)]
        for index, values, *counts in session.rows(" UNION ALL ".join(queries)):
            attribute = part[int(index)]
            fitting = {at: int(count or 0) for at, count in enumerate(counts)}
            _apply_check_digits(session, relation, attribute, int(values), fitting)
            form_by_name[attribute.name] = form_of(int(values), fitting)
    return {a.name: form_by_name.get(a.name, "") for a in attributes}


def _patterns(session: Session, index: int, relation: RelationName, attribute: Attribute) -> str:
    """Build a query that counts a column's values, and those that match each pattern."""
    counts = ", ".join(f"sum(CASE WHEN {_matches(session, f)} THEN 1 ELSE 0 END)" for f in forms())
    return f"SELECT {index}, count(*), {counts} FROM {_values(session, relation, attribute)} AS v"


def _apply_check_digits(
    session: Session,
    relation: RelationName,
    attribute: Attribute,
    values: int,
    fitting: dict[int, int],
) -> None:
    """For forms with check digits, replace the pattern's count by that of valid check digits."""
    for at, form in enumerate(forms()):
        if not form.checks:
            continue
        if form_of(values, {at: fitting[at]}):
            query = _check_digits_query(session, form, _values(session, relation, attribute))
            fitting[at] = int(session.rows(query)[0][0])
        else:
            fitting[at] = 0


def _check_digits_query(session: Session, form: IdentifierForm, rows: str) -> str:
    """Build a query that counts the values with valid check digits."""
    # An IBAN is checked with its first four characters last, and letters as two digits.
    digits = (
        "substr(v.compact, 5) || substr(v.compact, 1, 4)"
        if form.moves_country_code
        else "v.compact"
    )
    digits_query = f"SELECT {digits} AS digits FROM {rows} AS v WHERE {_matches(session, form)}"
    for start in range(0, len(_LETTERS) if form.moves_country_code else 0, _MAX_NESTED_CALLS):
        digits = "v.digits"
        for letter_index in range(start, min(start + _MAX_NESTED_CALLS, len(_LETTERS))):
            digits = f"replace({digits}, '{_LETTERS[letter_index]}', '{10 + letter_index}')"
        digits_query = f"SELECT {digits} AS digits FROM ({digits_query}) AS v"
    noughts = f"substr('{'0' * form.n_checked}', 1, {form.n_checked} - length(f.digits))"
    padded = f"SELECT {noughts} || f.digits AS digits FROM ({digits_query}) AS f"
    checks = " AND ".join(map(_check, form.checks))
    return f"SELECT count(*) FROM ({padded}) AS p WHERE {checks}"


def _values(session: Session, relation: RelationName, attribute: Attribute) -> str:
    """Build a subquery of the first distinct values of a column, with and without separators."""
    column = quote(attribute.name)
    # SQLite reads a subquery's column named "true" as the truth value, so rename it.
    value = replace(attribute, name="value")
    rows = (
        f"(SELECT s.{column} AS {quote(value.name)} FROM {relation.quoted} AS s"
        f" WHERE s.{column} IS NOT NULL LIMIT {MAX_EXAMINED_VALUES})"
    )
    compact = "d.plain"
    for separator in SEPARATORS:
        compact = f"replace({compact}, '{separator}', '')"
    return (
        f"(SELECT d.plain, upper({compact}) AS compact FROM"
        f" (SELECT DISTINCT trim({session.text_of(value)}) AS plain FROM {rows} AS s) AS d)"
    )


def _matches(session: Session, form: IdentifierForm) -> str:
    return session.matches("v.compact" if form.compact else "v.plain", f"^({form.pattern})$")


def _check(check: Check) -> str:
    """Build the check-digit condition; characters are looked up, so that no text causes errors."""
    parts = [
        _digit_value(f"substr(p.digits, {at}, 1)", digit_values)
        for at, digit_values in enumerate(check.position_values, 1)
    ]
    # No term is negative, so all databases agree on the remainder.
    return f"({' + '.join(parts)}) % {check.modulus} IN ({', '.join(map(str, check.remainders))})"


def _digit_value(character: str, digit_values: Mapping[str, int]) -> str:
    cases = " ".join(f"WHEN '{c}' THEN {value}" for c, value in digit_values.items() if value)
    return f"CASE {character} {cases} ELSE 0 END" if cases else "0"
