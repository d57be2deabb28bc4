"""SQL statements that all databases share. Values are bind parameters.

Aliases of tables: s source, m key map, l labels, c class values, r copied rows. The dictionary of
the column at position 0 has the alias d0, and so on.

A *dictionary* of a column has its distinct values, each with a code. A *class value* is the
released value of a class.

In all functions, ``from_source`` is the FROM clause of the source with its key map, and
``key_expressions`` is the SQL of the key columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dbanon.data.bands import Bands, CopyCoding
from dbanon.sessions.names import RelationName, quote, quote_list

# Names of staging tables, which are temporary.

# The class of each released row, by row key: key0, key1, …, class, position. The position in the
# release is random.
LABELS = "dbanon_labels"
# SQL for the position of a released row. No quoted name contains this text.
ROW_POSITION = 'l."position"'
# The released values of each class: class, v0, v1, ….
CLASSES = "dbanon_classes"
# Row keys that are not a single integer (key0, key1, …), each with a number (ordinal) that replaces
# it.
KEY_MAP = "dbanon_key_map"
# Retained values that were copied from another database: class, position, k0, k1, ….
ROWS = "dbanon_rows"
# The released values and the person of each row, for counting persons.
ENTITIES = "dbanon_entities"
# The JSON arguments of a dbanon function that a client calls on PostgreSQL.
ARGUMENTS_TABLE = "dbanon_handed"
# The persons of a release as salted hashes, each with a number of its class.
RELEASE_PERSONS = "dbanon_release_persons"
# The salt of the hashes in ``RELEASE_PERSONS`` if no key is staged.
SALT = "dbanon_salt"
# Rows of files, if the database keeps a chain that reads these files.
FILE_ROWS = "dbanon_file_rows"
# The start of the names of dictionaries, one per column.
VALUES = "dbanon_values_"
# All of these staging tables, except the dictionaries.
STAGING = (
    LABELS,
    CLASSES,
    KEY_MAP,
    ROWS,
    ENTITIES,
    ARGUMENTS_TABLE,
    RELEASE_PERSONS,
    SALT,
    FILE_ROWS,
)


def value_column(position: int) -> str:
    """The name of the staging column for the class value at this position.

    Staging tables of other values use these names, too.
    """
    return f"v{position}"


def retained_column_name(position: int) -> str:
    """The name of the staging column for the retained column at this position."""
    return f"k{position}"


def create_staging(name: str, columns: Sequence[tuple[str, str]], suffix: str = "") -> str:
    """CREATE a temporary table; columns are pairs of name and SQL type."""
    body = ", ".join(f"{quote(column)} {sql_type}" for column, sql_type in columns)
    return f"CREATE TEMPORARY TABLE {quote(name)} ({body}){suffix}"


def create_key_map(
    source: RelationName,
    keys: Sequence[str],
    sort_keys: Sequence[str],
    suffix: str = "",
    comparison_sql: Sequence[str] = (),
) -> str:
    """CREATE TABLE that numbers the rows of a source in the order of a key.

    Parameters
    ----------
    sort_keys : SQL of the key columns that sorts them bytewise, so that numbers follow the record
        order on every database.
    suffix : SQL that follows the table's name.
    comparison_sql : SQL of the key columns as the map stores them and joins compare them; empty for
        the columns themselves.
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
    """CREATE a temporary table with the dictionary of the column at this position.

    The other parameters are those of ``numbered_values``; ``suffix`` follows the table's name.
    """
    create = f"CREATE TEMPORARY TABLE {quote(values_table(position))}{suffix} AS"
    return f"{create} {numbered_values(source, text, column, condition)}"


def numbered_values(source: str, text: str, column: str, condition: str = "") -> str:
    """Query the dictionary of a column: its distinct values as text, numbered from 0.

    Parameters
    ----------
    source : FROM item with the rows.
    text : SQL of the column as text that sorts by code point.
    column : SQL of the column.
    condition : SQL that restricts the rows and begins with AND; empty for all rows.
    """
    return (
        "SELECT value, row_number() OVER (ORDER BY value) - 1 AS code FROM"
        f" (SELECT DISTINCT {text} AS value FROM {source} WHERE {column} IS NOT NULL{condition})"
        " AS known"
    )


def distinct_values(relation: RelationName, column: str, text: str, condition: str = "") -> str:
    """Query the distinct non-NULL values of a column; ``text`` is SQL of the column as text.

    ``condition`` is SQL that restricts the rows and begins with AND; empty for all rows.
    """
    return (
        f"SELECT DISTINCT {text} AS value FROM {relation.quoted} AS s"
        f" WHERE s.{quote(column)} IS NOT NULL{condition}"
    )


def count_incomplete(relation: RelationName, not_null_condition: str) -> str:
    """Count the rows that have a NULL in a required column.

    Parameters
    ----------
    not_null_condition : SQL over the alias s that is true for rows without such a NULL.
    """
    return f"SELECT count(*) FROM {relation.quoted} AS s WHERE NOT ({not_null_condition})"


def read_tree(relation: RelationName, texts: Sequence[str], limit: int) -> str:
    """Query up to ``limit`` rows of a hierarchy; ``texts`` are SQL of its columns as text."""
    columns = ", ".join(f"{text} AS {value_column(i)}" for i, text in enumerate(texts))
    return f"SELECT {columns} FROM {relation.quoted} AS s LIMIT {limit}"


def values_table(position: int) -> str:
    """The name of the staging table with the dictionary of the column at this position."""
    return f"{VALUES}{position}"


def join_values(position: int, text: str) -> str:
    """JOIN each row with the dictionary's entry for its value, which contains the code."""
    alias = f"d{position}"
    # The text comes first so that its collation decides about equality.
    return f" LEFT JOIN {quote(values_table(position))} AS {alias} ON {text} = {alias}.value"


def code_column(position: int) -> str:
    """SQL for a code: the value's index in its dictionary, -1 for NULL."""
    return f"coalesce(d{position}.code, -1)"


def join_key_map(keys: Sequence[str], comparison_sql: Sequence[str] = ()) -> str:
    """JOIN each source row with its number in the key map.

    Parameters
    ----------
    comparison_sql : SQL of the key columns as the map stores them; empty for the columns
        themselves.
    """
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
    part: str = "",
) -> str:
    """INSERT for the release: retained columns from the source, the others from class values.

    Rows of a class are adjacent. As staged class numbers and positions are random, the row order
    does not reveal the order in the source.

    Parameters
    ----------
    part : a condition of ``order_ranges`` for some of the rows; empty for all.
    """
    return (
        f"INSERT INTO {target.quoted} ({quote_list(columns)}) SELECT {', '.join(expressions)}"
        f" FROM {released_rows(from_source, key_expressions)}"
        f" JOIN {quote(CLASSES)} AS c ON c.class = l.class{joins}{part}"
        " ORDER BY l.class, l.position"
    )


def write_from_copies(
    target: RelationName, columns: Sequence[str], expressions: Sequence[str], part: str = ""
) -> str:
    """INSERT for the release when the retained columns were copied from another database.

    ``part`` is a condition of ``order_ranges`` for some of the rows; empty for all.
    """
    return (
        f"INSERT INTO {target.quoted} ({quote_list(columns)}) SELECT {', '.join(expressions)}"
        f" FROM {quote(ROWS)} AS r JOIN {quote(CLASSES)} AS c ON c.class = r.class{part}"
        " ORDER BY r.class, r.position"
    )


def order_ranges(alias: str, borders: Sequence[tuple[int, int]]) -> list[str]:
    """Build a WHERE clause for each range of released rows, in the order in which they are written.

    Parameters
    ----------
    alias : the table with the class and the position of each row.
    borders : the class and the position of the first row of each range but the first, ascending.
    """

    def at_or_after(border: tuple[int, int]) -> str:
        number, position = border
        return (
            f"{alias}.class >= {number}"
            f" AND ({alias}.class > {number} OR {alias}.position >= {position})"
        )

    def before(border: tuple[int, int]) -> str:
        number, position = border
        return (
            f"{alias}.class <= {number}"
            f" AND ({alias}.class < {number} OR {alias}.position < {position})"
        )

    starts = ["", *map(at_or_after, borders)]
    ends = [*map(before, borders), ""]
    conditions = (" AND ".join(filter(None, pair)) for pair in zip(starts, ends, strict=True))
    return [f" WHERE {condition}" if condition else "" for condition in conditions]


def exact_sums(
    columns: Iterable[tuple[str, str]], from_source: str, key_expressions: Sequence[str]
) -> str:
    """Query, for each class, the exact sums of integer columns, as quotients and remainders.

    Each value is divided by the size of its class, ``n.size``. Then sums cannot overflow: the
    quotients of a class add up to at most its largest value.

    Parameters
    ----------
    columns : for each column, SQL of the quotient and of the remainder.
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
    """Query the class of each released row, and the row's own value in a column."""
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


def offset_days(days: int) -> str:
    """SQL for the offset of a released row in days, from -days to days.

    The positions of staged labels have the offset as their remainder (``Session.stage_offsets``).
    """
    return f"({ROW_POSITION} % {2 * days + 1} - {days})"


def band_ranks(column: str, bands: Bands) -> str:
    """Build SQL that is equal for numbers of the same band, and different for others.

    Parameters
    ----------
    column : the SQL of the column's numbers.
    bands : the bands; whole numbers with a band each are not listed.
    """
    borders = bands.border_texts
    if bands.has_single_numbers:
        first, last = borders[0], borders[-1]
        below = f" WHEN {column} < {first} THEN {first} - 1" if bands.open_below else ""
        above = f" WHEN {column} >= {last} THEN {last}" if bands.open_above else ""
        return f"CASE WHEN {column} IS NULL THEN NULL{below}{above} ELSE {column} END"
    cases = " ".join(f"WHEN {column} < {border} THEN {rank}" for rank, border in enumerate(borders))
    return f"CASE WHEN {column} IS NULL THEN NULL {cases} ELSE {len(borders)} END"


def coded_value(number: str, text: str, coding: CopyCoding) -> str:
    """Build SQL of a copied number as text: the label of its band, or the number itself.

    Parameters
    ----------
    number, text : SQL of the column as a number and as text.
    """
    cases = " ".join(
        f"WHEN {number} {comparison} {border} THEN '{label}'"
        for comparison, border, label in coding.conditions
    )
    return f"CASE WHEN {number} IS NULL THEN NULL {cases} ELSE {text} END"


def count_uncoded(relation: RelationName, column: str, coding: CopyCoding) -> str:
    """Count the rows of a relation whose value in a coded column is not allowed.

    Parameters
    ----------
    column : the quoted name of the column, which holds texts.
    """
    labels = ", ".join(f"'{label}'" for label in coding.labels)
    is_beyond = "1"
    if coding.keeps_numbers:
        number = f"CAST({column} AS DOUBLE PRECISION)"
        comparisons = " OR ".join(
            f"{number} {comparison} {border}" for comparison, border, _ in coding.conditions
        )
        is_beyond = f"CASE WHEN {comparisons} THEN 1 ELSE 0 END"
    return (
        f"SELECT coalesce(sum(CASE WHEN {column} IS NULL OR {column} IN ({labels}) THEN 0"
        f" ELSE {is_beyond} END), 0) FROM {relation.quoted}"
    )


def code_groups(position: int, codes: Sequence[Sequence[int]]) -> str:
    """Build SQL that is equal for values of the same group, and different for others.

    Parameters
    ----------
    position : the position of the column, whose dictionary is joined.
    codes : the codes of each group's values.
    """
    if not codes:
        return "NULL"
    cases = " ".join(
        f"WHEN d{position}.code IN ({', '.join(map(str, group_codes))}) THEN {number}"
        for number, group_codes in enumerate(codes)
    )
    return f"CASE {cases} END"


def value_groups(from_rows: str, value: str, originals: Sequence[str], few_condition: str) -> str:
    """Count the groups of rows with equal values of a column, by group size.

    The result has a row for each size, and another one for the group of NULL. Its columns are:
    whether it is the group of NULL, the size in rows, the number of groups, how many of them have
    few persons, and for each of ``originals`` how many groups have a single value of it. If all
    values of a group are NULL, they count as a single value.

    Parameters
    ----------
    from_rows : FROM clause for the rows.
    value : SQL of the column.
    originals : SQL of other columns.
    few_condition : SQL of an aggregate that is true if a group has rows of few persons.
    """
    single_value_flags = "".join(
        f", CASE WHEN count({original}) = 0 OR (count({original}) = count(*)"
        f" AND min({original}) = max({original})) THEN 1 ELSE 0 END AS a{position}"
        for position, original in enumerate(originals)
    )
    sums = "".join(f", sum(a{position}) AS s{position}" for position in range(len(originals)))
    return (
        f"SELECT missing, size, count(*) AS n, sum(few) AS few{sums} FROM (SELECT"
        f" CASE WHEN count({value}) = 0 THEN 1 ELSE 0 END AS missing, count(*) AS size,"
        f" CASE WHEN {few_condition} THEN 1 ELSE 0 END AS few{single_value_flags} FROM {from_rows}"
        f" GROUP BY {value}) AS g GROUP BY missing, size"
    )


def profile(relation: RelationName, columns: Sequence[tuple[str, str, str]]) -> str:
    """Count the rows of a relation and, per column, the non-NULL and the distinct values.

    Two further results per column are, for texts, the average length and the share of values with a
    space; 0 for other types.

    Parameters
    ----------
    columns : per column its quoted name, SQL that counts its distinct values, and SQL of the column
        as text, which is empty for columns of other types.
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


def count_sample_values(sample: str, values: Sequence[str]) -> str:
    """Count the rows of a sample and, per column, the non-NULL and the distinct values.

    Parameters
    ----------
    sample : FROM clause of the sample, which is evaluated once.
    values : SQL of the columns.
    """
    columns = ", ".join(f"{value} AS {value_column(i)}" for i, value in enumerate(values))
    counts = ", ".join(
        f"(SELECT count({name}) FROM sampled) AS n{name}, (SELECT count(*) FROM"
        f" (SELECT {name} FROM sampled WHERE {name} IS NOT NULL GROUP BY {name}) AS q) AS d{name}"
        for name in map(value_column, range(len(values)))
    )
    return (
        f"WITH sampled AS MATERIALIZED (SELECT {columns} FROM {sample})"
        f" SELECT (SELECT count(*) FROM sampled) AS n, {counts}"
    )


def any_null(columns: Iterable[str]) -> str:
    """SQL condition that at least one of these quoted columns is NULL."""
    return " OR ".join(f"{column} IS NULL" for column in columns)


def value_ranks(relation: RelationName, column: str, text: str) -> str:
    """Query the texts of a numeric column with their ranks in numeric order.

    Texts of equal numbers, such as 1 and 1.0, share a rank. ``text`` is SQL of the column as text.
    """
    return (
        "SELECT value, dense_rank() OVER (ORDER BY low) FROM"
        f" (SELECT {text} AS value, min(s.{quote(column)}) AS low FROM {relation.quoted} AS s"
        f" WHERE s.{quote(column)} IS NOT NULL GROUP BY {text}) AS known"
    )


def value_counts(relation: RelationName, text: str) -> str:
    """Count the rows of each value of a column; ``text`` is SQL of the column as text."""
    return (
        "SELECT value, count(*) AS size FROM"
        f" (SELECT {text} AS value FROM {relation.quoted} AS s) AS released GROUP BY value"
    )


def persons_of_values(relation: RelationName, text: str, person: str) -> str:
    """Query the distinct pairs of a column's value and a person, without NULLs.

    Parameters
    ----------
    text : SQL of the column as text.
    person : SQL of the person.
    """
    return (
        "SELECT value, person FROM"
        f" (SELECT {text} AS value, {person} AS person FROM {relation.quoted} AS s) AS pairs"
        " WHERE value IS NOT NULL AND person IS NOT NULL GROUP BY value, person"
    )


def shared_values(relation: RelationName, text: str, min_rows: int) -> str:
    """Restrict ``value_counts`` to values that at least ``min_rows`` rows share."""
    # ``value_counts`` ends with GROUP BY.
    return f"{value_counts(relation, text)} HAVING count(*) >= {int(min_rows)}"


def rare_values(relation: RelationName, text: str, min_rows: int) -> str:
    """Count the values that fewer than ``min_rows`` rows share, and their rows.

    No value leaves the database.
    """
    rare = f"{value_counts(relation, text)} HAVING count(*) < {int(min_rows)}"
    return f"SELECT count(*), coalesce(sum(size), 0) FROM ({rare}) AS rare"


def insert_rows(relation: RelationName, columns: Sequence[str], n_rows: int) -> str:
    """INSERT with bind parameters for ``n_rows`` rows."""
    placeholders = "(" + ", ".join("?" for _ in columns) + ")"
    values = ", ".join([placeholders] * n_rows)
    return f"INSERT INTO {relation.quoted} ({quote_list(columns)}) VALUES {values}"
