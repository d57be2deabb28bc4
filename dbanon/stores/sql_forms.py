"""Forms of values, counted in SQL: values stay in their database.

Patterns are counted first; check digits only of columns whose values have the pattern.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dbanon.advice.forms import (
    LOOKED_AT,
    SEPARATORS,
    Check,
    Form,
    form_of,
    forms,
    may_have,
)
from dbanon.data.schema import Attribute
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.session import Session

# Queries of one statement: SQLite takes 500.
_AT_ONCE = 100
# Calls within calls that the parsers of all SQLite versions take.
_NESTED = 9
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def forms_of(
    session: Session, relation: RelationName, attributes: Sequence[Attribute]
) -> dict[str, str]:
    """The form that the values of each column have, empty where they have none.

    The first values that there are tell it, each once.
    """
    looked_at = [a for a in attributes if may_have(a)]
    found = {}
    for start in range(0, len(looked_at), _AT_ONCE):
        part = looked_at[start : start + _AT_ONCE]
        queries = [_patterns(session, place, relation, a) for place, a in enumerate(part)]
        for place, values, *counts in session.rows(" UNION ALL ".join(queries)):
            attribute = part[int(place)]
            fitting = {at: int(count or 0) for at, count in enumerate(counts)}
            _with_checks(session, relation, attribute, int(values), fitting)
            found[attribute.name] = form_of(int(values), fitting)
    return {a.name: found.get(a.name, "") for a in attributes}


def _patterns(session: Session, place: int, relation: RelationName, attribute: Attribute) -> str:
    """How many values a column has, and how many of these have each pattern."""
    counts = ", ".join(f"sum(CASE WHEN {_matches(session, f)} THEN 1 ELSE 0 END)" for f in forms())
    return f"SELECT {place}, count(*), {counts} FROM {_values(session, relation, attribute)} AS v"


def _with_checks(
    session: Session,
    relation: RelationName,
    attribute: Attribute,
    values: int,
    fitting: dict[int, int],
) -> None:
    """Of forms with check digits, replace how many values have the pattern by how many pass."""
    for at, form in enumerate(forms()):
        if not form.checks:
            continue
        if form_of(values, {at: fitting[at]}):
            query = _passing(session, form, _values(session, relation, attribute))
            fitting[at] = int(session.rows(query)[0][0])
        else:
            fitting[at] = 0


def _passing(session: Session, form: Form, rows: str) -> str:
    """How many of some values pass the check digits of a form."""
    # An IBAN: the first four characters last, letters as two digits.
    digits = "substr(v.compact, 5) || substr(v.compact, 1, 4)" if form.moved else "v.compact"
    found = f"SELECT {digits} AS digits FROM {rows} AS v WHERE {_matches(session, form)}"
    for start in range(0, len(_LETTERS) if form.moved else 0, _NESTED):
        digits = "v.digits"
        for place in range(start, min(start + _NESTED, len(_LETTERS))):
            digits = f"replace({digits}, '{_LETTERS[place]}', '{10 + place}')"
        found = f"SELECT {digits} AS digits FROM ({found}) AS v"
    noughts = f"substr('{'0' * form.width}', 1, {form.width} - length(f.digits))"
    padded = f"SELECT {noughts} || f.digits AS digits FROM ({found}) AS f"
    checks = " AND ".join(map(_check, form.checks))
    return f"SELECT count(*) FROM ({padded}) AS p WHERE {checks}"


def _values(session: Session, relation: RelationName, attribute: Attribute) -> str:
    """The first values of a column, each once, as they are and without separators."""
    column = quote(attribute.name)
    # SQLite takes a column of a subquery whose name is "true" for the truth value.
    value = replace(attribute, name="value")
    rows = (
        f"(SELECT s.{column} AS {quote(value.name)} FROM {relation.quoted} AS s"
        f" WHERE s.{column} IS NOT NULL LIMIT {LOOKED_AT})"
    )
    compact = "d.plain"
    for separator in SEPARATORS:
        compact = f"replace({compact}, '{separator}', '')"
    return (
        f"(SELECT d.plain, upper({compact}) AS compact FROM"
        f" (SELECT DISTINCT trim({session.text_of(value)}) AS plain FROM {rows} AS s) AS d)"
    )


def _matches(session: Session, form: Form) -> str:
    return session.matches("v.compact" if form.compact else "v.plain", f"^({form.pattern})$")


def _check(check: Check) -> str:
    """SQL of check digits. Characters are looked up, so that no text can make it fail."""
    parts = [_worth(f"substr(p.digits, {at}, 1)", known)
             for at, known in enumerate(check.places, 1)]  # fmt: skip
    # Nothing is negative, so that databases agree on the remainder.
    return f"({' + '.join(parts)}) % {check.modulus} IN ({', '.join(map(str, check.remainders))})"


def _worth(character: str, known: Mapping[str, int]) -> str:
    cases = " ".join(f"WHEN '{c}' THEN {value}" for c, value in known.items() if value)
    return f"CASE {character} {cases} ELSE 0 END" if cases else "0"
