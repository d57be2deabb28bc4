"""The SQL that counts classes of a written relation, and persons in them.

``keys`` is SQL, of the alias s, of what tells the values of each column apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dbanon.sessions import statements
from dbanon.sessions.names import RelationName, quote


def recount(relation: RelationName, keys: Sequence[tuple[str, ...]]) -> str:
    """The histogram of class sizes, apart for classes with and without a NULL.

    Parameters
    ----------
    keys : SQL, of the alias s, of what tells the values of each column apart.
    """
    source, columns = rows_with_keys(f"{relation.quoted} AS s", keys)
    null = statements.any_null(column[0] for column in columns)
    return (
        "SELECT size, null_in_class, count(*) FROM"
        f" (SELECT count(*) AS size, ({null}) AS null_in_class FROM {source}"
        f" GROUP BY {listed(columns)}) AS classes GROUP BY size, null_in_class"
    )


def rows_with_keys(
    source: str, keys: Sequence[tuple[str, ...]], more: str = ""
) -> tuple[str, list[tuple[str, ...]]]:
    """What FROM has for rows that are grouped by expressions, and the columns that hold these.

    Parameters
    ----------
    source : what FROM has for the rows, with an alias.
    keys : the expressions of each column.
    more : further columns that are needed of the rows, with a comma before each.
    """
    if all(len(column) == 1 and column[0].startswith("s.") for column in keys):
        return source, list(keys)
    places, named = [], []
    for position, column in enumerate(keys):
        names = tuple(f"shown{position}_{part}" for part in range(len(column)))
        places += [f"{value} AS {name}" for value, name in zip(column, names, strict=True)]
        named.append(names)
    return f"(SELECT {', '.join(places)}{more} FROM {source}) AS shown", named


def listed(columns: Iterable[tuple[str, ...]]) -> str:
    """The expressions of columns, separated by commas."""
    return ", ".join(part for column in columns for part in column)


def recount_entities(keys: Sequence[tuple[str, ...]]) -> str:
    """Class sizes in rows, how many classes have each, and the fewest persons in one of them.

    The classes are those of the released values in staging, each row beside its person.
    """
    source, columns = rows_with_keys(f"{quote(statements.ENTITIES)} AS s", keys, ", s.person")
    return (
        "SELECT size, count(*), min(persons) FROM (SELECT count(*) AS size,"
        f" count(DISTINCT person) AS persons FROM {source} GROUP BY {listed(columns)}) AS classes"
        " GROUP BY size"
    )


def persons_in_classes(keys: Sequence[tuple[str, ...]]) -> str:
    """Class and persons, of the staged rows."""
    values, by = _numbered(keys)
    return (
        f"SELECT dense_rank() OVER (ORDER BY {by}) AS class, persons FROM (SELECT {by},"
        f" count(DISTINCT person) AS persons FROM (SELECT {values}, s.person"
        f" FROM {quote(statements.ENTITIES)} AS s) AS released GROUP BY {by}) AS classes"
    )


def create_release_persons(
    keys: Sequence[tuple[str, ...]], values: str, hashed: str, suffix: str
) -> str:
    """CREATE of a table of the staged persons, each once with a number of each of its classes.

    Parameters
    ----------
    values : the staging table of the identifiers. hashed : SQL of the hash of one, of the alias s.
    """
    columns, by = _numbered(keys)
    return (
        f"CREATE TEMPORARY TABLE {quote(statements.RELEASE_PERSONS)}{suffix} AS"
        f" SELECT {hashed} AS person, r.class AS class FROM"
        f" (SELECT DISTINCT dense_rank() OVER (ORDER BY {by}) AS class, e.person FROM"
        f" (SELECT {columns}, s.person FROM {quote(statements.ENTITIES)} AS s) AS e) AS r"
        f" JOIN {quote(values)} AS s ON s.code = r.person"
    )


def persons_with_values(keys: Sequence[tuple[str, ...]], text: str, same: str) -> str:
    """Class, value, rows and persons of a sensitive column of the staged rows, alias s.

    ``text`` is SQL of it as text, ``same`` of what is equal where the value is, however written.
    """
    values, by = _numbered(keys)
    return (
        f"SELECT dense_rank() OVER (ORDER BY {by}) AS class, value, size, persons FROM"
        f" (SELECT {by}, min(value) AS value, count(*) AS size, count(DISTINCT person) AS persons"
        f" FROM (SELECT {values}, {text} AS value, {same} AS same, person"
        f" FROM {quote(statements.ENTITIES)} AS s) AS released GROUP BY {by}, same) AS cells"
    )


def _numbered(keys: Sequence[tuple[str, ...]]) -> tuple[str, str]:
    """The expressions of columns under the names of their places, and these names."""
    parts = [part for column in keys for part in column]
    places = [statements.value_column(position) for position in range(len(parts))]
    values = ", ".join(f"{part} AS {place}" for part, place in zip(parts, places, strict=True))
    return values, ", ".join(places)


def count_entities() -> str:
    """The number of persons whose rows are released."""
    return f"SELECT count(DISTINCT person) FROM {quote(statements.ENTITIES)}"


def recount_values(relation: RelationName, keys: Sequence[tuple[str, ...]], text: str) -> str:
    """Class, value and rows of a sensitive column; ``text`` is SQL of it as text.

    Parameters
    ----------
    keys : SQL, of the alias s, of what tells the values of each column of a class apart.
    """
    columns, by = _numbered(keys)
    return (
        f"SELECT dense_rank() OVER (ORDER BY {by}) AS class, value, size FROM"
        f" (SELECT {by}, value, count(*) AS size FROM"
        f" (SELECT {columns}, {text} AS value FROM {relation.quoted} AS s) AS released"
        f" GROUP BY {by}, value) AS cells"
    )


def homogeneity(
    relation: RelationName, keys: Sequence[tuple[str, ...]], value: tuple[str, ...]
) -> str:
    """Classes and rows; and classes in which all rows share one value of a column, and their rows.

    Parameters
    ----------
    keys, value : of the columns of a class, and of the column, as ``recount`` has them.
    """
    columns, by = _numbered(keys)
    names = [f"g{place}" for place in range(len(value))]
    values = ", ".join(f"{part} AS {name}" for part, name in zip(value, names, strict=True))
    alone = "CASE WHEN cells = 1 THEN {} ELSE 0 END"
    return (
        "SELECT count(*), coalesce(sum(size), 0),"
        f" coalesce(sum({alone.format('1')}), 0), coalesce(sum({alone.format('size')}), 0)"
        f" FROM (SELECT count(*) AS cells, sum(n) AS size FROM (SELECT {by}, count(*) AS n FROM"
        f" (SELECT {columns}, {values} FROM {relation.quoted} AS s) AS released"
        f" GROUP BY {by}, {', '.join(names)}) AS cell GROUP BY {by}) AS classes"
    )


def unique_profiles(
    relation: RelationName, keys: Sequence[tuple[str, ...]], group: tuple[str, ...], most: int
) -> str:
    """The values of a column that several rows share, and those with profiles of their own.

    A profile is what a row shows in other columns. Groups of up to four rows have the same number
    of rows, sum, sum of squares, least and largest number of a profile only if they have the same
    profiles; larger ones may agree in them by chance, and are then not unique. Groups of more rows
    than ``most`` are left out: their sums of squares might not fit into an integer.

    Parameters
    ----------
    most : rows of a group.
    group : of the column, as ``keys`` has it of one column.
    """
    names = [f"g{place}" for place in range(len(group))]
    values = ", ".join(f"{part} AS {name}" for part, name in zip(group, names, strict=True))
    return (
        "SELECT coalesce(sum(n), 0), coalesce(sum(CASE WHEN n = 1 THEN 1 ELSE 0 END), 0) FROM"
        " (SELECT count(*) AS n FROM (SELECT count(*) AS size, sum(profile) AS total,"
        " sum(profile * profile) AS squares, min(profile) AS low, max(profile) AS high FROM"
        f" (SELECT {', '.join(names)}, profile, count(*) OVER (PARTITION BY {', '.join(names)})"
        f" AS members FROM (SELECT {values}, dense_rank() OVER (ORDER BY {listed(keys)}) AS profile"
        f" FROM {relation.quoted} AS s WHERE {group[0]} IS NOT NULL) AS r) AS counted"
        f" WHERE members BETWEEN 2 AND {int(most)} GROUP BY {', '.join(names)}) AS m"
        " GROUP BY size, total, squares, low, high) AS alike"
    )
