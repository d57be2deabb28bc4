"""SQL statements that all databases share. Values are bind parameters.

Aliases of tables: s source, m key map, l labels, c class values, r copied rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dbanon.sessions.names import RelationName, quote, quote_list

# Names of staging tables.
LABELS = "dbanon_labels"
CLASSES = "dbanon_classes"
KEY_MAP = "dbanon_key_map"
ROWS = "dbanon_rows"
ENTITIES = "dbanon_entities"
ARRAYS_TABLE = "dbanon_handed"
# The persons of a release as salted hashes, each with a number of its class.
RELEASE_PERSONS = "dbanon_release_persons"
# The salt of these hashes if no staged key is used.
SALT = "dbanon_salt"
VALUES = "dbanon_values_"
# The rows of files whose chain the database keeps.
FILE_ROWS = "dbanon_file_rows"
STAGING = (LABELS, CLASSES, KEY_MAP, ROWS, ENTITIES, ARRAYS_TABLE, RELEASE_PERSONS, SALT, FILE_ROWS)


def value_column(position: int) -> str:
    """The staging column of the quasi-identifier at this position."""
    return f"v{position}"


def kept_column(position: int) -> str:
    """The staging column of the copied column at this position."""
    return f"k{position}"


def create_staging(name: str, columns: Sequence[tuple[str, str]], suffix: str = "") -> str:
    """CREATE for a temporary table; columns are pairs of name and SQL type."""
    body = ", ".join(f"{quote(column)} {sql_type}" for column, sql_type in columns)
    return f"CREATE TEMPORARY TABLE {quote(name)} ({body}){suffix}"


def create_key_map(
    source: RelationName,
    keys: Sequence[str],
    sort_keys: Sequence[str],
    suffix: str = "",
    comparison_sql: Sequence[str] = (),
) -> str:
    """CREATE TABLE that numbers the rows of a source by a key that is not an integer.

    Parameters
    ----------
    sort_keys : SQL of the key columns that sorts them bytewise, so that numbers follow the record
        order on every database.
    comparison_sql : SQL of the key columns as the map stores them; empty if it is the same.
    """
    values = ", ".join(
        f"{value} AS key{position}"
        for position, value in enumerate(_comparison_sql(keys, comparison_sql))
    )
    return (
        f"CREATE TEMPORARY TABLE {quote(KEY_MAP)}{suffix} AS"
        f" SELECT row_number() OVER (ORDER BY {', '.join(sort_keys)}) AS ordinal,"
        f" {values} FROM {source.quoted} AS s"
    )


def create_values(
    source: str, position: int, text: str, column: str, suffix: str = "", condition: str = ""
) -> str:
    """The dictionary of a column as a temporary table; ``condition`` as in ``numbered_values``."""
    create = f"CREATE TEMPORARY TABLE {quote(values_table(position))}{suffix} AS"
    return f"{create} {numbered_values(source, text, column, condition)}"


def numbered_values(source: str, text: str, column: str, condition: str = "") -> str:
    """The dictionary of a column: its values as text, numbered by code point.

    ``text`` is SQL of the column as text in code point order; ``condition`` restricts the rows.
    """
    return (
        "SELECT value, row_number() OVER (ORDER BY value) - 1 AS code FROM"
        f" (SELECT DISTINCT {text} AS value FROM {source} WHERE {column} IS NOT NULL{condition})"
        " AS known"
    )


def distinct_values(relation: RelationName, column: str, text: str, condition: str = "") -> str:
    """The distinct non-NULL values of a column as text; ``condition`` restricts the rows."""
    return (
        f"SELECT DISTINCT {text} AS value FROM {relation.quoted} AS s"
        f" WHERE s.{quote(column)} IS NOT NULL{condition}"
    )


def count_incomplete(relation: RelationName, complete: str) -> str:
    """Count the rows that do not satisfy the condition ``complete``."""
    return f"SELECT count(*) FROM {relation.quoted} AS s WHERE NOT ({complete})"


def read_tree(relation: RelationName, texts: Sequence[str], limit: int) -> str:
    """The rows of a hierarchy as text; ``texts`` are SQL of its columns as text."""
    columns = ", ".join(f"{text} AS {value_column(i)}" for i, text in enumerate(texts))
    return f"SELECT {columns} FROM {relation.quoted} AS s LIMIT {limit}"


def values_table(position: int) -> str:
    """The staging table with the dictionary of the quasi-identifier at this position."""
    return f"{VALUES}{position}"


def join_values(position: int, text: str) -> str:
    """The JOIN that gives each row the code of its value; see ``code_column``."""
    alias = f"d{position}"
    # The text comes first so that its collation decides about equality.
    return f" LEFT JOIN {quote(values_table(position))} AS {alias} ON {text} = {alias}.value"


def code_column(position: int) -> str:
    """SQL for a code: the value's index in its dictionary, -1 for NULL."""
    return f"coalesce(d{position}.code, -1)"


def join_key_map(keys: Sequence[str], comparison_sql: Sequence[str] = ()) -> str:
    """The JOIN that gives each source row its number; ``comparison_sql`` as in the map."""
    join_condition = " AND ".join(
        f"{value} = m.key{position}"
        for position, value in enumerate(_comparison_sql(keys, comparison_sql))
    )
    return f" JOIN {quote(KEY_MAP)} AS m ON {join_condition}"


def _comparison_sql(keys: Sequence[str], comparison_sql: Sequence[str]) -> Sequence[str]:
    return comparison_sql or [f"s.{quote(key)}" for key in keys]


def key_problems(source: RelationName, keys: Sequence[str]) -> str:
    """Count the rows with NULL in the key, and the keys that occur more than once."""
    null_condition = " OR ".join(f"s.{quote(key)} IS NULL" for key in keys)
    return (
        f"SELECT (SELECT count(*) FROM {source.quoted} AS s WHERE {null_condition}),"
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
    """INSERT for the release: retained columns from the source, the others from class values.

    Staged class numbers and positions are random, and so is the row order: rows of a class are
    adjacent, and nothing shows where a row came from.
    """
    return (
        f"INSERT INTO {target.quoted} ({quote_list(columns)}) SELECT {', '.join(expressions)}"
        f" FROM {released_rows(from_source, key_expressions)}"
        f" JOIN {quote(CLASSES)} AS c ON c.class = l.class{joins} ORDER BY l.class, l.position"
    )


def write_from_copies(
    target: RelationName, columns: Sequence[str], expressions: Sequence[str]
) -> str:
    """INSERT for the release when the retained columns were copied from another database."""
    return (
        f"INSERT INTO {target.quoted} ({quote_list(columns)}) SELECT {', '.join(expressions)}"
        f" FROM {quote(ROWS)} AS r JOIN {quote(CLASSES)} AS c ON c.class = r.class"
        " ORDER BY r.class, r.position"
    )


def exact_sums(
    columns: Iterable[tuple[str, str]], from_source: str, key_expressions: Sequence[str]
) -> str:
    """Sum quotients and remainders by class size, per class, of integer expressions.

    ``columns`` are pairs of expressions for quotient and remainder, in terms of the integer
    ``n.size``. Sums cannot overflow: a class's quotients add up to at most its largest value.
    """
    join_condition = " AND ".join(
        f"{expression} = l.key{position}" for position, expression in enumerate(key_expressions)
    )
    sums = ", ".join(f"CAST(sum({part}) AS TEXT)" for pair in columns for part in pair)
    return (
        f"SELECT l.class, {sums} FROM {from_source} JOIN {quote(LABELS)} AS l ON {join_condition}"
        f" JOIN (SELECT class, count(*) AS size FROM {quote(LABELS)} GROUP BY class) AS n"
        " ON n.class = l.class GROUP BY l.class"
    )


def class_values(column: str, from_source: str, key_expressions: Sequence[str]) -> str:
    """Query the class and value of a column, row by row."""
    join_condition = " AND ".join(
        f"{expression} = l.key{position}" for position, expression in enumerate(key_expressions)
    )
    return (
        f"SELECT l.class, {column} FROM {from_source} JOIN {quote(LABELS)} AS l ON {join_condition}"
    )


def released_rows(from_source: str, key_expressions: Sequence[str]) -> str:
    """FROM clause for the released rows of a source."""
    join_condition = " AND ".join(
        f"{expression} = l.key{position}" for position, expression in enumerate(key_expressions)
    )
    return f"{from_source} JOIN {quote(LABELS)} AS l ON {join_condition}"


def value_groups(from_rows: str, value: str, originals: Sequence[str], few_condition: str) -> str:
    """Count the groups of equal values of a column by size, NULL separately.

    For each size: whether it is the NULL group, the number of groups, how many have few persons,
    and how many have a single value of each of ``originals``; all NULL counts as a single value.

    Parameters
    ----------
    value : SQL of the column.
    originals : SQL of other columns.
    few_condition : SQL that is true for a group of few persons.
    """
    single_value = "".join(
        f", CASE WHEN count({original}) = 0 OR (count({original}) = count(*)"
        f" AND min({original}) = max({original})) THEN 1 ELSE 0 END AS a{position}"
        for position, original in enumerate(originals)
    )
    sums = "".join(f", sum(a{position}) AS s{position}" for position in range(len(originals)))
    return (
        f"SELECT missing, size, count(*) AS n, sum(few) AS few{sums} FROM (SELECT"
        f" CASE WHEN count({value}) = 0 THEN 1 ELSE 0 END AS missing, count(*) AS size,"
        f" CASE WHEN {few_condition} THEN 1 ELSE 0 END AS few{single_value} FROM {from_rows}"
        f" GROUP BY {value}) AS g GROUP BY missing, size"
    )


def profile(relation: RelationName, columns: Sequence[tuple[str, str, str]]) -> str:
    """Count the rows of a relation and, per column, its non-NULL and distinct values.

    For texts, also average the length and the presence of a space.

    Parameters
    ----------
    columns : per column its quoted name, SQL that counts its distinct values, and SQL of its text;
        the last one empty for other types.
    """
    counts = "".join(
        f", count(s.{name}), {distinct_count}, "
        + (
            f"avg(length({text})), avg(CASE WHEN replace({text}, ' ', '') <> {text} THEN 1.0"
            f" WHEN {text} IS NOT NULL THEN 0.0 END)"
            if text
            else "0, 0"
        )
        for name, distinct_count, text in columns
    )
    return f"SELECT count(*){counts} FROM {relation.quoted} AS s"


def different_values(sample: str, values: Sequence[str]) -> str:
    """Count the rows of a sample and, per column, its non-NULL and distinct values."""
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
    """The condition that at least one of these quoted columns is NULL."""
    return " OR ".join(f"{column} IS NULL" for column in columns)


def value_ranks(relation: RelationName, column: str, text: str) -> str:
    """Query the texts of a numeric column with their ranks in numeric order.

    Equal numbers have one rank, however they are written. ``text`` is SQL of the column as text.
    """
    return (
        "SELECT value, dense_rank() OVER (ORDER BY low) FROM"
        f" (SELECT {text} AS value, min(s.{quote(column)}) AS low FROM {relation.quoted} AS s"
        f" WHERE s.{quote(column)} IS NOT NULL GROUP BY {text}) AS known"
    )


def value_counts(relation: RelationName, text: str) -> str:
    """Count the rows of each value of a column, as text."""
    return (
        "SELECT value, count(*) AS size FROM"
        f" (SELECT {text} AS value FROM {relation.quoted} AS s) AS released GROUP BY value"
    )


def persons_of_values(relation: RelationName, text: str, person: str) -> str:
    """The distinct pairs of a column's value, as text, and its person, without NULL."""
    return (
        "SELECT value, person FROM"
        f" (SELECT {text} AS value, {person} AS person FROM {relation.quoted} AS s) AS of_persons"
        " WHERE value IS NOT NULL AND person IS NOT NULL GROUP BY value, person"
    )


def shared_values(relation: RelationName, text: str, min_rows: int) -> str:
    """Restrict ``value_counts`` to values that at least ``min_rows`` rows share."""
    return f"{value_counts(relation, text)} HAVING count(*) >= {int(min_rows)}"


def rare_values(relation: RelationName, text: str, min_rows: int) -> str:
    """Count the rarer values and their rows; no value leaves the database."""
    rare = f"{value_counts(relation, text)} HAVING count(*) < {int(min_rows)}"
    return f"SELECT count(*), coalesce(sum(size), 0) FROM ({rare}) AS rare"


def recount_for_people(relation: RelationName, quasi_identifiers: Sequence[str]) -> str:
    """The query with which anyone can recount a release."""
    names = quote_list(quasi_identifiers)
    return (
        "SELECT min(size) AS smallest_class, count(*) AS classes, sum(size) AS rows\n"
        f"FROM (SELECT count(*) AS size FROM {relation.quoted}\n"
        f"      GROUP BY {names}) AS classes;"
    )


def insert_rows(relation: RelationName, columns: Sequence[str], n_rows: int) -> str:
    """INSERT with bind parameters for this many rows."""
    placeholders = "(" + ", ".join("?" for _ in columns) + ")"
    values = ", ".join([placeholders] * n_rows)
    return f"INSERT INTO {relation.quoted} ({quote_list(columns)}) VALUES {values}"
