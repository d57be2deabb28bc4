"""SQL that counts the classes of a written relation, and the persons in them.

``keys`` has one tuple per column: SQL expressions, over the alias s, that together distinguish the
column's values. The staging table ``ENTITIES`` has the class values and the person of each row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dbanon.sessions import statements
from dbanon.sessions.names import RelationName, quote


def recount_classes(relation: RelationName, keys: Sequence[tuple[str, ...]]) -> str:
    """Query the number of classes of each size, separately for classes with and without a NULL.

    Parameters
    ----------
    keys : for each column of a class, SQL over the alias s that distinguishes its values.
    """
    source, columns = rows_with_keys(f"{relation.quoted} AS s", keys)
    # The first expression of a column is NULL if the value is.
    null = statements.any_null(column[0] for column in columns)
    return (
        "SELECT size, null_in_class, count(*) FROM"
        f" (SELECT count(*) AS size, ({null}) AS null_in_class FROM {source}"
        f" GROUP BY {comma_list(columns)}) AS classes GROUP BY size, null_in_class"
    )


def number_classes(relation: RelationName, keys: Sequence[tuple[str, ...]]) -> str:
    """Query the classes as doubles: the number of each column's value, and the number of rows.

    Equal values of a column have equal numbers, from 1. The number is NULL if the value is.

    Parameters
    ----------
    keys : as for ``recount_classes``.
    """
    source, columns = rows_with_keys(f"{relation.quoted} AS s", keys)
    aliases = [
        [f"part{position}_{part}" for part in range(len(column))]
        for position, column in enumerate(columns)
    ]
    selected = ", ".join(
        f"{expression} AS {alias}"
        for column, names in zip(columns, aliases, strict=True)
        for expression, alias in zip(column, names, strict=True)
    )
    # The first expression of a column is NULL if the value is.
    numbers = ", ".join(
        f"CAST(CASE WHEN {names[0]} IS NOT NULL THEN dense_rank() OVER"
        f" (ORDER BY {', '.join(names)}) END AS DOUBLE PRECISION) AS {statements.value_column(i)}"
        for i, names in enumerate(aliases)
    )
    return (
        f"SELECT {numbers}, CAST(size AS DOUBLE PRECISION) AS size FROM (SELECT {selected},"
        f" count(*) AS size FROM {source} GROUP BY {comma_list(columns)}) AS classes"
    )


def reader_recount_query(relation: str, keys: Sequence[tuple[str, ...]]) -> str:
    """The query with which readers can recount a release themselves.

    No alias is a reserved word of a database. Columns have the prefix s, so that GROUP BY never
    takes an alias for a column of the same name.

    Parameters
    ----------
    relation : SQL of the release's name. Here and in ``keys``, names are quoted with
        ``Dialect.quotation_mark``.
    keys : as for ``recount_classes``.
    """
    return (
        "SELECT min(class_size) AS smallest_class, count(*) AS classes, sum(class_size) AS n_rows\n"
        f"FROM (SELECT count(*) AS class_size FROM {relation} AS s\n"
        f"      GROUP BY {comma_list(keys)}) AS counted;"
    )


def reader_agreement_query(relation: str, keys: Sequence[tuple[str, ...]]) -> str:
    """The query with which readers can count the rows that agree, NULL with every value.

    The parameters are those of ``reader_recount_query``.
    """
    values, _ = _number_expressions(keys)
    conditions, n_parts = [], 0
    for column in keys:
        parts = [statements.value_column(n_parts + part) for part in range(len(column))]
        n_parts += len(column)
        equal = " AND ".join(f"x.{part} = y.{part}" for part in parts)
        # The first expression of a column is NULL if the value is.
        conditions.append(f"({equal} OR x.{parts[0]} IS NULL OR y.{parts[0]} IS NULL)")
    agrees = "\n      AND ".join(conditions)
    return (
        f"WITH {statements.CLASSES} AS (\n"
        f"  SELECT {values}, count(*) AS class_size\n"
        f"  FROM {relation} AS s GROUP BY {comma_list(keys)})\n"
        "SELECT min(agreeing) AS fewest_agreeing_rows, count(*) AS classes,\n"
        "  sum(class_size) AS n_rows\n"
        f"FROM (SELECT x.class_size, (SELECT sum(y.class_size) FROM {statements.CLASSES} AS y\n"
        f"    WHERE {agrees}) AS agreeing\n"
        f"  FROM {statements.CLASSES} AS x) AS counted;"
    )


def rows_with_keys(
    source: str, keys: Sequence[tuple[str, ...]], further_columns: str = ""
) -> tuple[str, list[tuple[str, ...]]]:
    """Build a FROM clause for grouping rows by expressions, and return the columns to group by.

    Parameters
    ----------
    source : FROM clause for the rows, with an alias.
    keys : the expressions that distinguish the values of each column.
    further_columns : SQL of other columns to select, each after a comma.
    """
    # Plain columns need no subquery.
    if all(len(column) == 1 and column[0].startswith("s.") for column in keys):
        return source, list(keys)
    aliased_expressions, columns = [], []
    for position, column in enumerate(keys):
        names = tuple(f"key{position}_{part}" for part in range(len(column)))
        aliased_expressions += [
            f"{value} AS {name}" for value, name in zip(column, names, strict=True)
        ]
        columns.append(names)
    return (
        f"(SELECT {', '.join(aliased_expressions)}{further_columns} FROM {source}) AS keyed_rows",
        columns,
    )


def comma_list(columns: Iterable[tuple[str, ...]]) -> str:
    """Join the expressions of columns with commas."""
    return ", ".join(part for column in columns for part in column)


def recount_entities(keys: Sequence[tuple[str, ...]]) -> str:
    """Query, for each class size in rows, the number of classes and the fewest persons in one.

    The classes are those of the staging table ``ENTITIES``, which has a column ``person``.
    """
    source, columns = rows_with_keys(f"{quote(statements.ENTITIES)} AS s", keys, ", s.person")
    return (
        "SELECT size, count(*), min(persons) FROM (SELECT count(*) AS size,"
        f" count(DISTINCT person) AS persons FROM {source} GROUP BY {comma_list(columns)})"
        " AS classes GROUP BY size"
    )


def persons_in_classes(keys: Sequence[tuple[str, ...]]) -> str:
    """Query each class of the staged rows and its number of persons."""
    values, aliases = _number_expressions(keys)
    return (
        f"SELECT dense_rank() OVER (ORDER BY {aliases}) AS class, persons FROM (SELECT {aliases},"
        f" count(DISTINCT person) AS persons FROM (SELECT {values}, s.person"
        f" FROM {quote(statements.ENTITIES)} AS s) AS released GROUP BY {aliases}) AS classes"
    )


def create_release_persons(
    keys: Sequence[tuple[str, ...]], identifiers_table: str, hash_sql: str, suffix: str
) -> str:
    """CREATE TABLE with each staged person once for each class in which the person has rows.

    The staging table ``ENTITIES`` has persons as codes of a dictionary, the new table as hashes.

    Parameters
    ----------
    identifiers_table : the staging table with this dictionary, from codes to person identifiers.
    hash_sql : SQL for an identifier's hash, over the alias s.
    suffix : SQL that follows the table's name.
    """
    columns, aliases = _number_expressions(keys)
    return (
        f"CREATE TEMPORARY TABLE {quote(statements.RELEASE_PERSONS)}{suffix} AS"
        f" SELECT {hash_sql} AS person, r.class AS class FROM"
        f" (SELECT DISTINCT dense_rank() OVER (ORDER BY {aliases}) AS class, e.person FROM"
        f" (SELECT {columns}, s.person FROM {quote(statements.ENTITIES)} AS s) AS e) AS r"
        f" JOIN {quote(identifiers_table)} AS s ON s.code = r.person"
    )


def persons_with_values(keys: Sequence[tuple[str, ...]], text: str, grouping_key: str) -> str:
    """Query class, value, row count and person count for each value of a sensitive column.

    Parameters
    ----------
    keys : for each column of a class, SQL over the alias s that distinguishes its values.
    text : SQL of the value as text.
    grouping_key : SQL that is equal for values that count as one.
    """
    values, aliases = _number_expressions(keys)
    return (
        f"SELECT dense_rank() OVER (ORDER BY {aliases}) AS class, value, size, persons FROM"
        f" (SELECT {aliases}, min(value) AS value, count(*) AS size,"
        f" count(DISTINCT person) AS persons FROM (SELECT {values}, {text} AS value,"
        f" {grouping_key} AS grouping_key, person"
        f" FROM {quote(statements.ENTITIES)} AS s) AS released"
        f" GROUP BY {aliases}, grouping_key) AS value_counts"
    )


def _number_expressions(keys: Sequence[tuple[str, ...]]) -> tuple[str, str]:
    """Number the expressions: return the SQL lists ``expression AS v0, …`` and ``v0, …``."""
    parts = [part for column in keys for part in column]
    names = [statements.value_column(position) for position in range(len(parts))]
    values = ", ".join(f"{part} AS {name}" for part, name in zip(parts, names, strict=True))
    return values, ", ".join(names)


def count_entities() -> str:
    """Query the number of persons whose rows are released."""
    return f"SELECT count(DISTINCT person) FROM {quote(statements.ENTITIES)}"


def recount_values(relation: RelationName, keys: Sequence[tuple[str, ...]], text: str) -> str:
    """Query class, value and row count for each value of a sensitive column.

    Parameters
    ----------
    keys : for each column of a class, SQL over the alias s that distinguishes its values.
    text : SQL of the sensitive column as text.
    """
    columns, aliases = _number_expressions(keys)
    return (
        f"SELECT dense_rank() OVER (ORDER BY {aliases}) AS class, value, size FROM"
        f" (SELECT {aliases}, value, count(*) AS size FROM"
        f" (SELECT {columns}, {text} AS value FROM {relation.quoted} AS s) AS released"
        f" GROUP BY {aliases}, value) AS value_counts"
    )


def count_homogeneous_classes(
    relation: RelationName, keys: Sequence[tuple[str, ...]], value: tuple[str, ...]
) -> str:
    """Query the number of classes and rows: in total, and where a column has a single value.

    Parameters
    ----------
    keys : for each column of a class, SQL over the alias s that distinguishes its values.
    value : the same for the column whose values are examined.
    """
    columns, aliases = _number_expressions(keys)
    value_names = [f"g{index}" for index in range(len(value))]
    values = ", ".join(f"{part} AS {name}" for part, name in zip(value, value_names, strict=True))
    if_single_value = "CASE WHEN n_values = 1 THEN {} ELSE 0 END"
    single_classes, single_rows = if_single_value.format("1"), if_single_value.format("size")
    return (
        "SELECT count(*), coalesce(sum(size), 0),"
        f" coalesce(sum({single_classes}), 0), coalesce(sum({single_rows}), 0)"
        f" FROM (SELECT count(*) AS n_values, sum(n) AS size FROM (SELECT {aliases}, count(*) AS n"
        f" FROM (SELECT {columns}, {values} FROM {relation.quoted} AS s) AS released"
        f" GROUP BY {aliases}, {', '.join(value_names)}) AS value_counts"
        f" GROUP BY {aliases}) AS classes"
    )


def unique_profiles(
    relation: RelationName, keys: Sequence[tuple[str, ...]], group: tuple[str, ...], max_rows: int
) -> str:
    """Count the groups of rows that share a value of a column, and those with unique profiles.

    A profile is a row's combination of values in other columns; profiles are numbered. The profiles
    of a group are unique if no other group of 2 to ``max_rows`` rows has the same ones. Two groups
    of up to four rows agree in row count and in the sum, sum of squares, minimum and maximum of
    their profile numbers only if their profiles are the same. Larger groups may also agree by
    chance, and then do not count as unique.

    Parameters
    ----------
    keys : for each column of the profile, SQL over the alias s that distinguishes its values.
    group : the same for the column whose values are counted.
    max_rows : groups with more rows are skipped, because their sums of squares might overflow.
    """
    names = [f"g{index}" for index in range(len(group))]
    values = ", ".join(f"{part} AS {name}" for part, name in zip(group, names, strict=True))
    return (
        "SELECT coalesce(sum(n), 0), coalesce(sum(CASE WHEN n = 1 THEN 1 ELSE 0 END), 0) FROM"
        " (SELECT count(*) AS n FROM (SELECT count(*) AS size, sum(profile) AS total,"
        " sum(profile * profile) AS squares, min(profile) AS low, max(profile) AS high FROM"
        f" (SELECT {', '.join(names)}, profile, count(*) OVER (PARTITION BY {', '.join(names)})"
        f" AS members FROM (SELECT {values}, dense_rank() OVER (ORDER BY {comma_list(keys)})"
        f" AS profile FROM {relation.quoted} AS s WHERE {group[0]} IS NOT NULL) AS r) AS counted"
        f" WHERE members BETWEEN 2 AND {int(max_rows)} GROUP BY {', '.join(names)}) AS m"
        " GROUP BY size, total, squares, low, high) AS alike"
    )
