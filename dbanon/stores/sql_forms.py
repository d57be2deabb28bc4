"""Detection of the form of a column's values, such as that of an IBAN, by counting in SQL.

No values leave the database. Check digits are only verified for columns whose values match the
pattern.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dbanon.advice.forms import (
    MAX_EXAMINED_VALUES,
    SEPARATORS,
    Check,
    IdentifierForm,
    can_hold_identifiers,
    find_common_form,
    forms,
)
from dbanon.data.schema import Attribute
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.session import Session

# The number of queries that one UNION ALL joins; SQLite allows 500.
_QUERIES_PER_STATEMENT = 100
# The number of nested calls that the parsers of all SQLite versions accept.
_MAX_NESTED_CALLS = 9
# Number of values that are compared with one pattern for all forms. More than a tenth of those
# examined are enough: if none of them matches, no form is that of nine tenths of the values.
_N_COMPARED_VALUES = MAX_EXAMINED_VALUES // 8
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def detect_forms(
    session: Session, relation: RelationName, attributes: Sequence[Attribute]
) -> dict[str, str]:
    """Detect the form of each column's values; returns its name by column name, or an empty text.

    Only the distinct values of the first ``MAX_EXAMINED_VALUES`` rows without NULL are examined.
    """
    candidates = [a for a in attributes if can_hold_identifiers(a)]
    form_by_name = {}
    for start in range(0, len(candidates), _QUERIES_PER_STATEMENT):
        batch = candidates[start : start + _QUERIES_PER_STATEMENT]
        if not (batch := _find_possible_forms(session, relation, batch)):
            continue
        queries = [
            _pattern_counts_query(session, index, relation, a) for index, a in enumerate(batch)
        ]
        for batch_index, n_values, *counts in session.rows(" UNION ALL ".join(queries)):
            attribute = batch[int(batch_index)]
            matches_by_form = {
                # The sum is NULL if the column has no values.
                form_index: int(count or 0)
                for form_index, count in enumerate(counts)
            }
            _apply_check_digits(session, relation, attribute, int(n_values), matches_by_form)
            form_by_name[attribute.name] = find_common_form(int(n_values), matches_by_form)
    return {a.name: form_by_name.get(a.name, "") for a in attributes}


def _find_possible_forms(
    session: Session, relation: RelationName, attributes: Sequence[Attribute]
) -> list[Attribute]:
    """Return the columns of which nearly all values may match the pattern of some form.

    Few columns do, and one pattern for all forms takes a fraction of the time.
    """
    patterns: dict[str, list[str]] = {}
    for form in forms():
        # Databases compile long repetitions slowly. Without an upper limit, no fewer values match.
        looser_pattern = re.sub(r"\{([1-9]\d*),\d+\}", r"{\1,}", form.pattern)
        patterns.setdefault(_text_to_match(form), []).append(looser_pattern)
    condition = " OR ".join(
        session.dialect.matches(text, f"^({'|'.join(dict.fromkeys(alternatives))})$")
        for text, alternatives in patterns.items()
    )
    # The values beyond the compared ones count as matches.
    queries = [
        f"SELECT {index}, count(*), sum(CASE WHEN v.number > {_N_COMPARED_VALUES} THEN 1"
        f" WHEN {condition} THEN 1 ELSE 0 END) FROM (SELECT v.trimmed AS trimmed, v.compact AS"
        " compact, row_number() OVER () AS number"
        f" FROM {_values_subquery(session, relation, attribute)} AS v) AS v"
        for index, attribute in enumerate(attributes)
    ]
    # No form matches more values than are counted here.
    return [
        attributes[int(index)]
        for index, n_values, n_matching in session.rows(" UNION ALL ".join(queries))
        if find_common_form(int(n_values), dict.fromkeys(range(len(forms())), int(n_matching or 0)))
    ]


def _pattern_counts_query(
    session: Session, index: int, relation: RelationName, attribute: Attribute
) -> str:
    """Build a query that counts a column's values, and those that match the pattern of each form.

    The first value of the result row is ``index``, which identifies the column.
    """
    counts = ", ".join(f"sum(CASE WHEN {_matches(session, f)} THEN 1 ELSE 0 END)" for f in forms())
    values = _values_subquery(session, relation, attribute)
    return f"SELECT {index}, count(*), {counts} FROM {values} AS v"


def _apply_check_digits(
    session: Session,
    relation: RelationName,
    attribute: Attribute,
    n_values: int,
    matches_by_form: dict[int, int],
) -> None:
    """For forms with check digits, replace the count by that of values with valid check digits.

    If too few values match a form's pattern, its count becomes 0 without a check.

    Parameters
    ----------
    matches_by_form : the number of matching values, by the index of the form; this is changed.
    """
    for form_index, form in enumerate(forms()):
        if not form.checks:
            continue
        # Is this form common enough to be the column's, if its check digits are valid?
        if find_common_form(n_values, {form_index: matches_by_form[form_index]}):
            query = _check_digits_query(
                session, form, _values_subquery(session, relation, attribute)
            )
            matches_by_form[form_index] = int(session.rows(query)[0][0])
        else:
            matches_by_form[form_index] = 0


def _check_digits_query(session: Session, form: IdentifierForm, values_subquery: str) -> str:
    """Build a query that counts the values with valid check digits.

    Parameters
    ----------
    values_subquery : the result of ``_values_subquery``.
    """
    # For an IBAN, move the first four characters to the end and replace letters by two digits.
    digits = (
        "substr(v.compact, 5) || substr(v.compact, 1, 4)"
        if form.moves_country_code
        else "v.compact"
    )
    digits_query = f"SELECT {digits} AS digits FROM {values_subquery} AS v"
    digits_query += f" WHERE {_matches(session, form)}"
    # Each subquery replaces some letters, because the number of nested calls is limited.
    for start in range(0, len(_LETTERS) if form.moves_country_code else 0, _MAX_NESTED_CALLS):
        digits = "v.digits"
        for letter_index in range(start, min(start + _MAX_NESTED_CALLS, len(_LETTERS))):
            digits = f"replace({digits}, '{_LETTERS[letter_index]}', '{10 + letter_index}')"
        digits_query = f"SELECT {digits} AS digits FROM ({digits_query}) AS v"
    # Pad with leading zeros, which do not change the sum, so that each position has a character.
    length = form.n_checked_characters
    zeros = f"substr('{'0' * length}', 1, {length} - length(f.digits))"
    padded = f"SELECT {zeros} || f.digits AS digits FROM ({digits_query}) AS f"
    conditions = " AND ".join(map(_check_digit_condition, form.checks))
    return f"SELECT count(*) FROM ({padded}) AS p WHERE {conditions}"


def _values_subquery(session: Session, relation: RelationName, attribute: Attribute) -> str:
    """Build a subquery of a column's first distinct values.

    Its columns are ``trimmed``, the value without outer spaces, and ``compact``, the value without
    separators, in capitals.
    """
    column = quote(attribute.name)
    # SQLite reads a subquery's column named "true" as the truth value, so rename it.
    value = replace(attribute, name="value")
    rows = (
        f"(SELECT s.{column} AS {quote(value.name)} FROM {relation.quoted} AS s"
        f" WHERE s.{column} IS NOT NULL LIMIT {MAX_EXAMINED_VALUES})"
    )
    compact = "d.trimmed"
    for separator in SEPARATORS:
        compact = f"replace({compact}, '{separator}', '')"
    text = session.dialect.text_of(value)
    # DISTINCT keeps SQLite from computing the compact value again for each pattern.
    return (
        f"(SELECT DISTINCT d.trimmed, upper({compact}) AS compact FROM"
        f" (SELECT trim({text}) AS trimmed FROM {rows} AS s) AS d)"
    )


def _matches(session: Session, form: IdentifierForm) -> str:
    """Build the condition that a value of ``_values_subquery``, alias v, has the form's pattern."""
    return session.dialect.matches(_text_to_match(form), f"^({form.pattern})$")


def _text_to_match(form: IdentifierForm) -> str:
    """The column of ``_values_subquery``, alias v, that the pattern of a form is for."""
    return "v.compact" if form.compact else "v.trimmed"


def _check_digit_condition(check: Check) -> str:
    """Build the condition that check digits are valid.

    A CASE looks each character up: casting it to a number would fail for other characters.
    """
    terms = [
        _digit_value(f"substr(p.digits, {position}, 1)", digit_values)
        for position, digit_values in enumerate(check.position_values, 1)
    ]
    # No term is negative, so all databases agree on the remainder.
    return f"({' + '.join(terms)}) % {check.modulus} IN ({', '.join(map(str, check.remainders))})"


def _digit_value(character: str, digit_values: Mapping[str, int]) -> str:
    """Build SQL for a character's term in the sum of the check; 0 for other characters."""
    cases = " ".join(f"WHEN '{c}' THEN {value}" for c, value in digit_values.items() if value)
    return f"CASE {character} {cases} ELSE 0 END" if cases else "0"
