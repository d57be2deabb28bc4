"""The runtime SQL that the databases share. Identifiers come quoted from ``names``, values never.

Aliases: s source, m key map, l labels, c class values, r copied rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dbanon.sessions.names import RelationName, quote, quote_list

LABELS = "dbanon_labels"
CLASSES = "dbanon_classes"
KEY_MAP = "dbanon_key_map"
ROWS = "dbanon_rows"
ENTITIES = "dbanon_entities"
HANDED = "dbanon_handed"
# The persons of a release, under salted hashes, each beside a number of its class.
RELEASE_PERSONS = "dbanon_release_persons"
# What these hashes are salted with, where no staged key is used.
SALT = "dbanon_salt"
VALUES = "dbanon_values_"
# The rows of files whose chain the database keeps.
FILE_ROWS = "dbanon_file_rows"
STAGING = (LABELS, CLASSES, KEY_MAP, ROWS, ENTITIES, HANDED, RELEASE_PERSONS, SALT, FILE_ROWS)


def value_column(position: int) -> str:
    """The staging column of the quasi-identifier at this position."""
    return f"v{position}"


def kept_column(position: int) -> str:
    """The staging column of the copied column at this position."""
    return f"k{position}"


def create_staging(name: str, columns: Sequence[tuple[str, str]], suffix: str = "") -> str:
    """CREATE of a temporary table; columns are pairs of name and SQL type."""
    body = ", ".join(f"{quote(column)} {sql_type}" for column, sql_type in columns)
    return f"CREATE TEMPORARY TABLE {quote(name)} ({body}){suffix}"


def create_key_map(
    source: RelationName,
    keys: Sequence[str],
    ordered: Sequence[str],
    suffix: str = "",
    compared: Sequence[str] = (),
) -> str:
    """A numbering of the rows of a source by a key that is no integer.

    ``ordered`` holds the key columns as they are sorted (bytewise), so that the number is the
    place in the record order on every database. ``compared`` is SQL of the key columns as the
    map holds them, where that is not as they are.
    """
    values = ", ".join(
        f"{value} AS key{position}" for position, value in enumerate(_compared(keys, compared))
    )
    return (
        f"CREATE TEMPORARY TABLE {quote(KEY_MAP)}{suffix} AS"
        f" SELECT row_number() OVER (ORDER BY {', '.join(ordered)}) AS ordinal,"
        f" {values} FROM {source.quoted} AS s"
    )


def create_values(
    source: str, position: int, text: str, column: str, suffix: str = "", more: str = ""
) -> str:
    """The dictionary of a column as a temporary table; ``more`` as in ``numbered_values``."""
    made = f"CREATE TEMPORARY TABLE {quote(values_table(position))}{suffix} AS"
    return f"{made} {numbered_values(source, text, column, more)}"


def numbered_values(source: str, text: str, column: str, more: str = "") -> str:
    """The dictionary of a column: its values as text, numbered by code point.

    ``text`` is SQL of the column as text in an order by code point; ``more`` further conditions of
    the rows that count.
    """
    return (
        "SELECT value, row_number() OVER (ORDER BY value) - 1 AS code FROM"
        f" (SELECT DISTINCT {text} AS value FROM {source} WHERE {column} IS NOT NULL{more})"
        " AS known"
    )


def distinct_values(relation: RelationName, column: str, text: str, more: str = "") -> str:
    """The values of a column as text, each once, without NULL; ``more``: further conditions."""
    return (
        f"SELECT DISTINCT {text} AS value FROM {relation.quoted} AS s"
        f" WHERE s.{quote(column)} IS NOT NULL{more}"
    )


def count_incomplete(relation: RelationName, complete: str) -> str:
    """How many rows are not complete, as the condition says."""
    return f"SELECT count(*) FROM {relation.quoted} AS s WHERE NOT ({complete})"


def read_tree(relation: RelationName, texts: Sequence[str], limit: int) -> str:
    """The rows of a hierarchy, as text; ``texts`` are SQL of its columns as text."""
    columns = ", ".join(f"{text} AS {value_column(i)}" for i, text in enumerate(texts))
    return f"SELECT {columns} FROM {relation.quoted} AS s LIMIT {limit}"


def values_table(position: int) -> str:
    """The staging table with the dictionary of the quasi-identifier at this position."""
    return f"{VALUES}{position}"


def join_values(position: int, text: str) -> str:
    """The JOIN that gives each row the code of its value, as ``code_column`` names it."""
    alias = f"d{position}"
    # The column first: where it is compared as it is, its collation decides.
    return f" LEFT JOIN {quote(values_table(position))} AS {alias} ON {text} = {alias}.value"


def code_column(position: int) -> str:
    """SQL of a code: the place of the value in its dictionary, -1 for NULL."""
    return f"coalesce(d{position}.code, -1)"


def join_key_map(keys: Sequence[str], compared: Sequence[str] = ()) -> str:
    """The JOIN that gives each row of the source its number; ``compared`` as in the map."""
    on = " AND ".join(
        f"{value} = m.key{position}" for position, value in enumerate(_compared(keys, compared))
    )
    return f" JOIN {quote(KEY_MAP)} AS m ON {on}"


def _compared(keys: Sequence[str], compared: Sequence[str]) -> Sequence[str]:
    return compared or [f"s.{quote(key)}" for key in keys]


def key_problems(source: RelationName, keys: Sequence[str]) -> str:
    """Counts of rows whose key holds NULL, and of keys that occur more than once."""
    null = " OR ".join(f"s.{quote(key)} IS NULL" for key in keys)
    return (
        f"SELECT (SELECT count(*) FROM {source.quoted} AS s WHERE {null}),"
        f" (SELECT count(*) FROM (SELECT 1 AS one FROM {source.quoted} AS s"
        f" GROUP BY {quote_list(keys, 's.')} HAVING count(*) > 1) AS repeated)"
    )


def write_from_source(
    target: RelationName,
    columns: Sequence[str],
    expressions: Sequence[str],
    from_source: str,
    key_expressions: Sequence[str],
    joins: str = "",
) -> str:
    """INSERT of the release: kept columns from the source, the others from their class's values.

    Class numbers and positions in staging are random, so the order of the rows is: equal rows
    stand together, and nothing tells where a row came from.
    """
    return (
        f"INSERT INTO {target.quoted} ({quote_list(columns)}) SELECT {', '.join(expressions)}"
        f" FROM {released_rows(from_source, key_expressions)}"
        f" JOIN {quote(CLASSES)} AS c ON c.class = l.class{joins} ORDER BY l.class, l.position"
    )


def write_from_copies(
    target: RelationName, columns: Sequence[str], expressions: Sequence[str]
) -> str:
    """INSERT of the release where the kept columns were copied from another database."""
    return (
        f"INSERT INTO {target.quoted} ({quote_list(columns)}) SELECT {', '.join(expressions)}"
        f" FROM {quote(ROWS)} AS r JOIN {quote(CLASSES)} AS c ON c.class = r.class"
        " ORDER BY r.class, r.position"
    )


def exact_sums(
    columns: Iterable[tuple[str, str]], from_source: str, key_expressions: Sequence[str]
) -> str:
    """Quotients and remainders by the class size, summed per class, of whole-number expressions.

    ``columns`` are pairs of the expressions of quotient and remainder, in terms of the integer
    ``n.size``. No sum overflows: a class's quotients add up to at most its largest value.
    """
    on = " AND ".join(
        f"{expression} = l.key{position}" for position, expression in enumerate(key_expressions)
    )
    sums = ", ".join(f"CAST(sum({part}) AS TEXT)" for pair in columns for part in pair)
    return (
        f"SELECT l.class, {sums} FROM {from_source} JOIN {quote(LABELS)} AS l ON {on}"
        f" JOIN (SELECT class, count(*) AS size FROM {quote(LABELS)} GROUP BY class) AS n"
        " ON n.class = l.class GROUP BY l.class"
    )


def class_values(column: str, from_source: str, key_expressions: Sequence[str]) -> str:
    """Class and value of a column, row by row."""
    on = " AND ".join(
        f"{expression} = l.key{position}" for position, expression in enumerate(key_expressions)
    )
    return f"SELECT l.class, {column} FROM {from_source} JOIN {quote(LABELS)} AS l ON {on}"


def released_rows(from_source: str, key_expressions: Sequence[str]) -> str:
    """What FROM has for the rows of a source that are released."""
    on = " AND ".join(
        f"{expression} = l.key{position}" for position, expression in enumerate(key_expressions)
    )
    return f"{from_source} JOIN {quote(LABELS)} AS l ON {on}"


def value_groups(from_rows: str, value: str, originals: Sequence[str], few: str) -> str:
    """The groups of equal values of a column, by size, that of NULL apart.

    Of each size whether it is that of NULL, how many groups there are, how many hold few persons,
    and how many hold one value of each of ``originals``; all NULL is one value.

    Parameters
    ----------
    value : SQL of the column.
    originals : SQL of other columns.
    few : SQL that is true of a group of few persons.
    """
    alike = "".join(
        f", CASE WHEN count({original}) = 0 OR (count({original}) = count(*)"
        f" AND min({original}) = max({original})) THEN 1 ELSE 0 END AS a{position}"
        for position, original in enumerate(originals)
    )
    sums = "".join(f", sum(a{position}) AS s{position}" for position in range(len(originals)))
    return (
        f"SELECT missing, size, count(*) AS n, sum(few) AS few{sums} FROM (SELECT"
        f" CASE WHEN count({value}) = 0 THEN 1 ELSE 0 END AS missing, count(*) AS size,"
        f" CASE WHEN {few} THEN 1 ELSE 0 END AS few{alike} FROM {from_rows} GROUP BY {value}) AS g"
        " GROUP BY missing, size"
    )


def profile(relation: RelationName, columns: Sequence[tuple[str, str, str]]) -> str:
    """The rows of a relation; of each column those with a value, and how many values there are.

    Of a text also how long it is and whether it holds a space, on average.

    Parameters
    ----------
    columns : of each its quoted name, SQL that counts its values, and SQL of its text; the last
        one empty where it is no text.
    """
    counts = "".join(
        f", count(s.{name}), {different}, "
        + (
            f"avg(length({text})), avg(CASE WHEN replace({text}, ' ', '') <> {text} THEN 1.0"
            f" WHEN {text} IS NOT NULL THEN 0.0 END)"
            if text
            else "0, 0"
        )
        for name, different, text in columns
    )
    return f"SELECT count(*){counts} FROM {relation.quoted} AS s"


def different_values(sample: str, values: Sequence[str]) -> str:
    """Rows of a sample, and of each column how many have a value, and how many values they have."""
    columns = ", ".join(f"{value} AS {value_column(i)}" for i, value in enumerate(values))
    counts = ", ".join(
        f"(SELECT count({name}) FROM drawn) AS n{name}, (SELECT count(*) FROM"
        f" (SELECT {name} FROM drawn WHERE {name} IS NOT NULL GROUP BY {name}) AS q) AS d{name}"
        for name in map(value_column, range(len(values)))
    )
    return (
        f"WITH drawn AS MATERIALIZED (SELECT {columns} FROM {sample})"
        f" SELECT (SELECT count(*) FROM drawn) AS n, {counts}"
    )


def any_null(columns: Iterable[str]) -> str:
    """The condition that one of these columns, quoted, is NULL."""
    return " OR ".join(f"{column} IS NULL" for column in columns)


def value_ranks(relation: RelationName, column: str, text: str) -> str:
    """The texts of a column of numbers with their place in the order of numbers.

    Numbers that are equal have one place, however they are written. ``text`` is SQL of the column
    as text.
    """
    return (
        "SELECT value, dense_rank() OVER (ORDER BY low) FROM"
        f" (SELECT {text} AS value, min(s.{quote(column)}) AS low FROM {relation.quoted} AS s"
        f" WHERE s.{quote(column)} IS NOT NULL GROUP BY {text}) AS known"
    )


def value_counts(relation: RelationName, text: str) -> str:
    """The values of a column as text, and the rows of each."""
    return (
        "SELECT value, count(*) AS size FROM"
        f" (SELECT {text} AS value FROM {relation.quoted} AS s) AS released GROUP BY value"
    )


def persons_of_values(relation: RelationName, text: str, person: str) -> str:
    """The values of a column as text, and whose they are, each pair once, without NULL."""
    return (
        "SELECT value, person FROM"
        f" (SELECT {text} AS value, {person} AS person FROM {relation.quoted} AS s) AS of_persons"
        " WHERE value IS NOT NULL AND person IS NOT NULL GROUP BY value, person"
    )


def shared_values(relation: RelationName, text: str, fewest: int) -> str:
    """The same of the values that at least so many rows share."""
    return f"{value_counts(relation, text)} HAVING count(*) >= {int(fewest)}"


def rare_values(relation: RelationName, text: str, fewest: int) -> str:
    """How many other values there are, and their rows; no value leaves the database."""
    rare = f"{value_counts(relation, text)} HAVING count(*) < {int(fewest)}"
    return f"SELECT count(*), coalesce(sum(size), 0) FROM ({rare}) AS rare"


def recount_for_people(relation: RelationName, quasi_identifiers: Sequence[str]) -> str:
    """The query with which anyone can recount a release."""
    names = quote_list(quasi_identifiers)
    return (
        "SELECT min(size) AS smallest_class, count(*) AS classes, sum(size) AS rows\n"
        f"FROM (SELECT count(*) AS size FROM {relation.quoted}\n"
        f"      GROUP BY {names}) AS classes;"
    )


def insert_rows(relation: RelationName, columns: Sequence[str], rows: int) -> str:
    """INSERT of as many rows of bind parameters, one row after the other."""
    marks = "(" + ", ".join("?" for _ in columns) + ")"
    values = ", ".join([marks] * rows)
    return f"INSERT INTO {relation.quoted} ({quote_list(columns)}) VALUES {values}"
