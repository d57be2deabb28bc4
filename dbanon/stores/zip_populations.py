"""Count the people of ZIP code areas in a table of populations."""

from __future__ import annotations

from dbanon.data.schema import Attribute, Kind
from dbanon.errors import ColumnNotFound, InvalidParameter, UnsupportedType
from dbanon.sessions.base import Relation
from dbanon.sessions.names import parse_relation, quote
from dbanon.sessions.session import Session

_ZIP_NAMES, _POPULATION_NAME = ("zip", "zip3"), "population"
_NUMBER_KINDS = (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT)


def count_zip_populations(session: Session, table: str) -> dict[str, float]:
    """Sum the people of all ZIP codes with the same first three digits.

    Parameters
    ----------
    table : has a column ``zip`` or ``zip3`` of texts, and a column ``population``.

    Raises
    ------
    ColumnNotFound, UnsupportedType, InvalidParameter : the table is not of this form, so that
        people could be counted twice.
    TableNotFound, InsufficientRights : the table cannot be read.
    """
    relation = session.catalog.find_source(parse_relation(table))
    zip_code, population = _find_columns(relation)
    session.catalog.require_readable(relation, [zip_code.name, population.name])
    text = session.dialect.text_of(zip_code)
    # Digits at the beginning identify the area. NULL is no ZIP code.
    query = (
        f"SELECT substr({text}, 1, 3), sum(s.{quote(population.name)}), count(*),"
        f" count(DISTINCT {text}), min(length({text})), max(length({text}))"
        f" FROM {relation.name.quoted} AS s WHERE s.{quote(zip_code.name)} IS NOT NULL"
        f" GROUP BY substr({text}, 1, 3)"
    )
    rows = session.rows(query)
    lengths = {int(length) for *_, least, most in rows for length in (least, most)}
    is_unique = all(int(n_rows) == int(n_codes) for _, _, n_rows, n_codes, _, _ in rows)
    has_digits = all(str(area).isascii() and str(area).isdigit() for area, *_ in rows)
    if not rows or lengths not in ({3}, {5}) or not is_unique or not has_digits:
        raise InvalidParameter(
            f"{relation.name} does not have one row per ZIP code of five digits, or one per area of"
            " three.",
            hint="Name a table with each ZIP code, or each area, once: `zip_population`.",
        )
    return {str(area): float(people or 0) for area, people, *_ in rows}


def _find_columns(relation: Relation) -> tuple[Attribute, Attribute]:
    """Return the columns of ZIP codes and of populations; raises the errors of the caller."""
    by_name = {attribute.name.lower(): attribute for attribute in relation.schema.attributes}
    zip_codes = [by_name[name] for name in _ZIP_NAMES if name in by_name]
    if not zip_codes or _POPULATION_NAME not in by_name:
        raise ColumnNotFound(
            f"{relation.name} has no columns zip (or zip3) and population.",
            hint="Name a table with these columns, or a view that names them so: `zip_population`.",
        )
    zip_code, population = zip_codes[0], by_name[_POPULATION_NAME]
    if zip_code.kind is not Kind.CATEGORY or population.kind not in _NUMBER_KINDS:
        raise UnsupportedType(
            f"{relation.name} does not have ZIP codes as text and populations as numbers.",
            hint="As numbers, ZIP codes lose their first zeros. Cast the columns in a view, and"
            " name it: `zip_population`.",
        )
    return zip_code, population
